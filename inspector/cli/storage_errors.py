"""Errors of the places that results are stored in: history, baseline, saved report, cache.

Such an error is printed and makes the exit status 2; the result itself is printed all the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ..base.errors import KinspectError
from ..base.staging import scratch_folder
from .progress import print_error

_CACHE = "KINSPECT_CACHE_DIR"
_reported = False


def report_storage_error(error: KinspectError) -> None:
    """Prints that a result could not be stored, and has the command end with status 2."""
    global _reported
    _reported = True
    print_error(str(error))


@contextmanager
def storing() -> Iterator[None]:
    """Reports an error of the block, which stores a result, instead of raising it."""
    try:
        yield
    except KinspectError as error:
        report_storage_error(error)


def take_reported() -> bool:
    """Whether a storage error was reported since the last call; forgets it."""
    global _reported
    reported, _reported = _reported, False
    return reported


@contextmanager
def usable_cache() -> Iterator[None]:
    """Has the block use a temporary cache folder where the user's cannot be written."""
    from ..compile.store import Store

    store = Store()
    try:
        store.root.mkdir(parents=True, exist_ok=True)
        refusal = store.refusal(store.root)
    except OSError as error:
        refusal = error
    if refusal is None:
        yield
        return
    report_storage_error(store.unwritable(refusal))
    before = os.environ.get(_CACHE)
    with scratch_folder() as folder:
        os.environ[_CACHE] = str(folder)
        try:
            yield
        finally:
            if before is None:
                del os.environ[_CACHE]
            else:
                os.environ[_CACHE] = before
