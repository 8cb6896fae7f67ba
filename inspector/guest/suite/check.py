"""Launches the CASES of a kernel file and compares them with its reference.

A check must not be deceived by
    - memory that happens to hold the right values: memory that `launch` allocates without filling
      it is filled with NaN (or the largest integer) first;
    - a `launch` that launches nothing, or returns an input as its result;
    - inputs that `launch` changes: the reference works on copies made before;
    - a result of another dtype or shape, unexpected NaN, or a missing NaN.
"""

from __future__ import annotations

import fnmatch
import importlib
import os
import time
import traceback
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from ..loading import LoadError
from ..records import Emit, one_line
from .compare import WrongError, compare, have_same_values
from .kernel_file import (
    Backend,
    backend_of,
    check_tolerances,
    deep_copy,
    entries,
    fitting,
    innermost,
    interpretable,
    launches_watched,
    load_kernel,
    tensors_of,
    unfilled_memory,
    unsupported,
)

MAX_TRACEBACK = 8000


def run(request: dict[str, Any], emit: Emit) -> None:
    """Checks a kernel file, each case a step.

    `request`: `path`, `device` (`cpu`, `cuda` or `emulated`), `arch` and `emulator` (the emulated
    GPU, the command of the process that executes launches), `cases` (lists of fnmatch patterns: one
    of each list must match), `fast` (whether to leave out slow cases), `threads` (of PyTorch),
    `time_limit` (seconds), `finished`.
    `emit`: takes `{"device": {...}}` and `{"cases": [names of all]}` once, and for each case
    `{"begin": n, "case": name}` and `{"result": {...}}`; or `{"problem", "hint"}`.
    """
    torch = importlib.import_module("torch")
    torch.set_num_threads(int(request["threads"]))
    try:
        backend = backend_of(request["device"], request.get("arch") or "")
    except LoadError as error:
        emit({"problem": error.message, "hint": error.hint, "device_missing": True})
        return
    if backend.emulated:
        _emulate(request, backend)
    try:
        module = load_kernel(os.path.abspath(request["path"]))
        cases = entries(module, "CASES")
        check_tolerances(request["path"], cases)
    except LoadError as error:
        emit({"problem": one_line(error.message), "hint": error.hint})
        return
    if not request["finished"]:
        emit({"device": _device(backend)})
        emit({"cases": [case["name"] for case in cases]})
    for number, case in enumerate(selected_cases(cases, request), start=1):
        if number in request["finished"]:
            continue
        emit({"begin": number, "case": case["name"]})
        emit({"result": check_case(module, case, backend)})
        if not _device_works(backend):
            # A GPU's error persists in the process.
            emit({"again": True})
            return


def _emulate(request: Mapping[str, Any], backend: Backend) -> None:
    driver = importlib.import_module("..world.device", __package__)
    executing = importlib.import_module("..emulation.executor", __package__)
    process = importlib.import_module("..emulation.process", __package__)

    def report(launch: dict[str, Any]) -> None:
        for trouble in launch["reply"]["troubles"]:
            site = f"{os.path.basename(trouble['file'] or '?')}:{trouble['source_line']}"
            raise WrongError(
                f"{launch['kernel']}, {site}: {trouble['kind']}: {trouble['detail']} "
                f"({trouble['instruction']}, line {trouble['line']} of its assembly)"
            )

    executor = executing.Executor(
        backend.arch,
        process.EmulatorProcess(request["emulator"]),
        report=report,
        limit=float(request["time_limit"]),
    )
    driver.activate(executor.target)
    executor.install()


def selected_cases(cases: list[dict[str, Any]], request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The cases that the request selects."""
    groups = request["cases"]
    return [
        case
        for case in cases
        if not (request["fast"] and case.get("slow"))
        and all(any(fnmatch.fnmatchcase(case["name"], w) for w in group) for group in groups)
    ]


def check_case(module: ModuleType, case: Mapping[str, Any], backend: Backend) -> dict[str, Any]:
    """Checks one case.

    Returns:
        `case`, `status` (`passed`, `failed`, `error` or `skipped`), `message`, `seconds` of the
        launch (with compilation), `atol`, `rtol`, and as far as they are known `max_abs`,
        `max_rel`, `share` (the greatest error as a share of the allowed one) and `upcast` (whether
        bfloat16 inputs were passed as float32).
    """
    start = time.perf_counter()
    result: dict[str, Any] = {
        "case": case["name"],
        "atol": case.get("atol"),
        "rtol": case.get("rtol"),
    }
    try:
        atol, rtol = float(case["atol"]), float(case["rtol"])
        inputs = module.make_inputs(dict(case), device=backend.device)
        reason = unsupported(case, inputs, backend)
        if reason is not None:
            result.update(status="skipped", message=reason)
            return result
        result["upcast"] = backend.interpreted and _has_bfloat16(inputs)
        if backend.interpreted:
            inputs = interpretable(inputs)
        inputs = fitting(module, inputs, backend)
        result.update(_check_result(module, inputs, backend, atol, rtol))
        result["status"] = "passed"
    except WrongError as wrong:
        result.update(wrong.figures, status="failed", message=str(wrong))
    except Exception as error:
        cause = innermost(error)
        result.update(
            status="error",
            message=f"{type(cause).__name__}: {one_line(cause)}",
            detail=traceback.format_exc()[-MAX_TRACEBACK:],
        )
    finally:
        result.setdefault("seconds", time.perf_counter() - start)
    return result


def _check_result(
    module: ModuleType, inputs: dict[str, Any], backend: Backend, atol: float, rtol: float
) -> dict[str, Any]:
    originals = deep_copy(inputs)
    start = time.perf_counter()
    launched: list[Any] = []
    with launches_watched(lambda kernel, _: launched.append(kernel)), unfilled_memory("nan"):
        actual = module.launch(**inputs)
        _synchronize(backend)
    seconds = time.perf_counter() - start
    expected = module.reference(**deep_copy(originals))
    figures: dict[str, Any] = {"seconds": seconds}
    _check_independence(actual, inputs, originals, launched)
    figures.update(compare(actual, expected, atol, rtol))
    if _has_nan(expected):
        # Memory that was never written would look right where NaN is: fill it with zeros instead.
        with unfilled_memory("zero"):
            actual = module.launch(**deep_copy(originals))
            _synchronize(backend)
        compare(actual, expected, atol, rtol)
    return figures


def _check_independence(actual: Any, inputs: Any, originals: Any, launched: list[Any]) -> None:
    """Checks that a kernel made the result, and that the inputs are unchanged.

    An input may be changed if it is a result too: then the operation works in place.
    """
    results = [tensor for _, tensor in tensors_of(actual)]
    if not launched and any(tensor.numel() for tensor in results):
        raise WrongError("launch ran no Triton kernel")
    returned = {_storage(tensor) for tensor in results if tensor.numel()}
    tensors_before = dict(tensors_of(originals))
    for name, tensor in tensors_of(inputs):
        changed = not have_same_values(tensor, tensors_before[name])
        if changed and _storage(tensor) not in returned:
            raise WrongError(f"launch changed its input {name}, which it does not return")
        if not changed and tensor.numel() and _storage(tensor) in returned:
            raise WrongError(f"launch returned its input {name} as it was")


def _storage(tensor: Any) -> int:
    """The address by which two tensors in the same memory are recognised."""
    return int(tensor.untyped_storage().data_ptr())


def _has_nan(value: Any) -> bool:
    return any(
        tensor.is_floating_point() and bool(tensor.float().isnan().any())
        for _, tensor in tensors_of(value)
    )


def _has_bfloat16(inputs: Mapping[str, Any]) -> bool:
    """Whether a tensor of the inputs, or a dtype that they name, is bfloat16."""
    torch = importlib.import_module("torch")
    return any(t.dtype == torch.bfloat16 for _, t in tensors_of(inputs)) or any(
        value is torch.bfloat16 for value in inputs.values()
    )


def _synchronize(backend: Backend) -> None:
    if not backend.interpreted and not backend.emulated:
        importlib.import_module("torch").cuda.synchronize()


def _device_works(backend: Backend) -> bool:
    """Whether the device still answers after a launch; a GPU reports its faults only then."""
    try:
        _synchronize(backend)
    except Exception:
        return False
    return True


def _device(backend: Backend) -> dict[str, Any]:
    return {
        "kind": "emulated" if backend.emulated else backend.device,
        "backend": backend.kind,
        "name": backend.name,
        "arch": backend.arch,
        "torch": str(importlib.import_module("torch").__version__),
        "triton": str(importlib.import_module("triton").__version__),
    }
