"""Puts a kernel's report into words, for every output that people read (text, Markdown, the TUI).

Takes a `KernelReport` and returns plain strings. Colour and layout are left to the renderers, and
no figure is computed that the report does not hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from ..model import (
    Access,
    Assumption,
    Finding,
    KernelReport,
    LoopReport,
    MemoryOp,
    Metric,
    MetricValue,
    SourceLoc,
    int_of,
    number_of,
    value_of,
)

UNKNOWN = "?"
HOT, WARM = 10.0, 2.0
"""A source line with at least this share (%) of a kernel's samples is marked hot or warm."""
SEVERITIES = ("error", "warning", "info")
_RESOURCES = {
    "vgpr": "VGPRs",
    "sgpr": "SGPRs",
    "lds": "LDS",
    "workgroups": "the workgroup limit of a CU",
    "waves": "the wave limit",
    "waves_per_eu": "waves_per_eu",
    "vgpr_request": "the VGPRs asked for",
}


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


def path_of(kernel: KernelReport) -> str:
    """The file that the kernel was read from: the first part of its id."""
    return kernel.id.partition("::")[0]


def place(loc: SourceLoc | None) -> str:
    """A source location as `file:line`; "" for None."""
    return f"{file_name(loc.file)}:{loc.line}" if loc is not None else ""


# --------------------------------------------------------------------------- header


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


# --------------------------------------------------------------------------- occupancy


class OccupancyWords(Struct, frozen=True):
    """Occupancy in plain words; a field is "" where there is nothing to say.

    Args:
        resident: how many waves are resident and what limits them, or why the kernel cannot launch.
        launch: what was assumed of the launch, where it is not known.
        compiler: LLVM's occupancy where it differs from ours, with the reason.
        why_compiler: the reason alone.
        step: the smallest cut of a resource that makes room for more waves.
    """

    resident: str
    launch: str = ""
    compiler: str = ""
    why_compiler: str = ""
    step: str = ""


def occupancy_lines(kernel: KernelReport) -> list[str]:
    """Occupancy in lines of plain words: `OccupancyWords` without empty ones, then the launch."""
    words = occupancy_words(kernel)
    lines = [words.resident, *filter(None, (words.launch, words.compiler, words.step))]
    return lines + launch_lines(kernel)


def launch_lines(kernel: KernelReport) -> list[str]:
    """How evenly a launch fills the GPU, and its time beside its lower bound, a line for each."""
    m = kernel.metrics
    lines = []
    workgroups, rounds = int_of(m, "grid.workgroups"), int_of(m, "tail.rounds")
    efficiency = number_of(m, "tail.efficiency")
    if workgroups is not None and rounds is not None and efficiency is not None:
        share = f"{efficiency:.0f}" if efficiency >= 1 else f"{efficiency:.2g}"
        lines.append(
            f"{plural(workgroups, 'workgroup')} in {plural(rounds, 'round')} on "
            f"{show(value_of(m, 'gpu.cus'))} CUs: {share} % of their places used"
        )
    least, time = number_of(m, "launch.matrix_us"), number_of(m, "time.us")
    if least is not None:
        text = f"matrix work of a launch: {least:.4g} µs at least"
        if time is not None and value_of(m, "time.impossible"):
            text += f", so {time:g} µs is impossible"
        elif time is not None:
            text += f", {show(value_of(m, 'time.bound_share'))} % of {time:g} µs"
        lines.append(text)
    elif time is not None:
        lines.append(f"{time:g} µs: no bound is known ({m['launch.matrix_us'].note})")
    return lines


def occupancy_words(kernel: KernelReport) -> OccupancyWords:
    """Occupancy in plain words, sentence by sentence."""
    m = kernel.metrics
    resident, compiler = value_of(m, "occupancy.waves_per_eu"), value_of(m, "occupancy.compiler")
    groups = int_of(m, "occupancy.workgroups_per_cu")
    limiter = value_of(m, "occupancy.limiter")
    if not isinstance(resident, int | float):
        waves = int_of(m, "occupancy.by_vgpr")
        note = m["occupancy.waves_per_eu"].note if "occupancy.waves_per_eu" in m else ""
        bound = f"at most {plural(waves, 'wave')}/EU by VGPRs" if waves is not None else "unknown"
        return OccupancyWords(f"{bound}   ({note})" if note else bound)
    if groups == 0:
        why = m["occupancy.waves_per_eu"].note or "a resource is over its limit"
        return OccupancyWords(f"cannot launch: {why}")
    line = f"{plural(resident, 'wave')}/EU"
    if groups is not None:
        line = f"{line} = {plural(groups, 'workgroup')}/{_unit(kernel)}"
    if isinstance(limiter, str):
        line += f": limited by {_limiter(kernel, limiter)}"
    launch = differs = why = ""
    if m["occupancy.waves_per_eu"].origin == "estimated":
        launch = f"{m['occupancy.waves_per_eu'].note}; pass --waves for the real launch"
    elif isinstance(compiler, int) and compiler != resident:
        why = _why_llvm_differs(kernel)
        differs = f"LLVM prints {compiler}: {why}"
    step = value_of(m, "occupancy.next_step")
    next_step = _step(step) if isinstance(step, Mapping) else ""
    return OccupancyWords(
        resident=line, launch=launch, compiler=differs, why_compiler=why, step=next_step
    )


def cannot_launch(kernel: KernelReport) -> bool:
    """Whether it is known that not even one workgroup fits on a CU."""
    lds, limit = int_of(kernel.metrics, "lds_bytes"), int_of(kernel.metrics, "lds_limit")
    over = lds is not None and limit is not None and lds > limit
    return over or int_of(kernel.metrics, "occupancy.workgroups_per_cu") == 0


def _unit(kernel: KernelReport) -> str:
    """The unit whose LDS and waves workgroups share: "CU" or, on RDNA in WGP mode, "WGP"."""
    return kernel.demand.unit if kernel.demand is not None else "CU or WGP"


def _limiter(kernel: KernelReport, limiter: str) -> str:
    """The resource that limits occupancy (a key of `_RESOURCES`), with what the kernel uses."""
    m = kernel.metrics
    resource = _RESOURCES.get(limiter, limiter)
    waves = int_of(m, "waves_per_workgroup")
    with_waves = f" with {plural(waves, 'wave')}/workgroup" if waves is not None else ""
    if limiter == "vgpr":
        allocated, pool = int_of(m, "vgpr_allocated"), int_of(m, "vgpr_pool")
        if allocated is not None and pool is not None:
            return f"{resource} ({allocated} of {pool} per SIMD{with_waves})"
    if limiter == "waves_per_eu":
        allocated, in_use = int_of(m, "vgpr_allocated"), int_of(m, "vgpr_count")
        if allocated is not None and in_use is not None:
            return (
                f"the option {resource}: {allocated} VGPRs are asked for, {in_use} used{with_waves}"
            )
    if limiter == "vgpr_request":
        allocated, in_use = int_of(m, "vgpr_allocated"), int_of(m, "vgpr_count")
        if allocated is not None and in_use is not None:
            return f"{resource}: {allocated}, of which {in_use} are used{with_waves}"
    if limiter == "lds":
        in_use, pool = int_of(m, "lds_bytes"), int_of(m, "lds_pool")
        return f"{resource} ({kib(in_use)} of {kib(pool)} per {_unit(kernel)}{with_waves})"
    return f"{resource}{with_waves}"


def _why_llvm_differs(kernel: KernelReport) -> str:
    """What LLVM's occupancy leaves out of account for this kernel."""
    if kernel.demand is not None and kernel.demand.lds_from == "triton":
        return "it sees neither Triton's LDS nor whole workgroups"
    return "it does not count whole workgroups"


def _step(step: Mapping[str, object]) -> str:
    """The value of `occupancy.next_step` as a sentence."""
    # Where two resources set the same limit, reducing only one changes nothing: name both.
    cuts = [(str(step.get("resource")), step.get("reduce_by"))]
    cuts += [(k.removeprefix("also_"), v) for k, v in step.items() if k.startswith("also_")]
    reductions = " and ".join(cut(name, amount) for name, amount in cuts)
    return f"{reductions} would give {step.get('gives')} waves/EU"


def cut(resource: str, amount: object) -> str:
    """The reduction of a resource by `by` of its units, in words."""
    if resource == "lds":
        return f"{amount} B of LDS fewer"
    if resource == "waves_per_eu":
        return f"asking for {amount} fewer VGPRs, by another waves_per_eu,"
    if resource == "vgpr_request":
        return f"asking for {amount} fewer VGPRs"
    return f"{amount} fewer {_RESOURCES.get(resource, resource)}"


# --------------------------------------------------------------------------- loops


def main_loop(kernel: KernelReport) -> LoopReport | None:
    """The loop that the report names as the kernel's main loop."""
    return next((loop for loop in kernel.loops if loop.id == kernel.main_loop), None)


def loop_title(loop: LoopReport) -> str:
    """Where a loop is: source lines, ISA lines, unroll factor."""
    spans = ", ".join(f"{a}–{b}" for a, b in loop.lines[:3])
    if len(loop.lines) > 3:
        spans += ", …"
    parts = [source_span(loop.source), f"ISA {spans}"]
    if loop.unroll is None and count(loop.metrics, "mfma", "wmma"):
        parts.append("? source iterations per ISA iteration")
    elif loop.unroll is not None:
        parts.append(
            "1 source iteration per ISA iteration"
            if loop.unroll == 1
            else f"{loop.unroll} source iterations per ISA iteration"
        )
    if loop.depth > 1:
        parts.append(f"depth {loop.depth}")
    return "   ".join(part for part in parts if part)


def source_span(locations: Sequence[SourceLoc]) -> str:
    """`gemm.py:16–21`: the range of lines in the file that most of the places are in."""
    by_file: dict[str, list[int]] = {}
    for loc in locations:
        by_file.setdefault(loc.file, []).append(loc.line)
    if not by_file:
        return ""
    name, lines = max(by_file.items(), key=lambda item: len(item[1]))
    first, last = min(lines), max(lines)
    return f"{file_name(name)}:{first}" + (f"–{last}" if last > first else "")


def scorecard(metrics: Mapping[str, Metric]) -> list[tuple[str, str]]:
    """A region's instruction mix as (label, figure) pairs, always in the same order."""
    matrix = count(metrics, "mfma", "wmma")
    cycles = int_of(metrics, "cycles.mfma")
    label = "WMMA" if count(metrics, "wmma") else "MFMA"
    mnemonics = value_of(metrics, "matrix.instructions")
    details = list(mnemonics) if isinstance(mnemonics, Mapping) else []
    details += [f"{cycles} cycles"] if matrix and cycles is not None else []
    redundancy = number_of(metrics, "matrix.redundancy") or 1
    repeated = [("matrix work", f"{redundancy:.3g} × needed")] if redundancy > 1 else []
    return [
        ("instructions", show(value_of(metrics, "count.instructions"))),
        (label, f"{matrix} ({', '.join(details)})" if details else str(matrix)),
        ("VALU", str(count(metrics, "valu"))),
        ("SALU", str(count(metrics, "salu"))),
        (
            "LDS",
            f"{count(metrics, 'lds_read')} reads {count(metrics, 'lds_write')} writes"
            + (f" {count(metrics, 'lds_direct')} direct" if count(metrics, "lds_direct") else ""),
        ),
        (
            "global",
            f"{count(metrics, 'global_load')} loads {count(metrics, 'global_store')} stores"
            + (f" {count(metrics, 'atomic')} atomics" if count(metrics, "atomic") else ""),
        ),
        (
            "scratch",
            f"{count(metrics, 'scratch_load')} loads {count(metrics, 'scratch_store')} stores"
            if count(metrics, "scratch_load", "scratch_store")
            else "0",
        ),
        ("AGPR moves", str(count(metrics, "acc_move"))),
        ("s_nop", str(count(metrics, "nop"))),
        ("waits", f"{count(metrics, 'wait')}, of them {count(metrics, 'full_wait')} full"),
        ("barriers", str(count(metrics, "barrier"))),
        *repeated,
        *_bound(metrics),
    ]


_UNITS = {
    "matrix": "matrix unit",
    "vector": "VALU",
    "transcendental": "transcendentals",
    "scalar": "SALU",
    "vmem": "VMEM issue",
    "lds": "LDS banks",
    "lds_port": "LDS ports",
    "l1": "cache lines",
    "issue": "one wave's issue",
    "latency": "dependency chain",
}
"""Unit of a `bound.UNIT` metric -> its name in words."""


def unit_name(unit: str) -> str:
    """The unit that bounds a loop, in words."""
    return _UNITS.get(unit, unit)


def bounds(metrics: Mapping[str, Metric]) -> list[tuple[str, float]]:
    """A hot loop's known lower bounds as (unit, cycles), the largest first."""
    figures = ((unit, number_of(metrics, f"bound.{unit}")) for unit in _UNITS)
    known = [(unit, cycles) for unit, cycles in figures if cycles]
    return sorted(known, key=lambda item: -item[1])


def _bound(metrics: Mapping[str, Metric]) -> list[tuple[str, str]]:
    """The scorecard's row for the largest bound, with the two next; empty where none is known."""
    known = bounds(metrics)
    if not known:
        return []
    (unit, cycles), *smaller = known
    details = [f"{unit_name(other)} {figure:.0f}" for other, figure in smaller[:2]]
    known_units = dict(known)
    unknown = [
        unit_name(other)
        for other in _UNITS
        if f"bound.{other}" in metrics
        and value_of(metrics, f"bound.{other}") is None
        # RDNA's port rates are not published; the bank bound covers the same accesses.
        and not (other == "lds_port" and "lds" in known_units)
    ]
    details += [f"{', '.join(unknown)} unknown"] if unknown else []
    details.append(f"{show(value_of(metrics, 'bound.waves'))} waves/EU")
    covered = number_of(metrics, "bound.covered")
    if covered is not None and covered < 100:
        details.append(f"without code under conditions, {100 - covered:.0f} % of the instructions")
    named = value_of(metrics, "bound.unit") is not None
    by = f" by {unit_name(unit)}" if named else " at least"
    return [("bound", f"{cycles:.0f} cycles{by} ({', '.join(details)})")]


# --------------------------------------------------------------------------- memory


class MemoryRow(Struct, frozen=True):
    """Accesses of one mnemonic and width in one loop.

    Args:
        count: how many instructions.
        mnemonic: theirs.
        bits: accessed by each lane; None if unknown.
        places: source lines, as `gemm.py:17,18`.
        note: what is wrong with them, or "".
    """

    count: int
    mnemonic: str
    bits: int | None
    places: str
    note: str


# Instruction classes in the order of the memory table; any other class comes last.
_CLASS_ORDER = (
    "scratch_load",
    "scratch_store",
    "global_load",
    "lds_direct",
    "global_store",
    "atomic",
    "lds_read",
    "lds_write",
)


def memory_rows(ops: Iterable[MemoryOp], loop: str | None) -> list[MemoryRow]:
    """The accesses in `loop` (None: outside all loops) by mnemonic and width, spills first."""
    groups: dict[tuple[str, str, int | None], list[MemoryOp]] = {}
    for op in ops:
        if op.loop == loop:
            groups.setdefault((op.cls, op.mnemonic, op.bits), []).append(op)
    ordered = sorted(
        groups.items(),
        key=lambda item: (
            _CLASS_ORDER.index(item[0][0]) if item[0][0] in _CLASS_ORDER else len(_CLASS_ORDER),
            item[0][2] or 0,
            item[0][1],
        ),
    )
    return [
        MemoryRow(len(accesses), mnemonic, bits, _places(accesses), _memory_note(cls, accesses))
        for (cls, mnemonic, bits), accesses in ordered
    ]


def _places(ops: Sequence[MemoryOp], max_lines: int = 4) -> str:
    """The source lines of accesses, at most `max_lines` of each file."""
    by_file: dict[str, set[int]] = {}
    for op in ops:
        if op.source is not None:
            loc = op.source.in_user_code
            by_file.setdefault(file_name(loc.file), set()).add(loc.line)
    texts = []
    for name, lines in sorted(by_file.items()):
        numbers = [str(n) for n in sorted(lines)]
        ellipsis = ",…" if len(numbers) > max_lines else ""
        texts.append(f"{name}:{','.join(numbers[:max_lines])}{ellipsis}")
    return " ".join(texts)


def narrow_accesses(kernel: KernelReport, limit: int = 3) -> list[str]:
    """Why accesses in hot loops are narrow, one line each, the narrowest first.

    A reason that a finding already gives is left out, and several copies of one source access make
    one line. If there are more than `most` lines, the last one says how many are missing. A kernel
    that cannot launch has worse problems: it gets none.
    """
    if cannot_launch(kernel):
        return []
    hot = {loop.id for loop in kernel.loops if loop.hot}
    messages = [finding.message for finding in kernel.findings]
    lines: dict[str, int] = {}
    for access in kernel.accesses:
        if access.limited_by is None or access.bits is None or access.loop not in hot:
            continue
        if access.widest is not None and access.bits >= access.widest:
            continue  # the tile is too small for a wider access
        if not any(access.reason in message for message in messages):
            lines.setdefault(_narrow(access), access.bits)
    texts = sorted(lines, key=lambda text: lines[text])
    if len(texts) > limit:
        omitted = len(texts) - limit + 1
        texts = [*texts[: limit - 1], f"and {omitted} more (--format json)"]
    return texts


def _narrow(access: Access) -> str:
    """Why one access is narrow: its width, the widest possible, the reason and the fix."""
    loc = access.source.in_user_code if access.source is not None else None
    where = f" at {place(loc)}" if loc is not None else ""
    layout = access.layout.partition(" of ")[0]
    return (
        f"{access.op}{where} ({layout}): {show(access.bits)} of {show(access.widest)} bits –"
        f" {access.reason}{f' → {access.fix}' if access.fix else ''}"
    )


def _memory_note(cls: str, accesses: Sequence[MemoryOp]) -> str:
    """What is wrong with accesses of one instruction class, in words; "" if nothing is known."""
    if cls.startswith("scratch"):
        return "register spill or private array"
    if cls == "lds_direct":
        return "global memory to LDS, past the registers"
    uses = [op.use for op in accesses if op.use is not None]
    cycles, ideal = (
        sum(getattr(use, name) or 0 for use in uses) for name in ("cycles", "cycles_ideal")
    )
    if cycles > ideal:
        return f"bank conflicts: {cycles:,.0f} cycles for {ideal:,.0f}"
    lines = sum(use.lines or 0 for use in uses)
    needed = sum(use.lines_ideal or 0 for use in uses)
    if lines > needed:
        return f"{lines:,.0f} cache lines where {needed:,.0f} would do"
    return ""


# --------------------------------------------------------------------------- findings


# Kind of a gap in what was read -> its name in the singular and in the plural.
_UNREAD: Mapping[str, tuple[str, str]] = {
    "words": ("word of code that is not decoded", "words of code that are not decoded"),
    "lines": ("line that is not recognised", "lines that are not recognised"),
    "include": ("included file that is not read", "included files that are not read"),
    "condition": (
        "condition that cannot be evaluated",
        "conditions that cannot be evaluated",
    ),
    "expansion": ("macro that is not expanded in full", "macros that are not expanded in full"),
    "preprocessor": ("line for the C preprocessor", "lines for the C preprocessor"),
    "jump": ("jump to an unknown place", "jumps to unknown places"),
}


def unread(kernel: KernelReport) -> str:
    """Which code of a kernel was not read, and what follows for the figures; "" if all was read."""
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


NO_REMEDY = (
    "no finding: {spills} scratch accesses of spills in an iteration of the hot loops, for which no"
    " option or block size is known to help"
)


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


def findings_summary(kernel: KernelReport) -> str:
    """How many findings there are, by severity, or that nothing looks wrong.

    It says the latter only where all code was read and the hot loops do not spill: spills for which
    no remedy is known produce no finding.
    """
    findings = kernel.findings
    if not findings and kernel.unread:
        return "no finding in what was read"
    if not findings:
        spills = spills_in_hot_loops(kernel)
        return NO_REMEDY.format(spills=spills) if spills else "nothing looks wrong"
    tally = []
    for severity in SEVERITIES:
        n = sum(f.severity == severity for f in findings)
        if n:
            tally.append(plural(n, "note" if severity == "info" else severity))
    return f"{plural(len(findings), 'finding')} ({', '.join(tally)})"


def finding_place(finding: Finding) -> str:
    """The first place that a reader can open, as `file:line` or `ISA line`."""
    for location in finding.locations:
        if location.file and location.line:
            return f"{file_name(location.file)}:{location.line}"
    for location in finding.locations:
        if location.line:
            return f"{'ISA' if location.kind == 'amdgcn' else location.kind} {location.line}"
    return ""


def worst_first(kernels: Sequence[KernelReport]) -> list[KernelReport]:
    """Kernels by errors, then spill traffic in hot loops, then warnings and notes; most first."""
    return sorted(kernels, key=_badness, reverse=True)


def _badness(kernel: KernelReport) -> tuple[int, ...]:
    errors, *lesser = (sum(f.severity == s for f in kernel.findings) for s in SEVERITIES)
    return (errors, hot_scratch(kernel), *lesser)


def hot_scratch(kernel: KernelReport) -> int:
    """Scratch accesses in an iteration of the hot loops, where spill traffic costs most."""
    return sum(
        count(loop.metrics, "scratch_load", "scratch_store") for loop in kernel.loops if loop.hot
    )
