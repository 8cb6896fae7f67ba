"""Loops and dominators of a flow graph, without recursion and in near-linear time.

Works on plain adjacency lists (`successors[i]` are the nodes that follow node `i`), so that tests
can pass any graph. Dominators are computed by the algorithm of Lengauer and Tarjan (TOPLAS 1979,
with path compression), the nesting of natural loops with a union-find over collapsed inner loops,
after Havlak (TOPLAS 1997).

Hand-written kernels jump into the middle of their loops. Such a cycle has no header that dominates
it, so it is no natural loop, but it is a strongly connected component of the flow graph. All blocks
of the component count as one loop: which of its cycles is the inner one depends on where control
entered it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

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
