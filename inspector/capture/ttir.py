"""A saved TTIR file as a variant: it is the whole input of a compile but for the options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kinspect.inspector.errors import KinspectError
from kinspect.inspector.model import Machine, Variant

_KERNEL = re.compile(r"^\s*tt\.func\s+public\s+@(?:\"([^\"]+)\"|([\w.$-]+))", re.M)

# Options of the AMD backend that Triton's metadata repeats; the rest of it is results.
_OPTIONS = (
    "num_warps",
    "num_stages",
    "waves_per_eu",
    "matrix_instr_nonkdim",
    "kpack",
    "schedule_hint",
    "enable_fp_fusion",
    "num_ctas",
)


def variant_of(
    text: str, path: str, machine: Machine, metadata: Mapping[str, Any] | None
) -> Variant:
    """The variant that a TTIR text is.

    Args:
        text: the module.
        path: its file, for errors.
        machine: the target to compile for.
        metadata: Triton's metadata from beside the file, whose options are used again.

    Raises:
        KinspectError: it holds no public function, so no kernel.
    """
    names = [quoted or plain for quoted, plain in _KERNEL.findall(text)]
    if not names:
        raise KinspectError(f"{path}: no `tt.func public` in it", "pass a TTIR file made by Triton")
    options = {k: metadata[k] for k in _OPTIONS if k in metadata} if metadata else {}
    # Triton compiles for the first of a machine's wave sizes: 64 on gfx9, 32 from gfx10 on.
    return Variant(
        kernel=names[0],
        arch=machine.arch,
        wave_size=machine.wave_sizes[0],
        ttir=text,
        options=options,
    )
