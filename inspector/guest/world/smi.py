"""AMD's management library for Python: the functions by which libraries ask for the GPU.

https://rocm.docs.amd.com/projects/amdsmi, Python API: `amdsmi_get_processor_handles`,
`amdsmi_get_gpu_asic_info`, `amdsmi_get_gpu_memory_total`, `amdsmi_topo_get_link_type`. Libraries
import a dozen names at once, and use none if one is missing: so all others can be imported too, and
raise the library's "not supported".
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from enum import IntEnum
from importlib.machinery import ModuleSpec
from types import MappingProxyType, ModuleType
from typing import Any

from .device import StandInDevice
from .rocm import VERSION
from .stubs import Inert

NAME = "amdsmi"
VENDOR = "0x1002"
NOT_AVAILABLE = "N/A"
"""The library's text for an unknown value."""
NOT_SUPPORTED = 2
"""AMDSMI_STATUS_NOT_SUPPORTED."""
DEVICE_IDS: Mapping[str, str] = MappingProxyType(
    {
        "gfx942": "0x74a1",
        "gfx1100": "0x744c",
        "gfx1150": "0x150e",
        "gfx1151": "0x1586",
        "gfx1201": "0x7550",
    }
)
"""PCI ids (pci.ids, vendor 1002) of the products that stand for some targets."""


class SmiFinder:
    """Finds the library where the other finders do not: it comes after them."""

    def __init__(self, device: StandInDevice) -> None:
        self._device = device

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """A spec for the library, else None."""
        return ModuleSpec(name, self) if name == NAME else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module, with the functions that it supports."""
        module = SmiModule(spec.name, __doc__)
        vars(module).update(_names(self._device))
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Does nothing: the module is complete."""


def install(device: StandInDevice) -> None:
    """Makes the library importable."""
    sys.meta_path.append(SmiFinder(device))


class SmiModule(ModuleType):
    """The library; functions that it lacks raise "not supported"."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("amdsmi_"):
            return _not_supported(name)
        if name.startswith("AmdSmi"):
            return AmdSmiLibraryException if name.endswith("Exception") else Inert()
        raise AttributeError(name)


class AmdSmiException(Exception):  # noqa: N818  (the library's own name)
    """Base of the library's exceptions."""


class AmdSmiLibraryException(AmdSmiException):
    """A request that the driver refuses."""

    err_code = NOT_SUPPORTED
    err_info = "AMDSMI_STATUS_NOT_SUPPORTED"

    def get_error_code(self) -> int:
        """The status."""
        return self.err_code

    def get_error_info(self) -> str:
        """The status in words."""
        return self.err_info


class AmdSmiMemoryType(IntEnum):
    """Kind of memory."""

    VRAM = 0
    VIS_VRAM = 1
    GTT = 2


def _not_supported(name: str) -> Callable[..., Any]:
    """A function of the library that raises "not supported"."""

    def function(*args: Any, **kwargs: Any) -> Any:
        raise AmdSmiLibraryException(f"{name}: {AmdSmiLibraryException.err_info}")

    return function


def _names(device: StandInDevice) -> dict[str, Any]:
    """The library's supported functions and classes by name."""
    asic = {
        "market_name": device.name,
        "vendor_id": VENDOR,
        "vendor_name": "Advanced Micro Devices Inc. [AMD/ATI]",
        "device_id": DEVICE_IDS.get(device.arch, NOT_AVAILABLE),
        "target_graphics_version": device.arch,
        "num_compute_units": device.compute_units,
    }
    return {
        "AmdSmiException": AmdSmiException,
        "AmdSmiLibraryException": AmdSmiLibraryException,
        "AmdSmiMemoryType": AmdSmiMemoryType,
        "amdsmi_init": lambda *_: None,
        "amdsmi_shut_down": lambda: None,
        "amdsmi_get_processor_handles": lambda: [device.name],
        "amdsmi_get_gpu_asic_info": lambda handle: dict(asic),
        "amdsmi_get_gpu_vram_usage": lambda handle: {
            "vram_total": device.memory_bytes >> 20,
            "vram_used": 0,
        },
        "amdsmi_get_gpu_memory_total": lambda handle, kind=0: device.memory_bytes,
        "amdsmi_get_gpu_memory_usage": lambda handle, kind=0: 0,
        "amdsmi_get_gpu_device_uuid": lambda handle, *_: device.torch_properties()["uuid"],
        "amdsmi_get_gpu_device_bdf": lambda handle: "0000:01:00.0",
        "amdsmi_topo_get_numa_node_number": lambda handle: 0,
        "amdsmi_get_rocm_version": lambda: (True, VERSION),
        "amdsmi_topo_get_link_type": lambda source, target: {"hops": 0, "type": 0},
    }
