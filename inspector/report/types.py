"""The JSON report's types, as its schema states them: what a file must be to be read as one.

A saved report may come from anywhere, and a text where a list belongs would be found out in the
middle of a page. msgspec holds each kernel against these while it decodes it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

from msgspec import Meta

from ..model import UnreadKind

Count = Annotated[int, Meta(ge=0, lt=1 << 53)]
Line = Annotated[int, Meta(ge=0, lt=1 << 31)]
Whole = Annotated[int, Meta(ge=-(1 << 53), lt=1 << 53)]
Value = int | float | str | bool | dict[str, Any] | None
Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
Tool = dict[str, str]


class _Place(TypedDict):
    file: str
    line: Line


class Place(_Place, total=False):
    """A position in source."""

    column: Whole | None
    inlined_at: Place | None


class _Metric(TypedDict):
    value: Value
    unit: str
    origin: Literal["compiler", "derived", "estimated", "measured", "emulated"]


class Metric(_Metric, total=False):
    """A figure."""

    note: str


class _Failure(TypedDict):
    file: str | None
    kernel: str | None
    stage: str
    message: str
    hint: str


class Failure(_Failure, total=False):
    """A file or kernel that could not be reported."""

    output: str


class _Assumption(TypedDict):
    what: str
    assumed: str
    source: Place | None


class Assumption(_Assumption, total=False):
    """An answer to what nobody knows, and where the script asked."""

    explored: bool
    reason: (
        Literal["off", "unavailable", "budget", "uncovered", "faulty", "inputs", "failed"] | None
    )


class EmulatedValue(TypedDict):
    """What a script read of memory that executed kernels wrote, and where it asked."""

    what: str
    value: str
    source: Place


class _Variant(TypedDict):
    signature: dict[str, str]
    constexprs: dict[str, Any]
    options: dict[str, Any]
    attrs: dict[str, dict[str, Any]]
    wave_size: Annotated[int, Meta(ge=1, le=1024)]
    grid: list[Whole] | None
    call_site: Place | None
    qualname: str | None
    case: str | None
    triton_version: str | None


class Variant(_Variant, total=False):
    """A specialisation."""

    tuning: dict[str, Any] | None
    launches: Count | None
    notes: list[str]
    assumptions: list[Assumption]
    emulated: list[EmulatedValue]
    unspecialised: (
        dict[str, Literal["annotation", "do_not_specialize", "do_not_specialize_on_alignment"]]
        | None
    )
    values: dict[str, int] | None
    generator: str | None


class Artifact(TypedDict):
    """A file among the artifacts."""

    sha256: Digest
    bytes: Count


class Header(TypedDict):
    """Where a loop begins."""

    line: Line
    label: str | None


class _Loop(TypedDict):
    id: str
    depth: Annotated[int, Meta(ge=1, lt=1 << 31)]
    parent: str | None
    header: Header
    lines: list[tuple[Line, Line]]
    source: list[Place]
    hot: bool
    unroll: Count | None
    metrics: dict[str, Metric]


class Loop(_Loop, total=False):
    """A loop."""

    irreducible: bool


_MemoryOp = TypedDict(  # a key is a word of Python's
    "_MemoryOp",
    {
        "line": Line,
        "mnemonic": str,
        "class": str,
        "bits": Count | None,
        "loop": str | None,
        "depth": Count,
        "source": Place | None,
    },
)


class _LdsRemedy(TypedDict):
    accesses: Count
    cycles: float
    cycles_ideal: float


class LdsRemedy(_LdsRemedy, total=False):
    """What would free an array in LDS of bank conflicts."""

    row: int
    pad: int
    padded: float
    swizzle_row: int
    swizzle: int
    swizzled: float


class LaneUse(TypedDict, total=False):
    """What the lanes of a wave's access touch."""

    lanes: float
    cycles: float
    cycles_ideal: float
    conflicts: float
    lines: float
    lines_ideal: float
    bytes: float
    waste: float
    addresses: float
    remedy: LdsRemedy
    origin: Literal["derived", "estimated"]
    unknown: str


class MemoryOp(_MemoryOp, total=False):
    """A memory access."""

    note: str
    use: LaneUse


class _Wait(TypedDict):
    line: Line
    counter: str
    n: Whole
    loop: str | None
    source: Place | None
    verdict: Literal["needed", "over-strict", "ordering", "idle", "missing"] | None
    could_be: Whole | None
    waits_for: list[Line] | None


class Wait(_Wait, total=False):
    """A counter of a wait."""

    slack: Count | None
    slack_cycles: Count | None


_Access = TypedDict(
    "_Access",
    {
        "op": str,
        "line": Line,
        "class": str,
        "source": Place | None,
        "dtype": str,
        "shape": list[Count],
        "layout": str,
        "lines": list[Line],
        "loop": str | None,
        "bits": Count | None,
        "widest": Count | None,
        "per_thread": Count | None,
        "contiguity": Count | None,
        "divisibility": Count | None,
        "mask": Count | None,
        "limited_by": str | None,
        "reason": str,
        "fix": str,
    },
)


class Access(_Access, total=False):
    """An operation of the TTGIR that moves a tile."""

    lanes: Literal["agree", "differ"] | None


class LdsBuffer(TypedDict):
    """A buffer that the TTGIR puts into LDS."""

    name: str
    kind: Literal["pipelined", "operand", "exchange"]
    dtype: str
    shape: list[Count]
    copies: Count
    bytes: Count | None
    line: Line
    source: Place | None
    in_loop: bool
    at_peak: bool


class Unread(TypedDict):
    """What was not read or followed."""

    kind: UnreadKind
    count: Count
    lines: list[Line]


class Trials(TypedDict):
    """What came of a fix on real kernels."""

    helped: Count
    nothing: Count
    worse: Count


class Spill(TypedDict):
    """A place in scratch memory."""

    offset: Whole | None
    bytes: Count
    stores: list[Line]
    reloads: list[Line]
    loops: list[str]
    source: list[Place | None]


class MeasuredLine(TypedDict):
    """What a profiler measured of a line."""

    line: Line
    address: Count | None
    mnemonic: str
    loop: str | None
    source: Place | None
    hits: Count | None
    latency_cycles: Whole | None
    stall_cycles: Whole | None
    idle_cycles: Whole | None
    samples: Count | None
    issued: Count | None
    reasons: dict[str, Count]


class _EmulatedLine(TypedDict):
    line: Line
    executed: Count


class EmulatedLine(_EmulatedLine, total=False):
    """What the emulator counted of a line."""

    active_lanes: float | None
    cache_lines: float | None
    least_cache_lines: float | None
    conflict_cycles: float | None


class EmulatedFault(TypedDict):
    """What the code did in the emulator and must not do."""

    kind: str
    detail: str
    line: Line


class Emulated(TypedDict):
    """A few workgroups of a launch, executed."""

    workgroups: Count
    grid_workgroups: Count
    waves: Count
    made_up: list[str]
    lines: list[EmulatedLine]
    faults: list[EmulatedFault]


class Location(TypedDict):
    """Where a finding points."""

    kind: str
    file: str | None
    line: Line | None
    text: str


class _Finding(TypedDict):
    rule: str
    severity: Literal["error", "warning", "info"]
    confidence: Literal["certain", "likely", "possible"]
    message: str
    evidence: dict[str, Value]
    locations: list[Location]
    fix: str
    fingerprint: str


class Finding(_Finding, total=False):
    """A finding."""

    fix_tried: Trials | None
    saves_percent: float | None


class Demand(TypedDict):
    """What a kernel asks of a CU: what its occupancy rests on."""

    vgprs: Count | None
    agprs: Count
    sgprs: Count | None
    lds_bytes: Count | None
    waves_per_workgroup: Count | None
    wave_size: Count | None
    cu_mode: bool
    llvm: str
    vgprs_requested: Count | None
    compiler_lds: Count | None
    option_given: bool
    lds_from: Literal["typed", "triton", "file", "code"] | None
    waves_from: Literal["typed", "triton", "file", "largest"] | None


class LiveValue(TypedDict):
    """Registers that hold one value of the source."""

    name: str | None
    kind: Literal[
        "accumulator", "operand", "loaded", "exchanged", "address", "value", "constant", "argument"
    ]
    type: str
    source: Place | None
    vgprs: Count
    agprs: Count
    scratch: Count
    registers: str


class SpilledValue(TypedDict):
    """A value of the source that spills park in scratch memory."""

    name: str | None
    kind: Literal[
        "accumulator", "operand", "loaded", "exchanged", "address", "value", "constant", "argument"
    ]
    type: str
    source: Place | None
    dwords: Count
    stores: Count
    reloads: Count
    hot_stores: Count
    hot_reloads: Count
    loops: list[str]


class LivePeak(TypedDict):
    """Where most registers are live, and what they hold."""

    line: Line
    instruction: str
    source: Place | None
    loop: str | None
    vgprs: Count
    agprs: Count
    values: list[LiveValue]


class _Kernel(TypedDict):
    id: str
    name: str
    arch: str | None
    source: Place | None
    variant: Variant | None
    artifacts: dict[str, Artifact]
    metrics: dict[str, Metric]
    loops: list[Loop]
    main_loop: str | None
    memory_ops: list[MemoryOp]
    waits: list[Wait]
    findings: list[Finding]
    notes: list[str]


class Kernel(_Kernel, total=False):
    """A kernel's report."""

    accesses: list[Access]
    lds_buffers: list[LdsBuffer]
    unread: list[Unread]
    demand: Demand | None
    spills: list[Spill]
    live_peak: LivePeak
    spilled_values: list[SpilledValue]
    measured_lines: list[MeasuredLine]
    emulated: Emulated
