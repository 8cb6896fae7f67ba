"""Webs of spills: the stores to a dword of scratch memory with the reloads that they reach.

LLVM gives a place in scratch memory to one value after another, such as those of two loops that
run one after the other. A web is what holds one value: stores that reach a common reload are of one
web, and so are the reloads that a common store reaches.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct

from ..model import Block, Function
from .scratch_use import spilled_dwords

Dword = tuple[str, int]
"""The register that offsets are added to, and the number of the dword behind it."""
_Node = TypeVar("_Node", bound=Hashable)


class Web(Struct, frozen=True):
    """Stores and reloads of one value in one dword of scratch memory, by index.

    Args:
        stores: the instructions that spill it; empty where the wave starts with it.
        reloads: those that fetch it; empty where nothing does.
    """

    stores: tuple[int, ...]
    reloads: tuple[int, ...]


def webs(function: Function) -> dict[Dword, list[Web]]:
    """Each dword of scratch memory that spills touch -> its webs, by their first instruction."""
    instructions = function.instructions
    stores: dict[Dword, list[int]] = defaultdict(list)
    reloads: dict[Dword, list[int]] = defaultdict(list)
    for index, dwords in sorted(spilled_dwords(function).items()):
        is_load = instructions[index].cls == "scratch_load"
        for dword in dwords:
            (reloads if is_load else stores)[dword].append(index)
    if not stores and not reloads:
        return {}
    block_of = {
        index: block
        for block in function.blocks
        for index in range(block.start, block.stop)
        if instructions[index].cls in ("scratch_load", "scratch_store")
    }
    return {
        dword: _of_dword(function.blocks, block_of, stores[dword], reloads[dword])
        for dword in sorted({*stores, *reloads})
    }


def _of_dword(
    blocks: Sequence[Block],
    block_of: Mapping[int, Block],
    stores: Sequence[int],
    reloads: Sequence[int],
) -> list[Web]:
    last_store = {block_of[store].index: store for store in stores}
    at_start: dict[int, frozenset[int]] = {}
    edges: list[tuple[int, int]] = []
    without_store: list[int] = []
    for reload in reloads:
        block = block_of[reload]
        position = bisect_left(stores, reload)
        if position and stores[position - 1] >= block.start:
            reaching: Iterable[int] = (stores[position - 1],)
        else:
            if block.index not in at_start:
                at_start[block.index] = _reaching(blocks, block, last_store)
            reaching = at_start[block.index]
        edges += ((store, reload) for store in reaching)
        if not reaching:
            without_store.append(reload)
    edges += ((without_store[0], reload) for reload in without_store[1:])
    is_reload = set(reloads)
    of_dword = [
        Web(
            tuple(index for index in members if index not in is_reload),
            tuple(index for index in members if index in is_reload),
        )
        for members in components((*stores, *reloads), edges)
    ]
    return sorted(of_dword, key=lambda web: min(web.stores + web.reloads))


def _reaching(
    blocks: Sequence[Block], block: Block, last_store: Mapping[int, int]
) -> frozenset[int]:
    """The stores that may have written what a dword holds where a block begins."""
    reaching = set()
    seen = set(block.predecessors)
    waiting = list(seen)
    while waiting:
        number = waiting.pop()
        if number in last_store:
            reaching.add(last_store[number])
            continue
        before = set(blocks[number].predecessors) - seen
        seen |= before
        waiting += before
    return frozenset(reaching)


def components(
    nodes: Iterable[_Node], edges: Iterable[tuple[_Node, _Node]]
) -> Iterable[list[_Node]]:
    """The nodes that edges join, each component in the order of `nodes`."""
    parent = {node: node for node in nodes}

    def root(node: _Node) -> _Node:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for first, second in edges:
        parent[root(second)] = root(first)
    joined: dict[_Node, list[_Node]] = defaultdict(list)
    for node in parent:
        joined[root(node)].append(node)
    return joined.values()
