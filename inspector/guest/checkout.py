"""Makes the packages of a file's checkout importable, as `pip install -e .` would.

Nothing is built and no code of the checkout runs: project files are read as data. Installed modules
take precedence, except over the file's own package.
"""

from __future__ import annotations

import ast
import configparser
import importlib
import importlib.metadata
import os
import re
import stat
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any, NamedTuple

from .syntax import parse

PROTECTED = frozenset(("triton", "torch", "numpy"))
"""Packages that are never imported from a checkout (they are not built there), nor stubbed."""
MARKERS = ("pyproject.toml", "setup.py", "setup.cfg")
CONVENTIONS = ("src", "python", "torch-ext", "lib")
"""Folders of a project that contain packages by convention."""
MAX_LEVELS = 16
MAX_FOLDERS = 2000
"""How many folders of a checkout are searched for nested projects."""
NESTED_LEVELS = 2
"""Levels below the top of a checkout that are searched for nested projects."""
_STANDARD = frozenset(getattr(sys, "stdlib_module_names", sys.builtin_module_names))  # Python 3.9
_SKIPPED = frozenset(("node_modules", "build", "dist", "third_party", "3rdparty", "venv", "env"))


class Checkout:
    """The folders around a file from which packages may be imported.

    Attributes:
        own_root: the folder that contains the file's outermost package, or the file itself.
        package: dotted name of the file's package; None outside of packages.
        roots: folders from which packages may be imported, in this order.
    """

    def __init__(self, path: str) -> None:
        path = os.path.realpath(path)
        folder = os.path.dirname(path)
        self.own_root, self.package = _package_around(folder)
        top, folders_above = _checkout_folders(folder, self.own_root)
        projects = [root for root in folders_above if _is_project(root)]
        roots = [folder, self.own_root]
        self.names: list[str] = []
        for root in folders_above:
            if _is_package(root) and root not in projects and not _is_git(root):
                continue
            roots += (
                [*self._project_roots(root), root]
                if root in projects
                else [*_conventional_folders(root), root]
            )
        if projects or _is_git(top):
            for root in _projects_below(top):
                if root not in projects:
                    roots += [*self._project_roots(root), root]
        self.roots = [
            root
            for root in dict.fromkeys(roots)
            # The root of a file system has no packages of the project.
            if os.path.isdir(root) and os.path.dirname(root) != root
        ]

    @property
    def own(self) -> str | None:
        """First name of the file's package."""
        return None if self.package is None else self.package.partition(".")[0]

    def _project_roots(self, folder: str) -> list[str]:
        declared = declarations(folder)
        if declared.name is not None:
            self.names.append(declared.name)
        folders = [os.path.normpath(os.path.join(folder, root)) for root in declared.folders]
        # Folders outside of the project do not contain its packages.
        inside = [root for root in folders if os.path.commonpath((root, folder)) == folder]
        return [*inside, *_conventional_folders(folder)]


class Declarations(NamedTuple):
    """The declarations in a project's files.

    `name`: name of its distribution; None if not declared.
    `folders`: folders that contain its packages or test modules, relative to the project.
    """

    name: str | None
    folders: list[str]


def declarations(folder: str) -> Declarations:
    """The declarations in a folder's project files; of `setup.py`, only literal arguments."""
    names: list[str] = []
    folders: list[str] = []
    for read_declarations in (_pyproject, _setup_cfg, _setup_py, _pytest_ini):
        try:
            name, read_folders = read_declarations(folder)
        except (OSError, ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            continue  # treated as missing: a failing import will be reported
        except (AttributeError, KeyError, configparser.Error):
            continue
        names += [name] if name else []
        folders += read_folders
    folder_names = [entry for entry in folders if isinstance(entry, str)]
    return Declarations(names[0] if names else None, list(dict.fromkeys(folder_names)))


def _pyproject(folder: str) -> tuple[str | None, list[Any]]:
    """Name and folders that a pyproject.toml declares, in the tables of several build tools."""
    try:
        tomllib: Any = importlib.import_module("tomllib")
    except ImportError:
        return None, []
    with open(os.path.join(folder, "pyproject.toml"), "rb") as stream:
        document: dict[str, Any] = tomllib.load(stream)
    tool = document.get("tool", {})
    setuptools = tool.get("setuptools", {})
    poetry = tool.get("poetry", {})
    wheel = tool.get("hatch", {}).get("build", {}).get("targets", {}).get("wheel", {})
    packages = setuptools.get("packages")
    folders_found = packages.get("find", {}).get("where", []) if isinstance(packages, dict) else []
    folders = [
        *setuptools.get("package-dir", {}).values(),
        *folders_found,
        *(package["from"] for package in poetry.get("packages", []) if "from" in package),
        *(os.path.dirname(package) for package in wheel.get("packages", [])),
        *wheel.get("sources", []),
        *_as_list(tool.get("maturin", {}).get("python-source")),
        *_as_list(tool.get("scikit-build", {}).get("wheel", {}).get("packages")),
        *_as_list(tool.get("pytest", {}).get("ini_options", {}).get("pythonpath")),
    ]
    return document.get("project", {}).get("name") or poetry.get("name"), folders


def _setup_cfg(folder: str) -> tuple[str | None, list[Any]]:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(os.path.join(folder, "setup.cfg"))
    folders_found = parser.get("options", "package_dir", fallback="")
    folders = [line.partition("=")[2].strip() for line in folders_found.splitlines() if "=" in line]
    folders += _as_list(parser.get("options.packages.find", "where", fallback=None))
    folders += _as_list(parser.get("tool:pytest", "pythonpath", fallback=None))
    return parser.get("metadata", "name", fallback=None), folders


def _setup_py(folder: str) -> tuple[str | None, list[Any]]:
    with open(os.path.join(folder, "setup.py"), "rb") as stream:
        tree = parse(stream.read())
    name, folders = None, list[Any]()
    for node in ast.walk(tree):
        called = node.func if isinstance(node, ast.Call) else None
        called_name = getattr(called, "attr", getattr(called, "id", None))
        if not isinstance(node, ast.Call) or called_name not in (
            "setup",
            "find_packages",
            "find_namespace_packages",
        ):
            continue
        keywords = {keyword.arg: keyword.value for keyword in node.keywords}
        if called_name == "setup":
            name = _literal(keywords.get("name")) or name
            package_dir = _literal(keywords.get("package_dir"))
            folders += package_dir.values() if isinstance(package_dir, dict) else []
        else:
            folders.append(_literal(keywords.get("where", node.args[0] if node.args else None)))
    return name if isinstance(name, str) else None, folders


def _pytest_ini(folder: str) -> tuple[str | None, list[Any]]:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read([os.path.join(folder, name) for name in ("pytest.ini", ".pytest.ini", "tox.ini")])
    return None, _as_list(parser.get("pytest", "pythonpath", fallback=None))


def _literal(node: ast.expr | None) -> Any:
    try:
        return None if node is None else ast.literal_eval(node)
    except (ValueError, TypeError, MemoryError, RecursionError):
        return None


def _as_list(setting: Any) -> list[Any]:
    """A setting as a list: it may be a list, or a text of words or lines."""
    return list(setting) if isinstance(setting, list) else str(setting).split() if setting else []


def checkout_of(path: str) -> tuple[str, str | None]:
    """The top folder of a file's checkout, and the first name of the file's package, if any."""
    folder = os.path.dirname(os.path.realpath(path))
    root, package = _package_around(folder)
    return _checkout_folders(folder, root)[0], package and package.partition(".")[0]


def _package_around(folder: str) -> tuple[str, str | None]:
    """The folder that contains a folder's outermost package, and the folder's dotted name in it.

    A folder without `__init__.py` inside a package is a package too.
    """
    root = folder
    while not _is_package(root):
        if _is_project(root) or _is_git(root) or os.path.dirname(root) == root:
            return folder, None
        root = os.path.dirname(root)
    while _is_package(root) and os.path.dirname(root) != root:
        root = os.path.dirname(root)
    return root, os.path.relpath(folder, root).replace(os.sep, ".")


def _checkout_folders(folder: str, own_root: str) -> tuple[str, list[str]]:
    """The top of the checkout, and all folders from a file's up to it, nearest first.

    The top is the folder with `.git`; else the highest project; else the file's package.
    """
    ancestors = [folder]
    while len(ancestors) < MAX_LEVELS and os.path.dirname(ancestors[-1]) != ancestors[-1]:
        if _is_git(ancestors[-1]):
            return ancestors[-1], ancestors
        ancestors.append(os.path.dirname(ancestors[-1]))
    # Folders that belong to no project, even with a setup.py in them.
    shared_folders = {os.path.realpath(os.path.expanduser("~")), "/", "/tmp", "/home"}
    private_ancestors = []
    for candidate in ancestors:
        if candidate in shared_folders:
            break
        private_ancestors.append(candidate)
    highest = max(
        (n for n, candidate in enumerate(private_ancestors) if _is_project(candidate)), default=None
    )
    if highest is None:
        top = own_root
        private_ancestors = [
            candidate for candidate in private_ancestors if len(candidate) >= len(top)
        ]
        return top, private_ancestors
    return private_ancestors[highest], private_ancestors[: highest + 1]


def _conventional_folders(folder: str) -> list[str]:
    return [
        candidate
        for name in CONVENTIONS
        if os.path.isdir(candidate := os.path.join(folder, name)) and not _is_package(candidate)
    ]


def _projects_below(top: str) -> Iterator[str]:
    level, visited = [top], 0
    for _ in range(NESTED_LEVELS):
        below = []
        for folder in level:
            for entry in folders_in(folder):
                visited += 1
                if visited > MAX_FOLDERS:
                    return
                if _is_project(entry):
                    yield entry
                below.append(entry)
        level = below


def folders_in(folder: str) -> list[str]:
    """The subfolders of a folder, without links, hidden ones and `_SKIPPED`."""
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
    return _has_own(folder, "__init__.py")


def _is_project(folder: str) -> bool:
    return any(_has_own(folder, name) for name in MARKERS)


def _is_git(folder: str) -> bool:
    return _has_own(folder, ".git")


def _has_own(folder: str, name: str) -> bool:
    """Whether a folder has a file that the user made, or who owns the folder.

    In a folder that all may write to, such as /tmp, anyone could have made it.
    """
    try:
        made_by, around = os.lstat(os.path.join(folder, name)).st_uid, os.stat(folder)
    except OSError:
        return False
    if made_by == os.getuid():
        return True
    return made_by == around.st_uid and not around.st_mode & stat.S_IWOTH


class OwnPackageFinder:
    """Finds the file's own package beside the file, even if another copy is installed."""

    def __init__(self, checkout: Checkout) -> None:
        self._checkout = checkout

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The spec of that package; None for any other name."""
        package_name = self._checkout.own
        if name != package_name or package_name in PROTECTED or package_name in _STANDARD:
            return None
        return PathFinder.find_spec(name, [self._checkout.own_root], target)


class CheckoutFinder:
    """Finds packages and modules of the checkout that no other finder finds."""

    def __init__(self, checkout: Checkout) -> None:
        self._checkout = checkout

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The spec of a package or module, also of a folder of code without `__init__.py`."""
        if "." in name or name in PROTECTED:
            return None
        namespace_specs = []
        for root in self._checkout.roots:
            spec = PathFinder.find_spec(name, [root], target)
            if spec is not None and spec.loader is not None and spec.origin is not None:
                return spec
            if spec is not None and _holds_code(os.path.join(root, name)):
                namespace_specs.append(spec)
        return namespace_specs[0] if namespace_specs else None

    def find_distributions(
        self, context: importlib.metadata.DistributionFinder.Context
    ) -> Iterator[importlib.metadata.Distribution]:
        """The metadata that an editable install of the surrounding projects would have written."""
        for name in self._checkout.names:
            if context.name is None or _normalized(context.name) == _normalized(name):
                yield NotInstalled(name)


class NotInstalled(importlib.metadata.Distribution):
    """The metadata of a project that is not installed: a name, and version 0.0.0."""

    def __init__(self, name: str) -> None:
        self._name = name

    def read_text(self, filename: str) -> str | None:
        """The contents of METADATA; None for other files."""
        if filename == "METADATA":
            return f"Metadata-Version: 2.1\nName: {self._name}\nVersion: 0.0.0\n"
        return None

    def locate_file(self, path: Any) -> Any:
        """The path itself: no file exists."""
        return path


def install(path: str) -> Checkout:
    """Makes the packages around a file importable for the rest of this process."""
    checkout = Checkout(path)
    if checkout.own is not None:
        sys.meta_path.insert(0, OwnPackageFinder(checkout))
    sys.meta_path.append(CheckoutFinder(checkout))
    return checkout


def _holds_code(folder: str) -> bool:
    """Whether a folder or its direct subfolders contain Python files, unlike `wandb/` with logs."""
    folders = [folder, *folders_in(folder)[:50]]
    for candidate in folders:
        try:
            if any(name.endswith(".py") for name in os.listdir(candidate)):
                return True
        except OSError:
            continue
    return False


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
