"""Basic blocks and loops of one function, from its control flow.

Blocks begin at the function's entry, at branch targets, and after instructions that leave the
straight line. A label that nothing branches to ends no block, nor does a call, which returns. Loops
are the cycles over the reachable blocks: natural loops, and cycles with several entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from ...model import Block, Function, Instruction, Loop
from ..mnemonics import FLOW_CLASSES, Flow, flow_of
from .loops import MAX_DEPTH, DominatorTree, LoopShape, all_loops, dominator_tree


class ControlFlow(Struct, frozen=True):
    """The blocks and loops of a function, and notes on what could not be followed."""

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
    if not instructions:
        return ControlFlow((), (), ())
    flows = {
        inst.index: flow
        for inst in instructions
        if inst.op.cls in FLOW_CLASSES
        and (flow := flow_of(inst.op, inst.operands)) not in (Flow.NEXT, Flow.CALL)
    }
    blocks = _blocks(len(instructions), targets, labels, flows, real_entry)
    successors = [block.successors for block in blocks]
    unknown = tuple(unknown_jumps)
    tree = dominator_tree(successors, _entries(blocks) if unknown else (0,))
    shapes, too_deep = all_loops(successors, tree)
    notes = [
        *_jump_notes(instructions, unknown),
        *_loop_notes(instructions, blocks, tree, too_deep),
    ]
    return ControlFlow(blocks, _loops(blocks, shapes, instructions), tuple(notes))


def _jump_notes(instructions: Sequence[Instruction], unknown: Sequence[int]) -> Iterator[str]:
    """Notes on where control goes; `unknown` are jumps whose target could be anywhere."""
    if unknown:
        lines = _abridged_set(instructions[i].line for i in unknown)
        yield (
            f"the target of the jump on line {lines} is not known: "
            "code that nothing else leads to is taken as reachable from it"
        )
    last = instructions[-1]
    flow = flow_of(last.op, last.operands)
    if flow.falls_through and flow is not Flow.CALL:  # a call that never returns may end a function
        yield f"control runs past the last instruction, line {last.line}"


def _loop_notes(
    instructions: Sequence[Instruction], blocks: Sequence[Block], tree: DominatorTree, too_deep: int
) -> Iterator[str]:
    """Notes on loops; `too_deep` is the number of those that are left out."""
    if too_deep:
        yield f"{too_deep} loops nested deeper than {MAX_DEPTH} are not listed"
    if tree.irreducible:
        targets = (instructions[blocks[target].start] for _, target in tree.irreducible)
        lines = _abridged_set(target.line for target in targets)
        yield f"irreducible control flow: a cycle has several entries, at line {lines}"


def abridged(lines: Sequence[int]) -> str:
    """Line numbers in words, the fourth and later ones counted: `3, 7, 9 and 2 more`."""
    text = ", ".join(map(str, lines[:3]))
    return text + (f" and {len(lines) - 3} more" if len(lines) > 3 else "")


def _abridged_set(lines: Iterable[int]) -> str:
    return abridged(sorted(set(lines)))


def _blocks(
    count: int,
    targets: Mapping[int, int],
    labels: Mapping[int, Sequence[str]],
    flows: Mapping[int, Flow],
    real_entry: int,
) -> tuple[Block, ...]:
    """The basic blocks of `count` instructions; `flows` are those that end a block."""
    leaders = {0, real_entry, *targets.values(), *(i + 1 for i in flows)}
    leaders.discard(count)
    starts = sorted(leaders)
    stops = [*starts[1:], count]
    block_at = {start: index for index, start in enumerate(starts)}
    successors: list[list[int]] = []
    predecessors: list[list[int]] = [[] for _ in starts]
    for index, stop in enumerate(stops):
        following = []
        if flows.get(stop - 1, Flow.NEXT).falls_through and index + 1 < len(starts):
            following.append(index + 1)
        target = targets.get(stop - 1)
        if target is not None and stop - 1 in flows and block_at[target] not in following:
            following.append(block_at[target])
        if not index and real_entry and block_at[real_entry] not in following:
            following.append(block_at[real_entry])  # the header stands for the jump over it
        successors.append(following)
        for block in following:
            predecessors[block].append(index)
    return tuple(
        Block(
            index=index,
            start=start,
            stop=stops[index],
            labels=tuple(labels.get(start, ())),
            successors=tuple(successors[index]),
            predecessors=tuple(predecessors[index]),
        )
        for index, start in enumerate(starts)
    )


def dominators(function: Function) -> DominatorTree:
    """The dominator tree over the blocks of a function."""
    return dominator_tree([block.successors for block in function.blocks])


def innermost_loops(function: Function) -> dict[int, Loop]:
    """Block index -> the innermost loop that contains it; blocks outside loops are absent."""
    owner: dict[int, Loop] = {}
    for loop in sorted(function.loops, key=lambda item: item.depth):
        for block in loop.blocks:
            owner[block] = loop
    return owner


def _entries(blocks: Sequence[Block]) -> tuple[int, ...]:
    """Block 0 and, in order, every block that no earlier entry leads to."""
    entries: list[int] = []
    visited = [False] * len(blocks)
    rootless = [block.index for block in blocks if not block.predecessors]
    for candidate in (0, *rootless, *range(len(blocks))):
        if visited[candidate]:
            continue
        entries.append(candidate)
        visited[candidate] = True
        work = [candidate]
        while work:
            for block in blocks[work.pop()].successors:
                if not visited[block]:
                    visited[block] = True
                    work.append(block)
    return tuple(entries)


def _loops(
    blocks: Sequence[Block], shapes: Sequence[LoopShape], instructions: Sequence[Instruction]
) -> tuple[Loop, ...]:
    """The loops in order of their headers' lines, with ids from L0 on."""
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
    """The ranges of lines, first and last included, that the blocks `nodes` cover."""
    ranges: list[tuple[int, int]] = []
    previous = -2
    for node in nodes:
        block = blocks[node]
        # Lines need not ascend within a block: a macro's instructions stand where it is used.
        first_line = instructions[block.start].line
        last_line = instructions[block.stop - 1].line
        if previous == node - 1 and first_line >= ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], max(first_line, last_line))
        else:
            ranges.append((min(first_line, last_line), max(first_line, last_line)))
        previous = node
    ranges.sort()
    merged: list[tuple[int, int]] = []
    for first_line, last_line in ranges:
        if merged and first_line <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(last_line, merged[-1][1]))
        else:
            merged.append((first_line, last_line))
    return tuple(merged)


def loop_of(function: Function) -> dict[int, Loop]:
    """Index of each instruction in a loop -> the innermost loop around it."""
    owner = innermost_loops(function)
    return {
        index: owner[block.index]
        for block in function.blocks
        if block.index in owner
        for index in range(block.start, block.stop)
    }
