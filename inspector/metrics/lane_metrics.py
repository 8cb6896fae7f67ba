"""Metrics of a region's accesses of LDS and global memory: bank conflicts, cache lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from ..isa.mnemonics import access_bits
from ..model import Access, Instruction, LaneUse, MemoryOp, Metric, Scalar, SourceLoc
from .access_spans import WRITES
from .access_spans import unwritten as unwritten_of
from .argument_words import SizeArguments
from .entries import of_both
from .lanes import GLOBAL_ACCESSES, LDS_ACCESSES, origin_of, sum_of
from .loop_shape import position_of
from .options import option
from .subject import LineName, Place, Subject, Tally, source_line

if TYPE_CHECKING:
    from .conflict_remedies import OperandTile

NO_LDS, NO_GLOBAL = "no access of LDS", "no access of global memory"
_ELEMENT_BYTES: Final = 8
"""Of the largest element: whoever moves more at once has a vector of neighbours already."""
NOT_LOOKED_AT = "where its lanes lie was not looked at"

SPECS = of_both(
    {
        "lds.conflict_cycles": "cycles | Cycles that LDS bank conflicts add to one wave's "
        "accesses, 0 where it has none; unknown if one of them is",
        "lds.data_cycles": "cycles | Cycles for which the LDS serves one wave's accesses, "
        "conflicts included",
        "lds.conflicts": "The access of LDS with most cycles of conflicts: how many times as long "
        "as without it takes (`ways`), `instruction`, `at` which line (`isa`: of the assembly), "
        "`writes`; `accesses` with conflicts, of `of` that are known, beside `more` that are "
        "not (null where there are none; `unknown`: their number); `known` cycles of conflicts, of "
        "the `known_cycles` that they take, those of reads narrower than a bank `narrow`; "
        "`origin` of the phases. What was tried on all accesses of the same bytes: `pad` bytes "
        "more after each `row` bytes leave `padded` cycles; pieces of "
        "`swizzle` bytes, their numbers XORed with that of the row; `bank_row` bytes of all "
        "banks; left out where Triton laid the tile out: there the cycles of conflicts that a "
        "change of the source reaches (`curable`): `order_at` which line an operand is loaded "
        "whose K is not contiguous; `across_at` which line one is loaded whose K is, for a "
        "product of the vector unit; the num_`stages` without which no operand is loaded ahead "
        "that tl.trans turns; `whole` bits of one that fills a bank and no kpack widens; a "
        "`kpack` to try",
        "cache.lines": "lines | Cache lines that one wave's accesses of global memory touch; "
        "unknown if one of them is",
        "cache.lines_ideal": "lines | Cache lines that as many distinct bytes of each access need "
        "at least",
        "cache.line_use": "% | Share of those lines' bytes that the accesses use",
        "cache.waste": "The access of global memory that touches most lines for nothing: its "
        "`lines`, `ideal`, `percent` unused of the lines' bytes, `line` in each, `instruction`, "
        "`at` which line (`isa`: of the assembly), `writes`; `accesses` with more lines than they "
        "need, of `of` loads and stores (atomics are left out), beside `more` whose lines are not "
        "known (null where there are none; `unknown`: their number); `known` lines of them, "
        "`known_ideal` that their bytes need, all without accesses of which no lane takes part "
        "where sizes are large; `across`: accesses of work-items that lie side by "
        "side in y, not in x, of the worst of which `across_at` which line, `across_lines`, "
        "`across_ideal`; `in_rows` of those that lie side by side in x; `origin`: `estimated` "
        "where it depends on sizes that are not known; `by_stride`: whether each lane has a line "
        "for itself by a stride that is an argument, `by_size`: by one that the kernel also "
        "compares something with or divides by, as the length of a row; `by_products`: lines too "
        "many of stores of products in the layout of the matrix instructions, whose rows fill "
        "lines: another access is named where there is one; `by_splits`: lines too many of tiles "
        "whose rows fill lines, but whose accesses are split for no reason that is known",
        "cache.uniform_loads": "Loads of global memory whose lanes all read the same address, "
        "where a scalar load would do: `loads` of `of` that are known, beside `more` that are not "
        "(null where there are none; `unknown`: their number); `unwritten` of "
        "tensors that the kernel does not write; the first's `instruction` and `at` which line, "
        "of these where there is one; `scalars` of the unwritten that are scalars in the TTGIR "
        "too, of 32 bits or more, through the arguments `pointers`; `curable`: those of them that "
        "become scalar loads, in Triton's code the scalars, in other code the unwritten",
    }
)


def compute(subject: Subject, region: Tally) -> Iterator[Metric]:
    """The metrics of a region: each instruction counts once."""
    code = subject.function.instructions
    accesses = [
        code[index] for index in region.indices if code[index].cls in LDS_ACCESSES | GLOBAL_ACCESSES
    ]
    in_lds = [inst for inst in accesses if inst.cls in LDS_ACCESSES]
    in_global = [inst for inst in accesses if inst.cls in GLOBAL_ACCESSES]
    # Flat accesses may be of the LDS.
    has_flat = any(inst.mnemonic.startswith("flat_") for inst in in_global)
    yield from _lds_metrics(subject, in_lds, may_have_more=has_flat)
    yield from _global_metrics(subject, in_global)
    yield _uniform_loads(subject, [i for i in in_global if i.cls == "global_load"])


def untried_kpack(subject: Subject) -> int | None:
    """The `kpack` of 2 that a Triton kernel was not compiled with; None where there is none."""
    family = subject.machine.family if subject.machine is not None else ""
    return 2 if family in _WITH_KPACK and option(subject, "kpack") in (None, 1) else None


_WITH_KPACK: Final = frozenset(("CDNA", "CDNA2", "CDNA3"))
"""Triton takes it as 1 on gfx950, and WMMA has none (Triton 3.9, AMD backend)."""


def with_layouts(
    subject: Subject,
    own: Iterable[Metric],
    metrics: Mapping[str, Metric],
    accesses: Sequence[Access],
    memory: Sequence[MemoryOp],
    tiles: Mapping[int, OperandTile],
) -> Iterator[Metric]:
    """The metrics of a Triton kernel, by what the layouts of its tiles allow.

    `own`: the result of `compute` for a region; `metrics`: the region's other metrics; `accesses`:
    the kernel's accesses, with the lines of their instructions; `memory`: the region's accesses;
    `tiles`: the operands of dots that a remedy reaches, by `conflict_remedies`.
    """
    access_at = {line: access for access in accesses for line in access.lines}
    products = any(metrics[name].value for name in _PRODUCTS & metrics.keys())
    for metric in own:
        name, value = metric.name, metric.value
        if (
            name not in ("lds.conflicts", "cache.waste")
            or not isinstance(value, Mapping)
            or not isinstance(value["isa"], int)
        ):
            yield metric
            continue
        laid_out = dict(value)
        if name == "lds.conflicts":
            if value["isa"] in access_at:  # users do not lay out Triton's buffers
                laid_out |= dict.fromkeys(_ROWS)
            if accesses:
                from .conflict_remedies import advice

                laid_out.update(advice(subject, tiles, accesses, memory, metrics))
        else:
            if products:
                laid_out = _without_products(subject, value, access_at, memory)
            laid_out["by_splits"] = _by_splits(value, access_at, memory)
        yield replace(metric, value=laid_out)


NO_ADVICE: Final[Mapping[str, Scalar]] = dict.fromkeys(
    ("curable", "order_at", "across_at", "stages", "whole", "kpack")
)
"""The remedies of operands where the layout of none is known."""
_PRODUCTS: Final = frozenset(("count.mfma", "count.wmma"))
BANK_ROW: Final = 128
"""Bytes of 32 banks side by side."""


_ROWS: Final = ("row", "pad", "padded", "swizzle", "bank_row")
"""Remedies by rows of a buffer."""


def _uniform_loads(subject: Subject, loads: Sequence[Instruction]) -> Metric:
    """The loads whose lanes all read one address."""
    known_uses = _with_figure(subject, loads, "addresses")
    if not known_uses:
        note = _unknown_reason(subject, loads, 0, "no load of global memory")
        return Metric("cache.uniform_loads", None, "mapping", "derived", note)
    uniform = _same_for_any_size(
        subject,
        [inst for inst, use in known_uses if use.addresses == 1 and (use.lanes or 0) > 1],
    )
    writes = [inst for inst in subject.function.instructions if inst.cls in WRITES]
    unwritten = unwritten_of(subject, _as_scalars(subject, uniform), writes)
    scalars, pointers = _scalar_loads(subject, unwritten or ())
    first = next(iter(scalars or unwritten or uniform), None)
    value: dict[str, Scalar] = {
        "loads": len(uniform),
        "of": len(known_uses),
        **_unknown(loads, known_uses),
        "unwritten": None if unwritten is None else len(unwritten),
        "scalars": None if unwritten is None or subject.ttgir is None else len(scalars),
        "curable": None
        if unwritten is None
        else len(unwritten if subject.ttgir is None else scalars),
        "pointers": " and ".join(pointers) or None,
        "instruction": first.mnemonic if first is not None else None,
        "at": LineName.of(scalars or unwritten or uniform),
    }
    return Metric("cache.uniform_loads", value, "mapping", "derived")


def _unknown(
    accesses: Sequence[Instruction], known_uses: Sequence[tuple[Instruction, LaneUse]]
) -> dict[str, Scalar]:
    """How many accesses are not known, as a count and as what messages tell of them."""
    unknown = len(accesses) - len(known_uses)
    return {"unknown": unknown, "more": unknown or None}


def _as_scalars(subject: Subject, loads: Sequence[Instruction]) -> list[Instruction]:
    """The loads that the target has a scalar load for: of less than 32 bits on gfx12 alone."""
    is_gfx12 = subject.machine is not None and subject.machine.arch.startswith("gfx12")
    return [
        load
        for load in loads
        if not load.mnemonic.startswith("flat_")
        and (
            is_gfx12
            or all(8 * place.size >= _SCALAR_BITS for place in subject.places.get(load.index, ()))
        )
    ]


def _scalar_loads(
    subject: Subject, loads: Sequence[Instruction]
) -> tuple[list[Instruction], list[str]]:
    """Those of some loads that the TTGIR has as scalars, and the arguments that point to them.

    There are scalar loads of less than 32 bits on gfx12 alone.
    """
    if subject.ttgir is None or not loads:
        return [], []
    # Only Triton kernels need it.
    from ..ttgir.axes.graph import functions
    from ..ttgir.lowered import element_bits
    from ..ttgir.queries import POINTER_LOADS
    from ..ttgir.result_types import FUNCTIONS

    arguments = {
        name
        for graph in functions(subject.ttgir)
        for name, carried in graph.carried.items()
        if carried.owner.name in FUNCTIONS
    }
    makers = {name: op for op in subject.ttgir.ops for name in op.results}
    sources: dict[Place, str | None] = {}
    for op in subject.ttgir.ops:
        kind = op.result_types[0] if op.result_types else None
        if op.name not in POINTER_LOADS or op.loc is None or kind is None or kind.kind == "tensor":
            continue
        bits = element_bits(kind.element)
        if (bits is not None and bits < _SCALAR_BITS) or _CONSTANT in op.operand_types[0].text:
            continue
        pointer = op.operands[0]
        while (maker := makers.get(pointer)) is not None and maker.name == "tt.addptr":
            pointer = maker.operands[0]
        name = pointer.lstrip("%") if pointer in arguments else None
        sources[position_of(op.loc)] = name
    scalars = [load for load in loads if load.loc is not None and position_of(load.loc) in sources]
    pointers = (sources[position_of(load.loc)] for load in scalars if load.loc is not None)
    return scalars, list(dict.fromkeys(name for name in pointers if name is not None))


_SCALAR_BITS: Final = 32
_CONSTANT: Final = '"constant"'
"""In the type of a pointer that is annotated as tl.const, which LLVM knows not to be written."""


def _same_for_any_size(subject: Subject, loads: Sequence[Instruction]) -> list[Instruction]:
    """The loads whose address rests on no lane's number: the others are alike for large sizes."""
    if not loads or subject.machine is None:
        return []
    from ..lanes.lane_dependence import lane_independent

    indices = frozenset(load.index for load in loads)
    try:
        independent = lane_independent(subject.function, subject.machine, indices)
    except Exception:  # a bug in the emulator must not cost the report
        return []
    return [load for load in loads if load.index in independent]


def _lds_metrics(
    subject: Subject, accesses: Sequence[Instruction], *, may_have_more: bool
) -> Iterator[Metric]:
    """The metrics of accesses of LDS."""
    known_uses = _with_figure(subject, accesses, "cycles")
    note = _unknown_reason(subject, accesses, len(known_uses), NO_LDS)
    complete = len(known_uses) == len(accesses) and not (may_have_more and not accesses)
    origin = origin_of(use for _, use in known_uses)
    for name, field in (("conflict_cycles", "conflicts"), ("data_cycles", "cycles")):
        figures = [0.0, *(getattr(use, field) for _, use in known_uses)]
        total = sum_of(figures) if complete else None
        yield Metric(f"lds.{name}", _rounded(total), "cycles", origin, note)
    if not known_uses:
        yield Metric("lds.conflicts", None, "mapping", "derived", note)
        return
    inst, worst = max(known_uses, key=lambda item: item[1].conflicts or 0.0)
    conflicting = sum(bool(use.conflicts) for _, use in known_uses)
    remedy = worst.remedy
    value: dict[str, Scalar] = {
        "accesses": conflicting,
        "of": len(known_uses),
        **_unknown(accesses, known_uses),
        "known": _rounded(sum_of(use.conflicts for _, use in known_uses)),
        "known_cycles": _rounded(sum_of(use.cycles for _, use in known_uses)),
        "narrow": _rounded(
            sum_of([0.0, *(u.conflicts for inst, u in known_uses if _is_narrow_read(inst))])
        ),
        "ways": _ratio(worst.cycles, worst.cycles_ideal) if conflicting else None,
        "instruction": inst.mnemonic if conflicting else None,
        "at": LineName.of([inst]) if conflicting else None,
        "isa": inst.line if conflicting else None,
        "writes": inst.cls == "lds_write" if conflicting else None,
        "row": remedy.row if remedy is not None else None,
        "pad": remedy.pad if remedy is not None else None,
        "padded": _rounded(remedy.padded) if remedy is not None else None,
        "swizzle": remedy.swizzle if remedy is not None else None,
        "bank_row": BANK_ROW if conflicting else None,
        **NO_ADVICE,
        "origin": worst.origin,
    }
    yield Metric("lds.conflicts", value, "mapping", origin)


def _is_narrow_read(inst: Instruction) -> bool:
    bits = access_bits(inst.op, inst.operands)
    return inst.cls == "lds_read" and bits is not None and bits < _BANK_BITS


_BANK_BITS: Final = 32
"""Bits that a bank of LDS delivers a cycle."""


def _global_metrics(subject: Subject, accesses: Sequence[Instruction]) -> Iterator[Metric]:
    """The metrics of accesses of global memory."""
    known_uses = _with_figure(subject, accesses, "lines")
    note = _unknown_reason(subject, accesses, len(known_uses), NO_GLOBAL)
    complete = len(known_uses) == len(accesses)
    lines = sum_of([0.0, *(use.lines for _, use in known_uses)]) if complete else None
    touched = sum_of(use.bytes for _, use in known_uses) if complete else None
    line = subject.machine.cache_line_bytes if subject.machine is not None else None
    origin = origin_of(use for _, use in known_uses)
    yield Metric("cache.lines", _rounded(lines), "lines", origin, note)
    lines_ideal = sum_of([0.0, *(use.lines_ideal for _, use in known_uses)]) if complete else None
    yield Metric("cache.lines_ideal", _rounded(lines_ideal), "lines", origin, note)
    use = 100 * touched / (lines * line) if touched is not None and lines and line else None
    yield Metric("cache.line_use", _rounded(use), "%", origin, note if use is None else "")
    if not known_uses:
        yield Metric("cache.waste", None, "mapping", "derived", note)
        return
    usual = [item for item in known_uses if not item[1].at_edge]
    wasting = [item for item in usual if (item[1].lines or 0) > (item[1].lines_ideal or 0)]
    across = [item for item in usual if item[1].across]
    sizes = SizeArguments(subject)
    inst, worst = max(
        wasting or known_uses,
        key=lambda item: (_lines_too_many(item), _is_by_size(item[1], sizes)),
    )
    value: dict[str, Scalar] = {
        "accesses": len(wasting),
        "of": len(usual),
        **_unknown(accesses, known_uses),
        "known": _rounded(sum_of(use.lines for _, use in usual)),
        "known_ideal": _rounded(sum_of(use.lines_ideal for _, use in usual)),
        "across": len(across),
        "in_rows": sum(not use.apart and (use.bytes or 0) >= (use.lanes or 0) for _, use in usual),
        "line": line,
        **_wasteful(
            sizes, inst.mnemonic, inst.loc, inst.line, inst.cls, worst if wasting else None
        ),
        "origin": worst.origin,
        "by_products": 0,
        "by_splits": 0,
        **_worst_across(across),
    }
    yield Metric("cache.waste", value, "mapping", origin)


def _worst_across(accesses: Sequence[tuple[Instruction, LaneUse]]) -> dict[str, Scalar]:
    """What `cache.waste` has of the worst access of neighbours in y."""
    if not accesses:
        return dict.fromkeys(("across_at", "across_lines", "across_ideal"))
    inst, use = max(accesses, key=_lines_too_many)
    return {
        "across_at": LineName.of([inst]),
        "across_lines": _rounded(use.lines),
        "across_ideal": _rounded(use.lines_ideal),
    }


def _lines_too_many(access: tuple[Instruction, LaneUse]) -> float:
    _, use = access
    return (use.lines or 0) - (use.lines_ideal or 0)


def _wasteful(
    sizes: SizeArguments,
    mnemonic: str,
    loc: SourceLoc | None,
    line: int,
    cls: str,
    use: LaneUse | None,
) -> dict[str, Scalar]:
    """What `cache.waste` says of an access; of none where its use is None."""
    if use is None:
        names = ("lines", "ideal", "percent", "instruction", "at", "isa", "writes")
        return {**dict.fromkeys(names), "by_stride": False, "by_size": False}
    return {
        "lines": _rounded(use.lines),
        "ideal": _rounded(use.lines_ideal),
        "percent": use.waste,
        "instruction": mnemonic,
        "at": source_line(loc),
        "isa": line,
        "writes": cls == "global_store",
        "by_stride": _is_by_stride(use),
        "by_size": _is_by_size(use, sizes),
    }


def _without_products(
    subject: Subject,
    value: Mapping[str, Scalar],
    access_at: Mapping[int, Access],
    memory: Sequence[MemoryOp],
) -> dict[str, Scalar]:
    """`cache.waste` that names no store of a product if another access wastes lines as well.

    MFMA hands each lane a few neighbours of a row: where the rows fill lines, no shape of the tile
    changes how many lines its store touches. WMMA hands one lane after the other an element of a
    row, 16 in all, whatever the tile's shape.
    """
    line = value["line"]
    kinds = _result_layouts(subject)
    too_many = [
        ((op.use.lines or 0) - (op.use.lines_ideal or 0), op)
        for op in memory
        if op.use is not None and op.use.lines is not None and not op.use.at_edge
    ]
    products = {
        op.line
        for _, op in too_many
        if (access := access_at.get(op.line)) is not None
        and access.cls == "global_store"
        and (kind := kinds.get(access.line)) in _PRODUCT_LAYOUTS
        and isinstance(line, int)
        and (kind == _WMMA or _run_bytes(access) >= line)
    }
    changed: dict[str, Scalar] = dict(value)
    changed["by_products"] = _rounded(sum(more for more, op in too_many if op.line in products))
    others = [(more, op) for more, op in too_many if op.line not in products and more > 0]
    if value["isa"] in products and others:
        worst = max(others, key=lambda item: item[0])[1]
        changed |= _wasteful(
            SizeArguments(subject), worst.mnemonic, worst.source, worst.line, worst.cls, worst.use
        )
    return changed


def _by_splits(
    value: Mapping[str, Scalar], access_at: Mapping[int, Access], memory: Sequence[MemoryOp]
) -> float | None:
    """Lines too many of tiles whose rows fill lines, and whose accesses are split without a reason
    that is known: no shape of the tile changes them, and nothing that could be advised.
    """
    return _rounded(
        sum(
            (op.use.lines or 0) - (op.use.lines_ideal or 0)
            for op in memory
            if op.use is not None
            and not op.use.at_edge
            and (access := access_at.get(op.line)) is not None
            and access.limited_by is None
            and _is_split(access, value["line"])
        )
    )


def _is_split(access: Access, line: Scalar) -> bool:
    """Whether a lane moves its neighbours one after the other, in rows that fill lines."""
    return (
        isinstance(line, int)
        and access.bits is not None
        and access.widest is not None
        and access.widest >= _SPLIT * access.bits
        and _run_bytes(access) >= line
    )


_SPLIT: Final = 4
"""Accesses at least that are made of a lane's one."""


def _result_layouts(subject: Subject) -> dict[int, str]:
    """Line of a store in the TTGIR -> the kind of the layout of what it stores."""
    kinds = {}
    for op in subject.ttgir.ops if subject.ttgir is not None else ():
        layouts = [kind.layout for kind in op.operand_types if kind.layout is not None]
        if layouts and not op.results:
            kinds[op.line] = layouts[0].kind
    return kinds


def _run_bytes(access: Access) -> int:
    """Bytes of a tile's neighbours that are known to be neighbours in memory."""
    # Only Triton kernels need it.
    from ..ttgir.lowered import element_bits

    bits = element_bits(access.dtype)
    return (access.contiguity or 0) * bits // 8 if bits is not None else 0


_WMMA: Final = "amd_wmma"
_PRODUCT_LAYOUTS: Final = frozenset(("amd_mfma", _WMMA))


def _is_by_size(use: LaneUse, sizes: SizeArguments) -> bool:
    """Whether it has one by a stride that the kernel takes for the length of something."""
    return _is_by_stride(use) and use.steps is not None and sizes.divide(use.steps)


def _is_by_stride(use: LaneUse) -> bool:
    """Whether each lane has a line for itself by a stride that is an argument."""
    if use.origin != "estimated" or use.bytes is None or use.lanes is None:
        return False
    return use.lines == use.lanes and use.bytes <= _ELEMENT_BYTES * use.lanes


def _with_figure(
    subject: Subject, accesses: Sequence[Instruction], figure: str
) -> list[tuple[Instruction, LaneUse]]:
    """The accesses of which a figure is known, with their uses."""
    uses = ((inst, subject.uses.get(inst.index)) for inst in accesses)
    return [
        (inst, use) for inst, use in uses if use is not None and getattr(use, figure) is not None
    ]


def _unknown_reason(
    subject: Subject, accesses: Sequence[Instruction], known_count: int, no_access_note: str
) -> str:
    """The reason that a sum over accesses is unknown; empty where it is known."""
    if not accesses:
        return no_access_note
    if known_count == len(accesses):
        return ""
    reasons = [subject.uses[inst.index].unknown for inst in accesses if inst.index in subject.uses]
    reason = next((reason for reason in reasons if reason), NOT_LOOKED_AT)
    return f"{len(accesses) - known_count} of {len(accesses)} accesses: {reason}"


def _rounded(figure: float | None) -> float | None:
    if figure is None:
        return None
    return int(figure) if figure == int(figure) else round(figure, 2)


def _ratio(dividend: float | None, divisor: float | None) -> float | None:
    return _rounded(dividend / divisor) if dividend is not None and divisor else None
