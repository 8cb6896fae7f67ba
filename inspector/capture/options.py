"""What a user can say about a capture."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

TIME_LIMIT = 120.0
"""Seconds that one run of a script may take, the front end over its kernels included."""
MOST_CONFIGS = 8
"""Autotune configurations of one launch that are looked at unless more are asked for."""
MOST_SETS = 3
"""Parameter sets of one test that are run unless more are asked for."""
EMULATE_SECONDS = 5.0
"""Seconds in which kernels are executed for values that a script reads back, unless told."""
LEAST_MEMORY = 8 << 30


def physical_memory() -> int:
    """The machine's memory in bytes, 8 GiB at least: what a script may map unless told."""
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return LEAST_MEMORY
    return max(size, LEAST_MEMORY)


class CaptureOptions(Struct, frozen=True):
    """How to find out what a script launches.

    Args:
        argv: the script's own arguments.
        calls: expressions to evaluate in the file's namespace instead of running it.
        signature: types of the kernel's arguments, stated instead of running anything.
        defines: `NAME=VALUE` texts: constexprs and options for `signature`.
        max_configs: autotune configurations of one launch to look at; None for all.
        most_sets: parameter sets of each pytest test and x values of each of Triton's benchmarks
            that are run; None for all.
        first: launches after which the script is stopped; None for no limit.
        cwd: where the script runs; None for a scratch folder that is removed afterwards.
        time_limit: seconds for each run.
        memory_limit: bytes of address space a run may map; None for the machine's memory.
        stubs: modules for which an inert stand-in is imported.
        axes: a sweep's names and values; those that are parameters of a kernel are launched anew.
        most_tuned: points of the TUNING spaces of a file's cases, all together, where max_configs
            is None; None for no limit.
        all_configs: a sweep over axes goes over the autotune configurations as well.
        trust_trace: what a trace or a file of Inductor's names may be imported and run where a
            kernel cannot be made of its source alone.
        strict: a kernel that rests on an assumption is an error.
        explore: further runs of a script, with other answers to what nobody knows.
        emulate_budget: seconds that each run may take to compute what kernels wrote, where the
            script reads it; 0 for not at all.
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
    all_configs: bool = False
    trust_trace: bool = False
    strict: bool = False
    explore: int = 0
    emulate_budget: float = EMULATE_SECONDS
