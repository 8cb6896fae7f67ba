"""The map of LDS: offsets and bytes of all buffers make up the LDS that Triton states."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from kept_compiles import collect_kept
from kinspect.inspector.explain.lds_map import map_lines, map_rows
from kinspect.inspector.metrics.kernel import kernel_report
from kinspect.inspector.metrics.subject import Facts, KernelCode
from kinspect.inspector.model import Function, KernelReport, Resources
from kinspect.inspector.pipeline.analysis_options import AnalysisOptions
from kinspect.inspector.pipeline.jobs import Request
from kinspect.inspector.ttgir.parser import parse_ttgir
from msgspec.structs import replace

pytestmark = pytest.mark.xdist_group("rule fixtures")

ROOT = Path(__file__).parent.parent
KERNELS = ROOT / "kernels"
FIXTURES = ROOT / "rules" / "fixtures"
FEW = ("gemm_multreduce.py", "layernorm.py", "softmax.py")
WITHOUT_ISA = AnalysisOptions(lanes=False, races=False, values=False)


def compiled(targets: Sequence[Path], archs: tuple[str, ...]) -> tuple[KernelReport, ...]:
    pytest.importorskip("triton", minversion="3.9")
    request = Request(tuple(map(str, targets)), archs, passes=False, jobs=2, analysis=WITHOUT_ISA)
    report = collect_kept(request)
    assert not report.errors
    return report.kernels


def end_of_map(kernel: KernelReport) -> int:
    """The bytes that the map covers, where the place and size of all buffers are known."""
    ends = [(b.offset, b.allocated) for b in kernel.lds_buffers]
    return max(offset + size for offset, size in ends if offset is not None and size is not None)


def mapped(kernels: Sequence[KernelReport]) -> int:
    """How many kernels have a map; each has to end where the LDS does."""
    count = 0
    for kernel in kernels:
        total = kernel.metrics["lds_bytes"].value
        if not total:
            assert not any(buffer.offset is not None for buffer in kernel.lds_buffers)
            continue
        assert end_of_map(kernel) == total, kernel.id
        count += 1
    return count


def test_the_map_ends_where_the_lds_does() -> None:
    files = [KERNELS / name for name in FEW]
    assert mapped(compiled([*files, FIXTURES / "product.py"], ("gfx942",))) > 20
    assert mapped(compiled([KERNELS / "softmax.py"], ("gfx1100",)))


@pytest.mark.slow
def test_the_maps_of_all_bundled_kernels_do() -> None:
    files = sorted(path for path in KERNELS.glob("*.py") if path.name != "__init__.py")
    assert mapped(compiled(files, ("gfx942", "gfx950", "gfx1100", "gfx1201"))) > 300


@pytest.fixture(scope="module")
def product() -> Mapping[str, KernelReport]:
    kernels = compiled([FIXTURES / "product.py", FIXTURES / "held.py"], ("gfx942",))
    return {k.variant.case: k for k in kernels if k.variant and k.variant.case}


def test_buffers_alive_together_have_bytes_of_their_own(
    product: Mapping[str, KernelReport],
) -> None:
    kernel = product["too_much_lds"]
    first, second = map_rows(kernel)
    assert (first.first, first.end, second.first, second.end) == (0, 131072, 131072, 262144)
    assert first.title == "x 2 x 128x256 f16"
    assert first.alive.startswith("product.py:17")
    assert first.shares == second.shares == ""
    title, *lines = map_lines(kernel)
    assert title == "LDS by address: 2 buffers in 256.0 KiB"
    assert len(lines) == 2


def test_an_exchange_reuses_the_bytes_of_tiles(product: Mapping[str, KernelReport]) -> None:
    kernel = product["exchanged_in_parts"]
    exchanges = [row for row in map_rows(kernel) if row.kind == "a change of layout"]
    assert exchanges
    assert all(row.shares for row in exchanges)
    assert end_of_map(kernel) == kernel.metrics["lds_bytes"].value
    alive = [(b.offset, b.allocated, b.line, b.last_line) for b in kernel.lds_buffers]
    for number, (offset, size, line, last) in enumerate(alive):
        for other_offset, other_size, other_line, other_last in alive[:number]:
            assert offset is not None
            assert size is not None
            assert last is not None
            assert other_offset is not None
            assert other_size is not None
            assert other_last is not None
            bytes_meet = offset < other_offset + other_size and other_offset < offset + size
            assert not (bytes_meet and line < other_last and other_line < last)


def test_every_row_has_its_lines_and_a_name_that_reads_as_one(
    product: Mapping[str, KernelReport],
) -> None:
    kernel = product["exchanged_in_parts"]
    rows = map_rows(kernel)
    for row in rows:
        source, last = row.buffer.source, row.buffer.last_source
        if source is not None and last is not None and source.line == last.line:
            assert f":{source.line} (line" in row.alive
            assert str(row.buffer.last_line) in row.alive
            assert row.alive.endswith(" of the TTGIR)")
    unnamed = replace(kernel, lds_buffers=tuple(replace(b, name="8") for b in kernel.lds_buffers))
    assert all(row.title.startswith("%8 ") for row in map_rows(unnamed))
    assert {row.shares for row in map_rows(unnamed)} <= {"", "%8"}


def test_partial_results_of_a_reduction_are_on_it() -> None:
    kernels = compiled([KERNELS / "layernorm.py"], ("gfx942",))
    scratch = [b for kernel in kernels for b in kernel.lds_buffers if b.kind == "scratch"]
    assert scratch
    assert all(b.offset is not None and b.allocated and b.source is not None for b in scratch)
    assert not any(b.at_peak for b in scratch)


def test_pages_and_lists_have_it(
    product: Mapping[str, KernelReport], tool_in_process: Callable[..., Any], tmp_path: Path
) -> None:
    for arguments in (["analyze", "--details", "-o"], ["layout", "--no-color", "-o"]):
        output = tmp_path / arguments[0]
        target = [FIXTURES / "product.py", *arguments[1:], output]
        tool_in_process(arguments[0], *target, "--kernel", "too_much_lds")
        assert "LDS by address: 2 buffers in 256.0 KiB" in output.read_text("utf-8")


TTGIR = (FIXTURES / "ptx.ttgir").read_text("utf-8")


@pytest.mark.parametrize(
    "listed", [None, "text", [1], [[1, 2]], [["a", 0, 4]], [[-1, 0, 4]], [[10**9, 0, 4]], {"a": 1}]
)
def test_what_is_no_list_of_allocations_is_no_map(listed: object) -> None:
    module = parse_ttgir(TTGIR.replace("cuda:90", "hip:gfx942"), "k.ttgir")
    function = Function("f", True, 1, 1, (), (), (), Resources())
    subject = KernelCode(function, None, Facts(options={"lds_allocations": listed}), module)
    kernel = kernel_report(subject, kernel_id="k", name="k", arch=None, source=None)
    assert all(buffer.offset is None for buffer in kernel.lds_buffers if buffer.kind != "scratch")
