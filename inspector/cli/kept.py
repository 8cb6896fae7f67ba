"""Places that a result is to be kept in and that cannot be used: the result is printed anyway."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ..base.errors import KinspectError
from ..base.staging import scratch_folder
from .progress import print_error

_CACHE = "KINSPECT_CACHE_DIR"
_failed = False


def say_unkept(error: KinspectError) -> None:
    """Says that a result could not be kept, at once and in the exit status."""
    global _failed
    _failed = True
    print_error(str(error))


@contextmanager
def keeping() -> Iterator[None]:
    """Says an error of the block, which keeps a result, and goes on."""
    try:
        yield
    except KinspectError as error:
        say_unkept(error)


def something_failed() -> bool:
    """Whether `keeping` has said an error since this was last asked."""
    global _failed
    failed, _failed = _failed, False
    return failed


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
    say_unkept(store.unwritable(refusal))
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
