"""The names of kernels as their authors write them: `gemm<128, 64>` of a mangled symbol."""

from __future__ import annotations

import ctypes
import functools
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from ...model import Program

_MOST: Final = 2_000
"""Characters of a symbol that is read: names of nested templates grow without bound."""
_ANONYMOUS: Final = "(anonymous namespace)::"
_RESULT: Final = re.compile(r"^(?:[\w:]+(?:<[^()]*>)?[*& ]+)?(?=[\w:]+<|[\w:]+$)")


@functools.cache
def _library() -> Any:
    """The C++ library, whose demangler is the ABI's own; None where there is none."""
    for name in ("libstdc++.so.6", "libc++abi.so.1", "libc++abi.dylib"):
        try:
            library = ctypes.CDLL(name)
            demangle = library.__cxa_demangle
        except (OSError, AttributeError):
            continue
        demangle.restype = ctypes.c_void_p
        demangle.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        library.free.argtypes = [ctypes.c_void_p]
        return library
    return None


def _demangled(symbol: str) -> str:
    library = _library()
    if library is None or not symbol.startswith("_Z") or len(symbol) > _MOST:
        return symbol
    status = ctypes.c_int()
    known = symbol.replace("DF16_", "Dh").replace("DF16b", "u6__bf16")  # older libraries lack them
    found = library.__cxa_demangle(known.encode(), None, None, ctypes.byref(status))
    if not found:
        return symbol
    try:
        return ctypes.string_at(found).decode(errors="replace").replace(_ANONYMOUS, "")
    finally:
        library.free(found)


def _without_arguments(signature: str) -> str:
    """`gemm<128, 64>` of `void gemm<128, 64>(float*, int)`."""
    depth = 0
    for at in range(len(signature) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(signature[at], 0)
        if signature[at] == "(" and depth == 0:
            return _RESULT.sub("", signature[:at])
    return signature


def names_of(symbols: Iterable[str]) -> dict[str, str]:
    """Symbol -> the name of its function, with arguments where two would have the same name."""
    full = {symbol: _demangled(symbol) for symbol in symbols}
    short = {symbol: _without_arguments(text) for symbol, text in full.items()}
    counts = Counter(short.values())
    return {symbol: name if counts[name] == 1 else full[symbol] for symbol, name in short.items()}


def readable(program: Program, names: Mapping[str, str]) -> Program:
    """A program whose functions are called as their authors call them."""
    functions = tuple(
        replace(function, name=names[function.name], symbol=function.symbol or function.name)
        if names.get(function.name, function.name) != function.name
        else function
        for function in program.functions
    )
    return replace(program, functions=functions)
