"""The guest: capturing a file's cases in another interpreter, whatever the file does."""

from __future__ import annotations

import ast
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.capture.script import capture_script
from kinspect.inspector.compile.toolchain import ask
from kinspect.inspector.compile.worker import BOOTSTRAP, Worker
from kinspect.inspector.model import ErrorRecord, Variant
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request
from torch_beforehand import worker_with_torch

pytest.importorskip("triton")
DATA = Path(__file__).parent / "data"
KERNELS = DATA / "guest_kernels.py"

HEAD = """
import triton, triton.language as tl

@triton.jit
def copy(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)

def case(name="c", **changes):
    base = {"name": name, "kernel": "copy", "constexprs": {"BLOCK": 128},
            "signature": {"x_ptr": "*fp32:16", "y_ptr": "*fp32:16", "n": "i32"}}
    return {**base, **changes}
"""


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with worker_with_torch(tmp_path_factory.mktemp("site")) as one:
        yield one


def capture(
    worker: Worker,
    folder: Path,
    body: str,
    archs: tuple[str, ...] = ("gfx942",),
    head: str = HEAD,
    **keywords: float | str | list[str] | None,
) -> tuple[list[Variant], list[ErrorRecord]]:
    path = folder / "script.py"
    path.write_text(head + textwrap.dedent(body))
    return capture_script(worker, path, archs, **keywords)  # type: ignore[arg-type]


def only_error(found: tuple[list[Variant], list[ErrorRecord]]) -> ErrorRecord:
    variants, errors = found
    assert not variants
    assert len(errors) == 1
    assert "\n" not in errors[0].message
    assert errors[0].hint
    return errors[0]


def line_of(body: str, text: str, head: str = HEAD) -> int:
    lines = (head + textwrap.dedent(body)).splitlines()
    return 1 + next(n for n, line in enumerate(lines) if text in line)


# ------------------------------------------------------------------ what a capture yields


def test_variants_carry_what_the_case_states(worker: Worker) -> None:
    variants, errors = capture_script(worker, KERNELS, ["gfx942", "gfx1100"], triton_version="x")
    assert not errors
    assert [(v.case, v.arch, v.wave_size) for v in variants] == [
        ("square", "gfx942", 64),
        ("square", "gfx1100", 32),
        ("ragged", "gfx942", 64),
    ]
    square, _, ragged = variants
    assert square.kernel == square.qualname == "gemm"
    assert square.grid == (16, 16)
    assert ragged.grid is None
    assert square.triton_version == "x"
    assert square.signature["a_ptr"] == "*fp16"
    assert square.signature["stride_bn"] == "constexpr"
    expected = {"BLOCK": 64, "BLOCK_K": 32, "EVEN": True, "stride_bn": 1, "bias_ptr": None}
    assert dict(square.constexprs) == expected
    assert square.attrs["a_ptr"] == {"tt.divisibility": 16, "tt.pointer_range": 32}
    assert square.attrs["K"] == {"tt.divisibility": 16}
    assert "scale" not in square.attrs
    assert dict(square.options) == {"num_warps": 4, "num_stages": 2}
    assert dict(ragged.attrs) == {"out_ptr": {"tt.divisibility": 16}}
    assert dict(ragged.constexprs) == {"BLOCK": 256}
    source = KERNELS.read_text().splitlines()
    for variant in variants:
        assert variant.source is not None
        assert source[variant.source.line - 1].startswith(f"def {variant.kernel}(")


def test_kernel_filter(worker: Worker) -> None:
    variants, errors = capture_script(worker, KERNELS, ["gfx942"], patterns=("row_sum",))
    assert [v.kernel for v in variants] == ["row_sum"]
    assert not errors
    wrong = only_error(capture_script(worker, KERNELS, ["gfx942"], patterns=("row_sun",)))
    assert "did you mean 'row_sum'" in wrong.message
    assert "gemm[square], row_sum[ragged]" in wrong.hint
    none = only_error(capture_script(worker, KERNELS, ["gfx1100"], patterns=("row_sum",)))
    assert "case 'ragged' is only for gfx9*, not gfx1100" in none.message


SEVERAL = """
@triton.jit
def other(x_ptr, n):
    tl.store(x_ptr, n + nowhere)

@triton.jit
def caseless(x_ptr):
    tl.store(x_ptr, 1)

def make():
    @triton.jit
    def copying(x_ptr):
        tl.store(x_ptr, 1)
    return copying

nested = make()

KINSPECT_CASES = [
    case("first"),
    case("second", options={"num_warps": 2}),
    case("wrong", grid=[0]),
    case("broken", kernel="other", constexprs={}, signature={"x_ptr": "*i32", "n": "i32"}),
    case("only", kernel="nested", constexprs={}, signature={"x_ptr": "*i32"}),
    "no case at all",
]
"""


@pytest.mark.parametrize(
    ("wanted", "cases", "kernels_of_errors"),
    [
        ("first", ["first"], []),
        ("copy[second]", ["second"], []),
        ("co*[second]", ["second"], []),
        ("copy", ["first", "second"], ["copy[wrong]"]),
        ("copy[wrong]", [], ["copy[wrong]"]),
        ("other", [], ["other[broken]"]),
        ("make.<locals>.copying", ["only"], []),
        (["copy", "s*"], ["second"], []),
        (None, ["first", "second", "only"], ["copy[wrong]", "other[broken]", None]),
    ],
)
def test_only_what_is_wanted_is_lowered_and_reported(
    worker: Worker,
    tmp_path: Path,
    wanted: str | list[str] | None,
    cases: list[str],
    kernels_of_errors: list[str | None],
) -> None:
    patterns = [wanted] if isinstance(wanted, str) else wanted or []
    variants, errors = capture(worker, tmp_path, SEVERAL, patterns=tuple(patterns))
    assert [v.case for v in variants] == cases
    assert [e.kernel for e in errors] == kernels_of_errors


def test_unwanted_cases_do_not_reach_the_front_end(worker: Worker, tmp_path: Path) -> None:
    body = """
    import os
    class Deadly(int):
        def __index__(self):
            os.abort()
        __int__ = __str__ = __repr__ = __hash__ = __index__
    KINSPECT_CASES = [case("deadly", constexprs={"BLOCK": Deadly(128)}), case("good")]
    """
    variants, errors = capture(worker, tmp_path, body, patterns=("good",))
    assert [v.case for v in variants] == ["good"]
    assert not errors


def test_a_name_that_matches_nothing_gets_one_answer(worker: Worker, tmp_path: Path) -> None:
    error = only_error(capture(worker, tmp_path, SEVERAL, patterns=("copy[frist]",)))
    assert "no kernel or case matches 'copy[frist]' (did you mean 'copy[first]'?)" in error.message
    assert "copy[first], copy[second], copy[wrong], other[broken], nested[only]" in error.hint
    error = only_error(capture(worker, tmp_path, SEVERAL, patterns=("caseless",)))
    assert "kernel 'caseless' has no case" in error.message
    many = "KINSPECT_CASES = [case(f'c{n}') for n in range(9)]"
    error = only_error(capture(worker, tmp_path, many, patterns=("zzz",)))
    assert "copy[c7], …: `kinspect analyze " in error.hint
    assert error.hint.endswith(" --kernel 'copy[c0]'`")


def test_cases_for_other_targets_only(worker: Worker, tmp_path: Path) -> None:
    body = """
    KINSPECT_CASES = [
        case("a", archs=["gfx11*"]), case("b", archs=["gfx9999"]), case("c", archs=["gfx942"]),
    ]
    """
    error = only_error(capture(worker, tmp_path, body, patterns=("b",)))
    assert "case 'b' is only for gfx9999, not gfx942" in error.message
    error = only_error(capture(worker, tmp_path, body, ("gfx90a", "gfx950")))
    assert "no case is for gfx90a, gfx950: 'a' is only for gfx11*; 'b' is only" in error.message
    variants, errors = capture(worker, tmp_path, body, patterns=("copy",))
    assert [v.case for v in variants] == ["c"]  # the pattern took others too: nothing is amiss
    assert not errors


# ------------------------------------------------------------------ cases that are wrong


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("signature={'x_ptr': '*fp32', 'y_ptr': '*fp32'}", ["'n'", "'copy'", "'c'"]),
        ("constexprs={'BLOCK': 1, 'BLCK': 2}", ["'BLCK'", "has not"]),
        ("constexprs={'BLCK': 2}", ["'BLCK'", "did you mean 'BLOCK'"]),
        ("options={'num_wraps': 4}", ["'c'", "num_wraps", "did you mean 'num_warps'"]),
        ("kernel='cpoy'", ["'cpoy'", "did you mean 'copy'"]),
        ("sginature={}", ["'sginature'", "did you mean 'signature'"]),
        ("grid=[0]", ["'grid'"]),
        ("grid=lambda meta: meta['BLCK']", ["'grid' raised KeyError"]),
        ("grid=lambda meta: 0.5", ["'grid' is 0.5"]),
        ("grid=[1], args={'x_ptr': 64}", ["'args' lacks y_ptr, n"]),
        ("args={'x_ptr': 64, 'y_prt': 64, 'n': 64}", ["'y_prt'", "did you mean 'y_ptr'"]),
        ("grid=[1], args={'x_ptr': 0, 'y_ptr': 64, 'n': 64}", ["'x_ptr' (*fp32) is 0"]),
        ("grid=[1], args={'x_ptr': 64, 'y_ptr': 64, 'n': 6.4}", ["'n' is 6.4"]),
        (
            "signature={'x_ptr': '*fp32', 'y_ptr': '*fp32', 'n': 'i32:16'},"
            "grid=[1], args={'x_ptr': 64, 'y_ptr': 64, 'n': 65}",
            ["'n' is 65", ":16"],
        ),
        ("archs='gfx942'", ["'archs'"]),
        ("small_tensors=1", ["'small_tensors'"]),
        ("signature={'x_ptr': '*fp32:8', 'y_ptr': '*fp32', 'n': 'i32'}", ["'x_ptr'", ":8"]),
        ("signature={'x_ptr': '*fp32:1', 'y_ptr': '*fp32', 'n': 'i32'}", ["'x_ptr'"]),
        ("signature={'x_ptr': '*fp32', 'y_ptr': '*fp32', 'n': 'fp32:16'}", ["'n'", "fp32"]),
        ("constexprs={'BLOCK': 128, 'n': 5}", ["'n'", "both"]),
        ("constexprs={'BLOCK': 128}, signature={'x_ptr': 7}", ["'x_ptr'", "7"]),
        (
            "signature={'x_ptr': '*fp32', 'y_ptr': '*fp32', 'n': 'int32'}",
            ["case 'c': argument n has the unknown type 'int32'; did you mean i32?"],
        ),
        (
            "signature={'x_ptr': '*float:16', 'y_ptr': '*fp32', 'n': 'i32'}",
            ["argument x_ptr has the unknown type '*float'; did you mean *fp32?"],
        ),
        ("options={'num_warps': '4'}", ["'c'", "num_warps is '4'", "power of two"]),
        ("options={'num_warps': 3}", ["'c'", "num_warps is 3", "power of two"]),
        ("options={'num_warps': 0}", ["num_warps is 0"]),
        ("options={'num_warps': True}", ["num_warps is True"]),
        ("options={'num_stages': -1}", ["num_stages is -1", "from 0 on"]),
        ("options={'waves_per_eu': 17}", ["waves_per_eu is 17", "to 16"]),
        ("options={'enable_fp_fusion': 'no'}", ["enable_fp_fusion is 'no'", "True or False"]),
    ],
)
def test_wrong_cases_say_what_is_wrong(
    worker: Worker, tmp_path: Path, change: str, words: list[str]
) -> None:
    found = capture(worker, tmp_path, f"KINSPECT_CASES = [case({change}), case('good')]\n")
    assert [v.case for v in found[0]] == ["good"]
    assert len(found[1]) == 1
    assert str(tmp_path / "script.py") in found[1][0].message
    for word in words:
        assert word in found[1][0].message


def test_a_case_states_a_launch(worker: Worker, tmp_path: Path) -> None:
    body = """
    args = {"x_ptr": [3, 100], "y_ptr": 300, "n": 300}
    grid = lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]), 2)
    KINSPECT_CASES = [case("of a function", grid=grid, args=args), case("of none", args=args)]
    """
    (launched, unlaunched), errors = capture(worker, tmp_path, body)
    assert not errors
    assert launched.grid == (3, 2)
    assert launched.values == {"n": 300}
    assert launched.passed is not None
    x, y, n = launched.passed.parameters
    assert (x.kind, y.kind, n.kind, n.value) == ("*fp32", "*fp32", "i32", 300)
    assert [(m.address, m.size, m.dtype) for m in launched.passed.memories] == [
        (x.value, 1200, "float32"),
        (y.value, 1200, "float32"),
    ]
    assert unlaunched.grid is None
    assert unlaunched.passed is None


def test_options_at_the_edge_of_their_range_are_taken(worker: Worker, tmp_path: Path) -> None:
    body = """
    KINSPECT_CASES = [
        case("wide", options={"num_warps": 64, "num_stages": 0, "waves_per_eu": 16}),
        case("narrow", options={"num_warps": 1, "waves_per_eu": 0, "enable_fp_fusion": False}),
    ]
    """
    variants, errors = capture(worker, tmp_path, body)
    assert not errors
    assert [v.options["num_warps"] for v in variants] == [64, 1]


def test_two_cases_of_one_name(worker: Worker, tmp_path: Path) -> None:
    body = "KINSPECT_CASES = [case('x'), case('y'), case('x', options={'num_warps': 2})]"
    variants, errors = capture(worker, tmp_path, body)
    assert [v.case for v in variants] == ["x", "y"]
    assert len(errors) == 1
    for word in ("KINSPECT_CASES[0]", "KINSPECT_CASES[2]", "'x'", "'copy'"):
        assert word in errors[0].message


def test_an_autotuned_kernel_names_a_config_to_copy(worker: Worker, tmp_path: Path) -> None:
    body = """
    configs = [triton.Config({"BLOCK": 512, "waves_per_eu": 2}, num_warps=8, num_stages=1),
               triton.Config({"BLOCK": 64})]
    tuned = triton.autotune(configs=configs, key=["n"])(copy)
    KINSPECT_CASES = [case(kernel="tuned", constexprs=%s)]
    """
    error = only_error(capture(worker, tmp_path, body % "{}"))
    assert "does not name 'BLOCK'" in error.message
    assert "autotuned: state one config, e.g. BLOCK=512, waves_per_eu=2, num_warps=8" in (
        error.message
    )
    assert "'constexprs': {'BLOCK': 512}" in error.hint
    assert "'waves_per_eu': 2, 'num_warps': 8, 'num_stages': 1" in error.hint
    assert not capture(worker, tmp_path, body % "{'BLOCK': 64}")[1]
    plain = only_error(capture(worker, tmp_path, "KINSPECT_CASES = [case(constexprs={})]"))
    assert "is autotuned" not in plain.message


def test_targets_that_fail_alike_are_reported_once(worker: Worker, tmp_path: Path) -> None:
    body = SEVERAL
    _, errors = capture(
        worker, tmp_path, body, ("gfx942", "gfx950", "gfx1100"), patterns=("other",)
    )
    assert [e.kernel for e in errors] == ["other[broken]"]
    assert errors[0].message.count("gfx942, gfx950, gfx1100") == 1
    assert f"script.py:{line_of(body, 'n + nowhere')}: case 'broken' for" in errors[0].message
    _, errors = capture(worker, tmp_path, body, ("gfx942", "gfx950"), patterns=("wrong",))
    assert len(errors) == 1


def test_targets_that_fail_differently_are_kept_apart(worker: Worker, tmp_path: Path) -> None:
    body = """
    @triton.jit
    def picky(x_ptr):
        wave: tl.constexpr = tl.target_info.current_target().arch
        tl.static_assert(False, wave)
    from triton.language import target_info
    tl.target_info = target_info
    KINSPECT_CASES = [case(kernel="picky", constexprs={}, signature={"x_ptr": "*i32"})]
    """
    _, errors = capture(worker, tmp_path, body, ("gfx942", "gfx1100"))
    assert len(errors) == 2
    assert "for gfx942:" in errors[0].message
    assert "for gfx1100:" in errors[1].message


def test_do_not_specialize_is_respected(worker: Worker, tmp_path: Path) -> None:
    body = """
    @triton.jit(do_not_specialize=["n"])
    def fixed(x_ptr, n):
        tl.store(x_ptr, n)
    signature = {"x_ptr": "*i32", "n": "i32:16"}
    KINSPECT_CASES = [case(kernel="fixed", constexprs={}, signature=signature)]
    """
    assert "do_not_specialize" in only_error(capture(worker, tmp_path, body)).message


def test_a_kernel_that_does_not_compile_is_placed(worker: Worker, tmp_path: Path) -> None:
    body = """
    @triton.jit
    def inner(x):
        return x + nowhere

    @triton.jit
    def outer(x_ptr, n):
        tl.store(x_ptr, inner(n))

    KINSPECT_CASES = [
        case(kernel="outer", constexprs={}, signature={"x_ptr": "*i32", "n": "i32"}),
        case("good"),
    ]
    """
    variants, errors = capture(worker, tmp_path, body)
    assert [v.case for v in variants] == ["good"]
    assert f"script.py:{line_of(body, 'x + nowhere')}:" in errors[0].message
    assert "nowhere" in errors[0].message
    assert errors[0].stage == "frontend"


def test_a_file_without_cases_names_its_kernels(worker: Worker, tmp_path: Path) -> None:
    error = only_error(capture(worker, tmp_path, ""))
    assert "copy" in error.message
    assert "KINSPECT_CASES" in error.hint
    assert "nor defines a @triton.jit kernel" in only_error(
        capture(worker, tmp_path, "x = 1", head="")
    ).message  # fmt: skip
    assert "not a list" in only_error(capture(worker, tmp_path, "KINSPECT_CASES = 3")).message


# ------------------------------------------------------------------ files that misbehave


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("def broken(:\n    pass", ["SyntaxError"]),
        ("import torch.no_such_module", ["torch.no_such_module"]),
        ("1 / 0", ["ZeroDivisionError"]),
        ("import sys\nsys.exit('enough')", ["sys.exit('enough')"]),
        ("raise KeyboardInterrupt", ["KeyboardInterrupt"]),
    ],
)
def test_a_file_that_does_not_load_is_placed(
    worker: Worker, tmp_path: Path, body: str, words: list[str]
) -> None:
    error = only_error(capture(worker, tmp_path, body))
    last = body.splitlines()[0 if "def" in body else -1]
    assert f"script.py:{line_of(body, last)}:" in error.message
    for word in words:
        assert word in error.message


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("import os\nprint('parting', flush=True)\nos._exit(3)", ["os._exit: status 3"]),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", ["SIGSEGV"]),
    ],
)
def test_a_file_that_ends_the_process_loses_itself_alone(
    worker: Worker, tmp_path: Path, body: str, words: list[str]
) -> None:
    pid = worker.pid
    error = only_error(capture(worker, tmp_path, body))
    for word in words:
        assert word in error.message
    variants, errors = capture_script(worker, KERNELS, ["gfx942"])
    assert len(variants) == 2
    assert not errors
    assert pid is None or worker.pid == pid  # the guest itself never noticed


def test_an_endless_file_is_ended_with_what_it_started(worker: Worker, tmp_path: Path) -> None:
    body = f"""
    import subprocess
    child = subprocess.Popen(["sleep", "600"])
    open({str(tmp_path / "pid")!r}, "w").write(str(child.pid))
    while True:
        pass
    """
    start = time.monotonic()
    error = only_error(capture(worker, tmp_path, body, time_limit=6.0))
    assert time.monotonic() - start < 14
    assert "still running after 6 s" in error.message
    pid = int((tmp_path / "pid").read_text())
    assert not _runs(pid)


def test_a_file_that_is_slow_to_let_go_is_said_once_to_be_late(
    worker: Worker, tmp_path: Path
) -> None:
    body = """
    import signal, time
    class Slow:
        def __del__(self):
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
            time.sleep(60)
    def work():
        slow = Slow()
        while True:
            time.sleep(0.01)
    work()
    """
    error = only_error(capture(worker, tmp_path, body, time_limit=5.0))
    assert "still running after 5 s" in error.message


def test_a_job_does_not_outlive_a_killed_host(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    script = tmp_path / "endless.py"
    script.write_text(
        f"import os\nopen({str(pid_file)!r}, 'w').write(f'{{os.getpid()}} {{os.getppid()}}')\n"
        "while True:\n    pass\n"
    )
    host = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, pathlib\n"
            "from kinspect.inspector.capture.script import capture_script\n"
            "from kinspect.inspector.compile.worker import Worker\n"
            "capture_script(Worker(), pathlib.Path(sys.argv[1]), ['gfx942'])",
            str(script),
        ]
    )
    try:
        for _ in range(1500):
            if pid_file.exists() and pid_file.read_text():
                break
            assert host.poll() is None
            time.sleep(0.02)
    finally:
        host.send_signal(signal.SIGKILL)
        host.wait()
    job, guest = map(int, pid_file.read_text().split())
    assert not _runs(job)
    assert not _runs(guest)


def _runs(pid: int) -> bool:
    """Whether a process is there and no zombie; it is given a moment to go."""
    for _ in range(50):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return False
        if state == "Z":
            return False
        time.sleep(0.02)
    return True


def test_a_crash_in_the_front_end_loses_that_case_alone(worker: Worker, tmp_path: Path) -> None:
    body = """
    import os
    class Deadly(int):
        def __index__(self):
            os.abort()
        __int__ = __str__ = __repr__ = __hash__ = __index__
    KINSPECT_CASES = [
        case("before"), case("deadly", constexprs={"BLOCK": Deadly(128)}), case("after"),
    ]
    """
    variants, errors = capture(worker, tmp_path, body, ("gfx942", "gfx950"))
    assert [(v.case, v.arch) for v in variants] == [
        ("before", "gfx942"),
        ("before", "gfx950"),
        ("after", "gfx942"),
        ("after", "gfx950"),
    ]
    assert len(errors) == 1
    assert errors[0].kernel == "copy[deadly]"
    assert "'deadly' for gfx942, gfx950" in errors[0].message
    assert "SIGABRT" in errors[0].message


def test_prints_and_stray_descriptors_do_not_disturb_the_channel(
    worker: Worker, tmp_path: Path
) -> None:
    body = """
    import os, sys
    print('{"records": []}', flush=True)
    print("noise", file=sys.stderr)
    for fd in range(3, 40):
        try:
            os.write(fd, b'{"records": [], "output": ""}\\n')
        except OSError:
            pass
    assert sys.stdin.read() == ""
    KINSPECT_CASES = [case()]
    """
    variants, errors = capture(worker, tmp_path, body)
    assert not errors, errors
    assert len(variants) == 1
    assert not errors


def test_guest_modules_do_not_shadow_the_users(worker: Worker, tmp_path: Path) -> None:
    for name in ("cases", "server", "driver", "capture"):
        (tmp_path / f"{name}.py").write_text(f"WHOSE = 'the user, {name}'")
    body = """
    import sys
    import cases, server, driver, capture
    assert [m.WHOSE[:8] for m in (cases, server, driver, capture)] == ["the user"] * 4
    assert not any("inspector" in p and p.endswith("guest") for p in sys.path), sys.path
    assert sys.path[0] == __file__.rpartition("/")[0]
    KINSPECT_CASES = [case()]
    """
    variants, errors = capture(worker, tmp_path, body)
    assert not errors
    assert len(variants) == 1


def test_relative_imports_work_within_a_package(worker: Worker, tmp_path: Path) -> None:
    package = tmp_path / "ops" / "deep"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    (package.parent / "shared.py").write_text("SIZE = 128")
    body = """
    from ..shared import SIZE
    KINSPECT_CASES = [case(constexprs={"BLOCK": SIZE})]
    """
    variants, errors = capture(worker, package, body)
    assert not errors
    assert variants[0].constexprs["BLOCK"] == 128


def test_files_may_ask_for_the_active_target(worker: Worker, tmp_path: Path) -> None:
    body = """
    target = triton.runtime.driver.active.get_current_target()
    assert (target.backend, target.arch, target.warp_size) == ("hip", "gfx1100", 32)
    KINSPECT_CASES = [case()]
    """
    variants, errors = capture(worker, tmp_path, body, ("gfx1100",))
    assert not errors
    assert variants[0].wave_size == 32


def test_no_such_file_and_no_target(worker: Worker, tmp_path: Path) -> None:
    with pytest.raises(KinspectError, match="not a file"):
        capture_script(worker, tmp_path / "missing.py", ["gfx942"])
    with pytest.raises(KinspectError, match="no target"):
        capture_script(worker, KERNELS, [])


# ------------------------------------------------------------------ the guest's own constraints


def test_hello_describes_the_interpreter(worker: Worker) -> None:
    import triton

    answer = ask(worker)
    assert answer["triton"] == triton.__version__
    assert answer["python"] == ".".join(map(str, sys.version_info[:3]))
    assert len(answer["triton_key"]) == 64
    assert answer["problem"] is None
    stated = {Path(path).name: size for path, _, size in answer["witnesses"]}
    libtriton = Path(triton.__file__).parent / "_C" / "libtriton.so"
    assert stated["libtriton.so"] == libtriton.stat().st_size


def test_guest_keeps_to_the_standard_library_and_old_syntax() -> None:
    allowed = set(sys.stdlib_module_names)
    for path in BOOTSTRAP.parent.glob("*.py"):
        tree = ast.parse(path.read_text(), feature_version=(3, 9))
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                assert {a.name.split(".")[0] for a in node.names} <= allowed, path
            if isinstance(node, ast.ImportFrom) and not node.level:
                assert str(node.module).split(".")[0] in allowed, path


def test_guest_does_not_import_torch(tmp_path: Path) -> None:
    body = """
    import sys
    assert "torch" not in sys.modules
    KINSPECT_CASES = [case()]
    """
    with Worker() as bare:
        assert not capture(bare, tmp_path, body)[1]


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        (
            "k.py:187: Both operands must be same dtype: tl.dot(k, v) # v_block_ptr",
            "mend the kernel",
        ),
        (
            "Block pointers have been removed in favor of the tensor descriptor API",
            "block pointers",
        ),
        ("p = tl.make_block_ptr(base=a, shape=(M,))", "block pointers"),
        ("desc = tl.make_tensor_descriptor(a, [M, N], [N, 1], [8, 8])", "tensor descriptors"),
    ],
)
def test_hints_go_by_what_is_called_not_by_names_of_variables(said: str, hint: str) -> None:
    pytest.importorskip("triton")
    from kinspect.inspector.guest.front_end_errors import hint_for

    assert hint_for(said).startswith(hint)


def test_stated_types_need_none_of_what_the_file_imports(
    tool_in_process: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    (tmp_path / "k.py").write_text(
        "import not_there\nfrom nor_this import something\nimport triton\n"
        "import triton.language as tl\n@triton.jit\ndef fill(x, N: tl.constexpr):\n"
        "    tl.store(x + tl.arange(0, N), 1)\n"
    )
    stated = ("--signature", "*fp32", "-D", "N=64")
    done = tool_in_process("analyze", "k.py::fill", *stated, "--no-passes")
    assert done.returncode == 0, done.stderr
    assert "not_there, nor_this are not installed" in done.stderr


@pytest.mark.parametrize("name", ["torch", "numpy", "triton"])
def test_what_the_guest_stands_on_is_asked_for_not_stood_in_for(
    name: str, tmp_path: Path, shared_guests: None
) -> None:
    """Without it nothing can be captured: a stand-in failed with "torch cannot be stubbed"."""
    script = tmp_path / "k.py"
    script.write_text(f'raise ModuleNotFoundError("No module named {name}", name="{name}")\n')
    report = collect(Request((str(script),), ("gfx942",)))
    (record,) = report.errors
    assert f"No module named {name}" in record.message
    assert "stub" not in record.message + str(record.hint)
    assert "install" in str(record.hint)


@pytest.mark.parametrize("command", [("analyze",), ("lint",)])
def test_the_time_limit_holds_for_scripts_and_what_they_started(
    command: tuple[str, ...],
    tool_in_process: Callable[..., subprocess.CompletedProcess[str]],
    tmp_path: Path,
) -> None:
    """--time-limit was for compiles alone; a script slept for --capture-limit, two minutes."""
    (tmp_path / "k.py").write_text(
        "import subprocess, time\n"
        "child = subprocess.Popen(['sleep', '90'], start_new_session=True)\n"
        "open('PID', 'w').write(str(child.pid))\ntime.sleep(90)\n".replace(
            "'PID'", repr(str(tmp_path / "pid"))
        )
    )
    done = tool_in_process(*command, "k.py", "--time-limit", "5")  # a busy machine starts it late
    assert done.returncode == 2, done.stdout
    assert re.search("(after|within) 5 s", done.stderr)
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text()}").exists()
