"""The AMD GPUs that the kernel driver lists, and the clocks that they run at."""

from __future__ import annotations

import re

from .host import Host, InstalledGpu, MachineFact, Verdict
from .knobs import source

GROUP = "GPUs"
PERFORMANCE_LEVEL = "power_dpm_force_performance_level"
CLOCK_TABLE = "pp_od_clk_voltage"
CLOCK_MHZ = 1900
"""The clock that the guide caps an MI300X at for measurements."""

_TOPOLOGY = "/sys/class/kfd/kfd/topology/nodes"
_DRM = "/sys/class/drm"
_TABLE_HEADING = re.compile(r"^[A-Z_]+:\s*$")
_CLOCK_LINE = re.compile(r"\s*[12]:\s*(\d+)\s*Mhz", re.IGNORECASE)
_DETERMINISM_ARCHS = ("gfx942",)
_STABLE_LEVEL_FAMILIES = ("gfx11", "gfx12")


def gpus(host: Host) -> tuple[InstalledGpu, ...]:
    """The AMD GPUs in the driver's topology, by node."""
    devices = []
    for path in host.glob(_TOPOLOGY, "*/properties"):
        properties = _properties(host.text(path) or "")
        version = int(properties.get("gfx_target_version", "0"))
        if not version:
            continue  # a CPU
        arch = f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"
        node = int(path.split("/")[-2])
        name = host.text(path.replace("properties", "name")) or ""
        card = _device_folder(host, properties.get("drm_render_minor"))
        devices.append(InstalledGpu(node, arch, name, card))
    return tuple(sorted(devices, key=lambda gpu: gpu.node))


def clock_name(gpu: InstalledGpu) -> str:
    """The name of a GPU's clock setting in `env set`."""
    return f"clock{gpu.node}"


def clock_limit(table: str) -> int | None:
    """The highest clock in MHz that `pp_od_clk_voltage` allows: the last line of its table.

    OD_SCLK has the limit in line `1:`; GFXCLK, as kernels before April 2024 wrote it for gfx90a,
    has the present clock there when it lies between the limits, and the upper one in line `2:`.
    """
    in_clock_table, limit = False, None
    for line in table.splitlines():
        if _TABLE_HEADING.match(line):
            in_clock_table = line.startswith(("OD_SCLK", "GFXCLK"))
        elif in_clock_table and (match := _CLOCK_LINE.match(line)):
            limit = int(match[1])
    return limit


def gpu_fact(gpu: InstalledGpu) -> MachineFact:
    """Returns the fact that there is a GPU."""
    name = f"{gpu.arch} {gpu.name}" if gpu.name else gpu.arch
    return MachineFact(GROUP, f"gpu{gpu.node}", name, Verdict.GOOD)


def no_gpu_fact() -> MachineFact:
    """Returns the fact that there is no GPU, which kinspect does not need."""
    advice = "no AMD GPU: nothing in /sys/class/kfd; kinspect compiles and analyses without"
    return MachineFact(GROUP, "gpus", None, Verdict.ABSENT, advice=advice)


def clock_fact(host: Host, gpu: InstalledGpu) -> MachineFact:
    """A GPU's performance level, and whether clocks stay put at it while one measures."""
    name = clock_name(gpu)
    level = host.text(f"{gpu.card}/{PERFORMANCE_LEVEL}") if gpu.card else None
    if level is None:
        advice = "the performance level is not to be seen: a container, or another driver"
        return MachineFact(GROUP, name, None, Verdict.UNKNOWN, advice=advice)
    if level == "perf_determinism":
        limit = clock_limit(host.text(f"{gpu.card}/{CLOCK_TABLE}") or "")
        value = level if limit is None else f"{level}, {limit} MHz"
        return MachineFact(GROUP, name, value, Verdict.GOOD, settable=True)
    if gpu.arch in _DETERMINISM_ARCHS:
        return MachineFact(
            GROUP,
            name,
            level,
            Verdict.CHANGE,
            expected=f"perf_determinism, {CLOCK_MHZ} MHz",
            advice=f"sudo rocm-smi --setperfdeterminism {CLOCK_MHZ}, to measure: power excursions"
            " lower the clock by chance; firmware with the PRC feature does not need it",
            source=source("validation"),
            settable=True,
        )
    if gpu.arch.startswith(_STABLE_LEVEL_FAMILIES):
        return MachineFact(
            GROUP,
            name,
            level,
            Verdict.GOOD if level == "profile_standard" else Verdict.CHOICE,
            expected="profile_standard, for counters",
            advice="sudo amd-smi set --perf-level STABLE_STD, for counters: under AUTO some blocks"
            " count nothing",
            source=source("rocprofv3"),
        )
    return MachineFact(GROUP, name, level, Verdict.GOOD if level == "auto" else Verdict.CHOICE)


def _properties(text: str) -> dict[str, str]:
    """The `name value` lines of a topology node."""
    pairs = (line.split(" ", 1) for line in text.splitlines() if " " in line)
    return {name: value.strip() for name, value in pairs}


def _device_folder(host: Host, render_minor: str | None) -> str | None:
    """The folder of a GPU in /sys, by the number of its render node; None where it is hidden."""
    if not render_minor:
        return None
    folder = f"{_DRM}/renderD{render_minor}/device"
    return folder if host.exists(folder) else None
