"""What code that data state can do to the system, were it to break out of Triton's language."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PREPARED = """
import ctypes, fcntl, mmap, os, shutil, signal, socket, subprocess, sys, tempfile, threading
from kinspect.inspector.guest.system_calls import deny_effects
kept = open("kept", "w")
other = subprocess.Popen(["sleep", "5"], stdout=-3, stderr=-3)
deny_effects()
kept.write("still written"), kept.flush()
threading.Thread(target=lambda: None).start()
assert open("read").read() == "content"
os.fdopen(os.memfd_create("x"), "w").write("x")
os.kill(os.getpid(), 0)
try:
    {attack}
except OSError as error:
    assert error.errno in (1, 22, 38), error
else:
    print("done")
"""
ATTACKS = {
    "a program": "os.execv('/bin/true', ['true'])",
    "a program in a child": "subprocess.run(['true'])",
    "a program by posix_spawn": "os.posix_spawn('/bin/true', ['true'], {})",
    "a shell": "assert os.system('true') == 0 or (_ for _ in ()).throw(OSError(1, 'x'))",
    "a process": "os.fork()",
    "a file": "open('new', 'w')",
    "a file that is there": "open('read', 'a')",
    "a file without a name": "os.open('.', os.O_TMPFILE | os.O_RDWR)",
    "a folder": "os.mkdir('new')",
    "a link": "os.symlink('read', 'new')",
    "a hard link": "os.link('read', 'new')",
    "a name": "os.rename('read', 'new')",
    "a removal": "os.unlink('read')",
    "a mode": "os.chmod('read', 0o777)",
    "a time": "os.utime('read')",
    "a length": "os.truncate('read', 0)",
    "an attribute": "os.setxattr('read', 'user.x', b'x')",
    "a socket": "socket.socket()",
    "a local socket": "socket.socket(socket.AF_UNIX)",
    "a signal": "os.kill(other.pid, signal.SIGTERM)",
    "a signal to all": "os.kill(-1, 0)",
    "a signal by a descriptor": "fcntl.fcntl(kept, fcntl.F_SETOWN, other.pid)",
    "a process's descriptor": "os.pidfd_open(other.pid)",
    "a key of a terminal": "fcntl.ioctl(0, 0x5412, b'x')",
}


@pytest.mark.parametrize("name", ATTACKS)
def test_code_of_data_has_no_effect(name: str, tmp_path: Path) -> None:
    (tmp_path / "read").write_text("content")
    script = PREPARED.replace("{attack}", ATTACKS[name])
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "", done.stderr
    assert done.returncode == 0, done.stderr
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "read": "content", "kept": "still written",
    }  # fmt: skip


@pytest.mark.parametrize("name", ATTACKS)
def test_each_is_an_attack(name: str, tmp_path: Path) -> None:
    """It does something where nothing holds it."""
    if name == "a key of a terminal" or name == "a signal to all":
        pytest.skip("not on this machine's own processes")
    (tmp_path / "read").write_text("content")
    script = PREPARED.replace("{attack}", ATTACKS[name]).replace("\ndeny_effects()", "")
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    replaced = name == "a program"
    assert "done" in done.stdout or (replaced and not done.returncode), done.stderr
