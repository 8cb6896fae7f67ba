"""What the compiler said on stderr, sorted into errors, warnings and the rest.

Triton returns a code object even when LLVM reported errors: inline assembly of another vendor is
dropped with an `error:` on descriptor 2, and the compile "succeeds". So stderr is read, always.
"""

from __future__ import annotations

import re

from msgspec import Struct

ERROR = re.compile(r"(?:^|[\s:])(?:fatal )?error: ?(?P<text>.*)$")
WARNING = re.compile(r"(?:^|[\s:])warning: ?(?P<text>.*)$")
PYTHON_WARNING = re.compile(r"^.*?:\d+: (?P<kind>\w*Warning): (?P<text>.*)$")
FATAL = re.compile(
    r"LLVM ERROR:|Assertion .* failed|terminate called|bad_alloc|out of memory", re.I
)
TRACE = re.compile(r"^\s*(#\d+ |\d+\.\s|Stack dump|PLEASE submit|Aborted|\S+\(\+?0x)")
MAX_NOTES = 20


class Diagnostics(Struct, frozen=True):
    """Lines of the compiler's stderr; each once, in order of their first appearance.

    `summary` is the line that best says why a compile died, "" where stderr is empty. `quoted` are
    the lines of the input that stand under errors, as assemblers and compilers show them.
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
    fatal = last = previous = ""
    after_error = False
    for raw in stderr.splitlines():
        line = raw.strip()
        if not line:
            continue
        if after_error and line.strip("~") == "^":  # the caret under the line that is quoted
            quoted[previous] = None
            after_error = False
            continue
        previous = line
        python_warning = PYTHON_WARNING.match(line)
        if python_warning is not None:
            warnings[python_warning["text"].strip()] = None
        elif (warning := WARNING.search(line)) is not None:
            warnings[warning["text"].strip()] = None
        elif ERROR.search(line) is not None:
            errors[line] = None
            after_error = True
        elif not fatal and FATAL.search(line) is not None:
            fatal = line
        if not TRACE.match(line):
            last = line
    summary = fatal or next(iter(errors), "") or last
    return Diagnostics(
        tuple(errors)[:MAX_NOTES],
        tuple(warnings)[:MAX_NOTES],
        summary,
        tuple(quoted)[:MAX_NOTES],
    )
