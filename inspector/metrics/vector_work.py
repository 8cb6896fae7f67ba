"""What the vector instructions do beside floating-point arithmetic: addresses, masks, conversions.

Floating-point arithmetic is what most kernels are written for; all else that the vector unit does
serves it and takes its cycles. The kinds go by mnemonic alone: an integer kernel's own arithmetic
counts as `integer` too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from ..model import Instruction, Metric, MetricSpec, SourceLoc
from .mix import VALU_CLASSES, rates
from .places import named
from .subject import Subject, Tally

OVERHEAD = "vector_overhead"
KINDS = ("integer", "select", "convert", "move")
SPECS = (
    MetricSpec(
        OVERHEAD,
        "mapping",
        "derived",
        "both",
        "Cycles that vector instructions other than floating-point arithmetic take the vector unit "
        "at least, one wave: `cycles` in all, of which `integer` arithmetic and bit operations, "
        "comparisons and selections (`select`), type conversions (`convert`), and `move`s between "
        "registers and lanes; `at` the source line that has most of them, `at_cycles` there",
    ),
)

_MOVES = re.compile(
    r"v_(mov|accvgpr|swap|perm_|perm(ute)?lane|pack|alignbit|alignbyte|read|write|bpermute)"
)
_FLOAT = re.compile(r"_b?f(16|32|64)\b|_(bf|f)\d+_|v_(pk_)?(fma|mad)_mix|v_(dual_)?dot\d")


def compute(subject: Subject, region: Tally) -> Iterator[Metric]:
    code = subject.function.instructions
    slot, _ = rates(subject)
    if slot is None:
        yield Metric(OVERHEAD, None, "mapping", "derived", "the target's rate is unknown")
        return
    kinds: Counter[str] = Counter()
    cycles_by_loc: Counter[int] = Counter()
    locs: dict[int, SourceLoc | None] = {}  # the same place is the same object, many times over
    for index in region.indices:
        inst = code[index]
        if inst.cls in VALU_CLASSES and (kind := kind_of(inst)) is not None:
            kinds[kind] += slot
            cycles_by_loc[id(inst.loc)] += slot
            locs[id(inst.loc)] = inst.loc
    places: Counter[str] = Counter()
    for key, cycles in cycles_by_loc.items():
        if (name := named(locs[key])) is not None:
            places[name] += cycles
    at, most = max(places.items(), key=lambda place: place[1], default=(None, None))
    value = {"cycles": kinds.total(), **{kind: kinds[kind] for kind in KINDS}}
    yield Metric(OVERHEAD, {**value, "at": at, "at_cycles": most}, "mapping", "derived")


def kind_of(inst: Instruction) -> str | None:
    """One of KINDS; None for floating-point arithmetic."""
    name, traits = inst.op.name.replace("v_dual_", "v_"), inst.op.traits
    if "convert" in traits:
        return "convert"
    if "compare" in traits or name.startswith("v_cndmask"):
        return "select"
    if _MOVES.match(name):
        return "move"
    return None if "transcendental" in traits or _FLOAT.search(name) else "integer"
