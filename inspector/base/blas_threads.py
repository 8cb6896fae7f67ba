"""NumPy without threads of its own, for runs that are over before they would pay.

OpenBLAS starts a thread for each further CPU when NumPy is imported, which takes a quarter of the
import's CPU time. The analysis multiplies no matrices. That is decided once for a process, so only
where it is kinspect's own: in a script or notebook, NumPy works for others as well.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_VARIABLE: Final = "OPENBLAS_NUM_THREADS"
_owns_process = False


def own_process() -> None:
    """Says that nobody else uses this process's NumPy."""
    global _owns_process
    _owns_process = True


@contextmanager
def no_blas_threads() -> Iterator[None]:
    """Lets NumPy start no threads if it is imported inside, in a process of kinspect's own.

    The user's own setting wins.
    """
    if not _owns_process or "numpy" in sys.modules or _VARIABLE in os.environ:
        yield
        return
    os.environ[_VARIABLE] = "1"
    try:
        yield
    finally:
        os.environ.pop(_VARIABLE, None)
