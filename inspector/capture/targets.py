"""From what the user names on the command line to the files to work on.

Nothing is executed here. What a file is gets decided by its first bytes where they are decisive
(ELF, zip) and by its suffix otherwise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from kinspect.inspector.errors import KinspectError

Kind = Literal["script", "asm", "code_object", "ttir", "ttgir", "report", "archive"]

SUFFIXES: Mapping[str, Kind] = {
    ".py": "script",
    ".s": "asm",
    ".S": "asm",
    ".asm": "asm",
    ".amdgcn": "asm",
    ".hsaco": "code_object",
    ".co": "code_object",
    ".o": "code_object",
    ".ttir": "ttir",
    ".ttgir": "ttgir",
    ".mlir": "ttgir",
    ".json": "report",
    ".kinspect": "archive",
}

_TRITON_KERNEL = re.compile(
    rb"^\s*@(?:triton\.)?(?:jit|autotune|heuristics)\b|KINSPECT_CASES", re.M
)
_SKIPPED_FOLDERS = {"__pycache__", "node_modules", "site-packages"}


@dataclass(frozen=True, slots=True)
class Target:
    """One file to work on.

    Args:
        path: the file.
        kind: what it is.
        kernel: only this kernel of it (`file.py::kernel`).
        siblings: files of the same compile that lie beside it, by kind (`metadata`, `ttgir`, ...).
    """

    path: Path
    kind: Kind
    kernel: str | None = None
    siblings: Mapping[str, Path] = field(default_factory=dict)


def resolve(text: str) -> list[Target]:
    """The targets that a command-line argument names.

    Args:
        text: a file, `file.py::kernel`, or a folder, which means every target in it.

    Raises:
        KinspectError: there is no such file, or nothing in it that kinspect can read.
    """
    name, _, kernel = text.partition("::")
    path = Path(name)
    if path.is_dir():
        found = list(_folder(path))
        if not found:
            raise KinspectError(
                f"{name}: no kernels in this folder",
                "it holds no .py with @triton.jit, .s, .amdgcn, .hsaco, .co, .ttir or .ttgir file",
            )
        return [Target(t.path, t.kind, kernel or None, t.siblings) for t in found]
    if not path.exists():
        raise KinspectError(f"{name}: no such file", _near(path))
    if not path.is_file():
        raise KinspectError(f"{name}: not a regular file", "pass a file or a folder")
    kind = kind_of(path)
    if kind is None:
        known = " ".join(sorted(SUFFIXES))
        raise KinspectError(f"{name}: not a kind of file that kinspect reads", f"known: {known}")
    return [Target(path, kind, kernel or None, siblings_of(path, kind))]


def kind_of(path: Path) -> Kind | None:
    """What a file is: by its magic number, else by its suffix; None if neither is known."""
    try:
        with path.open("rb") as stream:
            magic = stream.read(24)
    except OSError as error:
        raise KinspectError(
            f"{path}: cannot be read ({error.strerror})", "check permissions"
        ) from None
    if magic.startswith((b"\x7fELF", b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB")):
        return "code_object"
    if magic.startswith(b"PK\x03\x04") and path.suffix == ".kinspect":
        return "archive"
    return SUFFIXES.get(path.suffix)


def siblings_of(path: Path, kind: Kind) -> dict[str, Path]:
    """Files that Triton wrote beside this one for the same kernel."""
    if kind not in ("asm", "code_object", "ttir", "ttgir"):
        return {}
    names = {"metadata": ".json", "ttgir": ".ttgir", "ttir": ".ttir", "hsaco": ".hsaco"}
    found = {}
    for what, suffix in names.items():
        other = path.with_suffix(suffix)
        if other != path and other.is_file():
            found[what] = other
    return found


def triton_metadata(path: Path | None) -> dict[str, Any] | None:
    """Triton's metadata of a kernel, if `path` is such a file (and not some other JSON)."""
    if path is None:
        return None
    try:
        data = json.loads(path.read_text("utf-8", "replace"))
    except (OSError, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) and "shared" in data else None


def _folder(root: Path) -> Iterator[Target]:
    for folder in _walk(root):
        files = sorted(p for p in folder.iterdir() if p.is_file())
        compiled = {p.stem for p in files if p.suffix == ".amdgcn"}
        for path in files:
            kind = SUFFIXES.get(path.suffix)
            if kind is None or kind in ("report", "archive"):
                continue
            if kind != "asm" and path.stem in compiled and kind != "script":
                continue  # another stage of a kernel whose assembly is here
            if kind == "ttir" and path.with_suffix(".ttgir").exists():
                continue
            if kind == "script" and not _defines_kernels(path):
                continue
            actual = kind_of(path) or kind
            yield Target(path, actual, None, siblings_of(path, actual))


def _walk(root: Path) -> Iterator[Path]:
    yield root
    for child in sorted(root.iterdir()):
        if (
            child.is_dir()
            and not child.is_symlink()
            and not child.name.startswith(".")
            and child.name not in _SKIPPED_FOLDERS
        ):
            yield from _walk(child)


def _defines_kernels(path: Path) -> bool:
    try:
        return _TRITON_KERNEL.search(path.read_bytes()) is not None
    except OSError:
        return False


def _near(path: Path) -> str:
    from difflib import get_close_matches  # only on the way to an error

    folder = path.parent if path.parent.is_dir() else Path()
    names = [p.name for p in folder.iterdir()]
    close = get_close_matches(path.name, names, n=3)
    if close:
        return "did you mean " + " or ".join(str(folder / name) for name in close) + "?"
    return "check the path"
