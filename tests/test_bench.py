"""Benchmarks: the stop rule and the statistics, what a run yields, and how it is shown."""

from __future__ import annotations

import csv
import io
import json
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kinspect.inspector.bench.suite.bench_results import (
    Bench,
    EarlierResult,
    MeasuredGpu,
    OtherOperator,
    PublishedFigure,
    Timed,
    figures_for,
    geometric_mean,
    ratio,
    read_published,
    summarize,
)
from kinspect.inspector.bench.suite.case_files import read_tune_gemm
from kinspect.inspector.formats import bench as formats
from kinspect.inspector.formats import bench_data
from kinspect.inspector.guest.suite import bench_device
from kinspect.inspector.guest.suite.bench_device import (
    ONCE,
    StoppingRule,
    standard_error,
    time_call,
)
from kinspect.inspector.present import text

MICROSECONDS = st.floats(0.1, 1e8)


# --------------------------------------------------------------------------- statistics


@given(st.lists(MICROSECONDS, min_size=2, max_size=50))
def test_summary(times: list[float]) -> None:
    summary = summarize(times)
    assert summary is not None
    assert (summary.best, summary.slowest, summary.runs) == (min(times), max(times), len(times))
    assert summary.mean == pytest.approx(statistics.fmean(times))
    expected = statistics.stdev(times) / math.sqrt(len(times))
    assert summary.error == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert standard_error(times) == summary.error  # the guest's, which stops the runs


def test_summary_of_little() -> None:
    assert summarize([]) is None
    single = summarize([3.0])
    assert single is not None
    assert (single.mean, single.error) == (3.0, None)


@given(st.lists(MICROSECONDS, min_size=1, max_size=20))
def test_geometric_mean(values: list[float]) -> None:
    assert geometric_mean(values) == pytest.approx(statistics.geometric_mean(values))


def test_geometric_mean_of_nothing() -> None:
    assert geometric_mean([]) is None
    assert geometric_mean([1.0, 0.0]) is None


# --------------------------------------------------------------------------- the stop rule


@dataclass
class FakeDevice:
    """A clock that only calls move: each takes the next time of a list, in µs."""

    times: Sequence[float]
    torch_device: str = "cpu"
    backend: str = "cuda"
    flush_us: float = 100.0
    enqueue_us: float = 10.0
    clock: float = 0.0
    calls: int = 0
    running: bool = False
    log: list[str] = field(default_factory=list)

    def now(self) -> float:
        return self.clock

    def synchronize(self) -> None:
        if self.running:
            self.clock += self.times[min(self.calls - 1, len(self.times) - 1)] * 1e-6
            self.running = False
        self.log.append("sync")

    def flush(self, times: int) -> None:
        self.log.append(f"flush {times}")

    def timed(self, call: Callable[[], Any]) -> tuple[Any, Callable[[], float]]:
        result = call()
        number = min(self.calls - 1, len(self.times) - 1)
        return result, lambda: self.times[number]

    def call(self) -> int:
        self.calls += 1
        self.clock += self.enqueue_us * 1e-6
        self.running = True
        self.log.append("call")
        return self.calls


def runs_of_gpumode(durations_ns: Sequence[float]) -> int:
    """gpumode's loop, word for word in its own units: how many runs it makes."""
    seen: list[float] = []
    for i in range(100):
        seen.append(durations_ns[i])
        if i > 1:
            mean = sum(seen) / len(seen)
            std = math.sqrt(sum((d - mean) ** 2 for d in seen) / (len(seen) - 1))
            err = std / math.sqrt(len(seen))
            if err / mean < 0.001 or mean * len(seen) > 10e9:
                break
    return len(seen)


@given(
    st.one_of(
        st.lists(MICROSECONDS, min_size=100, max_size=100),
        # Nearly alike: here the precision decides.
        st.lists(st.floats(99.0, 101.0), min_size=100, max_size=100),
        st.lists(st.floats(99.9, 100.1), min_size=100, max_size=100),
    )
)
def test_stops_when_gpumode_does(times: list[float]) -> None:
    device = FakeDevice(times)
    found, last = time_call(device, device.call, StoppingRule(warm_up_s=0.0))
    assert len(found) == runs_of_gpumode([t * 1000 for t in times])
    assert found == times[: len(found)]
    assert last == len(found)


@pytest.mark.parametrize(
    ("times", "runs"),
    [
        ([5.0] * 100, 3),  # exact from the start
        ([1.0, 2.0] * 50, 100),  # never precise
        ([4e6, 3e6] * 50, 3),  # 11 s after the third
        ([2e6, 3e6] * 50, 5),  # 12 s after the fifth: 7 and 10 s are not beyond
    ],
)
def test_stop_rule(times: list[float], runs: int) -> None:
    device = FakeDevice(times)
    assert len(time_call(device, device.call, StoppingRule(warm_up_s=0.0))[0]) == runs


def test_once_is_once() -> None:
    device = FakeDevice([7.0])
    assert time_call(device, device.call, ONCE) == ([7.0], 1)
    assert device.log == ["flush 1", "call", "sync"]


def test_warms_up_for_the_time_it_should() -> None:
    device = FakeDevice([1000.0])
    found, _ = time_call(device, device.call)
    # 1 ms and 10 µs to enqueue it: 50 runs take just over 50 ms.
    assert device.calls - len(found) == 50
    slow = FakeDevice([10e6])
    found, _ = time_call(slow, slow.call)
    assert (slow.calls, len(found)) == (5, 3)


@pytest.mark.parametrize(
    ("enqueue_us", "flushes"), [(10.0, 2), (100.0, 3), (1000.0, 16), (1e6, 64)]
)
def test_the_flush_hides_the_time_to_enqueue(enqueue_us: float, flushes: int) -> None:
    device = FakeDevice([50.0], enqueue_us=enqueue_us)
    time_call(device, device.call)
    timed = device.log[device.log.index(f"flush {flushes}") :]
    assert timed == [f"flush {flushes}", "call", "sync"] * (len(timed) // 3)


# --------------------------------------------------------------------------- the device


class FakeTorch:
    """As much of torch as tells what a GPU is."""

    def __init__(self, hip: str | None = None, uuid: str = "") -> None:
        self.version = type("V", (), {"hip": hip, "cuda": None if hip else "12.8"})
        properties = type(
            "P",
            (),
            {
                "major": 9,
                "minor": 0,
                "multi_processor_count": 132,
                "total_memory": 1 << 37,
                "gcnArchName": "gfx942:sramecc+:xnack-",
                "uuid": uuid,
            },
        )
        self.__version__ = "2.11.0"
        self.cuda = type(
            "C",
            (),
            {
                "get_device_properties": staticmethod(lambda index: properties),
                "get_device_name": staticmethod(lambda index: "Some GPU"),
            },
        )


def test_clocks_of_nvidia() -> None:
    asked: list[Sequence[str]] = []

    def ask(command: Sequence[str]) -> str:
        asked.append(command)
        return "1755, 1980, 3201\n"

    found = bench_device.clocks(FakeTorch(uuid="12-34"), ask)
    assert found == {"core_mhz": 1755, "core_max_mhz": 1980, "memory_mhz": 3201}
    assert "--id=GPU-12-34" in asked[0]
    assert bench_device.driver(FakeTorch(), lambda command: "575.57.08\n") == "575.57.08"


@pytest.mark.parametrize("said", [None, "", "\n", "no devices", "1, 2", "[N/A], [N/A], [N/A]"])
def test_unknown_clocks_are_none(said: str | None) -> None:
    nothing = dict.fromkeys(("core_mhz", "core_max_mhz", "memory_mhz"))
    assert bench_device.clocks(FakeTorch(), lambda command: said) == nothing
    assert bench_device.clocks(FakeTorch("7.0"), lambda command: said) == nothing


def test_clocks_of_amd() -> None:
    said = json.dumps(
        {"card0": {"sclk clock speed:": "(2100Mhz)", "mclk clock speed:": "(1300Mhz)", "x": "3"}}
    )
    found = bench_device.clocks(FakeTorch("7.0"), lambda command: said)
    assert found == {"core_mhz": 2100, "core_max_mhz": None, "memory_mhz": 1300}


@pytest.mark.parametrize(("hip", "arch"), [(None, "sm_90"), ("7.0", "gfx942")])
def test_description(hip: str | None, arch: str) -> None:
    found = bench_device.describe(FakeTorch(hip))
    assert found["device"]["arch"] == arch
    assert found["device"]["compute_units"] == 132
    assert found["versions"]["torch"] == "2.11.0"
    json.dumps(found)


# --------------------------------------------------------------------------- published figures


def test_published_figures_are_for_the_same_device_and_case_only() -> None:
    known = read_published()
    assert {entry.kernel for entry in known} >= {"fp8_blockscale_gemm", "gemm_streamk"}
    assert all(entry.figure.source and entry.figure.label for entry in known)
    assert all(entry.figure.us is None or entry.figure.us > 0 for entry in known)
    case = {"name": "x", "M": 1024, "N": 1536, "K": 7168, "atol": 1}
    mi300x = "AMD Instinct MI300X"
    best, light = figures_for(known, "fp8_blockscale_gemm", mi300x, case)
    assert (best.us, best.tflops) == (76.33, 295.40)
    assert light.us == 8.63
    assert not figures_for(known, "fp8_blockscale_gemm", "NVIDIA H200", case)
    assert not figures_for(known, "gemm_all_types", mi300x, case)
    assert not figures_for(known, "fp8_blockscale_gemm", mi300x, {**case, "layout": "row"})
    attention = {"B": 4, "HQ": 8, "HK": 8, "Sq": 512, "Sk": 512, "D": 256, "causal": True}
    labels = [f.label for f in figures_for(known, "flash_attn", mi300x, attention)]
    assert labels == ["Triton 128x64", "Triton 64x32, V loaded early", "CK"]
    assert not figures_for(known, "flash_attn", mi300x, {**attention, "causal": False})
    square = {"M": 8192, "N": 8192, "K": 8192}
    assert figures_for(known, "gemm_streamk", mi300x, square)
    assert figures_for(known, "gemm_streamk", mi300x, {**square, "atomic": False})
    assert not figures_for(known, "gemm_streamk", mi300x, {**square, "atomic": True})


# --------------------------------------------------------------------------- showing


H200 = MeasuredGpu("NVIDIA H200", "sm_90", "cuda", 132, 1 << 37)
FIRST = Timed(
    0,
    "1024x1024x1024",
    "ok",
    case={"M": 1024, "N": 1024, "K": 1024, "layout": "TN"},
    times=(10.0, 12.0, 14.0),
    flop=2 * 1024**3,
    bytes=6 << 20,
    config={"BLOCK_M": 128, "num_warps": 8},
    oracle="reference",
    others=(
        OtherOperator("torch", (6.0, 6.0)),
        OtherOperator("ck", note="aiter is not importable"),
    ),
    before=EarlierResult(24.0, "2026-01-01T00:00:00+00:00"),
    published=(PublishedFigure(11.0, 195.0, "somebody", "their report"),),
)
SECOND = Timed(
    1,
    "2048x2048x2048",
    "ok",
    case={"M": 2048, "N": 2048, "K": 2048},
    times=(100.0,),
    flop=2 * 2048**3,
    tune={"tried": 9, "refused": 2, "wrong": 1, "default_us": 150.0, "fastest_us": 100.0},
    config={"BLOCK_M": 64},
)
THIRD = Timed(2, "ragged", "wrong", "12 of 64 values differ")
RUN = Bench(
    "gemm", "gemm.py", H200, {"torch": "2.11.0", "triton": "3.6.0"}, "time", "2026", (FIRST,)
)
ALL = Bench("gemm", "gemm.py", H200, {"torch": "2.11.0"}, "time", "2026", (FIRST, SECOND, THIRD))


def shown(bench: Bench) -> str:
    stream = io.StringIO()
    text.show(formats.document(bench), stream)
    return stream.getvalue()


def test_text() -> None:
    assert shown(RUN) == (
        "gemm  NVIDIA H200  sm_90  132 SMs  torch 2.11.0  Triton 3.6.0\n"
        "  #  case            best µs  mean µs      ±  slowest µs  runs  TFLOPS  GiB/s  torch µs"
        "  × torch  before µs  published µs\n"
        "  0  1024x1024x1024    10.00    12.00  9.62%       14.00     3   179.0  488.3      6.00"
        "     0.50      24.00         11.00\n"
        "  aiter is not importable (1024x1024x1024)\n"
        "  1024x1024x1024: somebody 11 µs, 195 TFLOPS (their report)\n"
        "  geometric mean over 1 case: 12.00 µs, best 10.00 µs, 0.50 × as fast as torch\n"
    )


def test_text_of_what_failed_has_no_time() -> None:
    lines = shown(ALL).splitlines()
    (row,) = [line for line in lines if line.lstrip().startswith("2  ragged")]
    assert row.split() == ["2", "ragged", "wrong"]
    assert "  ragged: wrong: 12 of 64 values differ" in lines
    joined = " ".join(line.strip() for line in lines)
    assert (
        "2048x2048x2048: 9 configurations tried, 2 could not be launched, 1 gave wrong results; the"
        " fastest is 1.50 × as fast as the default: BLOCK_M=64"
    ) in joined
    assert joined.endswith("0.50 × as fast as torch, 1 wrong")
    assert "geometric mean over 2 cases: 34.6" in joined


def test_text_without_a_gpu_or_times() -> None:
    profile = Bench("x", "x.py", None, {}, "profile", "2026", (Timed(0, "a", "ok"),))
    assert "launched 1 case once each" in shown(profile)
    assert "nothing was timed" in shown(Bench("x", "x.py", None, {}, "time", "2026", ()))


def test_json() -> None:
    stream = io.StringIO()
    bench_data.write_json(ALL, stream)
    data = json.loads(stream.getvalue())
    assert data["schema_version"] == 1
    assert data["device"]["name"] == "NVIDIA H200"
    first, second, third = data["cases"]
    assert first["times_us"] == [10.0, 12.0, 14.0]
    assert (first["best_us"], first["mean_us"], first["runs"]) == (10.0, 12.0, 3)
    assert first["compare"]["torch"]["times"] == 0.5
    assert first["compare"]["ck"] == {
        **dict.fromkeys(("best_us", "mean_us", "slowest_us", "error_us", "runs", "times")),
        "note": "aiter is not importable",
    }
    assert first["before"]["mean_us"] == 24.0
    assert second["gib_per_s"] is None
    assert second["error_us"] is None
    assert third["mean_us"] is None
    assert third["status"] == "wrong"
    assert data["geometric_mean"]["times_torch"] == 0.5
    assert data["geometric_mean"]["times_ck"] is None


def test_csv() -> None:
    stream = io.StringIO()
    bench_data.write_csv(ALL, stream)
    rows = list(csv.DictReader(io.StringIO(stream.getvalue())))
    assert [row["case"] for row in rows] == [case.name for case in ALL.cases]
    assert rows[0]["times_torch"] == "0.5"
    assert rows[0]["config"] == "BLOCK_M=128 num_warps=8"
    assert rows[0]["ck_us"] == ""
    assert rows[2]["mean_us"] == ""
    assert rows[2]["message"] == "12 of 64 values differ"


def test_checker_style() -> None:
    stream = io.StringIO()
    bench_data.write_checker(
        Bench("gemm", "gemm.py", H200, {}, "time", "2026", (FIRST, SECOND)), stream
    )
    lines = stream.getvalue().splitlines()
    assert lines[:2] == ["Found 2 test cases for GEMM", "Benchmark mode enabled"]
    assert "✅ All 2 test cases passed!" in lines
    assert (
        "✅ Test case 0: Best: [10.00 us, 214.75 TFLOPS], Slowest: [14.00 us, 153.39 TFLOPS]"
        in lines
    )
    assert lines[-2] == "GeoMean - Best Time: 31.62 us, Best TFLOPS: 192.08"
    stream = io.StringIO()
    bench_data.write_checker(ALL, stream)
    assert "❌ 1 of 3 test cases failed!" in stream.getvalue()
    assert "❌ Test case 2: 12 of 64 values differ" in stream.getvalue()


def test_tune_gemm_style_is_read_back() -> None:
    stream = io.StringIO()
    bench_data.write_tune_gemm_results(ALL, stream)
    first, second = read_tune_gemm(stream.getvalue(), "out.yaml")
    assert stream.getvalue().startswith(
        "- {'M': 1024, 'N': 1024, 'K': 1024, 'rowMajorA': 'T', 'rowMajorB': 'N',"
        " 'BLOCK_SIZE_M': 128, 'num_warps': 8} # TFLOPS: 178.96 time(us): 12.00\n"
    )
    assert first.config == FIRST.config
    assert (second.us, second.values["M"]) == (100.0, 2048)


def test_ratio() -> None:
    assert ratio(FIRST, "torch") == 0.5
    assert ratio(FIRST, "ck") is None
    assert ratio(SECOND, "torch") is None


# --------------------------------------------------------------------------- the command


def test_no_gpu_is_one_line(tool: Callable[..., Any], tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    done = tool("bench", "softmax", env={"KINSPECT_DATA_DIR": str(tmp_path / "data")})
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("kinspect: error: no GPU is visible to torch in ")
    assert line.endswith("; `kinspect sweep` and `analyze` need none")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("softmax", "-b", "-p"), "-b and -p exclude each other"),
        (("softmax", "--compare", "cublas"), "'cublas' is not known"),
        (("softmax", "--config", "BLOCK"), "'BLOCK' is not KEY=VALUE"),
        (("softmax", "--tune", "none"), "is not a number of configurations"),
        (("softmax", "--cases", "nowhere.txt"), "nowhere.txt cannot be read"),
        (("softmax", "--style", "checker", "--format", "json"), "exclude each other"),
        (("softmax", "--cases", "a", "--", "-rows", "3"), "give one of them"),
        (("sofmax",), "did you mean softmax?"),
    ],
)
def test_wrong_use_is_one_line(
    tool: Callable[..., Any], args: tuple[str, ...], message: str
) -> None:
    done = tool("bench", *args)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert message in line


def test_a_damaged_history_is_told_and_the_kernel_runs(
    tool: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "results.sqlite").write_bytes(b"not a database at all" * 50)
    done = tool("bench", "softmax", env={"KINSPECT_DATA_DIR": str(tmp_path)})
    assert done.returncode == 2
    first, second = done.stderr.splitlines()
    assert "the history is damaged" in first
    assert "GPU" in second


def test_published_figures_reach_the_bundled_cases() -> None:
    """Every file of figures finds cases of the kernel that it names."""
    pytest.importorskip("triton")
    from kinspect.inspector.bench.checking import describe
    from kinspect.inspector.bench.suite import catalogue

    known = read_published()
    files = [catalogue.find(name) for name in sorted({entry.kernel for entry in known})]
    for kernel in files:
        found = describe([kernel])[kernel.path]
        assert not isinstance(found, str), found
        shown = [figures_for(known, kernel.name, "MI300X", case) for case in found.bench]
        assert any(shown), kernel.name
