"""Runs under a stand-in for rocprofv3, which really runs programs and writes real formats."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.model.recording import Recording
from kinspect.inspector.profile.running import manifest, outcome, pass_launch, profile_run
from kinspect.inspector.profile.running.manifest import Manifest, run_recording
from kinspect.inspector.profile.running.profile_run import ProfileRequest
from msgspec.structs import replace

STAND_IN = Path(__file__).parent / "fake_rocprofv3.py"
GEMM = "import fake_rocprofv3 as gpu\ngpu.launch('matmul_kernel', 5, vgpr=128)\n"
LDS = "SQ_LDS_BANK_CONFLICT"

Profiled = Callable[..., tuple[Manifest, Recording]]


@pytest.fixture
def profiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Profiled:
    """Profiles a program: its manifest, what was recorded; what was said goes to `said`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRITON_CACHE_DIR", raising=False)
    said: list[str] = []

    def run(text: str, *, env: dict[str, str] | None = None, **options: Any) -> Any:
        for name, value in (env or {}).items():
            monkeypatch.setenv(name, value)
        script = tmp_path / "program.py"
        script.write_text(text)
        command = (sys.executable, str(script))
        request = ProfileRequest(command, rocprof=STAND_IN, arch="gfx942", **options)
        folder = manifest.new_folder(None, command).absolute()
        plan = profile_run.lay_out(profile_run.prepare(request), folder)
        record = profile_run.execute(plan, said.append)
        assert manifest.read(folder) == record
        return record, run_recording(folder)

    run.said = said  # type: ignore[attr-defined]
    return run


def statuses(record: Manifest) -> list[tuple[str, str]]:
    return [(item.name, item.status) for item in record.passes]


def dispatches(recording: Recording) -> dict[str, int]:
    """By part."""
    found = Counter(recording.dispatches.part)
    return {part.name: found[number] for number, part in enumerate(recording.parts)}


# --------------------------------------------------------------------------- what goes well


def test_several_passes(profiled: Profiled, capfd: pytest.CaptureFixture[str]) -> None:
    script = GEMM + (
        "import os, sys\nprint('out', os.environ['TRITON_CACHE_DIR'])\n"
        "print('err', file=sys.stderr)\n"
    )
    record, recording = profiled(script, counters="lds,mfma,SQ_WAVES")
    names = ["trace", "counters-1", "counters-2", "counters-3"]
    assert statuses(record) == [(name, "complete") for name in names]
    assert record.exit_code == 0
    assert [(part.name, part.status, part.exit_code) for part in recording.parts] == [
        (name, "complete", 0) for name in names
    ]
    assert dispatches(recording) == dict.fromkeys(names, 5)
    assert recording.parts[1].counters == record.passes[1].counters
    asked = {name for item in record.passes for name in item.counters}
    assert set(recording.counters) == asked
    # The stand-in gives a pass's first counter 100, its second 200, and so on.
    for number, item in enumerate(record.passes):
        for place, name in enumerate(item.counters, 1):
            values = {
                value
                for row, counter, value in zip(
                    recording.values.dispatch,
                    recording.values.counter,
                    recording.values.value,
                    strict=True,
                )
                if recording.counters[counter] == name and recording.dispatches.part[row] == number
            }
            assert values == {100.0 * place}
    assert recording.errors == ()
    assert recording.tool == {"name": "rocprofv3", "version": "1.0.0"}
    assert recording.command == record.command
    assert record.arch == "gfx942"
    run = Path(recording.path)
    assert run.parent.name == "kinspect-runs"
    assert run.name.endswith("-program")
    out, err = capfd.readouterr()
    assert out == f"out {run / 'triton'}\n" * 4
    assert err.count("err\n") == 4
    assert profiled.said[1] == f"pass 2 of 4: {', '.join(record.passes[1].counters)}"  # type: ignore[attr-defined]
    files = {name for item in record.passes for name in item.files}
    assert all((run / name).is_file() for name in files)
    assert sum(name.endswith("counter_collection.csv") for name in files) == 3


def test_a_cache_of_the_users_own_is_left_alone(
    profiled: Profiled, capfd: pytest.CaptureFixture[str]
) -> None:
    show = GEMM + "import os\nprint(os.environ.get('TRITON_CACHE_DIR'))\n"
    profiled(show, keep_cache=True)
    assert capfd.readouterr().out == "None\n"
    profiled(show, env={"TRITON_CACHE_DIR": "/mine"})
    assert capfd.readouterr().out == "/mine\n"


def test_child_processes_are_collected(profiled: Profiled) -> None:
    child = "import fake_rocprofv3 as g; g.launch('child_kernel', 2)"
    script = GEMM + (
        "import subprocess, sys\n"
        f"for _ in range(2): subprocess.run([sys.executable, '-c', {child!r}], check=True)\n"
    )
    record, recording = profiled(script, counters="SQ_WAVES")
    assert statuses(record) == [("trace", "complete"), ("counters-1", "complete")]
    found = dispatches(recording)
    assert sorted(found.values()) == [2, 2, 2, 2, 5, 5]
    assert [name.partition("/")[0] for name in found] == ["trace"] * 3 + ["counters-1"] * 3
    processes = {(s.name, s.process) for s in recording.shapes}
    assert len({process for _, process in processes}) == 6
    assert sum(name == "child_kernel" for name, _ in processes) == 4
    assert recording.errors == ()


def test_thread_traces_and_samples(profiled: Profiled, tmp_path: Path) -> None:
    (tmp_path / "decoder").mkdir()
    (tmp_path / "decoder" / "librocprof-trace-decoder.so").touch()
    att = profile_run.Att(library=tmp_path / "decoder", target_cu=2)
    record, recording = profiled(GEMM, att=True, att_options=att, sampling=True, kernel="matmul")
    names = ["trace", "att", "pc-sampling"]
    assert statuses(record) == [(name, "complete") for name in names]
    assert {part.name.partition("/")[0] for part in recording.parts} == set(names)
    assert len(recording.traces) == 1
    assert recording.traces[0].kernel == "matmul_kernel"
    assert sum(sample.count for sample in recording.samples) > 0
    argv = record.passes[1].argv
    assert argv[argv.index("--att-target-cu") + 1] == "2"
    assert argv[argv.index("--kernel-iteration-range") + 1] == "[2]"


def test_a_file_on_standard_input_is_read_by_each_pass(
    profiled: Profiled, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "input").write_text("skipped\nread\n")
    saved = os.dup(0)
    opened = os.open(tmp_path / "input", os.O_RDONLY)
    try:
        os.dup2(opened, 0)
        os.lseek(0, len("skipped\n"), os.SEEK_SET)
        profiled(GEMM + "import sys\nprint(sys.stdin.read())\n", counters="SQ_WAVES")
    finally:
        os.dup2(saved, 0)
        os.close(saved)
        os.close(opened)
    assert capfd.readouterr().out == "read\n\n" * 2


def test_a_process_left_running_does_not_hold_the_run_up(
    profiled: Profiled, tmp_path: Path
) -> None:
    """It keeps the error output open, and is ended: waiting for its end would be waiting for it."""
    child = "import os, signal; open('pid', 'w').write(str(os.getpid())); signal.pause()"
    script = GEMM + (
        "import os, subprocess, sys\n"
        f"p = subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        "while not (os.path.exists('pid') and os.path.getsize('pid')): pass\n"
    )
    record, _ = profiled(script)
    assert statuses(record) == [("trace", "complete")]
    assert not _runs(int((tmp_path / "pid").read_text()))


# --------------------------------------------------------------------------- what goes wrong


def test_pass_2_fails_and_the_others_go_on(profiled: Profiled) -> None:
    trouble = {"FAKE_FAIL": LDS, "FAKE_ERROR": "ROCPROFILER_STATUS_ERROR_EXCEEDS_HW_LIMIT"}
    record, recording = profiled(GEMM, counters="lds", sampling=True, env=trouble)
    ends = [("trace", "complete"), ("counters-1", "failed"), ("pc-sampling", "complete")]
    assert statuses(record) == ends
    assert [(part.name, part.status) for part in recording.parts] == ends
    failed = record.passes[1]
    assert "cannot be counted together" in failed.errors[0][0]
    assert failed.exit_code is None  # of the program nothing is known
    assert record.exit_code == 125
    found = dispatches(recording)
    assert found["counters-1"] == 0
    assert found["trace"] == 5
    assert found["pc-sampling"] > 0
    assert [e.message.partition(":")[0] for e in recording.errors] == ["counters-1"]
    assert any("cannot be counted together" in line for line in profiled.said)  # type: ignore[attr-defined]


def test_the_programs_failure_ends_the_run_with_its_status(profiled: Profiled) -> None:
    record, recording = profiled(GEMM + "raise SystemExit(7)\n", counters="lds,mfma")
    assert [status for _, status in statuses(record)] == ["failed"] + ["skipped"] * 3
    assert record.exit_code == 7
    assert dispatches(recording) == {"trace": 5}  # what was recorded is there
    assert recording.parts[0].exit_code == 7
    assert "status 7" in recording.errors[0].message


def test_a_failure_of_a_later_pass_keeps_its_status_too(profiled: Profiled) -> None:
    script = GEMM + (
        "import json, os\n"
        "if 'SQ_WAVES' in json.loads(os.environ['FAKE_ROCPROF_PLAN'])['pmc']: raise SystemExit(7)\n"
    )
    record, _ = profiled(script, counters="SQ_WAVES", sampling=True)
    assert [status for _, status in statuses(record)] == ["complete", "failed", "complete"]
    assert record.exit_code == 7


def test_a_run_that_is_killed_keeps_what_was_written(profiled: Profiled) -> None:
    script = GEMM + "import os, signal\ngpu.flush()\nos.kill(os.getpid(), signal.SIGKILL)\n"
    record, recording = profiled(script, counters="SQ_WAVES")
    assert statuses(record) == [("trace", "killed"), ("counters-1", "skipped")]
    assert record.exit_code == 128 + signal.SIGKILL
    assert dispatches(recording) == {"trace": 5}
    assert recording.parts[0].status == "killed"


def test_a_time_limit_ends_everything_below_and_keeps_what_was_written(
    profiled: Profiled, tmp_path: Path
) -> None:
    child = "import os, signal; open('pid', 'w').write(str(os.getpid())); signal.pause()"
    script = GEMM + (
        "import signal, subprocess, sys\n"
        f"subprocess.Popen([sys.executable, '-c', {child!r}], start_new_session=True)\n"
        "signal.pause()\n"
    )
    record, recording = profiled(script, timeout=6.0)
    assert statuses(record) == [("trace", "timeout")]
    assert record.exit_code == 125
    assert dispatches(recording) == {"trace": 5}
    assert recording.parts[0].status == "timeout"
    assert "longer than 6 s" in recording.errors[0].message
    assert not _runs(int((tmp_path / "pid").read_text()))  # in a session of its own, and ended too


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] not in "ZX"
    except OSError:
        return False


def test_one_that_does_not_heed_is_killed(tmp_path: Path) -> None:
    script = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nsignal.pause()\n"
    environment = {"PATH": os.environ["PATH"]}
    ending = pass_launch.run([sys.executable, "-c", script], environment, timeout=1.0, grace=0.2)
    assert (ending.status, ending.interrupted) == ("timeout", False)
    assert ending.exit_code in (128 + signal.SIGKILL, 128 + signal.SIGTERM)


def test_no_permission(profiled: Profiled) -> None:
    script = "import sys\nsys.exit('Unable to open /dev/kfd read-write: Permission denied')\n"
    record, recording = profiled(script, counters="SQ_WAVES")
    assert statuses(record) == [("trace", "failed"), ("counters-1", "skipped")]
    assert record.exit_code == 1  # the program's own
    assert "no permission" in recording.errors[0].message
    assert "render and video" in recording.errors[0].hint
    assert len(recording.dispatches) == 0


def test_a_profiler_that_gives_up_is_no_failure_of_the_program(profiled: Profiled) -> None:
    record, recording = profiled(GEMM, counters="lds", env={"FAKE_FAIL": "--kernel-trace"})
    assert statuses(record) == [("trace", "failed"), ("counters-1", "skipped")]
    assert record.exit_code == 125
    assert "rocprofv3 gave up: something is wrong" in recording.errors[0].message


def test_counters_that_did_not_come_are_named(profiled: Profiled) -> None:
    record, recording = profiled(GEMM, counters="lds", env={"FAKE_LOSE": LDS})
    assert record.passes[1].missing == (LDS,)
    assert record.exit_code == 125
    assert f"nothing for {LDS}" in recording.errors[0].message
    assert dispatches(recording) == {"trace": 5, "counters-1": 5}


def test_an_empty_trace_says_so_and_why(profiled: Profiled) -> None:
    record, recording = profiled(GEMM, counters="lds", env={"FAKE_EMPTY": "1"})
    assert statuses(record) == [("trace", "complete"), ("counters-1", "skipped")]
    assert record.exit_code == 125
    (error,) = recording.errors
    assert "0 dispatches" in error.message
    assert "launched no GPU kernel" in error.message
    assert len(recording.dispatches) == 0


def test_a_pass_without_rows_says_so_and_the_others_go_on(profiled: Profiled) -> None:
    trouble = {"FAKE_NO_ROWS": "1"}
    record, recording = profiled(GEMM, counters="lds", sampling=True, kernel="x", env=trouble)
    assert [status for _, status in statuses(record)] == ["complete"] * 3
    assert record.exit_code == 125
    (error,) = recording.errors
    assert "counters-1: 0 dispatches" in error.message
    assert "no kernel matches --kernel" in error.message


def test_a_damaged_file_is_read_as_far_as_it_goes(profiled: Profiled) -> None:
    _, recording = profiled(GEMM, counters="SQ_WAVES", env={"FAKE_GARBLE": "1"})
    assert dispatches(recording)["trace"] == 5
    assert dispatches(recording)["counters-1"] >= 4
    assert any("counter_collection.csv" in error.file for error in recording.errors)


def test_a_run_that_kinspect_did_not_survive_is_read(profiled: Profiled) -> None:
    record, recording = profiled(GEMM, counters="SQ_WAVES")
    run = Path(recording.path)
    halted = replace(
        record.with_pass(replace(record.passes[1], status="running", exit_code=None)),
        ended=None,
        exit_code=None,
    )
    manifest.write(halted, run)
    again = run_recording(run)
    assert [part.status for part in again.parts] == ["complete", "killed"]
    assert len(again.dispatches) == 10
    assert any("before its end" in note for note in again.notes)


def test_a_damaged_manifest_says_what_to_do(tmp_path: Path) -> None:
    for text in ("", "{", "[]", '{"passes": [{"name": 1}]}', '{"passes": []}'):
        (tmp_path / manifest.NAME).write_text(text)
        with pytest.raises(KinspectError, match="damaged") as refused:
            run_recording(tmp_path)
        assert "profile import" in refused.value.hint
    with pytest.raises(KinspectError, match="No such file"):
        run_recording(tmp_path / "none")


def test_what_a_pass_returned_at_a_glance(tmp_path: Path) -> None:
    path = tmp_path / "host" / "12_counter_collection.csv"
    path.parent.mkdir()
    path.write_text('"Kernel_Name","Counter_Name"\n"f(int, float)","A"\n"g","B"\n')
    assert outcome.missing_counters(tmp_path, ("A", "B[0]", "C", "D:device=0")) == (
        "C",
        "D:device=0",
    )
    assert outcome.missing_counters(tmp_path, ()) == ()
    path.write_text('"Kernel_Name","Counter_Name"\n')
    assert outcome.missing_counters(tmp_path, ("A",)) == ()  # no rows at all is another failure
    assert not outcome.has_dispatches(tmp_path)
