"""Loops of compare-and-swap whose operation other targets have as an atomic instruction."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from kinspect.inspector.machines.loader import names
from kinspect.inspector.metrics.exchange_loops import NATIVE, _needs_loop
from kinspect.inspector.model import KernelReport
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request

FIXTURE = Path(__file__).parent.parent / "rules" / "fixtures" / "hip_exchanges_gfx942.s"
MC = shutil.which("llvm-mc-22")
_UNKNOWN_TO_LLVM_22 = {"gfx940", "gfx941"}


def _loops(kernel: KernelReport) -> object:
    return kernel.metrics["atomics.exchange_loops"].value


@pytest.fixture(scope="module")
def kernels() -> dict[str, object]:
    report = collect(Request((str(FIXTURE),), passes=False))
    return {kernel.name: _loops(kernel) for kernel in report.kernels}


@pytest.mark.parametrize(
    ("name", "loops", "emulated"),
    [
        ("adds_double", 1, 0),
        ("subtracts", 1, 0),
        ("adds_in_lds", 1, 0),
        ("multiplies_in_loop", 1, 0),
        ("subtracted_from", 1, 0),
        ("maximum", 1, 1),  # Radeon has an atomic maximum of float32, CDNA 3 has none
        ("adds_in_loop", 0, 0),
    ],
)
def test_loops(kernels: dict[str, object], name: str, loops: int, emulated: int) -> None:
    assert kernels[name] == {"loops": loops, "emulated": emulated, "emulated_at": None}


@pytest.mark.skipif(MC is None, reason="llvm-mc-22 is not installed")
def test_targets_have_the_instructions() -> None:
    """Those that are named assemble; sums do not on targets that are left out.

    (gfx12 takes the older names of minima and maxima.)
    """
    known = frozenset().union(*(archs for rows in NATIVE.values() for archs, _ in rows))
    for arch in sorted(known - _UNKNOWN_TO_LLVM_22):
        there, missing = [], []
        for name, rows in NATIVE.items():
            width = "v[2:3]" if name.endswith("f64") else "v2"
            for archs, instruction in rows:
                text = f"{instruction} v[0:1], {width}, off"
                if arch in archs:
                    there.append(text)
                elif "add" in name:
                    missing.append(text)
        assert _refused(there, arch) == [], arch
        assert _refused(missing, arch) == missing, arch


@pytest.mark.skipif(MC is None, reason="llvm-mc-22 is not installed")
def test_targets_that_need_a_loop_have_no_instruction() -> None:
    """gfx12's operations are max_num_f32 and min_num_f32, whatever older names it takes."""
    for arch in set(names()) - _UNKNOWN_TO_LLVM_22:
        lines = [
            f"{instruction} v[0:1], {'v[2:3]' if name.endswith('f64') else 'v2'}, off"
            for name, rows in NATIVE.items()
            if _needs_loop(name, arch) and not any(arch in archs for archs, _ in rows)
            if not (arch.startswith("gfx12") and name in ("max_f32", "min_f32"))
            for _, instruction in rows
        ]
        assert _refused(lines, arch) == lines, arch


def _refused(lines: list[str], arch: str) -> list[str]:
    """Those of the lines that LLVM's assembler has an error of."""
    assert MC is not None
    done = subprocess.run(
        [MC, "-triple=amdgcn-amd-amdhsa", f"-mcpu={arch}", "-o", "/dev/null"],
        input="\n".join(lines), text=True, capture_output=True, check=False,
    )  # fmt: skip
    numbers = {int(n) for n in re.findall(r"^<stdin>:(\d+):\d+: error:", done.stderr, re.M)}
    assert bool(numbers) == (done.returncode != 0), done.stderr
    return [line for number, line in enumerate(lines, 1) if number in numbers]
