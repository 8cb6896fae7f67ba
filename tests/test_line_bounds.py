"""What each line adds to the bound of its loop, against the loop's own figure."""

from __future__ import annotations

from pathlib import Path

import pytest
from kinspect.inspector.explain.code.reading import reading_of
from kinspect.inspector.explain.code.texts import texts_of
from kinspect.inspector.machines import load
from kinspect.inspector.metrics.line_bounds import line_cycles
from kinspect.inspector.model import KernelReport
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request
from msgspec.structs import replace

ISA = Path(__file__).parent / "data" / "isa"
FILES = ("attend.triton39.gfx90a.amdgcn", "attend.triton39.gfx950.amdgcn", "../small_gfx942.s")


def kernel_of(name: str) -> KernelReport:
    return collect(Request((str(ISA / name),))).kernels[0]


def cycles_of(kernel: KernelReport) -> dict[int, float]:
    function = reading_of(kernel, texts_of(kernel)).function
    assert function is not None
    assert kernel.arch is not None
    return line_cycles(kernel, function, load(kernel.arch))


def bounded_by(kernel: KernelReport, unit: str) -> KernelReport:
    """The kernel as if that unit were its loops' slowest."""
    return replace(
        kernel,
        loops=tuple(
            replace(
                loop,
                metrics={
                    **loop.metrics,
                    "bound.unit": replace(loop.metrics["bound.unit"], value=unit),
                },
            )
            if "bound.unit" in loop.metrics
            else loop
            for loop in kernel.loops
        ),
    )


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("unit", ["matrix", "vector", "vmem", "lds", "l1", "issue"])
def test_the_lines_of_a_loop_add_up_to_its_bound(name: str, unit: str) -> None:
    kernel = bounded_by(kernel_of(name), unit)
    cycles = cycles_of(kernel)
    bounded = [loop for loop in kernel.loops if loop.hot and "bound.wave" in loop.metrics]
    assert bounded
    for loop in bounded:
        wave = loop.metrics["bound.wave"].value
        assert isinstance(wave, dict)
        inner = [other for other in kernel.loops if other.parent == loop.id]
        own = [
            line
            for line in cycles
            if any(first <= line <= last for first, last in loop.lines)
            and not any(f <= line <= last for other in inner for f, last in other.lines)
        ]
        assert sum(cycles[line] for line in own) == pytest.approx(wave[unit] or 0, rel=0.01)


def test_a_chain_is_no_lines_own() -> None:
    assert cycles_of(bounded_by(kernel_of(FILES[0]), "latency")) == {}
