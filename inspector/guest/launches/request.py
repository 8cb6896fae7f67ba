"""The host's request for one run of a script."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..world.assumptions import Question


@dataclass(frozen=True)
class Emulation:
    """Whether kernels are executed, so that the script can read the memory that they wrote.

    Args:
        command: starts the emulator; None if kernels are not executed.
        reason: why kernels are not executed, as `RefusedError` takes it.
        seconds: time for all launches of the run together.
    """

    command: Sequence[str] | None = None
    reason: str = "off"
    detail: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class ScriptRequest:
    """One run of a script for one GPU, from a JSON object (`inspector/capture/script.py`).

    The object's keys are the fields' names, except for `emulate`, which becomes `emulation`.

    Args:
        device: properties of the GPU that the script sees; see `StandInDevice.of`.
        generated: folder for the code that torch.compile generates.
        scratch: whether `cwd` is an empty folder made for this run.
        home: the folder that the user called kinspect in.
        max_launches: launches after which the script is ended; None for no limit.
        max_configs: how many configurations of each autotuner to capture; None for all.
        max_sets: how many parameter sets of each test to run; None for all.
        all_configs: whether a sweep covers every configuration of autotuned kernels.
        axes: of a sweep: name of an argument -> values.
        points: of a sweep: arguments to launch with, in place of the product of axes.
        deadline: when the parent ends this process, by `time.monotonic`.
        time_limit: seconds from which the deadline was made, for messages.
        finished: keys of specialisations that earlier runs recorded or crashed at.
        reversed: questions without a known answer that are answered the other way in this run. If
            there are any, only specialisations that no earlier run had are recorded.
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
    patterns: Sequence[str]
    stubs: Sequence[str]
    max_launches: int | None
    max_configs: int | None
    max_sets: int | None
    all_configs: bool
    axes: Mapping[str, Sequence[Any]]
    points: Sequence[Mapping[str, Any]]
    arguments: bool
    deadline: float
    time_limit: float
    finished: Sequence[str]
    reversed: Sequence[Question]
    emulation: Emulation

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> ScriptRequest:
        """A request from its JSON object; keys of other modes of capture are ignored."""
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
            patterns=fields.get("patterns") or (),
            stubs=list(fields.get("stubs") or ()),
            max_launches=fields.get("max_launches"),
            max_configs=fields.get("max_configs"),
            max_sets=fields.get("max_sets"),
            all_configs=bool(fields.get("all_configs")),
            axes=fields.get("axes") or {},
            points=fields.get("points") or (),
            arguments=bool(fields.get("arguments")),
            deadline=float(fields["deadline"]),
            time_limit=float(fields["time_limit"]),
            finished=fields.get("finished") or (),
            reversed=[tuple(question) for question in fields.get("reversed") or ()],
            emulation=Emulation(**fields.get("emulate") or {}),
        )
