"""The guest's reports of what could not be captured, as errors that a user can act on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ..model import ErrorRecord
from ..printable import printable


class Refusal(Struct, frozen=True):
    """What went wrong, without the target: equal for all the targets that fail alike.

    `place` is the file, or a line in it; None where `text` names it itself.
    """

    kernel: str | None
    case: str | None
    stage: str
    place: str | None
    text: str
    hint: str

    def as_record(self, path: Path, archs: Sequence[str], output: str = "") -> ErrorRecord:
        """The error, for the targets that it is about; none means all.

        Args:
            path: the file that was captured.
            archs: gfx names.
            output: what the user's code printed, where that may explain it.
        """
        message = self.text
        if self.place is not None:
            doing = f"case {self.case!r} " if self.case else ""
            doing = f"{doing}for {', '.join(archs)}: " if archs else ""
            message = f"{self.place}: {doing}{self.text}"
        label = f"{self.kernel}[{self.case}]" if self.kernel and self.case else self.kernel
        texts = (printable(text) for text in (message, self.hint, output))
        return ErrorRecord(str(path), label, self.stage, *texts)


def joined(failures: Mapping[Refusal, Sequence[str]]) -> dict[Refusal, list[str]]:
    """One failure in place of several that differ in the case alone, as autotune configs do.

    Args:
        failures: each with the targets that it is about.
    """
    groups: dict[Refusal, list[Refusal]] = {}
    for failure in failures:
        key = replace(failure, case=None) if failure.stage == "frontend" else failure
        groups.setdefault(key, []).append(failure)
    out: dict[Refusal, list[str]] = {}
    for group in groups.values():
        first, count = group[0], len(group)
        if count > 1:
            first = replace(first, case=None, text=f"{count} of its specialisations: {first.text}")
        out[first] = list(dict.fromkeys(arch for member in group for arch in failures[member]))
    return out


def refusal(error: Mapping[str, Any]) -> Refusal:
    """What the guest says of one kernel, or of the file."""
    return Refusal(
        error["kernel"],
        error["case"],
        error["stage"],
        error["place"],
        error["message"],
        error["hint"],
    )


def lost(path: Path, record: Mapping[str, Any], mode: str, time_limit: float) -> Refusal:
    """A child that did not come back: in the user's code, or in the front end of one kernel."""
    outcome = record["lost"]
    in_kernel = "kernel" in record
    hint = "run it by itself to see why"
    if mode == "cases":
        hint = 'put what should run only as a script under `if __name__ == "__main__":`'
    if in_kernel:
        hint = "leave it out with --kernel, or try another Triton (--python)"
    if outcome["reason"] == "timeout":
        how = f"did not finish within {time_limit:g} s"
        hint = f"{hint}; or raise --capture-limit"
    elif outcome["reason"] == "signal":
        how = f"crashed ({outcome['signal'] or outcome['code']})"
    else:
        how = f"ended the interpreter (status {outcome['code']})"
    last = [line.strip() for line in record["output"].splitlines() if line.strip()][-1:]
    last_words = f'; the last thing it printed is "{last[0]}"' if last else ""
    subject = {"cases": "loading the file", "script": "the script"}.get(mode, "reading the file")
    if in_kernel:
        subject = "the front end"
    stage = "frontend" if in_kernel else "capture"
    text = f"{subject} {how}{last_words}"
    return Refusal(record.get("kernel"), record.get("case"), stage, str(path), text, hint)
