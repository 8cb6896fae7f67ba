"""Writes the page: a report, or a profile with the reports that it was joined to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TextIO

from ...base.long_names import shortened
from ...base.version import VERSION
from ...explain import loop_view, profile_view, quantities, trials_view, view
from ...model import ErrorRecord, Report, int_of, number_of, value_of
from ...model.recording import KernelProfile, Profile
from ...profile.figures import executed
from . import svg
from .kernel import MOST_IN_FULL, PageKernel, context

MOST_SAMPLES = 40
MOST_NAME = 84
"""Of a measured kernel's name: the whole one is its tooltip."""


def write_report(report: Report, drawn_kernels: Sequence[PageKernel], stream: TextIO) -> None:
    """Writes a static report with its kernels in the order wanted."""
    _write(report.target, drawn_kernels, report.errors, report.notes, None, stream)


def write_profile(profile: Profile, drawn_kernels: Sequence[PageKernel], stream: TextIO) -> None:
    """Writes a profile and the kernels that it was joined to."""
    errors = (*profile.recording.errors, *profile.errors)
    notes = (*profile.recording.notes, *profile.notes)
    _write(profile.recording.path, drawn_kernels, errors, notes, profile, stream)


def _write(
    title: str,
    drawn_kernels: Sequence[PageKernel],
    errors: Sequence[ErrorRecord],
    notes: Sequence[str],
    profile: Profile | None,
    stream: TextIO,
) -> None:
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


def _row(drawn: PageKernel, anchor: str) -> dict[str, str]:
    kernel = drawn.kernel
    m = kernel.metrics
    main = loop_view.main_loop(kernel)
    return {
        "anchor": anchor,
        "name": profile_view.kernel_label(kernel),
        "arch": kernel.arch or view.UNKNOWN,
        "vgprs": view.show(value_of(m, "vgpr_count")),
        "spills": view.show(value_of(m, "vgpr_spill_count")),
        "lds": view.kib(int_of(m, "lds_bytes")),
        "waves": view.show(value_of(m, "occupancy.waves_per_eu")),
        "limiter": view.show(value_of(m, "occupancy.limiter")),
        "full_waits": str(view.count(main.metrics, "full_wait")) if main is not None else "–",
        "findings": trials_view.findings_summary(kernel),
    }


def _run(profile: Profile, anchors: dict[str, str]) -> dict[str, Any]:
    recording = profile.recording
    devices = profile_view.device_names(profile)
    return {
        "tool": profile_view.profiler_text(profile),
        "command": " ".join(recording.command),
        "agents": profile_view.gpu_texts(profile),
        "parts": [profile_view.part_text(part) for part in recording.parts],
        "kernels": [
            _measured(kernel, profile, devices.get(kernel.shape.agent or "", ""), anchors)
            for kernel in profile.kernels
        ],
        "traces": [profile_view.trace_text(trace) for trace in recording.traces],
        "samples": profile_view.unplaced_samples(profile, MOST_SAMPLES),
        "roofline": _roofline(profile),
    }


def _measured(
    kernel: KernelProfile, profile: Profile, device: str, anchors: dict[str, str]
) -> dict[str, Any]:
    report = profile_view.report_of(kernel, profile)
    share = profile_view.share_of_time(kernel)
    return {
        "name": kernel.name,
        "short": shortened(kernel.name, MOST_NAME),
        "role": "tried by an autotuner" if kernel.role == "autotune" else "",
        "share": f"{share:.1f}" if share is not None else quantities.UNKNOWN,
        "width": f"{share:.1f}" if share is not None else "0",
        "total": quantities.duration(kernel.total_ns),
        "median": quantities.duration(profile_view.statistic(kernel, "median")),
        "spread": profile_view.time_range(kernel.duration),
        "dispatches": f"{profile_view.launch_count(kernel):,}",
        "launch": "  ".join(filter(None, (profile_view.launch_text(kernel), device))),
        "times": profile_view.dispatch_text(kernel),
        "matched": profile_view.match_text(kernel, profile),
        "anchor": anchors.get(report.id, "") if report is not None else "",
        "rows": list(
            profile_view.measured_rows(kernel.metrics, report.metrics if report else None)
        ),
        "counters": list(profile_view.counter_rows(kernel)),
        "emulated": list(executed.rows(kernel, report)),
        "notes": kernel.notes,
    }


def _roofline(profile: Profile) -> str:
    points, roofs = [], set()
    names = ("flops_per_byte", "flops_per_s", "peak_flops_per_s", "peak_bytes_per_s")
    for kernel in profile.kernels:
        values = (number_of(kernel.metrics, f"roofline.{name}") for name in names)
        intensity, rate, peak, bandwidth = (
            value if value is not None and value > 0 else None for value in values
        )
        if kernel.role == "main" and intensity is not None and rate is not None:
            points.append(svg.RooflinePoint(kernel.name, intensity, rate))
            if peak is not None and bandwidth is not None:
                roofs.add(svg.RooflineRoof(peak, bandwidth))
    # Kernels of other types have other roofs: the highest holds for all of them.
    roof = max(roofs, key=lambda candidate: candidate.rate, default=None)
    return svg.roofline(points, roof)
