"""The one way to this machine: files, environment variables, programs and the user's rights.

Everything goes through a `Host`, so that tests put a folder, a mapping and a function in its place.
"""

from __future__ import annotations

import grp
import os
import platform
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

_PATIENCE = 20.0
"""Seconds that a program may take to answer."""

Run = Callable[[Sequence[str]], "str | None"]
"""A program's standard output; None where it is not there, fails or takes too long."""


class User(Struct, frozen=True):
    """Who asks."""

    uid: int
    groups: tuple[str, ...]


class Host(Struct, frozen=True):
    """A machine.

    Args:
        root: of its file system.
        environ: the environment that programs are started in.
        run: starts a program.
        user: who asks.
        release: of the kernel.
        node: its name in the network.
    """

    root: Path
    environ: Mapping[str, str]
    run: Run
    user: User
    release: str
    node: str

    def path(self, place: str) -> Path:
        """An absolute path of the machine, where it is to be found."""
        return self.root / place.lstrip("/")

    def text(self, place: str) -> str | None:
        """A small file's text, stripped; None where it can't be read."""
        try:
            return self.path(place).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return None

    def glob(self, place: str, pattern: str) -> list[str]:
        """The paths below a folder that fit, sorted."""
        folder = self.path(place)
        paths = sorted(folder.glob(pattern)) if folder.is_dir() else []
        return [f"/{p.relative_to(self.root)}" for p in paths]

    def exists(self, place: str) -> bool:
        """Whether there is such a file."""
        return self.path(place).exists()

    def may_use(self, place: str) -> bool:
        """Whether the user may read and write it."""
        return os.access(self.path(place), os.R_OK | os.W_OK)

    def write(self, place: str, text: str) -> None:
        """Writes a setting; the kernel may refuse it. No file is made, and no link followed.

        Raises:
            OSError: it did, or the user may not.
        """
        handle = os.open(self.path(place), os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW)
        with os.fdopen(handle, "w", encoding="ascii") as stream:
            stream.write(text)

    @property
    def boot(self) -> str:
        """Which boot this is; "" where the kernel does not say."""
        return self.text("/proc/sys/kernel/random/boot_id") or ""


def this_host() -> Host:
    """The machine that this runs on."""
    return Host(
        Path("/"), os.environ, run_program, _this_user(), platform.release(), platform.node()
    )


def run_program(command: Sequence[str]) -> str | None:
    """Starts a program and takes its output."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PATIENCE, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _this_user() -> User:
    names = []
    for number in {*os.getgroups(), os.getgid()}:
        try:
            names.append(grp.getgrgid(number).gr_name)
        except KeyError:
            names.append(str(number))  # of a container that does not name the host's groups
    return User(os.getuid(), tuple(sorted(names)))
