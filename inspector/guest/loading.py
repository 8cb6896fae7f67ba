"""Loads a user's file as a module, in a forked child.

`import_file` imports it under its own name, so that code under `if __name__ == "__main__"` does not
run, and lets its exceptions through; `load` does the same and turns them into errors of one line
with a hint. `as_main` makes an empty `__main__` in which the caller executes the file as a script.

All three change `sys.path` and `sys.modules` for the rest of the process.
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
from .records import HintedError
from .syntax import parse

MAIN_GUARD = 'put what should run only as a script under `if __name__ == "__main__":`'


class LoadError(HintedError):
    """A file that cannot be loaded."""


def import_file(path: str) -> ModuleType:
    """Imports a file by its path, inside its package where it imports relatively.

    The file sees itself as the only command-line argument: `sys.argv` is replaced and stays so.

    Raises:
        LoadError: it is not a Python file.
        BaseException: any exception of the file itself.
    """
    if not path.endswith(".py"):  # a relative import in it would run the file beside it
        raise LoadError(f"{path} is not a Python file", "name a .py file")
    sys.argv = [path]
    project = make_imports_work(path)
    name = os.path.splitext(os.path.basename(path))[0]
    depth = _relative_import_depth(path)
    if depth:  # only under the dotted name do relative imports resolve
        return importlib.import_module(f"{_importable_package(path, project, depth)}.{name}")
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
    """Loads a file as a module, like `import_file`, with errors that can be shown to the user.

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


def make_imports_work(path: str) -> Checkout:
    """Makes a file's siblings and its checkout's packages importable; returns its checkout."""
    project = checkout.install(path)
    if project.package is None:
        sys.path.insert(0, os.path.dirname(path))
    # In a package the siblings come last: `import types` must not import a sibling `types`.
    return project


def as_main(path: str) -> ModuleType:
    """Replaces `__main__` by an empty module for a script's code, and makes its imports work.

    The script itself is not executed, and `sys.argv` is the caller's to set.
    """
    project = make_imports_work(path)
    module = ModuleType("__main__")
    module.__file__ = path
    depth = _relative_import_depth(path)
    if depth:  # as `python -m package.module` would
        module.__package__ = _importable_package(path, project, depth)
        importlib.import_module(module.__package__)
    module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = module
    return module


def _relative_import_depth(path: str) -> int:
    with open(path, "rb") as stream:
        tree = parse(stream.read(), path)
    return max((n.level for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)), default=0)


def _importable_package(path: str, project: Checkout, depth: int) -> str:
    """Makes the package in which a file's relative imports resolve importable; returns its name."""
    if project.package is not None:
        return project.package  # `make_imports_work` has made it importable
    root, name = _package_of_folders(path, depth)
    sys.path.insert(0, root)
    return name


def _package_of_folders(path: str, depth: int) -> tuple[str, str]:
    """The folder that contains a file's outermost package, and the dotted name of its package."""
    folder, parts = os.path.dirname(path), list[str]()
    for _ in range(depth):
        folder, part = os.path.split(folder)
        parts.insert(0, part)
    return folder, ".".join(parts)


def _error_line(path: str, error: BaseException) -> str:
    """`file:line` of the innermost frame that lies in the file; the file alone if none does."""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if os.path.realpath(frame.filename) == os.path.realpath(path)
    ]
    return f"{path}:{lines[-1]}" if lines else path
