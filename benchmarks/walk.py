"""Takes the pictures of the terminal UI: seven questions of a new user, each in a few keys.

    python -m benchmarks.walk

Compiles cases of kernels/flash_attn.py, opens them in the terminal UI, presses keys and writes what
the screen shows to docs/guides/terminal/*.svg and, of the README's walk, to tui/walk/*.svg.
tests/tui/test_seven_questions.py presses the same keys and looks for the answers.
"""

from __future__ import annotations

import asyncio
import re
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from kinspect.inspector.model import Report
from kinspect.inspector.pipeline import collecting as pipeline
from kinspect.inspector.pipeline.events import Reported
from kinspect.inspector.pipeline.jobs import Request
from kinspect.tui.app import KinspectApp
from kinspect.tui.application import Opening
from msgspec import Struct
from textual.pilot import Pilot

ROOT = Path(__file__).parent.parent
README_PICTURES = ROOT / "tui" / "walk"
PICTURES = ROOT / "docs" / "guides" / "terminal"
KERNEL = "d256_causal_*"
SIZE = (132, 38)
MOST_KEYS = 8
_TERMINAL_ID = re.compile(r"terminal-\d+")
_CLIP = re.compile(
    r' clip-path="url\(#k-line-\d+\)"|<clipPath id="k-line-\d+">.*?</clipPath>', re.S
)
_CRISP = ' shape-rendering="crispEdges"'
_RESTS = 3  # times in a row that nothing must be under way: a page begins work after it is drawn
_READER = "kinspect reading"  # the threads in which the kernel page reads its texts


class Question(Struct, frozen=True):
    """A question, and the keys that answer it from the table of kernels on.

    Attributes:
        picture: the name of the picture of the last screen.
        question: in the user's words.
        keys: as Textual names them.
        answers: regular expressions that the last screen has to match.
    """

    picture: str
    question: str
    keys: tuple[str, ...]
    answers: tuple[str, ...]


QUESTIONS = (
    Question(
        "1-spill",
        "Why is this kernel slow, and which line spills?",
        ("down", "enter"),
        (
            r"KI038 waves_per_eu=2 makes",
            r"( 64 [✗▲] +\d+|line 64) +return tl.load",
            r"reloads +scratch \d+",
        ),
    ),
    Question(
        "2-occupancy",
        "What limits its occupancy?",
        ("5",),
        (r"1 wave/SIMD = 1 workgroup/CU:", r"limited by LDS", r"32768 B of LDS fewer"),
    ),
    Question(
        "3-narrow",
        "Which accesses are narrow, and why?",
        ("down", "down", "enter", "s", "s", "t"),
        (r"16 bits a lane, 8 times as many would do", r"narrow +16 of 128 bits: the tile"),
    ),
    Question(
        "4-waits",
        "What does each wait wait for?",
        ("down", "enter", "S", "t"),
        (r"needed; 0 instructions", r"waits for +ISA \d+", r"1 of \d+: 0 instructions between"),
    ),
    Question(
        "5-passes",
        "What did the passes do to this operation?",
        ("down", "enter", "shift+tab", "p"),
        (r"▸ tritonamdgpu-convert-buffer-ops", r"buffer_load of line 64: made 2", r"▸.* \+ +%"),
    ),
    Question(
        "6-compare",
        "Which of two tile sizes is better, and by how much?",
        ("down", "m", "m", "c"),
        (r"BLOCK_M 128 → 64, BLOCK_N 64 → 32", r"(mixed|better|worse) ", r"per MMAC"),
    ),
    Question(
        "7-recompile",
        "What if it had eight waves?",
        ("down", "r", "8", "enter"),
        (r"num_warps 4 → 8", r"Compare +num_warps=4 → num_warps=8", r"(mixed|better|worse) "),
    ),
)

# Key, what it is pressed for, name of the README's picture taken after it.
STEPS = (
    (None, "the table: one row is red", "1-kernels"),
    ("down", "to its worst specialisation", None),
    ("enter", "the line that hurts: a spill, with its line of Python and TTGIR", "2-spill"),
    ("enter", "what it means and what to change", None),
    ("escape", "", None),
    ("5", "what limits occupancy, and what would give the next step", "3-occupancy"),
)


def request() -> Request:
    """The cases of attention with a head dimension of 256, which one tile size makes spill."""
    return Request(
        (str(ROOT / "kernels" / "flash_attn.py"),),
        ("gfx942",),
        kernel=KERNEL,
        python=sys.executable,
        jobs=2,
        passes=True,
    )


def opened_app(report: Report) -> KinspectApp:
    """The application as `kinspect tui` shows it once all kernels have come."""
    app = KinspectApp(Opening(None, "kernels", remember=False))
    for index, kernel in enumerate(report.kernels):
        app.session.take(Reported((index, 0), kernel))
    return app


async def press(pilot: Pilot[int], keys: Sequence[str]) -> None:
    """Presses keys, each after what the one before began has ended."""
    for key in keys:
        await pilot.press(key)
        await rest(pilot)


async def rest(pilot: Pilot[int]) -> None:
    """Waits until nothing is read, compiled or compared any more."""
    rests = 0
    while rests < _RESTS:
        await pilot.pause(0.1)  # longer than the pages' timers that begin such work
        busy = not all(worker.is_finished for worker in pilot.app.workers) or any(
            thread.name == _READER for thread in threading.enumerate()
        )
        rests = 0 if busy else rests + 1
    await pilot.pause()


async def answer(
    report: Report,
    question: Question,
    look: Callable[[KinspectApp], None],
    *sizes: tuple[int, int],
) -> None:
    """Presses the keys of a question and hands the application over as it then is.

    Args:
        report: the kernels.
        question: the question.
        look: called with the application, once for each size.
        sizes: of the terminal; keys are pressed in the first, and then it is resized.
    """
    app = opened_app(report)
    first, *others = sizes or (SIZE,)
    async with app.run_test(size=first) as pilot:
        await rest(pilot)
        await press(pilot, question.keys)
        look(app)
        for size in others:
            await pilot.resize_terminal(*size)
            await rest(pilot)
            look(app)


async def walk(report: Report) -> int:
    """Takes the README's pictures; returns how many keys that took."""
    app = opened_app(report)
    keys = 0
    async with app.run_test(size=SIZE) as pilot:
        for key, about, picture in STEPS:
            if key is not None:
                await pilot.press(key)
                keys += 1
            await rest(pilot)
            if picture is not None:
                write_picture(app, README_PICTURES / f"{picture}.svg")
            print(f"{key or '-':14} {about}")
    return keys


def write_picture(app: KinspectApp, path: Path) -> None:
    """Writes the screen as SVG, without what makes a third of the file and shows nothing."""
    picture = _CLIP.sub("", _TERMINAL_ID.sub("k", app.export_screenshot()))
    picture = picture.replace(_CRISP, "").replace(
        "<style>", "<style>rect { shape-rendering: crispEdges }"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(picture, "utf-8")


def main() -> None:
    """Writes the pictures."""
    report = pipeline.collect(request())
    keys = asyncio.run(walk(report))
    print(f"{keys} keys, {MOST_KEYS} at most")
    assert keys <= MOST_KEYS
    for question in QUESTIONS:
        path = PICTURES / f"{question.picture}.svg"
        asyncio.run(answer(report, question, lambda app, path=path: write_picture(app, path)))  # type: ignore[misc]
        print(f"{len(question.keys)} keys  {question.question}  {' '.join(question.keys)}")


if __name__ == "__main__":
    main()
