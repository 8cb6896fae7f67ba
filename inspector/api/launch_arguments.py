"""The arguments of a kernel call, kept so that the emulator can execute a few workgroups."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from ..model import Parameter, Passed, PassedMemory
from .stand_in_tensor import T, offset, torch_dtype

_FIRST_ADDRESS = 1 << 40
"""Of the memory of stand-ins; tensors in this process lie elsewhere."""
_ALIGNMENT = 1 << 20
"""Bytes between which stand-ins begin; a page of a GPU's memory at least."""
_MOST_CONTENTS = 1 << 20
"""Bytes up to which the contents of integer tensors are taken, which decide what a kernel does."""


def passed_by(types: Sequence[Any], values: Sequence[Any]) -> Passed | None:
    """The kernel's parameters and the memory that they point to.

    Args:
        types: of the kernel's signature, `constexpr` for what is no parameter.
        values: the arguments, one for each type.

    Returns:
        None where an argument is of a kind that has no form as a parameter.
    """
    arguments = import_module("..guest.emulation.arguments", __package__)
    parameters: list[Parameter] = []
    memories: dict[int, PassedMemory] = {}
    stand_ins: dict[int, int] = {}
    free = _FIRST_ADDRESS
    try:
        for kind, value in arguments.parameters(types, values):
            if not kind.startswith("*") or value is None or isinstance(value, int):
                number = 0 if value is None else arguments.number_of(kind, value)
                parameters.append(Parameter(kind, number))
                continue
            if isinstance(value, T):
                if id(value) not in stand_ins:
                    stand_ins[id(value)] = address = free + offset(value)
                    memories[address] = PassedMemory(address, value.ptr_range(), torch_dtype(value))
                    free += _ALIGNMENT * (2 + value.ptr_range() // _ALIGNMENT)
                parameters.append(Parameter(kind, stand_ins[id(value)]))
                continue
            tensor = getattr(value, "base", value)  # triton.reinterpret's wrapper
            parameters.append(Parameter(kind, int(value.data_ptr())))
            memory = _memory(tensor)
            if memory.size:
                memories.setdefault(memory.address, memory)
    except (arguments.ArgumentError, AttributeError, TypeError, ValueError):
        return None
    return Passed(tuple(parameters), tuple(memories.values()))


def _memory(tensor: Any) -> PassedMemory:
    """The storage of a tensor of PyTorch; its contents where they are integers in this process."""
    storage = tensor.untyped_storage()
    address, size = int(storage.data_ptr()), int(storage.nbytes())
    contents = None
    is_index = not tensor.is_floating_point() and not tensor.is_complex()
    if is_index and tensor.device.type == "cpu" and 0 < size <= _MOST_CONTENTS:
        contents = ctypes.string_at(address, size)
    return PassedMemory(address, size, str(tensor.dtype).rpartition(".")[2], contents)
