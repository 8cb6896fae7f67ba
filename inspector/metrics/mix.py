"""The instruction mix: instructions per class, kinds of vector work, widths of memory accesses.

Cycles are clocks that one wave occupies its SIMD's vector unit, a lower bound: every operation but
the transcendentals counts at full rate, also conversions and 64-bit arithmetic, for which no vendor
document gives a rate.

Kernels are mostly written for floating-point arithmetic; other vector work serves it and takes its
cycles. The kinds go by mnemonic alone: an integer kernel's own arithmetic counts as `integer` too.

`vectorized.<class>` is the share of accesses at the widest form, 128 bits per lane for global, LDS
and scratch memory on every supported target (ISA documents: `*_dwordx4`, `ds_*_b128`; LDS reads of
two addresses count as the sum of both). A copy past the registers into LDS moves 32 bits at most
but on a few targets.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from ..isa.mnemonics import CLASSES
from ..model import Instruction, Machine, Metric, SourceLoc
from .entries import of_both, of_loops
from .subject import MEMORY_CLASSES, MOST_NAMED, LineName, Subject, Tally, source_line

CLASS_SPECS = (
    *of_both(
        {
            "count.*": "instructions | Instructions of a mnemonic class; in a loop per iteration "
            "of the ISA loop",
        }
    ),
    *of_loops(
        {
            "count.instructions": "instructions | All instructions of one iteration, nested loops "
            "excluded",
        }
    ),
    *of_both(
        {
            "calls": "instructions | Calls of functions that were not inlined: what is executed "
            "there is not counted",
            "cycles.valu": "cycles | Cycles that vector instructions and AGPR copies take the "
            "vector unit at least, one wave; matrix instructions excluded",
            "convert.instructions": "instructions | Vector instructions that convert between "
            "number types: v_cvt_*",
        }
    ),
)

VALU_CLASSES = ("valu", "acc_move")


def class_counts(subject: Subject, region: Tally) -> Iterator[Metric]:
    """The metrics of `CLASS_SPECS`."""
    yield Metric("count.instructions", region.instructions, "instructions", "derived")
    for cls in CLASSES:
        yield Metric(f"count.{cls}", region.classes.get(cls, 0), "instructions", "derived")
    code = subject.function.instructions
    calls = sum("call" in code[i].op.traits for i in region.indices)
    yield Metric("calls", calls, "instructions", "derived")
    vector = [code[i] for i in region.indices if code[i].cls in VALU_CLASSES]
    slow = sum("transcendental" in inst.op.traits for inst in vector)
    slot, slower = rates(subject)
    note = "" if slot is not None else "the target's rate is unknown"
    cycles = None if slot is None else (len(vector) - slow) * slot
    if slow and cycles is not None:
        cycles = None if slower is None else cycles + slow * slower
        note = note if slower is not None else "the target's rate of transcendentals is unknown"
    yield Metric("cycles.valu", cycles, "cycles", "derived", note)
    converting = sum("convert" in inst.op.traits for inst in vector)
    yield Metric("convert.instructions", converting, "instructions", "derived")


def vector_instructions(code: Sequence[Instruction]) -> int:
    """How many of some instructions occupy the vector unit."""
    return sum(inst.cls in VALU_CLASSES for inst in code)


def rates(subject: Subject) -> tuple[int | None, int | None]:
    """Clocks of a full-rate and of a transcendental vector operation for the kernel's wave size."""
    if subject.machine is None:
        return None, None
    return vector_rates(subject.machine, subject.function.resources.wave_size)


def vector_rates(machine: Machine, wave_size: int | None) -> tuple[int | None, int | None]:
    """Clocks of a full-rate and of a transcendental vector operation; None: the usual wave size."""
    wave = wave_size or machine.wave_sizes[0]
    return machine.valu_cycles.get(wave), machine.transcendental_cycles.get(wave)


# --------------------------------------------------------------------------- beside arithmetic

OVERHEAD = "vector_overhead"
KINDS = ("integer", "select", "convert", "move")
OVERHEAD_SPECS = of_both(
    {
        OVERHEAD: "Cycles that vector instructions other than floating-point arithmetic take the "
        "vector unit at least, one wave: `cycles` in all, of which `integer` arithmetic and bit "
        "operations, comparisons and selections (`select`), type conversions (`convert`), and "
        "`move`s between registers and lanes; `at` the source line that has most of them, "
        "`at_cycles` there",
    }
)

_MOVES = re.compile(
    r"v_(mov|accvgpr|swap|perm_|perm(ute)?lane|pack|alignbit|alignbyte|read|write|bpermute)"
)
_FLOAT = re.compile(r"_b?f(16|32|64)\b|_(bf|f)\d+_|v_(pk_)?(fma|mad)_mix|v_(dual_)?dot\d")


def vector_overhead(subject: Subject, region: Tally) -> Iterator[Metric]:
    """The metric of `OVERHEAD_SPECS`."""
    code = subject.function.instructions
    slot, _ = rates(subject)
    if slot is None:
        yield Metric(OVERHEAD, None, "mapping", "derived", "the target's rate is unknown")
        return
    kinds: Counter[str] = Counter()
    cycles_by_loc: Counter[int] = Counter()
    locs: dict[int, SourceLoc | None] = {}  # equal locations are mostly one object
    for index in region.indices:
        inst = code[index]
        if inst.cls in VALU_CLASSES and (work_kind := kind_of(inst)) is not None:
            kinds[work_kind] += slot
            cycles_by_loc[id(inst.loc)] += slot
            locs[id(inst.loc)] = inst.loc
    cycles_by_line: Counter[str] = Counter()
    for key, cycles in cycles_by_loc.items():
        if (loc_line := source_line(locs[key])) is not None:
            cycles_by_line[loc_line] += cycles
    line, line_cycles = max(
        cycles_by_line.items(), key=lambda place: place[1], default=(None, None)
    )
    in_line = {key for key, loc in locs.items() if source_line(loc) == line}
    steps = (
        inst
        for inst in map(code.__getitem__, region.indices)
        if id(inst.loc) in in_line and inst.cls in VALU_CLASSES
    )
    name = LineName.of(list(islice(steps, MOST_NAMED)))
    value = {"cycles": kinds.total(), **{work_kind: kinds[work_kind] for work_kind in KINDS}}
    yield Metric(OVERHEAD, {**value, "at": name, "at_cycles": line_cycles}, "mapping", "derived")


def kind_of(inst: Instruction) -> str | None:
    """The kind of a vector instruction, one of KINDS; None for floating-point arithmetic."""
    name, traits = inst.op.name.replace("v_dual_", "v_"), inst.op.traits
    if "convert" in traits:
        return "convert"
    if "compare" in traits or name.startswith("v_cndmask"):
        return "select"
    if _MOVES.match(name):
        return "move"
    return None if "transcendental" in traits or _FLOAT.search(name) else "integer"


# --------------------------------------------------------------------------- widths of accesses

WIDEST_BITS = 128
NARROW_BITS = 32
"""Width of an LDS bank and of a register; narrower accesses take as long."""
_WIDE_COPIES = frozenset(("gfx950", "gfx1250"))
"""Targets that copy 128 bits per lane past the registers into LDS (LLVM 22: ldsdir96/128 of gfx950,
`global_load_async_to_lds_b128`); on others it is a dword."""
_NARROW_COPY = 32

WIDTH_SPECS = of_both(
    {
        "bytes.*": "bytes/lane | Bytes that one lane moves",
        "vector_bits.*.min": "bits/lane | Narrowest access",
        "vector_bits.*.max": "bits/lane | Widest access",
        "vector_bits.*.mean": "bits/lane | Mean width of an access",
        "narrow.*": "count | Accesses that move less than 32 bits per lane",
        "vectorized.*": "ratio | Share of accesses at the widest form",
    }
)


def access_widths(subject: Subject, region: Tally) -> Iterator[Metric]:
    """The metrics of `WIDTH_SPECS`."""
    for cls in MEMORY_CLASSES:
        accesses = region.accesses.get(cls, ())
        widths = [bits for bits in accesses if bits is not None]
        if len(widths) < len(accesses):
            note = f"{len(accesses) - len(widths)} of {len(accesses)} accesses have no fixed width"
            yield Metric(f"bytes.{cls}", None, "bytes/lane", "derived", note)
        else:
            yield Metric(f"bytes.{cls}", sum(widths) // 8, "bytes/lane", "derived")
        if not widths:
            continue
        yield Metric(f"vector_bits.{cls}.min", min(widths), "bits/lane", "derived")
        yield Metric(f"vector_bits.{cls}.max", max(widths), "bits/lane", "derived")
        mean = round(sum(widths) / len(widths), 2)
        yield Metric(f"vector_bits.{cls}.mean", mean, "bits/lane", "derived")
        narrow = sum(bits < NARROW_BITS for bits in widths)
        yield Metric(f"narrow.{cls}", narrow, "count", "derived")
        widest = WIDEST_BITS
        if cls == "lds_direct" and subject.machine is not None:
            widest = WIDEST_BITS if subject.machine.arch in _WIDE_COPIES else _NARROW_COPY
        share = round(sum(w >= widest for w in widths) / len(accesses), 4)
        yield Metric(f"vectorized.{cls}", share, "ratio", "derived")
