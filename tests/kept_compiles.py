"""Compiles of the largest files of kernels, kept between runs of the tests in `build/compiles/`.

Kept is what the compiler made, not what kinspect read of it; and only as long as nothing changes
that makes it: the store's keys hold Triton and each kernel's TTIR, the folder's name our own part.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from functools import cache
from pathlib import Path

import pytest
import shared_guests
from kinspect.inspector.model import Report
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request

ROOT = Path(__file__).parent.parent
KEPT = ROOT / "build" / "compiles"


@cache
def folder() -> Path | None:
    """Where they are kept, without those of other states of the code; None: nowhere to write."""
    if not os.access(ROOT, os.W_OK):
        return None
    code = hashlib.sha256()
    for room in ("compile", "guest"):
        for path in sorted((ROOT / "inspector" / room).rglob("*.py")):
            code.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    current = KEPT / code.hexdigest()[:16]
    for other in KEPT.glob("*"):
        if other != current:
            shutil.rmtree(other, ignore_errors=True)
    return current


def collect_kept(request: Request) -> Report:
    """As `collect`, with compiles of earlier runs, and guests that those before it started."""
    with pytest.MonkeyPatch.context() as patch, shared_guests.of_session().lent():
        if (kept := folder()) is not None:
            patch.setenv("KINSPECT_CACHE_DIR", str(kept))
        return collect(request)
