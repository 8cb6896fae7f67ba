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
    """The device that the kernels ran on.

    Args:
        kind: `cpu`, `cuda` or `emulated`.
        backend: `interpreter`, `hip` or `cuda`.
        name: its name for people.
        arch: gfx name or sm_NN; empty for the interpreter.
        torch: PyTorch's version.
        triton: Triton's version.
    """

    kind: str
    backend: str
    name: str
    arch: str
    torch: str
    triton: str


class CaseCheck(Struct, frozen=True):
    """One case.

    Args:
        case: its name.
        status: one of `STATUSES`.
        message: what is wrong, or why it was skipped; empty for a case that passed.
        seconds: time of the launch, with compilation; None where it was not launched.
        max_abs: greatest absolute error over finite values; None where nothing was compared.
        max_rel: greatest relative error over finite values, where other than 0 is expected.
        share: greatest error over what is allowed there; infinite where nothing is.
        atol: absolute tolerance.
        rtol: relative tolerance.
        upcast: bfloat16 inputs were handed over as float32.
        detail: traceback of an error.
    """

    case: str
    status: str
    message: str = ""
    seconds: float | None = None
    max_abs: float | None = None
    max_rel: float | None = None
    share: float | None = None
    atol: float | None = None
    rtol: float | None = None
    upcast: bool = False
    detail: str = ""


class KernelCheck(Struct, frozen=True):
    """One kernel file.

    Args:
        name: the kernel's name.
        path: path of its file.
        arch: gfx name of the emulated GPU that it was checked on; empty for other devices.
        cases: the checked ones among the requested cases, in the file's order.
        case_names: names of all cases in the file.
        problem: why the file could not be checked at all, or not to its end; with what to do.
        seconds: wall time of all of it.
    """

    name: str
    path: str
    cases: tuple[CaseCheck, ...]
    arch: str = ""
    case_names: tuple[str, ...] = ()
    problem: str = ""
    seconds: float = 0.0

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
        cases: entries of CASES, as plain data.
        bench: entries of BENCH.
        tuning: option -> values.
        compiled: name, kernel and archs of each entry of KINSPECT_CASES.
    """

    cases: tuple[Mapping[str, Any], ...]
    bench: tuple[Mapping[str, Any], ...]
    tuning: Mapping[str, Any]
    compiled: tuple[Mapping[str, Any], ...]
