"""Captures the variants of one file: load it, read its cases, run the front end on each.

All of it in a forked child. Each finding is written out at once, as a line of JSON, so that a case
that crashes or hangs the front end costs only itself: the parent starts another child after it.
"""

# ruff: noqa: TID251  (relative imports: in the guest this package goes by another name)

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from .cases import Case, CaseError, did_you_mean, read_case, specialize
from .driver import activate
from .frontend import TritonKernels, definition, make_ttir, parameters
from .loading import LoadError, load
from .lowering import UnknownOptionError, target

CASES = "KINSPECT_CASES"
CONVENTION = f"add {CASES}, a list of compile cases (kinspect kernels show NAME prints examples)"

Emit = Callable[[dict[str, Any]], None]


def capture_file(request: dict[str, Any], done: int, output: str) -> None:
    """Captures a file's variants, skipping the first `done` pairs of case and arch.

    Writes to the file `output` one JSON object per line: `{"begin": n, ...}` before each pair,
    then `{"variant": ...}` or `{"error": ...}`; last, `{"end": true}`.
    """

    def emit(record: dict[str, Any]) -> None:
        # Opened anew each time: while the user's code runs, no descriptor of ours is open.
        with open(output, "a", encoding="utf-8") as stream:
            stream.write(json.dumps(record) + "\n")

    _capture(request, done, emit)
    emit({"end": True})


def _capture(request: dict[str, Any], done: int, emit: Emit) -> None:
    path = os.path.abspath(request["path"])
    archs: list[str] = request["archs"]
    driver = activate(target(archs[0]))
    try:
        module = load(path)
    except LoadError as error:
        emit(_error(None, "capture", error.message, error.hint))
        return
    kernels = TritonKernels(module)
    raw_cases = getattr(module, CASES, None)
    wanted = request.get("kernel")
    if wanted is not None and wanted not in kernels.by_name:
        known = sorted(kernels.by_name)
        message = f"{path} has no @triton.jit kernel {wanted!r}{did_you_mean([wanted], known)}"
        emit(_error(wanted, "capture", message, "its kernels are " + (", ".join(known) or "none")))
        return
    if not isinstance(raw_cases, (list, tuple)):
        emit(_no_cases(path, kernels, raw_cases))
        return
    pair = 0
    for index, raw in enumerate(raw_cases):
        try:
            case = read_case(index, raw)
        except CaseError as error:
            if pair >= done and wanted is None:
                emit(_error(None, "capture", f"{path}: {error.message}", error.hint))
            continue
        if wanted is not None and case.kernel != wanted:
            continue
        for arch in filter(case.wants, archs):
            pair += 1
            if pair <= done:
                continue
            emit({"begin": pair, "case": case.name, "kernel": case.kernel, "arch": arch})
            driver.target = target(arch)
            emit(_one(path, kernels, case, arch))


def _one(path: str, kernels: TritonKernels, case: Case, arch: str) -> dict[str, Any]:
    kernel = kernels.by_name.get(case.kernel)
    if kernel is None:
        known = sorted(kernels.by_name)
        message = (
            f"{path}: case {case.name!r}: the module has no @triton.jit kernel {case.kernel!r}"
            f"{did_you_mean([case.kernel], known)}"
        )
        return _error(case.kernel, "capture", message, "its kernels are " + ", ".join(known))
    try:
        file, line = definition(kernel)
        variant = make_ttir(kernel, case, specialize(case, parameters(kernel)), arch)
    except CaseError as error:
        return _error(case.kernel, "capture", f"{path}: {error.message}", error.hint)
    except UnknownOptionError as error:
        near = did_you_mean(error.names, error.known)
        message = f"{path}: case {case.name!r}: this Triton has no option {error}{near}"
        return _error(case.kernel, "capture", message, "its options are " + ", ".join(error.known))
    except Exception as error:
        return _front_end_error(path, kernels, case, arch, error)
    variant.update(
        kernel=case.kernel,
        case=case.name,
        qualname=kernel.fn.__qualname__,
        file=file,
        line=line,
        grid=list(case.grid) if case.grid is not None else None,
    )
    return {"variant": variant}


def _front_end_error(
    path: str, kernels: TritonKernels, case: Case, arch: str, error: Exception
) -> dict[str, Any]:
    """The innermost cause, at the line that Triton's innermost CompilationError points to."""
    cause: BaseException = error
    place = path
    while True:
        line = getattr(getattr(cause, "node", None), "lineno", None)
        place = kernels.place(getattr(cause, "src", None), line) or place
        if cause.__cause__ is None:
            break
        cause = cause.__cause__
    text = getattr(cause, "error_message", None) or str(cause) or type(cause).__name__
    text = " ".join(str(text).split())
    message = f"{place}: case {case.name!r} for {arch}: {type(cause).__name__}: {text}"
    return _error(case.kernel, "frontend", message, "mend the kernel at that line, or the case")


def _no_cases(path: str, kernels: TritonKernels, raw: Any) -> dict[str, Any]:
    if raw is not None:
        message = f"{path}: {CASES} is a {type(raw).__name__}, not a list of cases"
        return _error(None, "capture", message, "write it as a list of dicts")
    names = kernels.defined_here
    if not names:
        message = f"{path} defines no @triton.jit kernel"
        return _error(None, "capture", message, "name the file that defines the kernels")
    message = f"{path} does not say how to compile its kernels ({', '.join(names)})"
    return _error(None, "capture", message, CONVENTION)


def _error(kernel: str | None, stage: str, message: str, hint: str) -> dict[str, Any]:
    return {"error": {"kernel": kernel, "stage": stage, "message": message, "hint": hint}}
