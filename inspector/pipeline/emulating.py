"""The process that executes launches for a script: JSON lines in, JSON lines out.

A guest starts it (`python -m kinspect.inspector.pipeline.emulating [--profile FILE] FD`) and shares
memory with it through the file descriptor FD. When its input ends, or at `{"end": true}`, it writes
the profile.

    {"load": key, "text": assembly, "arch": name}        -> {"loaded": key}
    {"launch": {...}, "buffers": [...], "memory": bytes} -> {"written": [...], "troubles": [...],
                                                            "printed": [[is_error, text], ...]}
        before that, of a launch with "watched": {"step": text}, {"warning": text}
    {"idle": true}                                       -> {}, when nothing is executed any more

A reply repeats the "request" of its message, which tells it from others. It may be {"error": text,
"kind": kind}; the kinds are those of the guest's `EmulationError`.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import math
import mmap
import os
import signal
import struct
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import numpy as np
from msgspec import to_builtins

from ..base.errors import KinspectError
from ..emulator.extents import MOST_SCRATCH, check_extents
from ..emulator.grid import Launch
from ..emulator.hostcall import HOSTCALL_ADDRESS, HostCalls
from ..emulator.instructions import import_all
from ..emulator.launch import Emulator
from ..emulator.lockstep import EmulationLimitError, HangError
from ..emulator.memory import PRIVATE_APERTURE, SHARED_APERTURE, Buffer
from ..emulator.processes import NotIndependentError, usable_processes
from ..emulator.registry import NotCoveredError
from ..isa.asm.constants import read_constants
from ..isa.assembly import parse_text
from ..machines.loader import load as load_machine
from ..metrics.argument_words import ARGUMENT_FORMATS
from ..model import Function
from .emulation_profile import EmulationProfile
from .emulation_tally import LaunchProgress, LaunchTally, finding_of

LOOK_SECONDS = 1.0
"""How often the emulator's process looks whether the one that started it is still there."""
SCRATCH_ADDRESS = 0x7E10_0000_0000
"""Address of Triton's global scratch memory, which the host allocates for a launch."""
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_FROM = -1, -2, -3
"""Options of `mallopt` (glibc, malloc.h): how much stays at the heap's top, by how much the heap
grows, and from which size on an allocation is a mapping of its own."""


def pack_arguments(
    arguments: Sequence[tuple[str, int | float | str]], scratch: int, implicit: bytes
) -> bytes:
    """The kernel argument segment, with each argument aligned to its own size.

    The arguments are followed by the addresses of Triton's global scratch and profile scratch
    memory, and by the hidden arguments.

    Args:
        arguments: type as in Triton's signatures (`*fp16`, `i32`, `fp32`) and value; `nan`, `inf`
            and `-inf` as text.

    Raises:
        KinspectError: a type that is not known.
    """
    return pack_scalars([*arguments, ("*", scratch), ("*", 0)]) + implicit


def pack_scalars(arguments: Sequence[tuple[str, int | float | str]]) -> bytes:
    """Explicit arguments, each aligned to its own size.

    Raises:
        KinspectError: a type that is not known.
    """
    packed = bytearray()
    for kind, value in arguments:
        if kind.startswith("*"):
            raw = struct.pack("<Q", int(value) & (1 << 64) - 1)
        elif kind == "bf16" or kind in ARGUMENT_FORMATS:
            raw = _scalar(kind, value)
        else:
            raise KinspectError(f"an argument of type {kind} cannot be passed to a kernel")
        packed.extend(b"\0" * (-len(packed) % len(raw)))
        packed.extend(raw)
    return bytes(packed)


def implicit_arguments(
    grid: tuple[int, int, int], threads: tuple[int, int, int], lds_bytes: int, hostcalls: int = 0
) -> bytes:
    """Packs the hidden arguments, which follow the explicit ones at a multiple of 8 bytes.

    Source: LLVM's AMDGPUUsage, "Code Object V5 Kernel Argument Metadata" (hidden arguments), whose
    offsets are fixed; queues and the printf buffer of OpenCL are absent (0).

    Args:
        hostcalls: address of the hostcall buffer; 0 for none.
    """
    block = bytearray(256)
    struct.pack_into("<3I3H", block, 0, *grid, *threads)
    struct.pack_into("<H", block, 64, 3)  # the grid's dimensions
    struct.pack_into("<Q", block, 80, hostcalls)
    struct.pack_into("<I", block, 120, lds_bytes)
    struct.pack_into("<II", block, 192, PRIVATE_APERTURE >> 32, SHARED_APERTURE >> 32)
    return bytes(block)


def takes_implicit(function: Function, arguments: Sequence[tuple[str, int | float | str]]) -> bool:
    """Tells whether the kernel's argument segment is longer than what Triton passes."""
    passed = pack_arguments(arguments, 0, b"")
    return (function.resources.kernarg_bytes or 0) > len(passed)


def _scalar(kind: str, value: float | str) -> bytes:
    """Returns the bytes of a scalar, converted as Triton's launcher does.

    bf16 is truncated, and a value too large for float32 becomes infinite.
    """
    if kind == "bf16" or ARGUMENT_FORMATS[kind] == "f":
        with np.errstate(over="ignore"):
            raw: bytes = np.float32(value).tobytes()
        return raw[2 if kind == "bf16" else 0 :]
    code = ARGUMENT_FORMATS[kind]
    if code in "ed":
        return struct.pack("<" + code, float(value))
    bits = 8 * struct.calcsize(code)
    return (int(value) & (1 << bits) - 1).to_bytes(bits // 8, "little")


class Service:
    """The loaded kernels, and the memory that is shared with the guest."""

    def __init__(
        self,
        descriptor: int,
        processes: int = 1,
        tell: Callable[[dict[str, str]], None] = lambda message: None,
    ) -> None:
        self._descriptor = descriptor
        self._tell = tell
        self._processes = processes
        self._emulators: dict[str, Emulator] = {}
        self._tallies: dict[str, LaunchTally] = {}
        self._memory = np.zeros(0, np.uint8)
        self._calls: HostCalls | None = None

    def answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Answers a message; the reply has what the kernel printed, even if the launch failed."""
        self._calls = None
        try:
            if "load" in message:
                return self._load(message["load"], message["text"], message["arch"])
            reply = self._launch(message)
        except HangError as error:
            reply = {"error": error.message, "kind": "hang"}
        except EmulationLimitError as error:
            reply = {"error": error.message, "kind": "limit"}
        except KinspectError as error:
            reply = {"error": error.message, "kind": "failed"}
        except NotCoveredError as error:
            text = f"the emulator does not carry out this yet: {error}"
            reply = {"error": text, "kind": "uncovered"}
        return {**reply, **self._printed()}

    def _printed(self) -> dict[str, Any]:
        if self._calls is None or not self._calls.printed.parts:
            return {}
        return {"printed": self._calls.printed.parts}

    def _load(self, key: str, text: str, arch: str) -> dict[str, Any]:
        """Loads the only kernel of an assembly text; launches name it by `key`."""
        started = time.perf_counter()
        machine = load_machine(arch)
        program = parse_text(text, key)
        (kernel,) = program.kernels
        constants = read_constants(text, key)
        emulator = Emulator(
            kernel,
            machine,
            constants,
            program.functions,
        )
        self._emulators[key] = emulator
        self._tallies[key] = LaunchTally(arch, emulator, time.perf_counter() - started)
        return {"loaded": key}

    def _launch(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Executes a launch; replies with the indices of the buffers that it wrote, and faults."""
        request = message["launch"]
        emulator = self._emulators[request["kernel"]]
        buffers = self._buffers(message["buffers"], message["memory"])
        grid_workgroups = math.prod(request["grid"])
        is_sampled = request["sample"] is not None
        check_extents(request["grid"], (request["threads"], 1, 1), is_sampled)
        scratch_bytes = request["scratch"] * grid_workgroups
        if scratch_bytes > MOST_SCRATCH:
            raise KinspectError(
                f"{scratch_bytes:,} bytes of global scratch memory for {grid_workgroups:,}"
                f" workgroups; the emulator has {MOST_SCRATCH:,}",
                "launch a smaller grid",
            )
        if scratch_bytes:
            data = np.zeros(scratch_bytes + 64, np.uint8)
            buffers.append(Buffer(SCRATCH_ADDRESS, scratch_bytes, data, "global scratch memory"))
        if takes_implicit(emulator.code.function, request["arguments"]):
            self._calls = HostCalls()
            buffers.append(self._calls.buffer)
        launch = self._described_launch(request, grid_workgroups, scratch_bytes)
        started = time.perf_counter()
        tally = self._tallies[request["kernel"]]
        watch = None
        if message.get("watched"):
            watch = LaunchProgress(
                emulator.code.function.name,
                grid_workgroups if launch.workgroups is None else len(launch.workgroups),
                lambda text: self._tell({"step": text}),
                lambda text: self._tell({"warning": text}),
            )
        try:
            outcome = emulator.run(launch, list(buffers), watch=watch)
        except EmulationLimitError as error:
            tally.give_up(error.troubles, grid_workgroups, time.perf_counter() - started)
            raise
        except NotIndependentError:
            return {"again": True}
        seconds = time.perf_counter() - started
        tally.add(outcome, grid_workgroups, seconds)
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

    def _described_launch(
        self, request: Mapping[str, Any], grid_workgroups: int, scratch_bytes: int
    ) -> Launch:
        """Returns the launch that a message describes; `self._calls` is set if it can print."""
        grid, threads = tuple(request["grid"]), (request["threads"], 1, 1)
        hostcall_address = HOSTCALL_ADDRESS if self._calls is not None else 0
        sample = request["sample"]
        # Forked processes share the guest's memory, but not buffers that were allocated here.
        one_process = request.get("alone") or scratch_bytes or self._calls is not None
        return Launch(
            grid,
            threads,
            request["lds"],
            pack_arguments(
                request["arguments"],
                SCRATCH_ADDRESS if scratch_bytes else 0,
                implicit_arguments(grid, threads, request["lds"], hostcall_address),
            ),
            workgroups=None
            if sample is None or sample >= grid_workgroups
            else spread(grid_workgroups, sample),
            seconds=request["seconds"],
            processes=1 if one_process else self._processes,
        )

    def profile(self) -> list[EmulationProfile]:
        """Returns the profile of each launched kernel, in the order in which they were loaded."""
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
    """Returns `count` workgroup numbers spread evenly over a grid, with the first and the last."""
    if count <= 1:
        return (0,)
    return tuple(sorted({round(index * (total - 1) / (count - 1)) for index in range(count)}))


def keep_freed_memory() -> None:
    """Makes glibc keep the memory of freed arrays for later ones.

    Each instruction allocates arrays of some 100 KiB and frees them. glibc would return these to
    the system, which clears them again: a sixth of a GEMM's time. Other C libraries are left alone.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for option, size in ((_TRIM_THRESHOLD, 2**31 - 1), (_TOP_PAD, 2**26), (_MMAP_FROM, 2**30)):
            mallopt(option, size)


def main() -> None:
    """Answers messages until standard input ends, or the process that started this one does."""
    # The terminal's Ctrl-C is for the guest, which decides whether it goes on.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # held by the guest
    keep_freed_memory()
    end_with_parent()
    import_all()  # while the guest compiles
    parser = argparse.ArgumentParser()
    parser.add_argument("descriptor", type=int)
    parser.add_argument("--profile", type=Path)
    parser.add_argument("--processes", type=int)
    options = parser.parse_args()
    encode = msgspec.json.Encoder().encode

    def tell(reply: Mapping[str, Any]) -> None:
        sys.stdout.buffer.write(encode(reply) + b"\n")
        sys.stdout.buffer.flush()

    service = Service(options.descriptor, options.processes or usable_processes(), tell)
    # The profile has what was executed until the script's process ended, however it did.
    with contextlib.suppress(_ParentGoneError, BrokenPipeError):
        for line in sys.stdin.buffer:
            message = msgspec.json.decode(line)
            if "end" in message:
                break
            answer = {} if "idle" in message else _answer(service, message)
            tell({**answer, "request": message.get("request")})
    signal.setitimer(signal.ITIMER_REAL, 0)
    if options.profile is not None:
        # Where the command was killed, its folder is gone, and nobody reads this.
        with contextlib.suppress(FileNotFoundError):
            partial = options.profile.with_suffix(".partial")
            partial.write_bytes(encode(service.profile()))
            partial.replace(options.profile)


def _answer(service: Service, message: Mapping[str, Any]) -> dict[str, Any]:
    """The service's answer; Ctrl-C ends what it executes."""
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            return service.answer(message)
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
    except KeyboardInterrupt:
        return {"error": "it was interrupted", "kind": "limit"}


class _ParentGoneError(BaseException):
    """The process that started this one has ended."""


def end_with_parent() -> None:
    """Makes this process end soon after the one that started it, whatever it executes then."""
    parent = os.getppid()

    def look(number: int, frame: FrameType | None) -> None:
        if os.getppid() != parent:
            raise _ParentGoneError

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, LOOK_SECONDS, LOOK_SECONDS)


__all__ = ["EmulationLimitError", "Service", "main", "pack_arguments", "spread"]

if __name__ == "__main__":
    main()
