"""The line that says what is being done: on a terminal, until something else is written there."""

from __future__ import annotations

import ctypes
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.emulator import lockstep
from kinspect.inspector.guest.emulation.process import EmulatorProcess, LaunchBuffer
from kinspect.inspector.guest.emulation.script import WaitLine
from kinspect.inspector.pipeline import emulation_tally
from kinspect.inspector.pipeline.emulation_tally import LaunchProgress

KINSPECT = str(Path(sys.executable).with_name("kinspect"))
EVIL = "\x1b]0;owned\x07"
CLEARED = "\r\x1b[K"
STEPS = """
import sys, time
from kinspect.inspector.base.status import counted, doing, terminal_given_away
from kinspect.inspector.base.streams import standard_streams
with standard_streams(has_status=True):
"""


class Terminal:
    """A pseudo terminal of 40 columns; what was written to it, in order."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.text = ""

    def read(self, process: subprocess.Popen[bytes]) -> str:
        """Reads until the process has ended."""
        while True:
            ready, _, _ = select.select([self._descriptor], [], [], 0.05)
            if ready:
                try:
                    self.text += os.read(self._descriptor, 65536).decode()
                except OSError:  # its other end is closed
                    break
            elif process.poll() is not None:
                break
        process.wait()
        return self.text


@contextmanager
def on_terminal(words: Sequence[str], folder: Path, **variables: str) -> Iterator[Terminal]:
    """Starts a command whose standard error is a terminal, for the block."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, 40, 0, 0))
    environment = {**os.environ, "TERM": "xterm", **variables}
    process = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, cwd=folder, env=environment
    )
    os.close(theirs)
    terminal = Terminal(ours)
    try:
        terminal.read(process)
        yield terminal
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def shown(folder: Path, *steps: str) -> str:
    """What a terminal gets of these statements."""
    code = STEPS + "".join(f"    {step}\n" for step in steps)
    with on_terminal([sys.executable, "-c", code], folder) as terminal:
        return terminal.text


def test_it_stands_until_something_is_written(tmp_path: Path) -> None:
    text = shown(
        tmp_path,
        f"doing('running ' + {EVIL!r})",
        "time.sleep(1.6)",
        "counted('compiled 1 of 2')",
        "doing('compiling k' + 40 * 'k')",
        "time.sleep(0.6)",
        "print('the result')",
    )
    first, *others = text.split(CLEARED)
    assert first == ""
    assert others[0] == "  1 s  running \\u001b]0;owned\\u0007"
    assert "\x1b]" not in text
    assert "  2 s  compiled 1 of 2; compiling kkkkk" in others  # the terminal's 40 columns, but one
    # Removed before the text, and not drawn again.
    assert text.endswith(f"{CLEARED}the result\r\n")


def test_what_ends_soon_shows_none(tmp_path: Path) -> None:
    assert shown(tmp_path, "doing('reading')", "time.sleep(0.6)", "print('done')") == "done\r\n"


def test_a_line_that_was_begun_stays(tmp_path: Path) -> None:
    text = shown(tmp_path, "print('begun', end='', flush=True)", "time.sleep(1.8)", "print('.')")
    assert text == "begun.\r\n"


def test_another_program_has_the_terminal(tmp_path: Path) -> None:
    text = shown(tmp_path, "with terminal_given_away():", "    time.sleep(1.8)")
    assert text == ""
    words = [KINSPECT, "record", "--", "sh", "-c", "sleep 2.5; printf done"]
    with on_terminal(words, tmp_path) as terminal:
        before, _, after = terminal.text.partition("done")
    assert before == "" or before.endswith(CLEARED)  # nothing is drawn while it runs
    assert before.count(CLEARED) <= 2
    assert "nothing was recorded" in after


def test_without_a_terminal_there_is_none(tmp_path: Path) -> None:
    code = STEPS + "    doing('reading')\n    time.sleep(1.6)\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")


KERNEL = """
import torch, triton
import triton.language as tl

@triton.jit
def copy(x, out, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(x + offsets))

x = torch.ones(256, device="cuda")
out = torch.empty_like(x)
copy[(4,)](x, out, BLOCK=64)
assert (out == x).all()
print("ms", triton.testing.do_bench(lambda: copy[(4,)](x, out, BLOCK=64)))
"""


def test_commands_that_compile_say_so(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    # A compile shorter than a tick of the line would not be seen.
    long = KERNEL.replace("    tl.store(", "    for _ in tl.static_range(60):\n        tl.store(")
    (tmp_path / "k.py").write_text(long)
    fresh = {"KINSPECT_CACHE_DIR": str(tmp_path / "c"), "TRITON_CACHE_DIR": str(tmp_path / "t")}
    with on_terminal([KINSPECT, "passes", "k.py"], tmp_path, **fresh) as terminal:
        assert "  running k.py" in terminal.text
        assert "  compiling copy for gfx942" in terminal.text
    with on_terminal([KINSPECT, "emulate", "k.py"], tmp_path, **fresh) as terminal:
        assert "  importing PyTorch and Triton\x1b8" in terminal.text
        assert "  compiling copy\x1b8" in terminal.text
        last = "kinspect's estimates: kinspect time k.py\r\n"
        assert terminal.text.endswith(f"not measured: no GPU ran; {last}")


def test_the_line_below_leaves_the_cursor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an emulated script, which may have begun a line."""
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = pty.openpty()
    line = WaitLine(theirs)
    with line.showing("compiling k\x1b[2J"):
        pass
    line.say("a warning")
    text = ""
    while not text.endswith("\n"):
        text += os.read(ours, 10_000).decode()
    os.close(theirs)
    os.close(ours)
    below, back = "\x1b7\x1b[B\r\x1b[K", "\x1b8"
    assert text == f"\x1bD\x1bM{below}  compiling k[2J{back}{below}{back}a warning\r\n"
    with open(tmp_path / "log", "w") as log:
        line = WaitLine(log.fileno())
        with line.showing("compiling k"):
            line.say("a warning")
    assert (tmp_path / "log").read_text() == "a warning\n"


def test_what_is_left_is_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(emulation_tally.time, "monotonic", lambda: now[0])
    said: list[str] = []
    warned: list[str] = []
    progress = LaunchProgress("k", 4000, said.append, warned.append)
    for seconds, ended in ((0.5, 0), (1.0, 10), (4.0, 200), (30.0, 500)):
        now[0] = 100 + seconds
        progress(ended, 2000)
    assert said == [
        "emulating k: 4,000 workgroups",
        "emulating k: 0 % of 4,000 workgroups, 3 min left",  # too early for a warning
        "emulating k: 10 % of 4,000 workgroups, 36 s left",
        "emulating k: 25 % of 4,000 workgroups, 90 s left",
    ]
    assert warned == ["emulating k, 4,000 workgroups, takes about 2 min"]
    warned.clear()
    progress = LaunchProgress("k", 1, said.append, warned.append)
    for seconds in (59.0, 61.0, 62.0):
        now[0] = 130 + seconds
        progress(0, 1)
    assert warned == ["emulating k, 1 workgroup, takes more than a minute"]


IOTA = (Path(__file__).parent.parent / "docs" / "examples" / "iota.s").read_text()


def test_a_long_launch_names_a_smaller_one(
    tmp_path: Path, tool_in_process: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lockstep, "WATCH_SECONDS", 0.0)
    monkeypatch.setattr(emulation_tally, "LONG_SECONDS", 0.0)
    monkeypatch.setattr(emulation_tally, "_SETTLED_SECONDS", 0.0)
    (tmp_path / "k.s").write_text(IOTA)
    words = ("--block", "64", "--grid", "900", "--args", "i32[64]=zeros")
    done = tool_in_process("emulate", "k.s", *words, cwd=tmp_path)
    (line,) = (line for line in done.stderr.splitlines() if "emulating iota" in line)
    assert line.startswith("kinspect: emulating iota, 900 workgroups, takes ")
    smaller = "--block 64 --grid 900 --args 'i32[64]=zeros' --sample 8"
    assert line.endswith(f"; for faults and counts of 8 workgroups a launch, no results: "
                         f"kinspect emulate k.s {smaller}")  # fmt: skip
    sampled = tool_in_process("emulate", "k.s", *words, "--sample", "4", cwd=tmp_path)
    assert "takes " in sampled.stderr
    assert "--sample" not in sampled.stderr


TELLING = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "end" in message:
        break
    if message.get("watched"):
        print(json.dumps({"step": "half"}), flush=True)
    print(json.dumps({"written": [], "request": message["request"]}), flush=True)
"""


@pytest.mark.parametrize("is_watched", [True, False])
def test_a_launch_tells_how_far_it_is(tmp_path: Path, is_watched: bool) -> None:
    (tmp_path / "telling.py").write_text(TELLING)
    told: list[dict[str, str]] = []
    command = [sys.executable, str(tmp_path / "telling.py")]
    process = EmulatorProcess(command, on_message=told.append if is_watched else None)
    array = (ctypes.c_char * 64)()
    reply = process.launch({}, [LaunchBuffer(ctypes.addressof(array), 64, "x")])
    process.close()
    assert reply["written"] == []
    assert told == ([{"step": "half"}] if is_watched else [])
