"""The peak rates of a device, from the recording, else from its product, else its target."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from ...documents import own_yaml
from ...machines import load, names
from ...machines.loader import base_arch
from ...machines.products import find_product, shared_bandwidth
from ...model import Machine
from ...recording import Agent

_FOLDER = Path(__file__).parent
_MATRIX = re.compile(
    r"v_(?:mfma|wmma)_(?:scale_)?[a-z]+\d+_(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)_?(?:\d+b_)?"
    r"(?P<element>xf32|f16|bf16|f32|f64|fp8|bf8|f8f6f4|i8|iu8)"
)
# Element types as mnemonics spell them -> as counters do.
_ELEMENTS = {"fp8": "f8", "bf8": "f8", "f8f6f4": "f8", "iu8": "i8"}
_NARROW = ":narrow"


class Device(Struct, frozen=True):
    """Peak figures of one agent; None where unknown. `sources`: figure -> where it comes from.

    `matrix` and `vector` are operations per clock and CU by element type.
    """

    arch: str | None
    cus: int | None = None
    simds_per_cu: int | None = None
    xccs: int | None = None
    clock_mhz: int | None = None
    max_waves: int | None = None
    memory_bytes_per_s: float | None = None
    matrix: Mapping[str, float] = field(default_factory=dict)
    vector: Mapping[str, float] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def simds(self) -> int | None:
        """SIMDs of the whole agent."""
        if self.cus is None or self.simds_per_cu is None:
            return None
        return self.cus * self.simds_per_cu

    def flops_per_s(self, per_clock: float) -> float | None:
        """Returns the operations per second of all CUs at the peak clock."""
        if self.cus is None or self.clock_mhz is None:
            return None
        return per_clock * self.cus * self.clock_mhz * 1e6


def device(agent: Agent | None, arch: str | None = None) -> Device:
    """Returns the peak figures of an agent, each of its best source.

    Args:
        agent: as the profiler described it; None if it did not.
        arch: its target, if the agent does not name one.
    """
    arch = base_arch(agent.arch) if agent and agent.arch else base_arch(arch) if arch else None
    described = agent or Agent("")
    product = find_product(described.product, arch, described.cus)
    arch = arch or (product.arch if product else None)
    machine = load(arch) if arch in names() else None
    simds_per_cu = _simds_per_cu(machine) if machine else None
    figures: dict[str, Any] = {}
    sources: dict[str, str] = {}

    def choose(name: str, *candidates: tuple[Any, str]) -> None:
        """Chooses the first value that is known, with its source."""
        for value, source in candidates:
            if value is not None:
                figures[name], sources[name] = value, source
                return

    recorded = "the recording"
    of_product = product.source if product else ""
    choose(
        "cus",
        (described.cus, recorded),
        (product.cus if product else None, of_product),
        *_of_machine(machine, "cus"),
    )
    choose(
        "clock_mhz",
        (described.clock_mhz, recorded),
        (product.clock_mhz if product else None, of_product),
        *_of_machine(machine, "clock_mhz"),
    )
    choose("simds_per_cu", (described.simds_per_cu, recorded), (simds_per_cu, "the target"))
    choose(
        "max_waves",
        (described.max_waves_per_simd, recorded),
        (machine.max_waves if machine else None, "the target"),
    )
    with_several_xccs = frozenset(_formulas("quirks.yaml")["several_xccs"])
    choose(
        "xccs",
        (described.xccs, recorded),
        (product.xccs if product else None, of_product),
        (1 if arch is not None and arch not in with_several_xccs else None, "the target has one"),
    )
    of_all_products = shared_bandwidth(arch) if arch else None
    choose(
        "memory_bytes_per_s",
        (described.memory_bytes_per_s, recorded),
        (product.memory_bytes_per_s if product else None, of_product),
        of_all_products or (None, ""),
    )
    matrix = matrix_peaks(machine) if machine else {}
    vector = vector_peaks(arch) if arch else {}
    return Device(arch=arch, matrix=matrix, vector=vector, sources=sources, **figures)


def matrix_peaks(machine: Machine) -> Mapping[str, float]:
    """Returns the operations per clock and CU of matrix instructions, by element type."""
    peaks: dict[str, float] = {}
    simds_per_cu = _simds_per_cu(machine)
    for name, cycles in machine.mfma_cycles.items():
        form = _MATRIX.match(name)
        if form is None:
            continue
        element = _ELEMENTS.get(form["element"], form["element"])
        if name.endswith(_NARROW):
            element = "f6f4"
        flops = 2 * int(form["m"]) * int(form["n"]) * int(form["k"]) / cycles * simds_per_cu
        peaks[element] = max(peaks.get(element, 0), flops)
    return peaks


def vector_peaks(arch: str) -> Mapping[str, float]:
    """Operations per clock and CU of vector instructions, by element type."""
    entries: Iterable[Mapping[str, Any]] = _formulas("formulas.yaml")["vector_peaks"]
    peaks = (entry["flops"] for entry in entries if arch in entry["architectures"])
    return dict(next(peaks, {}))


def _simds_per_cu(machine: Machine) -> int:
    """SIMDs of one CU; of half a WGP where the target has those."""
    return machine.eus_cu_mode or machine.eus


def _of_machine(machine: Machine | None, figure: str) -> tuple[tuple[Any, str], ...]:
    """A figure of the machine file with its source; empty where there is no such file."""
    if machine is None:
        return ()
    source = machine.sources.get(figure, "")
    return ((getattr(machine, figure), f"the target's machine file ({source})"),)


@functools.cache
def _formulas(name: str) -> Any:
    """A YAML file of this folder."""
    return own_yaml(_FOLDER / name)
