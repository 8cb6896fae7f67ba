"""The loop that cures slow kernels by rule: what it writes into scripts, and who judges it."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest
from kinspect.benchmarks.agent_loop import SEEDED, repaired
from kinspect.benchmarks.applied_changes import NotMechanicalError, applied
from kinspect.benchmarks.plain_triton import compiled
from kinspect.benchmarks.seeded_checks import CHECKS

SCRIPT = textwrap.dedent(
    """\
    # ü: columns of the tree count bytes
    @triton.jit(do_not_specialize=["n"], debug=True)
    def scale(x_ptr, n, BLOCK: tl.constexpr):
        x = tl.load(x_ptr + tl.arange(0, BLOCK) % n)
        for i in tl.range(n, num_stages=3):
            x += tl.exp(x - tl.exp(x))

    def main():
        BLOCK, rows = 512, 4
        scale[(rows,)](x, n, BLOCK=BLOCK, num_warps=8)

    @triton.autotune([triton.Config({"BLOCK": 64, "waves_per_eu": 4}, num_warps=8)], key=[])
    @triton.jit(debug=True, do_not_specialize=["n"])
    def tuned(x_ptr, n: "i64", BLOCK: tl.constexpr):
        pass

    tuned[(1,)](x, n)
    """
)


def change(kind: str, name: str, value: Any) -> dict[str, Any]:
    return {"kind": kind, "name": name, "value": value, "before": None}


@pytest.mark.parametrize(
    ("kernel", "made", "before", "after"),
    [
        ("scale", ("option", "num_warps", 4), "num_warps=8)\n\n", "num_warps=4)\n\n"),
        ("scale", ("option", "num_stages", 1), "warps=8)\n\n", "warps=8, num_stages=1)\n\n"),
        ("scale", ("constexpr", "BLOCK", 256), "= 512, 4", "= 256, 4"),
        ("scale", ("argument", "n", 16), "x_ptr, n, B", "x_ptr, n: tl.constexpr, B"),
        ("scale", ("source", "do_not_specialize", None), 'do_not_specialize=["n"], ', ""),
        ("scale", ("source", "tl.range's num_stages", 2), "num_stages=3", "num_stages=2"),
        (
            "scale",
            ("source", "tl.exp(x)", "tl.exp2(x * 1.4426950408889634)"),
            "tl.exp(x - tl.exp(x))",
            "tl.exp2((x - tl.exp2((x) * 1.4426950408889634)) * 1.4426950408889634)",
        ),
        ("tuned", ("option", "num_warps", 4), "num_warps=8)], k", "num_warps=4)], k"),
        ("tuned", ("option", "waves_per_eu", 0), '_eu": 4', '_eu": 0'),
        ("tuned", ("constexpr", "BLOCK", 32), '": 64', '": 32'),
        ("tuned", ("argument", "n", 16), 'n: "i64"', "n: tl.constexpr"),
        ("tuned", ("source", "do_not_specialize", None), ', do_not_specialize=["n"]', ""),
        ("tuned", ("option", "kpack", 2), "tuned[(1,)](x, n)", "tuned[(1,)](x, n, kpack=2)"),
    ],
)
def test_a_change_is_made_where_the_source_says_it(
    kernel: str, made: tuple[str, str, Any], before: str, after: str
) -> None:
    assert SCRIPT.count(before) == 1
    assert applied(SCRIPT, kernel, change(*made)) == SCRIPT.replace(before, after)


@pytest.mark.parametrize(
    ("kernel", "made", "reason"),
    [
        ("none", ("option", "num_warps", 4), "0 functions are named none"),
        ("scale", ("constexpr", "TILE", 4), "the launch does not pass TILE by name"),
        ("tuned", ("source", "tl.exp(x)", "tl.exp2(x)"), "tuned calls no tl.exp itself"),
        ("tuned", ("source", "tl.range's num_stages", 2), "no tl.range states num_stages"),
        ("scale", ("argument", "m", 4), "scale has no argument m"),
        ("scale", ("environment", "KNOB", "1"), "no rule for a change of kind environment"),
    ],
)
def test_what_no_rule_can_write_is_said(
    kernel: str, made: tuple[str, str, Any], reason: str
) -> None:
    with pytest.raises(NotMechanicalError, match=reason):
        applied(SCRIPT, kernel, change(*made))


def test_each_seeded_kernel_has_a_check() -> None:
    assert sorted(CHECKS) == sorted(path.stem for path in SEEDED.glob("[0-9]*.py"))


@pytest.mark.parametrize(
    "name",
    [
        "08_column_reduction",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in CHECKS
            if name != "08_column_reduction"
        ),
    ],
)
def test_the_check_tells_the_fault_from_its_repair(name: str, tmp_path: Path) -> None:
    """Triton alone says so; on the Triton by which the figures were measured they are the same."""
    triton = pytest.importorskip("triton")
    check = CHECKS[name]
    script = SEEDED / f"{name}.py"
    good = tmp_path / script.name
    good.write_text(check.counterpart(script.read_text()))
    seeded_code, good_code = compiled(script), compiled(good)
    assert not check.repaired(seeded_code)
    assert check.repaired(good_code)
    if triton.__version__ == "3.9.0":
        assert check.count(seeded_code) == check.seeded
        assert check.count(good_code) == check.good


@pytest.mark.slow
def test_the_loop_repairs_a_script(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    script = SEEDED / "02_split_k_gemm.py"
    repair = repaired(script, tmp_path)
    assert repair.first == "KI042"
    assert repair.changes == ["num_warps=4", "SPLIT_K=64"]  # 128 parts read past the end of K
    assert repair.script.parent == tmp_path
    assert CHECKS[script.stem].repaired(compiled(repair.script))
