"""Basic blocks and loops of one function, from its real control flow.

Blocks begin at the function's entry, at branch targets, and after instructions that leave the
straight line. A label that nothing branches to ends no block, and a call does not either: it comes
back. Loops are the cycles over the blocks that control can reach: natural loops, and cycles that
can be entered at several places.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from ...model import Block, Function, Instruction, Loop
from ..mnemonics import FLOW_CLASSES, Flow, flow_of
from .loops import MAX_DEPTH, DominatorTree, LoopShape, all_loops, dominator_tree


class ControlFlow(Struct, frozen=True):
    """The blocks, loops and remarks on what could not be followed."""

    blocks: tuple[Block, ...]
    loops: tuple[Loop, ...]
    notes: tuple[str, ...]


def build(
    instructions: Sequence[Instruction],
    targets: Mapping[int, int],
    labels: Mapping[int, Sequence[str]],
    *,
    unknown_jumps: Iterable[int] = (),
    real_entry: int = 0,
) -> ControlFlow:
    """Cuts a function into blocks and finds its loops.

    Args:
        instructions: the function's instructions, `index` counting from 0.
        targets: for each branch whose target lies in the function, the index it goes to.
        labels: the labels that stand at an index.
        unknown_jumps: jumps whose target could be anywhere in the function.
        real_entry: where the hardware begins if not at the first instruction: behind a header for
            firmware that does not preload arguments.
    """
    count = len(instructions)
    if not count:
        return ControlFlow((), (), ())
    leaders = {0, real_entry, *targets.values()}
    flows: dict[int, Flow] = {}
    for i, instruction in enumerate(instructions):
        if instruction.op.cls in FLOW_CLASSES:
            flow = flow_of(instruction.op, instruction.operands)
            if flow is not Flow.NEXT and flow is not Flow.CALL:
                flows[i] = flow
                leaders.add(i + 1)
    leaders.discard(count)
    starts = sorted(leaders)
    stops = [*starts[1:], count]
    block_at = {start: index for index, start in enumerate(starts)}

    successors: list[tuple[int, ...]] = []
    for index, stop in enumerate(stops):
        last = stop - 1
        following = []
        if flows.get(last, Flow.NEXT).falls_through and index + 1 < len(starts):
            following.append(index + 1)
        target = targets.get(last)
        if target is not None and last in flows:
            block = block_at[target]
            if block not in following:
                following.append(block)
        if not index and real_entry and block_at[real_entry] not in following:
            following.append(block_at[real_entry])  # the header stands for the jump over it
        successors.append(tuple(following))
    predecessors: list[list[int]] = [[] for _ in starts]
    for index, following_blocks in enumerate(successors):
        for block in following_blocks:
            predecessors[block].append(index)
    blocks = tuple(
        Block(
            index=index,
            start=start,
            stop=stops[index],
            labels=tuple(labels.get(start, ())),
            successors=successors[index],
            predecessors=tuple(predecessors[index]),
        )
        for index, start in enumerate(starts)
    )

    notes = []
    unknown = tuple(unknown_jumps)
    if unknown:
        lines = _few(instructions[i].line for i in unknown)
        notes.append(
            f"the target of the jump on line {lines} is not known: "
            "code that nothing else leads to is taken as reachable from it"
        )
    last_instruction = instructions[-1]
    # A call that never returns may end a function.
    is_call = flow_of(last_instruction.op, last_instruction.operands) is Flow.CALL
    if flows.get(count - 1, Flow.NEXT).falls_through and not is_call:
        notes.append(f"control runs past the last instruction, line {last_instruction.line}")
    tree = dominator_tree(successors, _entries(successors, predecessors) if unknown else (0,))
    shapes, too_deep = all_loops(successors, tree)
    if too_deep:
        notes.append(f"{too_deep} loops nested deeper than {MAX_DEPTH} are not listed")
    if tree.irreducible:
        lines = _few(instructions[blocks[target].start].line for _, target in tree.irreducible)
        notes.append(f"irreducible control flow: a cycle has several entries, at line {lines}")
    return ControlFlow(blocks, _loops(blocks, shapes, instructions), tuple(notes))


def dominators(function: Function) -> DominatorTree:
    """The dominator tree over the blocks of a function."""
    return dominator_tree([block.successors for block in function.blocks])


def _few(lines: Iterable[int]) -> str:
    distinct = sorted(set(lines))
    text = ", ".join(map(str, distinct[:3]))
    return text + (f" and {len(distinct) - 3} more" if len(distinct) > 3 else "")


def _entries(
    successors: Sequence[Sequence[int]], predecessors: Sequence[Sequence[int]]
) -> tuple[int, ...]:
    """Block 0 and, in order, every block that none of those before leads to.

    Blocks without predecessors come first, so that an unreached cycle is entered where the code
    outside of it enters it, if anything does.
    """
    entries: list[int] = []
    visited = [False] * len(successors)
    rootless = [i for i, block_predecessors in enumerate(predecessors) if not block_predecessors]
    for candidate in (0, *rootless, *range(len(successors))):
        if visited[candidate]:
            continue
        entries.append(candidate)
        visited[candidate] = True
        work = [candidate]
        while work:
            for block in successors[work.pop()]:
                if not visited[block]:
                    visited[block] = True
                    work.append(block)
    return tuple(entries)


def _loops(
    blocks: Sequence[Block], shapes: Sequence[LoopShape], instructions: Sequence[Instruction]
) -> tuple[Loop, ...]:
    header_line = [instructions[blocks[shape.header].start].line for shape in shapes]
    order = sorted(range(len(shapes)), key=lambda i: (header_line[i], shapes[i].header))
    ids = {shape: f"L{k}" for k, shape in enumerate(order)}
    loops = []
    for i in order:
        shape = shapes[i]
        loops.append(
            Loop(
                id=ids[i],
                header=shape.header,
                blocks=shape.nodes,
                latches=shape.latches,
                depth=shape.depth,
                parent=None if shape.parent is None else ids[shape.parent],
                lines=_line_ranges(blocks, shape.nodes, instructions),
                irreducible=shape.irreducible,
            )
        )
    return tuple(loops)


def _line_ranges(
    blocks: Sequence[Block], nodes: Sequence[int], instructions: Sequence[Instruction]
) -> tuple[tuple[int, int], ...]:
    ranges: list[tuple[int, int]] = []
    previous = -2
    for node in nodes:
        block = blocks[node]
        # Lines need not ascend within a block: a macro's instructions stand where it is used.
        first = instructions[block.start].line
        last = instructions[block.stop - 1].line
        if previous == node - 1 and first >= ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], max(first, last))
        else:
            ranges.append((min(first, last), max(first, last)))
        previous = node
    ranges.sort()
    merged: list[tuple[int, int]] = []
    for first, last in ranges:
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return tuple(merged)
