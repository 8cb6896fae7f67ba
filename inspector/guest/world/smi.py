"""AMD's management library for Python, as far as libraries ask it whether there is a GPU and which.

https://rocm.docs.amd.com/projects/amdsmi, Python API: `amdsmi_get_processor_handles`,
`amdsmi_get_gpu_asic_info`, `amdsmi_topo_get_link_type`.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from .device import Device
from .rocm import VERSION

NAME = "amdsmi"
VENDOR = "0x1002"


class SmiFinder:
    """Finds the library where it is not installed: asked after all others."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """A spec for the library, else None."""
        return ModuleSpec(name, self) if name == NAME else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module, with what it can answer."""
        module = ModuleType(spec.name, __doc__)
        vars(module).update(_names(self._device))
        return module

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run."""


def install(device: Device) -> None:
    """Makes the library importable."""
    sys.meta_path.append(SmiFinder(device))


class AmdSmiException(Exception):  # noqa: N818  (the library's own name)
    """What the library raises."""


def _names(device: Device) -> dict[str, Any]:
    asic = {
        "market_name": device.name,
        "vendor_id": VENDOR,
        "vendor_name": "Advanced Micro Devices Inc. [AMD/ATI]",
        "target_graphics_version": device.arch,
        "num_compute_units": device.compute_units,
    }
    return {
        "AmdSmiException": AmdSmiException,
        "AmdSmiLibraryException": AmdSmiException,
        "amdsmi_init": lambda *_: None,
        "amdsmi_shut_down": lambda: None,
        "amdsmi_get_processor_handles": lambda: [device.name],
        "amdsmi_get_gpu_asic_info": lambda handle: dict(asic),
        "amdsmi_get_gpu_vram_usage": lambda handle: {
            "vram_total": device.memory_bytes >> 20,
            "vram_used": 0,
        },
        "amdsmi_get_rocm_version": lambda: (True, VERSION),
        "amdsmi_topo_get_link_type": lambda one, other: {"hops": 0, "type": 0},
    }
