"""The kernel's launch and compile options: grid, Triton's options, the knobs to turn.

Options are those of the captured variant, else those in Triton's own metadata. Grids are those of
the largest launch that was captured, or that the file states for a case.

How small a tile has to be for its kernel to find room in the registers.

The workgroup that HIP code is compiled for where nothing bounds it, and what that costs.

Without `__launch_bounds__` clang takes a workgroup to have up to 1,024 work-items. All of its
waves are resident at once, so each lane gets a fixed share of the registers (128 VGPRs on CDNA2 and
3, 64 on GCN), and the compiler spills what goes beyond, though the launch may have a quarter of the
waves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ..model import Metric, Scalar, TtgirModule
from .capacity import capacity
from .demand import wave_size
from .entries import Unknown, of_kernels
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


_SHARE: Final = 64
"""Registers of the largest tensor that a lane can hold beside others like it: a quarter of 256.
(_fwd_kernel_token_att2_int8v of ModelTC/lightllm on gfx1100, 512 at BLOCK_N=512: 335 scratch
accesses in the loop; 179, 31 and none with a half, a quarter and an eighth.)"""
_PARTS: Final = {2: "half", 4: "a quarter", 8: "an eighth", 16: "a sixteenth"}
_SMALLEST_PART: Final = max(_PARTS)


def smaller_tile(
    module: TtgirModule, constexprs: Mapping[str, object], sizes: Sequence[str]
) -> str:
    """The remedy for spills of a kernel with loops and without products.

    `constexprs`: their values by name; `sizes`: the names of its block sizes.
    """
    held = _largest_share(module)
    part = 2
    while part < _SMALLEST_PART and held > part * _SHARE:
        part *= 2
    text = f"{_PARTS[part]} of {' or '.join(sizes)}"
    whole = [name for name in sizes if _is_reduced_whole(module, constexprs.get(name))]
    if whole:
        text += f", with an inner loop over the parts of {' and '.join(whole)}"
    return text


def _largest_share(module: TtgirModule) -> int:
    """Registers that a lane holds of the largest tensor of a loop."""
    # Only Triton kernels need them.
    from ..ttgir import queries
    from ..ttgir.layouts import elements_per_thread
    from ..ttgir.lowered import element_bits

    most = 0
    for op in module.ops:
        if queries.loop_above(op, module) is None:
            continue
        for kind in op.result_types:
            bits = element_bits(kind.element) if kind.kind == "tensor" else None
            count = elements_per_thread(kind.layout, kind.shape) if bits else None
            if bits and count:
                most = max(most, count * bits // 32)
    return most


def _is_reduced_whole(module: TtgirModule, extent: object) -> bool:
    """Whether a loop reduces a tensor along a block of some size, by which no loop goes on."""
    from ..ttgir import queries

    constants = queries.integer_constants(module)
    steps = {
        constants.get(op.operands[2])
        for op in module.ops
        if op.name == "scf.for" and len(op.operands) > 2
    }
    return extent not in steps and any(
        op.name == "tt.reduce"
        and isinstance(axis := op.attributes.get("axis"), int)
        and op.operand_types[0].shape[axis] == extent
        and queries.loop_above(op, module) is not None
        for op in module.ops
    )


BOUND_SPECS = of_kernels(
    {
        "launch_bounds": "The workgroup that HIP code is compiled for where the launch is not "
        "known and the code allows the largest there is, as without __launch_bounds__: its "
        "`work_items`, and the most `vgprs` (AGPRs included on unified register files) that it "
        "leaves each lane",
    }
)

DEFAULT: Final = 1024
"""Work-items that clang assumes (LLVM, AMDGPU's default of amdgpu-flat-work-group-size for HIP)."""


def default_bounds(subject: Subject) -> dict[str, Scalar] | Unknown:
    """The value of the metric of `BOUND_SPECS`."""
    resources, facts, machine = subject.function.resources, subject.facts, subject.machine
    lanes = wave_size(subject).value
    is_default = (
        resources.max_workgroup_size == DEFAULT
        and resources.reqd_workgroup_size is None
        and facts.workgroup_size is None
        and subject.ttgir is None
    )
    if machine is None or not isinstance(lanes, int) or not is_default:
        return Unknown("the target is unknown" if machine is None else "its workgroup is bounded")
    unit = capacity(machine, lanes, False, facts.llvm)
    waves = -(-DEFAULT // lanes)
    return {"work_items": DEFAULT, "vgprs": unit.most_vgprs(-(-waves // unit.eus))}
