"""A small ROCm installation: the programs and files from which libraries learn of the GPU."""

from __future__ import annotations

import os
import stat

from .device import StandInDevice

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
