"""The vocabulary: every value that passes from one room to the next.

Frozen structs, whose classes are made in a fiftieth of the time that dataclasses take, and nothing
else. No behaviour beyond trivial derived properties, no imports from the rest of the project. Where
the JSON report calls a field something else, `field(name=…)` says so; it has fields in their order.
`omit_defaults` leaves out of it what has its default, but never what has a `default_factory`.
`None` always means *unknown*, never zero.

Line numbers count from 1. Sizes are bytes, widths of memory accesses are bits per lane, register
counts are 32-bit registers per lane (VGPR, AGPR) or per wave (SGPR).
"""

from __future__ import annotations

from .code import (
    Block,
    Function,
    Instruction,
    Loop,
    OpInfo,
    Program,
    Resources,
    Unread,
    UnreadKind,
    VariableMark,
    WaveStart,
)
from .lines import (
    Access,
    Emulated,
    EmulatedFault,
    EmulatedLine,
    LaneUse,
    LdsBuffer,
    LdsRemedy,
    LivePeak,
    LiveValue,
    LoopTraffic,
    MeasuredLine,
    MemoryOp,
    ParkedValue,
    RegisterPressure,
    SpilledValue,
    SpillSlot,
    UntouchedValues,
    ValueKind,
    WaitOp,
)
from .machine import Machine
from .metric import (
    Metric,
    MetricKind,
    MetricSpec,
    MetricValue,
    Origin,
    Scalar,
    int_of,
    number_of,
    text_of,
    value_of,
)
from .report import (
    Demand,
    ErrorRecord,
    Finding,
    KernelReport,
    LaunchOrigin,
    LdsOrigin,
    Location,
    LoopHeader,
    LoopReport,
    Report,
    Trials,
)
from .source import (
    LIBRARY_CODE,
    SourceLoc,
)
from .time import InstructionTime, KernelTime, LoopTime, Saving, Stall, TimeLine
from .trials import Change, ChangeKind, TimeChange, Trial
from .ttgir import (
    Layout,
    TtgirModule,
    TtgirOp,
    TtgirType,
)
from .variant import (
    Artifact,
    Assumption,
    EmulatedValue,
    Parameter,
    Passed,
    PassedMemory,
    Variant,
)

__all__ = [
    "LIBRARY_CODE",
    "Access",
    "Artifact",
    "Assumption",
    "Block",
    "Change",
    "ChangeKind",
    "Demand",
    "Emulated",
    "EmulatedFault",
    "EmulatedLine",
    "EmulatedValue",
    "ErrorRecord",
    "Finding",
    "Function",
    "Instruction",
    "InstructionTime",
    "KernelReport",
    "KernelTime",
    "LaneUse",
    "LaunchOrigin",
    "Layout",
    "LdsBuffer",
    "LdsOrigin",
    "LdsRemedy",
    "LivePeak",
    "LiveValue",
    "Location",
    "Loop",
    "LoopHeader",
    "LoopReport",
    "LoopTime",
    "LoopTraffic",
    "Machine",
    "MeasuredLine",
    "MemoryOp",
    "Metric",
    "MetricKind",
    "MetricSpec",
    "MetricValue",
    "OpInfo",
    "Origin",
    "Parameter",
    "ParkedValue",
    "Passed",
    "PassedMemory",
    "Program",
    "RegisterPressure",
    "Report",
    "Resources",
    "Saving",
    "Scalar",
    "SourceLoc",
    "SpillSlot",
    "SpilledValue",
    "Stall",
    "TimeChange",
    "TimeLine",
    "Trial",
    "Trials",
    "TtgirModule",
    "TtgirOp",
    "TtgirType",
    "Unread",
    "UnreadKind",
    "UntouchedValues",
    "ValueKind",
    "VariableMark",
    "Variant",
    "WaitOp",
    "WaveStart",
    "int_of",
    "number_of",
    "text_of",
    "value_of",
]
