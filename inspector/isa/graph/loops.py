"""Loops of a flow graph, without recursion and in near-linear time.

Works on plain adjacency lists, as `dominators.py`. The nesting of natural loops is computed with a
union-find over collapsed inner loops, after Havlak (TOPLAS 1997), restricted to natural loops.

Hand-written kernels jump into the middle of their loops. Such a cycle has no header that dominates
it, so it is no natural loop, but it is a strongly connected component of the flow graph. All blocks
of the component count as one loop: which of its cycles is the inner one depends on where control
entered it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from .dominators import DominatorTree

MAX_DEPTH = 64
"""Loops nested deeper are left out: the block lists of a nest grow with depth times size, and no
compiler output comes near it."""


class LoopShape(Struct, frozen=True):
    """A cycle over node numbers.

    Args:
        header: the node that control enters by; the first of several where it is irreducible.
        nodes: its nodes, ascending.
        latches: the nodes that lead back to the header.
        depth: 1 for a loop that lies in no other.
        parent: index of the enclosing loop; None without one.
        irreducible: whether it has several entries.
    """

    header: int
    nodes: tuple[int, ...]
    latches: tuple[int, ...]
    depth: int
    parent: int | None
    irreducible: bool = False


def all_loops(
    successors: Sequence[Sequence[int]], tree: DominatorTree
) -> tuple[tuple[LoopShape, ...], int]:
    """The natural loops and the irreducible cycles, nested in each other.

    Args:
        successors: for each node, the nodes that may follow it.
        tree: the dominator tree of that graph.

    Returns:
        The loops in order of their header's node number, and the number left out because they are
        nested too deeply.
    """
    natural, too_deep = natural_loops(successors, tree)
    if not tree.irreducible:
        return natural, too_deep
    predecessors: list[list[int]] = [[] for _ in successors]
    for node in tree.order:
        for following in successors[node]:
            predecessors[following].append(node)
    irreducible = [
        _irreducible(component, tree, predecessors)
        for region, edges in _regions(natural, tree)
        for component in _components(successors, region)
        if any(a in component and b in component for a, b in edges)
    ]
    return _nested((*natural, *irreducible)), too_deep


def natural_loops(
    successors: Sequence[Sequence[int]], tree: DominatorTree
) -> tuple[tuple[LoopShape, ...], int]:
    """The natural loops, one per header (back edges to the same header are merged).

    Returns:
        The loops in order of their header's node number, and the number left out because they are
        nested deeper than `MAX_DEPTH`.
    """
    latches: dict[int, list[int]] = {}
    predecessors: list[list[int]] = [[] for _ in successors]
    for node in tree.order:
        for target in successors[node]:
            predecessors[target].append(node)
            if tree.dominates(target, node):
                latches.setdefault(target, []).append(node)
    if not latches:
        return (), 0
    innermost, outer = _nesting(latches, predecessors, tree)
    depth: dict[int, int] = {}
    shallow_header: dict[int, int] = {}  # the innermost loop around a header that is not too deep
    for header in sorted(latches, key=tree.entered.__getitem__):
        above = outer[header]
        depth[header] = 1 if above is None else depth[above] + 1
        is_listed = depth[header] <= MAX_DEPTH
        shallow_header[header] = header if above is None or is_listed else shallow_header[above]
    headers = [header for header in sorted(latches) if depth[header] <= MAX_DEPTH]
    index = {header: i for i, header in enumerate(headers)}
    members: list[list[int]] = [[] for _ in headers]
    for node, nearest in enumerate(innermost):
        loop = None if nearest is None else shallow_header[nearest]
        while loop is not None:
            members[index[loop]].append(node)
            loop = outer[loop]
    parents = [outer[header] for header in headers]
    shapes = tuple(
        LoopShape(
            header=header,
            nodes=tuple(members[i]),
            latches=tuple(sorted(set(latches[header]))),
            depth=depth[header],
            parent=None if parent is None else index[parent],
        )
        for i, (header, parent) in enumerate(zip(headers, parents, strict=True))
    )
    return shapes, len(latches) - len(headers)


def _nesting(
    latches: Mapping[int, Sequence[int]],
    predecessors: Sequence[Sequence[int]],
    tree: DominatorTree,
) -> tuple[list[int | None], dict[int, int | None]]:
    """The header of the innermost loop around each node, and of the loop around each header."""
    # Union-find: the header of the outermost loop so far that a node belongs to.
    group = list(range(len(predecessors)))

    def representative(node: int) -> int:
        root = node
        while group[root] != root:
            root = group[root]
        while group[node] != root:
            group[node], node = root, group[node]
        return root

    innermost: list[int | None] = [None] * len(predecessors)
    outer: dict[int, int | None] = {}
    # Inner loops first: the header of an outer loop dominates theirs, so it was entered before.
    for header in sorted(latches, key=lambda h: tree.entered[h], reverse=True):
        innermost[header] = header
        outer[header] = None
        work = [representative(latch) for latch in latches[header]]
        while work:
            node = work.pop()
            if representative(node) == header:
                continue
            group[node] = header
            if node in outer:
                outer[node] = header
            else:
                innermost[node] = header
            work.extend(representative(p) for p in predecessors[node])
    return innermost, outer


def _regions(
    natural: Sequence[LoopShape], tree: DominatorTree
) -> Iterator[tuple[frozenset[int], list[tuple[int, int]]]]:
    """Yields the nodes to search for cycles, with the irreducible edges among them."""
    members = [frozenset(loop.nodes) for loop in natural]
    order = sorted(range(len(natural)), key=lambda i: natural[i].depth, reverse=True)
    around: dict[int | None, list[tuple[int, int]]] = {}
    for origin, target in tree.irreducible:
        inner = (i for i in order if origin in members[i] and target in members[i])
        around.setdefault(next(inner, None), []).append((origin, target))
    for loop, edges in around.items():
        if loop is None:
            yield frozenset(tree.order), edges
        else:
            yield members[loop] - {natural[loop].header}, edges


def _irreducible(
    component: frozenset[int], tree: DominatorTree, predecessors: Sequence[Sequence[int]]
) -> LoopShape:
    """The loop of a strongly connected component with several entries."""
    entries = sorted(
        n
        for n in component
        if tree.parent[n] is None or any(p not in component for p in predecessors[n])
    )
    latches = {p for entry in entries for p in predecessors[entry] if p in component}
    return LoopShape(
        header=entries[0],
        nodes=tuple(sorted(component)),
        latches=tuple(sorted(latches)),
        depth=0,
        parent=None,
        irreducible=True,
    )


def _components(
    successors: Sequence[Sequence[int]], region: Collection[int]
) -> Iterator[frozenset[int]]:
    """Strongly connected components of more than one node within a region (Tarjan, 1972)."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    for root in sorted(region):
        if root in number:
            continue
        number[root] = low[root] = len(number)
        stack.append(root)
        on_stack.add(root)
        work = [(root, iter(successors[root]))]
        while work:
            node, remaining = work[-1]
            for following in remaining:
                if following not in region:
                    continue
                if following not in number:
                    number[following] = low[following] = len(number)
                    stack.append(following)
                    on_stack.add(following)
                    work.append((following, iter(successors[following])))
                    break
                if following in on_stack:
                    low[node] = min(low[node], number[following])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == number[node]:
                    component = _popped_to(node, stack)
                    on_stack -= component
                    if len(component) > 1:
                        yield component


def _popped_to(node: int, stack: list[int]) -> frozenset[int]:
    """Takes the nodes from `node` on off a stack."""
    popped = [stack.pop()]
    while popped[-1] != node:
        popped.append(stack.pop())
    return frozenset(popped)


def _nested(loops: Sequence[LoopShape]) -> tuple[LoopShape, ...]:
    """Sets depths and parents of loops, any two of which are nested or disjoint."""
    ordered = sorted(loops, key=lambda loop: (loop.header, -len(loop.nodes)))
    innermost: dict[int, int] = {}
    depth = [1] * len(ordered)
    parent: list[int | None] = [None] * len(ordered)
    for i in sorted(range(len(ordered)), key=lambda i: len(ordered[i].nodes), reverse=True):
        above = innermost.get(ordered[i].nodes[0])
        if above is not None:
            parent[i], depth[i] = above, depth[above] + 1
        innermost.update(dict.fromkeys(ordered[i].nodes, i))
    return tuple(replace(loop, depth=depth[i], parent=parent[i]) for i, loop in enumerate(ordered))
