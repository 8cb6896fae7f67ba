"""Which module an import really failed for, and what to install.

The module that was asked for is often not the one that lacks: Triton's interpreter imports NumPy,
which neither Triton nor PyTorch brings along.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence

# Names on the package index, where they are others than the module's.
DISTRIBUTIONS = {
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python",
    "dateutil": "python-dateutil",
    "google": "protobuf",
    "OpenSSL": "pyopenssl",
    "PIL": "pillow",
    "pkg_resources": "setuptools",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "triton": "kinspect[triton]",  # with NumPy, which its interpreter needs
    "yaml": "pyyaml",
}


def missing_module(failure: BaseException) -> str | None:
    """The module that is not there, in dots; None for an import that failed for another reason.

    The first failure of a chain counts: what was raised from it only passes it on.
    """
    found = None
    cause: BaseException | None = failure
    seen = set()
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        if isinstance(cause, ModuleNotFoundError) and cause.name:
            found = cause.name
        cause = cause.__cause__
    return found


def install_hint(failure: BaseException, wanted: str) -> str:
    """What to do about an import that failed in this interpreter.

    Args:
        failure: the exception.
        wanted: the module that was imported, for a failure that names none.
    """
    name = missing_module(failure)
    other = "or name another interpreter with --python"
    if name is None and isinstance(failure, ImportError) and "relative import" in str(failure):
        return f"name the file by its path in its package's folder, {other}"
    if name is None:
        # It is there, and does not load: a library that it needs, or a name that it has not.
        broken = (getattr(failure, "name", None) or wanted).partition(".")[0]
        return f"mend or replace the {broken} of {sys.executable}, {other}"
    top = name.partition(".")[0]
    if top != name and _is_there(top):
        hiding = _single_file(top)
        if hiding is not None:
            return f"{hiding} hides the package {top}: give the file another name, {other}"
        return f"the {top} of {sys.executable} has no {name}: install another version, {other}"
    package = DISTRIBUTIONS.get(top, top)
    quoted = f"'{package}'" if "[" in package else package
    return f"{sys.executable} -m pip install {quoted}, {other}"


def stood_in(names: Sequence[str]) -> str:
    """What is said, once, of modules that a stand-in took the place of.

    Args:
        names: in dots; those below a package are what its build would have made.
    """
    missing = [name for name in names if "." not in name]
    unbuilt = [name for name in names if "." in name]
    said = []
    if missing:
        packages = " ".join(dict.fromkeys(DISTRIBUTIONS.get(name, name) for name in missing))
        said.append(
            f"{_listed(missing)} not installed: stand-ins that do nothing take the place;"
            f" {sys.executable} -m pip install {packages}, or name an interpreter with --python"
        )
    if unbuilt:
        said.append(
            f"{_listed(unbuilt)} not built: stand-ins that do nothing take the place; build the"
            " package, or name an interpreter that has it with --python"
        )
    return ". ".join(said)


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'}"


def _single_file(name: str) -> str | None:
    """The file of a module that is no package."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None or spec.submodule_search_locations is not None or not spec.has_location:
        return None
    return spec.origin


def _is_there(name: str) -> bool:
    if name in sys.modules:
        return True
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False
