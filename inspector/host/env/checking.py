"""All that `kinspect env check` looks at."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from .facts import Fact, Report, Verdict
from .host import Host
from .knobs import judge
from .system import gpus, system_facts


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
