"""Versions and settings of the operating system, and the user's permission to use the GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .facts import MachineFact, Verdict
from .host import Host
from .knobs import source

NUMA_BALANCING = "/proc/sys/kernel/numa_balancing"

_MACHINE, _PERMISSIONS = "machine", "permission to profile"
_PERF_EVENT_PARANOID = "/proc/sys/kernel/perf_event_paranoid"
_MAX_PARANOID = 2
_READ_WRITE = "read and write"
_GROUPS = ("render", "video")
_JOIN_GROUPS = "sudo usermod -aG render,video $USER, and log in again"


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
