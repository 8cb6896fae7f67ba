"""Loops of compare-and-swap whose operation the target has as an atomic instruction."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from kinspect.inspector.machines.loader import names
from kinspect.inspector.metrics.exchange_loops import IN_LDS, NATIVE, _needs_loop
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


def _value(
    loops: int,
    operation: str | None = None,
    instruction: str | None = None,
    *,
    cache: int = 0,
    emulated: int = 0,
) -> object:
    native = 0 if instruction is None else loops
    return {
        "loops": loops,
        "native": native,
        "operation": operation,
        "instruction": instruction,
        "at": None,
        "flag": None,
        "unflagged": "gfx942" if (instruction or "").startswith("global_atomic_add") else None,
        "emulated": emulated,
        "emulated_sums": 0,
        "emulated_at": None,
        "ordered": int(cache > 0),
        "ordered_at": None,
        "cache": cache,
    }


@pytest.mark.parametrize(
    ("name", "operation", "instruction"),
    [
        ("adds_double", "v_add_f64", "global_atomic_add_f64"),
        ("subtracts", "v_add_f32", "global_atomic_add_f32"),
        ("adds_in_lds", "v_add_f32", "ds_add_f32"),
    ],
)
def test_native(kernels: dict[str, object], name: str, operation: str, instruction: str) -> None:
    assert kernels[name] == _value(1, operation, instruction)


@pytest.mark.parametrize("name", ["multiplies_in_loop", "subtracted_from"])
def test_without_an_instruction(kernels: dict[str, object], name: str) -> None:
    assert kernels[name] == _value(1)


def test_with_an_instruction_elsewhere(kernels: dict[str, object]) -> None:
    """Radeon has an atomic maximum of float32, CDNA 3 has none."""
    assert kernels["maximum"] == _value(1, emulated=1)


def test_atomic_instruction_itself(kernels: dict[str, object]) -> None:
    assert kernels["adds_in_loop"] == _value(0)


def test_ordered(kernels: dict[str, object]) -> None:
    """One write-back before the exchange and one invalidation behind it, by the memory model."""
    assert kernels["products_in_order"] == _value(0, cache=2)


@pytest.mark.parametrize("name", ["products_relaxed", "waits_for_lock"])
def test_unordered(kernels: dict[str, object], name: str) -> None:
    assert kernels[name] == _value(0)


@pytest.mark.skipif(MC is None, reason="llvm-mc-22 is not installed")
def test_targets_have_the_instructions() -> None:
    """Those that are named assemble; sums do not on targets that are left out.

    (gfx12 takes the older names of minima and maxima.)
    """
    tables = (*NATIVE.values(), *IN_LDS.values())
    known = frozenset().union(*(archs for rows in tables for archs, _ in rows))
    for arch in sorted(known - _UNKNOWN_TO_LLVM_22):
        there, missing = [], []
        for table in (NATIVE, IN_LDS):
            for name, rows in table.items():
                width = "v[2:3]" if name.endswith("f64") else "v2"
                for archs, instruction in rows:
                    of_memory = f"{instruction} v[0:1], {width}, off"
                    text = of_memory if table is NATIVE else f"{instruction} v0, {width}"
                    if arch in archs:
                        there.append(text)
                    elif table is NATIVE and "add" in name:
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
