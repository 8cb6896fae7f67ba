"""The bundled kernels compute what they say: on the CPU, through Triton's interpreter.

Every entry of a kernel file's CASES is launched and compared with the file's `reference`. The
interpreter must be chosen before triton is imported, so the launches happen in a process of their
own: this file, run as a program, is that process.

bfloat16: the interpreter's bf16 dot is wrong, so bfloat16 inputs are rounded to bfloat16 and then
handed over as float32 (see `upcast`).
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

KERNELS = Path(__file__).parents[1] / "kernels"
NAMES = ("vector_add", "softmax", "gemm_all_types", "flash_attn")

# atol, rtol of the public systems that the kernels answer to.
PUBLISHED_TOLERANCE = {"gemm_all_types": (5e-3, 1e-2), "flash_attn": (2e-2, 2e-2)}


# --------------------------------------------------------------------------- in the interpreter


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def upcast(value: Any) -> Any:
    """bfloat16 tensors and dtypes as float32, anything else as it is."""
    import torch

    if isinstance(value, torch.Tensor) and value.dtype == torch.bfloat16:
        return value.float()
    return torch.float32 if value is torch.bfloat16 else value


def launch_and_compare(module: ModuleType, case: dict[str, Any]) -> None:
    import torch

    inputs = {name: upcast(value) for name, value in module.make_inputs(case).items()}
    actual, expected = module.launch(**inputs), module.reference(**inputs)
    if isinstance(actual, torch.Tensor):
        actual, expected = (actual,), (expected,)
    for a, e in zip(actual, expected, strict=True):
        assert a.dtype == e.dtype, f"launch gives {a.dtype}, reference {e.dtype}"
        torch.testing.assert_close(
            a.double(), e.double(), atol=case["atol"], rtol=case["rtol"], equal_nan=True
        )


def work(jobs: list[tuple[str, str, list[str]]]) -> None:
    """Run (key, kernel file, case names) jobs and print one JSON line for each case."""
    for key, path, names in jobs:
        module = load(Path(path))
        for case in module.CASES:
            if case["name"] not in names:
                continue
            try:
                launch_and_compare(module, case)
                error = None
            except Exception:
                error = traceback.format_exc()
            print(json.dumps([key, case["name"], error]), flush=True)  # noqa: T201


def interpret(jobs: list[tuple[str, Path, list[str]]]) -> dict[tuple[str, str], str | None]:
    """The error, or None, of each (key, case name), from one interpreter process.

    A process that dies leaves the cases it did not reach out of the result.
    """
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, __file__],
        input=json.dumps([(key, str(path), names) for key, path, names in jobs]),
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        check=False,
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode:
        rows.append(["", "stderr", done.stderr[-2000:]])
    return {(key, name): error for key, name, error in rows}


# --------------------------------------------------------------------------- correctness


def case_names(name: str) -> list[str]:
    pytest.importorskip("triton")
    return [case["name"] for case in load(KERNELS / f"{name}.py").CASES]


CASES = [(name, case) for name in NAMES for case in case_names(name)]


@pytest.fixture(scope="module")
def outcomes() -> dict[tuple[str, str], str | None]:
    pytest.importorskip("torch")
    return interpret([(name, KERNELS / f"{name}.py", case_names(name)) for name in NAMES])


@pytest.mark.parametrize(("name", "case"), CASES)
def test_launch_equals_reference(
    outcomes: dict[tuple[str, str], str | None], name: str, case: str
) -> None:
    if (name, case) not in outcomes:
        pytest.fail(f"not reached: {outcomes.get(('', 'stderr'), 'no error output')}")
    error = outcomes[name, case]
    assert error is None, error


# What to break in which file, and the cases that must notice.
MUTANTS = {
    "vector_add: the mask ends one early": (
        "vector_add",
        "mask = offsets < n  #",
        "mask = offsets < n - 1  #",
        ["one_element", "ragged"],
    ),
    "softmax: columns beyond the row read as 0": (
        "softmax",
        'other=float("-inf")).to(tl.float32)\n        new_max',
        "other=0.0).to(tl.float32)\n        new_max",
        ["ragged", "looped"],
    ),
    "softmax: the sum is not rescaled to a new maximum": (
        "softmax",
        "row_sum * tl.exp(row_max - safe_max)",
        "row_sum",
        ["looped", "wider_than_max_block"],
    ),
    "softmax: an all-hidden block poisons the row": (
        "softmax",
        'tl.where(new_max == float("-inf"), 0.0, new_max)',
        "new_max",
        ["hidden_blocks"],
    ),
    "gemm: the mask over K lets one column too few through": (
        "gemm_all_types",
        "mask=offs_k[None, :] < K - k,",
        "mask=offs_k[None, :] < K - k - 1,",
        ["fp16_ragged", "fp32", "int8_to_int32", "int32"],
    ),
    "gemm: the last group of tiles is taken for a full one": (
        "gemm_all_types",
        "tl.minimum(tiles_m - first_m, GROUP_M)",
        "GROUP_M",
        ["fp16_grouped_tiles"],
    ),
    "gemm: parts of a split K all start at 0": (
        "gemm_all_types",
        "offs_k = split * BLOCK_K + tl.arange",
        "offs_k = tl.arange",
        ["fp32_split_k", "int8_split_k"],
    ),
    "gemm: int8 results are truncated, not rounded": (
        "gemm_all_types",
        "x = tl.where(x < 0, x - 0.5, x + 0.5)",
        "x = x",
        ["int8_requantised"],
    ),
    "gemm: int8 results wrap around": (
        "gemm_all_types",
        "tl.minimum(tl.maximum(x, -128), 127).to(tl.int8)",
        "x.to(tl.int8)",
        ["int8_saturated"],
    ),
    "gemm: scales are ignored": (
        "gemm_all_types",
        "acc.to(tl.float32) * (tl.load(a_scale_ptr) * tl.load(b_scale_ptr))",
        "acc.to(tl.float32)",
        ["fp8_e4m3fnuz", "fp8_e5m2", "int8_requantised", "int8_to_fp16"],
    ),
    "flash_attn: a query does not see its own key": (
        "flash_attn",
        "offs_n[None, :] <= last_key[:, None]",
        "offs_n[None, :] < last_key[:, None]",
        ["causal", "bshd", "more_keys", "late_v"],
    ),
    "flash_attn: causal is aligned at the top left": (
        "flash_attn",
        "last_key = offs_m + seqlen_k - seqlen_q",
        "last_key = offs_m",
        ["more_keys", "rows_without_keys", "bshd"],
    ),
    "flash_attn: keys beyond the end count": (
        "flash_attn",
        "keep = offs_n[None, :] < seqlen_k\n",
        "keep = offs_n[None, :] < seqlen_k + BLOCK_N\n",
        ["one_key"],
    ),
    "flash_attn: the output is not rescaled to a new maximum": (
        "flash_attn",
        "acc = acc * alpha[:, None]",
        "acc = acc",
        ["full_blocks", "causal", "head_dim_256"],
    ),
    "flash_attn: a masked block is taken for a full one": (
        "flash_attn",
        "full_end = tl.minimum(full_end, tl.maximum(diagonal + 1, 0))",
        "full_end = tl.minimum(full_end, tl.maximum(diagonal + BLOCK_M, 0))",
        ["causal", "late_v"],
    ),
    "flash_attn: a row without keys divides by zero": (
        "flash_attn",
        "tl.where(l_i == 0.0, 1.0, l_i)",
        "l_i",
        ["rows_without_keys"],
    ),
    "flash_attn: every query head reads key head 0": (
        "flash_attn",
        "head_k = head_q // (num_heads_q // num_heads_k)",
        "head_k = head_q * 0",
        ["grouped_query", "full_blocks"],
    ),
    "flash_attn: lse stays in base 2": (
        "flash_attn",
        "(m_i + tl.log2(l_safe)) * LN2",
        "m_i + tl.log2(l_safe)",
        ["full_blocks", "one_query"],
    ),
}


@pytest.fixture(scope="module")
def mutants(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], str | None]:
    pytest.importorskip("torch")
    jobs = []
    for index, (title, (name, old, new, cases)) in enumerate(MUTANTS.items()):
        source = (KERNELS / f"{name}.py").read_text(encoding="utf-8")
        assert source.count(old) == 1, f"{title}: the text to break stands there not once"
        path = tmp_path_factory.mktemp(f"mutant{index}") / f"{name}.py"
        path.write_text(source.replace(old, new), encoding="utf-8")
        jobs.append((title, path, cases))
    return interpret(jobs)


@pytest.mark.parametrize("title", MUTANTS)
def test_broken_kernel_is_noticed(mutants: dict[tuple[str, str], str | None], title: str) -> None:
    """The correctness cases can fail: each names the mistake that it is there to catch."""
    for case in MUTANTS[title][3]:
        error = mutants[title, case]
        assert error is not None, f"{case} passes although {title}"
        assert re.search("are not (close|equal)!", error), error  # wrong numbers, not a crash


# --------------------------------------------------------------------------- the files


@pytest.mark.parametrize("name", NAMES)
def test_imports_without_torch(name: str) -> None:
    code = (
        "import importlib.util, sys\n"
        "sys.modules['torch'] = None\n"
        "spec = importlib.util.spec_from_file_location('kernel', sys.argv[1])\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "assert module.KINSPECT_CASES\n"
    )
    path = str(KERNELS / f"{name}.py")
    done = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_case_names_are_unique(name: str) -> None:
    names = case_names(name)
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", PUBLISHED_TOLERANCE)
def test_tolerances_are_no_looser_than_published(name: str) -> None:
    atol, rtol = PUBLISHED_TOLERANCE[name]
    for case in load(KERNELS / f"{name}.py").CASES:
        assert case["atol"] <= atol, case["name"]
        assert case["rtol"] <= rtol, case["name"]


@pytest.mark.parametrize("name", NAMES)
def test_bench_shapes_make_inputs(name: str) -> None:
    """Under fake tensors: the largest benchmark shapes would not fit here."""
    pytest.importorskip("torch")
    from torch._subclasses.fake_tensor import FakeTensorMode

    module = load(KERNELS / f"{name}.py")
    assert module.BENCH
    for shape in module.BENCH:
        with FakeTensorMode():
            inputs = module.make_inputs(shape)
            expected = module.reference(**inputs)
        first = next(iter(inputs.values()))
        expected = expected[0] if isinstance(expected, tuple) else expected
        assert expected.dtype == first.dtype
        assert expected.device == first.device


def bad_calls() -> dict[str, tuple[str, dict[str, Any], str]]:
    import torch

    def half(*shape: int) -> torch.Tensor:
        return torch.zeros(shape, dtype=torch.float16)

    byte = torch.zeros((8, 8), dtype=torch.int8)
    attention = {"q": half(1, 4, 8, 16), "k": half(1, 2, 8, 16), "v": half(1, 2, 8, 16)}
    wide = dict.fromkeys("qkv", half(1, 1, 8, 257))
    spread = half(1, 2, 16, 8).transpose(2, 3)
    return {
        "add_shapes": ("vector_add", {"x": half(3), "y": half(4)}, "must agree"),
        "add_strides": ("vector_add", dict.fromkeys("xy", half(4, 2).T), "contiguous"),
        "softmax_vector": ("softmax", {"x": half(5)}, "must be a matrix"),
        "softmax_columns": ("softmax", {"x": half(5, 3).T}, "contiguous columns"),
        "gemm_inner": ("gemm_all_types", {"a": half(3, 4), "b": half(5, 6)}, "no product"),
        "gemm_dtypes": ("gemm_all_types", {"a": half(8, 8), "b": byte}, "no product"),
        "gemm_scales": (
            "gemm_all_types",
            dict.fromkeys(("a", "b", "scale_a", "scale_b"), half(1, 1)),
            "8-bit",
        ),
        "gemm_one_scale": ("gemm_all_types", dict.fromkeys(("a", "b", "scale_a"), byte), "pairs"),
        "gemm_int32_relu": (
            "gemm_all_types",
            {"a": byte, "b": byte, "leaky_relu": True},
            "neither scales nor",
        ),
        "gemm_split_half": (
            "gemm_all_types",
            {"a": half(8, 8), "b": half(8, 8), "config": {"SPLIT_K": 2}},
            "SPLIT_K",
        ),
        "gemm_too_large": (
            "gemm_all_types",
            dict.fromkeys("ab", torch.empty((2**16, 2**16), dtype=torch.int8, device="meta")),
            "32-bit",
        ),
        "attention_layout": ("flash_attn", {**attention, "layout": "hbsd"}, "layout"),
        "attention_heads": (
            "flash_attn",
            {**attention, "k": half(1, 3, 8, 16), "v": half(1, 3, 8, 16)},
            "no multiple",
        ),
        "attention_lengths": ("flash_attn", {**attention, "v": half(1, 2, 9, 16)}, "disagree"),
        "attention_wide": ("flash_attn", wide, "exceeds 256"),
        "attention_strides": ("flash_attn", {**attention, "k": spread}, "contiguous"),
    }


def test_launch_refuses_what_it_cannot_do() -> None:
    """Each refusal comes before anything is launched, and says what is wrong."""
    pytest.importorskip("torch")
    for title, (name, arguments, message) in bad_calls().items():
        module = load(KERNELS / f"{name}.py")
        try:
            module.launch(**arguments)
        except ValueError as error:
            assert message in str(error), title  # noqa: PT017
        else:
            pytest.fail(f"{title}: accepted")


if __name__ == "__main__":
    work(json.load(sys.stdin))
