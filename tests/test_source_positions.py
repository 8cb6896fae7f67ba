"""The positions in the user's sources that a kernel's code came from."""

from __future__ import annotations

from pathlib import Path

import pytest
from kinspect.inspector.pipeline import analysis
from kinspect.inspector.pipeline.analysis_options import Context
from kinspect.inspector.pipeline.source_positions import source_positions

SMALL = (Path(__file__).parent / "data" / "small_gfx942.s").read_text()
LOAD = "\tglobal_load_dwordx4 v[2:5], v0, s[4:5]\n"


@pytest.mark.parametrize(
    ("chain", "expected"),
    [
        ("tools.py:3:1 @[ kernel.py:7:5 ]", {("tools.py", 3), ("kernel.py", 7)}),
        # Triton's own function, called by the user's: innermost comes the library.
        ("/p/triton/language/standard.py:3:1 @[ kernel.py:7:5 ]", {("kernel.py", 7)}),
        # The user's function, called back by a library's.
        (
            "tools.py:3:1 @[ /p/triton/language/core.py:9:2 @[ kernel.py:7:5 ] ]",
            {("tools.py", 3), ("kernel.py", 7)},
        ),
    ],
)
def test_of_inlined_code_each_call_outside_of_libraries_counts(
    chain: str, expected: set[tuple[str, int]]
) -> None:
    file, line, column = chain.partition(" ")[0].split(":")
    located = f'\t.file 1 "{file}"\n\t.loc 1 {line} {column} ; {chain}\n{LOAD}\t.loc 1 0 0\n'
    (report,) = analysis.analyze_text(SMALL.replace(LOAD, located), Context("small.s"))
    assert {(place.file, place.line) for place in source_positions(report)} == expected
