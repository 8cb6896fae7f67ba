"""A made-up profiled program, and rocprofv3's JSON of it.

The form is that of rocprofiler-sdk's JSON schema and serialization; nothing in it was recorded.
The same program as a database: `profile_bases`; other profilers' traces: `profile_traces`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = dict[str, Any]

GPU_HANDLE = 14_180_123_457_001  # of node 4; a CPU is node 0
CPU_HANDLE = 14_180_123_450_000
LOAD_BASE = 0x7F10_0000_0000
STALL = "ROCPROFILER_PC_SAMPLING_INSTRUCTION_NOT_ISSUED_REASON_"


@dataclass(frozen=True)
class Kernel:
    """A kernel of the made-up program."""

    name: str
    kernel_id: int
    code_object: int = 1
    vgpr: int = 64
    accum_vgpr: int = 0
    sgpr: int = 32
    mangled: str | None = None


@dataclass(frozen=True)
class Launch:
    """A dispatch of it; counters as lists: one value per instance of the block."""

    kernel: int  # kernel_id
    number: int
    start: int
    end: int
    workgroup: tuple[int, int, int] = (256, 1, 1)
    grid: tuple[int, int, int] = (65536, 1, 1)
    lds: int = 0
    scratch: int = 0
    counters: Mapping[str, Sequence[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class PcSample:
    """A PC sample; `issued` None for the host-trap method."""

    dispatch: int
    offset: int
    code_object: int = 1
    mask: int = 0xFFFF_FFFF_FFFF_FFFF
    issued: bool | None = None
    why: str = "NONE"
    instruction: int = -1  # into the texts


@dataclass(frozen=True)
class Program:
    """A profiled process."""

    pid: int = 4242
    kernels: Sequence[Kernel] = ()
    launches: Sequence[Launch] = ()
    samples: Sequence[PcSample] = ()
    instructions: Sequence[tuple[str, str]] = ()  # text, source line
    node: int = 4
    arch: str = "gfx942"


def program(pid: int = 4242) -> Program:
    """Two kernels of one name in two specialisations, three launches each, and a third one."""
    kernels = (
        Kernel("matmul_kernel", 7, 1, vgpr=128, accum_vgpr=64, sgpr=96),
        Kernel("matmul_kernel", 8, 2, vgpr=64, sgpr=48),
        Kernel("void copy<float>(float*, int)", 9, 3, mangled="_Z4copyIfEvPT_i"),
    )
    launches = [
        Launch(
            (7, 8, 9)[index % 3],
            index + 1,
            1_000_000 + 10_000 * index,
            1_000_000 + 10_000 * index + 1_000 * (index % 3 + 1),
            lds=(32768, 16384, 0)[index % 3],
            counters={"SQ_WAVES": [100.0, 28.0], "GRBM_GUI_ACTIVE": [500.0] * 8},
        )
        for index in range(9)
    ]
    samples = [PcSample(1, 0x1F10, instruction=0) for _ in range(3)]
    samples += [
        PcSample(1, 0x1F18, issued=False, why="WAITCNT", instruction=1),
        PcSample(4, 0x1F18, issued=False, why="ALU_DEPENDENCY", mask=0xFF, instruction=1),
        PcSample(4, 0x1F18, issued=True, why="OTHER_WAIT", instruction=1),
        PcSample(2, 0x2000, code_object=2, issued=True, mask=1),
    ]
    texts = (("s_waitcnt vmcnt(0)", "gemm.py:17"), ("v_mfma_f32_32x32x8_f16 a[0:15], v[0:1]", ""))
    return Program(pid, kernels, launches, samples, texts)


# --------------------------------------------------------------------------- rocprofv3 JSON

_CAPABILITIES = """
HotPluggable HSAMMUPresent SharedWithGraphics QueueSizePowerOfTwo QueueSize32bit QueueIdleEvent
VALimit WatchPointsSupported WatchPointsTotalBits DoorbellType AQLQueueDoubleMap DebugTrapSupported
WaveLaunchTrapOverrideSupported WaveLaunchModeSupported PreciseMemoryOperationsSupported
DEPRECATED_SRAM_EDCSupport Mem_EDCSupport RASEventNotify ASICRevision SRAM_EDCSupport
SVMAPISupported CoherentHostAccess DebugSupportedFirmware Reserved
"""


def sdk_agent(node: int, handle: int, arch: str | None) -> Json:
    """A device as rocprofiler-sdk describes it; a CPU without an arch."""
    gpu = arch is not None
    return {
        "size": 304,
        "id": {"handle": handle},
        "type": 2 if gpu else 1,
        "cpu_cores_count": 0 if gpu else 96,
        "simd_count": 1216 if gpu else 0,
        "max_waves_per_simd": 8 if gpu else 0,
        "lds_size_in_kb": 64 if gpu else 0,
        "wave_front_size": 64 if gpu else 0,
        "num_xcc": 8 if gpu else 0,
        "cu_count": 304 if gpu else 0,
        "num_shader_banks": 32 if gpu else 0,
        "simd_per_cu": 4 if gpu else 0,
        "gfx_target_version": 90402 if gpu else 0,
        "max_engine_clk_fcompute": 2100 if gpu else 3700,
        "capability": dict.fromkeys(_CAPABILITIES.split(), 0),
        "name": arch or "Some Processor",
        "vendor_name": "AMD",
        "product_name": "AMD Instinct MI300X" if gpu else "Some Processor",
        "model_name": "ip discovery" if gpu else "",
        "node_id": node,
        "logical_node_id": node,
    }


def _xyz(size: tuple[int, int, int]) -> Json:
    return dict(zip("xyz", size, strict=True))


def dispatch_info(launch: Launch) -> Json:
    """`rocprofiler_kernel_dispatch_info_t`."""
    return {
        "size": 72,
        "agent_id": {"handle": GPU_HANDLE},
        "queue_id": {"handle": 1},
        "kernel_id": launch.kernel,
        "dispatch_id": launch.number,
        "private_segment_size": launch.scratch,
        "group_segment_size": launch.lds,
        "workgroup_size": _xyz(launch.workgroup),
        "grid_size": _xyz(launch.grid),
    }


def counter_handles(launches: Iterable[Launch]) -> dict[str, int]:
    """The id of each counter that some launch has."""
    names = {name: None for launch in launches for name in launch.counters}
    return {name: 1_000 + index for index, name in enumerate(names)}


def sdk_dispatch(launch: Launch) -> Json:
    """An element of `kernel_dispatch`."""
    return {
        "size": 136,
        "kind": 11,
        "operation": 2,
        "thread_id": 4243,
        "correlation_id": {"internal": launch.number, "external": 0},
        "start_timestamp": launch.start,
        "end_timestamp": launch.end,
        "dispatch_info": dispatch_info(launch),
        "stream_id": {"handle": 0},
    }


def _counted(launch: Launch, kernel: Kernel, handles: Mapping[str, int], times: bool) -> Json:
    data: Json = {"size": 96, "correlation_id": {"internal": launch.number, "external": 0}}
    if times:
        data |= {"start_timestamp": launch.start, "end_timestamp": launch.end}
    return {
        "thread_id": 4243,
        "dispatch_data": data | {"dispatch_info": dispatch_info(launch)},
        "records": [
            {"counter_id": {"handle": handles[name]}, "value": value}
            for name, values in launch.counters.items()
            for value in values
        ],
        "arch_vgpr_count": kernel.vgpr,
        "sgpr_count": kernel.sgpr,
        "lds_block_size_v": (launch.lds + 511) // 512 * 512,
    }


def sdk_sample(sample: PcSample) -> Json:
    """An element of `pc_sample_host_trap` or `pc_sample_stochastic`."""
    record: Json = {
        "hw_id": {"chiplet": 1, "wave_id": 2, "simd_id": 3},
        "pc": {"code_object_id": sample.code_object, "code_object_offset": sample.offset},
        "exec_mask": sample.mask,
        "timestamp": 1_000_000,
        "dispatch_id": sample.dispatch,
        "corr_id": {"internal": sample.dispatch, "external": 0},
        "wrkgrp_id": _xyz((0, 0, 0)),
        "wave_in_grp": 0,
    }
    if sample.issued is not None:
        record |= {
            "flags": {"has_mem_cnt": 0},
            "wave_issued": int(sample.issued),
            "inst_type": "ROCPROFILER_PC_SAMPLING_INSTRUCTION_TYPE_VALU",
            "wave_cnt": 4,
            "snapshot": {"stall_reason": f"{STALL}{sample.why}", "dual_issue_valu": 0},
        }
    return {"record": record, "inst_index": sample.instruction}


def sdk_process(what: Program, version: str = "1.0") -> Json:
    """An element of `rocprofiler-sdk-tool`, as SDK 0.5 or 1.0 writes it."""
    new = version != "0.5"
    handles = counter_handles(what.launches)
    by_id = {kernel.kernel_id: kernel for kernel in what.kernels}
    objects = sorted({kernel.code_object for kernel in what.kernels})
    document: Json = {
        "metadata": {
            "pid": what.pid,
            "init_time": 900_000,
            "fini_time": 2_000_000,
            "command": ["python", "gemm.py"],
        },
        "agents": [sdk_agent(0, CPU_HANDLE, None), sdk_agent(what.node, GPU_HANDLE, what.arch)],
        "counters": [
            {
                "agent_id": {"handle": GPU_HANDLE},
                "id": {"handle": handle},
                "is_constant": 0,
                "is_derived": 0,
                "name": name,
                "description": "",
                "block": name.partition("_")[0],
                "expression": "",
                "dimension_ids": [1, 2],
            }
            for name, handle in handles.items()
        ],
        "strings": {
            "callback_records": [{"kind": "NONE", "operations": []}],
            "buffer_records": [{"kind": "KERNEL_DISPATCH", "operations": ["NONE", "ENQUEUE"]}],
            "marker_api": [],
            "counters": {"dimension_ids": [{"id": 1, "instance_size": 8, "name": "DIMENSION_XCC"}]},
        },
        "code_objects": [
            {
                "size": 136,
                "code_object_id": number,
                "agent_id": {"handle": GPU_HANDLE},
                "rocp_agent": {"handle": GPU_HANDLE},
                "hsa_agent": {"handle": 1},
                "uri": f"memory://{what.pid}#offset=0x55d{number:03x}000&size=9000",
                "load_base": LOAD_BASE + 0x10_0000 * number,
                "load_size": 0x8000,
                "load_delta": LOAD_BASE + 0x10_0000 * number,
                "storage_type": 2,
                "memory_base": 0x55D0_0000 + number,
                "memory_size": 9000,
            }
            for number in objects
        ],
        "kernel_symbols": [
            {
                "size": 96,
                "kernel_id": kernel.kernel_id,
                "code_object_id": kernel.code_object,
                "kernel_name": f"{kernel.mangled or kernel.name}.kd",
                "kernel_object": 0x7F00_0000 + kernel.kernel_id,
                "kernarg_segment_size": 48,
                "kernarg_segment_alignment": 16,
                "group_segment_size": 0,
                "private_segment_size": 0,
                "formatted_kernel_name": kernel.name,
                "demangled_kernel_name": f"{kernel.name}.kd",
                "truncated_kernel_name": kernel.name.partition("<")[0],
            }
            | (
                {
                    "sgpr_count": kernel.sgpr,
                    "arch_vgpr_count": kernel.vgpr,
                    "accum_vgpr_count": kernel.accum_vgpr,
                }
                if new
                else {}
            )
            for kernel in what.kernels
        ],
        "callback_records": {
            "counter_collection": [
                _counted(launch, by_id[launch.kernel], handles, times=new)
                for launch in what.launches
                if launch.counters
            ]
        },
        "buffer_records": {
            "kernel_dispatch": [sdk_dispatch(launch) for launch in what.launches],
            "hip_api": [],
            "hsa_api": [],
            "marker_api": [],
            "memory_copy": [],
            "memory_allocation": [],
            "rocdecode_api": [],
        },
    }
    if new:
        document["strings"] |= {
            "pc_sample_instructions": [text for text, _ in what.instructions],
            "pc_sample_comments": [line for _, line in what.instructions],
            "att_filenames": [],
            "code_object_snapshot_filenames": [],
        }
        document["host_functions"] = []
        document["summary"] = []
        document["buffer_records"] |= {
            "pc_sample_host_trap": [sdk_sample(s) for s in what.samples if s.issued is None],
            "pc_sample_stochastic": [sdk_sample(s) for s in what.samples if s.issued is not None],
        }
    return document


def write_results(path: Path, *programs: Program, version: str = "1.0") -> Path:
    """A rocprofv3 `*_results.json`, laid out as its writer does: a line per value, no indent."""
    document = {"rocprofiler-sdk-tool": [sdk_process(what, version) for what in programs]}
    path.write_text(json.dumps(document, indent=0))
    return path
