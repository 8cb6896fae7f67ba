"""Names for interpreters with other Tritons: a path, or a label such as `3.6`.

Labels come from three places, the first that knows one wins: the variable `KINSPECT_TRITONS`
(`3.6=/opt/triton36/bin/python:3.4=/…`), virtual environments under the user's data folder
(`tritons/3.6/bin/python`), and the interpreter that runs kinspect, by its Triton's version.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from msgspec import Struct

from ..base.errors import KinspectError
from ..base.programs import find_program

VARIABLE = "KINSPECT_TRITONS"
FOLDER = "tritons"
PYTHONS = ("bin/python", "bin/python3", "Scripts/python.exe")
DISTRIBUTIONS = ("triton", "pytorch-triton-rocm", "triton-rocm", "pytorch-triton")
_VERSION = re.compile(r"\d+(\.\d+)*")


class Interpreter(Struct, frozen=True):
    """A Python that has a Triton."""

    label: str
    python: str

    def holds(self, version: str) -> bool:
        """Tells whether the label, if it is a version, fits a Triton's version: 3.6 fits 3.6.1."""
        return _VERSION.fullmatch(self.label) is None or _within(version, self.label)


def resolve(name: str) -> Interpreter:
    """Finds the interpreter that the user means.

    `name`: a path, a command on PATH that has a `python` in its name, or a label.

    Raises:
        KinspectError: there is no such path, or no such label; the message lists what is known.
    """
    if os.sep in name or name.startswith("~"):
        path = Path(name).expanduser()
        if not path.is_file():
            raise KinspectError(f"{name}: no such interpreter", "pass the path of a python")
        return Interpreter(name, str(path))
    labels = known_tritons()
    if name in labels:
        return Interpreter(name, labels[name])
    near = [label for label in labels if _within(label, name) or _within(name, label)]
    if near:
        return Interpreter(name, labels[max(near, key=_parts)])
    command = find_program(name) if "python" in name else None
    if command is not None:
        return Interpreter(name, command)
    listed = ", ".join(f"{label} ({path})" for label, path in labels.items()) or "none"
    raise KinspectError(
        f"no Triton is known as {name!r}; known: {listed}",
        f"pass an interpreter's path, set {VARIABLE}={name}=/path/to/python, or make a virtual"
        f" environment with that Triton at {data_folder() / name}",
    )


def known_tritons() -> dict[str, str]:
    """Returns label -> path of every interpreter that has a label.

    Raises:
        KinspectError: `KINSPECT_TRITONS` is malformed.
    """
    labels = dict(_stated(os.environ.get(VARIABLE, "")))
    for label, path in _installed(data_folder()):
        labels.setdefault(label, path)
    own_version = _own_version()
    if own_version is not None:
        labels.setdefault(own_version, sys.executable)
    return labels


def data_folder() -> Path:
    """Returns the folder in which virtual environments with other Tritons are looked for."""
    from platformdirs import user_data_path

    return user_data_path("kinspect", appauthor=False) / FOLDER


def _stated(text: str) -> Sequence[tuple[str, str]]:
    pairs = []
    for part in filter(None, (p.strip() for p in text.split(os.pathsep))):
        label, equals, path = part.partition("=")
        if not equals or not label or not path:
            raise KinspectError(
                f"{VARIABLE}: {part!r} is not LABEL=PATH",
                f"write {VARIABLE}=3.6=/path/to/python, several with {os.pathsep!r} between",
            )
        pairs.append((label, str(Path(path).expanduser())))
    return pairs


def _installed(folder: Path) -> Sequence[tuple[str, str]]:
    try:
        environments = sorted(folder.iterdir())
    except OSError:
        return []
    return [
        (environment.name, str(environment / python))
        for environment in environments
        for python in PYTHONS
        if (environment / python).is_file()
    ]


def _own_version() -> str | None:
    for name in DISTRIBUTIONS:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def _parts(label: str) -> tuple[int, ...]:
    match = _VERSION.match(label)
    return tuple(int(p) for p in match[0].split(".")) if match is not None else ()


def _within(version: str, label: str) -> bool:
    label_parts, version_parts = _parts(label), _parts(version)
    return bool(label_parts) and version_parts[: len(label_parts)] == label_parts
