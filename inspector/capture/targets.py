"""From what the user names on the command line to the files to work on.

Nothing is executed here. What a file is gets decided by its first bytes where they are decisive
(ELF, zip), by what a .py file holds, and by its suffix otherwise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from ..errors import KinspectError, unforeseen

Kind = Literal[
    "script", "inductor", "asm", "code_object", "ttir", "ttgir", "report", "archive", "trace"
]

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
    ".kitrace": "trace",
}

CODE_OBJECT = (b"\x7fELF", b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB")
"""How a code object begins, or a bundle of them."""
STAGES: Mapping[str, str] = {
    "metadata": ".json",
    "ttir": ".ttir",
    "ttgir": ".ttgir",
    "llir": ".llir",
    "amdgcn": ".amdgcn",
    "hsaco": ".hsaco",
    "ptx": ".ptx",
    "cubin": ".cubin",
}
"""What Triton writes of one kernel, side by side, and the suffixes."""

_INDUCTOR = re.compile(
    rb"^async_compile = AsyncCompile\(\)"
    rb"|^@(?:triton_heuristics\.)?(?:pointwise|reduction|persistent_reduction|template|foreach"
    rb"|cooperative_reduction|split_scan|user_autotune|fixed_config)\(",
    re.M,
)


@dataclass(frozen=True, slots=True)
class Target:
    """One file to work on.

    Args:
        path: the file.
        kind: what it is.
        kernel: only this kernel of it (`file.py::kernel`).
        siblings: files of the same compile that lie beside it, by kind (`metadata`, `ttgir`, ...).
        archs: gfx names to look at it for; empty: those that were asked for, or the default.
        fault: why it cannot be worked on.
    """

    path: Path
    kind: Kind
    kernel: str | None = None
    siblings: Mapping[str, Path] = field(default_factory=dict)
    archs: tuple[str, ...] = ()
    fault: KinspectError | None = None


def resolve(text: str, archs: Sequence[str] = ()) -> list[Target]:
    """The targets that a command-line argument names.

    Args:
        text: a file, `file.py::kernel`, a module in dots as after `python -m`, or a folder, which
            means every target in it.
        archs: gfx names that were asked for: a kernel that is compiled for another one is compiled
            again from the TTIR beside it. None: each is looked at as what it was compiled for.

    Raises:
        KinspectError: there is no such file, or nothing in it that kinspect can read.
    """
    from . import entries

    name, _, kernel = text.partition("::")
    path = Path(name)
    if not path.exists():
        path = _module(name) or path
    if path.is_dir():
        from .folders import targets_in

        found = targets_in(path, archs)
        if not found:
            raise KinspectError(
                f"{name}: no kernels in this folder",
                "it holds no .py with @triton.jit, .s, .amdgcn, .hsaco, .co, .ttir or .ttgir file",
            )
        return [replace(t, kernel=kernel or None) for t in found]
    if not path.exists():
        raise KinspectError(f"{name}: no such file", _near(path))
    if not path.is_file():
        raise KinspectError(f"{name}: not a regular file", "pass a file or a folder")
    kind = kind_of(path)
    if kind is None:
        known = " ".join(sorted(SUFFIXES))
        raise KinspectError(f"{name}: not a kind of file that kinspect reads", f"known: {known}")
    target = Target(path, kind, kernel or None, siblings_of(path, kind))
    return entries.for_archs(target, archs)


_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_SOURCE_FOLDERS = (".", "src", "python")


def _module(name: str) -> Path | None:
    """The file of a module that is named as after `python -m`; None where there is none here."""
    if _MODULE.fullmatch(name) is None:
        return None
    for folder in _SOURCE_FOLDERS:
        path = Path(folder, *name.split("."))
        for found in (path.with_suffix(".py"), path / "__main__.py"):
            if found.is_file():
                return found
    return None


def resolve_all(texts: Sequence[str], archs: Sequence[str] = ()) -> list[Target]:
    """The targets that several arguments name; see `resolve`.

    One of several that names nothing is a target with that as its fault: the others are worked on.

    Raises:
        KinspectError: there is one argument, and it names nothing that kinspect can read.
    """
    found: list[Target] = []
    for text in texts:
        try:
            found += resolve(text, archs)
        except Exception as error:
            fault = _fault(text, error)
            if len(texts) == 1:
                raise fault from error
            found.append(Target(Path(text.partition("::")[0]), "asm", fault=fault))
    return found


def only_of(
    targets: Sequence[Target], kinds: Collection[Kind], message: str, hint: str
) -> list[Target]:
    """The targets, those of other kinds with that as their fault.

    Args:
        targets: what was named.
        kinds: what can be worked on.
        message: what is wrong with the others.
        hint: what to do about it.

    Raises:
        KinspectError: there is one target, and it is of another kind.
    """
    found = []
    for target in targets:
        if target.kind not in kinds and target.fault is None:
            fault = KinspectError(f"{target.path}: {message}", hint)
            if len(targets) == 1:
                raise fault
            target = replace(target, fault=fault)
        found.append(target)
    return found


def _fault(text: str, error: Exception) -> KinspectError:
    if isinstance(error, KinspectError):
        return error
    if isinstance(error, OSError):
        where = error.filename if error.filename is not None else text
        return KinspectError(
            f"{where}: cannot be read ({error.strerror or error})", "check the path and permissions"
        )
    if isinstance(error, ValueError) and "\0" in text:
        return KinspectError(f"{text!r}: no file is called so", "check the path")
    return unforeseen(error)


def kind_of(path: Path) -> Kind | None:
    """What a file is: by its magic number, else by its suffix; None if neither is known."""
    try:
        with path.open("rb") as stream:
            magic = stream.read(24)
    except OSError as error:
        raise KinspectError(
            f"{path}: cannot be read ({error.strerror})", "check permissions"
        ) from None
    if magic.startswith(CODE_OBJECT):
        return "code_object"
    if magic.startswith(b"PK\x03\x04") and path.suffix == ".kinspect":
        return "archive"
    kind = SUFFIXES.get(path.suffix)
    return "inductor" if kind == "script" and is_inductor(path) else kind


def is_inductor(path: Path) -> bool:
    """Whether a .py file is TorchInductor's: `output_code.py`, or one kernel in its cache."""
    try:
        data = path.read_bytes()
    except OSError:
        return False
    return (
        b"torch._inductor" in data
        and b"KINSPECT_CASES" not in data
        and _INDUCTOR.search(data) is not None
    )


def siblings_of(path: Path, kind: Kind) -> dict[str, Path]:
    """Files that Triton wrote beside this one for the same kernel."""
    if kind not in ("asm", "code_object", "ttir", "ttgir"):
        return {}
    found = {}
    for what, suffix in STAGES.items():
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


def _near(path: Path) -> str:
    from difflib import get_close_matches  # only on the way to an error

    folder = path.parent if path.parent.is_dir() else Path()
    names = [p.name for p in folder.iterdir()]
    close = get_close_matches(path.name, names, n=3)
    if close:
        return "did you mean " + " or ".join(str(folder / name) for name in close) + "?"
    return "check the path"
