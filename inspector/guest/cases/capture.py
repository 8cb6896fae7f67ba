"""Captures the variants of one file: load it, read its cases, run the front end on each.

All of it in a forked child. Each finding is written out at once, as a line of JSON, so that a case
that crashes or hangs the front end costs only itself: the parent starts another child after it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from ..frontend import TritonKernels, definition, make_ttir, parameters
from ..lowering import UnknownOptionError, target
from ..world.driver import activate
from .case import Case, CaseError, did_you_mean, read_case, specialize
from .loading import LoadError, load
from .selection import Selection, identity, not_for

CASES = "KINSPECT_CASES"
CONVENTION = f"add {CASES}, a list of compile cases (the README shows one)"

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
        emit(_error("capture", error.message, error.hint))
        return
    kernels = TritonKernels(module)
    raw_cases = getattr(module, CASES, None)
    if not isinstance(raw_cases, (list, tuple)) or not raw_cases:
        emit(_no_cases(path, kernels, raw_cases))
        return
    selection = Selection(request.get("wanted", ()), kernels.qualnames)
    asked = selection.taken(raw_cases)
    if not asked:
        message, hint = selection.unmatched(raw_cases)
        emit(_error("capture", f"{path}: {message}", hint))
        return
    pair, faulty = 0, 0
    seen: dict[tuple[str, str], int] = {}
    elsewhere: list[Case] = []
    for index, raw in asked:
        try:
            case = read_case(index, raw)
            first = seen.setdefault((case.kernel, case.name), index)
            if first != index:
                raise CaseError(
                    f"{CASES}[{first}] and {CASES}[{index}] of kernel {case.kernel!r} are both "
                    f"named {case.name!r}",
                    "give the second another name",
                )
        except CaseError as error:
            faulty += 1
            if pair >= done:
                emit(_error("capture", f"{path}: {error.message}", error.hint, *identity(raw)))
            continue
        meant = list(filter(case.wants, archs))
        if not meant:
            elsewhere.append(case)
        for arch in meant:
            pair += 1
            if pair <= done:
                continue
            emit({"begin": pair, "case": case.name, "kernel": case.kernel, "arch": arch})
            driver.target = target(arch)
            emit(_one(path, kernels, case, arch))
    if not pair and not faulty:
        message, hint = not_for(elsewhere, archs)
        emit(_error("capture", f"{path}: {message}", hint))


def _one(path: str, kernels: TritonKernels, case: Case, arch: str) -> dict[str, Any]:
    def wrong(message: str, hint: str) -> dict[str, Any]:
        return _error("capture", f"{path}: {message}", hint, case.kernel, case.name)

    kernel = kernels.by_name.get(case.kernel)
    if kernel is None:
        known = sorted(kernels.by_name)
        near = did_you_mean([case.kernel], known)
        return wrong(
            f"case {case.name!r}: the module has no @triton.jit kernel {case.kernel!r}{near}",
            "its kernels are " + ", ".join(known),
        )
    try:
        file, line = definition(kernel)
        bound = specialize(case, parameters(kernel), kernels.first_config(case.kernel))
        variant = make_ttir(kernel, case, bound, arch)
    except CaseError as error:
        return wrong(error.message, error.hint)
    except UnknownOptionError as error:
        near = did_you_mean(error.names, error.known)
        return wrong(
            f"case {case.name!r}: this Triton has no option {error}{near}",
            "its options are " + ", ".join(error.known),
        )
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
    record = _error(
        "frontend",
        f"{type(cause).__name__}: {text}",
        "mend the kernel at that line, or the case",
        case.kernel,
        case.name,
    )
    # The host names the targets that fail alike.
    record["error"].update(place=place, arch=arch)
    return record


def _no_cases(path: str, kernels: TritonKernels, raw: Any) -> dict[str, Any]:
    if raw is not None and not isinstance(raw, (list, tuple)):
        message = f"{path}: {CASES} is a {type(raw).__name__}, not a list of cases"
        return _error("capture", message, "write it as a list of dicts")
    names = kernels.defined_here
    if not names:
        message = f"{path} defines no @triton.jit kernel"
        return _error("capture", message, "name the file that defines the kernels")
    message = f"{path} does not say how to compile its kernels ({', '.join(names)})"
    return _error("capture", message, CONVENTION)


def _error(
    stage: str, message: str, hint: str, kernel: str | None = None, case: str | None = None
) -> dict[str, Any]:
    return {
        "error": {
            "stage": stage,
            "message": message,
            "hint": hint,
            "kernel": kernel,
            "case": case,
            "place": None,
            "arch": None,
        }
    }
