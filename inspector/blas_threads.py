"""NumPy without threads of its own, for runs that are over before they would pay.

OpenBLAS starts a thread for each further CPU when NumPy is imported, which takes a quarter of the
import's CPU time. The analysis multiplies no matrices.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_VARIABLE: Final = "OPENBLAS_NUM_THREADS"


@contextmanager
def no_blas_threads() -> Iterator[None]:
    """Lets NumPy start no threads if it is imported inside; the user's own setting wins."""
    if "numpy" in sys.modules or _VARIABLE in os.environ:
        yield
        return
    os.environ[_VARIABLE] = "1"
    try:
        yield
    finally:
        os.environ.pop(_VARIABLE, None)
