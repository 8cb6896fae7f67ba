"""The names of kernels as their authors write them: `gemm<128, 64>` of a mangled symbol."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from ...isa.mangled import written_name
from ...model import Program


def names_of(symbols: Iterable[str]) -> dict[str, str]:
    """Symbol -> the name of its function; the symbol where two would have the same name."""
    names = {symbol: written_name(symbol) or symbol for symbol in symbols}
    counts = Counter(names.values())
    return {symbol: name if counts[name] == 1 else symbol for symbol, name in names.items()}


def readable(program: Program, names: Mapping[str, str]) -> Program:
    """A program whose functions are called as their authors call them."""
    functions = tuple(
        replace(function, name=names[function.name], symbol=function.symbol or function.name)
        if names.get(function.name, function.name) != function.name
        else function
        for function in program.functions
    )
    return replace(program, functions=functions)
