"""Guests that have PyTorch from their start: the import takes longer than most scripts of tests.

A guest runs each script in a fork of itself. Of several targets it imports PyTorch before the first
fork; with this it does so of several scripts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kinspect.inspector.compile.worker import Worker

_SITE = """\
import sys
if any(part.endswith("bootstrap.py") for part in sys.orig_argv):
    import torch
"""


def site_with_torch(folder: Path) -> Path:
    """Writes the module that imports PyTorch as a guest starts; returns its folder."""
    (folder / "sitecustomize.py").write_text(_SITE)
    return folder


@contextmanager
def torch_beforehand(folder: Path) -> Iterator[None]:
    """Guests that are started meanwhile import PyTorch first.

    Args:
        folder: where `sitecustomize.py` is written.
    """
    site_with_torch(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        yield


def worker_with_torch(folder: Path) -> Worker:
    """A worker whose guests import PyTorch first; others that are started later do not."""
    with torch_beforehand(folder):
        return Worker()
