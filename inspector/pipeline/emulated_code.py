"""Executes one launch of a kernel from assembly or a code object, with arguments as typed."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from msgspec import Struct

from ..base import limits
from ..base.errors import KinspectError
from ..base.interrupting import data_bytes, memory_limit
from ..base.named_files import allow_target, file_bytes
from ..base.status import doing
from ..capture.options import matches
from ..capture.targets import CODE_OBJECT
from ..emulator.extents import check_extents
from ..emulator.grid import Launch
from ..emulator.hostcall import HOSTCALL_ADDRESS, HostCalls
from ..emulator.launch import Emulator
from ..emulator.lockstep import EmulationLimitError
from ..emulator.memory import Buffer, buffer_of
from ..emulator.numbers import to_bf16
from ..emulator.registry import NotCoveredError
from ..isa.asm.constants import Constants, read_constants
from ..isa.assembly import parse_text
from ..machines.loader import load as load_machine
from ..model import Function, Machine, Program
from .captured_launch import zeroed
from .emulating import implicit_arguments, pack_scalars, spread
from .emulation_profile import EmulationProfile
from .emulation_tally import LaunchProgress, LaunchTally
from .naming import names_of_function

_MOST_DIGITS: Final = 18
"""Of a buffer's count; more elements have no address."""
MOST_MEMORY: Final = 4 << 30
"""Bytes of data that executing a launch may take."""

ADDRESS: Final = 0x7F00_0000_0000
"""Address of the first buffer."""
SPACING: Final = 1 << 36
"""Distance of two buffers' addresses: an index that is out of bounds does not reach the next."""
_ARGUMENT: Final = re.compile(
    r"(?P<kind>[a-z]+\d+)\s*(?:\[(?P<count>\d+)\](?:\s*=\s*(?P<fill>\w+))?|(?P<value>-?[\w.+-]+))"
)
_DTYPES: Final[dict[str, Any]] = {
    "f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": np.uint16,
    "i64": np.int64, "i32": np.int32, "i16": np.int16, "i8": np.int8,
    "u64": np.uint64, "u32": np.uint32, "u16": np.uint16, "u8": np.uint8,
}  # fmt: skip
_KIND_OF: Final = {
    np.dtype(dtype).str[1:]: kind for kind, dtype in _DTYPES.items() if kind != "bf16"
}
_IMPLICIT_BYTES: Final = 256  # hidden arguments of code object V5
_IMPLICIT_BYTES_V4: Final = 56  # "Code Object V4 Kernel Argument Metadata"
_SCRATCH_POINTERS: Final = 16
_LARGEST_BYTES: Final = 8
"""Of an argument: a segment may end in less than that of padding."""
"""Bytes of the two addresses that Triton adds to every kernel's arguments."""
_MOST_BYTES: Final = 1 << 31
"""Limit on one argument's buffer."""


class CodeLaunch(Struct, frozen=True):
    """A launch of one kernel of a file.

    Args:
        kernel: the kernel's name; None if the file has only one.
        arch: gfx name; None for the file's own.
        block: work-items in x, y, z; None for what the kernel requires, or the most it allows.
        arguments: as typed: `f32[4096]`, `i32[64]=zeros`, `i32 4096`, separated by commas.
        sample: how many workgroups are executed; None for all.
        names: symbol -> name of the kernels that are called otherwise than in the file.
        passed: arrays of NumPy, which the launch writes, and its scalars, in place of `arguments`.
        source: the file that `path` was compiled from, by which errors name it; None for `path`.
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
    names: Mapping[str, str] = {}
    passed: tuple[Any, ...] = ()
    source: Path | None = None


class BufferState(Struct, frozen=True):
    """A buffer after the launch.

    Args:
        name: `argument 0: f32[4096]`.
        nan: how many elements are NaN; 0 for integers.
        smallest: the smallest of the other elements; None where there is none.
    """

    name: str
    changed: int
    nan: int
    smallest: float | None
    largest: float | None


class CodeResult(Struct, frozen=True):
    """The figures of a launch, its buffers afterwards, and what it printed."""

    profile: EmulationProfile
    buffers: tuple[BufferState, ...]
    printed: tuple[tuple[bool, str], ...] = ()
    """What the kernel printed: whether to standard error, and the text."""


def launch_code(request: CodeLaunch, warn: Callable[[str], None] = lambda text: None) -> CodeResult:
    """Executes a launch.

    Args:
        warn: takes that it will take over a minute, in words.

    Raises:
        KinspectError: the file cannot be read, the kernel or an argument is not understood, or an
            instruction is not covered.
    """
    try:
        size = request.path.stat().st_size
    except OSError:
        size = 0  # said when it is read
    with limits.reading(str(request.path), size):
        program, function, constants = _kernel_of(request)
        if not function.instructions:
            raise KinspectError(f"{function.name}: no instruction of it was read", "see analyze")
        machine = load_machine(request.arch or program.arch or "")
        called = program.functions if program.form == "asm" else ()
        emulator = Emulator(function, machine, constants, called)
    if request.passed:
        buffers, scalars, arrays = passed_arguments(request.passed)
    else:
        buffers, scalars, arrays = typed_arguments(request.arguments)
    launch = code_launch(request, function, machine, scalars)
    grid_workgroups = math.prod(request.grid)
    host_calls = HostCalls()
    tally = LaunchTally(machine.arch, emulator)
    started = time.perf_counter()
    most_data = (data_bytes() or 0) + MOST_MEMORY
    executed = grid_workgroups if launch.workgroups is None else len(launch.workgroups)
    watch = LaunchProgress(function.name, executed, doing, warn)
    try:
        with memory_limit(lambda: most_data):
            outcome = emulator.run(launch, [*buffers, host_calls.buffer], watch=watch)
        tally.add(outcome, grid_workgroups, time.perf_counter() - started)
    except EmulationLimitError as error:
        tally.give_up(error.troubles, grid_workgroups, time.perf_counter() - started)
    except MemoryError:
        raise KinspectError(
            f"{function.name}: executing it takes more than {MOST_MEMORY >> 30} GiB of memory",
            "launch a smaller grid, or execute a part of it with --sample N",
        ) from None
    except NotCoveredError as error:
        raise KinspectError(
            f"{function.name}: the emulator does not carry out this yet: {error}",
            "analyze reads the kernel all the same",
        ) from None
    states = tuple(
        _state(buffer, before, kind) for buffer, (before, kind) in zip(buffers, arrays, strict=True)
    )
    given = [value for value in request.passed if isinstance(value, np.ndarray)]
    for array, buffer in zip(given, buffers, strict=False):
        array[...] = buffer.data[: buffer.size].view(array.dtype).reshape(array.shape)
    return CodeResult(tally.profile(), states, tuple(host_calls.printed.parts))


def code_launch(
    request: CodeLaunch,
    function: Function,
    machine: Machine,
    arguments: Sequence[tuple[str, int | float]],
) -> Launch:
    """Checks the workgroup's size, LDS and arguments, and returns the launch.

    Raises:
        KinspectError: the code or the GPU does not allow it.
    """
    block = request.block or _block_of(function)
    check_extents(request.grid, block, bool(request.sample))
    threads, most_threads = math.prod(block), function.resources.max_workgroup_size
    if most_threads is not None and threads > most_threads:
        raise KinspectError(
            f"{function.name}: a workgroup of {threads:,} work-items, and the code is made for"
            f" {most_threads:,} at most",
            "launch a smaller workgroup",
        )
    lds_bytes = (function.resources.lds_bytes or 0) + request.lds_bytes
    if lds_bytes > machine.lds_max:
        raise KinspectError(
            f"{function.name}: {lds_bytes:,} bytes of LDS, and a workgroup of {machine.arch} has"
            f" {machine.lds_max:,}",
            "lower --lds",
        )
    kernarg = bytearray(pack_scalars(arguments))
    kernarg_bytes = function.resources.kernarg_bytes or 0
    if kernarg_bytes:  # 0 where the file does not state it
        _check_size(function, len(kernarg), kernarg_bytes)
    if kernarg_bytes - len(kernarg) >= _IMPLICIT_BYTES:
        kernarg = kernarg.ljust(kernarg_bytes - _IMPLICIT_BYTES, b"\0")
        kernarg += implicit_arguments(request.grid, block, request.lds_bytes, HOSTCALL_ADDRESS)
    grid_workgroups = math.prod(request.grid)
    sampled_workgroups = (
        spread(grid_workgroups, request.sample)
        if request.sample and request.sample < grid_workgroups
        else None
    )
    return Launch(
        request.grid,
        block,
        lds_bytes,
        bytes(kernarg),
        workgroups=sampled_workgroups,
        seconds=request.seconds,
    )


def _check_size(function: Function, explicit_bytes: int, segment_bytes: int) -> None:
    """Refuses arguments that do not fill the kernel's segment, hidden arguments aside."""
    given = -(-explicit_bytes // 8) * 8
    hidden = _IMPLICIT_BYTES if segment_bytes - given >= _IMPLICIT_BYTES else 0
    left = segment_bytes - hidden
    allowed = {_IMPLICIT_BYTES_V4}
    pointers = function.resources.pointers
    if pointers is None or {given, given + _SCRATCH_POINTERS // 2} <= {*pointers}:
        allowed.add(_SCRATCH_POINTERS)
    is_filled = 0 <= left - explicit_bytes < _LARGEST_BYTES
    if not is_filled and left - given not in allowed:
        last = max((place + 8 for place in pointers or ()), default=1)
        hidden = _IMPLICIT_BYTES if segment_bytes >= _IMPLICIT_BYTES + last else 0
        places = f" (pointers at bytes {', '.join(map(str, pointers))})" if pointers else ""
        raise KinspectError(
            f"{function.name} takes {segment_bytes - hidden} bytes of arguments{places}, and --args"
            f" gives {explicit_bytes}",
            "name every argument, in the order of the kernel's parameters",
        )


def _kernel_of(request: CodeLaunch) -> tuple[Program, Function, Constants]:
    """Reads the file; returns its program, the requested kernel, and its data sections."""
    allow_target(request.path)
    try:
        data = file_bytes(request.path)
    except OSError as error:
        raise KinspectError(f"{request.path}: {error.strerror or error}", "name a file") from None
    if data.startswith(CODE_OBJECT):
        from ..isa.objects.load import load_code_object

        program, constants = load_code_object(data, str(request.path), request.arch), Constants()
    else:
        text, name = data.decode(errors="replace"), str(request.path)
        program, constants = parse_text(text, name), read_constants(text, name)
        if request.names:
            from ..compile.hip.names import readable

            program = readable(program, request.names)
    names = [function.name for function in program.kernels]
    if request.kernel is None and len(names) == 1:
        return program, program.kernels[0], constants
    chosen = [
        f
        for f in program.kernels
        if matches((request.kernel or "",), names_of_function(f.name, f.symbol))
    ]
    if len(chosen) == 1:
        return program, chosen[0], constants
    file, option = request.source or request.path, "kernel=" if request.passed else "--kernel"
    if not names:
        raise KinspectError(
            f"{file}: it has no kernel", "a kernel needs an .amdhsa_kernel or its metadata"
        )
    is_wrong = request.kernel and not chosen
    problem = f"no kernel {request.kernel}" if is_wrong else "more than one kernel"
    raise KinspectError(f"{file}: {problem}", f"choose with {option}: {', '.join(names)}")


def _block_of(function: Function) -> tuple[int, int, int]:
    """Returns the workgroup shape that the code requires, else the largest that it allows."""
    required = function.resources.reqd_workgroup_size
    if required is not None:
        return required
    most_threads = function.resources.max_workgroup_size
    if most_threads is None:
        raise KinspectError(
            f"{function.name}: its workgroup's size is not stated",
            "add --workgroup",
        )
    return (most_threads, 1, 1)


def typed_arguments(
    text: str, *, made_up: bool = True
) -> tuple[list[Buffer], list[tuple[str, int | float]], list[tuple[Any, str]]]:
    """Parses the arguments as typed.

    Args:
        made_up: whether floats get values where the text states none; else they are 0, and take no
            memory.

    Returns:
        The buffers; type and value of each argument; each buffer's first contents and their type.
    """
    buffers: list[Buffer] = []
    passed: list[tuple[str, int | float]] = []
    arrays: list[tuple[Any, str]] = []
    for number, argument in enumerate(
        argument.strip() for argument in text.split(",") if argument.strip()
    ):
        match = _ARGUMENT.fullmatch(argument)
        if match is None or match["kind"] not in _DTYPES:
            raise KinspectError(
                f"argument {number}, {argument!r}, is not understood",
                "write f32[4096], i32[64]=zeros (ones, arange, random) or i32 4096",
            )
        kind = match["kind"]
        is_float_kind = kind.startswith(("f", "bf"))
        if match["value"] is not None:
            try:
                value = float(match["value"]) if is_float_kind else int(match["value"], 0)
            except ValueError:
                raise KinspectError(
                    f"argument {number}: {argument!r} is not a number", ""
                ) from None
            bits = 8 * np.dtype(_DTYPES[kind]).itemsize
            if not is_float_kind and not -(1 << bits - 1) <= value < 1 << bits:
                raise KinspectError(
                    f"argument {number}: {argument[:60]!r} has more than {bits} bits",
                    "state its type and value as the kernel takes them",
                )
            passed.append((kind, value))
            continue
        count = int(match["count"][-_MOST_DIGITS:])
        is_cut = len(match["count"]) > _MOST_DIGITS
        if is_cut or count * np.dtype(_DTYPES[kind]).itemsize > _MOST_BYTES:
            raise KinspectError(
                f"argument {number}, {argument[:60]!r}, takes more than {_MOST_BYTES >> 30} GiB",
                "launch on fewer elements",
            )
        usual = "arange" if not is_float_kind else "random" if made_up else "zeros"
        fill = match["fill"] or usual
        values = _filled(kind, count, fill, number, is_float=is_float_kind)
        address = ADDRESS + SPACING * len(buffers)
        name = f"argument {number}: {kind}[{match['count']}]"
        if fill == "zeros":
            buffers.append(Buffer(address, values.nbytes, zeroed(values.nbytes), name))
        else:
            buffers.append(buffer_of(values, address, name))
        arrays.append((values, kind))
        passed.append(("*" + kind, address))
    return buffers, passed, arrays


def passed_arguments(
    values: Sequence[Any],
) -> tuple[list[Buffer], list[tuple[str, int | float]], list[tuple[Any, str]]]:
    """Takes the arguments as NumPy has them; the result is that of `typed_arguments`.

    Raises:
        KinspectError: one of them is neither an array nor a scalar of NumPy.
    """
    buffers: list[Buffer] = []
    passed: list[tuple[str, int | float]] = []
    arrays: list[tuple[Any, str]] = []
    for number, value in enumerate(values):
        kind = (
            _KIND_OF.get(value.dtype.str[1:])
            if isinstance(value, np.generic | np.ndarray)
            else None
        )
        if kind is None:
            raise KinspectError(
                f"argument {number} is {type(value).__name__}: no array or scalar of NumPy that a"
                " kernel takes",
                "pass np.float32(2), np.int32(n) or an array of f2, f4, f8, i1 to i8 or u1 to u8",
            )
        if isinstance(value, np.generic):
            passed.append((kind, value.item()))
            continue
        before = np.ascontiguousarray(value).reshape(-1).copy()
        address = ADDRESS + SPACING * len(buffers)
        buffers.append(buffer_of(before, address, f"argument {number}: {kind}[{before.size}]"))
        arrays.append((before, kind))
        passed.append(("*" + kind, address))
    return buffers, passed, arrays


def _filled(kind: str, count: int, fill: str, seed: int, *, is_float: bool) -> Any:
    """Returns `count` elements of a type."""
    rng = np.random.default_rng(seed)
    if fill == "random":
        values = rng.standard_normal(count) if is_float else rng.integers(0, 100, count)
    elif fill == "zeros":
        return np.broadcast_to(np.zeros(1, _DTYPES[kind]), count)  # takes no memory
    elif fill == "ones":
        values = np.ones(count)
    elif fill == "arange":
        values = np.arange(count)
    else:
        raise KinspectError(f"{fill!r} fills no buffer", "there is zeros, ones, arange and random")
    if kind == "bf16":
        return to_bf16(values.astype(np.float32))
    return values.astype(_DTYPES[kind])


def _state(buffer: Buffer, before: Any, kind: str) -> BufferState:
    """Compares a buffer with its contents `before` the launch, bit by bit."""
    after = buffer.data[: buffer.size].view(before.dtype)
    bits = f"u{before.dtype.itemsize}"
    changed = int(np.count_nonzero(after.view(bits) != before.view(bits)))
    numbers = after
    if kind == "bf16":
        numbers = (after.astype(np.uint32) << np.uint32(16)).view(np.float32)
    nan = int(np.isnan(numbers).sum()) if numbers.dtype.kind == "f" else 0
    numbers_without_nan = numbers[~np.isnan(numbers)] if nan else numbers
    return BufferState(
        name=buffer.name,
        changed=changed,
        nan=nan,
        smallest=float(numbers_without_nan.min()) if len(numbers_without_nan) else None,
        largest=float(numbers_without_nan.max()) if len(numbers_without_nan) else None,
    )


__all__ = ["BufferState", "CodeLaunch", "CodeResult", "launch_code"]
