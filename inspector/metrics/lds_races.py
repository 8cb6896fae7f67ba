"""LDS races: accesses of different waves to the same bytes that nothing orders."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ..base.errors import unforeseen
from ..model import Instruction, Metric, Scalar, int_of
from .argument_words import known_arguments
from .demand import wave_size
from .entries import of_kernels
from .lane_metrics import NO_LDS, NOT_LOOKED_AT
from .lanes import SHAPE, workgroup_shape
from .options import DEFAULT
from .subject import LaunchedCode, LineName, Subject, source_line

if TYPE_CHECKING:
    from ..lanes.lds.races import Race, RaceReport

RACES: Final = "lds.races"
_FEWER_WAVES: Final = "a launch may use fewer waves than the kernel allows; pass --waves"
"""A kernel meant for one wave needs no barriers, even if it allows more waves."""
_MOST_IN_NOTE: Final = 4
"""Pairs that a note lists."""
_LDS: Final = frozenset(("lds_read", "lds_write", "lds_atomic", "lds_direct", "lds_direct_store"))

SPECS = of_kernels(
    {
        RACES: "Pairs of instructions by which two waves touch the same bytes of LDS in no order, "
        "one of them writing: how many `pairs`; of the one that meets in most `bytes` the `first` "
        "and the `second` instruction, `first_at`, `second_at` (lines of the source), "
        "`first_line`, `second_line` (of the assembly), the `cause` (`barrier`: none lies "
        "between; `wait`: one does, in `barrier_line`, but `first` is not waited for before it; "
        "`own-wait`: a wave does not wait for its own copy into LDS); `decided` accesses, of "
        "`of`: what the others touch is not known. Of a launch that may have one wave, which has "
        "no races: `pairs_of_two_waves` in place of `pairs`, and `one_wave`, its work-items, "
        "where the code bounds no workgroup",
    }
)


def compute(subject: Subject) -> Iterator[Metric]:
    """The pairs of a kernel that race."""
    is_assumed = not _unasked(subject) and _may_be_one_wave(subject)
    report, reason = _races(subject, 2) if is_assumed else subject.races
    if report is None:
        yield Metric(RACES, None, "mapping", "derived", reason)
        return
    code = subject.function.instructions
    races = sorted(report.races, key=lambda race: race.bytes, reverse=True)
    value: dict[str, Scalar] = {
        "pairs_of_two_waves" if is_assumed else "pairs": len(races),
        "decided": report.decided,
        "of": report.accesses,
    }
    most = subject.function.resources.max_workgroup_size
    lanes = int_of({"": wave_size(subject)}, "")
    if is_assumed and races and most in (None, DEFAULT) and lanes is not None:
        value["one_wave"] = lanes
    value.update(_described(races[0], code) if races else dict.fromkeys(_FIELDS))
    note = _note(subject, report)
    if is_assumed:
        note = ". ".join(filter(None, (_FEWER_WAVES, note)))
    yield Metric(RACES, value, "mapping", "derived", note)


_FIELDS: Final = (
    "first", "second", "first_at", "second_at", "first_line", "second_line", "cause",
    "barrier_line", "bytes",
)  # fmt: skip


def followed(subject: LaunchedCode) -> tuple[RaceReport | None, str]:
    """The report on a kernel, or None and the reason."""
    if reason := _unasked(subject):
        return None, reason
    if _may_be_one_wave(subject):
        return None, _FEWER_WAVES
    return _races(subject, subject.demand.waves_per_workgroup or 0)


def _unasked(subject: LaunchedCode) -> str:
    """Why no races are looked for; empty where they are."""
    if not any(inst.cls in _LDS for inst in subject.function.instructions):
        return NO_LDS
    waves = subject.demand.waves_per_workgroup
    is_asked = subject.machine is not None and waves and subject.facts.analyse_races
    return "" if is_asked else NOT_LOOKED_AT


def _may_be_one_wave(subject: LaunchedCode) -> bool:
    """Whether nothing states how many waves a workgroup has, and it may have several."""
    waves = subject.demand.waves_per_workgroup
    return subject.demand.waves_from == "largest" and waves is not None and waves > 1


def _races(subject: LaunchedCode, waves: int) -> tuple[RaceReport | None, str]:
    from ..lanes.lds.races import races_of

    machine, shape = subject.machine, workgroup_shape(subject, waves)
    if machine is None or shape is None:
        return None, SHAPE
    arguments = known_arguments(subject, shape)
    try:
        report = races_of(subject.function, machine, shape, arguments)
    except Exception as error:
        # A bug in the emulator's steps must not take the report with it.
        return None, unforeseen(error).message
    return (None, report.why) if report.why else (report, "")


def _described(race: Race, code: tuple[Instruction, ...]) -> dict[str, Scalar]:
    """The fields of one race."""
    first_inst, second_inst = code[race.first], code[race.second]
    return {
        "first": first_inst.mnemonic,
        "second": second_inst.mnemonic,
        "first_at": LineName.of([first_inst]),
        "second_at": LineName.of([second_inst]),
        "first_line": first_inst.line,
        "second_line": second_inst.line,
        "cause": race.cause,
        "barrier_line": code[race.barrier].line if race.barrier is not None else None,
        "bytes": race.bytes,
    }


def _note(subject: Subject, report: RaceReport) -> str:
    """A note on the pairs, and on undecided accesses."""
    code = subject.function.instructions
    pairs = [
        f"{_instruction_text(code[race.first])} and {_instruction_text(code[race.second])}"
        for race in report.races[:_MOST_IN_NOTE]
    ]
    omitted = len(report.races) - len(pairs)
    notes = ["; ".join(pairs) + (f"; {omitted} more" if omitted else "")] if pairs else []
    if report.decided < report.accesses:
        undecided = report.accesses - report.decided
        notes.append(f"{undecided} of {report.accesses} accesses could not be decided")
    return ". ".join(notes)


def _instruction_text(inst: Instruction) -> str:
    source = source_line(inst.loc)
    return f"{inst.mnemonic} in line {inst.line}" + (f" ({source})" if source else "")
