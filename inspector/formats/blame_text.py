"""Which layer of two Tritons is responsible for a figure, as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TextIO

from ..compare.blame.results import COMPILE_SECONDS, Blame, Change, Layer, Step, Verdict
from ..explain.table import Column, rows_of
from ..explain.time_view import difference
from ..metrics.times import US as TIME_US

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


def write(blame: Blame, stream: TextIO) -> None:
    """Writes the verdict, then the chain of compiles with the figures of each."""
    for line in _lines(blame):
        stream.write(line + "\n")


def _lines(blame: Blame) -> Iterator[str]:
    first, last = blame.steps[0].metrics[blame.metric], blame.steps[-1].metrics[blame.metric]
    yield f"{blame.kernel}  {blame.arch}  {blame.metric} {first:g} -> {last:g}"
    if blame.time is not None:
        yield f"  time of the launch, estimated: {difference(blame.time)}"
    elif blame.no_time:
        yield f"  time unknown: {blame.no_time}"
    yield from _verdict(blame.verdict, blame.left, blame.right, blame.metric)
    yield ""
    yield from rows_of(_columns(blame), blame.steps)
    for step in blame.steps:
        if step.problem is not None:
            name = f"{_INPUTS[step.input]} of {step.input_from} in {step.compiled_by}"
            yield f"  {name} does not compile: {step.problem[:200]}"
        if step.respelled:
            name = f"{_INPUTS[step.input]} of {step.input_from}"
            yield f"  {name} was respelled for {step.compiled_by}"
    yield from _seconds(blame)


def _verdict(verdict: Verdict, left: str, right: str, metric: str) -> Iterator[str]:
    if not verdict.layers:
        yield f"  no layer changes it{_MORE.get(metric, '')}"
        return
    share = _share(verdict.share)
    names = " or ".join(LAYER_NAMES[layer] for layer in verdict.layers)
    change = f"; {_CHANGES[verdict.change]}" if metric != COMPILE_SECONDS else ""
    yield f"  responsible: {names}{share}{change}"
    slow = verdict.slow_pass
    if slow is not None:
        times = f"{slow.before:.3f} s -> {slow.after:.3f} s"
        yield f"  pass whose time changes most: {slow.name} ({_LEVELS[slow.level]}), {times} (wall)"
    if verdict.bisected:
        yield f"  found by running the passes of {left} up to a point and those of {right} from it"
    if verdict.pass_name is not None:
        what = "pass that makes it" if verdict.bisected else "first pass whose result differs"
        yield f"  {what}: {verdict.pass_name}"
    for label, passes in ((left, verdict.only_left), (right, verdict.only_right)):
        if passes:
            yield f"  only {label} runs there: {', '.join(dict.fromkeys(passes))}"
    if verdict.pass_options is not None:
        yield f"  its options: {verdict.pass_options[0]} | {verdict.pass_options[1]}"
    noun = "" if "llvm_flag" in verdict.layers else "default of "
    for name, values in verdict.options.items():
        before, after = ("none" if value in (None, "") else value for value in values)
        yield f"  {noun}{name}: {before} in {left}, {after} in {right}"


def _share(share: float | None) -> str:
    if share is None:
        return ""
    # The other layers then work against it.
    return f", {share:.0%} of the change" if share <= 1 else f", {share:.1f} times the whole change"


def _columns(blame: Blame) -> Sequence[Column]:
    titles = {name: title for title, name in FIGURES}
    known = {name for step in blame.steps for name in step.metrics} | set(titles) - {TIME_US}
    names = dict.fromkeys(name for name in (blame.metric, *titles) if name in known)
    return [
        Column("input", lambda step: f"{_INPUTS[step.input]} of {step.input_from}"),
        Column("compiled by", lambda step: step.compiled_by),
        Column("defaults of", lambda step: step.options_from),
        Column("exchanged", lambda step: ", ".join(_SHORT[layer] for layer in step.layers)),
        *(
            Column(titles.get(name, name), partial(_figure, name=name), right=True)
            for name in names
        ),
    ]


def _figure(step: Step, name: str) -> str:
    return f"{step.metrics[name]:g}" if name in step.metrics else "?"


def _seconds(blame: Blame) -> Iterator[str]:
    """Yields the CPU time that each stage takes in the builds' own compiles."""
    left, right = blame.steps[0].cpu_seconds, blame.steps[-1].cpu_seconds
    pairs = [f"{name} {left[name]:.2f} | {right[name]:.2f}" for name in left if name in right]
    if pairs:
        yield f"  CPU seconds of the stages, {blame.left} | {blame.right}: {', '.join(pairs)}"
