"""What is reported of a run: kernels with their loops, findings and figures, and errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

from .code import Unread
from .lines import (
    Access,
    Emulated,
    LdsBuffer,
    LivePeak,
    MeasuredLine,
    MemoryOp,
    SpilledValue,
    SpillSlot,
    UntouchedValues,
    WaitOp,
)
from .metric import Metric, MetricValue
from .numbers import Count, Depth, Line, Real
from .source import SourceLoc
from .time import KernelTime, LoopTime
from .trials import Trial
from .variant import Artifact, Variant


def _none() -> None:
    """The default of a field that JSON has also where it is unknown."""


def _empty() -> tuple[()]:
    """The default of a field that JSON has also where it is empty."""
    return ()


class LoopHeader(Struct, frozen=True):
    """The first line of a loop in the assembly, and its label."""

    line: Line
    label: str | None


class LoopReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A loop with its per-iteration metrics.

    Args:
        lines: first and last line of each run of lines of the assembly.
        unroll: iterations of the source for each of the code's.
        irreducible: whether it can be entered at several places.
    """

    id: str
    depth: Depth
    parent: str | None
    header: LoopHeader
    lines: tuple[tuple[Line, Line], ...]
    source: tuple[SourceLoc, ...]
    hot: bool
    unroll: Count | None
    irreducible: bool = False
    metrics: Mapping[str, Metric]

    def __getitem__(self, name: str) -> MetricValue:
        """The value of a figure by its name; None where it is unknown.

        Raises:
            KeyError: the loop has no such figure.
        """
        return self.metrics[name].value

    def __repr__(self) -> str:
        first = next(iter(self.source), None)
        where = f" {first.file}:{first.line}" if first is not None else ""
        return f"<loop {self.id}{where}: {len(self.metrics)} figures>"


class Location(Struct, frozen=True):
    """Where a finding points: a line of an artifact (`amdgcn`, `ttgir`) or of the source.

    `column` is where its expression begins, in characters from 1; None where that is not known.
    """

    kind: str
    file: str | None
    line: Line | None
    text: str = ""
    column: Line | None = None


class Trials(Struct, frozen=True):
    """What came of a rule's fix on real kernels that were changed and compiled again.

    Args:
        helped: kernels in which what the rule finds was gone or less, and nothing got worse for it.
        nothing: kernels in which it stayed as it was.
        worse: kernels in which it grew, or the kernel lost more elsewhere.
    """

    helped: Count = 0
    nothing: Count = 0
    worse: Count = 0

    @property
    def count(self) -> int:
        """Kernels on which it was tried."""
        return self.helped + self.nothing + self.worse

    @property
    def summary(self) -> str:
        """`helped 4 of 5 kernels`, or that nobody tried."""
        if not self.count:
            return "not tried"
        worse = f", made {self.worse} worse" if self.worse else ""
        return f"tried: helped {self.helped} of {self.count}{worse}"


class Finding(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a rule has to say of a kernel, with its evidence.

    `tried` is what came of the fix on other kernels; None where the rule's author does not say.
    `trials` are the changes that were compiled to be rid of it in this kernel, in the order in
    which they are told; empty where nobody asked. `fix_is_trials` says that the fix names nothing
    else.
    `saves_percent` is what its cure saves of the launch's time by the timing model; None where that
    is not known. `lines` are all lines of the
    assembly that it is about, where they are more than those of its locations. `plural_message` is
    the message as it stands where no figure is 1, by which equal findings are known; empty where it
    is the same. `anchor` is the line by which fingerprints know it: of the source if there is one.
    A saved report has none of these three. `doubt` says how little the cure saves of what is no
    finding for that reason; it is empty for findings.
    """

    rule: str
    severity: Literal["error", "warning", "info"]
    confidence: Literal["certain", "likely", "possible"]
    message: str
    evidence: Mapping[str, MetricValue]
    locations: tuple[Location, ...]
    fix: str
    tried: Trials | None = field(name="fix_tried", default_factory=_none)
    saves_percent: Real | None = field(default_factory=_none)
    trials: tuple[Trial, ...] = field(name="tried", default=())
    fix_is_trials: bool = field(default_factory=bool)
    doubt: str = ""
    fingerprint: str
    lines: tuple[Line, ...] = ()
    plural_message: str = ""
    anchor: Location | None = None

    def __str__(self) -> str:
        source = next((place for place in self.locations if place.kind == "source"), None)
        where = f" {source.file}:{source.line}" if source is not None else ""
        return f"{self.severity} {self.rule}{where}: {self.message}"

    @property
    def isa_lines(self) -> tuple[int, ...]:
        """The lines of the assembly that it is about, as far as they are known."""
        located = tuple(
            place.line
            for place in self.locations
            if place.kind == "amdgcn" and place.line is not None
        )
        return self.lines or located

    def column_in(self, file: str, line: int | None) -> int | None:
        """Where its expression begins in a line of the source, from 1; None where unknown."""
        columns = (
            place.column
            for place in self.locations
            if (place.kind, place.file, place.line) == ("source", file, line)
        )
        return next(columns, None)

    @property
    def is_refuted(self) -> bool:
        """Whether all that the fix named was tried in vain."""
        return self._is_tried_in_vain and (self.fix_is_trials or not self.fix)

    @property
    def gain_percent(self) -> float | None:
        """Percent of the launch's time that is saved by its cure, or by the best change compiled
        for it if that is more; None where it is not known, or where no cure is left.

        Where changes were rid of it and the launch was no faster, what the best of these saved.
        """
        if self.is_refuted:
            return None
        timed = [(trial, -trial.time.percent) for trial in self.trials if trial.time is not None]
        if self._is_tried_in_vain and (cured := [saved for t, saved in timed if t.gone]):
            return max(0.0, *cured)
        known = (self.saves_percent, *(saved for trial, saved in timed if trial.helped))
        return max((percent for percent in known if percent is not None), default=None)

    @property
    def advice(self) -> str:
        """The fix, and whether it is known to help; empty where there is none, or it has failed."""
        if self.is_refuted:
            return ""
        if not self.fix or self.tried is None or self._is_tried_in_vain:
            return self.fix
        return f"{self.fix.rstrip()} ({self.tried.summary})"

    @property
    def _is_tried_in_vain(self) -> bool:
        return bool(self.trials) and not any(trial.helped for trial in self.trials)


class ErrorRecord(Struct, frozen=True, omit_defaults=True):
    """A kernel or file that could not be reported, and at which stage it failed.

    `output` is the end of what the user's own code printed, where that may explain it.
    `unsupported_ir` is the message of a Triton that could not parse or lower the IR it was given,
    which another version's front end may have made; "" for other failures.
    """

    file: str | None
    kernel: str | None
    stage: str
    message: str
    hint: str
    output: str = ""
    unsupported_ir: str = ""


LdsOrigin = Literal["typed", "triton", "file", "code"]
"""Who states a kernel's LDS: `--lds`, Triton (LLVM does not see it), the file, or code without any
access to LDS."""
LaunchOrigin = Literal["typed", "triton", "file", "largest"]
"""Who states the waves of a workgroup: `--waves`, Triton, the kernel's required size, or nobody:
`largest` is the most that the kernel allows."""


class Demand(Struct, frozen=True):
    """What one kernel asks of a CU.

    Args:
        vgprs: architectural VGPRs, or all registers of the file where the split is unknown.
        agprs: accumulation VGPRs.
        sgprs: SGPRs with VCC and friends; None is taken as not limiting.
        lds_bytes: LDS per workgroup, dynamic included; None where unknown.
        waves_per_workgroup: None where the launch is unknown.
        wave_size: 32 or 64; None: the target's usual one.
        cu_mode: workgroups stay within one CU, as they always do where there are no WGPs; false:
            WGP mode, ignored where there is none.
        llvm: LLVM's occupancy model: "22", or "triton" for the newer LLVM in Triton 3.9.
        vgprs_requested: registers the hardware is asked for, where that is more than `vgprs` and
            `agprs` need (`amdgpu-waves-per-eu` inflates it; next_free_vgpr).
        option_given: whether `vgprs_requested` may come of a waves_per_eu that was given.
        compiler_lds: LDS that LLVM knows of (0 for Triton kernels); None: the same as `lds_bytes`.
        lds_from, waves_from: who states those figures; None where they are unknown.
    """

    vgprs: int | None
    agprs: int = 0
    sgprs: int | None = None
    lds_bytes: int | None = None
    waves_per_workgroup: int | None = None
    wave_size: int | None = None
    cu_mode: bool = False
    llvm: str = "22"
    vgprs_requested: int | None = None
    compiler_lds: int | None = None
    option_given: bool = True
    lds_from: LdsOrigin | None = None
    waves_from: LaunchOrigin | None = None

    @property
    def unit(self) -> Literal["CU", "WGP"]:
        """What holds the workgroups and shares its registers and LDS among them."""
        return "CU" if self.cu_mode else "WGP"

    @property
    def typed(self) -> bool:
        """Whether the user stated any of it."""
        return "typed" in (self.lds_from, self.waves_from)


class KernelReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything known of one kernel variant.

    Args:
        id: file, name, arch and a hash of signature, constexprs and options.
        variant: the specialisation that was compiled; None for a file that was only read.
        artifacts: the compiler's files, by kind.
        main_loop: id of the hot loop that does most of the work.
        spilled_values: values of the source that spills park.
        untouched: registers that pass through a hot loop.
        dead_writes: lines of the assembly: vector instructions whose results nothing reads.
        measured_lines: of reports that were joined with a profiler's recording.
        unread: what was not read or followed; empty where all was.
        demand: what its occupancy rests on; None in reports of before.
        emulated: None where it was not executed.
        time: of its launch; None where nobody asked or it is not known.
        no_time: why it is not known; empty where it is, or nobody asked.
        loop_times: what iterations take; empty where nobody asked or it is not known.
        leads: what is true as well, but saves too little of the launch: see their `doubt`.
        fastest: a change that no finding asks for, if none that was compiled is faster.
        saved_in: the saved report that it was read from, which the user named; what `id` says of a
            file is a stranger's then.
    """

    id: str
    name: str
    arch: str | None
    source: SourceLoc | None
    variant: Variant | None
    artifacts: Mapping[str, Artifact]
    metrics: Mapping[str, Metric]
    loops: tuple[LoopReport, ...]
    main_loop: str | None
    memory_ops: tuple[MemoryOp, ...]
    waits: tuple[WaitOp, ...]
    accesses: tuple[Access, ...] = field(default_factory=_empty)
    lds_buffers: tuple[LdsBuffer, ...] = field(default_factory=_empty)
    spills: tuple[SpillSlot, ...] = field(default_factory=_empty)
    spilled_values: tuple[SpilledValue, ...] = ()
    untouched: tuple[UntouchedValues, ...] = ()
    dead_writes: tuple[Line, ...] = ()
    live_peak: LivePeak | None = None
    measured_lines: tuple[MeasuredLine, ...] = ()
    unread: tuple[Unread, ...] = ()
    demand: Demand | None = field(default_factory=_none)
    emulated: Emulated | None = None
    time: KernelTime | None = None
    no_time: str = ""
    loop_times: tuple[LoopTime, ...] = ()
    findings: tuple[Finding, ...]
    leads: tuple[Finding, ...] = ()
    fastest: Trial | None = None
    notes: tuple[str, ...] = field(default_factory=_empty)
    saved_in: str | None = None

    @property
    def fastest_percent(self) -> float:
        """Percent of the launch's time that `fastest` saves; 0 without it."""
        time = self.fastest.time if self.fastest is not None else None
        return -time.percent if time is not None else 0.0

    @property
    def file(self) -> str:
        """The file that it was read or captured from: the first part of its id."""
        return self.id.partition("::")[0]

    @property
    def facts(self) -> tuple[Finding, ...]:
        """The findings, and what saves too little to be one."""
        return (*self.findings, *self.leads)

    @property
    def all_read(self) -> bool:
        """Whether every instruction of its code was read; where a jump goes may be unknown."""
        return all(part.kind == "jump" for part in self.unread)


class Report(Struct, frozen=True):
    """The result of one run: what the renderers take.

    `notes` are about the run as a whole: configurations left out, modules stood in for.
    """

    target: str
    tool: Mapping[str, str]
    kernels: tuple[KernelReport, ...]
    errors: tuple[ErrorRecord, ...]
    notes: tuple[str, ...] = ()
