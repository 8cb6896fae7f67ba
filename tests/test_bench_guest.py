"""The guest's side of benchmarks, end to end on the CPU, and the host's way of following it.

No GPU is needed: kernels run in Triton's interpreter, on a device whose clock is the host's. The
interpreter must be chosen before triton is imported, so that happens in a process of its own: this
file, run as a program, is that process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

# One worker: what the fixtures compile would else be compiled by each.
pytestmark = pytest.mark.xdist_group("bench_guest")

FILES = {
    "scale": """
        import triton
        import triton.language as tl

        @triton.jit
        def scale_kernel(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
            offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            x = tl.load(x_ptr + offsets, mask=offsets < n)
            tl.store(out_ptr + offsets, x * factor, mask=offsets < n)

        CONFIGS = {"hip": {"BLOCK": 64, "waves_per_eu": 2}, "cuda": {"BLOCK": 32}}
        TUNING = {"BLOCK": [16, 64, 128], "num_warps": [1, 2], "waves_per_eu": [0, 1, 2]}

        def launch(x, factor=2.0, config=None):
            import torch
            options = {**CONFIGS["cuda"], **(config or {})}
            if options["BLOCK"] == 128:
                raise ValueError("128 is too much")
            out = torch.empty_like(x)
            n = x.numel()
            # BROKEN
            scale_kernel[(triton.cdiv(n, options["BLOCK"]),)](x, out, n, factor, **options)
            return out

        def reference(x, factor=2.0, config=None):
            # LARGE
            return x * factor

        def torch_operator(x, factor=2.0, config=None):
            import torch
            return torch.mul(x, factor)

        def make_inputs(case, device="cpu"):
            import torch
            x = torch.arange(case["n"], device=device, dtype=torch.float32)
            x = x.reshape(case.get("shape", (case["n"],)))
            return {"x": x, "factor": case.get("factor", 2.0), "config": case.get("config")}

        def work(case):
            return {"flop": None, "bytes": 8 * case["n"]}

        CASES = [{"name": "small", "n": 10, "atol": 1e-6, "rtol": 0.0}]
        BENCH = [{"n": 100}, {"name": "large", "n": 200, "shape": (5, 4, 10)}]
    """
}
BREAK = "# BROKEN"
LARGE = "# LARGE"


def source(**replaced: str) -> str:
    text = textwrap.dedent(FILES["scale"])
    for name, line in replaced.items():
        mark = {"broken": BREAK, "large": LARGE}[name]
        assert mark in text
        text = text.replace(mark, line)
    return text


# --------------------------------------------------------------------------- in the interpreter


class Cpu:
    """A device that is the host itself."""

    torch_device = "cpu"
    backend = "cuda"
    flush_us = 10.0

    fails = False

    def now(self) -> float:
        return time.perf_counter()

    def synchronize(self) -> None:
        if self.fails:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

    def flush(self, times: int) -> None:
        pass

    def timed(self, call: Callable[[], Any]) -> tuple[Any, Callable[[], float]]:
        start = time.perf_counter()
        result = call()
        elapsed = (time.perf_counter() - start) * 1e6
        return result, lambda: elapsed


def work(jobs: list[dict[str, Any]]) -> None:
    """Measures (path, case index, job) and prints one JSON line for each."""
    import torch
    from kinspect.inspector.guest.suite import bench
    from kinspect.inspector.guest.suite.bench_device import ONCE, StoppingRule
    from kinspect.inspector.guest.suite.kernel_file import backend_of, entries, load_kernel

    torch.set_num_threads(1)
    rules = {"time": StoppingRule(max_runs=5, warm_up_s=0.001), "once": ONCE, "profile": None}
    for asked in jobs:
        module = load_kernel(asked["path"])
        backend = replace(backend_of("cpu"), **asked.get("backend", {}))
        case = {**entries(module, "BENCH")[asked["case"]], **asked.get("more", {})}
        job = bench.BenchJob(
            rules[asked.get("run", "time")],
            asked.get("config", {}),
            tuple(asked.get("compare", ())),
            asked.get("tune", 0),
        )
        device = Cpu()
        tried: list[Any] = []
        try:
            result = bench.measure(module, case, device, backend, job, tried.append)
        except bench.BrokenDeviceError as error:
            result = {"broken": str(error)}
        print(json.dumps({**result, "tried_configs": tried}), flush=True)  # noqa: T201
        sys.modules.pop(module.__name__, None)


def serve(requests: list[dict[str, Any]]) -> None:
    """Serves requests as the guest would on a GPU, and prints the records of each."""
    import torch
    from kinspect.inspector.guest.suite import bench, bench_device
    from kinspect.inspector.guest.suite.kernel_file import Backend, backend_of

    def backend(device: str) -> Backend:
        assert device == "cuda"
        return backend_of("cpu")

    torch.cuda.empty_cache = lambda: None
    bench.backend_of = backend  # type: ignore[assignment]
    bench.TorchGpu = lambda torch: Cpu()  # type: ignore[assignment,misc]
    bench_device.describe = lambda torch: {"device": {"name": "fake"}, "versions": {}}
    bench_device.clocks = lambda torch: {"core_mhz": 1}  # type: ignore[assignment]
    for asked in requests:
        Cpu.fails = False
        has_gpu = asked.pop("has_gpu")
        torch.cuda.is_available = lambda answer=has_gpu: answer  # type: ignore[misc]
        records: list[Any] = []
        bench.run(asked, records.append)
        print(json.dumps(records), flush=True)  # noqa: T201


def measured(folder: Path, *jobs: Mapping[str, Any], **files: str) -> list[dict[str, Any]]:
    """The results of jobs, each with the name of a file of `files`."""
    pytest.importorskip("torch")
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return in_interpreter([{**job, "path": str(folder / f"{job['file']}.py")} for job in jobs])


def in_interpreter(asked: object) -> list[Any]:
    """What the process printed, line by line."""
    done = subprocess.run(
        [sys.executable, __file__],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "TRITON_INTERPRET": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """One process for all: it is the start that costs."""
    out_of_memory = 'if x.numel() > {}: raise MemoryError("too large")'
    files = {
        "good": source(),
        "nothing": source(broken="return out"),
        "unwritten": source(broken="n = 0 if n == 100 else n - 1"),
        "by_torch": source(broken="return x * factor"),
        "wrong_later": source(
            broken="launch.count = getattr(launch, 'count', 0) + 1; factor += launch.count > 4"
        ),
        "raises": source(broken='raise RuntimeError("line one\\nline two")'),
        "narrow": source(broken="out = out.double()"),
        "sliced": source(large=out_of_memory.format(60)),
        "by_operator": source(large=out_of_memory.format(0)),
        "unchecked": source(large=out_of_memory.format(0)).replace("torch_operator", "other"),
        "alone": source().replace("torch_operator", "other"),
        "no_tolerance": source().replace(', "atol": 1e-6, "rtol": 0.0', ""),
        "wrong_slice": source(
            large=out_of_memory.format(60), broken="x = x.clone(); x.reshape(-1)[-1] += 1"
        ),
        "odd_tuning": source(
            broken="if options['BLOCK'] == 64: factor += 1.0\n"
            "    if options.get('num_warps') == 2: raise ValueError('two is too many')"
        ),
        "other_job": source().replace("torch.mul(x, factor)", "torch.mul(x, factor + 1)"),
        "other_fails": source().replace("torch.mul(x, factor)", "torch.mul(x, nothing)"),
    }
    jobs: dict[str, dict[str, Any]] = {
        name: {"file": name, "case": 0} for name in files if name not in ("sliced", "wrong_slice")
    }
    jobs |= {
        "sliced": {"file": "sliced", "case": 1},
        "wrong_slice": {"file": "wrong_slice", "case": 1},
        "not_sliceable": {"file": "sliced", "case": 0},
        "once": {"file": "good", "case": 1, "run": "once"},
        "profile": {"file": "nothing", "case": 0, "run": "profile"},
        "config": {"file": "good", "case": 0, "config": {"BLOCK": 16, "waves_per_eu": 1}},
        "nvidia": {
            "file": "good",
            "case": 0,
            "config": {"waves_per_eu": 1, "num_warps": 2},
            "run": "profile",
            "backend": {"kind": "cuda", "arch": "sm_90"},
        },
        "fnuz": {
            "file": "good",
            "case": 0,
            "more": {"needs": "fnuz"},
            "backend": {"kind": "cuda", "arch": "sm_90"},
        },
        "compare": {"file": "good", "case": 0, "compare": ["torch", "ck"]},
        "other_job": {"file": "other_job", "case": 0, "compare": ["torch"]},
        "other_fails": {"file": "other_fails", "case": 0, "compare": ["torch"]},
        "alone": {"file": "alone", "case": 0, "compare": ["torch"]},
        "tuned": {
            "file": "odd_tuning",
            "case": 0,
            "tune": 50,
            "backend": {"kind": "cuda", "arch": "sm_90"},
        },
        "tuned_within": {"file": "good", "case": 0, "tune": 3, "config": {"BLOCK": 16}},
    }
    folder = tmp_path_factory.mktemp("bench")
    found = measured(folder, *jobs.values(), **files)
    return dict(zip(jobs, found, strict=True))


def test_a_good_kernel_is_timed(results: dict[str, dict[str, Any]]) -> None:
    good = results["good"]
    assert (good["status"], good["case"], good["oracle"]) == ("ok", "1", "reference")
    assert 3 <= len(good["times_us"]) <= 5
    assert all(us > 0 for us in good["times_us"])
    assert (good["flop"], good["bytes"]) == (None, 800)
    assert good["config"] == {"BLOCK": 32}
    assert len(results["once"]["times_us"]) == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing", "launch ran no Triton kernel"),
        ("by_torch", "launch ran no Triton kernel"),
        ("unwritten", "100 of 100 values differ"),
        ("wrong_later", "right at first, wrong after"),
        ("wrong_slice", "slice 4: 1 of 40 values differ by more than atol 1e-06"),
    ],
)
def test_a_wrong_result_has_no_time(
    results: dict[str, dict[str, Any]], name: str, message: str
) -> None:
    result = results[name]
    assert result["status"] == "wrong"
    assert message in result["message"]
    assert result["times_us"] == []


def test_what_fails_is_an_error_of_that_case(results: dict[str, dict[str, Any]]) -> None:
    assert results["raises"]["status"] == "error"
    assert results["raises"]["message"] == "RuntimeError: line one"
    assert results["narrow"]["status"] == "wrong"
    assert "float64, expected (100,) torch.float32" in results["narrow"]["message"]


def test_what_does_not_fit_is_checked_in_parts(results: dict[str, dict[str, Any]]) -> None:
    assert results["sliced"]["status"] == "ok"
    assert results["sliced"]["oracle"] == "slices of the reference"
    assert results["not_sliceable"]["oracle"] == "torch"
    assert (results["by_operator"]["status"], results["by_operator"]["oracle"]) == ("ok", "torch")
    for name in ("unchecked", "no_tolerance"):
        assert results[name]["status"] == "error"
        assert results[name]["times_us"] == []
        assert results[name]["message"].startswith("not timed, for it cannot be checked: ")


def test_a_profile_launches_and_no_more(results: dict[str, dict[str, Any]]) -> None:
    profile = results["profile"]
    assert (profile["status"], profile["times_us"]) == ("ok", [])
    assert "oracle" not in profile


def test_configurations(results: dict[str, dict[str, Any]]) -> None:
    # What only another backend knows is left out, and said; the interpreter knows none.
    assert results["config"]["config"] == {"BLOCK": 16}
    assert results["config"]["notes"] == ["left out, unknown to interpreter: waves_per_eu"]
    assert results["nvidia"]["notes"] == ["left out, unknown to cuda: waves_per_eu"]
    assert results["nvidia"]["config"] == {"BLOCK": 32, "num_warps": 2}


def test_what_the_device_lacks_is_skipped(results: dict[str, dict[str, Any]]) -> None:
    assert results["fnuz"]["status"] == "skipped"
    assert "fnuz" in results["fnuz"]["message"]


def test_comparisons(results: dict[str, dict[str, Any]]) -> None:
    compare = results["compare"]["compare"]
    assert len(compare["torch"]["times_us"]) >= 3
    assert compare["torch"]["note"] is None
    assert compare["ck"]["times_us"] == []
    assert "aiter is not importable" in compare["ck"]["note"]
    other = results["other_job"]["compare"]["torch"]
    assert "torch's own result differs: 99 of 100 values" in other["note"]
    alone = results["alone"]["compare"]["torch"]
    assert "torch has no operator" in alone["note"]
    failing = results["other_fails"]["compare"]["torch"]
    assert failing["times_us"] == []
    assert "torch cannot do it: NameError" in failing["note"]


def test_tuning_keeps_the_fastest_of_those_that_are_right(
    results: dict[str, dict[str, Any]],
) -> None:
    tuned = results["tuned"]
    tune = tuned["tune"]
    assert tuned["status"] == "ok"
    # The stated default and 3 × 2 points: without waves_per_eu three and three are the same.
    assert tune["tried"] == 7
    assert tune["wrong"] == 1
    assert tune["refused"] == 4
    assert tuned["config"]["BLOCK"] in (16, 32)
    assert tune["fastest_us"] <= tune["default_us"]
    assert len(tuned["tried_configs"]) == 7
    assert "wrong result with BLOCK=64" in tuned["notes"][0]
    within = results["tuned_within"]
    assert within["tune"]["tried"] == 3
    assert {config["BLOCK"] for config in within["tried_configs"]} == {16}


# --------------------------------------------------------------------------- a whole run


CANNOT = {
    "no_gpu": ({"has_gpu": False}, source(), "no GPU is visible to torch in"),
    "config": ({"config": {"BLOK": 1}}, source(), "no kernel or backend has an option 'BLOK'"),
    "no_bench": ({}, source().replace("BENCH =", "OTHER ="), "has no BENCH"),
    "no_launch": ({}, source().replace("def launch", "def start"), "has no launch()"),
    "no_load": ({}, "import nowhere_to_be_found", "nowhere_to_be_found"),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """The records of some requests, from one process."""
    pytest.importorskip("torch")
    own = {"name": "own", "case": {"n": 5}}
    configured = {**own, "config": {"num_warps": 1, "BLOCK": 16}}
    broken = (
        "import __main__; __main__.Cpu.fails = True; raise RuntimeError('CUDA error: misaligned')"
    )
    asked: dict[str, tuple[dict[str, Any], str]] = {
        "whole": ({"cases": [{"name": "1", "index": 0}, configured]}, source()),
        "rest": ({"finished": [1]}, source()),
        "broken": ({}, source(broken=broken)),
        **{name: (part, text) for name, (part, text, _) in CANNOT.items()},
    }
    folder = tmp_path_factory.mktemp("runs")
    requests = []
    for name, (part, text) in asked.items():
        path = folder / f"kernel_{name}.py"
        path.write_text(text)
        request: dict[str, Any] = {
            "path": str(path),
            "cases": [{"name": "1", "index": 0}, own],
            "run": "once",
            "config": {},
            "compare": [],
            "tune": 0,
            "finished": [],
            "has_gpu": True,
        }
        requests.append({**request, **part})
    return dict(zip(asked, in_interpreter({"requests": requests}), strict=True))


def test_a_run_tells_what_it_does(runs: dict[str, list[dict[str, Any]]]) -> None:
    device, first, one, second, own = runs["whole"]
    assert device == {"device": {"name": "fake"}, "versions": {}}
    assert first == {"begin": 1, "case": "1", "config": None}
    assert (one["result"]["case"], one["result"]["status"]) == ("1", "ok")
    assert one["result"]["clocks"] == {"core_mhz": 1}
    assert second["begin"] == 2
    assert own["result"]["config"]["BLOCK"] == 16
    assert own["result"]["bytes"] == 40


def test_a_run_goes_on_after_what_is_done(runs: dict[str, list[dict[str, Any]]]) -> None:
    begin, _ = runs["rest"]
    assert begin["begin"] == 2


def test_a_broken_device_ends_the_process(runs: dict[str, list[dict[str, Any]]]) -> None:
    *_, result, again = runs["broken"]
    assert result["result"]["status"] == "error"
    assert result["result"]["message"] == "RuntimeError: CUDA error: misaligned"
    assert again == {"again": True}


@pytest.mark.parametrize("name", CANNOT)
def test_a_run_that_cannot_be(runs: dict[str, list[dict[str, Any]]], name: str) -> None:
    (record,) = runs[name]
    assert CANNOT[name][2] in record["problem"]
    assert record["hint"]


# --------------------------------------------------------------------------- configurations


def near(tuning: dict[str, list[int]], start: dict[str, int], most: int) -> list[dict[str, Any]]:
    from kinspect.inspector.guest.suite.bench import candidates
    from kinspect.inspector.guest.suite.kernel_file import Backend

    module = type("Module", (), {"TUNING": tuning})
    return candidates(module, Backend("cuda", "cuda", "", "sm_90"), most, start)


def test_configurations_near_the_default_come_first() -> None:
    pytest.importorskip("triton")
    tuning = {"A": [1, 2, 4, 8], "B": [1, 2, 4, 8], "waves_per_eu": [0, 1, 2]}
    start = {"A": 2, "B": 4, "num_warps": 4}
    found = near(tuning, start, 5)
    assert found[0] == {"A": 2, "B": 4}
    beside = [{"A": 1, "B": 4}, {"A": 4, "B": 4}, {"A": 2, "B": 2}, {"A": 2, "B": 8}]
    assert sorted(map(str, found[1:])) == sorted(map(str, beside))
    assert near(tuning, start, 5) == found
    whole = near(tuning, start, 100)
    assert len(whole) == len({str(config) for config in whole}) == 16
    assert near({}, {}, 5) == []


def test_a_huge_space_is_not_gone_through() -> None:
    pytest.importorskip("triton")
    tuning = {name: list(range(1, 11)) for name in "ABCDEFGHI"}
    start = dict.fromkeys("ABCDEFGHI", 5)
    found = near(tuning, start, 19)
    assert found[0] == start
    assert all(sum(abs(v - 5) for v in config.values()) <= 1 for config in found)
    assert len(found) == 19


# --------------------------------------------------------------------------- tolerances


def test_the_tolerance_is_that_of_the_cases_most_alike() -> None:
    from kinspect.inspector.guest.suite.bench_oracle import (
        ResultTolerance,
        UncheckedError,
        tolerance_of,
    )

    def case(atol: float, **more: Any) -> dict[str, Any]:
        return {"name": str(atol), "atol": atol, "rtol": atol, "M": 4, **more}

    cases = [
        case(1e-3),
        case(2e-3),
        case(5e-2, dtype="bfloat16"),
        case(0.1, mode="int8"),
        case(0.5, dtype="int8", causal=True),
    ]
    assert tolerance_of({"M": 9, "name": "x"}, cases) == ResultTolerance(2e-3, 2e-3)
    assert tolerance_of({"M": 9, "causal": False}, cases) == ResultTolerance(2e-3, 2e-3)
    assert tolerance_of({"dtype": "bfloat16"}, cases) == ResultTolerance(5e-2, 5e-2)
    assert tolerance_of({"mode": "int8"}, cases) == ResultTolerance(0.1, 0.1)
    assert tolerance_of({"dtype": "int8"}, cases) == ResultTolerance(0.5, 0.5)
    assert tolerance_of({"atol": 0.0, "rtol": 0.0}, cases) == ResultTolerance(0.0, 0.0)
    with pytest.raises(UncheckedError, match="states no tolerance"):
        tolerance_of({"M": 1}, [{"name": "x"}])


# --------------------------------------------------------------------------- the host


class FakeWorker:
    """Answers as a guest would."""

    records: ClassVar[list[dict[str, Any]]] = []
    requests: ClassVar[list[Mapping[str, Any]]] = []
    lost: ClassVar[bool] = False

    def __init__(self, python: str, environment: Mapping[str, str]) -> None:
        self.python = python

    def __enter__(self) -> FakeWorker:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def stream(self, message: Mapping[str, Any], limit: float) -> Iterator[dict[str, Any]]:
        from kinspect.inspector.compile.worker import WorkerLostError

        if message["mode"] == "describe":
            cases = [{"name": "small", "n": 1, "atol": 0, "rtol": 0}]
            table = [{"name": name, "n": n} for n, name in enumerate(("a", "b1", "b2"), start=1)]
            yield {"record": {"described": {"cases": cases, "bench": table}}}
            yield {"output": ""}
            return
        FakeWorker.requests.append(message)
        for record in FakeWorker.records:
            yield {"record": record}
        if FakeWorker.lost:
            raise WorkerLostError("the process died")
        yield {"output": ""}


DEVICE = {
    "device": {
        "name": "NVIDIA H200",
        "arch": "sm_90",
        "backend": "cuda",
        "compute_units": 132,
        "memory_bytes": 1,
    },
    "versions": {"torch": "2.11"},
}


def ok(name: str, *times: float) -> dict[str, Any]:
    return {"result": {"case": name, "status": "ok", "message": "", "times_us": times, "bytes": 1}}


@pytest.fixture
def follow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Any]:
    """Runs the host against records; returns the request to the guest and the result."""
    from kinspect.inspector.bench import benching
    from kinspect.inspector.bench.suite.catalogue import KernelFile

    monkeypatch.setattr(benching, "Worker", FakeWorker)

    def run(*records: dict[str, Any], lost: bool = False, **options: Any) -> tuple[Any, Any]:
        FakeWorker.records, FakeWorker.lost, FakeWorker.requests = list(records), lost, []
        path = tmp_path / "own.py"
        path.write_text("def make_inputs(case): case.get('more')")
        kernel = KernelFile("own", path, False)
        request = benching.BenchRequest(kernel, **options)
        found = benching.bench_progress(request)
        for event in benching.bench(request):
            found.add(event)
        return FakeWorker.requests[0], found.result()

    return run


def test_the_host_follows(follow: Callable[..., Any]) -> None:
    request, result = follow(DEVICE, ok("a", 1.0, 2.0), ok("b1", 3.0), ok("b2", 4.0))
    assert [told["index"] for told in request["cases"]] == [0, 1, 2]
    assert result.gpu.name == "NVIDIA H200"
    assert result.versions["torch"] == "2.11"
    assert result.versions["kinspect"]
    assert [(case.name, case.times) for case in result.cases] == [
        ("a", (1.0, 2.0)),
        ("b1", (3.0,)),
        ("b2", (4.0,)),
    ]
    assert result.cases[1].case == {"name": "b1", "n": 2}


def test_cases_are_chosen_by_name_and_number(follow: Callable[..., Any]) -> None:
    from kinspect.inspector.base.errors import KinspectError

    request, _ = follow(DEVICE, patterns=("b*",))
    assert [told["name"] for told in request["cases"]] == ["b1", "b2"]
    request, _ = follow(DEVICE, patterns=("a",), numbers=(2,))
    assert [told["index"] for told in request["cases"]] == [0, 2]
    with pytest.raises(KinspectError, match="no case of own is 'x' or 9; there is 0 a, 1 b1, 2 b2"):
        follow(DEVICE, patterns=("x",), numbers=(9,))


def test_own_cases_take_the_place_of_the_files(follow: Callable[..., Any]) -> None:
    from kinspect.inspector.bench.suite.case_files import UserCase

    given = (UserCase({"N": 7}, {"BLOCK": 4}), UserCase({"n": 7}), UserCase({"n": 7, "MORE": True}))
    records = (ok("n7", 1.0), ok("n7#2", 2.0), ok("n7_more", 3.0))
    request, result = follow(DEVICE, *records, given=given)
    assert request["cases"] == [
        {"name": "n7", "case": {"n": 7}, "config": {"BLOCK": 4}},
        {"name": "n7#2", "case": {"n": 7}, "config": {}},
        {"name": "n7_more", "case": {"n": 7, "more": True}, "config": {}},
    ]
    assert [case.times for case in result.cases] == [(1.0,), (2.0,), (3.0,)]


def test_a_crash_costs_its_case_alone(follow: Callable[..., Any]) -> None:
    killed = {"reason": "signal", "code": 11, "signal": "SIGSEGV", "seconds": 1.0}
    slow = {"reason": "timeout", "code": None, "signal": None, "seconds": 9.0}
    _, result = follow(
        DEVICE,
        {"lost": killed, "begin": 1, "case": "a", "config": {"BLOCK": 4}, "output": "x\nlast"},
        {"lost": slow, "begin": 2, "case": "b1", "config": None, "output": ""},
        ok("b2", 4.0),
        time_limit=9.0,
    )
    assert [case.status for case in result.cases] == ["crashed", "crashed", "ok"]
    assert result.cases[0].message == "its process was ended by SIGSEGV with BLOCK=4: last"
    assert result.cases[1].message == "it took longer than 9 s (--time-limit)"


def test_a_lost_guest_keeps_what_was_measured(follow: Callable[..., Any]) -> None:
    _, result = follow(DEVICE, ok("a", 1.0), lost=True)
    assert [case.status for case in result.cases] == ["ok", "crashed", "crashed"]
    assert result.cases[1].message == "the process died"


def test_what_stops_everything_is_an_error(follow: Callable[..., Any]) -> None:
    from kinspect.inspector.base.errors import KinspectError

    with pytest.raises(KinspectError, match="no GPU; do this"):
        follow({"problem": "no GPU", "hint": "do this"})
    lost = {"reason": "exit", "code": 3, "signal": None, "seconds": 1.0}
    with pytest.raises(KinspectError, match="ended with status 3: bad driver"):
        follow({"lost": lost, "output": "bad driver\n"})


if __name__ == "__main__":
    given = json.load(sys.stdin)
    if isinstance(given, dict):
        serve(given["requests"])
    else:
        work(given)
