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
    has_integers,
)
from .machine import Machine
from .metric import (
    EVERYWHERE,
    CodePosition,
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
from .source import LIBRARY_CODE, SourceLoc
from .time import InstructionTime, KernelTime, LoopTime, Saving, Stall, TimeLine
from .trials import Change, ChangeKind, TimeChange, Trial
from .ttgir import Layout, TtgirModule, TtgirOp, TtgirType
from .variant import Artifact, Assumption, EmulatedValue, Parameter, Passed, PassedMemory, Variant
