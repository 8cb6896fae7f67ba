"""Captures the variants of one file: loads it, reads its cases, runs the front end on each.

Runs in a forked child. Each record is written at once: if a case crashes or hangs the front end,
the parent starts another child for the cases after it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..front_end_errors import front_end_error
from ..frontend import TritonKernels, definition, make_ttir, parameters
from ..launches.endings import retry_after
from ..launches.project import Project
from ..loading import LoadError, load
from ..lowering import UnknownOptionError, target
from ..records import Emit, error, note, one_line
from ..world import stubs
from ..world.device import activate
from .case import Case, CaseError, did_you_mean, read_case, specialize
from .selection import Selection, identity, not_for
from .space import (
    DERIVE,
    TUNING,
    PointSelection,
    read_tuning,
    select_points,
    stated_points,
)
from .stated_case import stated_case
from .stated_launch import stated_launch

CASES = "KINSPECT_CASES"
CONVENTION = (
    f"add {CASES}, a list of compile cases (see docs/guides/scripts.md), or say what to launch: "
    "--call 'function(T(1024, 1024))'"
)


def capture(request: dict[str, Any], emit: Emit) -> None:
    """Captures a file's variants.

    `request`: `path`, `archs`, `patterns`, `stubs` (modules to replace by stubs), `axes`, `points`
    (constexprs to compile with, in place of axes), `all_configs` (whether to sweep over TUNING),
    `max_configs` (of each case and target), `most_tuned` (of all of them together, where
    `max_configs` is None), `backend_options`, `finished` (numbers of the front-end runs that
    earlier children began) and `stated`, a case from the command line.
    `emit`: takes `{"begin": number, ...}` before each run of the front end, then `{"variant": ...}`
    for each point that it serves, or `{"error": ...}`.
    """
    path = os.path.abspath(request["path"])
    archs: list[str] = request["archs"]
    driver = activate(target(archs[0]))
    module = _loaded(path, list(request.get("stubs") or ()), emit)
    if module is None:
        return
    kernels = TritonKernels(module)
    try:
        raw_cases = _raw_cases(module, kernels, request)
        if not isinstance(raw_cases, (list, tuple)) or not raw_cases:
            emit(_no_cases(path, kernels, raw_cases))
            return
        selected = _selected(raw_cases, kernels, request)
        items, other_cases = _items(path, selected, archs)
        pairs = [item for item in items if isinstance(item, _Pair)]
        _select_points(pairs, module, kernels, request)
    except CaseError as failure:
        emit(error("capture", f"{path}: {failure.message}", failure.hint))
        return
    for text in _remarks(pairs):
        emit(note(text))
    finished = max(request.get("finished") or (0,))
    _compile_items(path, kernels, items, driver=driver, finished=finished, emit=emit)
    if not items:
        message, hint = not_for(other_cases, archs)
        emit(error("capture", f"{path}: {message}", hint))


def _loaded(path: str, stubbed: list[str], emit: Emit) -> Any:
    stubs.install(stubbed)
    try:
        return load(path)
    except LoadError as failure:
        retry = retry_after(failure, Project(path), stubbed)
        if retry is not None and retry.stubs:
            emit({"retry": {"stubs": list(retry.stubs)}})
        else:
            emit(error("capture", failure.message, failure.hint))
        return None


def _raw_cases(module: Any, kernels: TritonKernels, request: Mapping[str, Any]) -> Any:
    if request.get("stated") is not None:
        return [stated_case(request["stated"], kernels, request.get("patterns", ()))]
    return getattr(module, CASES, None)


def _selected(
    raw_cases: Sequence[Any], kernels: TritonKernels, request: Mapping[str, Any]
) -> list[tuple[int, Any]]:
    selection = Selection(request.get("patterns", ()), kernels.qualnames)
    selected = selection.selected(raw_cases)
    if not selected:
        raise CaseError(*selection.unmatched(raw_cases, request["path"], request.get("home")))
    return selected


def _items(
    path: str, selected: Sequence[tuple[int, Any]], archs: Sequence[str]
) -> tuple[list[_Pair | dict[str, Any]], list[Case]]:
    """The pairs of cases and targets in the file's order, and cases that are for other targets."""
    first_index: dict[tuple[str, str], int] = {}
    other_cases: list[Case] = []
    items: list[_Pair | dict[str, Any]] = []
    for index, raw in selected:
        try:
            case = read_case(index, raw)
            namesake = first_index.setdefault((case.kernel, case.name), index)
            if namesake != index:
                raise CaseError(
                    f"{CASES}[{namesake}] and {CASES}[{index}] of kernel {case.kernel!r} are both "
                    f"named {case.name!r}",
                    "give the second another name",
                )
        except CaseError as failure:
            message = f"{path}: {failure.message}"
            items.append(error("capture", message, failure.hint, *identity(raw)))
            continue
        targets = list(filter(case.is_for, archs))
        if not targets:
            other_cases.append(case)
        items += [_Pair(case, raw, arch) for arch in targets]
    return items, other_cases


def _compile_items(
    path: str,
    kernels: TritonKernels,
    items: Sequence[_Pair | dict[str, Any]],
    *,
    driver: Any,
    finished: int,
    emit: Emit,
) -> None:
    """Runs the front end over every pair's points, and emits the errors between them in order."""
    number = 0
    for item in items:
        if not isinstance(item, _Pair):
            if number >= finished:
                emit(item)
            continue
        case, arch = item.case, item.arch
        for point, option_sets in item.points.runs:
            number += 1
            if number <= finished:
                continue
            emit({"begin": number, "case": case.name, "kernel": case.kernel, "arch": arch})
            driver.target = target(arch)
            record = _record_of_point(path, kernels, case, point=point, arch=arch)
            if "variant" not in record and item.tuned:
                item.refused.append((point, record))
                continue
            for options in option_sets:
                emit(_with_options(record, options))
        _report_refused(item, emit)


@dataclass
class _Pair:
    """A case and a target."""

    case: Case
    raw: Mapping[str, Any]
    arch: str
    points: PointSelection = field(default_factory=PointSelection)
    tuned: bool = False
    refused: list[tuple[Mapping[str, Any], dict[str, Any]]] = field(default_factory=list)


def _select_points(
    pairs: Sequence[_Pair], module: Any, kernels: TritonKernels, request: Mapping[str, Any]
) -> None:
    """Selects every pair's points from the user's axes and, if asked for, the file's TUNING."""
    points = request.get("points") or ()
    tuned = bool(request.get("all_configs")) and request.get("stated") is None
    tuning = read_tuning(getattr(module, TUNING, None)) if tuned else {}
    max_points: int | None = None
    if tuning:
        max_points = request.get("max_configs")
        if max_points is None and request.get("most_tuned") is not None:
            max_points = max(1, request["most_tuned"] // max(1, len(pairs)))
    for pair in pairs:
        if points:
            pair.points = stated_points(
                points,
                constexprs=_constexprs(kernels, pair.case),
                tuning=read_tuning(getattr(module, TUNING, None)),
                case=pair.raw,
                derive=getattr(module, DERIVE, None),
            )
            continue
        pair.tuned = bool(tuning)
        pair.points = select_points(
            tuning,
            user_axes=request.get("axes") or {},
            constexprs=_constexprs(kernels, pair.case),
            options=frozenset(request.get("backend_options") or ()),
            max_points=max_points,
            case=pair.raw,
            derive=getattr(module, DERIVE, None) if tuning else None,
        )


def _remarks(pairs: Sequence[_Pair]) -> list[str]:
    texts: dict[str, None] = {}
    for pair in pairs:
        if not pair.tuned:
            continue
        points, kernel = pair.points, pair.case.kernel
        alike = sum(
            (p.case.kernel, p.points.count, p.points.total) == (kernel, points.count, points.total)
            for p in pairs
        )
        of_each = f", for each of {alike} cases and targets" if alike > 1 else ""
        if points.count < points.total:
            count, total = (n * points.host_factor for n in (points.count, points.total))
            texts[
                f"{kernel}: {count} of {total} configurations of {TUNING}{of_each} (--max-configs)"
            ] = None
        if points.unused_names:
            names = ", ".join(points.unused_names)
            texts[f"{kernel}: {TUNING} names {names}, which its code does not depend on"] = None
        varied = {name for point, _ in points.runs for name in point}
        fixed = [
            name
            for name, value in pair.case.constexprs.items()
            if name not in varied and value is not None
        ]
        if fixed:
            texts[
                f"{kernel}: {', '.join(fixed)} as the cases state them: each point is the code for"
                " sizes of which that holds"
            ] = None
    return list(texts)


def _report_refused(pair: _Pair, emit: Emit) -> None:
    if pair.tuned and not pair.points.runs:
        case = pair.case
        message = f"{DERIVE} refuses every point of {TUNING}"
        hint = f"mend {DERIVE}"
        emit(error("capture", message, hint, case.kernel, case.name, arch=pair.arch))
    if not pair.refused:
        return
    point, record = pair.refused[0]
    if len(pair.refused) == len(pair.points.runs):
        emit(record)
        return
    values = ", ".join(f"{name}={value}" for name, value in point.items())
    emit(
        note(
            f"{pair.case.kernel}[{pair.case.name}] on {pair.arch}: the front end refuses"
            f" {len(pair.refused)} of {len(pair.points.runs)} block configurations, e.g."
            f" {values}: {one_line(record['error']['message'])}"
        )
    )


def _with_options(record: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    if not options or "variant" not in record:
        return dict(record)
    variant = record["variant"]
    return {
        "variant": {
            **variant,
            "options": {**variant["options"], **options},
            "tuning": {**(variant["tuning"] or {}), **options},
        }
    }


def _constexprs(kernels: TritonKernels, case: Case) -> list[str]:
    kernel = kernels.by_name.get(case.kernel)
    declared = [p.name for p in parameters(kernel) if p.constexpr] if kernel is not None else []
    return [*declared, *(name for name in case.constexprs if name not in declared)]


def _record_of_point(
    path: str, kernels: TritonKernels, case: Case, *, point: Mapping[str, Any], arch: str
) -> dict[str, Any]:
    """The variant of a case at one point of its space, or the error of the front end."""

    def case_error(message: str, hint: str) -> dict[str, Any]:
        return error("capture", f"{path}: {message}", hint, kernel=case.kernel, case=case.name)

    try:
        kernel = _kernel_of(kernels, case)
        file, line = definition(kernel)
        case_at_point = replace(case, constexprs={**case.constexprs, **point})
        config = kernels.first_config(case.kernel)
        bound = specialize(case_at_point, parameters(kernel), config)
        launch = stated_launch(case_at_point, bound, moved=bool(point))
        variant = make_ttir(kernel, case_at_point, bound, arch)
    except CaseError as failure:
        return case_error(failure.message, failure.hint)
    except UnknownOptionError as failure:
        suggestion = did_you_mean(failure.names, failure.option_names)
        return case_error(
            f"case {case.name!r}: this Triton has no option {failure}{suggestion}",
            "its options are " + ", ".join(failure.option_names),
        )
    except Exception as failure:
        functions = kernels.reachable()
        name = ", ".join([case.name, *(f"{k}={v}" for k, v in point.items())])
        return front_end_error(
            failure, case.kernel, name, arch=arch, functions=functions, fallback=path
        )
    variant.update(
        kernel=case.kernel,
        case=case.name,
        qualname=kernel.fn.__qualname__,
        file=file,
        line=line,
        tuning=dict(point) or None,
        **launch,
    )
    return {"variant": variant}


def _kernel_of(kernels: TritonKernels, case: Case) -> Any:
    kernel = kernels.by_name.get(case.kernel)
    if kernel is None:
        names = sorted(kernels.by_name)
        suggestion = did_you_mean([case.kernel], names)
        raise CaseError(
            f"case {case.name!r}: the module has no @triton.jit kernel {case.kernel!r}{suggestion}",
            "its kernels are " + ", ".join(names),
        )
    return kernel


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
