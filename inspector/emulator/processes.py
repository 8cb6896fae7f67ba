"""One launch by several processes: forks of this one execute parts of the grid on shared memory.

This needs workgroups that nothing but memory connects, and code that cannot observe the order in
which they run: no atomics, no accesses that are coherent in the whole device, no clock. Races
remain: they are looked for between the parts as within them, and where there is one, or a part
fails, the launch has to be executed again by one process.
"""

from __future__ import annotations

import copy
import os
import pickle
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct

from ..base.interrupting import interrupts_held
from ..base.lifetimes import die_with
from .access_figures import Spans
from .checks.checking import CheckingMachine
from .checks.global_shadow import Granules
from .counts import AccessCount, AccessCounter
from .lockstep import LaunchLimits
from .machine import Trouble
from .program import PreparedCode, is_coherent

Array = np.ndarray[Any, Any]

MOST_PROCESSES: Final = 8
"""Processes: past that, memory is what they wait for."""
_CLOCKS: Final = frozenset(
    {"s_memtime", "s_memrealtime", "s_sendmsg_rtn_b64", "s_get_shader_cycles_u64"}
)


class NotIndependentError(Exception):
    """Shares raced, or a fork failed: one process has to execute the whole launch.

    Memory has been changed by then.
    """


class ShareResult(Struct, frozen=True):
    """The results of one process's workgroups.

    `executed`: instructions that the waves of each workgroup executed, int64 [workgroup]. `blocks`:
    for each block of code, waves that went through, that branched, that were divided.
    """

    executed: Array
    blocks: list[tuple[int, int, int]]
    troubles: list[Trouble]
    accesses: dict[tuple[int, str], AccessCount]
    spans: dict[int, list[Spans]]
    written: list[int]
    granules: dict[int, Granules]


def _share_result(
    executed: Array,
    code: PreparedCode,
    machine: CheckingMachine,
    counts: AccessCounter | None,
    *,
    forked: bool,
) -> ShareResult:
    """Returns what a process that executed a share of the workgroups hands over.

    `forked`: whether it is another process than the one that is handed this.
    """
    return ShareResult(
        executed,
        code.tallies,
        list(machine.troubles.values()),
        counts.accesses if counts is not None else {},
        counts.touched.folded() if forked and counts is not None else {},
        [b.address for b in machine.memory.buffers if b.words is not None and b.words.written],
        machine.granules(),
    )


def _add_share(
    result: ShareResult, code: PreparedCode, machine: CheckingMachine, counts: AccessCounter | None
) -> None:
    """Adds what another process has done; see `_share_result`."""
    code.add(result.blocks)
    for trouble in result.troubles:
        machine.note(trouble.kind, trouble.site, trouble.detail)
    if counts is not None:
        counts.add(result.accesses, result.spans)
    for address in result.written:
        buffer = machine.memory.buffer_at(address)
        if buffer is not None and buffer.words is not None:
            buffer.words.written = True


def usable_processes() -> int:
    """How many processes may work at once; 1 where forks are not safe."""
    if sys.platform != "linux" or threading.active_count() > 1:
        return 1
    return min(len(os.sched_getaffinity(0)), MOST_PROCESSES)


def has_independent_workgroups(code: PreparedCode) -> bool:
    """Returns whether workgroups cannot learn anything of one another, unless they race."""
    for instruction, decoded in zip(code.function.instructions, code.decoded, strict=True):
        if instruction.cls == "atomic" or decoded.name in _CLOCKS:
            return False
        if decoded.name == "s_getreg_b32" and "SHADER_CYCLES" in decoded.text:
            return False
        if is_coherent(decoded) and instruction.cls.startswith("global_"):
            return False
    return True


def execute_in_processes(
    shares: Sequence[Array],
    execute: Callable[[Array], Array],
    code: PreparedCode,
    machine: CheckingMachine,
    limits: LaunchLimits,
    counts: AccessCounter | None,
) -> Array:
    """Executes each share of the workgroups in a process of its own, the first in this one.

    `execute`: see `GridRunner.run`; of `machine`, `code`, `limits` and `counts`.

    Raises:
        NotIndependentError: as `_execute_shares`; the counts are as before.
    """
    own = os.getpid()

    def execute_share(share: Array) -> ShareResult:
        forked = os.getpid() != own
        if forked:  # what came before is the parent's
            machine.troubles = {}
            limits.watch = None
            code.recount([(0, 0, 0)] * len(code.blocks))
            if counts is not None:
                counts.begin()
        return _share_result(execute(share), code, machine, counts, forked=forked)

    tallies = code.tallies
    accesses = {} if counts is None else copy.deepcopy(counts.accesses)
    try:
        results = _execute_shares(shares, execute_share)
    except NotIndependentError:
        code.recount(tallies)
        if counts is not None:
            counts.begin(accesses)
        raise
    for result in results[1:]:  # the first is this process's own
        _add_share(result, code, machine, counts)
    return np.concatenate([result.executed for result in results])


def _execute_shares(
    shares: Sequence[Array], execute: Callable[[Array], ShareResult]
) -> list[ShareResult]:
    """Executes each share of workgroups, the first in this process.

    `execute`: executes a share; in a fork it may change anything of this process's.

    Raises:
        NotIndependentError: a fork could not be had or failed, or shares raced.
        Exception: whatever `execute` raises for the first share.
    """
    children: list[tuple[int, int]] = []
    try:
        children.extend(_fork(share, execute) for share in shares[1:])
        parts = [execute(shares[0])]
        while children:
            child, descriptor = children[0]
            with os.fdopen(descriptor, "rb") as stream:
                raw = stream.read()
            children.pop(0)
            os.waitpid(child, 0)
            if not raw:
                raise NotIndependentError
            # Written by a fork of this very process.
            parts.append(pickle.loads(raw))
    finally:
        for child, descriptor in children:
            os.close(descriptor)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    if _raced([part.granules for part in parts]):
        raise NotIndependentError
    return parts


def _fork(share: Array, execute: Callable[[Array], ShareResult]) -> tuple[int, int]:
    """Forks a child that executes a share; returns its pid, and the pipe to read its part from."""
    reading, writing = os.pipe()
    parent = os.getpid()
    try:
        with warnings.catch_warnings():
            # BLAS may have threads, which it stops and starts again around a fork.
            warnings.simplefilter("ignore", DeprecationWarning)
            with interrupts_held():
                child = os.fork()
                if not child:  # Ctrl-C is for the parent, which ends this one
                    signal.signal(signal.SIGINT, signal.SIG_IGN)
    except OSError:
        os.close(reading)
        os.close(writing)
        raise NotIndependentError from None
    if child:
        os.close(writing)
        return child, reading
    status = 1
    try:
        die_with(parent)
        os.close(reading)
        raw = pickle.dumps(execute(share), pickle.HIGHEST_PROTOCOL)
        with os.fdopen(writing, "wb") as stream:
            stream.write(raw)
        status = 0
    finally:
        os._exit(status)  # no `except`: nothing of the parent's may run here


def _raced(parts: Sequence[dict[int, Granules]]) -> bool:
    """Whether one part wrote what another one read or wrote."""
    written: dict[int, Granules] = {}
    for granules in parts:
        for address, own in granules.items():
            before = written.get(address)
            if before is None:
                written[address] = own
                continue
            size = min(before.size, own.size)
            (wrote, read), (writes, reads) = (_finer(each, size) for each in (before, own))
            common = min(len(wrote), len(writes))  # more is what is left of the last granule
            wrote, read, writes, reads = (bits[:common] for bits in (wrote, read, writes, reads))
            if (wrote & writes).any() or (wrote & reads).any() or (read & writes).any():
                return True
            written[address] = Granules(size, wrote | writes, read | reads)
    return False


def _finer(granules: Granules, size: int) -> tuple[Array, Array]:
    """Returns the written and the read granules, in granules of `size` bytes."""
    times = granules.size // size
    written = np.repeat(granules.written, times)
    read = np.zeros(len(written), bool)
    if granules.read is not None:
        read = np.repeat(granules.read, times)
    return written, read
