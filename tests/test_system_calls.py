"""What code that data state can do to the system, were it to break out of Triton's language."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

PREPARED = """
import ctypes, fcntl, mmap, os, shutil, signal, socket, subprocess, sys, tempfile, threading
from kinspect.inspector.guest.system_calls import deny_effects
kept = open("kept", "w")
other = subprocess.Popen(["sleep", "5"], stdout=-3, stderr=-3)
go, earlier = threading.Event(), []
waiting = threading.Thread(target=lambda: (go.wait(), earlier.append(in_thread())))
waiting.start()
def in_thread():
    try:
        os.mkdir("by_thread")
    except OSError as error:
        return error.errno
os.environ |= {"SECRET": "x", "TRITON_X": "kept"}
deny_effects(["allowed"])
go.set(), waiting.join()
assert earlier == [38], earlier
kept.write("still written"), kept.flush()
threading.Thread(target=lambda: None).start()
assert open("read").read() == open("allowed/read").read() == "content", "allowed"
import colorsys, sqlite3, xml.dom.minidom
assert "SECRET" not in os.environ
assert os.environ["TRITON_X"] == "kept" and os.environ["PATH"]
os.kill(os.getpid(), 0)
try:
    {attack}
except OSError as error:
    assert error.errno in (1, 13, 22, 38), error
else:
    print("done")
"""
READING = {
    "a file elsewhere": "open('../outside').read()",
    "a folder elsewhere": "os.listdir('..')",
    "a hidden file": "open('.env').read()",
    "another process's environment": "open(f'/proc/{os.getppid()}/environ').read()",
    "a file by a link": "open('link').read()",
}
"""Refused where the system has Landlock."""
ATTACKS = {
    "a program": "os.execv('/bin/true', ['true'])",
    "a program in a child": "subprocess.run(['true'])",
    "a program by posix_spawn": "os.posix_spawn('/bin/true', ['true'], {})",
    "a shell": "assert os.system('true') == 0 or (_ for _ in ()).throw(OSError(1, 'x'))",
    "a process": "os.fork()",
    "a file": "open('new', 'w')",
    "a file that is there": "open('read', 'a')",
    "a file without a name": "os.open('.', os.O_TMPFILE | os.O_RDWR)",
    "memory in a file": "os.memfd_create('x')",  # it counts in no limit of memory
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
    "a process's CPUs": "os.sched_setaffinity(other.pid, {0})",
    "a process's priority": "os.setpriority(os.PRIO_PROCESS, other.pid, 5)",
    "a flag of a file": "fcntl.ioctl(open('read'), 0x40086602, bytes(8))",
    "a lock": "fcntl.flock(open('read'), fcntl.LOCK_EX)",
    **READING,
    "a key of a terminal": "fcntl.ioctl(0, 0x5412, b'x')",
}


def places(folder: Path) -> Path:
    """A working folder with files in and beside it."""
    work = folder / "work"
    (work / "allowed").mkdir(parents=True)
    for name in ("outside", "work/read", "work/allowed/read", "work/.env"):
        (folder / name).write_text("content")
    (work / "link").symlink_to("../outside")
    return work


@pytest.mark.parametrize("name", ATTACKS)
def test_code_of_data_has_no_effect(name: str, tmp_path: Path) -> None:
    if name in READING and ctypes.CDLL(None).syscall(444, None, 0, 1) < 1:
        pytest.skip("this system has no Landlock")
    folder = places(tmp_path)
    script = PREPARED.replace("{attack}", ATTACKS[name])
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "", done.stderr
    assert done.returncode == 0, done.stderr
    assert {path.name for path in folder.iterdir()} == {".env", "allowed", "kept", "link", "read"}
    assert ((folder / "read").read_text(), (folder / "kept").read_text()) == (
        "content", "still written",
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTACKS)
def test_each_is_an_attack(name: str, tmp_path: Path) -> None:
    """It does something where nothing holds it."""
    if name == "a key of a terminal" or name == "a signal to all":
        pytest.skip("not on this machine's own processes")
    folder = places(tmp_path)
    script = PREPARED.replace("{attack}", ATTACKS[name])
    for line in (
        'deny_effects(["allowed"])\n',
        "assert earlier == [38], earlier\n",
        'assert "SECRET" not in os.environ\n',
    ):
        assert line in script
        script = script.replace(line, "")
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, timeout=60
    )
    replaced = name == "a program"
    assert "done" in done.stdout or (replaced and not done.returncode), done.stderr
