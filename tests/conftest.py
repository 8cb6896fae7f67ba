"""Shared fixtures: a private cache, a small assembly, compiled bundled kernels."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from kinspect.inspector.base import limits
from shared_guests import SharedGuests, made_for_session

if TYPE_CHECKING:
    from emulating_forks import EmulatingForks

ROOT = Path(__file__).parent.parent

# The command line is started hundreds of times; without bytecode each start compiles every module.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Machines that run this are shared and slow at times: examples are bounded, time is not.
settings.register_profile("kinspect", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("kinspect")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Of thousands of tests nothing is garbage: they would be looked through again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # else libraries call what lives at the exit leaks


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long proofs take what time they need; of all others pyproject.toml bounds it.

    Tests that share a fixture of their module run in one worker, which makes it once.
    """
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.timeout(0))
        if item.get_closest_marker("xdist_group") is None and _shares_a_fixture(item):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


def _shares_a_fixture(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function):
        return False
    fixtures = item._fixtureinfo.name2fixturedefs.values()
    return any(found[-1].scope in ("module", "class") for found in fixtures)


@pytest.fixture(scope="session", autouse=True)
def _private_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tests never read or write the user's store. Workers of one run share theirs."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    os.environ["KINSPECT_CACHE_DIR"] = str(shared / "kinspect-cache")


@pytest.fixture(scope="session", autouse=True)
def _nothing_is_tried_unasked() -> Iterator[None]:
    """What is tried in two seconds differs from run to run; a test that wants it says so."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "FEW_TRY_SECONDS", 0.0)
        yield


@pytest.fixture(scope="session", autouse=True)
def _signals_as_in_the_foreground() -> Iterator[None]:
    """A shell starts what runs in the background with SIGINT ignored, nohup with SIGHUP, and every
    process below inherits that. Tests send these signals to commands that they start.
    """
    heeded = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGQUIT: signal.SIG_DFL,
        signal.SIGHUP: signal.SIG_DFL,
        signal.SIGTERM: signal.SIG_DFL,
    }
    ignored = [number for number in heeded if signal.getsignal(number) == signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, heeded[number])
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture(scope="session", autouse=True)
def guests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedGuests]:
    with made_for_session(tmp_path_factory.mktemp("site")) as shared:
        yield shared


@pytest.fixture(scope="module")
def shared_guests(guests: SharedGuests) -> Iterator[None]:
    """The runs of a module, in this process, have guests that those before them started."""
    with guests.lent():
        yield


@pytest.fixture(scope="session")
def small_asm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hand-written gfx942 kernel with one loop, as a file."""
    path = tmp_path_factory.mktemp("asm") / "small.s"
    shutil.copy(ROOT / "tests" / "data" / "small_gfx942.s", path)
    return path


@pytest.fixture
def tool(tmp_path: Path) -> Callable[..., object]:
    """Runs the command line in a subprocess, in an empty folder."""
    import subprocess

    def run(
        *args: str | Path, env: dict[str, str] | None = None, cwd: Path | None = None
    ) -> object:
        return subprocess.run(
            [sys.executable, "-m", "kinspect.inspector.cli", *map(str, args)],
            capture_output=True,
            text=True,
            timeout=300,
            cwd=cwd or tmp_path,
            env={**os.environ, **(env or {})},
        )

    return run


@pytest.fixture
def tool_in_process(tmp_path: Path, shared_guests: None) -> Callable[..., object]:
    """As `tool`, without a process of its own: for tests of what a command says of scripts."""
    import in_process

    def run(
        *args: str | Path, env: dict[str, str] | None = None, cwd: Path | None = None
    ) -> object:
        return in_process.kinspect(*args, cwd=cwd or tmp_path, env=env)

    return run


@pytest.fixture(scope="session")
def forks_of_session() -> Iterator[EmulatingForks]:
    from emulating_forks import EmulatingForks

    forks = EmulatingForks()
    yield forks
    forks.end()


@pytest.fixture
def emulating_forks(forks_of_session: EmulatingForks) -> Iterator[None]:
    """Scripts that a test emulates, in this process, are forks of one that has PyTorch."""
    with forks_of_session.lent():
        yield


@pytest.fixture
def emulating_tool(tmp_path: Path, emulating_forks: None) -> Callable[..., object]:
    """As `tool`, without a process of its own, for `kinspect emulate SCRIPT`."""
    import emulating_forks as forks

    def run(
        *args: str | Path, env: dict[str, str] | None = None, cwd: Path | None = None
    ) -> object:
        return forks.kinspect(*args, cwd=cwd or tmp_path, env=env)

    return run
