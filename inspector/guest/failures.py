"""What the front end has to say of a kernel, in one line, and what to try."""

from __future__ import annotations

import difflib
import importlib
import re
from collections.abc import Iterable
from typing import Any

from .diagnosed import MLIRError
from .frontend import definition
from .records import error, one_line

HINTS = (
    (
        r"\bmake_block_ptr\b|[Bb]lock pointers have been|\btl\.advance\b|attribute 'advance'",
        "block pointers were removed from Triton: name an interpreter with an older one by "
        "--python (3.5 has them), or write the kernel with tensor descriptors",
    ),
    (
        r"tl\.extra\.cuda|libdevice.*cuda|extra\.cuda",
        "that is NVIDIA's device library: use tl.math or triton.language.extra.libdevice",
    ),
    (
        r"fp8e4nv|fp8e4b8|fp8e5b16|type fp8\w+ not supported",
        "each target has fp8 types of its own (gfx942: fp8e4b8, fp8e5b16; gfx950 and gfx12: "
        "fp8e4nv, fp8e5)",
    ),
    (
        r"#ttg\.nvidia_mma|'ttng\.",
        "that is an instruction of NVIDIA's: AMD's are in triton.experimental.gluon.language.amd",
    ),
    (
        r"threads per warp",
        "a layout's threads_per_warp multiply to the lanes of a wave: 64 on CDNA (gfx9), 32 on "
        "RDNA (gfx10 to gfx12)",
    ),
    (r"warps per CTA|warps per CGA", "a layout's warps_per_cta multiply to the launch's num_warps"),
    (r"static_assert|static assert", "the kernel forbids this specialisation itself"),
    (
        r"has no attribute|unexpected keyword|cannot import name",
        "it may be written for another Triton: name an interpreter that has it with --python",
    ),
    (
        r"\bTMA\b|\btma_|[Tt]ensor[ _]?desc|descriptor_",
        "tensor descriptors of this kind may need another target or Triton",
    ),
)
NVIDIAS = "triton.experimental.gluon.language.nvidia."
AMDS = "triton.experimental.gluon.language.amd"
UNKNOWN = re.compile(r"module 'triton\.language' has no attribute '(\w+)'")
MEND = "mend the kernel at that line, or look at it in another Triton with --python"


def front_end_error(
    failure: BaseException,
    kernel: str,
    case: str | None,
    arch: str,
    functions: Iterable[Any] = (),
    fallback: str | None = None,
) -> dict[str, Any]:
    """The record of a specialisation that the front end refuses.

    It names the innermost cause, at the line that Triton's innermost CompilationError points to.

    `functions` are JITFunctions to look for the line in, besides those Triton knows of; `fallback`
    is the place where no line is known.
    """
    candidates = [*functions, *_registry()]
    cause: BaseException = failure
    place = fallback
    while True:
        line = getattr(getattr(cause, "node", None), "lineno", None)
        place = place_of(getattr(cause, "src", None), line, candidates) or place
        if isinstance(cause, MLIRError):
            place = cause.place
        if cause.__cause__ is None:
            break
        cause = cause.__cause__
    text = one_line(getattr(cause, "error_message", None) or cause) or type(cause).__name__
    text_with_type = f"{type(cause).__name__}: {text}"
    hint = _foreign(failure) or hint_for(f"{text_with_type} {failure}")
    record = error("frontend", text_with_type, hint, kernel, case, place)
    # The host names the targets that fail alike.
    record["error"]["arch"] = arch
    return record


def _foreign(failure: BaseException) -> str | None:
    """The hint where a failure went through what Gluon has for another vendor; else None."""
    cause: BaseException | None = failure
    while cause is not None:
        trace = cause.__traceback__
        while trace is not None:
            module = str(trace.tb_frame.f_globals.get("__name__"))
            if module.startswith(NVIDIAS):
                return f"{module} is for NVIDIA: AMD's instructions are in {AMDS}"
            trace = trace.tb_next
        cause = cause.__cause__
    return None


def hint_for(text: str) -> str:
    """What to try against a front-end error of this text."""
    unknown = UNKNOWN.search(text)
    if unknown is not None:
        names = dir(importlib.import_module("triton.language"))
        near = difflib.get_close_matches(unknown[1], names, n=1, cutoff=0.7)
        if near and not unknown[1].startswith("make_block_ptr"):
            return f"did you mean tl.{near[0]}? Or is it another Triton's: --python names one"
    return next((hint for pattern, hint in HINTS if re.search(pattern, text)), MEND)


def place_of(
    source: str | None,
    line: int | None,
    functions: Iterable[Any],
) -> str | None:
    """`file:line` of a line of a function's source, as Triton's errors count it.

    Args:
        source: text of a jitted function, from its `def` on.
        line: counts from 1 within `source`.
        functions: where to look for it.
    """
    if source is None or line is None:
        return None
    for function in functions:
        if getattr(function, "src", None) == source:
            file, first = definition(function)
            return f"{file}:{first + line - 1}"
    return None


def _registry() -> list[Any]:
    jit = importlib.import_module("triton.runtime.jit")
    return list(getattr(jit, "_triton_jit_function_registry", {}).values())
