"""What a compiler wrote to stderr, sorted into errors, warnings and the line that explains a crash.

Triton returns a code object even when LLVM reported errors: inline assembly of another vendor is
dropped with an `error:` on descriptor 2, and the compile "succeeds". So stderr is read, always.
"""

from __future__ import annotations

import re

from msgspec import Struct

_ERROR = re.compile(r"(?:^|[\s:])(?:fatal )?error: ?(?P<text>.*)$")
_WARNING = re.compile(r"(?:^|[\s:])warning: ?(?P<text>.*)$")
_PYTHON_WARNING = re.compile(r"^.*?:\d+: (?P<kind>\w*Warning): (?P<text>.*)$")
_FATAL = re.compile(
    r"LLVM ERROR:|Assertion .* failed|terminate called|bad_alloc|out of memory", re.I
)
_STACK_TRACE = re.compile(r"^\s*(#\d+ |\d+\.\s|Stack dump|PLEASE submit|Aborted|\S+\(\+?0x)")
_MAX_LINES = 20
"""How many errors, warnings and quoted lines of a compile are kept at most, of each."""


class Diagnostics(Struct, frozen=True):
    """Lines of the compiler's stderr; each once, in order of their first appearance.

    Args:
        errors: whole lines.
        warnings: their texts, without what stands before `warning:`.
        summary: the line that best says why a compile died; "" where stderr is empty.
        quoted: lines of the input that stand under errors, as assemblers and compilers show them.
    """

    errors: tuple[str, ...]
    warnings: tuple[str, ...]
    summary: str
    quoted: tuple[str, ...] = ()


def scan(stderr: str) -> Diagnostics:
    """Sorts the text that a compile wrote to stderr."""
    errors: dict[str, None] = {}
    warnings: dict[str, None] = {}
    quoted: dict[str, None] = {}
    fatal_line = ""  # the first of a crash
    last_line = ""  # the last that is not part of a stack trace
    previous_line = ""
    expects_caret = False  # after an error, until the caret that ends what is quoted of the input
    for raw_line in stderr.splitlines():
        line = raw_line.strip()
        if not line:
            continue
        if expects_caret and line.strip("~") == "^":
            quoted[previous_line] = None
            expects_caret = False
            continue
        previous_line = line
        if (python_warning := _PYTHON_WARNING.match(line)) is not None:
            warnings[python_warning["text"].strip()] = None
        elif (warning := _WARNING.search(line)) is not None:
            warnings[warning["text"].strip()] = None
        elif _ERROR.search(line) is not None:
            errors[line] = None
            expects_caret = True
        elif not fatal_line and _FATAL.search(line) is not None:
            fatal_line = line
        if not _STACK_TRACE.match(line):
            last_line = line
    return Diagnostics(
        errors=tuple(errors)[:_MAX_LINES],
        warnings=tuple(warnings)[:_MAX_LINES],
        summary=fatal_line or next(iter(errors), "") or last_line,
        quoted=tuple(quoted)[:_MAX_LINES],
    )
