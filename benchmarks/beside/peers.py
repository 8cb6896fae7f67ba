"""Where the other tools are looked for, and how to install those that are missing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from .measuring import ROOT

FOLDER = ROOT / "build" / "peers"


class Peer(Struct, frozen=True):
    """A tool that is no part of kinspect's own environment.

    Args:
        what: it is, as a value of its option.
        place: where it is looked for without the option; None where it has no usual place.
        install: how to have it there.
    """

    what: str
    place: Path | None
    install: str


PEERS: Mapping[str, Peer] = {
    "tritonparse": Peer(
        "an interpreter that has tritonparse and Triton",
        FOLDER / "tritonparse" / "bin" / "python",
        "python3 -m venv build/peers/tritonparse && build/peers/tritonparse/bin/pip install"
        " tritonparse torch triton",
    ),
    "tinygrad": Peer(
        "a checkout of tinygrad: its emulator is in no wheel",
        FOLDER / "tinygrad",
        "git clone --depth 1 https://github.com/tinygrad/tinygrad build/peers/tinygrad",
    ),
    "compiler-explorer": Peer(
        "Compiler Explorer's triton_wrapper.py",
        FOLDER / "triton_wrapper.py",
        "curl -Lo build/peers/triton_wrapper.py --create-dirs https://raw.githubusercontent.com/"
        "compiler-explorer/compiler-explorer/main/etc/scripts/triton_wrapper.py",
    ),
    "rocprof-compute": Peer(
        "the program",
        None,
        "ROCm's package rocprofiler-compute, and --rocprof-workload for what it recorded",
    ),
}
"""Name of the option -> the tool."""
_PROGRAMS: Mapping[str, str] = {
    # program -> how to install it
    "llvm-mca-22": "Debian's package llvm-22 (.ci/llvm installs it)",
    "llvm-objdump-22": "Debian's package llvm-22 (.ci/llvm installs it)",
    "clang-22": "Debian's package clang-22 (.ci/llvm installs it)",
}


def at_hand(given: Mapping[str, str | None]) -> dict[str, str | None]:
    """The tools that options name, and those that lie in their usual place."""
    usual = {
        name: str(peer.place) if peer.place is not None and peer.place.exists() else None
        for name, peer in PEERS.items()
    }
    return {name: place or usual.get(name) for name, place in given.items()}


def missing(tools: Mapping[str, str | None]) -> Iterator[str]:
    """A line for each tool that is not there: what it is, and how to install it."""
    for name, peer in PEERS.items():
        place = tools[name]
        if place is None or (shutil.which(place) is None and not Path(place).exists()):
            yield f"without {name}; to install it: {peer.install}"
    for program, install in _PROGRAMS.items():
        if shutil.which(program) is None:
            yield f"without {program}; to install it: {install}"
