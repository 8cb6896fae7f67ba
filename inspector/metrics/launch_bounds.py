"""The workgroup that HIP code is compiled for where nothing bounds it, and what that costs.

Without `__launch_bounds__` clang takes a workgroup to have up to 1,024 work-items. All of its
waves are resident at once, so each lane gets a fixed share of the registers (128 VGPRs on CDNA2 and
3, 64 on GCN), and the compiler spills what goes beyond, though the launch may have a quarter of the
waves.
"""

from __future__ import annotations

from typing import Final

from ..model import Scalar
from .capacity import capacity
from .demand import wave_size
from .entries import Unknown, of_kernels
from .subject import Subject

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
