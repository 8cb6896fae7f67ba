"""The emulator against tinygrad's, one instruction at a time, on random and edge inputs.

Runs where KINSPECT_TINYGRAD names a checkout of tinygrad (with its emulator of AMD GPUs for tests)
and LLVM 22 and clang are there. Where the two differ, the ISA document has decided; what the
witness does wrong stands in `FAULTS`. A difference that none of these explains fails.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from emulated import run_lines
from kinspect.inspector.emulator.registry import NotCoveredError
from kinspect.inspector.emulator.waves import Waves

Array = np.ndarray[Any, Any]

CHECKOUT: Final = os.environ.get("KINSPECT_TINYGRAD", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHECKOUT, reason="KINSPECT_TINYGRAD names no checkout of tinygrad"),
    pytest.mark.skipif(not shutil.which("llvm-mc-22"), reason="needs LLVM 22"),
]

FORMS: Final = Path(__file__).parent / "data" / "emulator" / "forms.txt"

FAULTS: Final = (
    (r"v_cvt_(i32|u32|i16|u16|flr|floor|rpi|nearest|pk_[iu]16_f32|pk_u8)|s_cvt_[iu]32",
     "NaN and what is too large: the host's conversion (ISA: saturates, NaN is 0)"),
    (r"v_cvt_pkaccum|v_cvt_off_f32_i4|v_cvt_pk_[iu]16_[iu]32|v_cvt_p?k?_?(pk)?norm|v_cvt_pknorm",
     "no table, no saturation"),
    (r"v_(mul|mul_hi|mad)_[iu]32_[iu]24", "24-bit operands are taken whole"),
    (r"v_(max|min)(imum)?3|v_med3|v_(max|min)(imum)?(_num)?(max|min)|v_(max|min)(imum)?(max|min)",
     "nested minima and maxima lose the rules for NaN and -0"),
    (r"v_pk_(max|min)", "the same for NaN"),
    (r"v_dual_(max|min)", "gfx12: a signalling NaN wins (ISA: the number does)"),
    (r"[vs]_(max|min)(imum)?(_num)?_f", "-0 and +0 are equal (ISA: -0 is less)"),
    (r"v_cmpx_.*(s\[|vcc|v\[|v\d)", "CDNA: EXEC or the mask is read back half written"),
    (r"rtz", "rounds to nearest: the mode is not modelled"),
    (r"rndne", "-0 is lost; the sign of a rint of -0.3 is kept by the hardware (OpenCL's rint)"),
    (r"v_(cos|sin)_f16", "wrong beyond small angles"),
    (r"_co_", "idle lanes' bits of the carry stay (ISA: masks written are 0 there)"),
    (r"ldexp", "NaN where 2**exponent overflows by itself"),
    (r"v_fract_", "1.0 for tiny negatives (LLVM's fold of amdgcn.fract: below 1)"),
    (r"clamp", "-0 stays (V_MAX: +0 is more); integers and packed results are not held"),
    (r"_sdwa", "sext of a whole register, 16-bit results in a whole register are wrong"),
    (r"v_div_fixup", "UNDERFLOW as the least denormal (to nearest even: 0)"),
    (r"v_div_scale", "the reciprocal of a large divisor is compared in f64 as the document says, "
     "with which the steps give no quotient"),
    (r"v_div_fmas", "factors of f64"),
    (r"v_dot2|v_dual_dot2", "literals of packed halves; rounding inside a dot is not documented"),
    (r"v_dot4_f32", "bytes are taken from the wrong place"),
    (r"legacy_[fiu]16", "not modelled, or the upper half is not cleared"),
    (r"neg_lo|neg_hi", "not modelled in VOP3P"),
    (r"v_\w+16\w* v\d+, .*v(12[89]|1[3-9]\d|2\d\d)", "CDNA: v128 and more as a half of v0"),
    (r"v_permlane", "op_sel (fetch of idle lanes) is ignored; idle lanes are written"),
    (r"s_bfe_[iu]\d+", "widths of more than the register"),
    (r"s_bitset\d_b64|s_cmov_b64|s_wqm_b64|v_swap_b16", "half of the destination is lost"),
    (r"v_cvt_pk_[fb][pf]8", "denormals are flushed, a signalling NaN becomes infinite"),
    (r"v_cvt_pk_bf16", "a NaN's rounding carries into the sign"),
    (r"v_frexp", "0 has the exponent field's value (LLVM selects it for frexp: 0 has 0)"),
    (r"v_fma_mix", "CDNA: multiplies and adds with two roundings"),
    (r"v_fmac_\w+_e64", "reads the destination wrong: 0, or another half"),
    (r"gfx942 .*(fp8|bf8)", "formats of OCP (gfx942 has FNUZ)"),
    (r"s_absdiff", "a difference below 0 stays"),
    (r"v_trig_preop", "2 / pi has too few bits"),
    (r"v_mad_f16|v_mac_f16|v_madmk|v_madak", "one rounding (MAD has two)"),
    (r"v_(fma_f16|mad_[iu]16|add_i16|sub_i16|sat_pk_u8|bitop3_b16)",
     "CDNA: the upper half is cleared; those that came with gfx9 keep it (LLVM, GCNSubtarget::"
     "zeroesHigh16BitsOfDest)"),
    (r"v_mad_[iu]64_[iu]32", "the carry is not written"),
    (r"v_cvt_sr", "bf16 of 8 bits"),
    (r"_dpp", "RDNA: DPP of VOP3 is not decoded; CDNA: patterns, idle sources, masks"),
    (r"v_(s_)?(exp|log|rcp|rcp_iflag|rsq|sqrt|sin|cos)_f(32|64)",
     "denormals are kept (ISA: flushed); sines are good to 1e-5"),
    (r"v_mqsad", "masked bytes and the addend of 128 bits are lost"),
    (r"gfx90a v_(mac|mad)_f32|v_mad[am]k_f32", "opcodes of CDNA3; one rounding (MAD has two)"),
)  # fmt: skip
"""Of the witness, as patterns of instructions; each was looked at and settled as it says."""

ULPS: Final = re.compile(r"v_(s_)?(exp|log|rsq|rcp|sqrt|sin|cos)")
"""Results that may differ in the last places: the hardware promises 1 ulp or less."""

SINGLES: Final = np.array(
    [0, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345,
     0x7F812345, 1, 0x80000001, 0x7FFFFF, 0x800000, 0x80800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x4F000000,
     0xCF000000, 0x4F800000, 0x4EFFFFFF, 0x3F000000, 0x3FC00000, 0x40200000, 0xC0200000,
     0x33000000, 0x38800000, 0x477FE000, 0x47800000, 0x7E800000, 0x1000000, 0x42FC0000],
    np.uint64,
)  # fmt: skip
INTEGERS: Final = np.array(
    [0, 1, 2, 7, 15, 16, 31, 32, 33, 63, 64, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x10000,
     0x7FFFFF, 0x800000, 0xFFFFFF, 0x1000000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFFE,
     0xFFFF8000, 0xFF00FF],
    np.uint64,
)  # fmt: skip
HALVES: Final = np.array(
    [0, 0x8000, 0x3C00, 0xBC00, 0x7C00, 0xFC00, 0x7E00, 0x7C12, 1, 0x8001, 0x3FF, 0x400, 0x7BFF,
     0xFBFF, 0x3800, 0x3E00, 0x4100, 0x6400, 0x7800],
    np.uint64,
)  # fmt: skip
DOUBLES: Final = np.concatenate(
    [
        np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 5e-324, 1.7976931348623157e308, 0.5,
                  2.5, -2.5, 2147483648.5, 4294967296.0, 1e-300, 3.5e38, 1e-46]).view(np.uint64),
        np.array([0x7FF0000000000001, 0x000FFFFFFFFFFFFF, 0x47EFFFFFF0000000], np.uint64),
    ]
)  # fmt: skip
STYLES: Final = ("random", "edge", "bits", "edge", "edge")
"""One wave each; the last two with a partial EXEC."""
REGISTER: Final = re.compile(r"\b([vs])(?:(\d+)|\[(\d+):(\d+)\])")
KIND: Final = re.compile(r"(?:bf|f|i|u|b)\d+")


def words(rng: np.random.Generator, kind: str, count: int, style: str, *, wide: bool) -> Array:
    """Inputs as uint64: whole, or two registers' worth."""
    if style == "bits":
        return rng.integers(0, 1 << 64, count, dtype=np.uint64)
    if kind == "f64" and wide:
        if style == "edge":
            return rng.choice(DOUBLES, count)
        return (rng.standard_normal(count) * 10.0 ** rng.integers(-3, 4, count)).view(np.uint64)

    def single() -> Array:
        if kind == "f16":
            halves = [_half(rng, count, style) for _ in range(2)]
            return np.asarray(halves[0] | halves[1] << np.uint64(16))
        if kind in ("f32", "bf16", "f64"):
            if style == "edge":
                return rng.choice(SINGLES, count)
            values = rng.standard_normal(count) * 10.0 ** rng.integers(-2, 3, count)
            return values.astype(np.float32).view(np.uint32).astype(np.uint64)
        if style == "edge":
            return rng.choice(INTEGERS, count)
        return rng.integers(0, 1 << 32, count, dtype=np.uint64)

    return np.asarray(single() | single() << np.uint64(32))


def _half(rng: np.random.Generator, count: int, style: str) -> Array:
    if style == "edge":
        return rng.choice(HALVES, count)
    values = rng.standard_normal(count) * 10.0 ** rng.integers(-1, 2, count)
    return values.astype(np.float16).view(np.uint16).astype(np.uint64)


class Case:
    """The inputs of one form: registers for five waves, from the line's checksum."""

    def __init__(self, arch: str, line: str) -> None:
        self.arch, self.line = arch, line
        self.lanes = 64 if arch.startswith("gfx9") else 32
        rng = np.random.default_rng(zlib.crc32(line.encode()))
        kinds = KIND.findall(line.split()[0]) or ["u32"]
        self.vgprs: dict[int, Array] = {}
        self.sgprs: dict[int, Array] = {}
        for bank, alone, low, high in REGISTER.findall(line):
            first, last = int(alone or low), int(alone or high)
            count = self.lanes if bank == "v" else 1
            file = self.vgprs if bank == "v" else self.sgprs
            for row in range(first, last + 1, 2):
                rows = [
                    words(rng, str(rng.choice(kinds)), count, style, wide=last > first)
                    for style in STYLES
                ]
                file[row] = np.stack(rows).astype(np.uint32)
                if last > first:
                    file[row + 1] = (np.stack(rows) >> np.uint64(32)).astype(np.uint32)
        everywhere = (1 << self.lanes) - 1

        def mask() -> int:
            return int(rng.integers(0, 1 << 64, dtype=np.uint64)) & everywhere

        self.active = [everywhere, everywhere, everywhere, mask() | 1, 1 << 7]
        self.vcc = [mask() for _ in STYLES]
        self.scc = [bool(bit) for bit in rng.integers(0, 2, len(STYLES))]

    def requests(self) -> Iterator[dict[str, Any]]:
        """One for each wave."""
        for wave in range(len(STYLES)):
            yield {
                "arch": self.arch, "asm": self.line,
                "vgprs": {row: values[wave].tolist() for row, values in self.vgprs.items()},
                "sgprs": {row: int(values[wave, 0]) for row, values in self.sgprs.items()},
                "vcc": self.vcc[wave], "exec": self.active[wave], "scc": int(self.scc[wave]),
                "read": sorted(self.vgprs), "reads": sorted(self.sgprs),
            }  # fmt: skip

    def run(self) -> Waves:
        """What the emulator makes of it."""
        return run_lines(
            self.arch, self.line, self.vgprs,
            {row: values[:, 0] for row, values in self.sgprs.items()},
            active=self.active, vcc=self.vcc, scc=self.scc, waves=len(STYLES), accum_offset=256,
        )  # fmt: skip


def _nan(word: Array, line: str) -> Array:
    """Where 32 bits are a NaN, of one f32, the upper half of an f64, or both halves."""
    single = (word & np.uint32(0x7FFFFFFF)) > 0x7F800000
    return np.asarray(single if "16" not in line else single | _half_nans(word))


def _half_nans(word: Array) -> Array:
    low, high = word & np.uint32(0x7FFF), word & np.uint32(0x7FFF0000)
    return np.asarray((low > 0x7C00) | (high > 0x7C000000))


def differences(case: Case, state: Waves, answers: list[dict[str, Any]]) -> list[str]:
    """Where the two disagree; which NaN it is does not count."""
    told = []
    for wave, answer in enumerate(answers):
        for row, values in answer["vgprs"].items():
            theirs, ours = np.array(values, np.uint32), state.u32[int(row), wave]
            unlike = (theirs != ours) & ~(_nan(theirs, case.line) & _nan(ours, case.line))
            if "f64" in case.line and int(row) + 1 in case.vgprs:
                upper = state.u32[int(row) + 1, wave] & np.uint32(0x7FFFFFFF)
                unlike &= upper < 0x7FF80000
            if ULPS.match(case.line):
                unlike &= np.abs(theirs.astype(np.int64) - ours.astype(np.int64)) > 4
            told += [
                f"wave {wave} lane {lane} v{row}: {ours[lane]:#x}, witness {theirs[lane]:#x}"
                for lane in np.flatnonzero(unlike)
            ]
        scalars = {int(row): value for row, value in answer["sgprs"].items()}
        for row, name in ((106, "vcc"), (126, "exec")):
            scalars[row] = answer[name] & 0xFFFFFFFF
            if case.lanes == 64:
                scalars[row + 1] = answer[name] >> 32
        for number, value in scalars.items():
            own = int(state.scalar[number, wave])
            alike = value == own or (ULPS.match(case.line) and abs(value - own) <= 4)
            if not alike and not _nan(np.array([value, own], np.uint32), case.line).all():
                told.append(f"wave {wave} s{number}: {own:#x}, witness {value:#x}")
        if bool(answer["scc"]) != bool(state.scc[wave]):
            told.append(f"wave {wave} scc: {bool(state.scc[wave])}")
    return told


class Witness:
    """tinygrad's emulator in a process of its own; started anew when it dies."""

    def __init__(self, asked: list[tuple[str, str]]) -> None:
        self.process: subprocess.Popen[str] | None = None
        self.forms: dict[str, list[str]] = {}
        for arch, line in asked:
            self.forms.setdefault(arch, []).append(line)

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        if self.process is None or self.process.poll() is not None:
            worker = Path(__file__).with_name("witness_worker.py")
            self.process = subprocess.Popen(
                [sys.executable, str(worker), CHECKOUT],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            )  # fmt: skip
            assert self.process.stdin is not None
            self.process.stdin.write(json.dumps(self.forms) + "\n")
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if line.endswith("\n"):
            return dict(json.loads(line))
        self.process.kill()
        self.process.wait()
        self.process = None
        return {"error": "the witness died"}

    def close(self) -> None:
        if self.process is not None:
            assert self.process.stdin is not None
            self.process.stdin.close()
            self.process.wait()


def forms(family: str) -> list[tuple[str, str]]:
    """(gfx name, instruction) of a family's GPUs."""
    lines = FORMS.read_text().splitlines()
    pairs = (line.split(" ", 1) for line in lines if not line.startswith("#"))
    return [(arch, line) for arch, line in pairs if arch.startswith("gfx9") == (family == "CDNA")]


@pytest.mark.parametrize("family", ["CDNA", "RDNA"])
def test_every_instruction_does_what_the_witness_does(family: str) -> None:
    counts: Counter[str] = Counter()
    unexplained = []
    asked = forms(family)
    witness = Witness(asked)
    for arch, line in asked:
        case = Case(arch, line)
        try:
            state = case.run()
        except NotCoveredError:
            counts["not covered"] += 1
            continue
        answers = [witness.ask(request) for request in case.requests()]
        if any("error" in answer for answer in answers):
            counts["not in the witness"] += 1
            continue
        told = differences(case, state, answers)
        if not told:
            counts["equal"] += 1
        elif any(re.search(pattern, f"{arch} {line}") for pattern, _ in FAULTS):
            counts["faults of the witness"] += 1
        else:
            counts["different"] += 1
            unexplained.append(f"{arch} {line}: {len(told)}; {told[:3]}")
    witness.close()
    warnings.warn(f"{family}: {dict(counts)}", stacklevel=1)  # pytest's summary shows it
    assert not unexplained, "\n".join(unexplained)
    assert counts["equal"] >= 300, dict(counts)
