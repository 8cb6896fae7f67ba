"""Loads a user's file as a module, in a forked child, and says in one line if it cannot.

As a module, not as `__main__`: what stands under `if __name__ == "__main__"` is left alone.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import sys
import traceback
from types import ModuleType

from .missing import install_hint

MAIN_GUARD = 'put what should run only as a script under `if __name__ == "__main__":`'


class LoadError(Exception):
    """The file could not be loaded: one line, and what to do about it."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def import_file(path: str) -> ModuleType:
    """Imports a file by its path, inside its package where it imports relatively.

    Raises:
        LoadError: it is no Python file.
        BaseException: whatever the file itself raises.
    """
    sys.argv = [path]
    sys.path.insert(0, os.path.dirname(path))
    if imports_relatively(path):
        return _load_in_package(path)
    name = os.path.splitext(os.path.basename(path))[0]
    if name in sys.modules:  # a file named after a module that Triton itself may yet import
        name = "_kinspect_target"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise LoadError(f"{path} is not a Python file", "name a .py file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def load(path: str) -> ModuleType:
    """Loads the file as Python would if it were started as a script.

    Raises:
        LoadError: whatever went wrong, with the line of the file where it did.
    """
    try:
        return import_file(path)
    except LoadError:
        raise
    except SyntaxError as error:
        place = f"{error.filename or path}:{error.lineno or 1}"
        raise LoadError(f"{place}: {type(error).__name__}: {error.msg}", "mend the file") from error
    except SystemExit as error:
        where = _place(path, error)
        message = (
            f"{where}: the file ends the interpreter while it loads (sys.exit({error.code!r}))"
        )
        raise LoadError(message, MAIN_GUARD) from error
    except ModuleNotFoundError as error:
        message = f"{_place(path, error)}: {error}"
        raise LoadError(message, install_hint(error, path)) from error
    except BaseException as error:
        text = " ".join(str(error).split())
        message = f"{_place(path, error)}: {type(error).__name__}: {text}"
        raise LoadError(message, f"the file must load without a GPU; {MAIN_GUARD}") from error


def imports_relatively(path: str) -> bool:
    """Whether a file has `from . import`, which only works inside its package."""
    with open(path, "rb") as stream:
        tree = ast.parse(stream.read(), filename=path)
    return any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(tree))


def _load_in_package(path: str) -> ModuleType:
    """Imports the file under its dotted name: only there do its relative imports resolve."""
    sys.path[0], package = package_of(path)
    name = os.path.splitext(os.path.basename(path))[0]
    return importlib.import_module(f"{package}.{name}" if package else name)


def package_of(path: str) -> tuple[str, str]:
    """The folder that holds a file's outermost package, and the dotted name of its package."""
    folder = os.path.dirname(path)
    parts: list[str] = []
    while os.path.exists(os.path.join(folder, "__init__.py")) or not parts:
        folder, part = os.path.split(folder)
        parts.insert(0, part)  # a folder without __init__.py is a package too: a namespace
    return folder, ".".join(parts)


def _place(path: str, error: BaseException) -> str:
    """`file:line` of the innermost frame that lies in the file; the file alone if none does."""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if os.path.realpath(frame.filename) == os.path.realpath(path)
    ]
    return f"{path}:{lines[-1]}" if lines else path
