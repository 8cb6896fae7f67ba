"""Accesses whose neighbours share addresses, and the names that are printed of masks.

What is said of an access is held against the addresses that it computes: the TTGIR is evaluated
with random arguments, in several iterations. What is advised is run beside the original.
"""

from __future__ import annotations

import operator
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from kept_compiles import collect_kept
from kinspect.inspector.model import Access, KernelReport, Report, TtgirOp
from kinspect.inspector.pipeline.jobs import Request
from kinspect.inspector.ttgir.axes.graph import ValueGraph, functions
from kinspect.inspector.ttgir.axes.widths import Tile, tile_of
from kinspect.inspector.ttgir.parser import parse_ttgir

pytestmark = pytest.mark.xdist_group("shared_addresses")

FILE = Path(__file__).parent / "data" / "shared_addresses.py"


@pytest.fixture(scope="module", params=["gfx942", pytest.param("gfx1100", marks=pytest.mark.slow)])
def run(request: pytest.FixtureRequest) -> Report:
    pytest.importorskip("triton")
    report = collect_kept(Request((str(FILE),), (request.param,), passes=False, jobs=2))
    assert not report.errors
    return report


def case(run: Report, name: str) -> KernelReport:
    (kernel,) = [k for k in run.kernels if k.variant is not None and k.variant.case == name]
    return kernel


def loads(kernel: KernelReport) -> list[Access]:
    return [a for a in kernel.accesses if a.cls == "global_load"]


# --------------------------------------------------------------------------- addresses by numbers


class NotComputedError(Exception):
    """A value that does not rest on arguments and ranges alone."""


@dataclass
class Machine:
    """Computes values of one function from its arguments, in one iteration of each loop."""

    graph: ValueGraph
    arguments: Mapping[str, int]

    def value(self, name: str, iteration: int) -> np.ndarray:
        carried = self.graph.carried.get(name)
        if carried is not None and not carried.sources:
            return np.asarray(self.arguments[name])
        if carried is not None and carried.owner.name == "scf.for" and carried.index == 0:
            lower, step = (self.value(source, iteration) for source in carried.sources)
            return lower + iteration * step
        if carried is not None and carried.owner.name == "scf.for":
            initial, following = carried.sources
            if iteration == 0:
                return self.value(initial, 0)
            return self.value(following, iteration - 1)
        op = self.graph.producers.get(name)
        if op is None or name in self.graph.merged:
            raise NotComputedError(name)
        return self.result(op, iteration)

    def result(self, op: TtgirOp, iteration: int) -> np.ndarray:
        shape = op.result_types[0].shape
        if op.name == "arith.constant":
            return np.full(shape, op.attributes["value"], np.int64)
        if op.name == "tt.make_range":
            return np.arange(op.attributes["start"], op.attributes["end"])
        if op.name in COMPUTED:
            return COMPUTED[op.name](*(self.value(v, iteration) for v in op.operands))
        short = op.name.rpartition(".")[2]
        if short not in ("splat", "broadcast", "expand_dims", "convert_layout", "extsi"):
            raise NotComputedError(op.name)
        source = self.value(op.operands[0], iteration)
        if short == "expand_dims":
            return np.expand_dims(source, op.attributes["axis"])
        return np.broadcast_to(source, shape)


COMPUTED: Mapping[str, Callable[..., np.ndarray]] = {
    "arith.addi": operator.add,
    "arith.andi": operator.and_,
    "arith.divsi": operator.floordiv,
    "arith.muli": operator.mul,
    "arith.remsi": operator.mod,
    "arith.shrsi": operator.rshift,
    "arith.subi": operator.sub,
    "arith.xori": operator.xor,
    "tt.addptr": operator.add,
}


def drawn(graph: ValueGraph, draw: random.Random) -> dict[str, int]:
    """Arguments: pointers begin at 0, numbers are what the signature says of them."""
    arguments: dict[str, int] = {}
    for name, argument in graph.carried.items():
        if argument.sources:
            continue
        stated = argument.owner.attributes["arg_attrs"][argument.index]
        by = stated.get("tt.divisibility", 1)
        arguments[name] = 0 if "tt.pointer_range" in stated else by * draw.randint(1, 50)
    return arguments


def tiles_of(kernel: KernelReport) -> list[tuple[ValueGraph, Tile]]:
    module = parse_ttgir(kernel.artifacts["ttgir"].path.read_text(), kernel.name)
    found = [(graph, tile_of(op)) for graph in functions(module) for op in graph.ops]
    return [(graph, tile) for graph, tile in found if tile is not None and tile.addresses]


def addresses(graph: ValueGraph, tile: Tile, draw: random.Random) -> np.ndarray:
    machine = Machine(graph, drawn(graph, draw))
    return machine.value(tile.addresses or "", draw.randint(0, 3))


def evaluated(kernel: KernelReport) -> list[tuple[Access, list[np.ndarray]]]:
    """Each access of global memory with the offsets that it computes, several times."""
    draw = random.Random(kernel.id)
    pairs: list[tuple[Access, list[np.ndarray]]] = []
    by_line = {access.line: access for access in kernel.accesses}
    for graph, tile in tiles_of(kernel):
        try:
            seen = [addresses(graph, tile, draw) for _ in range(8)]
        except NotComputedError:
            continue
        pairs.append((by_line[tile.op.line], seen))
    return pairs


def longest_run(offsets: np.ndarray) -> int:
    """Different addresses that follow each other in memory, at most."""
    different = np.unique(offsets)
    breaks = np.flatnonzero(np.diff(different) != 1)
    ends = np.concatenate(([-1], breaks, [different.size - 1]))
    return int(np.diff(ends).max())


STATED = re.compile(r"along dim (\d) share .*?(at most )?(\d+) different address(?:es)? for (\d+)")


def test_stated_numbers_of_addresses_are_those_that_are_computed(run: Report) -> None:
    compared = 0
    for kernel in run.kernels:
        for access, seen in evaluated(kernel):
            match = STATED.search(access.reason)
            if match is None:
                continue
            dim, at_most, stated, size = match.groups()
            for offsets in seen:
                lines = np.moveaxis(offsets, int(dim), -1).reshape(-1, int(size))
                different = max(len(set(line)) for line in lines.tolist())
                assert different <= int(stated) if at_most else different == int(stated), access
                compared += 1
    assert compared >= 40


def test_no_more_is_called_possible_than_the_addresses_allow(run: Report) -> None:
    """Spread evenly, a lane has so many different addresses; one access takes a run of them."""
    compared = 0
    for kernel in run.kernels:
        if kernel.name in ("every_second", "in_steps", "around", "chosen"):
            continue  # the elements between are loaded as well, or the way is not known
        for access, seen in evaluated(kernel):
            if access.widest is None or access.cls != "global_load":
                continue
            bits = {"f16": 16, "f32": 32, "i32": 32}[access.dtype]
            lanes = kernel.metrics["workgroup_size"].value
            assert isinstance(lanes, int)
            most = max(min(longest_run(o), -(-np.unique(o).size // lanes)) for o in seen)
            allowed = max(access.bits or 0, min(128, bits * most))
            assert access.widest <= allowed, (kernel.name, access, most)
            compared += 1
    assert compared >= 20


@pytest.mark.parametrize("name", ["by_eight", "scaled_rows", "rows_only"])
def test_lanes_that_need_one_address_are_not_narrow(run: Report, name: str) -> None:
    for access in loads(case(run, name)):
        assert access.limited_by not in ("contiguity", "broadcast"), access
    assert not [f for f in case(run, name).findings if f.rule in ("KI024", "KI026")]


def test_a_divisor_that_nobody_knows_leaves_the_width_unknown(run: Report) -> None:
    _, scales = loads(case(run, "scaled"))
    assert (scales.limited_by, scales.widest) == ("broadcast", None)
    assert "// G, of which nothing is known" in scales.reason
    assert "max_contiguous" not in scales.fix
    for name in ("scaled_by_two", "scaled_by_eight"):
        assert len(loads(case(run, name))[1].lines) < len(scales.lines)


@pytest.mark.parametrize("name", ["in_runs", "in_steps", "around", "chosen"])
def test_what_holds_of_a_part_of_the_offsets_is_not_said_of_the_whole(
    run: Report, name: str
) -> None:
    (access,) = loads(case(run, name))
    assert access.limited_by == "contiguity"
    for words in ("share", "apart", "same address"):
        assert words not in access.reason
    for words in ("tl.split", "shorter"):
        assert words not in access.fix


@pytest.mark.parametrize("name", ["shifted", "cleared", "swizzled", "by_twelve"])
def test_nothing_is_advised_where_no_form_was_tried(run: Report, name: str) -> None:
    (access,) = loads(case(run, name))
    assert access.fix == ""
    assert access.widest == access.bits


# --------------------------------------------------------------------------- what is advised


def test_advised_forms_compute_the_same() -> None:
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, str(FILE)],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "TRITON_INTERPRET": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 16


@pytest.mark.parametrize(
    ("original", "advised"),
    [
        ("by_two", "by_two_advised"),
        ("every_second", "every_second_advised"),
        ("unpacked", "unpacked_advised"),
        ("summed", "summed_advised"),
    ],
)
def test_advised_forms_are_as_wide_as_was_called_possible(
    run: Report, original: str, advised: str
) -> None:
    if original == "unpacked" and run.kernels[0].arch == "gfx1100":
        pytest.skip("LLVM joins the loads of a lane, which are neighbours there")
    narrow, wide = loads(case(run, original))[0], loads(case(run, advised))[0]
    assert narrow.fix
    assert (narrow.bits or 128) < (narrow.widest or 0) == wide.bits
    assert len(wide.lines) < len(narrow.lines)


# --------------------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("name", "mask"),
    [
        ("summed", "(loop index + arange(0, 2048)) < K"),
        ("summed_to_last", "(loop index + arange(0, 2048)) <= (K - 1)"),
        ("counted_down", "arange(0, 2048) < left"),
        ("product", "arange(0, 64) < (K - (… * 64))"),
    ],
)
def test_a_mask_is_printed_in_the_source_s_words(run: Report, name: str, mask: str) -> None:
    masked = [a.reason for a in loads(case(run, name)) if a.limited_by == "mask" and a.loop]
    assert masked
    assert all(f"the mask {mask} may change" in reason for reason in masked)


def test_a_number_that_divides_nothing_is_not_to_be_rounded(run: Report) -> None:
    """`7 // 4 * 4` in place of 7 would let three more elements through."""
    (access,) = [a for a in loads(case(run, "all_but_seven")) if a.limited_by == "mask"]
    assert "7 is not divisible by" in access.reason
    assert access.fix == ""


def test_a_variable_of_the_source_keeps_its_name(run: Report) -> None:
    rest = [a for a in loads(case(run, "summed_advised")) if a.limited_by == "mask"]
    assert "the mask (whole + arange(0, 2048)) < K may" in rest[0].reason


# --------------------------------------------------------------------------- a product's operand


def test_a_product_s_operand_through_lds_is_found_and_its_cure_cures(run: Report) -> None:
    if run.kernels[0].arch != "gfx942":
        pytest.skip("matrix_instr_nonkdim is an option of MFMA")
    worse, better = case(run, "chained"), case(run, "chained_rows")
    assert narrow_in_loops(worse) == {"ds_write_b16": 64, "ds_read_u16": 64}
    assert narrow_in_loops(better) == {}
    assert "KI030" in {finding.rule for finding in worse.findings}
    assert not {"KI011", "KI030"} & {finding.rule for finding in better.findings}


def test_a_computed_tile_has_nothing_to_do_with_global_memory(run: Report) -> None:
    computed = [a for a in case(run, "chained").accesses if "computed from a dot" in a.reason]
    if run.kernels[0].arch == "gfx942":
        assert {a.cls for a in computed} == {"lds_read", "lds_write"}
    for access in computed:
        assert "global memory" not in access.fix
        assert "Pass " not in access.fix


def narrow_in_loops(kernel: KernelReport) -> dict[str, int]:
    counts: dict[str, int] = {}
    for op in kernel.memory_ops:
        if op.cls.startswith("lds") and op.depth and op.bits is not None and op.bits < 32:
            counts[op.mnemonic] = counts.get(op.mnemonic, 0) + 1
    return counts
