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

from . import checkout
from .checkout import Checkout
from .missing import install_hint
from .syntax import parse

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
    around = enter(path)
    if relative_levels(path):
        return _load_in_package(path, around)
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


def enter(path: str) -> Checkout:
    """Makes importable what a file may import: its siblings, and its checkout's packages."""
    around = checkout.install(path)
    if around.package is None:
        sys.path.insert(0, os.path.dirname(path))
    # In a package the siblings come last: one named `types` is not meant by `import types`.
    return around


def as_main(path: str) -> ModuleType:
    """The module that a script's code is to run in, as `__main__`; its folder is entered."""
    around = enter(path)
    module = ModuleType("__main__")
    module.__file__ = path
    if relative_levels(path):  # as `python -m package.module` would
        module.__package__ = package_of(path, around)
        importlib.import_module(module.__package__)
    module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = module
    return module


def relative_levels(path: str) -> int:
    """How many packages up a file's relative imports reach; 0 where it has none."""
    with open(path, "rb") as stream:
        tree = parse(stream.read(), path)
    return max((n.level for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)), default=0)


def package_of(path: str, around: Checkout) -> str:
    """The dotted name of the package in which a file's relative imports resolve."""
    if around.package is not None:
        return around.package
    # A folder without __init__.py is a package too: as many of them as the imports reach up.
    folder, parts = os.path.dirname(path), list[str]()
    for _ in range(max(1, relative_levels(path))):
        folder, part = os.path.split(folder)
        parts.insert(0, part)
    sys.path.insert(0, folder)
    return ".".join(parts)


def _load_in_package(path: str, around: Checkout) -> ModuleType:
    """Imports the file under its dotted name: only there do its relative imports resolve."""
    name = os.path.splitext(os.path.basename(path))[0]
    return importlib.import_module(f"{package_of(path, around)}.{name}")


def _place(path: str, error: BaseException) -> str:
    """`file:line` of the innermost frame that lies in the file; the file alone if none does."""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if os.path.realpath(frame.filename) == os.path.realpath(path)
    ]
    return f"{path}:{lines[-1]}" if lines else path
