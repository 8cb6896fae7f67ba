"""The input fields of the occupancy page: a kernel's figures, parsing, limits, a step's figures."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from ....inspector import machines
from ....inspector.base.errors import KinspectError
from ....inspector.metrics.capacity import capacity, registers_needed, round_up
from ....inspector.metrics.occupancy import Occupancy, occupancy
from ....inspector.model import Demand, KernelReport, Machine


class Field(Struct, frozen=True):
    """An input field.

    Attributes:
        empty: the hint beside the field while it is empty; "" for the usual hint.
    """

    name: str
    label: str
    empty: str = ""


FIELDS = (
    Field("arch", "target"),
    Field("vgprs", "VGPRs"),
    Field("agprs", "AGPRs", "none"),
    Field("sgprs", "SGPRs", "taken as not limiting"),
    Field("lds", "LDS bytes", "unknown"),
    Field("waves", "waves", "unknown"),
    Field("wave_size", "wave size", "the target's usual one"),
    Field("mode", "mode"),
    Field("requested", "asked for", "as many VGPRs as are used"),
)
_FIELD = {
    "vgprs": "vgprs",
    "agprs": "agprs",
    "sgprs": "sgprs",
    "lds_bytes": "lds",
    "vgprs_requested": "requested",
}
"""Field of `Demand` -> name of the input field."""
_MAX_DIGITS = 7
"""Figures with more digits are rejected as typing errors."""


class Query(Struct, frozen=True):
    """The fields' content: a target, and a demand on its resources."""

    machine: Machine
    demand: Demand

    @property
    def wave_size(self) -> int:
        """The wave size that was typed, else the target's default."""
        return self.demand.wave_size or self.machine.wave_sizes[0]

    def occupancy(self) -> Occupancy:
        """The occupancy of this demand on this target.

        Raises:
            KinspectError: a figure is none that a kernel can have.
        """
        return occupancy(self.machine, self.demand)


def fields_of(kernel: KernelReport | None) -> dict[str, str]:
    """The fields' texts for a kernel; unknown figures are empty.

    Args:
        kernel: the kernel; None: an example.
    """
    texts = dict.fromkeys((field.name for field in FIELDS), "")
    if kernel is None:
        return {**texts, "arch": "gfx942", "vgprs": "128", "lds": "0", "waves": "4"}
    texts["arch"] = kernel.arch or ""
    demand = kernel.demand
    if demand is None:
        return texts
    vgprs = demand.vgprs if demand.vgprs is not None else demand.vgprs_requested
    for name, figure in (
        ("vgprs", vgprs),
        ("agprs", demand.agprs),
        ("sgprs", demand.sgprs),
        ("lds", demand.lds_bytes),
        ("waves", demand.waves_per_workgroup),
        ("wave_size", demand.wave_size),
    ):
        texts[name] = "" if figure is None else str(figure)
    try:
        machine = machines.load(kernel.arch or "")
        unit = capacity(machine, demand.wave_size, demand.cu_mode, demand.llvm)
    except KinspectError:
        return texts
    if machine.eus_cu_mode is not None:
        texts["mode"] = "cu" if demand.cu_mode else "wgp"
    if vgprs is not None and demand.vgprs_requested is not None:
        needed = round_up(registers_needed(machine, vgprs, demand.agprs), unit.granule)
        requested = round_up(demand.vgprs_requested, unit.granule)
        texts["requested"] = str(requested) if requested > needed else ""
    return texts


def parsed(
    values: Mapping[str, str], kernel: KernelReport | None
) -> tuple[Query | None, dict[str, str]]:
    """Parses the fields' texts.

    Returns:
        The query, None if a field is wrong; and field -> what is wrong with it.
    """
    problems: dict[str, str] = {}
    figures = {
        name: _figure(name, values[name], problems)
        for name in ("vgprs", "agprs", "sgprs", "lds", "waves", "wave_size", "requested")
    }
    machine = _machine(values["arch"], problems)
    if values["vgprs"].strip() == "":
        problems["vgprs"] = "needed"
    if figures["waves"] == 0:
        problems["waves"] = "give 1 or more"
    mode = values["mode"].strip().lower()
    if mode not in ("", "cu", "wgp"):
        problems["mode"] = "cu or wgp"
    if machine is not None:
        for name, problem in _unsupported(machine, mode, figures):
            problems.setdefault(name, problem)
    if problems or machine is None:
        return None, problems
    return Query(machine, _demand(machine, mode, figures, kernel)), {}


def _demand(
    machine: Machine, mode: str, figures: Mapping[str, int | None], kernel: KernelReport | None
) -> Demand:
    """The demand of valid figures; the rest is the kernel's."""
    own = kernel.demand if kernel is not None else None
    hidden = own is not None and own.lds_from == "triton"  # LLVM does not see it
    return Demand(
        vgprs=figures["vgprs"],
        agprs=figures["agprs"] or 0,
        sgprs=figures["sgprs"],
        lds_bytes=figures["lds"],
        waves_per_workgroup=figures["waves"],
        wave_size=figures["wave_size"],
        cu_mode=mode == "cu" or machine.eus_cu_mode is None,
        llvm=own.llvm if own is not None else "22",
        vgprs_requested=figures["requested"],
        compiler_lds=0 if hidden else None,
        lds_from="triton" if hidden else "typed",
        waves_from="typed",
    )


def _unsupported(
    machine: Machine, mode: str, figures: Mapping[str, int | None]
) -> Iterator[tuple[str, str]]:
    """Yields (field, problem) of the figures that a target does not have."""
    if mode == "wgp" and machine.eus_cu_mode is None:
        yield "mode", f"{machine.arch} has CUs alone"
    if figures["wave_size"] is not None and figures["wave_size"] not in machine.wave_sizes:
        yield "wave_size", f"{machine.arch} has {' or '.join(map(str, machine.wave_sizes))}"
    if machine.agpr == "none" and figures["agprs"]:
        yield "agprs", f"{machine.arch} has none"


def _waves_hint(query: Query) -> str:
    waves = query.demand.waves_per_workgroup
    return f"a workgroup: {waves * query.wave_size} lanes" if waves else "a workgroup"


_AGPR_HINTS = {"none": "there are none", "unified": "share the VGPRs' file"}
_HINTS: Mapping[str, Callable[[Query], str]] = {
    "arch": lambda query: query.machine.name,
    "vgprs": lambda query: f"of {query.machine.vgpr_addressable} a wave may have",
    "agprs": lambda query: _AGPR_HINTS.get(query.machine.agpr, "a file of their own"),
    "sgprs": lambda query: "a wave, as counted for waves/SIMD",
    "lds": lambda query: f"of {query.machine.lds_max:,} a workgroup",
    "waves": _waves_hint,
    "wave_size": lambda query: " or ".join(map(str, query.machine.wave_sizes)),
    "mode": lambda query: (
        "cu or wgp" if query.machine.eus_cu_mode is not None else "there are CUs alone"
    ),
    "requested": lambda query: "VGPRs (waves_per_eu)",
}


def hint(name: str, query: Query) -> str:
    """The text beside a field that is right: its unit and limit."""
    return _HINTS[name](query)


def excessive(query: Query) -> dict[str, str]:
    """Field -> the limit, for figures that are more than a wave or workgroup can have."""
    machine, demand = query.machine, query.demand
    limits = (
        ("vgprs", demand.vgprs, machine.vgpr_addressable),
        ("agprs", demand.agprs, machine.vgpr_addressable),
        ("requested", demand.vgprs_requested, machine.vgpr_addressable),
        ("lds", demand.lds_bytes, machine.lds_max),
        ("waves", demand.waves_per_workgroup, machine.max_workgroup_size // query.wave_size),
    )
    return {
        name: f"more than the {limit:,} there are"
        for name, figure, limit in limits
        if (figure or 0) > limit
    }


def step_of(name: str, query: Query) -> int:
    """The amount by which the keys + and - change a field: the resource's allocation granule."""
    machine = query.machine
    if name in ("vgprs", "agprs", "requested"):
        return machine.vgpr_granule[query.wave_size]
    if name == "sgprs":
        return machine.sgpr_granule or 8
    return machine.lds_granule["hardware"] if name == "lds" else 1


def fields_after_step(query: Query, answer: Occupancy) -> Mapping[str, str]:
    """The fields that the answer's next step changes, with their new texts; empty without one."""
    step = answer.next_step
    if step is None:
        return {}
    candidates: list[dict[str, int | None]] = [{}]
    for resource, cut in ((step.resource, step.reduce_by), *step.also):
        options = _cuts(query.demand, resource, cut)
        candidates = [{**candidate, **option} for candidate in candidates for option in options]
    for option in candidates:
        if any(figure is not None and figure < 0 for figure in option.values()):
            continue
        changed: Demand = replace(query.demand, **option)
        reached = occupancy(query.machine, changed).waves_per_eu
        if reached is not None and reached >= step.gives:
            return {_FIELD[k]: "" if v is None else str(v) for k, v in option.items()}
    return {}


def _cuts(demand: Demand, resource: str, cut: int) -> list[dict[str, int | None]]:
    """The ways to cut the use of a resource, as changed fields of `Demand`, the best first."""
    if resource == "vgpr":
        # The cut may be shared between VGPRs and AGPRs: prefer to cut as few AGPRs as possible.
        return [
            {
                "vgprs": (demand.vgprs or 0) - cut + agprs,
                "agprs": demand.agprs - agprs,
                "vgprs_requested": None,
            }
            for agprs in range(min(cut, demand.agprs) + 1)
        ]
    if resource == "lds":
        return [{"lds_bytes": (demand.lds_bytes or 0) - cut}]
    if resource == "sgpr":
        return [{"sgprs": (demand.sgprs or 0) - cut}]
    return [{"vgprs_requested": (demand.vgprs_requested or 0) - cut}]


def _figure(name: str, text: str, problems: dict[str, str]) -> int | None:
    """A field's text as a number; None if it is empty or wrong, which is added to `problems`."""
    text = text.strip()
    if not text:
        return None
    digits = text.replace(",", "").replace("_", "")
    if not digits.isascii() or not digits.isdecimal():
        problems[name] = "not below 0" if text.startswith("-") else "a whole number, please"
        return None
    if len(digits) > _MAX_DIGITS:
        problems[name] = "that is too much"
        return None
    return int(digits)


def _machine(text: str, problems: dict[str, str]) -> Machine | None:
    """The target of a name; None if it is unknown, which is added to `problems`."""
    name = text.strip().lower()
    names = machines.names()
    if name in names:
        return machines.load(name)
    near = difflib.get_close_matches(name, names, 1, 0.5)
    problems["arch"] = (
        f"did you mean {near[0]}?" if near and name else "unknown; + goes through all"
    )
    return None
