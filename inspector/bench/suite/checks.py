"""The results of checks of kernel files, and the contents of kernel files: plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

PASSED, FAILED, ERROR, CRASHED, SKIPPED = "passed", "failed", "error", "crashed", "skipped"
STATUSES = (PASSED, FAILED, ERROR, CRASHED, SKIPPED)
"""`failed`: a wrong result; `error`: an exception; `crashed`: the process ended, or took too long.
"""


class CheckedDevice(Struct, frozen=True):
    """The device that the kernels ran on."""

    kind: str  # `cpu`, `cuda` or `emulated`
    backend: str  # `interpreter`, `hip` or `cuda`
    name: str  # its name for people
    arch: str  # gfx name or sm_NN; empty for the interpreter
    torch: str  # PyTorch's version
    triton: str  # Triton's version


class CaseCheck(Struct, frozen=True):
    """One case.

    Args:
        seconds: time of the launch, with compilation; None where it was not launched.
        max_abs: greatest absolute error over finite values; None where nothing was compared.
        max_rel: greatest relative error over finite values, where other than 0 is expected.
        share: greatest error over what is allowed there; infinite where nothing is.
    """

    case: str  # its name
    status: str  # one of `STATUSES`
    message: str = ""  # what is wrong, or why it was skipped; empty for a case that passed
    seconds: float | None = None
    max_abs: float | None = None
    max_rel: float | None = None
    share: float | None = None
    atol: float | None = None  # absolute tolerance
    rtol: float | None = None  # relative tolerance
    upcast: bool = False  # bfloat16 inputs were handed over as float32
    detail: str = ""  # traceback of an error


class KernelCheck(Struct, frozen=True):
    """One kernel file.

    Args:
        problem: why the file could not be checked at all, or not to its end; with what to do.
    """

    name: str  # the kernel's name
    path: str  # path of its file
    cases: tuple[CaseCheck, ...]  # the checked ones among the requested cases, in the file's order
    arch: str = ""  # gfx name of the emulated GPU that it was checked on; empty for other devices
    case_names: tuple[str, ...] = ()  # names of all cases in the file
    problem: str = ""
    seconds: float = 0.0  # wall time of all of it

    def count(self, status: str) -> int:
        """The number of cases with this status."""
        return sum(case.status == status for case in self.cases)

    @property
    def wrong(self) -> int:
        """The number of cases that neither passed nor were skipped."""
        return len(self.cases) - self.count(PASSED) - self.count(SKIPPED)


class Description(Struct, frozen=True):
    """The contents of a kernel file, as loading it shows.

    Args:
        compiled: name, kernel and archs of each entry of KINSPECT_CASES.
    """

    cases: tuple[Mapping[str, Any], ...]  # entries of CASES, as plain data
    bench: tuple[Mapping[str, Any], ...]  # entries of BENCH
    tuning: Mapping[str, Any]  # option -> values
    compiled: tuple[Mapping[str, Any], ...]
