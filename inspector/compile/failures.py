"""Why a compile failed, in one line, and what the compiler said on stderr besides.

Triton returns a code object even when LLVM reported errors: inline assembly of another vendor is
dropped with an `error:` on descriptor 2, and the compile "succeeds". So stderr is read, always.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ..errors import KinspectError
from ..model import ErrorRecord, SourceLoc, TtgirOp, Variant
from ..printable import printable
from ..ttgir.parser import parse_ttgir
from ..ttgir.queries import assembly_text, inline_assembly

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


# --------------------------------------------------------------------------- failures

FOREIGN = "remove what the target cannot execute, such as inline assembly of another vendor"
ASSEMBLY = (
    "write the inline assembly for AMDGPU (AMDGCN mnemonics, constraints v and s), or keep it from"
    " this target with a constexpr; tl.extra.cuda is for NVIDIA alone"
)
OTHER_TRITON = (
    "it was made by another version; give the kernel's own file instead, so that each version's"
    " front end reads it"
)
NVIDIAS = (
    "that is an instruction of NVIDIA's: keep it from this target with a constexpr; AMD's are in"
    " triton.experimental.gluon.language.amd"
)
LIBDEVICE = "import libdevice from triton.language.extra, not from triton.language.extra.cuda"
NVIDIAS_OPERATION = re.compile(r"'ttng\.\w+'")
"""An operation of the dialect that Triton lowers for NVIDIA alone."""
_NOT_LOWERED = "failed to legalize operation"
"""MLIR's words for an operation that no pass of this version lowers."""
CODE_STAGES = ("amdgcn", "hsaco")
PARSE = "parse"
"""The stage of an error of a Triton that does not understand the TTIR it was given."""
IN_INPUT = re.compile(r"kernel\.ttg?ir\"?:\d+:\d+\)?: error: ")
REPORT = "try other options or another Triton (--python); report it to Triton's maintainers"


def failure_record(
    variant: Variant, reply: Mapping[str, Any], messages: Diagnostics, time_limit: float
) -> ErrorRecord | None:
    """The error record for a guest's reply to `compile`; None if the compile succeeded.

    Args:
        variant: what was compiled.
        reply: `outcome`, `stage` and `result` as the guest sent them.
        messages: the compiler's stderr, sorted.
        time_limit: seconds, for the message.
    """
    result = reply["result"]
    if result is None:
        return _no_result(variant, reply, messages, time_limit)
    if "unknown_options" in result:
        return _unknown_options(variant, result)
    if "exception" in result:
        if (
            reply["stage"] is None
            and messages.errors
            and IN_INPUT.search(messages.errors[0]) is not None
        ):
            # Before the first stage there is only the parser of what was handed in.
            text = variant.stage.upper()
            message = f"failed: this Triton does not understand the {text}: {messages.errors[0]}"
            record = _record(variant, message, OTHER_TRITON)
            return replace(record, stage=PARSE, unlike=_without_place(messages.errors[0]))
        return _exception(variant, result, messages, reply["stage"])
    if messages.errors:
        # Triton goes on after these and returns code that lacks what LLVM could not translate.
        more = f" (and {len(messages.errors) - 1} more)" if len(messages.errors) > 1 else ""
        piece = culprit(variant.ttir, messages)
        about = f", in {piece}" if piece is not None else ""
        return _record(
            variant,
            f"yields code that is not to be trusted: {messages.errors[0]}{more}{about}",
            ASSEMBLY if piece is not None else FOREIGN,
        )
    return None


def _no_result(
    variant: Variant, reply: Mapping[str, Any], messages: Diagnostics, time_limit: float
) -> ErrorRecord:
    """Returns the error of a compile that was ended: by its time limit, a signal or itself."""
    outcome, stage = reply["outcome"], _in(reply["stage"])
    if outcome["reason"] == "timeout":
        message = f"did not finish within {time_limit:g} s{stage}"
        return _record(variant, message, "raise --time-limit, or compile a smaller block size")
    how = f"ended without a result (status {outcome['code']})"
    if outcome["reason"] == "signal":
        how = f"crashed ({outcome['signal'] or outcome['code']})"
    because = f": {messages.summary}" if messages.summary else ""
    piece = culprit(variant.ttir, messages)
    if piece is not None:
        return _record(variant, f"{how}{stage}{because}, in {piece}", ASSEMBLY)
    return _record(variant, how + stage + because, REPORT)


def _exception(
    variant: Variant, result: Mapping[str, Any], messages: Diagnostics, reply_stage: str | None
) -> ErrorRecord:
    """Returns the error of a compile that raised an exception, with a hint that fits it."""
    text = " ".join(str(result["message"]).split())
    # MLIR's own message says more than the "PassManager::run failed" that follows.
    reason = messages.errors[0] if messages.errors else f"{result['exception']}: {text}"
    hint = "mend the kernel, or try other options"
    piece = culprit(variant.ttir, messages)
    if piece is not None:
        reason, hint = f"{reason}, in {piece}", ASSEMBLY
    elif "triton.language.extra.cuda" in text:
        hint = LIBDEVICE
    elif NVIDIAS_OPERATION.search(reason) is not None:
        hint = NVIDIAS
    elif messages.errors and reply_stage in CODE_STAGES:
        hint = FOREIGN
    elif "ld.lld" in text:
        hint = "this Triton links with an external lld: set TRITON_HIP_LLD_PATH to one"
    elif result["exception"] == "MemoryError":
        hint = "raise the memory limit"
    record = _record(variant, f"failed{_in(reply_stage)}: {reason}", hint)
    return replace(record, unlike=_without_place(reason)) if _NOT_LOWERED in reason else record


def _without_place(error: str) -> str:
    """Returns the message of an MLIR error, without the place before it."""
    return error.rpartition("error: ")[2]


def _unknown_options(variant: Variant, result: Mapping[str, Any]) -> ErrorRecord:
    known = result["known_options"]
    named = []
    for name in result["unknown_options"]:
        near = difflib.get_close_matches(name, known, n=1)
        named.append(f"{name!r}" + (f" (did you mean {near[0]!r}?)" if near else ""))
    message = f"failed: this Triton has no compile option {', '.join(named)}"
    return _record(variant, message, "its options are " + ", ".join(known))


def _in(stage: str | None) -> str:
    return f" in stage {stage}" if stage else ""


def _record(variant: Variant, message: str, hint: str) -> ErrorRecord:
    name = variant.kernel if variant.case is None else f"{variant.kernel} [{variant.case}]"
    return ErrorRecord(
        file=variant.source.file if variant.source else None,
        kernel=variant.kernel,
        stage="compile",
        message=printable(f"{name} for {variant.arch} {message}"),
        hint=hint,
    )


# --------------------------------------------------------------------------- inline assembly


_CONSTRAINT = re.compile(r"register for constraint '(?P<constraint>[^']+)'")
_ABOUT_ASSEMBLY = re.compile(
    r"inline asm|for constraint '|invalid instruction|unexpected token|invalid operand"
    r"|unknown directive|instruction not supported|not a valid operand",
    re.I,
)
_WORD = re.compile(r"[A-Za-z_][\w.]*")


class Piece(Struct, frozen=True):
    """A piece of inline assembly: its text in one line, and where the user called it."""

    text: str
    loc: SourceLoc | None

    def __str__(self) -> str:
        position = ""
        if self.loc is not None:
            user = self.loc.in_user_code
            position = f" at {user.file}:{user.line}"
        return f'inline assembly "{self.text}"{position}'


def culprit(ttir: str, messages: Diagnostics) -> Piece | None:
    """Returns the inline assembly that the compiler's errors are about, as far as they tell.

    Args:
        ttir: the kernel.
        messages: what the compiler wrote to stderr.

    Returns:
        The piece; None where the errors are about something else, or about one of several pieces
        without saying which.
    """
    if not any(_ABOUT_ASSEMBLY.search(error) for error in messages.errors):
        return None
    if "inline_asm" not in ttir:
        return None
    try:
        pieces = inline_assembly(parse_ttgir(ttir, "the kernel's TTIR"))
    except KinspectError:
        return None
    fitting = list(_fitting(pieces, messages)) or (list(pieces) if len(pieces) == 1 else [])
    if not fitting:
        return None
    return Piece(assembly_text(fitting[0]), fitting[0].loc)


def _fitting(pieces: Sequence[TtgirOp], messages: Diagnostics) -> Iterator[TtgirOp]:
    """Yields the pieces that have a constraint or a word of the errors."""
    constraints = {
        m["constraint"] for e in messages.errors if (m := _CONSTRAINT.search(e)) is not None
    }
    # The assembler quotes the line with registers filled in; its first word is as written.
    words = {m[0] for line in messages.quoted if (m := _WORD.search(line)) is not None}
    for op in pieces:
        op_constraints = {
            c.strip().strip("=&+~") for c in str(op.attributes.get("constraints", "")).split(",")
        }
        text = set(_WORD.findall(str(op.attributes.get("asm_string", ""))))
        if constraints & op_constraints or words & text:
            yield op
