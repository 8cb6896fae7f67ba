"""Why a compile failed, in one line, and what its user can do next."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ..base.printable import printable
from ..model import ErrorRecord, Variant
from .diagnostics import Diagnostics, assembly_in_error

PARSE_STAGE = "parse"
"""The stage of an error of a Triton that does not understand the TTIR it was given."""
_CODE_STAGES = ("amdgcn", "hsaco")

_NOT_UNDERSTOOD = re.compile(r"kernel\.ttg?ir\"?:\d+:\d+\)?: error: ")
"""An error of MLIR's parser, at a place in the file that was handed in."""
_NOT_LOWERED = "failed to legalize operation"
"""MLIR's words for an operation that no pass of this version lowers."""
_NVIDIA_OPERATION = re.compile(r"'ttng\.\w+'")
"""An operation of the dialect that Triton lowers for NVIDIA alone."""

_HINT_FOREIGN = "remove what the target cannot execute, such as inline assembly of another vendor"
_HINT_ASSEMBLY = (
    "write the inline assembly for AMDGPU (AMDGCN mnemonics, constraints v and s), or keep it from"
    " this target with a constexpr; tl.extra.cuda is for NVIDIA alone"
)
_HINT_OTHER_TRITON = (
    "it was made by another version; give the kernel's own file instead, so that each version's"
    " front end reads it"
)
_HINT_TIMEOUT = "raise --time-limit, or compile a smaller block size"
_HINT_CRASH = "try other options or another Triton (--python); report it to Triton's maintainers"
_HINT_EXCEPTION = "mend the kernel, or try other options"


class _RaisedException(Struct, frozen=True):
    """An exception of Triton's."""

    name: str
    text: str
    reason: str
    stage: str | None
    has_errors: bool


_EXCEPTION_HINTS: tuple[tuple[Callable[[_RaisedException], bool], str], ...] = (
    (
        lambda raised: "triton.language.extra.cuda" in raised.text,
        "import libdevice from triton.language.extra, not from triton.language.extra.cuda",
    ),
    (
        lambda raised: _NVIDIA_OPERATION.search(raised.reason) is not None,
        "that is an instruction of NVIDIA's: keep it from this target with a constexpr; AMD's are"
        " in triton.experimental.gluon.language.amd",
    ),
    (lambda raised: raised.has_errors and raised.stage in _CODE_STAGES, _HINT_FOREIGN),
    (
        lambda raised: "ld.lld" in raised.text,
        "this Triton links with an external lld: set TRITON_HIP_LLD_PATH to one",
    ),
    (lambda raised: raised.name == "MemoryError", "raise the memory limit"),
)
"""Condition -> hint; the first that holds is taken."""


def failure_record(
    variant: Variant, reply: Mapping[str, Any], diagnostics: Diagnostics, time_limit: float
) -> ErrorRecord | None:
    """The error record for a guest's reply to `compile`; None if the compile succeeded.

    `reply`: `outcome`, `stage` and `result` as the guest sent them.
    """
    result = reply["result"]
    if result is None:
        return _no_result(variant, reply, diagnostics, time_limit)
    if "unknown_options" in result:
        return _unknown_options(variant, result)
    if "exception" in result:
        if reply["stage"] is None and _is_not_understood(diagnostics):
            return _not_understood(variant, diagnostics)
        return _exception(variant, result, diagnostics, reply["stage"])
    if diagnostics.errors:
        return _untrusted_code(variant, diagnostics)
    return None


def _no_result(
    variant: Variant, reply: Mapping[str, Any], diagnostics: Diagnostics, time_limit: float
) -> ErrorRecord:
    outcome, stage = reply["outcome"], _in_stage(reply["stage"])
    if outcome["reason"] == "timeout":
        return _record(variant, f"did not finish within {time_limit:g} s{stage}", _HINT_TIMEOUT)
    ending = f"ended without a result (status {outcome['code']})"
    if outcome["reason"] == "signal":
        ending = f"crashed ({outcome['signal'] or outcome['code']})"
    summary = f": {diagnostics.summary}" if diagnostics.summary else ""
    assembly = assembly_in_error(variant.ttir, diagnostics)
    if assembly is not None:
        return _record(variant, f"{ending}{stage}{summary}, in {assembly}", _HINT_ASSEMBLY)
    return _record(variant, f"{ending}{stage}{summary}", _HINT_CRASH)


def _is_not_understood(diagnostics: Diagnostics) -> bool:
    """Tells whether the first error is the parser's, about the TTIR or TTGIR handed in.

    It is so only before the first stage: later, errors at such places are those of passes.
    """
    return bool(diagnostics.errors) and _NOT_UNDERSTOOD.search(diagnostics.errors[0]) is not None


def _not_understood(variant: Variant, diagnostics: Diagnostics) -> ErrorRecord:
    error = diagnostics.errors[0]
    message = f"failed: this Triton does not understand the {variant.stage.upper()}: {error}"
    record = _record(variant, message, _HINT_OTHER_TRITON)
    return replace(record, stage=PARSE_STAGE, unsupported_ir=_without_place(error))


def _exception(
    variant: Variant, result: Mapping[str, Any], diagnostics: Diagnostics, stage: str | None
) -> ErrorRecord:
    text = " ".join(str(result["message"]).split())
    # MLIR's own message says more than the "PassManager::run failed" that follows.
    reason = diagnostics.errors[0] if diagnostics.errors else f"{result['exception']}: {text}"
    assembly = assembly_in_error(variant.ttir, diagnostics)
    if assembly is not None:
        reason, hint = f"{reason}, in {assembly}", _HINT_ASSEMBLY
    else:
        raised = _RaisedException(
            result["exception"], text, reason, stage, bool(diagnostics.errors)
        )
        hints = (hint for is_met, hint in _EXCEPTION_HINTS if is_met(raised))
        hint = next(hints, _HINT_EXCEPTION)
    record = _record(variant, f"failed{_in_stage(stage)}: {reason}", hint)
    if _NOT_LOWERED in reason:
        return replace(record, unsupported_ir=_without_place(reason))
    return record


def _untrusted_code(variant: Variant, diagnostics: Diagnostics) -> ErrorRecord:
    other_errors = len(diagnostics.errors) - 1
    others = f" (and {other_errors} more)" if other_errors else ""
    message = f"yields code that is not to be trusted: {diagnostics.errors[0]}{others}"
    assembly = assembly_in_error(variant.ttir, diagnostics)
    if assembly is not None:
        return _record(variant, f"{message}, in {assembly}", _HINT_ASSEMBLY)
    return _record(variant, message, _HINT_FOREIGN)


def _unknown_options(variant: Variant, result: Mapping[str, Any]) -> ErrorRecord:
    known_options = result["known_options"]
    names = []
    for name in result["unknown_options"]:
        near = difflib.get_close_matches(name, known_options, n=1)
        names.append(f"{name!r}" + (f" (did you mean {near[0]!r}?)" if near else ""))
    message = f"failed: this Triton has no compile option {', '.join(names)}"
    return _record(variant, message, "its options are " + ", ".join(known_options))


def _without_place(error: str) -> str:
    return error.rpartition("error: ")[2]


def _in_stage(stage: str | None) -> str:
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
