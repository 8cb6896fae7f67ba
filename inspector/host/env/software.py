"""Versions of the Python packages that kernels need, in any interpreter's environment."""

from __future__ import annotations

import json
from collections.abc import Iterator

from .facts import MachineFact, Verdict
from .host import Host

GROUP = "software"
PACKAGES = ("triton", "pytorch-triton-rocm", "torch", "vllm", "aiter", "rocm-sdk-core")
_OPTIONAL = frozenset({"pytorch-triton-rocm", "vllm", "aiter", "rocm-sdk-core"})
_PRINT_VERSIONS = """
import json, sys
try:
    from importlib import metadata
except ImportError:
    metadata = None
versions = {}
for name in sys.argv[1:]:
    try:
        versions[name] = metadata.version(name)
    except Exception:
        versions[name] = None
print(json.dumps({"python": sys.version.split()[0], "packages": versions}))
"""
"""A program for the interpreter in question, which may be older than ours."""


def software_facts(host: Host, python: str) -> Iterator[MachineFact]:
    """The versions of an interpreter and its packages.

    Args:
        host: the machine.
        python: the interpreter's path; it is started.
    """
    output = host.run([python, "-c", _PRINT_VERSIONS, *PACKAGES])
    try:
        reply = json.loads(output or "")
        versions, python_version = dict(reply["packages"]), str(reply["python"])
    except (ValueError, KeyError, TypeError):
        advice = f"{python} does not answer; name another with --python"
        yield MachineFact(GROUP, "python", None, Verdict.UNKNOWN, advice=advice)
        return
    yield MachineFact(GROUP, "python", f"{python_version} ({python})", Verdict.GOOD)
    for name in PACKAGES:
        version = versions.get(name)
        if version is not None or name not in _OPTIONAL:
            yield _package_fact(name, version)


def _package_fact(name: str, version: str | None) -> MachineFact:
    if not version:
        return MachineFact(GROUP, name, version, Verdict.ABSENT)
    if name == "torch" and ("+cpu" in version or "+cu" in version):
        # A build for the CPU or for NVIDIA runs nothing on AMD's GPUs.
        expected, advice = "a +rocm build, to run on AMD GPUs", "compiling and analysing work"
        return MachineFact(GROUP, name, version, Verdict.CHOICE, expected, advice)
    return MachineFact(GROUP, name, version, Verdict.GOOD)
