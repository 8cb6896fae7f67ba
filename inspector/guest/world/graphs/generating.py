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
from .generated import CompileCall, Generated, is_internal

KERNEL_PATH = re.compile(r"^# kernel path: .*\n", re.MULTILINE)
"""The comment with the path at which Inductor would store a kernel, which differs in each run."""
FRAME = re.compile(r'^ *File "(?P<file>.+)", line (?P<line>\d+), in ', re.MULTILINE)
"""A line of the stack trace that Dynamo attaches to each operation of a graph."""
RESUMED_NAME = re.compile(r"torch_dynamo_resume_in_(?P<name>.+)_at_\d+")
"""Dynamo's name of the part of a function that follows a graph break."""
CALL_ATTRIBUTE = "_kinspect_asked"
"""Attribute of the object that torch.compile makes for Inductor: a `CompileCall`."""


class Generating:
    """Takes the place of Inductor's compiler of graphs.

    Args:
        fakes: the fake tensors.
        code: returns the code object that Dynamo is tracing.
        take: takes the code of each graph.
        failed: called with a function's name and the error, where Inductor failed on it.
        note: takes a remark on something approximated.

    Attributes:
        max_choices: how many kernels of a max-autotuned product to generate; None for all.
    """

    def __init__(
        self,
        fakes: Fakes,
        code: Callable[[], CodeType | None],
        take: Callable[[Generated], None],
        failed: Callable[[str, BaseException], None],
        note: Callable[[str], None],
    ) -> None:
        self._fakes = fakes
        self._code = code
        self._take = take
        self._failed = failed
        self._module: Any = None
        self._config: Any = None
        self._choosing = Choosing(note)
        self.max_choices: int | None = None
        self._texts: list[str] = []
        self._name = ""
        self._compile_call: CompileCall | None = None

    def install(self) -> None:
        """Patches Inductor for the rest of the process.

        Raises:
            AttributeError, ImportError: this torch's Inductor has no such parts.
        """
        torch: Any = importlib.import_module("torch")
        self._module = importlib.import_module("torch._inductor.compile_fx")
        self._choosing.install()
        config: Any = importlib.import_module("torch._inductor.config")
        self._config = config
        config.compile_threads = 1
        config.force_disable_caches = True
        functorch: Any = importlib.import_module("torch._functorch.config")
        functorch.force_non_lazy_backward_lowering = True  # a script may never call backward()
        graph = importlib.import_module("torch._inductor.graph").GraphLowering
        generating = self

        def codegen(lowering: Any) -> Any:
            return generating._take_text(lowering)

        graph.compile_to_module = codegen

        def call(wrapper: Any, model: Any, inputs: Sequence[Any]) -> Any:
            compile_call = getattr(wrapper, CALL_ATTRIBUTE, None)
            return generating.compile(model, inputs, wrapper.config, compile_call)

        def init(wrapper: Any, *args: Any, **kwargs: Any) -> None:
            plain_init(wrapper, *args, **kwargs)
            setattr(wrapper, CALL_ATTRIBUTE, generating._compile_call)

        plain_init = torch._TorchCompileInductorWrapper.__init__
        torch._TorchCompileInductorWrapper.__init__ = init
        torch._TorchCompileInductorWrapper.__call__ = call

    @contextlib.contextmanager
    def for_call(self, compile_call: CompileCall) -> Iterator[None]:
        """Attributes the graphs that are set up inside to this call of torch.compile."""
        self._compile_call = compile_call
        try:
            yield
        finally:
            self._compile_call = None

    def compile(
        self,
        model: Any,
        inputs: Sequence[Any],
        config: dict[str, Any],
        compile_call: CompileCall | None,
    ) -> Any:
        """Generates the code of a graph; returns the function that runs the graph itself.

        Args:
            model: Dynamo's graph.
            inputs: fake tensors and symbolic numbers.
            config: Inductor's options, as the script stated them.
            compile_call: the call of torch.compile that this is for.
        """
        code = self._code()
        self._texts = []
        origin = _origin(code, compile_call)
        self._name = origin.name
        try:
            with self._fakes.constants():
                self._module.compile_fx(
                    model, inputs, inner_compile=self._compile_inner, config_patches=config
                )
        except Exception as failure:
            self._failed(origin.name, failure)
        lines = _lines(model)
        for text in dict.fromkeys(self._texts):
            self._take(Generated(text, origin.name, origin.file, origin.line, lines))
        return model.forward

    def _compile_inner(self, graph: Any, inputs: Sequence[Any], **kwargs: Any) -> Any:
        """Generates the code of a lowered graph, with each choice of kernels where it is tuned.

        Args:
            graph: the forward or backward graph of AOTAutograd.
            inputs: its fake inputs.
            kwargs: further arguments of `compile_fx_inner`.

        Returns:
            The function that runs the graph itself.
        """
        tuned = self._config.max_autotune or self._config.max_autotune_gemm
        untouched = copy.deepcopy(graph) if tuned else None
        self._choosing.begin(0)
        self._generate(graph, inputs, kwargs)
        configurations = self._choosing.configurations
        for choice in spread(configurations, self.max_choices)[1:] if configurations else ():
            self._choosing.begin(choice)
            self._generate(copy.deepcopy(untouched), inputs, kwargs)

        def run(args: Any) -> Any:
            return graph.forward(*args)

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    def _generate(self, graph: Any, inputs: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Generates code once; `_take_text` ends that with an error, others are reported."""
        text_count = len(self._texts)
        try:
            self._module.compile_fx_inner(graph, inputs, **kwargs)
        except Exception as failure:
            if len(self._texts) == text_count:
                self._failed(self._name, failure)

    def _take_text(self, lowering: Any) -> Any:
        """Stores the code of a graph.

        Raises:
            _StopError: always, so that the code is not compiled.
        """
        code = lowering.codegen()[0]
        text = getattr(code, "value", code)
        self._texts.append(KERNEL_PATH.sub("", text))
        raise _StopError


class _StopError(Exception):
    """Ends Inductor's work once the code is generated."""


def _origin(code: CodeType | None, compile_call: CompileCall | None) -> CompileCall:
    """The function that is traced; the call of torch.compile where torch defines that function."""
    if code is None or is_internal(code.co_filename):
        return compile_call or CompileCall("a graph", "", 0)
    name = getattr(code, "co_qualname", code.co_name).rpartition("<locals>.")[2]
    resumed = RESUMED_NAME.fullmatch(name)
    name = resumed["name"] if resumed is not None else name
    return CompileCall(name, code.co_filename, code.co_firstlineno)


def _lines(model: Any) -> dict[str, tuple[str, int]]:
    """The file and line of each operation, by its name in Inductor's comments."""
    lines = {}
    for node in (getattr(model, "graph", None) and model.graph.nodes) or ():
        frames = FRAME.findall(node.meta.get("stack_trace") or "")
        if frames:
            file, line = frames[-1]
            lines[node.name] = (file, int(line))
    return lines
