"""The pytest plugin, in runs of pytest of its own: budgets of kernels, and sessions emulated."""

from __future__ import annotations

import math
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import kinspect
import pytest
from kinspect.inspector.api.budgets import excesses, limits_of
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.model import ErrorRecord, Metric
from kinspect.inspector.model.metric import METRICS
from kinspect.inspector.pipeline.analysis import catalogue
from msgspec.structs import replace

ROOT = Path(__file__).parent.parent
PLUGIN = "kinspect.inspector.api.pytest_plugin"


def environment_of_a_run(**variables: str) -> dict[str, str]:
    """Without this run's own settings, and without plugins that this environment has.

    Under CI and BUILD_NUMBER pytest's summary repeats messages in full, which counts of lines
    would see.
    """
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    for name in (
        "PYTEST_ADDOPTS",
        "PYTEST_XDIST_WORKER",
        "PYTEST_CURRENT_TEST",
        "CI",
        "BUILD_NUMBER",
    ):
        environment.pop(name, None)
    return {**environment, **variables}


def path_with(folder: Path) -> str:
    """The path of modules with a folder before all others."""
    return os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))


def run(
    folder: Path,
    *arguments: str | Path,
    env: dict[str, str] | None = None,
    plugin: str = PLUGIN,
) -> subprocess.CompletedProcess[str]:
    """Runs pytest with one plugin, whether this environment knows the entry point or not."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", plugin, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=folder,
        env=environment_of_a_run(**(env or {})),
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


def message_of(analysis: kinspect.Analysis, budget: dict[str, Any], folder: Path) -> str:
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
    assert (message_of(seven, {"vgpr_spill_count": limit}, tmp_path) == "") is kept
    told = message_of(seven, {"vgpr_spills": limit}, tmp_path)
    assert told == "" if kept else "vgpr_spills is 7, the limit is" in told


def test_short_names_are_of_figures_that_exist() -> None:
    assert [name for name, metric in METRICS.items() if catalogue().find(metric) is None] == []


@pytest.mark.parametrize("limit", [0, "<= 0", ">= 0", "!= 3", "== 0"])
def test_what_is_unknown_keeps_no_limit(
    small: kinspect.Analysis, tmp_path: Path, limit: Any
) -> None:
    unknown = with_metric(small, Metric("vgpr_spill_count", None, "registers", "compiler"))
    assert "vgpr_spill_count is unknown" in message_of(
        unknown, {"vgpr_spill_count": limit}, tmp_path
    )
    (kernel,) = small.report.kernels
    metrics = {name: m for name, m in kernel.metrics.items() if name != "vgpr_spill_count"}
    report = replace(small.report, kernels=(replace(kernel, metrics=metrics),))
    without = kinspect.Analysis(report)
    assert "vgpr_spill_count is unknown" in message_of(
        without, {"vgpr_spill_count": limit}, tmp_path
    )


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
    text = message_of(analysis, {"hot_loops.count.scratch_load": 0}, tmp_path)
    assert "hot_loops.count.scratch_load is unknown, the limit is 0" in text


@pytest.mark.parametrize(
    "limit", [None, True, "2", "", ">= 2 or x", "=> 2", [1], math.nan, "< sgpr_cont"]
)
def test_what_is_no_limit(limit: Any) -> None:
    with pytest.raises(KinspectError, match=r"the budget of vgpr_spill_count is .*") as caught:
        limits_of({"vgpr_spill_count": limit})
    assert "write a number, or a comparison" in caught.value.hint


@pytest.mark.parametrize("metric", ["vgpr_spill_cout", "loops.vgpr_count", 3])
def test_a_figure_that_does_not_exist(metric: Any) -> None:
    with pytest.raises(KinspectError, match=f"no metric {metric!r}"):
        limits_of({metric: 0})


def test_a_figure_of_a_hot_loop_is_shown(small: kinspect.Analysis, tmp_path: Path) -> None:
    text = message_of(small, {"hot_loops.count.mfma": ">= 100"}, tmp_path)
    assert "  hot_loops.count.mfma is 1, the limit is >= 100\n" in text


def test_a_figure_that_only_loops_have_is_the_main_loops(
    small: kinspect.Analysis, tmp_path: Path
) -> None:
    (kernel,) = small.report.kernels
    (loop, *others) = kernel.loops
    bound = Metric("bound.cycles", 2048, "cycles", "computed")
    loop = replace(loop, hot=True, metrics={**loop.metrics, bound.name: bound})
    held = replace(kernel, loops=(loop, *others), main_loop=loop.id)
    analysis = kinspect.Analysis(replace(small.report, kernels=(held,)))
    assert message_of(analysis, {"bound.cycles": 2048}, tmp_path) == ""
    assert message_of(analysis, {"bound.cycles": ">= 2048"}, tmp_path) == ""
    text = message_of(analysis, {"bound.cycles": 1500}, tmp_path)
    assert f"  bound.cycles of the main loop, {loop.id}, is 2048, the limit is 1,500\n" in text
    with pytest.raises(KeyError, match=r"its loops have: kernel.main_loop.metrics\['bound.cyc"):
        analysis.kernel["bound.cycles"]
    unknown = replace(loop, metrics={**loop.metrics, bound.name: replace(bound, value=None)})
    held = replace(kernel, loops=(unknown, *others), main_loop=loop.id)
    analysis = kinspect.Analysis(replace(small.report, kernels=(held,)))
    assert "is unknown, the limit" in message_of(analysis, {"bound.cycles": 1500}, tmp_path)
    held = replace(kernel, loops=(), main_loop=None)
    analysis = kinspect.Analysis(replace(small.report, kernels=(held,)))
    assert "the kernel has no hot loop" in message_of(analysis, {"bound.cycles": 1500}, tmp_path)
    with pytest.raises(KinspectError, match="is not a number"):
        limits_of({"bound.cycles": "< sgpr_cont"})


def test_a_run_without_kernels_keeps_no_budget(small: kinspect.Analysis, tmp_path: Path) -> None:
    empty = kinspect.Analysis(replace(small.report, kernels=()))
    assert "no kernel to hold" in message_of(empty, {"vgpr_count": 512}, tmp_path)


def test_what_failed_was_not_held_against_the_budget(
    small: kinspect.Analysis, tmp_path: Path
) -> None:
    error = ErrorRecord("x.py", "broken", "compile", "no such option", "drop it")
    analysis = kinspect.Analysis(replace(small.report, errors=(error,)))
    assert "broken is not held against the budget: compile: no such option" in message_of(
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [('"gfx942"', "takes arch= and budget=, not 'gfx942'"), ("budgets={}", "not budgets"),
     ("budget=['vgpr_count']", "budget is ['vgpr_count']"), ("arch=942", "arch is 942")],
)  # fmt: skip
def test_a_wrong_marker_fails_whatever_the_test_does(
    folder: Path, arguments: str, message: str
) -> None:
    write(folder, f"@pytest.mark.kinspect({arguments})\ndef test_it(): pass\n")
    done = run(folder)
    assert "1 error" in done.stdout
    assert message in done.stdout


def test_errors_are_of_one_line_at_the_tests_own(folder: Path) -> None:
    write(
        folder,
        """
import kinspect

@pytest.mark.kinspect(budget={"vgpr_cont": 1})
def test_figure(kinspect_compile): kinspect_compile(ASSEMBLY)

@pytest.mark.kinspect(arch="gfx943")
def test_arch(kinspect_compile): kinspect_compile(ASSEMBLY)

def test_file(kinspect_compile): kinspect_compile("none.s")

def test_expected(kinspect_compile):
    with pytest.raises(kinspect.KinspectError, match="no such file"):
        kinspect_compile("none.s")
""",
    )
    done = run(folder)
    assert "3 failed, 1 passed" in done.stdout
    errors = [line for line in done.stdout.splitlines() if line.startswith("E  ")]
    wanted = ("unknown target 'gfx943'", "none.s: no such file")
    assert "no metric 'vgpr_cont'" in done.stdout
    assert len(errors) == 2
    assert all(text in line for text, line in zip(wanted, errors, strict=True))
    assert "inspector/api" not in done.stdout


def test_a_budget_is_checked_in_each_run_of_a_test(folder: Path) -> None:
    """As plugins do that run a failed test again."""
    (folder / "conftest.py").write_text(
        """
from _pytest.runner import runtestprotocol

def pytest_runtest_protocol(item, nextitem):
    runtestprotocol(item, nextitem=nextitem)
    return True if runtestprotocol(item, nextitem=nextitem) else None
"""
    )
    write(
        folder,
        """
runs = []

@pytest.mark.kinspect(budget={"vgpr_count": 512})
def test_it(kinspect_compile):
    runs.append(1)
    if len(runs) == 1:
        kinspect_compile(ASSEMBLY)
""",
    )
    assert "1 failed, 1 passed" in run(folder).stdout


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
# Both ask for the GPU while they are imported; this one has an option, and counts its imports.
CONFTEST = """
import os
import pathlib

import pytest
import torch

NAME = torch.cuda.get_device_name()
STARTS = pathlib.Path(__file__).with_name("starts")

with STARTS.open("a") as starts:
    starts.write("x")
if STARTS.stat().st_size > 8:  # sessions that start sessions: they end here
    os._exit(9)

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
    options = ("-p", "xdist.plugin", "--device=cuda", "--kinspect-arch", "gfx1100")
    done = run(gpu_tests, *options, "--", "test_gpu_0.py", "test_gpu_1.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    assert "skipped" not in done.stdout
    assert "passed: status 0 of the script, no findings; " in done.stdout
    assert ", 2 launches, 2 workgroups executed in " in done.stdout
    assert (gpu_tests / "starts").read_text() == "x"


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


@pytest.mark.slow
def test_the_status_of_an_emulated_session_is_pytests(gpu_tests: Path) -> None:
    (gpu_tests / "test_gpu_1.py").unlink()
    test = gpu_tests / "test_gpu_0.py"
    options = ("--device=cuda", "--kinspect-arch=gfx1100", "--kinspect-emulate")
    assert run(gpu_tests, *options, "-k", "nothing").returncode == 5
    test.write_text(test.read_text() + "    assert False\n")
    done = run(gpu_tests, *options)
    assert (done.returncode, "1 failed" in done.stdout) == (1, True)


def test_nothing_below_an_emulated_session_is_emulated_again(tmp_path: Path) -> None:
    """Workers of pytest-xdist would each start a session with workers, and so on."""
    done = run(tmp_path, "--kinspect-emulate", env={"KINSPECT_PYTEST_EMULATED": "1"})
    assert done.returncode == 4
    assert "a test of an emulated session has started this one" in done.stderr


def test_what_cannot_be_emulated(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    for archs, message in (("gfx942,gfx950", "emulates one GPU"), ("gfx9999", "unknown target")):
        done = run(tmp_path, "--kinspect-emulate", "--kinspect-arch", archs)
        assert done.returncode == 4
        assert message in done.stderr
        assert "Traceback" not in done.stderr


def test_without_triton_nothing_is_emulated(tmp_path: Path) -> None:
    """As in an environment that has kinspect alone."""
    (tmp_path / "hidden.py").write_text(
        "import importlib.util\n"
        "real = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *rest: None if name == 'torch' else real(name)\n"
    )
    done = run(
        tmp_path, "-p", "hidden", "--kinspect-emulate", env={"PYTHONPATH": path_with(tmp_path)}
    )
    assert done.returncode == 4
    assert "torch is not installed; " in done.stderr
    assert "pip install torch --index-url https://download.pytorch.org/whl/cpu" in done.stderr


def test_a_plugin_that_comes_too_late_emulates_nothing_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(f"pytest_plugins = ['{PLUGIN}']\n")
    done = run(tmp_path, "--kinspect-emulate", plugin="no:cacheprovider")
    assert done.returncode == 4
    assert f"load it with -p {PLUGIN}" in done.stderr


ENDLESS = """
import torch
import triton
import triton.language as tl

@triton.jit
def add_up(x_ptr, n):
    total = 0
    for i in range(n):
        total += tl.load(x_ptr + i % 64)
    tl.store(x_ptr, total)

def launch(n):
    add_up[(1,)](torch.ones(64, device="cuda", dtype=torch.int32), n)

def test_short():
    launch(5)

def test_endless():
    print("endless", flush=True)
    launch(1_000_000_000)
"""


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_a_session_that_is_ended_leaves_nothing_behind(
    tmp_path: Path, number: signal.Signals
) -> None:
    """SIGTERM comes to the outer process alone, Ctrl-C to all."""
    pytest.importorskip("triton")
    (tmp_path / "test_long.py").write_text(ENDLESS)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-m", "pytest", "-s", "-p", PLUGIN, "--kinspect-emulate"]
    session = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=tmp_path,
        env=environment_of_a_run(TMPDIR=str(scratch)),
        start_new_session=True,
    )
    assert session.stdout is not None
    try:
        printed = ""
        while "endless" not in printed:
            line = session.stdout.readline()
            assert line, printed
            printed += line
        time.sleep(1)
        if number == signal.SIGTERM:
            session.send_signal(number)
        else:
            os.killpg(session.pid, number)
        printed += session.communicate(timeout=60)[0]
        assert session.returncode == (143 if number == signal.SIGTERM else 2)
        assert ("1 passed" in printed) is (number == signal.SIGINT)
        assert re.search(r"1 kernel, [12] launch(es)?, 1 workgroup executed", printed)
        assert not list(scratch.glob("kinspect-*"))
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and group_lives(session.pid):
            time.sleep(0.2)
        assert not group_lives(session.pid)
    finally:
        if group_lives(session.pid):
            os.killpg(session.pid, signal.SIGKILL)


def group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


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
    environment = environment_of_a_run(PYTHONPATH=path_with(info.parent))
    del environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:xdist", "--strict-markers", "-W", "error"],
        capture_output=True,
        text=True,
        timeout=100,
        cwd=folder,
        env=environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_target_that_cannot_be_analysed_fails_the_test_in_one_line(folder: Path) -> None:
    pytest.importorskip("triton")
    kernel = "import os, triton\n@triton.jit\ndef k(x): pass\n"
    (folder / "ends.py").write_text(f"{kernel}os._exit(0)\n")
    (folder / "raises.py").write_text(f"{kernel}raise ValueError('one\\ntwo \\x1b[31m')\n")
    (folder / "gone.py").write_text(f"{kernel}os.remove(__file__)\nos.kill(os.getpid(), 9)\n")
    (folder / "junk_ü.hsaco").write_bytes(bytes(range(256)))
    (folder / "junk.ttir").write_bytes(bytes(range(256)))
    (folder / "empty").mkdir()
    write(
        folder,
        """
@pytest.mark.kinspect(arch="gfx942", budget={"vgpr_spill_count": 0})
@pytest.mark.parametrize("target", [
    "ends.py", "raises.py", "gone.py", "junk_ü.hsaco", "junk.ttir", "empty", "none.py", "", None,
    b"", ["ends.py"]])
def test_it(kinspect_compile, target):
    kinspect_compile(target)
""",
    )
    result = run(folder)
    assert "11 failed" in result.stdout
    assert "Traceback" not in result.stdout
    lines = [line for line in result.stdout.splitlines() if line.startswith("E  ")]
    assert len(lines) == 11, result.stdout
    for line in lines:
        assert "KinspectError: " in line or "budget" in line
        assert line.isprintable()
