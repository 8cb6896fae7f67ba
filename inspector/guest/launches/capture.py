"""Runs one script for one target, in a forked child, and records what it would launch."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .. import world as worlds
from ..records import Emit, error, note
from ..world.assumptions import LOG, Question
from ..world.device import Device
from ..world.refused import RefusedError
from . import processes
from .clock import MARGIN_SECONDS, Clock
from .endings import IdleError, OutOfTimeError, Retry, ending, retry_after
from .graphs import Graphs
from .kernel_filter import KernelFilter
from .layers import LaunchLimitError, Layers
from .project import Project
from .readback import Readback
from .recorder import Recorder
from .running import Script
from .tuning import Tuning

OTHER_TYPE = (
    "T(...) makes fp16 tensors unless told otherwise: where a kernel refuses to mix types, it may"
    " want another one, e.g. T(..., dtype='fp32')"
)


@dataclass(frozen=True)
class Emulation:
    """How values that kernels wrote are had where the script reads them.

    Args:
        command: starts the emulator; None where kernels are not executed.
        reason: why not, as `RefusedError` takes it.
        detail: more of it.
        seconds: for all launches of the run.
    """

    command: Sequence[str] | None = None
    reason: str = "off"
    detail: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Request:
    """What the host asks for; a JSON object with these keys (`inspector/capture/script.py`).

    Args:
        path: the script's.
        arch: gfx name of the target.
        device: what the script is told of the GPU; see `Device.of`.
        folder: scratch, for this run alone.
        generated: folder where code is kept that torch.compile makes.
        cwd: the folder that the script runs in.
        scratch: whether that is an empty one, made for this run.
        home: the folder where the user stands.
        argv: arguments of the script.
        calls: expressions to evaluate in the script's module, instead of running it.
        wanted: patterns that select kernels; none: all.
        stubs: modules that are stood in for.
        first: launches after which the script is ended; None for no limit.
        max_configs: configurations of each autotuner to look at; None for all.
        most_sets: parameter sets of each test to run; None for all.
        all_configs: whether a sweep covers every configuration of autotuned kernels.
        axes: of a sweep: name of an argument -> values.
        deadline: when the parent ends this process, by `time.monotonic`.
        time_limit: seconds that led to the deadline, for messages.
        finished: keys of specialisations that earlier runs wrote out or died at.
        reversed: questions whose answer nobody knows and that get the other one in this run; then
            only what is new is written.
        emulation: whether launches are executed for what the script reads back.
    """

    path: str
    arch: str
    device: Mapping[str, Any]
    folder: str
    generated: str
    cwd: str
    scratch: bool
    home: str
    argv: Sequence[str]
    calls: Sequence[str]
    wanted: Sequence[str]
    stubs: Sequence[str]
    first: int | None
    max_configs: int | None
    most_sets: int | None
    all_configs: bool
    axes: Mapping[str, Sequence[Any]]
    deadline: float
    time_limit: float
    finished: Sequence[str]
    reversed: Sequence[Question]
    emulation: Emulation

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Request:
        """A request as it was read from JSON, with other modes' keys left out."""
        return cls(
            path=os.path.abspath(fields["path"]),
            arch=fields["arch"],
            device=fields["device"],
            folder=fields["folder"],
            generated=fields["generated"],
            cwd=fields["cwd"],
            scratch=bool(fields.get("scratch")),
            home=fields.get("home") or os.getcwd(),
            argv=fields.get("argv") or (),
            calls=fields.get("calls") or (),
            wanted=fields.get("wanted") or (),
            stubs=list(fields.get("stubs") or ()),
            first=fields.get("first"),
            max_configs=fields.get("max_configs"),
            most_sets=fields.get("most_sets"),
            all_configs=bool(fields.get("all_configs")),
            axes=fields.get("axes") or {},
            deadline=float(fields["deadline"]),
            time_limit=float(fields["time_limit"]),
            finished=fields.get("finished") or (),
            reversed=[tuple(question) for question in fields.get("reversed") or ()],
            emulation=Emulation(**fields.get("emulate") or {}),
        )


def capture(request: dict[str, Any], write: Emit) -> None:
    """Runs the script and emits its specialisations.

    Args:
        request: see `Request`.
        write: takes the records; a `{"retry": ...}` as the last one asks for another run.
    """
    run = _Run(Request.of(request), write)
    failure = run.script_failure()
    run.write_pending()
    run.explain_ending(failure)


class _Run:
    """One run of a script in the stand-in world, which this installs in the whole process.

    Args:
        request: what to run.
        write: takes the records.
    """

    def __init__(self, request: Request, write: Emit) -> None:
        self._request = request
        self._write = write
        self._error_count = 0
        self._project = project = Project(request.path)
        project.install()
        _keep_caches_apart(request.folder)
        self._stubs = list(request.stubs)
        self._world = world = worlds.install(
            Device.of(request.device),
            request.folder,
            stubs=self._stubs,
            most_sets=request.most_sets,
        )
        LOG.watch(project.owns_code)
        LOG.reverse(request.reversed)
        processes.watch(project, world.note)
        self._filter = KernelFilter(request.wanted)
        self._recorder = self._follow_launches()
        self._graphs = Graphs(
            request.generated, self._emit, self._filter.selects, self._recorder.expect
        )
        world.generate(self._graphs.take, request.max_configs, self._graphs.keep)
        self._script = Script(
            project,
            request.argv,
            request.calls,
            world,
            self._emit,
            self._filter,
            request.most_sets,
            request.home,
        )

    def _follow_launches(self) -> Recorder:
        """Patches Triton's autotuners, then the launches around them, then the compiler."""
        request, selects = self._request, self._filter.selects
        tuning = Tuning(self._emit, request.max_configs)
        tuning.install()
        layers = Layers(
            tuning, self._emit, request.first, request.axes, request.all_configs, selects
        )
        layers.install()
        emulation = request.emulation
        self._readback = Readback(
            self._world,
            request.arch,
            emulation.command,
            RefusedError(emulation.reason, emulation.detail),
            emulation.seconds,
            request.folder,
            request.deadline - MARGIN_SECONDS,
        )
        self._readback.is_trial = layers.is_trial
        recorder = Recorder(
            request.arch,
            self._emit,
            self._world.suspended,
            layers.origin,
            selects,
            request.finished,
            self._readback.launched,
            (request.generated,),
            only_new=bool(request.reversed),
        )
        recorder.install()
        return recorder

    def _emit(self, record: dict[str, Any]) -> None:
        self._error_count += "error" in record
        self._write(record)

    def script_failure(self) -> BaseException | None:
        """Runs the script; returns what ended it, unless that was us or its own end."""
        request, recorder = self._request, self._recorder
        main = self._script.read()
        _finish_before_exit(self.write_pending, self._emit, request.path)
        clock = Clock(request.deadline, recorder, self._readback)
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
            hint = "give it less to do after --, stop it by --first N, or raise --capture-limit"
            self._emit({**error("capture", message, hint, place=request.path), "late": True})
        except BaseException as failure:
            # A script's own `except` may fail while it handles our interrupt.
            return None if _is_at_launch_limit(failure) else failure
        finally:
            clock.stop()
        return None

    def write_pending(self) -> None:
        """Emits what is written once the script has ended: launches, questions and notes."""
        self._recorder.finish()
        self._graphs.finish()
        self._emit({"asked": LOG.two_sided()})
        for text in dict.fromkeys(self._world.notes):
            self._emit(note(text))

    def explain_ending(self, failure: BaseException | None) -> None:
        """Emits why there is not more, or nothing; or asks for another run that comes further."""
        request, recorder = self._request, self._recorder
        if recorder.failed and any("T(" in call and "dtype" not in call for call in request.calls):
            self._emit(note(OTHER_TYPE))
        if failure is not None:
            retry = _worthwhile(retry_after(failure, self._project, self._stubs), request)
            if retry is not None:
                self._emit({"retry": retry})
                return
            self._script.explain(failure)
            record = ending(failure, request.path, self._project, self._stubs, recorder.captured)
            if record is not None:
                self._emit(record)
                return
        if recorder.captured or self._error_count:
            return
        if recorder.refused:
            count = recorder.refused
            message = f"all {count} configurations are refused by the kernel's static_assert"
            self._emit(error("capture", message, "see the notes", place=request.path))
        else:
            kernels = self._filter
            self._emit(self._script.nothing_launched(kernels.other_kernels, kernels.patterns))


def _is_at_launch_limit(failure: BaseException) -> bool:
    """Whether it came up while our own interrupt passed through the script."""
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


def _worthwhile(retry: Retry | None, request: Request) -> dict[str, Any] | None:
    """What the parent should do before the next run; None where it would not help."""
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
