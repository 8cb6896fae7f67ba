"""The figures of one point of a sweep: what its kernel's report comes down to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from msgspec import Struct

from ...model import KernelReport, LoopReport, Metric, int_of, number_of, text_of

FORMAT = 7
"""Raised when figures of an unchanged report would change."""

Work = Literal["mac", "element"]
"""What needed work is counted in: multiply-accumulates of dots, or loaded elements."""
PORTION: Mapping[Work, int] = {"mac": 1_000_000, "element": 1_000}
"""How much of it the figures `…_per_work` are for."""
_COUNTED_BY: Mapping[Work, str] = {"mac": "work.macs", "element": "work.loaded"}
"""Kind of needed work -> the metric that counts it."""
_SCRATCH = ("count.scratch_load", "count.scratch_store")


class Figures(Struct, frozen=True):
    """The figures of a point; `COLUMNS` describes them.

    None is unknown, or does not exist: what happens in the main loop of a kernel whose loops do
    none of its work. Of a kernel without any loop, figures of an iteration are those of all of it.

    `cannot_launch` says why not even one workgroup fits; None where one does, or that is unknown.
    `no_time` says why the time is not known; None where it is, or nobody asked.
    `memory_bytes` are those that the launch moves, by which it may do other work than another.
    `outside` is the access of memory outside of all arguments, as of `KernelTime`; None without.
    """

    time_us: float | None = None
    vgprs: int | None = None
    agprs: int | None = None
    sgprs: int | None = None
    vgpr_spills: int | None = None
    scratch_in_loops: int | None = None
    scratch_bytes: int | None = None
    lds_bytes: int | None = None
    waves_per_workgroup: int | None = None
    waves_per_eu: int | float | None = None
    limiter: str | None = None
    matrix_per_iteration: int | None = None
    matrix_cycles_per_iteration: int | None = None
    matrix_efficiency: float | None = None
    full_waits_per_iteration: int | None = None
    full_waits_per_1000_matrix_cycles: float | None = None
    unroll: int | None = None
    work_unit: Work | None = None
    work_per_iteration: int | None = None
    matrix_cycles_per_work: float | None = None
    full_waits_per_work: float | None = None
    scratch_per_work: float | None = None
    code_bytes: int | None = None
    cannot_launch: str | None = None
    isa_sha256: str | None = None
    memory_bytes: float | None = None
    no_time: str | None = None
    outside: str | None = None


class FigureColumn(Struct, frozen=True):
    """A figure as the renderers show it: `name` is its field, `title` the heading for people."""

    name: str
    title: str
    unit: str
    meaning: str


COLUMNS = (
    FigureColumn("time_us", "time", "us", "estimated time of the launch with this point's grid"),
    FigureColumn("vgprs", "VGPRs", "registers", "VGPRs per lane, AGPRs included"),
    FigureColumn("agprs", "AGPRs", "registers", "AGPRs per lane"),
    FigureColumn("sgprs", "SGPRs", "registers", "SGPRs per wave"),
    FigureColumn("vgpr_spills", "spills", "registers", "spilled VGPRs"),
    FigureColumn(
        "scratch_in_loops",
        "in loops",
        "instructions",
        "scratch loads and stores in loops: spill traffic where it costs",
    ),
    FigureColumn("scratch_bytes", "scratch", "bytes", "scratch memory per lane"),
    FigureColumn("lds_bytes", "LDS", "bytes", "LDS per workgroup"),
    FigureColumn("waves_per_workgroup", "waves/workgroup", "waves", "waves per workgroup"),
    FigureColumn(
        "waves_per_eu", "waves/SIMD", "waves", "resident waves per SIMD, whole workgroups"
    ),
    FigureColumn("limiter", "limited by", "", "the resource that limits the resident waves"),
    FigureColumn(
        "matrix_per_iteration",
        "MFMA/iter",
        "instructions",
        "MFMA or WMMA instructions per iteration of the main loop; of the whole kernel where it has"
        " no loop",
    ),
    FigureColumn(
        "matrix_cycles_per_iteration",
        "cycles/iter",
        "cycles",
        "cycles for which those occupy the SIMD's matrix unit, one wave",
    ),
    FigureColumn(
        "matrix_efficiency",
        "MFMA efficiency",
        "%",
        "multiply-accumulates that the dots of the main loop need, of those that all waves' matrix"
        " instructions do; less than 100: waves repeat one another's",
    ),
    FigureColumn(
        "full_waits_per_iteration",
        "full waits",
        "instructions",
        "waits that drain a counter to 0, per iteration of the main loop",
    ),
    FigureColumn(
        "full_waits_per_1000_matrix_cycles",
        "waits/kcycle",
        "instructions",
        "full waits per 1000 cycles of the matrix unit in the main loop; instructions that repeat"
        " another wave's work count among those cycles, so this is no measure of merit",
    ),
    FigureColumn(
        "unroll", "unroll", "iterations", "source iterations per iteration of the main loop"
    ),
    FigureColumn(
        "work_unit",
        "work",
        "",
        "what needed work is counted in: `mac`, multiply-accumulates of the source's dots; where it"
        " has none, `element`, elements of the tiles that it loads",
    ),
    FigureColumn(
        "work_per_iteration",
        "work/iter",
        "work_unit",
        "needed work of one iteration of the main loop, all waves of the workgroup together; of the"
        " whole kernel where it has no loop",
    ),
    FigureColumn(
        "matrix_cycles_per_work",
        "cycles/work",
        "cycles",
        "cycles of the matrix unit in the main loop, of all waves of the workgroup together, per"
        " million needed multiply-accumulates",
    ),
    FigureColumn(
        "full_waits_per_work",
        "waits/work",
        "instructions",
        "full waits in the main loop, of all waves of the workgroup together, per million needed"
        " multiply-accumulates or per thousand loaded elements",
    ),
    FigureColumn(
        "scratch_per_work",
        "scratch/work",
        "instructions",
        "scratch loads and stores in loops, each loop's per its own needed work (of loops that are"
        " not hot per the main loop's), of all waves of the workgroup together, per million needed"
        " multiply-accumulates or per thousand loaded elements",
    ),
    FigureColumn("code_bytes", "code", "bytes", "size of the kernel's code"),
)
"""What can be shown and sorted by, in the order of the table."""


def figures_of(report: KernelReport, loop_id: str | None = None) -> Figures:
    """The figures of a kernel's report.

    Args:
        loop_id: the loop that figures of a loop are about; None for the main one.
    """
    m = report.metrics
    loop_id = report.main_loop if loop_id is None else loop_id
    main = next((loop for loop in report.loops if loop.id == loop_id), None)
    inside = main.metrics if main is not None else {}
    region = inside if report.loops else m
    repeated = number_of(region, "matrix.redundancy")
    unit, waves = _work_unit(region), int_of(m, "waves_per_workgroup")
    cycles, full_waits = int_of(region, "cycles.mfma"), int_of(region, "count.full_wait")
    assembly = report.artifacts.get("amdgcn")

    def per_work(name: str) -> float | None:
        return _per_work(int_of(region, name), region, unit, waves)

    return Figures(
        time_us=report.time.us if report.time is not None else None,
        memory_bytes=report.time.memory_bytes if report.time is not None else None,
        no_time=report.no_time or None,
        outside=(report.time.outside or None) if report.time is not None else None,
        vgprs=int_of(m, "vgpr_count"),
        agprs=int_of(m, "agpr_count"),
        sgprs=int_of(m, "sgpr_count"),
        vgpr_spills=int_of(m, "vgpr_spill_count"),
        scratch_in_loops=_scratch_in_loops(report.loops, m),
        scratch_bytes=int_of(m, "scratch_bytes"),
        lds_bytes=int_of(m, "lds_bytes"),
        waves_per_workgroup=waves,
        waves_per_eu=number_of(m, "occupancy.waves_per_eu"),
        limiter=text_of(m, "occupancy.limiter"),
        matrix_per_iteration=_sum(region, ("count.mfma", "count.wmma")),
        matrix_cycles_per_iteration=cycles,
        matrix_efficiency=round(100 / repeated, 2) if repeated else None,
        full_waits_per_iteration=full_waits,
        full_waits_per_1000_matrix_cycles=(
            round(1000 * full_waits / cycles, 3) if full_waits is not None and cycles else None
        ),
        unroll=main.unroll if main is not None else None,
        work_unit=unit,
        work_per_iteration=int_of(region, _COUNTED_BY[unit]) if unit is not None else None,
        matrix_cycles_per_work=per_work("cycles.mfma") if unit == "mac" else None,
        full_waits_per_work=per_work("count.full_wait"),
        scratch_per_work=_scratch_per_work(report, main, unit, waves),
        code_bytes=int_of(m, "code_bytes"),
        cannot_launch=_cannot_launch(m),
        isa_sha256=assembly.sha256 if assembly is not None else None,
    )


def as_dict(figures: Figures) -> dict[str, Any]:
    """Field -> value."""
    return {name: getattr(figures, name) for name in figures.__struct_fields__}


def _cannot_launch(metrics: Mapping[str, Metric]) -> str | None:
    if int_of(metrics, "occupancy.workgroups_per_cu") != 0:
        return None
    return metrics["occupancy.waves_per_eu"].note or "a resource is over its limit"


def _scratch_in_loops(loops: Iterable[LoopReport], kernel: Mapping[str, Metric]) -> int | None:
    if "count.scratch_load" not in kernel:
        return None  # no code was read
    counts = [_sum(loop.metrics, _SCRATCH) for loop in loops]
    return sum(n for n in counts if n is not None)


def _work_unit(region: Mapping[str, Metric]) -> Work | None:
    """Multiply-accumulates where the source has dots, even if their number is not known."""
    macs, loaded = int_of(region, "work.macs"), int_of(region, "work.loaded")
    if macs:
        return "mac"
    return "element" if macs == 0 and loaded else None


def _per_work(
    count: int | None, region: Mapping[str, Metric], unit: Work | None, waves: int | None
) -> float | None:
    """A count of one wave, spread over the needed work of the region; none at all is none."""
    if count == 0:
        return 0.0
    work = int_of(region, _COUNTED_BY[unit]) if unit is not None else None
    if count is None or unit is None or not work or waves is None:
        return None
    return round(count * waves * PORTION[unit] / work, 3)


def _scratch_per_work(
    report: KernelReport, main_loop: LoopReport | None, unit: Work | None, waves: int | None
) -> float | None:
    """Returns the scratch accesses per unit of work, loops included; None where unknown."""
    if "count.scratch_load" not in report.metrics:
        return None  # no code was read
    if not report.loops:
        return _per_work(_sum(report.metrics, _SCRATCH), report.metrics, unit, waves)
    main = main_loop.metrics if main_loop is not None else {}
    total = 0.0
    for loop in report.loops:
        # How often a loop around others runs is not known: as if it were as often as the main one.
        region = loop.metrics if loop.hot else main
        share = _per_work(_sum(loop.metrics, _SCRATCH), region, unit, waves)
        if share is None:
            return None
        total += share
    return round(total, 3)


def _sum(metrics: Mapping[str, Metric], names: Iterable[str]) -> int | None:
    known_counts = [n for n in (int_of(metrics, name) for name in names) if n is not None]
    return sum(known_counts) if known_counts else None
