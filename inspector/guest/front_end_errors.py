"""Error records of kernels that the front end refuses: the cause in one line, and a hint."""

from __future__ import annotations

import difflib
import importlib
import re
from collections.abc import Iterable
from typing import Any

from .frontend import definition
from .mlir_errors import MLIRError
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
NVIDIA_MODULES = "triton.experimental.gluon.language.nvidia."
AMD_MODULE = "triton.experimental.gluon.language.amd"
UNKNOWN_NAME = re.compile(r"module 'triton\.language' has no attribute '(\w+)'")
DEFAULT_HINT = "mend the kernel at that line, or look at it in another Triton with --python"


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

    `functions`: JITFunctions whose source may have the line, beside those that Triton registers.
    `fallback`: `file:line` to report where the line is unknown.
    """
    candidates = [*functions, *_registry()]
    cause: BaseException = failure
    place = fallback
    while True:
        line = getattr(getattr(cause, "node", None), "lineno", None)
        place = location_of(getattr(cause, "src", None), line, candidates) or place
        if isinstance(cause, MLIRError):
            place = cause.location
        if cause.__cause__ is None:
            break
        cause = cause.__cause__
    text = one_line(getattr(cause, "error_message", None) or cause) or type(cause).__name__
    text_with_type = f"{type(cause).__name__}: {text}"
    hint = _vendor_hint(failure) or hint_for(f"{text_with_type} {failure}")
    return error("frontend", text_with_type, hint, kernel, case, place=place, arch=arch)


def _vendor_hint(failure: BaseException) -> str | None:
    cause: BaseException | None = failure
    while cause is not None:
        trace = cause.__traceback__
        while trace is not None:
            module = str(trace.tb_frame.f_globals.get("__name__"))
            if module.startswith(NVIDIA_MODULES):
                return f"{module} is for NVIDIA: AMD's instructions are in {AMD_MODULE}"
            trace = trace.tb_next
        cause = cause.__cause__
    return None


def hint_for(text: str) -> str:
    """The hint for a front-end error with this text."""
    unknown = UNKNOWN_NAME.search(text)
    if unknown is not None:
        names = dir(importlib.import_module("triton.language"))
        suggestion = difflib.get_close_matches(unknown[1], names, n=1, cutoff=0.7)
        if suggestion and not unknown[1].startswith("make_block_ptr"):
            return f"did you mean tl.{suggestion[0]}? Or is it another Triton's: --python names one"
    return next((hint for pattern, hint in HINTS if re.search(pattern, text)), DEFAULT_HINT)


def location_of(
    source: str | None,
    line: int | None,
    functions: Iterable[Any],
) -> str | None:
    """`file:line` of a line of a function's source, as Triton's errors count it.

    `source`: text of a jitted function, from its `def` on.
    `line`: line in `source`, from 1.
    """
    if source is None or line is None:
        return None
    for function in functions:
        if getattr(function, "src", None) == source:
            file, first_line = definition(function)
            return f"{file}:{first_line + line - 1}"
    return None


def _registry() -> list[Any]:
    jit = importlib.import_module("triton.runtime.jit")
    return list(getattr(jit, "_triton_jit_function_registry", {}).values())
