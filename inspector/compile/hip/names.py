"""The kernels of a source's assembly, named as their authors do, and the functions it lacks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from ...isa.mangled import written_name
from ...model import Program

_KERNEL: Final = ".amdhsa_kernel"
_UNDEFINED: Final = re.compile(r"(?P<name>[\w.$]{1,2000})@(?:gotpcrel32|rel32)@lo")
_LONGEST_LINE: Final = 2_500
"""Characters of a line of code that is looked at for calls."""


def kernel_symbols(assembly: str) -> list[str]:
    """The symbols of the kernels of assembly."""
    lines = (line.strip() for line in assembly.splitlines() if _KERNEL in line)
    return [line.split()[1] for line in lines if line.startswith(_KERNEL) and " " in line]


def undefined_functions(assembly: str) -> list[str]:
    """The functions that assembly calls and does not have."""
    calls: dict[str, None] = {}
    labels: set[str] = set()
    for line in assembly.splitlines():
        if "@" in line and len(line) <= _LONGEST_LINE:
            calls.update((match["name"], None) for match in _UNDEFINED.finditer(line))
        elif line[:1] not in ("", "\t", " ", ";", ".") and ":" in line:
            labels.add(line.partition(":")[0])
    return [name for name in calls if name not in labels]


def names_of(symbols: Iterable[str]) -> dict[str, str]:
    """Symbol -> the name of its function; the symbol where two would have the same name."""
    names = {symbol: written_name(symbol) or symbol for symbol in symbols}
    counts = Counter(names.values())
    return {symbol: name if counts[name] == 1 else symbol for symbol, name in names.items()}


def readable(program: Program, names: Mapping[str, str]) -> Program:
    """A program of kernels with names and of its other functions, called as their authors do."""
    functions = tuple(
        replace(function, name=names[function.name], symbol=function.symbol or function.name)
        if names.get(function.name, function.name) != function.name
        else function
        for function in program.functions
        if not function.is_kernel or function.name in names
    )
    return replace(program, functions=functions)
