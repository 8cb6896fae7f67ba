"""What each instruction does, one file per class. Importing this package fills the registry."""

from . import (
    atomics,
    control,
    global_memory,
    half,
    integer,
    lanes,
    lds,
    lds_direct,
    masks,
    matrix,
    packed,
    real,
    scalar,
    scalar_memory,
    scratch,
)

__all__ = [
    "atomics",
    "control",
    "global_memory",
    "half",
    "integer",
    "lanes",
    "lds",
    "lds_direct",
    "masks",
    "matrix",
    "packed",
    "real",
    "scalar",
    "scalar_memory",
    "scratch",
]
