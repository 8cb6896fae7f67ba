"""The process that executes launches for a script: JSON lines in, JSON lines out.

A guest starts it (`python -m kinspect.inspector.pipeline.emulating [--profile FILE] FD`) and shares
memory with it through the file FD. When its input ends, what was counted goes to the profile.

    {"load": key, "text": assembly, "arch": name}        -> {"loaded": key}
    {"launch": {...}, "buffers": [...], "memory": bytes} -> {"written": [...], "troubles": [...]}

Each may be answered by {"error": text, "kind": kind} as well; the kinds are those of the guest's
`EmulationError`.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import to_builtins

from ..emulator.access import NotCoveredError
from ..emulator.launch import Emulator, Launch
from ..emulator.lockstep import EmulationLimitError, HangError
from ..emulator.memory import PRIVATE_APERTURE, SHARED_APERTURE, Buffer
from ..errors import KinspectError
from ..isa.text import parse_text
from ..machines.loader import load as load_machine
from .emulation_profile import KernelProfile, Tally, finding_of

SCRATCH_ADDRESS = 0x7E10_0000_0000
"""Where Triton's global scratch memory lies, which the host allocates for a launch."""
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_FROM = -1, -2, -3
"""Options of `mallopt` (glibc, malloc.h): how much stays at the heap's top, by how much the heap
grows, and from which size on an allocation is a mapping of its own."""
_FORMATS: Mapping[str, str] = {
    "i1": "B", "i8": "b", "i16": "h", "i32": "i", "i64": "q",
    "u1": "B", "u8": "B", "u16": "H", "u32": "I", "u64": "Q",
    "fp32": "f", "f32": "f", "fp64": "d", "f64": "d", "fp16": "e", "f16": "e",
}  # fmt: skip


def pack_arguments(
    arguments: Sequence[tuple[str, int | float]], scratch: int, implicit: bytes
) -> bytes:
    """The kernel argument segment: each argument aligned to its own size.

    Behind them stand the addresses of Triton's global scratch and profile scratch memory.

    Args:
        arguments: type as in Triton's signatures (`*fp16`, `i32`, `fp32`) and value.
        scratch: address of the global scratch memory.
        implicit: the hidden arguments.

    Raises:
        KinspectError: a type that is not known.
    """
    return pack_scalars([*arguments, ("*", scratch), ("*", 0)]) + implicit


def pack_scalars(arguments: Sequence[tuple[str, int | float]]) -> bytes:
    """Explicit arguments, each aligned to its own size.

    Raises:
        KinspectError: a type that is not known.
    """
    packed = bytearray()
    for kind, value in arguments:
        if kind.startswith("*"):
            raw = struct.pack("<Q", int(value) & (1 << 64) - 1)
        elif kind == "bf16" or kind in _FORMATS:
            raw = _scalar(kind, value)
        else:
            raise KinspectError(f"an argument of type {kind} cannot be passed to a kernel")
        packed.extend(b"\0" * (-len(packed) % len(raw)))
        packed.extend(raw)
    return bytes(packed)


def implicit_arguments(
    grid: tuple[int, int, int], threads: tuple[int, int, int], lds_bytes: int
) -> bytes:
    """What stands behind the explicit arguments, on a multiple of 8 bytes.

    Source: LLVM's AMDGPUUsage, "Code Object V5 Kernel Argument Metadata" (hidden arguments), whose
    offsets are fixed; queues, printf and hostcall buffers are absent (0).
    """
    block = bytearray(256)
    struct.pack_into("<3I3H", block, 0, *grid, *threads)
    struct.pack_into("<H", block, 64, 3)  # the grid's dimensions
    struct.pack_into("<I", block, 120, lds_bytes)
    struct.pack_into("<II", block, 192, PRIVATE_APERTURE >> 32, SHARED_APERTURE >> 32)
    return bytes(block)


def _scalar(kind: str, value: float) -> bytes:
    if kind == "bf16":
        return struct.pack("<f", float(value))[2:]
    form = _FORMATS[kind]
    if form in "efd":
        return struct.pack("<" + form, float(value))
    bits = 8 * struct.calcsize(form)
    return (int(value) & (1 << bits) - 1).to_bytes(bits // 8, "little")


class Service:
    """Kernels that were loaded, and the shared memory."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._emulators: dict[str, Emulator] = {}
        self._tallies: dict[str, Tally] = {}
        self._memory = np.zeros(0, np.uint8)

    def answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """One reply to one message."""
        try:
            if "load" in message:
                return self._load(message["load"], message["text"], message["arch"])
            return self._launch(message)
        except HangError as error:
            return {"error": error.message, "kind": "hang"}
        except EmulationLimitError as error:
            return {"error": error.message, "kind": "limit"}
        except KinspectError as error:
            return {"error": error.message, "kind": "failed"}
        except NotCoveredError as error:
            text = f"the emulator does not carry out this yet: {error}"
            return {"error": text, "kind": "uncovered"}

    def _load(self, key: str, text: str, arch: str) -> dict[str, Any]:
        started = time.perf_counter()
        machine = load_machine(arch)
        kernel = parse_text(text, key).kernels[0]
        emulator = Emulator(
            kernel,
            arch,
            machine.counters,
            machine.waitcnt_fields,
            machine.cache_line_bytes,
            machine.mfma_cycles,
        )
        self._emulators[key] = emulator
        self._tallies[key] = Tally(arch, emulator, time.perf_counter() - started)
        return {"loaded": key}

    def _launch(self, message: Mapping[str, Any]) -> dict[str, Any]:
        wanted = message["launch"]
        emulator = self._emulators[wanted["kernel"]]
        buffers = self._buffers(message["buffers"], message["memory"])
        grid = tuple(wanted["grid"])
        total = grid[0] * grid[1] * grid[2]
        scratch = wanted["scratch"] * total
        if scratch:
            data = np.zeros(scratch + 64, np.uint8)
            buffers.append(Buffer(SCRATCH_ADDRESS, scratch, data, "global scratch memory"))
        sample = wanted["sample"]
        launch = Launch(
            grid,
            (wanted["threads"], 1, 1),
            wanted["lds"],
            pack_arguments(
                wanted["arguments"],
                SCRATCH_ADDRESS if scratch else 0,
                implicit_arguments(grid, (wanted["threads"], 1, 1), wanted["lds"]),
            ),
            workgroups=None if sample is None or sample >= total else spread(total, sample),
            seconds=wanted["seconds"],
        )
        started = time.perf_counter()
        tally = self._tallies[wanted["kernel"]]
        try:
            outcome = emulator.run(launch, list(buffers))
        except EmulationLimitError as error:
            tally.give_up(error.troubles, total, time.perf_counter() - started)
            raise
        seconds = time.perf_counter() - started
        tally.add(outcome, total, seconds)
        return {
            "written": [
                index
                for index, buffer in enumerate(buffers[: len(message["buffers"])])
                if buffer.words is not None and buffer.words.written
            ],
            "troubles": [
                to_builtins(finding_of(trouble, emulator.code.function))
                for trouble in outcome.troubles
            ],
            "workgroups": outcome.workgroups,
            "waves": outcome.waves,
            "seconds": seconds,
        }

    def profile(self) -> list[KernelProfile]:
        """What was counted, by kernel in the order of their first launches."""
        return [tally.profile() for tally in self._tallies.values() if tally.launches]

    def _buffers(self, described: Sequence[Mapping[str, Any]], size: int) -> list[Buffer]:
        if len(self._memory) < size:
            self._memory = np.frombuffer(mmap.mmap(self._descriptor, size), np.uint8)
        return [
            Buffer(
                entry["address"],
                entry["size"],
                self._memory[entry["offset"] : entry["offset"] + ((entry["size"] + 79) & ~15)],
                entry["name"],
            )
            for entry in described
        ]


def spread(total: int, count: int) -> tuple[int, ...]:
    """`count` workgroup numbers spread evenly over a grid, first and last among them."""
    if count <= 1:
        return (0,)
    return tuple(sorted({round(index * (total - 1) / (count - 1)) for index in range(count)}))


def keep_freed_memory() -> None:
    """Lets the C library keep what arrays give back, for the next ones.

    Each instruction makes arrays of some 100 KiB and drops them. glibc returns these to the system,
    which has to clear them again: a sixth of a GEMM's time. Other libraries are left as they are.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for option, size in ((_TRIM_THRESHOLD, 2**31 - 1), (_TOP_PAD, 2**26), (_MMAP_FROM, 2**30)):
            mallopt(option, size)


def main() -> None:
    """Answers messages until standard input ends."""
    keep_freed_memory()
    *options, descriptor = sys.argv[1:]
    service = Service(int(descriptor))
    encode = msgspec.json.Encoder().encode
    for line in sys.stdin.buffer:
        reply = service.answer(msgspec.json.decode(line))
        sys.stdout.buffer.write(encode(reply) + b"\n")
        sys.stdout.buffer.flush()
    if options:
        Path(options[1]).write_bytes(encode(service.profile()))


__all__ = ["EmulationLimitError", "Service", "main", "pack_arguments", "spread"]

if __name__ == "__main__":
    main()
