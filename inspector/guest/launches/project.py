"""The user's own files, which are compiled without their asserts and leave no byte code.

Finds the user's line that a launch comes from.
"""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.util
import os
import sys
import sysconfig
from collections.abc import Sequence
from types import CodeType, FrameType
from typing import Any

from ..world.reporting_statements import may_launch

OWN_FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")


def is_own(path: str) -> bool:
    """Whether a file is one of this package."""
    return os.path.abspath(path).startswith(OWN_FOLDER)


class Project:
    """The code that belongs to the script, as opposed to the libraries it uses."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        paths = sysconfig.get_paths()
        libraries = {paths["stdlib"], paths["platstdlib"], paths["purelib"], paths["platlib"]}
        libraries.add(os.path.dirname(os.path.abspath(os.__file__)))
        self._libraries = tuple(os.path.join(os.path.realpath(folder), "") for folder in libraries)

    def owns(self, path: str) -> bool:
        """Whether a file is the script itself, or does not belong to an installed library."""
        if os.path.abspath(path) == self.path:
            return True
        real = os.path.realpath(path)
        return not real.startswith(self._libraries) and "site-packages" not in real

    def owns_code(self, code: CodeType) -> bool:
        """Whether code comes from a file of the user, and not from this package."""
        name = code.co_filename
        return not name.startswith("<") and not is_own(name) and self.owns(name)

    def install(self) -> None:
        """Compiles the project's modules without their asserts, and writes no byte code.

        Results are not real here, so an assertion about them means nothing.
        """
        sys.dont_write_bytecode = True
        loader = importlib.machinery.SourceFileLoader
        get_code = loader.get_code

        def without_asserts(file_loader: Any, fullname: str) -> CodeType | None:
            path = file_loader.get_filename(fullname)
            if is_own(path) or not self.owns(path):  # in a checkout it is no library either
                return get_code(file_loader, fullname)
            return self.compile_file(path, file_loader.get_data(path))

        loader.get_code = without_asserts  # type: ignore[method-assign, assignment]

    def compile_file(self, path: str, source: bytes | None = None) -> CodeType:
        """The byte code of a file, without its asserts and `raise AssertionError`.

        Raises:
            SyntaxError: the file is not Python, or of a newer version.
        """
        if source is None:
            with open(path, "rb") as stream:
                source = stream.read()
        if b"assert" not in source and b"AssertionError" not in source:
            return compile(source, path, "exec", dont_inherit=True, optimize=1)
        tree = _WithoutAssertions().visit(ast.parse(source, path))
        return compile(tree, path, "exec", dont_inherit=True, optimize=1)


class _WithoutAssertions(ast.NodeTransformer):
    """Drops asserts and `raise AssertionError(...)`, but keeps the calls in their conditions.

    `assert torch.allclose(add(x, y), x + y)` launches a kernel.
    """

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        has_launch = may_launch(node.test)
        return ast.copy_location(ast.Expr(node.test) if has_launch else ast.Pass(), node)

    def visit_Raise(self, node: ast.Raise) -> ast.stmt:
        raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        if isinstance(raised, ast.Name) and raised.id == "AssertionError":
            return ast.copy_location(ast.Pass(), node)
        return node


LIBRARIES = ("triton", "torch", "helion")
"""Packages whose frames are skipped."""


class Sites:
    """Finds call sites: the first frame outside of Triton, PyTorch, Helion and this package.

    `generated`: folders of code that a compiler generated, which is not the user's.
    """

    def __init__(self, generated: Sequence[str] = ()) -> None:
        folders = [*generated, os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
        for name in LIBRARIES:
            spec = importlib.util.find_spec(name)
            folders += list(spec.submodule_search_locations or ()) if spec is not None else []
        self._libraries = tuple(os.path.join(os.path.abspath(f), "") for f in folders)
        self._is_users_by_file: dict[str, bool] = {}

    def current(self) -> dict[str, Any] | None:
        """`{"file", "line"}` of the user's code that is launching; None if there is none.

        Frames of code without a file (`exec` of a string) are skipped.
        """
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            name = frame.f_code.co_filename
            is_users = self._is_users_by_file.get(name)
            if is_users is None:
                is_users = self._is_users_by_file[name] = self._is_users(name)
            if is_users:
                return {"file": os.path.abspath(name), "line": frame.f_lineno}
            frame = frame.f_back
        return None

    def _is_users(self, name: str) -> bool:
        return not name.startswith("<") and not os.path.abspath(name).startswith(self._libraries)
