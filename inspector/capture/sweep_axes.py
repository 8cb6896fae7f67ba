"""Parses the axes of a sweep, `num_warps=4,8` or `BLOCK_M=32..256*2`, and checks their names.

Parses a specialisation that the command line states by `--signature` and `-D`.

    --signature "*fp16:16, *fp16:16, i32:16, 64" -D num_warps=8
    --signature "x=*fp16:16, n=i32" -D BLOCK=1024

Arguments go by position or by name; a number, True, False or None is the value of a constexpr. `-D`
adds constexprs and options, which only the guest, with the kernel at hand, can distinguish.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from ..base.documents import literal
from ..base.errors import KinspectError
from ..model import Variant

Value = int | float | bool | str

BACKEND_ONLY = frozenset(
    {
        "allow_flush_denorm",
        "enable_fp_fusion",
        "instruction_sched_variant",
        "kpack",
        "llvm_fn_attrs",
        "matrix_instr_nonkdim",
        "num_stages",
        "num_warps",
        "schedule_hint",
        "waves_per_eu",
        "wgp_cu_mode",
    }
)
"""Options of Triton's AMD backend that its front end does not read: the TTIR is the same for all.

From Triton 3.4 to 3.9, `language/semantic.py` and `language/core.py` read `debug`,
`sanitize_overflow`, the fp8 and dot-precision options and `arch`; `HIPBackend.make_ttir` reads
only `arch`.
"""

MAX_VALUES = 10_000
"""Values that one range may have; more are taken for a typing error."""

_NAME = re.compile(r"[A-Za-z_]\w*")
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)(?:([*+])(\d+))?")
_INTEGER = re.compile(r"[-+]?\d+|0[xX][0-9a-fA-F]+")
_WORDS: dict[str, bool] = {"true": True, "false": False}


class Axis(Struct, frozen=True):
    """One name and its values.

    Raises:
        KinspectError: a value is no finite number.
    """

    name: str
    values: tuple[Value, ...]

    def __post_init__(self) -> None:
        for value in self.values:
            if isinstance(value, float) and not math.isfinite(value):
                raise KinspectError(f"{self.name}: {value} is not a value", "give finite numbers")


def axes_of(texts: Iterable[str]) -> tuple[Axis, ...]:
    """The axes of `--set` texts, in the order in which their names first appear.

    The values of a name that appears twice are joined, without repetitions.

    Raises:
        KinspectError: a text is no `NAME=VALUE[,VALUE...]`.
    """
    values_by_name: dict[str, dict[tuple[type, Value], Value]] = {}
    for text in texts:
        name, equals, listed = text.partition("=")
        name = name.strip()
        if not equals or not _NAME.fullmatch(name):
            raise KinspectError(
                f"--set {text}: not NAME=VALUE[,VALUE...]", "write e.g. --set num_warps=4,8"
            )
        for value in values_of(listed, text):
            values_by_name.setdefault(name, {}).setdefault((type(value), value), value)
    return tuple(Axis(name, tuple(values.values())) for name, values in values_by_name.items())


def values_of(text: str, context: str) -> list[Value]:
    """The values of a comma-separated list: numbers, true/false, words and ranges.

    `1..4` is 1, 2, 3, 4; `16..64+16` goes up in steps of 16; `32..256*2` doubles.

    Raises:
        KinspectError: an empty value, or a range that does not go up.
    """
    values: list[Value] = []
    for part in text.split(","):
        part = part.strip()
        if not part:
            raise KinspectError(f"--set {context}: an empty value", "write e.g. num_warps=4,8")
        span = _RANGE.fullmatch(part)
        values += _range(span, context) if span else [_value(part)]
    return values


def point_of(texts: Iterable[str]) -> tuple[Axis, ...]:
    """The axes of `--set` texts that state one point: each with a single value.

    Raises:
        KinspectError: as `axes_of`, or a name has several values.
    """
    axes = axes_of(texts)
    for axis in axes:
        if len(axis.values) > 1:
            listed = ", ".join(map(str, axis.values[:_MOST_VALUES]))
            raise KinspectError(
                f"--set {axis.name}: {len(axis.values)} values ({listed}"
                f"{', …' if len(axis.values) > _MOST_VALUES else ''})",
                "state one; `kinspect sweep` goes over several",
            )
    return axes


def count(axes: Sequence[Axis]) -> int:
    """The number of points of the product."""
    return math.prod(len(axis.values) for axis in axes)


def _range(span: re.Match[str], context: str) -> list[Value]:
    first, last = int(span[1]), int(span[2])
    step = int(span[4]) if span[4] else 1
    grows = step > 1 and first > 0 if span[3] == "*" else step > 0
    if first > last or not grows:
        raise KinspectError(
            f"--set {context}: the range {span[0]} does not go up",
            "write FIRST..LAST, FIRST..LAST+STEP or FIRST..LAST*FACTOR",
        )
    values: list[Value] = []
    value = first
    while value <= last:
        values.append(value)
        if len(values) > MAX_VALUES:
            raise KinspectError(
                f"--set {context}: the range {span[0]} has more than {MAX_VALUES} values",
                "give it a larger step",
            )
        value = value * step if span[3] == "*" else value + step
    return values


def _value(text: str) -> Value:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _INTEGER.fullmatch(text):
        return int(text, 0) if text.lower().startswith("0x") else int(text)
    try:
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) else text


_MAX_LISTED = 24
"""How many names a hint lists."""
_MOST_VALUES = 4
"""How many values of a name a message lists."""


def backend_axes(axes: Iterable[Axis], variant: Variant) -> list[Axis]:
    """The axes that are set on the options of a variant: its parameters are the front end's."""
    names = BACKEND_ONLY.difference(variant.signature)
    return [axis for axis in axes if axis.name in names]


def check_varied(axes: Iterable[Axis], variant: Variant, file: str) -> None:
    """Refuses a name that is a parameter of the kernel whose value the capture could not set.

    Raises:
        KinspectError: there is one.
    """
    for axis in axes:
        if axis.name in variant.signature and axis.name not in (variant.tuning or {}):
            raise KinspectError(
                f"{file}: --set {axis.name}: {variant.kernel} has this parameter, but it cannot be"
                " varied here",
                "constexprs of a file with KINSPECT_CASES can be swept, and parameters of kernels"
                " that a script launches",
            )


def unresolved_names(
    axes: Iterable[Axis], options: Collection[str], parameters: Collection[str]
) -> list[str]:
    """The names that are neither a parameter nor an option that can be swept."""
    return [
        axis.name
        for axis in axes
        if axis.name not in parameters and not (axis.name in BACKEND_ONLY and axis.name in options)
    ]


def refused_name(
    name: str, options: Collection[str], parameters: Sequence[str], context: str
) -> KinspectError:
    """The error of a name that cannot be swept, with similar names."""
    if name in options:
        return KinspectError(
            f"--set {name}: Triton's front end reads this option, so that one TTIR does not serve"
            " all its values",
            "write launches that set it, and sweep those",
        )
    known_names = [*parameters, *sorted(BACKEND_ONLY.intersection(options))]
    import difflib  # only on the way to an error

    matches = difflib.get_close_matches(name, known_names, n=2)
    suggestion = f" (did you mean {' or '.join(matches)}?)" if matches else ""
    listed = ", ".join(known_names[:_MAX_LISTED]) + (
        ", …" if len(known_names) > _MAX_LISTED else ""
    )
    kinds = "a parameter of a kernel nor an option" if parameters else "an option"
    neither = "neither " if parameters else "not "
    return KinspectError(
        f"--set {name}: {neither}{kinds} of this Triton's AMD backend in {context}{suggestion}",
        f"known: {listed}",
    )


_NAMED = re.compile(r"\s*(?P<name>[A-Za-z_]\w*)\s*=\s*(?P<text>.*)", re.S)
_EXAMPLE = 'for example --signature "*fp16:16, *fp16:16, i32" -D BLOCK=1024 -D num_warps=4'


def parse_signature(signature: str | None, defines: Sequence[str]) -> dict[str, Any]:
    """The parts of a stated specialisation.

    Returns:
        `positional`: list of arguments, `named`: name -> argument, `defines`: name -> value. An
        argument is `{"type": text}` or `{"value": constant}`.

    Raises:
        KinspectError: a part cannot be parsed.
    """
    positional: list[dict[str, Any]] = []
    named: dict[str, dict[str, Any]] = {}
    for part in _split(signature or ""):
        match = _NAMED.fullmatch(part)
        if match is not None:
            named[match["name"]] = _argument(match["text"])
        elif named:
            raise KinspectError(
                f"--signature: {part.strip()!r} has no name, but one before it has", _EXAMPLE
            )
        else:
            positional.append(_argument(part))
    values: dict[str, Any] = {}
    for text in defines:
        name, equals, value = text.partition("=")
        if not equals or not name.strip().isidentifier():
            raise KinspectError(f"-D {text}: not of the form NAME=VALUE", _EXAMPLE)
        values[name.strip()] = _literal(value.strip())
    return {"positional": positional, "named": named, "defines": values}


def _literal(text: str) -> Any:
    """A literal that JSON can hold, or the text itself: `64`, `1e-6`, `True`, `None`, `relu`."""
    try:
        value = literal(text)
    except ValueError:
        return text
    return value if _is_plain(value) else text


def _is_plain(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (bool, int, float, str))


def _argument(text: str) -> dict[str, Any]:
    text = text.strip()
    if not text:
        raise KinspectError("--signature: an argument is empty", _EXAMPLE)
    value = _literal(text)
    return {"type": text} if isinstance(value, str) and value == text else {"value": value}


def _split(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for index, letter in enumerate(text):
        depth += (letter in "([{<") - (letter in ")]}>")
        if letter == "," and not depth:
            yield text[start:index]
            start = index + 1
    if text.strip():
        yield text[start:]
