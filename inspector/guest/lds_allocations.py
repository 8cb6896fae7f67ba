"""Where Triton puts each buffer of a compiled kernel in LDS.

The TTGIR that a compile leaves has no addresses: Triton gives them in its next stage, on a module
that it goes on lowering. The same pass on the same TTGIR gives the same ones, in milliseconds. It
runs in a child of its own: Triton aborts on some modules that it printed itself.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import resource
import signal
import time
from typing import Any

_PLACE = re.compile(r"\ballocation\.offset = (\d+) : i32(?:, allocation\.size = (\d+) : i32)?")
_TOTAL = re.compile(r'^module attributes .*"?ttg\.shared"? = (\d+) : i32', re.MULTILINE)
_SECONDS = 20.0
"""How long the pass may take."""
_RESULT = ".lds_allocations.json"


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
    child = os.fork()
    if child == 0:
        try:
            _write(path, arch, backend)
        finally:
            os._exit(0)  # nothing that the parent has buffered may be written twice
    if not _ended(child):
        return None
    try:
        with open(_RESULT, encoding="utf-8") as stream:
            total, allocations = json.load(stream)
        os.remove(_RESULT)
    except (OSError, ValueError):
        return None
    return allocations if total == shared else None


def _ended(child: int) -> bool:
    """Waits for a process; one that takes too long is ended."""
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status == 0
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def _write(path: str, arch: str, backend: Any) -> None:
    """Writes the LDS of the module and its allocations; nothing where the pass refuses."""
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
    with open(_RESULT, "w", encoding="utf-8") as stream:
        json.dump([int(total[1]) if total is not None else None, allocations], stream)
