"""The keys of cases: a user's case under a kernel's own, a kernel's case under other tools'."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from ...base.errors import KinspectError
from .case_files import UserCase, Value

_LAYOUTS = ("TT", "TN", "NT", "NN")
_ANYWHERE = ("dtype", "out_dtype", "seed", "config", "atol", "rtol", "name")
"""Keys that every case may have, even if none of the file's own has them."""
_DTYPES = {
    "fp64": "float64",
    "fp32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp8": "float8_e4m3fn",
    "fp8e4": "float8_e4m3fnuz",
    "fp8e5": "float8_e5m2fnuz",
}


def keys_read(tree: ast.AST) -> set[str]:
    """The keys that a kernel file's functions look up in a case, used by a table or not."""
    keys = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript):
            owner, key = node.value, node.slice
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            owner, key = node.func.value, node.args[0]
        else:
            continue
        if isinstance(owner, ast.Name) and owner.id == "case" and isinstance(key, ast.Constant):
            keys.add(str(key.value))
    return keys


def fit_keys(
    own_case: UserCase, entries: Sequence[Mapping[str, Any]], kernel: str, also: Iterable[str] = ()
) -> dict[str, Any]:
    """A user's case under the keys of the kernel's own cases; upper and lower case are the same.

    Raises:
        KinspectError: the kernel's cases know no such key, or lack one that all of them have.
    """
    keys = {key.lower(): key for key in also}
    keys.update({key.lower(): key for entry in entries for key in entry})
    keys.update({key: key for key in _ANYWHERE})
    values = dict(own_case.values)
    majors = [values.pop(key, None) for key in ("rowMajorA", "rowMajorB")]
    if all(majors) and any(entry.get("layout") in _LAYOUTS for entry in entries):
        values["layout"] = "".join(map(str, majors))
    case: dict[str, Any] = {}
    for name, value in values.items():
        key = keys.get(name.lower())
        if key is None:
            matches = get_close_matches(name.lower(), keys, n=1)
            suggestion = f"did you mean {keys[matches[0]]}? " if matches else ""
            listed = ", ".join(sorted(set(keys.values()) - set(_ANYWHERE)))
            raise KinspectError(
                f"{kernel} has no case key {name!r}", f"{suggestion}it has {listed}"
            )
        is_dtype = key.endswith("dtype") and isinstance(value, str)
        case[key] = _DTYPES.get(str(value).lower(), value) if is_dtype else value
    own_keys = [set(entry) - set(_ANYWHERE) for entry in entries]
    required = set.intersection(*own_keys) if own_keys else set()
    lacking = sorted(required - set(case))
    if lacking:
        raise KinspectError(f"a case of {kernel} needs {', '.join(lacking)} as well", "give them")
    return case


def as_gemm(case: Mapping[str, Any]) -> dict[str, Value] | None:
    """M, N, K and the layouts of a case under tune_gemm's names; None if it is no GEMM."""
    if not all(isinstance(case.get(key), int) for key in ("M", "N", "K")):
        return None
    letters = str(case.get("layout", ""))
    layout = dict(zip(("rowMajorA", "rowMajorB"), letters)) if letters in _LAYOUTS else {}  # noqa: B905
    return {key: case[key] for key in ("M", "N", "K")} | layout


def name_of(case: Mapping[str, Any]) -> str:
    """A name for a case that has none: its values."""
    left_out = ("config", "atol", "rtol", "name", "seed")
    named = {key: value for key, value in case.items() if key not in left_out}
    if {"M", "N", "K"} <= named.keys():
        sizes = "x".join(str(named.pop(key)) for key in ("M", "N", "K"))
        return "_".join([sizes, *(_bare(name, entry) for name, entry in named.items())])
    return "_".join(_bare(name, entry) for name, entry in named.items()) or "case"


def _bare(key: str, value: Any) -> str:
    if value is True:
        return key
    return str(value) if isinstance(value, str) else f"{key}{value}"
