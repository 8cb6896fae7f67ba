"""Makes the golden reports afresh: `python tests/golden/regenerate.py`; review the difference.

The input is hand-written and small, so that every figure in the goldens can be checked by eye.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from kinspect.inspector.model import Report
from kinspect.inspector.pipeline import collect
from kinspect.inspector.render import json_v1, md, text
from kinspect.inspector.runs.jobs import Request

HERE = Path(__file__).parent
INPUT = HERE.parent / "data" / "small_gfx942.s"


def reports() -> dict[str, str]:
    """File name -> contents of each golden."""
    before = Path.cwd()
    os.chdir(INPUT.parent)  # files are named from the current folder
    try:
        found = collect(Request((INPUT.name,)))
    finally:
        os.chdir(before)
    return {name: _render(write, found) for name, write in WRITERS.items()}


def _render(write: Callable[[Report, TextIO], None], report: Report) -> str:
    stream = io.StringIO()
    write(report, stream)
    # The path of the checkout is not part of the report's form.
    return (
        stream.getvalue().replace(str(INPUT.parent) + "/", "").replace(report.tool["version"], "V")
    )


WRITERS = {"small.json": json_v1.write, "small.md": md.write, "small.txt": text.write}


if __name__ == "__main__":
    for name, contents in reports().items():
        (HERE / name).write_text(contents)
