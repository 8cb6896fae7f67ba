"""Tensors that wrap device tensors: AsyncCollectiveTensor, DTensor, a script's own classes.

To torch's C++ a tensor of the device would need a build with a GPU as soon as autograd sees it. So
wrappers too are CPU tensors to C++, and Python says where they are.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from .dispatch import DEVICE_TYPES

CLAIM = "_kinspect_claim"
"""The attribute of a wrapper that holds the device which it was made for."""
CPU = torch.device("cpu")


def install() -> None:
    """Lets wrappers be made for the claimed device."""
    make_wrapper = torch.Tensor._make_wrapper_subclass

    @functools.wraps(make_wrapper)
    def make_wrapper_subclass(cls: Any, *args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        if device is None or torch.device(device).type not in DEVICE_TYPES:
            return make_wrapper(cls, *args, **kwargs)
        return _claiming(
            make_wrapper(cls, *args, **{**kwargs, "device": CPU}), torch.device("cuda", 0)
        )

    torch.Tensor._make_wrapper_subclass = staticmethod(make_wrapper_subclass)


def _claiming(wrapper: Any, device: torch.device) -> Any:
    """The wrapper; its class reports the claimed device to Python code from here on."""
    setattr(wrapper, CLAIM, device)
    kind = type(wrapper)
    for name, answer in (("device", _device), ("is_cuda", _is_cuda), ("is_cpu", _is_cpu)):
        if not _overrides(kind, name):
            setattr(kind, name, property(answer))
    if not _overrides(kind, "get_device"):
        kind.get_device = _get_device
    return wrapper


def follow(kind: Any, attribute: str) -> None:
    """Lets a class of wrappers that C++ makes report the device of the tensor it wraps.

    Args:
        kind: the class.
        attribute: of its instances: the tensor inside.
    """

    def device(wrapper: Any) -> Any:
        return getattr(wrapper, attribute).device

    kind.device = property(device)
    kind.is_cuda = property(lambda wrapper: device(wrapper).type == "cuda")
    kind.is_cpu = property(lambda wrapper: device(wrapper).type == "cpu")
    kind.get_device = lambda wrapper: getattr(wrapper, attribute).get_device()


def _overrides(kind: type, name: str) -> bool:
    """Whether a class, or one between it and torch's, overrides an attribute."""
    below = kind.__mro__[: kind.__mro__.index(torch.Tensor)]
    return any(name in vars(base) for base in below)


def _device(wrapper: Any) -> Any:
    return getattr(wrapper, CLAIM, None) or torch._C.TensorBase.device.__get__(wrapper)


def _is_cuda(wrapper: Any) -> bool:
    return bool(_device(wrapper).type == "cuda")


def _is_cpu(wrapper: Any) -> bool:
    return bool(_device(wrapper).type == "cpu")


def _get_device(wrapper: Any) -> int:
    device = _device(wrapper)
    return (device.index or 0) if device.type == "cuda" else -1
