"""The bundled kernels compute what they say, and their checks notice when they do not.

Every `kernels/*.py` is launched and compared by `kinspect check` itself, one run of it for all
tests of a session: what was selected, and nothing else. `tests/kernels/NAME.yaml` holds what the
public systems ask for (`published`) and ways to break the kernel that its cases must notice
(`mutants`: `find` stands in the file once and is replaced).

Slow cases, and all mutants but one of a few kernels, are marked slow.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import in_process
import pytest
import yaml
from shared_guests import SharedGuests

pytest.importorskip("triton")

KERNELS = Path(__file__).parents[1] / "kernels"
PLANS = Path(__file__).parent / "kernels"
NAMES = sorted(path.stem for path in KERNELS.glob("*.py") if path.stem != "__init__")
BROKEN_EVERY_TIME = ("flash_attn", "gemm_all_types", "softmax")
"""Kernels whose first mutant is checked in every run; the other mutants are slow tests."""

pytestmark = pytest.mark.xdist_group(name="kernels")


@functools.cache
def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, KERNELS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def plan(name: str) -> dict[str, Any]:
    path = PLANS / f"{name}.yaml"
    return yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else {}


@dataclass(frozen=True)
class Mutant:
    kernel: str
    title: str
    find: str
    replace: str
    cases: tuple[str, ...]


def mutants() -> list[Any]:
    params = []
    for name in NAMES:
        for index, raw in enumerate(plan(name).get("mutants", ())):
            mutant = Mutant(name, raw["name"], raw["find"], raw["replace"], tuple(raw["cases"]))
            always = index == 0 and name in BROKEN_EVERY_TIME
            marks = () if always else (pytest.mark.slow,)
            params.append(pytest.param(mutant, id=f"{name}: {mutant.title}", marks=marks))
    return params


CASES = [
    pytest.param(
        name,
        case["name"],
        id=f"{name}-{case['name']}",
        marks=(pytest.mark.slow,) if case.get("slow") else (),
    )
    for name in NAMES
    for case in load(name).CASES
]
Outcomes = dict[tuple[str, str], dict[str, Any]]


@pytest.fixture(scope="session")
def outcomes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, guests: SharedGuests
) -> Outcomes:
    """(kernel, or kernel and mutant; case) -> its entry in the JSON of one `kinspect check`."""
    pytest.importorskip("torch")
    targets, keys = [], {}
    for item in request.session.items:
        params = item.callspec.params if hasattr(item, "callspec") else {}
        if item.name.startswith("test_launch_equals_reference["):
            path = KERNELS / f"{params['name']}.py"
            keys[str(path.resolve())] = params["name"]
            targets.append(f"{path}::{params['case']}")
        elif "mutant" in params:
            mutant = params["mutant"]
            path = tmp_path_factory.mktemp("mutant") / f"{mutant.kernel}.py"
            path.write_text(broken(mutant), encoding="utf-8")
            keys[str(path.resolve())] = f"{mutant.kernel}: {mutant.title}"
            targets.append(f"{path}::{','.join(mutant.cases)}")
    with guests.lent():
        done = in_process.kinspect(
            *("check", "--format", "json", "--jobs", "2", "--time-limit", "300", *targets),
            cwd=tmp_path_factory.mktemp("cwd"),
        )
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)["kernels"]
    outcomes = {(keys[k["file"]], c["name"]): c for k in found for c in k["cases"]}
    outcomes.update({(keys[k["file"]], ""): k for k in found})
    return outcomes


def broken(mutant: Mutant) -> str:
    source = (KERNELS / f"{mutant.kernel}.py").read_text(encoding="utf-8")
    assert source.count(mutant.find) == 1, f"{mutant.title}: {source.count(mutant.find)} places"
    return source.replace(mutant.find, mutant.replace)


def outcome(outcomes: Outcomes, key: str, case: str) -> dict[str, Any]:
    if (key, case) not in outcomes:
        pytest.fail(f"not come to: {outcomes.get((key, ''), {}).get('problem')}")
    return outcomes[key, case]


# --------------------------------------------------------------------------- correctness


@pytest.mark.parametrize(("name", "case"), CASES)
def test_launch_equals_reference(outcomes: Outcomes, name: str, case: str) -> None:
    found = outcome(outcomes, name, case)
    assert found["status"] == "passed", found["detail"] or found["message"]


@pytest.mark.parametrize("mutant", mutants())
def test_broken_kernel_is_noticed(outcomes: Outcomes, mutant: Mutant) -> None:
    """The cases can fail: by wrong numbers, not by a crash."""
    for case in mutant.cases:
        found = outcome(outcomes, f"{mutant.kernel}: {mutant.title}", case)
        assert found["status"] == "failed", (case, found["status"], found["message"])
        assert "values are wrong" in found["message"], found["message"]


# --------------------------------------------------------------------------- the files


@pytest.mark.parametrize("name", NAMES)
def test_kernel_has_a_plan(name: str) -> None:
    """Published tolerances, and mutants that stand in the file once and name cases that exist."""
    found = plan(name)
    assert set(found) == {"published", "mutants"}, f"tests/kernels/{name}.yaml"
    assert set(found["published"]) == {"atol", "rtol"}
    assert len(found["mutants"]) >= 1
    known = {case["name"] for case in load(name).CASES}
    for mutant in found["mutants"]:
        assert set(mutant) == {"name", "find", "replace", "cases"}, mutant
        assert mutant["cases"], mutant["name"]
        assert set(mutant["cases"]) <= known, mutant["name"]
        broken(Mutant(name, mutant["name"], mutant["find"], mutant["replace"], ()))
    titles = [mutant["name"] for mutant in found["mutants"]]
    assert len(titles) == len(set(titles))


def test_every_plan_has_a_kernel() -> None:
    assert {path.stem for path in PLANS.glob("*.yaml")} <= set(NAMES)


def test_three_kernels_are_broken_every_time_and_others_in_the_long_run() -> None:
    always = [p for p in mutants() if not p.marks]
    assert len({p.values[0].kernel for p in always}) >= 3
    assert len({p.values[0].kernel for p in mutants()}) >= 5


@pytest.mark.parametrize("name", NAMES)
def test_tolerances_are_no_looser_than_published(name: str) -> None:
    published = plan(name)["published"]
    for case in load(name).CASES:
        assert case["atol"] <= published["atol"], case["name"]
        assert case["rtol"] <= published["rtol"], case["name"]


@pytest.mark.parametrize("name", NAMES)
def test_files_keep_the_contract(name: str) -> None:
    module = load(name)
    for table in (module.CASES, module.BENCH, module.KINSPECT_CASES):
        names = [entry["name"] for entry in table]
        assert names
        assert len(names) == len(set(names))
    for function in ("launch", "reference", "make_inputs", "work"):
        assert callable(getattr(module, function))
    for entry in module.BENCH:
        work = module.work(entry)
        assert set(work) == {"flop", "bytes"}
        assert all(value is None or (type(value) is int and value >= 0) for value in work.values())
        assert any(work.values())
    assert "Answers to: " in (module.__doc__ or "")


def test_files_load_without_torch() -> None:
    code = (
        "import importlib.util, sys\n"
        "sys.modules['torch'] = None\n"
        "for path in sys.argv[1:]:\n"
        "    spec = importlib.util.spec_from_file_location('kernel', path)\n"
        "    module = importlib.util.module_from_spec(spec)\n"
        "    spec.loader.exec_module(module)\n"
        "    assert module.KINSPECT_CASES\n"
    )
    paths = [str(KERNELS / f"{name}.py") for name in NAMES]
    done = subprocess.run(
        [sys.executable, "-c", code, *paths], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_bench_shapes_make_inputs(name: str) -> None:
    """Under fake tensors: the largest benchmark shapes would not fit here."""
    pytest.importorskip("torch")
    from torch._subclasses import fake_tensor

    module = load(name)
    unknown = (
        fake_tensor.DataDependentOutputException,
        fake_tensor.DynamicOutputShapeException,
    )
    for shape in module.BENCH:
        with fake_tensor.FakeTensorMode():
            try:
                inputs = module.make_inputs(shape)
            except unknown:
                pytest.skip("what the inputs are like depends on random values")
        assert inputs


def test_streamk_takes_smaller_tiles_where_k_ends_in_a_short_block() -> None:
    """128x256 spills 212 registers on an H200 there: a product of its own follows the loop."""
    streamk = load("gemm_streamk")
    tiles = {
        k: streamk.default_config("cuda", M=8192, N=4864, K=k, num_sms=132)
        for k in (None, 6880, 6912)
    }
    assert {k: c["BLOCK_M"] * c["BLOCK_N"] for k, c in tiles.items()} == {
        None: 128 * 256,
        6880: 128 * 128,
        6912: 128 * 256,
    }


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
        module = load(name)
        try:
            module.launch(**arguments)
        except ValueError as error:
            assert message in str(error), title  # noqa: PT017
        else:
            pytest.fail(f"{title}: accepted")
