"""Runs single instructions in tinygrad's emulator: JSON requests in, JSON answers out, by lines.

    python tests/witness_worker.py CHECKOUT < requests > answers

The first line: {arch: [instruction, ...]}, all that will be asked for. A request: arch, asm, vgprs
(row -> one number per lane), sgprs, vcc, exec, scc, read (vgprs), reads (sgprs). The registers are
put straight into the emulator's register files, so that nothing but the instruction under test is
relied upon. Needs llvm-mc-22 and clang; internals of tinygrad as of August 2026
(test/mockgpu/amd/emu.py).
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import sys
from typing import Any

import numpy as np

FAMILY = {
    "gfx90a": "cdna", "gfx942": "cdna", "gfx950": "cdna", "gfx1100": "rdna3", "gfx1201": "rdna4",
}  # fmt: skip
VCC, EXEC = 106, 126


def assembled(arch: str, lines: list[str]) -> dict[str, bytes]:
    """The bytes of each instruction that LLVM takes, with one way or the other to name halves."""
    codes: dict[str, bytes] = {}
    for attributes in ([], ["-mattr=+real-true16"], ["-mattr=-real-true16"]):
        missing = [line for line in lines if line not in codes]
        text = "".join(f"FORM{number}:\n{line}\n" for number, line in enumerate(missing))
        tool = ["llvm-mc-22", "-triple=amdgcn-amd-amdhsa", f"-mcpu={arch}", *attributes]
        answer = subprocess.run(
            [*tool, "-show-encoding"], input=text, capture_output=True, text=True, check=False
        )
        for part in re.split(r"^FORM", answer.stdout, flags=re.MULTILINE)[1:]:
            number = int(part.partition(":")[0])
            if match := re.search(r"encoding: \[([^\]]*)\]", part):
                codes[missing[number]] = bytes(int(byte, 16) for byte in match[1].split(","))
    return codes


class Wave:
    """The register files of one wave."""

    def __init__(self, emu: Any, lanes: int) -> None:
        state = emu.WaveState(lanes, lanes)
        types = emu.dtypes
        lds = emu.Buffer("CPU", 65536, types.uint32).ensure_allocated()
        memory = emu.Buffer(
            "CPU", 1 << 40, types.uint32, options=emu.BufferSpec(external_ptr=0)
        ).ensure_allocated()
        scratch = emu.Buffer("CPU", 4096 * lanes, types.uint8).ensure_allocated()
        before = emu.Buffer("CPU", 256 * lanes, types.uint32).ensure_allocated()

        def words(buffer: Any, count: int) -> Any:
            return np.frombuffer(buffer.as_memoryview(force_zero_copy=True), np.uint32)[:count]

        self.kept = (state, lds, memory, scratch, before)
        self.scalar = words(state.sgpr_buf, emu.SGPR_COUNT)
        self.first = self.scalar.copy()
        self.vector = words(state.vgpr_buf, 256 * lanes).reshape(256, lanes)
        self.before = words(before, 256 * lanes).reshape(256, lanes)
        files = (state.sgpr_buf, state.vgpr_buf, memory, lds, scratch, state.accvgpr_buf, before)
        self.buffers = [ctypes.c_uint64(file._buf.va_addr) for file in files]


def execute(emu: Any, scc_row: int, wave: Wave, code: bytes, request: dict[str, Any]) -> Any:
    """The answer to one request."""
    family = FAMILY[request["arch"]]
    lanes = 64 if family == "cdna" else 32
    scalar, vector = wave.scalar, wave.vector
    scalar[:] = wave.first
    vector[:] = 0
    for row, value in request["sgprs"].items():
        scalar[int(row)] = value
    for row, values in request["vgprs"].items():
        vector[int(row)] = np.array(values, np.uint32)
    for row, name in ((VCC, "vcc"), (EXEC, "exec")):
        scalar[row], scalar[row + 1] = request[name] & 0xFFFFFFFF, request[name] >> 32
    scalar[scc_row] = request["scc"]
    room = np.frombuffer(code + bytes(32), np.uint8).copy()
    start = room.ctypes.data
    scalar[emu.PC_LO_IDX], scalar[emu.PC_HI_IDX] = start & 0xFFFFFFFF, start >> 32
    (program, runtime), _ = emu._decode_at(start, family)
    if 6 in program.arg.globals:
        wave.before[:] = vector
    runtime.fxn(*(wave.buffers[place] for place in program.arg.globals))

    def mask(row: int) -> int:
        return int(scalar[row]) | (int(scalar[row + 1]) << 32 if lanes == 64 else 0)

    return {
        "vgprs": {str(row): vector[row].tolist() for row in request["read"]},
        "sgprs": {str(row): int(scalar[row]) for row in request["reads"]},
        "vcc": mask(VCC), "exec": mask(EXEC), "scc": int(scalar[scc_row]),
    }  # fmt: skip


def main() -> None:
    """Answers until the input ends."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    sys.path.insert(0, sys.argv[1])
    os.environ.setdefault("CC", "clang-22")
    from test.mockgpu.amd import emu  # type: ignore[import-not-found]
    from tinygrad.renderer.amd.dsl import SCC  # type: ignore[import-not-found]

    waves = {lanes: Wave(emu, lanes) for lanes in (32, 64)}
    codes = {
        (arch, line): code
        for arch, lines in json.loads(sys.stdin.readline()).items()
        for line, code in assembled(arch, lines).items()
    }
    for line in sys.stdin:
        request = json.loads(line)
        key = request["arch"], request["asm"]
        if key not in codes:
            out.write(json.dumps({"error": "not assembled"}) + "\n")
            continue
        try:
            wave = waves[64 if FAMILY[key[0]] == "cdna" else 32]
            answer = execute(emu, SCC.offset, wave, codes[key], request)
        except Exception as error:
            answer = {"error": " ".join(str(error).split())[:200]}
        out.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
