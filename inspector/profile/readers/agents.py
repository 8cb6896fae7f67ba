"""Devices as rocprofiler-sdk describes them, and how its files refer to them.

A description has the same fields in JSON, in the database and in `agent_info.csv`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from ...model.recording import Agent
from ..builder import RecordingBuilder, int64
from .csv_table import CsvTable, DamagedRowError

_CPU, _GPU = 1, 2  # rocprofiler_agent_type_t


def agent(key: str, about: Mapping[str, Any]) -> Agent:
    """An agent from the SDK's description of it.

    `about`: `rocprofiler_agent_t` as the SDK writes it; fields that are missing stay unknown.
    """
    kib = _number(about, "lds_size_in_kb")
    cpu = about.get("type") in (_CPU, "CPU")
    return Agent(
        key=key,
        kind="cpu" if cpu else "gpu",
        arch=None if cpu else _arch(about),
        product=str(about.get("product_name") or about.get("model_name") or "") or None,
        cus=_number(about, "cu_count"),
        simds_per_cu=_number(about, "simd_per_cu"),
        xccs=_number(about, "num_xcc"),
        shader_engines=_number(about, "num_shader_banks"),
        wave_size=_number(about, "wave_front_size"),
        max_waves_per_simd=_number(about, "max_waves_per_simd"),
        clock_mhz=_number(about, "max_engine_clk_fcompute"),
        lds_bytes=None if kib is None else kib * 1024,
    )


def is_processor(about: Mapping[str, Any]) -> bool:
    """Tells whether an agent is a CPU or GPU: newer versions also list network cards."""
    return about.get("type") in (_CPU, _GPU, "CPU", "GPU", None)


def _arch(about: Mapping[str, Any]) -> str | None:
    name = str(about.get("name") or "")
    if name.startswith("gfx"):
        return name
    version = _number(about, "gfx_target_version")
    if version is None:
        return None
    # As the kernel driver writes it: 90402 is gfx942, 90010 is gfx90a.
    major, minor_and_step = divmod(version, 10_000)
    minor, step = divmod(minor_and_step, 100)
    return f"gfx{major}{minor:x}{step:x}"


def _number(about: Mapping[str, Any], key: str) -> int | None:
    """Returns a count; None for zero, which means "unknown" there, as for a CPU's compute units."""
    value = int64(about.get(key))
    return value if value is not None and value > 0 else None


_AGENT_ID = re.compile(r"(?P<kind>Agent|GPU|CPU)[ -]?(?P<index>\d{1,9})$", re.IGNORECASE)
_MOST_DIGITS = 19
"""Of a number that surely fits 64 bits, signed."""


class AgentIds(Struct):
    """Translates the `Agent_Id` of a CSV file to a node id, by which the recording names devices.

    rocprofv3 writes it in one of four ways: the bare node id (ROCm 6.2 to 6.4), and by its option
    `--agent-index` "Agent N" with N the logical node id (relative, the default: masked devices are
    not counted) or the node id (absolute), and "GPU N" counted among GPUs (type-relative).
    """

    nodes: dict[int, str] = field(default_factory=dict)  # node id → kind
    logical: dict[int, int] = field(default_factory=dict)  # logical node id → node id
    ambiguous: set[str] = field(default_factory=set)  # texts that name a GPU either way

    def key(self, text: str) -> str | None:
        """The node id that a cell means, as text."""
        text = text.strip()
        named = _AGENT_ID.match(text)
        if named is None:
            return (str(int(text)) if _is_count(text) else text) or None
        kind, index = named["kind"].lower(), int(named["index"])
        if kind != "agent":
            nodes = sorted(node for node, node_kind in self.nodes.items() if node_kind == kind)
            return str(nodes[index]) if index < len(nodes) else f"{kind.upper()} {index}"
        relative = self.logical.get(index, -1)
        if self.nodes.get(relative) == "gpu":
            if relative != index and self.nodes.get(index) == "gpu":
                self.ambiguous.add(text)
            return str(relative)
        return str(index)

    def read(self, table: CsvTable, builder: RecordingBuilder) -> None:
        """Adds the devices of a table to the recording."""
        names = [name.strip().lower() for name in table.names]

        def add(cells: list[str]) -> None:
            about: dict[str, object] = {
                name: int(cell) if _is_count(cell) else cell
                for name, cell in zip(names, cells, strict=True)
            }
            about["type"] = about.get("agent_type")
            node, logical = about.get("node_id"), about.get("logical_node_id")
            if not isinstance(node, int) or about["type"] not in ("GPU", "CPU"):
                raise DamagedRowError("no Node_Id and Agent_Type")
            added = agent(str(node), about)
            first = builder.agents.setdefault(added.key, added)
            if first != added:
                builder.note(
                    f"several machines have a device {added.key}: figures that depend on the "
                    f"device use {first.product or first.arch or 'the first'}"
                )
            self.nodes[node] = added.kind
            if isinstance(logical, int):
                self.logical[logical] = node

        table.each(add)
        table.report(builder)


def _is_count(text: str) -> bool:
    """Tells whether a cell is a whole number of 64 bits."""
    return text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
