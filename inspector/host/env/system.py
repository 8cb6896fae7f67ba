"""Everything that `kinspect env check` looks at, in the order in which it is shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from .facts import InstalledGpu, MachineFact, MachineReport
from .gpus import clock_fact, gpu_fact, gpus, no_gpu_fact
from .host import Host
from .knobs import judge
from .machine import numa_fact, permission_facts, software_facts, version_facts


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
