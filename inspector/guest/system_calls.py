"""Filters of system calls (Linux's seccomp), for code that data states.

A filter holds for a thread, and for what it starts; it cannot be taken off. Numbers of system
calls are those of asm/unistd_64.h (x86-64) and asm-generic/unistd.h (AArch64); None: the machine
lacks the call.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import tempfile
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from .readable_files import restrict_reading

if TYPE_CHECKING:
    _Numbers = tuple[int | None, int | None]
    _Step = tuple[int, int, int, int]
    """An instruction of the filter: code, jumps where true and false, operand."""
    _Check = tuple[_Numbers, list[_Step]]
    """A call, and the steps that follow for it: one refuses it, or it is allowed behind them."""

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2  # prctl(2)
_SECCOMP: _Numbers = (317, 277)
_KEPT = frozenset(("HOME", "LANG", "LD_LIBRARY_PATH", "PATH", "TMPDIR", "TZ", "USER"))
_KEPT_PREFIXES = (
    *("AMDGCN_", "HIP_", "KINSPECT_", "LC_", "LLVM_", "MLIR_", "PYTHON", "TORCH", "TRITON_"),
)
_SET_MODE_FILTER, _TSYNC = 1, 1  # linux/seccomp.h
_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06  # linux/bpf_common.h
_EQUAL, _AT_LEAST, _HAS_BITS = 0x15, 0x35, 0x45
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in `struct seccomp_data`
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000  # linux/seccomp.h; an error number is added to the latter
_X32 = 0x40000000
"""Numbers of system calls from which on they are of x86's third interface."""
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Machine -> its column below, and its number in linux/audit.h."""
_OPEN: _Numbers = (2, None)
_OPENAT: _Numbers = (257, 56)
_OTHER_OPENING: dict[str, _Numbers] = {
    "creat": (85, None),
    "openat2": (437, 437),
    "open_by_handle_at": (304, 265),
}
# fmt: off
_ALLOWED: dict[str, _Numbers] = {
    # reading and writing what is open
    "read": (0, 63), "write": (1, 64), "readv": (19, 65), "writev": (20, 66), "pread64": (17, 67),
    "pwrite64": (18, 68), "preadv": (295, 69), "lseek": (8, 62), "close": (3, 57), "dup": (32, 23),
    "dup2": (33, None), "dup3": (292, 24), "fsync": (74, 82), "fdatasync": (75, 83),
    "ftruncate": (77, 46), "fallocate": (285, 47), "fadvise64": (221, 223),
    "pipe": (22, None), "pipe2": (293, 59), "eventfd2": (290, 19),
    # looking at files
    "stat": (4, None), "fstat": (5, 80), "lstat": (6, None), "newfstatat": (262, 79),
    "statx": (332, 291), "access": (21, None), "faccessat": (269, 48), "faccessat2": (439, 439),
    "readlink": (89, None), "readlinkat": (267, 78), "getdents": (78, None),
    "getdents64": (217, 61), "getcwd": (79, 17), "chdir": (80, 49), "fchdir": (81, 50),
    "statfs": (137, 43), "fstatfs": (138, 44),
    # memory
    "mmap": (9, 222), "munmap": (11, 215), "mprotect": (10, 226), "mremap": (25, 216),
    "madvise": (28, 233), "brk": (12, 214), "msync": (26, 227), "mincore": (27, 232),
    "mlock": (149, 228), "munlock": (150, 229), "membarrier": (324, 283), "mbind": (237, 235),
    "get_mempolicy": (239, 236),
    # threads, signals and time
    "futex": (202, 98), "set_robust_list": (273, 99), "get_robust_list": (274, 100),
    "rseq": (334, 293), "set_tid_address": (218, 96), "gettid": (186, 178),
    "sched_yield": (24, 124), "sched_getaffinity": (204, 123), "sched_getparam": (143, 121),
    "sched_getscheduler": (145, 120), "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139), "rt_sigsuspend": (130, 133), "rt_sigpending": (127, 136),
    "rt_sigtimedwait": (128, 137), "sigaltstack": (131, 132), "restart_syscall": (219, 128),
    "pause": (34, None), "alarm": (37, None), "nanosleep": (35, 101),
    "clock_nanosleep": (230, 115), "clock_gettime": (228, 113), "clock_getres": (229, 114),
    "gettimeofday": (96, 169), "time": (201, None), "times": (100, 153), "getitimer": (36, 102),
    "setitimer": (38, 103), "poll": (7, None), "ppoll": (271, 73), "select": (23, None),
    "pselect6": (270, 72), "epoll_create1": (291, 20), "epoll_ctl": (233, 21),
    "epoll_wait": (232, None), "epoll_pwait": (281, 22), "wait4": (61, 260),
    # about this process
    "getpid": (39, 172), "getppid": (110, 173), "getuid": (102, 174), "geteuid": (107, 175),
    "getgid": (104, 176), "getegid": (108, 177), "getpgid": (121, 155), "getpgrp": (111, None),
    "getsid": (124, 156), "getgroups": (115, 158), "getpriority": (140, 141),
    "getrusage": (98, 165), "getrlimit": (97, 163), "setrlimit": (160, 164), "capget": (125, 90),
    "uname": (63, 160), "sysinfo": (99, 179), "getcpu": (309, 168), "getrandom": (318, 278),
    "umask": (95, 166), "prctl": (157, 167), "arch_prctl": (158, None), "exit": (60, 93),
    "exit_group": (231, 94),
}
# fmt: on
_CLONE: _Numbers = (56, 220)
_IOCTL: _Numbers = (16, 29)
_FCNTL: _Numbers = (72, 25)
_OF_THIS_PROCESS: dict[str, _Numbers] = {"kill": (62, 129), "tgkill": (234, 131)}
"""Whose first argument must be this process."""
_PRLIMIT: _Numbers = (302, 261)
_CLONE_THREAD = 0x10000  # linux/sched.h
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | 0x400000  # without O_DIRECTORY
"""Flags of `open`, the last of them that of O_TMPFILE, which let it write."""
_IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""Permitted: TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX and FIOCLEX (asm-generic/ioctls.h)."""
_FCNTLS = (0, 1, 2, 3, 4, 1030)
"""Permitted: F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC (linux/fcntl.h)."""


def deny_opening() -> bool:
    """Makes this thread's calls that open files fail from now on; returns whether it could."""
    calls = (_OPEN, _OPENAT, *_OTHER_OPENING.values())
    return _install([_refusal(number) for number in calls])


def deny_effects(readable: Iterable[str]) -> None:
    """Lets this process compute, read some files, and write what is open.

    It starts no program or process, changes no file, opens no socket, and signals no other process:
    whatever Triton's front end makes of the kernels that data state. Of its environment only the
    compiler's variables are left.

    `readable`: folders and files that it may read beside the interpreter's own; all others, too,
    where the system has no Landlock (Linux 5.13).

    Raises:
        OSError: the system has no such filter.
    """
    for name in list(os.environ):  # a kernel may print what it reads, and others have secrets there
        if name not in _KEPT and not name.startswith(_KEPT_PREFIXES):
            del os.environ[name]
    restrict_reading((os.getcwd(), *readable))
    own = os.getpid()
    checks: list[_Check] = [(number, []) for number in _ALLOWED.values()]
    checks.append((_CLONE, [_argument(0), (_HAS_BITS, 1, 0, _CLONE_THREAD), _failure()]))
    for number, flags in ((_OPEN, 1), (_OPENAT, 2)):
        checks.append((number, [_argument(flags), (_HAS_BITS, 0, 1, _WRITES), _failure()]))
    for number, commands in ((_IOCTL, _IOCTLS), (_FCNTL, _FCNTLS)):
        left = len(commands)
        permitted = [(_EQUAL, left - n, 0, command) for n, command in enumerate(commands)]
        checks.append((number, [_argument(1), *permitted, _failure()]))
    is_own = [_argument(0), (_EQUAL, 1, 0, own), _failure()]
    checks += [(number, is_own) for number in _OF_THIS_PROCESS.values()]
    checks.append((_PRLIMIT, [_argument(0), (_EQUAL, 2, 0, own), (_EQUAL, 1, 0, 0), _failure()]))
    tempfile.tempdir = os.getcwd()  # else a library that asks for one tries to write there
    if not _install(checks, others=_FAIL | errno.ENOSYS, all_threads=True):
        raise OSError(errno.ENOSYS, "this system has no seccomp, which kernels of data are held by")


def _refusal(number: _Numbers) -> _Check:
    return number, [_failure()]


def _failure() -> _Step:
    return (_RETURN, 0, 0, _FAIL | errno.EPERM)


def _argument(index: int) -> _Step:
    """Loads the lower half of an argument (both machines are little-endian)."""
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * index)


def _install(checks: Iterable[_Check], others: int = _ALLOW, *, all_threads: bool = False) -> bool:
    """Filters this thread's system calls; returns whether the system could."""
    if platform.machine() not in _MACHINES:
        return False
    column, architecture = _MACHINES[platform.machine()]
    steps = [*_steps(checks, column, architecture), (_RETURN, 0, 0, others)]
    code = b"".join(struct.pack("=HBBI", *step) for step in steps)
    program = _Program(len(steps), code)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        prctl, syscall = libc.prctl, libc.syscall
    except (OSError, AttributeError):
        return False
    if prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), 0, 0, 0):
        return False
    if all_threads:
        return not syscall(_SECCOMP[column], _SET_MODE_FILTER, _TSYNC, ctypes.byref(program))
    return not prctl(_PR_SET_SECCOMP, ctypes.c_ulong(_SECCOMP_MODE_FILTER), ctypes.byref(program))


def _steps(checks: Iterable[_Check], column: int, architecture: int) -> Iterator[_Step]:
    yield (_LOAD, 0, 0, _ARCHITECTURE)
    yield (_EQUAL, 1, 0, architecture)
    yield _failure()
    yield (_LOAD, 0, 0, _NUMBER)
    yield (_AT_LEAST, 0, 1, _X32)
    yield _failure()
    for numbers, following in checks:
        number = numbers[column]
        if number is not None:
            # Behind its own steps a call is allowed: the number is no longer loaded.
            yield (_EQUAL, 0, len(following) + 1, number)
            yield from following
            yield (_RETURN, 0, 0, _ALLOW)


class _Program(ctypes.Structure):
    """`struct sock_fprog` of linux/filter.h."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))
