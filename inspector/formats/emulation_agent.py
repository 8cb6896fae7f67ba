"""What a script did on an emulated GPU, for coding agents: whether it passed comes first.

A run takes about as many tokens as a kernel does in `agent`; what does not fit is counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TextIO

from ..explain.view import plural
from ..pipeline.emulated_code import CodeResult
from ..pipeline.emulation import EmulationResult, ScriptFailure
from ..pipeline.emulation_profile import EmulationProfile
from ..present import text
from . import emulation
from .agent import Budget, write_lines

_MOST_FAILURES = 4
_MOST_TRACEBACK = 12
"""Lines of the end of a traceback."""
_MOST_LINE = 300
"""Characters of a line of a traceback."""
_MOST_LINES = 3
"""Source lines of a kernel that execute most."""
_LEFT_OUT = 40
"""Bytes of the line on what is left out."""


def write(result: EmulationResult, stream: TextIO) -> None:
    """Writes the verdict, then failures, findings, notes and each kernel's figures."""
    lines = [emulation.verdict(result), emulation.executed_line(result)]
    lines += _failures(result.failures)
    lines += _findings(result.kernels)
    lines += [f"note {note}" for note in result.notes]
    lines += emulation.unjudged_lines(result)
    sections = tuple(emulation.kernel_section(kernel, _MOST_LINES) for kernel in result.kernels)
    lines += text.plain_lines(sections)
    _write(lines, stream)


def write_code(result: CodeResult, stream: TextIO) -> None:
    """Writes the same of one launch of assembly or a code object, and its buffers."""
    lines = [emulation.code_verdict(result.profile), *_findings((result.profile,))]
    lines += text.plain_lines((emulation.kernel_section(result.profile, _MOST_LINES),))
    lines += [emulation.buffer_line(buffer) for buffer in result.buffers]
    _write(lines, stream)


def _write(lines: Sequence[str], stream: TextIO) -> None:
    shown, left = Budget().fitting(lines, _LEFT_OUT)
    write_lines((*shown, plural(left, "more line")) if left else shown, stream)


def _failures(failures: Sequence[ScriptFailure]) -> Iterator[str]:
    """The end of the first one's traceback, whose error the verdict has, and the other errors."""
    for failure in failures[:1]:
        trace = failure.traceback.rstrip().splitlines()[-_MOST_TRACEBACK:]
        yield from (f"  {line[:_MOST_LINE]}" for line in trace)
    yield from (
        f"failure {emulation.failure_text(failure)}" for failure in failures[1:_MOST_FAILURES]
    )
    if len(failures) > _MOST_FAILURES:
        yield plural(len(failures) - _MOST_FAILURES, "more failure")


def _findings(kernels: Sequence[EmulationProfile]) -> Iterator[str]:
    for kernel in kernels:
        for finding in kernel.findings:
            yield f"finding {kernel.name}: {emulation.finding_line(finding)}"
