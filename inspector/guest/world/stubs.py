"""Inert stand-ins for modules that are not installed: they import, and their calls do nothing.

With them a script that plots, logs or compares with another library still reaches its kernels.

Patches a few modules as soon as the script has imported them.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.metadata
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import MappingProxyType, ModuleType
from typing import Any

from ..checkout import PROTECTED
from .assumptions import LOG

# torch takes the classmethod of a class that stands for a value for a plain one.
warnings.filterwarnings("ignore", message="Defining your `__torch_function__` as a plain method")
VERSION = "0.0.0"
STUB_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "not installed")
"""The folder of the stubs, which does not exist: some scripts look into a package's folder."""


class NotInstalledError(TypeError):
    """A value of a module that is not installed was used where only the real one serves."""

    def __init__(self, origin: str) -> None:
        self.module = origin.lstrip("(").partition(".")[0].rstrip("()")
        super().__init__(f"{origin} is not known: {self.module} is not installed")


NotInstalledError.__module__ = "builtins"  # tracebacks of users' scripts name it


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
    """An attribute, function, class, decorator and context manager that does nothing.

    Called with a single function or class it returns that, as a decorator does. It is false, empty,
    equal to nothing, and neither less nor greater than anything; each use of that is logged as an
    assumption.
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
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Lets pydantic know: a field of this type takes any value."""
        return {"type": "any"}

    @classmethod
    def __torch_function__(cls, *called: Any) -> Any:
        """Raises `NotInstalledError`: a computation with tensors would need the real value."""
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
        self._assume("the elements of ", "none")
        return iter(())

    def __len__(self) -> int:
        self._assume("the length of ", 0)
        return 0

    def __bool__(self) -> bool:
        return bool(self._assume("", False))

    def __eq__(self, other: object) -> bool:
        return other is self or bool(self._assume("whether it equals something: ", False))

    def __lt__(self, other: object) -> bool:
        return bool(self._assume("whether it is less than something: ", False))

    def __gt__(self, other: object) -> bool:
        return bool(self._assume("whether it is more than something: ", False))

    __le__, __ge__ = __lt__, __gt__
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return "<not installed>"

    def __format__(self, spec: str) -> str:
        return repr(self)

    def _assume(self, question: str, answer: Any) -> Any:
        return LOG.answer(f"{question}{self.origin}, which is not installed", answer)


def _arithmetic_method(sign: str) -> Callable[..., Any]:
    """An operator that returns a stand-in for plain operands and raises an error for tensors."""

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
    setattr(Inert, f"__{_name}__", _arithmetic_method(_sign))
    setattr(Inert, f"__r{_name}__", _arithmetic_method(_sign))
for _name, _sign in (("neg", "-"), ("abs", "abs")):
    setattr(Inert, f"__{_name}__", _arithmetic_method(_sign))


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
    __path__: list[str] = []  # noqa: RUF012  (the import system's protocol: a package)

    def __getattr__(self, name: str) -> Any:
        if name == "__version__":
            return LOG.answer(f"the version of {self.__name__}, which is not installed", VERSION)
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)
        return [] if name == "__all__" else named(f"{self.__name__}.{name}")


class ModuleMaker:
    """A finder of modules that are made here; `make` returns one by name, or None."""

    def __init__(self, make: Callable[[str], ModuleType | None]) -> None:
        self._make = make

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        module = self._make(name)
        if module is None:
            return None
        is_package = isinstance(module, InertModule)
        spec = ModuleSpec(name, self, is_package=is_package)  # type: ignore[arg-type]
        if is_package:
            spec.submodule_search_locations = [os.path.join(STUB_FOLDER, *name.split("."))]
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._make(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Does nothing: the module is complete."""


def install(names: Sequence[str]) -> None:
    """Makes the named modules importable as stubs, even where they are installed.

    Raises:
        ValueError: one of them is Triton, torch or numpy.
    """
    protected = sorted(n for n in names if n.partition(".")[0] in PROTECTED)
    if protected:
        raise ValueError(f"{', '.join(protected)} cannot be stubbed")
    if names:
        stubs = tuple(f"{name}." for name in names)
        sys.meta_path.insert(
            0,
            ModuleMaker(lambda name: InertModule(name) if f"{name}.".startswith(stubs) else None),
        )
        _patch_version(frozenset(names))


def _patch_version(names: frozenset[str]) -> None:
    """Gives the named modules a version, for those who ask for their distribution's."""
    installed_version = importlib.metadata.version

    @functools.wraps(installed_version)
    def version(distribution_name: str) -> str:
        try:
            return installed_version(distribution_name)
        except importlib.metadata.PackageNotFoundError:
            if distribution_name.lower().replace("-", "_") not in names:
                raise
            asked = f"the version of {distribution_name}, which is not installed"
            return str(LOG.answer(asked, VERSION))

    importlib.metadata.version = version


PROFILER_CALLS = (
    *("start", "finalize", "activate", "deactivate", "profile", "enter_scope", "exit_scope"),
    *("scope", "cpu_timed_scope", "enter_state", "exit_state", "state"),
)
"""Functions of Triton's profiler that need a GPU; kernels keep `profiler.language`."""
VIEWER_CALLS = MappingProxyType(
    {"parse": 2, "read": 4, "get_raw_metrics": 4, "print_tree": 0, "apply_diff_profile": 0}
)
"""Function -> the length of the tuple that it returns; 0 where it returns a single value."""


def _profiler(module: ModuleType) -> None:
    _replace(module, {name: Inert() for name in PROFILER_CALLS})


def _viewer(module: ModuleType) -> None:
    """Makes the viewer of profiles return inert values, since there is no profile."""
    _replace(module, {name: _inert(count) for name, count in VIEWER_CALLS.items()})


def _replace(module: ModuleType, values: Mapping[str, Any]) -> None:
    vars(module).update({n: value for n, value in values.items() if hasattr(module, n)})


def _inert(count: int) -> Callable[..., Any]:
    return lambda *args, **kwargs: tuple(Inert() for _ in range(count)) if count else Inert()


def _aiter(module: ModuleType) -> None:
    """Adds `aiter.dtypes`, which AITER_TRITON_ONLY (see `rocm`) leaves out.

    It imports two enumerations of AITER's C++ library, which stand-ins replace: Triton kernels do
    not use them.
    """
    if hasattr(module, "dtypes"):
        return
    for folder in module.__path__:
        sys.path.append(os.path.join(folder, "jit", "utils"))  # as aiter.jit.core does
    sys.modules.setdefault("aiter.ops.enum", InertModule("aiter.ops.enum"))
    with contextlib.suppress(ImportError):
        module.dtypes = importlib.import_module("aiter.utility.dtypes")  # type: ignore[attr-defined]


def _dtensor(module: ModuleType) -> None:
    """Makes C++ see a DTensor on the device of its local tensor, which is the host's."""
    subclasses = importlib.import_module(".subclasses", __package__)
    subclasses.report_inner_device(module.DTensor, "_local_tensor")


def _symmetric_memory(module: ModuleType) -> None:
    """Replaces the part of the extension module that allocates memory on a GPU."""
    importlib.import_module(".symmetric_memory", __package__).adjust(module)


def _unittest(note: Callable[[str], None]) -> Callable[[ModuleType], None]:
    """Makes a note of each skipped test with its reason, which unittest's runner does not print."""

    def adjust(module: ModuleType) -> None:
        result: Any = module.TestResult
        add_skip = result.addSkip

        @functools.wraps(add_skip)
        def add_skip_noted(self: Any, test: Any, reason: str) -> Any:
            note(f"{test} is skipped: {reason}")
            return add_skip(self, test, reason)

        result.addSkip = add_skip_noted

    return adjust


Adjust = Callable[[ModuleType], None]
ADJUSTMENTS: Mapping[str, Adjust] = MappingProxyType(
    {
        "triton.profiler": _profiler,
        "triton.profiler.viewer": _viewer,
        "aiter": _aiter,
        "torch.distributed._symmetric_memory": _symmetric_memory,
        "torch.distributed.tensor._api": _dtensor,
    }
)


class AdjustingFinder:
    """A finder that lets the other finders find a module, and adjusts it once it is loaded."""

    def __init__(self, adjustments: Mapping[str, Adjust]) -> None:
        self._adjustments = adjustments

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The spec that the other finders give, with the adjustment after its loader's work."""
        adjust = self._adjustments.get(name)
        if adjust is None:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    _adjust_after(spec.loader, adjust)
                return spec
        return None


def _adjust_after(loader: Any, adjust: Adjust) -> None:
    """Makes a loader adjust the module that it has loaded."""
    load = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        load(module)
        adjust(module)

    loader.exec_module = exec_module


def patch_imports(
    note: Callable[[str], None], further_adjustments: Mapping[str, Adjust] = MappingProxyType({})
) -> None:
    """Adjusts the modules that are loaded already, and the others when they are imported."""
    adjustments = {**ADJUSTMENTS, **further_adjustments, "unittest.result": _unittest(note)}
    for name, adjust in adjustments.items():
        if name in sys.modules:
            adjust(sys.modules[name])
    sys.meta_path.insert(0, AdjustingFinder(adjustments))
