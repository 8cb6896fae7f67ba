"""Times the benchmark cases of a kernel file on a GPU; each result is checked before and after.

See `timing` for how a time is taken and `bench_oracle` for what a result is compared with.
"""

from __future__ import annotations

import difflib
import gc
import importlib
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from ..frontend import plain
from ..loading import LoadError
from ..records import Emit, one_line
from . import bench_device
from .bench_oracle import (
    Expected,
    Tolerance,
    UncheckedError,
    expected_of,
    tolerance_of,
    unfilled_memory_shows,
)
from .bench_others import MissingError, operator_of
from .bench_tuning import candidates, configurations_seen, default_config, known_names
from .kernel_file import Backend, backend_of, entries, fitting, interpretable, lacks, load_kernel
from .timing import ONCE, TUNING, Device, Gpu, Rule, time_call

NEEDS_NONE = "`kinspect sweep` and `analyze` need none"


@dataclass(frozen=True)
class Job:
    """How cases are to be run.

    Args:
        rule: when timing stops; None to launch once without a check or a time, for a profiler.
        config: replaces entries of the kernel's own configuration.
        compare: other operators to time, `torch` or `ck`.
        tune: how many configurations to try first; 0 for none.
    """

    rule: Rule | None = field(default_factory=Rule)
    config: Mapping[str, Any] = field(default_factory=dict)
    compare: tuple[str, ...] = ()
    tune: int = 0


class BrokenDeviceError(Exception):
    """The GPU does not answer any more: a kernel read or wrote where it must not."""


def run(request: dict[str, Any], emit: Emit) -> None:
    """Times cases, each a step.

    Args:
        request: `path`; `cases`, each with `name` and either `index` (of BENCH) or `case` (a dict),
            and optionally `config`; `run` (`time`, `once` or `profile`), `config`, `compare`,
            `tune` and `finished`.
        emit: takes `{"device": ..., "versions": ...}` once, and for each case
            `{"begin": n, "case": name}` and `{"result": {...}}`; or `{"problem", "hint"}`.
    """
    torch = importlib.import_module("torch")
    if not torch.cuda.is_available():
        emit({"problem": f"no GPU is visible to torch in {sys.executable}", "hint": NEEDS_NONE})
        return
    try:
        backend = backend_of("cuda")
        module = load_kernel(os.path.abspath(request["path"]))
        own = any("index" in job_case for job_case in request["cases"])
        table = entries(module, "BENCH") if own else []
        job = job_of(request)
        _see_to_names(module, job.config)
    except LoadError as error:
        emit({"problem": one_line(error.message), "hint": error.hint})
        return
    if not request["finished"]:
        emit(bench_device.describe(torch))
    device = Gpu(torch)
    for number, job_case in enumerate(request["cases"], start=1):
        if number in request["finished"]:
            continue
        case = table[job_case["index"]] if "case" not in job_case else dict(job_case["case"])
        case = {**case, "name": job_case["name"]}
        if job_case.get("config"):
            case["config"] = {**(case.get("config") or {}), **job_case["config"]}

        def begin(config: Mapping[str, Any] | None = None, n: int = number, c: Any = case) -> None:
            emit({"begin": n, "case": c["name"], "config": plain(config)})

        begin()
        try:
            result = measure(module, case, device, backend, job, begin)
        except BrokenDeviceError as error:
            emit({"result": {"case": case["name"], "status": "error", "message": str(error)}})
            emit({"again": True})  # the error stays with the process that it met
            return
        result["clocks"] = bench_device.clocks(torch)
        emit({"result": result})
        gc.collect()
        torch.cuda.empty_cache()


def job_of(request: Mapping[str, Any]) -> Job:
    """How a request wants its cases run."""
    rule = {"time": Rule(), "once": ONCE, "profile": None}[request["run"]]
    return Job(rule, dict(request["config"]), tuple(request["compare"]), int(request["tune"] or 0))


def measure(
    module: ModuleType,
    case: Mapping[str, Any],
    device: Device,
    backend: Backend,
    job: Job,
    begin: Callable[[Mapping[str, Any]], None] = lambda config: None,
) -> dict[str, Any]:
    """Checks and times one case.

    Args:
        module: the kernel file.
        case: what `make_inputs` and `work` take.
        device: what to time on.
        backend: whose options to keep.
        job: how.
        begin: called before each configuration that is tried.

    Returns:
        `case`, `status` (`ok`, `wrong`, `error` or `skipped`), `message`, `notes`, `seconds`; for
        `ok` also `times_us`, `flop`, `bytes`, `config`, `oracle`, `compare` and `tune`.

    Raises:
        BrokenDeviceError: the process cannot go on.
    """
    start = time.perf_counter()
    result: dict[str, Any] = {"case": case["name"], "status": "ok", "message": "", "notes": []}
    try:
        result.update(_work(module, case))
        _measure(module, case, device, backend, job, begin, result)
    except UncheckedError as error:
        message = f"not timed, for it cannot be checked: {error}"
        result.update(status="error", message=message, times_us=[])
    except BrokenDeviceError:
        raise
    except Exception as error:
        result.update(status="error", message=error_text(error), times_us=[])
        _see_that_it_works(device, result["message"])
    result["seconds"] = time.perf_counter() - start
    return result


def _measure(
    module: ModuleType,
    case: Mapping[str, Any],
    device: Device,
    backend: Backend,
    job: Job,
    begin: Callable[[Mapping[str, Any]], None],
    result: dict[str, Any],
) -> None:
    inputs = dict(module.make_inputs(dict(case), device=device.where))
    if job.config:
        inputs["config"] = {**(inputs.get("config") or {}), **job.config}
    reason = lacks(case, inputs, backend)
    if reason is not None:
        result.update(status="skipped", message=reason)
        return
    if backend.interpreted:
        inputs = interpretable(inputs)
    config_given = dict(inputs.get("config") or {})
    inputs = fitting(module, inputs, backend)
    dropped = sorted(set(config_given) - set(inputs.get("config") or {}))
    if dropped:
        result["notes"].append(f"left out, unknown to {backend.kind}: {', '.join(dropped)}")
    result["config"] = plain({**default_config(module, backend), **(inputs.get("config") or {})})
    if job.rule is None:
        module.launch(**inputs)
        device.synchronize()
        result["times_us"] = []
        return

    # The oracle comes first: the inputs are then as they were made, whatever the launch does.
    tolerance = tolerance_of(case, getattr(module, "CASES", None) or ())
    expected = expected_of(module, inputs, _out_of_memory())
    result["oracle"] = expected.oracle
    complaint, used = _first_launch(module, inputs, device, expected, tolerance)
    result["config"] = plain({**result["config"], **used})
    if complaint is not None:
        result.update(status="wrong", message=complaint, times_us=[])
        return
    if job.tune:
        config = _tuned(module, inputs, device, backend, job, begin, expected, tolerance, result)
        inputs = {**inputs, "config": config}
    times, last = time_call(device, lambda: module.launch(**inputs), job.rule)
    complaint = expected.complaint(last, tolerance)
    if complaint is not None:
        message = f"right at first, wrong after {len(times)} runs: {complaint}"
        result.update(status="wrong", message=message, times_us=[])
        return
    result["times_us"] = times
    del last
    result["compare"] = {
        operator: _compared(operator, module, inputs, device, job.rule, expected, tolerance)
        for operator in job.compare
    }


def _first_launch(
    module: ModuleType,
    inputs: Mapping[str, Any],
    device: Device,
    expected: Expected,
    tolerance: Tolerance,
) -> tuple[str | None, dict[str, Any]]:
    """Launches once, which compiles.

    Returns:
        What is wrong with the result, or None; and the configuration that was really used.
    """
    with unfilled_memory_shows(), configurations_seen(module) as configs:
        actual = module.launch(**inputs)
        device.synchronize()
    if not configs:
        return "launch ran no Triton kernel", {}
    return expected.complaint(actual, tolerance), max(configs, key=len)


def _tuned(
    module: ModuleType,
    inputs: Mapping[str, Any],
    device: Device,
    backend: Backend,
    job: Job,
    begin: Callable[[Mapping[str, Any]], None],
    expected: Expected,
    tolerance: Tolerance,
    result: dict[str, Any],
) -> dict[str, Any] | None:
    """The fastest of the default configuration and those that the file offers."""

    def mean(launch_inputs: Mapping[str, Any]) -> float:
        times, _ = time_call(device, lambda: module.launch(**launch_inputs), TUNING)
        return sum(times) / len(times)

    start: dict[str, Any] | None = inputs.get("config")
    default_us = mean(inputs)
    best, best_us = start, default_us
    used: dict[str, Any] = {}
    trials = refused = wrong = 0
    reasons: list[str] = []
    for config in candidates(module, backend, job.tune, result["config"]):
        config = {**config, **job.config}
        trial_inputs = {**inputs, "config": {**(start or {}), **config}}
        begin(trial_inputs["config"])
        trials += 1
        try:
            complaint, trial_config = _first_launch(
                module, trial_inputs, device, expected, tolerance
            )
            if complaint is not None:
                wrong += 1
                reasons.append(f"{_config_text(config)}: {complaint}")
                continue
            us = mean(trial_inputs)
        except Exception as error:  # too much LDS or shared memory, a shape it does not take, …
            refused += 1
            _see_that_it_works(device, f"{_config_text(config)}: {error_text(error)}")
            continue
        if us < best_us:
            best, best_us = trial_inputs["config"], us
            used = trial_config
    result["tune"] = {
        "tried": trials,
        "refused": refused,
        "wrong": wrong,
        "default_us": default_us,
        "fastest_us": best_us,
    }
    result["notes"] += [f"wrong result with {reason}" for reason in reasons[:3]]
    if used:
        result["config"] = plain(used)
    return best


def _compared(
    operator: str,
    module: ModuleType,
    inputs: Mapping[str, Any],
    device: Device,
    rule: Rule,
    expected: Expected,
    tolerance: Tolerance,
) -> dict[str, Any]:
    """Times of the other operator, or a note on why there are none."""
    try:
        call = operator_of(operator, module, inputs)
        result = call()
        device.synchronize()
        note = _other_note(operator, result, expected, tolerance)
        del result
        times, _ = time_call(device, call, rule)
    except MissingError as missing:
        return {"times_us": [], "note": str(missing)}
    except Exception as error:
        message = error_text(error)
        _see_that_it_works(device, f"{operator}: {message}")
        return {"times_us": [], "note": f"{operator} cannot do it: {message}"}
    return {"times_us": times, "note": note}


def _other_note(operator: str, result: Any, expected: Expected, tolerance: Tolerance) -> str | None:
    """Whether the other operator did the same job; its by-products and dtypes may differ."""
    complaint = expected.lenient_complaint(result, tolerance)
    return None if complaint is None else f"{operator}'s own result differs: {complaint}"


def _work(module: ModuleType, case: Mapping[str, Any]) -> dict[str, Any]:
    work = getattr(module, "work", None)
    figures = dict(work(dict(case))) if work is not None else {}
    return {"flop": figures.get("flop"), "bytes": figures.get("bytes")}


def _see_to_names(module: ModuleType, config: Mapping[str, Any]) -> None:
    option_names = known_names(module)
    for name in config:
        if name not in option_names:
            near = difflib.get_close_matches(name, option_names, n=1)
            hint = f"did you mean {near[0]}?" if near else "see TUNING in the kernel file"
            raise LoadError(f"--config: no kernel or backend has an option {name!r}", hint)


def _see_that_it_works(device: Device, message: str) -> None:
    try:
        device.synchronize()
    except Exception:
        raise BrokenDeviceError(message) from None


def _out_of_memory() -> tuple[type[BaseException], ...]:
    torch = importlib.import_module("torch")
    return (torch.cuda.OutOfMemoryError, MemoryError)


def error_text(error: BaseException) -> str:
    """An exception in one line: the innermost cause, which Triton's wrappers hide."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line for line in str(error).splitlines() if line.strip()]
    # CUDA's errors go on for lines about environment variables.
    text = one_line(lines[0]) if lines else ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _config_text(config: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in config.items())
