"""Restricts the files that this process can read (Linux's Landlock), for code that data states.

Numbers and layouts are those of linux/landlock.h; its system calls have the same numbers on all
machines.

Reads files whose names come from data: traces, Inductor's caches.

The host's `named_files.py` does so for it; the guest imports nothing of the host's.
"""

from __future__ import annotations

import ctypes
import errno
import importlib.util
import os
import stat
import struct
import sys
from collections.abc import Iterable, Iterator, Sequence

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446
_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38
_EVERYTHING = 0x1FFF
"""All that the first version can refuse: to execute, read, write, make and remove files."""
_READ_FILE, _READ_FOLDER = 1 << 2, 1 << 3
_SYSTEM = (
    *("/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime", "/sys/devices/system"),
    *("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/dev/null", "/dev/urandom"),
)
_LIBRARIES = ("triton", "torch", "numpy")
_MOST_ENTRIES = 5000
"""Files and folders of a checkout that get a rule of their own."""


def restrict_reading(folders: Sequence[str]) -> bool:
    """Lets this thread read the interpreter's own files and those of some folders, no others.

    Files that are open stay so. What is hidden in one of the folders is left out, but for names.

    Returns:
        Whether the system could.
    """
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        syscall, prctl = libc.syscall, libc.prctl
    except (OSError, AttributeError):
        return False
    ruleset = syscall(_CREATE, struct.pack("=Q", _EVERYTHING), ctypes.c_size_t(8), 0)
    if ruleset < 0:
        return False
    try:
        for place in dict.fromkeys((*_own(), *_entries(folders))):
            _allow(syscall, ruleset, place, _READ_FILE | _READ_FOLDER)
        for folder in folders:
            _allow(syscall, ruleset, folder, _READ_FOLDER)
        if prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), 0, 0, 0):
            return False
        return not syscall(_RESTRICT, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(syscall: ctypes._NamedFuncPointer, ruleset: int, place: str, access: int) -> None:
    try:
        descriptor = os.open(place, os.O_PATH | os.O_CLOEXEC)
    except (OSError, ValueError):
        return
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            access &= _READ_FILE
        syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", access, descriptor), 0)
    finally:
        os.close(descriptor)


def _own() -> Iterator[str]:
    """What the interpreter and its libraries may still have to open."""
    yield from _SYSTEM
    yield from (sys.prefix, sys.base_prefix, sys.exec_prefix)
    yield os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    yield from (entry for entry in sys.path if not PACKAGES.isdisjoint(entry.split(os.sep)))
    for name in {*_LIBRARIES, *(name for name in list(sys.modules) if "." not in name)}:
        module = sys.modules.get(name)
        places = getattr(module, "__path__", None)
        if module is None:
            spec = importlib.util.find_spec(name)
            places = spec.submodule_search_locations if spec is not None else None
        if places is not None:
            yield from (os.path.abspath(place) for place in places)


def _entries(folders: Iterable[str]) -> Iterator[str]:
    """What of some folders may be read: what is not hidden in them, and no links out of them."""
    for folder in folders:
        try:
            entries = [
                entry.path
                for entry in os.scandir(folder)
                if (not entry.name.startswith(".") or entry.name in SHOWN)
                and not entry.is_symlink()
            ]
        except NotADirectoryError:
            entries = [folder]
        except OSError:
            continue
        yield from entries if len(entries) <= _MOST_ENTRIES else [folder]


MOST_BYTES = 64 << 20
SHOWN = frozenset((".venv", ".triton", ".cache", ".tox", ".nox"))
"""Hidden folders that hold sources and what compilers wrote, beside tokens and the like."""
SOURCES = frozenset((
    ".py", ".pyi", ".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hip", ".hpp", ".inc", ".S",
    ".s", ".amdgcn", ".best_config", ".hsaco", ".ll", ".llir", ".mlir", ".ttgir", ".ttir",
))  # fmt: skip
PACKAGES = frozenset(("site-packages", "dist-packages"))
_allowed: list[str] | None = None


def confine(folders: Sequence[str] | None) -> None:
    """Lets `read_named` read below these folders alone; None: everywhere."""
    global _allowed
    _allowed = None if folders is None else [os.path.realpath(folder) for folder in folders]


def read_named(path: str, most: int = MOST_BYTES) -> bytes:
    """The contents of a file that a trace names; see `confine`.

    Raises:
        OSError: as `read`; or it lies elsewhere.
    """
    place = os.path.realpath(path)
    if not is_allowed(place):
        raise PermissionError(errno.EACCES, "outside the checkouts of the targets", path)
    return read(place, most, follow=False)


def is_allowed(path: str) -> bool:
    """Whether data may name a file; see `confine`."""
    place = os.path.realpath(path)
    return _allowed is None or any(_shows(folder, place) for folder in _allowed)


def _shows(folder: str, place: str) -> bool:
    """Whether a file lies in a folder, and is not hidden there."""
    if os.path.commonpath((place, folder)) != folder:
        return False
    parts = os.path.relpath(place, folder).split(os.sep)
    hidden = {part for part in parts if part.startswith(".")}
    return not hidden or (hidden <= SHOWN and os.path.splitext(place)[1] in SOURCES)


def read(path: str, most: int = MOST_BYTES, *, follow: bool = True) -> bytes:
    """The contents of a regular file; never waits.

    `most`: bytes that it may have.

    Raises:
        OSError: it cannot be read, is none, or is larger.
    """
    _check(os.stat(path), path, most)  # opening a device may do something
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    descriptor = os.open(path, flags | (0 if follow else os.O_NOFOLLOW))
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        _check(status, path, most)
        return stream.read(status.st_size)


def _check(status: os.stat_result, path: str, most: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", path)
    if status.st_size > most:
        raise OSError(errno.EFBIG, f"larger than {most >> 20} MiB", path)
