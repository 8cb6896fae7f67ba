"""Devices as rocprofiler-sdk describes them, in its JSON and in the texts of its database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...recording import Agent
from .numbers import whole

_CPU, _GPU = 1, 2  # rocprofiler_agent_type_t


def agent(key: str, about: Mapping[str, Any]) -> Agent:
    """An agent from the SDK's description of it.

    Args:
        key: how dispatches name it: the node id as text.
        about: `rocprofiler_agent_t` as the SDK writes it; fields that are missing stay unknown.
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
    """Whether it is a CPU or GPU: newer versions also list network cards."""
    return about.get("type") in (_CPU, _GPU, "CPU", "GPU", None)


def _arch(about: Mapping[str, Any]) -> str | None:
    name = str(about.get("name") or "")
    if name.startswith("gfx"):
        return name
    version = _number(about, "gfx_target_version")
    if version is None:
        return None
    # The kernel driver's way to write it: 90402 is gfx942, 90010 is gfx90a.
    major, minor_and_step = divmod(version, 10_000)
    minor, step = divmod(minor_and_step, 100)
    return f"gfx{major}{minor:x}{step:x}"


def _number(about: Mapping[str, Any], key: str) -> int | None:
    """A count; zero stands for "not known" there, as on a CPU's compute units."""
    value = whole(about.get(key))
    return value if value is not None and value > 0 else None
