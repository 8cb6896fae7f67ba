"""Launches whole kernels in tinygrad's emulator: a JSON request in, a JSON answer out, by lines.

    python tests/witness_launcher.py CHECKOUT < requests > answers

A request: arch, path (of the code object), kernel, lds (bytes), grid [x, y, z], threads, buffers
[path of raw bytes, ...], scalars (hex of what follows the pointers), launches (how often). The
buffers' files are written back after the last one. An answer: {"seconds": [of each launch]} or
{"error": text}. Needs clang; internals of tinygrad as of August 2026 (test/mockgpu/amd/emu.py).
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import struct
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from elftools.elf.elffile import ELFFile
from witness_worker import FAMILY

INVALIDATIONS = {0xE0AC0000: 2, 0xE0B00000: 2, 0xEE0AC07C: 3, 0xEE0B007C: 3}
"""First dword and length of buffer_gl0_inv, buffer_gl1_inv (gfx11), global_inv, global_wb (gfx12).

The witness does not know them. It has no caches, so that they may as well be s_nop.
"""
S_NOP = 0xBF800000
LDS_GRANULE = 512
"""Bytes that a unit of COMPUTE_PGM_RSRC2.LDS_SIZE stands for."""


class Image:
    """A code object in memory.

    Attributes:
        base: its address.
        size: bytes.
        entry: offset of the kernel's first instruction.
        rsrc2: COMPUTE_PGM_RSRC2 of the kernel's descriptor.
    """

    def __init__(self, path: str, kernel: str) -> None:
        with open(path, "rb") as file:
            elf = ELFFile(file)
            segments = [s for s in elf.iter_segments() if s["p_type"] == "PT_LOAD"]
            self.size = max(s["p_vaddr"] + s["p_memsz"] for s in segments)
            self.memory = mmap.mmap(-1, (self.size + 0x2000) & ~0xFFF)
            for s in segments:
                self.memory[s["p_vaddr"] : s["p_vaddr"] + s["p_filesz"]] = s.data()
            symbols = elf.get_section_by_name(".symtab").iter_symbols()
            (descriptor,) = [s["st_value"] for s in symbols if s.name == kernel + ".kd"]
        dwords = np.frombuffer(self.memory, np.uint32)
        for first, length in INVALIDATIONS.items():
            for place in np.flatnonzero(dwords == first):
                dwords[place : place + length] = S_NOP
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.entry = descriptor + struct.unpack_from("<q", self.memory, descriptor + 16)[0]
        (self.rsrc2,) = struct.unpack_from("<I", self.memory, descriptor + 52)


def launch(run_asm: Any, request: dict[str, Any]) -> list[float]:
    """Seconds of each launch."""
    image = Image(request["path"], request["kernel"])
    blocks = -(-request["lds"] // LDS_GRANULE)
    rsrc2 = (image.rsrc2 & ~(0x1FF << 15)) | blocks << 15
    seconds = []
    for _ in range(request["launches"]):
        buffers = [np.fromfile(path, np.uint8) for path in request["buffers"]]
        pointers = struct.pack(f"<{len(buffers)}Q", *(b.ctypes.data for b in buffers))
        arguments = pointers + bytes.fromhex(request["scalars"])
        block = np.frombuffer(arguments.ljust(512, b"\0"), np.uint8).copy()
        place = block.ctypes.data
        started = time.perf_counter()
        run_asm(
            image.base + image.entry, image.size - image.entry, *request["grid"],
            request["threads"], 1, 1, place, rsrc2=rsrc2, arch=FAMILY[request["arch"]],
            user_data=[place & 0xFFFFFFFF, place >> 32],
        )  # fmt: skip
        seconds.append(time.perf_counter() - started)
    for path, buffer in zip(request["buffers"], buffers, strict=True):
        Path(path).write_bytes(buffer.tobytes())
    return seconds


def main() -> None:
    """Answers until the input ends."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    sys.path.insert(0, sys.argv[1])
    os.environ.setdefault("CC", "clang-22")
    from test.mockgpu.amd.emu import run_asm  # type: ignore[import-not-found]

    for line in sys.stdin:
        try:
            answer: dict[str, Any] = {"seconds": launch(run_asm, json.loads(line))}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: " + " ".join(str(error).split())[:300]}
        out.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
