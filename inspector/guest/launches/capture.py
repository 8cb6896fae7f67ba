"""Runs one script for one target, in a forked child, and records what it would launch."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any

from .. import world as worlds
from ..records import Emit, error, note
from ..world.assumptions import LOG
from ..world.device import Device
from . import processes
from .endings import IdleError, OutOfTimeError, Retry, ending, retry_after
from .graphs import Graphs
from .layers import EnoughError, Layers
from .project import Project
from .recorder import Recorder
from .running import Script
from .tuning import Tuning

TICK_SECONDS = 0.5
IDLE_SECONDS = 60.0
"""A script that worked this long (CPU time) and launched nothing new has most likely shown all."""
REPEATING_SECONDS = 15.0
MANY_LAUNCHES = 500
"""One that launched the same over and over meanwhile, a training loop, has after a shorter time."""
MARGIN_SECONDS = 5.0
"""How long before the end of its time a script is stopped, to write out what it left."""


OTHER_TYPE = (
    "T(...) makes fp16 tensors unless told otherwise: where a kernel refuses to mix types, it may"
    " want another one, e.g. T(..., dtype='fp32')"
)


def capture(request: dict[str, Any], write: Emit) -> None:
    """Runs the script and emits its specialisations.

    Args:
        request: `path`, `arch`, `device`, `folder` (scratch), `generated` (where code is kept that
            torch.compile makes), `cwd`, `argv`, `calls`, `wanted`, `stubs`, `first`, `max_configs`,
            `most_sets`, `all_configs`, `axes`, `deadline` (by `time.monotonic`), `finished`
            (keys that earlier runs wrote out or died at) and `reversed` (questions, for the other
            answer to what nobody knows: then only what is new is written).
        write: takes the records; a `{"retry": ...}` as the last one asks for another run.
    """
    path = os.path.abspath(request["path"])
    errors = 0

    def emit(record: dict[str, Any]) -> None:
        nonlocal errors
        errors += "error" in record
        write(record)

    project = Project(path)
    project.install()
    _keep_caches_apart(request["folder"])
    stubs: list[str] = list(request.get("stubs") or ())
    most_sets = request.get("most_sets")
    world = worlds.install(
        Device.of(request["device"]),
        request["folder"],
        stubs=stubs,
        most_sets=most_sets,
    )
    LOG.watch(project.owns_code)
    LOG.reverse(tuple(question) for question in request.get("reversed") or ())
    processes.watch(project, world.note)
    names = Names(request.get("wanted") or ())
    tuning = Tuning(emit, request.get("max_configs"))
    tuning.install()
    layers = Layers(
        tuning,
        emit,
        request.get("first"),
        request.get("axes") or {},
        bool(request.get("all_configs")),
        names.selects,
    )
    layers.install()
    recorder = Recorder(
        request["arch"],
        emit,
        world.suspended,
        layers.origin,
        names.selects,
        request.get("finished") or (),
        world.overwritten,
        (request["generated"],),
        only_new=bool(request.get("reversed")),
    )
    recorder.install()
    graphs = Graphs(request["generated"], emit, names.selects, recorder.expect)
    world.generate(graphs.take, request.get("max_configs"), graphs.keep)
    calls = request.get("calls") or ()
    home = request.get("home") or os.getcwd()
    argv = request.get("argv") or ()
    script = Script(project, argv, calls, world, emit, names, most_sets, home)
    started = script.needs_context()

    def finish() -> None:
        recorder.finish()
        graphs.finish()
        emit({"asked": LOG.two_sided()})
        for text in dict.fromkeys(world.notes):
            emit(note(text))

    _finish_before_exit(finish, emit, path)
    clock = Clock(float(request["deadline"]), recorder)
    failure: BaseException | None = None
    try:
        clock.start()
        with world.running():
            started()
            if not recorder.captured and not errors:
                script.try_harder()
    except EnoughError:
        pass
    except IdleError as idle:
        emit(note(f"{path} was stopped: {idle}"))
    except OutOfTimeError:
        message = f"still running after {float(request['time_limit']):g} s"
        if recorder.captured:
            message += f"; the {recorder.captured} specialisations until then are reported"
        hint = "give it less to do after --, stop it by --first N, or raise --capture-limit"
        emit({**error("capture", message, hint, place=path), "late": True})
    except BaseException as stopped:
        # A script's own `except` may fail while it looks at our word to stop.
        failure = None if _is_enough(stopped) else stopped
    finally:
        clock.stop()
    finish()
    if recorder.failed and any("T(" in call and "dtype" not in call for call in calls):
        emit(note(OTHER_TYPE))
    if failure is not None:
        retry = _worthwhile(retry_after(failure, project, stubs), request)
        if retry is not None:
            emit({"retry": retry})
            return
        script.explain(failure)
        record = ending(failure, path, project, stubs, recorder.captured)
        if record is not None:
            emit(record)
            return
    if recorder.captured or errors:
        return
    if recorder.refused:
        message = f"all {recorder.refused} configurations are refused by the kernel's static_assert"
        emit(error("capture", message, "see the notes", place=path))
    else:
        emit(script.nothing_launched(names.other_kernels, names.patterns))


def _is_enough(failure: BaseException) -> bool:
    chain: list[BaseException] = []
    cause: BaseException | None = failure
    while cause is not None and cause not in chain:
        chain.append(cause)
        cause = cause.__context__
    return any(isinstance(link, EnoughError) for link in chain)


def _keep_caches_apart(folder: str) -> None:
    """Hides this run's caches from real ones: autotuners keep their winners on disk."""
    for name in ("TRITON_CACHE_DIR", "TRITON_HOME", "TORCHINDUCTOR_CACHE_DIR"):
        os.environ[name] = os.path.join(folder, name.lower())
    os.environ.pop("TRITON_CACHE_AUTOTUNING", None)


class Names:
    """Selects kernels by pattern, and remembers the others that were launched.

    Args:
        patterns: over the kernel's name or qualified name; what stands in brackets chooses among
            its specialisations, which is the host's business.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self.patterns = tuple(patterns)
        self.other_kernels: dict[str, None] = {}
        self.muted = False

    def selects(self, name: str, qualname: str) -> bool:
        """Whether every pattern matches the kernel; never while `muted`."""
        if self.muted:
            return False
        for pattern in self.patterns:
            bare = pattern.partition("[")[0]
            ways = {pattern, bare} if bare else {pattern, "*"}
            if not any(fnmatchcase(n, way) for n in (name, qualname) for way in ways):
                self.other_kernels[name] = None
                return False
        return True


class Clock:
    """Interrupts a script that runs out of time, or that has nothing new to show.

    Args:
        deadline: when the parent kills this process, by `time.monotonic`.
        recorder: what was captured; it is not interrupted at its own work.
    """

    def __init__(self, deadline: float, recorder: Recorder) -> None:
        start = time.monotonic()
        self._deadline = deadline - min(MARGIN_SECONDS, (deadline - start) / 4)
        self._recorder = recorder
        self._handled, self._since = 0, time.process_time()
        self._launches = 0

    def start(self) -> None:
        """Sets off the timer; a script that uses SIGALRM itself is left to the parent's limit."""
        signal.signal(signal.SIGALRM, self._tick)
        signal.setitimer(signal.ITIMER_REAL, TICK_SECONDS, TICK_SECONDS)

    def stop(self) -> None:
        """Ends it."""
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _tick(self, number: int, frame: object) -> None:
        worked = time.process_time()
        handled = self._recorder.captured + self._recorder.failed
        if handled != self._handled:
            self._handled, self._since = handled, worked
            self._launches = self._recorder.launched
        if self._recorder.busy:
            return
        if time.monotonic() > self._deadline:
            raise OutOfTimeError
        repeats = self._recorder.launched - self._launches >= MANY_LAUNCHES
        idle = REPEATING_SECONDS if repeats else IDLE_SECONDS
        if handled and worked - self._since > idle:
            self._since = worked  # of several tests, only the one at work ends
            self._launches = self._recorder.launched
            raise IdleError(f"nothing new was launched for {idle:.0f} s")


def _finish_before_exit(finish: Callable[[], None], emit: Emit, path: str) -> None:
    """Emits what is pending before `os._exit` in the script ends this process."""
    really_exit, owner = os._exit, os.getpid()

    def finish_and_exit(status: int) -> None:
        if os.getpid() == owner:
            finish()
            if status:
                hint = "it may want arguments, after --"
                message = f"the script ended itself with os._exit: status {status}"
                emit(error("capture", message, hint, place=path))
            emit({"end": True})
            sys.stdout.flush()
        really_exit(status)

    os._exit = finish_and_exit  # type: ignore[assignment]


def _worthwhile(retry: Retry | None, request: dict[str, Any]) -> dict[str, Any] | None:
    """What the parent should do before the next run; None where it would not help."""
    if retry is None:
        return None
    if retry.stubs:
        return {"stubs": list(retry.stubs)}
    name = retry.copy or ""
    if not request.get("scratch") or os.path.exists(os.path.join(request["cwd"], name)):
        return None
    for folder in (request["home"], os.path.dirname(os.path.abspath(request["path"]))):
        source = os.path.normpath(os.path.join(folder, name))
        if os.path.exists(source):
            return {"copy": name, "from": source}
    return None
