"""Finds the targets that the command line names: files, modules, folders."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from ..base.errors import KinspectError, too_long, unforeseen
from ..base.named_files import allow_target
from ..machines.loader import DEFAULT_ARCH
from .targets import CPP, STAGES, SUFFIXES, Target, confined, kind_of, outside, siblings_of
from .triton_entries import for_archs

_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_SOURCE_FOLDERS = (".", "src", "python")
_SUFFIXES = frozenset((
    *map(str.lower, (*SUFFIXES, *STAGES.values())),
    # code, and what compilers and linkers write
    ".a", ".asc", ".ast", ".bc", ".bin", ".c", ".cc", ".cl", ".co", ".cpp", ".cu", ".cuh", ".cxx",
    ".dll", ".dylib", ".elf", ".exe", ".fatbin", ".gcn", ".h", ".hh", ".hip", ".hipfb", ".hpp",
    ".hxx", ".i", ".ii", ".il", ".inc", ".inl", ".ipp", ".isa", ".ko", ".ll", ".lst", ".o", ".obj",
    ".out", ".pdb", ".pyc", ".pyd", ".pyi", ".pyx", ".rs", ".sass", ".sh", ".so", ".spirv", ".spv",
    ".spvasm", ".td", ".ttsharedir", ".wasm",
    # recordings, data and models
    ".arrow", ".att", ".bz2", ".cfg", ".ckpt", ".csv", ".dat", ".db", ".dmp", ".feather", ".gguf",
    ".gz", ".h5", ".hdf5", ".ini", ".ipynb", ".json", ".jsonl", ".log", ".ndjson", ".npy", ".npz",
    ".hatchet", ".hatchet_msgpack", ".mpk", ".msgpack", ".onnx", ".otf2",
    ".parquet", ".pb", ".pftrace", ".pickle", ".pkl", ".prof", ".pt", ".pt2", ".pth",
    ".rocpd", ".safetensors", ".sarif", ".sqlite", ".sqlite3", ".tar", ".tgz", ".toml", ".trace",
    ".tsv", ".txt", ".xz", ".yaml", ".yml", ".zip", ".zst",
    # texts and pictures
    ".bak", ".css", ".gif", ".htm", ".html", ".jpeg", ".jpg", ".js", ".md", ".pdf", ".png", ".rst",
    ".svg", ".tex", ".tmp", ".xml",
))  # fmt: skip
"""Of files, in small letters. Names that modules have, as `core` and `data`, are left out."""


def resolve(text: str, archs: Sequence[str] = ()) -> list[Target]:
    """The targets that a command-line argument names.

    `text`: a file, `file.py::kernel`, a dotted module name as after `python -m`, or a folder, which
    means every target in it.
    `archs`: gfx names of the command line: a kernel compiled for another target is compiled again
    from the TTIR beside it. Empty: each is read for its own target.

    Raises:
        KinspectError: there is no such file, or kinspect cannot read it.
    """
    path, kernel = split(text)
    try:
        return _resolved(path, kernel, archs)
    except OSError as error:
        raise KinspectError(
            f"{error.filename or path}: cannot be read ({error.strerror or error})",
            "check the path and permissions",
        ) from None


def split(text: str) -> tuple[Path, str | None]:
    """The path of a target, and what stands behind its `::`: a kernel or a test; None without.

    Raises:
        KinspectError: no file can be called so.
    """
    name, _, rest = text.partition("::")
    if not name:  # Path("") is the current folder: an unset variable would name all of it
        raise KinspectError(f"{text!r} names no file", "name a file or folder; . is this folder")
    checked = named(name)
    if rest and os.path.lexists(named(text)):  # else a shell's *.s would run another file
        raise _with_colons(text)
    return checked, rest or None


def named(name: str) -> Path:
    """The path of a file's name as typed.

    Raises:
        KinspectError: no file can be called so.
    """
    try:
        os.lstat(name)
    except ValueError:  # a NUL, or half a surrogate pair
        raise KinspectError(f"{name!r:.200}: no file is called so", "check the path") from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise too_long(name) from None
    return Path(name)


def _with_colons(name: str) -> KinspectError:
    return KinspectError(
        f"{name}: a name with ::, behind which kinspect expects a kernel", "rename the file"
    )


def _resolved(path: Path, kernel: str | None, archs: Sequence[str]) -> list[Target]:
    """The targets at a path; see `resolve`."""
    name = str(path)
    if not os.path.lexists(path):
        path = _module_file(name) or path
    fault = outside(path)
    if fault is not None:
        raise fault
    allow_target(path)
    if path.is_dir():
        from .folders import targets_in

        if path.suffix in SUFFIXES and path.suffix != ".py":
            raise KinspectError(
                f"{name}: a folder with the name of a file", "change into it and name ."
            )
        with confined(path):  # a link out of it would run or read what was not named
            targets = [_readable(t) for t in targets_in(path, archs)]
        if not targets:
            raise KinspectError(
                f"{name}: no kernels in this folder",
                "it holds no .py with @triton.jit, .hip, .s, .amdgcn, .hsaco, .ttir or .ttgir file;"
                " kernels to try come with kinspect: `kinspect kernels list`",
            )
        return [replace(t, kernel=kernel, folder=path) for t in targets]
    if path.is_symlink() and not path.exists():
        raise KinspectError(
            f"{name}: a link to {path.readlink()}, which is not there", "name the file itself"
        )
    if not path.exists():
        raise _no_such_file(path)
    if not path.is_file():
        raise KinspectError(f"{name}: not a regular file", "pass a file or a folder")
    kind = kind_of(path)
    if kind is None and path.suffix in CPP:
        raise KinspectError(
            f"{name}: no kernel in it", "name the file that has the __global__ functions"
        )
    if kind is None:
        suffixes = " ".join(sorted(SUFFIXES))
        raise KinspectError(f"{name}: not a kind of file that kinspect reads", f"known: {suffixes}")
    if kind == "hip":
        hip = [Target(path, kind, kernel, archs=(arch,)) for arch in archs or (DEFAULT_ARCH,)]
        return [_readable(target) for target in hip]
    target = Target(path, kind, kernel, siblings_of(path, kind))
    return [_readable(one) for one in for_archs(target, archs)]


def _readable(target: Target) -> Target:
    """A target, with a fault where it cannot be named in an id, or a file beside it leads out."""
    if target.fault is not None:
        return target
    if "::" in str(target.path):
        return replace(target, fault=_with_colons(str(target.path)))
    faults = (outside(path) for path in target.siblings.values())
    return replace(target, fault=next(filter(None, faults), None))


def resolve_all(texts: Sequence[str], archs: Sequence[str] = ()) -> list[Target]:
    """The targets that the command line's arguments name; see `resolve`.

    One of several arguments that cannot be resolved becomes a target with a fault.

    Raises:
        KinspectError: there is only one argument, and it cannot be resolved.
    """
    targets: list[Target] = []
    for text in texts:
        try:
            targets += resolve(text, archs)
        except Exception as error:
            fault = error if isinstance(error, KinspectError) else unforeseen(error)
            if len(texts) == 1:
                raise fault from error
            targets.append(Target(Path(text.partition("::")[0]), "asm", fault=fault))
    return targets


def _module_file(name: str) -> Path | None:
    """The file of a dotted module name below the current folder; None without one.

    What is called like a file is none: `k.s` that was not built yet must not run `k/s.py`. Nor is
    what lies in a folder that is no package.
    """
    if _MODULE.fullmatch(name) is None or Path(name).suffix.lower() in _SUFFIXES:
        return None
    for folder in _SOURCE_FOLDERS:
        parts = name.split(".")
        if not Path(folder, parts[0], "__init__.py").is_file():
            continue
        path = Path(folder, *parts)
        for candidate in (path.with_suffix(".py"), path / "__main__.py"):
            if candidate.is_file():
                return candidate
    return None


def _no_such_file(path: Path) -> KinspectError:
    from difflib import get_close_matches  # only on the way to an error

    folder = path.parent
    while not folder.is_dir():
        beside = folder.parent.iterdir() if folder.parent.is_dir() else ()
        near = get_close_matches(folder.name, [p.name for p in beside if p.is_dir()], n=1)
        folder = folder.parent / near[0] if near else folder.parent
    close = [str(folder / path.name)] if (folder / path.name).exists() else []
    if not close:
        names = [p.name for p in folder.iterdir() if p.suffix in SUFFIXES or p.is_dir()]
        close = [str(folder / name) for name in get_close_matches(path.name, names, n=3)]
    hint = "check the path; what can be named says `kinspect analyze --help`"
    if re.fullmatch(r"KI\d{3}", str(path)):
        hint = f"of a rule: `kinspect rules show {path}`"
    return KinspectError(
        f"{path}: no such file",
        f"did you mean {' or '.join(close)}?" if close else hint,
        meant=(str(path), *close) if close else None,
    )
