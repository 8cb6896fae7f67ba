"""Requests of what the interface takes: kernels, paths, texts and code objects."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..base.errors import KinspectError
from ..capture.options import CaptureOptions
from ..pipeline.analysis_options import AnalysisOptions, Overrides
from ..pipeline.jobs import Request, request_for

Target = Any
"""A `@triton.jit` kernel; a path or `PATH::KERNEL`; assembly text; the bytes of a code object."""
NO_LAUNCH = "only a kernel takes arguments of a launch, not a file"


def request_of(
    target: str | os.PathLike[str],
    *,
    arch: str | Sequence[str] | None,
    kernel: str | None,
    options: Mapping[str, Any],
    analysis: AnalysisOptions,
) -> Request:
    """The run over a file or folder.

    Args:
        target: the path.
        arch: one name of a target or several; None for the file's own or the default.
        kernel: selects kernels by name.
        options: `argv`, `call`, `signature`, `python`, `jobs`, `passes`, `time_us`.
        analysis: how much of each kernel is analysed.

    Raises:
        KinspectError: an option that there is not.
    """
    known = {"argv", "call", "signature", "python", "jobs", "passes", "time_us"}
    unknown = sorted(options.keys() - known)
    if unknown:
        raise KinspectError(
            f"{os.fspath(target)}: no option {', '.join(unknown)}",
            f"{NO_LAUNCH}; options of a file are {', '.join(sorted(known))}",
        )
    call = options.get("call") or ()
    return request_for(
        (target,),
        archs=archs_of(arch),
        kernel=kernel,
        python=options.get("python"),
        jobs=options.get("jobs"),
        passes=bool(options.get("passes")),
        overrides=Overrides(time_us=options.get("time_us")),
        capture=CaptureOptions(
            argv=tuple(map(str, options.get("argv") or ())),
            calls=(call,) if isinstance(call, str) else tuple(call),
            signature=options.get("signature"),
        ),
        analysis=analysis,
    )


def archs_of(arch: str | Sequence[str] | None) -> tuple[str, ...]:
    """One name of a target or several, as a tuple without repetitions."""
    if arch is None:
        return ()
    return (arch,) if isinstance(arch, str) else tuple(dict.fromkeys(arch))


def is_text(target: object) -> bool:
    """Tells whether a string is assembly and not a path: no path has several lines."""
    return isinstance(target, str) and "\n" in target


def is_path(target: object) -> bool:
    """Tells whether a target is a path, which may end in `::KERNEL`."""
    return isinstance(target, (str, os.PathLike)) and not is_text(target)


def existing(target: object) -> str | Path:
    """The path of a target, which may end in `::KERNEL`.

    Raises:
        KinspectError: the target is nothing that is taken.
    """
    if isinstance(target, (str, os.PathLike)):
        return target if isinstance(target, str) else Path(target)
    raise KinspectError(
        f"{target!r:.60}: a {type(target).__name__} cannot be analysed",
        "pass a @triton.jit kernel with its arguments, a path, assembly text, or bytes",
    )
