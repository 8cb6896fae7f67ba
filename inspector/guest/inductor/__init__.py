"""Kernels of TorchInductor's generated code, captured without running it."""

from .capture import capture

__all__ = ["capture"]
