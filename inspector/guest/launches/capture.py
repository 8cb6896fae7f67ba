"""Runs one script for one target, in a forked child, and records what it would launch."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from ..kernel_patterns import KernelFilter
from ..records import Emit, error, note
from ..world import machine as worlds
from ..world.assumptions import LOG
from ..world.device import StandInDevice
from . import processes
from .clock import ScriptClock
from .endings import IdleError, OutOfTimeError, Retry, ending, retry_after
from .generated_code import GeneratedCode
from .layers import LaunchLimitError, Layers
from .project import Project
from .readback import Readback
from .recorder import SpecialisationRecorder
from .request import ScriptRequest
from .script import Script
from .tuning import TunerFollower

_OTHER_DTYPE_NOTE = (
    "T(...) makes fp16 tensors unless told otherwise: where a kernel refuses to mix types, it may"
    " want another one, e.g. T(..., dtype='fp32')"
)


def capture(request: dict[str, Any], write: Emit) -> None:
    """Runs the script and records its specialisations.

    `write`: takes the records; a `{"retry": ...}` as the last one asks for another run.
    """
    run = _ScriptRun(ScriptRequest.of(request), write)
    failure = run.run_script()
    run.write_pending()
    run.explain_ending(failure)


class _ScriptRun:
    """One run of a script in the stand-in world, which this installs in the whole process."""

    def __init__(self, request: ScriptRequest, write: Emit) -> None:
        self._request = request
        self._write = write
        self._error_count = 0
        self._project = project = Project(request.path)
        project.install()
        _keep_caches_apart(request.folder)
        self._stubs = list(request.stubs)
        self._world = world = worlds.install(
            StandInDevice.of(request.device),
            request.folder,
            stubs=self._stubs,
            max_values=request.max_sets,
        )
        LOG.watch(project.owns_code)
        LOG.reverse(request.reversed)
        processes.watch(project, world.note)
        self._filter = KernelFilter(request.patterns)
        self._readback = Readback(world, request)
        self._recorder = self._follow_launches()
        self._graphs = GeneratedCode(
            folder=request.generated,
            emit=self._emit,
            is_selected=self._filter.selects,
            expect=self._recorder.expect,
        )
        world.generate(self._graphs.take, request.max_configs, self._graphs.keep)
        self._script = Script(
            project, request, world=world, emit=self._emit, kernel_filter=self._filter
        )

    def _follow_launches(self) -> SpecialisationRecorder:
        """Patches Triton's autotuners, then the launches around them, then the compiler.

        The order matters: each patch wraps those before it.
        """
        request, selects = self._request, self._filter.selects
        self._tuning = tuning = TunerFollower(self._emit, request.max_configs)
        tuning.install()
        layers = Layers(tuning, request, emit=self._emit, is_selected=selects)
        layers.install()
        self._readback.is_trial = layers.is_trial
        recorder = SpecialisationRecorder(
            request,
            emit=self._emit,
            suspended=self._world.suspended,
            origin=layers.origin,
            is_selected=selects,
            launched=self._readback.launched,
        )
        recorder.install()
        return recorder

    def _emit(self, record: dict[str, Any]) -> None:
        self._error_count += "error" in record
        self._write(record)

    def run_script(self) -> BaseException | None:
        request, recorder = self._request, self._recorder
        main = self._script.read()
        _finish_before_exit(self._finish, self._emit, request.path)
        clock = ScriptClock(request.deadline, recorder, self._readback)
        try:
            clock.start()
            with self._world.running():
                main()
                if not recorder.captured and not self._error_count:
                    self._script.try_harder()
        except LaunchLimitError:
            pass
        except IdleError as idle:
            self._emit(note(f"{request.path} was stopped: {idle}"))
        except OutOfTimeError:
            message = f"still running after {request.time_limit:g} s"
            if recorder.captured:
                message += f"; the {recorder.captured} specialisations until then are reported"
            hint = (
                "give it less to do after --, stop it by --first N, or raise --capture-limit"
                " (or a lower --time-limit)"
            )
            self._emit({**error("capture", message, hint, place=request.path), "late": True})
        except BaseException as failure:
            # The script's own `except` may raise another exception while our interrupt is handled.
            return None if _is_at_launch_limit(failure) else failure
        finally:
            clock.stop()
        return None

    def write_pending(self) -> None:
        """Emits the records that are complete only at the end: launches, questions and notes."""
        self._recorder.finish()
        self._graphs.finish()
        self._emit({"asked": LOG.two_sided()})
        for text in dict.fromkeys(self._world.notes):
            self._emit(note(text))

    def _finish(self, is_failure: bool) -> None:
        self.write_pending()
        if not is_failure:
            self.explain_ending(None)

    def explain_ending(self, failure: BaseException | None) -> None:
        """Emits why the script ended early or launched nothing, or asks for another run."""
        request, recorder = self._request, self._recorder
        if recorder.failed and any("T(" in call and "dtype" not in call for call in request.calls):
            self._emit(note(_OTHER_DTYPE_NOTE))
        if failure is not None:
            retry = _retry_record(retry_after(failure, self._project, self._stubs), request)
            if retry is not None:
                self._emit({"retry": retry})
                return
            self._script.explain(failure)
            record = ending(
                failure,
                request.path,
                request.home,
                self._project,
                self._stubs,
                recorder.captured,
            )
            if record is not None:
                self._emit(record)
                return
        if recorder.captured or self._error_count:
            return
        if recorder.refused:
            message = (
                f"all {recorder.refused} configurations are refused by the kernel's static_assert"
            )
            self._emit(error("capture", message, "see the notes", place=request.path))
        elif self._tuning.first_failure:
            message = f"every launch failed: {self._tuning.first_failure}"
            self._emit(error("capture", message, "mend the launch", place=request.path))
        else:
            self._emit(
                self._script.nothing_launched(self._filter.other_kernels, self._filter.patterns)
            )


def _is_at_launch_limit(failure: BaseException) -> bool:
    chain: list[BaseException] = []
    cause: BaseException | None = failure
    while cause is not None and cause not in chain:
        chain.append(cause)
        cause = cause.__context__
    return any(isinstance(link, LaunchLimitError) for link in chain)


def _keep_caches_apart(folder: str) -> None:
    """Gives this run caches of its own, since autotuners store their choices on disk."""
    for name in ("TRITON_CACHE_DIR", "TRITON_HOME", "TORCHINDUCTOR_CACHE_DIR"):
        os.environ[name] = os.path.join(folder, name.lower())
    os.environ.pop("TRITON_CACHE_AUTOTUNING", None)


def _finish_before_exit(finish: Callable[[bool], None], emit: Emit, path: str) -> None:
    """Makes `os._exit` call `finish` and emit a failing status before it ends the process."""
    exit_process, owner = os._exit, os.getpid()

    def finish_and_exit(status: int) -> None:
        if os.getpid() == owner:
            finish(bool(status))
            if status:
                hint = "it may want arguments, after --"
                message = f"the script ended itself with os._exit: status {status}"
                emit(error("capture", message, hint, place=path))
            emit({"end": True})
            sys.stdout.flush()
        exit_process(status)

    os._exit = finish_and_exit  # type: ignore[assignment]


def _retry_record(retry: Retry | None, request: ScriptRequest) -> dict[str, Any] | None:
    if retry is None:
        return None
    if retry.stubs:
        return {"stubs": list(retry.stubs)}
    name = retry.copy or ""
    if not request.scratch or os.path.exists(os.path.join(request.cwd, name)):
        return None
    for folder in (request.home, os.path.dirname(request.path)):
        source = os.path.normpath(os.path.join(folder, name))
        if os.path.exists(source):
            return {"copy": name, "from": source}
    return None
