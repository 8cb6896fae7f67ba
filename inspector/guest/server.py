"""The guest's loop: answers one request after the other until the host closes its end.

Operations:

    hello    -> the result of `about.describe`
    capture  -> any number of {"record": ...}, then {"output": tail of what the user's code printed}
    compile  -> {"outcome": ..., "stage": last stage begun, "result": ... or null}
    suite    -> any number of {"record": ...}, then {"output": ...} or {"problem": ..., "hint": ...}

This process imports Triton; only forked children load the user's files and compile.

The server's side of a capture: forks children for the user's code, forwards their records.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from typing import Any

from . import about, lowering
from .forked import RECORDS, Channel, ChildOutcome, HostGoneError, run_recorded
from .missing_modules import stub_note
from .process_tree import adopt_orphans
from .readable_files import confine
from .records import error, open_writer, tail_of, writer
from .suite.running import SuiteRun
from .without_files import guard_diagnostics


def serve(requests_fd: int, replies_fd: int, warm: bool = False) -> int:
    """Answers requests until the host closes its end; returns the exit status.

    `warm`: whether to import Triton before the first request.
    """
    channel = Channel(requests_fd, replies_fd)
    server = Server(channel)

    def stop(number: int, frame: object) -> None:
        # A callback or a bare `except` may swallow the exception: hence the flag.
        channel.stopped = True
        raise HostGoneError

    adopt_orphans()
    signal.signal(signal.SIGTERM, stop)  # `run_forked` then ends the running job
    try:
        if warm:
            with contextlib.suppress(Exception):  # the first request reports it
                lowering.warm_front_end()
        while not channel.stopped:
            request = channel.receive()
            if request is None:
                return 0
            try:
                reply = server.answer(request)
            except Exception as error:
                reply = {"failure": f"{type(error).__name__}: {error}"}
            channel.send(reply)
    except (HostGoneError, BrokenPipeError):
        pass
    return 0


class Server:
    """Dispatches requests, and warms up each target once."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._warm: set[str] = set()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Serves one request.

        Raises:
            ValueError: the operation is unknown.
            HostGoneError: the host has closed its end.
        """
        operations = {
            "hello": self._hello,
            "capture": self._capture,
            "compile": self._compile,
            "suite": self._suite,
        }
        operation = operations.get(str(request.get("op")))
        if operation is None:
            raise ValueError(f"unknown operation {request.get('op')!r}")
        return operation(request)

    def _hello(self, request: dict[str, Any]) -> dict[str, Any]:
        return about.describe()

    def _capture(self, request: dict[str, Any]) -> dict[str, Any]:
        return Capturing(self._channel, request).run()

    def _suite(self, request: dict[str, Any]) -> dict[str, Any]:
        return SuiteRun(self._channel, request).run()

    def _compile(self, request: dict[str, Any]) -> dict[str, Any]:
        folder = str(request["folder"])
        arch = str(request["arch"])
        if arch not in self._warm:
            # If it fails, it fails in the child too, which reports the error.
            with contextlib.suppress(Exception):
                lowering.warm(arch)
            self._warm.add(arch)
        stage = result = None

        def take(record: dict[str, Any]) -> None:
            nonlocal stage, result
            stage, result = record.get("stage", stage), record.get("result")

        try:
            _, end = run_recorded(
                functools.partial(lowering.compile_ttir, request),
                self._channel,
                folder=folder,
                output=os.path.join(folder, lowering.STDOUT),
                stderr=os.path.join(folder, lowering.STDERR),
                take=take,
                time_limit=float(request["time_limit"]),
                memory_limit=request.get("memory_limit"),
                most_data=request.get("most_data"),
            )
            return {"outcome": end.describe(), "stage": stage, "result": result}
        finally:
            shutil.rmtree(os.path.join(folder, lowering.SCRATCH), ignore_errors=True)
            for name in (lowering.STDOUT, RECORDS):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(folder, name))


MODES: Mapping[str, str] = {
    "cases": "cases.capture",
    "script": "launches.capture",
    "inductor": "inductor",
    "trace": "record.replay",
}
"""Mode -> module of this package with a function `capture(request, emit)`."""
MODES_BY_ARCH = frozenset({"script"})
"""Modes that run once for each target, since a script may ask for its device."""
MAX_RUNS = 40
"""How often one script is run for one target: again after a crash, or for a missing module."""
RETRY_TIME_FACTOR = 3
"""Time for all runs of a script that are repeated for missing modules, in multiples of one run's
time limit."""
MIN_GENERATED_SECONDS = 30.0
"""Time in seconds that the front end has at least for code that torch.compile generated."""
MIN_KERNEL_SECONDS = 3.0
"""What a stranger's kernel has in the front end where others of its file took too long."""
SLOW_FACTOR = 3
"""Time of all kernels of a stranger's file that take too long, in multiples of what one has."""
MANY_ARE_SLOW = "kernels behind those that took too long were not looked at"
MAX_COPY_BYTES = 1 << 30
"""Bytes of a user's file or folder up to which it is copied for a script that opens it."""

LIBRARIES_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables that say how many threads a library starts."""
STRANGERS_KEYS = frozenset(
    ("begin", "kernel", "case", "arch", "variant", "error", "note", "launches", "end")
)
"""Keys of the records that a process which lowers a stranger's kernels may send."""


class Capturing:
    """One capture.

    Args:
        request: `mode`, `path`, `archs`, `folder` (scratch; the host removes it), `time_limit`
            (seconds for each run), `memory_limit` and `most_data` (bytes), `kernel_seconds` (for
            each kernel of a stranger; null for no limit), and the keys of the mode's own module.

    Attributes:
        heavy: whether torch was imported into this process.
    """

    def __init__(self, channel: Channel, request: dict[str, Any]) -> None:
        self._channel = channel
        self._request = request
        self._folder = str(request["folder"])
        self._output = os.path.join(self._folder, "output.txt")
        self._stubs: list[str] = []
        self._questions: list[list[Any]] = []
        self._reversed: list[list[Any]] = []
        self._last_deadline = 0.0  # for all runs that are repeated for missing modules
        self._generated: dict[str, dict[str, Any]] = {}  # file of torch.compile's code -> origin
        self._out_of_time = False  # whether the child reported itself that its time was up
        self._slow_seconds = 0.0  # of kernels that took longer than they may
        self.heavy = False

    def run(self) -> dict[str, Any]:
        """Captures everything; returns the reply that ends the stream of records."""
        lowering.warm_front_end()
        archs: list[str] = self._request["archs"]
        if self._request["mode"] in MODES_BY_ARCH:
            if len(archs) > 1:
                self._import_torch()
            for arch in archs:
                device = self._request["devices"][arch]
                target_fields = {"archs": [arch], "arch": arch, "device": device}
                target_fields["emulate"] = (self._request.get("emulators") or {}).get(arch)
                self._capture_target(f"-{arch}", target_fields)
        else:
            self._capture_target("", {})
        if self._stubs:
            self._send({"note": stub_note(self._stubs)})
        return {"output": tail_of(self._output), "heavy": self.heavy}

    def _capture_target(self, suffix: str, target_fields: Mapping[str, Any]) -> None:
        started = time.monotonic()
        request = {**self._request, **target_fields, "finished": []}
        request["home"] = self._request.get("home") or os.getcwd()
        request["deadline"] = started + float(self._request["time_limit"])
        self._last_deadline = started + RETRY_TIME_FACTOR * float(self._request["time_limit"])
        request["stubs"] = [*(self._request.get("stubs") or ()), *self._stubs]
        request["scratch"] = not self._request.get("cwd")
        script_folder = os.path.join(self._folder, f"work{suffix}")
        os.makedirs(script_folder, exist_ok=True)
        request["cwd"] = self._request.get("cwd") or script_folder
        self._generated = {}
        self._out_of_time = False
        self._repeat(MODES[request["mode"]], request, suffix)
        self._explore(request, suffix)
        generated_deadline = max(request["deadline"], time.monotonic() + MIN_GENERATED_SECONDS)
        for number, (path, origin) in enumerate(self._generated.items()):
            generated_request = {
                **request,
                "path": path,
                "origin": origin,
                "finished": [],
                "deadline": generated_deadline,
            }
            self._repeat(MODES["inductor"], generated_request, f"{suffix}-generated{number}")

    def _explore(self, request: dict[str, Any], suffix: str) -> None:
        """Runs the script again with assumptions reversed, one more of them at a time."""
        max_runs = int(request.get("explore") or 0)
        untried = [[question] for question in self._questions]
        questions = {tuple(question) for question in self._questions}
        for number in range(max_runs):
            if not untried:
                break
            reversed_questions = untried.pop(0)
            deadline = time.monotonic() + float(self._request["time_limit"])
            self._questions, self._reversed = [], reversed_questions
            rerun_request = {**request, "reversed": reversed_questions, "deadline": deadline}
            self._repeat(MODES["script"], rerun_request, f"{suffix}-other{number}")
            for question in self._questions:
                if tuple(question) not in questions:
                    questions.add(tuple(question))
                    untried.append([*reversed_questions, question])
        self._reversed = []
        if max_runs and questions:
            summary = (
                f"{len(questions) - len(untried)} of {len(questions)} other answers were tried"
            )
            hint = " (--explore N: more of them)" if untried else ""
            self._send({"note": f"{request['path']}: {summary}{hint}"})

    def _repeat(self, mode: str, request: dict[str, Any], suffix: str) -> None:
        module = importlib.import_module("." + mode, __package__)
        for run_number in range(MAX_RUNS):
            request["folder"] = os.path.join(self._folder, f"world{suffix}-{run_number}")
            os.makedirs(request["folder"], exist_ok=True)
            last_record, end = self._child(module.capture, request)
            if request.get("is_foreign"):
                last_record = _of_stranger(last_record)
            if "end" in last_record or (self._out_of_time and end.reason == "timeout"):
                return
            if "retry" in last_record:
                self._prepare(request, last_record["retry"])
                continue
            begin_record = last_record if "begin" in last_record else {}
            self._send({"lost": end.describe(), **begin_record, "output": tail_of(self._output)})
            most_slow = request.get("kernel_seconds")
            if most_slow is not None and self._slow_seconds > SLOW_FACTOR * most_slow:
                self._send(error("capture", MANY_ARE_SLOW, "leave them out with --kernel"))
                return
            out_of_time = time.monotonic() >= request["deadline"]
            if not begin_record or (end.reason == "timeout" and out_of_time):
                return
        self._give_up(request["path"])

    def _give_up(self, path: str) -> None:
        message = f"given up after {MAX_RUNS} runs"
        if self._stubs:
            message += f": {len(self._stubs)} modules that it imports are not installed"
        hint = "install what it needs, or name an interpreter that has it with --python"
        self._send(error("capture", message, hint, place=path))

    def _child(self, capture: Any, request: dict[str, Any]) -> tuple[dict[str, Any], ChildOutcome]:
        kernel_seconds = request.get("kernel_seconds")
        begun = time.monotonic()

        def take(record: dict[str, Any]) -> None:
            nonlocal begun, kernel_seconds
            if request.get("is_foreign"):
                record = _of_stranger(record)
            if "begin" in record:
                request["finished"].append(record["begin"])
                begun = time.monotonic()
                if kernel_seconds is not None:  # slow kernels of a file have them all together
                    kernel_seconds = max(MIN_KERNEL_SECONDS, kernel_seconds - self._slow_seconds)
            elif "generated" in record:
                stated = record["generated"]
                self._generated.setdefault(stated["path"], stated["origin"])
            elif "asked" in record:
                self._questions = record["asked"]
            elif record and "end" not in record and "retry" not in record:
                self._out_of_time |= bool(record.pop("late", False))
                self._send(record)

        def too_long() -> float | None:
            seconds = time.monotonic() - begun
            if kernel_seconds is None or seconds <= kernel_seconds:
                return None
            self._slow_seconds += seconds
            return seconds

        return run_recorded(
            functools.partial(_run_job, capture, dict(request)),
            self._channel,
            folder=self._folder,
            output=self._output,
            take=take,
            too_long=too_long,
            time_limit=max(0.0, request["deadline"] - time.monotonic()),
            memory_limit=request.get("memory_limit"),
            most_data=request.get("most_data"),
        )

    def _prepare(self, request: dict[str, Any], retry: Mapping[str, Any]) -> None:
        if "stubs" in retry:
            request["stubs"] += retry["stubs"]
            self._stubs += retry["stubs"]
            # The script had hardly begun: its time starts again.
            run_seconds = float(self._request["time_limit"])
            request["deadline"] = min(self._last_deadline, time.monotonic() + run_seconds)
        else:
            name = os.path.normpath(retry["copy"])
            if not os.path.isabs(name) and name.split(os.sep)[0] != os.pardir:
                _copy(retry["from"], os.path.join(request["cwd"], name))
        # The next run imports torch again: import it here once for all later children.
        self._import_torch()

    def _import_torch(self) -> None:
        with contextlib.suppress(Exception):
            importlib.import_module("torch")
            self.heavy = True

    def _send(self, record: dict[str, Any]) -> None:
        """Sends a record; a failure under a reversed assumption becomes a note."""
        if self._reversed and ("error" in record or "lost" in record):
            # A failure under a reversed assumption is no failure of the script.
            question, file, line = self._reversed[-1]
            failed = record["error"]["message"] if "error" in record else record["lost"]
            record = {"note": f"{file}:{line}: with the other answer to {question}: {failed}"}
        self._channel.send({"record": record})


def _of_stranger(record: Mapping[str, Any]) -> dict[str, Any]:
    """What may be taken of a record by a process that lowered a stranger's kernel.

    Whoever gets to run code in it writes its records, too: none may ask for another run, a copy of
    a file, or the capture of another one.
    """
    return {key: value for key, value in record.items() if key in STRANGERS_KEYS}


def _run_job(capture: Any, request: dict[str, Any], path: str) -> None:
    is_foreign = bool(request.get("is_foreign"))  # its mode takes the means to write from it
    write = open_writer(path) if is_foreign else writer(path)
    last_record: dict[str, Any] = {}

    def emit(record: dict[str, Any]) -> None:
        nonlocal last_record
        last_record = record
        write(record)

    sys.path[:] = [os.path.abspath(entry) for entry in sys.path]
    os.chdir(request["cwd"])
    confine(request["readable"] if is_foreign else None)
    if is_foreign:
        # Threads of libraries would not be restricted in what they read.
        os.environ.update(dict.fromkeys(LIBRARIES_THREADS, "1"))
        guard_diagnostics()
    capture(request, emit)
    # Marks the records as complete, unless the capture asked for another run.
    if "retry" not in last_record:
        emit({"end": True})


def _copy(source: str, destination: str) -> None:
    os.makedirs(os.path.dirname(destination), exist_ok=True)
    with contextlib.suppress(OSError):
        if os.path.isdir(source):
            if _size(source) <= MAX_COPY_BYTES:
                shutil.copytree(source, destination, dirs_exist_ok=True)
        elif os.path.getsize(source) <= MAX_COPY_BYTES:
            shutil.copyfile(source, destination)


def _size(folder: str) -> int:
    return sum(
        os.path.getsize(os.path.join(root, name))
        for root, _, names in os.walk(folder)
        for name in names
        if os.path.exists(os.path.join(root, name))
    )
