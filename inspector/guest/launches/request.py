"""The host's request for one run of a script."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..world.assumptions import Question

WRITING_SECONDS = 5.0
"""Time before a script's limit at which it is stopped, to write out the records."""


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
        like: whole numbers by argument: of each specialisation the launch that passes most of them
            is recorded, of several the largest.
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
    home: str
    deadline: float
    time_limit: float
    scratch: bool = False
    argv: Sequence[str] = ()
    calls: Sequence[str] = ()
    patterns: Sequence[str] = ()
    stubs: Sequence[str] = ()
    max_launches: int | None = None
    max_configs: int | None = None
    max_sets: int | None = None
    all_configs: bool = False
    axes: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    points: Sequence[Mapping[str, Any]] = ()
    like: Mapping[str, int] = field(default_factory=dict)
    arguments: bool = False
    finished: Sequence[str] = ()
    reversed: Sequence[Question] = ()
    emulation: Emulation = Emulation()

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> ScriptRequest:
        """A request from its JSON object; keys of other modes of capture are ignored."""
        names = {entry.name for entry in dataclasses.fields(cls)}
        stated = {n: v for n, v in fields.items() if n in names and v is not None}
        stated["path"] = os.path.abspath(fields["path"])
        stated.setdefault("home", os.getcwd())
        stated["reversed"] = [tuple(question) for question in stated.get("reversed", ())]
        return cls(**stated, emulation=Emulation(**fields.get("emulate") or {}))
