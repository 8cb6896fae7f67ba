"""The one way to this machine: files, environment variables, programs and the user's rights.

Everything goes through a `Host`, so that tests put a folder, a mapping and a function in its place.

The facts that `kinspect env` finds out, as values.
"""

from __future__ import annotations

import grp
import os
import platform
import subprocess
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path

from msgspec import Struct, field

from ...base.lifetimes import run_to_end
from ...base.programs import find_program

_PATIENCE = 20.0
"""Seconds that a program may take to answer."""

Run = Callable[[Sequence[str]], "str | None"]
"""A program's standard output; None where it is not there, fails or takes too long."""


class User(Struct, frozen=True):
    """The user who runs kinspect."""

    uid: int
    groups: tuple[str, ...]


class Host(Struct, frozen=True):
    """A machine."""

    root: Path  # of its file system
    environ: Mapping[str, str]  # the environment that programs are started in
    run: Run  # starts a program
    user: User  # who runs kinspect
    release: str  # of the kernel
    node: str  # its name in the network

    def path(self, name: str) -> Path:
        """Returns an absolute path of the machine, below `root`."""
        return self.root / name.lstrip("/")

    def text(self, path: str) -> str | None:
        """Reads a small file's text, stripped; returns None if it can't be read."""
        try:
            return self.path(path).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return None

    def glob(self, folder_path: str, pattern: str) -> list[str]:
        """Returns the paths below a folder that match a pattern, sorted."""
        folder = self.path(folder_path)
        paths = sorted(folder.glob(pattern)) if folder.is_dir() else []
        return [f"/{p.relative_to(self.root)}" for p in paths]

    def exists(self, path: str) -> bool:
        """Tells whether a file exists."""
        return self.path(path).exists()

    def may_use(self, path: str) -> bool:
        """Tells whether the user may read and write a file."""
        return os.access(self.path(path), os.R_OK | os.W_OK)

    def write(self, path: str, text: str) -> None:
        """Writes a setting to an existing file, without following links; the kernel may refuse it.

        Raises:
            OSError: it did, or the user may not.
        """
        handle = os.open(self.path(path), os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW)
        with os.fdopen(handle, "w", encoding="ascii") as stream:
            stream.write(text)

    @property
    def boot(self) -> str:
        """The id of the machine's current boot; "" if the kernel does not state it."""
        return self.text("/proc/sys/kernel/random/boot_id") or ""


def this_host() -> Host:
    """Returns the machine that this runs on."""
    return Host(
        Path("/"), os.environ, run_program, _this_user(), platform.release(), platform.node()
    )


def run_program(command: Sequence[str]) -> str | None:
    """Runs a program and returns its standard output; None if it fails or takes too long."""
    program = find_program(command[0])
    if program is None:
        return None
    words = [program, *command[1:]]
    try:
        process = run_to_end(words, _PATIENCE)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if process.returncode else process.stdout.decode("utf-8", "replace")


def _this_user() -> User:
    names = []
    for number in {*os.getgroups(), os.getgid()}:
        try:
            names.append(grp.getgrgid(number).gr_name)
        except KeyError:
            names.append(str(number))  # of a container that does not name the host's groups
    return User(os.getuid(), tuple(sorted(names)))


class Verdict(str, Enum):
    """The verdict on a fact.

    `choice` is what the guides offer for some kinds of work, or what changes compiled code: neither
    is better.
    """

    GOOD = "good"
    CHANGE = "worth changing"
    CHOICE = "your choice"
    UNKNOWN = "unknown"
    ABSENT = "not here"


class MachineFact(Struct, frozen=True):
    """One line of the table."""

    group: str  # heading
    name: str  # as `env set` takes it, where it can be set
    value: str | None  # what it is; None where it is not known or not there
    verdict: Verdict  # what is thought of it
    expected: str = ""  # what it should be, or may be
    advice: str = ""  # why, and what to do
    source: str = ""  # where the advice comes from
    settable: bool = False  # whether `env set` can change it


class InstalledGpu(Struct, frozen=True):
    """A GPU of the driver's topology: node, target and, where it is known, its card's folder."""

    node: int
    arch: str
    name: str = ""
    card: str | None = None


class MachineReport(Struct, frozen=True):
    """All facts, in the order of their groups."""

    facts: tuple[MachineFact, ...]
    gpus: tuple[InstalledGpu, ...] = field(default=())

    @property
    def worth_changing(self) -> tuple[MachineFact, ...]:
        return tuple(f for f in self.facts if f.verdict is Verdict.CHANGE)
