"""Which analysed kernel a measured one is: by code object, name, target and what a launch took.

Nothing is guessed. Triton gives all configurations of a tuner one name, so that only registers,
LDS, workgroup and grid tell them apart; where they do not, the answer is all that remain.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ..machines import load, names
from ..machines.loader import base_arch
from ..model import KernelReport, Machine, int_of
from ..recording import CodeObject, KernelProfile, Match
from .figures import quirks

_KD = re.compile(r"\s*(?:\(\.kd\)|\[clone \.kd\]|\.kd)$")
_FILE_URI = re.compile(r"^file://([^#?]+)$")
_RESULT = re.compile(r"^(?:void|__global__ void)\s+")
_MOST_CODE = 1 << 28
_ROUND_VGPRS = (4, 8)
_ROUND_LDS = (512, 1024)

Hashes = Mapping[tuple[int | None, int], str]


class _Check(Struct, frozen=True):
    """How one figure compares. `agrees` is None where it cannot be told."""

    figure: str
    agrees: bool | None
    text: str = ""


def hashes(code_objects: Sequence[CodeObject]) -> Hashes:
    """SHA-256 of code objects whose bytes are at hand, by process and id."""
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
    file = Path(path)
    try:
        if not file.is_file() or file.stat().st_size > _MOST_CODE:
            return None
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return None


def match(
    kernel: KernelProfile, reports: Sequence[KernelReport], code: Hashes | None = None
) -> Match:
    """Compares a measured kernel with all analysed ones.

    Args:
        kernel: as measured; its shape is as recorded.
        reports: candidates.
        code: the recording's code objects, as `hashes` gives them.

    Returns:
        `exact` where the code object is the same, `likely` where one candidate agrees in all that
        was recorded, else `ambiguous` with all that do, or `none` with what kept each out.
    """
    candidates = [report for report in reports if _same_name(kernel.name, report)]
    if not candidates:
        return Match("none", (), (f"no analysed kernel is named {bare_name(kernel.name)}",))
    same_code = _same_code(kernel, candidates, code or {})
    if len(same_code) == 1:
        return Match("exact", (same_code[0].id,), ("code object: the same bytes",))
    fits: list[tuple[KernelReport, list[_Check]]] = []
    reasons = []
    for report in same_code or candidates:
        checks = _checks(kernel, report)
        against = [check.text for check in checks if check.agrees is False]
        if against:
            reasons.append(f"{report.id}: {'; '.join(against)}")
        else:
            fits.append((report, checks))
    if not fits:
        return Match("none", (), tuple(reasons))
    if len(fits) > 1:
        fits = _by_grid(kernel, fits)
    if len(fits) == 1:
        aside = [check.text for check in fits[0][1] if check.agrees is None and check.text]
        return Match("likely", (fits[0][0].id,), (_agreement(fits[0][1]), *aside))
    ids = tuple(report.id for report, _ in fits)
    return Match("ambiguous", ids, (f"{len(fits)} kernels: {_agreement(fits[0][1])}", *reasons))


def bare_name(name: str) -> str:
    """A kernel's name without the mark of its descriptor: `f.kd` and `f(int) (.kd)` are `f`."""
    return _KD.sub("", name.strip())


def _agreement(checks: Sequence[_Check]) -> str:
    agreed = [check.text for check in checks if check.agrees]
    if not agreed:
        return "the name alone: nothing else was recorded to compare"
    return f"name and {', '.join(agreed)} agree"


def _same_name(name: str, report: KernelReport) -> bool:
    """Whether a recorded name may be this kernel's.

    Arguments and template arguments are compared only where both names have them: profilers can
    cut them off (`--truncate-kernels`).
    """
    recorded = _parts(name)
    mine = {report.name}
    if report.variant is not None:
        mine.add(report.variant.kernel)
        if report.variant.qualname is not None:
            mine.add(report.variant.qualname.rpartition(".")[2])
    return any(_agree(recorded, _parts(candidate)) for candidate in mine)


def _agree(recorded: tuple[str, str, str], compiled: tuple[str, str, str]) -> bool:
    return recorded[0] == compiled[0] and all(
        not a or not b or a == b for a, b in zip(recorded[1:], compiled[1:], strict=True)
    )


def _parts(name: str) -> tuple[str, str, str]:
    """A C++ name apart: name with its namespaces, template arguments, arguments; no spaces."""
    text = _RESULT.sub("", bare_name(name))
    text = text.replace("(anonymous namespace)", "{anonymous}")
    depth, plain, template, arguments = 0, "", "", ""
    for place, letter in enumerate(text):
        if letter == "(" and depth == 0:
            arguments = text[place:]
            break
        depth += (letter == "<") - (letter == ">")
        if depth or letter == ">":
            template += letter
        else:
            plain += letter
    return tuple("".join(part.split()) for part in (plain, template, arguments))  # type: ignore[return-value]


def _same_code(
    kernel: KernelProfile, reports: Sequence[KernelReport], code: Hashes
) -> list[KernelReport]:
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


def _checks(kernel: KernelProfile, report: KernelReport) -> list[_Check]:
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


def _equal(label: str, recorded: int | None, compiled: int | None) -> _Check:
    if recorded is None or compiled is None:
        return _Check(label, None)
    return _among(label, recorded, compiled, {compiled})


def _among(label: str, recorded: int, compiled: int, possible: set[int]) -> _Check:
    if recorded in possible:
        return _Check(label, True, f"{label} {recorded}")
    text = f"{label}: recorded {recorded}, compiled {compiled}"
    if possible != {compiled}:
        text += f" → {' or '.join(map(str, sorted(possible)))}"
    return _Check(label, False, text)


def _target(recorded: str | None, compiled: str | None) -> _Check:
    if recorded is None or compiled is None:
        return _Check("target", None)
    if base_arch(recorded) == compiled:
        return _Check("target", True, f"target {compiled}")
    return _Check("target", False, f"target: recorded {base_arch(recorded)}, compiled {compiled}")


def _up(value: int, granule: int) -> int:
    return -(-max(value, 1) // granule) * granule


def _arch_of(kernel: KernelProfile, report: KernelReport) -> str | None:
    return kernel.agent.arch if kernel.agent and kernel.agent.arch else report.arch


def _vgprs(kernel: KernelProfile, report: KernelReport, machine: Machine | None) -> _Check:
    """VGPRs: recorded in granules, and on unified register files without AGPRs."""
    registers = quirks.registers(kernel.shape, _arch_of(kernel, report))
    own, total = int_of(report.metrics, "arch_vgpr_count"), int_of(report.metrics, "vgpr_count")
    compiled = own if own is not None else total
    if not registers.vgpr or compiled is None:
        return _Check("vgpr", None)
    if registers.is_offset and own is None:
        return _Check("vgpr", None)
    granules = set(_ROUND_VGPRS)
    if machine is not None and not registers.is_offset:
        wave = int_of(report.metrics, "wave_size") or machine.wave_sizes[0]
        granules |= {g for g in (machine.vgpr_encoding_granule.get(wave),) if g}
    possible = {_up(compiled, granule) for granule in granules}
    if not registers.is_offset:
        possible.add(compiled)
    if machine is not None and machine.agpr == "separate" and total is not None:
        possible |= {_up(total, granule) for granule in granules}  # of both files, the larger one
    if not registers.exact and total is not None:
        possible |= {_up(total, 8), _up(total, 8) // 2}
    return _among("vgpr", registers.vgpr, compiled, possible)


def _agprs(kernel: KernelProfile, report: KernelReport, machine: Machine | None) -> _Check:
    """AGPRs: what is left of the allocation above the VGPRs, padding included."""
    registers = quirks.registers(kernel.shape, _arch_of(kernel, report))
    own, compiled = int_of(report.metrics, "arch_vgpr_count"), int_of(report.metrics, "agpr_count")
    if registers.accum is None or compiled is None or own is None:
        return _Check("agpr", None)
    if machine is None or not registers.is_offset:  # elsewhere the VGPRs are repeated, or it is 0
        return _Check("agpr", None)
    possible = {_up(compiled, granule) if compiled else 0 for granule in _ROUND_VGPRS}
    offset = _up(own, 4)
    possible |= {_up(offset + compiled, 8) - offset, _up(offset + compiled, 8) - _up(own, 8)}
    return _among("agpr", registers.accum, compiled, possible)


def _lds(kernel: KernelProfile, report: KernelReport, machine: Machine | None) -> _Check:
    recorded, compiled = kernel.shape.lds_bytes, int_of(report.metrics, "lds_bytes")
    if recorded is None or compiled is None:
        return _Check("LDS", None)
    if recorded == 0 and compiled:
        # It has the kernel's static LDS only, and all of Triton's is dynamic.
        text = f"LDS: recorded 0, compiled {compiled}: rocprofv3's CSV leaves dynamic LDS out"
        return _Check("LDS", None, text)
    granules = set(_ROUND_LDS)
    if machine is not None:
        granules |= set(machine.lds_granule.values())
    rounded = {_up(compiled, granule) for granule in granules} if compiled else set()
    return _among("LDS", recorded, compiled, {compiled, *rounded})


def _scratch(kernel: KernelProfile, report: KernelReport) -> _Check:
    recorded, compiled = kernel.shape.scratch_bytes, int_of(report.metrics, "scratch_bytes")
    if recorded is None or compiled is None:
        return _Check("scratch", None)
    # A runtime may ask for more than the kernel states, in steps of 16 bytes or of a wave's 1 KiB.
    rounded = {_up(compiled, granule) for granule in (4, 16)} if compiled else set()
    return _among("scratch", recorded, compiled, {compiled, *rounded})


def _workgroup(kernel: KernelProfile, report: KernelReport) -> _Check:
    recorded = _workgroup_size(kernel)
    metric = report.metrics.get("workgroup_size")
    compiled = int_of(report.metrics, "workgroup_size")
    if recorded is None or compiled is None or metric is None:
        return _Check("workgroup", None)
    if metric.origin == "estimated":
        if recorded <= compiled:
            return _Check("workgroup", None)
        text = f"workgroup: recorded {recorded}, at most {compiled} allowed"
        return _Check("workgroup", False, text)
    return _equal("workgroup", recorded, compiled)


def _workgroup_size(kernel: KernelProfile) -> int | None:
    if kernel.shape.workgroup is not None:
        x, y, z = kernel.shape.workgroup
        return x * y * z
    return kernel.shape.workgroup_size


def _by_grid(
    kernel: KernelProfile, fits: list[tuple[KernelReport, list[_Check]]]
) -> list[tuple[KernelReport, list[_Check]]]:
    """Of several that agree, those whose captured launch had the recorded grid, if any had.

    A grid tells nothing against a kernel: another launch may have another one.
    """
    if kernel.grids != 1:
        return fits
    agreeing = []
    for report, checks in fits:
        check = _grid(kernel, report)
        if check.agrees:
            agreeing.append((report, [*checks, check]))
    return agreeing or fits


def _grid(kernel: KernelProfile, report: KernelReport) -> _Check:
    group = _workgroup_size(kernel)
    grid = report.variant.grid if report.variant else None
    if not grid or group is None:
        return _Check("grid", None)
    x, y, z = (*grid, 1, 1)[:3]
    compiled = (x * group, y, z)
    if kernel.shape.grid is not None:
        agrees = kernel.shape.grid == compiled
    elif kernel.shape.grid_size is not None:
        agrees = kernel.shape.grid_size == compiled[0] * y * z
    else:
        return _Check("grid", None)
    return _Check("grid", agrees, f"grid {x}×{y}×{z} workgroups")
