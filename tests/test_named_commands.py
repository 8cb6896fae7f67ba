"""No command runs that the user did not name, and none is left when kinspect has been killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kinspect.inspector.base import lifetimes, programs, staging
from kinspect.inspector.base.lifetimes import run_to_end
from kinspect.inspector.bench.history.recorder import GIT_SECONDS, commit
from kinspect.inspector.compile.environment import guest_environment

KINSPECT = Path(sys.executable).with_name("kinspect")
EXAMPLES = Path(__file__).parent.parent / "docs" / "examples"


@pytest.fixture
def canary(tmp_path: Path) -> Iterator[Path]:
    """A file that nothing may make."""
    path = tmp_path / "canary"
    yield path
    assert not path.exists(), path.read_text()


# --------------------------------------------------------------------------- git


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    done = subprocess.run(
        ["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "a.s").write_text("one\n")
    (folder / ".gitattributes").write_text("*.s filter=evil diff=evil\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "a")
    return folder


HOSTILE_SETTINGS = {
    "core.fsmonitor": "{run}",
    "core.pager": "{run}",
    "core.sshCommand": "{run}",
    "core.gitProxy": "{run}",
    "diff.external": "{run}",
    "diff.evil.textconv": "{run}",
    "diff.evil.command": "{run}",
    "filter.evil.clean": "{run}; cat",
    "filter.evil.process": "{run}",
    "filter.evil.required": "true",
    "alias.status": "!{run}",
    "credential.helper": "!{run}",
    "remote.origin.url": "ext::{run}",
    "remote.origin.promisor": "true",
    "protocol.ext.allow": "always",
    "remote.origin.uploadpack": "{run}",
    "pager.status": "{run}",
}


def test_programs_find_no_interpreter_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program may be a script for `env`: rocprofv3, a shim of pyenv's."""
    (tmp_path / "bash").write_text("#!/bin/sh\ntouch canary\n")
    (tmp_path / "bash").chmod(0o755)
    (tmp_path / "tool").write_text("#!/usr/bin/env bash\necho sound\n")
    (tmp_path / "tool").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f".:{os.environ['PATH']}:")
    assert run_to_end([str(tmp_path / "tool")], 10).stdout == b"sound\n"
    assert not (tmp_path / "canary").exists()
    path = guest_environment(os.environ)["PATH"]
    assert all(map(os.path.isabs, path.split(":")))


def test_settings_of_a_checkout_run_nothing(checkout: Path, canary: Path) -> None:
    for name, value in HOSTILE_SETTINGS.items():
        git(checkout, "config", name, value.format(run=f"echo {name} >> {canary}"))
    for hook in ("post-index-change", "pre-commit", "reference-transaction"):
        path = checkout / ".git" / "hooks" / hook
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\necho {hook} >> {canary}\n")
        path.chmod(0o755)
    head = (checkout / ".git" / "HEAD").read_text().split()[-1]
    expected = (checkout / ".git" / head).read_text()[:10]
    assert commit(checkout) == expected
    (checkout / "a.s").write_text("two\n")
    assert commit(checkout) == f"{expected}+"


@pytest.mark.parametrize("name", ["core.attributesFile", "core.excludesFile"])
def test_git_reads_no_file_that_a_checkout_names(name: str, checkout: Path) -> None:
    """Without end, from /dev/zero; from a pipe it would wait for its limit."""
    os.mkfifo(checkout / "pipe")
    git(checkout, "config", name, str(checkout / "pipe"))
    os.utime(checkout / "a.s")
    begun = time.monotonic()
    assert commit(checkout)
    assert time.monotonic() - begun < GIT_SECONDS


def test_what_is_started_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    code = (
        "from kinspect.inspector.base.lifetimes import run_to_end\n"
        f"run_to_end(['/bin/sh', '-c', 'echo $$ > {tmp_path}/pid; exec sleep 60'], 60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    while not (tmp_path / "pid").is_file() or not (tmp_path / "pid").read_text():
        time.sleep(0.01)
    process.kill()
    process.wait()
    started = Path("/proc", (tmp_path / "pid").read_text().strip(), "status")
    for _ in range(500):
        if not started.exists() or "State:\tZ" in started.read_text():
            return
        time.sleep(0.01)
    pytest.fail("it goes on")


def test_a_filter_that_cannot_be_switched_off_leaves_the_commit_unknown(
    checkout: Path, canary: Path
) -> None:
    git(checkout, "config", "filter.a=b.clean", f"touch {canary}")
    (checkout / ".gitattributes").write_text("*.s filter=a=b\n")
    (checkout / "a.s").write_text("two\n")
    assert commit(checkout) is None


def test_what_a_checkout_lacks_is_not_fetched(
    checkout: Path, canary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"core.repositoryFormatVersion": "1", "extensions.partialClone": "origin"}
    settings |= {"remote.origin.promisor": "true", "remote.origin.url": "mine::x"}
    for name, value in {**settings, "protocol.mine.allow": "always"}.items():
        git(checkout, "config", name, value)
    tree = git(checkout, "rev-parse", "HEAD^{tree}")
    (checkout / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    # Git before 2.39.4 does not know the variable.
    old = f"unset GIT_NO_LAZY_FETCH; exec {shutil.which('git')}"
    programs_of(checkout, git=f'{old} "$@"', **{"git-remote-mine": f"touch {canary}"})
    monkeypatch.setenv("PATH", f"{checkout}:{os.environ['PATH']}")
    assert commit(checkout) is None, "whether files differ is not known"


def programs_of(folder: Path, **scripts: str) -> None:
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)


def test_no_program_of_the_working_folder_is_found(
    checkout: Path, canary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs_of(checkout, git=f"touch {canary}")
    head = git(checkout, "rev-parse", "--short=10", "HEAD")
    monkeypatch.chdir(checkout)
    monkeypatch.setenv("PATH", f":.:bin/..:{os.environ['PATH']}")
    assert commit() == head
    assert os.path.isabs(programs.find_program("git") or "")
    assert programs.find_program("./git") == str(checkout / "git")  # named by its path
    assert programs.find_program("git", ".") is None


@pytest.mark.parametrize(
    "words",
    [
        ("analyze", "few_rows.ttgir"),
        ("emulate", "few_rows.py"),
        ("env", "check"),
        ("check", "vector_add"),
    ],
    ids=" ".join,
)
def test_no_interpreter_of_the_working_folder_is_found(
    words: tuple[str, ...], tmp_path: Path, canary: Path
) -> None:
    programs_of(tmp_path, python_here=f"touch {canary}")
    (tmp_path / "few_rows.ttgir").write_bytes((EXAMPLES / "few_rows.ttgir").read_bytes())
    (tmp_path / "few_rows.py").touch()
    done = subprocess.run(
        [KINSPECT, *words, "--python", "python_here"], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PATH": f".:{os.environ['PATH']}"},
    )  # fmt: skip
    assert "python_here cannot be started" in done.stderr or "python_here does not" in done.stdout


# --------------------------------------------------------------------------- Python children

MODULES = ("json", "csv", "importlib", "msgspec", "numpy", "platform", "struct", "triton", "torch")


@pytest.mark.parametrize(
    "words",
    [
        ("env", "check"),
        ("env", "check", "--python", sys.executable),
        ("lint", "iota.s"),
        ("analyze", "few_rows.ttgir"),
        ("emulate", "iota.s", "--args", "i32[64]=zeros", "--block", "64"),
        ("passes", "few_rows.ttgir"),
        ("layout", "few_rows.ttgir"),
        ("check", "vector_add"),
    ],
    ids=" ".join,
)
def test_no_module_of_the_working_folder_is_imported(
    words: tuple[str, ...], tmp_path: Path, canary: Path
) -> None:
    for name in MODULES:
        (tmp_path / f"{name}.py").write_text(f"open({str(canary)!r}, 'a').write('{name}\\n')\n")
    for name in ("iota.s", "few_rows.ttgir"):
        (tmp_path / name).write_bytes((EXAMPLES / name).read_bytes())
    done = subprocess.run([KINSPECT, *words], cwd=tmp_path, capture_output=True, text=True)
    assert "Traceback" not in done.stderr


def test_children_of_this_interpreter_find_no_module_of_their_folder(
    tmp_path: Path, canary: Path
) -> None:
    (tmp_path / "json.py").write_text(f"open({str(canary)!r}, 'a')\n")
    command = programs.python_child("json", "dumps")
    assert subprocess.run(command, cwd=tmp_path, capture_output=True).returncode  # no argument


# --------------------------------------------------------------------------- nothing is left

SCRIPT = """
import os, subprocess, time
other = subprocess.Popen(["sleep", "600"], start_new_session=True)
with open("pids.new", "w") as file:
    file.write(f"{os.getpid()} {other.pid}")
os.rename("pids.new", "pids")
time.sleep(600)
"""
BY_API = "import kinspect; kinspect.emulate('script.py')"


@pytest.mark.parametrize(
    ("command", "number"),
    [
        ((str(KINSPECT), "emulate", "script.py"), signal.SIGTERM),
        ((sys.executable, "-c", BY_API), signal.SIGKILL),
    ],
)
def test_an_emulated_script_ends_with_kinspect(
    command: tuple[str, ...], number: signal.Signals, tmp_path: Path
) -> None:
    pytest.importorskip("triton")
    check_nothing_is_left(command, number, tmp_path)


def check_nothing_is_left(command: tuple[str, ...], number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    process = subprocess.Popen(
        command, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    pids = tmp_path / "pids"
    wait_until(pids.exists, 120)
    process.send_signal(number)
    process.wait(30)
    started = [int(pid) for pid in pids.read_text().split()]
    wait_until(lambda: not any(map(is_alive, started)), 30)


FORKED = """
import os, time
from types import SimpleNamespace
from kinspect.inspector.pipeline import forked
def read(*_):
    open("pids.new", "w").write(str(os.getpid()))
    os.rename("pids.new", "pids")
    time.sleep(600)
forked.read_target = read
list(forked._Pool([(0, None)], SimpleNamespace(request=SimpleNamespace(jobs=1)), [0]).outcomes())
"""
IN_A_PASS = """
import os, sys
from kinspect.inspector.profile.running.pass_launch import run
run([sys.executable, "script.py"], os.environ)
"""


LEFT = """
import os, subprocess, sys
ids = [subprocess.Popen(["sleep", "600"], start_new_session=True, env={}).pid]
read, write = os.pipe()
if not os.fork():
    os.setsid()
    if not os.fork():
        os.write(write, str(os.getpid()).encode())
        os.execve("/bin/sleep", ["sleep", "600"], {})
    os._exit(0)
ids.append(int(os.read(read, 20)))
with open("pids.new", "w") as file:
    file.write(" ".join(map(str, ids)))
os.rename("pids.new", "pids")
"""


RECORD = (str(KINSPECT), "record", "--", sys.executable, "script.py")
LEAVING = (sys.executable, "-c", LEFT + "import time; time.sleep(600)")
DAEMONS = (str(KINSPECT), "record", "--", *LEAVING)
IN_A_FAULT = """
import os, sys
from kinspect.inspector.cli import foreground
with foreground.started(
    sys.argv[1:], os.environ, tool="kinspect fault", failure=125, read_stderr=True
) as process:
    foreground.wait(process, __import__("pathlib").Path("stderr.txt"))
"""
AS_FAULT = (sys.executable, "-c", IN_A_FAULT, *LEAVING)
AS_PROFILE = (
    sys.executable, "-c", IN_A_PASS.replace('[sys.executable, "script.py"]', "sys.argv[1:]"),
    *LEAVING,
)  # fmt: skip


@pytest.mark.parametrize(
    ("command", "number"),
    [
        (RECORD, signal.SIGKILL),
        (RECORD, signal.SIGTERM),
        *((DAEMONS, number) for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP)),
        (AS_FAULT, signal.SIGKILL),
        (AS_PROFILE, signal.SIGKILL),
        (AS_PROFILE, signal.SIGTERM),
        ((sys.executable, "-c", IN_A_PASS), signal.SIGKILL),
        ((sys.executable, "-c", FORKED), signal.SIGKILL),
    ],
)
def test_a_command_ends_with_kinspect(
    command: tuple[str, ...], number: signal.Signals, tmp_path: Path
) -> None:
    check_nothing_is_left(command, number, tmp_path)


ENDINGS = {"status": ("sys.exit(3)", 3), "signal": ("os.abort()", -signal.SIGABRT)}


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_a_command_leaves_ends_with_it(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, status = ENDINGS[ending]
    with lifetimes.supervised([sys.executable, "-c", f"{LEFT}{code}"], os.environ) as process:
        assert process.wait(60) == status
    left = [int(pid) for pid in Path("pids").read_text().split()]
    assert len(left) == 2
    assert not any(map(is_alive, left))


def test_a_command_ends_with_the_block_that_follows_it() -> None:
    with lifetimes.supervised(["sleep", "600"], os.environ) as process:
        assert process.poll() is None
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("own_group", [False, True])
def test_a_command_gets_the_signals_of_its_supervisor(own_group: bool) -> None:
    wait = "import signal, sys\nsignal.signal(signal.SIGUSR1, lambda *_: sys.exit(9))\n"
    wait += "print('ready', flush=True)\nsignal.pause()"
    words = [sys.executable, "-c", wait]
    read, write = os.pipe()
    with lifetimes.supervised(words, os.environ, stderr=write, own_group=own_group) as process:
        os.close(write)
        time.sleep(0.5)
        process.send_signal(signal.SIGUSR1)
        assert process.wait(60) in (9, -signal.SIGUSR1)
        with os.fdopen(read) as stream:  # the supervisor has closed its end
            assert not stream.read()


def test_a_command_that_cannot_be_started_leaves_no_supervisor() -> None:
    before = lifetimes.descendants(os.getpid())
    with pytest.raises(OSError, match="no/such/program"):  # noqa: SIM117
        with lifetimes.supervised(["/no/such/program"], os.environ):
            pass
    assert lifetimes.descendants(os.getpid()) <= before


def wait_until(condition: object, seconds: float) -> None:
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_scratch_folders_of_killed_runs_are_removed_after_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging.tempfile, "tempdir", str(tmp_path))
    staging._scratch_folders.cache_clear()
    elsewhere = tmp_path / "elsewhere"
    ours = {name: f"kinspect-123-{name:_<8}" for name in ("killed", "held", "young", "linked")}
    theirs = ["kinspect-123-12345678", "kinspect-checkout", "another"]  # without a lock, or a name
    for name in [*ours.values(), "kinspect-checkout"]:
        folder, lock = tmp_path / name, tmp_path / f"{name}.lock"
        lock.touch()
        folder.mkdir()
        (folder / "file").write_text(name)
    for name in theirs:
        (tmp_path / name).mkdir(exist_ok=True)
    (tmp_path / ours["linked"]).rename(elsewhere)
    (tmp_path / ours["linked"]).symlink_to(elsewhere)
    for path in tmp_path.iterdir():
        if not path.name.startswith(ours["young"]):
            os.utime(path, (0, 0), follow_symlinks=False)
    with (tmp_path / f"{ours['held']}.lock").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with staging.scratch_folder() as folder:
            assert folder.parent == tmp_path
            assert folder.stat().st_mode & 0o777 == 0o700
    staging._scratch_folders.cache_clear()
    left = sorted(path.name for path in tmp_path.iterdir() if path.is_dir())
    assert left == sorted([*theirs, "elsewhere", *(ours[n] for n in ("held", "young", "linked"))])
    assert (elsewhere / "file").exists()
