"""The real program in a real terminal: from start to quit, and every other way out."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kinspect.inspector.base.version import VERSION
from tui_terminal import SECONDS, Terminal, kinspect

pytestmark = [
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
    pytest.mark.timeout(300),
]

DATA = Path(__file__).parent.parent / "data" / "isa"
FILES = (
    str(DATA / "attend.triton39.gfx90a.amdgcn"),
    str(DATA / "attend.triton39.gfx950.amdgcn"),
)
Start = Callable[..., Terminal]

FAULTY = """
import sys, time, types
from kinspect.tui.pages import Page
from kinspect.tui.screens.dialogue import Dialogue
from textual.binding import Binding
from textual.widgets import Static

class Unfinished(Dialogue):
    def compose(self):
        yield Static("work in progress")
    def unfinished(self):
        return "work is in progress"

class Faulty(Page):
    @classmethod
    def of_file(cls, path):
        return cls()
    NAME = "{name}"
    BINDINGS = [
        Binding("x", "fail", "Fail"), Binding("b", "hang", "Hang"), Binding("w", "work", "Work"),
        Binding("m", "message", "Message"), Binding("t", "thread", "Thread"),
        Binding("u", "begin", "Begin"),
    ]
    def compose(self):
        yield Static("a page that fails")
    def action_fail(self):
        raise ValueError("on purpose")
    def action_begin(self):
        self.app.push_screen(Unfinished())
    def action_message(self):
        self.call_later(self.message)
    def message(self):
        raise ValueError("in a message")
    def action_thread(self):
        self.run_worker(self.thread, thread=True)
    def thread(self):
        raise ValueError("in a thread")
    def action_hang(self):
        self.query_one(Static).update("hanging")
        self.call_after_refresh(self.hang)
    def hang(self):
        while True:
            time.sleep(0.01)
    def action_work(self):
        self.run_worker(self.work, thread=True)
        self.query_one(Static).update("at work")
    def work(self):
        time.sleep(600)

module = types.ModuleType("kinspect.tui.screens.{name}.{name}_page")
module.{cls} = Faulty
sys.modules[module.__name__] = module
from kinspect.inspector.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a program in a terminal; `start("tui", "file.s")` is kinspect."""
    opened: list[Terminal] = []
    own = {
        "KINSPECT_STATE_DIR": str(tmp_path / "state"),
        "KINSPECT_DATA_DIR": str(tmp_path / "data"),
        "KINSPECT_CACHE_DIR": str(tmp_path / "cache"),
    }

    def begin(
        *arguments: str, faulty: str | None = None, cls: str = "HistoryPage", **environment: str
    ) -> Terminal:
        command = kinspect(*arguments)
        if faulty is not None:
            program = tmp_path / "faulty.py"
            program.write_text(FAULTY.format(name=faulty, cls=cls))
            command = [sys.executable, str(program), *arguments]
        folder = tmp_path / f"terminal{len(opened)}"
        folder.mkdir()
        opened.append(Terminal(folder, command, environment={**own, **environment}))
        return opened[-1]

    yield begin
    for terminal in opened:
        terminal.close()


def heading(name: str) -> Callable[[str], bool]:
    """Whether a screen is that of a page."""
    return lambda screen: screen.startswith(f" {name} ")


def filled(screen: str) -> bool:
    """Whether both kernels are in the table."""
    return all(f" {arch} " in screen for arch in ("gfx90a", "gfx950"))


# --------------------------------------------------------------------------- a walk


def test_from_start_to_quit(start: Start) -> None:
    terminal = start("tui", *FILES)
    screen = terminal.wait(filled)
    assert heading("Kernels")(screen)

    terminal.press("G", "Enter")
    terminal.wait(heading("Kernel"))
    terminal.press("q")
    terminal.wait(heading("Kernels"))

    terminal.press("F1")
    terminal.wait("On the page Kernels")
    terminal.press("G")
    terminal.wait("All commands")
    terminal.press("q")
    terminal.wait(lambda text: "All commands" not in text)

    terminal.press("q")
    screen = terminal.ended(0)
    assert "Kernels" not in screen


def test_one_text_is_shown_at_once(start: Start) -> None:
    """A saved text is open before anything is known of it; the table lies under it."""
    terminal = start("tui", FILES[0])
    terminal.wait(lambda text: heading("Kernel")(text) and "s_waitcnt" in text)
    terminal.press("q")
    terminal.wait(lambda text: heading("Kernels")(text) and "gfx90a" in text)
    terminal.press("C-q")
    terminal.ended(0)


def test_resize_to_next_to_nothing_and_back(start: Start) -> None:
    terminal = start("tui", *FILES)
    terminal.wait(filled)
    terminal.tmux("resize-window", "-x", "20", "-y", "5")
    terminal.wait(lambda text: len(text.splitlines()) == 5 and "Kernels" in text)
    terminal.press("j", "k")
    terminal.tmux("resize-window", "-x", "120", "-y", "40")
    terminal.wait(lambda text: len(text.splitlines()) == 40 and filled(text))
    terminal.press("q")
    terminal.ended(0)


# --------------------------------------------------------------------------- other ways out


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 0), (signal.SIGQUIT, 131)],
    ids=lambda value: value.name if isinstance(value, signal.Signals) else "",
)
def test_a_signal_ends_it_well(start: Start, number: signal.Signals, status: int) -> None:
    terminal = start("tui", "--page", "profile")
    terminal.wait("Nothing was measured")
    os.kill(terminal.pid(), number)
    terminal.ended(status)


def test_ctrl_c_quits_and_what_was_set_is_kept(start: Start, tmp_path: Path) -> None:
    terminal = start("tui", "--page", "profile")
    terminal.wait("Nothing was measured")
    terminal.press("F2")
    # A signal overtakes keys: the light theme must be there first.
    terminal.wait(lambda screen: (255, 255, 255) in colours_of(screen), colours=True)
    terminal.press("C-c")
    terminal.ended(0)
    assert '"theme": "kinspect-light"' in (tmp_path / "state" / "tui.json").read_text()


def test_ctrl_c_asks_before_work_is_lost_and_twice_leaves(start: Start) -> None:
    terminal = start("tui", faulty="history")
    terminal.wait("a page that fails")
    terminal.press("u")
    terminal.wait("work in progress")
    terminal.press("C-c")
    terminal.wait("work is in progress")
    time.sleep(4.5)  # the process would be ended by then if the signal were not dealt with
    terminal.wait("leave without it")
    terminal.press("C-c")
    terminal.ended(0)


def test_ctrl_c_twice_ends_a_page_that_hangs(start: Start) -> None:
    terminal = start("tui", faulty="history")
    terminal.wait("a page that fails")
    terminal.press("b")
    terminal.wait("hanging")
    terminal.press("C-c")
    terminal.press("C-c")
    terminal.ended(130)


def test_a_page_that_hangs_does_not_survive_sigterm(start: Start) -> None:
    """It is asked once, and then made to."""
    terminal = start("tui", faulty="history")
    terminal.wait("a page that fails")
    terminal.press("b")
    terminal.wait("hanging")
    os.kill(terminal.pid(), signal.SIGTERM)
    terminal.ended(143)


def test_a_thread_at_work_does_not_hold_up_the_end(start: Start) -> None:
    terminal = start("tui", faulty="history")
    terminal.wait("a page that fails")
    terminal.press("w")
    terminal.wait("at work")
    began = time.monotonic()
    terminal.press("q")
    terminal.ended(0)
    assert time.monotonic() - began < SECONDS


def test_a_fault_of_a_key_is_a_message(start: Start) -> None:
    terminal = start("tui", faulty="history")
    terminal.wait("a page that fails")
    terminal.press("x")
    screen = terminal.wait("internal error: ValueError: on purpose")
    assert "Traceback" not in screen
    assert "a page that fails" in screen
    terminal.press("q")
    terminal.ended(0)


def test_a_fault_in_a_page_closes_the_page(start: Start) -> None:
    terminal = start("tui", "--page", "profile", faulty="history")
    terminal.wait("Nothing was measured")
    terminal.press("7")
    terminal.wait("a page that fails")
    terminal.press("m")
    screen = terminal.wait("internal error: ValueError: in a message")
    assert heading("Profile")(screen)
    assert "Traceback" not in screen
    terminal.press("7")  # it can be opened again
    terminal.wait("a page that fails")
    terminal.press("q")
    terminal.wait(heading("Profile"))
    terminal.press("q")
    terminal.ended(0)


def test_a_fault_in_the_first_page_is_one_line(start: Start) -> None:
    terminal = start("tui", faulty="history")
    terminal.wait("a page that fails")
    terminal.press("m")
    screen = terminal.ended(2)
    assert "kinspect: error: internal error: ValueError: in a message; please report" in screen
    assert "Traceback" not in screen


def test_under_a_text_that_fails_lies_the_table(start: Start) -> None:
    terminal = start("tui", FILES[0], faulty="kernel", cls="KernelPage")
    terminal.wait("a page that fails")
    terminal.press("m")
    screen = terminal.wait("internal error: ValueError: in a message")
    assert heading("Kernels")(screen)
    terminal.wait(" gfx90a ")
    terminal.press("q")
    terminal.ended(0)


def test_a_text_page_that_cannot_be_made_leaves_the_table(start: Start) -> None:
    terminal = start("tui", FILES[0], faulty="kernel", cls="Nothing")
    terminal.wait(lambda screen: heading("Kernels")(screen) and "ImportError" in screen)
    terminal.press("q")
    terminal.ended(0)


def test_a_fault_in_a_thread_is_a_message(start: Start) -> None:
    terminal = start("tui", faulty="history")
    terminal.wait("a page that fails")
    terminal.press("t")
    terminal.wait("internal error: ValueError: in a thread")
    terminal.press("q")
    terminal.ended(0)


def test_a_page_that_cannot_be_imported_is_a_message(start: Start) -> None:
    terminal = start("tui", "--page", "profile", faulty="history", cls="Nothing")
    terminal.wait("Nothing was measured")
    terminal.press("7")
    terminal.wait("internal error: AttributeError")
    terminal.press("q")
    terminal.ended(0)


def test_a_killed_run_is_an_error_of_the_run(start: Start, tmp_path: Path) -> None:
    """The process that analyses is killed, its compilers with it: the rest goes on."""
    script = tmp_path / "sleeps.py"
    script.write_text("import time, triton\nprint('begun')\ntime.sleep(300)\n")
    terminal = start("tui", str(script))
    terminal.wait(heading("Kernels"))
    children = Path(f"/proc/{terminal.pid()}/task")

    def run_of() -> list[int]:
        found = [int(pid) for one in children.glob("*/children") for pid in one.read_text().split()]
        return [
            pid for pid in found if b"child_process" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]

    terminal.wait(lambda screen: bool(run_of()))
    for pid in run_of():
        os.kill(pid, signal.SIGKILL)
    terminal.wait("1 failed")
    terminal.press("q")
    terminal.ended(0)


# --------------------------------------------------------------------------- colours


GREYS = {(v, v, v) for v in range(256)}


def colours_of(screen: str) -> set[tuple[int, int, int]]:
    """The colours that a captured screen asks for, as red, green and blue."""
    found = set()
    for sequence in re.findall(r"\x1b\[([\d;]*)m", screen):
        codes = [int(code or 0) for code in sequence.split(";")]
        while codes:
            code = codes.pop(0)
            if code in (38, 48) and codes and codes[0] == 2:
                found.add((codes[1], codes[2], codes[3]))
                codes = codes[4:]
            elif code in (38, 48) and codes and codes[0] == 5:
                found.add(_of_256(codes[1]))
                codes = codes[2:]
            elif 30 <= code <= 37 or 40 <= code <= 47 or 90 <= code <= 107:
                found.add(_of_256(code % 10 + (8 if code >= 90 else 0)))
    return found


def _of_256(number: int) -> tuple[int, int, int]:
    if number < 16:
        bright = 255 if number >= 8 else 128
        return tuple(bright if number >> bit & 1 else 0 for bit in range(3))  # type: ignore[return-value]
    if number >= 232:
        return (8 + 10 * (number - 232),) * 3
    cube = number - 16
    return tuple(0 if not v else 55 + 40 * v for v in (cube // 36, cube // 6 % 6, cube % 6))  # type: ignore[return-value]


@pytest.mark.parametrize("colorterm", ["truecolor", pytest.param("", marks=pytest.mark.slow)])
def test_no_color_leaves_greys_alone(start: Start, colorterm: str) -> None:
    plain = start("tui", *FILES, NO_COLOR="1", COLORTERM=colorterm)
    coloured = start("tui", *FILES, NO_COLOR="", COLORTERM=colorterm)
    for terminal in (plain, coloured):
        terminal.wait(filled)
    assert colours_of(plain.screen(colours=True)) <= GREYS
    # Set to nothing is not set: https://no-color.org
    assert not colours_of(coloured.screen(colours=True)) <= GREYS
    for terminal in (plain, coloured):
        terminal.press("q")
        terminal.ended(0)


def test_a_terminal_that_cannot_is_told_so(start: Start) -> None:
    terminal = start("tui", "--page", "profile", TERM="dumb")
    assert "cannot place text on the screen" in terminal.ended(2)


def test_the_plain_command_line_still_works_there(start: Start) -> None:
    assert VERSION in start("--version").ended(0)
