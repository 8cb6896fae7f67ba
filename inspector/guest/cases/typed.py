"""A case typed on the command line, for kernels of which nothing can be run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from ..frontend import TritonKernels
from .case import CaseError, did_you_mean

NAME = "stated"


def typed_case(
    stated: Mapping[str, Any], kernels: TritonKernels, wanted: Sequence[str]
) -> dict[str, Any]:
    """The case, as `KINSPECT_CASES` would have it.

    Args:
        stated: `positional` and `named` arguments, each `{"type": text}` or `{"value": constant}`,
            and `defines`, name -> value: constexprs, or options where no parameter has that name.
        kernels: of the file.
        wanted: patterns that choose the kernel.

    Raises:
        CaseError: no kernel, or more than one, or arguments that it has not.
    """
    kernel = _only(kernels, wanted)
    names = list(kernels.by_name[kernel].arg_names)
    positional = list(stated["positional"])
    if len(positional) > len(names):
        raise CaseError(
            f"--signature has {len(positional)} arguments, and {kernel!r} takes {len(names)}",
            f"its parameters are {', '.join(names)}",
        )
    arguments = {**dict(zip(names, positional)), **stated["named"]}
    extra = [name for name in stated["named"] if name not in names]
    if extra:
        raise CaseError(
            f"--signature names {extra[0]!r}, which {kernel!r} has not{did_you_mean(extra, names)}",
            f"its parameters are {', '.join(names)}",
        )
    defines: Mapping[str, Any] = stated["defines"]
    return {
        "name": NAME,
        "kernel": kernel,
        "signature": {n: a["type"] for n, a in arguments.items() if "type" in a},
        "constexprs": {
            **{n: a["value"] for n, a in arguments.items() if "value" in a},
            **{n: v for n, v in defines.items() if n in names},
        },
        "options": {n: v for n, v in defines.items() if n not in names},
    }


def _only(kernels: TritonKernels, wanted: Sequence[str]) -> str:
    names = kernels.defined_here or list(kernels.by_name)
    chosen = [n for n in names if all(fnmatchcase(n, w) or n == w for w in wanted)]
    if len(chosen) == 1:
        return chosen[0]
    if not names:
        raise CaseError("it defines no @triton.jit kernel", "name the file that defines it")
    listed = ", ".join(chosen or names)
    if not chosen:
        raise CaseError(f"it has no such kernel{did_you_mean(wanted, names)}", f"it has {listed}")
    raise CaseError(
        f"the signature could be that of {len(chosen)} kernels", f"choose by --kernel: {listed}"
    )
