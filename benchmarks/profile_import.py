"""How fast and in how much memory `profile import` reads long CSV files of rocprofv3.

`python -m benchmarks.profile_import [--rows N] [--folder DIR]`: writes a kernel trace and a counter
collection of N rows (10 million: 2 GB on disk at a time, deleted afterwards), reads each in a
process of its own, and prints seconds, rows per second and peak memory. Beside it, what reading
such rows with the csv module alone costs on the same machine.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

_KERNELS = 40
_GRIDS = 8
_COUNTERS = ("SQ_WAVES", "SQ_INSTS_VALU", "GRBM_GUI_ACTIVE", "TCC_HIT_sum")

_TRACE = (
    "Kind,Agent_Id,Queue_Id,Stream_Id,Thread_Id,Dispatch_Id,Kernel_Id,Kernel_Name,Correlation_Id,"
    "Start_Timestamp,End_Timestamp,LDS_Block_Size,Scratch_Size,VGPR_Count,Accum_VGPR_Count,"
    "SGPR_Count,Workgroup_Size_X,Workgroup_Size_Y,Workgroup_Size_Z,Grid_Size_X,Grid_Size_Y,"
    "Grid_Size_Z"
)
_COUNTED = (
    "Correlation_Id,Dispatch_Id,Agent_Id,Queue_Id,Process_Id,Thread_Id,Grid_Size,Kernel_Id,"
    "Kernel_Name,Workgroup_Size,LDS_Block_Size,Scratch_Size,VGPR_Count,Accum_VGPR_Count,SGPR_Count,"
    "Counter_Name,Counter_Value,Start_Timestamp,End_Timestamp"
)


def _header(names: str) -> str:
    return ",".join(f'"{name}"' for name in names.split(",")) + "\n"


def _kernel(number: int) -> str:
    return f"void gemm_kernel<float, {number}, 128>(float const*, float const*, float*, int, int)"


def trace_rows(rows: int) -> Iterator[str]:
    """Lines of a kernel trace: a loop over kernels, with grids that change now and then."""
    yield _header(_TRACE)
    for at in range(rows):
        kernel = at % _KERNELS
        grid = 256 * (1 + at // _KERNELS % _GRIDS)
        begin = 1_550_151_853_029_637 + at * 5_000
        yield (
            f'"KERNEL_DISPATCH","Agent 4",1,1,834304,{at + 1},{kernel + 10},"{_kernel(kernel)}",'
            f"{at + 1},{begin},{begin + 3_000 + kernel},16384,0,128,0,48,256,1,1,{grid},1,1\n"
        )


def counter_rows(rows: int) -> Iterator[str]:
    """Lines of a counter collection: four counters for each dispatch."""
    yield _header(_COUNTED)
    for at in range(rows):
        number, counter = divmod(at, len(_COUNTERS))
        kernel = number % _KERNELS
        grid = 256 * (1 + number // _KERNELS % _GRIDS)
        begin = 1_550_151_853_029_637 + number * 5_000
        yield (
            f'{number + 1},{number + 1},"Agent 4",1,834304,834304,{grid},{kernel + 10},'
            f'"{_kernel(kernel)}",256,16384,0,128,0,48,"{_COUNTERS[counter]}",{at % 4096}.000000,'
            f"{begin},{begin + 3_000 + kernel}\n"
        )


def measure(path: Path) -> dict[str, float]:
    """Reads a file in this process: seconds, and peak memory in MiB."""
    from kinspect.inspector.profile.reading import read

    before = time.process_time()
    started = time.perf_counter()
    recording = read(path, names=("csv_v3",))
    return {
        "seconds": time.perf_counter() - started,
        "cpu": time.process_time() - before,
        "dispatches": len(recording.dispatches),
        "values": len(recording.values),
        "shapes": len(recording.shapes),
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def csv_alone(lines: Callable[[int], Iterator[str]], rows: int = 200_000) -> float:
    """Rows per CPU second of the csv module, nothing being done with them."""
    texts = list(lines(rows))
    before = time.process_time()
    for _ in csv.reader(texts):
        pass
    return rows / (time.process_time() - before)


def run(name: str, lines: Callable[[int], Iterator[str]], rows: int, folder: Path) -> None:
    """Writes a file, reads it in a fresh process, prints the figures and deletes it."""
    path = folder / f"834304_{name}.csv"
    try:
        with path.open("w") as file:
            file.writelines(lines(rows))
        size = path.stat().st_size / 1e9
        command = [sys.executable, "-m", "benchmarks.profile_import", "--read", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    finally:
        path.unlink(missing_ok=True)
    found = json.loads(done.stdout)
    print(
        f"{name}: {rows:,} rows ({size:.2f} GB), {found['dispatches']:,} dispatches, "
        f"{found['values']:,} values, {found['shapes']:,} shapes: {found['seconds']:.1f} s "
        f"({found['cpu']:.1f} s CPU), {rows / found['cpu']:,.0f} rows per CPU second, "
        f"peak {found['peak']:.0f} MiB (csv module alone: {csv_alone(lines):,.0f})"
    )


def main() -> None:
    """Prints a line for each kind of file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path, help="where to write the files")
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.read:
        print(json.dumps(measure(chosen.read)))
        return
    with tempfile.TemporaryDirectory(dir=chosen.folder) as made:
        run("kernel_trace", trace_rows, chosen.rows, Path(made))
        run("counter_collection", counter_rows, chosen.rows, Path(made))


if __name__ == "__main__":
    main()
