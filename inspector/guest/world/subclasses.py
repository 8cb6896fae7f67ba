"""Tensors that wrap device tensors: AsyncCollectiveTensor, DTensor, a script's own classes.

In torch's C++ autograd needs a build with GPU support for a tensor on a GPU. So wrappers, too, are
CPU tensors to C++, and Python reports the device that they claim.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from .tensors import CPU, DEVICE_TYPES, GPU

CLAIM = "_kinspect_claim"
"""Attribute of a wrapper with the device that it claims to be on."""


def install() -> None:
    """Patches torch's maker of wrapper tensors, so that it accepts the claimed device."""
    original = torch.Tensor._make_wrapper_subclass

    @functools.wraps(original)
    def make_wrapper_subclass(cls: Any, *args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        if device is None or torch.device(device).type not in DEVICE_TYPES:
            return original(cls, *args, **kwargs)
        wrapper = original(cls, *args, **{**kwargs, "device": CPU})
        setattr(wrapper, CLAIM, GPU)
        _report(type(wrapper), _claimed, is_replaced=False)
        return wrapper

    torch.Tensor._make_wrapper_subclass = staticmethod(make_wrapper_subclass)


def report_inner_device(wrapper_class: Any, attribute: str) -> None:
    """Makes wrappers that C++ creates report the device of the tensor in their `attribute`."""
    _report(wrapper_class, lambda wrapper: getattr(wrapper, attribute).device, is_replaced=True)


def _report(wrapper_class: Any, device: Callable[[Any], Any], *, is_replaced: bool) -> None:
    """Makes a class report a device; attributes that it overrides itself only if replaced."""
    attributes = {
        "device": property(device),
        "is_cuda": property(lambda wrapper: device(wrapper).type == "cuda"),
        "is_cpu": property(lambda wrapper: device(wrapper).type == "cpu"),
        "get_device": lambda wrapper: (device(wrapper).index or 0) if wrapper.is_cuda else -1,
    }
    for name, attribute in attributes.items():
        if is_replaced or not _overrides(wrapper_class, name):
            setattr(wrapper_class, name, attribute)


def _overrides(wrapper_class: type, name: str) -> bool:
    """Whether a class, or one between it and torch.Tensor, overrides an attribute."""
    classes = wrapper_class.__mro__
    return any(name in vars(base) for base in classes[: classes.index(torch.Tensor)])


def _claimed(wrapper: Any) -> Any:
    return getattr(wrapper, CLAIM, None) or torch._C.TensorBase.device.__get__(wrapper)
