"""Runs compiles on a Dask cluster, for sweeps and trials that outgrow one machine."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ..base.errors import KinspectError
from ..base.version import VERSION
from ..pipeline.jobs import Job

if TYPE_CHECKING:
    from ..compile.pool import Compiler

CONNECT_SECONDS = 10.0
"""Time that a scheduler may take to answer, and to let go."""


class ExpectedSoftware(Struct, frozen=True):
    """The software that a worker must have for its results to be those of this machine.

    `host` is the machine that asks; `own_python` lets a worker compile with the interpreter that
    it runs in, where the user named none.
    """

    version: str
    triton_key: str
    host: str
    own_python: bool


@contextmanager
def connected(address: str) -> Iterator[Executor]:
    """A cluster's executor, until the block ends.

    Args:
        address: address of the scheduler, e.g. `tcp://host:8786`.

    Raises:
        KinspectError: Dask is not installed, nobody answers there, or there are no workers.
    """
    try:
        # Half a second: only for those who have a cluster.
        from distributed import Client
    except ImportError:
        raise KinspectError(
            "--scheduler needs Dask, which is not installed", "pip install 'kinspect[dask]'"
        ) from None
    try:
        client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        message = " ".join(str(error).split())
        raise KinspectError(
            f"no Dask scheduler answers at {address}: {message}", "start one with: dask scheduler"
        ) from None
    try:
        if not client.scheduler_info(n_workers=-1)["workers"]:
            raise KinspectError(
                f"the Dask scheduler at {address} has no workers",
                f"start some with: dask worker {address} --nthreads 1",
            )
        yield client.get_executor()
    finally:
        with suppress(Exception):  # the results are here; a lost scheduler takes nothing back
            client.close(timeout=CONNECT_SECONDS)


class HostedOutcome(Protocol):
    """A struct with the outcome of a job, and the machine that has the artifacts."""

    @property
    def host(self) -> str | None:
        """None for the machine that asks."""
        ...


Hosted = TypeVar("Hosted", bound=HostedOutcome)


def work_for(
    triton_key: str, python: str | None, task: Callable[[Job, Compiler], Hosted]
) -> Callable[[Job], Hosted]:
    """The function of the cluster's tasks: a picklable `task` that checks its machine first.

    Args:
        python: the interpreter that the user named; None for each worker's own.
        task: what is done with a job: a function of a module.
    """
    expected = ExpectedSoftware(VERSION, triton_key, socket.gethostname(), python is None)
    return partial(_run_there, expected, task)


def _run_there(
    expected: ExpectedSoftware, task: Callable[[Job, Compiler], Hosted], job: Job
) -> Hosted:
    """Runs in a worker."""
    from ..compile.pool import compiler_of_process

    host = socket.gethostname()
    if expected.version != VERSION:
        raise KinspectError(
            f"the worker on {host} has kinspect {VERSION}, not {expected.version}",
            "install the same version there",
        )
    if expected.own_python:
        job = replace(job, settings=replace(job.settings, python=sys.executable))
    compiler = compiler_of_process(job.settings)
    if compiler.toolchain().triton_key != expected.triton_key:
        raise KinspectError(
            f"the worker on {host} has another build of Triton"
            f" ({compiler.toolchain().triton_version})",
            "install the same one there: another compiler gives other code",
        )
    outcome: Any = task(job, compiler)
    hosted: Hosted = replace(outcome, host=host if host != expected.host else None)
    return hosted
