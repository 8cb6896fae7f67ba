"""`kinspect check` is not to be fooled: kernels that are wrong in every way it must notice."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import in_process
import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from kinspect.inspector.guest.loading import LoadError
from kinspect.inspector.guest.missing_modules import install_hint
from kinspect.inspector.guest.suite import compare, kernel_file

pytestmark = pytest.mark.xdist_group(name="check")

HEAD = '''"""Doubles a vector."""

import triton
import triton.language as tl


@triton.jit
def double_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=mask), mask=mask)


def run(x, out, n):
    double_kernel[(triton.cdiv(n, 16),)](x, out, n, BLOCK=16)
    return out


def make_inputs(case, device="cpu"):
    import torch

    x = torch.arange(case.get("n", 40), device=device)
    x = x.to(getattr(torch, case.get("dtype", "float32")))
    return {"x": x, "mode": case["name"], "dtype": x.dtype, "config": {"waves_per_eu": 2}}


def reference(x, mode, dtype, config):
    import torch

    if mode.endswith("nan"):
        return torch.full_like(x, float("nan"))
    return (2 * x.double()).to(dtype)


CASES = [{"name": name, "atol": 0.0, "rtol": 0.0, **more} for name, more in MODES.items()]


def launch(x, mode, dtype, config):
    import os
    import time

    import torch

    out = torch.empty_like(x)
    n = x.numel()
'''

MODES: dict[str, dict[str, Any]] = {
    "right": {},
    "empty": {"n": 0},
    "bf16": {"dtype": "bfloat16"},
    "half": {"dtype": "float16", "slow": True},
    "wrong": {},
    "other_dtype": {},
    "other_shape": {},
    "unwritten": {},
    "nan": {},
    "unwritten_nan": {},
    "no_kernel": {},
    "returns_input": {},
    "changes_input": {},
    "raises": {},
    "number": {},
    "dies": {},
    "hangs": {},
    "after": {},
}

BODY = """
    if mode == "wrong":
        return run(x, out, n) + (torch.arange(n) == 17)
    if mode == "other_dtype":
        return run(x, out, n).half()
    if mode == "other_shape":
        return run(x, out, n)[:-1]
    if mode in ("unwritten", "nan"):
        return run(x, out, n - 1)
    if mode == "unwritten_nan":
        return run(x * float("nan"), out, n - 1)
    if mode == "no_kernel":
        return reference(x, mode, dtype, config)
    if mode == "returns_input":
        run(x, out, n)
        return x
    if mode == "changes_input":
        run(x, x, n)
        return x.clone()
    if mode == "raises":
        raise ValueError("no such thing")
    if mode == "number":
        return run(x, out, n), 1.5
    if mode == "dies":
        os.abort()
    if mode == "hangs":
        with open(os.environ.get("KINSPECT_TEST_HANGS", os.devnull), "w"):
            time.sleep(1000)
    return run(x, out, n)
"""

Tool = Callable[..., Any]


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kernel") / "double.py"
    path.write_text(HEAD.replace("MODES.items()", f"{MODES!r}.items()") + BODY)
    return path


@pytest.fixture
def tool(tool_in_process: Tool) -> Tool:
    return tool_in_process


@pytest.fixture(scope="module")
def checked(
    kernel: Path, tmp_path_factory: pytest.TempPathFactory, shared_guests: None
) -> tuple[int, Any, str]:
    """Status, JSON and stderr of a check of every mode."""
    words = ("check", kernel, "--format", "json", "--time-limit", "5")
    done = in_process.kinspect(*words, cwd=tmp_path_factory.mktemp("cwd"))
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr


def case(checked: tuple[int, Any, str], name: str) -> dict[str, Any]:
    (kernel,) = checked[1]["kernels"]
    (found,) = [c for c in kernel["cases"] if c["name"] == name]
    return dict(found)


@pytest.mark.parametrize("name", ["right", "empty", "bf16", "half", "after"])
def test_what_is_right_passes(checked: tuple[int, Any, str], name: str) -> None:
    found = case(checked, name)
    assert found["status"] == "passed", found
    assert found["message"] is None
    assert found["max_abs_error"] == found["max_rel_error"] == found["share_of_tolerance"] == 0
    assert found["upcast"] == (name == "bf16")
    assert checked[1]["notes"], "that bfloat16 is handed over as float32 is said"


WRONG = {
    "wrong": r"1 of 40 values are wrong, the worst at [17]: 35, expected 34",
    "other_dtype": "launch gives dtype torch.float16, the reference torch.float32",
    "other_shape": "launch gives shape (39,), the reference (40,)",
    "unwritten": "1 of 40 values are wrong, the worst at [39]: nan, expected 78",
    "nan": "39 of 40 values are wrong, the worst at [0]: 0, expected nan",
    "unwritten_nan": "1 of 40 values are wrong, the worst at [39]: 0, expected nan",
    "no_kernel": "launch ran no Triton kernel",
    "returns_input": "launch returned its input x as it was",
    "changes_input": "launch changed its input x, which it does not return",
    "number": "launch gives [0], [1], the reference a tensor: not the same results",
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_fails(checked: tuple[int, Any, str], name: str) -> None:
    found = case(checked, name)
    assert (found["status"], found["message"]) == ("failed", WRONG[name])
    if name == "wrong":
        assert found["max_abs_error"] == 1
        assert found["max_rel_error"] == pytest.approx(1 / 34)
        assert found["share_of_tolerance"] is None, "beyond a tolerance of nothing"


def test_an_exception_is_an_error_with_its_traceback(checked: tuple[int, Any, str]) -> None:
    found = case(checked, "raises")
    assert (found["status"], found["message"]) == ("error", "ValueError: no such thing")
    assert "double.py" in found["detail"]


def test_a_crash_costs_its_case_alone(checked: tuple[int, Any, str]) -> None:
    assert case(checked, "dies")["status"] == "crashed"
    assert "SIGABRT" in case(checked, "dies")["message"]
    assert case(checked, "hangs")["message"] == "it took longer than 5 s (--time-limit)"
    status, result, stderr = checked
    assert status == 2
    assert [c["name"] for c in result["kernels"][0]["cases"]] == list(MODES)
    for name in ("dies", "hangs"):
        lines = [line for line in stderr.splitlines() if f"double: {name}: it" in line]
        assert len(lines) == 1


def test_a_run_that_is_ended_keeps_what_it_has(kernel: Path, tmp_path: Path) -> None:
    """A time limit's SIGTERM comes while a case hangs, once the one before it is done."""
    result = tmp_path / "result.json"
    progress = tmp_path / "progress"
    command = [
        sys.executable, "-m", "kinspect.inspector.cli", "check",
        f"{kernel}::after,hangs,right", "--format", "json", "-o", str(result),
    ]  # fmt: skip
    marked = {**os.environ, "KINSPECT_TEST_HANGS": str(progress)}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=marked)
    deadline = time.monotonic() + 120
    while not progress.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(2)  # the result before it is on its way through a pipe
    process.terminate()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted: 0 of 1 kernels" in errors
    written = json.loads(result.read_text())
    assert written["interrupted"] is True
    (checked_kernel,) = written["kernels"]
    assert [case["name"] for case in checked_kernel["cases"]] == ["right"]
    assert "1 of its cases" in checked_kernel["problem"]


def test_summary_counts(checked: tuple[int, Any, str]) -> None:
    summary = dict(checked[1]["summary"])
    assert summary.pop("seconds") > 0
    assert summary == {"passed": 5, "failed": 10, "error": 1, "crashed": 2, "skipped": 0}
    device = checked[1]["device"]
    assert (device["kind"], device["backend"]) == ("cpu", "interpreter")


def test_text_selection_and_status(tool: Tool, kernel: Path) -> None:
    done = tool("check", f"{kernel}::right,hal*", "--fast", "--time-limit", "60")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("double   1 passed   ")
    assert lines[1].split()[:2] == ["case", "result"]
    assert lines[2].split()[:2] == ["right", "ok"]
    assert "1 kernel, 1 case: 1 passed" in lines[-1]

    done = tool("check", kernel, "--case", "wr*", "--case", "right", "--time-limit", "60")
    assert done.returncode == 1
    assert "FAILED" in done.stdout
    assert "wrong: 1 of 40 values are wrong" in done.stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["nosuch"], "there is no kernel 'nosuch'"),
        (["softmax::nosuch"], "softmax: no case matches 'nosuch'; there is one_value"),
        (["softmax", "--case", "nosuch"], "no case matches 'nosuch'"),
        (["softmax", "--python", "/nonexistent"], "/nonexistent cannot be started"),
    ],
    ids=["name", "case", "glob", "python"],
)
def test_usage_errors(tool: Tool, args: list[str], message: str) -> None:
    done = tool("check", *args)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("kinspect: ") == 1


HIDING = """
import sys

class Hide:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] == {name!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hide)
"""


def without(name: str, folder: Path) -> Path:
    """An interpreter that has all that this one has but for one module."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "hide.py").write_text(HIDING.format(name=name))
    here = [entry for entry in sys.path if entry.endswith("site-packages")]
    (packages / "all.pth").write_text("\n".join([*here, "import hide"]) + "\n")
    return folder / "bin" / "python"


@pytest.mark.parametrize(
    ("name", "package"),
    [("numpy", "numpy"), ("torch", "torch --index-url https://"), ("triton", "triton")],
)
def test_the_module_that_is_missing_is_named(
    tool: Tool, kernel: Path, tmp_path: Path, name: str, package: str
) -> None:
    """Triton's interpreter imports NumPy: without it Triton is not what is to be installed."""
    python = without(name, tmp_path / "venv")
    done = tool("check", kernel, "--fast", "--python", python)
    assert done.returncode == 2
    assert f"No module named '{name}'" in done.stderr
    assert f"-m pip install {package}" in done.stderr
    assert done.stderr.count("kinspect: ") == 1


def test_what_check_imports_is_required_or_in_the_extra() -> None:
    """Neither Triton nor PyTorch brings NumPy along; PyTorch is left to the user."""
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text()
    stated = re.search(r"^triton = \[(.*?)\]", text, re.M)
    required = re.search(r"^dependencies = \[\n(.*?)^\]", text, re.M | re.S)
    assert stated is not None
    assert required is not None
    assert re.findall(r'"([\w-]+)[<>=]', stated[1]) == ["triton"]
    extra = ["triton", *re.findall(r'"([\w-]+)[<>=]', required[1])]
    spec = importlib.util.find_spec("triton.runtime.interpreter")
    assert spec is not None
    tree = ast.parse(Path(str(spec.origin)).read_text())
    imported = {
        alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    foreign = imported - set(sys.stdlib_module_names)
    assert foreign - set(extra) == set()


@pytest.mark.parametrize(
    ("failure", "hint"),
    [
        (ModuleNotFoundError("", name="cv2.dnn"), "pip install opencv-python`"),
        (ModuleNotFoundError("", name="fla.ops"), "pip install flash-linear-attention`"),
        # Whatever the index holds under that name is a stranger's.
        (ModuleNotFoundError("", name="sizes"), "install what brings sizes (it is not a package"),
        (ModuleNotFoundError("", name="The 'x' distribution"), "mend or replace the triton"),
        (ModuleNotFoundError("", name="json.nothing"), "the json of"),
        (
            ImportError("cannot import name 'x' from 'json'", name="json"),
            "mend or replace the json",
        ),
        (OSError("libamdhip64.so: not found"), "mend or replace the triton"),
    ],
)
def test_hints_of_failed_imports(failure: Exception, hint: str) -> None:
    assert hint in install_hint(failure, "triton")
    outer = RuntimeError("could not load")
    outer.__cause__ = failure
    if isinstance(failure, ModuleNotFoundError):  # what was raised from it only passes it on
        assert install_hint(outer, "triton") == install_hint(failure, "triton")


def test_a_file_that_does_not_load(tool: Tool, tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    path.write_text("CASES = launch = reference = make_inputs = undefined\n")
    done = tool("check", path)
    assert done.returncode == 2
    assert f"{path}:1: NameError" in done.stderr


def test_a_case_without_a_tolerance_is_said() -> None:
    cases = [{"name": "a", "atol": 0, "rtol": 0.5}, {"name": "b", "atol": 1e-3}]
    kernel_file.check_tolerances("k.py", cases[:1])
    with pytest.raises(LoadError, match=r"k.py: the case 'b' of CASES has no number for rtol"):
        kernel_file.check_tolerances("k.py", cases)


def test_no_gpu_is_said(tool: Tool) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is one")
    done = tool("check", "softmax", "--device", "cuda")
    assert done.returncode == 2
    assert "sees no GPU" in done.stderr
    assert done.stderr.count("kinspect: ") == 1


# --------------------------------------------------------------------------- backends


H200 = kernel_file.Backend("cuda", "cuda", "NVIDIA H200", "sm_90")
A100 = kernel_file.Backend("cuda", "cuda", "NVIDIA A100", "sm_80")
MI300X = kernel_file.Backend("cuda", "hip", "AMD Instinct MI300X", "gfx942")
CPU = kernel_file.Backend("cpu", "interpreter", "Triton's interpreter on the CPU", "")


@pytest.mark.parametrize(
    ("backend", "needs", "dtype", "reason"),
    [
        (H200, "fnuz", "float16", "NVIDIA's backend has no float8 fnuz types"),
        (H200, None, "float8_e5m2fnuz", "NVIDIA's backend has no float8 fnuz types"),
        (H200, None, "float8_e4m3fn", None),
        (A100, None, "float8_e4m3fn", "sm_80 has no float8 types (sm_89 and later have)"),
        (A100, None, "bfloat16", None),
        (MI300X, "fnuz", "float8_e4m3fnuz", None),
        (CPU, "fnuz", "float8_e4m3fnuz", None),
    ],
)
def test_what_a_backend_lacks_is_skipped_with_a_reason(
    backend: Any, needs: str | None, dtype: str, reason: str | None
) -> None:
    import torch

    inputs = {"x": [torch.zeros(2).to(getattr(torch, dtype))]}
    assert kernel_file.unsupported({"name": "c", "needs": needs}, inputs, backend) == reason
    assert (
        kernel_file.unsupported(
            {"name": "c", "needs": needs}, {"dtype": inputs["x"][0].dtype}, backend
        )
        == reason
    )


def test_options_of_another_backend_are_left_out() -> None:
    class Kernel:
        arg_names = ("x_ptr", "kpack")

    class Module:
        kernel = Kernel()

    config = {"BLOCK": 1, "num_warps": 4, "waves_per_eu": 2, "kpack": 2, "maxnreg": 64}
    inputs = {"x": 1, "config": config}
    kept = {b.kind: kernel_file.fitting(Module, inputs, b)["config"] for b in (H200, MI300X)}
    assert kept["cuda"] == {"BLOCK": 1, "num_warps": 4, "kpack": 2, "maxnreg": 64}
    assert kept["hip"] == {"BLOCK": 1, "num_warps": 4, "waves_per_eu": 2, "kpack": 2}
    assert kernel_file.fitting(Module, {"x": 1, "config": None}, H200) == {"x": 1, "config": None}


@pytest.mark.parametrize(
    ("actual", "expected", "atol", "rtol", "right"),
    [
        ([1.0, 2.0], [1.0, 2.1], 0.0, 0.05, True),
        ([1.0, 2.0], [1.0, 2.2], 0.0, 0.05, False),
        ([float("inf")], [float("inf")], 0.0, 0.0, True),
        ([1.0], [float("inf")], 1.0, 1.0, False),
        ([float("inf")], [1.0], 1.0, 1.0, False),
        ([float("nan")], [float("nan")], 0.0, 0.0, True),
        ([float("nan")], [1.0], 1.0, 1.0, False),
    ],
)
def test_compare(
    actual: list[float], expected: list[float], atol: float, rtol: float, right: bool
) -> None:
    import torch

    pair = (torch.tensor(actual), torch.tensor(expected))
    if right:
        assert 0 <= compare.compare(*pair, atol, rtol)["share"] <= 1
    else:
        with pytest.raises(compare.WrongError, match="1 of"):
            compare.compare(*pair, atol, rtol)


def test_compare_sees_numbers_and_integers() -> None:
    import torch

    big = torch.tensor([2**40, 7])
    compare.compare((big, 0.5), (big.clone(), 0.5), 0.0, 0.0)
    with pytest.raises(compare.WrongError, match=r"result \[1\]: 1 of 1"):
        compare.compare((big, 0.5), (big, 0.25), 0.0, 0.0)
