"""Kernel files by name or path, and what their text says. They are read, never executed."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Sequence
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path

from msgspec import Struct

from ...base.errors import KinspectError
from ...base.named_files import file_bytes

PACKAGE = "kinspect.kernels"
REQUIRED = ("CASES", "launch", "reference", "make_inputs")
"""The names that a file must define to be checked."""
ANSWERS = re.compile(r"^Answers to:\s*(.+(?:\n[ \t]*\S.*)*)", re.M)


class KernelFile(Struct, frozen=True, dict=True):
    """One kernel file."""

    name: str  # the file's name without `.py`
    path: Path
    bundled: bool  # whether it came with kinspect

    @cached_property
    def tree(self) -> ast.Module:
        """The file's syntax tree.

        Raises:
            KinspectError: it cannot be read, or is no Python.
        """
        try:
            return ast.parse(file_bytes(self.path), filename=str(self.path))
        except OSError as error:
            raise KinspectError(
                f"{self.path} cannot be read: {error.strerror}", "name a kernel file"
            ) from None
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = f":{error.lineno}" if isinstance(error, SyntaxError) else ""
            raise KinspectError(f"{self.path}{line}: not Python: {error}", "mend it") from None

    @property
    def docstring(self) -> str:
        """The module's docstring; empty without one."""
        return ast.get_docstring(self.tree) or ""

    @property
    def summary(self) -> str:
        """The first line of the docstring, without its full stop."""
        return self.docstring.partition("\n")[0].strip().rstrip(".")

    @property
    def answers_to(self) -> str:
        """The public system that the kernel answers to; empty where the file names none."""
        match = ANSWERS.search(self.docstring)
        return " ".join(match[1].split()).rstrip(".") if match else ""

    @property
    def defined(self) -> frozenset[str]:
        """The names that the module defines at its top level."""
        names: set[str] = set()
        for statement in self.tree.body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.add(statement.name)
            elif isinstance(statement, ast.Import | ast.ImportFrom):
                names.update((a.asname or a.name).partition(".")[0] for a in statement.names)
            else:
                names.update(target.id for target, _ in _assigned(statement))
        return frozenset(names)

    def entries(self, table: str) -> int | None:
        """Counts the entries of CASES or BENCH; returns None if the text does not show it."""
        count: int | None = 0
        for statement in self.tree.body:
            for target, value in _assigned(statement):
                if target.id == table:
                    count = _length(value) if isinstance(statement, ast.Assign) else None
        return count


def bundled() -> list[KernelFile]:
    """Returns the kernel files that come with kinspect, sorted by name."""
    return [
        KernelFile(path.stem, path, True)
        for folder in _folders()
        for path in sorted(folder.glob("*.py"))
        if path.stem != "__init__"
    ]


def find(text: str) -> KernelFile:
    """Finds a bundled kernel by its name, or a kernel file by its path.

    Raises:
        KinspectError: there is no such kernel, or no such file.
    """
    by_name = {kernel.name: kernel for kernel in bundled()}
    if text in by_name:
        return by_name[text]
    path = Path(text)
    if path.suffix == ".py" or path.is_file():
        if path.suffix != ".py" or not path.is_file():
            raise KinspectError(f"{text}: no such file", "name a bundled kernel or a .py file")
        bundled_kernel = next((k for k in by_name.values() if k.path.samefile(path)), None)
        return bundled_kernel or KernelFile(path.stem, path, False)
    near = get_close_matches(text, by_name, n=2)
    suggestion = f" (did you mean {' or '.join(near)}?)" if near else ""
    raise KinspectError(
        f"there is no kernel {text!r}{suggestion}",
        f"known: {', '.join(by_name)}; or name a .py file",
    )


def checkable(kernel: KernelFile) -> KernelFile:
    """The kernel, if its file has what a check needs.

    Raises:
        KinspectError: it lacks something.
    """
    lacking = [name for name in REQUIRED if name not in kernel.defined]
    if lacking:
        raise KinspectError(
            f"{kernel.path} defines no {', '.join(lacking)}: it cannot be checked",
            f"a kernel file has {', '.join(REQUIRED)}",
        )
    return kernel


def _folders() -> Sequence[Path]:
    # Found without importing it: a kernel file must not run in this process.
    spec = importlib.util.find_spec(PACKAGE)
    return [Path(p) for p in spec.submodule_search_locations or ()] if spec is not None else []


def _assigned(statement: ast.stmt) -> list[tuple[ast.Name, ast.expr | None]]:
    if isinstance(statement, ast.Assign):
        return [(t, statement.value) for t in statement.targets if isinstance(t, ast.Name)]
    if isinstance(statement, ast.AnnAssign | ast.AugAssign):
        target = statement.target
        return [(target, statement.value)] if isinstance(target, ast.Name) else []
    return []


def _length(value: ast.expr | None) -> int | None:
    if isinstance(value, ast.List | ast.Tuple) and not any(
        isinstance(item, ast.Starred) for item in value.elts
    ):
        return len(value.elts)
    return None
