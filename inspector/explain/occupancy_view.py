"""Puts a kernel's occupancy and launch into words, for every output that people read."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from .. import machines
from ..model import KernelReport, int_of, number_of, value_of
from .view import kib, plural, show

_RESOURCES = {
    "vgpr": "VGPRs",
    "sgpr": "SGPRs",
    "lds": "LDS",
    "workgroups": "the workgroup limit",
    "waves": "the wave limit",
    "waves_per_eu": "waves_per_eu",
    "vgpr_request": "the VGPRs asked for",
}


class OccupancyWords(Struct, frozen=True):
    """Occupancy in plain words; a field is "" where there is nothing to say.

    Args:
        resident: how many waves are resident and what limits them, or why the kernel cannot launch.
        compiler: LLVM's occupancy where it differs from ours, with the reason.
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


def waves_text(kernel: KernelReport) -> str:
    """Waves that a SIMD holds, of the most that it can hold: `7 of 8`; `?` where unknown."""
    resident = show(value_of(kernel.metrics, "occupancy.waves_per_eu"))
    if kernel.arch is None or kernel.arch not in machines.names():
        return resident
    return f"{resident} of {machines.load(kernel.arch).max_waves}"


def in_short(kernel: KernelReport) -> str:
    """One line: the waves of a SIMD, what limits them, and the step to more."""
    words = occupancy_words(kernel)
    m = kernel.metrics
    limiter = value_of(m, "occupancy.limiter")
    resident = number_of(m, "occupancy.waves_per_eu")
    if resident is None or cannot_launch(kernel):
        return words.resident
    launched = number_of(m, "grid.waves_per_eu")
    if launched is not None and launched < resident:
        given = f"{launched:.2g} per SIMD on average, the launch has no more"
        return f"{given}; {waves_text(kernel)} would fit"
    line = f"{waves_text(kernel)} per SIMD"
    if isinstance(limiter, str) and limiter != "waves":
        line += f", limited by {_RESOURCES.get(limiter, limiter)}"
    return f"{line}; {words.step}" if words.step else line


def launch_lines(kernel: KernelReport) -> list[str]:
    """Lines on how evenly a launch fills the GPU, and on its time beside its lower bound."""
    m = kernel.metrics
    lines = []
    workgroups, rounds = int_of(m, "grid.workgroups"), int_of(m, "tail.rounds")
    efficiency = number_of(m, "tail.efficiency")
    if workgroups is not None and rounds is not None and efficiency is not None:
        share = f"{efficiency:.0f}" if efficiency >= 1 else f"{efficiency:.2g}"
        lines.append(
            f"{plural(workgroups, 'workgroup')} in {plural(rounds, 'round')} on "
            f"{show(value_of(m, 'gpu.units'))} {_unit(kernel)}s: {share} % of their places used"
        )
    lines += _tile_lines(kernel)
    least, time = number_of(m, "launch.matrix_us"), number_of(m, "time.measured_us")
    if least is not None:
        text = f"matrix work of a launch: {least:.4g} µs at least"
        if time is not None and value_of(m, "time.impossible"):
            text += f", so {time:g} µs is impossible"
        elif time is not None:
            text += f", {show(value_of(m, 'time.bound_share'))} % of {time:g} µs"
        lines.append(text)
    elif time is not None:
        note = f" ({m['launch.matrix_us'].note})" if "launch.matrix_us" in m else ""
        lines.append(f"{time:g} µs: no bound is known{note}")
    return lines


def _tile_lines(kernel: KernelReport) -> list[str]:
    """Lines on the tiles that an XCD's workgroups load in an iteration, and who shares them."""
    m = kernel.metrics
    lines = []
    footprint, share = int_of(m, "l2.footprint"), number_of(m, "l2.footprint_share")
    if footprint is not None and share is not None:
        lines.append(f"one iteration loads {kib(footprint)} through an L2, {share:g} % of it")
    tiles = value_of(m, "xcd.tiles")
    if isinstance(tiles, Mapping) and tiles["reads"] != tiles["distinct"]:
        text = (
            f"{tiles['distinct']} tiles are read {tiles['reads']} times, once on each of "
            f"{tiles['xcds']} XCDs that needs them"
        )
        ratio = tiles["ratio"]
        if isinstance(ratio, float) and ratio > 1:
            text += f"; {tiles['contiguous']} times if an XCD had contiguous program ids"
        lines.append(text)
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
        bound = "unknown"
        if waves is not None:
            limiter = limiter_of_vgprs(kernel)
            by = "VGPRs" if limiter == "vgpr" else _limiter(kernel, limiter)
            bound = f"at most {plural(waves, 'wave')}/SIMD by {by}"
        return OccupancyWords(f"{bound}   ({note})" if note else bound)
    if groups == 0:
        why = m["occupancy.waves_per_eu"].note or "a resource is over its limit"
        return OccupancyWords(f"cannot launch: {why}")
    line = f"{plural(resident, 'wave')}/SIMD"
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
    next_step = _in_use(kernel) if limiter in ("waves_per_eu", "vgpr_request") else ""
    if not next_step and isinstance(step, Mapping):
        next_step = _step(step)
    return OccupancyWords(
        resident=line, launch=launch, compiler=differs, why_compiler=why, step=next_step
    )


def limiter_of_vgprs(kernel: KernelReport) -> str:
    """What of a kernel's VGPRs limits its waves: a value of `occupancy.limiter`.

    More of them may be asked for than its code uses.
    """
    needed, in_use = (int_of(kernel.metrics, f"occupancy.by_vgpr{of}") for of in ("", "_used"))
    if kernel.demand is None or needed is None or in_use is None or needed >= in_use:
        return "vgpr"
    return "waves_per_eu" if kernel.demand.option_given else "vgpr_request"


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
    of_unit = f" of a {_unit(kernel)}" if limiter == "workgroups" else ""
    return f"{resource}{of_unit}{with_waves}"


def _in_use(kernel: KernelReport) -> str:
    """What would be resident if no more VGPRs were reserved than are used; "" where not known."""
    used = int_of(kernel.metrics, "vgpr_count")
    waves = int_of(kernel.metrics, "occupancy.by_vgpr_used")
    if used is None or waves is None:
        return ""
    return f"the {plural(used, 'VGPR')} in use would allow {plural(waves, 'wave')}/SIMD"


def _why_llvm_differs(kernel: KernelReport) -> str:
    """The resources that LLVM's occupancy ignores for a kernel, as a clause."""
    if kernel.demand is not None and kernel.demand.lds_from == "triton":
        return "it sees neither Triton's LDS nor whole workgroups"
    return "it does not count whole workgroups"


def _step(step: Mapping[str, object]) -> str:
    """The value of `occupancy.next_step` as a sentence."""
    # Where two resources set the same limit, reducing only one changes nothing: name both.
    cuts = [(str(step.get("resource")), step.get("reduce_by"))]
    cuts += [(k.removeprefix("also_"), v) for k, v in step.items() if k.startswith("also_")]
    reductions = " and ".join(cut(name, amount) for name, amount in cuts)
    return f"{reductions} would give {step.get('gives')} waves/SIMD"


def cut(resource: str, amount: object) -> str:
    """The reduction of a resource by `by` of its units, in words."""
    if resource == "lds":
        return f"{amount} B of LDS fewer"
    if resource == "waves_per_eu":
        return f"another waves_per_eu that asks for {amount} fewer VGPRs"
    if resource == "vgpr_request":
        return f"{amount} VGPRs fewer than are reserved"
    return f"{amount} fewer {_RESOURCES.get(resource, resource)}"
