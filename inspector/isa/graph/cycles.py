"""Cycles that can be entered at several places, put among the natural loops.

Hand-written kernels jump into the middle of their loops. Such a cycle has no header that dominates
it, so it is no natural loop; it is a strongly connected component of the flow graph all the same,
and what runs in it runs again and again. All blocks of the component are one loop: which of its
paths is an inner loop and which an outer one depends on where it was entered, and is not told.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from msgspec.structs import replace

from .loops import DominatorTree, LoopShape, natural_loops


def all_loops(
    successors: Sequence[Sequence[int]], tree: DominatorTree
) -> tuple[tuple[LoopShape, ...], int]:
    """The natural loops and the irreducible cycles, nested in each other.

    Args:
        successors: for each node, the nodes that may follow it.
        tree: the dominator tree of that graph.

    Returns:
        The loops in order of their header's node number, and how many were left out because they
        are nested too deeply.
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


def _regions(
    natural: Sequence[LoopShape], tree: DominatorTree
) -> Iterator[tuple[frozenset[int], list[tuple[int, int]]]]:
    """Where to look for the cycles: the body of the natural loop around each, header excluded."""
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
                    component = set()
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        component.add(member)
                        if member == node:
                            break
                    if len(component) > 1:
                        yield frozenset(component)


def _nested(loops: Sequence[LoopShape]) -> tuple[LoopShape, ...]:
    """Depths and parents anew: any two of the loops lie one in the other, or apart."""
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
