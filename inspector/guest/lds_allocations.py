"""Where Triton puts each buffer of a compiled kernel in LDS.

The TTGIR that a compile leaves has no addresses: Triton gives them in its next stage, on a module
that it goes on lowering. The same pass on the same TTGIR gives the same ones, in milliseconds. It
runs in a child of its own: Triton aborts on some modules that it printed itself.
"""

from __future__ import annotations

import functools
import importlib
import os
import re
import resource
import time
from typing import Any

from .process_tree import ChildError, answer_of_child

_PLACE = re.compile(r"\ballocation\.offset = (\d+) : i32(?:, allocation\.size = (\d+) : i32)?")
_TOTAL = re.compile(r'^module attributes .*"?ttg\.shared"? = (\d+) : i32', re.MULTILINE)
_SECONDS = 20.0
"""How long the pass may take."""


def lds_allocations(
    path: str, arch: str, backend: Any, shared: Any
) -> list[list[int | None]] | None:
    """The buffers in LDS: line of the TTGIR (of a region, the last one), offset, bytes.

    Bytes are None where Triton leaves them to the buffer's type. None where the pass is missing,
    refuses or crashes, or where its LDS is not the compile's.

    `shared`: bytes of LDS by the compile's metadata.
    """
    if not shared:
        return None
    try:
        work = functools.partial(_allocated, path, arch, backend)
        total, allocations = answer_of_child(work, time.monotonic() + _SECONDS, "the pass")
    except ChildError:
        return None
    return allocations if total == shared else None


def _allocated(path: str, arch: str, backend: Any) -> tuple[int | None, list[list[int | None]]]:
    """The LDS of the module and its allocations."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    library = importlib.import_module("triton._C.libtriton")
    context = library.ir.context()
    library.ir.load_dialects(context)
    backend.load_dialects(context)
    module = library.ir.parse_mlir_module(path, context)
    passes = library.ir.pass_manager(context)
    library.amd.passes.ttgpuir.add_allocate_shared_memory(passes, arch)
    passes.run(module, "allocate")
    text = str(module)
    total = _TOTAL.search(text)
    allocations: list[list[int | None]] = []
    for number, line in enumerate(text.split("\n"), 1):
        place = _PLACE.search(line) if "allocation.offset" in line else None
        if place is not None:
            size = int(place[2]) if place[2] is not None else None
            allocations.append([number, int(place[1]), size])
    return int(total[1]) if total is not None else None, allocations
