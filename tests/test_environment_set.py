"""`kinspect env set` and `reset`: kept before, changed, read back, put back."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.host.env.changing import (
    ChangeOutcome,
    ChangeResult,
    Ledger,
    apply,
    ledger,
    planned_reset,
    reset,
)
from kinspect.inspector.host.env.host import Host, User
from kinspect.inspector.host.env.settings import command, plan
from msgspec.structs import replace

Tool = Callable[..., "CompletedProcess[str]"]

CARD = "/sys/class/drm/renderD128/device"
LEVEL, CLOCK = f"{CARD}/power_dpm_force_performance_level", f"{CARD}/pp_od_clk_voltage"
NUMA = "/proc/sys/kernel/numa_balancing"
BOOT = "/proc/sys/kernel/random/boot_id"


@pytest.fixture
def tool(tool_in_process: Tool) -> Tool:
    return tool_in_process


class Kernel(Host, frozen=True):
    """A host whose kernel behaves as amdgpu does: clocks are entered, then committed."""

    refused: tuple[str, ...] = ()
    deaf: tuple[str, ...] = ()

    def write(self, place: str, text: str) -> None:
        if place in self.refused:
            raise PermissionError(errno.EACCES, "Permission denied")
        if place in self.deaf:
            return
        path = self.path(place)
        if place == CLOCK:
            level = self.text(LEVEL)
            if level not in ("manual", "perf_determinism"):
                raise OSError(errno.EINVAL, "Invalid argument")
            pending = self.root / "pending"
            if match := re.fullmatch(r"s 1 (\d+)", text):
                pending.write_text(match[1])
            elif text == "c":
                path.write_text(clocks(int(pending.read_text())))
            else:
                raise OSError(errno.EINVAL, "Invalid argument")
            return
        path.write_text(text + "\n")
        if place == LEVEL and text == "auto":
            self.path(CLOCK).write_text(clocks(2100))


def clocks(most: int) -> str:
    return f"OD_SCLK:\n0:  500Mhz\n1:  {most}Mhz\nOD_RANGE:\nSCLK:  500Mhz  2100Mhz\n"


FILES = {
    "/sys/class/kfd/kfd/topology/nodes/1/properties": "drm_render_minor 128\n"
    "gfx_target_version 90402\n",
    LEVEL: "auto\n",
    CLOCK: clocks(2100),
    NUMA: "1\n",
    BOOT: "boot-1\n",
}


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    root = tmp_path / "root"
    for name, text in FILES.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Kernel(root, {}, lambda command: None, User(0, ()), "6.8", "node1")


@pytest.fixture
def book(tmp_path: Path) -> Ledger:
    return ledger("node1", str(tmp_path / "state"))


def state(kernel: Kernel) -> tuple[str | None, str | None, str]:
    text = kernel.text(CLOCK) or ""
    return kernel.text(NUMA), kernel.text(LEVEL), re.findall(r"1:\s+(\d+)Mhz", text)[0]


def outcomes(steps: list[ChangeResult]) -> list[ChangeOutcome]:
    return [step.outcome for step in steps]


def test_what_is_planned(kernel: Kernel) -> None:
    assert [(c.name, c.before, c.after) for c in plan(kernel)] == [
        ("numa_balancing", "1", "0"),
        ("clock1", "auto", "perf_determinism"),
        ("clock1", "2100", "1900"),
        ("HIP_FORCE_DEV_KERNARG", None, "1"),
    ]
    assert state(kernel) == ("1", "auto", "2100")


def test_set_and_reset(kernel: Kernel, book: Ledger) -> None:
    changes = plan(kernel)
    steps = apply(kernel, book, changes)
    assert outcomes(steps) == [ChangeOutcome.DONE] * 3 + [ChangeOutcome.SHELL]
    assert state(kernel) == ("0", "perf_determinism", "1900")
    assert [c for c in plan(kernel) if not c.is_variable] == []
    back = reset(kernel, book)
    # The clock goes back while the level still allows it, the level after that.
    assert [s.change.target for s in back] == [CLOCK, LEVEL, NUMA]
    assert outcomes(back) == [ChangeOutcome.DONE] * 3
    assert state(kernel) == ("1", "auto", "2100")
    assert not book.path.exists()
    assert reset(kernel, book) == []


def test_what_was_there_is_kept_before_anything_is_changed(kernel: Kernel, book: Ledger) -> None:
    seen: list[bool] = []

    class Watching(Kernel, frozen=True):
        def write(self, place: str, text: str) -> None:
            seen.append(book.path.exists() and kernel.text(NUMA) == "1")
            Kernel.write(self, place, text)

    watching = Watching(kernel.root, {}, kernel.run, kernel.user, "6.8", "node1")
    apply(watching, book, plan(watching, ["numa_balancing"]))
    assert seen == [True]


def test_setting_twice_keeps_what_was_there_first(kernel: Kernel, book: Ledger) -> None:
    apply(kernel, book, plan(kernel, ["numa_balancing"]))
    kernel.write(NUMA, "2")
    apply(kernel, book, plan(kernel, ["numa_balancing"]))
    reset(kernel, book)
    assert kernel.text(NUMA) == "1"


def test_nothing_is_changed_where_nothing_can_be_kept(kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where a folder should be")
    with pytest.raises(KinspectError, match="cannot be"):
        apply(kernel, ledger("node1", str(tmp_path / "state")), plan(kernel))
    assert state(kernel) == ("1", "auto", "2100")


def test_no_right_to_do_it(kernel: Kernel, book: Ledger) -> None:
    closed = replace(kernel, refused=(NUMA,))
    (step,) = apply(closed, book, plan(closed, ["numa_balancing"]))
    assert step.failed
    assert step.next_step == f"Permission denied; as root: sudo sh -c 'echo 0 > {NUMA}'"
    assert not book.path.exists()  # nothing to put back


def test_half_of_it_fails(kernel: Kernel, book: Ledger) -> None:
    closed = replace(kernel, refused=(LEVEL,))
    steps = apply(closed, book, [c for c in plan(closed) if not c.is_variable])
    assert outcomes(steps) == [ChangeOutcome.DONE, ChangeOutcome.REFUSED, ChangeOutcome.REFUSED]
    assert steps[2].next_step == "left alone: the step before it failed"
    assert state(kernel) == ("0", "auto", "2100")
    assert [saved.change.name for saved in book.read()] == ["numa_balancing"]


def test_a_change_that_does_not_take(kernel: Kernel, book: Ledger) -> None:
    deaf = replace(kernel, deaf=(NUMA,))
    (step,) = apply(deaf, book, plan(deaf, ["numa_balancing"]))
    assert step.outcome is ChangeOutcome.REFUSED
    assert "it was written, and reads 1 all the same" in step.next_step


def test_after_a_restart(kernel: Kernel, book: Ledger) -> None:
    apply(kernel, book, plan(kernel))
    for name, text in {**FILES, BOOT: "boot-2\n"}.items():
        kernel.path(name).write_text(text)
    steps = reset(kernel, book)
    assert outcomes(steps) == [ChangeOutcome.ALREADY] * 3
    assert steps[0].next_step == "by a restart of the machine"
    assert not book.path.exists()


def test_someone_else_changed_it(kernel: Kernel, book: Ledger) -> None:
    apply(kernel, book, plan(kernel, ["numa_balancing"]))
    kernel.write(NUMA, "2")
    (step,) = reset(kernel, book)
    assert step.outcome is ChangeOutcome.DRIFTED
    assert step.next_step == "it is 2 since `env set`, neither 1 nor 0; --force puts 1 back"
    assert kernel.text(NUMA) == "2"
    assert book.read()
    (forced,) = reset(kernel, book, force=True)
    assert forced.outcome is ChangeOutcome.DONE
    assert kernel.text(NUMA) == "1"


def test_putting_back_fails_and_is_tried_again(kernel: Kernel, book: Ledger) -> None:
    apply(kernel, book, [c for c in plan(kernel) if not c.is_variable])
    steps = reset(replace(kernel, refused=(NUMA,)), book)
    assert outcomes(steps) == [ChangeOutcome.DONE, ChangeOutcome.DONE, ChangeOutcome.REFUSED]
    assert [saved.change.name for saved in book.read()] == ["numa_balancing"]
    assert outcomes(reset(kernel, book)) == [ChangeOutcome.DONE]


def test_a_gpu_that_is_gone(kernel: Kernel, book: Ledger) -> None:
    apply(kernel, book, plan(kernel, ["clock1"]))
    for place in (LEVEL, CLOCK):
        kernel.path(place).unlink()
    assert outcomes(reset(kernel, book)) == [ChangeOutcome.GONE] * 2
    assert not book.path.exists()


def test_looking_changes_nothing(kernel: Kernel, book: Ledger) -> None:
    apply(kernel, book, plan(kernel, ["numa_balancing"]))
    assert outcomes(planned_reset(kernel, book.read())) == [ChangeOutcome.POSSIBLE]
    assert kernel.text(NUMA) == "0"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be read"),
        ('{"version": 9}', "version"),
        ('{"version": 1, "changes": [{"name": "x"}]}', "lacks 'kind'"),
        (
            '{"version": 1, "changes": [{"name": "x", "kind": "odd", "target": "/t",'
            ' "before": "1", "after": "2", "boot": ""}]}',
            "no kind",
        ),
    ],
)
def test_a_damaged_ledger(book: Ledger, text: str, message: str) -> None:
    book.path.parent.mkdir(parents=True)
    book.path.write_text(text)
    with pytest.raises(KinspectError, match=message):
        book.read()


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("AMD_LOG_LEVL", "no setting of that name", "AMD_LOG_LEVEL"),
        ("clock7", "cannot be set here", "env check"),
    ],
)
def test_unknown_names(kernel: Kernel, name: str, message: str, hint: str) -> None:
    with pytest.raises(KinspectError, match=message) as raised:
        plan(kernel, [name])
    assert hint in raised.value.hint


def test_commands_for_the_shell(kernel: Kernel) -> None:
    numa, level, clock, variable = plan(kernel)
    assert command(numa, "0") == f"sudo sh -c 'echo 0 > {NUMA}'"
    inner = command(clock, "1900").removeprefix("sudo sh -c ")
    assert subprocess.run(
        ["sh", "-c", f"printf %s {inner}"], capture_output=True, text=True
    ).stdout == (f"echo 's 1 1900' > {CLOCK} && echo c > {CLOCK}")
    assert command(level, "auto").endswith(f"echo auto > {LEVEL}'")
    assert command(variable, "1") == "export HIP_FORCE_DEV_KERNARG=1"
    assert command(variable, None) == "unset HIP_FORCE_DEV_KERNARG"


# --------------------------------------------------------------------------- the command


def test_a_shell_sets_and_resets_its_variables(tmp_path: Path) -> None:
    kinspect = f"{sys.executable} -m kinspect.inspector.cli"
    script = f"""
set -e
export AMD_LOG_LEVEL="4" KINSPECT_STATE_DIR={tmp_path}/state
unset TORCHINDUCTOR_MAX_AUTOTUNE || true
eval "$({kinspect} env set --shell --yes AMD_LOG_LEVEL TORCHINDUCTOR_MAX_AUTOTUNE)"
echo "${{AMD_LOG_LEVEL-none}} ${{TORCHINDUCTOR_MAX_AUTOTUNE-none}}"
eval "$({kinspect} env reset --shell)"
echo "${{AMD_LOG_LEVEL-none}} ${{TORCHINDUCTOR_MAX_AUTOTUNE-none}}"
{kinspect} env reset --yes
ls {tmp_path}/state
"""
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:2] == ["none 1", "4 none"]
    assert [line.rsplit("  ", 1)[1] for line in lines[2:]] == ["already so", "already so"]


def env_of(tmp_path: Path, **more: str) -> Mapping[str, str]:
    return {"KINSPECT_STATE_DIR": str(tmp_path / "state"), **more}


def test_nothing_without_yes(tool: Tool, tmp_path: Path) -> None:
    env = env_of(tmp_path, AMD_LOG_LEVEL="3")
    for args in (["set", "AMD_LOG_LEVEL"], ["set", "AMD_LOG_LEVEL", "--yes", "--dry-run"]):
        done = tool("env", *args, env=env)
        assert done.returncode == 0
        assert done.stdout == "AMD_LOG_LEVEL: 3 -> unset\n  unset AMD_LOG_LEVEL\n"
        assert "nothing was changed" in done.stderr
    assert not (tmp_path / "state").exists()


def test_with_yes(tool: Tool, tmp_path: Path) -> None:
    env = env_of(tmp_path, AMD_LOG_LEVEL="3")
    done = tool("env", "set", "AMD_LOG_LEVEL", "--yes", "--format", "json", env=env)
    assert done.returncode == 0
    (change,) = json.loads(done.stdout)["changes"]
    assert (change["before"], change["after"], change["outcome"]) == ("3", None, "for the shell")
    assert "eval" in done.stderr


def test_nothing_to_reset(tool: Tool, tmp_path: Path) -> None:
    done = tool("env", "reset", "--yes", env=env_of(tmp_path))
    assert done.returncode == 0
    assert "nothing to put back" in done.stderr


def test_an_unknown_name_is_one_line(tool: Tool, tmp_path: Path) -> None:
    done = tool("env", "set", "AMD_LOG_LEVL", env=env_of(tmp_path))
    assert (done.returncode, done.stderr.count("kinspect: ")) == (2, 1)
    assert "did you mean AMD_LOG_LEVEL" in done.stderr


# --------------------------------------------------------------------------- a ledger of others


def written(path: Path, **change: str | None) -> Ledger:
    """A ledger with one change, as `env set` might have left it."""
    entry = {"name": "numa_balancing", "kind": "plain", "target": NUMA, "before": "1", "after": "0"}
    document = {"version": 1, "changes": [{**entry, **change, "boot": "b"}]}
    path.write_text(json.dumps(document))
    path.chmod(0o600)
    return Ledger(path)


def test_a_ledger_of_one_s_own_is_believed(tmp_path: Path) -> None:
    (saved,) = written(tmp_path / "ledger.json").read()
    assert saved.change.target == NUMA
    assert written(tmp_path / "ledger.json", kind="plain", target=LEVEL, before="auto").read()
    assert written(tmp_path / "ledger.json", kind="sclk", target=CLOCK, before="2100").read()


@pytest.mark.parametrize(
    "change",
    [
        {"target": "/etc/passwd"},
        {"target": "/proc/sys/kernel/core_pattern"},
        {"target": f"{CARD}/../../../../../etc/passwd"},
        {"target": LEVEL, "kind": "sclk"},
        {"target": f"{NUMA}\n"},
        {"before": "|/tmp/run me"},
        {"before": None},
        {"kind": "variable", "name": "LD_PRELOAD", "target": "LD_PRELOAD"},
        {"kind": "variable", "name": "x", "target": "x; rm -rf ~"},
    ],
    ids=str,
)
def test_nothing_is_written_that_kinspect_never_changes(
    tmp_path: Path, change: dict[str, str | None]
) -> None:
    book = written(tmp_path / "ledger.json", **change)
    with pytest.raises(KinspectError, match="is not believed"):
        book.read()


def test_a_ledger_that_others_can_write_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.json"
    book = written(path)
    for mode in (0o620, 0o602):
        path.chmod(mode)
        with pytest.raises(KinspectError, match="others can write it"):
            book.read()
    path.chmod(0o600)
    tmp_path.chmod(0o777)
    with pytest.raises(KinspectError, match="others can write its folder"):
        book.read()
    tmp_path.chmod(0o700)
    (tmp_path / "link.json").symlink_to(path)
    with pytest.raises(KinspectError, match="it is a link"):
        Ledger(tmp_path / "link.json").read()
    book.write(book.read())
    assert path.stat().st_mode & 0o777 == 0o600
    if os.getuid() == 0:
        os.chown(path, 12345, -1)
        with pytest.raises(KinspectError, match="another user"):
            book.read()
    else:
        monkeypatch.setattr(os, "getuid", lambda: 12345)
        with pytest.raises(KinspectError, match="another user"):
            book.read()


def test_a_setting_that_is_a_link_is_not_written(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("theirs")
    (tmp_path / "setting").symlink_to(victim)
    host = Host(tmp_path, {}, lambda command: None, User(0, ()), "6.8", "here")
    with pytest.raises(OSError, match="symbolic links"):
        host.write("/setting", "1")
    with pytest.raises(FileNotFoundError):
        host.write("/none", "1")
    assert victim.read_text() == "theirs"
