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
from types import MappingProxyType, ModuleType
from typing import Any

from .device import StandInDevice
from .rocm import VERSION
from .stubs import Inert, ModuleMaker

NAME = "amdsmi"
VENDOR = "0x1002"
NOT_AVAILABLE = "N/A"
"""The library's text for an unknown value."""
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


def install_smi(device: StandInDevice) -> None:
    """Makes the library importable where the other finders do not find it."""
    sys.meta_path.append(ModuleMaker(lambda name: _module(device) if name == NAME else None))


class AmdSmiException(Exception):  # noqa: N818  (the library's own name)
    """Base of the library's exceptions."""


class AmdSmiLibraryException(AmdSmiException):
    """A request that the driver refuses."""

    err_code = 2
    err_info = "AMDSMI_STATUS_NOT_SUPPORTED"

    def get_error_code(self) -> int:
        return self.err_code

    def get_error_info(self) -> str:
        return self.err_info


class AmdSmiMemoryType(IntEnum):
    """Kind of memory."""

    VRAM = 0
    VIS_VRAM = 1
    GTT = 2


class SmiModule(ModuleType):
    """The library; functions that it lacks raise "not supported"."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("amdsmi_"):
            return _not_supported(name)
        if name.startswith("AmdSmi"):
            return AmdSmiLibraryException if name.endswith("Exception") else Inert()
        raise AttributeError(name)


def _not_supported(name: str) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        raise AmdSmiLibraryException(f"{name}: {AmdSmiLibraryException.err_info}")

    return function


def _module(device: StandInDevice) -> ModuleType:
    """The library with the functions and classes that it supports."""
    asic = {
        "market_name": device.name,
        "vendor_id": VENDOR,
        "vendor_name": "Advanced Micro Devices Inc. [AMD/ATI]",
        "device_id": DEVICE_IDS.get(device.arch, NOT_AVAILABLE),
        "target_graphics_version": device.arch,
        "num_compute_units": device.compute_units,
    }
    usage = {"vram_total": device.memory_bytes >> 20, "vram_used": 0}
    module = SmiModule(NAME, __doc__)
    vars(module).update(
        AmdSmiException=AmdSmiException,
        AmdSmiLibraryException=AmdSmiLibraryException,
        AmdSmiMemoryType=AmdSmiMemoryType,
        amdsmi_init=lambda *_: None,
        amdsmi_shut_down=lambda: None,
        amdsmi_get_processor_handles=lambda: [device.name],
        amdsmi_get_gpu_asic_info=lambda handle: dict(asic),
        amdsmi_get_gpu_vram_usage=lambda handle: dict(usage),
        amdsmi_get_gpu_memory_total=lambda handle, kind=0: device.memory_bytes,
        amdsmi_get_gpu_memory_usage=lambda handle, kind=0: 0,
        amdsmi_get_gpu_device_uuid=lambda handle, *_: device.torch_properties()["uuid"],
        amdsmi_get_gpu_device_bdf=lambda handle: "0000:01:00.0",
        amdsmi_topo_get_numa_node_number=lambda handle: 0,
        amdsmi_get_rocm_version=lambda: (True, VERSION),
        amdsmi_topo_get_link_type=lambda source, target: {"hops": 0, "type": 0},
    )
    return module
