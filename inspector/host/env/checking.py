"""All that `kinspect env check` looks at."""

from __future__ import annotations

from collections.abc import Iterable

from .facts import Fact, Report
from .host import Host
from .knobs import judge
from .software import software_facts
from .system import gpus, system_facts


def check(host: Host, python: str, others: Iterable[Fact] = ()) -> Report:
    """Looks at a machine; changes nothing and needs no rights.

    Args:
        host: the machine.
        python: the interpreter whose packages are asked for.
        others: facts that other rooms found (profilers).
    """
    found = gpus(host)
    facts = (
        *system_facts(host, found),
        *others,
        *software_facts(host, python),
        *judge(host.environ, bool(found)),
    )
    return Report(facts, found)
