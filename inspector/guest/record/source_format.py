"""The format of a kernel's source as data: functions with the values of the names that they use.

A source is a list of functions; the first one is the kernel. Each is

    {"module", "qualname", "file",
     "line": int, "column": int,                position of its `def`
     "text",                                    the file's text from that line on
     "noinline": bool,
     "defaults": {parameter: value},
     "names": {name: value}}                    the globals and closure cells that it uses

and a value is one of

    {"value": ...}           as `values.py` writes it
    {"jitted": number}       the function of this source with that index
    {"module": name}         a module of a library, see `is_library`
    {"library": {"module", "qualname"}}       a member of such a module
    {"members": {name: value}, "name"}        another module, with the members that are used
    {"host": text}           a value known only by running code; `text` says which
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

LANGUAGE = "triton.language"
TORCH_HELPERS = "torch._inductor.runtime.triton_helpers"
MODULES = frozenset({"triton", LANGUAGE, "math", "torch", TORCH_HELPERS})
"""Modules of libraries that a kernel may name, besides those below `triton.language`.
`parsed/library.py` decides which members it may use: torch's dtypes, Triton's language and its
functions for constants."""

Function = Mapping[str, Any]
Value = Mapping[str, Any]

FIELDS: Mapping[str, type] = {
    "module": str,
    "qualname": str,
    "file": str,
    "line": int,
    "column": int,
    "text": str,
    "noinline": bool,
    "defaults": dict,
    "names": dict,
}


def is_library(module: str) -> bool:
    """Whether a kernel may name a module: each interpreter has a library's modules itself."""
    return module in MODULES or module.startswith(f"{LANGUAGE}.")


def content_hash(functions: list[Any]) -> str:
    """SHA-256 over a source, for its recorder to write and its reader to check."""
    text = json.dumps(functions, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def is_source(functions: Any) -> bool:
    """Whether data from a file have the form described above; values are not looked at."""
    return (
        isinstance(functions, list)
        and bool(functions)
        and all(
            isinstance(function, dict)
            and set(function) == set(FIELDS)
            and all(type(function[name]) is kind for name, kind in FIELDS.items())
            for function in functions
        )
    )
