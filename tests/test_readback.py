"""Values that a captured script reads back of what kernels wrote: real, within their seconds."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.capture.options import CaptureOptions
from kinspect.inspector.guest.process_tree import ChildError, answer_of_child
from kinspect.inspector.model import Variant
from kinspect.inspector.pipeline import capturing
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request

pytest.importorskip("triton")
pytest.importorskip("torch")
pytestmark = [pytest.mark.xdist_group(name="readback"), pytest.mark.usefixtures("shared_guests")]

HEAD = """\
import torch, triton, triton.language as tl

@triton.jit
def histogram(x, counts, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(counts + tl.load(x + at, at < n, other=0), 1, mask=at < n)

@triton.jit
def halve(x, y, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + at, tl.load(x + at, at < n) * 0.5, at < n)

@triton.jit
def launched(x, n, B: tl.constexpr, CASE: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x + at, n + CASE, at < 64)

def launch(block, blocks=1):
    scratch = torch.empty(64, device="cuda", dtype=torch.int32)
    launched[(blocks,)](scratch, block, B=block, CASE=case)

def run():
    histogram[(4,)](x, counts, 1000, B=256)

case = 0
x = torch.arange(1000, device="cuda", dtype=torch.int32) % 7 % 4
counts = torch.zeros(4, device="cuda", dtype=torch.int32)
"""
# Of 0 to 999, modulo 7 and then 4: 286, 286, 285 and 143.
SCRIPTS = {
    "item decides": ("launch(1024 if counts.max().item() == 286 else 16)", {(1024, 1)}),
    "tolist gives grids": ("for n in counts.tolist():\n    launch(16, n)", {(16, 286)}),
    "a shape": ("launch(16, len((counts > 200).nonzero()))", {(16, 3)}),
    "on the host": ("launch(16, int(counts.cpu().numpy()[3]))", {(16, 143)}),
    "an index": ("launch(16, [1, 2, 3, 4, 5][int((counts == 143).nonzero()[0])])", {(16, 4)}),
    "a branch": ("if counts[3] > counts[0]:\n    launch(16)\nelse:\n    launch(32)", {(32, 1)}),
    # What the launch read and wrote is as it was then.
    "inputs change": ("x.fill_(3)\nlaunch(16, counts[0].item())", {(16, 286)}),
    "outputs change": (
        "counts[0] = 5\nlaunch(16, counts[0].item() + counts[1].item())",
        {(16, 291)},
    ),
    "outputs are cleared": ("counts.zero_()\nrun()\nlaunch(16, counts[0].item())", {(16, 286)}),
    "a copy": ("kept = counts.clone()\ncounts.zero_()\nlaunch(16, kept[3].item())", {(16, 143)}),
    "twice": ("run()\nlaunch(16, counts[0].item())", {(16, 572)}),
    "large ones": (
        "big = torch.arange(1 << 23, device='cuda', dtype=torch.int32) % 4\ncounts.zero_()\n"
        "histogram[(2048,)](big, counts, 1 << 20, B=512)\nlaunch(16, counts[1].item() // 1024)",
        {(16, 256)},
    ),
    "until it is small": (
        "a = torch.full((64,), 8.0, device='cuda')\nb, steps = torch.empty_like(a), 0\n"
        "while a.max().item() > 0.5:\n    halve[(1,)](a, b, 64, B=64)\n    a, b = b, a\n"
        "    steps += 1\nlaunch(16, steps)",
        {(16, 4)},
    ),
    "tuned": (
        "tuned = triton.autotune([triton.Config({'B': b}) for b in (32, 64, 128)], key=['n'],"
        " reset_to_zero=['counts'])(histogram)\n"
        "tuned[lambda meta: (triton.cdiv(1000, meta['B']),)](x, counts, 1000)\n"
        "launch(16, counts[3].item())",
        {(16, 143)},
    ),
}
"""Name -> what follows the first histogram, and the (block, blocks) of what is launched for it."""
TOLD = """
print(counts.tolist(), float(counts.sum()))
torch.testing.assert_close(counts.sum(), x.sum())
assert torch.equal(counts.cpu(), x.cpu())
import not_installed_at_all
assert torch.allclose(counts.float(), not_installed_at_all.reference(x))
error = (counts - 1).abs().max().item()
print(f"{error}")
launch(16)
"""


def script(folder: Path, name: str, body: str) -> str:
    path = folder / f"{name}.py"
    path.write_text(f"{HEAD}run()\n{body}\n")
    return str(path)


def variants_of(
    *files: str, arch: str = "gfx942", budget: float = 60.0, first: str = "launched"
) -> dict[str, list[Variant]]:
    """Variants of the kernel by file; emulation has time enough unless told."""
    options = CaptureOptions(emulate_budget=budget)
    found = collect(Request(files, (arch,), kernel=first, passes=False, jobs=2, capture=options))
    assert not found.errors, found.errors
    by_file: dict[str, list[Variant]] = {}
    for kernel in found.kernels:
        assert kernel.variant is not None
        assert kernel.source is not None
        by_file.setdefault(kernel.source.file, []).append(kernel.variant)
    return by_file


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Variant]]:
    """All of them in one script: name -> variants of what is launched for it."""
    folder = tmp_path_factory.mktemp("readback")
    again = "x.copy_(torch.arange(1000, device='cuda') % 7 % 4)\ncounts.zero_()\nrun()\n"
    parts = [f"case = {n}\n{again}{body}\n" for n, (body, _) in enumerate(SCRIPTS.values())]
    (variants,) = variants_of(script(folder, "all", "".join(parts))).values()
    names = list(SCRIPTS)
    by_name: dict[str, list[Variant]] = {name: [] for name in names}
    for variant in variants:
        by_name[names[variant.constexprs["CASE"]]].append(variant)
    return by_name


@pytest.mark.parametrize("name", SCRIPTS)
def test_what_a_kernel_wrote_decides(every: dict[str, list[Variant]], name: str) -> None:
    variants = every[name]
    shapes = {(variant.constexprs["B"], (variant.grid or (0,))[0]) for variant in variants}
    expected = SCRIPTS[name][1]
    assert shapes == expected
    for variant in variants:
        assert not variant.assumptions
        assert variant.emulated
        assert all(value.source.line > HEAD.count("\n") for value in variant.emulated)


def test_what_is_only_told_is_not_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = tmp_path / "started"
    command = [sys.executable, "-c", f"open({str(mark)!r}, 'w')"]
    monkeypatch.setattr(capturing, "emulator_command", lambda: command)
    (told,) = variants_of(script(tmp_path, "told", TOLD)).values()
    assert [(its.assumptions, its.emulated) for its in told] == [((), ())]
    assert not mark.exists()
    # And one that asks does start it; that it ends at once is no harm.
    (asked,) = variants_of(script(tmp_path, "asked", SCRIPTS["on the host"][0])).values()
    assert mark.exists()
    assert [its.reason for its in asked[0].assumptions] == ["failed"]
    assert not asked[0].emulated


REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "off": ("launch(16, counts[0].item())", {"budget": 0.0}),
    "unavailable": ("launch(16, counts[0].item())", {"arch": "gfx908"}),
    "budget": ("launch(16, counts[0].item())", {"budget": 0.01}),
    "faulty": ("histogram[(4,)](x, counts[:1].clone(), 4096, B=1024)\n"
               "other = torch.zeros(4, device='cuda', dtype=torch.int32)\n"
               "histogram[(8,)](x, other, 8192, B=1024)\nlaunch(16, other[0].item())", {}),
    "inputs": ("histogram[(4,)](torch.empty_like(x), counts, 1000, B=256)\n"
               "launch(16, counts[0].item())", {}),
}  # fmt: skip


@pytest.mark.parametrize("reason", REFUSED)
def test_what_is_not_computed_is_assumed_and_says_why(tmp_path: Path, reason: str) -> None:
    body, options = REFUSED[reason]
    (variants,) = variants_of(script(tmp_path, "script", body), **options).values()
    assert [its.reason for its in variants[0].assumptions] == [reason]
    assert not variants[0].emulated


LONG = """
@triton.jit
def endless(x, n):
    total = tl.load(x)
    for k in range(n):
        total = total * 5 + k
    tl.store(x, total)

endless[(1,)](counts, 1 << 30)
launch(16, counts[0].item())
launch(32, counts[1].item())
"""


def test_seconds_are_kept(tmp_path: Path) -> None:
    file = script(tmp_path, "long", LONG)
    started = time.monotonic()
    variants_of(file, budget=0.0)
    without = time.monotonic() - started
    started = time.monotonic()
    (variants,) = variants_of(file, budget=3.0).values()
    assert time.monotonic() - started < without + 3.0 + 3.0  # the machine may be at work
    assert {its.reason for variant in variants for its in variant.assumptions} == {"budget"}


def test_the_report_says_it(tool_in_process: Callable[..., Any], tmp_path: Path) -> None:
    tool = tool_in_process
    file = script(tmp_path, "script", "launch(16, counts[3].item())")
    done = tool("analyze", file, "--no-passes", "--kernel", "launched", "--emulate-budget", "60")
    words = " ".join(done.stdout.split())
    assert "emulated: the value of a tensor that a kernel writes is 143 (script.py:" in words
    done = tool(
        "analyze",
        file,
        "--no-passes",
        "--strict",
        "--emulate-budget",
        "60",
        "--format",
        "json",
        "--details",
    )
    assert done.returncode == 0, done.stderr
    (launched,) = (its for its in json.loads(done.stdout)["kernels"] if its["name"] == "launched")
    assert launched["variant"]["emulated"][0]["value"] == "143"


def test_a_child_answers_in_json() -> None:
    assert answer_of_child(lambda: {"a": ["x" * 200_000]}, time.monotonic() + 60, "it") == {
        "a": ["x" * 200_000]
    }


@pytest.mark.parametrize(
    ("work", "seconds", "message", "is_late"),
    [
        (lambda: os._exit(3), 60, "it crashed", False),
        (lambda: time.sleep(60), 0.2, "it takes too long", True),
        (lambda: 1 / 0, 60, "ZeroDivisionError: division by zero", False),
        (object, 60, "it crashed", False),
    ],
)
def test_why_a_child_does_not_answer(
    work: Callable[[], Any], seconds: float, message: str, is_late: bool
) -> None:
    with pytest.raises(ChildError, match=message) as failure:
        answer_of_child(work, time.monotonic() + seconds, "it")
    assert failure.value.is_late is is_late
