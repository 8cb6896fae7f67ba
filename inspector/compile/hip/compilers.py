"""Finds the compiler of HIP sources with its headers and libraries, and runs it on a stranger's
source within bounds on files, time and memory.

It reads the system's files, its own, and where a source may include from; it writes into a folder
of its own. Where the system has Landlock (Linux 5.13) the kernel sees to that.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct

from ...base import landlock
from ...base.errors import KinspectError
from ...base.lifetimes import die_with, run_to_end
from ...base.limits import COMPILE_MEMORY
from ...base.programs import find_program
from .options import VARIABLE

OLDEST: Final = 17
"""The first clang that knows all targets but gfx950, gfx12 and the options used here."""
_NEWEST: Final = 29
_NAMES: Final = ("amdclang++", "hipcc", *(f"clang-{n}" for n in range(_NEWEST, OLDEST - 1, -1)))
_ROCM_FOLDERS: Final = ("/opt/rocm/bin", "/opt/rocm/llvm/bin")
_HEADER: Final = "include/hip/hip_runtime.h"
_LIBRARIES: Final = ("amdgcn/bitcode", "lib/x86_64-linux-gnu/amdgcn/bitcode", "lib/amdgcn/bitcode")
_VERSION_SECONDS: Final = 20.0


class HipCompiler(Struct, frozen=True):
    """A compiler of HIP sources.

    `rocm`: the folder whose headers and device libraries it uses; None where not both are there,
    and kinspect's own headers serve.
    """

    path: Path
    rocm: Path | None

    @property
    def identity(self) -> str:
        """By which a stored compile knows it: programs are replaced where they lie."""
        state = self.path.stat()
        return f"{self.path} {state.st_size} {state.st_mtime_ns} {self.rocm}"


def find_compiler(named: str | None, environment: Mapping[str, str]) -> HipCompiler:
    """The compiler that the user named, or the first one that is installed.

    Raises:
        KinspectError: there is none.
    """
    asked = named or environment.get(VARIABLE)
    path = environment.get("PATH")
    if asked:
        found = find_program(asked, path)
        if found is None:
            raise KinspectError(
                f"the HIP compiler {asked} is not there or cannot be run",
                f"name hipcc or a clang from {OLDEST} on with --hip-compiler",
            )
        return HipCompiler(Path(found).resolve(), _rocm(environment))
    folders = os.pathsep.join((path or os.defpath, *_ROCM_FOLDERS))
    for name in (*_NAMES, "clang"):
        found = find_program(name, folders)
        if found is not None:
            # hipcc is a script or looks for its neighbours by the name that it was started by.
            program = Path(found) if name == "hipcc" else Path(found).resolve()
            return HipCompiler(program, _rocm(environment))
    raise KinspectError(
        "no compiler for HIP sources is installed",
        f"install clang from {OLDEST} on (Debian, Ubuntu: `apt-get install clang-{OLDEST}`, or"
        " newer) or ROCm; another place: --hip-compiler PATH",
    )


def _rocm(environment: Mapping[str, str]) -> Path | None:
    for folder in filter(None, (environment.get("ROCM_PATH"), "/opt/rocm", "/usr")):
        root = Path(folder)
        if root.is_absolute() and (root / _HEADER).is_file() and any(_libraries(root)):
            return root
    return None


def _libraries(rocm: Path) -> Iterator[Path]:
    for folder in _LIBRARIES:
        if (rocm / folder / "ocml.bc").is_file():
            yield rocm / folder


def device_libraries(rocm: Path) -> Path:
    """The folder of the device libraries below a ROCm folder."""
    return next(_libraries(rocm))


def why_unusable(compiler: HipCompiler) -> str:
    """What keeps a program from compiling HIP, in words; empty where its version says nothing."""
    try:
        told = run_to_end([str(compiler.path), "--version"], _VERSION_SECONDS).stdout.decode(
            errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"cannot be started ({error})"
    major = told.partition("clang version ")[2].partition(".")[0]
    if not major.isdecimal():
        return "is no clang"
    return f"is clang {major}: too old" if int(major) < OLDEST else ""


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
