"""All that `kinspect env check` looks at: GPUs, driver, settings, clocks, rights, software."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence

from .facts import Fact, Gpu, Report, Verdict
from .host import Host
from .knobs import judge, source

NUMA = "/proc/sys/kernel/numa_balancing"
LEVEL = "power_dpm_force_performance_level"
CLOCK = "pp_od_clk_voltage"
CLOCK_MHZ = 1900
"""The most that the guide lets an MI300X run at while one measures."""
_TOPOLOGY = "/sys/class/kfd/kfd/topology/nodes"
_DRM = "/sys/class/drm"
_AMD = "0x1002"
_DETERMINISM_FOR = ("gfx942",)
_STABLE_FOR = ("gfx11", "gfx12")
_MOST_PARANOID = 2
_TABLE = re.compile(r"^[A-Z_]+:\s*$")
_MACHINE, _GPUS, _RIGHTS = "machine", "GPUs", "permission to profile"


def gpus(host: Host) -> tuple[Gpu, ...]:
    """The AMD GPUs that the driver shows."""
    devices = []
    for place in host.glob(_TOPOLOGY, "*/properties"):
        stated = _properties(host.text(place) or "")
        version = int(stated.get("gfx_target_version", "0"))
        if not version:
            continue  # a CPU
        arch = f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"
        node = int(place.split("/")[-2])
        name = host.text(place.replace("properties", "name")) or ""
        devices.append(Gpu(node, arch, name, _card(host, stated.get("drm_render_minor"))))
    return tuple(sorted(devices, key=lambda gpu: gpu.node))


def system_facts(host: Host, amd_gpus: Sequence[Gpu]) -> Iterator[Fact]:
    """What there is to say of machine, GPUs and rights."""
    yield from _versions(host)
    yield _numa(host, bool(amd_gpus))
    if not amd_gpus:
        yield Fact(
            _GPUS,
            "gpus",
            None,
            Verdict.ABSENT,
            advice="no AMD GPU: nothing in /sys/class/kfd; kinspect compiles and analyses without",
        )
    for gpu in amd_gpus:
        name = f" {gpu.name}" if gpu.name else ""
        yield Fact(_GPUS, f"gpu{gpu.node}", f"{gpu.arch}{name}", Verdict.GOOD)
        yield _level(host, gpu)
    yield from _rights(host, bool(amd_gpus))


def level_name(gpu: Gpu) -> str:
    """What `env set` calls a GPU's clock."""
    return f"clock{gpu.node}"


def sclk_limit(text: str) -> int | None:
    """The greatest clock that pp_od_clk_voltage allows, in MHz: the last line of its table.

    OD_SCLK has the limit in line `1:`; GFXCLK, as kernels before April 2024 wrote it for gfx90a,
    has the present clock there when it lies between the limits, and the upper one in line `2:`.
    """
    inside, limit = False, None
    for line in text.splitlines():
        if _TABLE.match(line):
            inside = line.startswith(("OD_SCLK", "GFXCLK"))
        elif inside and (match := re.match(r"\s*[12]:\s*(\d+)\s*Mhz", line, re.IGNORECASE)):
            limit = int(match[1])
    return limit


def _properties(text: str) -> dict[str, str]:
    pairs = (line.split(" ", 1) for line in text.splitlines() if " " in line)
    return {key: value.strip() for key, value in pairs}


def _card(host: Host, minor: str | None) -> str | None:
    """The folder of a GPU's device in /sys, by its render node."""
    if not minor:
        return None
    place = f"{_DRM}/renderD{minor}/device"
    return place if host.exists(place) else None


def _versions(host: Host) -> Iterator[Fact]:
    yield Fact(_MACHINE, "kernel", host.release, Verdict.GOOD)
    driver = host.text("/sys/module/amdgpu/version")
    if driver is None and host.exists("/sys/module/amdgpu"):
        driver = f"of kernel {host.release}"
    yield Fact(
        _MACHINE,
        "amdgpu",
        driver,
        Verdict.GOOD if driver else Verdict.ABSENT,
        advice="" if driver else "the driver is not loaded, or hidden from this container",
    )
    place = (host.environ.get("ROCM_PATH") or "/opt/rocm") + "/.info/version"
    version = host.text(place)
    if version is None:
        installed = host.glob("/opt", "rocm-*/.info/version")
        version = host.text(installed[-1]) if installed else None
    yield Fact(
        _MACHINE,
        "ROCm",
        version,
        Verdict.GOOD if version else Verdict.ABSENT,
        advice="" if version else f"no {place}; ROCm's wheels bring their own",
    )


def _numa(host: Host, has_gpu: bool) -> Fact:
    value = host.text(NUMA)
    cite = source("workload")
    if value is None:
        return Fact(
            _MACHINE, "numa_balancing", None, Verdict.ABSENT, "0", "the kernel has no such setting"
        )
    if value == "0":
        return Fact(_MACHINE, "numa_balancing", value, Verdict.GOOD, "0", "", cite, True)
    return Fact(
        _MACHINE,
        "numa_balancing",
        value,
        Verdict.CHANGE if has_gpu else Verdict.ABSENT,
        "0",
        "sudo sysctl kernel.numa_balancing=0: pages that move under a kernel make times vary",
        cite,
        True,
    )


def _level(host: Host, gpu: Gpu) -> Fact:
    name = level_name(gpu)
    value = host.text(f"{gpu.card}/{LEVEL}") if gpu.card else None
    if value is None:
        advice = "the performance level is not to be seen: a container, or another driver"
        return Fact(_GPUS, name, None, Verdict.UNKNOWN, advice=advice)
    if value == "perf_determinism":
        limit = sclk_limit(host.text(f"{gpu.card}/{CLOCK}") or "")
        level_text = value if limit is None else f"{value}, {limit} MHz"
        return Fact(_GPUS, name, level_text, Verdict.GOOD, settable=True)
    if gpu.arch in _DETERMINISM_FOR:
        return Fact(
            _GPUS,
            name,
            value,
            Verdict.CHANGE,
            f"perf_determinism, {CLOCK_MHZ} MHz",
            f"sudo rocm-smi --setperfdeterminism {CLOCK_MHZ}, to measure: power excursions lower"
            " the clock by chance; firmware with the PRC feature does not need it",
            source("validation"),
            True,
        )
    if gpu.arch.startswith(_STABLE_FOR):
        return Fact(
            _GPUS,
            name,
            value,
            Verdict.GOOD if value == "profile_standard" else Verdict.CHOICE,
            "profile_standard, for counters",
            "sudo amd-smi set --perf-level STABLE_STD, for counters: under AUTO some blocks"
            " count nothing",
            source("rocprofv3"),
        )
    return Fact(_GPUS, name, value, Verdict.GOOD if value == "auto" else Verdict.CHOICE)


def _rights(host: Host, has_gpu: bool) -> Iterator[Fact]:
    nodes = ["/dev/kfd", *host.glob("/dev/dri", "renderD*")]
    join = "sudo usermod -aG render,video $USER, and log in again"
    for node in nodes:
        if not host.exists(node):
            advice = "pass --device=/dev/kfd --device=/dev/dri to the container" if has_gpu else ""
            yield Fact(_RIGHTS, node, None, Verdict.ABSENT, "read and write", advice)
        elif host.may_use(node):
            yield Fact(_RIGHTS, node, "read and write", Verdict.GOOD, "read and write")
        else:
            yield Fact(_RIGHTS, node, "not allowed", Verdict.CHANGE, "read and write", join)
    member = [g for g in ("render", "video") if g in host.user.groups]
    if host.user.uid == 0:
        yield Fact(_RIGHTS, "groups", "root", Verdict.GOOD, "render, video")
    else:
        usable = host.exists("/dev/kfd") and host.may_use("/dev/kfd")
        verdict = Verdict.GOOD if member or usable else Verdict.CHANGE
        if not has_gpu and not member:
            verdict = Verdict.ABSENT
        yield Fact(
            _RIGHTS,
            "groups",
            ", ".join(member) or "neither render nor video",
            verdict,
            "render, video",
            join if verdict is Verdict.CHANGE else "",
        )
    yield _paranoid(host)


def _paranoid(host: Host) -> Fact:
    text = host.text("/proc/sys/kernel/perf_event_paranoid")
    name, cite = "perf_event_paranoid", source("kernel")
    if text is None or not re.fullmatch(r"-?\d+", text):
        return Fact(_RIGHTS, name, text, Verdict.UNKNOWN, f"at most {_MOST_PARANOID}", "", cite)
    fine = int(text) <= _MOST_PARANOID or host.user.uid == 0
    return Fact(
        _RIGHTS,
        name,
        text,
        Verdict.GOOD if fine else Verdict.CHOICE,
        f"at most {_MOST_PARANOID}",
        "" if fine else "profilers of the CPU side (rocprof-sys) need it, counters of a GPU may",
        cite,
    )


# --------------------------------------------------------------------------- all that is checked


def check(host: Host, python: str, further_facts: Iterable[Fact] = ()) -> Report:
    """Looks at a machine; changes nothing and needs no rights.

    Args:
        host: the machine.
        python: the interpreter whose packages are asked for.
        further_facts: facts that other rooms found (profilers).
    """
    amd_gpus = gpus(host)
    facts = (
        *system_facts(host, amd_gpus),
        *further_facts,
        *software_facts(host, python),
        *judge(host.environ, bool(amd_gpus)),
    )
    return Report(facts, amd_gpus)


# --------------------------------------------------------------------------- software


GROUP = "software"
PACKAGES = ("triton", "pytorch-triton-rocm", "torch", "vllm", "aiter", "rocm-sdk-core")
_OPTIONAL = frozenset({"pytorch-triton-rocm", "vllm", "aiter", "rocm-sdk-core"})
_ASK = """
import json, sys
try:
    from importlib import metadata
except ImportError:
    metadata = None
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = metadata.version(name)
    except Exception:
        found[name] = None
print(json.dumps({"python": sys.version.split()[0], "packages": found}))
"""


def software_facts(host: Host, python: str) -> Iterator[Fact]:
    """Versions of the packages in an interpreter's environment."""
    answer = host.run([python, "-c", _ASK, *PACKAGES])
    try:
        reply = json.loads(answer or "")
        packages, version = dict(reply["packages"]), str(reply["python"])
    except (ValueError, KeyError, TypeError):
        yield Fact(
            GROUP,
            "python",
            None,
            Verdict.UNKNOWN,
            advice=f"{python} does not answer; name another with --python",
        )
        return
    yield Fact(GROUP, "python", f"{version} ({python})", Verdict.GOOD)
    for name in PACKAGES:
        package_version = packages.get(name)
        if package_version is None and name in _OPTIONAL:
            continue
        yield Fact(
            GROUP,
            name,
            package_version,
            *_torch(package_version) if name == "torch" else _plain(package_version),
        )


def _plain(version: str | None) -> tuple[Verdict]:
    return (Verdict.GOOD if version else Verdict.ABSENT,)


def _torch(version: str | None) -> tuple[Verdict] | tuple[Verdict, str, str]:
    """A build for the CPU or for NVIDIA runs nothing on these GPUs."""
    if version and ("+cpu" in version or "+cu" in version):
        return Verdict.CHOICE, "a +rocm build, to run on AMD GPUs", "compiling and analysing work"
    return _plain(version)
