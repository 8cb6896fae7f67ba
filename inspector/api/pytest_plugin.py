"""The pytest plugin: kernels held to budgets in tests, and a session on an emulated GPU.

It is loaded into every pytest run of an environment that has kinspect: at import it takes nothing
but pytest and the standard library, and it must not fail under old versions of pytest.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .results import Analysis

_MARKER = "kinspect"
_FIXTURE = "kinspect_compile"
_EMULATED = "KINSPECT_PYTEST_EMULATED"
"""Environment variable of the process that runs a session on the emulated GPU, and of all below it:
the id of the process that started it. Nothing below it starts another one, whatever options it has:
a worker of pytest-xdist has those of the session, and each would start workers of its own.
"""
_CHECKED = "_kinspect_budget_checked"
"""Attribute of a test whose budget was held against a kernel."""


def pytest_addoption(parser: Any) -> None:
    """Adds the options."""
    group = parser.getgroup("kinspect", "kernels for AMD GPUs (kinspect)")
    group.addoption(
        "--kinspect-arch",
        metavar="GFX[,GFX]",
        help="Targets of kinspect_compile where neither call nor marker names one; the emulated"
        " GPU.  [gfx942]",
    )
    group.addoption(
        "--kinspect-emulate",
        action="store_true",
        help="Run the session on an emulated AMD GPU: every Triton launch is executed on the CPU.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker."""
    config.addinivalue_line(
        "markers",
        'kinspect(arch="gfx942", budget={"vgpr_spill_count": 0}): targets of kinspect_compile, and'
        ' limits of its kernels\' figures: a number is the most, a text a comparison (">= 2")',
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: Any) -> None:
    """With --kinspect-emulate, runs this session in a process that believes in the emulated GPU.

    That is before any conftest.py is imported here, where there may be no GPU to ask.
    """
    if getattr(early_config.known_args_namespace, "kinspect_emulate", False):
        starter = os.environ.get(_EMULATED)
        if starter == str(os.getppid()):
            return
        if starter is not None:
            raise pytest.UsageError("--kinspect-emulate: it is below an emulated session already")
        capture = early_config.pluginmanager.getplugin("capturemanager")
        if capture is not None:
            capture.suspend_global_capture(in_=True)
        raise SystemExit(_emulate(early_config))


def _emulate(config: Any) -> int:
    """Runs the session, prints what its kernels did, and returns the exit status."""
    from ..errors import KinspectError
    from .pytest_emulation import run_session

    archs = _archs_of_option(config.known_args_namespace.kinspect_arch)
    if len(archs) > 1:
        raise pytest.UsageError(
            f"--kinspect-emulate emulates one GPU, and --kinspect-arch names {len(archs)}"
        )
    arguments = [str(argument) for argument in config.invocation_params.args]
    if any(config.pluginmanager.hasplugin(name) for name in ("xdist", "xdist.plugin")):
        arguments.append("-n0")  # its workers would be processes without the emulated GPU
    folder = Path(str(config.invocation_params.dir))
    try:
        return run_session(
            arguments, folder, archs[0] if archs else None, {_EMULATED: str(os.getpid())}
        )
    except KinspectError as error:
        raise pytest.UsageError(f"--kinspect-emulate: {error.message}; {error.hint}") from None


@pytest.hookimpl(trylast=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Fails a test that came to its end without holding its budget against any kernel."""
    own = [marker for marker in item.own_markers if marker.name == _MARKER]
    if any(marker.kwargs.get("budget") for marker in own) and not getattr(item, _CHECKED, False):
        pytest.fail(
            f"the budget of this test was not checked: {_FIXTURE} compiled nothing in it",
            pytrace=False,
        )


@pytest.fixture
def kinspect_compile(request: pytest.FixtureRequest) -> Callable[..., Analysis]:
    """What `kinspect.analyze` does, with the targets and the budget of the test's marker.

    Targets are those of the call, else of the nearest marker that names some, else of
    --kinspect-arch. Each kernel is held against the budget (of markers of a test, its class and
    its module the nearest one's limit of a figure counts); a figure that is unknown keeps none.
    """
    item = request.node
    marked_arch, budget = _marked(item)
    option = _archs_of_option(request.config.getoption("kinspect_arch"))
    folder = request.getfixturevalue("tmp_path_factory")

    def compile_and_check(target: Any, *args: Any, **options: Any) -> Analysis:
        __tracebackhide__ = True
        import kinspect

        from .budgets import excesses, limits_of

        try:
            limits = limits_of(budget)
        except kinspect.KinspectError as error:
            pytest.fail(f"{error.message}; {error.hint}", pytrace=False)
        if options.get("arch") is None and not isinstance(target, kinspect.Analysis):
            arch = marked_arch or option
            if arch and not _has_own_target(target):
                options["arch"] = arch
        analysis = kinspect.analyze(target, *args, **options)
        if limits:
            setattr(item, _CHECKED, True)
            problems = excesses(analysis, limits, folder.mktemp("kinspect") / "analysis.kinspect")
            if problems:
                pytest.fail(problems, pytrace=False)
        return analysis

    return compile_and_check


def _has_own_target(target: object) -> bool:
    """Tells whether a target is finished code, which has the target that it was compiled for."""
    if isinstance(target, (bytes, bytearray)):
        return True
    if not isinstance(target, (str, os.PathLike)):
        return False
    from ..capture.targets import SUFFIXES
    from .targets import is_text

    text = str(target)
    return is_text(text) or SUFFIXES.get(Path(text).suffix) in ("asm", "code_object")


def _archs_of_option(value: str | None) -> list[str]:
    return [name.strip() for name in (value or "").split(",") if name.strip()]


def _marked(item: pytest.Item) -> tuple[list[str], Mapping[str, Any]]:
    """The targets and limits that the markers of a test state, the nearest ones first."""
    archs: list[str] = []
    budget: dict[str, Any] = {}
    for marker in item.iter_markers(_MARKER):
        unknown = sorted(set(marker.kwargs) - {"arch", "budget"})
        if marker.args or unknown:
            named = f"{', '.join(unknown)} is unknown" if unknown else "it has arguments without"
            pytest.fail(
                f"@pytest.mark.kinspect takes arch= and budget=; {named}"
                + ("" if unknown else " a name"),
                pytrace=False,
            )
        arch: str | Sequence[str] = marker.kwargs.get("arch") or ()
        archs = archs or ([arch] if isinstance(arch, str) else list(arch))
        budget = {**(marker.kwargs.get("budget") or {}), **budget}
    return archs, budget
