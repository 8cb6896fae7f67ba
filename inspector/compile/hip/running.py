"""Runs the compiler on a stranger's source, within bounds on files, time and memory.

It reads the system's files, its own, and where a source may include from; it writes into a folder
of its own. Where the system has Landlock (Linux 5.13) the kernel sees to that.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from ...base import landlock
from ...base.errors import KinspectError
from ...base.lifetimes import die_with
from ...base.limits import COMPILE_MEMORY

MOST_WRITTEN: Final = 64 << 20
"""Bytes of a file that the compiler writes: as many as are read of assembly."""
_MOST_SAID: Final = 1 << 20
_STDERR: Final = "stderr"
_SYSTEM: Final = ("/usr", "/lib", "/lib64", "/bin", "/opt/rocm")
_FILES: Final = ("/etc/ld.so.cache", "/etc/alternatives", "/dev/urandom", "/proc/self")


class Ran(NamedTuple):
    """How a compile ended: its status, what it said, and whether it could read nothing else."""

    status: int
    stderr: str
    is_confined: bool


def run_compiler(
    words: Sequence[str],
    program: Path,
    folder: Path,
    seconds: float,
    environment: Mapping[str, str],
    readable: Iterable[str],
    included: Iterable[str],
    meanwhile: Callable[[], None],
) -> Ran:
    """Runs the compiler to its end.

    `readable`: folders of the source's, of which what is hidden is not read.
    `included`: other folders, read as a whole.

    Raises:
        OSError: it cannot be started.
        KinspectError: it took too long.
    """
    read = landlock.READ | landlock.LIST
    access = landlock.visible(readable)
    access |= dict.fromkeys((*map(str, included), *_FILES), read)
    own = (str(program.parent), str(program.parent.parent / "lib"))
    access |= dict.fromkeys((*_SYSTEM, *own), read | landlock.EXECUTE)
    access[str(folder)] = read | landlock.WRITE | landlock.MAKE | landlock.REMOVE
    access["/dev/null"] = landlock.READ | landlock.WRITE
    libc = landlock.library()
    is_confined = landlock.is_there(libc)

    def bind(parent: int = os.getpid()) -> None:
        os.setpgid(0, 0)
        die_with(parent)
        for kind, most in (
            (resource.RLIMIT_DATA, COMPILE_MEMORY),
            (resource.RLIMIT_FSIZE, MOST_WRITTEN),
            (resource.RLIMIT_CORE, 0),
        ):
            hard = resource.getrlimit(kind)[1]
            least = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(kind, (least, hard))
        if is_confined and not landlock.restrict(libc, access):
            os._exit(127)

    with (folder / _STDERR).open("wb") as told:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=told,
            cwd=folder,
            env={**environment, "TMPDIR": str(folder)},
            preexec_fn=bind,
        )
        try:
            meanwhile()
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise KinspectError(
                f"the compile took longer than {seconds:g} s", "give it more with --time-limit"
            ) from None
        finally:
            if process.poll() is None:  # until it is reaped, no other group can have its id
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    with (folder / _STDERR).open("rb") as said:
        return Ran(status, os.fsdecode(said.read(_MOST_SAID)), is_confined)
