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
_REFUSED: dict[str, _Numbers] = {
    # programs and processes
    "execve": (59, 221), "execveat": (322, 281), "fork": (57, None), "vfork": (58, None),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "tkill": (200, 130), "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240),
    "pidfd_open": (434, 434), "pidfd_send_signal": (424, 424), "pidfd_getfd": (438, 438),
    "setpriority": (141, 140), "sched_setscheduler": (144, 119), "kcmp": (312, 272),
    # names of files
    "unlink": (87, None), "unlinkat": (263, 35), "rmdir": (84, None), "rename": (82, None),
    "renameat": (264, 38), "renameat2": (316, 276), "mkdir": (83, None), "mkdirat": (258, 34),
    "link": (86, None), "linkat": (265, 37), "symlink": (88, None), "symlinkat": (266, 36),
    "mknod": (133, None), "mknodat": (259, 33), "truncate": (76, 45), "chmod": (90, None),
    "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, None),
    "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54), "utime": (132, None),
    "utimes": (235, None), "futimesat": (261, None), "utimensat": (280, 88), "setxattr": (188, 5),
    "lsetxattr": (189, 6), "fsetxattr": (190, 7), "removexattr": (197, 14),
    "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    # other processes' memory, and the network
    "socket": (41, 198), "connect": (42, 203), "bind": (49, 200), "shmget": (29, 194),
    "shmat": (30, 196), "shmctl": (31, 195), "msgget": (68, 186), "semget": (64, 190),
    "mq_open": (240, 180), "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "userfaultfd": (323, 282), "io_uring_setup": (425, 425), "bpf": (321, 280),
    "perf_event_open": (298, 241), "fanotify_init": (300, 262),
    # the system, for root
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "unshare": (272, 97), "setns": (308, 268), "open_tree": (428, 428), "move_mount": (429, 429),
    "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "kexec_load": (246, 104), "kexec_file_load": (320, 294),
    "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225), "acct": (163, 89),
    "quotactl": (179, 60), "settimeofday": (164, 170), "clock_settime": (227, 112),
    "clock_adjtime": (305, 266), "adjtimex": (159, 171), "sethostname": (170, 161),
    "setdomainname": (171, 162), "iopl": (172, None), "ioperm": (173, None),
    "personality": (135, 92),
}
# fmt: on
_CLONE: _Numbers = (56, 220)
_CLONE3: _Numbers = (435, 435)
_IOCTL: _Numbers = (16, 29)
_FCNTL: _Numbers = (72, 25)
_OF_THIS_PROCESS: dict[str, _Numbers] = {"kill": (62, 129), "tgkill": (234, 131)}
"""Whose first argument must be this process."""
_PRLIMIT: _Numbers = (302, 261)
_CLONE_THREAD = 0x10000  # linux/sched.h
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | 0x400000  # without O_DIRECTORY
"""Flags of `open`, the last of them that of O_TMPFILE, which let it write."""
_COMMANDS = {
    _IOCTL: (0x5412, 0x541C, 0x5423, 0x540E, 0x8901, 0x8902),
    _FCNTL: (8, 10, 15),
}
"""Refused second arguments: TIOCSTI, TIOCLINUX, TIOCSETD and TIOCSCTTY (asm-generic/ioctls.h),
which type into a terminal; FIOSETOWN, SIOCSPGRP, F_SETOWN, F_SETSIG and F_SETOWN_EX
(asm-generic/fcntl.h), which have signals sent to other processes."""


def deny_opening() -> bool:
    """Makes this thread's calls that open files fail from now on; returns whether it could."""
    calls = (_OPEN, _OPENAT, *_OTHER_OPENING.values())
    return _install([_refusal(number) for number in calls])


def deny_effects(readable: Iterable[str]) -> None:
    """Lets this thread, and what it starts, compute, read some files, and write what is open.

    It starts no program or process, changes no file, opens no socket, and signals no other process:
    whatever Triton's front end makes of the kernels that data state.

    Args:
        readable: folders and files that it may read beside the interpreter's own; all others, too,
            where the system has no Landlock (Linux 5.13).

    Raises:
        OSError: the system has no such filter.
    """
    restrict_reading((os.getcwd(), *readable))
    own = os.getpid()
    checks = [_refusal(n) for n in (*_OTHER_OPENING.values(), *_REFUSED.values())]
    # glibc goes on with `clone`, whose flags can be seen.
    checks.append(_refusal(_CLONE3, errno.ENOSYS))
    checks.append((_CLONE, [_argument(0), (_HAS_BITS, 1, 0, _CLONE_THREAD), _failure()]))
    for number, flags in ((_OPEN, 1), (_OPENAT, 2)):
        checks.append((number, [_argument(flags), (_HAS_BITS, 0, 1, _WRITES), _failure()]))
    for number, commands in _COMMANDS.items():
        refused = [step for command in commands for step in ((_EQUAL, 0, 1, command), _failure())]
        checks.append((number, [_argument(1), *refused]))
    is_own = [_argument(0), (_EQUAL, 1, 0, own), _failure()]
    checks += [(number, is_own) for number in _OF_THIS_PROCESS.values()]
    checks.append((_PRLIMIT, [_argument(0), (_EQUAL, 2, 0, own), (_EQUAL, 1, 0, 0), _failure()]))
    tempfile.tempdir = os.getcwd()  # else a library that asks for one tries to write there
    if not _install(checks):
        raise OSError(errno.ENOSYS, "this system has no seccomp, which kernels of data are held by")


def _refusal(number: _Numbers, error: int = errno.EPERM) -> _Check:
    return number, [_failure(error)]


def _failure(error: int = errno.EPERM) -> _Step:
    return (_RETURN, 0, 0, _FAIL | error)


def _argument(index: int) -> _Step:
    """Loads the lower half of an argument (both machines are little-endian)."""
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * index)


def _install(checks: Iterable[_Check]) -> bool:
    """Filters this thread's system calls; returns whether the system could."""
    if platform.machine() not in _MACHINES:
        return False
    column, architecture = _MACHINES[platform.machine()]
    steps = [*_steps(checks, column, architecture)]
    code = b"".join(struct.pack("=HBBI", *step) for step in steps)
    program = _Program(len(steps), code)
    try:
        prctl = ctypes.CDLL(None, use_errno=True).prctl
    except (OSError, AttributeError):
        return False
    if prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), 0, 0, 0):
        return False
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
    yield (_RETURN, 0, 0, _ALLOW)


class _Program(ctypes.Structure):
    """`struct sock_fprog` of linux/filter.h."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))
