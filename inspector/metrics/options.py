"""The kernel's launch and compile options: grid, Triton's options, the knobs to turn.

Options are those of the captured variant, else those in Triton's own metadata. Grids are those of
the first launch that was captured, or that the file states for a case.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from ..model import Metric, Scalar
from .entries import of_kernels
from .subject import Subject

OPTIONS: Mapping[str, tuple[str, str]] = {
    # Triton's name -> unit, meaning
    "num_warps": ("waves", "Waves per workgroup"),
    "num_stages": ("stages", "Stages of the software pipeline; 1 is none"),
    "waves_per_eu": ("waves/SIMD", "Waves per SIMD that registers are held down for; 0 is no wish"),
    "matrix_instr_nonkdim": ("elements", "M and N of the matrix instruction; 0 is Triton's choice"),
    "kpack": ("operands", "Matrix operands along K that one LDS read fetches"),
}
MOST_KNOBS = 8

SPECS = (
    *of_kernels({"grid.workgroups": "workgroups | Workgroups of the launch"}, "compiler"),
    *of_kernels(
        {
            "gpu.cus": "CUs | Compute units of the GPU",
            "gpu.units": "units | Units of the GPU that take a workgroup each: CUs, or pairs of "
            "them (WGPs) where the code lets a workgroup's waves be on both",
            "gpu.unit": "name | What such a unit is called: CU or WGP",
            "grid.per_cu": "workgroups/CU | Workgroups of the launch for each CU",
            "grid.waves_per_eu": "waves/SIMD | Waves of the launch for each SIMD of the GPU, by "
            "num_warps",
            "icache_bytes": "bytes | Instruction cache, which a few neighbouring CUs share",
        }
    ),
    *of_kernels(
        {f"option.{name}": f"{unit} | Triton's {name}: {a}" for name, (unit, a) in OPTIONS.items()},
        "compiler",
    ),
    *of_kernels(
        {
            "knobs": "name | Constexprs and options that decide how many registers the kernel "
            "takes, with their values",
        }
    ),
)

# Options that registers depend on, besides the constexprs.
_REGISTER_OPTIONS = ("num_warps", "num_stages", "waves_per_eu")


def compute(subject: Subject) -> Iterator[Metric]:
    """The metrics of `SPECS`."""
    grid, machine = subject.facts.grid, subject.machine
    count = math.prod(grid) if grid else None
    note = "" if count is not None else "no launch was captured or stated"
    yield Metric("grid.workgroups", count, "workgroups", "compiler", note)
    cus = machine.cus if machine is not None else None
    note = "" if cus is not None else _no_figure(subject)
    yield Metric("gpu.cus", cus, "CUs", "derived", note)
    demand = subject.demand
    units = None if cus is None else cus if demand.cu_mode else cus // 2
    yield Metric("gpu.units", units, "units", "derived", note)
    yield Metric("gpu.unit", demand.unit, "name", "derived")
    per_cu = round(count / cus, 3) if count is not None and cus else None
    yield Metric("grid.per_cu", per_cu, "workgroups/CU", "derived")
    waves = option(subject, "num_warps") or _stated_waves(subject)
    per_eu = None
    if count is not None and cus and machine is not None and waves is not None:
        per_eu = round(count * waves / (cus * (machine.eus_cu_mode or machine.eus)), 3)
    yield Metric("grid.waves_per_eu", per_eu, "waves/SIMD", "derived")
    cache = machine.icache_bytes if machine is not None else None
    note = "" if cache is not None else _no_figure(subject)
    yield Metric("icache_bytes", cache, "bytes", "derived", note)
    for name, (unit, _) in OPTIONS.items():
        value = option(subject, name)
        note = "" if value is not None else "not stated"
        yield Metric(f"option.{name}", value, unit, "compiler", note)
    yield Metric("knobs", knobs(subject), "name", "derived")


def _stated_waves(subject: Subject) -> int | None:
    """Waves of a workgroup of other code than Triton's, where its size is that of the launch."""
    demand = subject.demand
    if demand.waves_from == "largest":
        return None
    return demand.waves_per_workgroup


def option(subject: Subject, name: str) -> int | None:
    """A number among Triton's options; None where it is not stated."""
    return _integer(subject.facts.options.get(name))


def knobs(subject: Subject) -> str | None:
    """The knobs with their values, `BLOCK_M=128 BLOCK_N=64 num_warps=4`; None where none is known.

    Flags (0 and 1) and names in lower case are left out where there are too many: registers mostly
    depend on tile sizes.
    """
    options = {name: option(subject, name) for name in _REGISTER_OPTIONS}
    stated = [f"{name}={value}" for name, value in options.items() if value is not None]
    constexprs = [(k, _integer(v)) for k, v in subject.facts.constexprs.items()]
    integers = [(name, value) for name, value in constexprs if value is not None]
    room = MOST_KNOBS - len(stated)
    # Sizes before flags, of those blocks first.
    ranked = sorted(integers, key=lambda item: (item[1] in (0, 1), "BLOCK" not in item[0].upper()))
    listed = {name for name, _ in ranked[:room]}
    sizes = [f"{name}={value}" for name, value in integers if name in listed]
    return " ".join((*sizes, *stated)) or None


def _integer(value: Scalar | object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _no_figure(subject: Subject) -> str:
    machine = subject.machine
    return f"not published for {machine.arch}" if machine is not None else "the target is unknown"
