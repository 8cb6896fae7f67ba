"""Reads and writes cases of a kernel, under its own keys or in other tools' formats: gpumode,
tune_gemm, flash-attention.py's flags.

gpumode    one case a line, `m: 64; n: 64; k: 128; seed: 6635`
tune_gemm  `- {'M': 1024, 'N': 1024, 'K': 1024, 'rowMajorA': 'T', 'rowMajorB': 'N'}`, in its results
           with block sizes and launch options, and `# TFLOPS: 512.3 time(us): 4.19` at the end
flags      `-b 4 -hq 16 -hk 16 -sq 1024 -sk 1024 -d 128 -causal -layout bhsd -dtype fp16`
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from msgspec import Struct, field

from ...base import limits
from ...base.documents import yaml_loader, yaml_value
from ...base.errors import KinspectError

Value = int | float | bool | str
_NAME = re.compile(r"[A-Za-z_]\w*")


class UserCase(Struct, frozen=True):
    """A case from the user.

    Args:
        config: block sizes and launch options, under the kernels' names for them.
        tflops: the rate in TFLOPS that was written with it; None if there is none.
    """

    values: Mapping[str, Value]  # shape and flags, with the keys as written
    config: Mapping[str, Value] = field(default_factory=dict)
    us: float | None = None  # the time in µs that was written with it; None if there is none
    tflops: float | None = None


def read_gpumode(text: str, path: str) -> list[UserCase]:
    """The cases of gpumode's lines; empty lines and those that begin with # are left out.

    Raises:
        KinspectError: a line is not `key: value; key: value`.
    """
    cases = []
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        values: dict[str, Value] = {}
        for entry in filter(None, (piece.strip() for piece in stripped.split(";"))):
            key, colon, value = (piece.strip() for piece in entry.partition(":"))
            if not colon or not _NAME.fullmatch(key) or not value or key in values:
                raise KinspectError(
                    f"{path}:{number}: {entry!r} is not `key: value`, or stands there twice",
                    "write lines like m: 64; n: 64; k: 128; seed: 6635",
                )
            values[key] = scalar(value)
        cases.append(UserCase(values))
    if not cases:
        raise KinspectError(f"{path} holds no case", "write lines like m: 64; n: 64; k: 128")
    return cases


_RESULT = re.compile(r"#\s*TFLOPS:\s*(\S+)\s+time\(us\):\s*(\S+)")
_SHAPE = ("M", "N", "K", "rowMajorA", "rowMajorB")
_RENAMED = {
    "BLOCK_SIZE_M": "BLOCK_M",
    "BLOCK_SIZE_N": "BLOCK_N",
    "BLOCK_SIZE_K": "BLOCK_K",
    "GROUP_SIZE_M": "GROUP_M",
}
"""tune_gemm's name of an option -> the bundled kernels' name."""
_LIKE = "write lines like - {'M': 64, 'N': 64, 'K': 128, 'rowMajorA': 'T', 'rowMajorB': 'N'}"


def read_tune_gemm(text: str, path: str) -> list[UserCase]:
    """The GEMM sizes of a tune_gemm file, or its results.

    Raises:
        KinspectError: it is no YAML list of mappings with M, N and K.
    """
    import yaml

    with limits.reading(path, len(text)):
        items = yaml_value(text, path, _LIKE)
        marks = yaml.compose(text, Loader=yaml_loader())  # parsed already
    if not isinstance(items, list) or not items or marks is None:
        raise KinspectError(
            f"{path} is not a list of GEMM sizes", "begin each line with - {'M': …}"
        )
    lines = text.splitlines()
    cases = []
    for item, node in zip(items, marks.value, strict=True):
        where = f"{path}:{node.start_mark.line + 1}"
        if not isinstance(item, dict) or not all(
            isinstance(item.get(key), int) and item[key] > 0 for key in ("M", "N", "K")
        ):
            raise KinspectError(f"{where}: M, N and K are missing or no sizes", "give all three")
        if not all(isinstance(value, Value) for value in item.values()):
            raise KinspectError(
                f"{where}: a value is neither a number nor a word", "see tune_gemm's files"
            )
        # A flow mapping ends on the line of its comment; a block ends after it.
        end_line = node.end_mark.line + (1 if node.end_mark.column else 0)
        comment = _RESULT.search("\n".join(lines[node.start_mark.line : end_line]))
        config = {
            _RENAMED.get(str(option), str(option)): setting
            for option, setting in item.items()
            if option not in _SHAPE
        }
        cases.append(
            UserCase(
                {key: item[key] for key in _SHAPE if key in item},
                config,
                us=_float(comment[2], where) if comment else None,
                tflops=_float(comment[1], where) if comment else None,
            )
        )
    return cases


def write_tune_gemm(cases: Iterable[UserCase]) -> str:
    """The lines that `read_tune_gemm` reads back, results as comments behind them."""
    tool_names = {own_name: tool_name for tool_name, own_name in _RENAMED.items()}
    lines = []
    for case in cases:
        merged = {
            **case.values,
            **{tool_names.get(option, option): setting for option, setting in case.config.items()},
        }
        items = ", ".join(
            f"{_quoted(option)}: {_quoted(setting)}" for option, setting in merged.items()
        )
        line = f"- {{{items}}}"
        if case.us is not None:
            tflops = "nan" if case.tflops is None else f"{case.tflops:.2f}"
            line += f" # TFLOPS: {tflops} time(us): {case.us:.2f}"
        lines.append(f"{line}\n")
    return "".join(lines)


_SWITCHES = frozenset(
    {"causal", "int8", "quantize_p", "int8_kv", "equal_seqlens", "return_time", "bias", "alibi"}
)
_OPTIONAL: Mapping[str, tuple[tuple[str, ...], str]] = {
    "persistent": (("fixed", "dynamic"), "fixed")
}
"""Flags whose value may be left out -> the values it may have, and its default."""
_ALWAYS_SHOWN = frozenset({"return_time"})  # time and rate are both shown anyway
_DEFAULTS: Mapping[str, Value] = {"d": 128, "dtype": "fp16", "layout": "bhsd"}
"""Defaults of flash-attention.py, besides those of -hk, which is -hq, and -sk, which is -sq."""


def read_flags(words: Sequence[str]) -> UserCase:
    """A case in the flags of flash-attention.py; other kernels' keys go the same way (`-m 64`).

    Raises:
        KinspectError: a flag without its value, or a value without its flag.
    """
    values: dict[str, Value] = {}
    remaining = list(words)
    while remaining:
        word = remaining.pop(0)
        name, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("-") or not _NAME.fullmatch(name):
            raise KinspectError(f"{word!r} is not a flag", "write -b 4 -hq 16 … behind the --")
        if name.lower() in _SWITCHES and not equals:
            values[name.lower()] = True
            continue
        if name.lower() in _OPTIONAL and not equals:
            choices, default = _OPTIONAL[name.lower()]
            values[name.lower()] = (
                remaining.pop(0) if remaining and remaining[0] in choices else default
            )
            continue
        if not equals:
            if not remaining:
                raise KinspectError(f"{word} has no value", f"write {word} VALUE")
            value = remaining.pop(0)
        values[name] = scalar(value)
    values = {key: setting for key, setting in values.items() if key not in _ALWAYS_SHOWN}
    values.update(_int8_form(values))
    if {"b", "hq", "sq"} <= values.keys():
        values.setdefault("hk", values["hq"])
        values.setdefault("sk", values["sq"])
        values = {**_DEFAULTS, **values}
    return UserCase(values)


def _int8_form(values: dict[str, Value]) -> dict[str, Value]:
    """Removes the three switches for int8; returns what is quantised under the kernel's key."""
    int8, quantize_p, int8_kv = (
        values.pop(name, False) for name in ("int8", "quantize_p", "int8_kv")
    )
    if int8_kv and quantize_p:
        raise KinspectError("-int8_kv and -quantize_p exclude each other", "give one of them")
    if int8_kv:
        return {"int8": "kv"}
    return {"int8": "qkvp" if quantize_p else "qkv"} if int8 or quantize_p else {}


def scalar(text: str) -> Value:
    """A number, True or False where the text is one; else the text."""
    word = text.strip()
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    if _INTEGER.fullmatch(word) and len(word) <= limits.MOST_DIGITS:
        return int(word)
    return float(word) if _FLOAT.fullmatch(word) else word


_INTEGER = re.compile(r"[+-]?\d+")
_FLOAT = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+(?=[eE]))([eE][+-]?\d+)?")


def _quoted(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"'{value}'" if isinstance(value, str) else str(value)


def _float(text: str, where: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        raise KinspectError(f"{where}: {text!r} is not a number", "see tune_gemm's files") from None
    return None if value != value else value


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
