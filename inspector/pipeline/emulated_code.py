"""One launch of a kernel that is given as code, with its arguments in words."""

from __future__ import annotations

import math
import re
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
from msgspec import Struct

from ..capture.targets import CODE_OBJECT
from ..emulator.access import NotCoveredError
from ..emulator.hostcall import HOSTCALL_ADDRESS, HostCalls
from ..emulator.launch import Emulator, Launch
from ..emulator.lockstep import EmulationLimitError
from ..emulator.memory import Buffer, buffer_of
from ..emulator.numbers import to_bf16
from ..errors import KinspectError
from ..isa.asm.data import Constants, read_constants
from ..isa.text import parse_text
from ..machines.loader import load as load_machine
from ..model import Function, Program
from .emulating import implicit_arguments, pack_scalars, spread
from .emulation_profile import EmulationProfile
from .emulation_tally import LaunchTally

ADDRESS: Final = 0x7F00_0000_0000
SPACING: Final = 1 << 36
_ARGUMENT: Final = re.compile(
    r"(?P<kind>[a-z]+\d+)\s*(?:\[(?P<count>\d+)\](?:\s*=\s*(?P<fill>\w+))?|(?P<value>-?[\w.+-]+))"
)
_DTYPES: Final[dict[str, Any]] = {
    "f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": np.uint16,
    "i64": np.int64, "i32": np.int32, "i16": np.int16, "i8": np.int8,
    "u64": np.uint64, "u32": np.uint32, "u16": np.uint16, "u8": np.uint8,
}  # fmt: skip
_IMPLICIT_BYTES: Final = 256
_IMPLICIT_BYTES_V4: Final = 56  # "Code Object V4 Kernel Argument Metadata"
_SCRATCH_POINTERS: Final = 16
"""Bytes of the two addresses that Triton adds to every kernel's arguments."""
_MOST_BYTES: Final = 1 << 31
"""Of one argument's buffer."""


class CodeLaunch(Struct, frozen=True):
    """What to launch.

    Args:
        path: assembly text or a code object.
        kernel: its name; None where there is one kernel alone.
        arch: gfx name; None: the file's own.
        grid: workgroups in x, y, z.
        block: work-items in x, y, z; None: what the kernel requires, or the most that it allows.
        arguments: in words: `f32[4096]`, `i32[64]=zeros`, `i32 4096`.
        lds_bytes: LDS that the launch adds.
        sample: workgroups to execute; None for all.
        seconds: that it may take.
    """

    path: Path
    kernel: str | None
    arch: str | None
    grid: tuple[int, int, int]
    block: tuple[int, int, int] | None
    arguments: str
    lds_bytes: int = 0
    sample: int | None = None
    seconds: float = 600.0


class BufferState(Struct, frozen=True):
    """A buffer after the launch.

    Args:
        name: `argument 0: f32[4096]`.
        changed: elements that differ from before.
        nan: elements that are NaN; 0 for integers.
        smallest: least of the others; None where there is none.
        largest: greatest of them.
    """

    name: str
    changed: int
    nan: int
    smallest: float | None
    largest: float | None


class CodeResult(Struct, frozen=True):
    """What came of it."""

    profile: EmulationProfile
    buffers: tuple[BufferState, ...]
    printed: tuple[tuple[bool, str], ...] = ()
    """What the kernel printed: whether to standard error, and the text."""


def launch_code(wanted: CodeLaunch) -> CodeResult:
    """Executes the launch.

    Raises:
        KinspectError: the file cannot be read, the kernel or an argument is not understood, or an
            instruction is not covered.
    """
    program, function, constants = _kernel_of(wanted)
    machine = load_machine(wanted.arch or program.arch or "")
    emulator = Emulator(
        function,
        machine,
        constants,
        program.functions if program.form == "asm" else (),
    )
    block = wanted.block or _block_of(function)
    threads, most = math.prod(block), function.resources.max_workgroup_size
    if most is not None and threads > most:
        raise KinspectError(
            f"{function.name}: a workgroup of {threads:,} work-items, and the code is made for"
            f" {most:,} at most",
            "lower --block",
        )
    buffers, scalars, arrays = _arguments(wanted.arguments)
    lds = (function.resources.lds_bytes or 0) + wanted.lds_bytes
    if lds > machine.lds_max:
        raise KinspectError(
            f"{function.name}: {lds:,} bytes of LDS, and a workgroup of {machine.arch} has"
            f" {machine.lds_max:,}",
            "lower --lds",
        )
    packed = bytearray(pack_scalars(scalars))
    size = function.resources.kernarg_bytes or 0
    if size:  # 0 where the file does not say
        _check_size(function.name, len(packed), size)
    if size - len(packed) >= _IMPLICIT_BYTES:
        packed = packed.ljust(size - _IMPLICIT_BYTES, b"\0")
        packed += implicit_arguments(wanted.grid, block, wanted.lds_bytes, HOSTCALL_ADDRESS)
    total = wanted.grid[0] * wanted.grid[1] * wanted.grid[2]
    numbers = spread(total, wanted.sample) if wanted.sample and wanted.sample < total else None
    launch = Launch(
        wanted.grid, block, lds, bytes(packed), workgroups=numbers, seconds=wanted.seconds
    )
    calls = HostCalls()
    tally = LaunchTally(machine.arch, emulator)
    started = time.perf_counter()
    try:
        outcome = emulator.run(launch, [*buffers, calls.buffer])
        tally.add(outcome, total, time.perf_counter() - started)
    except EmulationLimitError as error:
        tally.give_up(error.troubles, total, time.perf_counter() - started)
    except NotCoveredError as error:
        raise KinspectError(
            f"{function.name}: the emulator does not carry out this yet: {error}",
            "analyze reads the kernel all the same",
        ) from None
    states = tuple(
        _state(buffer, before, kind) for buffer, (before, kind) in zip(buffers, arrays, strict=True)
    )
    return CodeResult(tally.profile(), states, tuple(calls.printed.parts))


def _check_size(kernel: str, given: int, taken: int) -> None:
    """Refuses arguments that leave more of the segment open than a compiler adds by itself."""
    missing = taken - -(-given // 8) * 8
    if missing >= _IMPLICIT_BYTES:
        missing -= _IMPLICIT_BYTES
    if given > taken or (missing >= 8 and missing not in (_SCRATCH_POINTERS, _IMPLICIT_BYTES_V4)):
        raise KinspectError(
            f"{kernel} takes {taken} bytes of arguments, and --args gives {given}",
            "name every argument, in the order of the kernel's parameters",
        )


def _kernel_of(wanted: CodeLaunch) -> tuple[Program, Function, Constants]:
    try:
        data = wanted.path.read_bytes()
    except OSError as error:
        raise KinspectError(f"{wanted.path}: {error.strerror or error}", "name a file") from None
    if data.startswith(CODE_OBJECT):
        from ..isa.objects.load import load_code_object

        program, constants = load_code_object(data, str(wanted.path), wanted.arch), Constants()
    else:
        text, name = data.decode(errors="replace"), str(wanted.path)
        program, constants = parse_text(text, name), read_constants(text, name)
    names = [function.name for function in program.kernels]
    if wanted.kernel is None and len(names) == 1:
        return program, program.kernels[0], constants
    for function in program.kernels:
        if function.name == wanted.kernel:
            return program, function, constants
    asked = f"no kernel {wanted.kernel}" if wanted.kernel else "more than one kernel"
    raise KinspectError(
        f"{wanted.path}: {asked}", f"choose with --kernel: {', '.join(names) or 'it has none'}"
    )


def _block_of(function: Function) -> tuple[int, int, int]:
    required = function.resources.reqd_workgroup_size
    if required is not None:
        return required
    most = function.resources.max_workgroup_size
    if most is None:
        raise KinspectError(f"{function.name}: its workgroup's size is not stated", "add --block")
    return (most, 1, 1)


def _arguments(
    text: str,
) -> tuple[list[Buffer], list[tuple[str, int | float]], list[tuple[Any, str]]]:
    """Buffers, what is passed, and the buffers' first contents with their types."""
    buffers: list[Buffer] = []
    passed: list[tuple[str, int | float]] = []
    arrays: list[tuple[Any, str]] = []
    for number, part in enumerate(part.strip() for part in text.split(",") if part.strip()):
        match = _ARGUMENT.fullmatch(part)
        if match is None or match["kind"] not in _DTYPES:
            raise KinspectError(
                f"argument {number}, {part!r}, is not understood",
                "write f32[4096], i32[64]=zeros (ones, arange, random) or i32 4096",
            )
        kind = match["kind"]
        if match["value"] is not None:
            real = kind.startswith(("f", "bf"))
            try:
                passed.append((kind, float(match["value"]) if real else int(match["value"], 0)))
            except ValueError:
                raise KinspectError(f"argument {number}: {part!r} is no number", "") from None
            continue
        if int(match["count"]) * np.dtype(_DTYPES[kind]).itemsize > _MOST_BYTES:
            raise KinspectError(
                f"argument {number}, {part!r}, takes more than {_MOST_BYTES >> 30} GiB",
                "launch on fewer elements",
            )
        values = _filled(kind, int(match["count"]), match["fill"], number)
        address = ADDRESS + SPACING * len(buffers)
        name = f"argument {number}: {kind}[{match['count']}]"
        buffers.append(buffer_of(values, address, name))
        arrays.append((values, kind))
        passed.append(("*" + kind, address))
    return buffers, passed, arrays


def _filled(kind: str, count: int, fill: str | None, seed: int) -> Any:
    real = kind.startswith(("f", "bf"))
    fill = fill or ("random" if real else "arange")
    rng = np.random.default_rng(seed)
    if fill == "random":
        values = rng.standard_normal(count) if real else rng.integers(0, 100, count)
    elif fill in ("zeros", "ones"):
        values = np.full(count, fill == "ones")
    elif fill == "arange":
        values = np.arange(count)
    else:
        raise KinspectError(f"{fill!r} fills no buffer", "there is zeros, ones, arange and random")
    if kind == "bf16":
        return to_bf16(values.astype(np.float32))
    return values.astype(_DTYPES[kind])


def _state(buffer: Buffer, before: Any, kind: str) -> BufferState:
    after = buffer.data[: buffer.size].view(before.dtype)
    bits = f"u{before.dtype.itemsize}"
    changed = int(np.count_nonzero(after.view(bits) != before.view(bits)))
    numbers = after
    if kind == "bf16":
        numbers = (after.astype(np.uint32) << np.uint32(16)).view(np.float32)
    nan = int(np.isnan(numbers).sum()) if numbers.dtype.kind == "f" else 0
    rest = numbers[~np.isnan(numbers)] if nan else numbers
    return BufferState(
        buffer.name,
        changed,
        nan,
        float(rest.min()) if len(rest) else None,
        float(rest.max()) if len(rest) else None,
    )


__all__ = ["BufferState", "CodeLaunch", "CodeResult", "launch_code"]
