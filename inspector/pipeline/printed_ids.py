"""The record of the ids that a run printed, by which `kinspect show ID` opens them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import MsgspecError, Struct

from ..base.named_files import file_bytes, own_cache
from ..base.writing import reason, replacing
from ..explain import items
from ..lint.lint_results import CheckedKernel
from ..model import KernelReport

_FOLDER = "printed-v1"
_MOST_RUNS = 200
"""Records that are kept, of the newest runs."""
_MOST_BYTES = 64 << 20
"""Of all records; a larger one is not read: no run writes one."""


class PrintedKernel(Struct, frozen=True):
    """A kernel of a report.

    Args:
        path: the file it was read from, as the run named it.
    """

    key: str
    label: str
    arch: str | None
    path: str
    findings: tuple[str, ...]


class PrintedRun(Struct, frozen=True):
    """A run and what it printed."""

    command: str
    words: tuple[str, ...]
    folder: str
    kernels: tuple[PrintedKernel, ...]


def record(
    command: str,
    words: Sequence[str],
    kernels: Sequence[KernelReport] | Sequence[CheckedKernel],
) -> tuple[str, ...]:
    """Records the ids that a run printed.

    Args:
        words: of the command line that works them out again, after the command.

    Returns:
        Notes: why they cannot be opened, where the record could not be written.
    """
    from msgspec import json

    run = PrintedRun(
        command=command,
        words=tuple(words),
        folder=os.getcwd(),
        kernels=tuple(map(_printed, kernels)),
    )
    folder = own_cache() / _FOLDER
    try:
        data = json.encode(run)
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(folder / f"{_digest(run)}.json", private=True) as stream:
            stream.write(data)
        _drop_oldest(folder)
    except OSError as error:
        return (f"`kinspect show ID` will not know these ids: {folder}: {reason(error)}",)
    except UnicodeError:  # a path that is not UTF-8
        return ("`kinspect show ID` will not know these ids: a path is not UTF-8",)
    return ()


def runs() -> Iterator[PrintedRun]:
    """The recorded runs, the newest first; damaged records are passed over."""
    from msgspec import json

    for file in _newest_first(own_cache() / _FOLDER):
        with contextlib.suppress(OSError, MsgspecError):
            if file.stat().st_size <= _MOST_BYTES:
                yield json.decode(file_bytes(file), type=PrintedRun)


def _printed(kernel: KernelReport | CheckedKernel) -> PrintedKernel:
    findings = kernel.findings
    if isinstance(kernel, CheckedKernel):
        case, path = kernel.case, kernel.file
        findings += (*kernel.known, *(left_out.finding for left_out in kernel.suppressed))
    else:
        case = kernel.variant.case if kernel.variant is not None else None
        path = kernel.file
    return PrintedKernel(
        key=items.kernel_key(kernel.id),
        label=f"{kernel.name}[{case}]" if case else kernel.name,
        arch=kernel.arch,
        path=path,
        findings=tuple(finding.fingerprint for finding in findings),
    )


def _digest(run: PrintedRun) -> str:
    """The same for a repeated command line, whose record is replaced."""
    import hashlib

    return hashlib.sha256("\0".join((run.command, run.folder, *run.words)).encode()).hexdigest()


def _newest_first(folder: Path) -> list[Path]:
    times = {}
    for file in folder.glob("*.json"):
        with contextlib.suppress(OSError):
            times[file] = file.stat().st_mtime_ns
    return sorted(times, key=lambda file: times[file], reverse=True)


def _drop_oldest(folder: Path) -> None:
    size = 0
    for number, file in enumerate(_newest_first(folder)):
        with contextlib.suppress(OSError):
            size += file.stat().st_size
            if number >= _MOST_RUNS or (number and size > _MOST_BYTES):
                file.unlink()
