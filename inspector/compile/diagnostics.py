"""What a compiler wrote to stderr: errors, warnings, the line that explains a crash, the inline
assembly that errors are about.

Triton returns a code object even when LLVM reported errors: inline assembly of another vendor is
dropped with an `error:` on descriptor 2, and the compile "succeeds". So stderr is read, always.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from ..base.errors import KinspectError
from ..model import SourceLoc, TtgirOp
from ..ttgir.parser import parse_ttgir
from ..ttgir.queries import assembly_text, inline_assembly

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


_CONSTRAINT = re.compile(r"register for constraint '(?P<constraint>[^']+)'")
_ASSEMBLY_ERROR = re.compile(
    r"inline asm|for constraint '|invalid instruction|unexpected token|invalid operand"
    r"|unknown directive|instruction not supported|not a valid operand",
    re.I,
)
"""Errors of LLVM's assembler, and of its choice of registers for inline assembly."""
_ESCAPE = re.compile(r"\\(?:([0-9A-Fa-f]{2})|(.))", re.S)
_NAMES_FILES = re.compile(r"\.(?:incbin|include)\b", re.I)
_SPELLS_FILES = re.compile(
    r"\.\s*(?:incbin|include|macro|irpc?|rept?|altmacro|set)\b"
    r"|\.\w*\$[({]",  # of a dialect's or an operand's letters: `.inc$(bin$|x$)`
    re.I,
)
_WORD = re.compile(r"[A-Za-z_][\w.]*")


class InlineAssembly(Struct, frozen=True):
    """A piece of inline assembly: its text in one line, and where the user called it."""

    text: str
    loc: SourceLoc | None

    def __str__(self) -> str:
        position = ""
        if self.loc is not None:
            user = self.loc.in_user_code
            position = f" at {user.file}:{user.line}"
        return f'inline assembly "{self.text}"{position}'


def assembly_in_error(ttir: str, diagnostics: Diagnostics) -> InlineAssembly | None:
    """Returns the inline assembly that the compiler's errors are about, as far as they tell.

    Returns:
        The piece; None where the errors are about something else, or about one of several pieces
        without saying which.
    """
    if not any(_ASSEMBLY_ERROR.search(error) for error in diagnostics.errors):
        return None
    if "inline_asm" not in ttir:
        return None
    try:
        ops = inline_assembly(parse_ttgir(ttir, "the kernel's TTIR"))
    except KinspectError:
        return None
    matches = list(_matching(ops, diagnostics)) or (list(ops) if len(ops) == 1 else [])
    if not matches:
        return None
    return InlineAssembly(assembly_text(matches[0]), matches[0].loc)


def names_files(ir: str) -> bool:
    """Tells whether inline assembly names files, which LLVM's assembler would read into the code.

    What macros make of it is not seen here: the compiler's process can read no file then.

    `ir`: TTIR, TTGIR or LLVM IR; in their strings two hexadecimal digits are a character.
    """
    if "asm" not in ir and "\\" not in ir:  # an attribute's name may be escaped, too
        return False
    return _NAMES_FILES.search(_ESCAPE.sub(_unescaped, ir)) is not None


def can_name_files(ir: str) -> bool:
    """The same where nothing restricts the assembler: with directives that can spell others."""
    return _SPELLS_FILES.search(_ESCAPE.sub(_unescaped, ir)) is not None


def _unescaped(match: re.Match[str]) -> str:
    return chr(int(match[1], 16)) if match[1] else {"n": "\n", "t": "\t"}.get(match[2], match[2])


def _matching(ops: Sequence[TtgirOp], diagnostics: Diagnostics) -> Iterator[TtgirOp]:
    error_constraints = {
        match["constraint"]
        for error in diagnostics.errors
        if (match := _CONSTRAINT.search(error)) is not None
    }
    # The assembler quotes the line with registers filled in; its first word is as written.
    quoted_words = {
        match[0] for line in diagnostics.quoted if (match := _WORD.search(line)) is not None
    }
    for op in ops:
        constraints = {
            constraint.strip().strip("=&+~")
            for constraint in str(op.attributes.get("constraints", "")).split(",")
        }
        words = set(_WORD.findall(str(op.attributes.get("asm_string", ""))))
        if error_constraints & constraints or quoted_words & words:
            yield op
