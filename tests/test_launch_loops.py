"""Loops of a launch: who makes how many iterations, and whether workgroups share them out."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy")
from kinspect.inspector.ttgir.executions import loop_runs
from kinspect.inspector.ttgir.parser import parse_ttgir

_TEXT = """\
module {{
  tt.func public @k(%n: i32) {{
    %eight = arith.constant 8 : i32
    %sixteen = arith.constant 16 : i32
    %zero = arith.constant 0 : i32
    %x = tt.get_program_id x : i32
    %many = tt.get_num_programs x : i32
    %later = arith.addi %x, %sixteen : i32
    scf.for %i = {start} to %n step {step}  : i32 {{
    }}
    tt.return
  }}
}}
"""


@pytest.mark.parametrize(
    ("start", "step", "by_program"),
    [
        ("%x", "%many", True),
        ("%x", "%sixteen", True),
        ("%x", "%eight", False),
        ("%zero", "%many", False),
        ("%later", "%many", False),
    ],
)
def test_loops_that_workgroups_share_out(start: str, step: str, by_program: bool) -> None:
    module = parse_ttgir(_TEXT.format(start=start, step=step), "k.ttgir")
    (run,) = loop_runs(module, {"n": 100}, (16,))
    starts = {"%x": lambda x: x, "%zero": lambda x: 0, "%later": lambda x: x + 16}
    steps = {"%many": 16, "%sixteen": 16, "%eight": 8}
    expected = [len(range(starts[start](x), 100, steps[step])) for x in range(16)]
    assert run.iterations.tolist() == expected
    assert run.by_program is by_program
