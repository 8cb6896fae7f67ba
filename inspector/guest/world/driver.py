"""A Triton driver for a machine without a GPU.

Files ask Triton for the active device while they load (`driver.active.get_current_target()`), which
fails without a GPU. This driver answers for the chosen target.
"""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

from .device import StandInDevice


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
