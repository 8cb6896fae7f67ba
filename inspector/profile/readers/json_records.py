"""The records of rocprofv3's JSON, with the fields that are read.

Names are those of the file (rocprofiler-sdk's `rocprofv3-schema.json` and, for what it leaves out,
its `serialization/save.hpp`). Everything that some version does not write has a default.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from ...model.recording import TopKernel
from ..builder import LARGEST

Whole = Annotated[int, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
Unsigned = int
"""64 bits, which msgspec cannot bound: addresses, masks, hashes."""
Natural = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]


class Handle(msgspec.Struct, gc=False):
    """An opaque id; it may be an address or hash of 64 bits."""

    handle: Unsigned = 0


class Triple(msgspec.Struct, gc=False):
    """A size in three dimensions."""

    x: Whole = 0
    y: Whole = 0
    z: Whole = 0


class DispatchInfo(msgspec.Struct, gc=False):
    """`rocprofiler_kernel_dispatch_info_t`; sizes in bytes, the grid in work-items."""

    agent_id: Handle
    queue_id: Handle
    kernel_id: Whole
    dispatch_id: Natural
    private_segment_size: Whole
    group_segment_size: Whole
    workgroup_size: Triple
    grid_size: Triple


class DispatchRecord(msgspec.Struct, gc=False):
    """An element of `buffer_records.kernel_dispatch`, or the dispatch that counters are of.

    Times in ns; beside counters since SDK 1.0.
    """

    dispatch_info: DispatchInfo
    start_timestamp: Natural = 0
    end_timestamp: Natural = 0


class MemoryCopy(msgspec.Struct, gc=False):
    """An element of `buffer_records.memory_copy`; times in ns."""

    src_agent_id: Handle
    dst_agent_id: Handle
    start_timestamp: Natural = 0
    end_timestamp: Natural = 0


class InstanceValue(msgspec.Struct, gc=False):
    """A counter's value in one of its instances."""

    counter_id: Handle
    value: float


class CounterRecord(msgspec.Struct, gc=False):
    """An element of `callback_records.counter_collection`; register counts until SDK 1.0."""

    dispatch_data: DispatchRecord
    records: list[InstanceValue] = []
    arch_vgpr_count: Whole | None = None
    accum_vgpr_count: Whole | None = None
    sgpr_count: Whole | None = None


class ProgramCounter(msgspec.Struct, gc=False):
    """A program counter: an offset from the code object's load base; an address without one."""

    code_object_id: Whole = 0
    code_object_offset: Unsigned = 0


class IssueSnapshot(msgspec.Struct, gc=False):
    """The part of a sample that hardware sampling adds: why nothing was issued."""

    stall_reason: str | Whole | None = None


class PcSample(msgspec.Struct, gc=False):
    """A PC sample; the last two only where the method is stochastic."""

    pc: ProgramCounter
    exec_mask: Unsigned | None = None
    dispatch_id: Whole = 0
    wave_issued: Whole | None = None
    snapshot: IssueSnapshot | None = None


class SampleRecord(msgspec.Struct, gc=False):
    """An element of `buffer_records.pc_sample_*`."""

    record: PcSample
    inst_index: Whole = -1


class CounterName(msgspec.Struct):
    """An element of `counters`."""

    id: Handle
    name: str


class KernelSymbol(msgspec.Struct):
    """An element of `kernel_symbols`; register counts since SDK 1.0."""

    kernel_id: Whole
    code_object_id: Whole = 0
    kernel_name: str | None = ""
    formatted_kernel_name: str | None = ""
    demangled_kernel_name: str | None = ""
    arch_vgpr_count: Whole | None = None
    accum_vgpr_count: Whole | None = None
    sgpr_count: Whole | None = None

    def name(self) -> str:
        """Returns its name in the CSV of the same run, without the descriptor's suffix."""
        for text in (self.formatted_kernel_name, self.demangled_kernel_name, self.kernel_name):
            if text:
                return text.removesuffix(".kd")
        return f"kernel {self.kernel_id}"


class LoadedCodeObject(msgspec.Struct):
    """An element of `code_objects`."""

    code_object_id: Whole
    uri: str | None = ""
    load_base: Unsigned = 0
    load_size: Whole = 0
    load_delta: int = 0


class KernelStatistics(msgspec.Struct):
    """Durations of one kernel, ns."""

    count: Whole
    sum: float
    min: float | None = None
    max: float | None = None
    mean: float | None = None


class DomainStatistics(msgspec.Struct):
    """Durations by kernel."""

    operations: Any = None


class DomainSummary(msgspec.Struct):
    """An element of `summary`."""

    domain: str = ""
    stats: DomainStatistics | None = None


class StringTables(msgspec.Struct):
    """Texts that records refer to by index."""

    pc_sample_instructions: list[str] = []
    pc_sample_comments: list[str] = []
    code_object_snapshot_filenames: list[Any] = []


class ProcessMetadata(msgspec.Struct):
    """The process: its id and command line."""

    pid: Whole | None = None
    command: list[str] = []


def top_kernels(summary: list[DomainSummary]) -> list[TopKernel]:
    """Returns the profiler's own statistics of kernels."""
    top = []
    for item in summary:
        kernels = item.stats.operations if item.stats else None
        if item.domain != "KERNEL_DISPATCH" or not isinstance(kernels, (dict, list)):
            continue
        # cereal writes a map as a list of {key, value}.
        pairs = (
            kernels.items()
            if isinstance(kernels, dict)
            else [
                (pair.get("key"), pair.get("value")) for pair in kernels if isinstance(pair, dict)
            ]
        )
        for name, about in pairs:
            statistics = _statistics(about)
            if statistics is not None and isinstance(name, str):
                shortest = None if statistics.min is None else round(statistics.min)
                longest = None if statistics.max is None else round(statistics.max)
                top.append(
                    TopKernel(
                        name=name,
                        calls=statistics.count,
                        total_ns=round(statistics.sum),
                        mean_ns=statistics.mean,
                        min_ns=shortest,
                        max_ns=longest,
                    )
                )
    return top


def _statistics(about: object) -> KernelStatistics | None:
    try:
        return msgspec.convert(about, KernelStatistics)
    except (msgspec.MsgspecError, UnicodeError):  # a text with half a surrogate
        return None
