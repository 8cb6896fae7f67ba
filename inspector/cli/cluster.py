"""The executor of sweeps and trials: threads of this process, or a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

from ..pipeline.jobs import Request, settings_of


@contextmanager
def executor_for(
    scheduler: str | None, run: Request, python: str | None, task: Callable[..., Any]
) -> Iterator[tuple[Executor | None, Callable[..., Any] | None]]:
    """Yields a cluster's executor and its tasks; (None, None) for this machine's threads.

    Args:
        scheduler: address of the cluster; None for none.
        python: the interpreter of the user's Triton, if it is not this one.

    Raises:
        KinspectError: the cluster cannot be reached, or has another Triton.
    """
    if scheduler is None:
        yield None, None
        return
    from ..compare import cluster
    from ..compile.pool import Compiler

    with Compiler(settings_of(run)) as compiler:
        work = cluster.work_for(compiler.toolchain().triton_key, python, task)
    with cluster.connected(scheduler) as executor:
        yield executor, work
