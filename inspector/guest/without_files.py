"""Keeps the compiler from opening files that a kernel names, in whatever way it does.

Assembly makes directives of macros, arguments and operands in more ways than can be looked for, and
`.incbin` would carry a file into the code. MLIR opens the file of an operation's location, be it a
pipe, to show the line of an error. A filter of system calls (seccomp, Linux) holds for one thread:
such functions of Triton's run in a thread of their own, which ends with them.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import importlib
import platform
import re
import struct
import threading
from collections.abc import Callable
from typing import Any

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2  # prctl(2)
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06  # linux/bpf_common.h
_NUMBER, _ARCHITECTURE = 0, 4  # offsets in `struct seccomp_data`
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000 | errno.EACCES  # linux/seccomp.h
_X32 = 0x40000000
"""Numbers of system calls from which on they are of x86's third interface."""
_OPENING = {
    # open, creat, openat, open_by_handle_at, openat2: asm/unistd.h
    "x86_64": (0xC000003E, (2, 85, 257, 304, 437)),
    "aarch64": (0xC00000B7, (56, 265, 437)),
}
"""Machine -> its number in linux/audit.h, and the system calls that open files."""
_INLINE = re.compile(r"\basm\b|#ASMSTART|\.(?:macro|irpc?|rept?|altmacro)\b", re.I)
"""In LLVM IR and in assembly: what may come from inline assembly."""
_FUNCTIONS = (
    ("triton._C.libtriton", "llvm", "translate_to_asm"),
    ("triton._C.libtriton", "amd", "assemble_amdgcn"),
    ("triton.backends.amd.compiler", None, "compile_amdgpu"),  # both since 3.9
    ("triton.backends.amd.compiler", None, "assemble_amdgcn"),
)
"""(module, object in it, function) of Triton that parse assembly, their first argument."""
_QUOTING = (("pass_manager", "run"), ("module", "verify"))
"""Classes and methods of Triton that show lines of the files in locations."""


def guard_assembler() -> None:
    """Makes this process's Triton parse assembly where no file can be opened."""
    for module, name, function in _FUNCTIONS:
        owner = importlib.import_module(module)
        owner = owner if name is None else getattr(owner, name)
        if hasattr(owner, function):
            setattr(owner, function, without_files(getattr(owner, function)))
    backend: Any = importlib.import_module("triton.backends.amd.compiler")
    if hasattr(backend, "_load_amd_codegen"):  # the library must be open by then
        backend._load_amd_codegen(backend.get_amd_codegen_path())


def guard_diagnostics() -> None:
    """Makes errors of this process's MLIR show no lines of files."""
    ir: Any = importlib.import_module("triton._C.libtriton").ir
    for owner, name in _QUOTING:
        method = getattr(getattr(ir, owner), name)
        setattr(getattr(ir, owner), name, without_files(method))


def without_files(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a function so that it can open no file.

    Where the system has no such filter, it raises ValueError for a text with inline assembly.
    """

    @functools.wraps(function)
    def run(first: Any, *args: Any, **kwargs: Any) -> Any:
        results: list[Any] = []
        errors: list[BaseException] = []

        def work() -> None:
            try:
                if not _deny_opening() and isinstance(first, str) and _INLINE.search(first):
                    raise ValueError(
                        "it has inline assembly, and this system has no seccomp to keep the"
                        " assembler from reading files into the code"
                    )
                results.append(function(first, *args, **kwargs))
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        if errors:
            raise errors[0]
        return results[0]

    return run


class _Program(ctypes.Structure):
    """`struct sock_fprog` of linux/filter.h."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def _deny_opening() -> bool:
    """Makes this thread's calls that open files fail from now on; returns whether it could."""
    if platform.machine() not in _OPENING:
        return False
    architecture, calls = _OPENING[platform.machine()]
    refused = [(_EQUAL, number) for number in calls] + [(_AT_LEAST, _X32)]
    steps = [(_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 0, len(refused) + 2, architecture)]
    steps.append((_LOAD, 0, 0, _NUMBER))
    for index, (test, number) in enumerate(refused):
        steps.append((test, len(refused) - index, 0, number))
    steps += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _FAIL)]
    code = b"".join(struct.pack("=HBBI", *step) for step in steps)
    program = _Program(len(steps), code)
    try:
        prctl = ctypes.CDLL(None, use_errno=True).prctl
    except (OSError, AttributeError):
        return False
    if prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), 0, 0, 0):
        return False
    return not prctl(_PR_SET_SECCOMP, ctypes.c_ulong(_SECCOMP_MODE_FILTER), ctypes.byref(program))
