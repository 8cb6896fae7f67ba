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


class _JsonPlace(TypedDict):
    file: str
    line: Line


class JsonPlace(_JsonPlace, total=False):
    """A position in source."""

    column: Whole | None
    inlined_at: JsonPlace | None


class _JsonMetric(TypedDict):
    value: Value
    unit: str
    origin: Literal["compiler", "derived", "estimated", "measured", "emulated"]


class JsonMetric(_JsonMetric, total=False):
    """A figure."""

    note: str


class _JsonFailure(TypedDict):
    file: str | None
    kernel: str | None
    stage: str
    message: str
    hint: str


class JsonFailure(_JsonFailure, total=False):
    """A file or kernel that could not be reported."""

    output: str


class _JsonAssumption(TypedDict):
    what: str
    assumed: str
    source: JsonPlace | None


class JsonAssumption(_JsonAssumption, total=False):
    """An answer to what nobody knows, and where the script asked."""

    explored: bool
    reason: (
        Literal["off", "unavailable", "budget", "uncovered", "faulty", "inputs", "failed"] | None
    )


class JsonEmulatedValue(TypedDict):
    """What a script read of memory that executed kernels wrote, and where it asked."""

    what: str
    value: str
    source: JsonPlace


class _JsonVariant(TypedDict):
    signature: dict[str, str]
    constexprs: dict[str, Any]
    options: dict[str, Any]
    attrs: dict[str, dict[str, Any]]
    wave_size: Annotated[int, Meta(ge=1, le=1024)]
    grid: list[Whole] | None
    call_site: JsonPlace | None
    qualname: str | None
    case: str | None
    triton_version: str | None


class JsonVariant(_JsonVariant, total=False):
    """A specialisation."""

    tuning: dict[str, Any] | None
    launches: Count | None
    notes: list[str]
    assumptions: list[JsonAssumption]
    emulated: list[JsonEmulatedValue]
    unspecialised: (
        dict[str, Literal["annotation", "do_not_specialize", "do_not_specialize_on_alignment"]]
        | None
    )
    values: dict[str, int] | None
    generator: str | None


class JsonArtifact(TypedDict):
    """A file among the artifacts."""

    sha256: Digest
    bytes: Count


class JsonHeader(TypedDict):
    """Where a loop begins."""

    line: Line
    label: str | None


class _JsonLoop(TypedDict):
    id: str
    depth: Annotated[int, Meta(ge=1, lt=1 << 31)]
    parent: str | None
    header: JsonHeader
    lines: list[tuple[Line, Line]]
    source: list[JsonPlace]
    hot: bool
    unroll: Count | None
    metrics: dict[str, JsonMetric]


class JsonLoop(_JsonLoop, total=False):
    """A loop."""

    irreducible: bool


_JsonMemoryOp = TypedDict(  # a key is a word of Python's
    "_JsonMemoryOp",
    {
        "line": Line,
        "mnemonic": str,
        "class": str,
        "bits": Count | None,
        "loop": str | None,
        "depth": Count,
        "source": JsonPlace | None,
    },
)


class _JsonLdsRemedy(TypedDict):
    accesses: Count
    cycles: float
    cycles_ideal: float


class JsonLdsRemedy(_JsonLdsRemedy, total=False):
    """What would free an array in LDS of bank conflicts."""

    row: int
    pad: int
    padded: float
    swizzle_row: int
    swizzle: int
    swizzled: float


class JsonLaneUse(TypedDict, total=False):
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
    apart: bool
    remedy: JsonLdsRemedy
    origin: Literal["derived", "estimated"]
    whole_waves: bool
    at_edge: bool
    wide_rows: bool
    across: bool
    steps: list[int | None]
    unknown: str


class JsonMemoryOp(_JsonMemoryOp, total=False):
    """A memory access."""

    note: str
    use: JsonLaneUse
    joint_bits: Whole


class _JsonWait(TypedDict):
    line: Line
    counter: str
    n: Whole
    loop: str | None
    source: JsonPlace | None
    verdict: Literal["needed", "over-strict", "ordering", "idle", "missing"] | None
    could_be: Whole | None
    waits_for: list[Line] | None


class JsonWait(_JsonWait, total=False):
    """A counter of a wait."""

    slack: Count | None
    slack_cycles: Count | None


_JsonAccess = TypedDict(
    "_JsonAccess",
    {
        "op": str,
        "line": Line,
        "class": str,
        "source": JsonPlace | None,
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


class JsonAccess(_JsonAccess, total=False):
    """An operation of the TTGIR that moves a tile."""

    lanes: Literal["agree", "differ"] | None


class JsonLdsBuffer(TypedDict):
    """A buffer that the TTGIR puts into LDS."""

    name: str
    kind: Literal["pipelined", "operand", "exchange", "scratch"]
    dtype: str
    shape: list[Count]
    copies: Count
    bytes: Count | None
    line: Line
    source: JsonPlace | None
    in_loop: bool
    at_peak: bool
    last_line: Line | None
    last_source: JsonPlace | None
    offset: Count | None
    allocated: Count | None


class JsonUnread(TypedDict):
    """What was not read or followed."""

    kind: UnreadKind
    count: Count
    lines: list[Line]


class JsonTrials(TypedDict):
    """What came of a fix on real kernels."""

    helped: Count
    nothing: Count
    worse: Count


class JsonParkedValue(TypedDict):
    """The value of the source that a spill slot holds."""

    name: str | None
    kind: Literal[
        "accumulator", "operand", "loaded", "exchanged", "address", "value", "constant", "argument"
    ]
    source: JsonPlace | None


class _JsonSpill(TypedDict):
    offset: Whole | None
    bytes: Count
    stores: list[Line]
    reloads: list[Line]
    loops: list[str]
    source: list[JsonPlace | None]


class JsonSpill(_JsonSpill, total=False):
    """A place in scratch memory."""

    value: JsonParkedValue | None


class JsonMeasuredLine(TypedDict):
    """What a profiler measured of a line."""

    line: Line
    address: Count | None
    mnemonic: str
    loop: str | None
    source: JsonPlace | None
    hits: Count | None
    latency_cycles: Whole | None
    stall_cycles: Whole | None
    idle_cycles: Whole | None
    samples: Count | None
    issued: Count | None
    reasons: dict[str, Count]


class _JsonEmulatedLine(TypedDict):
    line: Line
    executed: Count


class JsonEmulatedLine(_JsonEmulatedLine, total=False):
    """What the emulator counted of a line."""

    active_lanes: float | None
    cache_lines: float | None
    least_cache_lines: float | None
    conflict_cycles: float | None


class JsonEmulatedFault(TypedDict):
    """What the code did in the emulator and must not do."""

    kind: str
    detail: str
    line: Line


class JsonEmulated(TypedDict):
    """A few workgroups of a launch, executed."""

    workgroups: Count
    grid_workgroups: Count
    waves: Count
    made_up: list[str]
    lines: list[JsonEmulatedLine]
    faults: list[JsonEmulatedFault]


class JsonLocation(TypedDict):
    """Where a finding points."""

    kind: str
    file: str | None
    line: Line | None
    text: str


class JsonChange(TypedDict):
    """A setting of a compile that was changed."""

    kind: Literal["option", "constexpr", "argument", "environment", "source"]
    name: str
    value: Value
    before: Value
    at: list[JsonPlace]


class JsonTrial(TypedDict):
    """A change that was compiled to be rid of a finding, and what came of it."""

    change: list[JsonChange]
    gone: bool | None
    metrics: dict[str, Value]
    diff: dict[str, list[Value]]
    new: list[str]
    new_errors: list[str]
    front: bool
    same_as: list[JsonChange] | None
    launches: bool | None
    failure: str


class _JsonFinding(TypedDict):
    rule: str
    severity: Literal["error", "warning", "info"]
    confidence: Literal["certain", "likely", "possible"]
    message: str
    evidence: dict[str, Value]
    locations: list[JsonLocation]
    fix: str
    fingerprint: str


class JsonFinding(_JsonFinding, total=False):
    """A finding."""

    fix_tried: JsonTrials | None
    saves_percent: float | None
    tried: list[JsonTrial]
    fix_is_trials: bool
    doubt: str


class JsonDemand(TypedDict):
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


class _JsonLiveValue(TypedDict):
    name: str | None
    kind: Literal[
        "accumulator", "operand", "loaded", "exchanged", "address", "value", "constant", "argument"
    ]
    type: str
    source: JsonPlace | None
    vgprs: Count
    agprs: Count
    scratch: Count
    registers: str


class JsonLiveValue(_JsonLiveValue, total=False):
    """Registers that hold one value of the source."""

    slots: str


class JsonLoopTraffic(TypedDict):
    """The spills and reloads of a value in one iteration of a loop."""

    loop: str
    stores: Count
    reloads: Count


class _JsonSpilledValue(TypedDict):
    name: str | None
    kind: Literal[
        "accumulator", "operand", "loaded", "exchanged", "address", "value", "constant", "argument"
    ]
    type: str
    source: JsonPlace | None
    dwords: Count
    stores: Count
    reloads: Count
    hot_stores: Count
    hot_reloads: Count
    loops: list[str]


class JsonSpilledValue(_JsonSpilledValue, total=False):
    """A value of the source that spills park in scratch memory."""

    slots: str
    by_loop: list[JsonLoopTraffic]


class JsonUntouched(TypedDict):
    """Registers that live through a whole loop, which does not touch them."""

    loop: str
    vgprs: Count
    agprs: Count
    values: list[JsonLiveValue]


class JsonLivePeak(TypedDict):
    """Where most registers are live, and what they hold."""

    line: Line
    instruction: str
    source: JsonPlace | None
    loop: str | None
    vgprs: Count
    agprs: Count
    values: list[JsonLiveValue]


class _JsonKernel(TypedDict):
    id: str
    name: str
    arch: str | None
    source: JsonPlace | None
    variant: JsonVariant | None
    artifacts: dict[str, JsonArtifact]
    metrics: dict[str, JsonMetric]
    loops: list[JsonLoop]
    main_loop: str | None
    memory_ops: list[JsonMemoryOp]
    waits: list[JsonWait]
    findings: list[JsonFinding]
    notes: list[str]


class JsonKernel(_JsonKernel, total=False):
    """A kernel's report."""

    accesses: list[JsonAccess]
    lds_buffers: list[JsonLdsBuffer]
    unread: list[JsonUnread]
    demand: JsonDemand | None
    spills: list[JsonSpill]
    live_peak: JsonLivePeak
    spilled_values: list[JsonSpilledValue]
    untouched: list[JsonUntouched]
    dead_writes: list[Line]
    measured_lines: list[JsonMeasuredLine]
    emulated: JsonEmulated
    leads: list[JsonFinding]
