"""A small ROCm installation: the programs and files from which libraries learn of the GPU.

AMD's management library for Python: the functions by which libraries ask for the GPU.

https://rocm.docs.amd.com/projects/amdsmi, Python API: `amdsmi_get_processor_handles`,
`amdsmi_get_gpu_asic_info`, `amdsmi_get_gpu_memory_total`, `amdsmi_topo_get_link_type`. Libraries
import a dozen names at once, and use none if one is missing: so all others can be imported too, and
raise the library's "not supported".
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Mapping
from enum import IntEnum
from types import MappingProxyType, ModuleType
from typing import Any

from .device import StandInDevice
from .stubs import Inert, ModuleMaker

VERSION = "6.4.1"
HIP_VERSION = "6.4.43483-a187df25c"
RCCL_VERSION = 2 << 32 | 22 << 16 | 3
"""2.22.3, ROCm 6.4's, in the encoding that torch.cuda.nccl decodes."""


def install(device: StandInDevice, folder: str) -> None:
    """Makes the tree under `folder` and points the environment at it.

    CUDA_VISIBLE_DEVICES is left unset: Triton's profiler refuses it on AMD.
    """
    root = os.path.join(os.path.abspath(folder), "rocm")
    for name, text in files(device).items():
        path = os.path.join(root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)
        if text.startswith("#!"):
            os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    path = os.environ.get("PATH", os.defpath)
    os.environ["PATH"] = os.path.join(root, "bin") + os.pathsep + path
    for name in ("ROCM_HOME", "ROCM_PATH", "HIP_PATH"):
        os.environ[name] = root
    # Without these, aiter builds C++ extensions on import.
    for name, value in (
        ("GPU_ARCHS", device.arch),
        ("PYTORCH_ROCM_ARCH", device.arch),
        ("AITER_TRITON_ONLY", "1"),
        ("MPLBACKEND", "Agg"),
    ):
        os.environ.setdefault(name, value)


def files(device: StandInDevice) -> dict[str, str]:
    """Path under the ROCm root -> contents."""
    return {
        ".info/version": VERSION + "\n",
        ".info/version-dev": VERSION + "\n",
        "bin/hipconfig": _hipconfig(),
        "bin/hipcc": _program(f"HIP version: {HIP_VERSION}"),
        "bin/rocm_agent_enumerator": _program(device.arch),
        "bin/rocminfo": _program(_rocminfo(device)),
        "bin/rocm-smi": _program(_rocm_smi(device)),
        "bin/amd-smi": _program(_amd_smi(device)),
        "bin/offload-arch": _program(device.arch),
        "include/hip/hip_version.h": _version_header(),
    }


def _program(text: str) -> str:
    return f"#!/bin/sh\ncat <<'EOF'\n{text}\nEOF\n"


def _hipconfig() -> str:
    return f"""#!/bin/sh
case "$1" in
--path | -p | --rocmpath | -R) printf '%s' "${{ROCM_HOME}}" ;;
--platform | -P) printf amd ;;
--compiler | -c) printf clang ;;
--runtime | -r) printf rocclr ;;
*) printf '%s' '{HIP_VERSION}' ;;
esac
"""


def _rocminfo(device: StandInDevice) -> str:
    """The output of rocminfo, with the lines that libraries look for."""
    return f"""ROCk module is loaded
=====================
HSA Agents
==========
*******
Agent 1
*******
  Name:                    {device.arch}
  Marketing Name:          {device.name}
  Vendor Name:             AMD
  Device Type:             GPU
  Wavefront Size:          {device.wave_size}(0x{device.wave_size:x})
  Compute Unit:            {device.compute_units}
  Max Clock Freq. (MHz):   {device.clock_khz // 1000}
  Pool Info:
    Pool 1
      Segment:                 GROUP
      Size:                    {device.lds_bytes >> 10}(0x{device.lds_bytes >> 10:x}) KB
  ISA Info:
    ISA 1
      Name:                    amdgcn-amd-amdhsa--{device.full_name}
*** Done ***"""


def _rocm_smi(device: StandInDevice) -> str:
    return f"""GPU[0]		: Card Series: 		{device.name}
GPU[0]		: GFX Version: 		{device.arch}
GPU[0]		: VRAM Total Memory (B): {device.memory_bytes}"""


def _amd_smi(device: StandInDevice) -> str:
    return f"""GPU: 0
    ASIC:
        MARKET_NAME: {device.name}
        TARGET_GRAPHICS_VERSION: {device.arch}
        NUM_COMPUTE_UNITS: {device.compute_units}"""


def _version_header() -> str:
    major, minor, patch = VERSION.split(".")
    return (
        "#pragma once\n"
        f"#define HIP_VERSION_MAJOR {major}\n"
        f"#define HIP_VERSION_MINOR {minor}\n"
        f"#define HIP_VERSION_PATCH {patch}\n"
    )


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
