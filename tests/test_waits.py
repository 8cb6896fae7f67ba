"""Wait operands against the assembler: symbolic text -> LLVM's encoding -> decoded back."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kinspect.inspector import machines
from kinspect.inspector.isa.waitflow.counters import COUNTERS, decode_wait

LLVM_MC = shutil.which("llvm-mc-22")
LEGACY = ("gfx906", "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1151")


def assemble(arch: str, lines: list[str]) -> list[int]:
    """The low 16 bits of each instruction's encoding."""
    assert LLVM_MC is not None
    done = subprocess.run(
        [LLVM_MC, "-triple=amdgcn-amd-amdhsa", f"-mcpu={arch}", "-show-encoding"],
        input="\n".join(lines), capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    found = re.findall(r"encoding: \[0x(\w\w),0x(\w\w),", done.stdout)
    return [int(low, 16) | int(high, 16) << 8 for low, high in found]


@pytest.mark.skipif(LLVM_MC is None, reason="llvm-mc is not installed")
@pytest.mark.parametrize("arch", LEGACY)
def test_bare_numbers_decode_as_the_assembler_encodes(arch: str) -> None:
    machine = machines.load(arch)
    cases = [
        {"vmcnt": 0}, {"vmcnt": 1}, {"vmcnt": 17}, {"vmcnt": 62}, {"lgkmcnt": 0}, {"lgkmcnt": 14},
        {"expcnt": 0}, {"expcnt": 6}, {"vmcnt": 3, "lgkmcnt": 2},
        {"vmcnt": 0, "lgkmcnt": 0, "expcnt": 0},
    ]  # fmt: skip
    lines = ["s_waitcnt " + " ".join(f"{k}({v})" for k, v in case.items()) for case in cases]
    for line, case, number in zip(lines, cases, assemble(arch, lines), strict=True):
        assert decode_wait("s_waitcnt", line.partition(" ")[2]) == case
        bare = decode_wait("s_waitcnt", hex(number), machine.waitcnt_fields, machine.counters)
        assert bare == case, (arch, line, hex(number))


def test_every_form() -> None:
    assert decode_wait("s_waitcnt", "vmcnt(3) & lgkmcnt(0)") == {"vmcnt": 3, "lgkmcnt": 0}
    assert decode_wait("s_waitcnt", "lgkmcnt_sat(9)") == {"lgkmcnt": 9}
    assert decode_wait("s_waitcnt_vscnt", "null, 0x0") == {"vscnt": 0}
    assert decode_wait("s_wait_loadcnt", "0x3") == {"loadcnt": 3}
    assert decode_wait("s_wait_loadcnt_dscnt", "0x102") == {"loadcnt": 1, "dscnt": 2}
    assert decode_wait("s_wait_storecnt_dscnt", "0x0") == {"storecnt": 0, "dscnt": 0}
    assert decode_wait("s_wait_kmcnt", "0x0") == {"kmcnt": 0}


def test_the_older_instruction_on_gfx12() -> None:
    """What clang writes of an inline assembly: one counter then stands for several."""
    maxima = machines.load("gfx1201").counters
    assert decode_wait("s_waitcnt", "vmcnt(0)", None, maxima) == {
        "loadcnt": 0,
        "samplecnt": 0,
        "bvhcnt": 0,
    }
    assert decode_wait("s_waitcnt", "0x3f7", {}, maxima) == decode_wait(
        "s_waitcnt", "vmcnt(0)", {}, maxima
    )
    assert decode_wait("s_waitcnt", "lgkmcnt(1) expcnt(2)", None, maxima) == {
        "dscnt": 1,
        "kmcnt": 1,
        "expcnt": 2,
    }


def test_what_is_no_memory_wait_constrains_nothing() -> None:
    assert decode_wait("s_waitcnt_depctr", "0xfffd") == {}
    assert decode_wait("s_wait_alu", "depctr_va_vcc(0)") == {}
    assert decode_wait("s_waitcnt", "0xc07f") == {}  # a bare number on an unknown target


@given(
    st.sampled_from(["s_waitcnt", "s_wait_loadcnt", "s_wait_loadcnt_dscnt"]), st.text(max_size=40)
)
def test_never_raises(name: str, operands: str) -> None:
    machine = machines.load("gfx942")
    counts = decode_wait(name, operands, machine.waitcnt_fields, machine.counters)
    assert all(isinstance(n, int) for n in counts.values())


def test_every_counter_of_every_machine_is_known() -> None:
    named = {name for arch in machines.names() for name in machines.load(arch).counters}
    assert named <= set(COUNTERS)
