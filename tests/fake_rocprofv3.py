#!/usr/bin/env python3
"""A stand-in for rocprofv3, and for a GPU: takes its options, runs the program, writes its files.

Run, it is the profiler: it refuses what rocprofv3's parser refuses, tells the program what to
record by the environment, and becomes the program. Imported by a program, it is the device and the
profiler's library in one: `launch` is a kernel launch, and at its end each process that launched
something writes its own files, in the formats of SDK 1.0. Outside of the profiler nothing is kept.

What goes wrong is chosen by environment variables:
    FAKE_FAIL: a word; the pass whose command line has it dies with the profiler's own error.
    FAKE_ERROR: the text of that error.
    FAKE_LOSE: a counter for which nothing is returned.
    FAKE_EMPTY: no dispatch is recorded.
    FAKE_NO_ROWS: the counters' file has a header alone.
    FAKE_GARBLE: the end of the counters' file is cut off.
"""

from __future__ import annotations

import argparse
import atexit
import csv
import json
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

VERSION = "1.0.0"
_PLAN = "FAKE_ROCPROF_PLAN"


def _columns(text: str) -> list[str]:
    return text.split()


_TRACE = _columns(
    """
    Kind Agent_Id Queue_Id Stream_Id Thread_Id Dispatch_Id Kernel_Id Kernel_Name Correlation_Id
    Start_Timestamp End_Timestamp LDS_Block_Size Scratch_Size VGPR_Count Accum_VGPR_Count
    SGPR_Count Workgroup_Size_X Workgroup_Size_Y Workgroup_Size_Z Grid_Size_X Grid_Size_Y
    Grid_Size_Z
    """
)
_COUNTED = _columns(
    """
    Correlation_Id Dispatch_Id Agent_Id Queue_Id Process_Id Thread_Id Grid_Size Kernel_Id
    Kernel_Name Workgroup_Size LDS_Block_Size Scratch_Size VGPR_Count Accum_VGPR_Count SGPR_Count
    Counter_Name Counter_Value Start_Timestamp End_Timestamp
    """
)
_AGENT = _columns(
    """
    Node_Id Logical_Node_Id Agent_Type Cpu_Cores_Count Simd_Count Max_Waves_Per_Simd
    Lds_Size_In_Kb Gfx_Target_Version Wave_Front_Size Num_Shader_Banks Simd_Per_Cu
    Max_Engine_Clk_Fcompute Num_Xcc Cu_Count Name Vendor_Name Product_Name
    """
)

_launched: list[dict] = []


# --------------------------------------------------------------------------- the profiler


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser("rocprofv3", allow_abbrev=False)
    flag = {"nargs": "?", "const": True, "metavar": "BOOL"}
    made.add_argument("-v", "--version", action="store_true")
    made.add_argument("-i", "--input")
    made.add_argument("-o", "--output-file")
    made.add_argument("-d", "--output-directory")
    made.add_argument(
        "-f", "--output-format", nargs="+", choices=("csv", "json", "pftrace", "otf2", "rocpd")
    )
    made.add_argument("--kernel-trace", **flag)
    made.add_argument("--pmc", nargs="*")
    made.add_argument("--kernel-include-regex")
    made.add_argument("--kernel-iteration-range", nargs="+")
    made.add_argument("--pc-sampling-beta-enabled", **flag)
    made.add_argument("--pc-sampling-unit", choices=("instructions", "cycles", "time"))
    made.add_argument("--pc-sampling-method", choices=("stochastic", "host_trap"))
    made.add_argument("--pc-sampling-interval", type=int)
    made.add_argument("--att", **flag)
    made.add_argument("--att-library-path", nargs="+")
    made.add_argument("--att-target-cu")
    made.add_argument("--att-simd-select")
    made.add_argument("--att-shader-engine-mask")
    made.add_argument("--att-buffer-size")
    return made


def main(argv: list[str]) -> int:
    cut = argv.index("--") if "--" in argv else len(argv)
    wanted = parser().parse_args(argv[:cut])
    program = argv[cut + 1 :]
    if wanted.version:
        sys.stdout.write(f"             version: {VERSION}\n        git_revision: 0\n")
        return 0
    if not program:
        fatal("No application provided")
    sampling = (wanted.pc_sampling_unit, wanted.pc_sampling_method, wanted.pc_sampling_interval)
    if any(sampling):
        if not wanted.pc_sampling_beta_enabled:
            fatal("PC sampling unavailable. The feature is implicitly disabled.")
        if not all(sampling):
            fatal("All three PC sampling configurations need to be set")
    if wanted.att and not any(
        any(Path(place).rglob("librocprof-trace-decoder.so"))
        for place in wanted.att_library_path or ()
    ):
        fatal("rocprof-trace-decoder library path not found in []")
    failing = os.environ.get("FAKE_FAIL")
    if failing and any(failing in word for word in argv[:cut]):
        fatal(os.environ.get("FAKE_ERROR", "something is wrong"))
    plan = {**vars(wanted), "pmc": wanted.pmc or []}
    path = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        _PLAN: json.dumps(plan),
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
    }
    sys.stdout.flush()
    return os.execvpe(program[0], program, environment)


def fatal(text: str) -> NoReturn:
    sys.stderr.write(f"[rocprofv3] Fatal error: {text}\n")
    sys.exit(1)


# --------------------------------------------------------------------------- the device


def launch(name: str, times: int = 1, *, vgpr: int = 64, grid: int = 4096, ns: int = 1000) -> None:
    """Launches a kernel so many times."""
    if _PLAN not in os.environ:
        return
    if not _launched:
        atexit.register(_write)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _write_and_die)
    for _ in range(times):
        number = len(_launched) + 1
        start = 1_000_000 + 10_000 * number
        _launched.append(
            {
                "Kind": "KERNEL_DISPATCH",
                "Agent_Id": "Agent 4",
                "Queue_Id": 1,
                "Stream_Id": 1,
                "Thread_Id": os.getpid(),
                "Process_Id": os.getpid(),
                "Dispatch_Id": number,
                "Kernel_Id": 10 + vgpr,
                "Kernel_Name": name,
                "Correlation_Id": number,
                "Start_Timestamp": start,
                "End_Timestamp": start + ns,
                "LDS_Block_Size": 16384,
                "Scratch_Size": 0,
                "VGPR_Count": vgpr,
                "Accum_VGPR_Count": 0,
                "SGPR_Count": 112,
                "Workgroup_Size": 256,
                "Workgroup_Size_X": 256,
                "Workgroup_Size_Y": 1,
                "Workgroup_Size_Z": 1,
                "Grid_Size": grid,
                "Grid_Size_X": grid,
                "Grid_Size_Y": 1,
                "Grid_Size_Z": 1,
            }
        )


def flush() -> None:
    """Writes now what the end of the process would write: before it is killed."""
    _write()


def _write_and_die(number: int, frame: object) -> None:
    _write()
    atexit.unregister(_write)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _write() -> None:
    plan = json.loads(os.environ[_PLAN])
    if os.environ.get("FAKE_EMPTY"):
        return
    folder = Path(plan["output_directory"].replace("%pid%", str(os.getpid())))
    folder.mkdir(parents=True, exist_ok=True)
    stem = plan["output_file"].replace("%pid%", str(os.getpid()))
    sys.stderr.write(f"E20250101 {os.getpid()} Opened result file: {folder / stem}\n")
    _csv(folder / f"{stem}_agent_info.csv", _AGENT, [_cpu(), _gpu()])
    if plan["pc_sampling_method"]:
        from profile_files import program, write_results

        write_results(folder / f"{stem}_results.json", program(os.getpid()))
        return
    if plan["att"]:
        from att_files import Listed, write_trace

        code = [Listed(0x1F00 + 4 * n, "s_nop 0", "") for n in range(3)]
        write_trace(folder, _launched[0]["Kernel_Name"], code, {}, dispatch=2)
    if plan["kernel_trace"]:
        _csv(folder / f"{stem}_kernel_trace.csv", _TRACE, _launched)
    rows = [
        {**row, "Counter_Name": name, "Counter_Value": f"{100.0 * place:.6f}"}
        for row in _launched
        for place, name in enumerate(plan["pmc"], 1)
        if name != os.environ.get("FAKE_LOSE") and "FAKE_NO_ROWS" not in os.environ
    ]
    if plan["pmc"]:
        path = folder / f"{stem}_counter_collection.csv"
        _csv(path, _COUNTED, rows)
        if os.environ.get("FAKE_GARBLE"):
            os.truncate(path, path.stat().st_size - 20)


def _csv(path: Path, columns: list[str], rows: list[dict]) -> None:
    with path.open("w", newline="") as stream:
        table = csv.DictWriter(stream, columns, extrasaction="ignore", quoting=csv.QUOTE_NONNUMERIC)
        table.writeheader()
        table.writerows(rows)


def _cpu() -> dict:
    named = {"Name": "Some Processor", "Product_Name": "Some Processor"}
    return {"Node_Id": 0, "Logical_Node_Id": 0, "Agent_Type": "CPU", "Cpu_Cores_Count": 64, **named}


def _gpu() -> dict:
    return {
        "Node_Id": 4,
        "Logical_Node_Id": 4,
        "Agent_Type": "GPU",
        "Cpu_Cores_Count": 0,
        "Simd_Count": 1216,
        "Max_Waves_Per_Simd": 8,
        "Lds_Size_In_Kb": 64,
        "Gfx_Target_Version": 90402,
        "Wave_Front_Size": 64,
        "Num_Shader_Banks": 32,
        "Simd_Per_Cu": 4,
        "Max_Engine_Clk_Fcompute": 2100,
        "Num_Xcc": 8,
        "Cu_Count": 304,
        "Name": "gfx942",
        "Vendor_Name": "AMD",
        "Product_Name": "AMD Instinct MI300X",
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
