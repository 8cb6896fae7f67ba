"""What each instruction does, one file per class. Importing this package fills the registry."""

from . import (
    control,
    global_memory,
    integer,
    lanes,
    lds,
    masks,
    matrix,
    packed,
    real,
    scalar,
    scalar_memory,
)

__all__ = [
    "control",
    "global_memory",
    "integer",
    "lanes",
    "lds",
    "masks",
    "matrix",
    "packed",
    "real",
    "scalar",
    "scalar_memory",
]
