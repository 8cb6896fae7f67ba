"""`kinspect profile` as a command: refusals, dry runs, Ctrl-C, the report and the exit status."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.cli.group import run as kinspect
from kinspect.inspector.profile.running import manifest
from kinspect.inspector.profile.running.manifest import run_recording

STAND_IN = Path(__file__).parent / "fake_rocprofv3.py"
GEMM = "import fake_rocprofv3 as gpu\ngpu.launch('matmul_kernel', 5, vgpr=128)\n"


def test_the_folder_of_a_run_is_never_overwritten(tmp_path: Path) -> None:
    folders = {manifest.new_folder(None, ["python", "-u", "a b.py"], tmp_path) for _ in range(3)}
    assert len(folders) == 3
    assert all("a_b" in folder.name for folder in folders)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    with pytest.raises(KinspectError, match="is not empty"):
        manifest.new_folder(tmp_path / "full", ["x"])
    assert manifest.new_folder(tmp_path / "new" / "deep", ["x"]).is_dir()


@pytest.mark.parametrize(
    ("args", "status", "said"),
    [
        (["--counters", "SQ_WAVESS", "--arch", "gfx942", "--", "true"], 2, "did you mean SQ_WAVES"),
        (["--counters", "lds", "true"], 2, "name it by --arch"),
        (["--arch", "gfx943", "true"], 2, "did you mean gfx942"),
        (["imprt", "run"], 127, "did you mean `kinspect profile import`"),
        (["--", "no-such-program"], 127, "command not found"),
        (["--", "./here.py"], 126, "did you mean `kinspect profile -- python ./here.py`"),
        (["--att", "--", "true"], 125, "librocprof-trace-decoder"),
        (["--att-target-cu", "1", "--", "true"], 2, "--att-target-cu needs --att"),
        (["--pc-interval", "1", "--", "true"], 2, "--pc-interval needs --pc-sampling"),
        (["--pc-sampling", "--arch", "gfx1100", "true"], 2, "gfx1100 has no PC sampling"),
        (["--att", "--att-simd-select", "x", "true"], 2, "no number"),
        (["--kernel", "(", "true"], 2, "no regular expression"),
        (["--out", "full", "true"], 2, "is not empty"),
        (["--skip-warmup", "python", "x.py"], 2, "skip-warmup"),
        ([], 2, "COMMAND"),
    ],
)
def test_what_is_refused_before_anything_runs(
    args: list[str],
    status: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    monkeypatch.delenv("ROCPROF_ATT_LIBRARY_PATH", raising=False)
    (tmp_path / "here.py").touch()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    profiler = tmp_path / "rocm" / "bin" / "rocprofv3"
    profiler.parent.mkdir(parents=True)
    profiler.write_text(f'#!/bin/sh\nexec {STAND_IN} "$@"\n')
    profiler.chmod(0o755)
    assert kinspect(["profile", "--rocprof", str(profiler), *args]) == status
    out, err = capfd.readouterr()
    assert out == ""
    assert said in " ".join(err.split())
    assert not (tmp_path / "kinspect-runs").exists()


def test_a_dry_run_prints_the_lines_and_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRITON_CACHE_DIR", raising=False)  # it would be printed
    args = ["--dry-run", "--counters", "lds", "--att", "--kernel", "a b"]
    command = ["touch", "x"]
    # The two dashes may be left out.
    assert (
        kinspect(["profile", *args, "--arch", "gfx942", "--rocprof", str(STAND_IN), *command]) == 0
    )
    out, err = capfd.readouterr()
    lines = out.splitlines()
    assert len(lines) == 3
    assert f"TRITON_CACHE_DIR={tmp_path}/kinspect-runs/" in lines[0]
    assert "--pmc SQ_LDS_BANK_CONFLICT" in lines[1]
    assert "'--kernel-include-regex=a b'" in lines[1]
    assert all(line.endswith(" -- touch x") for line in lines)
    assert "librocprof-trace-decoder" in err
    assert list(tmp_path.iterdir()) == []


ROCPROF = """#!/bin/sh
# rocprof v1 in small: its options, the program, and the table that it leaves.
while :; do
  case "$1" in
    -i) names=$(sed -n 's/^pmc: //p' "$2" | tr ' ' ','); shift 2 ;;
    -o) out="$2"; shift 2 ;;
    --timestamp) shift 2 ;;
    -*) echo "Wrong option '$1'" >&2; exit 1 ;;
    *) break ;;
  esac
done
"$@"
status=$?
values=$(echo "$names" | sed 's/[A-Za-z0-9_][A-Za-z0-9_]*/7/g')
about=Index,KernelName,gpu-id,queue-id,pid,tid,grd,wgr,lds,scr,arch_vgpr,accum_vgpr,sgpr,wave_size
{
  echo "$about${names:+,$names},BeginNs,EndNs,DurationNs"
  for n in 0 1 2; do
    echo "$n,\\"gemm.kd\\",0,0,1,1,4096,256,1024,0,32,0,16,64${values:+,$values},1000,1900,900"
  done
} > "$out"
exit $status
"""


def test_where_only_rocprof_exists_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "rocm" / "bin"
    folder.mkdir(parents=True)
    (folder / "rocprof").write_text(ROCPROF)
    (folder / "rocprof").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    args = [
        "--arch",
        "gfx90a",
        "--counters",
        "SQ_WAVES",
        "--out",
        "run",
        "--",
        "sh",
        "-c",
        "exit 0",
    ]
    assert kinspect(["profile", *args]) == 0
    out, err = capfd.readouterr()
    assert "gemm" in out
    assert "no rocprofv3 found; using rocprof" in err
    recording = run_recording(tmp_path / "run")
    assert [(part.name, part.format) for part in recording.parts] == [
        ("trace", "rocprof CSV"),
        ("counters-1", "rocprof CSV"),
    ]
    assert len(recording.dispatches) == 6
    assert set(recording.values.value) == {7.0}
    assert set(recording.counters) == {"SQ_WAVES", "GRBM_GUI_ACTIVE"}


def test_ctrl_c_reaches_the_program_once_and_leaves_a_readable_run(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(GEMM + "import signal\nprint('ready', flush=True)\nsignal.pause()\n")
    argv = [sys.executable, "-m", "kinspect.inspector.cli", "profile", "--rocprof", str(STAND_IN)]
    argv += ["--arch", "gfx942", "--counters", "lds", "--out", "run", "--"]
    process = subprocess.Popen(
        [*argv, sys.executable, str(script)],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT
    assert "interrupted" in err
    record = manifest.read(tmp_path / "run")
    ends = [(item.name, item.status) for item in record.passes]
    assert ends == [("trace", "killed"), ("counters-1", "skipped")]
    assert record.ended is not None
    recording = run_recording(tmp_path / "run")
    assert len(recording.dispatches) == 5
    assert [(part.name, part.status) for part in recording.parts] == [("trace", "killed")]
    assert json.loads((tmp_path / "run" / manifest.NAME).read_text())["version"] == 1


def test_at_a_terminal_the_program_has_the_terminal(tmp_path: Path) -> None:
    """It reads from it, knows that it writes to one, and Ctrl-C comes from it."""
    script = tmp_path / "program.py"
    script.write_text(
        GEMM + "import os, signal\nprint([os.isatty(n) for n in range(3)])\n"
        "print('hello', input('name? '), flush=True)\nsignal.pause()\n"
    )
    argv = [sys.executable, "-m", "kinspect.inspector.cli", "profile", "--rocprof", str(STAND_IN)]
    argv += ["--counters", "lds", "--arch", "gfx942", "--out", "run", sys.executable, str(script)]
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        argv,
        cwd=tmp_path,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(theirs)
    seen = b""

    def read(until: bytes) -> None:
        nonlocal seen
        while until not in seen:
            try:
                seen += os.read(ours, 4096)
            except OSError:  # nobody has the other end any more
                return

    read(b"name? ")
    os.write(ours, b"you\n")
    read(b"hello you")
    os.write(ours, b"\x03")
    read(b"never")
    os.close(ours)
    assert process.wait() == 128 + signal.SIGINT
    assert b"[True, True, True]" in seen
    assert b"\r\r\n" not in seen  # line ends are made once
    record = manifest.read(tmp_path / "run")
    assert [item.status for item in record.passes] == ["killed", "skipped"]
    assert len(run_recording(tmp_path / "run").dispatches) == 5


def test_the_report_follows_the_programs_output_and_the_status_is_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.py").write_text(GEMM + "print('mine')\nraise SystemExit(7)\n")
    args = ["profile", "--rocprof", str(STAND_IN), sys.executable, "program.py"]
    assert kinspect(args) == 7
    out, _ = capfd.readouterr()
    assert out.startswith("mine\n")
    assert "matmul_kernel" in out
    (run,) = (tmp_path / "kinspect-runs").iterdir()
    assert kinspect(["profile", "import", str(run), "--format", "json"]) == 2  # it failed
    found = json.loads(capfd.readouterr().out)
    assert found["kernels"][0]["name"] == "matmul_kernel"
    assert found["kernels"][0]["dispatches"] == 5
