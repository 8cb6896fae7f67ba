"""The command line: which readers, for how long; figures per reader, and what went wrong."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2] / "tests"
if str(TESTS) not in sys.path:
    sys.path.insert(0, str(TESTS))  # the makers of seeds

from .driver import fuzz  # noqa: E402
from .readers import READERS  # noqa: E402


def main(arguments: list[str] | None = None) -> int:
    """Runs; 1 if anything is against the property."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="of all readers together")
    parser.add_argument("--reader", action="append", choices=[r.name for r in READERS])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="where inputs of faults go; else a new folder")
    parser.add_argument("--log", type=Path, help="append the figures to this file")
    options = parser.parse_args(arguments)
    chosen = [r for r in READERS if options.reader is None or r.name in options.reader]
    keep = options.keep or Path(tempfile.mkdtemp(prefix="kinspect-fuzz-"))
    keep.mkdir(parents=True, exist_ok=True)
    started, tallies = time.monotonic(), []
    for reader in chosen:
        tallies.append(fuzz(reader, options.minutes * 60 / len(chosen), options.seed, keep))
        print(tallies[-1].line(), flush=True)
    total = sum(t.cases for t in tallies)
    faults = sum(sum(t.faults.values()) for t in tallies)
    seconds = time.monotonic() - started
    lines = [t.line() for t in tallies]
    lines.append(
        f"seed {options.seed}: {total} cases of {len(tallies)} readers in {seconds / 60:.1f} min"
        f" ({total / seconds:.0f}/s), worst {max(t.worst_seconds for t in tallies):.1f} s and"
        f" {max(t.worst_bytes for t in tallies) >> 20} MiB, {faults} faults at"
        f" {sum(len(t.faults) for t in tallies)} places"
    )
    for tally in tallies:
        lines += [f"  {tally.reader}: {n} times {what}" for what, n in tally.faults.most_common()]
    print("\n".join(lines[len(tallies) :]))
    if options.log is not None:
        with options.log.open("a", encoding="utf-8") as stream:
            stream.write("\n".join(lines) + "\n")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
