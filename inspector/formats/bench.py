"""A benchmark as a document: one line per case, then messages, notes and sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from ..bench.suite.bench_results import OK, SKIPPED, Bench, Timed, ratio
from ..explain import view
from ..present.document import Column, Columns, Document, Section, Span, paragraphs, table


def document(bench: Bench) -> Document:
    """The table, then every message, note and figure of others."""
    title = (Span(bench.kernel, "strong"), Span(f"  {device_of(bench)}"))
    notes = paragraphs((*_messages_and_notes(bench), summary(bench)), "weak")
    cases = table(
        _columns(bench), bench.cases, lambda case: "" if case.status in (OK, SKIPPED) else "bad"
    )
    return (Section((cases, *notes), title, is_subject=True),)


def device_of(bench: Bench) -> str:
    """The device and the versions of what ran on it."""
    gpu = bench.gpu
    if gpu is None:
        return "no GPU"
    units = "CUs" if gpu.backend == "hip" else "SMs"
    words = [gpu.name]
    if gpu.arch:
        words.append(gpu.arch)
    if gpu.compute_units:
        words.append(f"{gpu.compute_units} {units}")
    labels = {"torch": "torch", "triton": "Triton", "driver": "driver"}
    words += [f"{labels[key]} {bench.versions[key]}" for key in labels if bench.versions.get(key)]
    return "  ".join(words)


def summary(bench: Bench) -> str:
    """Geometric means and counts."""
    clauses = []
    best, mean = bench.best_us(), bench.mean_us()
    if mean is not None and best is not None:
        count = view.plural(len(bench.timed), "case")
        clauses.append(f"geometric mean over {count}: {micro(mean)} µs, best {micro(best)} µs")
        for competitor in _competitors(bench):
            speed_up = bench.ratio_to(competitor)
            if speed_up is not None:
                clauses.append(f"{speed_up:.2f} × as fast as {competitor}")
    elif bench.mode == "profile":
        launched = sum(case.status == OK for case in bench.cases)
        clauses.append(f"launched {view.plural(launched, 'case')} once each, without check or time")
    for status in ("wrong", "error", "crashed", "skipped"):
        cases_with_status = sum(case.status == status for case in bench.cases)
        if cases_with_status:
            clauses.append(f"{cases_with_status} {status}")
    return ", ".join(clauses) or "nothing was timed"


def micro(us: float) -> str:
    """A time in µs with about four significant digits."""
    return f"{us:.0f}" if us >= 1000 else f"{us:.1f}" if us >= 100 else f"{us:.2f}"


def _columns(bench: Bench) -> Columns:
    others: list[tuple[Column, Callable[[Timed], str]]] = []
    for competitor in _competitors(bench):
        others += [
            (Column(f"{competitor} µs", right=True, rank=1), partial(_competitor_us, competitor)),
            (Column(f"× {competitor}", right=True), partial(_ratio, competitor)),
        ]
    return (
        (Column("#", right=True), lambda case: str(case.number)),
        (Column("case", shrinks=True), lambda case: case.name),
        (Column("best µs", right=True), lambda case: _micros(case, "best")),
        (Column("mean µs", right=True), lambda case: _micros(case, "mean")),
        (Column("±", right=True, rank=5), _error),
        (Column("slowest µs", right=True, rank=6), lambda case: _micros(case, "slowest")),
        (
            Column("runs", right=True, rank=7),
            lambda case: str(case.summary.runs) if case.summary else "",
        ),
        (Column("TFLOPS", right=True, rank=2), lambda case: _rate(case, "tflops")),
        (Column("GiB/s", right=True, rank=2), lambda case: _rate(case, "gib_per_s")),
        *others,
        (Column("before µs", right=True, rank=3), _earlier_us),
        (Column("published µs", right=True, rank=4), _published),
        ("", lambda case: "" if case.status == OK else case.status),
    )


def _competitors(bench: Bench) -> list[str]:
    return list(
        dict.fromkeys(competitor.name for case in bench.cases for competitor in case.others)
    )


def _micros(case: Timed, name: str) -> str:
    summary = case.summary
    return micro(getattr(summary, name)) if summary is not None else ""


def _error(case: Timed) -> str:
    summary = case.summary
    if summary is None or summary.error is None:
        return ""
    return f"{100 * summary.error / summary.mean:.2f}%"


def _rate(case: Timed, name: str) -> str:
    summary = case.summary
    value = getattr(case, name)(summary.mean) if summary is not None else None
    return "" if value is None else f"{value:.1f}" if value >= 10 else f"{value:.3g}"


def _competitor_us(name: str, case: Timed) -> str:
    summary = next((other.summary for other in case.others if other.name == name), None)
    return micro(summary.mean) if summary is not None else ""


def _ratio(name: str, case: Timed) -> str:
    value = ratio(case, name)
    return "" if value is None else f"{value:.2f}"


def _earlier_us(case: Timed) -> str:
    return micro(case.before.mean_us) if case.before is not None and case.times else ""


def _published(case: Timed) -> str:
    figures = [figure.us for figure in case.published if figure.us is not None]
    return micro(figures[0]) if figures else ""


def _messages_and_notes(bench: Bench) -> Iterator[str]:
    for case in bench.cases:
        if case.message:
            yield f"{case.name}: {case.status}: {case.message}"
        if case.tune is not None:
            yield f"{case.name}: {tuned(case)}"
        for note in case.notes:
            yield f"{case.name}: {note}"
        if case.oracle not in (None, "reference"):
            yield f"{case.name}: checked against {case.oracle}: memory is too small for the whole"
    for competitor in _competitors(bench):
        notes: dict[str, list[str]] = {}
        for case in bench.cases:
            for timing in case.others:
                if timing.name == competitor and timing.note:
                    notes.setdefault(timing.note, []).append(case.name)
        for note, names in notes.items():
            yield f"{note} ({', '.join(names[:3])}{', …' if len(names) > 3 else ''})"
    for case in bench.cases:
        for figure in case.published if case.times else ():
            rate = f", {figure.tflops:g} TFLOPS" if figure.tflops is not None else ""
            us = f"{figure.us:g} µs" if figure.us is not None else ""
            yield f"{case.name}: {figure.label} {us}{rate} ({figure.source})"


def tuned(case: Timed) -> str:
    """The result of tuning in words."""
    tune = case.tune or {}
    gain = tune["default_us"] / tune["fastest_us"]
    text = f"{tune['tried']} configurations tried"
    if tune["refused"]:
        text += f", {tune['refused']} could not be launched"
    if tune["wrong"]:
        text += f", {tune['wrong']} gave wrong results"
    config = ", ".join(f"{name}={value}" for name, value in case.config.items())
    if gain <= 1.0:
        return f"{text}; none was faster than the default ({config})"
    return f"{text}; the fastest is {gain:.2f} × as fast as the default: {config}"
