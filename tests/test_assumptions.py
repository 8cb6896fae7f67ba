"""What a script was told that nobody knows: marked where it may have decided by it, else not."""

from __future__ import annotations

import json
import subprocess
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.capture.options import CaptureOptions
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request

pytestmark = pytest.mark.usefixtures("shared_guests")

pytest.importorskip("triton")
pytest.importorskip("torch")
Tool = Callable[..., subprocess.CompletedProcess[str]]
Made = list[tuple[str, str, int]]
Marked = Callable[..., list[tuple[int, list[tuple[str, str, int]]]]]

HEAD = """\
import torch, triton, triton.language as tl
@triton.jit
def add(x, y, z, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + at, tl.load(x + at, at < n) + tl.load(z + at, at < n), at < n)
def launch(B, n=4096):
    add[(16,)](x, y, z, n, B=B)
x, y, z = (torch.ones(4096, device="cuda") for _ in range(3))
launch(16)
"""


def write(file: Path, body: str) -> Path:
    file.write_text(HEAD + textwrap.dedent(body).lstrip("\n"))
    return file


@pytest.fixture
def tool(tool_in_process: Tool) -> Tool:
    return tool_in_process


@pytest.fixture
def marked(tool: Tool, tmp_path: Path) -> Marked:
    """Runs a script; gives each specialisation's B and assumptions (what, answer, line of body)."""

    def run(body: str, *args: str, status: int = 0) -> Any:
        write(tmp_path / "script.py", body)
        fixed = ("--no-passes", "--format", "json", "--details", "--emulate-budget", "0")
        done = tool("analyze", "script.py", *fixed, *args)
        assert done.returncode == status, done.stderr
        above = HEAD.count("\n")
        found = []
        for kernel in json.loads(done.stdout)["kernels"]:
            variant = kernel["variant"]
            made = [
                (its["what"], its["assumed"], its["source"]["line"] - above)
                for its in variant["assumptions"]
            ]
            found.append((variant["constexprs"]["B"], made))
        found.sort(key=lambda its: (its[0] != 16, bool(its[1])))
        assert found[0] == (16, [])  # what was launched before has nothing to rest on
        return found[1:]

    return run


WRITTEN = "a tensor that a kernel writes, which is not run"
TIME = "a time, which is not measured"


STEERING: list[tuple[str, list[tuple[str, str, int]] | None]] = [
    ("launch(int(y.sum().item()) + 32)", [(f"the value of {WRITTEN}", "0", 1)]),
    (
        "if y.max() > 2:\n    launch(64)\nelse:\n    launch(32)",
        [(f"the value of {WRITTEN}", "False", 1)],
    ),
    (
        "ok = torch.allclose(y, x)\nlaunch(32 if ok else 64)",
        [("allclose() of results that are not known", "True", 1)],
    ),
    ("launch(32 if torch.equal(y, x) else 64)", None),
    ("launch(32 * (1 + len(y.nonzero()[:0])))", None),
    ("kept = y[y > 0]\nlaunch(32, len(kept))", None),
    ("a = y.cpu().numpy()\nlaunch(32, len(a))", [(f"numpy of {WRITTEN}", "…", 1)]),
    ("a = y.tolist()\nlaunch(32, len(a))", [(f"tolist of {WRITTEN}", "…", 1)]),
    (
        "t = triton.testing.do_bench(lambda: launch(16))\nlaunch(32 if t < 5 else 64)",
        [(f"{TIME} < 5", "True", 2)],
    ),
    (
        "a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))\n"
        "if a.elapsed_time(b) * 2 > 1e3: launch(64)\nlaunch(32)",
        [(f"{TIME} > 1000.0", "False", 2)],
    ),
    (
        "import not_there_at_all as lib\nlaunch(64 if lib.fast() else 32)",
        [("not_there_at_all.fast, which is not installed", "False", 2)],
    ),
    (
        "import not_there_at_all as lib\nlaunch(64 if lib.__version__ > '2' else 32)",
        [("the version of not_there_at_all, which is not installed", "0.0.0", 2)],
    ),
    (
        "import not_there_at_all as lib\nlaunch(64 if lib.kind() == 'a' else 32)",
        None,
    ),
    (
        "big = torch.rand(1 << 40, device='cuda')\nlaunch(32 if big.any() else 64)",
        [("the value of a tensor that would take more than 10 s to compute", "True", 2)],
    ),
    (
        "big = torch.eye(1 << 15, device='cuda') + 1\n"
        "launch(32 if big.cumsum(0)[0, 0] > 0 else 64)",
        [("the value of a tensor that would take more than 1 GiB to compute", "False", 2)],
    ),
    (
        "big = torch.ones(1 << 29, device='cuda')\nlaunch(32 if big.sum() > 0 else 64)",
        [("the value of a tensor that would take more than 1 GiB to compute", "False", 2)],
    ),
    (
        "big = torch.ones(1 << 20, device='cuda')\nadd[(16,)](x, big, z, 4096, B=16)\n"
        "launch(32 if big.max() > 0 else 64)",
        [(f"the value of {WRITTEN}", "False", 3)],
    ),
    (
        "part = torch.empty(8, device='cuda')\npart[0].fill_(2)\nlaunch(32 if part[1] > 0 else 64)",
        None,
    ),
    (
        "def best(a, b):\n    if a.max().item() > 1:\n        return\n    launch(32)\nbest(y, x)",
        None,
    ),
    (
        "def best(a):\n    if a.max().item() > 1:\n        return 64\n    return 32\n"
        "launch(best(y))",
        None,
    ),
    ("other = torch.empty(8, device='cuda')\nlaunch(32 if other[0] < 9 else 64)", None),
    ("n = int(y.max())\nm = n + 32\nif m > 40:\n    b = 64\nelse:\n    b = 32\nlaunch(b)", None),
    ("n = int(y.max())\ndef later():\n    launch(32 + n)\nlater()", None),
    ("n = int(y.max())\nsizes = []\nsizes.append(n)\nalias = sizes\nlaunch(32 + alias[0])", None),
    ("b = 16\nfor _ in range(2):\n    launch(b)\n    b = 64 - 32 * int(y.max() == 0)", None),
    (
        "def pick():\n    n = int(y.max())\n    launch(32)\n    return n\npick()",
        None,  # the caller may call it again with that
    ),
    ("n = int(y.max())\nlaunch(32 + globals()['n'])", None),
]
HARMLESS = [
    "print(y.sum().item())",
    "print(f'{y.max().item():.3f}', torch.allclose(x, y))",
    "if torch.allclose(x, y):\n    print('equal')\nelse:\n    print('different')",
    "if not torch.allclose(x, y):\n    raise ValueError('wrong')",
    "assert torch.allclose(x, y)\ntorch.testing.assert_close(x, y)",
    "ms = triton.testing.do_bench(lambda: launch(16))\nprint(f'{4096 / ms * 1e-6:.1f} GB/s')",
    "n = int(x.sum().item())\nlaunch(n // 64)",  # an input that no kernel writes
    "same = torch.equal(x, torch.ones(4096, device='cuda'))\nlaunch(64 if same else 128)",
    "same = torch.allclose(x, x + 1)\nlaunch(128 if same else 64)",
    "mask = torch.randn(2048, 2048, device='cuda') > 0\n"
    "launch(64 if 2e6 < int(mask.sum().item()) < 2.2e6 else 128)",  # too large to be kept
    "kept = torch.ones(1 << 20, device='cuda').nonzero()\n"
    "launch(64 if len(kept) == 1 << 20 else 128)",
    "starts = torch.empty(5, dtype=torch.int32, device='cuda')\nstarts[0] = 0\n"
    "starts[1:] = torch.full((4,), 16, device='cuda').cumsum(0)\n"
    "launch(int(starts[-1].item()))",  # all of it was written to
    "other = torch.full_like(y, 2)\nlaunch(32 * int(other[0].item()))",
    "other = y.new_ones(3)\nlaunch(64 if other.sum() > 2 else 128)",
    "big = torch.zeros(1 << 20, device='cuda')\nadd[(16,)](x, big, z, 4096, B=16)\n"
    "launch(64 if torch.ones_like(big).sum() > 9 else 128)",
    "y.fill_(2)\nlaunch(32 * int(y[0].item()))",  # what was overwritten is known again
    "import not_there_at_all as lib\n@lib.decorated\ndef f():\n    launch(32)\nf()",
    "def close(a, b, limit=1e-3, warn=False):\n    error = (a - b).abs().max().item()\n"
    "    if error <= limit:\n        return\n    if warn:\n        if error > 1:\n"
    "            print('far off')\n    else:\n        assert error < 1\nclose(x, y)",
    # What a launch does not depend on.
    "n = int(y.max())\nlaunch(64)\nlaunch(64, n)",
    "if y.max() > 2:\n    found = 1\nelse:\n    found = 2\nlaunch(64)\nprint(found + 1)\nx[found]",
    "def main(b):\n    n = int(y.max())\n    m = n + 1\n    launch(b)\n    print(m)\nmain(64)",
    "a = y.tolist()\nlaunch(64)\nx[int(a[0])]",
]


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[int, Made]]]:
    """All of those scripts in one run: body -> B and assumptions of each specialisation."""
    folder = tmp_path_factory.mktemp("assumptions")
    bodies = [body for body, _ in STEERING] + [f"{body}\nlaunch(64)" for body in HARMLESS]
    files = {str(write(folder / f"script_{k}.py", body)): body for k, body in enumerate(bodies)}
    unexecuted = CaptureOptions(emulate_budget=0)
    request = Request(tuple(files), ("gfx942",), passes=False, jobs=2, capture=unexecuted)
    found = collect(request)
    assert not found.errors
    specialisations: dict[str, list[tuple[int, Made]]] = {}
    for kernel in found.kernels:
        assert kernel.variant is not None
        assert kernel.source is not None
        above = HEAD.count("\n")
        made = [
            (its.what, its.assumed, its.source.line - above if its.source else 0)
            for its in kernel.variant.assumptions
        ]
        of = specialisations.setdefault(files[kernel.source.file], [])
        of.append((kernel.variant.constexprs["B"], made))
    for of in specialisations.values():
        assert of.pop(0) == (16, [])  # what was launched before has nothing to rest on
    return specialisations


@pytest.mark.xdist_group("assumptions")
@pytest.mark.parametrize(("body", "expected"), STEERING)
def test_what_steers_is_marked(
    every: dict[str, list[tuple[int, Made]]], body: str, expected: Made | None
) -> None:
    found = every[body]
    assert found, "the script launches once more"
    for _, made in found:
        assert made
        assert expected is None or made == expected


@pytest.mark.xdist_group("assumptions")
@pytest.mark.parametrize("body", HARMLESS)
def test_what_is_known_or_only_told_is_not_marked(
    every: dict[str, list[tuple[int, Made]]], body: str
) -> None:
    found = every[f"{body}\nlaunch(64)"]
    assert [made for _, made in found if made] == []
    assert 64 in [block for block, _ in found]
    assert 128 not in [block for block, _ in found]


BRANCHES = """
if y.max() > 2:
    launch(32)
    if not torch.allclose(x, y):
        launch(128)
        raise ValueError("too far")
else:
    launch(64)
while (y - x).abs().max() > 1e-3:
    launch(256)
if torch.equal(x, torch.ones(4096, device="cuda")):
    launch(512)
else:
    launch(1024)
"""


def test_other_answers_are_tried_within_a_bound(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(HEAD + BRANCHES)
    first = HEAD.count("\n") + 2

    def found(*args: str) -> tuple[dict[int, list[tuple[int, str]]], str]:
        fixed = ("--no-passes", "--format", "json", "--details", "--emulate-budget", "0")
        done = tool("analyze", "script.py", *fixed, *args)
        assert done.returncode == 0, done.stderr
        explored = {}
        for kernel in json.loads(done.stdout)["kernels"]:
            made = [its for its in kernel["variant"]["assumptions"] if its["explored"]]
            explored[kernel["variant"]["constexprs"]["B"]] = [
                (its["source"]["line"] - first, its["assumed"]) for its in made
            ]
            assert kernel["variant"]["launches"] <= 8
        return explored, done.stderr

    assert sorted(found()[0]) == [16, 64, 512]
    one, said = found("--explore", "1")
    assert one == {16: [], 64: [], 512: [], 32: [(0, "True")]}
    assert "1 of 3 other answers were tried (--explore N: more of them)" in said
    every, said = found("--explore", "9")
    assert every == {**one, 256: [(7, "True")], 128: [(0, "True"), (2, "False")]}
    assert "3 of 3 other answers were tried" in said
    assert "with the other answer to allclose() of results that are not known: " in said
    assert "ValueError: too far" in said


def test_what_an_assert_calls_is_called(marked: Marked) -> None:
    body = """
    def copied(b):
        launch(b)
        return y
    assert torch.allclose(copied(32), x), "differs"
    assert x.shape == (1,)
    if x.shape != (4096,):
        raise AssertionError("shape")
    launch(64)
    """
    assert sorted(block for block, _ in marked(body)) == [32, 64]


def test_strict_makes_it_an_error(marked: Marked) -> None:
    assert marked("launch(int(y[0].item()) + 32)", "--strict", status=2)
    marked("launch(64)", "--strict")


def test_the_text_and_the_end_of_the_run_say_it(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(HEAD + "if y[0] > 0: launch(32)\nlaunch(64)\n")
    options = ("--no-passes", "--kernel", "add[B=64]", "--emulate-budget", "0")
    done = tool("analyze", "script.py", *options)
    assert "assumed: the value of a tensor that a kernel writes" in " ".join(done.stdout.split())
    assert "1 of 2 specialisations rest on what is not known without a GPU" in done.stderr
