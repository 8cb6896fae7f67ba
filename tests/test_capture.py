"""Scripts that know nothing of kinspect: running them without a GPU shows what they launch."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.guest.launches.written_parameters import written_by_source

pytest.importorskip("triton")
pytest.importorskip("torch")
Tool = Callable[..., subprocess.CompletedProcess[str]]

KERNELS = """
import torch, triton, triton.language as tl

@triton.jit
def copy(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)

@triton.jit
def scale(x, y, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * factor, mask=at < n)

def run_copy(x, **options):
    y = torch.empty_like(x)
    copy[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](
        x, y, x.numel(), BLOCK=256, **options
    )
    return y
"""


@pytest.fixture
def tool(tool_in_process: Tool) -> Tool:
    return tool_in_process


@pytest.fixture
def capture(tool: Tool, tmp_path: Path) -> Callable[..., tuple[dict[str, Any], str]]:
    """Writes a script, analyses it and gives the report and what was said on stderr."""

    def run(body: str, *args: str, name: str = "script.py", head: str = KERNELS) -> Any:
        (tmp_path / name).write_text(head + textwrap.dedent(body))
        done = tool("analyze", name, "--no-passes", "--format", "json", "--details", *args)
        assert "Traceback (most recent call last)" not in done.stderr.partition("printed:")[0]
        return json.loads(done.stdout), done.stderr

    return run


@pytest.fixture
def captured(tool: Tool, tmp_path: Path) -> Callable[..., tuple[dict[str, Any], str]]:
    """As `capture`, of several scripts in one run: file name -> body."""

    def run(bodies: Mapping[str, str], *args: str) -> Any:
        for name, body in bodies.items():
            (tmp_path / name).write_text(KERNELS + textwrap.dedent(body))
        done = tool("analyze", *bodies, "--no-passes", "--format", "json", "--details", *args)
        return json.loads(done.stdout), done.stderr

    return run


def variants(report: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(k["name"], k["variant"]) for k in report["kernels"]]


def kernels(report: dict[str, Any]) -> list[str]:
    return [k["name"] for k in report["kernels"]]


# ------------------------------------------------------------------ what is captured


def test_a_launch_is_what_triton_would_make_of_it(capture: Any, tmp_path: Path) -> None:
    body = """
    x = torch.randn(1000, device="cuda", dtype=torch.float16)
    run_copy(x, num_warps=2)
    run_copy(x, num_warps=2)
    run_copy(x[8:], num_warps=2)      # 16 bytes on: still aligned, but 992 is a multiple of 16
    run_copy(x[1:], num_warps=2)      # neither
    big = torch.empty(3 * 2**30, device="cuda", dtype=torch.int8)
    run_copy(big)                     # beyond 2 GiB: no 32-bit offsets
    torch.testing.assert_close(x, x + 1)
    assert False, "results are not real"
    open("result.txt", "w").write("x")
    """
    report, stderr = capture(body, "--sort", "name")
    assert not report["errors"], stderr
    assert not (tmp_path / "result.txt").exists()
    small = [v for _, v in variants(report) if v["signature"]["x"] == "*fp16"]
    assert sorted(v["launches"] for v in small) == [1, 1, 2]
    (twice,) = [v for v in small if v["launches"] == 2]
    assert twice["grid"] == [4, 1, 1]
    assert twice["signature"] == {"x": "*fp16", "y": "*fp16", "n": "i32", "BLOCK": "constexpr"}
    assert twice["constexprs"] == {"BLOCK": 256}
    assert twice["options"]["num_warps"] == 2
    pointer = {"tt.divisibility": 16, "tt.pointer_range": 32}
    assert twice["attrs"] == {"x": pointer, "y": pointer}
    source = (tmp_path / "script.py").read_text().splitlines()
    assert source[twice["call_site"]["line"] - 1].strip().startswith("copy[lambda")
    attrs = [v["attrs"] for v in small]
    assert {"x": pointer, "y": pointer, "n": {"tt.divisibility": 16}} in attrs
    unaligned = [a for a in attrs if "tt.divisibility" not in a.get("x", {})]
    assert unaligned == [{"x": {"tt.pointer_range": 32}, "y": pointer}]
    (big,) = [v for _, v in variants(report) if v["signature"]["x"] == "*i8"]
    assert "tt.pointer_range" not in big["attrs"]["x"]
    assert big["options"]["num_warps"] == 4
    assert big["grid"] == [3 * 2**30 // 256, 1, 1]


SIZES = """
for size in SIZES:
    run_copy(torch.randn(size, device="cuda"))
"""
LARGE = 1 << 22


def test_of_several_launches_the_largest_counts(capture: Any) -> None:
    """Also where the first was compiled, and its report made, before there was any other."""
    (alone,) = capture(SIZES.replace("SIZES", f"[{LARGE}]"))[0]["kernels"]
    wait = "\nimport time; time.sleep(3)\n"
    body = SIZES.replace("SIZES", "[1024]") + wait + SIZES.replace("SIZES", f"[{LARGE}, 2048]")
    (untimed,) = capture(body, "--no-time")[0]["kernels"]
    assert untimed["metrics"]["grid.workgroups"]["value"] == LARGE // 256
    report, stderr = capture(body)
    assert not report["errors"], stderr
    (kernel,) = report["kernels"]
    variant = kernel["variant"]
    assert variant["grid"] == [LARGE // 256, 1, 1]
    assert variant["values"] == {"n": LARGE}
    assert variant["launches"] == 3
    assert kernel["time"]["us"] == alone["time"]["us"] > 9
    assert "launched with 3 grids: 4x1x1, 16384x1x1, 8x1x1; the largest counts: 16384x1x1" in (
        " ".join(kernel["notes"])
    )


def test_a_launch_with_larger_tensors_counts_at_the_same_grid(capture: Any) -> None:
    body = """
    for size in (1024, 1 << 20, 4096):
        x = torch.randn(size, device="cuda")
        copy[(4,)](x, torch.empty_like(x), size, BLOCK=256)
    """
    ((_, variant),) = variants(capture(body)[0])
    assert variant["values"] == {"n": 1 << 20}


def test_a_kernel_that_crashes_the_front_end_costs_no_other_its_launch(capture: Any) -> None:
    body = """
    @triton.constexpr_function
    def crashing():
        import os
        os.abort()

    @triton.jit
    def dead(x, BLOCK: tl.constexpr):
        crashing()
        tl.store(x, BLOCK)

    x = torch.randn(1 << 20, device="cuda")
    run_copy(x)
    dead[(1,)](x, BLOCK=1)
    """
    report, _ = capture(body)
    assert ["crashed (SIGABRT)" in error["message"] for error in report["errors"]] == [True]
    (kernel,) = report["kernels"]
    assert kernel["variant"]["values"] == {"n": 1 << 20}
    assert kernel["time"]["us"] > 0


def test_points_of_a_sweep_are_timed_at_their_largest_launch(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(KERNELS + SIZES.replace("SIZES", f"[1024, {LARGE}, 2048]"))
    done = tool("sweep", "script.py", "--set", "BLOCK=256,512", "--format", "json")
    (table,) = json.loads(done.stdout)["tables"]
    times = [row["figures"]["time_us"] for row in table["rows"]]
    assert len(times) == 2
    assert all(us > 8 for us in times)


AUTOTUNED = """
seen = []

@triton.autotune(
    configs=[
        triton.Config({"BLOCK": b}, num_warps=w) for b in (64, 128, 256) for w in (1, 2, 4, 8)
    ],
    key=["n"],
    prune_configs_by={"early_config_prune": lambda configs, args, **kw: configs[1:]},
)
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def tuned(x, y, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(y + at, tl.load(x + at))
    else:
        tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)

x = torch.randn(192, device="cuda")
tuned[lambda meta: (triton.cdiv(192, meta["BLOCK"]),)](x, x, 192)
"""


def test_autotuned_configs_and_heuristics(capture: Any) -> None:
    report, stderr = capture(AUTOTUNED, "--max-configs", "all")
    found = variants(report)
    assert len(found) == 11  # pruning runs for real
    for _, variant in found:
        tuning = variant["tuning"]
        assert tuning["BLOCK"] == variant["constexprs"]["BLOCK"]
        assert tuning["num_warps"] == variant["options"]["num_warps"]
        assert variant["constexprs"]["EVEN"] == (192 % tuning["BLOCK"] == 0)
        assert variant["grid"] == [-(-192 // tuning["BLOCK"]), 1, 1]
    cases = [v["case"] for _, v in found]
    assert "BLOCK=64, num_warps=2" in cases
    assert len(set(cases)) == 11
    assert "--max-configs" not in stderr
    few, stderr = capture(AUTOTUNED, "--max-configs", "3")
    assert len(few["kernels"]) == 3
    assert "tuned: 3 of 11 autotune configs are looked at, spread over their values" in stderr
    tunings = [variant["tuning"] for _, variant in variants(few)]
    assert {its["BLOCK"] for its in tunings} == {64, 128, 256}
    assert len({its["num_warps"] for its in tunings}) == 3
    assert few["notes"]
    (chosen,) = capture(AUTOTUNED, "--kernel", "tuned[BLOCK=128, num_warps=1]")[0]["kernels"]
    assert chosen["variant"]["tuning"]["BLOCK"] == 128


def test_filters_stop_and_arguments(capture: Any) -> None:
    body = """
    import sys
    n = int(sys.argv[1])
    x = torch.randn(n, device="cuda")
    y = run_copy(x)
    for w in (1, 2, 4):
        scale[(1,)](x, y, n, 0.5, BLOCK=128, num_warps=w)
    """
    report, _ = capture(body, "--", "4096")
    assert sorted(kernels(report)) == ["copy", "scale", "scale", "scale"]
    assert next(v for n, v in variants(report) if n == "copy")["grid"] == [16, 1, 1]
    assert kernels(capture(body, "--kernel", "cop*", "--", "4096")[0]) == ["copy"]
    assert len(capture(body, "--first", "2", "--", "4096")[0]["kernels"]) == 2
    none, stderr = capture(body, "--kernel", "copi", "--", "4096")
    assert not none["kernels"]
    assert "no kernel it launches matches 'copi'; it launches copy, scale" in stderr


def test_each_target_is_a_device_of_its_own(capture: Any) -> None:
    body = """
    properties = triton.runtime.driver.active.utils.get_device_properties(0)
    target = triton.runtime.driver.active.get_current_target()
    assert_backend = {"hip": 1}[target.backend]
    block = 4 * properties["warpSize"]
    if torch.version.hip is None or not torch.cuda.is_available():
        raise SystemExit(3)
    x = torch.randn(4096, device="cuda")
    copy[(properties["multiprocessor_count"],)](x, x, 4096, BLOCK=block)
    """
    report, stderr = capture(body, "--arch", "gfx942,gfx1100")
    assert not report["errors"], stderr
    found = {k["arch"]: k["variant"] for k in report["kernels"]}
    assert found["gfx942"]["constexprs"] == {"BLOCK": 256}
    assert found["gfx942"]["grid"][0] == 304
    assert found["gfx1100"]["constexprs"] == {"BLOCK": 128}
    assert found["gfx1100"]["wave_size"] == 32


def test_scripts_may_look_at_compiled_kernels(capture: Any) -> None:
    body = """
    x = torch.randn(4096, device="cuda")
    kernel = copy.warmup(x, x, 4096, BLOCK=512, grid=(1,))
    kernel._init_handles()
    assert_shared = {kernel.metadata.shared: 1}[kernel.shared]
    blocks = 65536 // max(kernel.metadata.shared, 1) + kernel.n_regs
    assert_text = {"amdgcn" in kernel.asm: 1}[True]
    kernel[(blocks, 1, 1)](x, x, 4096)
    """
    report, stderr = capture(body)
    assert not report["errors"], stderr
    ((_, variant),) = variants(report)
    vgprs = report["kernels"][0]["metrics"]["vgpr_count"]["value"]
    assert variant["grid"] == [65536 + vgprs, 1, 1]
    assert variant["launches"] == 1


def test_pytest_files(capture: Any) -> None:
    body = """
    import pytest

    @pytest.mark.parametrize("n", [16, 32, 64, 128, 256, 512, 1024])
    @pytest.mark.parametrize("dtype", [torch.float16])
    def test_copy(n, dtype, tmp_path):
        x = torch.randn(n, device="cuda", dtype=dtype)
        y = run_copy(x, num_warps=max(1, n // 64))
        assert torch.allclose(x, y + 1)

    def test_fails():
        raise ValueError("on purpose")
    """
    report, stderr = capture(body, name="test_copy.py")
    # The first, the middle and the last.
    assert sorted(v["options"]["num_warps"] for _, v in variants(report)) == [1, 2, 16]
    assert "1 of 4 tests ended with an exception" in stderr
    assert "on purpose" in stderr
    assert "4 of 8 tests are run, 3 parameter sets of each at most (--tests all" in stderr
    report, stderr = capture(body, "--tests", "all", name="test_copy.py")
    assert sorted(v["options"]["num_warps"] for _, v in variants(report)) == [1, 2, 4, 8, 16]
    assert "tests are run" not in stderr


def test_pytest_files_that_lack_something(captured: Any) -> None:
    missing = "import no_such_library\n\ndef test_copy():\n    run_copy(torch.ones(64).cuda())\n"
    broken = "from triton import no_such_name\n\ndef test_copy():\n    pass\n"
    report, stderr = captured({"test_missing.py": missing, "test_broken.py": broken})
    assert kernels(report) == ["copy"], stderr
    assert report["kernels"][0]["id"].startswith("test_missing.py::")
    (error,) = report["errors"]
    assert error["file"] == "test_broken.py"
    assert "cannot import name 'no_such_name'" in error["message"]


def test_calls(capture: Any) -> None:
    calls = ("--call", "run_kopy(T(64))", "--call", "run_copy(T(64, 64, dtype='bf16'))")
    report, stderr = capture("", *calls)
    ((name, variant),) = variants(report)
    assert (name, variant["signature"]["x"]) == ("copy", "*bf16")
    assert "run_kopy" in stderr
    comment = "# kinspect: call run_copy(T(128, dtype='fp32'), num_warps=2)\n"
    ((name, variant),) = variants(capture(comment)[0])
    assert (variant["signature"]["x"], variant["options"]["num_warps"]) == ("*fp32", 2)


def test_a_signature_as_last_resort(capture: Any) -> None:
    body = "@triton.jit\ndef lone(x, n, BLOCK: tl.constexpr):\n    tl.store(x + n, BLOCK)\n"
    head = "import triton, triton.language as tl\n\n"
    args = ("--signature", "*fp32:16, i32", "-D", "BLOCK=64", "-D", "num_warps=2")
    report, stderr = capture(body, *args, "--kernel", "lone", head=head)
    assert not report["errors"], stderr
    ((name, variant),) = variants(report)
    assert name == "lone"
    assert variant["constexprs"] == {"BLOCK": 64}
    assert variant["options"]["num_warps"] == 2
    _, stderr = capture(body, "--signature", "*fp32, i32, 1, 2, 3", "--kernel", "lone", head=head)
    assert "--signature has 5 arguments, and 'lone' takes 3" in stderr
    _, stderr = capture(body, "--signature", "x=*fp32, m=i32", "--kernel", "lone", head=head)
    assert "'m', which 'lone' has not" in stderr


def test_missing_modules_and_files_beside_the_script(capture: Any, tmp_path: Path) -> None:
    (tmp_path / "sizes.txt").write_text("2048")
    body = """
    import no_such_plotting_library as plt
    from no_such_plotting_library.colours import red

    @plt.decorated(red)
    def size():
        return int(open("sizes.txt").read())

    run_copy(torch.randn(2048, device="cuda"))
    with open("sizes.txt") as stream:
        n = int(stream.read())
    with open("sizes.txt", "w") as stream:
        stream.write("0")
    run_copy(torch.randn(n + 1, device="cuda"))
    """
    report, stderr = capture(body)
    assert not report["errors"], stderr
    assert len(report["kernels"]) == 2
    assert "no_such_plotting_library is not installed: stand-ins that do nothing" in stderr
    assert "it is not a package known here" in stderr
    assert (tmp_path / "sizes.txt").read_text() == "2048"  # the script wrote to its own copy


def test_gluon_and_warnings(capture: Any) -> None:
    pytest.importorskip("triton.experimental.gluon")
    body = """
    import warnings
    from triton.experimental import gluon
    from triton.experimental.gluon import language as gl

    @gluon.jit
    def layouts(x, y, n, BLOCK: gl.constexpr):
        layout: gl.constexpr = gl.BlockedLayout([4], [64], [4], [0])
        at = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=layout)
        gl.store(y + at, gl.load(x + at, mask=at < n), mask=at < n)

    @triton.jit
    def chooses(x, y):
        at = tl.arange(0, 64)
        tl.store(y + at, tl.where(at, tl.load(x + at), 0.0))

    x = torch.randn(4096, device="cuda")
    layouts[(4,)](x, x, 4096, BLOCK=1024)
    chooses[(1,)](x, x)
    """
    report, stderr = capture(body)
    assert not report["errors"], stderr
    found = dict(variants(report))
    assert sorted(found) == ["chooses", "layouts"]
    assert any("non-boolean condition" in note for note in found["chooses"]["notes"])
    (layouts,) = [k for k in report["kernels"] if k["name"] == "layouts"]
    assert layouts["metrics"]["vector_bits.global_load.max"]["value"] == 128


# ------------------------------------------------------------------ what goes wrong


ENDS = {
    "raise ValueError('no such thing')": "ValueError: no such thing",
    "import os; os._exit(7)": "os._exit: status 7",
    "import os; os.abort()": "crashed (SIGABRT)",
    "import sys; sys.exit('usage: ...')": "sys.exit('usage: ...')",
    "import sys; sys.exit('much ' * 10**6)": "much much",
    "input('how many? ')": "reads from stdin",
    "torch.empty(2**50, device='cuda').cpu()[:4].numpy().sum(); 1/0": "ZeroDivisionError",
    "x = 'a' * 2**46": "out of memory",
}


def test_what_was_captured_outlives_the_script(captured: Any) -> None:
    body = "run_copy(torch.randn(64, device='cuda'))\n"
    names = [f"end_{number}.py" for number in range(len(ENDS))]
    bodies = {name: f"{body}{end}\n" for name, end in zip(names, ENDS, strict=True)}
    report, stderr = captured(bodies)
    assert [k["id"].partition("::")[0] for k in report["kernels"]] == names, stderr
    assert kernels(report) == ["copy"] * len(names)
    assert [error["file"] for error in report["errors"]] == names
    for error, said in zip(report["errors"], ENDS.values(), strict=True):
        assert said in error["message"]
        assert error["hint"]
        assert "\n" not in error["message"]
        assert len(error["message"]) < 3000


def test_endless_scripts_and_forks(capture: Any) -> None:
    body = """
    import os
    if os.fork() == 0:
        run_copy(torch.randn(64, device="cuda"), num_warps=1)
        os._exit(0)
    os.wait()
    run_copy(torch.randn(64, device="cuda"), num_warps=2)
    import time
    while True:
        time.sleep(0.01)
    """
    report, _ = capture(body, "--capture-limit", "8")
    assert sorted(v["options"]["num_warps"] for _, v in variants(report)) == [1, 2]
    (error,) = report["errors"]
    assert "still running after 8 s" in error["message"]


@pytest.mark.slow
def test_endless_tests(capture: Any) -> None:
    body = """
    import time
    import pytest

    @pytest.mark.xfail
    @pytest.mark.parametrize("warps", [1, 2, 4])
    def test_expected_to_fail(warps):
        run_copy(torch.randn(64, device="cuda"), num_warps=warps)
        while True:
            time.sleep(0.01)
    """
    report, _ = capture(body, "--capture-limit", "15", name="test_endless.py")
    ((_, variant),) = variants(report)
    assert variant["options"]["num_warps"] == 1
    (error,) = report["errors"]
    assert "still running after 15 s" in error["message"]


def test_kernels_that_cannot_be_lowered(capture: Any) -> None:
    body = """
    @triton.jit
    def pointers(x, BLOCK: tl.constexpr):
        p = tl.make_block_ptr(x, (64,), (1,), (0,), (BLOCK,), (0,))
        tl.store(p, tl.load(p))

    @triton.jit
    def strict(x, BLOCK: tl.constexpr):
        tl.static_assert(BLOCK > 64, "too small")
        tl.store(x, BLOCK)

    @triton.jit
    def foreign(x):
        y = tl.inline_asm_elementwise("cvt.rna.tf32.f32 $0, $1;", "=r,r", [tl.load(x)],
                                      dtype=tl.float32, is_pure=False, pack=1)
        tl.store(x, y)

    x = torch.randn(64, device="cuda")
    configs = [triton.Config({"BLOCK": b}) for b in (16, 32, 64)]
    triton.autotune(configs, key=[])(pointers)[(1,)](x)
    strict[(1,)](x, BLOCK=32)
    configs = [triton.Config({"BLOCK": b}) for b in (32, 128)]
    triton.autotune(configs, key=[])(strict)[(1,)](x)
    foreign[(1,)](x)
    run_copy(x, slice_k_tile=4)
    run_copy(x, num_warps=8)
    """
    report, _ = capture(body)
    errors = {e["kernel"].partition(" ")[0]: e for e in report["errors"]}
    assert sorted(errors) == ["foreign", "pointers", "strict"]
    assert "--python" in errors["pointers"]["hint"]
    assert "script.py:" in errors["pointers"]["message"]
    assert "3 of its specialisations" in errors["pointers"]["message"]
    assert "too small" in errors["strict"]["message"]
    assert errors["foreign"]["stage"] == "compile"
    assert sorted(kernels(report)) == ["copy", "copy", "strict"]
    refused = [n for n in report["notes"] if "is refused by the kernel itself" in n]
    assert len(refused) == 1  # autotuners pass over such a configuration
    notes = [n for k in report["kernels"] for n in k["variant"]["notes"]]
    assert len([n for n in notes if "slice_k_tile" in n]) == 1


@pytest.mark.slow
def test_an_interrupt_keeps_what_is_done(tmp_path: Path) -> None:
    body = "import time\nrun_copy(torch.randn(64, device='cuda'))\ntime.sleep(300)\n"
    (tmp_path / "script.py").write_text(KERNELS + body)
    command = [sys.executable, "-m", "kinspect.inspector.cli", "analyze", "script.py"]
    done = subprocess.Popen(
        [*command, "--format", "json", "--details"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with pytest.raises(subprocess.TimeoutExpired):
        done.communicate(timeout=25)
    done.send_signal(signal.SIGTERM)
    stdout, stderr = done.communicate(timeout=30)
    report = json.loads(stdout)
    assert kernels(report) == ["copy"], stderr
    assert "interrupted: 1 specialisations captured, 0 not compiled" in stderr
    assert done.returncode == 2


def test_no_winner_is_left_in_the_user_s_cache(
    capture: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TRITON_CACHE_AUTOTUNING", "1")
    tuned = AUTOTUNED.replace('key=["n"],', 'key=["n"], cache_results=True,')
    for _ in range(2):
        assert len(capture(tuned, "--max-configs", "4")[0]["kernels"]) == 4
    assert not list((tmp_path / "home").rglob("*"))


def test_a_user_s_own_folder_only_when_asked(capture: Any, tmp_path: Path) -> None:
    body = "open('here.txt', 'w').write('x'); run_copy(torch.randn(64, device='cuda'))\n"
    capture(body, "--cwd", str(tmp_path))
    assert (tmp_path / "here.txt").exists()
    assert not list(tmp_path.glob("**/__pycache__"))


def test_nothing_is_left_behind(capture: Any, tmp_path: Path) -> None:
    capture("run_copy(torch.randn(64, device='cuda'))\nimport tempfile; tempfile.mkdtemp()\n")
    staging = Path(os.environ["KINSPECT_CACHE_DIR"]) / "staging"
    mine = [p for p in staging.glob("*") if f"{os.getpid()}-" in p.name]
    assert not mine


def test_a_value_of_a_module_that_is_not_installed_is_no_argument(captured: Any) -> None:
    body = """
    from einops import rearrange
    from of_this_project import turned

    x = torch.randn(64, 64, device="cuda")
    run_copy(x)
    run_copy({})
    """
    values = {"value.py": "turned(x)", "of_an_operator.py": "turned(x) @ x"}
    report, stderr = captured({name: body.format(value) for name, value in values.items()})
    assert kernels(report) == ["copy"] * 2
    assert [error["file"] for error in report["errors"]] == list(values)
    for error in report["errors"]:
        assert "of_this_project is not installed" in error["message"]
        assert "it is not a package known here" in error["hint"]
    assert "einops, of_this_project are not installed" in stderr
    assert "pip install einops, or" in stderr


def test_what_a_refused_kernel_only_reads_stays_known(capture: Any) -> None:
    """Where sequences begin, say: all later shapes rest on it."""
    body = """
    @triton.jit
    def refused(x, y, starts, n, BLOCK: tl.constexpr):
        first = tl.load(starts + tl.program_id(0))
        at = tl.make_block_ptr(x, (n,), (1,), (first,), (BLOCK,), (0,))
        tl.store(y + first + tl.arange(0, BLOCK), tl.load(at))

    x, y = torch.randn(64, device="cuda"), torch.empty(64, device="cuda")
    starts = torch.tensor([0, 16, 64], device="cuda", dtype=torch.int32)
    refused[(2,)](x, y, starts, 64, BLOCK=16)
    run_copy(torch.zeros(int(starts[-1]), 2, device="cuda"))
    """
    report, _ = capture(body)
    assert kernels(report) == ["copy"]
    assert len(report["errors"]) == 1
    assert report["kernels"][0]["variant"]["assumptions"] == []


@pytest.mark.parametrize(
    ("body", "written"),
    [
        ("tl.store(a + i, tl.load(b + i))", {"a", "i"}),
        ("p = a + i\n    p += tl.load(b)\n    tl.store(p, i)", {"a", "i"}),
        (
            "d = tl.make_tensor_descriptor(a, [i], [1], [64])\n    d.store([0], tl.load(b))",
            {"a", "i"},
        ),
        ("tl.atomic_add(b, tl.sum(tl.load(a)))", {"b"}),
        ("helper(a, tl.load(b))", {"a"}),
    ],
)
def test_what_a_kernel_writes_by_its_source(body: str, written: set[str]) -> None:
    (kernel,) = ast.parse(f"def kernel(a, b, i):\n    {body}\n").body
    assert isinstance(kernel, ast.FunctionDef)
    assert written_by_source(kernel) == written


def test_a_type_that_was_only_guessed_is_said(capture: Any) -> None:
    body = """
    @triton.jit
    def product(x, y, N: tl.constexpr):
        at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
        tl.store(y + at, tl.dot(tl.load(x + at), tl.load(x + at).to(tl.float32)))

    def run_product(x):
        product[(1,)](x, torch.empty_like(x), N=64)
    """
    report, stderr = capture(body, "--call", "run_product(T(64, 64))")
    assert "same dtype" in report["errors"][0]["message"]
    assert "T(...) makes fp16 tensors unless told otherwise" in stderr
    report, stderr = capture(body, "--call", "run_product(T(64, 64, dtype='fp32'))")
    assert kernels(report) == ["product"]
    assert "unless told otherwise" not in stderr


def test_why_tests_are_skipped_and_what_is_none(captured: Any) -> None:
    some = """
    import pytest

    @pytest.mark.skipif(True, reason="wants eight GPUs")
    def test_many():
        run_copy(torch.randn(64, device="cuda"))

    def test_op(batch, heads):
        run_copy(torch.randn(batch * heads, device="cuda"))

    def test_copy():
        run_copy(torch.randn(64, device="cuda"))
    """
    of_unittest = """
    import unittest

    class Cases(unittest.TestCase):
        @unittest.skipIf(True, "no such GPU")
        def test_copy(self):
            run_copy(torch.randn(64, device="cuda"))

    if __name__ == "__main__":
        unittest.main()
    """
    every = """
    import pytest

    @pytest.mark.skipif(True, reason="wants eight GPUs")
    @pytest.mark.parametrize("n", [64, 128])
    def test_many(n):
        run_copy(torch.randn(n, device="cuda"))
    """
    bodies = {"test_some.py": some, "of_unittest.py": of_unittest, "test_every.py": every}
    report, stderr = captured(bodies)
    assert kernels(report) == ["copy"]
    assert report["kernels"][0]["id"].startswith("test_some.py::")
    assert "1 test skipped, the first: test_many: Skipped: wants eight GPUs" in stderr
    assert "test_op wants a fixture 'batch' that there is not: not taken for a test" in stderr
    assert "is skipped: no such GPU" in stderr
    errors = {error["file"]: error["message"] for error in report["errors"]}
    assert "test_some.py" not in errors
    assert "all 2 tests were skipped, the first: test_many" in errors["test_every.py"]
