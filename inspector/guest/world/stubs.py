"""Inert stand-ins for modules that are not installed: they import, and their calls do nothing.

A script that plots, logs or compares with another library then reaches its kernels all the same.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from ..checkout import PROTECTED

NOWHERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "not installed")
"""Where the stubs would lie: scripts ask for a package's folder to look into it."""


class InertMeta(type):
    """Classes whose unknown attributes are inert too, so that a stub can be subclassed."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Inert

    def __iter__(cls) -> Iterator[Any]:
        return iter(())

    def __or__(cls, other: Any) -> Any:
        return Any

    __ror__ = __or__


class Inert(metaclass=InertMeta):
    """Attribute, function, class, decorator and context manager that does nothing.

    Called with a single function or class it gives that back, as a decorator does.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is Inert and len(args) == 1 and not kwargs and callable(args[0]):
            return args[0]
        return super().__new__(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __init_subclass__(cls, **kwargs: Any) -> None:
        pass

    def __class_getitem__(cls, item: Any) -> Any:
        return cls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return args[0] if len(args) == 1 and not kwargs and callable(args[0]) else Inert()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Inert()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exception: Any) -> None:
        pass

    def __getitem__(self, key: Any) -> Any:
        return Inert()

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "<not installed>"


class InertModule(ModuleType):
    """A module of which every attribute is inert."""

    __path__: list[str] = []  # noqa: RUF012  (the import system's protocol: a package)
    __version__ = "0.0.0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)
        return [] if name == "__all__" else Inert


class StubFinder:
    """Finds the named modules, and all below them, as inert ones."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = frozenset(names)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """A spec for a name in the list or below one, else None."""
        parts = name.split(".")
        if any(".".join(parts[:n]) in self._names for n in range(1, len(parts) + 1)):
            spec = ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]
            spec.submodule_search_locations = [os.path.join(NOWHERE, *parts)]
            return spec
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The inert module."""
        return InertModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run."""


def install(names: Sequence[str]) -> None:
    """Makes the named modules importable, ahead of whatever else would be found.

    Raises:
        ValueError: one of them is Triton, torch or numpy.
    """
    wrong = sorted(n for n in names if n.partition(".")[0] in PROTECTED)
    if wrong:
        raise ValueError(f"{', '.join(wrong)} cannot be stubbed")
    if names:
        sys.meta_path.insert(0, StubFinder(names))
