"""Captures the variants of one file: load it, read its cases, run the front end on each.

All of it in a forked child. Each finding is written out at once: a case that crashes or hangs the
front end costs only itself, since the parent starts another child after it.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..failures import front_end_error
from ..frontend import TritonKernels, definition, make_ttir, parameters
from ..loading import LoadError, load
from ..lowering import UnknownOptionError, target
from ..records import Emit, error
from ..world.driver import activate
from .case import Case, CaseError, did_you_mean, read_case, specialize
from .selection import Selection, identity, not_for
from .typed import typed_case

CASES = "KINSPECT_CASES"
CONVENTION = (
    f"add {CASES}, a list of compile cases (the README shows one), or say what to launch: "
    "--call 'function(T(1024, 1024))'"
)


def capture(request: dict[str, Any], emit: Emit) -> None:
    """Captures a file's variants.

    Args:
        request: `path`, `archs`, `wanted`, `axes`, `finished` (numbers of the pairs of case and
            arch that earlier children came to) and `stated`, a case typed by the user.
        emit: takes `{"begin": n, ...}` before each pair, then `{"variant": ...}` or
            `{"error": ...}`.
    """
    path = os.path.abspath(request["path"])
    archs: list[str] = request["archs"]
    done = max(request.get("finished") or (0,))
    driver = activate(target(archs[0]))
    try:
        module = load(path)
    except LoadError as failure:
        emit(error("capture", failure.message, failure.hint))
        return
    kernels = TritonKernels(module)
    raw_cases = getattr(module, CASES, None)
    if request.get("stated") is not None:
        try:
            raw_cases = [typed_case(request["stated"], kernels, request.get("wanted", ()))]
        except CaseError as failure:
            emit(error("capture", f"{path}: {failure.message}", failure.hint))
            return
    if not isinstance(raw_cases, (list, tuple)) or not raw_cases:
        emit(_no_cases(path, kernels, raw_cases))
        return
    selection = Selection(request.get("wanted", ()), kernels.qualnames)
    asked = selection.taken(raw_cases)
    if not asked:
        message, hint = selection.unmatched(raw_cases)
        emit(error("capture", f"{path}: {message}", hint))
        return
    pair, faulty = 0, 0
    seen: dict[tuple[str, str], int] = {}
    elsewhere: list[Case] = []
    axes: Mapping[str, Sequence[Any]] = request.get("axes") or {}
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
        except CaseError as failure:
            faulty += 1
            if pair >= done:
                emit(error("capture", f"{path}: {failure.message}", failure.hint, *identity(raw)))
            continue
        meant = list(filter(case.wants, archs))
        if not meant:
            elsewhere.append(case)
        for arch, point in itertools.product(meant, points(axes, _constexprs(kernels, case))):
            pair += 1
            if pair <= done:
                continue
            emit({"begin": pair, "case": case.name, "kernel": case.kernel, "arch": arch})
            driver.target = target(arch)
            emit(_one(path, kernels, case, point, arch))
    if not pair and not faulty:
        message, hint = not_for(elsewhere, archs)
        emit(error("capture", f"{path}: {message}", hint))


def points(
    axes: Mapping[str, Sequence[Any]], constexprs: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """The combinations of the axes that are constexprs of a kernel; an empty one without any.

    The other axes are options, for which the front end need not run again: the host's business.
    """
    named = [name for name in axes if name in constexprs]
    for values in itertools.product(*(axes[name] for name in named)):
        yield dict(zip(named, values))


def _constexprs(kernels: TritonKernels, case: Case) -> list[str]:
    """Those that the case states, and those that it leaves to defaults or the autotuner."""
    kernel = kernels.by_name.get(case.kernel)
    declared = [p.name for p in parameters(kernel) if p.constexpr] if kernel is not None else []
    return [*declared, *(name for name in case.constexprs if name not in declared)]


def _one(
    path: str, kernels: TritonKernels, case: Case, point: Mapping[str, Any], arch: str
) -> dict[str, Any]:
    def wrong(message: str, hint: str) -> dict[str, Any]:
        return error("capture", f"{path}: {message}", hint, case.kernel, case.name)

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
        stated = replace(case, constexprs={**case.constexprs, **point})
        bound = specialize(stated, parameters(kernel), kernels.first_config(case.kernel))
        variant = make_ttir(kernel, stated, bound, arch)
    except CaseError as failure:
        return wrong(failure.message, failure.hint)
    except UnknownOptionError as failure:
        near = did_you_mean(failure.names, failure.known)
        return wrong(
            f"case {case.name!r}: this Triton has no option {failure}{near}",
            "its options are " + ", ".join(failure.known),
        )
    except Exception as failure:
        functions = kernels.reachable()
        name = ", ".join([case.name, *(f"{k}={v}" for k, v in point.items())])
        return front_end_error(failure, case.kernel, name, arch, functions, path)
    variant.update(
        kernel=case.kernel,
        case=case.name,
        qualname=kernel.fn.__qualname__,
        file=file,
        line=line,
        grid=list(case.grid) if case.grid is not None and not point else None,
        tuning=dict(point) or None,
    )
    return {"variant": variant}


def _no_cases(path: str, kernels: TritonKernels, raw: Any) -> dict[str, Any]:
    if raw is not None and not isinstance(raw, (list, tuple)):
        message = f"{path}: {CASES} is a {type(raw).__name__}, not a list of cases"
        return error("capture", message, "write it as a list of dicts")
    names = kernels.defined_here
    if not names:
        message = f"{path} defines no @triton.jit kernel"
        return error("capture", message, "name the file that defines the kernels")
    message = f"{path} does not say how to compile its kernels ({', '.join(names)})"
    return error("capture", message, CONVENTION)
