"""The pytest plugin: kernels held to budgets in tests, and a session on an emulated GPU.

It is loaded into every pytest run of an environment that has kinspect: at import it takes nothing
but pytest and the standard library, and it must not fail under old versions of pytest.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
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
    """Registers the marker.

    Raises:
        pytest.UsageError: the session is to be emulated, and this plugin came too late to do it.
    """
    if config.getoption("kinspect_emulate") and not _is_emulated():
        raise pytest.UsageError(
            "--kinspect-emulate: a conftest.py has loaded the plugin, which is too late;"
            f" load it with -p {__name__}"
        )
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
    if not early_config.known_args_namespace.kinspect_emulate or _is_emulated():
        return
    if _EMULATED in os.environ:
        raise pytest.UsageError(
            "--kinspect-emulate: a test of an emulated session has started this one; leave the"
            " option out, or take pytest.main, which runs in the emulated process"
        )
    capture = early_config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        capture.suspend_global_capture(in_=True)
    raise SystemExit(_emulate(early_config))


def _is_emulated() -> bool:
    """Tells whether this is the process that another session started for its tests."""
    return os.environ.get(_EMULATED) == str(os.getppid())


def _emulate(config: Any) -> int:
    """Runs the session, prints what its kernels did, and returns the exit status."""
    from ..base.errors import KinspectError
    from .pytest_emulation import run_session

    archs = _archs_of_option(config.known_args_namespace.kinspect_arch)
    if len(archs) > 1:
        raise pytest.UsageError(
            f"--kinspect-emulate emulates one GPU, and --kinspect-arch names {len(archs)}"
        )
    arguments = [str(argument) for argument in config.invocation_params.args]
    if any(config.pluginmanager.hasplugin(name) for name in ("xdist", "xdist.plugin")):
        # Its workers would be processes without the emulated GPU. Behind `--` all are paths.
        end = arguments.index("--") if "--" in arguments else len(arguments)
        arguments.insert(end, "-n0")
    folder = Path(str(config.invocation_params.dir))
    try:
        return run_session(
            arguments, folder, archs[0] if archs else None, {_EMULATED: str(os.getpid())}
        )
    except KinspectError as error:
        raise pytest.UsageError(f"--kinspect-emulate: {error.message}; {error.hint}") from None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fails a test whose marker says nothing that is understood, whatever fixtures it has."""
    _marked(item)


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
    setattr(item, _CHECKED, False)  # a plugin may run a test that failed again
    marked_archs, budget = _marked(item)
    archs = marked_archs or _archs_of_option(request.config.getoption("kinspect_arch"))
    folder = request.getfixturevalue("tmp_path_factory")

    def compile_and_check(target: Any, *args: Any, **options: Any) -> Analysis:
        __tracebackhide__ = True
        import kinspect

        from .. import machines
        from ..base.streams import no_commands
        from .budgets import excesses, limits_of

        try:
            limits = limits_of(budget)
        except kinspect.KinspectError as error:
            pytest.fail(f"@pytest.mark.kinspect: {error}", pytrace=False)
        try:
            for name in archs:
                machines.load(name)  # also where the target is code, which has its own
            if options.get("arch") is None and archs and _takes_target(target):
                options["arch"] = archs
            analysis = kinspect.analyze(target, *args, **options)
            saved = folder.mktemp("kinspect") / "analysis.kinspect" if limits else None
            problems = excesses(analysis, limits, saved) if saved is not None else ""
        except kinspect.KinspectError as error:
            raise error.with_traceback(None) from None  # it says all: ours adds pages
        if limits:
            setattr(item, _CHECKED, True)
        if problems:
            pytest.fail(no_commands(problems), pytrace=False)
        return analysis

    return compile_and_check


def _takes_target(target: object) -> bool:
    """Tells whether a target is compiled for an arch, and is not code or a report for one."""
    import kinspect

    if isinstance(target, (bytes, bytearray, kinspect.Analysis)):
        return False
    if not isinstance(target, (str, os.PathLike)):
        return True
    from ..capture.targets import SUFFIXES
    from .targets import is_text

    text = str(target)
    return not is_text(text) and SUFFIXES.get(Path(text).suffix) not in ("asm", "code_object")


def _archs_of_option(value: str | None) -> list[str]:
    return [name.strip() for name in (value or "").split(",") if name.strip()]


def _marked(item: pytest.Item) -> tuple[list[str], Mapping[str, Any]]:
    """The targets and limits that the markers of a test state, the nearest ones first."""
    archs: list[str] = []
    budget: dict[str, Any] = {}
    for marker in item.iter_markers(_MARKER):
        mistake = _mistake(marker)
        if mistake is not None:
            pytest.fail(f"@pytest.mark.kinspect: {mistake}", pytrace=False)
        stated = marker.kwargs.get("arch") or ()
        names = stated.split(",") if isinstance(stated, str) else stated
        archs = archs or [name.strip() for name in names]
        budget = {**(marker.kwargs.get("budget") or {}), **budget}
    return archs, budget


def _mistake(marker: pytest.Mark) -> str | None:
    """What a marker states that is not understood; None where all is."""
    unknown = sorted(set(marker.kwargs) - {"arch", "budget"})
    if marker.args or unknown:
        stated = ", ".join([*unknown, *map(repr, marker.args)])
        return f"it takes arch= and budget=, not {stated}"
    arch, budget = marker.kwargs.get("arch"), marker.kwargs.get("budget")
    is_names = isinstance(arch, (list, tuple)) and all(isinstance(name, str) for name in arch)
    if not (arch is None or isinstance(arch, str) or is_names):
        return f'arch is {arch!r}; write "gfx942", or a list of such names'
    if not (budget is None or isinstance(budget, Mapping)):
        return f'budget is {budget!r}; write {{"vgpr_spill_count": 0}}'
    return None
