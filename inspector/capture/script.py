"""Captures the kernels of a .py file: what would be launched, as far as the file says.

The file is loaded in the user's interpreter, in a forked child of a guest process, and states its
specialisations in `KINSPECT_CASES` (see `guest/cases.py` for the keys). This module is the host's
side of that: it asks, and turns the answers into `Variant`s and `ErrorRecord`s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from kinspect.inspector.errors import KinspectError
from kinspect.inspector.model import ErrorRecord, SourceLoc, Variant

TIME_LIMIT = 120.0
"""Seconds that a file's imports and the front end over all its cases may take."""
GRACE_SECONDS = 10.0


class Guest(Protocol):
    """What is needed of a worker: `compiler.worker.Worker` is one."""

    def request(self, message: Mapping[str, Any], time_limit: float) -> dict[str, Any]:
        """Sends one request to the guest process and returns its reply."""
        ...


def capture_script(
    worker: Guest,
    path: Path,
    archs: Sequence[str],
    kernel: str | None = None,
    *,
    triton_version: str | None = None,
    time_limit: float = TIME_LIMIT,
) -> tuple[list[Variant], list[ErrorRecord]]:
    """The variants that a file's cases ask for, one per case and matching target.

    Args:
        worker: a guest process's channel.
        path: the .py file.
        archs: gfx names; a case may narrow them down.
        kernel: only the cases of this kernel.
        triton_version: noted in the variants.
        time_limit: seconds for the whole file; what was captured by then is kept.

    Raises:
        KinspectError: the file cannot be read, or the guest process cannot be started or died.
    """
    if not path.is_file():
        raise KinspectError(f"{path} is not a file", "name a .py file that defines kernels")
    if not archs:
        raise KinspectError(f"no target to compile {path} for", "name one with --arch, e.g. gfx942")
    reply = worker.request(
        {
            "op": "capture",
            "path": str(path.absolute()),
            "archs": list(archs),
            "kernel": kernel,
            "time_limit": time_limit,
        },
        time_limit + GRACE_SECONDS,
    )
    variants: list[Variant] = []
    errors: list[ErrorRecord] = []
    for record in reply["records"]:
        if "variant" in record:
            variants.append(_variant(record["variant"], triton_version))
        elif "error" in record:
            error = record["error"]
            errors.append(
                ErrorRecord(
                    str(path), error["kernel"], error["stage"], error["message"], error["hint"]
                )
            )
        else:
            errors.append(_lost(path, record, reply["output"], time_limit))
    if not variants and not errors:
        errors.append(_nothing(path, archs, kernel))
    return variants, errors


def _variant(fields: Mapping[str, Any], triton_version: str | None) -> Variant:
    grid = fields["grid"]
    return Variant(
        kernel=fields["kernel"],
        arch=fields["arch"],
        wave_size=fields["wave_size"],
        ttir=fields["ttir"],
        options=fields["options"],
        signature=fields["signature"],
        constexprs=fields["constexprs"],
        attrs=fields["attrs"],
        source=SourceLoc(fields["file"], fields["line"]),
        qualname=fields["qualname"],
        case=fields["case"],
        grid=tuple(grid) if grid is not None else None,
        triton_version=triton_version,
    )


def _lost(path: Path, record: Mapping[str, Any], output: str, time_limit: float) -> ErrorRecord:
    """A child that did not come back: while the file loaded, or in the front end of one case."""
    outcome = record["lost"]
    in_case = "case" in record
    doing = f"case {record['case']!r} for {record['arch']}" if in_case else "loading the file"
    hint = 'put what should run only as a script under `if __name__ == "__main__":`'
    if in_case:
        hint = "leave the case out, or try another Triton (--python)"
    if outcome["reason"] == "timeout":
        how = f"did not finish within {time_limit:g} s"
        hint = f"{hint}; or raise --time-limit"
    elif outcome["reason"] == "signal":
        how = f"crashed ({outcome['signal'] or outcome['code']})"
    else:
        how = f"ended the interpreter (status {outcome['code']})"
    last = [line.strip() for line in output.splitlines() if line.strip()][-1:]
    said = f'; the last thing it printed is "{last[0]}"' if last else ""
    stage = "frontend" if in_case else "capture"
    return ErrorRecord(str(path), record.get("kernel"), stage, f"{path}: {doing} {how}{said}", hint)


def _nothing(path: Path, archs: Sequence[str], kernel: str | None) -> ErrorRecord:
    of = f" of kernel {kernel!r}" if kernel is not None else ""
    message = f"{path}: no case{of} is meant for {', '.join(archs)}"
    return ErrorRecord(str(path), kernel, "capture", message, "see 'archs' in its KINSPECT_CASES")
