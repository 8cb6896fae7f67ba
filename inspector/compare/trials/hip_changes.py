"""Changes of the compile of a HIP source."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from ...capture.targets import named_kind
from ...compile.hip.options import HipOptions
from ...compile.hip.templates import arguments_of, template_kernels
from ...machines.loader import DEFAULT_ARCH, load
from ...model import Change, KernelReport, Variant

_OPEN_MACRO: Final = re.compile(
    r"^[ \t]*#[ \t]*ifndef[ \t]+(?P<name>\w+)[^\n]*\n"
    r"[ \t]*#[ \t]*define[ \t]+(?P=name)[ \t]+(?P<value>\d{1,6})[ \t]*(?://[^\n]*|/\*[^\n]*)?$",
    re.M,
)
_MOST_KNOBS: Final = 8
"""Macros and template parameters that are tried."""
BOUNDS: Final = "__launch_bounds__"
_BOUNDS_FLAG: Final = "--gpu-max-threads-per-block"
"""Clang's bounds for kernels that state none."""
WAVES: Final = "amdgpu_waves_per_eu"
OPTIONS: Final = (BOUNDS, WAVES)
_DEFAULT: Final = 1024
"""Work-items of a workgroup that clang allows where nothing is stated."""


def is_hip(kernel: KernelReport) -> bool:
    """Whether a kernel is of a HIP source, so that it can be compiled again."""
    return named_kind(Path(kernel.file)) == "hip"


def variant_of(kernel: KernelReport) -> Variant:
    """What a job compiles of a kernel of a HIP source."""
    arch = kernel.arch or DEFAULT_ARCH
    lanes = load(arch).wave_sizes[0]
    return Variant(kernel=kernel.name, arch=arch, options={}, wave_size=lanes, ttir="", stage="hip")


def changes_of(
    kernel: KernelReport, source: str, flags: Sequence[str]
) -> Iterator[tuple[Change, ...]]:
    """Yields what to try on a kernel: bounds, more waves on a SIMD, half and twice each size."""
    workgroup = kernel.metrics.get("workgroup_size")
    threads = workgroup.value if workgroup and workgroup.origin != "estimated" else None
    if isinstance(threads, int) and threads < _DEFAULT:
        yield (Change("macro", BOUNDS, threads),)
    step = kernel.metrics.get("occupancy.next_step")
    if step and isinstance(step.value, Mapping) and step.value["resource"] == "vgpr":
        waves = step.value["gives"]
        if isinstance(waves, int | float):
            yield (Change("macro", WAVES, math.ceil(waves)),)
    stated = stated_values(flags)
    sizes = {name: value for name, value in open_macros(source).items() if name not in stated}
    sizes |= template_sizes(kernel, source)
    for name, value in [*sizes.items()][:_MOST_KNOBS]:
        for other in (value * 2, value // 2):
            if other > 0:
                yield (Change("macro", name, other, value),)


def open_macros(source: str) -> dict[str, int]:
    """The macros that a source leaves to the command line, with the values that it gives them."""
    return {match["name"]: int(match["value"]) for match in _OPEN_MACRO.finditer(source)}


def template_sizes(kernel: KernelReport, source: str) -> dict[str, int]:
    """A kernel's template arguments that are numbers above 1: 0 and 1 are most often switches."""
    arguments = arguments_of(kernel.name, [*template_kernels(source)])
    numbers = {name: int(text) for name, text in arguments.items() if text.isdecimal()}
    return {name: number for name, number in numbers.items() if number > 1}


def stated_values(flags: Sequence[str]) -> dict[str, str]:
    """What flags say of macros and of `BOUNDS`, as text."""
    parts = (flag.removeprefix("-D").partition("=") for flag in flags)
    return {BOUNDS if name == _BOUNDS_FLAG else name: value for name, _, value in parts}


def changed(own: HipOptions, changes: Sequence[Change]) -> HipOptions:
    """How a source is compiled with some changes."""
    values = {change.name: change.value for change in changes}
    waves, bounds = values.pop(WAVES, own.waves_per_eu), values.pop(BOUNDS, None)
    flags = own.flags if bounds is None else (*own.flags, f"{_BOUNDS_FLAG}={bounds}")
    return replace(own, flags=flags, values={**own.values, **values}, waves_per_eu=waves)
