"""Records of errors of targets and of their compiles, as reports have them."""

from __future__ import annotations

from ..base.errors import KinspectError
from ..capture.targets import Target
from ..model import ErrorRecord


def target_record(target: Target, stage: str, error: KinspectError) -> ErrorRecord:
    """Returns the record of an error that concerns a target as a whole."""
    return error_record(str(target.path), target.kernel, stage, error)


def error_record(file: str, kernel: str | None, stage: str, error: KinspectError) -> ErrorRecord:
    """Returns the record of an error; the file, which it names, is dropped from the message."""
    return ErrorRecord(
        file=file,
        kernel=kernel,
        stage=stage,
        message=error.message.removeprefix(f"{file}: "),
        hint=error.hint,
    )
