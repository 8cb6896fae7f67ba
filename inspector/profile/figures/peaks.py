"""The peak rates of a device, from the recording, else from its product, else its target."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct, field

from ...machines import load, names
from ...machines.products import Product, find_product, shared_bandwidth
from ...machines.target_names import base_arch
from ...model import Machine
from ...model.recording import Agent
from .counters import table

_MATRIX = re.compile(
    r"v_(?:mfma|wmma)_(?:scale_)?[a-z]+\d+_(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)_?(?:\d+b_)?"
    r"(?P<element>xf32|f16|bf16|f32|f64|fp8|bf8|f8f6f4|i8|iu8)"
)
# Element types as mnemonics spell them -> as counters do.
_ELEMENTS = {"fp8": "f8", "bf8": "f8", "f8f6f4": "f8", "iu8": "i8"}
_NARROW = ":narrow"


class DevicePeaks(Struct, frozen=True):
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


def device(agent: Agent | None, arch: str | None = None) -> DevicePeaks:
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
    chosen: dict[str, tuple[Any, str]] = {}
    for name, candidates in _candidates(described, product, machine, arch).items():
        known = [(value, source) for value, source in candidates if value is not None]
        if known:
            chosen[name] = known[0]
    figures: dict[str, Any] = {name: value for name, (value, _) in chosen.items()}
    return DevicePeaks(
        arch=arch,
        matrix=matrix_peaks(machine) if machine else {},
        vector=vector_peaks(arch) if arch else {},
        sources={name: source for name, (_, source) in chosen.items()},
        **figures,
    )


_Candidates = tuple[tuple[Any, str], ...]
"""Values of a figure with their sources, the best first; None where a source does not have it."""


def _candidates(
    agent: Agent, product: Product | None, machine: Machine | None, arch: str | None
) -> Mapping[str, _Candidates]:
    """Returns what each source says of the figures of `DevicePeaks`, by their names."""
    recorded, target = "the recording", "the target"
    xccs = 1 if arch is not None and arch not in table("quirks.yaml")["several_xccs"] else None
    bandwidth = shared_bandwidth(arch) if arch else None
    return {
        "cus": ((agent.cus, recorded), *_of_product(product, "cus"), *_of_machine(machine, "cus")),
        "clock_mhz": (
            (agent.clock_mhz, recorded),
            *_of_product(product, "clock_mhz"),
            *_of_machine(machine, "clock_mhz"),
        ),
        "simds_per_cu": (
            (agent.simds_per_cu, recorded),
            (_simds_per_cu(machine) if machine else None, target),
        ),
        "max_waves": (
            (agent.max_waves_per_simd, recorded),
            (machine.max_waves if machine else None, target),
        ),
        "xccs": (
            (agent.xccs, recorded),
            *_of_product(product, "xccs"),
            (xccs, "the target has one"),
        ),
        "memory_bytes_per_s": (
            (agent.memory_bytes_per_s, recorded),
            *_of_product(product, "memory_bytes_per_s"),
            bandwidth or (None, ""),
        ),
    }


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
    entries: Iterable[Mapping[str, Any]] = table("formulas.yaml")["vector_peaks"]
    peaks = (entry["flops"] for entry in entries if arch in entry["architectures"])
    return dict(next(peaks, {}))


def _simds_per_cu(machine: Machine) -> int:
    """SIMDs of one CU; of half a WGP where the target has those."""
    return machine.eus_cu_mode or machine.eus


def _of_product(product: Product | None, figure: str) -> _Candidates:
    """A figure of a product with its source; empty where the product is unknown."""
    return ((getattr(product, figure), product.source),) if product is not None else ()


def _of_machine(machine: Machine | None, figure: str) -> _Candidates:
    """A figure of the machine file with its source; empty where there is no such file."""
    if machine is None:
        return ()
    source = machine.sources.get(figure, "")
    return ((getattr(machine, figure), f"the target's machine file ({source})"),)
