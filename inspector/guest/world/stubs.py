"""Inert stand-ins for modules that are not installed: they import, and their calls do nothing.

A script that plots, logs or compares with another library then reaches its kernels all the same.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from ..checkout import PROTECTED
from .assumptions import LOG

VERSION = "0.0.0"
NOWHERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "not installed")
"""Where the stubs would lie: scripts ask for a package's folder to look into it."""


class NotInstalledError(TypeError):
    """A value of a module that is not installed is used where only the real one will do.

    Args:
        origin: the value, in dots.
    """

    def __init__(self, origin: str) -> None:
        self.module = origin.lstrip("(").partition(".")[0].rstrip("()")
        super().__init__(f"{origin} is not known: {self.module} is not installed")


class InertMeta(type):
    """Classes whose unknown attributes are inert too, so that a stub can be subclassed."""

    origin: str

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return named(f"{cls.origin}.{name}")

    def __iter__(cls) -> Iterator[Any]:
        return iter(())

    def __bool__(cls) -> bool:
        return bool(LOG.answer(f"{cls.origin}, which is not installed", True))

    def __or__(cls, other: Any) -> Any:
        return Any

    __ror__ = __or__


class Inert(metaclass=InertMeta):
    """Attribute, function, class, decorator and context manager that does nothing.

    Called with a single function or class it gives that back, as a decorator does. What is decided
    by it is an assumption: it is false, empty, equal to nothing and no larger than anything.
    """

    origin = "a stand-in"

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if "origin" in vars(cls) and len(args) == 1 and not kwargs and callable(args[0]):
            return args[0]
        return super().__new__(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __init_subclass__(cls, **kwargs: Any) -> None:
        pass

    def __class_getitem__(cls, item: Any) -> Any:
        return cls

    @classmethod
    def __torch_function__(cls, *called: Any) -> Any:
        """Computing with tensors and stand-ins: whatever came of it, a kernel would not take it."""
        raise NotInstalledError(cls.origin)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and callable(args[0]):
            return args[0]
        return named(f"{self.origin}()")()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return named(f"{self.origin}.{name}")()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exception: Any) -> None:
        pass

    def __getitem__(self, key: Any) -> Any:
        return named(f"{self.origin}[...]")()

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def __iter__(self) -> Iterator[Any]:
        self._decides("the elements of ", "none")
        return iter(())

    def __len__(self) -> int:
        self._decides("the length of ", 0)
        return 0

    def __bool__(self) -> bool:
        return bool(self._decides("", False))

    def __eq__(self, other: object) -> bool:
        return other is self or bool(self._decides("whether it equals something: ", False))

    def __lt__(self, other: object) -> bool:
        return bool(self._decides("whether it is less than something: ", False))

    def __gt__(self, other: object) -> bool:
        return bool(self._decides("whether it is more than something: ", False))

    __le__, __ge__ = __lt__, __gt__
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return "<not installed>"

    def __format__(self, spec: str) -> str:
        return repr(self)

    def _decides(self, question: str, answer: Any) -> Any:
        return LOG.answer(f"{question}{self.origin}, which is not installed", answer)


def _computing(sign: str) -> Callable[..., Any]:
    """An operator: of a stand-in and a number it is as inert as both, of a tensor an error."""

    def method(self: Inert, *operands: Any) -> Any:
        if any(
            not isinstance(operand, (bool, int, float, complex, str, Inert)) for operand in operands
        ):
            raise NotInstalledError(self.origin)
        return named(f"({self.origin} {sign} ...)")()

    return method


for _name, _sign in (
    *(("add", "+"), ("sub", "-"), ("mul", "*"), ("matmul", "@"), ("truediv", "/")),
    *(("floordiv", "//"), ("mod", "%"), ("pow", "**")),
):
    setattr(Inert, f"__{_name}__", _computing(_sign))
    setattr(Inert, f"__r{_name}__", _computing(_sign))
for _name, _sign in (("neg", "-"), ("abs", "abs")):
    setattr(Inert, f"__{_name}__", _computing(_sign))


@functools.lru_cache(maxsize=4096)
def named(origin: str) -> type[Inert]:
    """The inert class that stands in for a name of a module, in dots."""
    name = origin.rpartition(".")[2].rstrip("()")
    metaclass: Any = InertMeta
    kind: type[Inert] = metaclass(
        name if name.isidentifier() else "Inert", (Inert,), {"origin": origin}
    )
    return kind


class InertModule(ModuleType):
    """A module of which every attribute is inert."""

    __path__: list[str] = []  # noqa: RUF012  (the import system's protocol: a package)

    def __getattr__(self, name: str) -> Any:
        if name == "__version__":
            return LOG.answer(f"the version of {self.__name__}, which is not installed", VERSION)
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)
        return [] if name == "__all__" else named(f"{self.__name__}.{name}")


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
