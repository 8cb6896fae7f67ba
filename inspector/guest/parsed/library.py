"""The values that a kernel may use: Triton's language and torch's device functions.

They come from the modules of the interpreter that compiles. Other modules are not even imported.

The reasons why a kernel cannot be made from data alone.
"""

from __future__ import annotations

import builtins
import enum
import importlib
import inspect
import sys
import types
from collections.abc import Iterable
from typing import Any

from ..record.kernel_source import LANGUAGE, is_library

STUBS = f"{LANGUAGE}.extra."
"""Prefix of modules with functions without a body, for which Triton takes the target's own."""
LITERALS = (bool, int, float, complex, str, bytes, tuple, list, dict, set, frozenset, range)
MUTABLE = (list, dict, set, bytearray, types.MappingProxyType)
"""State of libraries, which a kernel could change, comes in such containers."""
MOST_NESTED = 20
"""Levels of tuples and lists in a value."""
FORMATTING_METHODS = frozenset({"format", "format_map", "to_ir", "mangle"})
"""Methods that look up attributes by name, or call methods of their argument."""
METHODS = frozenset({"parse", "get_capture_scope"})
"""Of a JITFunction, which the code generator calls: no instance has its own."""
VALUES = (
    *("dtype", "constexpr", "constexpr_type", "tensor", "tuple", "tuple_type", "slice"),
    *("tensor_descriptor", "tensor_descriptor_type"),
    *("tensor_descriptor_base", "tensor_descriptor_base_type"),
)
"""Kinds of values in a kernel. Others of the library's call and set what their fields say."""
LANGUAGE_CLASSES = ("range", "static_range", "condition", "slice", "const")
PYTHON_BUILTINS = (
    len,
    list,
    range,
    float,
    int,
    bool,
    isinstance,
    getattr,
    hasattr,
    min,
    max,
    print,
)


def library_module(name: str) -> Any:
    """A library's module; an `Unavailable` where this interpreter does not have it."""
    if not is_library(name):
        return Unavailable(f"the import of {name}")
    try:
        return importlib.import_module(name)
    except Exception as error:
        return Unavailable(f"{name}, which cannot be imported: {error}", missing=True)


def member(module: str, qualname: str) -> Any:
    """The member of a library's module by its name; an `Unavailable` where there is none."""
    value = library_module(module)
    if isinstance(value, Unavailable):
        return value
    for part in qualname.split("."):
        # Special attributes, other modules and functions' parts lead out of the language.
        is_way = inspect.isclass(value) or _is_library_module(value)
        if part.startswith("__") or not is_way:
            return Unavailable(f"{module}.{qualname}, which is not part of a language")
        if not hasattr(value, part):
            return Unavailable(f"{module}.{qualname}, which it has not", missing=True)
        value = getattr(value, part)
    if isinstance(value, MUTABLE):
        return Unavailable(f"{module}.{qualname}, which is not a constant")
    return value


class Language:
    """Decides which values belong to Triton's language.

    Replacements of Python's functions, and modules made of data, can be added to them.
    """

    def __init__(self) -> None:
        core: Any = importlib.import_module("triton.language.core")
        jit: Any = importlib.import_module("triton.runtime.jit")
        language: Any = importlib.import_module(LANGUAGE)
        self._core = core
        self._jit = jit.JITFunction
        self._constexpr_function = getattr(jit, "ConstexprFunction", ())
        bound = (getattr(jit, "BoundConstexprFunction", None),)
        self._bound = tuple(kind for kind in bound if kind is not None)
        kinds = (getattr(core, name, None) for name in VALUES)
        self._values = tuple(kind for kind in kinds if kind is not None)
        self._named = (core.dtype, core.constexpr, core.tensor)
        self._tuple = getattr(core, "tuple", ())
        named = (getattr(language, name, None) for name in LANGUAGE_CLASSES)
        self._classes = tuple(kind for kind in named if inspect.isclass(kind))
        self._builtins: list[Any] = [*PYTHON_BUILTINS]
        self._modules: list[Any] = []

    def add_builtin(self, function: Any) -> None:
        """Adds a function of ours that replaces one of Python's."""
        self._builtins.append(function)

    def add_module(self, module: Any) -> None:
        """Adds a module that was made of data."""
        self._modules.append(module)

    def is_data_module(self, module: Any) -> bool:
        """Whether a value is one of the modules made of data."""
        return any(module is made_module for made_module in self._modules)

    def check(self, value: Any, level: int = 0) -> None:
        """Checks the value of an expression in a kernel, and all that it contains.

        Raises:
            RefusedError: it does not belong to the language.
        """
        while isinstance(value, self._core.constexpr):
            value = value.value
        if isinstance(value, Unavailable):
            raise value.refusal()
        if not self._is_permitted(value) or level > MOST_NESTED:
            raise RefusedError(description_of(value))
        inner: Iterable[Any] = ()
        if isinstance(value, dict):
            inner = (*value.keys(), *value.values())
        elif isinstance(value, (tuple, list, set, frozenset)):
            inner = value
        elif isinstance(value, self._tuple):
            inner = value.values
        for part in inner:
            self.check(part, level + 1)
            self.check_argument(part)

    def known(self, value: Any) -> Any:
        """A value of a library; an `Unavailable` for one that does not belong to the language."""
        try:
            self.check(value)
        except RefusedError as failure:
            return Unavailable(failure.subject, failure.missing)
        return value

    def check_kernel(self, value: Any) -> None:
        """Checks what the code generator is to generate code of.

        Raises:
            RefusedError: it is no kernel, but something with the attributes of one.
        """
        is_changed = isinstance(value, self._jit) and not METHODS.isdisjoint(vars(value))
        if not isinstance(value, self._jit) or is_changed:
            raise RefusedError(f"{description_of(value)} as a function")

    def check_argument(self, value: Any) -> None:
        """Checks an argument of a call: functions of a library ask modules for anything.

        Raises:
            RefusedError: it is a module.
        """
        while isinstance(value, self._core.constexpr):
            value = value.value
        if isinstance(value, types.ModuleType):
            raise RefusedError(f"{description_of(value)} as an argument")

    def check_member(self, owner: Any, name: str, value: Any) -> None:
        """Checks an attribute's value beside its owner's.

        Raises:
            RefusedError: it is a part of a function, or state of a library.
        """
        while isinstance(owner, self._core.constexpr) and not hasattr(type(owner), name):
            owner = owner.value
        if isinstance(owner, (self._jit, self._constexpr_function, *self._bound)):
            raise RefusedError(f"{name} of {description_of(owner)}")
        if not isinstance(value, MUTABLE) or self.is_data_module(owner):
            return
        kinds = owner.__mro__ if inspect.isclass(owner) else type(owner).__mro__
        shared = any(vars(kind).get(name) is value for kind in kinds)
        if shared or isinstance(owner, types.ModuleType):
            raise RefusedError(f"{name} of {description_of(owner)}, which is not a constant")

    def _is_permitted(self, value: Any) -> bool:
        """Whether a value belongs to the language; constexprs are unwrapped before."""
        if value is None or value is NotImplemented or value is Ellipsis:
            return True
        if isinstance(value, types.ModuleType):
            return self.is_data_module(value) or _is_library_module(value)
        if inspect.isclass(value):
            return (
                issubclass(value, self._named)
                or value in self._classes
                or any(value is builtin for builtin in self._builtins)
            )
        if isinstance(value, (*LITERALS, enum.Enum, *self._values, *self._classes)):
            return True
        if isinstance(value, (self._jit, self._constexpr_function, *self._bound)):
            return True
        return self._is_permitted_callable(value) or _is_dtype_of_torch(value)

    def _is_permitted_callable(self, value: Any) -> bool:
        if any(value is builtin for builtin in self._builtins):
            return True
        if self._core.is_builtin(value):
            return True
        owner = getattr(value, "__self__", None)
        if isinstance(value, types.MethodType):
            return isinstance(owner, self._values)
        if isinstance(value, types.BuiltinMethodType):
            is_constant = isinstance(owner, LITERALS) and not isinstance(owner, MUTABLE)
            return is_constant or owner is importlib.import_module("math")
        if type(value).__name__ == "BoundJITMethod":
            return isinstance(owner, self._values)
        if not inspect.isfunction(value) or not str(value.__module__).startswith(STUBS):
            return False
        return getattr(sys.modules.get(value.__module__), value.__name__, None) is value


def description_of(value: Any) -> str:
    """A refused value's name, for a message."""
    if isinstance(value, types.ModuleType):
        return f"the module {value.__name__}"
    name = getattr(value, "__qualname__", None) or type(value).__qualname__
    module = getattr(value, "__module__", None)
    prefix = "" if module in (None, "builtins", builtins.__name__) else f"{module}."
    return f"{prefix}{name}"


def _is_library_module(module: Any) -> bool:
    """Whether a value is a library's own module, and not another one of its name."""
    if not isinstance(module, types.ModuleType):
        return False
    name = module.__name__
    return is_library(name) and sys.modules.get(name) is module


def _is_dtype_of_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and type(value) is torch.dtype


class RefusedError(BaseException):
    """Code that compiling a kernel would run, or a value that this interpreter lacks.

    No Exception, since Triton's code generator turns every Exception into a compile error.

    `subject`: the code or the value, in one line.
    `missing`: whether the interpreter lacks a value, and no code would run.
    """

    def __init__(self, subject: str, missing: bool = False) -> None:
        super().__init__(subject)
        self.subject = subject
        self.missing = missing


REFUSED = "kernel {name} is not compiled, since that would run more than Triton's language: {what}"
MISSING = "kernel {name} needs {what}, of the libraries of {executable}"


def message_of(failure: RefusedError, name: str) -> str:
    """The reason why a kernel cannot be made, in one line."""
    text = MISSING if failure.missing else REFUSED
    return text.format(name=name, what=failure.subject, executable=sys.executable)


class Unavailable:
    """Takes the place of a value that is missing, or that only running code would give."""

    def __init__(self, subject: str, missing: bool = False) -> None:
        self.subject = subject
        self.missing = missing

    def refusal(self) -> RefusedError:
        """The error to raise where the value is used."""
        return RefusedError(self.subject, self.missing)
