"""Joins measured kernels with analysed ones, by code object, name, target and launch, and compares
the figures that both state.

Nothing is guessed. Triton gives all configurations of an autotuner one name, so that only
registers, LDS, workgroup and grid tell them apart. Where these do not suffice, the match names all
candidates that remain.

Profilers record registers and LDS in granules that differ between versions: a figure agrees if any
known way of rounding leads from the compiled one to the recorded one.
"""

from __future__ import annotations

import functools
import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ..base.named_files import file_bytes
from ..isa.mangled import LEFT_OUT, plain_name, written_name
from ..machines import load, names
from ..machines.target_names import base_arch
from ..model import KernelReport, Machine, Metric, int_of, number_of
from ..model.recording import KernelMatch, KernelProfile, RecordedCodeObject
from .figures import quirks

_KD = re.compile(r"\s*(?:\(\.kd\)|\[clone \.kd\]|\.kd)$")
_FILE_URI = re.compile(r"^file://([^#?]+)$")
_LITERAL = re.compile(r"(?<![\w.])(\d+)(?:u|l|ul|ll|ull)\b")
"""A number in template arguments, as demanglers write those of unsigned and long types: `128u`."""
_RESULT = re.compile(r"^(?:void|__global__ void)\s+")
_MOST_CODE = 1 << 28
"""Bytes of the largest code object that is hashed."""
_MOST_NAMES = 4
"""Names of analysed kernels that a reason lists."""
Hashes = Mapping[tuple[int | None, int], str]
"""(process, id of a code object) -> SHA-256 of its bytes."""


def hashes(code_objects: Sequence[RecordedCodeObject]) -> Hashes:
    """SHA-256 of the code objects whose bytes can be read, by process and id."""
    digests = {}
    for code_object in code_objects:
        uri = _FILE_URI.match(code_object.uri) if code_object.uri else None
        path = code_object.path or (uri[1] if uri else None)
        digest = _sha256(path) if path else None
        if digest is not None:
            digests[code_object.process, code_object.id] = digest
    return digests


@functools.lru_cache(maxsize=1024)
def _sha256(path: str) -> str | None:
    try:  # wherever it lies: nothing of it is shown but whether it is the kernel's
        return hashlib.sha256(file_bytes(path, _MOST_CODE)).hexdigest()
    except (OSError, ValueError):
        return None


def match(
    kernel: KernelProfile, reports: Sequence[KernelReport], code: Hashes | None = None
) -> KernelMatch:
    """Matches a measured kernel with the analysed ones.

    `code`: hashes of the recording's code objects, see `hashes`.

    Returns:
        `exact` where the code object is the same, `likely` where one candidate agrees with all
        recorded figures, `ambiguous` where several do, or `none` with the reason for each.
    """
    candidates = [report for report in reports if _same_name(kernel, report)]
    if not candidates:
        return KernelMatch("none", (), (_no_such_name(kernel.name, reports),))
    same_code = _same_code(kernel, candidates, code or {})
    if len(same_code) == 1:
        return KernelMatch("exact", (same_code[0].id,), ("code object: the same bytes",))
    return _by_figures(kernel, same_code or candidates)


def _no_such_name(name: str, reports: Sequence[KernelReport]) -> str:
    """Why no kernel is matched by name, with the names that there are."""
    reason = f"no analysed kernel is named {bare_name(name)}"
    names = list(dict.fromkeys(report.name for report in reports))
    if not names:
        return reason
    further = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{reason}; there is {', '.join(names[:_MOST_NAMES])}{further}"


def _by_figures(kernel: KernelProfile, candidates: Sequence[KernelReport]) -> KernelMatch:
    """Matches a kernel with those candidates whose figures agree with all recorded ones."""
    agreeing: list[tuple[KernelReport, list[FigureCheck]]] = []
    reasons = []
    for report in candidates:
        checks = compare(kernel, report)
        disagreements = [check.text for check in checks if check.agrees is False]
        if disagreements:
            reasons.append(f"{report.id} is another build: {'; '.join(disagreements)}")
        else:
            agreeing.append((report, checks))
    if not agreeing:
        return KernelMatch("none", (), tuple(reasons))
    if len(agreeing) > 1:
        agreeing = with_same_grid(kernel, agreeing)
    report, checks = agreeing[0]
    if len(agreeing) == 1:
        open_questions = [check.text for check in checks if check.agrees is None and check.text]
        return KernelMatch("likely", (report.id,), (agreement(checks), *open_questions))
    ids = tuple(candidate.id for candidate, _ in agreeing)
    return KernelMatch(
        "ambiguous", ids, (f"{len(agreeing)} kernels: {agreement(checks)}", *reasons)
    )


def bare_name(name: str) -> str:
    """Removes the suffix of a kernel's descriptor: `f.kd` and `f(int) (.kd)` are `f`."""
    return _KD.sub("", name.strip())


def _same_name(kernel: KernelProfile, report: KernelReport) -> bool:
    """Tells whether a recorded name, and the symbol where it is known, may be this kernel's.

    Arguments and template arguments are compared only where both names have them: profilers can
    cut them off (`--truncate-kernels`).
    """
    names_of_kernel = {report.name}
    if report.variant is not None:
        names_of_kernel.add(report.variant.kernel)
        if report.variant.qualname is not None:
            names_of_kernel.add(report.variant.qualname.rpartition(".")[2])
    return any(
        _names_agree(bare_name(kernel.name), name) and _symbol_agrees(kernel.shape.symbol, name)
        for name in names_of_kernel
    )


def _symbol_agrees(symbol: str | None, compiled: str) -> bool:
    """Tells whether a symbol may be that of a function with this name, mangled or readable."""
    if symbol is None:
        return True
    if plain_name(compiled) is None:
        written = written_name(symbol)
        return written is None or LEFT_OUT in written or _names_agree(written, compiled)
    return plain_name(symbol) is None or symbol == compiled


def _names_agree(recorded: str, compiled: str) -> bool:
    """Tells whether two names may be one function's; of a mangled one, no arguments are read."""
    if plain_name(recorded) is not None and plain_name(compiled) is not None:
        return recorded == compiled
    recorded_name, *recorded_arguments = name_parts(recorded)
    compiled_name, *compiled_arguments = name_parts(compiled)
    return recorded_name == compiled_name and all(
        not left or not right or left == right
        for left, right in zip(recorded_arguments, compiled_arguments, strict=True)
    )


def name_parts(name: str) -> tuple[str, str, str]:
    """Splits a C++ name into name (with namespaces), template arguments and arguments.

    Of a mangled one the name alone is read.
    """
    text = _RESULT.sub("", bare_name(name))
    if (mangled := plain_name(text)) is not None:
        return mangled, "", ""
    text = text.replace("(anonymous namespace)", "{anonymous}")
    depth, plain, template, arguments = 0, "", "", ""
    for index, character in enumerate(text):
        if character == "(" and depth == 0:
            arguments = text[index:]
            break
        depth += (character == "<") - (character == ">")
        if depth or character == ">":
            template += character
        else:
            plain += character
    plain, template, arguments = ("".join(part.split()) for part in (plain, template, arguments))
    return plain, _LITERAL.sub(r"\1", template), arguments


def _same_code(
    kernel: KernelProfile, reports: Sequence[KernelReport], code: Hashes
) -> list[KernelReport]:
    """Returns the reports whose code object is the recorded one, byte by byte."""
    shape = kernel.shape
    if shape.code_object is None:
        return []
    digest = code.get((shape.process, shape.code_object), code.get((None, shape.code_object)))
    if digest is None:
        return []
    return [
        report
        for report in reports
        if "hsaco" in report.artifacts and report.artifacts["hsaco"].sha256 == digest
    ]


def join_kernels(
    kernels: Sequence[KernelProfile],
    reports: Sequence[KernelReport],
    code_objects: Sequence[RecordedCodeObject] = (),
) -> tuple[tuple[KernelProfile, ...], tuple[KernelReport, ...]]:
    """Matches measured kernels with analysed ones, and adds the measured metrics to the reports.

    Returns:
        The kernels with their match, and the reports with the measured metrics; where several
        measured kernels match one report (two devices), the one that took most time counts.
    """
    code = hashes(code_objects)
    matched = tuple(replace(kernel, match=match(kernel, reports, code)) for kernel in kernels)
    measured: dict[str, list[KernelProfile]] = {}
    for kernel in matched:
        if kernel.match.is_decided:
            measured.setdefault(kernel.match.kernels[0], []).append(kernel)
    return matched, tuple(_measured(report, measured.get(report.id, [])) for report in reports)


def _measured(report: KernelReport, kernels: Sequence[KernelProfile]) -> KernelReport:
    if not kernels:
        return report
    notes = report.notes
    if len(kernels) > 1:
        other_ids = ", ".join(kernel.id for kernel in kernels[1:])
        notes = (*notes, f"measured as {kernels[0].id}; {other_ids} may be this kernel as well")
    share = {metric.name: metric for metric in _bound_share(report, kernels[0])}
    return replace(report, metrics={**report.metrics, **kernels[0].metrics, **share}, notes=notes)


def _bound_share(report: KernelReport, kernel: KernelProfile) -> Iterator[Metric]:
    """Yields the lower bound on the analysed launch's time as a share of the fastest dispatch's, %.

    A dispatch with as many workgroups is taken for the same launch; its sizes may still differ.
    """
    bound_us = number_of(report.metrics, "launch.matrix_us")
    workgroups, shape = int_of(report.metrics, "grid.workgroups"), kernel.shape
    if bound_us is None or kernel.duration is None or not kernel.duration.least:
        return
    if shape.grid is None or shape.workgroup is None or not all(shape.workgroup):
        return
    recorded_workgroups = math.prod(
        -(-items // group_items)
        for items, group_items in zip(shape.grid, shape.workgroup, strict=True)
    )
    if recorded_workgroups != workgroups:
        return
    share = round(100 * bound_us * 1e3 / kernel.duration.least, 1)
    note = f"{bound_us:g} µs of the fastest dispatch's {kernel.duration.least / 1e3:.4g} µs"
    if share > 100:
        note = f"over 100 %, cannot be if the arguments were the captured ones: {note}"
    yield Metric(name="measured.bound_share", value=share, unit="%", origin="measured", note=note)


_ROUND_VGPRS = (4, 8)
"""Granules in which profilers record VGPRs."""
_ROUND_LDS = (512, 1024)
"""Granules in bytes in which profilers record LDS."""


class FigureCheck(Struct, frozen=True):
    """The comparison of one figure. `agrees` is None where it is unknown."""

    figure: str
    agrees: bool | None
    text: str = ""


def compare(kernel: KernelProfile, report: KernelReport) -> list[FigureCheck]:
    """Compares a measured kernel with an analysed one, figure by figure."""
    arch = kernel.agent.arch if kernel.agent else None
    target = base_arch(report.arch) if report.arch else None
    machine = load(target) if target in names() else None
    return [
        _target(arch, target),
        _vgprs(kernel, report, machine),
        _agprs(kernel, report, machine),
        _lds(kernel, report, machine),
        _scratch(kernel, report),
        _workgroup(kernel, report),
        _equal("wave size", kernel.shape.wave_size, int_of(report.metrics, "wave_size")),
    ]


def _equal(label: str, recorded: int | None, compiled: int | None) -> FigureCheck:
    if recorded is None or compiled is None:
        return FigureCheck(label, None)
    return _among(label, recorded, compiled, {compiled})


def _among(label: str, recorded: int, compiled: int, possible: set[int]) -> FigureCheck:
    if recorded in possible:
        return FigureCheck(label, True, f"{label} {recorded}")
    text = f"{label}: recorded {recorded}, compiled {compiled}"
    if rounded := sorted(possible - {compiled}):
        text += f", which profilers may write as {' or '.join(map(str, rounded))}"
    return FigureCheck(label, False, text)


def _target(recorded: str | None, compiled: str | None) -> FigureCheck:
    if recorded is None or compiled is None:
        return FigureCheck("target", None)
    if base_arch(recorded) == compiled:
        return FigureCheck("target", True, f"target {compiled}")
    return FigureCheck(
        "target", False, f"target: recorded {base_arch(recorded)}, compiled {compiled}"
    )


def _rounded_up(value: int, granule: int) -> int:
    return -(-max(value, 1) // granule) * granule


def _arch_of(kernel: KernelProfile, report: KernelReport) -> str | None:
    return kernel.agent.arch if kernel.agent and kernel.agent.arch else report.arch


def _vgprs(kernel: KernelProfile, report: KernelReport, machine: Machine | None) -> FigureCheck:
    """Compares VGPRs, which are recorded in granules and, in unified files, without AGPRs."""
    registers = quirks.registers(kernel.shape, _arch_of(kernel, report))
    arch_vgprs, all_vgprs = (
        int_of(report.metrics, "arch_vgpr_count"),
        int_of(report.metrics, "vgpr_count"),
    )
    compiled = arch_vgprs if arch_vgprs is not None else all_vgprs
    if not registers.vgpr or compiled is None:
        return FigureCheck("vgpr", None)
    if registers.is_offset and arch_vgprs is None:
        return FigureCheck("vgpr", None)
    granules = set(_ROUND_VGPRS)
    if machine is not None and not registers.is_offset:
        wave = int_of(report.metrics, "wave_size") or machine.wave_sizes[0]
        granules |= {
            encoding_granule
            for encoding_granule in (machine.vgpr_encoding_granule.get(wave),)
            if encoding_granule
        }
    possible = {_rounded_up(compiled, granule) for granule in granules}
    if not registers.is_offset:
        possible.add(compiled)
    if machine is not None and machine.agpr == "separate" and all_vgprs is not None:
        possible |= {
            _rounded_up(all_vgprs, granule) for granule in granules
        }  # of both files, the larger one
    if not registers.exact and all_vgprs is not None:
        possible |= {_rounded_up(all_vgprs, 8), _rounded_up(all_vgprs, 8) // 2}
    return _among("vgpr", registers.vgpr, compiled, possible)


def _agprs(kernel: KernelProfile, report: KernelReport, machine: Machine | None) -> FigureCheck:
    """Compares AGPRs, which are recorded as the allocation above the VGPRs, padding included."""
    registers = quirks.registers(kernel.shape, _arch_of(kernel, report))
    arch_vgprs, compiled = (
        int_of(report.metrics, "arch_vgpr_count"),
        int_of(report.metrics, "agpr_count"),
    )
    if registers.accum is None or compiled is None or arch_vgprs is None:
        return FigureCheck("agpr", None)
    if machine is None or not registers.is_offset:  # elsewhere it repeats the VGPRs, or is 0
        return FigureCheck("agpr", None)
    possible = {_rounded_up(compiled, granule) if compiled else 0 for granule in _ROUND_VGPRS}
    offset = _rounded_up(arch_vgprs, 4)
    possible |= {
        _rounded_up(offset + compiled, 8) - offset,
        _rounded_up(offset + compiled, 8) - _rounded_up(arch_vgprs, 8),
    }
    return _among("agpr", registers.accum, compiled, possible)


def _lds(kernel: KernelProfile, report: KernelReport, machine: Machine | None) -> FigureCheck:
    """Compares LDS, which is recorded exactly or in granules."""
    recorded, compiled = kernel.shape.lds_bytes, int_of(report.metrics, "lds_bytes")
    if recorded is None or compiled is None:
        return FigureCheck("LDS", None)
    if recorded == 0 and compiled:
        # Only static LDS is recorded, and all of Triton's LDS is dynamic.
        text = f"LDS: recorded 0, compiled {compiled}: rocprofv3's CSV leaves dynamic LDS out"
        return FigureCheck("LDS", None, text)
    granules = set(_ROUND_LDS)
    if machine is not None:
        granules |= set(machine.lds_granule.values())
    rounded = {_rounded_up(compiled, granule) for granule in granules} if compiled else set()
    return _among("LDS", recorded, compiled, {compiled, *rounded})


def _scratch(kernel: KernelProfile, report: KernelReport) -> FigureCheck:
    recorded, compiled = kernel.shape.scratch_bytes, int_of(report.metrics, "scratch_bytes")
    if recorded is None or compiled is None:
        return FigureCheck("scratch", None)
    # A runtime may ask for more than the kernel states, in steps of 16 bytes or of a wave's 1 KiB.
    rounded = {_rounded_up(compiled, granule) for granule in (4, 16)} if compiled else set()
    return _among("scratch", recorded, compiled, {compiled, *rounded})


def _workgroup(kernel: KernelProfile, report: KernelReport) -> FigureCheck:
    recorded = _workgroup_size(kernel)
    metric = report.metrics.get("workgroup_size")
    compiled = int_of(report.metrics, "workgroup_size")
    if recorded is None or compiled is None or metric is None:
        return FigureCheck("workgroup", None)
    if metric.origin == "estimated":
        if recorded <= compiled:
            return FigureCheck("workgroup", None)
        text = f"workgroup: recorded {recorded}, at most {compiled} allowed"
        return FigureCheck("workgroup", False, text)
    return _equal("workgroup", recorded, compiled)


def _workgroup_size(kernel: KernelProfile) -> int | None:
    shape = kernel.shape
    return shape.workgroup_size if shape.workgroup is None else math.prod(shape.workgroup)


def with_same_grid(
    kernel: KernelProfile, candidates: list[tuple[KernelReport, list[FigureCheck]]]
) -> list[tuple[KernelReport, list[FigureCheck]]]:
    """Returns the candidates whose captured launch had the recorded grid; all if none had.

    A different grid does not exclude a kernel: it may have been launched with several grids.
    """
    if kernel.grids != 1:
        return candidates
    agreeing = []
    for report, checks in candidates:
        check = _grid(kernel, report)
        if check.agrees:
            agreeing.append((report, [*checks, check]))
    return agreeing or candidates


def _grid(kernel: KernelProfile, report: KernelReport) -> FigureCheck:
    """Compares grids, in work-items."""
    group = _workgroup_size(kernel)
    grid = report.variant.grid if report.variant else None
    if not grid or group is None:
        return FigureCheck("grid", None)
    x, y, z = (*grid, 1, 1)[:3]
    compiled = (x * group, y, z)
    if kernel.shape.grid is not None:
        agrees = kernel.shape.grid == compiled
    elif kernel.shape.grid_size is not None:
        agrees = kernel.shape.grid_size == compiled[0] * y * z
    else:
        return FigureCheck("grid", None)
    return FigureCheck("grid", agrees, f"grid {x}×{y}×{z} workgroups")


def agreement(checks: Sequence[FigureCheck]) -> str:
    """Lists the figures that agree, in words."""
    agreed = [check.text for check in checks if check.agrees]
    if not agreed:
        return "the name alone: nothing else was recorded to compare"
    return f"name and {', '.join(agreed)} agree"
