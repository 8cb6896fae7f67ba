"""The GPU that a script finds: its properties as Triton, torch and ROCm's tools report them.

The figures that a kernel's compile depends on (wave size, LDS, number of CUs) come from the host,
which has the machine's file; those that scripts only print or scale by have defaults per family.

A Triton driver for a machine without a GPU.

Files ask Triton for the active device while they load (`driver.active.get_current_target()`), which
fails without a GPU. This driver answers for the chosen target.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
MAX_THREADS_PER_BLOCK = 1024
"""Work-items of a workgroup, on every AMD GPU (LLVM, IsaInfo::getMaxFlatWorkGroupSize)."""


@dataclass(frozen=True)
class StandInDevice:
    """One AMD GPU.

    Args:
        wave_size: lanes of a wave as HIP reports it: 64 or 32.
        compute_units: CUs, or None where it is not published.
        compute_units_per_multiprocessor: 2 where HIP counts WGPs as multiprocessors, else 1.
        max_threads_per_cu: threads that one HIP multiprocessor holds at most.
        registers_per_block: 32-bit registers that HIP grants one workgroup.
        features: the target features that HIP appends to the name, `sramecc+:xnack-`.
    """

    arch: str
    wave_size: int
    name: str
    compute_units: int
    compute_units_per_multiprocessor: int
    lds_bytes: int
    memory_bytes: int
    max_threads_per_cu: int
    registers_per_block: int
    clock_khz: int
    memory_clock_khz: int
    memory_bus_bits: int
    l2_bytes: int
    features: str

    @classmethod
    def of(cls, stated: Mapping[str, Any] | str) -> StandInDevice:
        """The device that a host's request describes.

        Args:
            stated: any of the fields, `arch` at least; the family's figures fill in the others,
                None counts as not stated, unknown keys are ignored. A text is an `arch`.

        Raises:
            ValueError: no arch is stated.
        """
        if isinstance(stated, str):
            stated = {"arch": stated}
        arch = str(stated.get("arch") or "").partition(":")[0]
        if not arch:
            raise ValueError("a device needs an arch, such as gfx942")
        names = {f.name for f in fields(cls)}
        stated_fields = {k: v for k, v in stated.items() if k in names and v is not None}
        values = {**_family(arch), **stated_fields, "arch": arch}
        return cls(**values)

    @property
    def capability(self) -> tuple[int, int]:
        """The result of `torch.cuda.get_device_capability`: gfx942 -> (9, 4), gfx1201 -> (12, 0).

        The digits of a gfx name are major (decimal), minor and stepping (hexadecimal, one each):
        LLVM's AMDGPU usage guide, Processors.
        """
        digits = self.arch[len("gfx") :]
        try:
            return int(digits[:-2]), int(digits[-2], 16)
        except (ValueError, IndexError):  # a generic target such as gfx9-4-generic
            numbers = [int(part) for part in digits.split("-") if part.isdecimal()]
            return (numbers[0] if numbers else 9), (numbers[1] if len(numbers) > 1 else 0)

    @property
    def full_name(self) -> str:
        """The arch with its target features, as HIP's gcnArchName: `gfx942:sramecc+:xnack-`."""
        return f"{self.arch}:{self.features}" if self.features else self.arch

    @property
    def multiprocessors(self) -> int:
        """HIP's multiProcessorCount: CUs or WGPs."""
        return max(1, self.compute_units // self.compute_units_per_multiprocessor)

    def triton_properties(self) -> dict[str, Any]:
        """The result of Triton's HIP `utils.get_device_properties` (its backends/amd/driver.c)."""
        return {
            "max_shared_mem": self.lds_bytes,
            "max_num_regs": self.registers_per_block,
            "multiprocessor_count": self.multiprocessors,
            "sm_clock_rate": self.clock_khz,
            "mem_clock_rate": self.memory_clock_khz,
            "mem_bus_width": self.memory_bus_bits,
            "arch": self.full_name,
            "warpSize": self.wave_size,
            "max_threads_per_sm": self.max_threads_per_cu,
            "cooperativeLaunch": 1,
        }

    def torch_properties(self) -> dict[str, Any]:
        """The attributes of the result of `torch.cuda.get_device_properties` under ROCm."""
        major, minor = self.capability
        return {
            "name": self.name,
            "major": major,
            "minor": minor,
            "total_memory": self.memory_bytes,
            "multi_processor_count": self.multiprocessors,
            "is_integrated": 0,
            "is_multi_gpu_board": 0,
            "max_threads_per_multi_processor": self.max_threads_per_cu,
            "max_threads_per_block": MAX_THREADS_PER_BLOCK,
            "warp_size": self.wave_size,
            "regs_per_multiprocessor": self.registers_per_block,
            "shared_memory_per_block": self.lds_bytes,
            "shared_memory_per_block_optin": self.lds_bytes,
            "shared_memory_per_multiprocessor": self.lds_bytes,
            "gcnArchName": self.full_name,
            "uuid": "00000000-0000-0000-0000-000000000000",
            "pci_bus_id": 1,
            "pci_device_id": 0,
            "pci_domain_id": 0,
            "L2_cache_size": self.l2_bytes,
            "clock_rate": self.clock_khz,
            "memory_clock_rate": self.memory_clock_khz,
            "memory_bus_width": self.memory_bus_bits,
        }


_COLUMNS = (
    *("name", "compute_units", "lds_bytes", "memory_bytes", "clock_khz", "memory_clock_khz"),
    *("memory_bus_bits", "l2_bytes"),
)
# Longest prefix of the gfx name first (AMD's product pages; the LDS is LLVM's
# FeatureAddressableLocalMemorySize*).
_FAMILIES: tuple[tuple[Any, ...], ...] = (
    ("gfx90a", "Instinct MI250X", 110, 64 * KIB, 64 * GIB, 1_700_000, 1_600_000, 4096, 8 * MIB),
    ("gfx908", "Instinct MI100", 120, 64 * KIB, 32 * GIB, 1_502_000, 1_200_000, 4096, 8 * MIB),
    ("gfx906", "Instinct MI60", 64, 64 * KIB, 32 * GIB, 1_800_000, 1_000_000, 4096, 4 * MIB),
    ("gfx942", "Instinct MI300X", 304, 64 * KIB, 192 * GIB, 2_100_000, 1_300_000, 8192, 4 * MIB),
    ("gfx950", "Instinct MI355X", 256, 160 * KIB, 288 * GIB, 2_400_000, 1_900_000, 8192, 4 * MIB),
    ("gfx125", "", 256, 320 * KIB, 432 * GIB, 2_500_000, 1_249_000, 384, 6 * MIB),
    ("gfx120", "", 64, 64 * KIB, 16 * GIB, 2_500_000, 1_249_000, 256, 6 * MIB),
    ("gfx115", "", 40, 64 * KIB, 64 * GIB, 2_500_000, 1_249_000, 256, 6 * MIB),
    ("gfx1", "", 96, 64 * KIB, 24 * GIB, 2_500_000, 1_249_000, 384, 6 * MIB),
    ("", "", 304, 64 * KIB, 192 * GIB, 2_100_000, 1_300_000, 8192, 4 * MIB),
)


def _family(arch: str) -> dict[str, Any]:
    """The figures of a target that the host does not state."""
    _, product, *figures = next(row for row in _FAMILIES if arch.startswith(row[0]))
    is_rdna = arch.startswith("gfx1")
    return {
        **dict(zip(_COLUMNS, (f"AMD {product or arch}", *figures))),
        "wave_size": 32 if is_rdna else 64,
        "compute_units_per_multiprocessor": 2 if is_rdna and not arch.startswith("gfx125") else 1,
        "max_threads_per_cu": 2048,
        "registers_per_block": 65536,
        "features": "" if is_rdna else "sramecc+:xnack-",
    }


class DriverUtils:
    """Takes the place of Triton's compiled HIP helper module: one device, nothing is loaded."""

    def __init__(self, driver: TargetDriver) -> None:
        self._driver = driver

    def get_device_properties(self, device: int = 0) -> dict[str, Any]:
        """The properties of `hipGetDeviceProperties`, under Triton's names."""
        return self._driver.device.triton_properties()

    def load_binary(self, *args: Any) -> tuple[int, int, int, int, int]:
        """Module, function, registers, spills and the thread limit of a loaded code object."""
        return 1, 1, 0, 0, 1024

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _do_nothing


class TargetDriver:
    """Answers as the driver of one GPU of the given target would.

    Args:
        target: a `triton.backends.compiler.GPUTarget`; may be replaced between kernels.
        device: the GPU; the target's usual one by default, and then replaced along with it.
    """

    binary_ext = "hsaco"

    def __init__(self, target: Any, device: StandInDevice | None = None) -> None:
        self.target = target
        self._device = device
        self.utils = DriverUtils(self)

    @property
    def device(self) -> StandInDevice:
        """The GPU whose driver this is."""
        if self._device is None or self._device.arch != self.target.arch:
            self._device = StandInDevice.of(
                {"arch": self.target.arch, "wave_size": self.target.warp_size}
            )
        return self._device

    @classmethod
    def is_active(cls) -> bool:
        return True

    def get_current_target(self) -> Any:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int | None = None) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        pass

    def get_device_capability(self, device: int | None = None) -> tuple[int, int]:
        return self.device.capability

    def get_active_torch_device(self) -> Any:
        """The torch device that ROCm builds use; only called by files that import torch."""
        return importlib.import_module("torch").device("cuda", 0)

    def get_device_interface(self) -> Any:
        """The torch module that has streams, events and `synchronize`."""
        return importlib.import_module("torch").cuda

    def get_benchmarker(self) -> Any:
        """The function with which autotuners time: `do_bench`, see `benchmarking`."""
        return importlib.import_module("triton.testing").do_bench

    def get_empty_cache_for_benchmark(self) -> Any:
        """The buffer that benchmarks overwrite to flush the L2 cache; its size does not matter."""
        torch = importlib.import_module("torch")
        return torch.empty(1, dtype=torch.int, device=self.get_active_torch_device())

    def clear_cache(self, cache: Any) -> None:
        pass

    def launcher_cls(self, src: Any = None, metadata: Any = None) -> Any:
        return _do_nothing

    def map_python_to_cpp_type(self, ty: str) -> str:
        """The type itself: only launchers would need the C++ one."""
        return ty

    def assemble_tensormap_to_arg(self, tensormaps_info: Any, args: Any) -> Any:
        """Older Triton's hook for NVIDIA's TMA; AMD's drivers leave the arguments alone."""
        return args

    def allocate_default_profile_scratch(self, size: int, alignment: int, stream: Any) -> Any:
        """Scratch memory of instrumented kernels, which are not launched."""


def activate(target: Any, device: StandInDevice | None = None) -> TargetDriver:
    """Makes a `TargetDriver` Triton's active and default driver."""
    driver = TargetDriver(target, device)
    config = importlib.import_module("triton.runtime.driver").driver
    config.set_active(driver)
    # `reset_active` and a direct look at the default must find it too: `default` is a plain
    # attribute up to Triton 3.4, a property over `_default` since.
    for name in ("_default", "default"):
        with contextlib.suppress(AttributeError):
            setattr(config, name, driver)
    return driver


def _do_nothing(*args: Any, **kwargs: Any) -> None:
    pass
