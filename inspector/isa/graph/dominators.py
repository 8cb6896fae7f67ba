"""Dominators of a flow graph, without recursion and in near-linear time.

Works on plain adjacency lists (`successors[i]` are the nodes that follow node `i`), so that tests
can pass any graph. The algorithm is Lengauer and Tarjan's (TOPLAS 1979, the variant with path
compression).
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace


class DominatorTree(Struct, frozen=True):
    """Immediate dominators of a flow graph.

    Args:
        parent: the immediate dominator of each node; None for entries and unreachable nodes.
        entered: by node, the step at which a walk over the tree enters it; -1 if unreachable.
        exited: by node, the step at which the walk has left its subtree: `a` dominates `b` exactly
            when `entered[a] <= entered[b]` and `exited[b] <= exited[a]`.
        order: the reachable nodes, parents first.
        irreducible: the edges that close a cycle at a node which does not dominate their origin.
    """

    parent: tuple[int | None, ...]
    entered: tuple[int, ...]
    exited: tuple[int, ...]
    order: tuple[int, ...]
    irreducible: tuple[tuple[int, int], ...]

    def dominates(self, a: int, b: int) -> bool:
        """Whether every path from an entry to `b` passes `a`."""
        return 0 <= self.entered[a] <= self.entered[b] and self.exited[b] <= self.exited[a]


class _DepthFirst(Struct):
    """A depth-first numbering: `vertex[k]` is the k-th node visited, `number` its inverse.

    `parent[k]` is the number of the k-th node's parent, `finished` the order in which nodes are
    left.
    """

    number: list[int]
    vertex: list[int]
    parent: list[int]
    finished: list[int]


def _search(successors: Sequence[Sequence[int]], root: int) -> _DepthFirst:
    """Numbers the nodes that `root` reaches, depth first."""
    size = len(successors)
    number, finished = [-1] * size, [-1] * size
    vertex, parent = [root], [0]
    number[root] = 0
    done = 0
    stack = [(root, iter(successors[root]))]
    while stack:
        node, remaining = stack[-1]
        for following in remaining:
            if number[following] < 0:
                number[following] = len(vertex)
                vertex.append(following)
                parent.append(number[node])
                stack.append((following, iter(successors[following])))
                break
        else:
            finished[node] = done
            done += 1
            stack.pop()
    return _DepthFirst(number, vertex, parent, finished)


def _immediate_dominators(search: _DepthFirst, predecessors: Sequence[Sequence[int]]) -> list[int]:
    """Immediate dominators by Lengauer and Tarjan, both nodes as depth-first numbers."""
    count = len(search.vertex)
    number, parent = search.number, search.parent
    semi = list(range(count))
    label = list(range(count))
    ancestor = [-1] * count
    dominator = [0] * count
    buckets: list[list[int]] = [[] for _ in range(count)]

    def best(node: int) -> int:
        path = []
        while ancestor[node] >= 0 and ancestor[ancestor[node]] >= 0:
            path.append(node)
            node = ancestor[node]
        for below in reversed(path):
            above = ancestor[below]
            if semi[label[above]] < semi[label[below]]:
                label[below] = label[above]
            ancestor[below] = ancestor[above]
        return label[path[0]] if path else label[node]

    for node in range(count - 1, 0, -1):
        for predecessor in predecessors[search.vertex[node]]:
            k = number[predecessor]
            if k >= 0:
                # A node that is not linked yet (numbered below `node`) is its own best.
                candidate = semi[best(k)] if ancestor[k] >= 0 else semi[k]
                if candidate < semi[node]:
                    semi[node] = candidate
        buckets[semi[node]].append(node)
        above = parent[node]
        ancestor[node] = above
        for member in buckets[above]:
            through = best(member)
            dominator[member] = through if semi[through] < semi[member] else above
        buckets[above].clear()
    for node in range(1, count):
        if dominator[node] != semi[node]:
            dominator[node] = dominator[dominator[node]]
    return dominator


def dominator_tree(
    successors: Sequence[Sequence[int]], entries: Sequence[int] = (0,)
) -> DominatorTree:
    """The dominator tree of a flow graph with one or more entries.

    Args:
        successors: for each node, the nodes that may follow it.
        entries: the nodes where control enters; a virtual node above them is the root.
    """
    size = len(successors)
    if not size:
        return DominatorTree((), (), (), (), ())
    graph: list[Sequence[int]] = [*successors, tuple(entries)]
    search = _search(graph, size)
    dominator = _immediate_dominators(search, _predecessors(graph))
    parent: list[int | None] = [None] * size
    children: list[list[int]] = [[] for _ in graph]
    for k in range(1, len(search.vertex)):
        node, above = search.vertex[k], search.vertex[dominator[k]]
        children[above].append(node)
        parent[node] = above if above != size else None
    entered, exited = _walk(children, size)
    order = tuple(sorted((n for n in range(size) if entered[n] >= 0), key=entered.__getitem__))
    tree = DominatorTree(tuple(parent), tuple(entered), tuple(exited), order, ())
    irreducible = tuple(
        (node, target)
        for node in order
        for target in successors[node]
        if search.number[target] <= search.number[node]
        and search.finished[target] >= search.finished[node]
        and not tree.dominates(target, node)
    )
    return replace(tree, irreducible=irreducible)


def _predecessors(graph: Sequence[Sequence[int]]) -> list[list[int]]:
    predecessors: list[list[int]] = [[] for _ in graph]
    for node, following in enumerate(graph):
        for target in following:
            predecessors[target].append(node)
    return predecessors


def _walk(children: Sequence[Sequence[int]], root: int) -> tuple[list[int], list[int]]:
    """The steps at which a walk over a tree enters each node, and has left its subtree."""
    entered, exited = [-1] * len(children), [-1] * len(children)
    stack = [root]
    clock = 0
    while stack:
        node = stack.pop()
        if node < 0:  # the complement of a node whose subtree is done
            exited[~node] = clock
            continue
        entered[node] = clock
        clock += 1
        stack.append(~node)
        stack.extend(reversed(children[node]))
    return entered, exited
