"""The layout is what pyproject says, and start-up stays light."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from kinspect.inspector.base.version import VERSION

tomllib = pytest.importorskip("tomllib")  # since Python 3.11

ROOT = Path(__file__).parent.parent
HEAVY = ("torch", "triton", "textual", "jinja2", "networkx", "elftools")


def test_every_folder_is_a_listed_package() -> None:
    """An unlisted sub-package works in an editable install and is missing from the wheel."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    roots = {"inspector", "kernels", "rules", "tui"}
    found = {
        "kinspect." + ".".join(init.parent.relative_to(ROOT).parts)
        for root in roots
        if (ROOT / root).is_dir()
        for init in (ROOT / root).rglob("__init__.py")
    }
    assert {"kinspect", *found} == set(config["packages"])


def test_folders_with_python_are_packages() -> None:
    for root in ("inspector", "kernels"):
        for source in (ROOT / root).rglob("*.py"):
            assert (source.parent / "__init__.py").exists(), source


def test_every_data_file_is_in_the_wheel(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation",
         "--disable-pip-version-check", "-w", str(tmp_path), str(ROOT)],
        check=True, capture_output=True, timeout=300,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    inside = set(zipfile.ZipFile(wheel).namelist())
    data = [p for p in (ROOT / "inspector").rglob("*") if p.suffix in (".yaml", ".json")]
    data += [*(ROOT / "rules").glob("*.yaml"), ROOT / "inspector" / "py.typed"]
    missing = [p for p in data if f"kinspect/{p.relative_to(ROOT).as_posix()}" not in inside]
    assert not missing
    assert not [name for name in inside if name.startswith(("inspector/", "kernels/", "tests/"))]


@pytest.mark.parametrize(
    "args",
    [
        ["--version"],
        ["--help"],
        ["analyze", "{asm}"],
        ["lint", "{asm}", "--fail-on", "never"],
        ["rules", "list"],
        ["arch", "list"],
        ["metrics", "list"],
    ],
    ids=lambda args: args[0],
)
def test_light_commands_import_nothing_heavy(args: list[str], small_asm: Path) -> None:
    argv = [str(small_asm) if arg == "{asm}" else arg for arg in args]
    code = (
        "import sys\n"
        "from kinspect.inspector.cli.main import main\n"
        f"status = main({argv!r})\n"
        f"heavy = [m for m in {HEAVY!r} if m in sys.modules]\n"
        "sys.stderr.write(f'status={status} heavy={heavy}')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stderr.endswith("status=0 heavy=[]"), done.stderr


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kinspect", "--version"], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == f"kinspect {VERSION}\n", done.stderr


def test_no_machine_path_in_committed_files() -> None:
    """Fixtures and documents must not carry paths of the machine that made them."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    needles = [f"{ROOT.parent}/".encode(), b"/site-pack" + b"ages/triton", b"/tmp/corp" + b"us"]
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        if path.is_file():
            data = path.read_bytes()
            assert not [n for n in needles if len(n) > 6 and n in data], name
            # Debug information names the folder that a kernel's source stood in.
            assert not re.search(rb'\.asciz\s+"/(tmp|root|home|work)/', data), name
