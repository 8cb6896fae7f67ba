"""Loads a user's file as a module, in a forked child; errors are one line with a hint.

The module is not `__main__`, so code under `if __name__ == "__main__"` does not run.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import sys
import traceback
from types import ModuleType

from . import checkout
from .checkout import Checkout
from .missing_modules import install_hint
from .syntax import parse

MAIN_GUARD = 'put what should run only as a script under `if __name__ == "__main__":`'


class LoadError(Exception):
    """A file that cannot be loaded: a one-line message and a hint."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def import_file(path: str) -> ModuleType:
    """Imports a file by its path, inside its package where it imports relatively.

    Raises:
        LoadError: it is not a Python file.
        BaseException: any exception of the file itself.
    """
    sys.argv = [path]
    project = enter(path)
    if relative_import_depth(path):
        return _load_in_package(path, project)
    name = os.path.splitext(os.path.basename(path))[0]
    if name in sys.modules:  # named like a module that Triton itself may import later
        name = "_kinspect_target"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise LoadError(f"{path} is not a Python file", "name a .py file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def load(path: str) -> ModuleType:
    """Loads a file as a module.

    Raises:
        LoadError: it cannot be loaded; the message names the line of the file.
    """
    try:
        return import_file(path)
    except LoadError:
        raise
    except SyntaxError as error:
        line = f"{error.filename or path}:{error.lineno or 1}"
        raise LoadError(f"{line}: {type(error).__name__}: {error.msg}", "mend the file") from error
    except SystemExit as error:
        line = _error_line(path, error)
        message = f"{line}: the file ends the interpreter while it loads (sys.exit({error.code!r}))"
        raise LoadError(message, MAIN_GUARD) from error
    except ModuleNotFoundError as error:
        message = f"{_error_line(path, error)}: {error}"
        raise LoadError(message, install_hint(error, path)) from error
    except BaseException as error:
        text = " ".join(str(error).split())
        message = f"{_error_line(path, error)}: {type(error).__name__}: {text}"
        raise LoadError(message, f"the file must load without a GPU; {MAIN_GUARD}") from error


def enter(path: str) -> Checkout:
    """Makes a file's siblings and its checkout's packages importable."""
    project = checkout.install(path)
    if project.package is None:
        sys.path.insert(0, os.path.dirname(path))
    # In a package the siblings come last: `import types` must not import a sibling `types`.
    return project


def as_main(path: str) -> ModuleType:
    """A new `__main__` module for a script's code, whose imports are made to work (`enter`)."""
    project = enter(path)
    module = ModuleType("__main__")
    module.__file__ = path
    if relative_import_depth(path):  # as `python -m package.module` would
        module.__package__ = package_of(path, project)
        importlib.import_module(module.__package__)
    module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = module
    return module


def relative_import_depth(path: str) -> int:
    """How many packages upwards a file's relative imports reach; 0 without any."""
    with open(path, "rb") as stream:
        tree = parse(stream.read(), path)
    return max((n.level for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)), default=0)


def package_of(path: str, project: Checkout) -> str:
    """The dotted name of the package in which a file's relative imports resolve."""
    if project.package is not None:
        return project.package
    # Folders without __init__.py are packages too, as many as the imports reach up.
    folder, parts = os.path.dirname(path), list[str]()
    for _ in range(max(1, relative_import_depth(path))):
        folder, part = os.path.split(folder)
        parts.insert(0, part)
    sys.path.insert(0, folder)
    return ".".join(parts)


def _load_in_package(path: str, project: Checkout) -> ModuleType:
    """Imports the file under its dotted name: only there do its relative imports resolve."""
    name = os.path.splitext(os.path.basename(path))[0]
    return importlib.import_module(f"{package_of(path, project)}.{name}")


def _error_line(path: str, error: BaseException) -> str:
    """`file:line` of the innermost frame that lies in the file; the file alone if none does."""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if os.path.realpath(frame.filename) == os.path.realpath(path)
    ]
    return f"{path}:{lines[-1]}" if lines else path
