"""The replacement of `torch.compile` in a script.

Helion's kernels, whose generated Triton kernels are launched like any other.

Helion traces a kernel with torch's fake tensors, as torch.compile does. Its autotuner would time
many configurations: here the script's list is launched, or Helion's default where it has none.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from types import FrameType, FunctionType
from typing import Any

import torch

from ...sampling import spread
from ..dispatch import Dispatcher
from ..torch_functions import Originals
from .generated import Generated, Origin, is_internal

NOT_ANALYZED = (
    "kernels that Inductor would make are not seen (analyze what TORCH_COMPILE_DEBUG=1 writes)"
)
OTHER_TORCH = (
    "torch.compile hands the function back as it is, since this torch ({version}) is made otherwise"
    " than 2.13 ({reason}): " + NOT_ANALYZED
)


class Compile:
    """A `torch.compile` whose generated code is recorded, while the traced graph runs.

    Attributes:
        max_choices: how many kernels of a max-autotuned product to generate; None for all.
    """

    def __init__(self, dispatcher: Dispatcher, originals: Originals, arch: str) -> None:
        self.take: Callable[[Generated], None] | None = None
        self.max_choices: int | None = None
        self._arch = arch
        self._dispatcher = dispatcher
        self._originals = originals
        self._torch_compile = torch.compile
        self._fakes: Any = None
        self._casting: Any = None
        self._generating: Any = None
        self._ready: bool | None = None

    def __call__(self, model: Any = None, **kwargs: Any) -> Any:
        """Compiles a module at once, and a function when it is first called."""
        if model is None:
            return functools.partial(self, **kwargs)
        name = getattr(model, "__name__", None) or type(model).__name__
        compile_call = Origin(name, *_caller())
        if isinstance(model, FunctionType):
            return self._traced_later(model, kwargs, compile_call)
        return self._compiled(model, kwargs, compile_call)

    def _compiled(self, model: Any, kwargs: dict[str, Any], compile_call: Origin) -> Any:
        """The result of torch's own compile; the model itself where that does not work here."""
        if not self._is_ready():
            return model
        with self._generating.for_call(compile_call):
            return self._torch_compile(model, **kwargs)

    def _traced_later(
        self, function: FunctionType, kwargs: dict[str, Any], compile_call: Origin
    ) -> Any:
        """A function that is compiled when it is first called."""
        traced: Any = None

        @functools.wraps(function)
        def compiled(*args: Any, **named: Any) -> Any:
            nonlocal traced
            if traced is None:
                traced = self._compiled(function, kwargs, compile_call)
            return traced(*args, **named)

        return compiled

    def _is_ready(self) -> bool:
        """Whether torch's compiler works here; loads it on the first call, which takes seconds."""
        if self._ready is None:
            try:
                with self._originals.restored():
                    self._load()
                self._ready = True
            except (AttributeError, ImportError, RuntimeError) as failure:
                text = OTHER_TORCH.format(version=torch.__version__, reason=_summary(failure))
                self._dispatcher.note(text)
                self._ready = False
        return self._ready

    def _load(self) -> None:
        """Imports and patches torch's compiler."""
        from .fakes import Fakes, Tracing
        from .generating import Generating
        from .gpu_choices import GraphAutocast, choose

        importlib.import_module("torch._dynamo")
        fakes = self._fakes = Fakes(self._dispatcher)
        tracing = Tracing(self._compiling, self._failed)
        generating = Generating(
            fakes,
            traced_code=lambda: tracing.code,
            on_generated=self._take_generated,
            on_failure=self._failed,
            note=self._dispatcher.note,
            max_choices=self.max_choices,
        )
        self._generating = generating
        tracing.install()
        generating.install()
        fakes.install()
        impls = set(torch.library._impls)
        self._casting = GraphAutocast()
        self._casting.install()
        self._attention = choose(self._arch, self._dispatcher.note, fakes.is_active)
        # The dispatcher takes the entries for kernels of the user's libraries.
        torch.library._impls.intersection_update(impls)

    @contextlib.contextmanager
    def tracing(self) -> Iterator[None]:
        """Makes fake tensors those of the claimed GPU, for another compiler that traces."""
        if not self._is_ready():
            yield
            return
        # Our mode would receive the traced operators before the compiler's own modes.
        with torch.utils._python_dispatch._disable_current_modes(), self._compiling():
            yield

    @contextlib.contextmanager
    def _compiling(self) -> Iterator[None]:
        with self._originals.restored(), self._fakes.active(), self._casting.active():
            yield

    def _take_generated(self, generated: Generated) -> None:
        if self.take is not None:
            self.take(generated)

    def _failed(self, name: str, failure: BaseException) -> None:
        """Reports that the compiler broke down on a function or graph."""
        traceback.print_exception(type(failure), failure, failure.__traceback__)
        self._dispatcher.note(
            f"torch.compile of {name} failed here ({_summary(failure)}): {NOT_ANALYZED}"
        )


def _caller() -> tuple[str, int]:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and is_internal(frame.f_code.co_filename):
        frame = frame.f_back
    return (frame.f_code.co_filename, frame.f_lineno) if frame is not None else ("", 0)


def _summary(failure: BaseException) -> str:
    lines = str(failure).strip().splitlines()
    return f"{type(failure).__name__}: {lines[0] if lines else ''}"


MODULE = "helion.runtime.kernel"
TRACING_METHODS = ("__init__", "to_code")
"""Methods of a bound kernel (one with arguments) that trace it."""


class Helion:
    """Adapts Helion to a machine without a GPU.

    Attributes:
        keep: stores generated code and returns its path: (name, text); None not to store it.
    """

    def __init__(
        self,
        tracing: Callable[[], AbstractContextManager[None]],
        note: Callable[[str], None],
    ) -> None:
        self.max_choices: int | None = None
        self.keep: Callable[[str, str], str] | None = None
        self._tracing = tracing
        self._note = note

    def adjust(self, module: Any) -> None:
        """Patches Helion's module of kernels, once it is imported."""
        kind = module.BoundKernel
        for name in TRACING_METHODS:
            setattr(kind, name, self._traced_method(getattr(kind, name)))
        kind.autotune = self._autotune(kind.autotune)
        module.PyCodeCache = self._cache(module.PyCodeCache)

    def _traced_method(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def traced(*args: Any, **kwargs: Any) -> Any:
            with self._tracing():
                return function(*args, **kwargs)

        return traced

    def _cache(self, cache_class: Any) -> Any:
        """A cache of modules that stores their text where reports can point at its lines."""

        class Cache(cache_class):
            @classmethod
            def load(cls, source_code: str, extra: str = "") -> Any:
                if helion.keep is None:
                    return cache_class.load(source_code, extra=extra)
                path = helion.keep("helion", source_code)
                return cache_class.load_by_key_path(os.path.basename(path) + extra, path)

        helion = self
        return Cache

    def _autotune(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """An autotuner that launches configurations, spread over their values; picks the first."""

        @functools.wraps(original)
        def autotune(bound: Any, args: Sequence[Any], **options: Any) -> Any:
            listed = list(bound.kernel.configs)
            name = bound.kernel.name
            if not listed:
                listed = [bound.config_spec.default_config()]
                self._note(f"Helion's autotuner is not run for {name}: its default is compiled")
            normalized = bound.kernel.normalize_args(*args)
            first, *further = spread(
                [listed_config.config for listed_config in listed], self.max_choices
            )
            for index in further:
                bound.compile_config(listed[index])(*normalized)
            if further:
                launch_count = len(further) + 1
                self._note(
                    f"{launch_count} of the {len(listed)} configurations of {name} are launched"
                )
            bound.set_config(listed[first])
            return listed[first]

        return autotune
