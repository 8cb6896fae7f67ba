"""What the kernel arguments in the metadata say of the launch: whether it adds LDS.

`hidden_dynamic_lds_size` stands among the hidden arguments (code object v5 on) where the kernel
uses LDS of a size that the launch sets: HIP's `extern __shared__` or a pointer to LDS as argument;
LLVM 22 leaves it out otherwise. `dynamic_shared_pointer` is such a pointer (OpenCL's `__local`
arguments), `DynamicSharedPointer` the same in code object v2. Source: "User Guide for AMDGPU
Backend", "Code Object V3 / V5 Kernel Argument Metadata"; MetadataStreamerMsgPackV5::
emitHiddenKernelArgs in LLVM.
"""

from __future__ import annotations

from typing import Literal

DYNAMIC_LDS_KINDS = frozenset(
    {"dynamic_shared_pointer", "hidden_dynamic_lds_size", "DynamicSharedPointer"}
)
"""Values of `.value_kind` (`ValueKind` in code object v2) that mean LDS set by the launch."""


def adds_lds(arguments: object) -> Literal[True] | None:
    """Whether the launch adds LDS to what the file states.

    Args:
        arguments: `.args` of a kernel's metadata, as decoded; anything may stand there.

    Returns:
        True, or None where the arguments do not say: code objects before v5 have no hidden
        argument for it, and code without hidden arguments (Triton's) may use dynamic LDS too.
    """
    for argument in arguments if isinstance(arguments, list) else ():
        if isinstance(argument, dict):
            kind = argument.get(".value_kind", argument.get("ValueKind"))
            if isinstance(kind, str) and kind in DYNAMIC_LDS_KINDS:
                return True
    return None
