"""Which layer of two Tritons is responsible for a figure, as a document and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from msgspec import to_builtins

from ..compare.blame.blamed_layers import COMPILE_SECONDS, Blame, Change, Layer, Step, Verdict
from ..explain.time_view import difference
from ..metrics.given_metrics import US as TIME_US
from ..present.document import Column, Columns, Document, Section, Span, Table, paragraphs, table

SCHEMA_VERSION = 1
LAYER_NAMES: Mapping[Layer, str] = {
    "front_end": "the front end (Python to TTIR)",
    "option_default": "the default of an option or a switch",
    "ttgir": "the passes on TTGIR",
    "llvm_ir": "the translation to LLVM IR or LLVM's optimiser",
    "llvm_flag": "flags or attributes that Triton gives LLVM",
    "llvm": "LLVM's code generator",
}
_SHORT: Mapping[Layer, str] = {
    "front_end": "front end",
    "option_default": "defaults",
    "ttgir": "TTGIR passes",
    "llvm_ir": "LLVM IR",
    "llvm_flag": "LLVM flags",
    "llvm": "code generator",
}
_INPUTS = {"source": "source", "ttir": "TTIR", "ttgir": "TTGIR", "llir": "LLVM IR"}
_CHANGES: Mapping[Change, str] = {
    "content": "it makes other code, not only another order",
    "order": "it makes the same code in another order",
    "none": "what it makes is the same",
    "unknown": "whether contents or order differ is not known",
}
_LEVELS = {"mlir": "MLIR", "llvm": "LLVM"}
_MORE = {
    COMPILE_SECONDS: " by more than compiles vary",
    TIME_US: " by more than the timing model tells apart",
}
FIGURES = (
    ("µs", TIME_US),
    ("spills", "vgpr_spill_count"),
    ("VGPRs", "vgpr_count"),
    ("LDS", "lds_bytes"),
    ("instructions", "instruction_count"),
)


def document(blame: Blame) -> Document:
    """The verdict, then the chain of compiles with the figures of each."""
    first, last = blame.steps[0].metrics[blame.metric], blame.steps[-1].metrics[blame.metric]
    title = (
        Span(blame.kernel, "strong"),
        Span(f"  {blame.arch}  {blame.metric} {first:g} -> {last:g}"),
    )
    time = f"time unknown: {blame.no_time}" if blame.no_time else ""
    if blame.time is not None:
        time = f"time of the launch, estimated: {difference(blame.time)}"
    verdict = _verdict(blame.verdict, blame.left, blame.right, blame.metric)
    return (
        Section(paragraphs((time, *verdict)), title, is_subject=True),
        Section((_steps(blame), *paragraphs(_remarks(blame)))),
    )


def fields(blame: Blame) -> dict[str, Any]:
    """JSON values with the keys of `blame.schema.json`."""
    verdict = to_builtins(blame.verdict)
    return {
        "schema_version": SCHEMA_VERSION,
        "kernel": blame.kernel,
        "arch": blame.arch,
        "left": {"label": blame.left, "triton_version": blame.versions[0]},
        "right": {"label": blame.right, "triton_version": blame.versions[1]},
        "metric": blame.metric,
        "time": blame.time,
        "no_time": blame.no_time,
        "verdict": {"pass": verdict.pop("pass_name"), **verdict},
        "shares": blame.shares,
        "steps": blame.steps,
    }


def _verdict(verdict: Verdict, left: str, right: str, metric: str) -> Iterator[str]:
    if not verdict.layers:
        yield f"no layer changes it{_MORE.get(metric, '')}"
        return
    share = _share(verdict.share)
    names = " or ".join(LAYER_NAMES[layer] for layer in verdict.layers)
    change = f"; {_CHANGES[verdict.change]}" if metric != COMPILE_SECONDS else ""
    yield f"responsible: {names}{share}{change}"
    slow = verdict.slow_pass
    if slow is not None:
        times = f"{slow.before:.3f} s -> {slow.after:.3f} s"
        yield f"pass whose time changes most: {slow.name} ({_LEVELS[slow.level]}), {times} (wall)"
    if verdict.bisected:
        yield f"found by running the passes of {left} up to a point and those of {right} from it"
    if verdict.pass_name is not None:
        what = "pass that makes it" if verdict.bisected else "first pass whose result differs"
        yield f"{what}: {verdict.pass_name}"
    for label, passes in ((left, verdict.only_left), (right, verdict.only_right)):
        if passes:
            yield f"only {label} runs there: {', '.join(dict.fromkeys(passes))}"
    if verdict.pass_options is not None:
        yield f"its options: {verdict.pass_options[0]} | {verdict.pass_options[1]}"
    noun = "" if "llvm_flag" in verdict.layers else "default of "
    for name, values in verdict.options.items():
        before, after = ("none" if value in (None, "") else value for value in values)
        yield f"{noun}{name}: {before} in {left}, {after} in {right}"


def _share(share: float | None) -> str:
    if share is None:
        return ""
    # The other layers then work against it.
    return f", {share:.0%} of the change" if share <= 1 else f", {share:.1f} times the whole change"


def _steps(blame: Blame) -> Table:
    titles = {name: title for title, name in FIGURES}
    known = {name for step in blame.steps for name in step.metrics} | set(titles) - {TIME_US}
    names = dict.fromkeys(name for name in (blame.metric, *titles) if name in known)
    columns: Columns = (
        ("input", lambda step: f"{_INPUTS[step.input]} of {step.input_from}"),
        ("compiled by", lambda step: step.compiled_by),
        (Column("defaults of", rank=9), lambda step: step.options_from),
        ("exchanged", lambda step: ", ".join(_SHORT[layer] for layer in step.layers)),
        *(
            (Column(titles.get(name, name), right=True, rank=n), partial(_figure, name=name))
            for n, name in enumerate(names)
        ),
    )
    return table(columns, blame.steps)


def _figure(step: Step, name: str) -> str:
    return f"{step.metrics[name]:g}" if name in step.metrics else "?"


def _remarks(blame: Blame) -> Iterator[str]:
    """What did not compile or was respelled, and the CPU time of the builds' own compiles."""
    for step in blame.steps:
        name = f"{_INPUTS[step.input]} of {step.input_from}"
        if step.problem is not None:
            yield f"{name} in {step.compiled_by} does not compile: {step.problem[:200]}"
        if step.respelled:
            yield f"{name} was respelled for {step.compiled_by}"
    left, right = blame.steps[0].cpu_seconds, blame.steps[-1].cpu_seconds
    if pairs := [f"{name} {left[name]:.2f} | {right[name]:.2f}" for name in left if name in right]:
        yield f"CPU seconds of the stages, {blame.left} | {blame.right}: {', '.join(pairs)}"
