"""Restricts which files a process can open (Linux's Landlock, from 5.13), for programs that read
what strangers wrote.

Numbers and layouts are those of linux/landlock.h; its system calls have the same numbers on all
machines.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterable, Mapping
from typing import Any, Final

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446
_PATH_BENEATH: Final = 1
_PR_SET_NO_NEW_PRIVS: Final = 38
_EVERYTHING: Final = 0x1FFF
"""All that the first version can refuse: to execute, read, write, make and remove files."""
EXECUTE, WRITE, READ, LIST = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE, MAKE = 1 << 5, 1 << 8
_OF_FILES: Final = EXECUTE | WRITE | READ


def library() -> Any:
    """The C library: to be loaded before a fork, for `restrict` in the child; None without one."""
    try:
        return ctypes.CDLL(None, use_errno=True)
    except OSError:
        return None


def restrict(libc: Any, access: Mapping[str, int]) -> bool:
    """Lets this thread, and what it starts, open nothing but what is stated.

    Args:
        access: file or folder -> what may be done to it, and to all below it; what is not there is
            left out.
    """
    if libc is None:
        return False
    ruleset = libc.syscall(_CREATE, struct.pack("=Q", _EVERYTHING), ctypes.c_size_t(8), 0)
    if ruleset < 0:
        return False
    try:
        for place, allowed in access.items():
            _allow(libc, ruleset, place, allowed)
        if libc.prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), 0, 0, 0):
            return False
        return not libc.syscall(_RESTRICT, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(libc: Any, ruleset: int, place: str, allowed: int) -> None:
    try:
        descriptor = os.open(place, os.O_PATH | os.O_CLOEXEC)
    except (OSError, ValueError):
        return
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            allowed &= _OF_FILES
        libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", allowed, descriptor), 0)
    finally:
        os.close(descriptor)


def is_there(libc: Any) -> bool:
    """Whether the system can restrict processes so."""
    return libc is not None and libc.syscall(_CREATE, None, ctypes.c_size_t(0), 1) >= 1


def visible(folders: Iterable[str]) -> dict[str, int]:
    """What of some folders may be read: nothing hidden in them, and no links out of them."""
    access: dict[str, int] = {}
    for folder in folders:
        access[folder] = LIST
        try:
            for entry in os.scandir(folder):
                if not entry.name.startswith(".") and not entry.is_symlink():
                    access[entry.path] = READ | LIST
        except NotADirectoryError:
            access[folder] = READ
        except OSError:
            continue
    return access
