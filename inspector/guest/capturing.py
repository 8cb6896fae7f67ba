"""The server's side of a capture: forks the children that run the user's code, and passes on what
they write down while they still run.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import os
import shutil
import sys
import time
from collections.abc import Mapping
from typing import Any

from . import lowering
from .channel import Channel
from .forked import Outcome, run_forked, tail_of
from .missing import stood_in
from .records import error, writer

MODES: Mapping[str, str] = {
    "cases": "cases.capture",
    "script": "launches.capture",
    "inductor": "inductor",
    "trace": "record.replay",
}
"""Mode -> module of this package with a function `capture(request, emit)`."""
EACH_ARCH = frozenset({"script"})
"""Modes that run once for each target, since what they run may ask what it runs on."""
MOST_RUNS = 40
"""Runs of one script for one target: further ones follow a crash or a missing module."""
MOST_STARTS = 3
"""Time that a script has from its first start on, where modules are missing, as a multiple of the
limit of one run."""
GENERATED_SECONDS = 30.0
"""Time that the front end has at least for what torch.compile generated, however late it is."""
MOST_COPY_BYTES = 1 << 30


class Capturing:
    """One capture.

    Args:
        channel: where the records go, as `{"record": ...}`.
        request: `mode`, `path`, `archs`, `folder` (scratch, the host's to remove), `time_limit` in
            seconds for each run, `memory_limit`, and what the mode's module takes.
    """

    def __init__(self, channel: Channel, request: dict[str, Any]) -> None:
        self._channel = channel
        self._request = request
        self._folder = str(request["folder"])
        self._output = os.path.join(self._folder, "output.txt")
        self._stood_in: list[str] = []
        self._questions: list[list[Any]] = []
        self._reversed: list[list[Any]] = []
        self.heavy = False

    def run(self) -> dict[str, Any]:
        """Captures everything; returns the reply that ends the stream of records."""
        lowering.warm_front_end()
        archs: list[str] = self._request["archs"]
        if self._request["mode"] in EACH_ARCH:
            if len(archs) > 1:
                self._import_torch()
            for arch in archs:
                device = self._request["devices"][arch]
                special = {"archs": [arch], "arch": arch, "device": device}
                special["emulate"] = (self._request.get("emulators") or {}).get(arch)
                self._target(f"-{arch}", special)
        else:
            self._target("", {})
        if self._stood_in:
            self._send({"note": stood_in(self._stood_in)})
        return {"output": tail_of(self._output), "heavy": self.heavy}

    def _target(self, suffix: str, special: Mapping[str, Any]) -> None:
        """One target, and then the kernels that torch.compile generated for it."""
        started = time.monotonic()
        request = {**self._request, **special, "finished": [], "home": os.getcwd()}
        request["deadline"] = started + float(self._request["time_limit"])
        self._latest = started + MOST_STARTS * float(self._request["time_limit"])
        request["stubs"] = [*(self._request.get("stubs") or ()), *self._stood_in]
        request["scratch"] = not self._request.get("cwd")
        work = os.path.join(self._folder, f"work{suffix}")
        os.makedirs(work, exist_ok=True)
        request["cwd"] = self._request.get("cwd") or work
        self._generated: dict[str, dict[str, Any]] = {}
        self._out_of_time = False  # the script said itself that its time was up
        self._repeat(MODES[request["mode"]], request, suffix)
        self._explore(request, suffix)
        late = max(request["deadline"], time.monotonic() + GENERATED_SECONDS)
        for number, (path, origin) in enumerate(self._generated.items()):
            generated_request = {
                **request,
                "path": path,
                "origin": origin,
                "finished": [],
                "deadline": late,
            }
            self._repeat(MODES["inductor"], generated_request, f"{suffix}-generated{number}")

    def _explore(self, request: dict[str, Any], suffix: str) -> None:
        """Runs the script again with other answers to unknown questions, one more at a time."""
        most = int(request.get("explore") or 0)
        left = [[question] for question in self._questions]
        questions = {tuple(question) for question in self._questions}
        for number in range(most):
            if not left:
                break
            reversed_questions = left.pop(0)
            until = time.monotonic() + float(self._request["time_limit"])
            self._questions, self._reversed = [], reversed_questions
            rerun_request = {**request, "reversed": reversed_questions, "deadline": until}
            self._repeat(MODES["script"], rerun_request, f"{suffix}-other{number}")
            for question in self._questions:
                if tuple(question) not in questions:
                    questions.add(tuple(question))
                    left.append([*reversed_questions, question])
        self._reversed = []
        if most and questions:
            summary = f"{len(questions) - len(left)} of {len(questions)} other answers were tried"
            hint = " (--explore N: more of them)" if left else ""
            self._send({"note": f"{request['path']}: {summary}{hint}"})

    def _repeat(self, mode: str, request: dict[str, Any], suffix: str) -> None:
        """Starts children until the run comes to its end, or another start would not help."""
        module = importlib.import_module("." + mode, __package__)
        for number in range(MOST_RUNS):
            request["folder"] = os.path.join(self._folder, f"world{suffix}-{number}")
            os.makedirs(request["folder"], exist_ok=True)
            last, outcome = self._child(module.capture, request)
            if "end" in last or (self._out_of_time and outcome.reason == "timeout"):
                return
            if "retry" in last:
                self._prepare(request, last["retry"])
                continue
            begun = last if "begin" in last else {}
            self._send({"lost": outcome.describe(), **begun, "output": tail_of(self._output)})
            if not begun or outcome.reason == "timeout":
                return
        message = f"given up after {MOST_RUNS} runs"
        if self._stood_in:
            message += f": {len(self._stood_in)} modules that it imports are not installed"
        hint = "install what it needs, or name an interpreter that has it with --python"
        self._send(error("capture", message, hint, place=request["path"]))

    def _child(self, capture: Any, request: dict[str, Any]) -> tuple[dict[str, Any], Outcome]:
        """Runs one child; returns its last record and how it ended."""
        path = os.path.join(self._folder, "findings.jsonl")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        follower = Follower(path)

        def forward() -> None:
            for record in follower.new():
                if "begin" in record:
                    request["finished"].append(record["begin"])
                elif "generated" in record:
                    stated = record["generated"]
                    self._generated.setdefault(stated["path"], stated["origin"])
                elif "asked" in record:
                    self._questions = record["asked"]
                elif "end" not in record and "retry" not in record:
                    self._out_of_time |= bool(record.pop("late", False))
                    self._send(record)

        outcome = run_forked(
            functools.partial(_run, capture, dict(request), path),
            self._channel,
            stdout=self._output,
            stderr=self._output,
            time_limit=max(0.0, request["deadline"] - time.monotonic()),
            memory_limit=request.get("memory_limit"),
            watch=forward,
        )
        forward()
        return follower.last, outcome

    def _prepare(self, request: dict[str, Any], retry: Mapping[str, Any]) -> None:
        if "stubs" in retry:
            request["stubs"] += retry["stubs"]
            self._stood_in += retry["stubs"]
            # It has hardly begun.
            each = float(self._request["time_limit"])
            request["deadline"] = min(self._latest, time.monotonic() + each)
        else:
            _copy(retry["from"], os.path.join(request["cwd"], retry["copy"]))
        # It will be imported a second time: rather once, for all that follow.
        self._import_torch()

    def _import_torch(self) -> None:
        with contextlib.suppress(Exception):
            importlib.import_module("torch")
            self.heavy = True

    def _send(self, record: dict[str, Any]) -> None:
        if self._reversed and ("error" in record or "lost" in record):
            # With an answer that was only tried the script may well fail.
            question, file, line = self._reversed[-1]
            failed = record["error"]["message"] if "error" in record else record["lost"]
            record = {"note": f"{file}:{line}: with the other answer to {question}: {failed}"}
        self._channel.send({"record": record})


class Follower:
    """Reads a JSON-lines file that another process is writing.

    Args:
        path: need not exist yet.
    """

    def __init__(self, path: str) -> None:
        self.last: dict[str, Any] = {}
        self._path = path
        self._offset = 0

    def new(self) -> list[dict[str, Any]]:
        """The complete lines since the last call; a line that was cut off waits for its rest."""
        try:
            if os.path.getsize(self._path) <= self._offset:
                return []
            with open(self._path, "rb") as stream:
                stream.seek(self._offset)
                data = stream.read()
        except FileNotFoundError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        records: list[dict[str, Any]] = [json.loads(line) for line in whole.splitlines()]
        if records:
            self.last = records[-1]
        return records


def _run(capture: Any, request: dict[str, Any], path: str) -> None:
    write = writer(path)
    last: dict[str, Any] = {}

    def emit(record: dict[str, Any]) -> None:
        nonlocal last
        last = record
        write(record)

    sys.path[:] = [os.path.abspath(entry) for entry in sys.path]
    os.chdir(request["cwd"])
    capture(request, emit)
    # A retry is the last word; after anything else this one says that nothing is missing.
    if "retry" not in last:
        emit({"end": True})


def _copy(source: str, destination: str) -> None:
    """Copies a file or folder of the user's to where the script looks for it."""
    os.makedirs(os.path.dirname(destination), exist_ok=True)
    with contextlib.suppress(OSError):
        if os.path.isdir(source):
            if _size(source) <= MOST_COPY_BYTES:
                shutil.copytree(source, destination, dirs_exist_ok=True)
        elif os.path.getsize(source) <= MOST_COPY_BYTES:
            shutil.copyfile(source, destination)


def _size(folder: str) -> int:
    return sum(
        os.path.getsize(os.path.join(root, name))
        for root, _, names in os.walk(folder)
        for name in names
        if os.path.exists(os.path.join(root, name))
    )
