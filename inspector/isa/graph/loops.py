"""Dominators and loops of a flow graph, without recursion and in near-linear time.

Works on plain adjacency lists (`successors[i]` are the nodes that follow node `i`), so that tests
can hand it any graph. Dominators are Lengauer and Tarjan's (TOPLAS 1979, the variant with path
compression); the nesting of loops is found with a union-find over collapsed inner loops, after
Havlak (TOPLAS 1997), restricted to natural loops.

Hand-written kernels jump into the middle of their loops. Such a cycle has no header that dominates
it, so it is no natural loop; it is a strongly connected component of the flow graph all the same,
and what runs in it runs again and again. All blocks of the component are one loop: which of its
paths is an inner loop and which an outer one depends on where it was entered, and is not told.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

MAX_DEPTH = 64
"""Loops nested deeper are left out: the block lists of a nest grow with depth times size, and no
compiler output comes near it."""


class DominatorTree(Struct, frozen=True):
    """Immediate dominators. Nodes that no entry reaches have None and are in no `order`.

    `entered` and `left` number the tree so that `a` dominates `b` exactly when
    `entered[a] <= entered[b]` and `left[b] <= left[a]`. `irreducible` are the edges that close a
    cycle at a node which does not dominate the edge's origin.
    """

    parent: tuple[int | None, ...]
    entered: tuple[int, ...]
    left: tuple[int, ...]
    order: tuple[int, ...]
    irreducible: tuple[tuple[int, int], ...]

    def dominates(self, a: int, b: int) -> bool:
        """Whether every path from an entry to `b` passes `a`."""
        return 0 <= self.entered[a] <= self.entered[b] and self.left[b] <= self.left[a]


class LoopShape(Struct, frozen=True):
    """A cycle over node numbers; `parent` is the index of the enclosing one.

    `irreducible`: it has several entries; `header` is the first of them.
    """

    header: int
    nodes: tuple[int, ...]
    latches: tuple[int, ...]
    depth: int
    parent: int | None
    irreducible: bool = False


class _Search(Struct):
    """Depth-first numbering: `vertex[k]` is the k-th node visited, `number` its inverse."""

    number: list[int]
    vertex: list[int]
    parent: list[int]
    finished: list[int]


def _search(successors: Sequence[Sequence[int]], root: int) -> _Search:
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
    return _Search(number, vertex, parent, finished)


def _immediate_dominators(search: _Search, predecessors: Sequence[Sequence[int]]) -> list[int]:
    """Lengauer-Tarjan over depth-first numbers; entry k is the number of k's dominator."""
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
                # A node not yet linked (numbered below `node`) answers for itself.
                candidate = semi[best(k)] if ancestor[k] >= 0 else semi[k]
                if candidate < semi[node]:
                    semi[node] = candidate
        buckets[semi[node]].append(node)
        above = parent[node]
        ancestor[node] = above
        for waiting in buckets[above]:
            through = best(waiting)
            dominator[waiting] = through if semi[through] < semi[waiting] else above
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
        entries: where control comes in; with several, a virtual node above them is the root.
    """
    size = len(successors)
    if not size:
        return DominatorTree((), (), (), (), ())
    graph: list[Sequence[int]] = [*successors, tuple(entries)]
    predecessors: list[list[int]] = [[] for _ in graph]
    for node, following in enumerate(graph):
        for target in following:
            predecessors[target].append(node)
    search = _search(graph, size)
    dominator = _immediate_dominators(search, predecessors)

    parent: list[int | None] = [None] * size
    children: list[list[int]] = [[] for _ in graph]
    for k in range(1, len(search.vertex)):
        node, above = search.vertex[k], search.vertex[dominator[k]]
        children[above].append(node)
        parent[node] = above if above != size else None
    entered, left, order = [-1] * (size + 1), [-1] * (size + 1), []
    stack = [size]
    clock = 0
    while stack:
        node = stack.pop()
        if node < 0:
            left[~node] = clock
            continue
        entered[node] = clock
        clock += 1
        if node != size:
            order.append(node)
        stack.append(~node)
        stack.extend(reversed(children[node]))
    tree = DominatorTree(tuple(parent), tuple(entered), tuple(left), tuple(order), ())
    irreducible = tuple(
        (node, target)
        for node in order
        for target in successors[node]
        if search.number[target] <= search.number[node]
        and search.finished[target] >= search.finished[node]
        and not tree.dominates(target, node)
    )
    return DominatorTree(tree.parent, tree.entered, tree.left, tree.order, irreducible)


def natural_loops(
    successors: Sequence[Sequence[int]], tree: DominatorTree
) -> tuple[tuple[LoopShape, ...], int]:
    """The natural loops, one per header (back edges to the same header are merged).

    Returns:
        The loops in order of their header's node number, and how many were left out because they
        are nested deeper than `MAX_DEPTH`.
    """
    size = len(successors)
    latches: dict[int, list[int]] = {}
    predecessors: list[list[int]] = [[] for _ in range(size)]
    for node in tree.order:
        for target in successors[node]:
            predecessors[target].append(node)
            if tree.dominates(target, node):
                latches.setdefault(target, []).append(node)
    if not latches:
        return (), 0

    group = list(range(size))  # union-find: the header of the outermost loop a node is already in

    def representative(node: int) -> int:
        root = node
        while group[root] != root:
            root = group[root]
        while group[node] != root:
            group[node], node = root, group[node]
        return root

    innermost: list[int | None] = [None] * size
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

    depth: dict[int, int] = {}
    shallow_header: dict[int, int] = {}  # the innermost loop around a header that is not too deep
    for header in sorted(latches, key=lambda h: tree.entered[h]):
        above = outer[header]
        depth[header] = 1 if above is None else depth[above] + 1
        too_deep = above is not None and depth[header] > MAX_DEPTH
        shallow_header[header] = shallow_header[above] if too_deep and above is not None else header
    headers = [header for header in sorted(latches) if depth[header] <= MAX_DEPTH]
    index = {header: i for i, header in enumerate(headers)}
    members: list[list[int]] = [[] for _ in headers]
    for node in range(size):
        nearest = innermost[node]
        loop = None if nearest is None else shallow_header[nearest]
        while loop is not None:
            members[index[loop]].append(node)
            loop = outer[loop]
    shapes = []
    for i, header in enumerate(headers):
        above = outer[header]
        shapes.append(
            LoopShape(
                header=header,
                nodes=tuple(members[i]),
                latches=tuple(sorted(set(latches[header]))),
                depth=depth[header],
                parent=None if above is None else index[above],
            )
        )
    return tuple(shapes), len(latches) - len(headers)


# --------------------------------------------------------------------------- several entries


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
