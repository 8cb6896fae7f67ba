"""`torch.compile` as a script finds it."""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
import traceback
from collections.abc import Callable, Iterator
from types import FrameType, FunctionType
from typing import Any

import torch

from ..dispatch import Dispatcher
from .generated import CompileCall, Generated, is_torchs
from .originals import Originals

UNSEEN = "kernels that Inductor would make are not seen (analyze what TORCH_COMPILE_DEBUG=1 writes)"
OTHER_TORCH = (
    "torch.compile hands the function back as it is, since this torch ({version}) is made otherwise"
    " than 2.13 ({reason}): " + UNSEEN
)


class Compile:
    """Takes the place of `torch.compile`.

    Args:
        dispatcher: runs what is traced.
        originals: torch as it was.
        arch: gfx name of the GPU.
    """

    def __init__(self, dispatcher: Dispatcher, originals: Originals, arch: str) -> None:
        self.take: Callable[[Generated], None] | None = None
        self.most_choices: int | None = None
        self._arch = arch
        self._dispatcher = dispatcher
        self._originals = originals
        self._plain = torch.compile
        self._fakes: Any = None
        self._casting: Any = None
        self._generating: Any = None
        self._ready: bool | None = None

    def __call__(self, model: Any = None, **kwargs: Any) -> Any:
        """A function is traced when it is called first; a module is wrapped at once."""
        if model is None:
            return functools.partial(self, **kwargs)
        name = getattr(model, "__name__", None) or type(model).__name__
        compile_call = CompileCall(name, *_caller())
        if isinstance(model, FunctionType):
            return self._function(model, kwargs, compile_call)
        return self._wrapped(model, kwargs, compile_call)

    def _wrapped(self, model: Any, kwargs: dict[str, Any], compile_call: CompileCall) -> Any:
        if not self._is_ready():
            return model
        with self._generating.for_call(compile_call):
            return self._plain(model, **kwargs)

    def _function(
        self, function: FunctionType, kwargs: dict[str, Any], compile_call: CompileCall
    ) -> Any:
        traced: Any = None

        @functools.wraps(function)
        def compiled(*args: Any, **named: Any) -> Any:
            nonlocal traced
            if traced is None:
                traced = self._wrapped(function, kwargs, compile_call)
            return traced(*args, **named)

        return compiled

    def _is_ready(self) -> bool:
        """Whether torch's compiler works here; it takes seconds to load it."""
        if self._ready is None:
            try:
                with self._originals.restored():
                    self._load()
                self._ready = True
            except (AttributeError, ImportError, RuntimeError) as failure:
                text = OTHER_TORCH.format(version=torch.__version__, reason=_short(failure))
                self._dispatcher.note(text)
                self._ready = False
        return self._ready

    def _load(self) -> None:
        from .attention import Attention
        from .casting import Casting
        from .fakes import Fakes
        from .generating import Generating
        from .tracing import Tracing

        importlib.import_module("torch._dynamo")
        fakes = self._fakes = Fakes(self._dispatcher)
        tracing = Tracing(self._compiling, self._failed)
        generating = Generating(
            fakes, lambda: tracing.code, self._take_generated, self._failed, self._dispatcher.note
        )
        generating.most_choices = self.most_choices
        self._generating = generating
        tracing.install()
        generating.install()
        fakes.install()
        impls = set(torch.library._impls)
        self._casting = Casting()
        self._casting.install()
        self._attention = Attention(self._arch, self._dispatcher.note, fakes.in_use)
        self._attention.install()
        # The dispatcher looks there for what libraries put in the place of torch's own.
        torch.library._impls.intersection_update(impls)

    @contextlib.contextmanager
    def tracing(self) -> Iterator[None]:
        """Fake tensors are of the claimed GPU inside, for another compiler that uses them."""
        if not self._is_ready():
            yield
            return
        # Ours would see what is traced before the compiler's own modes do.
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
        traceback.print_exception(type(failure), failure, failure.__traceback__)
        self._dispatcher.note(f"torch.compile of {name} failed here ({_short(failure)}): {UNSEEN}")


def _caller() -> tuple[str, int]:
    """File and line outside of torch and this package from which torch.compile was called."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and is_torchs(frame.f_code.co_filename):
        frame = frame.f_back
    return (frame.f_code.co_filename, frame.f_lineno) if frame is not None else ("", 0)


def _short(failure: BaseException) -> str:
    lines = str(failure).strip().splitlines()
    return f"{type(failure).__name__}: {lines[0] if lines else ''}"
