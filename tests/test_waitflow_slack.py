"""The slack of waits against a search over every instruction and count, forwards with networkx."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import counter_machine
import networkx as nx
import pytest
from hypothesis import given, settings
from kept_compiles import collect_kept
from kinspect.inspector import machines
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.isa.waitflow.slack import Slack, slacks
from kinspect.inspector.isa.waitflow.steps import steps_of
from kinspect.inspector.isa.waitflow.verdicts import JudgedWait, judge
from kinspect.inspector.machines import matrix_cycles
from kinspect.inspector.model import Function, Instruction
from kinspect.inspector.pipeline.jobs import Request
from test_waitflow import function_of, programs, small, waits_in

pytestmark = pytest.mark.xdist_group(name="suite")  # they compile the same kernels

ROOT = Path(__file__).parent.parent
ARCHS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")
LONG = 70
"""More than any counter counts."""
STEP = 1 << 32
"""What one instruction weighs against its cycles: the way is the shortest, then the cheapest."""


def cycles_on(arch: str, inst: Instruction) -> int | None:
    if not inst.mnemonic.startswith(("v_mfma", "v_smfmac", "v_wmma", "v_swmmac")):
        return 0
    return matrix_cycles(machines.load(arch), inst.op.name, inst.operands)


def measured(
    function: Function, arch: str, limits: Mapping[str, int]
) -> list[tuple[JudgedWait, Slack | None]]:
    waits = waits_in(function, arch)
    steps = steps_of(function, limits, lambda inst: waits.get(inst.index, {}))
    found = judge(steps, function, limits).waits
    cycles = {
        inst.index: cycles_on(arch, inst)
        for inst in function.instructions
        if inst.cls in ("mfma", "wmma")
    }
    return list(zip(found, slacks(steps, function.blocks, cycles, found), strict=True))


class Ways:
    """Every way that one operation can go until something ends it."""

    def __init__(self, function: Function, arch: str) -> None:
        self.code = function.instructions
        self.arch = arch
        self.waits = waits_in(function, arch)
        gen = counter_machine.generation(arch)
        self.issued = [counter_machine.issued(inst, gen) for inst in self.code]
        self.after = counter_machine._successors(function)
        self.graphs: dict[int, nx.DiGraph] = {}

    def shortest(self, one: JudgedWait) -> tuple[int, int] | None:
        """Instructions and cycles to a wait from the nearest of what it waits for."""
        best = None
        for producer in one.waits_for:
            graph = self.graph(producer)
            ways = nx.single_source_dijkstra_path_length(graph, (producer, -1), weight="weight")
            for (place, younger), weight in ways.items():
                if place == one.index and younger >= 0 and self.ends(producer, younger, one.n):
                    best = weight if best is None else min(best, weight)
        return None if best is None else divmod(best, STEP)

    def ends(self, producer: int, younger: int, n: int) -> bool:
        operation = self.issued[producer]
        assert operation is not None
        return n == 0 or (operation.ordered and younger >= n)

    def graph(self, producer: int) -> nx.DiGraph:
        """Nodes (instruction about to run, younger operations); an edge weighs what it passes."""
        if producer in self.graphs:
            return self.graphs[producer]
        graph = nx.DiGraph()
        todo = [(producer, -1)]
        while todo:
            node = todo.pop()
            for following in self.moves(producer, node):
                weight = 0
                if node != (producer, -1):
                    cycles = cycles_on(self.arch, self.code[node[0]])
                    assert cycles is not None
                    weight = STEP + cycles
                if following not in graph:
                    todo.append(following)
                graph.add_edge(node, following, weight=weight)
        graph.add_node((producer, -1))
        self.graphs[producer] = graph
        return graph

    def moves(self, producer: int, node: tuple[int, int]) -> Iterator[tuple[int, int]]:
        place, younger = node
        operation = self.issued[producer]
        assert operation is not None
        if younger < 0:
            younger = 0
        elif place in self.waits:
            n = self.waits[place].get(operation.counter)
            if n is not None and self.ends(producer, younger, n):
                return
        else:
            other = self.issued[place]
            if other is not None and operation.ordered:
                younger += (other.counter, other.queue) == (operation.counter, operation.queue)
                younger = min(younger, LONG)
        for following in self.after[place]:
            yield following, younger


def check(function: Function, arch: str, limits: Mapping[str, int]) -> int:
    """Holds every slack against the search; how many there were."""
    ways = Ways(function, arch)
    compared = 0
    for one, slack in measured(function, arch, limits):
        if not one.waits_for:
            assert slack is None
            continue
        expected = ways.shortest(one)
        assert (slack and (slack.instructions, slack.cycles)) == expected, one
        compared += expected is not None
    return compared


@given(programs())
@settings(max_examples=200)
def test_slack_of_generated_programs(program: tuple[str, Function]) -> None:
    arch, function = program
    check(function, arch, small(arch))


@pytest.fixture(scope="module")
def kernels() -> Sequence[tuple[str, Function]]:
    pytest.importorskip("triton")
    targets = tuple(str(ROOT / "kernels" / f"{n}.py") for n in ("softmax", "gemm_all_types"))
    report = collect_kept(Request(targets, archs=ARCHS, jobs=2, passes=False))
    found = []
    for kernel in report.kernels:
        text = kernel.artifacts["amdgcn"].path.read_text()
        (function,) = parse_text(text, "k.s").kernels
        if len(function.instructions) < 700 and kernel.arch is not None:
            found.append((kernel.arch, function))
    return found


@pytest.mark.slow
def test_slack_of_compiled_kernels(kernels: Sequence[tuple[str, Function]]) -> None:
    compared = sum(
        check(function, arch, machines.load(arch).counters) for arch, function in kernels
    )
    assert {arch for arch, _ in kernels} == set(ARCHS)
    assert compared > 300


def slack_of(arch: str, body: str) -> list[tuple[int, int | None] | None]:
    function = function_of(arch, body)
    found = measured(function, arch, machines.load(arch).counters)
    return [slack and (slack.instructions, slack.cycles) for _, slack in found]


def test_cycles_of_the_matrix_instructions_between() -> None:
    body = """
    global_load_dword v1, v[2:3], off
    v_mfma_f32_32x32x8_f16 v[16:31], v[4:5], v[6:7], v[16:31]
    v_mov_b32_e32 v8, v9
    s_waitcnt vmcnt(0)
    v_mov_b32_e32 v9, v1
    """
    assert slack_of("gfx942", body) == [(2, 32)]


def test_unknown_cycles_are_none() -> None:
    body = """
    global_load_dword v1, v[2:3], off
    v_mfma_f32_7x7x7_f16 v[16:31], v[4:5], v[6:7], v[16:31]
    s_waitcnt vmcnt(0)
    v_mov_b32_e32 v9, v1
    """
    assert slack_of("gfx942", body) == [(1, None)]


def test_a_pipelined_loop_has_the_slack_of_an_iteration() -> None:
    # The load just above the wait is for the next iteration: its own stands one turn further up.
    body = """
    global_load_dword v1, v[2:3], off
    v_mov_b32_e32 v20, 0
    .LBB0_1:
    global_load_dword v4, v[2:3], off
    s_waitcnt vmcnt(1)
    v_add_f32_e32 v20, v20, v1
    v_nop
    v_nop
    global_load_dword v1, v[2:3], off
    s_waitcnt vmcnt(1)
    v_add_f32_e32 v20, v20, v4
    s_cbranch_scc1 .LBB0_1
    s_waitcnt vmcnt(0)
    """
    # First wait: v1 of the prologue (2 between) or of the iteration before (4 between).
    assert slack_of("gfx942", body)[:2] == [(2, 0), (5, 0)]
