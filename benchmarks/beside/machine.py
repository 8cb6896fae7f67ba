"""What a table was made on: the machine, and the versions of all that takes part."""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import os
import platform
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kinspect.inspector.base.version import VERSION


def heading(tools: Mapping[str, str | None], quick: bool, rounds: int) -> Iterator[str]:
    """What was run, where, and with which versions."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    yield "# kinspect beside other tools"
    yield ""
    yield (
        f"Made by `python -m kinspect.benchmarks.side_by_side` on {datetime.date.today()}:"
        f" {cpu_model()}, {os.cpu_count()} CPUs, {memory:.0f} GiB of memory,"
        f" {platform.system()}; load at the start: {load()}."
    )
    yield ""
    if quick:
        yield "**A run with --quick: it shows that every part works. Do not quote its figures.**"
        yield ""
    yield (
        f"Medians of {rounds}, least and most in brackets; all steps of a table take turns."
        " A ratio is to the table's first row, by medians. CPU seconds are of"
        " the process and all that it waits for. kinspect's store is empty unless the row says"
        " otherwise, but has Triton's key, a hash of its files that bare Triton computes in each"
        " process; byte code is there, as after an installation."
    )
    yield ""
    yield "Versions: " + ", ".join(versions(tools)) + "."


def versions(tools: Mapping[str, str | None]) -> Iterator[str]:
    """All that takes part."""
    yield f"kinspect {VERSION}"
    yield f"Python {platform.python_version()}"
    for package in ("torch", "triton", "numpy", "distributed"):
        try:
            yield f"{package} {importlib.metadata.version(package)}"
        except importlib.metadata.PackageNotFoundError:
            yield f"{package} not installed"
    for program in ("llvm-mca-22", "llvm-objdump-22"):
        text = output([program, "--version"])
        match = re.search(r"LLVM version ([\d.]+)", text)
        yield f"{program} {match[1] if match else 'not installed'}"
    python = tools["tritonparse"]
    code = "from importlib.metadata import version as v; print(v('tritonparse'), v('triton'))"
    pair = output([python, "-c", code]).split() if python else []
    theirs = f"{pair[0]} with triton {pair[1]}" if len(pair) == 2 else "not installed"
    yield f"tritonparse {theirs}"
    yield tinygrad_version(tools["tinygrad"])
    script = tools["compiler-explorer"]
    known = "not installed"
    if script and Path(script).exists():
        known = f"(SHA-256 {hashlib.sha256(Path(script).read_bytes()).hexdigest()[:12]}…)"
    yield f"Compiler Explorer's triton_wrapper.py {known}"
    command = tools["rocprof-compute"]
    first = output([command, "--version"]).split("\n")[0] if command else "not installed"
    yield f"rocprof-compute {first}"


def tinygrad_version(checkout: str | None) -> str:
    """As its pyproject.toml has it."""
    path = Path(checkout or "", "pyproject.toml")
    if checkout is None or not path.exists():
        return "tinygrad not installed"
    version = re.search(r'^version = "(.*)"', path.read_text(), re.MULTILINE)
    return f"tinygrad {version[1] if version else 'of unknown version'} (a checkout)"


def output(command: Sequence[str]) -> str:
    """What a command prints; nothing if it does not start."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""


def cpu_model() -> str:
    """As the kernel names it."""
    match = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return match[1] if match else "CPU of unknown model"


def load() -> str:
    """Load averages."""
    return "/".join(f"{value:.2f}" for value in os.getloadavg())
