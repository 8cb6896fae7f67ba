"""Makes thread traces (ATT) in the form of rocprofv3's decoder, for code that was really compiled.

Nothing of kinspect is in it: instructions, addresses and source positions are llvm-objdump's, the
form of the files is that of rocprofiler-sdk's att-tool. The totals of code.json are summed from the
waves, as the decoder does it.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OBJDUMP = shutil.which("llvm-objdump-22")
ISSUE = 4  # cycles that an instruction takes when nothing holds it up
IMMEDIATE = 9  # category of waits and branches in the decoder's instruction records
MHZ = 2000
REALTIME_HZ = 100_000_000
_ENTRY = re.compile(r"([0-9a-f]+) <(.+)>:$")
_SOURCE = re.compile(r"; (.+:\d+)(?: \(discriminator \d+\))?$")
_CODE = re.compile(r"\t(.+?)\s*// ([0-9A-F]+):")


@dataclass(frozen=True)
class Listed:
    """One instruction as llvm-objdump prints it."""

    address: int
    text: str
    source: str

    @property
    def mnemonic(self) -> str:
        return self.text.split()[0]


@dataclass
class Cost:
    """What one instruction shall have cost one wave."""

    hits: int = 1
    stall: int = 0  # in each hit
    idle: int = 0  # before each hit


@dataclass
class Trace:
    """A trace as it was written, with its known answers."""

    folder: Path
    stats: Path
    totals: dict[int, tuple[int, int, int, int]] = field(default_factory=dict)
    """Address -> hits, latency, stall, idle over all waves."""


def listed(code_object: Path, symbol: str, *options: str) -> list[Listed]:
    """The instructions of a function, with its padding, and where they come from.

    Without `--mattr=+real-true16`, gfx12's 16-bit instructions are data (`.long`) to it.
    """
    assert OBJDUMP is not None
    command = [OBJDUMP, "-d", "-l", *options, f"--disassemble-symbols={symbol}", str(code_object)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found, source, inside = [], "", False
    for line in output.splitlines():
        if match := _ENTRY.match(line):
            inside = match[2] == symbol
        elif match := _SOURCE.match(line):
            source = match[1]
        elif inside and (match := _CODE.match(line)):
            found.append(Listed(int(match[2], 16), match[1], source))
    return found


def write_trace(
    run: Path,
    kernel: str,
    code: Sequence[Listed],
    costs: Mapping[int, Cost],
    *,
    columns: int = 10,
    counted: bool = True,
    waves: int = 2,
    code_object: int = 3,
    agent: int = 5505,
    dispatch: int = 42,
) -> Trace:
    """Writes one trace into a run folder.

    Args:
        run: the folder that the traces of a run lie in.
        kernel: its symbol.
        code: its instructions.
        costs: address -> what it shall have cost; one hit and no stall where it says nothing.
        columns: of code.json: 10, 13 and 14 with the empty columns of PC sampling, or 8 of older
            decoders, without stall and idle.
        counted: whether code.json holds the sums; else they are zero and only waves tell.
        waves: how many were traced; all do the same.
        code_object: its load id.
        agent: handle of the agent.
        dispatch: number of the dispatch.
    """
    name = f"ui_output_agent_{agent}_dispatch_{dispatch}"
    folder = run / name
    folder.mkdir(parents=True)
    trace = Trace(folder, run / f"stats_{name}.csv")
    spans: dict[str, Any] = {}
    events: list[list[int]] = []
    for wave in range(waves):
        begin, simd, slot = 1000 + 16 * wave, wave % 4, wave // 4
        instructions, end = _run(code, costs, begin, trace.totals)
        file = f"se1_sm{simd}_sl{slot}_wv0.json"
        spans.setdefault(str(simd), {})[str(slot)] = {"0": [file, begin, end]}
        events += [[begin, 1, simd, slot, 1, 1], [end, 1, simd, slot, 0, 1]]
        _dump(folder / file, {
            "name": "SE1", "duration": end - begin, "num_insts": len(instructions),
            "num_stitched": len(instructions),
            "wave": {"cu": 1, "id": 0, "simd": simd, "slot": slot, "begin": begin, "end": end,
                     "instructions": instructions, "timeline": [[3, end - begin]],
                     "waitcnt": None},
        })  # fmt: skip
    totals = trace.totals if counted else {}
    zero = (0, 0, 0, 0)
    extra = {8: [], 10: [], 13: [0, 0, [0] * 10], 14: [0, 0, 0, [0] * 9]}[columns]
    sums = 2 if columns == 8 else 4
    start = code[0].address
    rows: list[list[Any]] = [[f"; {kernel}", 0, 0, "", code_object, start, *zero[:sums], *extra]]
    rows += [
        [i.text, 0, number, i.source, code_object, i.address, *total[:sums], *extra]
        for number, i in enumerate(code, start=1)
        for total in (totals.get(i.address, zero),)
    ]
    _dump(folder / "code.json", {"code": rows, "version": "3.0.0"})
    _dump(folder / "filenames.json", {
        "global_begin_time": 0, "gfxv": "vega", "gfxip": 9, "version": "3.0.0",
        "counter_names": [], "wave_filenames": {"1": spans},
    })  # fmt: skip
    _dump(folder / "occupancy.json", {
        "1": sorted(events), "dispatches": {"0": "0 / 0x0", "1": kernel}, "version": "3.0.0",
    })  # fmt: skip
    _dump(folder / "realtime.json", {
        "SE1": [[500, 7_000_000], [500 + MHZ * 1000, 7_000_000 + REALTIME_HZ // 1000]],
        "metadata": {"descriptor": "[gfx_clock, realtime_clock]", "frequency": REALTIME_HZ},
    })  # fmt: skip
    _dump(folder / "wstates3.json", {"data": [], "name": "WAIT"})
    with trace.stats.open("w", newline="") as stream:
        table = csv.writer(stream, quoting=csv.QUOTE_NONNUMERIC)
        table.writerow(
            ["CodeObj", "Vaddr", "Instruction", "Hitcount", "Latency", "Stall", "Idle", "Source"]
        )
        table.writerow([code_object, start, f"; {kernel}", 0, 0, 0, 0, ""])
        for i in code:
            costs_here = trace.totals.get(i.address, zero)
            table.writerow([code_object, i.address, i.text, *costs_here, i.source])
    return trace


def _run(
    code: Sequence[Listed],
    costs: Mapping[int, Cost],
    begin: int,
    totals: dict[int, tuple[int, int, int, int]],
) -> tuple[list[list[int]], int]:
    """One wave: its instruction records, added to the totals, and when it ended."""
    records, now = [], begin
    for line, instruction in enumerate(code, start=1):
        cost = costs.get(instruction.address, Cost())
        for _ in range(cost.hits):
            now += cost.idle
            records.append([now, IMMEDIATE, cost.stall, ISSUE + cost.stall, line])
            now += ISSUE + cost.stall
            old = totals.get(instruction.address, (0, 0, 0, 0))
            new = (1, ISSUE + cost.stall, cost.stall, cost.idle)
            totals[instruction.address] = tuple(map(sum, zip(old, new, strict=True)))  # type: ignore[assignment]
    return records, now


def _dump(path: Path, data: object) -> None:
    path.write_text(json.dumps(data))
