"""Where Triton puts each buffer of a compiled kernel in LDS.

The TTGIR that a compile leaves has no addresses: Triton gives them in its next stage, on a module
that it goes on lowering. The same pass on the same TTGIR gives the same ones, in milliseconds.
"""

from __future__ import annotations

import importlib
import re
from typing import Any

_PLACE = re.compile(r"\ballocation\.offset = (\d+) : i32(?:, allocation\.size = (\d+) : i32)?")
_TOTAL = re.compile(r'^module attributes .*"?ttg\.shared"? = (\d+) : i32', re.MULTILINE)


def lds_allocations(
    path: str, arch: str, backend: Any, shared: Any
) -> list[list[int | None]] | None:
    """The buffers in LDS: line of the TTGIR (of a region, the last one), offset, bytes.

    Bytes are None where Triton leaves them to the buffer's type. None where the pass is
    missing or refuses, or where its LDS is not the compile's.

    Args:
        path: file with the TTGIR, relative or not.
        arch: gfx name.
        backend: Triton's backend for it.
        shared: bytes of LDS by the compile's metadata.
    """
    try:
        ir = importlib.import_module("triton._C.libtriton").ir
        amd = importlib.import_module("triton._C.libtriton").amd
        context = ir.context()
        ir.load_dialects(context)
        backend.load_dialects(context)
        module = ir.parse_mlir_module(path, context)
        passes = ir.pass_manager(context)
        amd.passes.ttgpuir.add_allocate_shared_memory(passes, arch)
        passes.run(module, "allocate")
        text = str(module)
    except Exception:  # older Tritons have the pass elsewhere, or not at all
        return None
    total = _TOTAL.search(text)
    if total is None or int(total[1]) != shared:
        return None
    allocations: list[list[int | None]] = []
    for number, line in enumerate(text.split("\n"), 1):
        place = _PLACE.search(line) if "allocation.offset" in line else None
        if place is not None:
            size = int(place[2]) if place[2] is not None else None
            allocations.append([number, int(place[1]), size])
    return allocations
