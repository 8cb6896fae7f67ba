"""Tensors that wrap device tensors: AsyncCollectiveTensor, DTensor, a script's own classes.

In torch's C++ autograd needs a build with GPU support for a tensor on a GPU. So wrappers, too, are
CPU tensors to C++, and Python reports the device that they claim.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from .tensors import DEVICE_TYPES

CLAIM = "_kinspect_claim"
"""Attribute of a wrapper with the device that it claims to be on."""
CPU = torch.device("cpu")


def install() -> None:
    """Patches torch's maker of wrapper tensors, so that it accepts the claimed device."""
    original = torch.Tensor._make_wrapper_subclass

    @functools.wraps(original)
    def make_wrapper_subclass(cls: Any, *args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        if device is None or torch.device(device).type not in DEVICE_TYPES:
            return original(cls, *args, **kwargs)
        return _claiming(original(cls, *args, **{**kwargs, "device": CPU}), torch.device("cuda", 0))

    torch.Tensor._make_wrapper_subclass = staticmethod(make_wrapper_subclass)


def _claiming(wrapper: Any, device: torch.device) -> Any:
    """Makes a wrapper report the claimed device to Python code; patches its class for that."""
    setattr(wrapper, CLAIM, device)
    wrapper_class = type(wrapper)
    for name, getter in (("device", _device), ("is_cuda", _is_cuda), ("is_cpu", _is_cpu)):
        if not _overrides(wrapper_class, name):
            setattr(wrapper_class, name, property(getter))
    if not _overrides(wrapper_class, "get_device"):
        wrapper_class.get_device = _get_device
    return wrapper


def report_inner_device(wrapper_class: Any, attribute: str) -> None:
    """Makes wrappers that C++ creates report the device of the tensor inside.

    The tensor inside is their `attribute`.
    """

    def device(wrapper: Any) -> Any:
        return getattr(wrapper, attribute).device

    wrapper_class.device = property(device)
    wrapper_class.is_cuda = property(lambda wrapper: device(wrapper).type == "cuda")
    wrapper_class.is_cpu = property(lambda wrapper: device(wrapper).type == "cpu")
    wrapper_class.get_device = lambda wrapper: getattr(wrapper, attribute).get_device()


def _overrides(wrapper_class: type, name: str) -> bool:
    """Whether a class, or one between it and torch.Tensor, overrides an attribute."""
    classes = wrapper_class.__mro__
    return any(name in vars(base) for base in classes[: classes.index(torch.Tensor)])


def _device(wrapper: Any) -> Any:
    return getattr(wrapper, CLAIM, None) or torch._C.TensorBase.device.__get__(wrapper)


def _is_cuda(wrapper: Any) -> bool:
    return bool(_device(wrapper).type == "cuda")


def _is_cpu(wrapper: Any) -> bool:
    return bool(_device(wrapper).type == "cpu")


def _get_device(wrapper: Any) -> int:
    device = _device(wrapper)
    return (device.index or 0) if device.type == "cuda" else -1
