"""Everything that `kinspect env check` looks at, in the order in which it is shown.

Versions of the system and Python packages, kernel settings, and permission to use the GPUs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence

from ...base.programs import WITHOUT_FOLDER
from .gpus import clock_fact, gpu_fact, gpus, no_gpu_fact
from .host import Host, InstalledGpu, MachineFact, MachineReport, Verdict
from .knobs import judge, source


def check(host: Host, python: str, further_facts: Iterable[MachineFact] = ()) -> MachineReport:
    """Looks at a machine; changes nothing and needs no special permission."""
    amd_gpus = gpus(host)
    facts = (
        *system_facts(host, amd_gpus),
        *further_facts,
        *software_facts(host, python),
        *judge(host.environ, bool(amd_gpus)),
    )
    return MachineReport(facts, amd_gpus)


def system_facts(host: Host, amd_gpus: Sequence[InstalledGpu]) -> Iterator[MachineFact]:
    """The facts of the operating system, the GPUs and the user's permissions."""
    yield from version_facts(host)
    yield numa_fact(host, bool(amd_gpus))
    if not amd_gpus:
        yield no_gpu_fact()
    for gpu in amd_gpus:
        yield gpu_fact(gpu)
        yield clock_fact(host, gpu)
    yield from permission_facts(host, bool(amd_gpus))


NUMA_BALANCING = "/proc/sys/kernel/numa_balancing"

_MACHINE, _SOFTWARE, _PERMISSIONS = "machine", "software", "permission to profile"
"""Headings."""
_PERF_EVENT_PARANOID = "/proc/sys/kernel/perf_event_paranoid"
_MAX_PARANOID = 2
_READ_WRITE = "read and write"
_GROUPS = ("render", "video")
_JOIN_GROUPS = "sudo usermod -aG render,video $USER, and log in again"
PACKAGES = ("triton", "pytorch-triton-rocm", "torch", "vllm", "aiter", "rocm-sdk-core")
_OPTIONAL = frozenset({"pytorch-triton-rocm", "vllm", "aiter", "rocm-sdk-core"})
_PRINT_VERSIONS = f"""{WITHOUT_FOLDER}
import json
try:
    from importlib import metadata
except ImportError:
    metadata = None
versions = {{}}
for name in sys.argv[1:]:
    try:
        versions[name] = metadata.version(name)
    except Exception:
        versions[name] = None
print(json.dumps({{"python": sys.version.split()[0], "packages": versions}}))
"""
"""A program for the interpreter in question, which may be older than ours."""


def version_facts(host: Host) -> Iterator[MachineFact]:
    """The versions of the kernel, the amdgpu driver and ROCm."""
    yield MachineFact(_MACHINE, "kernel", host.release, Verdict.GOOD)
    driver = host.text("/sys/module/amdgpu/version")
    if driver is None and host.exists("/sys/module/amdgpu"):
        driver = f"of kernel {host.release}"
    hidden = "the driver is not loaded, or hidden from this container"
    yield _version_fact("amdgpu", driver, hidden)
    path = (host.environ.get("ROCM_PATH") or "/opt/rocm") + "/.info/version"
    rocm = host.text(path)
    if rocm is None:
        installed = host.glob("/opt", "rocm-*/.info/version")
        rocm = host.text(installed[-1]) if installed else None
    yield _version_fact("ROCm", rocm, f"no {path}; ROCm's wheels bring their own")


def software_facts(host: Host, python: str) -> Iterator[MachineFact]:
    """The versions of an interpreter and its packages."""
    output = host.run([python, "-c", _PRINT_VERSIONS, *PACKAGES])
    try:
        reply = json.loads(output or "")
        versions, python_version = dict(reply["packages"]), str(reply["python"])
    except (ValueError, KeyError, TypeError):
        advice = f"{python} does not answer; name another with --python"
        yield MachineFact(_SOFTWARE, "python", None, Verdict.UNKNOWN, advice=advice)
        return
    yield MachineFact(_SOFTWARE, "python", f"{python_version} ({python})", Verdict.GOOD)
    for name in PACKAGES:
        version = versions.get(name)
        if version is not None or name not in _OPTIONAL:
            yield _package_fact(name, version)


def numa_fact(host: Host, has_gpu: bool) -> MachineFact:
    """Returns whether the kernel moves memory pages between NUMA nodes while programs run."""
    value = host.text(NUMA_BALANCING)
    if value is None:
        advice = "the kernel has no such setting"
        return MachineFact(_MACHINE, "numa_balancing", None, Verdict.ABSENT, "0", advice)
    advice = "sudo sysctl kernel.numa_balancing=0: pages that move under a kernel make times vary"
    if value == "0":
        verdict, advice = Verdict.GOOD, ""
    else:
        verdict = Verdict.CHANGE if has_gpu else Verdict.ABSENT
    return MachineFact(
        _MACHINE,
        "numa_balancing",
        value,
        verdict,
        expected="0",
        advice=advice,
        source=source("workload"),
        settable=True,
    )


def permission_facts(host: Host, has_gpu: bool) -> Iterator[MachineFact]:
    """Yields whether the user may open the GPUs and count performance events."""
    for node in ("/dev/kfd", *host.glob("/dev/dri", "renderD*")):
        yield _device_fact(host, node, has_gpu)
    yield _groups_fact(host, has_gpu)
    yield _perf_events_fact(host)


def _version_fact(name: str, version: str | None, advice_if_absent: str) -> MachineFact:
    if version:
        return MachineFact(_MACHINE, name, version, Verdict.GOOD)
    return MachineFact(_MACHINE, name, version, Verdict.ABSENT, advice=advice_if_absent)


def _package_fact(name: str, version: str | None) -> MachineFact:
    if not version:
        return MachineFact(_SOFTWARE, name, version, Verdict.ABSENT)
    if name == "torch" and ("+cpu" in version or "+cu" in version):
        # A build for the CPU or for NVIDIA runs nothing on AMD's GPUs.
        expected, advice = "a +rocm build, to run on AMD GPUs", "compiling and analysing work"
        return MachineFact(_SOFTWARE, name, version, Verdict.CHOICE, expected, advice)
    return MachineFact(_SOFTWARE, name, version, Verdict.GOOD)


def _device_fact(host: Host, node: str, has_gpu: bool) -> MachineFact:
    if not host.exists(node):
        advice = "pass --device=/dev/kfd --device=/dev/dri to the container" if has_gpu else ""
        return MachineFact(_PERMISSIONS, node, None, Verdict.ABSENT, _READ_WRITE, advice)
    if host.may_use(node):
        return MachineFact(_PERMISSIONS, node, _READ_WRITE, Verdict.GOOD, _READ_WRITE)
    return MachineFact(_PERMISSIONS, node, "not allowed", Verdict.CHANGE, _READ_WRITE, _JOIN_GROUPS)


def _groups_fact(host: Host, has_gpu: bool) -> MachineFact:
    """Returns whether the user is in a group that may open GPUs, or needs none."""
    expected = ", ".join(_GROUPS)
    if host.user.uid == 0:
        return MachineFact(_PERMISSIONS, "groups", "root", Verdict.GOOD, expected)
    memberships = ", ".join(group for group in _GROUPS if group in host.user.groups)
    advice = ""
    if memberships:
        verdict = Verdict.GOOD
    elif not has_gpu:
        verdict = Verdict.ABSENT
    elif host.exists("/dev/kfd") and host.may_use("/dev/kfd"):
        verdict = Verdict.GOOD
    else:
        verdict, advice = Verdict.CHANGE, _JOIN_GROUPS
    value = memberships or "neither render nor video"
    return MachineFact(_PERMISSIONS, "groups", value, verdict, expected, advice)


def _perf_events_fact(host: Host) -> MachineFact:
    """Returns whether the user may count performance events of the CPU."""
    level = host.text(_PERF_EVENT_PARANOID)
    advice = ""
    if level is None or not re.fullmatch(r"-?\d+", level):
        verdict = Verdict.UNKNOWN
    elif int(level) <= _MAX_PARANOID or host.user.uid == 0:
        verdict = Verdict.GOOD
    else:
        verdict = Verdict.CHOICE
        advice = "profilers of the CPU side (rocprof-sys) need it, counters of a GPU may"
    return MachineFact(
        _PERMISSIONS,
        "perf_event_paranoid",
        level,
        verdict,
        expected=f"at most {_MAX_PARANOID}",
        advice=advice,
        source=source("kernel"),
    )
