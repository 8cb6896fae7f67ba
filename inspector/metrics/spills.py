"""Spills: slots in scratch memory, and remedies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from types import MappingProxyType

from msgspec import Struct

from ..isa.graph.cfg import loop_of
from ..model import (
    Access,
    Function,
    Instruction,
    Loop,
    LoopReport,
    Metric,
    ParkedValue,
    Scalar,
    SourceLoc,
    SpillSlot,
    TtgirModule,
    value_of,
)
from .capacity import capacity
from .code_copies import COPIES, STATIC_RANGE
from .entries import of_kernels
from .options import option, smaller_tile
from .scratch_use import Use, address_of, components, scratch_accesses, webs
from .subject import Subject

_SLOTS, _HOT = "spills.slots", "spills.hot_slots"
SLOT_SPECS = of_kernels(
    {
        _SLOTS: "slots | Places in scratch memory that hold spills",
        _HOT: "slots | Those that are stored or reloaded in a hot loop",
    }
)


class _Access(Struct, frozen=True):
    """A scratch access and its address."""

    inst: Instruction
    base: str  # the register that the offset is added to; empty where there is none
    offset: int
    size: int


def spill_slots(
    function: Function,
    hot: Set[str] = frozenset(),
    parked: Mapping[int, ParkedValue] = MappingProxyType({}),
) -> tuple[SpillSlot, ...]:
    """The slots of a kernel: those of hot loops first, by their accesses there.

    Where a place holds one value after another, it is a slot for each.

    `parked`: line of the assembly that accesses a slot -> the value there, where it is known.
    """
    accesses = _accesses(function)
    if not accesses:
        return ()
    owner = loop_of(function)
    joined = _joined_by_webs(function)
    ranked = []
    for group in _groups(accesses):
        for web in _of_webs(group, joined):
            busy = sum(_is_in(access, owner, hot) for access in web)
            slot = _slot(web, owner, parked)
            ranked.append((-busy, web[0].base, web[0].offset, web[0].inst.index, slot))
    ranked.sort(key=lambda item: item[:-1])
    return tuple(item[-1] for item in ranked)


def slot_metrics(subject: Subject, hot: Set[str]) -> Iterator[Metric]:
    """The metrics of `SLOT_SPECS`."""
    if not subject.function.instructions:
        for name in (_SLOTS, _HOT):
            yield Metric(name, None, "slots", "derived", "no code was read")
        return
    accesses = _accesses(subject.function)
    owner = loop_of(subject.function)
    places = list(_groups(accesses))
    yield Metric(_SLOTS, len(places), "slots", "derived")
    in_hot = sum(any(_is_in(access, owner, hot) for access in place) for place in places)
    yield Metric(_HOT, in_hot, "slots", "derived")


def _accesses(function: Function) -> list[_Access]:
    return [
        _Access(inst, *address_of(inst))
        for inst, use in scratch_accesses(function)
        if use is not Use.PRIVATE
    ]


def _is_in(access: _Access, owner: Mapping[int, Loop], loops: Set[str]) -> bool:
    loop = owner.get(access.inst.index)
    return loop is not None and loop.id in loops


def _joined_by_webs(function: Function) -> dict[int, int]:
    """Index of each access that is in a web -> one access, the same for all of its webs'
    accesses.
    """
    edges = [
        (members[0], member)
        for of_dword in webs(function).values()
        for web in of_dword
        for members in ((*web.stores, *web.reloads),)
        for member in members
    ]
    nodes = sorted({index for edge in edges for index in edge})
    return {index: members[0] for members in components(nodes, edges) for index in members}


def _of_webs(group: Sequence[_Access], joined: Mapping[int, int]) -> Iterable[list[_Access]]:
    """The accesses of a place by the values that it holds in turn; all where these are unknown."""
    if any(access.inst.index not in joined for access in group):
        return (list(group),)
    parts: dict[int, list[_Access]] = {}
    for access in group:
        parts.setdefault(joined[access.inst.index], []).append(access)
    return parts.values()


def _groups(accesses: Iterable[_Access]) -> Iterator[list[_Access]]:
    """Accesses that overlap, lowest offset first."""
    ordered = sorted(accesses, key=lambda access: (access.base, access.offset, -access.size))
    group: list[_Access] = []
    end = 0
    for access in ordered:
        if group and (access.base != group[0].base or access.offset >= end):
            yield group
            group = []
        end = max(end, access.offset + access.size) if group else access.offset + access.size
        group.append(access)
    if group:
        yield group


def _slot(
    group: Sequence[_Access], owner: Mapping[int, Loop], parked: Mapping[int, ParkedValue]
) -> SpillSlot:
    """The slot of accesses of one value."""
    ordered = sorted(group, key=lambda access: access.inst.index)
    stores = [access.inst for access in ordered if access.inst.cls == "scratch_store"]
    reloads = [access.inst for access in ordered if access.inst.cls == "scratch_load"]
    loops = {
        loop.id: loop for access in ordered if (loop := owner.get(access.inst.index)) is not None
    }
    lowest = group[0]
    end = max(access.offset + access.size for access in group)
    return SpillSlot(
        offset=None if lowest.base else lowest.offset,
        size=end - lowest.offset,
        stores=tuple(inst.line for inst in stores),
        reloads=tuple(inst.line for inst in reloads),
        loops=tuple(loop.id for loop in sorted(loops.values(), key=lambda loop: -loop.depth)),
        source=tuple(_user_line(inst.loc) for inst in (*stores, *reloads) if inst.loc is not None),
        value=_most_common([parked[i.line] for i in (*stores, *reloads) if i.line in parked]),
    )


def _most_common(values: Sequence[ParkedValue]) -> ParkedValue | None:
    """Of equally common values the first."""
    return Counter(values).most_common(1)[0][0] if values else None


def _user_line(loc: SourceLoc) -> SourceLoc:
    user = loc.in_user_code
    return SourceLoc(user.file, user.line)


# --------------------------------------------------------------------------- remedies

REMEDIES = "spills.remedies"

REMEDY_SPECS = of_kernels(
    {
        REMEDIES: "Changes by which kernels like this one came to spill less in their hot loops, "
        "or anywhere where they have no loop: how many `changes`, and the two that helped most "
        "often (`said`)",
    }
)

_SAID = 2  # changes that are named: `kinspect try` compiles the rest
_UNKNOWN_BLOCK = 1024  # work-items that LLVM assumes of a HIP kernel without __launch_bounds__
_MOST_WAVES = 16  # 1,024 work-items of 64 lanes; RDNA's 32 waves were not tried
_CDNA_WAVES = 8
_MATRIX_ROWS = 16  # the smallest square matrix instruction of either family
_WIDE_INSTRUCTION = 32
_SPLIT = 2  # instructions for each wave from which a tile can be split among twice the waves
_AHEAD = 2
_MOST_SIZES = 3
_TILE = ("BLOCK", "TILE", "SIZ_B")
"""In the names of block sizes, besides the short ones that begin with a B (BT, BV)."""
_NO_TILE = ("MODEL", "HEAD", "STRIDE", "GROUP", "DIM")
"""Parts of names of data sizes, which are no tile sizes."""
_OFTEN_A_HEAD = "BLOCK_D"  # usually the full head: named only if no other size is
_UNROLLED = 16  # copies of a statement; a few may be what a tile per work-item needs
_EXPLAINED_LIMITS = frozenset(("contiguity", "divisibility", "mask"))
_WIDE = 64  # bits per lane


def remedies(
    subject: Subject,
    loops: Sequence[LoopReport],
    accesses: Iterable[Access],
    metrics: Mapping[str, Metric],
) -> Iterator[Metric]:
    """The changes; None where no hot loop spills, nor a kernel without loops.

    `loops`: its loops, with their metrics; `accesses`: its accesses, with the limits on their
    width.
    """
    regions = [loop.metrics for loop in loops if loop.hot] if loops else [metrics]
    if not any(map(_spills, regions)):
        note = "no hot loop spills" if loops else "nothing spills"
        yield Metric(REMEDIES, None, "mapping", "derived", note)
        return
    if subject.facts.generator is not None:
        changes = []  # nobody sets its options, and its autotuner passes over candidates that spill
    elif subject.ttgir is None and option(subject, "num_warps") is None:
        changes = list(_of_hip(subject, regions, metrics))
    elif loops:
        changes = list(_of_triton(subject, loops, accesses, metrics))
    else:
        changes = list(_of_straight_triton(subject, accesses))
    said = ", or ".join(changes[:_SAID]) or None
    value: dict[str, Scalar] = {"changes": len(changes), "said": said}
    yield Metric(REMEDIES, value, "mapping", "derived")


def _spills(metrics: Mapping[str, Metric]) -> int:
    return _number(metrics, "spills.reloads") + _number(metrics, "spills.stores")


def _number(metrics: Mapping[str, Metric], name: str) -> int:
    value = value_of(metrics, name)
    return value if isinstance(value, int) else 0


def _size_is_the_bound(subject: Subject, metrics: Mapping[str, Metric]) -> bool:
    """Whether a lane has all registers that a workgroup of the stated size leaves it."""
    machine, size = subject.machine, subject.function.resources.max_workgroup_size
    vgprs = value_of(metrics, "vgpr_allocated")
    if machine is None or size is None or size == _UNKNOWN_BLOCK or not isinstance(vgprs, int):
        return False
    wave = value_of(metrics, "wave_size")
    unit = capacity(machine, wave if isinstance(wave, int) else None, False, subject.facts.llvm)
    waves = -(-size // unit.wave_size)
    return vgprs >= unit.most_vgprs(-(-waves // unit.eus))


_NARROW_LOADS_FIRST = "wider loads where another finding names narrow ones"
# From the assembly in HazyResearch/HipKittens, kernels/TK/bf16fp32/mi325x/256_256_64_16, at its
# commits b145c398 (before) and 1e646f2b (after).
# 42 spilled registers and 30 reloads per iteration became none with the same tile of 256x256x64,
# its reads of LDS and its stores written anew.
_FEWER_ALIVE = "a smaller tile per work-item, with operands read from LDS late"


def _of_hip(
    subject: Subject, regions: Sequence[Mapping[str, Metric]], metrics: Mapping[str, Metric]
) -> Iterator[str]:
    """Yields the remedies for HIP kernels."""
    bounded_by_size = _size_is_the_bound(subject, metrics)
    if not bounded_by_size:
        yield _launch_bounds(subject)
    unrolled = _most_copied(region for region in regions if _spills(region))
    if unrolled is not None:
        yield unrolled
    if bounded_by_size:
        yield _FEWER_ALIVE


def _most_copied(regions: Iterable[Mapping[str, Metric]]) -> str | None:
    """The remedy for loops that somebody unrolled often; None where nobody did."""
    counted = [value for r in regions if isinstance(value := value_of(r, COPIES), Mapping)]
    worst = max(counted, key=_copies, default=None)
    if worst is None or _copies(worst) < _UNROLLED:
        return None
    copies = f"{worst['at']} has {_copies(worst)} copies"
    if worst["by"] == STATIC_RANGE:
        return f"tl.range instead of tl.static_range ({copies})"
    # 211 scratch loads became none where 8 of 128 iterations were written out.
    return f"#pragma unroll 8 ({copies}; not over private arrays)"


def _copies(value: Mapping[str, Scalar]) -> int:
    copies = value["copies"]
    return copies if isinstance(copies, int) else 0


def _launch_bounds(subject: Subject) -> str:
    """The remedy for HIP kernels."""
    if subject.function.resources.max_workgroup_size == _UNKNOWN_BLOCK:
        # 142, 49, 71 and 90 scratch loads became 0.
        return "__launch_bounds__ with the block's real size if below 1,024 (can halve occupancy)"
    return "__launch_bounds__ with the block's real size or a smaller second argument"


def _of_straight_triton(subject: Subject, accesses: Iterable[Access]) -> Iterator[str]:
    """Yields the remedies for Triton kernels without loops, which hold whole tiles in registers."""
    if any(map(_is_explained, accesses)):
        yield _NARROW_LOADS_FIRST
    waves = option(subject, "num_warps")
    products = _products(subject.ttgir) if subject.ttgir is not None else ()
    max_waves = _CDNA_WAVES if _is_cdna(subject) else _MOST_WAVES
    if waves is not None and waves < max_waves and _room(products, waves) >= _SPLIT:
        yield f"num_warps={waves * 2} for the same tile"
    sizes = _sizes(subject, {extent for product in products for extent in product})
    if sizes:
        yield (
            f"half of {' or '.join(sizes[:_MOST_SIZES])}, with twice the programs or a loop over a"
            " row's parts"
        )


def _is_cdna(subject: Subject) -> bool:
    return subject.machine is not None and subject.machine.agpr != "none"


def _of_triton(
    subject: Subject,
    loops: Sequence[LoopReport],
    accesses: Iterable[Access],
    metrics: Mapping[str, Metric],
) -> Iterator[str]:
    """Yields the remedies for Triton kernels with loops."""
    hot = {loop.id for loop in loops if loop.hot}
    if any(a.loop in hot and _is_explained(a) for a in accesses):
        yield _NARROW_LOADS_FIRST
    unrolled = _most_copied(loop.metrics for loop in loops if loop.hot and _spills(loop.metrics))
    if unrolled is not None:
        yield unrolled
    waves, stages = option(subject, "num_warps"), option(subject, "num_stages")
    products = _products(subject.ttgir) if subject.ttgir is not None else ()
    room = _room(products, waves)
    cdna = _is_cdna(subject)
    if cdna and value_of(metrics, "matrix.nonkdim") == _WIDE_INSTRUCTION:
        yield "matrix_instr_nonkdim=16"
    max_waves = _CDNA_WAVES if cdna else _MOST_WAVES
    splits = waves is not None and waves < max_waves and room >= _SPLIT
    repeats = waves is not None and _repeats(
        products, waves if cdna or len(products) == 1 else waves * 2
    )
    if splits and waves is not None and not repeats:
        cost = " (may repeat some work)" if _repeats(products, waves * 2) else ""
        yield f"num_warps={waves * 2} for the same tile{cost}"
    if stages is not None and stages > 1 and _is_pipelined(subject.ttgir):
        # Scratch accesses with a stage less: 526 to 100, 189 to 38; with one stage 702 to 84 where
        # 2 left 555, 40 to 10 where 2 left 40.
        yield (
            f"num_stages={stages - 1}, then 1" if stages > _AHEAD else "num_stages=1 (can be worse)"
        )
    sizes = _sizes(subject, {extent for product in products for extent in product})
    depths = _depths(subject.ttgir) if cdna and room < _SPLIT else set()
    walked = _sizes(subject, depths) if depths else []
    if not products and subject.ttgir is not None and sizes:
        yield smaller_tile(subject.ttgir, subject.facts.constexprs, sizes[:_MOST_SIZES])
    elif room >= _SPLIT and sizes:
        preference = f" (first one that the loop {'does not walk' if cdna else 'walks'} over)"
        stored = any(_number(loop.metrics, "spills.stores") for loop in loops if loop.hot)
        if len(sizes) == 1 or (cdna and stored):
            preference = ""
        yield f"half of {' or '.join(sizes[:_MOST_SIZES])}{preference}"
    elif walked:
        # The loop walks over it: its tiles take registers, though each wave has no more than a
        # matrix instruction of the product (MLA with 16 heads and 64 tokens: 75, 125 and 20 scratch
        # accesses on three targets became none with 32).
        yield f"half of {' or '.join(walked[:_MOST_SIZES])}"
    if splits and waves is not None and repeats and not cdna:
        yield f"num_warps={waves * 2} (waves repeat rows of the products)"  # helped 5 of 12 kernels


def _repeats(products: Sequence[tuple[int, int]], waves: int) -> bool:
    """Whether this many waves have less than a matrix instruction's rows each.

    On RDNA chained products then repeat rows: of 12 kernels with twice the waves seven had more
    scratch accesses or half as many instructions again for the same work.
    """
    rows = min((m for m, _ in products), default=None)
    return rows is not None and rows < _MATRIX_ROWS * waves


def _sizes(subject: Subject, extents: Set[int]) -> list[str]:
    """The block sizes that are one of some extents, by the kernel's own names.

    Without an extent, as without a product, every block size may be one. Half of one must still
    fill a matrix instruction.
    """
    named = [
        name
        for name, value in subject.facts.constexprs.items()
        if isinstance(value, int)
        and (value in extents and value > _MATRIX_ROWS if extents else value > 1)
    ]
    tiles = [name for name in named if not any(word in name.upper() for word in _NO_TILE)]
    fitting = [name for name in tiles if any(word in name.upper() for word in _TILE)]
    fitting = fitting or [name for name in tiles if name.startswith("B")]
    return [name for name in fitting if name != _OFTEN_A_HEAD] or fitting


def _products(module: TtgirModule) -> list[tuple[int, int]]:
    """(M, N) of the dots in loops, or of all where no loop has one, batches as rows."""
    # Only Triton kernels need them.
    from ..ttgir import queries
    from ..ttgir import redundant_work as matrix_work

    in_loops = [dot for loop in queries.loops(module) for dot in loop.dots]
    tiles = map(matrix_work.dot_tile_shapes, in_loops or queries.dots(module))
    return [(tile.m * tile.batch, tile.n) for tile in tiles if tile is not None]


def _depths(module: TtgirModule | None) -> set[int]:
    """K of the last dot of each loop: of chained dots the extent that the loop walks over."""
    if module is None:
        return set()
    # Only Triton kernels need them.
    from ..ttgir import queries
    from ..ttgir import redundant_work as matrix_work

    last_dots = (loop.dots[-1] for loop in queries.loops(module) if loop.dots)
    tiles = map(matrix_work.dot_tile_shapes, last_dots)
    return {tile.k for tile in tiles if tile is not None}


def _room(products: Sequence[tuple[int, int]], waves: int | None) -> float:
    """Matrix instructions of 16x16 that the smallest product has for each wave.

    Below 1 waves repeat one another's work. Without a product there is no limit.
    """
    if not products or not waves:
        return float("inf")
    return min(m * n for m, n in products) / (_MATRIX_ROWS**2 * waves)


def _is_explained(access: Access) -> bool:
    """Whether a finding explains how to widen a load (KI024 to KI026)."""
    return (
        access.cls == "global_load"
        and access.limited_by in _EXPLAINED_LIMITS
        and bool(access.fix)
        and (access.bits or _WIDE) < _WIDE <= (access.widest or 0)
    )


def _is_pipelined(module: TtgirModule | None) -> bool:
    """Whether Triton loads ahead: copies of a load then stand before the loop as well."""
    if module is None:
        return True
    # Only Triton kernels need them.
    from ..ttgir import queries

    loops_of: dict[SourceLoc, set[int | None]] = {}
    for op in queries.loads(module):
        if op.loc is not None:
            loops_of.setdefault(op.loc, set()).add(queries.loop_above(op, module))
    return any(len(loops) > 1 for loops in loops_of.values())
