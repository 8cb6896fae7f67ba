"""Waits of compiled kernels, each deleted, loosened and strengthened in turn.

What the checker says of each changed program is held against the machine that runs every path
(`counter_machine.py`): both must name the same instructions that touch a register too early.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from counter_machine import LIMITS, Explored, TooManyStatesError, explore, generation
from hypothesis import given, settings
from kept_compiles import collect_kept
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.isa.waitflow.verdicts import JudgedWait
from kinspect.inspector.model import Function, Report
from kinspect.inspector.pipeline.jobs import Request
from test_waitflow import judged, programs, small, waits_in

pytestmark = pytest.mark.xdist_group(name="suite")  # they compile the same kernels

ROOT = Path(__file__).parent.parent
ARCHS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")
MOST_INSTRUCTIONS = 1500
MOST_STATES = 40_000
"""Of one run of the machine; what needs more is skipped and counted."""


@dataclass
class Tally:
    """What came of the mutations of some kernels."""

    kernels: int = 0
    skipped: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        c = self.counts
        return (
            f"{self.kernels} kernels ({self.skipped} skipped): {c['mutations']} waits deleted or "
            f"loosened, {c['needed']} of them needed, {c['detected']} of those detected, "
            f"{c['false']} false; {c['strengthened']} strengthened, {c['over-strict']} called "
            f"over-strict, {c['ordering']} ordering; {c['fences']} waits of barriers"
        )


@given(programs())
@settings(max_examples=200)
def test_a_looser_wait_adds_to_the_states(program: tuple[str, Function]) -> None:
    """The machine's short way gives what running the changed program from its start gives."""
    arch, function = program
    waits = waits_in(function, arch)
    explored = Explored(function, arch, waits, small(arch))
    if explored.early:
        return
    for index, counts in waits.items():
        for counter, n in counts.items():
            for looser in (None, n + 1):
                changed = {k: v for k, v in counts.items() if k != counter}
                changed |= {} if looser is None else {counter: looser}
                expected = explore(function, arch, {**waits, index: changed}, small(arch))
                assert explored.looser(index, counter, looser) == expected


def mutate(function: Function, arch: str, label: str, tally: Tally) -> None:
    """Changes every wait of a kernel in turn."""
    waits = waits_in(function, arch)
    assert not any(inst.mnemonic.startswith("flat_") for inst in function.instructions), label
    try:
        explored = Explored(function, arch, waits, most=MOST_STATES)
    except TooManyStatesError:
        tally.skipped += 1
        return
    assert not explored.early, label
    verdicts, missing = judged(function, arch, waits)
    assert not missing, label
    tally.kernels += 1
    barriers(function, explored, verdicts, label, tally)
    for one in verdicts:
        try:
            loosen(function, arch, explored, one, label, tally)
            strengthen(function, arch, explored, one, label, tally)
        except TooManyStatesError:
            tally.counts["too many states"] += 1


def loosen(
    function: Function, arch: str, explored: Explored, one: JudgedWait, label: str, tally: Tally
) -> None:
    waits = waits_in(function, arch)
    most = LIMITS[generation(arch)][one.counter]
    for n in (None, one.n + 1):
        if n is not None and n >= most:
            continue  # the largest value is no wait at all
        changed = {k: v for k, v in waits[one.index].items() if k != one.counter}
        changed |= {} if n is None else {one.counter: n}
        _, missing = judged(function, arch, {**waits, one.index: changed})
        expected = explored.looser(one.index, one.counter, n)
        tally.counts["mutations"] += 1
        tally.counts["needed"] += bool(expected)
        tally.counts["detected"] += bool(expected and missing)
        tally.counts["false"] += bool(missing and not expected)
        if missing != expected:
            tally.wrong.append(f"{label}: {one} at {n}: {missing ^ expected}")
        # What is older than the counter can count is over before any wait: issue has stalled. LLVM
        # waits for the largest count all the same.
        clamped = one.n == most - 1
        if one.verdict == "needed" and n is None and not expected and not clamped:
            tally.wrong.append(f"{label}: {one} is not needed")


def strengthen(
    function: Function, arch: str, explored: Explored, one: JudgedWait, label: str, tally: Tally
) -> None:
    if one.verdict != "needed" or one.n == 0:
        return
    waits = waits_in(function, arch)
    changed = {**waits[one.index], one.counter: one.n - 1}
    verdicts, missing = judged(function, arch, {**waits, one.index: changed})
    assert not missing, label
    (now,) = (v for v in verdicts if (v.index, v.counter) == (one.index, one.counter))
    tally.counts["strengthened"] += 1
    tally.counts["over-strict"] += now.verdict == "over-strict"
    if now.verdict == "ordering":
        # A barrier, fence or atomic comes next: now the wait may be what that needs.
        tally.counts["ordering"] += 1
        return
    if now.verdict != "over-strict" or now.could_be is None or now.could_be < one.n:
        tally.wrong.append(f"{label}: {one} strengthened is {now}")
        return
    most = LIMITS[generation(arch)][one.counter]
    if now.could_be > one.n and explored.looser(one.index, one.counter, now.could_be):
        tally.wrong.append(f"{label}: {now} is not safe")
    if now.could_be + 1 < most and not explored.looser(one.index, one.counter, now.could_be + 1):
        tally.wrong.append(f"{label}: {now} could be looser still")


def barriers(
    function: Function, explored: Explored, verdicts: Sequence[JudgedWait], label: str, tally: Tally
) -> None:
    """A wait before a barrier that finds LDS traffic under way is never called too strict."""
    for one in verdicts:
        if not before_barrier(function, one.index):
            continue
        names = {
            function.instructions[o.producer].mnemonic
            for _, under_way in explored.at[one.index]
            for o in under_way
            if o.counter == one.counter
        }
        if any(name.startswith("ds_") or "_lds" in name for name in names):
            tally.counts["fences"] += 1
            if one.verdict not in ("ordering", "needed"):
                tally.wrong.append(f"{label}: {one} before a barrier")


def before_barrier(function: Function, index: int) -> bool:
    for inst in function.instructions[index + 1 :]:
        if inst.mnemonic.startswith("s_barrier"):
            return True
        if not inst.mnemonic.startswith(("s_wait", "s_nop", "s_delay", "s_clause")):
            return False
    return False


def compiled(files: Sequence[str]) -> Report:
    pytest.importorskip("triton")
    targets = tuple(str(ROOT / "kernels" / f"{name}.py") for name in files)
    return collect_kept(Request(targets, archs=ARCHS, jobs=2, passes=False))


def functions(report: Report) -> Iterator[tuple[str, str, Function]]:
    """The first case of each kernel on each target."""
    seen = set()
    for kernel in report.kernels:
        assert kernel.arch is not None
        assert kernel.variant is not None
        if (kernel.name, kernel.arch) in seen:
            continue
        seen.add((kernel.name, kernel.arch))
        text = kernel.artifacts["amdgcn"].path.read_text()
        (function,) = parse_text(text, "k.s").kernels
        yield f"{kernel.name}[{kernel.variant.case}] {kernel.arch}", kernel.arch, function


def verify(tally: Tally) -> None:
    print(tally)  # noqa: T201 - the figures are the result; pytest -s shows them
    assert not tally.wrong, "\n".join(tally.wrong[:10])
    assert tally.counts["detected"] == tally.counts["needed"] > 0
    assert tally.counts["over-strict"] > 0
    told = tally.counts["over-strict"] + tally.counts["ordering"]
    assert told == tally.counts["strengthened"]
    assert tally.counts["fences"] > 0


@pytest.mark.slow
def test_every_wait_of_some_kernels() -> None:
    tally = Tally()
    archs = set()
    for label, arch, function in [*functions(compiled(("gemm_all_types", "softmax")))][::2]:
        mutate(function, arch, label, tally)
        archs.add(arch)
    verify(tally)
    assert archs == set(ARCHS)
    assert not tally.skipped
    assert not tally.counts["too many states"]


@pytest.mark.slow
def test_every_wait_of_many_kernels() -> None:
    tally = Tally()
    files = sorted({path.stem for path in (ROOT / "kernels").glob("*.py")} - {"__init__"})
    archs = set()
    for label, arch, function in functions(compiled(files)):
        if len(function.instructions) > MOST_INSTRUCTIONS:
            continue
        before = tally.kernels
        mutate(function, arch, label, tally)
        archs |= {arch} if tally.kernels > before else set()
    verify(tally)
    assert tally.kernels >= 20
    assert archs == set(ARCHS)


@pytest.mark.slow
def test_nothing_is_missing_in_compiled_code() -> None:
    files = sorted({path.stem for path in (ROOT / "kernels").glob("*.py")} - {"__init__"})
    report = compiled(files)
    assert not report.errors
    verdicts = Counter(
        (kernel.arch, wait.verdict) for kernel in report.kernels for wait in kernel.waits
    )
    print(dict(verdicts))  # noqa: T201
    assert {arch for arch, _ in verdicts} == set(ARCHS)
    assert {verdict for _, verdict in verdicts} <= {"needed", "ordering", "over-strict", "idle"}
    for kernel in report.kernels:
        assert kernel.metrics["wait_use.missing"].value == 0
