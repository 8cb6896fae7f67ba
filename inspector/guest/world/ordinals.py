"""`torch.device(0)`: C++ wants a real accelerator to name the type of an ordinal."""

from __future__ import annotations

from typing import Any

import torch


def install() -> None:
    """Replaces `torch.device`; what it makes is as ever, and is what it is an instance of."""
    torch.device = _class_of_devices(torch.device)


def _class_of_devices(plain: Any) -> Any:
    class Kind(type):
        """Equal to torch's own class, which tables of types hold that were made before."""

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            stated = [*args, *kwargs.values()]
            if len(stated) == 1 and type(stated[0]) is int:
                return plain("cuda", stated[0])
            return plain(*args, **kwargs)

        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, plain)

        def __subclasscheck__(cls, kind: type) -> bool:
            return kind is cls or issubclass(kind, plain)

        def __eq__(cls, other: object) -> bool:
            return other is cls or other is plain

        def __hash__(cls) -> int:
            return hash(plain)

        def __getattr__(cls, name: str) -> Any:
            return getattr(plain, name)

    return Kind("device", (), {"__module__": "torch", "__doc__": plain.__doc__})
