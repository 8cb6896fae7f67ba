"""Results for programs: kernels with their figures, loops and findings, and comparisons of them."""

from __future__ import annotations

import difflib
import html
import io
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ..base.named_files import file_text
from ..explain.view import plural
from ..model import (
    ErrorRecord,
    Finding,
    KernelReport,
    KernelTime,
    LoopReport,
    Metric,
    MetricValue,
    Report,
    SourceLoc,
    Variant,
)
from ..model.metric import metric_of
from .notebook import Shown, text_of

if TYPE_CHECKING:
    from ..compare.diff.diff_results import DiffReport, KernelDiff
    from ..compare.sweep.swept_points import Sweep
    from ..compare.trials.trial_results import KernelTrials, TrialRun
    from ..lint.lint_results import CheckedKernel, LintReport
    from ..pipeline.jobs import Request
    from .jit_kernels import Launch


class Origin(Struct, frozen=True):
    """What an analysis was made of.

    Args:
        run: targets, and how they were compiled and analysed.
        launch: the launch of a kernel that the program holds; None where files were compiled.
    """

    run: Request
    launch: Launch | None = None


_FRAME = '<iframe srcdoc="{page}" style="width:100%;height:640px;border:0"></iframe>'


_NEAR = 0.6
"""Share of letters in common from which names are near: half of them any two names may have."""


def _near(name: str, known: Iterable[str]) -> list[str]:
    """The names that may have been meant: spelled much like it, or with it in them."""
    names = sorted(known)
    holding = [other for other in names if name.lower().rstrip("s") in other] if name else []
    return (difflib.get_close_matches(name, names, n=3, cutoff=_NEAR) or holding)[:3]


class AnalyzedKernel:
    """One kernel, compiled for one target in one specialisation.

    `kernel["vgpr_count"]` is a figure's value, `kernel.metrics["vgpr_count"]` the figure with its
    unit and origin. `kinspect metrics list` says which there are and what they mean.

    Args:
        report: everything known of it.
        origin: what it was compiled from, where that is known: `kinspect.try_` goes on from it.
    """

    def __init__(self, report: KernelReport, origin: Origin | None = None) -> None:
        self.report = report
        self.origin = origin

    def __repr__(self) -> str:
        return f"<{self.label} for {self.arch}: {plural(len(self.findings), 'finding')}>"

    def __getitem__(self, metric: str) -> MetricValue:
        """The value of a figure, by its name or its short one; None where it is unknown.

        Short names are `vgprs`, `vgpr_spills`, `waves_per_simd`, `time_us` and others of
        `model/metric.py`.

        Raises:
            KeyError: the kernel has no such figure.
        """
        name = metric_of(metric)
        if name not in self.metrics:
            near = _near(metric, self.metrics)
            if any(metric in loop.metrics for loop in self.loops):
                raise KeyError(
                    f"{self.label} as a whole has no figure {metric!r}, its loops have: "
                    f"kernel.main_loop.metrics[{metric!r}].value"
                )
            hint = f"; near it: {', '.join(near)}" if near else "; see `kinspect metrics list`"
            raise KeyError(f"{self.label} has no figure {metric!r}{hint}")
        return self.metrics[name].value

    def __contains__(self, metric: object) -> bool:
        return isinstance(metric, str) and metric_of(metric) in self.metrics

    @property
    def name(self) -> str:
        """The name of the kernel's function."""
        return self.report.name

    @property
    def label(self) -> str:
        """The name, with the case or configuration where there are several."""
        case = self.report.variant.case if self.report.variant is not None else None
        return f"{self.name}[{case}]" if case else self.name

    @property
    def arch(self) -> str | None:
        """The gfx name of the target."""
        return self.report.arch

    @property
    def time(self) -> KernelTime | None:
        """How long its launch takes by the timing model; None where the launch is not known."""
        return self.report.time

    @property
    def source(self) -> SourceLoc | None:
        """Where the kernel is defined."""
        return self.report.source

    @property
    def variant(self) -> Variant | None:
        """Signature, constexprs and options that it was compiled with; None of saved code."""
        return self.report.variant

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """Figures of the whole kernel by name."""
        return self.report.metrics

    @property
    def loops(self) -> tuple[LoopReport, ...]:
        """Its loops.

        Of each: `id` (as reports have it, `L0`), `hot`, `depth`, `parent` (the id of the loop
        around it), `source` (places), `lines` (ranges of the assembly), `metrics` (figures of one
        iteration by name: `loop.metrics["bound.cycles"].value`).
        """
        return self.report.loops

    @property
    def main_loop(self) -> LoopReport | None:
        """The hot loop that does most of the work; None without one."""
        return next((loop for loop in self.loops if loop.id == self.report.main_loop), None)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What rules have to say, worst first.

        Of each: `rule` (its id), `severity`, `message`, `fix`, `locations` (each with `kind`,
        `file` and `line`), `isa_lines` (of the assembly, as far as known), `evidence` (the figures
        that it rests on, by name), `saves_percent` (of the launch's time by the timing model;
        None where that is not known).
        """
        return self.report.findings

    @property
    def leads(self) -> tuple[Finding, ...]:
        """What is true as well, but saves less than 3 % of the launch: of each its `doubt`."""
        return self.report.leads

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on what the figures rest on."""
        return self.report.notes

    def code(self, kind: str = "amdgcn") -> str | None:
        """The text of a stage (`ttir`, `ttgir`, `llir`, `amdgcn`); None where it is not at hand."""
        artifact = self.report.artifacts.get(kind)
        if artifact is None or not artifact.path.is_file():
            return None
        return file_text(artifact.path)

    def to_dict(self) -> dict[str, Any]:
        """The kernel as JSON values, as `kinspect analyze --format json --details` has it."""
        from ..report.json_write import to_dict

        kernel: dict[str, Any] = to_dict(Report("", {}, (self.report,), ()))["kernels"][0]
        return kernel

    def __str__(self) -> str:
        return str(Analysis(Report("", {}, (self.report,), ())))

    def _repr_html_(self) -> str:
        return Analysis(Report(self.label, {}, (self.report,), ()))._repr_html_()


class Analysis:
    """The kernels of one run, in the order in which they came.

    Args:
        report: the run's report.
        origin: what its kernels were compiled from, where that is known.
    """

    def __init__(self, report: Report, origin: Origin | None = None) -> None:
        self.report = report
        self.origin = origin
        self.kernels = tuple(AnalyzedKernel(kernel, origin) for kernel in report.kernels)

    def __repr__(self) -> str:
        return f"<{plural(len(self.kernels), 'kernel')}, {plural(len(self.errors), 'error')}>"

    def __len__(self) -> int:
        return len(self.kernels)

    def __iter__(self) -> Iterator[AnalyzedKernel]:
        return iter(self.kernels)

    def __getitem__(self, key: int | str) -> AnalyzedKernel:
        """A kernel by position, name or label.

        Raises:
            IndexError: there is none at that position.
            KeyError: none, or several, have that name.
        """
        if isinstance(key, int):
            return self.kernels[key]
        chosen = [kernel for kernel in self.kernels if key in (kernel.name, kernel.label)]
        if len(chosen) != 1:
            labels = ", ".join(kernel.label for kernel in self.kernels)
            raise KeyError(f"{len(chosen)} kernels are named {key!r}, of {labels}")
        return chosen[0]

    @property
    def kernel(self) -> AnalyzedKernel:
        """The only kernel.

        Raises:
            ValueError: there are none or several.
        """
        if len(self.kernels) != 1:
            labels = ", ".join(f"{kernel.label} for {kernel.arch}" for kernel in self.kernels)
            raise ValueError(f"there are {len(self.kernels)} kernels ({labels}), not one")
        return self.kernels[0]

    @property
    def errors(self) -> tuple[ErrorRecord, ...]:
        """What could not be captured, compiled or read."""
        return self.report.errors

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the run as a whole."""
        return self.report.notes

    def to_dict(self, *, details: bool = True) -> dict[str, Any]:
        """The run as JSON values, as `kinspect analyze --format json --details` has it.

        Args:
            details: False for at most 20 KB a kernel, as without that option.
        """
        from ..report import json_brief, json_write

        return json_write.to_dict(self.report) if details else json_brief.to_dict(self.report)

    def to_html(self) -> str:
        """The run as one HTML page, as `kinspect report` writes it."""
        from ..explain import view
        from ..formats.html import page
        from ..formats.html.kernel import page_kernels

        stream = io.StringIO()
        kernels = view.worst_first(self.report.kernels)
        page.write_report(self.report, page_kernels(kernels), stream)
        return stream.getvalue()

    def save(self, path: str | Path) -> None:
        """Writes run and artifacts as one `.kinspect` file, which `load` reads.

        Raises:
            KinspectError: it cannot be written.
        """
        from ..report import saved

        saved.save(self.report, Path(path))

    def __str__(self) -> str:
        from ..present.report import write_text

        return text_of(lambda stream: write_text(self.report, stream, color=False))

    def _repr_html_(self) -> str:
        # Styles of the page must not reach the notebook's.
        return _FRAME.format(page=html.escape(self.to_html(), quote=True))


class LintResult(Shown):
    """What rules found in the kernels of a run.

    Args:
        report: the run's report.
    """

    def __init__(self, report: LintReport) -> None:
        self.report = report

    def __repr__(self) -> str:
        return f"<{len(self.findings)} findings in {len(self.kernels)} kernels>"

    @property
    def kernels(self) -> tuple[CheckedKernel, ...]:
        """The kernels, each with its findings and what suppressed others."""
        return self.report.kernels

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of all kernels."""
        return tuple(finding for kernel in self.kernels for finding in kernel.findings)

    @property
    def failing(self) -> bool:
        """Whether a finding is at or above `fail_on`."""
        return bool(self.report.failing)

    @property
    def errors(self) -> tuple[ErrorRecord, ...]:
        """What could not be captured, compiled or read."""
        return self.report.errors

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on what could not be judged."""
        return self.report.notes

    def to_dict(self) -> dict[str, Any]:
        """The findings as JSON values, as `kinspect lint --format json` has them."""
        from ..formats.lint_json import to_dict

        return to_dict(self.report)

    def __str__(self) -> str:
        from ..present import lint

        return text_of(lambda stream: lint.write(self.report, stream, color=False))


class Difference(Shown):
    """What changed between two runs, and whether it matters.

    Args:
        report: the comparison.
    """

    def __init__(self, report: DiffReport) -> None:
        self.report = report

    def __repr__(self) -> str:
        return f"<{len(self.pairs)} kernels compared, {'regressed' if self.regressed else 'fine'}>"

    @property
    def pairs(self) -> tuple[KernelDiff, ...]:
        """Kernels that both sides have, each with its changes and verdict."""
        return self.report.pairs

    @property
    def regressed(self) -> bool:
        """Whether something that matters got worse in some kernel."""
        return bool(self.report.regressed)

    @property
    def differs(self) -> bool:
        """Whether anything differs."""
        return self.report.differs

    def to_dict(self) -> dict[str, Any]:
        """The comparison as JSON values, as `kinspect diff --format json` has it."""
        from ..formats.diff_json import to_dict

        return to_dict(self.report)

    def __str__(self) -> str:
        from ..present.diff import write_text

        return text_of(
            lambda stream: write_text(
                self.report, stream, details=True, isa_in_full=False, color=False
            )
        )


class SweepResult(Shown):
    """Configurations of kernels, compiled and compared.

    Args:
        sweep: the tables.
    """

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep

    def __repr__(self) -> str:
        return f"<{self.sweep.counts.done} points, {self.sweep.counts.failed} failed>"

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All points as JSON values: kernel, target, values of the axes, figures, Pareto mark."""
        return [
            {"kernel": table["kernel"], "case": table["case"], "arch": table["arch"], **point}
            for table in self.to_dict()["tables"]
            for point in table["rows"]
        ]

    @property
    def errors(self) -> tuple[ErrorRecord, ...]:
        """What could not be captured."""
        return self.sweep.errors

    def to_dict(self) -> dict[str, Any]:
        """The tables as JSON values, as `kinspect sweep --format json` has them."""
        from ..formats.sweep import to_dict

        return to_dict(self.sweep)

    def __str__(self) -> str:
        from ..present import sweep

        return text_of(lambda stream: sweep.write(self.sweep, stream, color=False))


class TrialResult(Shown):
    """The cures that were compiled for findings, and what came of them.

    Args:
        run: the trials of all kernels.
    """

    def __init__(self, run: TrialRun) -> None:
        self.run = run

    def __repr__(self) -> str:
        tried = sum(kernel.tried for kernel in self.run.kernels)
        return f"<{tried} changes tried on {len(self.run.kernels)} kernels>"

    @property
    def kernels(self) -> tuple[KernelTrials, ...]:
        """The kernels with findings, each with the changes that were compiled.

        Of each: `metrics` (the kernel's as it is) and `rows`, the changes: of a row `change` (its
        settings, each with `name` and `value`) and `cures` (ids of the rules whose findings are
        gone, at no graver price); and `front`, those rows that no other beats, the unchanged kernel
        among them where nothing beats that.
        """
        return self.run.kernels

    @property
    def cures(self) -> dict[str, list[dict[str, Any]]]:
        """Rule -> the settings, by name, with which a finding of it is gone."""
        cures: dict[str, list[dict[str, Any]]] = {}
        for row in (row for kernel in self.kernels for row in kernel.rows):
            for rule in row.cures:
                cures.setdefault(rule, []).append({c.name: c.value for c in row.change})
        return cures

    def to_dict(self) -> dict[str, Any]:
        """The trials as JSON values, as `kinspect try --format json` has them."""
        from ..formats.try_json import to_dict

        return to_dict(self.run)

    def __str__(self) -> str:
        from ..present import trials

        return text_of(lambda stream: trials.write(self.run, stream, color=False))
