"""Loops with their per-iteration metrics, and the choice of hot loops.

Without a profile no loop is known to be hot. The rule here is static and plain: the loops that do
the kind of work the kernel exists for. Those are the loops with matrix instructions of their own
that contain no such loop; else the innermost loops with global or LDS traffic, or failing that all
innermost ones. An outer loop that does the matrix work itself is hot whatever small loop it
contains: hand-written kernels loop over a few scalar instructions inside of their main loop. But
where a loop in it moves data and is half as long or longer, that one is hot: with two trips it is
most of an iteration of the outer one. Loops over the different values of a register that must be
scalar (waterfall loops) belong to the code around them: where all lanes have the same, as with a
base address, they go round once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from ..model import Function, Instruction, Loop, LoopHeader, LoopReport, Metric, SourceLoc, int_of
from .loop_shape import MAIN, unroll_factor
from .subject import Subject

_MATRIX = ("count.mfma", "count.wmma")
_TRAFFIC = (
    "count.global_load",
    "count.global_store",
    "count.lds_direct",
    "count.lds_read",
    "count.lds_write",
    "count.atomic",
)
_LONG = 0.5  # share of its outer loop's own instructions


def reports(
    subject: Subject,
    own_code: Mapping[str, Sequence[Instruction]],
    metrics: Mapping[str, Mapping[str, Metric]],
) -> tuple[LoopReport, ...]:
    """Every loop of the kernel, in the order of their ids.

    `metrics`: loop id -> its metrics, of which counts are read.
    """
    function = subject.function
    waterfalls = {loop.id for loop in function.loops if _is_waterfall(own_code[loop.id])}
    hot = hot_loops(function.loops, metrics, waterfalls)
    return tuple(
        LoopReport(
            id=loop.id,
            depth=loop.depth,
            parent=loop.parent,
            header=LoopHeader(
                _header_line(function, loop), next(iter(function.blocks[loop.header].labels), None)
            ),
            lines=loop.lines,
            source=_source_lines(function, loop, own_code[loop.id]),
            hot=loop.id in hot,
            unroll=unroll_factor(own_code[loop.id], subject.ttgir),
            metrics=metrics[loop.id],
            irreducible=loop.irreducible,
        )
        for loop in function.loops
    )


def hot_loops(
    loops: Sequence[Loop],
    metrics: Mapping[str, Mapping[str, Metric]],
    waterfalls: Set[str] = frozenset(),
) -> set[str]:
    """Ids of the loops that do the kernel's work, by the module's rule.

    `metrics`: of each; `waterfalls`: ids of those that only go over the values of a register.
    """
    moving = {loop.parent for loop in loops if loop.id in waterfalls}  # loops with their accesses
    loops = [loop for loop in loops if loop.id not in waterfalls] or loops
    multiplying = [loop for loop in loops if _does(metrics[loop.id], _MATRIX)]
    if multiplying:
        hot = {loop.id for loop in multiplying} - _enclosing(multiplying, loops)
        longer = [loop for loop in loops if _outdoes_parent(loop, hot, metrics)]
        return (hot - _enclosing(longer, loops)) | {loop.id for loop in longer}
    parents = {loop.parent for loop in loops}
    innermost = {loop.id for loop in loops if loop.id not in parents}
    busy = {i for i in innermost if i in moving or _does(metrics[i], _TRAFFIC)}
    return busy or innermost


def _is_waterfall(code: Sequence[Instruction]) -> bool:
    """Whether a loop goes over the values that lanes have of a register, one value at a time.

    It reads the first lane's, leaves on the lanes with the same, does with it what it is for, and
    takes these lanes off; LLVM writes it for descriptors and bases in vector registers.
    """
    names = [inst.op.name for inst in code]
    return (
        bool(names)
        and names[-1] == "s_cbranch_execnz"
        and any(name.startswith("v_readfirstlane") for name in names)
        and any(name.startswith("v_cmp_eq") for name in names)
        and sum(name.startswith("s_and_saveexec") for name in names) == 1
        and any(name.startswith(("s_xor_b", "s_andn2_b")) for name in names)
    )


def _outdoes_parent(loop: Loop, hot: set[str], metrics: Mapping[str, Mapping[str, Metric]]) -> bool:
    """Whether a loop directly in a hot one does most of the other's work."""
    outer = loop.parent
    if outer is None or outer not in hot or not _does(metrics[loop.id], _TRAFFIC):
        return False
    of_inner, of_outer = (
        _count(metrics[loop_id], "count.instructions") for loop_id in (loop.id, outer)
    )
    return of_inner >= _LONG * of_outer


def _enclosing(inner: Sequence[Loop], loops: Sequence[Loop]) -> set[str]:
    """Ids of the loops around any of `inner`."""
    parents = {loop.id: loop.parent for loop in loops}
    enclosing_ids: set[str] = set()
    for loop in inner:
        above = loop.parent
        while above is not None and above not in enclosing_ids:
            enclosing_ids.add(above)
            above = parents[above]
    return enclosing_ids


def _does(metrics: Mapping[str, Metric], names: Sequence[str]) -> bool:
    return any(_count(metrics, name) for name in names)


def main_loop(loops: Sequence[LoopReport]) -> LoopReport | None:
    """The hot loop that does most per iteration; the first in the file where several tie."""
    hot = [loop for loop in loops if loop.hot]
    return max(hot, key=_weight, default=None)


def main_metrics(loops: Sequence[LoopReport]) -> dict[str, dict[str, Metric]]:
    """Loop id -> whether it is the main loop."""
    main = main_loop(loops)
    return {loop.id: {MAIN: Metric(MAIN, loop is main, "bool", "derived")} for loop in loops}


def _weight(loop: LoopReport) -> tuple[int, int]:
    matrix = sum(_count(loop.metrics, name) for name in _MATRIX)
    traffic = sum(_count(loop.metrics, name) for name in _TRAFFIC)
    return (matrix, traffic)


def _count(metrics: Mapping[str, Metric], name: str) -> int:
    return int_of(metrics, name) or 0


def _header_line(function: Function, loop: Loop) -> int:
    block = function.blocks[loop.header]
    return function.instructions[block.start].line


def _source_lines(
    function: Function, loop: Loop, region: Sequence[Instruction]
) -> tuple[SourceLoc, ...]:
    """Distinct source lines of the loop's body, in the function with the loop statement."""
    control = _control(function, loop)
    # Equal locations are mostly one object.
    locs = {id(inst.loc): inst.loc for inst in region if inst.loc is not None}
    chains = [_frames(loc) for loc in locs.values()]
    if control is None:
        return _distinct([chain[0] for chain in chains])
    level = len(control) - 1
    outer = [(frame.file, frame.line) for frame in control[:level]]
    statement = control[level]
    inside = [
        chain[level]
        for chain in chains
        if len(chain) > level and [(frame.file, frame.line) for frame in chain[:level]] == outer
    ]
    body = [
        frame for frame in inside if frame.file == statement.file and frame.line >= statement.line
    ]
    return _distinct([statement, *body])


def _control(function: Function, loop: Loop) -> list[SourceLoc] | None:
    """Frames of the loop statement, outermost first, from a latch's last instruction."""
    for latch in loop.latches:
        loc = function.instructions[function.blocks[latch].stop - 1].loc
        if loc is not None:
            frames = _frames(loc)
            while len(frames) > 1 and frames[-1].in_library:
                frames.pop()
            return frames
    return None


def _distinct(locs: Sequence[SourceLoc]) -> tuple[SourceLoc, ...]:
    file_lines = sorted({(loc.file, loc.line) for loc in locs})
    return tuple(SourceLoc(file, line) for file, line in file_lines)


def _frames(loc: SourceLoc) -> list[SourceLoc]:
    """The inlining chain, outermost first."""
    frames = []
    frame: SourceLoc | None = loc
    while frame is not None:
        frames.append(frame)
        frame = frame.inlined_at
    frames.reverse()
    return frames
