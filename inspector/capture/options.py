"""What to capture: the user's options, and the plan for one file.

The patterns that select kernels: of a name, of a case, or of both as `name[case]`.

`guest/kernel_patterns.py` has the same in the user's interpreter.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from msgspec import Struct, field

TIME_LIMIT = 120.0
"""Seconds that one run of a script may take, including the front end over its kernels."""
MOST_CONFIGS = 8
"""Default limit of the autotune configurations of one launch."""
MOST_SETS = 3
"""Default limit of the parameter sets of one test."""
EMULATE_SECONDS = 5.0
"""Default limit of the seconds in which kernels are executed for values that a script reads."""
MIN_MEMORY = 8 << 30
"""Bytes of address space that a run may map at least."""


def physical_memory() -> int:
    """The machine's memory in bytes, at least `MIN_MEMORY`: what a script may map by default."""
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return MIN_MEMORY
    return max(size, MIN_MEMORY)


class CaptureOptions(Struct, frozen=True):
    """How to find the launches of a script.

    Args:
        calls: expressions to evaluate in the file's namespace instead of running it.
        signature: types of the kernel's arguments, stated instead of running anything.
        max_configs: limit of the autotune configurations of one launch; None for all.
        most_sets: limit of the parameter sets of each pytest test, and of the x values of each of
            Triton's benchmarks; None for all.
        first: launches after which the script is stopped; None for no limit.
        cwd: the folder in which the script runs; None for a scratch folder.
        time_limit: seconds for each run.
        memory_limit: bytes of address space that a run may map; None for the machine's memory.
        axes: a sweep's names and values; a kernel is launched again for each of its parameters.
        points: values of parameters that a kernel is launched with, in place of a product of axes;
            those that name what a kernel does not have are left out for it.
        like: whole numbers by argument: of each specialisation the launch that passes most of them
            is recorded, of several the largest.
        most_tuned: limit of the points of all TUNING spaces of a file together, where max_configs
            is None; None for no limit.
        all_configs: whether a sweep covers all autotune configurations.
        trust_trace: whether modules that a trace or Inductor's file names may be imported, where a
            kernel cannot be made from its source alone.
        explore: how many further runs of a script to make, with other answers to questions
            without a known answer.
        emulate_budget: seconds that each run may take to execute kernels whose results the script
            reads; 0 not to execute any.
    """

    argv: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    signature: str | None = None
    defines: tuple[str, ...] = ()
    max_configs: int | None = MOST_CONFIGS
    most_tuned: int | None = None
    most_sets: int | None = MOST_SETS
    first: int | None = None
    cwd: Path | None = None
    time_limit: float = TIME_LIMIT
    memory_limit: int | None = None
    stubs: tuple[str, ...] = ()
    axes: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    points: tuple[Mapping[str, Any], ...] = ()
    like: Mapping[str, int] = field(default_factory=dict)
    all_configs: bool = False
    trust_trace: bool = False
    strict: bool = False
    explore: int = 0
    emulate_budget: float = EMULATE_SECONDS
    arguments: bool = False


class CapturePlan(Struct, frozen=True):
    """One capture of a file.

    Args:
        mode: `script`, `cases`, `inductor` or `trace`; see `script.mode_of`.
        devices: gfx name -> properties of the device that a script sees.
        folder: scratch, on this machine; the caller removes it.
        generated: folder for the code that torch.compile generates, whose lines reports name; None
            for the scratch folder.
        not_emulated: gfx name -> why launches for it cannot be executed.
    """

    path: Path
    mode: str
    archs: tuple[str, ...]
    devices: Mapping[str, Mapping[str, Any]]
    folder: Path
    patterns: tuple[str, ...] = ()
    options: CaptureOptions = field(default_factory=CaptureOptions)
    triton_version: str | None = None
    generated: Path | None = None
    emulator: tuple[str, ...] = ()
    not_emulated: Mapping[str, str] = field(default_factory=dict)


_NAME = re.compile(r"[\w.*?<>]*")


def matches(patterns: Sequence[str], names: Sequence[str]) -> bool:
    """Whether each pattern matches one of the names; brackets are literal, `*` and `?` not."""
    return all(any(fnmatchcase(n, p.replace("[", "[[]")) for n in names) for p in patterns)


def select_cases(patterns: Sequence[str]) -> bool:
    """Whether one selects among the cases of launches, which are known when all are: `k[BLOCK=64]`.

    Cases that a file states are known before, by any name.
    """
    return not all(map(_NAME.fullmatch, patterns))


def choosing(file: str, patterns: Sequence[str], names: Sequence[str]) -> str:
    """The command that selects the kernel whose name is most like a pattern that none matches."""
    near = [name for p in patterns for name in get_close_matches(p, names, n=1)]
    near += [name for name in names if all(p in name for p in patterns)] or names
    return f"`kinspect analyze {shlex.quote(file)} --kernel {shlex.quote(near[0])}`"
