"""What importing a large rocprofv3 JSON costs: `python -m benchmarks.profile_import_json`.

Writes a file of a gigabyte (or `--megabytes`) in the layout of rocprofv3's writer: dispatches,
counters with several instances, PC samples and API calls, a quarter of it each. Reads it in a
process of its own, and prints processor time, speed and the most memory that process held. With
`--shuffled`, records stand before the tables that they refer to; with `--nan`, every hundredth
counter value is NaN, which the fast decoder does not take.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

ROOT = Path(__file__).parent.parent
AIM_SECONDS = 120.0  # for a gigabyte, on one core
AIM_MEGABYTES = 1000.0
DISTINCT = 2000  # records written over and over

READ = """
import json, resource, sys, time
from pathlib import Path
from kinspect.inspector.profile import reading
began = time.process_time()
recording = reading.read(Path(sys.argv[1]), ("results_json",))
print(json.dumps({
    "seconds": time.process_time() - began,
    "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000,
    "dispatches": len(recording.dispatches),
    "values": len(recording.values),
    "samples": sum(found.count for found in recording.samples),
    "errors": [error.message for error in recording.errors],
}))
"""


def main() -> None:
    """Writes, reads, prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--shuffled", action="store_true")
    parser.add_argument("--nan", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "1_results.json"
        written = write(path, options.megabytes * 1_000_000, options.shuffled, options.nan)
        size = path.stat().st_size / 1e6
        done = subprocess.run(
            [sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=True
        )
    found = json.loads(done.stdout)
    print(
        f"{size:,.0f} MB: {found['dispatches']:,} dispatches, {found['values']:,} counter values, "
        f"{found['samples']:,} samples\n"
        f"{found['seconds']:.1f} s of processor time (aim {AIM_SECONDS:.0f}), "
        f"{size / found['seconds']:.0f} MB/s, {found['megabytes']:,.0f} MB of memory at most "
        f"(aim {AIM_MEGABYTES:,.0f})"
    )
    assert len(found["errors"]) == options.nan, found["errors"]
    assert (found["dispatches"], found["samples"]) == written, written


@dataclass(frozen=True)
class Records:
    """The distinct records that are written over and over, and what stands beside them."""

    document: dict[str, Any]
    counters: list[dict[str, Any]]
    dispatches: list[dict[str, Any]]
    samples: list[dict[str, Any]]
    calls: list[dict[str, Any]]


def records(nan: bool) -> Records:
    """`DISTINCT` records of each kind; with `nan`, every hundredth counter is NaN."""
    sys.path.insert(0, str(ROOT / "tests"))
    import profile_files

    program = profile_files.program()
    launches = [
        replace(program.launches[index % 9], number=index + 1, counters={"SQ_WAVES": [1.5] * 8})
        for index in range(DISTINCT)
    ]
    if nan:
        launches[::100] = [
            replace(launch, counters={"SQ_WAVES": [float("nan")]}) for launch in launches[::100]
        ]
    document = profile_files.sdk_process(replace(program, launches=launches, samples=()))
    counters = document.pop("callback_records")["counter_collection"]
    document.pop("buffer_records")
    pc_samples = (
        profile_files.PcSample(index + 1, 8 * (index % 500), issued=bool(index % 3))
        for index in range(DISTINCT)
    )
    calls = [
        {"size": 48, "kind": 1, "operation": index % 90, "thread_id": 1, "start_timestamp": index}
        for index in range(DISTINCT)
    ]
    return Records(
        document,
        counters,
        [profile_files.sdk_dispatch(launch) for launch in launches],
        [profile_files.sdk_sample(sample) for sample in pc_samples],
        calls,
    )


def write(path: Path, size: int, shuffled: bool, nan: bool) -> tuple[int, int]:
    """A file of about that size; how many dispatches and samples are in it."""
    parts = records(nan)
    quarter = size // 4
    with path.open("w") as file:
        head = ",\n".join(f'"{key}": {text(value)}' for key, value in parts.document.items())
        file.write('{"rocprofiler-sdk-tool": [{')
        if not shuffled:
            file.write(head + ",\n")
        file.write('"callback_records": {"counter_collection": ')
        counted = fill(file, parts.counters, quarter, numbered=True)
        file.write('},\n"buffer_records": {"kernel_dispatch": ')
        dispatched = fill(file, parts.dispatches, quarter, numbered=True)
        file.write(',\n"hip_api": ')
        fill(file, parts.calls, quarter, numbered=False)
        file.write(',\n"pc_sample_stochastic": ')
        samples = fill(file, parts.samples, quarter, numbered=False)
        file.write("}\n")
        if shuffled:
            file.write(",\n" + head)
        file.write("}]}\n")
    return max(counted, dispatched), samples


def fill(file: TextIO, records: list[dict[str, Any]], size: int, numbered: bool) -> int:
    """An array of records over and over, up to a size; how many there are.

    With `numbered`, each has its own dispatch id, counting from 1.
    """
    parts = [_around_id(text(record)) if numbered else (text(record), "") for record in records]
    count = written = 0
    while written < size:
        before, after = parts[count % len(parts)]
        count += 1
        number = str(count) if numbered else ""
        written += file.write((",\n" if count > 1 else "[") + before + number + after)
    file.write("]")
    return count


def _around_id(record: str) -> tuple[str, str]:
    before, key, after = record.partition('"dispatch_id": ')
    return before + key, after.lstrip("0123456789")


def text(value: object) -> str:
    """JSON as rocprofv3 lays it out: every value on a line, without indent."""
    return json.dumps(value, indent=0)


if __name__ == "__main__":
    main()
