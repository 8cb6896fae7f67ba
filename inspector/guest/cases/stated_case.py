"""The case that a user states on the command line: `--signature` and `-D`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..frontend import TritonKernels
from ..kernel_patterns import matches, names_only
from .case import STATED, CaseError, did_you_mean
from .selection import listed


def stated_case(
    stated: Mapping[str, Any], kernels: TritonKernels, patterns: Sequence[str]
) -> dict[str, Any]:
    """The case that the options state, as an entry of `KINSPECT_CASES`.

    `stated`: `positional` and `named` arguments, each `{"type": text}` or `{"value": constant}`,
    and `defines`, name -> value: constexprs, or options where no parameter has that name.

    Raises:
        CaseError: no kernel or several are selected, or the kernel lacks an argument.
    """
    kernel = _selected_kernel(kernels, patterns)
    names = list(kernels.by_name[kernel].arg_names)
    arguments = _arguments(stated, kernel, names)
    defines: Mapping[str, Any] = stated["defines"]
    return {
        "name": STATED,
        "kernel": kernel,
        "signature": {n: a["type"] for n, a in arguments.items() if "type" in a},
        "constexprs": {
            **{n: a["value"] for n, a in arguments.items() if "value" in a},
            **{n: v for n, v in defines.items() if n in names},
        },
        "options": {n: v for n, v in defines.items() if n not in names},
    }


def _arguments(
    stated: Mapping[str, Any], kernel: str, names: Sequence[str]
) -> dict[str, Mapping[str, Any]]:
    """Parameter -> its argument; `names` are those of the kernel's parameters."""
    positional, named = stated["positional"], stated["named"]
    hint = f"its parameters are {', '.join(names)}"
    if len(positional) > len(names):
        raise CaseError(
            f"--signature has {len(positional)} arguments, and {kernel!r} takes {len(names)}", hint
        )
    extra = [name for name in named if name not in names]
    if extra:
        raise CaseError(
            f"--signature names {extra[0]!r}, which {kernel!r} has not{did_you_mean(extra, names)}",
            hint,
        )
    return {**dict(zip(names, positional)), **named}


def _selected_kernel(kernels: TritonKernels, patterns: Sequence[str]) -> str:
    names = kernels.defined_here or list(kernels.by_name)
    selected = [name for name in names if matches(names_only(patterns), [name])]
    if len(selected) == 1:
        return selected[0]
    if not names:
        raise CaseError("it defines no @triton.jit kernel", "name the file that defines it")
    choices = listed(selected or names)
    if not selected:
        raise CaseError(
            f"it has no such kernel{did_you_mean(patterns, names)}", f"it has {choices}"
        )
    raise CaseError(
        f"the signature could be that of {len(selected)} kernels", f"choose by --kernel: {choices}"
    )
