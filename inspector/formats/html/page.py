"""Writes the page: a report, or a profile with the reports that it was joined to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TextIO

from ...explain import loop_view, recording_view, view
from ...explain import profile_view as words
from ...model import ErrorRecord, Report, int_of, value_of
from ...profile.figures import counter_comparison
from ...recording import Profile
from ...version import VERSION
from . import svg
from .data import MOST_IN_FULL, DrawnKernel
from .kernel import context

MOST_SAMPLES = 40
MOST_NAME = 84
"""Of a measured kernel's name: the whole one is its tooltip."""


def write_report(report: Report, drawn_kernels: Sequence[DrawnKernel], stream: TextIO) -> None:
    """Writes a static report.

    Args:
        report: what was analysed.
        drawn_kernels: its kernels with levels and code, in the order wanted.
        stream: where to.
    """
    _write(report.target, drawn_kernels, report.errors, report.notes, None, stream)


def write_profile(profile: Profile, drawn_kernels: Sequence[DrawnKernel], stream: TextIO) -> None:
    """Writes a profile and the kernels that it was joined to."""
    errors = (*profile.recording.errors, *profile.errors)
    notes = (*profile.recording.notes, *profile.notes)
    _write(profile.recording.path, drawn_kernels, errors, notes, profile, stream)


def _write(
    title: str,
    drawn_kernels: Sequence[DrawnKernel],
    errors: Sequence[ErrorRecord],
    notes: Sequence[str],
    profile: Profile | None,
    stream: TextIO,
) -> None:
    """Renders the page; `profile` is None for a report alone."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(__package__ or "", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    anchors = {
        drawn.kernel.id: f"k{index}" for index, drawn in enumerate(drawn_kernels[:MOST_IN_FULL])
    }
    page = environment.get_template("page.html.j2")
    stream.write(
        page.render(
            title=title,
            version=VERSION,
            style=environment.loader.get_source(environment, "style.css")[0],  # type: ignore[union-attr]
            rows=[_row(drawn, anchors.get(drawn.kernel.id, "")) for drawn in drawn_kernels],
            kernels=[
                context(drawn, anchors[drawn.kernel.id]) for drawn in drawn_kernels[:MOST_IN_FULL]
            ],
            left=max(0, len(drawn_kernels) - MOST_IN_FULL),
            errors=errors,
            notes=notes,
            run=_run(profile, anchors) if profile is not None else None,
        )
    )


def _row(drawn: DrawnKernel, anchor: str) -> dict[str, str]:
    """Returns a kernel's cells in the table at the top; `anchor` is "" if it is in no section."""
    kernel = drawn.kernel
    m = kernel.metrics
    main = loop_view.main_loop(kernel)
    return {
        "anchor": anchor,
        "name": words.label(kernel),
        "arch": kernel.arch or view.UNKNOWN,
        "vgprs": view.show(value_of(m, "vgpr_count")),
        "spills": view.show(value_of(m, "vgpr_spill_count")),
        "lds": view.kib(int_of(m, "lds_bytes")),
        "waves": view.show(value_of(m, "occupancy.waves_per_eu")),
        "limiter": view.show(value_of(m, "occupancy.limiter")),
        "full_waits": str(view.count(main.metrics, "full_wait")) if main is not None else "–",
        "findings": view.findings_summary(kernel),
    }


def _run(profile: Profile, anchors: dict[str, str]) -> dict[str, Any]:
    """Returns the template's values for a profiler's run."""
    kernels = []
    devices = recording_view.devices(profile)
    for kernel in profile.kernels:
        on = devices.get(kernel.shape.agent or "", "")
        report = words.report_of(kernel, profile)
        part = words.share(kernel, profile)
        kernels.append(
            {
                "name": kernel.name,
                "short": words.short_name(kernel.name, MOST_NAME),
                "role": "tried by an autotuner" if kernel.role == "autotune" else "",
                "share": f"{part:.1f}" if part is not None else words.UNKNOWN,
                "width": f"{part:.1f}" if part is not None else "0",
                "total": words.duration(words.total(kernel)),
                "median": words.duration(words.timed(kernel, "median")),
                "spread": words.spread(kernel.duration),
                "dispatches": f"{words.launches(kernel):,}",
                "launch": "  ".join(filter(None, (words.launch(kernel), on))),
                "times": words.dispatches(kernel),
                "matched": words.matched(kernel, profile),
                "anchor": anchors.get(report.id, "") if report is not None else "",
                "rows": list(words.rows(kernel.metrics, report.metrics if report else None)),
                "counters": list(words.counters(kernel)),
                "emulated": list(counter_comparison.rows(kernel, report)),
                "notes": kernel.notes,
            }
        )
    return {
        "tool": recording_view.tool(profile),
        "command": " ".join(profile.recording.command),
        "agents": recording_view.agents(profile),
        "parts": [recording_view.part(part) for part in profile.recording.parts],
        "kernels": kernels,
        "traces": [recording_view.trace(trace) for trace in profile.recording.traces],
        "samples": recording_view.sampled(profile, MOST_SAMPLES),
        "roofline": _roofline(profile),
    }


def _roofline(profile: Profile) -> str:
    """Draws the kernels whose intensity and rate were measured."""
    points, roofs = [], set()
    for kernel in profile.kernels:
        values = []
        for name in ("flops_per_byte", "flops_per_s", "peak_flops_per_s", "peak_bytes_per_s"):
            metric = kernel.metrics.get(f"roofline.{name}")
            value = metric.value if metric is not None else None
            if not isinstance(value, int | float) or value <= 0:
                value = None
            values.append(value)
        intensity, rate, peak, bandwidth = values
        if kernel.role == "main" and intensity is not None and rate is not None:
            points.append(svg.Point(kernel.name, intensity, rate))
            if peak is not None and bandwidth is not None:
                roofs.add(svg.Roof(peak, bandwidth))
    # Kernels of other types have other roofs: the highest holds for all of them.
    roof = max(roofs, key=lambda candidate: candidate.rate, default=None)
    return svg.roofline(points, roof)
