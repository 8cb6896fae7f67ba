"""Makes importable what `pip install -e .` would, of the checkout that a file lies in.

Nothing is built and nothing of the checkout is run for it: declarations are read as data. Modules
that are installed go first, except for the package that the file itself is part of.
"""

from __future__ import annotations

import ast
import configparser
import importlib
import importlib.metadata
import os
import re
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

from .syntax import parse

PROTECTED = frozenset(("triton", "torch", "numpy"))
"""Never taken from a checkout, where they are not built, nor stood in for."""
MARKERS = ("pyproject.toml", "setup.py", "setup.cfg")
CONVENTIONS = ("src", "python", "torch-ext", "lib")
"""Folders of a project that packages lie in where nothing is declared."""
MOST_LEVELS = 16
MOST_FOLDERS = 2000
"""Folders of a checkout that are looked at for projects within it."""
NESTED = 2
"""Levels below the top of a checkout at which projects of their own are looked for."""
_STANDARD = frozenset(getattr(sys, "stdlib_module_names", sys.builtin_module_names))  # Python 3.9
_SKIPPED = frozenset(("node_modules", "build", "dist", "third_party", "3rdparty", "venv", "env"))


class Checkout:
    """The folders around a file that packages may be imported from.

    Attributes:
        own_root: the folder that the package lies in which the file is part of; the file's where
            it is in none.
        package: dotted name of the file's folder in it; None where it is in no package.
        roots: all folders that packages lie in, nearest first.
        names: of the distributions that the projects around the file declare.
    """

    def __init__(self, path: str) -> None:
        path = os.path.realpath(path)
        folder = os.path.dirname(path)
        self.own_root, self.package = _package_around(folder)
        top, above = _boundary(folder, self.own_root)
        projects = [at for at in above if _is_project(at)]
        roots = [folder, self.own_root]
        self.names: list[str] = []
        for at in above:
            if _is_package(at) and at not in projects and not _is_git(at):
                continue
            roots += [*self._of_project(at), at] if at in projects else [*_usual(at), at]
        if projects or _is_git(top):
            for at in _projects_below(top):
                if at not in projects:
                    roots += [*self._of_project(at), at]
        self.roots = [
            at
            for at in dict.fromkeys(roots)
            # The root of a file system, or of all checkouts, holds anything.
            if os.path.isdir(at) and os.path.dirname(at) != at
        ]

    @property
    def own(self) -> str | None:
        """First name of the file's package."""
        return None if self.package is None else self.package.partition(".")[0]

    def _of_project(self, folder: str) -> list[str]:
        declared = declarations(folder)
        if declared.name is not None:
            self.names.append(declared.name)
        folders = [os.path.normpath(os.path.join(folder, at)) for at in declared.folders]
        # What lies above the project is none of its packages.
        inside = [at for at in folders if os.path.commonpath((at, folder)) == folder]
        return [*inside, *_usual(folder)]


class Declared:
    """What a project says of itself.

    Args:
        name: of its distribution.
        folders: that its packages or its tests' modules lie in, relative to it.
    """

    def __init__(self, name: str | None, folders: list[str]) -> None:
        self.name = name
        self.folders = folders


def declarations(folder: str) -> Declared:
    """What a folder's project files declare; of `setup.py` the literals alone are read."""
    names: list[str] = []
    folders: list[str] = []
    for read in (_pyproject, _setup_cfg, _setup_py, _pytest_ini):
        try:
            name, read_folders = read(folder)
        except (OSError, ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            continue  # as if it were not there: imports say what they lack
        except (AttributeError, KeyError, configparser.Error):
            continue
        names += [name] if name else []
        folders += read_folders
    texts = [at for at in folders if isinstance(at, str)]
    return Declared(names[0] if names else None, list(dict.fromkeys(texts)))


def _pyproject(folder: str) -> tuple[str | None, list[Any]]:
    try:
        tomllib: Any = importlib.import_module("tomllib")
    except ImportError:  # Python 3.10 and before
        return None, []
    with open(os.path.join(folder, "pyproject.toml"), "rb") as stream:
        document: dict[str, Any] = tomllib.load(stream)
    tool = document.get("tool", {})
    setuptools = tool.get("setuptools", {})
    poetry = tool.get("poetry", {})
    wheel = tool.get("hatch", {}).get("build", {}).get("targets", {}).get("wheel", {})
    packages = setuptools.get("packages")
    where = packages.get("find", {}).get("where", []) if isinstance(packages, dict) else []
    folders = [
        *setuptools.get("package-dir", {}).values(),
        *where,
        *(package["from"] for package in poetry.get("packages", []) if "from" in package),
        *(os.path.dirname(package) for package in wheel.get("packages", [])),
        *wheel.get("sources", []),
        *_listed(tool.get("maturin", {}).get("python-source")),
        *_listed(tool.get("scikit-build", {}).get("wheel", {}).get("packages")),
        *_listed(tool.get("pytest", {}).get("ini_options", {}).get("pythonpath")),
    ]
    return document.get("project", {}).get("name") or poetry.get("name"), folders


def _setup_cfg(folder: str) -> tuple[str | None, list[Any]]:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(os.path.join(folder, "setup.cfg"))
    where = parser.get("options", "package_dir", fallback="")
    folders = [line.partition("=")[2].strip() for line in where.splitlines() if "=" in line]
    folders += _listed(parser.get("options.packages.find", "where", fallback=None))
    folders += _listed(parser.get("tool:pytest", "pythonpath", fallback=None))
    return parser.get("metadata", "name", fallback=None), folders


def _setup_py(folder: str) -> tuple[str | None, list[Any]]:
    with open(os.path.join(folder, "setup.py"), "rb") as stream:
        tree = parse(stream.read())
    name, folders = None, list[Any]()
    for node in ast.walk(tree):
        called = node.func if isinstance(node, ast.Call) else None
        last = getattr(called, "attr", getattr(called, "id", None))
        if not isinstance(node, ast.Call) or last not in (
            "setup",
            "find_packages",
            "find_namespace_packages",
        ):
            continue
        stated = {keyword.arg: keyword.value for keyword in node.keywords}
        if last == "setup":
            name = _literal(stated.get("name")) or name
            where = _literal(stated.get("package_dir"))
            folders += where.values() if isinstance(where, dict) else []
        else:
            folders.append(_literal(stated.get("where", node.args[0] if node.args else None)))
    return name if isinstance(name, str) else None, folders


def _pytest_ini(folder: str) -> tuple[str | None, list[Any]]:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read([os.path.join(folder, name) for name in ("pytest.ini", ".pytest.ini", "tox.ini")])
    return None, _listed(parser.get("pytest", "pythonpath", fallback=None))


def _literal(node: ast.expr | None) -> Any:
    try:
        return None if node is None else ast.literal_eval(node)
    except ValueError:
        return None


def _listed(setting: Any) -> list[Any]:
    """Of a setting that is one folder, several, or several on lines or between blanks."""
    return list(setting) if isinstance(setting, list) else str(setting).split() if setting else []


# --------------------------------------------------------------------------- folders


def _package_around(folder: str) -> tuple[str, str | None]:
    """The folder that a folder's outermost package lies in, and the folder's dotted name there.

    Folders without `__init__.py` count where a package is around them: they are packages too.
    """
    root = folder
    while not _is_package(root):
        if _is_project(root) or _is_git(root) or os.path.dirname(root) == root:
            return folder, None
        root = os.path.dirname(root)
    while _is_package(root) and os.path.dirname(root) != root:
        root = os.path.dirname(root)
    return root, os.path.relpath(folder, root).replace(os.sep, ".")


def _boundary(folder: str, own_root: str) -> tuple[str, list[str]]:
    """The top of the checkout, and all folders from a file's up to it, nearest first.

    The top is where git's folder is; else the highest project; else the file's package.
    """
    above = [folder]
    while len(above) < MOST_LEVELS and os.path.dirname(above[-1]) != above[-1]:
        if _is_git(above[-1]):
            return above[-1], above
        above.append(os.path.dirname(above[-1]))
    # Not beyond the home folder, nor where others write: a stray setup.py there is nobody's.
    shared = {os.path.realpath(os.path.expanduser("~")), "/", "/tmp", "/home"}
    within = []
    for at in above:
        if at in shared:
            break
        within.append(at)
    highest = max((n for n, at in enumerate(within) if _is_project(at)), default=None)
    if highest is None:
        top = own_root
        within = [at for at in within if len(at) >= len(top)]
        return top, within
    return within[highest], within[: highest + 1]


def _usual(folder: str) -> list[str]:
    """Folders of a project where packages lie by convention."""
    return [
        at
        for name in CONVENTIONS
        if os.path.isdir(at := os.path.join(folder, name)) and not _is_package(at)
    ]


def _projects_below(top: str) -> Iterator[str]:
    """Projects within a checkout, level by level."""
    level, visited = [top], 0
    for _ in range(NESTED):
        below = []
        for folder in level:
            for entry in _folders(folder):
                visited += 1
                if visited > MOST_FOLDERS:
                    return
                if _is_project(entry):
                    yield entry
                below.append(entry)
        level = below


def _folders(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(
                entry.path
                for entry in entries
                if entry.is_dir(follow_symlinks=False)
                and not entry.name.startswith(".")
                and entry.name not in _SKIPPED
            )
    except OSError:
        return []


def _is_package(folder: str) -> bool:
    return os.path.exists(os.path.join(folder, "__init__.py"))


def _is_project(folder: str) -> bool:
    return any(os.path.exists(os.path.join(folder, name)) for name in MARKERS)


def _is_git(folder: str) -> bool:
    return os.path.exists(os.path.join(folder, ".git"))


# --------------------------------------------------------------------------- imports


class OwnPackage:
    """Finds the package that the file is part of where the file is, whatever is installed."""

    def __init__(self, checkout: Checkout) -> None:
        self._checkout = checkout

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The spec of that package; None for any other name."""
        own = self._checkout.own
        if name != own or own in PROTECTED or own in _STANDARD:
            return None
        return PathFinder.find_spec(name, [self._checkout.own_root], target)


class Around:
    """Finds, after all others, packages and modules of the checkout by their first name."""

    def __init__(self, checkout: Checkout) -> None:
        self._checkout = checkout

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The spec of a package or module; of a folder without `__init__.py` if it holds code."""
        if "." in name or name in PROTECTED:
            return None
        spaces = []
        for root in self._checkout.roots:
            spec = PathFinder.find_spec(name, [root], target)
            if spec is not None and spec.loader is not None and spec.origin is not None:
                return spec
            if spec is not None and _holds_code(os.path.join(root, name)):
                spaces.append(spec)
        return spaces[0] if spaces else None

    def find_distributions(
        self, context: importlib.metadata.DistributionFinder.Context
    ) -> Iterator[importlib.metadata.Distribution]:
        """What an editable install would have written down of the projects around."""
        for name in self._checkout.names:
            if context.name is None or _normal(context.name) == _normal(name):
                yield NotInstalled(name)


class NotInstalled(importlib.metadata.Distribution):
    """A project of the checkout that is not installed: it has a name, and no version."""

    def __init__(self, name: str) -> None:
        self._name = name

    def read_text(self, filename: str) -> str | None:
        """The few lines of its metadata."""
        if filename == "METADATA":
            return f"Metadata-Version: 2.1\nName: {self._name}\nVersion: 0.0.0\n"
        return None

    def locate_file(self, path: Any) -> Any:
        """Nowhere."""
        return path


def install(path: str) -> Checkout:
    """Makes the packages around a file importable, in this process, for good.

    Args:
        path: the file.

    Returns:
        what was found.
    """
    checkout = Checkout(path)
    if checkout.own is not None:
        sys.meta_path.insert(0, OwnPackage(checkout))
    sys.meta_path.append(Around(checkout))
    return checkout


def _holds_code(folder: str) -> bool:
    """Whether Python files lie in a folder or right below it: `wandb/` with its logs is none."""
    folders = [folder, *_folders(folder)[:50]]
    for at in folders:
        try:
            if any(name.endswith(".py") for name in os.listdir(at)):
                return True
        except OSError:
            continue
    return False


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
