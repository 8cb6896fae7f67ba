"""Keeps what torch.compile generates in a script: its kernels are captured once the script ended.

A text is kept in a file named after its contents, since reports point at its lines.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
from collections.abc import Callable

from ..inductor.source import USERS, KernelSource, SourceError, kernels_of
from ..records import Emit, note
from ..world.graphs.generated import Generated

DIGITS = 12
"""Of a digest, in the name of a file: enough for no two texts ever to share one."""


class Graphs:
    """Takes what is generated.

    Args:
        folder: where the texts are kept.
        emit: takes `{"generated": ...}`, what `inductor.capture` is to be asked afterwards.
        is_selected: whether a kernel of this name and function name was asked for.
        expect: told how many kernels will be captured.
    """

    def __init__(
        self,
        folder: str,
        emit: Emit,
        is_selected: Callable[[str, str], bool],
        expect: Callable[[int], None],
    ) -> None:
        self._folder = folder
        self._emit = emit
        self._is_selected = is_selected
        self._expect = expect
        self._paths: set[str] = set()
        self._without: dict[str, None] = {}

    def take(self, generated: Generated) -> None:
        """One graph's text. Kernels that the script itself brought are no part of it."""
        digest = hashlib.sha256(generated.text.encode()).hexdigest()[:DIGITS]
        stem = re.sub(r"\W", "_", os.path.basename(generated.file).removesuffix(".py"))
        path = os.path.join(self._folder, f"{stem}.{generated.function}.{digest}.py")
        if path in self._paths:
            return
        self._paths.add(path)
        try:
            kernels = list(kernels_of(generated.text, path))
        except SourceError:
            return
        inductor_kernels = [
            k for k in kernels if isinstance(k, KernelSource) and k.heuristic != USERS
        ]
        if not inductor_kernels:
            self._without[generated.function] = None
            return
        selected = [k for k in inductor_kernels if self._is_selected(k.name, k.function)]
        if not selected:
            return
        _keep(path, generated.text)
        self._expect(len(selected))
        origin = {
            "function": generated.function,
            "file": generated.file,
            "line": generated.line,
            "lines": generated.lines,
        }
        self._emit({"generated": {"path": path, "origin": origin}})

    def keep(self, compiler: str, text: str) -> str:
        """Keeps a module that a compiler wrote and is about to import; gives its path."""
        digest = hashlib.sha256(text.encode()).hexdigest()[:DIGITS]
        path = os.path.join(self._folder, f"{compiler}.{digest}.py")
        _keep(path, text)
        return path

    def finish(self) -> None:
        """Notes the functions for which no Triton kernels were generated."""
        for function in self._without:
            self._emit(note(f"torch.compile of {function} calls library kernels alone"))


def _keep(path: str, text: str) -> None:
    if os.path.exists(path):
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    handle, partial = tempfile.mkstemp(dir=os.path.dirname(path))
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise
