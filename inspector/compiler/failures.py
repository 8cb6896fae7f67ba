"""Says in one line why a compile failed."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from kinspect.inspector.compiler.diagnostics import Diagnostics
from kinspect.inspector.model import ErrorRecord, Variant

FOREIGN = "remove what the target cannot execute, such as inline assembly of another vendor"
CODE_STAGES = ("amdgcn", "hsaco")
REPORT = "try other options or another Triton (--python); report it to Triton's maintainers"


def failure_record(
    variant: Variant, reply: Mapping[str, Any], said: Diagnostics, time_limit: float
) -> ErrorRecord | None:
    """The error record for a guest's reply to `compile`; None if the compile succeeded.

    Args:
        variant: what was compiled.
        reply: `outcome`, `stage` and `result` as the guest sent them.
        said: the compiler's stderr, sorted.
        time_limit: seconds, for the message.
    """
    result = reply["result"]
    if result is None:
        return _no_result(variant, reply, said, time_limit)
    if "unknown_options" in result:
        return _unknown_options(variant, result)
    if "exception" in result:
        return _exception(variant, result, said, reply["stage"])
    if said.errors:
        # Triton goes on after these and returns code that lacks what LLVM could not translate.
        more = f" (and {len(said.errors) - 1} more)" if len(said.errors) > 1 else ""
        return _record(
            variant,
            f"yields code that is not to be trusted: {said.errors[0]}{more}",
            FOREIGN,
        )
    return None


def _no_result(
    variant: Variant, reply: Mapping[str, Any], said: Diagnostics, time_limit: float
) -> ErrorRecord:
    outcome, stage = reply["outcome"], _in(reply["stage"])
    if outcome["reason"] == "timeout":
        message = f"did not finish within {time_limit:g} s{stage}"
        return _record(variant, message, "raise --time-limit, or compile a smaller block size")
    how = f"ended without a result (status {outcome['code']})"
    if outcome["reason"] == "signal":
        how = f"crashed ({outcome['signal'] or outcome['code']})"
    because = f": {said.summary}" if said.summary else ""
    return _record(variant, how + stage + because, REPORT)


def _exception(
    variant: Variant, result: Mapping[str, Any], said: Diagnostics, reply_stage: str | None
) -> ErrorRecord:
    text = " ".join(str(result["message"]).split())
    # MLIR's own words say more than the "PassManager::run failed" that follows from them.
    reason = said.errors[0] if said.errors else f"{result['exception']}: {text}"
    hint = "mend the kernel, or try other options"
    if said.errors and reply_stage in CODE_STAGES:
        hint = FOREIGN
    elif "ld.lld" in text:
        hint = "this Triton links with an external lld: set TRITON_HIP_LLD_PATH to one"
    elif result["exception"] == "MemoryError":
        hint = "raise the memory limit"
    return _record(variant, f"failed{_in(reply_stage)}: {reason}", hint)


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
        message=f"{name} for {variant.arch} {message}",
        hint=hint,
    )
