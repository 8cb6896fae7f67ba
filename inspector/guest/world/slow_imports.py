"""Keeps torch from importing, for nothing, what takes longer to import than most scripts run.

Many of torch's own functions import `torch._dynamo` on their first call, only to tell it to leave
them alone; and every check of an operator's shapes imports the symbolic shapes, with them sympy, to
find that a plain `True` is true. Stand-ins answer those questions; for anything else they become
the real modules.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import torch

DYNAMO = "torch._dynamo"
SYMBOLIC = "torch.fx.experimental.symbolic_shapes"
PACKAGES = (DYNAMO,)
Answer = Callable[..., Any]


class LazyModule(ModuleType):
    """Answers some calls itself and becomes the real module for anything else.

    Args:
        name: of the module.
        answers: functions of it that need not be loaded.
        plain: functions that need not be loaded while all their arguments are plain values.
    """

    def __init__(
        self, name: str, answers: Mapping[str, Answer], plain: Mapping[str, Answer]
    ) -> None:
        super().__init__(name)
        self._lock = threading.RLock()
        self._real: ModuleType | None = None
        self._answers = {**answers, **{n: self._guarded(n, answer) for n, answer in plain.items()}}

    def __getattr__(self, name: str) -> Any:
        # The import system asks. `__path__`: it wants to import something inside.
        if name.startswith("__") and not (name == "__path__" and self.__name__ in PACKAGES):
            raise AttributeError(name)
        if self._real is None and name in self._answers:
            return self._answers[name]
        return getattr(self._loaded(), name)

    def install(self) -> None:
        """Puts it in the real module's place, unless that is loaded already."""
        name = self.__name__
        if name in sys.modules:
            return
        sys.modules[name] = self
        parent, _, attribute = name.rpartition(".")
        if parent in sys.modules:
            setattr(sys.modules[parent], attribute, self)

    def _loaded(self) -> ModuleType:
        name = self.__name__
        with self._lock:
            if self._real is None:
                parent, _, attribute = name.rpartition(".")
                if sys.modules.get(name) is self:
                    del sys.modules[name]
                    if vars(sys.modules.get(parent, self)).get(attribute) is self:
                        delattr(sys.modules[parent], attribute)
                self._real = importlib.import_module(name)
            return self._real

    def _guarded(self, name: str, answer: Answer) -> Answer:
        def answered(*args: Any, **kwargs: Any) -> Any:
            if kwargs or not all(map(_is_plain, args)):
                return getattr(self._loaded(), name)(*args, **kwargs)
            return answer(*args)

        return answered


def install() -> None:
    """Puts stand-ins in the places of both modules."""
    answers = {"disable": _disable, "graph_break": _nothing}
    LazyModule(DYNAMO, answers, {}).install()
    plain: dict[str, Answer] = {
        **dict.fromkeys(RETURNING_VALUE, _returned),
        "is_nested_int": _never,
        "sym_eq": _equal,
        "sym_and": _all,
        "sym_or": _any,
    }
    LazyModule(SYMBOLIC, {}, plain).install()
    torch._dynamo = sys.modules[DYNAMO]


RETURNING_VALUE = (
    "expect_true",
    "guard_bool",
    "guard_int",
    "guard_or_false",
    "guard_or_true",
    "guard_size_oblivious",
    "guarding_hint_or_throw",
    "statically_known_true",
)
"""Functions of symbolic values that give a plain value back as it is."""


def _is_plain(value: Any) -> bool:
    if type(value) in (bool, int):
        return True
    return isinstance(value, (tuple, list)) and all(map(_is_plain, value))


def _disable(fn: Any = None, recursive: bool = True, **kwargs: Any) -> Any:
    """The function itself, also as a decorator with arguments; Dynamo knows it by its mark."""
    if fn is None:
        return _disable
    with contextlib.suppress(AttributeError, TypeError):  # a method, a builtin
        fn._torchdynamo_disable = True
    return fn


def _nothing(*args: Any, **kwargs: Any) -> None:
    """There is no graph to break."""


def _returned(value: Any, *options: Any) -> Any:
    return value


def _never(value: Any) -> bool:
    return False


def _equal(left: Any, right: Any) -> bool:
    sequences = isinstance(left, (tuple, list)) and isinstance(right, (tuple, list))
    return bool(list(left) == list(right) if sequences else left == right)


def _all(first: Any, *operands: Any) -> Any:
    for operand in operands:
        first = first & operand
    return first


def _any(first: Any, *operands: Any) -> Any:
    for operand in operands:
        first = first | operand
    return first
