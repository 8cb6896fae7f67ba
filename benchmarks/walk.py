"""Takes the README's pictures: why is this attention kernel slow, in a few key presses.

    python -m benchmarks.walk

Compiles cases of kernels/flash_attn.py, opens them in the terminal UI, presses keys and writes what
the screen shows after some of them to tui/walk/*.svg.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from kinspect.inspector.pipeline import collecting as pipeline
from kinspect.inspector.pipeline.events import Reported
from kinspect.inspector.pipeline.jobs import Request
from kinspect.tui.app import KinspectApp, Opening

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "tui" / "walk"
KERNEL = "d256_causal_*"
SIZE = (132, 38)
# Key, what it is pressed for, name of the picture taken after it.
STEPS = (
    (None, "the table: one row is red", "1-kernels"),
    ("down", "to its worst specialisation", None),
    ("enter", "its code", None),
    ("n", "the first line that hurts: a spill, with its line of Python and TTGIR", "2-spill"),
    ("enter", "what it means and what to change", None),
    ("escape", "", None),
    ("5", "what limits occupancy, and what would give the next step", "3-occupancy"),
)
MOST_KEYS = 8


async def walk() -> int:
    """Presses the keys; returns how many there were."""
    request = Request(
        (str(ROOT / "kernels" / "flash_attn.py"),),
        ("gfx942",),
        kernel=KERNEL,
        python=sys.executable,
        jobs=2,
    )
    report = pipeline.collect(request)
    app = KinspectApp(Opening(None, "kernels", remember=False))
    for index, kernel in enumerate(report.kernels):
        app.session.take(Reported((index, 0), kernel))
    FOLDER.mkdir(exist_ok=True)
    pressed = 0
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        for key, about, picture in STEPS:
            if key is not None:
                await pilot.press(key)
                pressed += 1
            await app.workers.wait_for_complete()
            await pilot.pause()
            if picture is not None:
                app.save_screenshot(f"{picture}.svg", str(FOLDER))
            print(f"{key or '-':14} {about}")
    return pressed


def main() -> None:
    """Writes the pictures."""
    pressed = asyncio.run(walk())
    print(f"{pressed} keys, {MOST_KEYS} at most")
    assert pressed <= MOST_KEYS


if __name__ == "__main__":
    main()
