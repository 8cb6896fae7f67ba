"""Reads Chrome traces with kernels: of PyTorch's profiler (also gzipped), and of rocprof v1.

Both are an object whose `traceEvents` is an array of any length. PyTorch marks kernels by category
and writes times in µs with a fraction; rocprof v1 has a lane per GPU, and writes all numbers as
text, the exact times among the arguments.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from ...model.recording import Agent, KernelShape, Part
from ..builder import LARGEST, RecordingBuilder, int64, triple, volume
from ..reading import FileGroup
from .json_stream import DamagedError, JsonStream
from .recorded_files import head, is_twin, open_plain

FORMAT = "Chrome trace"

_FIRST = 64
_AHEAD = 1 << 18  # bytes: properties of many devices may precede the events
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_OBJECT = re.compile(rb"\A\s*\{")
_LANE = re.compile(r"GPU\d+")
_TRANSFERS = frozenset({"gpu_memcpy", "gpu_memset"})
_OCCUPANCY = "est. achieved occupancy %"
_LONGEST_NUMBER = 100
_MOST_DIGITS = 18
"""Digits of the largest time in µs."""
_IN_WORK_ITEMS = frozenset({"hipExtModuleLaunchKernel", "hipHccModuleLaunchKernel"})
"""Calls whose grid counts work-items; the trace writes it as it is (kineto's RocprofLogger.cpp).
GEMM libraries launch so. The call stands before its kernel, with the same correlation id."""


class _Event(msgspec.Struct, gc=False):
    """An event; the fields that only kernels need are not decoded yet."""

    ph: str = ""
    cat: str | None = None
    name: Any = None
    pid: Any = None
    ts: msgspec.Raw = msgspec.Raw(b"null")
    dur: msgspec.Raw = msgspec.Raw(b"null")
    args: msgspec.Raw = msgspec.Raw(b"null")


def find(files: Sequence[Path]) -> list[FileGroup]:
    """Returns the JSON files, gzipped or not, that have events of a trace."""
    return [
        FileGroup.of_file(file)
        for file in files
        if _OBJECT.match(head(file, _FIRST)) and _EVENTS.search(head(file, _AHEAD))
    ]


def read(group: FileGroup, builder: RecordingBuilder) -> None:
    """Reads a file; what lies behind damage is missing, and reported as an error."""
    (path,) = group.files
    former_count = len(builder.dispatches)
    builder.begin(Part(group.name, str(path), FORMAT, profiler="Chrome"))
    if is_twin(path, path.with_suffix(".db"), builder):
        return
    with open_plain(path) as file:
        _Trace(path, JsonStream(file), builder).read()
    if len(builder.dispatches) == former_count:
        builder.note(
            f"{path.name}: no kernels in this trace; PyTorch's profiler records them "
            "with activities=[ProfilerActivity.CUDA] (also on ROCm)"
        )


class _Trace(Struct):
    """One trace while it is read."""

    path: Path
    stream: JsonStream
    builder: RecordingBuilder
    lanes: set[str] = field(default_factory=set)  # of GPUs, in rocprof v1's traces
    shapes: dict[bytes, tuple[int, int | None, float | None]] = field(default_factory=dict)
    launches_in_work_items: set[int] = field(default_factory=set)  # their correlation ids
    kernels: int = 0
    has_fractions: bool = False  # whether times are finer than 1 µs
    untimed_kernels: int = 0

    def read(self) -> None:
        """Reads the trace up to its end or a damaged place, and notes how exact it is."""
        try:
            for key in self.stream.members():
                if key == "traceEvents":
                    self._events()
                elif key == "deviceProperties":
                    self._devices()
                else:
                    self.stream.skip()
        except DamagedError as error:
            self.builder.fail(
                self.path,
                f"{self.path.name}: {error.reason} at byte {error.offset:,}; "
                "what stands before was read",
                "write the trace again, and let the program end by itself",
            )
        if self.kernels:
            self.builder.tool.setdefault("name", "PyTorch profiler")
            resolution = (
                "rounded to ns" if self.has_fractions else "whole µs: short kernels are imprecise"
            )
            self.builder.note(f"{self.path.name}: a PyTorch trace states times in µs; {resolution}")
        for count, label in (
            (self.untimed_kernels, "kernels without times"),
            (self.stream.skipped, "events of no known form"),
        ):
            if count:
                self.builder.fail(
                    self.path,
                    f"{self.path.name}: {count:,} {label}, left out",
                    "if the file is as the profiler wrote it, report its version",
                )

    def _devices(self) -> None:
        """Adds the GPUs that PyTorch saw."""
        for properties in self.stream.value(list) or ():
            if isinstance(properties, dict) and "id" in properties:
                key = _device(properties["id"])
                self.builder.agents.setdefault(
                    key,
                    Agent(
                        key=key,
                        product=str(properties.get("name") or "") or None,
                        cus=_count(properties.get("numSms")),
                        wave_size=_count(properties.get("warpSize")),
                        lds_bytes=_count(properties.get("sharedMemPerBlock")),
                    ),
                )

    def _events(self) -> None:
        """Reads all events: kernels, copies, names of lanes, launches that count work-items."""
        for event in self.stream.records(_Event):
            if event.ph == "X":
                if event.cat is not None and event.cat.lower() == "kernel":
                    self._kernel(event)
                elif event.cat is not None and event.cat.lower() in _TRANSFERS:
                    length = _ns(bytes(event.dur))
                    if length is not None:
                        self.builder.transfer(str(event.name), length)
                elif event.cat is None and str(event.pid) in self.lanes:
                    self._old_kernel(event)
                elif isinstance(event.name, str) and event.name in _IN_WORK_ITEMS:
                    launch = _object(event.args).get("correlation")
                    if isinstance(launch, int):
                        self.launches_in_work_items.add(launch)
            elif (
                event.ph == "M"
                and event.name == "process_name"
                and _LANE.fullmatch(str(_object(event.args).get("name")))
            ):
                self.lanes.add(str(event.pid))

    def _kernel(self, event: _Event) -> None:
        """Adds a kernel of PyTorch's profiler, and the occupancy that kineto estimates."""
        start, length = _ns(bytes(event.ts)), _ns(bytes(event.dur))
        if start is None or length is None:
            self.untimed_kernels += 1
            return
        self.has_fractions = self.has_fractions or b"." in bytes(event.ts) + bytes(event.dur)
        self.kernels += 1
        args = _object(event.args)
        queue, launch = args.get("stream"), args.get("correlation")
        in_items = isinstance(launch, int) and launch in self.launches_in_work_items
        row = self.builder.dispatch(
            self.builder.shape(_torch_shape(str(event.name), args, in_items)),
            None,
            start,
            start + length,
            queue if isinstance(queue, int) and 0 <= queue <= LARGEST else None,
            find_again=False,
        )
        estimate = args.get(_OCCUPANCY)
        if isinstance(estimate, (int, float)) and estimate > 0:  # 0 where it was not computed
            self.builder.add_counter_value(row, _OCCUPANCY, float(estimate))

    def _old_kernel(self, event: _Event) -> None:
        """Adds a kernel of rocprof v1, which states times in ns among the arguments."""
        args = _object(event.args)
        begin, end = _integer(args.get("BeginNs")), _integer(args.get("EndNs"))
        if begin is None or end is None:
            self.untimed_kernels += 1
            return
        self.builder.tool.setdefault("name", "rocprof v1")
        self.builder.note(
            f"{self.path.name} is of rocprof v1: it has kernels' names and times, no sizes"
        )
        device = _integer(args.get("dev-id"))
        shape = KernelShape(
            name=str(args.get("Name") or event.name),
            agent=None if device is None else str(device),
            process=_integer(args.get("pid")),
        )
        self.builder.dispatch(
            self.builder.shape(shape),
            None,
            begin,
            end,
            _integer(args.get("queue-id")),
            find_again=False,
        )


def _torch_shape(name: str, args: dict[str, Any], in_items: bool) -> KernelShape:
    """Returns a kernel's shape; `in_items` tells whether its grid is in work-items already."""
    block, grid = _counts(args.get("block")), _counts(args.get("grid"))
    if block is None:
        grid = None
    elif grid is not None and not in_items:
        # Workgroups, as CUDA counts them.
        grid = (grid[0] * block[0], grid[1] * block[1], grid[2] * block[2])
    device = args.get("device")
    shared = args.get("shared memory")
    return KernelShape(
        name=name,
        agent=None if device is None else _device(device),
        workgroup=block,
        workgroup_size=volume(block),
        grid=grid,
        grid_size=volume(grid),
        lds_bytes=shared if isinstance(shared, int) and 0 <= shared <= LARGEST else None,
        vgpr=_count(args.get("registers per thread")),  # 0 where it is not known, as on ROCm
    )


def _device(number: object) -> str:
    """Returns the key of a device: PyTorch's numbers are not those of the system's nodes."""
    return f"device {number}"


def _ns(text: bytes) -> int | None:
    """Converts µs, a JSON number or string, to ns without rounding to a 64-bit float."""
    try:
        value = Decimal(text[:_LONGEST_NUMBER].decode("ascii").strip().strip('"'))
        if not value.is_finite() or value.adjusted() > _MOST_DIGITS:
            return None
        nanoseconds = int((value * 1000).to_integral_value())
    except (ArithmeticError, ValueError):
        return None
    return nanoseconds if abs(nanoseconds) <= LARGEST // 2 else None


def _integer(value: object) -> int | None:
    try:
        return int64(int(value) if isinstance(value, str) else value)
    except ValueError:
        return None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and 0 < value <= LARGEST else None


def _counts(value: object) -> tuple[int, int, int] | None:
    """Returns a size in three dimensions; None where it is none, or one of them is 0."""
    if not isinstance(value, list) or len(value) != 3:
        return None
    return triple([_count(axis) for axis in value])


def _object(text: msgspec.Raw) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
