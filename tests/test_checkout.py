"""What a file may import of the checkout around it, by layout, and what is said of what lacks."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kinspect.inspector.guest.checkout import Checkout, declarations
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request

pytestmark = pytest.mark.usefixtures("shared_guests")

Tool = Callable[..., subprocess.CompletedProcess[str]]
Analyzed = Callable[[Path], tuple[dict[str, Any], str]]
KERNEL = """\
import torch, triton, triton.language as tl
{imports}

@triton.jit
def copy(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, at < n), at < n)

def run():
    x = torch.zeros(4096, device="cuda")
    copy[(16,)](x, torch.empty_like(x), 4096, BLOCK=BLOCK)

if __name__ == "__main__":
    run()
"""
SIZES = "BLOCK = 256\n"
TEST = """\
from {module} import run

def test_it():
    run()
"""
OTHER = "from {module} import run\nrun()\n"


def write(top: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return top


@pytest.fixture
def tool(tool_in_process: Tool) -> Tool:
    return tool_in_process


@pytest.fixture
def analyzed(tool: Tool) -> Callable[[Path], tuple[dict[str, Any], str]]:
    """Analyses a file where it lies; gives the report and what was said on stderr."""
    pytest.importorskip("torch")

    def run(file: Path, cwd: Path | None = None) -> tuple[dict[str, Any], str]:
        done = tool("analyze", str(file), "--no-passes", "--format", "json", "--details", cwd=cwd)
        return json.loads(done.stdout), done.stderr

    return run


def blocks(report: Mapping[str, Any]) -> list[int]:
    return [kernel["variant"]["constexprs"]["BLOCK"] for kernel in report["kernels"]]


PYPROJECT = '[project]\nname = "my-kernels"\nversion = "1"\n'
LAYOUTS: Mapping[str, tuple[Mapping[str, str], str]] = {
    "flat": (
        {
            "pyproject.toml": PYPROJECT,
            "mine/__init__.py": "",
            "mine/sizes.py": SIZES,
            "mine/ops/__init__.py": "",
            "mine/ops/twins.py": KERNEL.format(imports="from mine.sizes import BLOCK"),
        },
        "mine/ops/twins.py",
    ),
    "src, relative imports, a folder without __init__": (
        {
            "pyproject.toml": PYPROJECT,
            "src/mine/__init__.py": "",
            "src/mine/sizes.py": SIZES,
            "src/mine/ops/twins.py": KERNEL.format(imports="from ..sizes import BLOCK"),
        },
        "src/mine/ops/twins.py",
    ),
    "package_dir of setup.py": (
        {
            "setup.py": "from setuptools import setup\n"
            "setup(name='mine', package_dir={'': 'code/py'})\n",
            "code/py/mine/__init__.py": "",
            "code/py/mine/sizes.py": SIZES,
            "benchmarks/twins.py": KERNEL.format(imports="from mine.sizes import BLOCK"),
        },
        "benchmarks/twins.py",
    ),
    "where of setup.cfg": (
        {
            "setup.cfg": "[metadata]\nname = mine\n[options.packages.find]\nwhere = code\n",
            "code/mine/__init__.py": "",
            "code/mine/sizes.py": SIZES,
            "tools/twins.py": KERNEL.format(imports="from mine.sizes import BLOCK"),
        },
        "tools/twins.py",
    ),
    "a project within the checkout": (
        {
            ".git/HEAD": "ref: refs/heads/main\n",
            "parts/kernels/pyproject.toml": PYPROJECT,
            "parts/kernels/torch-ext/mine/__init__.py": "",
            "parts/kernels/torch-ext/mine/sizes.py": SIZES,
            "scripts/twins.py": KERNEL.format(imports="from mine.sizes import BLOCK"),
        },
        "scripts/twins.py",
    ),
    "helpers of the tests": (
        {
            "pyproject.toml": PYPROJECT + '[tool.pytest.ini_options]\npythonpath = ["helpers"]\n',
            "helpers/sizes_for_tests.py": SIZES,
            "tests/shared.py": "from sizes_for_tests import BLOCK\n",
            "tests/copies/twins.py": KERNEL.format(imports="from tests.shared import BLOCK"),
            "tests/copies/test_twins.py": TEST.format(module="tests.copies.twins"),
        },
        "tests/copies/test_twins.py",
    ),
    "a project whose folder is a package itself": (
        {
            "pyproject.toml": PYPROJECT,
            "__init__.py": "",
            "mine/__init__.py": "",
            "mine/sizes.py": SIZES,
            "scripts/twins.py": KERNEL.format(imports="from mine.sizes import BLOCK"),
        },
        "scripts/twins.py",
    ),
    "a checkout whose top is a package itself": (
        {
            ".git/HEAD": "ref: refs/heads/main\n",
            "__init__.py": "",
            "mine/__init__.py": "",
            "mine/sizes.py": SIZES,
            "deep/scripts/twins.py": KERNEL.format(imports="from mine.sizes import BLOCK"),
        },
        "deep/scripts/twins.py",
    ),
    "no project at all, one package": (
        {
            "mine/__init__.py": "",
            "mine/sizes.py": SIZES,
            "mine/deep/__init__.py": "",
            "mine/deep/twins.py": KERNEL.format(imports="from mine.sizes import BLOCK"),
        },
        "mine/deep/twins.py",
    ),
}


LAYOUTS_OF_NAMES: Mapping[str, tuple[Mapping[str, str], str, int]] = {
    "siblings do not shadow the standard library": (
        {
            "mine/__init__.py": "",
            "mine/types.py": "raise RuntimeError('not this one')\n",
            "mine/sizes_beside.py": SIZES,
            "mine/twins.py": KERNEL.format(imports="import types\nfrom sizes_beside import BLOCK"),
        },
        "mine/twins.py",
        256,
    ),
    "an installed module goes before the checkout's": (
        {
            "pyproject.toml": PYPROJECT,
            "src/yaml/__init__.py": SIZES,
            "src/triton/__init__.py": "raise RuntimeError('not built')\n",
            "tools/twins.py": KERNEL.format(
                imports="import yaml\nBLOCK = 64 * len(yaml.dump(1)) // 6"
            ),
        },
        "tools/twins.py",
        64,
    ),
}


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[int]]:
    """Layout -> the blocks of what was captured; all of them in one run."""
    pytest.importorskip("torch")
    top = tmp_path_factory.mktemp("checkouts")
    layouts = {**LAYOUTS, **{name: entry[:2] for name, entry in LAYOUTS_OF_NAMES.items()}}
    tops = {layout: top / f"checkout_{k}" for k, layout in enumerate(layouts)}
    targets = [
        str(write(tops[layout], files) / target) for layout, (files, target) in layouts.items()
    ]
    report = collect(Request(tuple(targets), ("gfx942",), passes=False, jobs=2))
    assert not report.errors
    found: dict[str, list[int]] = {}
    for kernel in report.kernels:
        assert kernel.variant is not None
        assert kernel.source is not None
        layout = next(k for k, at in tops.items() if Path(kernel.source.file).is_relative_to(at))
        found.setdefault(layout, []).append(kernel.variant.constexprs["BLOCK"])
    return found


@pytest.mark.xdist_group("checkouts")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_file_is_captured_in_its_own_checkout(
    layout: str, captured: dict[str, list[int]]
) -> None:
    assert captured[layout] == [256]


@pytest.mark.xdist_group("checkouts")
@pytest.mark.parametrize("layout", LAYOUTS_OF_NAMES)
def test_which_module_a_name_means(layout: str, captured: dict[str, list[int]]) -> None:
    assert captured[layout] == [LAYOUTS_OF_NAMES[layout][2]]


def test_only_what_a_build_would_have_made_is_stood_in_for(
    tmp_path: Path, analyzed: Analyzed
) -> None:
    files = {
        "pyproject.toml": PYPROJECT,
        "mine/__init__.py": "from importlib.metadata import version\n"
        "__version__ = version('my_kernels')\n"
        "from . import _C\nfrom .version import git\nimport mine_cuda\n",
        "mine/sizes.py": SIZES,
        "bench/twins.py": KERNEL.format(imports="from mine.sizes import BLOCK"),
    }
    report, stderr = analyzed(write(tmp_path, files) / "bench/twins.py")
    assert not report["errors"], stderr
    assert blocks(report) == [256]  # not the stand-in's: the package itself was imported
    notes = [line for line in stderr.splitlines() if "stand-ins" in line]
    assert len(notes) == 1
    assert "mine._C, mine.version are not built" in notes[0]
    assert "mine_cuda is not installed" in notes[0]


MANY = [f"not_there_{number}" for number in range(16)]


def test_all_that_a_file_imports_and_lacks_is_stood_in_for_at_once(
    tmp_path: Path, analyzed: Analyzed
) -> None:
    """One run for each module: with more than twelve nothing was launched, and nothing said."""
    files = {
        "mine/__init__.py": "",
        "mine/sizes.py": "".join(f"import {name}\n" for name in MANY[:8]) + SIZES,
        "mine/twins.py": KERNEL.format(
            imports="import os\nprint('begun')\nfrom mine.sizes import BLOCK\n"
            + "".join(f"from {name} import something\n" for name in MANY[8:])
        ),
    }
    report, stderr = analyzed(write(tmp_path, files) / "mine/twins.py")
    assert not report["errors"], stderr
    assert blocks(report) == [256]
    assert all(name in stderr for name in MANY)


def test_a_name_that_is_not_there_stays_an_error(tmp_path: Path, analyzed: Analyzed) -> None:
    files = {
        "pyproject.toml": PYPROJECT,
        "mine/__init__.py": "",
        "mine/sizes.py": "WIDTH = 1\n",
        "twins.py": KERNEL.format(imports="from mine.sizes import BLOCK"),
    }
    report, _ = analyzed(write(tmp_path, files) / "twins.py")
    (error,) = report["errors"]
    assert "cannot import name 'BLOCK'" in error["message"]


def test_nothing_above_the_checkout_is_a_root(tmp_path: Path) -> None:
    write(tmp_path, {"setup.py": "", "outside/__init__.py": ""})
    top = write(tmp_path / "checkout", {".git/HEAD": "", "a/b/twins.py": ""})
    roots = Checkout(str(top / "a/b/twins.py")).roots
    assert str(tmp_path) not in roots
    assert {str(top), str(top / "a"), str(top / "a/b")} <= set(roots)


@pytest.mark.parametrize("name", [".git", "pyproject.toml", "__init__.py"])
@pytest.mark.parametrize(("mode", "owner"), [(0o1777, 0), (0o755, 1)])
def test_what_another_user_made_above_a_file_makes_no_checkout(
    name: str, mode: int, owner: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A `.git` in /tmp had modules imported from /tmp, which anyone could have put there."""
    file = write(tmp_path, {f"shared/{name}": "", "shared/me/twins.py": ""}) / "shared/me/twins.py"
    shared = tmp_path / "shared"
    shared.chmod(mode)
    assert str(shared) in Checkout(str(file)).roots or name == "__init__.py"
    assert Checkout(str(file)).package == ("shared.me" if name == "__init__.py" else None)
    # Another user asks, and who made the file is not who owns its folder.
    made_by, lstat = os.getuid(), os.lstat
    monkeypatch.setattr(os, "getuid", lambda: made_by + 12345)

    def others(path: str) -> SimpleNamespace:
        found = lstat(path)
        return SimpleNamespace(st_uid=found.st_uid + owner, st_mode=found.st_mode)

    monkeypatch.setattr(os, "lstat", others)
    checkout = Checkout(str(file))
    assert str(shared) not in checkout.roots
    assert checkout.package is None


def test_declarations_are_read_and_never_run(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "setup.py": "import os\nos.mkdir('ran')\n"
            "setup(name='here', packages=find_packages('lib/py'))\n",
            "pyproject.toml": "this is = = no TOML\n",
            "setup.cfg": "no section\n",
        },
    )
    found = declarations(str(tmp_path))
    assert (found.name, found.folders) == ("here", ["lib/py"])
    assert not (tmp_path / "ran").exists()


def test_a_project_s_folders_above_itself_are_left_out(tmp_path: Path) -> None:
    write(
        tmp_path / "project",
        {"pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["..", "/"]\n', "x.py": ""},
    )
    roots = Checkout(str(tmp_path / "project/x.py")).roots
    assert roots == [str(tmp_path / "project")]


def test_a_script_named_as_the_package_it_imports(tmp_path: Path, analyzed: Analyzed) -> None:
    write(tmp_path, {"mine.py": KERNEL.format(imports="from mine.sizes import BLOCK")})
    report, _ = analyzed(tmp_path / "mine.py")
    (error,) = report["errors"]
    assert "mine.py hides the package mine: give the file another name" in error["hint"]


def test_a_stop_after_so_many_launches_is_no_failure(tool: Tool, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    body = "\ntry:\n    run()\n    run()\nexcept triton.no_such_name:\n    pass\n"
    text = KERNEL.format(imports=SIZES).partition("\nif __name__")[0] + body
    (tmp_path / "first.py").write_text(text)
    done = tool(
        "analyze", "first.py", "--no-passes", "--first", "1", "--format", "json", "--details"
    )
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["kernels"]) == 1


def test_nothing_is_saved_of_a_run_without_kernels(tool: Tool, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "bad.py").write_text("import triton\nraise ValueError\n")
    done = tool("analyze", "bad.py", "--no-passes", "--save", "bad.kinspect")
    assert done.returncode == 2
    assert "bad.kinspect was not written: there is no kernel to save" in done.stderr
    assert not (tmp_path / "bad.kinspect").exists()


def test_a_module_is_named_as_after_python_m(tool: Tool, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    files, _ = LAYOUTS["src, relative imports, a folder without __init__"]
    write(tmp_path, files)
    done = tool("analyze", "mine.ops.twins::copy", "--no-passes", "--format", "json", "--details")
    assert blocks(json.loads(done.stdout)) == [256], done.stderr
    assert "no such file" in tool("analyze", "mine.ops.other").stderr
