"""The buffers that hold a kernel's LDS where most of it is in use.

Whether the LDS holds a loop's tiles twice, as Triton's num_stages=2 has them.

Of two stages, one is on its way: in LDS where loads are copied there directly, otherwise in
registers. With stages, tiles share no bytes of LDS with what changes its layout there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from ..model import LdsBuffer, Metric, Scalar, SourceLoc, TtgirModule, TtgirOp
from .entries import of_kernels, unknown
from .subject import Subject, source_line, variable_name

if TYPE_CHECKING:
    from ..ttgir.flow import DataFlow
    from .triton_loads import LoopLoad


_HOLDERS, _LARGEST = "lds.holders", "lds.largest"
MOST_NAMED = 3
_ONE_AHEAD = 2  # num_stages with which one tile is in flight

SPECS = of_kernels(
    {
        _HOLDERS: "name | The largest buffers among those that hold LDS where most of it is in "
        "use: name, shape, type, line, bytes",
        _LARGEST: "The largest of them: `name`, `kind` (pipelined, operand, exchange), `copies`, "
        "`bytes` of all copies without padding, `dtype`, `shape`, `at` which line, `fix`: what "
        "makes it smaller",
    }
)


def lds_buffers(subject: Subject) -> tuple[LdsBuffer, ...]:
    """The buffers that the kernel's TTGIR puts into LDS; none where there is no TTGIR for AMD."""
    module = subject.ttgir
    if module is None or not str(module.attributes.get("target", "hip:")).startswith("hip:"):
        return ()
    try:
        allocations = _allocations(subject.facts.options.get("lds_allocations"))
        buffers = _of_module(module, subject.facts.lds_bytes, allocations)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return ()  # the TTGIR is not as Triton prints it: an edited file
    return _as_allocated(buffers, subject.facts.lds_bytes)


def _as_allocated(buffers: Sequence[LdsBuffer], total: int | None) -> tuple[LdsBuffer, ...]:
    """The buffers, with exchanges no larger than the LDS that the others leave."""
    exchanges = [buffer for buffer in buffers if buffer.at_peak and buffer.kind == "exchange"]
    other_bytes = sum(
        buffer.size or 0 for buffer in buffers if buffer.at_peak and buffer.kind != "exchange"
    )
    if total is None or len(exchanges) != 1 or not other_bytes < total:
        return tuple(buffers)
    available = total - other_bytes
    return tuple(
        replace(buffer, size=min(buffer.size, available))
        if buffer is exchanges[0] and buffer.size
        else buffer
        for buffer in buffers
    )


def _allocations(listed: object) -> dict[int, tuple[int, int | None]]:
    """Line of the TTGIR -> offset and bytes of the buffer that the operation ending there has."""
    places: dict[int, tuple[int, int | None]] = {}
    for entry in listed if isinstance(listed, list) else ():
        line, offset, size = entry
        if not all(isinstance(n, int) and n >= 0 for n in (line, offset)):
            return {}
        places[line] = offset, size if isinstance(size, int) and size >= 0 else None
    return places


def _of_module(
    module: TtgirModule, total: int | None, allocations: Mapping[int, tuple[int, int | None]]
) -> tuple[LdsBuffer, ...]:
    """The buffers of a module, those at the peak first."""
    # The algebra of layouts is loaded for Triton kernels alone.
    from ..ttgir.flow import flow_of
    from ..ttgir.shared_buffers import at_the_peak, padded_bytes, shared_buffers
    from .source_values import SourceOperations

    flow, operations = flow_of(module), SourceOperations(module)
    shared = shared_buffers(flow)
    peak = {id(buffer) for buffer in at_the_peak(shared, total)}
    by_op = _by_operation(module, allocations)
    buffers = []
    for buffer in shared:
        last = module.ops[buffer.last]
        offset, allocated = by_op.pop(buffer.op.index, (None, None))
        if offset is not None and allocated is None and buffer.kind != "exchange":
            allocated = padded_bytes(buffer.op.result_types[0])
        buffers.append(
            LdsBuffer(
                name=operations.variable(buffer.op) or variable_name(buffer.op.results[0]),
                kind=buffer.kind,
                dtype=buffer.element,
                shape=buffer.tile,
                copies=buffer.copies,
                size=buffer.size,
                line=buffer.op.line,
                source=_user_line(buffer.op.loc),
                in_loop=buffer.in_loop,
                at_peak=id(buffer) in peak,
                last_line=last.line,
                last_source=_user_line(last.loc),
                offset=offset,
                allocated=allocated,
            )
        )
    for index, place in by_op.items():
        in_loop = flow.loop[index] is not None
        buffers.append(_scratch(module.ops[index], place, in_loop=in_loop))
    return tuple(sorted(buffers, key=lambda b: (not b.at_peak, -(b.size or 0), b.line)))


def _by_operation(
    module: TtgirModule, allocations: Mapping[int, tuple[int, int | None]]
) -> dict[int, tuple[int | None, int | None]]:
    """Index of the operation -> offset and bytes of its buffer."""
    places: dict[int, tuple[int | None, int | None]] = {}
    on_line = {op.line: op.index for op in module.ops}
    starts = sorted(on_line)
    for line, place in allocations.items():
        index = on_line.get(line)
        if index is None:
            before = bisect_left(starts, line)
            index = module.ops[on_line[starts[before - 1]]].parent if before else None
        if index is not None:
            places[index] = place
    return places


def _scratch(op: TtgirOp, place: tuple[int | None, int | None], *, in_loop: bool) -> LdsBuffer:
    """The buffer of an operation that exchanges values and is no conversion."""
    offset, allocated = place
    held = next(iter((*op.operand_types, *op.result_types)), None)
    return LdsBuffer(
        name=variable_name(op.results[0]) if op.results else op.name,
        kind="scratch",
        dtype=held.element if held is not None else "",
        shape=held.shape if held is not None else (),
        copies=1,
        size=allocated,
        line=op.line,
        source=_user_line(op.loc),
        in_loop=in_loop,
        at_peak=False,
        last_line=op.line,
        last_source=_user_line(op.loc),
        offset=offset,
        allocated=allocated,
    )


def kernel_metrics(
    subject: Subject, buffers: tuple[LdsBuffer, ...], stages: int | None
) -> Iterator[Metric]:
    """The metrics of `SPECS`.

    `buffers`: the result of `lds_buffers`; `stages`: num_stages of the compile.
    """
    holders = [buffer for buffer in buffers if buffer.at_peak and buffer.size]
    if not holders:
        note = "needs the kernel's TTGIR" if subject.ttgir is None else "no buffer is in LDS"
        yield from unknown(SPECS, note)
        return
    listed = [_described(buffer) for buffer in holders[:MOST_NAMED]]
    omitted = len(holders) - len(listed)
    tail = [f"{omitted} more"] if omitted else []
    yield Metric(_HOLDERS, ", ".join((*listed, *tail)), "name", "derived")
    largest = holders[0]
    value: dict[str, Scalar] = {
        "name": largest.name,
        "kind": largest.kind,
        "copies": largest.copies,
        "bytes": largest.size,
        "dtype": largest.dtype,
        "shape": _shape(largest),
        "at": source_line(largest.source),
        "fix": _fix(largest, holders, stages, _last_loop(subject.ttgir), _excess(subject)),
    }
    yield Metric(_LARGEST, value, "mapping", "derived")


def _user_line(loc: SourceLoc | None) -> SourceLoc | None:
    if loc is None:
        return None
    user = loc.in_user_code
    return SourceLoc(user.file, user.line)


def _shape(buffer: LdsBuffer) -> str:
    return "x".join(str(extent) for extent in buffer.shape)


def _described(buffer: LdsBuffer) -> str:
    copies = f"{buffer.copies} x " if buffer.copies > 1 else ""
    line = f" at {source_line(buffer.source)}" if buffer.source is not None else ""
    title = "an exchange of" if buffer.kind == "exchange" else buffer.name
    return f"{title} {copies}{_shape(buffer)} {buffer.dtype}{line}: {buffer.size} bytes"


def _last_loop(module: TtgirModule | None) -> int:
    """The line at which a module's last loop begins; 0 where it has none."""
    from ..ttgir.queries import LOOPS

    return max((op.line for op in module.ops if op.name in LOOPS), default=0) if module else 0


def _stages_note(stages: int | None, freed_per_stage: int, excess: int) -> str:
    """The num_stages that fits, where LDS is exceeded; with 2 stages one tile remains of each."""
    if excess <= 0 or not freed_per_stage or stages is None:
        return ""
    fitting_stages = stages - -(-excess // freed_per_stage)
    if fitting_stages >= _ONE_AHEAD:
        return f", so {fitting_stages} fit"
    return f", not enough with {_ONE_AHEAD}; with 1, tiles may share LDS"


def _excess(subject: Subject) -> int:
    """Bytes of LDS beyond the limit of a workgroup."""
    total = subject.facts.lds_bytes
    return 0 if total is None or subject.machine is None else total - subject.machine.lds_max


def _fix(
    buffer: LdsBuffer, holders: Sequence[LdsBuffer], stages: int | None, last_loop: int, excess: int
) -> str:
    """The fix that makes the largest buffer smaller."""
    if buffer.kind == "pipelined" and buffer.copies > 1:
        current = f" (now {stages})" if stages is not None else ""
        turning = [holder for holder in holders if holder.kind == "pipelined" and holder.copies > 1]
        freed = sum((holder.size or 0) // holder.copies for holder in turning)
        return (
            f"Lower num_stages{current}: each stage frees {freed} bytes"
            f"{_stages_note(stages, freed, excess)}; or make {buffer.name} smaller"
            f" (now {_shape(buffer)})."
        )
    if buffer.kind == "pipelined" and buffer.in_loop is False and (stages or 0) > 1:
        return (
            f"Make {buffer.name} smaller (now {_shape(buffer)} {buffer.dtype}), or set num_stages=1"
            " so that tiles may share LDS."
        )
    if buffer.kind == "exchange":
        return (
            f"Convert the {_shape(buffer)} {buffer.dtype} tile to a narrower type before its layout"
            " changes, or make it smaller."
        )
    smaller = f"Make {buffer.name} smaller (now {_shape(buffer)} {buffer.dtype})"
    if buffer.in_loop or buffer.kind == "pipelined" or buffer.line < last_loop:
        return f"{smaller}; num_stages does not change it."
    return f"{smaller}."  # a loop of a few iterations that pipelining dissolved has its tiles here


NO_STAGES: Final[Mapping[str, Scalar]] = dict.fromkeys(("stages", "lds", "lds_max", "ahead"))
"""The figures of a loop of which nothing is known."""
_BYTES_OF_A_REGISTER: Final = 4
_PADDING: Final = 32
"""Of so many bytes of copied tiles, one is padding (Triton 3.9: 5,040 beside 163,840)."""


def fit_of_two_stages(
    subject: Subject, flow: DataFlow, loads: Sequence[LoopLoad]
) -> Mapping[str, Scalar]:
    """Whether the tiles that dots take from loads of their own iteration fit twice.

    `flow`: the values of its TTGIR; `loads`: the loads of its loops. The loop that loads most is
    the one that counts.

    Returns:
        `stages`: 2 where they fit; `lds` and `lds_max`, in bytes, where they do not; `ahead`, the
        registers of a lane that the stage on its way takes. All None without such tiles, or where
        their size is not known.
    """
    from ..ttgir.conversions import tile_bytes
    from ..ttgir.shared_buffers import shared_buffers
    from .staged import DIRECT_TO_LDS
    from .triton_loads import Use

    machine, demand = subject.machine, subject.demand
    sizes: dict[int, int] = {}  # loop -> bytes of its tiles
    for load in loads:
        if Use.DOT in load.uses and load.op.result_types:
            size = tile_bytes(load.op.result_types[0])
            if size is None:
                return NO_STAGES
            sizes[load.loop] = sizes.get(load.loop, 0) + size
    if not sizes or machine is None or not demand.waves_per_workgroup:
        return NO_STAGES
    tiles, waves = max(sizes.values()), demand.waves_per_workgroup
    copied = machine.arch in DIRECT_TO_LDS
    buffers = shared_buffers(flow)
    exchange = max((b.size or 0 for b in buffers if b.kind == "exchange" and b.in_loop), default=0)
    lds = exchange + (2 * tiles + 2 * tiles // _PADDING if copied else tiles)
    lanes = subject.function.resources.wave_size or 64
    ahead = 0 if copied else tiles // (_BYTES_OF_A_REGISTER * lanes * waves)
    if lds > machine.lds_max:
        return {**NO_STAGES, "lds": lds, "lds_max": machine.lds_max, "ahead": ahead}
    return {**NO_STAGES, "stages": 2, "ahead": ahead}
