"""kinspect beside other tools, on the same inputs in one run, in turns.

    python -m kinspect.benchmarks.side_by_side --output SIDE_BY_SIDE.md

The other tools are looked for in build/peers/, or where options say; of each that is missing a line
on stderr says how to install it. Every figure is the median of some rounds; in a round each step
runs once. A round before these writes byte code and shows what fails.
"""

from __future__ import annotations

import argparse
import datetime
import re
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from .beside.codes import assembly, copies, sizes
from .beside.machine import heading, load
from .beside.measuring import Bench
from .beside.peers import PEERS, at_hand, missing
from .beside.running import emulators, sweeps
from .beside.scripts import diffs, scripts, start

SECTIONS: Mapping[str, Callable[[Bench], Iterator[str]]] = {
    "start": start,
    "script": scripts,
    "diff": diffs,
    "assembly": assembly,
    "emulator": emulators,
    "copies": copies,
    "sizes": sizes,
    "sweep": sweeps,
}


def main() -> int:
    """Runs the sections and writes the tables; 1 where one of them failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one round, small inputs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", metavar="SECTION,...", help=f"of {', '.join(SECTIONS)}")
    parser.add_argument("--output", type=Path, metavar="FILE.md")
    for name, peer in PEERS.items():
        parser.add_argument(f"--{name}", metavar="PATH", help=peer.what)
    parser.add_argument("--rocprof-workload", metavar="FOLDER", help="recorded by it, to analyse")
    options = parser.parse_args()
    sections = options.only.split(",") if options.only else list(SECTIONS)
    unknown = ", ".join(name for name in sections if name not in SECTIONS)
    if unknown:
        parser.error(f"--only: no section {unknown}; there are {', '.join(SECTIONS)}")
    names = (*PEERS, "rocprof-workload")
    tools = at_hand({name: getattr(options, name.replace("-", "_")) for name in names})
    for line in missing(tools):
        print(line, file=sys.stderr)
    rounds, failed = 1 if options.quick else options.rounds, 0
    lines = list(heading(tools, options.quick, rounds))
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), rounds, options.quick, tools)
        for name in sections:
            print(f"{datetime.datetime.now():%H:%M:%S} {name}", file=sys.stderr, flush=True)
            try:
                lines += ["", *SECTIONS[name](bench)]
            except Exception as error:  # what the others took minutes for is kept
                traceback.print_exc()
                lines += ["", f"## {name}", "", f"Failed: {type(error).__name__}: {error}"]
                failed = 1
    lines += ["", f"Load at the end: {load()}."]
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"
    if options.output is None:
        sys.stdout.write(text)
    else:
        options.output.write_text(text, encoding="utf-8")
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
