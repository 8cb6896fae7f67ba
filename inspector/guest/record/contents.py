"""What a kernel is made of, as data: functions with the values of the names that they use.

A source is a list of functions; the first one is the kernel. Each is

    {"module", "qualname", "file", "line",      of the line with `def`
     "column": int,                             at which that `def` stood
     "text",                                    from that line on, as it stood in the file
     "noinline": bool,
     "defaults": {parameter: value},            of its parameters
     "names": {name: value}}                    what its globals and closure hold

and a value is one of

    {"value": ...}           as `values.py` writes it
    {"jitted": number}       a function of this source
    {"module": name}         a module of a library, see `is_library`
    {"library": {"module", "qualname"}}       what such a module holds
    {"members": {name: value}, "name"}        another module, with what is used of it
    {"host": text}           what cannot be had without running something; `text` says what
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

LANGUAGE = "triton.language"
TORCH_HELPERS = "torch._inductor.runtime.triton_helpers"
MODULES = frozenset({"triton", LANGUAGE, "math", "torch", TORCH_HELPERS})
"""Libraries' modules that a kernel may name, besides those below `triton.language`. What of them it
may use is `parsed/library.py`'s to say: of torch its dtypes, of triton the language and the
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
    """Whether a module is a library's that a kernel may name: each interpreter has its own."""
    return module in MODULES or module.startswith(f"{LANGUAGE}.")


def content_hash(functions: list[Any]) -> str:
    """SHA-256 over a source, as its recorder writes it and its reader checks it."""
    text = json.dumps(functions, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def is_source(functions: Any) -> bool:
    """Whether data from a file have the form that is described above, one level deep."""
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
