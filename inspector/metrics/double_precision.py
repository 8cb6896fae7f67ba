"""Values that go through float64 on their way between float32, as double literals make them.

In C++ `x * 0.5` with a float `x` is a product of doubles: x is widened, and the result narrowed
where it is stored as a float. A conversion takes a quarter of the rate of other vector
instructions, and a float64 operation half on CDNA 3, less elsewhere.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from ..model import Metric, MetricSpec, Scalar
from .mix import VALU_CLASSES
from .subject import Subject, Tally, source_line

_DOUBLES: Final = "float64"

SPECS = (
    MetricSpec(
        _DOUBLES,
        "mapping",
        "derived",
        "both",
        "Vector instructions on float64: `arithmetic`, conversions to it from float32 (`widened`) "
        "and from it to float32 (`narrowed`), all of these (`instructions`), and `at` the line "
        "that has most of them",
    ),
)

_WIDENS: Final = re.compile(r"v_cvt_f64_f32")
_NARROWS: Final = re.compile(r"v_cvt_f32_f64")
_ARITHMETIC: Final = re.compile(r"v_(?!cvt_)\w*_f64(?:_|$)")


def doubles(subject: Subject, region: Tally) -> Iterator[Metric]:
    """The metric of `SPECS`."""
    kinds: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    code = subject.function.instructions
    for index in region.indices:
        inst = code[index]
        if inst.cls not in VALU_CLASSES or "f64" not in inst.op.name:
            continue
        kind = _kind_of(inst.op.name)
        if kind is None:
            continue
        kinds[kind] += 1
        line = source_line(inst.loc)
        if line is not None:
            lines[line] += 1
    value: dict[str, Scalar] = {
        "instructions": kinds.total(),
        **{kind: kinds[kind] for kind in ("arithmetic", "widened", "narrowed")},
        "at": max(lines, key=lambda line: lines[line], default=None),
    }
    yield Metric(_DOUBLES, value, "mapping", "derived")


def _kind_of(name: str) -> str | None:
    """The kind of an instruction; None for what is no float64 or converts other numbers."""
    if _WIDENS.match(name):
        return "widened"
    if _NARROWS.match(name):
        return "narrowed"
    return "arithmetic" if _ARITHMETIC.match(name) else None
