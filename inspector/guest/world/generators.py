"""Random generators on the claimed device: CPU generators that report another device."""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from .tensors import DEVICE_TYPES, device_of

PHILOX_BYTES = 16
"""Size of the state of torch's generators on a GPU."""
CpuGenerator: Any = torch.Generator


class Generator(CpuGenerator):
    """A generator on the claimed device."""

    def __new__(cls, device: Any = "cpu") -> Any:
        return CpuGenerator.__new__(cls, device="cpu")

    def __init__(self, device: Any = "cpu") -> None:
        super().__init__()
        self._claim = device_of(device)
        self._offset = 0

    device = property(lambda generator: generator._claim)

    def get_state(self) -> torch.Tensor:
        """The state: seed and offset of Philox (16 bytes), or the CPU generator's own."""
        if self._claim.type not in DEVICE_TYPES:
            return super().get_state()
        seed = ctypes.c_int64(self.initial_seed()).value  # it is unsigned in torch
        state = torch.tensor([seed, self._offset])
        return state.view(torch.uint8)

    def set_state(self, state: torch.Tensor) -> Any:
        """Restores a state of either kind."""
        if state.numel() != PHILOX_BYTES:
            return super().set_state(state)
        seed, self._offset = state.cpu().contiguous().view(torch.int64).tolist()
        return self.manual_seed(seed)

    def get_offset(self) -> int:
        """The offset in Philox's sequence of random numbers; drawing does not advance it here."""
        return self._offset

    def set_offset(self, offset: int) -> None:
        """Sets the offset, which has no effect on the numbers drawn."""
        self._offset = int(offset)

    graphsafe_get_state = get_state
    graphsafe_set_state = set_state


def install_generators() -> None:
    """Replaces `torch.Generator` and the device's default generator."""
    torch.Generator = Generator
    torch.cuda.default_generators = (Generator("cuda"),)
