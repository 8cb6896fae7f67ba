"""Times the benchmark cases of a kernel file on a GPU; each result is checked before and after.

`bench_device` takes the times, `bench_oracle` has the expected results.

Chooses the configurations of a kernel file to time, and records those that `launch` uses.
"""

from __future__ import annotations

import difflib
import gc
import importlib
import math
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from ..cases.space import indices_of
from ..frontend import plain
from ..loading import LoadError
from ..records import Emit, one_line
from . import bench_device
from .bench_device import ONCE, TUNING, StoppingRule, TorchGpu, time_call
from .bench_oracle import ExpectedResult, UncheckedError, expected_of, tolerance_of
from .kernel_file import (
    Backend,
    backend_of,
    entries,
    fitting,
    innermost,
    interpretable,
    launches_watched,
    load_kernel,
    options_of,
    parameters_of,
    unfilled_memory,
    unsupported,
)
from .peer_operators import NoOperatorError, operator_of

NEEDS_NONE = "`kinspect sweep` and `analyze` need none"
MAX_WRONG_NOTES = 3
"""How many candidates with wrong results are noted."""


@dataclass(frozen=True)
class BenchJob:
    """How to run cases.

    Args:
        rule: when timing stops; None to launch once without a check or a time, for a profiler.
        config: entries that replace those of the kernel's own configuration.
        compare: other operators to time, `torch` or `ck`.
        tune: how many configurations to try first; 0 for none.
    """

    rule: StoppingRule | None = field(default_factory=StoppingRule)
    config: Mapping[str, Any] = field(default_factory=dict)
    compare: tuple[str, ...] = ()
    tune: int = 0


class BrokenDeviceError(Exception):
    """The GPU no longer responds, for example after a kernel accessed invalid memory."""


def run(request: dict[str, Any], emit: Emit) -> None:
    """Times cases, each a step.

    `request`: `path`; `cases`, each with `name` and either `index` (of BENCH) or `case` (a dict),
    and optionally `config`; `run` (`time`, `once` or `profile`), `config`, `compare`, `tune` and
    `finished`.
    `emit`: takes `{"device": ..., "versions": ...}` once, and for each case `{"begin": n, "case":
    name}` and `{"result": {...}}`; or `{"problem", "hint"}`.
    """
    torch = importlib.import_module("torch")
    if not torch.cuda.is_available():
        emit({"problem": f"no GPU is visible to torch in {sys.executable}", "hint": NEEDS_NONE})
        return
    try:
        backend = backend_of("cuda")
        module = load_kernel(os.path.abspath(request["path"]))
        uses_bench = any("index" in job_case for job_case in request["cases"])
        table = entries(module, "BENCH") if uses_bench else []
        job = job_of(request)
        _check_option_names(module, job.config)
    except LoadError as error:
        emit({"problem": one_line(error.message), "hint": error.hint})
        return
    if not request["finished"]:
        emit(bench_device.describe(torch))
    device = TorchGpu(torch)
    for number, job_case in enumerate(request["cases"], start=1):
        if number in request["finished"]:
            continue
        case = _case_of(job_case, table)

        def begin(
            config: Mapping[str, Any] | None, number: int = number, name: str = case["name"]
        ) -> None:
            emit({"begin": number, "case": name, "config": plain(config)})

        begin(None)
        try:
            result = measure(module, case, device=device, backend=backend, job=job, begin=begin)
        except BrokenDeviceError as error:
            emit({"result": {"case": case["name"], "status": "error", "message": str(error)}})
            emit({"again": True})  # a GPU error persists in this process
            return
        result["clocks"] = bench_device.clocks(torch)
        emit({"result": result})
        gc.collect()  # frees the case's memory on the GPU
        torch.cuda.empty_cache()


def _case_of(job_case: Mapping[str, Any], table: list[dict[str, Any]]) -> dict[str, Any]:
    """A case as `make_inputs` takes it, from the request's entry and the file's BENCH."""
    case = table[job_case["index"]] if "case" not in job_case else job_case["case"]
    case = {**case, "name": job_case["name"]}
    if job_case.get("config"):
        case["config"] = {**(case.get("config") or {}), **job_case["config"]}
    return case


def job_of(request: Mapping[str, Any]) -> BenchJob:
    """The job that a request describes."""
    rule = {"time": StoppingRule(), "once": ONCE, "profile": None}[request["run"]]
    return BenchJob(
        rule, dict(request["config"]), tuple(request["compare"]), int(request["tune"] or 0)
    )


def measure(
    module: ModuleType,
    case: Mapping[str, Any],
    device: TorchGpu,
    backend: Backend,
    job: BenchJob,
    begin: Callable[[Mapping[str, Any]], None] = lambda config: None,
) -> dict[str, Any]:
    """Checks and times one case of a kernel file; calls `begin` before each configuration tried.

    Returns:
        `case`, `status` (`ok`, `wrong`, `error` or `skipped`), `message`, `notes`, `seconds`; for
        `ok` also `times_us`, `flop`, `bytes`, `config`, `oracle`, `compare` and `tune`.

    Raises:
        BrokenDeviceError: the process cannot go on.
    """
    started = time.perf_counter()
    result: dict[str, Any] = {"case": case["name"], "status": "ok", "message": "", "notes": []}
    try:
        result.update(_work(module, case))
        _CaseRun(module, device, backend, job, begin, result).measure(case)
    except UncheckedError as error:
        message = f"not timed, for it cannot be checked: {error}"
        result.update(status="error", message=message, times_us=[])
    except BrokenDeviceError:
        raise
    except Exception as error:
        result.update(status="error", message=error_text(error), times_us=[])
        _check_device(device, result["message"])
    result["seconds"] = time.perf_counter() - started
    return result


@dataclass(frozen=True)
class _CaseRun:
    """The check and the timing of one case, whose results go into `result`."""

    module: ModuleType
    device: TorchGpu
    backend: Backend
    job: BenchJob
    begin: Callable[[Mapping[str, Any]], None]
    result: dict[str, Any]

    def measure(self, case: Mapping[str, Any]) -> None:
        inputs = dict(self.module.make_inputs(dict(case), device=self.device.torch_device))
        if self.job.config:
            inputs["config"] = {**(inputs.get("config") or {}), **self.job.config}
        reason = unsupported(case, inputs, self.backend)
        if reason is not None:
            self.result.update(status="skipped", message=reason)
            return
        inputs = self._fitting_inputs(inputs)
        if self.job.rule is None:
            self.module.launch(**inputs)
            self.device.synchronize()
            self.result["times_us"] = []
            return
        # Before the launch, which might change the inputs.
        tolerance = tolerance_of(case, getattr(self.module, "CASES", None) or ())
        expected = expected_of(self.module, inputs, tolerance)
        self.result["oracle"] = expected.oracle
        complaint, times = self._checked_times(inputs, expected, self.job.rule)
        if complaint is not None:
            self.result.update(status="wrong", message=complaint)
        self.result["times_us"] = times

    def _fitting_inputs(self, inputs: dict[str, Any]) -> dict[str, Any]:
        if self.backend.interpreted:
            inputs = interpretable(inputs)
        stated_config = dict(inputs.get("config") or {})
        inputs = fitting(self.module, inputs, self.backend)
        config = dict(inputs.get("config") or {})
        dropped = ", ".join(sorted(set(stated_config) - set(config)))
        if dropped:
            self.result["notes"].append(f"left out, unknown to {self.backend.kind}: {dropped}")
        self.result["config"] = plain({**default_config(self.module, self.backend), **config})
        return inputs

    def _checked_times(
        self, inputs: dict[str, Any], expected: ExpectedResult, rule: StoppingRule
    ) -> tuple[str | None, list[float]]:
        """The error in the results, if any, and the times (µs); times other operators, too."""
        complaint, used_config = self._first_launch(inputs, expected)
        self.result["config"] = plain({**self.result["config"], **used_config})
        if complaint is not None:
            return complaint, []
        if self.job.tune:
            inputs = {**inputs, "config": self._fastest_config(inputs, expected)}
        times, last_output = time_call(self.device, lambda: self.module.launch(**inputs), rule)
        complaint = expected.complaint(last_output)
        if complaint is not None:
            return f"right at first, wrong after {len(times)} runs: {complaint}", []
        del last_output  # frees its memory
        self.result["compare"] = {
            operator: self._time_other(operator, inputs, expected, rule)
            for operator in self.job.compare
        }
        return None, times

    def _first_launch(
        self, inputs: Mapping[str, Any], expected: ExpectedResult
    ) -> tuple[str | None, dict[str, Any]]:
        """Launches once, which compiles; the error in the result, and the configuration used."""
        with unfilled_memory("nan"), launched_configurations(self.module) as configs:
            actual = self.module.launch(**inputs)
            self.device.synchronize()
        if not configs:
            return "launch ran no Triton kernel", {}
        return expected.complaint(actual), max(configs, key=len)

    def _fastest_config(
        self, inputs: Mapping[str, Any], expected: ExpectedResult
    ) -> dict[str, Any] | None:
        """The fastest of the default configuration and the file's candidates."""
        fastest = inputs.get("config")
        default_us = fastest_us = self._mean_us(inputs)
        wrong: list[str] = []
        refused = 0
        tried = candidates(self.module, self.backend, self.job.tune, self.result["config"])
        for candidate in ({**config, **self.job.config} for config in tried):
            config = {**(inputs.get("config") or {}), **candidate}
            trial = {**inputs, "config": config}
            text = ", ".join(f"{name}={value}" for name, value in candidate.items())
            self.begin(config)
            try:
                complaint, used_config = self._first_launch(trial, expected)
                mean_us = self._mean_us(trial) if complaint is None else math.inf
            except Exception as error:  # for example too much LDS, or an unsupported shape
                refused += 1
                _check_device(self.device, f"{text}: {error_text(error)}")
                continue
            if complaint is not None:
                wrong.append(f"wrong result with {text}: {complaint}")
            elif mean_us < fastest_us:
                fastest, fastest_us = config, mean_us
                self.result["config"] = plain(used_config or self.result["config"])
        self.result["notes"] += wrong[:MAX_WRONG_NOTES]
        self.result["tune"] = {
            "tried": len(tried),
            "refused": refused,
            "wrong": len(wrong),
            "default_us": default_us,
            "fastest_us": fastest_us,
        }
        return fastest

    def _mean_us(self, inputs: Mapping[str, Any]) -> float:
        """The mean time of a launch in µs, exact enough to compare configurations."""
        times, _ = time_call(self.device, lambda: self.module.launch(**inputs), TUNING)
        return sum(times) / len(times)

    def _time_other(
        self, operator: str, inputs: Mapping[str, Any], expected: ExpectedResult, rule: StoppingRule
    ) -> dict[str, Any]:
        try:
            call = operator_of(operator, self.module, inputs)
            result = call()
            self.device.synchronize()
            complaint = expected.lenient_complaint(result)
            del result  # frees its memory
            times, _ = time_call(self.device, call, rule)
        except NoOperatorError as missing:
            return {"times_us": [], "note": str(missing)}
        except Exception as error:
            message = error_text(error)
            _check_device(self.device, f"{operator}: {message}")
            return {"times_us": [], "note": f"{operator} cannot do it: {message}"}
        note = None if complaint is None else f"{operator}'s own result differs: {complaint}"
        return {"times_us": times, "note": note}


def _work(module: ModuleType, case: Mapping[str, Any]) -> dict[str, Any]:
    """The case's `flop` and `bytes` as the file states them; None where it does not."""
    work = getattr(module, "work", None)
    figures = dict(work(dict(case))) if work is not None else {}
    return {"flop": figures.get("flop"), "bytes": figures.get("bytes")}


def _check_option_names(module: ModuleType, config: Mapping[str, Any]) -> None:
    option_names = known_names(module)
    for name in config:
        if name not in option_names:
            matches = difflib.get_close_matches(name, option_names, n=1)
            hint = f"did you mean {matches[0]}?" if matches else "see TUNING in the kernel file"
            raise LoadError(f"--config: no kernel or backend has an option {name!r}", hint)


def _check_device(device: TorchGpu, message: str) -> None:
    """Raises a `BrokenDeviceError` with this message if the GPU does not answer any more."""
    try:
        device.synchronize()
    except Exception:
        raise BrokenDeviceError(message) from None


def error_text(error: BaseException) -> str:
    """An exception in one line; CUDA's errors continue with advice about environment variables."""
    error = innermost(error)
    lines = [line for line in str(error).splitlines() if line.strip()]
    text = one_line(lines[0]) if lines else ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


SEED = 1
MAX_POINTS = 20_000
"""How many points of a larger space are sampled."""


def candidates(
    module: Any, backend: Backend, max_configs: int, default: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Configurations to time beside the default one, each once.

    The file's CONFIGS for the backend come first, then the points of the space that TUNING spans,
    nearest to the default first: distant ones have large tiles, which take minutes to compile and
    seldom fit. The order is deterministic.
    """
    configs: dict[str, dict[str, Any]] = {}

    def add(config: Mapping[str, Any]) -> None:
        accepted = fitting(module, {"config": config}, backend)["config"]
        configs.setdefault(repr(sorted(accepted.items())), accepted)

    stated = default_config(module, backend)
    if stated:
        add(stated)
    space = {name: list(values) for name, values in (getattr(module, "TUNING", None) or {}).items()}
    for point in sorted(
        _points(space, default), key=lambda point: _distance(space, point, default)
    ):
        if len(configs) >= max_configs:
            break
        add(point)
    return list(configs.values())[:max_configs]


def _points(space: Mapping[str, list[Any]], default: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The points of a space in random order."""
    sizes = [len(values) for values in space.values()]
    size = math.prod(sizes) if space else 0
    sample = random.Random(SEED).sample(range(size), min(size, MAX_POINTS))
    points = [
        {name: values[i] for i, (name, values) in zip(indices_of(number, sizes), space.items())}
        for number in sample
    ]
    if size > MAX_POINTS and all(default.get(name) in values for name, values in space.items()):
        default_point = {name: default[name] for name in space}
        points += [
            {**default_point, name: value} for name, values in space.items() for value in values
        ]
    return points


def _distance(
    space: Mapping[str, list[Any]], point: Mapping[str, Any], default: Mapping[str, Any]
) -> int:
    """Distance of a point from `default`: steps along the lists of values, summed over names."""
    return sum(
        abs(values.index(point[name]) - values.index(default[name]))
        for name, values in space.items()
        if default.get(name) in values
    )


def default_config(module: Any, backend: Backend) -> dict[str, Any]:
    """The file's default for the backend; empty where it has none, or one for each shape."""
    stated = getattr(module, "CONFIGS", None)
    if isinstance(stated, Mapping):
        config = stated.get("cuda" if backend.interpreted else backend.kind)
        if isinstance(config, Mapping) and not any(
            isinstance(value, Mapping) for value in config.values()
        ):
            return dict(config)
    return {}


def known_names(module: Any) -> list[str]:
    """The names that a configuration of this file may have: parameters, options, its own."""
    return sorted(parameters_of(module) | _own_names(module))


def _own_names(module: Any) -> set[str]:
    """The options of all backends, and the names in the file's TUNING and CONFIGS."""
    names = set(options_of("amd") | options_of("nvidia"))
    names.update(getattr(module, "TUNING", None) or ())
    stated = getattr(module, "CONFIGS", None)
    for config in stated.values() if isinstance(stated, Mapping) else ():
        names.update(config if isinstance(config, Mapping) else ())
    return names


@contextmanager
def launched_configurations(module: Any) -> Iterator[list[dict[str, Any]]]:
    """Collects the configuration of every kernel that is launched inside the context."""
    names = _own_names(module)
    configs: list[dict[str, Any]] = []

    def collect(function: Any, kwargs: Mapping[str, Any]) -> None:
        configs.append({name: value for name, value in kwargs.items() if name in names})

    with launches_watched(collect):
        yield configs
