"""The pytest plugin, in runs of pytest of its own: budgets of kernels, and sessions emulated."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import kinspect
import pytest
from kinspect.inspector.api.budgets import excesses, limits_of
from kinspect.inspector.errors import KinspectError
from kinspect.inspector.model import ErrorRecord, Metric
from msgspec.structs import replace

ROOT = Path(__file__).parent.parent
PLUGIN = "kinspect.inspector.api.pytest_plugin"

pytestmark = pytest.mark.xdist_group(name="emulate")


def run(
    folder: Path, *arguments: str | Path, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs pytest without other plugins, whether this environment knows the entry point or not."""
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **(env or {})}
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_CURRENT_TEST"):
        environment.pop(name, None)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", PLUGIN, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=folder,
        env={**environment, **(env or {})},
    )


def write(folder: Path, text: str, name: str = "test_kernels.py") -> None:
    (folder / name).write_text(f"import pytest\n\nASSEMBLY = r'{folder}/small.s'\n{text}")


@pytest.fixture
def folder(tmp_path: Path, small_asm: Path) -> Path:
    (tmp_path / "small.s").write_text(small_asm.read_text())
    return tmp_path


@pytest.fixture(scope="module")
def small(small_asm: Path) -> kinspect.Analysis:
    return kinspect.analyze(small_asm)


def told(analysis: kinspect.Analysis, budget: dict[str, Any], folder: Path) -> str:
    return excesses(analysis, limits_of(budget), folder / "saved.kinspect")


def with_metric(analysis: kinspect.Analysis, *metrics: Metric) -> kinspect.Analysis:
    (kernel,) = analysis.report.kernels
    changed = {**kernel.metrics, **{metric.name: metric for metric in metrics}}
    return kinspect.Analysis(replace(analysis.report, kernels=(replace(kernel, metrics=changed),)))


# ------------------------------------------------------------------------------------------ limits


@pytest.mark.parametrize(
    ("limit", "kept"),
    [(7, True), (6, False), (7.0, True), ("<= 7", True), (">=8", False), ("== 7", True),
     ("!= 7", False), ("> 6", True), ("< 7", False)],
)  # fmt: skip
def test_limits(small: kinspect.Analysis, tmp_path: Path, limit: Any, kept: bool) -> None:
    seven = with_metric(small, Metric("vgpr_spill_count", 7, "registers", "compiler"))
    assert (told(seven, {"vgpr_spill_count": limit}, tmp_path) == "") is kept


@pytest.mark.parametrize("limit", [0, "<= 0", ">= 0", "!= 3", "== 0"])
def test_what_is_unknown_keeps_no_limit(
    small: kinspect.Analysis, tmp_path: Path, limit: Any
) -> None:
    unknown = with_metric(small, Metric("vgpr_spill_count", None, "registers", "compiler"))
    assert "vgpr_spill_count is unknown" in told(unknown, {"vgpr_spill_count": limit}, tmp_path)
    (kernel,) = small.report.kernels
    metrics = {name: m for name, m in kernel.metrics.items() if name != "vgpr_spill_count"}
    report = replace(small.report, kernels=(replace(kernel, metrics=metrics),))
    without = kinspect.Analysis(report)
    assert "vgpr_spill_count is unknown" in told(without, {"vgpr_spill_count": limit}, tmp_path)


def test_an_unknown_count_of_a_hot_loop_keeps_no_limit(
    small: kinspect.Analysis, tmp_path: Path
) -> None:
    (kernel,) = small.report.kernels
    unknown = Metric("count.scratch_load", None, "instructions", "computed")
    loops = tuple(
        replace(loop, hot=True, metrics={**loop.metrics, unknown.name: unknown})
        for loop in kernel.loops
    )
    assert loops
    analysis = kinspect.Analysis(replace(small.report, kernels=(replace(kernel, loops=loops),)))
    text = told(analysis, {"hot_loops.count.scratch_load": 0}, tmp_path)
    assert "hot_loops.count.scratch_load is unknown, the limit is 0" in text


@pytest.mark.parametrize("limit", [None, True, "2", "about 2", "", ">= 2 or x", [1]])
def test_what_is_no_limit(limit: Any) -> None:
    with pytest.raises(KinspectError):
        limits_of({"vgpr_spill_count": limit})


def test_a_figure_that_does_not_exist() -> None:
    with pytest.raises(KinspectError, match="no metric vgpr_spill_cout"):
        limits_of({"vgpr_spill_cout": 0})


def test_what_failed_was_not_held_against_the_budget(
    small: kinspect.Analysis, tmp_path: Path
) -> None:
    error = ErrorRecord("x.py", "broken", "compile", "no such option", "drop it")
    analysis = kinspect.Analysis(replace(small.report, errors=(error,)))
    assert "broken is not held against the budget: compile: no such option" in told(
        analysis, {"vgpr_count": ">= 0"}, tmp_path
    )


# ----------------------------------------------------------------------------- fixture and marker


def test_a_budget_that_is_kept_and_one_that_is_not(folder: Path) -> None:
    write(
        folder,
        """
@pytest.mark.kinspect(budget={"vgpr_count": 512, "occupancy.waves_per_eu": ">= 1"})
def test_kept(kinspect_compile):
    analysis = kinspect_compile(ASSEMBLY)
    assert analysis.kernel["vgpr_count"] > 0

@pytest.mark.kinspect(budget={"vgpr_count": 1, "occupancy.waves_per_eu": ">= 1"})
def test_exceeded(kinspect_compile):
    kinspect_compile(ASSEMBLY)
""",
    )
    done = run(folder, "--strict-markers")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed, 1 passed" in done.stdout
    assert re.search(r"^  vgpr_count is \d+, the limit is 1$", done.stdout, re.M)
    assert "  occupancy" not in done.stdout
    assert "pytest_plugin.py" not in done.stdout
    command = next(line for line in done.stdout.splitlines() if line.startswith("more: "))
    _, _, *arguments = shlex.split(command.removeprefix("more: "))
    more = subprocess.run(
        [sys.executable, "-m", "kinspect.inspector.cli", "analyze", *arguments],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert more.returncode == 0, more.stderr
    assert "small" in more.stdout


def test_an_unchecked_budget_is_no_success(folder: Path) -> None:
    write(
        folder,
        """
@pytest.mark.kinspect(budget={"vgpr_count": 1})
def test_without_fixture():
    pass

@pytest.mark.kinspect(budget={"vgpr_count": 1})
def test_without_compile(kinspect_compile):
    pass

@pytest.mark.kinspect(budget={"vgpr_count": 1})
def test_skipped(kinspect_compile):
    pytest.skip("no kernel")

@pytest.mark.kinspect(arch="gfx942")
def test_without_budget():
    pass

@pytest.mark.kinspect(budget={"vgpr_count": 1})
class TestOfAClass:
    def test_of_something_else(self):
        pass
""",
    )
    done = run(folder)
    assert "2 failed, 2 passed, 1 skipped" in done.stdout
    assert done.stdout.count("was not checked: kinspect_compile compiled nothing in it") >= 2


def test_wrong_markers_fail(folder: Path) -> None:
    write(
        folder,
        """
@pytest.mark.kinspect("gfx942")
def test_position(kinspect_compile): pass

@pytest.mark.kinspect(budgets={})
def test_keyword(kinspect_compile): pass

@pytest.mark.kinspect(budget={"vgpr_cont": 1})
def test_figure(kinspect_compile): kinspect_compile(ASSEMBLY)
""",
    )
    done = run(folder)
    assert done.returncode == 1
    assert "it has arguments without a name" in done.stdout
    assert "budgets is unknown" in done.stdout
    assert "no metric vgpr_cont" in done.stdout


def test_nearer_limits_win(folder: Path) -> None:
    write(
        folder,
        """
pytestmark = pytest.mark.kinspect(budget={"vgpr_count": 1, "sgpr_count": 1000})

@pytest.mark.kinspect(budget={"vgpr_count": 512})
def test_loosened(kinspect_compile): kinspect_compile(ASSEMBLY)

def test_of_the_module(kinspect_compile): kinspect_compile(ASSEMBLY)
""",
    )
    done = run(folder)
    assert "1 failed, 1 passed" in done.stdout
    assert "FAILED test_kernels.py::test_of_the_module" in done.stdout


KERNEL = """
import kinspect
import triton
import triton.language as tl

@triton.jit
def copy(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(x + offsets, offsets < n), offsets < n)

def launch():
    return copy, kinspect.T(4096), kinspect.T(4096), 4096
"""


def test_targets_of_call_marker_and_option(folder: Path) -> None:
    pytest.importorskip("triton")
    write(
        folder,
        KERNEL
        + """
def archs(analysis):
    return [kernel.arch for kernel in analysis]

def test_option(kinspect_compile):
    assert archs(kinspect_compile(*launch(), BLOCK=64)) == ["gfx950", "gfx1100"]

@pytest.mark.kinspect(arch="gfx90a", budget={"vgpr_spill_count": 0})
def test_marker(kinspect_compile):
    assert archs(kinspect_compile(*launch(), BLOCK=64)) == ["gfx90a"]
    assert archs(kinspect_compile(*launch(), BLOCK=64, arch="gfx942")) == ["gfx942"]

def test_code_has_its_own(kinspect_compile):
    assert archs(kinspect_compile(ASSEMBLY)) == ["gfx942"]
    assert archs(kinspect_compile(open(ASSEMBLY).read())) == ["gfx942"]

@pytest.mark.kinspect(budget={"vgpr_count": 0})
def test_over(kinspect_compile):
    kinspect_compile(*launch(), BLOCK=64)
""",
    )
    done = run(folder, "--kinspect-arch", "gfx950,gfx1100")
    assert "1 failed, 3 passed" in done.stdout, done.stdout
    line = 1 + (folder / "test_kernels.py").read_text().splitlines().index("@triton.jit")
    place = rf"^{re.escape(str(folder))}/test_kernels\.py:({line}|{line + 1}): copy"
    assert len(re.findall(place + r".* for gfx(950|1100) is not within", done.stdout, re.M)) == 2


# --------------------------------------------------------------------------------------- emulation

GPU_TESTS = """
import os
import pytest
import torch
import triton
import triton.language as tl

@triton.jit
def negate(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, -tl.load(x_ptr + offsets, offsets < n), offsets < n)

@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_right(device):
    x = torch.ones(100, device=device)
    negate[(1,)](x, 100, BLOCK=128)
    assert (x == -1).all()
    assert os.environ["KINSPECT_PYTEST_EMULATED"] == str(os.getppid())
    assert torch.cuda.get_device_properties(0).gcnArchName.split(":")[0] == "ARCH"
"""
# Both ask for the GPU while they are imported, and the second one has an option of its own.
CONFTEST = """
import pytest
import torch

NAME = torch.cuda.get_device_name()

def pytest_addoption(parser):
    parser.addoption("--device", default="none")

@pytest.fixture
def device(request):
    return request.config.getoption("--device")
"""


@pytest.fixture
def gpu_tests(tmp_path: Path) -> Path:
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for number in range(2):
        text = GPU_TESTS.replace("ARCH", "gfx1100")
        (tmp_path / f"test_gpu_{number}.py").write_text(text)
    return tmp_path


def test_a_session_is_emulated_whole(gpu_tests: Path) -> None:
    """Also where the option stands in the settings, which the inner session reads again."""
    (gpu_tests / "pytest.ini").write_text("[pytest]\naddopts = --kinspect-emulate -n 2\n")
    done = run(gpu_tests, "-p", "xdist.plugin", "--device=cuda", "--kinspect-arch", "gfx1100")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    assert "skipped" not in done.stdout
    assert "negate on gfx1100" in done.stdout
    assert "2 launches executed, no findings" in done.stdout


def test_the_status_is_that_of_the_tests_and_of_findings(gpu_tests: Path) -> None:
    (gpu_tests / "test_gpu_1.py").unlink()
    test = gpu_tests / "test_gpu_0.py"
    # 128 of 100 elements: the values are right, and 28 lanes write behind the tensor.
    wrong = test.read_text().replace("negate[(1,)](x, 100,", "negate[(1,)](x, 128,")
    test.write_text(wrong)
    options = ("--device=cuda", "--kinspect-arch=gfx1100", "--kinspect-emulate")
    done = run(gpu_tests, *options)
    assert "1 passed" in done.stdout
    assert "outside: " in done.stdout
    assert done.returncode == 1
    assert run(gpu_tests, *options, "-k", "nothing").returncode == 5
    test.write_text(wrong + "    assert False\n")
    done = run(gpu_tests, *options)
    assert (done.returncode, "1 failed" in done.stdout) == (1, True)


def test_nothing_below_an_emulated_session_is_emulated_again(tmp_path: Path) -> None:
    """Workers of pytest-xdist would each start a session with workers, and so on."""
    done = run(tmp_path, "--kinspect-emulate", env={"KINSPECT_PYTEST_EMULATED": "1"})
    assert done.returncode == 4
    assert "below an emulated session already" in done.stderr


def test_what_cannot_be_emulated(tmp_path: Path) -> None:
    for archs, message in (("gfx942,gfx950", "emulates one GPU"), ("gfx9999", "unknown target")):
        done = run(tmp_path, "--kinspect-emulate", "--kinspect-arch", archs)
        assert done.returncode == 4
        assert message in done.stderr
        assert "Traceback" not in done.stderr


# ------------------------------------------------------------------------- where nobody asks for it


def test_the_plugin_alone_imports_nothing_of_kinspect() -> None:
    code = (
        "import sys, pytest; before = set(sys.modules); import importlib;"
        f" importlib.import_module('{PLUGIN}');"
        " new = {m.partition('.')[0] for m in set(sys.modules) - before};"
        " print(sorted(new - set(sys.stdlib_module_names)),"
        " sorted(m for m in sys.modules if m.startswith('kinspect.')))"
    )
    printed = subprocess.check_output([sys.executable, "-c", code], text=True)
    modules = ["kinspect.inspector", "kinspect.inspector.api", PLUGIN]
    assert printed.strip() == f"['kinspect'] {modules}"


def test_the_entry_point_loads_it(folder: Path) -> None:
    """As an install has it: an environment's runs know marker, options and fixture."""
    project = (ROOT / "pyproject.toml").read_text()
    entry = re.search(r"\[project\.entry-points\.pytest11\]\n(.*)\n", project)
    assert entry is not None
    info = folder / "installed" / "made_up-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: made-up\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[pytest11]\n{entry[1].replace(chr(34), '')}\n")
    write(folder, "def test_it(kinspect_compile): kinspect_compile(ASSEMBLY)\n")
    path = os.pathsep.join(filter(None, (str(info.parent), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path}
    environment.pop("PYTEST_ADDOPTS", None)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:xdist", "--strict-markers", "-W", "error"],
        capture_output=True,
        text=True,
        timeout=100,
        cwd=folder,
        env=environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
