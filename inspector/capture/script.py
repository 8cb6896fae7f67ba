"""Captures the kernels of a .py file: what would be launched, as far as the file says.

The file is loaded in the user's interpreter, in a forked child of a guest process, and states its
specialisations in `KINSPECT_CASES` (`guest/cases/case.py` has its keys). This module is the host's
side of that: it asks, and turns the answers into `Variant`s and `ErrorRecord`s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    wanted: Sequence[str] = (),
    *,
    triton_version: str | None = None,
    time_limit: float = TIME_LIMIT,
) -> tuple[list[Variant], list[ErrorRecord]]:
    """The variants that a file's cases ask for, one per case and matching target.

    Args:
        worker: a guest process's channel.
        path: the .py file.
        archs: gfx names; a case may narrow them down.
        wanted: only the cases whose kernel's name or qualified name, whose own name, or whose
            `kernel[case]` each of these fnmatch patterns matches. The other cases are neither
            lowered nor do their errors count.
        triton_version: noted in the variants.
        time_limit: seconds for the whole file; what was captured by then is kept.

    Returns:
        The variants, and the errors: one for all targets for which a case fails alike.

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
            "wanted": list(wanted),
            "time_limit": time_limit,
        },
        time_limit + GRACE_SECONDS,
    )
    variants: list[Variant] = []
    failures: dict[_Failure, list[str]] = {}
    for record in reply["records"]:
        if "variant" in record:
            variants.append(_variant(record["variant"], triton_version))
            continue
        if "error" in record:
            failure, arch = _failure(record["error"]), record["error"]["arch"]
        else:
            failure, arch = _lost(path, record, reply["output"], time_limit), record.get("arch")
        failures.setdefault(failure, []).extend([arch] if arch is not None else [])
    return variants, [f.as_record(path, alike) for f, alike in failures.items()]


@dataclass(frozen=True, slots=True)
class _Failure:
    """What went wrong, without the target: equal for all the targets that fail alike.

    `place` is the file, or a line in it; None where `text` names it itself.
    """

    kernel: str | None
    case: str | None
    stage: str
    place: str | None
    text: str
    hint: str

    def as_record(self, path: Path, archs: Sequence[str]) -> ErrorRecord:
        message = self.text
        if self.place is not None:
            doing = f"case {self.case!r} for {', '.join(archs)}: " if archs else ""
            message = f"{self.place}: {doing}{self.text}"
        label = f"{self.kernel}[{self.case}]" if self.kernel and self.case else self.kernel
        return ErrorRecord(str(path), label, self.stage, message, self.hint)


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


def _failure(error: Mapping[str, Any]) -> _Failure:
    return _Failure(
        error["kernel"],
        error["case"],
        error["stage"],
        error["place"],
        error["message"],
        error["hint"],
    )


def _lost(path: Path, record: Mapping[str, Any], output: str, time_limit: float) -> _Failure:
    """A child that did not come back: while the file loaded, or in the front end of one case."""
    outcome = record["lost"]
    in_case = "case" in record
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
    text = f"the front end {how}{said}" if in_case else f"loading the file {how}{said}"
    stage = "frontend" if in_case else "capture"
    return _Failure(record.get("kernel"), record.get("case"), stage, str(path), text, hint)
