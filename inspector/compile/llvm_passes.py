"""What LLVM's code generator does to a kernel, pass by pass, as Triton's LLVM prints it.

`LLVM_IR_ENABLE_DUMP` prints the machine code after each pass, `LLVM_ENABLE_TIMING` its time. Both
are Triton's own LLVM: no other `llc` takes part.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

DUMP = (("LLVM_IR_ENABLE_DUMP", "1"),)
TIMING = (("LLVM_ENABLE_TIMING", "1"), ("MLIR_ENABLE_TIMING", "1"))

_HEADER = re.compile(r"# \*\*\* IR Dump After (?P<name>.+?) \((?P<cli>[\w.-]+)\) \*\*\*:")
_FUNCTION = re.compile(r"# Machine code for function (?P<name>\S+): (?P<properties>.*)")
_BLOCK = re.compile(r"(?:\d+B)?\s*bb\.(?P<number>\d+)\b.*:$")
_SUCCESSOR = re.compile(r"%bb\.(\d+)")
_REGISTER = re.compile(
    r"(?P<undef>undef )?%(?P<number>\d+)(?:\.(?P<lanes>[a-z0-9_]+))?"
    r":(?P<type>(?:v|a|av)(?:gpr|reg)?_\w+)"
)
_LANE = re.compile(r"sub(\d+)")
_BITS = re.compile(r"_(\d+)")
_PHYSICAL = re.compile(r"\$(?:[av]gpr\d+(?:_(?:lo|hi)16)?_?)+")
_NUMBER = re.compile(r"([av])gpr(\d+)")
_TIME = re.compile(r"\s(?P<seconds>\d+\.\d+) \(\s*[\d.]+%\)  (?P<name>\S.*)$")


class MachinePass(Struct, frozen=True):
    """The machine code after a pass of LLVM's code generator.

    Args:
        index: position among the printed passes, from 0.
        name: as LLVM calls it, e.g. `Greedy Register Allocator`.
        cli: its name on the command line, e.g. `greedy`.
        instructions: instructions of the machine code, those without code included.
        pressure: most virtual VGPRs and AGPRs that are live at once, in registers of 32 bits; None
            before phi nodes are gone and after registers are physical.
        vgprs, agprs: highest physical register that is named, plus one; 0 for none.
        spill_stores, spill_reloads: accesses of stack slots, spilled scalars excluded.
        changed: whether it changed what the pass before left; None for the first.
    """

    index: int
    name: str
    cli: str
    function: str
    instructions: int
    pressure: int | None
    vgprs: int
    agprs: int
    spill_stores: int
    spill_reloads: int
    changed: bool | None


class PassTime(Struct, frozen=True):
    """The time of a pass: all its runs together.

    Args:
        level: `mlir` or `llvm`.
        name: the pass's class in MLIR, its name in LLVM.
        share: of the time of all passes of its report.
    """

    level: str
    name: str
    seconds: float
    share: float


class _Instruction(Struct, frozen=True):
    """Lanes of virtual vector registers that an instruction writes and reads: number -> mask."""

    writes: Mapping[int, int]
    reads: Mapping[int, int]


class _Block(Struct):
    """A basic block of machine code; `live_in` holds masks of live lanes by register."""

    successors: tuple[int, ...]
    instructions: list[_Instruction]
    live_in: dict[int, int]


def machine_passes(stderr: str) -> tuple[MachinePass, ...]:
    """Reads the machine code after each pass from what a compile wrote to stderr."""
    passes: list[MachinePass] = []
    previous: dict[str, list[str]] = {}
    figures: dict[str, MachinePass] = {}
    for name, cli, function, properties, lines in _dumps(stderr):
        code = [line for line in map(_without_index, lines) if line]
        before = previous.get(function)
        changed = None if before is None else code != before
        previous[function] = code
        if changed is False and figures[function].pressure is not None:
            last = figures[function]
            item = MachinePass(
                len(passes), name, cli, function, last.instructions, last.pressure, last.vgprs,
                last.agprs, last.spill_stores, last.spill_reloads, changed,
            )  # fmt: skip
        else:
            item = _figures(len(passes), (name, cli, function), properties, code, changed)
        figures[function] = item
        passes.append(item)
    return tuple(passes)


def pass_times(stderr: str) -> tuple[PassTime, ...]:
    """Reads the time of each pass from what a compile with `TIMING` wrote, the longest first."""
    seconds: dict[tuple[str, str], float] = {}
    level = ""
    for line in stderr.splitlines():
        if "Execution time report" in line:
            level = "mlir"
        elif "ass execution timing report" in line:
            level = "llvm"
        elif line.startswith("===") or "Total Execution Time" in line:
            continue
        elif level == "mlir":
            match = re.match(r"\s+(?P<seconds>\d+\.\d+) \(\s*[\d.]+%\)\s+(?P<name>\S.*)$", line)
            _add(seconds, level, match)
        elif level:
            _add(seconds, level, _TIME.search(line))
    wholes = {
        kind: sum(s for (of, _), s in seconds.items() if of == kind) for kind in ("mlir", "llvm")
    }
    times = [
        PassTime(kind, name, round(value, 6), value / wholes[kind] if wholes[kind] else 0.0)
        for (kind, name), value in seconds.items()
    ]
    return tuple(sorted(times, key=lambda time: -time.seconds))


def _add(seconds: dict[tuple[str, str], float], level: str, match: re.Match[str] | None) -> None:
    if match is None:
        return
    name = re.sub(r" #\d+$", "", match["name"].strip())
    # A pipeline's time is that of its passes.
    if name not in ("Total", "Rest", "root") and not name.endswith(" Pipeline"):
        key = level, name
        seconds[key] = seconds.get(key, 0.0) + float(match["seconds"])


def _dumps(stderr: str) -> Iterator[tuple[str, str, str, str, list[str]]]:
    """Yields name, name on the command line, function, properties and lines of each dump."""
    header: re.Match[str] | None = None
    function: re.Match[str] | None = None
    lines: list[str] = []
    for line in stderr.splitlines():
        if line.startswith("# *** IR Dump After "):
            header, function = _HEADER.match(line), None
        elif line.startswith("# Machine code for function "):
            function, lines = _FUNCTION.match(line), []
        elif line.startswith("# End machine code for function "):
            if header is not None and function is not None:
                yield header["name"], header["cli"], function["name"], function["properties"], lines
            function = None
        elif function is not None:
            lines.append(line)


def _without_index(line: str) -> str:
    return re.sub(r"^\d+B", "", line).strip()


def _figures(
    index: int,
    names: tuple[str, str, str],
    properties: str,
    code: Sequence[str],
    changed: bool | None,
) -> MachinePass:
    start = next((i for i, line in enumerate(code) if _BLOCK.match(line)), 0)
    body = [
        line
        for line in code[start:]
        if not line.startswith(("successors:", "liveins:", "; predecessors"))
        and not _BLOCK.match(line)
    ]
    stack = [line for line in body if "%stack." in line and "SI_SPILL_S" not in line]
    highest = {"v": 0, "a": 0}
    for line in body:
        for named in _PHYSICAL.finditer(line):
            for kind, number in _NUMBER.findall(named[0]):
                highest[kind] = max(highest[kind], int(number) + 1)
    flags = {word.strip() for word in properties.split(",")}
    virtual = "NoPHIs" in flags and "NoVRegs" not in flags
    return MachinePass(
        index,
        *names,
        instructions=len(body),
        pressure=_pressure(code[start:]) if virtual else None,
        vgprs=highest["v"],
        agprs=highest["a"],
        spill_stores=sum("into %stack." in line for line in stack),
        spill_reloads=sum("from %stack." in line for line in stack),
        changed=changed,
    )


def _pressure(code: Sequence[str]) -> int:
    """Returns the most lanes of virtual vector registers that are live at once."""
    blocks = _blocks(code)
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks.values()):
            live, _ = _walked(block, blocks)
            if live != block.live_in:
                block.live_in, changed = live, True
    return max((_walked(block, blocks)[1] for block in blocks.values()), default=0)


def _walked(block: _Block, blocks: Mapping[int, _Block]) -> tuple[dict[int, int], int]:
    """Walks a block backward: the lanes live at its begin, and the most at once."""
    live: dict[int, int] = {}
    for number in block.successors:
        for register, mask in blocks[number].live_in.items() if number in blocks else ():
            live[register] = live.get(register, 0) | mask
    count = sum(mask.bit_count() for mask in live.values())
    peak = count
    for instruction in reversed(block.instructions):
        for register, mask in instruction.writes.items():
            left = live.get(register, 0) & ~mask
            count += left.bit_count() - live.get(register, 0).bit_count()
            if left:
                live[register] = left
            else:
                live.pop(register, None)
        for register, mask in instruction.reads.items():
            both = live.get(register, 0) | mask
            count += both.bit_count() - live.get(register, 0).bit_count()
            live[register] = both
        peak = max(peak, count)
    return live, peak


def _blocks(code: Sequence[str]) -> dict[int, _Block]:
    blocks: dict[int, _Block] = {}
    block: _Block | None = None
    for line in code:
        match = _BLOCK.match(line)
        if match is not None:
            block = blocks[int(match["number"])] = _Block((), [], {})
        elif block is not None and line.startswith("successors:"):
            # The same blocks follow a semicolon once more, with probabilities in percent.
            numbers = _SUCCESSOR.findall(line.partition(";")[0])
            block.successors = tuple(map(int, numbers))
        elif block is not None and "%" in line and not line.startswith("DBG_"):
            block.instructions.append(_instruction(line))
    return blocks


def _instruction(line: str) -> _Instruction:
    left, equals, right = line.partition(" = ")
    writes: dict[int, int] = {}
    reads: dict[int, int] = {}
    for match in _REGISTER.finditer(left if equals else ""):
        writes[int(match["number"])] = writes.get(int(match["number"]), 0) | _mask(match)
    for match in _REGISTER.finditer(right if equals else line):
        if match["undef"] is None:
            reads[int(match["number"])] = reads.get(int(match["number"]), 0) | _mask(match)
    return _Instruction(writes, reads)


def _mask(match: re.Match[str]) -> int:
    """Returns the lanes of 32 bits that an operand names."""
    if match["lanes"] is not None:
        numbers = _LANE.findall(match["lanes"])
        return sum(1 << int(number) for number in set(numbers)) or 1
    bits = _BITS.search(match["type"])
    lanes = max(1, int(bits[1]) // 32) if bits is not None else 1
    return (1 << lanes) - 1
