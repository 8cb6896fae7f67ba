"""`kinspect record`: what it writes, that it leaves programs alone, and the replay of its traces.

The programs are real processes with the real `JITFunction.run` and real compiles; what is missing
is the GPU: `GPU` below stands in for the driver and loads no binary.
"""

from __future__ import annotations

import collections
import enum
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.capture.options import CapturePlan
from kinspect.inspector.capture.records import CaptureEnd
from kinspect.inspector.capture.script import capture_file
from kinspect.inspector.capture.trace import (
    LaunchTrace,
    TracedSpecialization,
    read_trace,
    write_trace,
)
from kinspect.inspector.compile.worker import Worker
from kinspect.inspector.guest.record.values import UnknownValueError, decode, encode
from kinspect.inspector.model import ErrorRecord, Variant
from torch_beforehand import worker_with_torch

triton = pytest.importorskip("triton")

KINSPECT = (sys.executable, "-m", "kinspect.inspector.cli")

GPU = """
import os
import triton
import triton.compiler.compiler as compiler
from triton.backends.compiler import GPUTarget

class Driver:
    target = GPUTarget("hip", "gfx942", 64) if os.environ.get("AMD") else GPUTarget("cuda", 90, 32)
    @classmethod
    def is_active(cls): return True
    def get_current_target(self): return self.target
    def get_current_device(self): return 0
    def set_current_device(self, device): pass
    def get_current_stream(self, device=None): return 0
    def get_benchmarker(self): return bench

def bench(call, quantiles=None, **options):
    for _ in range(3): call()
    return [1.0, 1.0, 1.0]

def no_handles(kernel):
    kernel.function, kernel._run = 0, lambda *args: None
    if not hasattr(type(kernel), "run"):  # Triton 3.4
        kernel.run = kernel._run

triton.runtime.driver.set_active(Driver())
compiler.CompiledKernel._init_handles = no_handles

class Tensor:
    def __init__(self, dtype="fp32", at=4096, size=4000):
        self.dtype, self.at, self.size = dtype, at, size
    def data_ptr(self): return self.at
    def ptr_range(self): return self.size
"""

COPY = """
import os, sys
from gpu import Tensor
import triton, triton.language as tl

@triton.jit
def copy(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)
"""
LAUNCH = "copy[(4,)](Tensor(), Tensor(), 100, BLOCK=128)\n"

RICH = """
import os, sys
from gpu import Tensor
import triton, triton.language as tl
from helpers import twice

@triton.autotune(
    configs=[triton.Config({"BLOCK": 64}, num_warps=2), triton.Config({"BLOCK": 128}, num_warps=8)],
    key=["n"],
)
@triton.jit
def apply(x_ptr, y_ptr, n, pair, BLOCK: tl.constexpr, OP: tl.constexpr, TYPES: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = OP(tl.load(x_ptr + at, mask=at < n)).to(TYPES[1]) + pair[1]
    tl.store(y_ptr + at, value, mask=at < n)

@triton.jit
def fill(x_ptr, n, BLOCK: tl.constexpr, num_stages: tl.constexpr):
    tl.store(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), n)

if __name__ == "__main__":
    x, y = Tensor(), Tensor("fp16", at=4100)
    pair = (Tensor("i32", size=1 << 31), 2.5)
    for _ in range(4):
        apply[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](
            x, y, 1000, pair, OP=twice, TYPES=(tl.int8, tl.float16))  # the call
    for n in (1, 16, 17, 18):
        kernel = fill[(n, 2)](x, n, BLOCK=32, num_stages=4, num_warps=4)
    if os.environ.get("AMD"):
        open(os.environ["AMD"], "w").write(kernel.asm["ttir"])
"""
HELPERS = """
import triton
@triton.jit
def twice(x):
    return x * 2
"""


class Machine:
    """A folder with programs, and `kinspect record` to run them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.trace = folder / "trace.kitrace"
        self.write("gpu.py", GPU)
        self.write("helpers.py", HELPERS)

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    def environment(self, **more: str) -> dict[str, str]:
        cache = str(self.folder / "cache")
        return {**os.environ, "TRITON_CACHE_DIR": cache, "PYTHONWARNINGS": "ignore", **more}

    def start(self, *command: str, **more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*KINSPECT, "record", "-o", str(self.trace), "--", *command],
            cwd=self.folder,
            env=self.environment(**more),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def record(self, *command: str, **more: str) -> tuple[int, str, str]:
        with self.start(*command, **more) as process:
            out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def run(self, text: str, *args: str, **more: str) -> tuple[int, str, str]:
        self.write("program.py", text)
        return self.record(sys.executable, "program.py", *args, **more)

    def traced(self, text: str, **more: str) -> LaunchTrace:
        status, _, err = self.run(text, **more)
        assert status == 0, err
        return read_trace(self.trace)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> tuple[Machine, LaunchTrace]:
    """A trace of everything a specialisation can hold, recorded on an NVIDIA machine."""
    one = Machine(tmp_path_factory.mktemp("rich"))
    return one, one.traced(RICH)


# ------------------------------------------------------------------------------ what is recorded


def test_every_specialisation_with_what_it_is_specialised_on(
    rich: tuple[Machine, LaunchTrace],
) -> None:
    machine, trace = rich
    assert not trace.notes
    assert not trace.problems
    assert {s.triton for s in trace.specializations} == {triton.__version__}
    assert {s.target.backend for s in trace.specializations} == {"cuda"}
    apply = [s for s in trace.specializations if s.kernel.qualname == "apply"]
    assert [s.options["num_warps"] for s in apply] == [2, 8]
    first = apply[0]
    assert first.signature["x_ptr"] == "*fp32"
    assert first.signature["pair"] == {"tuple": ["*i32", "fp32"]}
    constexprs = {path[0]: value for path, value in first.constexprs}
    assert constexprs[4] == 64
    assert constexprs[5]["object"]["qualname"] == "twice"
    assert constexprs[6] == {"tuple": [{"dtype": "int8"}, {"dtype": "fp16"}]}
    aligned = [path for path, pairs in first.attrs if ("tt.divisibility", 16) in pairs]
    assert aligned == [[0], [3, 0]]  # 4100 is no multiple of 16, nor is 1000
    assert first.small == [[[0], [1]]]  # the storage in `pair` has 2 GiB
    assert first.tuning is not None
    assert first.tuning.config["BLOCK"] == 64
    assert first.call_site is not None
    line = RICH.splitlines().index(
        '        apply[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)]('
    )
    assert first.call_site.line in (line + 1, line + 2)
    assert Path(first.call_site.file) == machine.folder / "program.py"


def test_a_parameter_named_like_an_option_is_both(rich: tuple[Machine, LaunchTrace]) -> None:
    fill = [s for s in rich[1].specializations if s.kernel.qualname == "fill"]
    assert all(s.asked is not None and s.asked["num_stages"] == 4 for s in fill)
    assert all(s.options["num_stages"] == 4 for s in fill)


def test_launches_grids_and_those_of_the_autotuner(rich: tuple[Machine, LaunchTrace]) -> None:
    found = rich[1].specializations
    apply = [s for s in found if s.kernel.qualname == "apply"]
    # Three runs of each configuration to time it, then four of the winner, which is the first.
    assert [(s.launches, s.tuning_launches) for s in apply] == [(7, 3), (3, 3)]
    assert [s.grids for s in apply] == [[([16, 1, 1], 7)], [([8, 1, 1], 3)]]
    fill = [s for s in found if s.kernel.qualname == "fill"]
    assert [s.grids for s in fill] == [
        [([1, 2, 1], 1)],
        [([16, 2, 1], 1)],
        [([17, 2, 1], 1), ([18, 2, 1], 1)],
    ]
    assert not any(s.at_least for s in found)


def test_a_warm_triton_cache_hides_nothing(machine: Machine) -> None:
    first = machine.traced(COPY + LAUNCH)
    assert any((machine.folder / "cache").rglob("*.json"))
    second = machine.traced(COPY + LAUNCH)
    assert [s.id for s in first.specializations] == [s.id for s in second.specializations]
    assert second.specializations[0].compiled


def test_what_others_than_launches_compile_is_recorded_too(machine: Machine) -> None:
    """Inductor compiles so."""
    body = """
    from triton.compiler import ASTSource
    source = ASTSource(copy, {"x_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32"}, {"BLOCK": 128})
    triton.compile(source, target=triton.runtime.driver.active.target, options={"num_warps": 2})
    """
    (one,) = machine.traced(COPY + textwrap.dedent(body)).specializations
    assert (one.via, one.launches, one.compiled) == ("compile", None, True)
    assert one.constexprs == [([3], 128)]
    assert one.asked == {"num_warps": 2}


def test_children_that_are_given_sys_path_are_recorded_too(machine: Machine) -> None:
    """Inductor compiles in such, and kills them in the end."""
    body = """
    import subprocess
    if len(sys.argv) == 1:
        path = os.pathsep.join(sys.path)
        subprocess.run([sys.executable, __file__, "x"], env={**os.environ, "PYTHONPATH": path})
    else:
        from triton.compiler import ASTSource
        source = ASTSource(copy, {"x_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32"}, {"BLOCK": 128})
        triton.compile(source, target=triton.runtime.driver.active.target)
        os._exit(0)
    """
    status, _, err = machine.run(COPY + textwrap.dedent(body))
    assert status == 0, err
    assert "ended without warning" not in err
    trace = read_trace(machine.trace)
    (one,) = trace.specializations
    assert (one.via, one.launches, one.at_least) == ("compile", None, False)
    assert not any("startup" in path for p in trace.processes for path in p.sys_path)


def test_processes_are_merged(machine: Machine) -> None:
    body = """
    import subprocess
    for _ in range(5): copy[(4,)](Tensor(), Tensor(), 100, BLOCK=128)
    if len(sys.argv) == 1:
        if os.fork() == 0:
            copy[(7,)](Tensor(), Tensor(), 100, BLOCK=128)
            os._exit(0)
        os.wait()
        subprocess.run([sys.executable, __file__, "again"], check=True)
    """
    trace = machine.traced(COPY + textwrap.dedent(body))
    (one,) = trace.specializations
    assert one.launches == 11
    assert sorted(one.grids) == [([4, 1, 1], 10), ([7, 1, 1], 1)]
    assert len({p.pid for p in trace.processes}) == 3
    assert one.at_least  # the forked child ended by os._exit


# ------------------------------------------------------------------- the program is left alone


@pytest.mark.parametrize(
    ("ending", "status"),
    [("sys.exit(3)", 3), ("os._exit(4)", 4), ("os.kill(os.getpid(), 9)", 137)],
)
def test_a_failing_command_keeps_its_status_and_its_trace(
    machine: Machine, ending: str, status: int
) -> None:
    body = f"for _ in range(100): {LAUNCH}print('out')\nsys.stdout.flush()\n{ending}\n"
    found, out, err = machine.run(COPY + body)
    assert found == status
    assert out == "out\n"
    assert f"ended with status {status}" in err
    trace = read_trace(machine.trace)
    (one,) = trace.specializations
    assert trace.head.status == status
    whole = status == 3
    assert one.at_least is not whole
    assert one.launches == 100 if whole else 88 <= one.launches <= 100


def test_a_place_that_cannot_be_written_is_said_before_the_run(machine: Machine) -> None:
    machine.trace = machine.folder / "missing" / "t.kitrace"
    status, out, err = machine.run("print('ran')")
    assert (status, out) == (2, "")
    assert "t.kitrace: cannot be written" in err


def test_a_trace_whose_place_went_is_written_elsewhere(machine: Machine) -> None:
    machine.trace = machine.folder / "results" / "t.kitrace"
    machine.trace.parent.mkdir()
    status, _, err = machine.run(COPY + LAUNCH + "import shutil; shutil.rmtree('results')\n")
    assert status == 2
    place = re.search(r"the trace is in (\S+\.kitrace)", err)
    assert place is not None, err
    assert len(read_trace(Path(place[1])).specializations) == 1
    Path(place[1]).unlink()


def test_ctrl_c_keeps_what_was_recorded(machine: Machine) -> None:
    machine.write(
        "program.py", COPY + LAUNCH + "print('go', flush=True)\nimport time; time.sleep(60)"
    )
    process = machine.start(sys.executable, "program.py")
    assert process.stdout is not None
    assert process.stdout.readline() == "go\n"
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert read_trace(machine.trace).launches == 1


def test_the_users_own_sitecustomize_and_hooks_go_on_working(machine: Machine) -> None:
    machine.write("mine/sitecustomize.py", "import builtins\nbuiltins.mine = 'mine'\n")
    body = """
    from triton import knobs
    seen = []
    knobs.runtime.jit_cache_hook = lambda **facts: seen.append("cache") and False
    knobs.runtime.jit_post_compile_hook = lambda **facts: seen.append("compiled")
    copy[(4,)](Tensor(), Tensor(), 100, BLOCK=128)
    print(mine, *seen, sys.modules["sitecustomize"].__file__.endswith("mine/sitecustomize.py"))
    """
    mine = str(machine.folder / "mine")
    status, out, err = machine.run(COPY + textwrap.dedent(body), PYTHONPATH=mine)
    assert status == 0, err
    assert out == "mine cache compiled True\n"
    assert read_trace(machine.trace).launches == 1


def test_a_hook_that_skips_the_compile_still_does(machine: Machine) -> None:
    body = """
    from triton import knobs
    knobs.runtime.jit_cache_hook = lambda **facts: True
    print(copy[(4,)](Tensor(), Tensor(), 100, BLOCK=128))
    """
    status, out, _ = machine.run(COPY + textwrap.dedent(body))
    assert (status, out) == (0, "None\n")
    (one,) = read_trace(machine.trace).specializations
    assert (one.compiled, one.launches) == (False, 0)


def test_a_process_without_triton_loads_nothing(machine: Machine) -> None:
    code = "import sys; print([m for m in sys.modules if 'kins' in m or 'json' in m], sys.path[-1])"
    bare = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    status, out, err = machine.record(sys.executable, "-c", code)
    assert out == bare.stdout
    assert status == 2
    assert "nothing was recorded" in err


def test_a_recorder_that_cannot_write_says_so_and_the_program_runs_on(machine: Machine) -> None:
    body = "import shutil; shutil.rmtree(os.environ['KINSPECT_RECORD_FOLDER'])\n" + LAUNCH
    status, out, err = machine.run(COPY + body + "print('end')\n")
    assert out == "end\n"
    assert "recording failed: FileNotFoundError" in err
    assert status == 2  # nothing was recorded


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["no-such-program"], "no-such-program: cannot be run"),
        (["program.py", "-x"], "did you mean `kinspect record -- python program.py -x`?"),
    ],
)
def test_commands_that_cannot_be_run(machine: Machine, command: list[str], said: str) -> None:
    machine.write("program.py", "")
    status, _, err = machine.record(*command)
    assert status == 2
    assert said in err


# ------------------------------------------------------------------------------ reading traces


def lines_of(trace: Path) -> list[bytes]:
    return trace.read_bytes().splitlines(keepends=True)


def first_specialization(lines: list[bytes]) -> int:
    return next(n for n, line in enumerate(lines) if line.startswith(b'{"specialization"'))


def test_a_trace_is_read_as_it_was_written(
    rich: tuple[Machine, LaunchTrace], tmp_path: Path
) -> None:
    copy = tmp_path / "copy.kitrace"
    write_trace(rich[1], copy)
    assert copy.read_bytes() == rich[0].trace.read_bytes()
    one = msgspec.structs.replace(rich[1].specializations[0], constexprs=[([4], 1 << 80)])
    changed = msgspec.structs.replace(rich[1], specializations=(one,))
    write_trace(changed, copy)
    assert read_trace(copy) == changed


def test_a_cut_off_trace_is_read_up_to_there(
    rich: tuple[Machine, LaunchTrace], tmp_path: Path
) -> None:
    lines = lines_of(rich[0].trace)
    end = first_specialization(lines) + 1
    path = tmp_path / "cut.kitrace"
    path.write_bytes(b"".join(lines[:end]) + lines[end][:50])
    trace = read_trace(path)
    assert len(trace.specializations) == 1
    assert trace.specializations[0].kernel.source in {s.id for s in trace.sources}
    assert "cut off" in trace.notes[0]
    path.write_bytes(b"".join(lines[:end]))
    assert "something is missing" in read_trace(path).notes[0]


def changed(line: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    record = json.loads(line)
    change(record)
    return json.dumps(record).encode() + b"\n"


@pytest.mark.parametrize(
    ("number", "change", "said"),
    [
        (3, lambda r: r["specialization"].update(extra=1), ":4: damaged trace: Object contains"),
        (3, lambda r: r["specialization"].pop("signature"), "missing required field `signature`"),
        (3, lambda r: r.update(other=r.pop("specialization")), "unknown record 'other'"),
        (2, lambda r: r["source"].pop("functions"), "missing required field `functions`"),
        (0, lambda r: r["trace"].update(schema_version=7), "a trace of version 7"),
        (0, lambda r: r.update(other=r.pop("trace")), "not a trace"),
    ],
)
def test_what_is_no_trace_is_refused(
    rich: tuple[Machine, LaunchTrace],
    tmp_path: Path,
    number: int,
    change: Callable[[dict[str, Any]], None],
    said: str,
) -> None:
    lines = lines_of(rich[0].trace)
    lines[number] = changed(lines[number], change)
    path = tmp_path / "bad.kitrace"
    path.write_bytes(b"".join(lines))
    with pytest.raises(KinspectError, match=said.replace("?", r"\?")):
        read_trace(path)


def test_damage_inside_names_the_line(rich: tuple[Machine, LaunchTrace], tmp_path: Path) -> None:
    lines = lines_of(rich[0].trace)
    path = tmp_path / "bad.kitrace"
    path.write_bytes(lines[0] + lines[1][:40] + b"\n" + b"".join(lines[2:]))
    with pytest.raises(KinspectError, match=r"bad\.kitrace:2: damaged trace: not a JSON object"):
        read_trace(path)


# -------------------------------------------------------------------------------------- values


class Colour(enum.Enum):
    RED = 1


Pair = collections.namedtuple("Pair", "left right")

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    PLAIN | st.sampled_from([Colour.RED, float("inf"), triton.language.bfloat16]),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text(), inner)
        | st.builds(Pair, inner, inner)
    ),
    max_leaves=8,
)


def resolve(path: Mapping[str, Any]) -> Any:
    return globals()[path["qualname"]]


@given(VALUES)
def test_values_are_made_again(value: Any) -> None:
    again = decode(json.loads(json.dumps(encode(value), allow_nan=False)), resolve)
    assert again == value
    assert type(again) is type(value)


def test_values_that_cannot_be_made_again_say_so() -> None:
    with pytest.raises(UnknownValueError, match="object"):
        decode(json.loads(json.dumps(encode((1, object())))), resolve)


# -------------------------------------------------------------------------------------- replay


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with worker_with_torch(tmp_path_factory.mktemp("site")) as one:
        yield one


def replay(
    worker: Worker, trace: Path, scratch: Path, *archs: str, wanted: tuple[str, ...] = ()
) -> tuple[list[Variant], list[ErrorRecord]]:
    scratch.mkdir(parents=True, exist_ok=True)
    devices = {arch: {"arch": arch} for arch in archs}
    plan = CapturePlan(trace, "trace", archs, devices, scratch, wanted)
    (ended,) = [item for item in capture_file(worker, plan) if isinstance(item, CaptureEnd)]
    return list(ended.variants), list(ended.errors)


def test_replay_compiles_what_an_amd_machine_would_have_compiled(
    rich: tuple[Machine, LaunchTrace], worker: Worker, tmp_path: Path
) -> None:
    machine, trace = rich
    variants, errors = replay(worker, machine.trace, tmp_path / "w", "gfx942", "gfx1100")
    assert not errors
    assert [(v.arch, v.wave_size) for v in variants] == [("gfx942", 64)] * 5 + [("gfx1100", 32)] * 5
    apply, *_, fill = variants[:5]
    assert apply.signature["pair"] == "(*i32, fp32)"
    assert apply.constexprs["OP"] == "twice"
    assert apply.attrs["x_ptr"] == {"tt.divisibility": 16, "tt.pointer_range": 32}
    assert apply.attrs["y_ptr"] == {"tt.pointer_range": 32}
    assert apply.attrs["pair[0]"] == {"tt.divisibility": 16}
    assert (apply.grid, apply.launches) == ((16, 1, 1), 7)
    assert apply.tuning is not None
    assert apply.tuning["BLOCK"] == 64
    assert apply.call_site is not None
    assert (fill.options["num_warps"], fill.options["num_stages"]) == (4, 4)
    assert fill.launches == 2
    # The same program on an AMD machine: its own compile of the last launch.
    real = tmp_path / "real.ttir"
    there = Machine(tmp_path / "amd")
    on_amd = there.traced(RICH, AMD=str(real))
    assert without_places(fill.ttir) == without_places(real.read_text())
    assert [attributes(s) for s in on_amd.specializations] == [v.attrs for v in variants[:5]]
    assert len(on_amd.specializations) == len(trace.specializations)


def attributes(one: TracedSpecialization) -> dict[str, dict[str, Any]]:
    names = list(one.signature)
    found = {}
    for (argument, *element), pairs in one.attrs:
        assert isinstance(argument, int)
        found["".join([names[argument], *(f"[{n}]" for n in element)])] = dict(pairs)
    return found


def without_places(ttir: str) -> list[str]:
    lines = [line.partition(" loc(")[0].rstrip() for line in ttir.splitlines()]
    return [line for line in lines if line and not line.startswith("#loc")]


CHANGING = """
from helpers import twice
SCALE = tl.constexpr(3)
@triton.jit
def double(x_ptr):
    tl.store(x_ptr, twice(tl.load(x_ptr)) * SCALE)
def make():
    @triton.jit
    def inner(x_ptr):
        tl.store(x_ptr, 1)
    return inner
if __name__ == "__main__":
    copy[(4,)](Tensor(), Tensor(), 100, BLOCK=128)
    double[(1,)](Tensor())
    make()[(1,)](Tensor())
"""


def test_what_was_recorded_is_compiled_whatever_became_of_the_files(
    machine: Machine, worker: Worker
) -> None:
    machine.traced(COPY + CHANGING)
    before, errors = replay(worker, machine.trace, machine.folder / "w1", "gfx942")
    assert not errors
    assert [v.kernel for v in before] == ["copy", "double", "inner"]
    assert not any(v.notes for v in before[:2])
    machine.write("helpers.py", HELPERS.replace("x * 2", "x + x"))
    after, errors = replay(worker, machine.trace, machine.folder / "w2", "gfx942")
    assert not errors
    assert [v.ttir for v in after] == [v.ttir for v in before]
    assert [f"{machine.folder}/helpers.py has changed since" in n for n in after[1].notes] == [True]
    for name in ("program.py", "helpers.py"):
        (machine.folder / name).unlink()
    gone, errors = replay(worker, machine.trace, machine.folder / "w3", "gfx942")
    assert not errors
    assert [v.ttir for v in gone] == [v.ttir for v in before]


def as_version_1(trace: Path) -> None:
    """Takes from a trace what version 1 had not."""
    lines = []
    for line in lines_of(trace):
        record = json.loads(line)
        for part in ("trace", "process"):
            if part in record:
                record[part]["schema_version"] = 1
        if "specialization" in record:
            del record["specialization"]["kernel"]["source"]
        if "source" not in record:
            lines.append(json.dumps(record).encode() + b"\n")
    trace.write_bytes(b"".join(lines))


def test_version_1_is_compiled_from_its_files_while_they_have_the_recorded_hash(
    machine: Machine, worker: Worker
) -> None:
    machine.traced(COPY + CHANGING)
    new, _ = replay(worker, machine.trace, machine.folder / "w0", "gfx942")
    as_version_1(machine.trace)
    old, errors = replay(worker, machine.trace, machine.folder / "w1", "gfx942")
    assert not errors
    assert [v.ttir for v in old] == [v.ttir for v in new]
    machine.write("helpers.py", HELPERS.replace("x * 2", "x + x"))
    found, errors = replay(worker, machine.trace, machine.folder / "w2", "gfx942", wanted=("*",))
    assert [v.kernel for v in found] == ["copy", "inner"]
    line = (COPY + CHANGING).splitlines().index("def double(x_ptr):") + 1
    (changed,) = errors
    assert f"program.py:{line}: kernel double, or one it calls, has cha" in changed.message
    (machine.folder / "program.py").unlink()
    none, errors = replay(worker, machine.trace, machine.folder / "w3", "gfx942")
    assert not none
    assert "program.py is not there" in errors[0].message


def test_a_script_without_a_main_guard_is_not_run_again(machine: Machine, worker: Worker) -> None:
    body = """
    copy[(4,)](Tensor(), Tensor(size=1 << 31), 100, BLOCK=128, maxnreg=64, num_warps=8)
    if os.path.exists(__file__ + ".ran"):
        raise RuntimeError("ran twice")
    open(__file__ + ".ran", "w").close()
    """
    machine.traced(COPY + textwrap.dedent(body))
    (one,), errors = replay(worker, machine.trace, machine.folder / "w", "gfx1100")
    assert not errors
    assert one.kernel == "copy"
    # What the vendors have of their own: NVIDIA options are named, AMD's attribute is added.
    assert one.options["num_warps"] == 8
    assert any("maxnreg" in note for note in one.notes)
    assert "tt.pointer_range" in one.attrs["x_ptr"]
    assert "tt.pointer_range" not in one.attrs["y_ptr"]


def test_a_launch_costs_little(machine: Machine) -> None:
    body = """
    import time
    x, y, best = Tensor(), Tensor(), []
    for _ in range(10):
        start = time.process_time()
        for _ in range(500): copy[(4,)](x, y, 100, BLOCK=128)
        best.append(time.process_time() - start)
    print(min(best) / 500 * 1e6)
    """
    text = COPY + textwrap.dedent(body)
    _, out, _ = machine.run(text)
    bare = subprocess.run(
        [sys.executable, "program.py"],
        cwd=machine.folder,
        env=machine.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    # About 2 µs here; a Triton launch with its GPU work takes ten.
    assert float(out) - float(bare.stdout) < 25
