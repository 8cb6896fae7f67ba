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
from ..world.refused import RefusedError
from . import processes
from .endings import IdleError, OutOfTimeError, Retry, ending, retry_after
from .graphs import Graphs
from .layers import LaunchLimitError, Layers
from .project import Project
from .readback import Readback
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
        request: what to run, and how:

            path, argv, calls: the script, its arguments, what to call in it instead of running it.
            cwd, home: the folder it runs in; the folder where the user stands.
            arch, device: the GPU to claim: its gfx name, and `world.device.Device`'s fields.
            folder, generated: for scratch files; where code is kept that torch.compile makes.
            scratch: whether `cwd` is a copy, into which a missing file may be brought.
            wanted: patterns of kernels. first: launches after which to stop.
            axes, all_configs, max_configs, most_sets: how much of tuning spaces and tests to run.
            stubs: modules to replace by ones that do nothing.
            deadline, time_limit: when to stop by `time.monotonic`; the seconds that makes.
            emulate: how values that kernels wrote are had, where the script reads them: `command`
                (starts the emulator; None where kernels are not executed), `reason` and `detail`
                (why not, as `RefusedError` takes them), `seconds` (for all of it).
            finished: keys that earlier runs wrote out or died at.
            reversed: questions, for the other answer to what nobody knows: then only what is new is
                written.
        write: takes the records; a `{"retry": ...}` as the last one asks for another run.
    """
    run = _Run(request, write)
    run.prepare()
    failure = run.execute()
    run.finish()
    run.conclude(failure)


class _Run:
    """One run of a script: what watches it, and what is told of it.

    Args:
        request: as in `capture`.
        write: takes the records.
    """

    def __init__(self, request: dict[str, Any], write: Emit) -> None:
        self._request = request
        self._write = write
        self._errors = 0
        self._path = os.path.abspath(request["path"])
        self._calls: Sequence[str] = request.get("calls") or ()
        self._stubs: list[str] = list(request.get("stubs") or ())
        self._names = Names(request.get("wanted") or ())
        self._project = Project(self._path)

    def emit(self, record: dict[str, Any]) -> None:
        """Hands on a record, and counts the errors."""
        self._errors += "error" in record
        self._write(record)

    def prepare(self) -> None:
        """Puts the stand-in world in place and everything that watches the script in it."""
        request = self._request
        self._project.install()
        _keep_caches_apart(request["folder"])
        most_sets = request.get("most_sets")
        self._world = worlds.install(
            Device.of(request["device"]), request["folder"], stubs=self._stubs, most_sets=most_sets
        )
        LOG.watch(self._project.owns_code)
        LOG.reverse(tuple(question) for question in request.get("reversed") or ())
        processes.watch(self._project, self._world.note)
        self._watch_launches()
        self._script = Script(
            self._project, request.get("argv") or (), self._calls, self._world, self.emit,
            self._names, most_sets, request.get("home") or os.getcwd(),
        )  # fmt: skip

    def _watch_launches(self) -> None:
        """Patches Triton: each wraps what was patched before it."""
        request, selects = self._request, self._names.selects
        tuning = Tuning(self.emit, request.get("max_configs"))
        tuning.install()
        layers = Layers(
            tuning, self.emit, request.get("first"), request.get("axes") or {},
            bool(request.get("all_configs")), selects,
        )  # fmt: skip
        layers.install()
        emulate = request.get("emulate") or {"command": None, "reason": "off", "seconds": 0.0}
        refusal = RefusedError(emulate["reason"], emulate.get("detail", ""))
        self._readback = Readback(
            self._world, request["arch"], emulate["command"], refusal,
            float(emulate["seconds"]), request["folder"],
            float(request["deadline"]) - MARGIN_SECONDS,
        )  # fmt: skip
        self._readback.is_trial = layers.is_trial
        self._recorder = Recorder(
            request["arch"], self.emit, self._world.suspended, layers.origin, selects,
            request.get("finished") or (), self._readback.launched, (request["generated"],),
            only_new=bool(request.get("reversed")),
        )  # fmt: skip
        self._recorder.install()
        self._graphs = Graphs(request["generated"], self.emit, selects, self._recorder.expect)
        self._world.generate(self._graphs.take, request.get("max_configs"), self._graphs.keep)

    def execute(self) -> BaseException | None:
        """Runs the script; gives what ended it before its end, if that was not our word."""
        start = self._script.prepared()
        _finish_before_exit(self.finish, self.emit, self._path)
        clock = Clock(float(self._request["deadline"]), self._recorder, self._readback)
        try:
            clock.start()
            with self._world.running():
                start()
                if not self._recorder.captured and not self._errors:
                    self._script.try_harder()
        except LaunchLimitError:
            pass
        except IdleError as idle:
            self.emit(note(f"{self._path} was stopped: {idle}"))
        except OutOfTimeError:
            self._out_of_time()
        except BaseException as failure:
            # A script's own `except` may fail while it looks at our word to stop.
            if not _is_launch_limit(failure):
                return failure
        finally:
            clock.stop()
        return None

    def _out_of_time(self) -> None:
        message = f"still running after {float(self._request['time_limit']):g} s"
        if self._recorder.captured:
            message += f"; the {self._recorder.captured} specialisations until then are reported"
        hint = "give it less to do after --, stop it by --first N, or raise --capture-limit"
        self.emit({**error("capture", message, hint, place=self._path), "late": True})

    def finish(self) -> None:
        """Writes out what is pending: specialisations, graphs, questions and notes."""
        self._recorder.finish()
        self._graphs.finish()
        self.emit({"asked": LOG.two_sided()})
        for text in dict.fromkeys(self._world.notes):
            self.emit(note(text))

    def conclude(self, failure: BaseException | None) -> None:
        """The last records: a retry, why the script failed, or why nothing was captured."""
        recorder = self._recorder
        if recorder.failed and any("T(" in call and "dtype" not in call for call in self._calls):
            self.emit(note(OTHER_TYPE))
        if failure is not None:
            retry = _worthwhile(retry_after(failure, self._project, self._stubs), self._request)
            if retry is not None:
                self.emit({"retry": retry})
                return
            self._script.explain(failure)
            record = ending(failure, self._path, self._project, self._stubs, recorder.captured)
            if record is not None:
                self.emit(record)
                return
        if recorder.captured or self._errors:
            return
        if recorder.refused:
            message = (
                f"all {recorder.refused} configurations are refused by the kernel's static_assert"
            )
            self.emit(error("capture", message, "see the notes", place=self._path))
        else:
            names = self._names
            self.emit(self._script.nothing_launched(names.other_kernels, names.patterns))


def _is_launch_limit(failure: BaseException) -> bool:
    chain: list[BaseException] = []
    cause: BaseException | None = failure
    while cause is not None and cause not in chain:
        chain.append(cause)
        cause = cause.__context__
    return any(isinstance(link, LaunchLimitError) for link in chain)


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
        readback: nor is this.
    """

    def __init__(self, deadline: float, recorder: Recorder, readback: Readback) -> None:
        start = time.monotonic()
        self._deadline = deadline - min(MARGIN_SECONDS, (deadline - start) / 4)
        self._recorder = recorder
        self._readback = readback
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
        if self._recorder.busy or self._readback.busy:
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
