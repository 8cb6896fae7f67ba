"""The input fields of the occupancy page: a kernel's values, parsing, limits."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping

from msgspec import Struct

from ....inspector import machines
from ....inspector.errors import KinspectError
from ....inspector.metrics.capacity import capacity, registers_needed, round_up
from ....inspector.model import Demand, KernelReport, Machine


class Field(Struct, frozen=True):
    """An input field.

    Attributes:
        name: its name in the code.
        label: the text before it.
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
    Field("asked", "asked for", "as many VGPRs as are used"),
)
MAX_DIGITS = 7
"""Figures with more digits are rejected as typing errors."""


class Query(Struct, frozen=True):
    """The fields' content: a target, and a demand on its resources."""

    machine: Machine
    demand: Demand

    @property
    def wave_size(self) -> int:
        """The wave size that was typed, else the target's default."""
        return self.demand.wave_size or self.machine.wave_sizes[0]


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
        texts["asked"] = str(requested) if requested > needed else ""
    return texts


def parsed(
    values: Mapping[str, str], kernel: KernelReport | None
) -> tuple[Query | None, dict[str, str]]:
    """Parses the fields' texts.

    Args:
        values: field -> its text.
        kernel: states the occupancy model of its LLVM, and whether LLVM knows its LDS.

    Returns:
        The query, None if a field is wrong; and field -> what is wrong with it.
    """
    problems: dict[str, str] = {}
    figures = {
        name: _figure(name, values[name], problems)
        for name in ("vgprs", "agprs", "sgprs", "lds", "waves", "wave_size", "asked")
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
    demand = kernel.demand if kernel is not None else None
    hidden = demand is not None and demand.lds_from == "triton"  # LLVM does not see it
    return Query(
        machine,
        Demand(
            vgprs=figures["vgprs"],
            agprs=figures["agprs"] or 0,
            sgprs=figures["sgprs"],
            lds_bytes=figures["lds"],
            waves_per_workgroup=figures["waves"],
            wave_size=figures["wave_size"],
            cu_mode=mode == "cu" or machine.eus_cu_mode is None,
            llvm=demand.llvm if demand is not None else "22",
            vgprs_requested=figures["asked"],
            compiler_lds=0 if hidden else None,
            lds_from="triton" if hidden else "typed",
            waves_from="typed",
        ),
    ), {}


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


def hint(name: str, query: Query) -> str:
    """The text beside a field that is right: its unit and limit."""
    machine = query.machine
    if name == "arch":
        return machine.name
    if name == "vgprs":
        return f"of {machine.vgpr_addressable} a wave may have"
    if name == "agprs":
        return {"none": "there are none", "unified": "share the VGPRs' file"}.get(
            machine.agpr, "a file of their own"
        )
    if name == "sgprs":
        return "a wave, VCC included"
    if name == "lds":
        return f"of {machine.lds_max:,} a workgroup"
    if name == "waves":
        waves = query.demand.waves_per_workgroup
        return f"a workgroup: {waves * query.wave_size} lanes" if waves else "a workgroup"
    if name == "wave_size":
        return " or ".join(map(str, machine.wave_sizes))
    if name == "mode":
        return "cu or wgp" if machine.eus_cu_mode is not None else "there are CUs alone"
    return "VGPRs (waves_per_eu)"


def excessive(query: Query) -> dict[str, str]:
    """Field -> the limit, for figures that are more than a wave or workgroup can have."""
    machine, demand = query.machine, query.demand
    limits = (
        ("vgprs", demand.vgprs, machine.vgpr_addressable),
        ("agprs", demand.agprs, machine.vgpr_addressable),
        ("asked", demand.vgprs_requested, machine.vgpr_addressable),
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
    if name in ("vgprs", "agprs", "asked"):
        return machine.vgpr_granule[query.wave_size]
    if name == "sgprs":
        return machine.sgpr_granule or 8
    return machine.lds_granule["hardware"] if name == "lds" else 1


def _figure(name: str, text: str, problems: dict[str, str]) -> int | None:
    """A field's text as a number; None if it is empty or wrong, which is added to `problems`."""
    text = text.strip()
    if not text:
        return None
    digits = text.replace(",", "").replace("_", "")
    if not digits.isascii() or not digits.isdecimal():
        problems[name] = "not below 0" if text.startswith("-") else "a whole number, please"
        return None
    if len(digits) > MAX_DIGITS:
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
