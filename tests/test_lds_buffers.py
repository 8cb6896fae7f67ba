"""What holds LDS: the buffers of compiled kernels, and what is said where they are too large."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from kept_compiles import collect_kept
from kinspect.inspector.model import KernelReport
from kinspect.inspector.pipeline.analysis import analyze_ttgir
from kinspect.inspector.pipeline.analysis_options import Context
from kinspect.inspector.pipeline.jobs import Request
from kinspect.inspector.report import json_write as json_v1
from kinspect.inspector.report.json_read import SavedReport

pytestmark = pytest.mark.xdist_group("rule fixtures")

ROOT = Path(__file__).parent.parent
FIXTURES = ROOT / "rules" / "fixtures"


@pytest.fixture(scope="module")
def kernels() -> Mapping[str, KernelReport]:
    pytest.importorskip("triton")
    targets = tuple(str(FIXTURES / name) for name in ("held.py", "product.py"))
    report = collect_kept(Request(targets, ("gfx942",), passes=False, jobs=2))
    assert not report.errors
    return {k.variant.case: k for k in report.kernels if k.variant and k.variant.case}


def peak(kernel: KernelReport) -> list[tuple[object, ...]]:
    return [(b.name, b.kind, b.shape, b.copies, b.size) for b in kernel.lds_buffers if b.at_peak]


def test_a_tile_before_the_loop_holds_the_lds_whatever_the_stages(
    kernels: Mapping[str, KernelReport],
) -> None:
    for case in ("fp32_128x256", "fp32_128x256_one_stage"):
        kernel = kernels[case]
        assert peak(kernel) == [("tile", "operand", (128, 256), 1, 131072)]
        assert kernel.metrics["lds_bytes"].value == 131072
        (finding,) = kernel.findings  # a kernel that cannot be launched is told nothing else
        assert finding.rule == "KI005"
        assert "used by tile 128x256 f32 at held.py:11: 131072 bytes" in finding.message
        assert "num_stages does not change it" in finding.fix
        assert "Lower num_stages" not in finding.fix
        largest = finding.evidence["lds.holders"]
        assert isinstance(largest, str)
    assert kernels["fp32_128x128"].metrics["lds_bytes"].value == 65536  # the advice, followed
    assert not any(f.rule == "KI005" for f in kernels["fp32_128x128"].findings)


def test_stages_that_hold_the_lds_are_named_with_what_one_less_frees(
    kernels: Mapping[str, KernelReport],
) -> None:
    kernel = kernels["too_much_lds"]
    assert peak(kernel) == [
        ("x", "pipelined", (128, 256), 2, 131072),
        ("y", "pipelined", (256, 128), 2, 131072),
    ]
    (finding,) = kernel.findings
    assert "x 2 x 128x256 f16 at product.py:17: 131072 bytes" in finding.message
    assert "Lower num_stages (now 3): each stage frees 131072 bytes, not" in finding.fix
    assert "not enough with 2; with 1, tiles may share LDS; or make" in finding.fix


def test_buffers_of_two_stages_may_be_shared_by_one(kernels: Mapping[str, KernelReport]) -> None:
    two, one = kernels["wide_two_stages"], kernels["wide_one_stage"]
    assert peak(two) == [
        ("y", "pipelined", (128, 256), 1, 65536),
        ("x", "pipelined", (128, 128), 1, 32768),
    ]
    (finding,) = two.findings
    assert "or set num_stages=1 so that tiles may share LDS" in finding.fix
    held = [kernel.metrics["lds_bytes"].value for kernel in (two, one)]
    assert held == [98304, 65536]  # the advice, followed


def test_an_exchange_that_passes_in_parts_is_not_blamed(
    kernels: Mapping[str, KernelReport],
) -> None:
    """Its tile has more bytes than the loop's tiles, which are the kernel's LDS to the byte."""
    kernel = kernels["exchanged_in_parts"]
    assert ("exchange", (128, 256), 131072) in [
        (b.kind, b.shape, b.size) for b in kernel.lds_buffers
    ]
    assert peak(kernel) == [
        ("y", "pipelined", (64, 256), 2, 65536),
        ("x", "pipelined", (128, 64), 2, 32768),
    ]
    assert kernel.metrics["lds_bytes"].value == 98304
    (finding,) = kernel.findings
    assert "each stage frees 49152 bytes, so 2 fit; or" in finding.fix
    assert kernels["exchanged_in_parts_two"].metrics["lds_bytes"].value == 65536  # followed


def test_the_buffers_add_up_to_what_triton_states(kernels: Mapping[str, KernelReport]) -> None:
    """Swizzled layouts have no padding: what is alive at the peak is what the kernel is given."""
    compared = 0
    for kernel in kernels.values():
        stated = kernel.metrics["lds_bytes"].value
        sizes = [b.size for b in kernel.lds_buffers if b.at_peak]
        assert None not in sizes
        total = sum(size for size in sizes if size is not None)
        if sizes and isinstance(stated, int):
            assert total <= stated
            compared += total == stated
    assert compared >= 8


def test_they_survive_a_saved_report(kernels: Mapping[str, KernelReport]) -> None:
    pytest.importorskip("jsonschema")
    import io

    from kinspect.inspector.model import Report

    kernel = kernels["too_much_lds"]
    stream = io.StringIO()
    json_v1.write(Report("t", {}, (kernel,), ()), stream)
    (again,) = SavedReport.open(stream.getvalue(), "t").report().kernels
    assert again.lds_buffers == kernel.lds_buffers
    assert [f.tried for f in again.findings] == [f.tried for f in kernel.findings]
    assert again.findings[0].advice == kernel.findings[0].advice


def test_a_buffer_has_the_name_of_what_is_put_there() -> None:
    """Not of the statement that puts it there: what tl.store passes has a number for a name."""
    pytest.importorskip("triton")
    target = str(ROOT / "kernels" / "layernorm.py")
    report = collect_kept(Request((target,), ("gfx942",), kernel="*sum_parts*", passes=False))
    buffers = [buffer for kernel in report.kernels for buffer in kernel.lds_buffers]
    assert {buffer.name for buffer in buffers if buffer.kind == "exchange"} == {"total"}


def test_without_ttgir_nothing_is_claimed() -> None:
    text = (FIXTURES / "ptx.ttgir").read_text("utf-8")
    (kernel,) = analyze_ttgir(text.replace("hip:", "cuda:"), Context("k.ttgir"))
    assert kernel.lds_buffers == ()
    assert kernel.metrics["lds.holders"].value is None
