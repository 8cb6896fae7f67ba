"""What the user states of the compile of HIP sources."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

VARIABLE = "KINSPECT_HIP_COMPILER"
"""The compiler, where --hip-compiler does not name one."""


class HipOptions(Struct, frozen=True):
    """How HIP sources are compiled.

    Args:
        compiler: name or path of the compiler; None for `VARIABLE`, or what is installed.
        instances: template kernels to compile besides those that the file launches:
            `gemm<128, 64>`.
        root: the only folder that the source may include from, besides the system's; None for
            where files may name others, and for folders of `flags`.
        waves_per_eu: waves on a SIMD that the registers of all kernels are held down for; None
            for what the source states.
        values: of macros, and of parameters of template kernels, by name.
    """

    flags: tuple[str, ...] = ()
    compiler: str | None = None
    instances: tuple[str, ...] = ()
    seconds: float = 300.0
    root: Path | None = None
    waves_per_eu: int | None = None
    values: Mapping[str, Any] = {}

    @property
    def defining(self) -> tuple[str, ...]:
        """The flags, and `-DTILE=64` for each value."""
        numbers = {k: int(v) if isinstance(v, bool) else v for k, v in self.values.items()}
        return (*self.flags, *(f"-D{name}={value}" for name, value in numbers.items()))
