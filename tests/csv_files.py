"""CSV files as AMD's profilers write them, made up."""

from __future__ import annotations

import csv
import os
from collections import defaultdict
from pathlib import Path
from typing import Literal

import pytest
from kinspect.inspector.model.recording import Recording
from kinspect.inspector.profile.reading import read

READERS = ("csv_v3", "pc_csv", "compute", "csv_legacy")


def names(text: str) -> list[str]:
    return text.split(",")


TRACE = names(
    "Kind,Agent_Id,Queue_Id,Stream_Id,Thread_Id,Dispatch_Id,Kernel_Id,Kernel_Name,Correlation_Id,"
    "Start_Timestamp,End_Timestamp,LDS_Block_Size,Scratch_Size,VGPR_Count,Accum_VGPR_Count,"
    "SGPR_Count,Workgroup_Size_X,Workgroup_Size_Y,Workgroup_Size_Z,Grid_Size_X,Grid_Size_Y,"
    "Grid_Size_Z"
)
COUNTED = names(
    "Correlation_Id,Dispatch_Id,Agent_Id,Queue_Id,Process_Id,Thread_Id,Grid_Size,Kernel_Id,"
    "Kernel_Name,Workgroup_Size,LDS_Block_Size,Scratch_Size,VGPR_Count,Accum_VGPR_Count,SGPR_Count,"
    "Counter_Name,Counter_Value,Start_Timestamp,End_Timestamp"
)
NAME = "void gemm<float, 2>(float*, int)"


def write(path: Path, header: list[str], rows: list[list[object]], quote: str = "text") -> None:
    """`quote`: which fields, "text" as rocprofv3 does, or "all"."""
    path.parent.mkdir(parents=True, exist_ok=True)
    style: Literal[1, 2] = csv.QUOTE_ALL if quote == "all" else csv.QUOTE_NONNUMERIC
    with path.open("w", newline="") as file:
        writer = csv.writer(file, quoting=style, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def traced(number: int, start: int = 0, kernel: int = 10, name: str = NAME) -> list[object]:
    begin = start or 1_000_000 + 1000 * number
    return [
        "KERNEL_DISPATCH", "Agent 4", 1, 0, 77, number, kernel, name, number, begin, begin + 300,
        512, 16, 24, 8, 48, 64, 2, 1, 640, 4, 1,
    ]  # fmt: skip


def counted(
    number: int, counter: str, value: object, start: int = 0, kernel: int = 10, process: int = 77
) -> list[object]:
    begin = start or 1_000_000 + 1000 * number
    return [
        number, number, "Agent 4", 1, process, 77, 2560, kernel, NAME, 128, 512, 16, 24, 8, 48,
        counter, value, begin, begin + 300,
    ]  # fmt: skip


def get(path: Path) -> Recording:
    return read(path, names=READERS)


def values(recording: Recording) -> dict[tuple[int, str], float]:
    """Sums by row and counter."""
    found: dict[tuple[int, str], float] = defaultdict(float)
    table = recording.values
    for row, counter, value in zip(table.dispatch, table.counter, table.value, strict=True):
        found[row, recording.counters[counter]] += value
    return dict(found)


STATS = names("Name,Calls,TotalDurationNs,AverageNs,Percentage,MinNs,MaxNs,StdDev")

AGENTS = names(
    "Node_Id,Logical_Node_Id,Agent_Type,Simd_Count,Max_Waves_Per_Simd,Lds_Size_In_Kb,"
    "Wave_Front_Size,Num_Xcc,Cu_Count,Num_Shader_Banks,Simd_Per_Cu,Gfx_Target_Version,"
    "Max_Engine_Clk_Fcompute,Name,Product_Name"
)


def agent_row(
    node: int, logical: int, kind: str, version: int = 90402, name: str = ""
) -> list[object]:
    if kind == "CPU":
        return [node, logical, kind, 0, 0, 0, 0, 1, 64, 0, 0, 0, 0, "EPYC", "EPYC"]
    return [
        node, logical, kind, 1216, 8, 64, 64, 8, 304, 32, 4, version, 2100, name, "AMD Instinct",
    ]  # fmt: skip


V1 = names(
    "Index,KernelName,gpu-id,queue-id,queue-index,pid,tid,grd,wgr,lds,scr,arch_vgpr,accum_vgpr,"
    "sgpr,wave_size,sig,obj,SQ_WAVES,FetchSize,DispatchNs,BeginNs,EndNs,CompleteNs,DurationNs"
)

TRAP = "Sample_Timestamp,Exec_Mask,Dispatch_Id,Instruction,Instruction_Comment,Correlation_Id"
STOCHASTIC = TRAP + ",Wave_Issued_Instruction,Instruction_Type,Stall_Reason,Wave_Count"
REASON = "ROCPROFILER_PC_SAMPLING_INSTRUCTION_NOT_ISSUED_REASON_"


def samples(inner: str) -> Path:
    """A folder of recordings made elsewhere, which are not part of the project."""
    named = os.environ.get("KINSPECT_SAMPLES")
    found = sorted(Path(named).rglob(inner)) if named else []
    if not found:
        pytest.skip("KINSPECT_SAMPLES names no folder of recordings")
    return found[0]
