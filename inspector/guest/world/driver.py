"""A Triton driver for a machine without a GPU.

Files ask Triton for the active device while they load (`driver.active.get_current_target()`);
without a GPU that raises before any kernel is seen. This driver answers for the chosen target.
"""

from __future__ import annotations

import importlib
from typing import Any


class TargetDriver:
    """Answers as the driver of one GPU of the given target would.

    Args:
        target: a `triton.backends.compiler.GPUTarget`; may be replaced between kernels.
    """

    def __init__(self, target: Any) -> None:
        self.target = target

    @classmethod
    def is_active(cls) -> bool:
        """True: Triton asks this of every driver class."""
        return True

    def get_current_target(self) -> Any:
        """The GPU that code is compiled for."""
        return self.target

    def get_current_device(self) -> int:
        """The ordinal of the only device."""
        return 0

    def set_current_device(self, device: int) -> None:
        """There is only one."""

    def get_current_stream(self, device: int | None = None) -> int:
        """The default stream."""
        return 0

    def get_active_torch_device(self) -> Any:
        """The torch device that ROCm builds use; only called by files that import torch."""
        return importlib.import_module("torch").device("cuda", 0)

    def map_python_to_cpp_type(self, ty: str) -> str:
        """Needed by launchers alone, and nothing is launched."""
        return ty


def activate(target: Any) -> TargetDriver:
    """Makes a `TargetDriver` Triton's active driver."""
    driver = TargetDriver(target)
    importlib.import_module("triton.runtime.driver").driver.set_active(driver)
    return driver
