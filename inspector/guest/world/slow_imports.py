"""Keeps torch from needless imports that would take longer than most scripts run.

Many of torch's own functions import `torch._dynamo` on their first call, only to exclude themselves
from tracing; and every check of an operator's shapes imports symbolic shapes, and with them sympy,
to find that a plain `True` is true. Stand-ins answer those calls; any other use loads the real
modules.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import operator
import sys
import threading
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import torch

DYNAMO = "torch._dynamo"
SYMBOLIC = "torch.fx.experimental.symbolic_shapes"
RETURNING_VALUE = (
    *("expect_true", "guard_bool", "guard_int", "guard_or_false", "guard_or_true"),
    *("guard_size_oblivious", "guarding_hint_or_throw", "statically_known_true"),
)
"""Functions of symbolic values that return a plain value unchanged."""
Answer = Callable[..., Any]


class LazyModule(ModuleType):
    """Implements some functions itself and loads the real module for any other use.

    Args:
        name: the module's name.
        answers: functions that do without the real module.
        plain: functions that do without it while all their arguments are plain values.
    """

    def __init__(
        self, name: str, answers: Mapping[str, Answer], plain: Mapping[str, Answer]
    ) -> None:
        super().__init__(name)
        self._lock = threading.RLock()
        self._real: ModuleType | None = None
        self._answers = {
            **answers,
            **{n: self._for_plain_values(n, answer) for n, answer in plain.items()},
        }

    def __getattr__(self, name: str) -> Any:
        # Asked for by the import system; for `__path__` when it imports a submodule.
        if name.startswith("__") and (name, self.__name__) != ("__path__", DYNAMO):
            raise AttributeError(name)
        if self._real is None and name in self._answers:
            return self._answers[name]
        return getattr(self._real_module(), name)

    def install(self) -> None:
        """Takes the real module's place, unless that is loaded already."""
        name = self.__name__
        if name in sys.modules:
            return
        sys.modules[name] = self
        parent, _, attribute = name.rpartition(".")
        if parent in sys.modules:
            setattr(sys.modules[parent], attribute, self)

    def _real_module(self) -> ModuleType:
        """The real module, imported on the first call, which then replaces this one."""
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

    def _for_plain_values(self, name: str, answer: Answer) -> Answer:
        """A function that calls `answer` with plain values, the real function with others."""

        def answered(*args: Any, **kwargs: Any) -> Any:
            if kwargs or not all(map(_is_plain, args)):
                return getattr(self._real_module(), name)(*args, **kwargs)
            return answer(*args)

        return answered


def install() -> None:
    """Puts stand-ins in the places of `torch._dynamo` and the symbolic shapes."""
    answers = {"disable": _disable, "graph_break": lambda *args, **kwargs: None}
    LazyModule(DYNAMO, answers, {}).install()
    plain: dict[str, Answer] = {
        **dict.fromkeys(RETURNING_VALUE, lambda value, *options: value),
        "is_nested_int": lambda value: False,
        "sym_eq": _equal,
        "sym_and": lambda *operands: functools.reduce(operator.and_, operands),
        "sym_or": lambda *operands: functools.reduce(operator.or_, operands),
    }
    LazyModule(SYMBOLIC, {}, plain).install()
    torch._dynamo = sys.modules[DYNAMO]


def _is_plain(value: Any) -> bool:
    """Whether a value is a bool, an int, or a sequence of these."""
    if type(value) in (bool, int):
        return True
    return isinstance(value, (tuple, list)) and all(map(_is_plain, value))


def _disable(fn: Any = None, recursive: bool = True, **kwargs: Any) -> Any:
    """`torch._dynamo.disable`: marks the function; also as a decorator with arguments."""
    if fn is None:
        return _disable
    with contextlib.suppress(AttributeError, TypeError):  # a method, a builtin
        fn._torchdynamo_disable = True
    return fn


def _equal(x: Any, y: Any) -> bool:
    sequences = isinstance(x, (tuple, list)) and isinstance(y, (tuple, list))
    return bool(list(x) == list(y) if sequences else x == y)
