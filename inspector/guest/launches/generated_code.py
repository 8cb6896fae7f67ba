"""Collects the code that torch.compile generates in a script.

Its kernels are captured once the script has ended. Each text is stored in a file named by a hash of
it; the file stays, since reports refer to its lines.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field

from ..inductor.generated_source import USERS, KernelSource, SourceError, kernels_of
from ..records import Emit, note
from ..world.graphs.generated import Generated

DIGEST_LENGTH = 12
"""Hexadecimal digits of the hash in a file's name."""


@dataclass
class GeneratedCode:
    """Stores the code of compiled graphs and announces its kernels to the host.

    Args:
        folder: where the texts are stored.
        emit: takes `{"generated": ...}` records; the host passes them to `inductor.capture`.
        is_selected: whether a kernel of this name and function name was asked for.
        expect: called with how many kernels of a graph will be captured.
    """

    folder: str
    emit: Emit
    is_selected: Callable[[str, str], bool]
    expect: Callable[[int], None]
    _paths: set[str] = field(default_factory=set)
    _functions_without_kernels: dict[str, None] = field(default_factory=dict)

    def take(self, generated: Generated) -> None:
        """Stores the code of a graph, unless it has no kernel that Inductor wrote."""
        digest = hashlib.sha256(generated.text.encode()).hexdigest()[:DIGEST_LENGTH]
        stem = re.sub(r"\W", "_", os.path.basename(generated.file).removesuffix(".py"))
        path = os.path.join(self.folder, f"{stem}.{generated.function}.{digest}.py")
        if path in self._paths:
            return
        self._paths.add(path)
        try:
            kernels = list(kernels_of(generated.text, path))
        except SourceError:
            return
        generated_kernels = [
            kernel
            for kernel in kernels
            if isinstance(kernel, KernelSource) and kernel.heuristic != USERS
        ]
        if not generated_kernels:
            self._functions_without_kernels[generated.function] = None
            return
        selected_count = sum(
            self.is_selected(kernel.name, kernel.function) for kernel in generated_kernels
        )
        if not selected_count:
            return
        _store(path, generated.text)
        self.expect(selected_count)
        origin = {
            "function": generated.function,
            "file": generated.file,
            "line": generated.line,
            "lines": generated.lines,
        }
        self.emit({"generated": {"path": path, "origin": origin}})

    def keep(self, compiler: str, text: str) -> str:
        """Stores a module that a compiler wrote and is about to import; returns its path."""
        digest = hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LENGTH]
        path = os.path.join(self.folder, f"{compiler}.{digest}.py")
        _store(path, text)
        return path

    def finish(self) -> None:
        """Emits a note on each function for which no Triton kernels were generated."""
        for function in self._functions_without_kernels:
            self.emit(note(f"torch.compile of {function} calls library kernels alone"))


def _store(path: str, text: str) -> None:
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
