"""Lets Inductor generate the code of a graph, and records the code before it is compiled."""

from __future__ import annotations

import contextlib
import copy
import importlib
import re
from collections.abc import Callable, Iterator, Sequence
from types import CodeType
from typing import Any

from ...sampling import spread
from .choosing import Choosing
from .fakes import Fakes
from .generated import Generated, Origin
from .origins import operation_places, origin_of

_KERNEL_PATH = re.compile(r"^# kernel path: .*\n", re.MULTILINE)
"""The comment with the path at which Inductor would store a kernel, which differs in each run."""
_CALL_ATTRIBUTE = "_kinspect_compile_call"
"""Attribute of the object that torch.compile makes for Inductor: an `Origin`."""


class Generating:
    """Takes the place of Inductor's compiler of graphs.

    Inductor works as ever until it has generated a graph's code. What replaces its next step
    records the code and raises `_StopError`: Inductor may wrap that in an error of
    its own, so whether a failure is this stop shows only in whether code was recorded.

    Args:
        traced_code: returns the code object that Dynamo is tracing.
        on_failure: called with a function's name and the error, where Inductor failed on it.
        max_choices: how many kernels of a tuned product to generate code with; None for all.
    """

    def __init__(
        self,
        fakes: Fakes,
        traced_code: Callable[[], CodeType | None],
        on_generated: Callable[[Generated], None],
        on_failure: Callable[[str, BaseException], None],
        note: Callable[[str], None],
        max_choices: int | None,
    ) -> None:
        self._fakes = fakes
        self._traced_code = traced_code
        self._on_generated = on_generated
        self._on_failure = on_failure
        self._choosing = Choosing(note)
        self._max_choices = max_choices
        # Modules of Inductor, once it is installed.
        self._compile_fx: Any = None
        self._config: Any = None
        # What the patched functions cannot be passed: the call of torch.compile that is being set
        # up (`for_call`), and the code generated so far of the graph that is being compiled.
        self._call_in_setup: Origin | None = None
        self._recorded: list[str] = []

    def install(self) -> None:
        """Patches Inductor for the rest of the process.

        Raises:
            AttributeError, ImportError: this torch's Inductor has no such parts.
        """
        self._compile_fx = importlib.import_module("torch._inductor.compile_fx")
        self._choosing.install()
        self._config = importlib.import_module("torch._inductor.config")
        self._configure()
        self._stop_after_code()
        self._take_graphs()

    def _configure(self) -> None:
        """Makes Inductor generate all code at once, in this process."""
        self._config.compile_threads = 1  # the patches hold in this process only
        self._config.force_disable_caches = True  # code out of a cache would not be generated
        functorch: Any = importlib.import_module("torch._functorch.config")
        functorch.force_non_lazy_backward_lowering = True  # a script may never call backward()

    def _stop_after_code(self) -> None:
        """Replaces the step that would compile and load the generated code."""
        lowering_class: Any = importlib.import_module("torch._inductor.graph").GraphLowering

        def compile_to_module(lowering: Any) -> Any:
            code = lowering.codegen()[0]
            text = getattr(code, "value", code)
            self._recorded.append(_KERNEL_PATH.sub("", text))
            raise _StopError

        lowering_class.compile_to_module = compile_to_module

    def _take_graphs(self) -> None:
        """Replaces the object through which torch.compile hands Dynamo's graphs to Inductor.

        It is made when torch.compile is called and called when a graph was traced, which may be
        much later: it carries the `Origin` from the one to the other.
        """
        torch: Any = importlib.import_module("torch")
        wrapper_class = torch._TorchCompileInductorWrapper
        original_init = wrapper_class.__init__

        def init(wrapper: Any, *args: Any, **kwargs: Any) -> None:
            original_init(wrapper, *args, **kwargs)
            setattr(wrapper, _CALL_ATTRIBUTE, self._call_in_setup)

        def call(wrapper: Any, model: Any, inputs: Sequence[Any]) -> Any:
            compile_call = getattr(wrapper, _CALL_ATTRIBUTE, None)
            return self.compile(model, inputs, wrapper.config, compile_call)

        wrapper_class.__init__ = init
        wrapper_class.__call__ = call

    @contextlib.contextmanager
    def for_call(self, compile_call: Origin) -> Iterator[None]:
        """Attributes the graphs that are set up inside to this call of torch.compile."""
        self._call_in_setup = compile_call
        try:
            yield
        finally:
            self._call_in_setup = None

    def compile(
        self,
        model: Any,
        inputs: Sequence[Any],
        config: dict[str, Any],
        compile_call: Origin | None,
    ) -> Any:
        """Generates the code of a graph; returns the function that runs the graph itself."""
        origin = origin_of(self._traced_code(), compile_call)
        self._recorded = []

        def compile_inner(graph: Any, inputs: Sequence[Any], **kwargs: Any) -> Any:
            return self._compile_inner(origin.name, graph, inputs, kwargs)

        try:
            with self._fakes.constants():
                self._compile_fx.compile_fx(
                    model, inputs, inner_compile=compile_inner, config_patches=config
                )
        except Exception as failure:
            self._on_failure(origin.name, failure)
        places = operation_places(model)
        for text in dict.fromkeys(self._recorded):  # choices of kernels may agree
            self._on_generated(Generated(text, origin.name, origin.file, origin.line, places))
        return model.forward

    def _compile_inner(
        self, function_name: str, graph: Any, inputs: Sequence[Any], kwargs: dict[str, Any]
    ) -> Any:
        """Generates the code of a lowered graph, with each choice of kernels where it is tuned."""
        is_tuned = self._config.max_autotune or self._config.max_autotune_gemm
        untouched = copy.deepcopy(graph) if is_tuned else None
        self._choosing.begin(0)
        self._generate(function_name, graph, inputs, kwargs)
        configurations = self._choosing.configurations
        for choice in spread(configurations, self._max_choices)[1:] if configurations else ():
            self._choosing.begin(choice)
            self._generate(function_name, copy.deepcopy(untouched), inputs, kwargs)

        def run(args: Any) -> Any:
            return graph.forward(*args)

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    def _generate(
        self, function_name: str, graph: Any, inputs: Sequence[Any], kwargs: dict[str, Any]
    ) -> None:
        """Generates code once; a failure before any code was recorded is reported."""
        recorded_before = len(self._recorded)
        try:
            self._compile_fx.compile_fx_inner(graph, inputs, **kwargs)
        except Exception as failure:
            if len(self._recorded) == recorded_before:
                self._on_failure(function_name, failure)


class _StopError(Exception):
    """Ends Inductor's work once the code is generated."""
