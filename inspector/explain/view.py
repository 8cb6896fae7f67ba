"""Puts a kernel's report into words, for every output that people read (text, Markdown, the TUI).

Takes a `KernelReport` and returns plain strings: first the forms of figures and places that all
views share, then a kernel's configuration, and its findings. `occupancy_view` and `loop_view` do so
for their subjects. Colour and layout are left to the renderers, and no figure is computed that the
report does not hold.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ..model import (
    Assumption,
    Finding,
    KernelReport,
    Metric,
    MetricValue,
    SourceLoc,
    int_of,
    value_of,
)
from ..model.time import LEAST

UNKNOWN = "?"
HOT, WARM = 10.0, 2.0
"""A source line with at least this share (%) of a kernel's samples is marked hot or warm."""
SEVERITIES = ("error", "warning", "info")
SEVERITY_TEXTS: Mapping[str, str] = {"error": "error", "warning": "warning", "info": "note"}
"""Severity -> what people and CI systems call it."""
NO_REMEDY = (
    "no finding: {spills} scratch accesses of spills in an iteration of the hot loops, for which no"
    " option or block size is known to help"
)
NOTHING_FOUND = f"no finding: no change is known that would save {LEAST:g} % of the launch"
_UNREAD: Mapping[str, tuple[str, str]] = {
    "words": ("word of code that is not decoded", "words of code that are not decoded"),
    "lines": ("line that is not recognised", "lines that are not recognised"),
    "include": ("included file that is not read", "included files that are not read"),
    "condition": ("condition that cannot be evaluated", "conditions that cannot be evaluated"),
    "expansion": ("macro that is not expanded in full", "macros that are not expanded in full"),
    "preprocessor": ("line for the C preprocessor", "lines for the C preprocessor"),
    "jump": ("jump to an unknown place", "jumps to unknown places"),
}
"""Kind of a gap in what was read -> its name in the singular and in the plural."""


def count(metrics: Mapping[str, Metric], *names: str) -> int:
    """The sum of the metrics `count.NAME`; a metric that the report lacks adds nothing."""
    return sum(int_of(metrics, f"count.{name}") or 0 for name in names)


def show(number: MetricValue) -> str:
    """A metric's value as text; `?` where it is unknown."""
    if number is None:
        return UNKNOWN
    if isinstance(number, float):
        return f"{number:g}"
    return str(number)


def kib(size: int | None) -> str:
    """Bytes as KiB with one decimal, or bytes below 1 KiB."""
    if size is None:
        return UNKNOWN
    return f"{size} B" if size < 1024 else f"{size / 1024:.1f} KiB"


def plural(n: int | float, word: str) -> str:
    """A count with its word: `1 wave`, `2,048 waves`, `3 launches`."""
    number = f"{n:,}" if isinstance(n, int) else f"{n:g}"
    ending = "" if n == 1 else "es" if word.endswith(("ch", "sh", "s", "x")) else "s"
    return f"{number} {word}{ending}"


def file_name(path: str) -> str:
    """The last part of a path."""
    return path.rpartition("/")[2]


def target_of(kernel: KernelReport) -> str:
    """What a command is given to find the kernel again: never a file that only a report names."""
    return kernel.saved_in if kernel.saved_in is not None else kernel.file


def place(loc: SourceLoc | None) -> str:
    """A source location as `file:line`; "" for None."""
    return f"{file_name(loc.file)}:{loc.line}" if loc is not None else ""


def configuration(kernel: KernelReport) -> str:
    """The launch configuration in one line: waves, constexprs that are not None, and options."""
    waves = int_of(kernel.metrics, "waves_per_workgroup")
    size = int_of(kernel.metrics, "wave_size")
    parts = []
    if waves is not None and size is not None:
        estimated = kernel.metrics["waves_per_workgroup"].origin == "estimated"
        at_most = "≤ " if estimated else ""
        parts.append(f"{at_most}{plural(waves, 'wave')} × {size}")
    elif size is not None:
        parts.append(f"wave{size}")
    if kernel.variant is not None:
        # Optional arguments that were not passed are None; listing dozens of them would bury the
        # constexprs that the kernel was built with.
        constexprs = kernel.variant.constexprs.items()
        parts += [f"{k}={v}" for k, v in constexprs if v is not None]
        options = kernel.variant.options
        parts += [f"{k}={options[k]}" for k in sorted(options) if k != "num_warps"]
    return "  ".join(parts)


def assumed(kernel: KernelReport) -> str:
    """One line on the values that were assumed to specialise the kernel; "" if none were."""
    first, further = _first_assumption(kernel)
    if first is None:
        return ""
    location = f" ({place(first.source)})" if first.source is not None else ""
    omitted = f", and {further} more" if further else ""
    verb = "explored" if first.explored else "assumed"
    return f"{verb}: {first.what} is {first.assumed}{location}{omitted}"


def emulated(kernel: KernelReport) -> str:
    """One line on emulated results that the script read before this launch; "" if it read none."""
    values = kernel.variant.emulated if kernel.variant is not None else ()
    if not values:
        return ""
    first, further = values[0], len(values) - 1
    omitted = f", and {further} more" if further else ""
    return f"emulated: {first.what} is {first.value} ({place(first.source)}){omitted}"


def assumption_mark(kernel: KernelReport) -> str:
    """`assumed` for a table cell: where the script asked for a value and the value assumed."""
    first, further = _first_assumption(kernel)
    if first is None:
        return ""
    location = f"{place(first.source)}: " if first.source is not None else ""
    return f"{location}{first.assumed}{f' +{further}' if further else ''}"


def _first_assumption(kernel: KernelReport) -> tuple[Assumption | None, int]:
    """The assumption to show, preferably an explored one, and how many others there are."""
    assumptions = kernel.variant.assumptions if kernel.variant is not None else ()
    if not assumptions:
        return None, 0
    explored = (assumption for assumption in assumptions if assumption.explored)
    return next(explored, assumptions[0]), len(assumptions) - 1


def unread(kernel: KernelReport) -> str:
    """A sentence on a kernel's unread code and the figures that it affects; "" if all was read."""
    if not kernel.unread:
        return ""
    counts: dict[str, int] = {}
    for gap in kernel.unread:
        counts[gap.kind] = counts.get(gap.kind, 0) + gap.count
    summary = ", ".join(f"{n:,} {_UNREAD[kind][n != 1]}" for kind, n in counts.items())
    if kernel.all_read:
        return f"{summary}: there may be loops that are not listed"
    return (
        f"not all of the code was read ({summary}): counts are lower bounds, loops may be missing"
    )


def no_loop(kernel: KernelReport) -> str:
    """The sentence for a kernel without loops; it claims less where code was not read."""
    return "No loop in what was read" if kernel.unread else "No loop"


def live_registers(kernel: KernelReport) -> str | None:
    """The most registers that hold values at once, and where; None where they are not known."""
    fullest = value_of(kernel.metrics, "live.at")
    if not isinstance(fullest, Mapping):
        return None
    files = (("VGPRs", fullest["vgprs"]), ("AGPRs", fullest["agprs"]))
    counts = " and ".join(f"{show(live)} {name}" for name, live in files if live)
    source = f"{fullest['at']}, " if fullest["at"] else ""
    return f"live at once, at most: {counts} ({source}ISA {fullest['isa']})" if counts else None


def spills_in_hot_loops(kernel: KernelReport) -> int:
    """Scratch accesses of spilled registers in one iteration of each hot loop, in all."""
    metrics = (
        loop.metrics.get(name)
        for loop in kernel.loops
        if loop.hot
        for name in ("spills.reloads", "spills.stores")
    )
    return sum(
        metric.value for metric in metrics if metric is not None and isinstance(metric.value, int)
    )


def severities(graded: Iterable[str]) -> str:
    """`1 error, 2 warnings`, or `no findings`."""
    counts = Counter(graded)
    told = (plural(counts[s], SEVERITY_TEXTS[s]) for s in SEVERITIES if counts[s])
    return ", ".join(told) or "no findings"


def saving(finding: Finding) -> str:
    """`-27 %`: what the cure of a finding saves of the launch's time; empty where unknown."""
    percent = finding.gain_percent
    if percent is None:
        return ""
    return f"-{percent:.0f} %" if percent >= 1 else "under 1 %"


def leads_summary(kernel: KernelReport) -> str:
    """How many facts save too little to be findings."""
    return f"{plural(len(kernel.leads), 'fact')} that would save less than {LEAST:g} %"


def finding_place(finding: Finding) -> str:
    """The first place that a reader can open, as `file:line` or `ISA line`."""
    for location in finding.locations:
        if location.file and location.line:
            return f"{file_name(location.file)}:{location.line}"
    for location in finding.locations:
        if location.line:
            return f"{'ISA' if location.kind == 'amdgcn' else location.kind} {location.line}"
    return ""


def main_loop_place(kernel: KernelReport) -> str | None:
    """The loop that does most of the work, `L1 at file.py:30`; None where there is none."""
    main = next((loop for loop in kernel.loops if loop.id == kernel.main_loop), None)
    if main is None:
        return None
    first = min(main.source, key=lambda at: (at.file, at.line), default=None)
    where = f"{file_name(first.file)}:{first.line}" if first is not None else ""
    return f"{main.id} at {where or f'ISA line {main.header.line}'}"


def worst_first(kernels: Sequence[KernelReport]) -> list[KernelReport]:
    """Kernels by errors, then by the time of all their launches, the longest first.

    Those without a time follow by spill traffic in hot loops, warnings and notes. Configurations
    of an autotuner stand together, the one that it would take first.
    """
    groups = sorted(of_autotuners(kernels), key=lambda group: _badness(group[0]), reverse=True)
    return [kernel for group in groups for kernel in group]


def of_autotuners(kernels: Iterable[KernelReport]) -> list[list[KernelReport]]:
    """The configurations of each autotuned launch, the fastest first; other kernels alone."""
    groups: dict[object, list[KernelReport]] = {}
    for number, kernel in enumerate(kernels):
        variant = kernel.variant
        key: object = number
        if variant is not None and variant.tuning is not None:
            passed = tuple(sorted((variant.values or {}).items()))
            key = (kernel.file, kernel.name, kernel.arch, variant.call_site, passed)
        groups.setdefault(key, []).append(kernel)
    return [sorted(group, key=_slowness) for group in groups.values()]


def _slowness(kernel: KernelReport) -> tuple[bool, float]:
    cannot = any(finding.severity == "error" for finding in kernel.findings)
    return cannot, kernel.time.us if kernel.time is not None else math.inf


def _badness(kernel: KernelReport) -> tuple[float, ...]:
    counts: Counter[str] = Counter(finding.severity for finding in kernel.findings)
    errors, *lesser = (counts[severity] for severity in SEVERITIES)
    return (errors, time_of_launches(kernel), hot_scratch(kernel), *lesser)


def time_of_launches(kernel: KernelReport) -> float:
    """Microseconds of all launches of a kernel; 0 where no time is known."""
    launches = kernel.variant.launches or 1 if kernel.variant is not None else 1
    return kernel.time.us * launches if kernel.time is not None else 0.0


def hot_scratch(kernel: KernelReport) -> int:
    """Scratch accesses in an iteration of the hot loops, where spill traffic costs most."""
    return sum(
        count(loop.metrics, "scratch_load", "scratch_store") for loop in kernel.loops if loop.hot
    )
