"""How fast the terminal UI is: `python -m benchmarks.tui [--runs N] [--quick]`.

The real program runs in a pty of 120 × 40 and is measured from outside: from the start of its
process, or from a key that is typed, to the bytes that show the answer. Big inputs are made of
kernels in tests/data: copies under new names.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from kinspect.inspector.model import KernelReport
from kinspect.inspector.pipeline import collecting as pipeline
from kinspect.inspector.pipeline.jobs import Request
from kinspect.inspector.report import json_write as json_v1
from msgspec import Struct
from msgspec.structs import replace

from .tui_terminal import Terminal

ROOT = Path(__file__).parent.parent
ISA = ROOT / "tests" / "data" / "isa"
KERNEL = ISA / "attend.triton39.gfx950.amdgcn"
SMALL = ("calls.triton39.gfx942.amdgcn", "handwritten.gfx90a.s", "../small_gfx942.s")
LINES = 100_000
KERNELS = 2_000
SIZE = (120, 40)
CODE = rb"\b[sv]_[a-z]\w+ [sv]\d|\b(?:buffer|global)_(?:load|store)_\w+"
"""What tells that instructions are shown."""
_CLICK = b"\x1b[<0;90;15M\x1b[<0;90;15m"
KEYS = (b"j", b"j", b"k", b"\x04", b"j", b"\x15", b"G", b"k", b"g", b"j")
"""Keys of the kernel's page: down, up, pages, ends."""


class Aim(Struct, frozen=True):
    """A figure with what it must not exceed."""

    name: str
    unit: str
    most: float
    of: str  # "median" or "p95": what the aim is about


FIRST_PAINT = Aim("first paint after process start", "s", 0.5, "median")
BIG_TEXT = Aim(f"{LINES:,} lines: text shown after process start", "s", 1.0, "median")
BUSY_KEY = Aim("key press to repaint, while it is analysed", "ms", 50, "p95")
IDLE_KEY = Aim("key press to repaint, after that", "ms", 50, "p95")
IDLE = Aim("CPU while nothing happens", "%", 0.5, "median")
FILTER = Aim(f"filter of {KERNELS:,} kernels, key to rows", "ms", 100, "p95")
MEMORY = Aim("peak memory of the UI's process", "MB", 200, "median")


def main() -> None:
    """Runs all and prints it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9, metavar="N", help="starts of each kind")
    parser.add_argument("--quick", action="store_true", help="fewer starts and keys")
    options = parser.parse_args()
    runs = min(3, options.runs) if options.quick else options.runs
    print(
        f"terminal UI in a pty of {SIZE[0]} × {SIZE[1]}, {os.cpu_count()} CPUs, load "
        f"{os.getloadavg()[0]:.1f}\n"
    )
    print(f"{'':<52}{'median':>9}{'p95':>9}{'aim':>9}")
    with tempfile.TemporaryDirectory() as name:
        bench = TuiBench(Path(name), runs)
        bench.first_paint()
        bench.big_text()
        bench.keys(40 if options.quick else 200)
        bench.idle(10 if options.quick else 60)
        bench.filter(3 if options.quick else 8)


class TuiBench:
    """The measurements.

    Args:
        folder: for inputs, settings and history.
        runs: how often the program is started for figures of its start.
    """

    def __init__(self, folder: Path, runs: int) -> None:
        self._folder = folder
        self._runs = runs
        self._big = folder / "big.amdgcn"
        self._big.write_text(big_text(LINES))

    def start(self, *arguments: str) -> Terminal:
        """Starts `kinspect tui`."""
        own = {name: str(self._folder / name) for name in ("STATE", "DATA", "CACHE")}
        environment = {f"KINSPECT_{name}_DIR": path for name, path in own.items()}
        command = [sys.executable, "-m", "kinspect.inspector.cli", "tui", *arguments]
        return Terminal(command, SIZE, environment)

    def first_paint(self) -> None:
        """The first page, and the first page that is a text."""
        self._tell_starts(FIRST_PAINT, [str(KERNEL), str(ISA / SMALL[0])], rb"Kernels")
        text = replace(FIRST_PAINT, name="a kernel's text after process start")
        self._tell_starts(text, [str(KERNEL)], CODE)

    def big_text(self) -> None:
        """A text of 100,000 lines is there before anything is known of it."""
        self._tell_starts(BIG_TEXT, [str(self._big)], CODE)

    def _tell_starts(self, aim: Aim, arguments: Sequence[str], pattern: bytes) -> None:
        starts = self._starts(arguments, pattern)
        cpu = statistics.median(cpu for _, cpu in starts)
        tell(aim, [seconds for seconds, _ in starts], f"{cpu:.2f} s of CPU")

    def _starts(self, arguments: Sequence[str], pattern: bytes) -> list[tuple[float, float]]:
        self._once(arguments, pattern)  # files are in the cache then
        return [self._once(arguments, pattern) for _ in range(self._runs)]

    def _once(self, arguments: Sequence[str], pattern: bytes) -> tuple[float, float]:
        terminal = self.start(*arguments)
        seconds, cpu = terminal.until(pattern) - terminal.began, terminal.cpu()
        terminal.close()
        return seconds, cpu

    def keys(self, count: int) -> None:
        """Keys in the text of 100,000 lines: while it is analysed, and then."""
        busy: list[float] = []
        terminal = self.start(str(self._big))
        terminal.until(CODE)
        terminal.press(_CLICK)  # on the assembly
        terminal.settle(0.2)
        while terminal.busy(0.3):
            busy += [press(terminal, key) for key in KEYS]
        terminal.press(b"g")
        terminal.settle(0.2)
        idle = [press(terminal, KEYS[n % len(KEYS)]) for n in range(count)]
        terminal.close()
        tell(BUSY_KEY, [1e3 * seconds for seconds in busy], f"{len(busy)} keys")
        tell(IDLE_KEY, [1e3 * seconds for seconds in idle], f"{len(idle)} keys")
        tell(MEMORY, [terminal.peak / 1e6], f"all processes {terminal.peak_of_all / 1e6:.0f} MB")

    def idle(self, seconds: float) -> None:
        """The table of kernels, left alone once all have come."""
        terminal = self.start(str(KERNEL), str(ISA / SMALL[0]))
        terminal.until(rb"2 kernels", 300)
        terminal.settle(1.0)
        before, end = terminal.cpu(), time.perf_counter() + seconds
        while time.perf_counter() < end:
            terminal.settle(1.0, most=1.0)
        used = terminal.cpu() - before
        terminal.close()
        tell(IDLE, [100 * used / seconds], f"{seconds:.0f} s")

    def filter(self, rounds: int) -> None:
        """Words typed and taken back in the filter of 2,000 kernels; the report was saved."""
        files = many(self._folder, KERNELS)
        terminal = self.start(*map(str, files))
        terminal.until(f"{KERNELS:,} kernels".encode(), 300)
        while terminal.busy(0.3):
            pass
        seen = []
        for _ in range(rounds):
            terminal.press(b"/")
            terminal.settle(0.2)
            for typed in ("1", "7", "3"):
                at = terminal.press(typed.encode())
                seen.append(terminal.until(rf"\d+ of {KERNELS:,}".encode()) - at)
                terminal.settle(0.1)
            for left in (rb"\d+ of", rb"\d+ of", rb"kernels"):
                at = terminal.press(b"\x7f")
                seen.append(terminal.until(left) - at)
                terminal.settle(0.1)
            # Escape would do the last at once, but a terminal's lone ESC is waited for: Textual's
            # driver looks every 100 ms whether it was the beginning of another key.
            terminal.press(b"\x1b")
            terminal.settle(0.3)
        terminal.close()
        tell(FILTER, [1e3 * seconds for seconds in seen], f"{len(seen)} changes")
        whole = f"all processes {terminal.peak_of_all / 1e6:.0f} MB"
        of = f"{MEMORY.name}, {KERNELS:,} kernels"
        tell(replace(MEMORY, name=of), [terminal.peak / 1e6], whole)


def press(terminal: Terminal, key: bytes) -> float:
    """Seconds from a key to what it changes on the screen."""
    at = terminal.press(key)
    seconds = terminal.answered() - at
    terminal.settle(0.02)
    return seconds


def tell(aim: Aim, values: Sequence[float], about: str = "") -> None:
    """Prints a line: the figure and its aim."""
    median = statistics.median(values)
    p95 = sorted(values)[min(len(values) - 1, round(0.95 * (len(values) - 1)))]
    held = (median if aim.of == "median" else p95) <= aim.most
    digits = 2 if aim.unit == "s" else 1
    print(
        f"{aim.name:<52}{median:>9.{digits}f}{p95:>9.{digits}f}{aim.most:>9g} {aim.unit:<3}"
        f"{'' if held else f' {aim.of} over the aim'}{f'  ({about})' if about else ''}",
        flush=True,
    )


def big_text(lines: int) -> str:
    """One file of so many lines: a kernel's text again and again, under new names."""
    text = KERNEL.read_text()
    parts: list[str] = []
    count = 0
    while count < lines:
        copy = re.sub(r"\.L([A-Za-z_]+)(\d)", rf".L{len(parts)}x\1\2", text)
        copy = re.sub(r"\battend\b", f"attend_{len(parts)}", copy)
        if parts:
            copy = re.sub(r"\.amdgcn_target.*\n", "", copy)
        parts.append(copy)
        count += copy.count("\n")
    return "".join(parts)


def many(folder: Path, count: int, files: int = 4) -> list[Path]:
    """Saved reports of so many kernels together, each of its own name."""
    report = pipeline.collect(Request(tuple(str(ISA / name) for name in SMALL)))
    found = []
    for part in range(files):
        numbers = range(part * count // files, (part + 1) * count // files)
        kernels = tuple(_copy(report.kernels[n % len(report.kernels)], n) for n in numbers)
        path = folder / f"part{part}.json"
        with path.open("w", encoding="utf-8") as stream:
            json_v1.write(replace(report, kernels=kernels), stream)
        found.append(path)
    return found


def _copy(kernel: KernelReport, number: int) -> KernelReport:
    name = f"{kernel.name}_{number:04}"
    return replace(kernel, id=kernel.id.replace(f"::{kernel.name}", f"::{name}"), name=name)


if __name__ == "__main__":
    main()
