"""The vocabulary of what a profiler recorded: every value between readers, join and renderers.

A recording is one run folder or file, as its readers found it: nothing is corrected in it. Long
tables (dispatches, counter values, samples) are columns of machine numbers: ten million rows take
hundreds of megabytes as they are, and many gigabytes as objects.

What is made of it, at the end of this file, are `KernelProfile`s: its dispatches by specialisation,
joined to the analysed kernels.

Times are nanoseconds, sizes bytes, grids work-items (not workgroups). Unknown is None; in columns
of numbers, where None cannot stand, it is `NONE`.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

from . import ErrorRecord, KernelReport, MeasuredLine, Metric

MANIFEST = "kinspect-run.json"
"""The file in the folder of each run of `kinspect profile` that says what was run."""
NONE = -1
"""Stands for "not recorded" in columns of integers."""
NO_CODE = "a thread trace without code.json and stats CSV: no line of it is known"
"""The note of a recording of which that holds."""


class Agent(Struct, frozen=True):
    """A device as the profiler describes it. `key` is how dispatches name it: its node id."""

    key: str
    kind: Literal["gpu", "cpu"] = "gpu"
    arch: str | None = None
    product: str | None = None
    cus: int | None = None
    simds_per_cu: int | None = None
    xccs: int | None = None
    shader_engines: int | None = None
    wave_size: int | None = None
    max_waves_per_simd: int | None = None
    clock_mhz: int | None = None
    lds_bytes: int | None = None  # per CU
    memory_bytes_per_s: float | None = None  # peak, only where the recording itself states it


class KernelShape(Struct, frozen=True):
    """What tells one kernel's dispatches from another's, as recorded: quirks are still in it.

    `process` and `kernel_id` hold within one process of one pass alone.
    """

    name: str
    agent: str | None = None
    process: int | None = None
    kernel_id: int | None = None
    code_object: int | None = None  # an id among the recording's code objects, by process
    workgroup: tuple[int, int, int] | None = None  # work-items
    workgroup_size: int | None = None
    grid: tuple[int, int, int] | None = None  # work-items
    grid_size: int | None = None
    lds_bytes: int | None = None
    scratch_bytes: int | None = None  # per work-item
    vgpr: int | None = None
    accum_vgpr: int | None = None
    sgpr: int | None = None
    wave_size: int | None = None
    symbol: str | None = None  # as the code object has it, mangled, of the kernel with `kernel_id`


class Dispatches(Struct):
    """Dispatches as columns; the row number is a dispatch's identity in the recording."""

    shape: array[int] = field(default_factory=lambda: array("i"))  # into Recording.shapes
    number: array[int] = field(default_factory=lambda: array("q"))  # the profiler's dispatch id
    start: array[int] = field(default_factory=lambda: array("q"))
    end: array[int] = field(default_factory=lambda: array("q"))
    queue: array[int] = field(default_factory=lambda: array("q"))
    part: array[int] = field(default_factory=lambda: array("h"))  # into Recording.parts

    def __len__(self) -> int:
        return len(self.shape)


class CounterValues(Struct):
    """Counter values as columns: of which dispatch (row), which counter, how much."""

    dispatch: array[int] = field(default_factory=lambda: array("i"))
    counter: array[int] = field(default_factory=lambda: array("h"))  # into Recording.counters
    value: array[float] = field(default_factory=lambda: array("d"))

    def __len__(self) -> int:
        return len(self.value)


class RecordedCodeObject(Struct, frozen=True):
    """A code object that a process loaded; `path` where its bytes lie, if they were saved."""

    id: int
    process: int | None
    uri: str | None
    load_base: int | None
    load_size: int | None
    path: str | None = None


class CodePlace(Struct, frozen=True):
    """Where samples or traced cycles fell: by address in a code object, or by text alone.

    `offset` is the address in the code object's file (its virtual address, not the loaded one).
    """

    shape: int | None  # into Recording.shapes
    process: int | None
    code_object: int | None
    offset: int | None
    text: str | None  # the instruction as the profiler disassembled it
    comment: str | None = None  # "file:line" where the profiler had line information


class Samples(Struct, frozen=True):
    """PC samples at one place. `reasons` are why it was not issued, by the profiler's words."""

    place: CodePlace
    method: Literal["host_trap", "stochastic"]
    count: int
    issued: int | None  # None where the method cannot tell
    reasons: Mapping[str, int] = field(default_factory=dict)
    lanes: float | None = None  # mean number of active lanes


class Traced(Struct, frozen=True):
    """What a thread trace (ATT) says of one instruction, summed over traced waves; shader clocks.

    `latency` is stall and issue time (gfx9), or stall and execution time (gfx10 and newer); `stall`
    the part of it in which the instruction could not be issued; `idle` the gap since the wave's
    previous instruction ended (rocprofiler-sdk, thread trace).
    """

    place: CodePlace
    hits: int
    latency: int
    stall: int
    idle: int | None


class WaveSpan(Struct, frozen=True):
    """A traced wave: where it ran and from when to when, shader clocks."""

    engine: int
    cu: int | None
    simd: int
    slot: int
    begin: int
    end: int | None


class ThreadTrace(Struct, frozen=True):
    """A thread trace of one dispatch."""

    path: str
    agent: str | None
    dispatch: int | None  # the profiler's dispatch id
    kernel: str | None
    lines: tuple[Traced, ...]
    waves: tuple[WaveSpan, ...] = ()
    clock_mhz: float | None = None
    peak_waves_per_cu: int | None = None


Profiler = Literal["rocprof", "rocprofv3", "rocprof-compute", "rocpd", "Proton", "Chrome"]
"""What wrote a part. "rocpd" databases and "Chrome" traces come from several profilers."""


class Part(Struct, frozen=True):
    """One reading of the program: a pass of counters, a trace; or an imported folder or file.

    Attributes:
        name: of the pass, the process or the file; unique in most recordings.
        path: the file or folder that was read.
        format: name of the file format, for display only.
        counters: the counters asked for; the profiler may have delivered fewer.
        exit_code: of the profiled program; None where it is unknown.
        status: how the pass ended; "imported" where no manifest says.
        profiler: what wrote it; None where nothing was read.
        repeats_run: whether each part of this kind is a run of the whole program. Parts of other
            kinds may be processes of one run.
    """

    name: str
    path: str
    format: str
    counters: tuple[str, ...] = ()
    exit_code: int | None = None
    status: Literal["complete", "failed", "killed", "timeout", "imported"] = "imported"
    profiler: Profiler | None = None
    repeats_run: bool = False


class TopKernel(Struct, frozen=True):
    """A line of a profiler's own summary, where it kept no dispatches."""

    name: str
    calls: int
    total_ns: int
    mean_ns: float | None = None
    min_ns: int | None = None
    max_ns: int | None = None
    agent: str | None = None


class Transfer(Struct, frozen=True):
    """Copies or fills of memory of one kind: no kernels, and in none of their times."""

    name: str  # such as "host to device", or as the profiler calls it
    count: int
    total_ns: int


class Recording(Struct, frozen=True):
    """Everything that was read of a run. `errors` name what could not be read of it."""

    path: str
    tool: Mapping[str, str]  # name and version of the profiler, where known
    command: tuple[str, ...]
    parts: tuple[Part, ...]
    agents: tuple[Agent, ...]
    shapes: tuple[KernelShape, ...]
    dispatches: Dispatches
    counters: tuple[str, ...]
    values: CounterValues
    code_objects: tuple[RecordedCodeObject, ...] = ()
    samples: tuple[Samples, ...] = ()
    traces: tuple[ThreadTrace, ...] = ()
    summary: tuple[TopKernel, ...] = ()
    notes: tuple[str, ...] = ()
    errors: tuple[ErrorRecord, ...] = ()
    transfers: tuple[Transfer, ...] = ()  # most time first


class Spread(Struct, frozen=True):
    """How a figure is distributed over dispatches."""

    count: int
    total: float
    mean: float
    median: float
    least: float
    most: float


Verdict = Literal["exact", "likely", "ambiguous", "none"]


class KernelMatch(Struct, frozen=True):
    """Which analysed kernels a measured one may be.

    `exact`: its code object is known to be the same; `likely`: one kernel agrees in everything that
    was recorded; `ambiguous`: several do, none is chosen; `none`.
    """

    verdict: Verdict
    kernels: tuple[str, ...]  # ids of KernelReports
    reasons: tuple[str, ...]  # what agreed, or what kept each candidate out

    @property
    def is_decided(self) -> bool:
        """Whether it names one analysed kernel."""
        return self.verdict in ("exact", "likely")


class KernelProfile(Struct, frozen=True):
    """One kernel in one specialisation, as measured.

    Figures are over the dispatches that are neither warm-up nor left out (`counted`).
    """

    id: str  # "name#k" in this profile, most time first
    name: str
    shape: KernelShape  # a representative one
    agent: Agent | None
    dispatches: int
    counted: int
    warmups: int
    role: Literal["main", "autotune"]  # autotune: a specialisation that was tried and not kept
    grids: int  # number of different grids
    duration: Spread | None  # ns
    counters: Mapping[str, Spread]  # per dispatch, as recorded
    metrics: Mapping[str, Metric]  # origin `measured`; a derived one's note is its formula
    lines: tuple[MeasuredLine, ...]
    match: KernelMatch
    notes: tuple[str, ...] = ()
    shapes: tuple[int, ...] = ()  # its shapes among the recording's
    total_ns: float | None = None  # of all its dispatches in one run of the program, warm-up too
    passes: int = 1  # runs of the program that its counters took


class Profile(Struct, frozen=True):
    """A run, read, grouped and joined: what the renderers take.

    `reports` are the static reports it was joined to, measured metrics and lines added where the
    match is exact or likely.
    """

    recording: Recording
    kernels: tuple[KernelProfile, ...]
    reports: tuple[KernelReport, ...] = ()
    static_target: str | None = None
    total_ns: float | None = None  # of all counted dispatches and warm-ups
    notes: tuple[str, ...] = ()
    errors: tuple[ErrorRecord, ...] = ()
