"""Has Inductor generate the code of a graph, and takes it down before it is compiled."""

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
from .generated import CompileCall, Generated, is_torchs

KERNEL_PATH = re.compile(r"^# kernel path: .*\n", re.MULTILINE)
"""Where Inductor would keep a kernel: another place in each run."""
FRAME = re.compile(r'^ *File "(?P<file>.+)", line (?P<line>\d+), in ', re.MULTILINE)
"""A line of the stack trace that Dynamo writes down with each operation of a graph."""
RESUMED = re.compile(r"torch_dynamo_resume_in_(?P<name>.+)_at_\d+")
"""What Dynamo calls the rest of a function after a graph break."""
CALL_ATTRIBUTE = "_kinspect_asked"
"""Attribute of the object that torch.compile makes for Inductor: a `CompileCall`."""


class Generating:
    """Stands where Inductor would compile a graph.

    Args:
        fakes: made ready around it.
        code: what Dynamo is looking at.
        take: given each text.
        failed: told where Inductor broke down.
        note: told of what is taken for granted.
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
        self.most_choices: int | None = None
        self._texts: list[str] = []
        self._name = ""
        self._compile_call: CompileCall | None = None

    def install(self) -> None:
        """Changes Inductor for good.

        Raises:
            AttributeError, ImportError: it is made otherwise in this torch.
        """
        torch: Any = importlib.import_module("torch")
        self._module = importlib.import_module("torch._inductor.compile_fx")
        self._choosing.install()
        config: Any = importlib.import_module("torch._inductor.config")
        self._config = config
        config.compile_threads = 1
        config.force_disable_caches = True
        functorch: Any = importlib.import_module("torch._functorch.config")
        functorch.force_non_lazy_backward_lowering = True  # else only what a script asks for
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
        """What torch.compile makes inside belongs to this call of it."""
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
        """Generates the code of a graph; what runs is the graph itself.

        Args:
            compile_call: the call of torch.compile that this is for.
            model: Dynamo's graph.
            inputs: fake tensors and symbolic numbers.
            config: Inductor's options, as the script stated them.
        """
        code = self._code()
        self._texts = []
        origin = _origin(code, compile_call)
        self._name = origin.name
        try:
            with self._fakes.constants():
                self._module.compile_fx(
                    model, inputs, inner_compile=self._inner, config_patches=config
                )
        except Exception as failure:
            self._failed(origin.name, failure)
        lines = _lines(model)
        for text in dict.fromkeys(self._texts):
            self._take(Generated(text, origin.name, origin.file, origin.line, lines))
        return model.forward

    def _inner(self, graph: Any, inputs: Sequence[Any], **kwargs: Any) -> Any:
        tuned = self._config.max_autotune or self._config.max_autotune_gemm
        untouched = copy.deepcopy(graph) if tuned else None
        self._choosing.begin(0)
        self._generate(graph, inputs, kwargs)
        points = self._choosing.points
        for pick in spread(points, self.most_choices)[1:] if points else ():
            self._choosing.begin(pick)
            self._generate(copy.deepcopy(untouched), inputs, kwargs)

        def run(args: Any) -> Any:
            return graph.forward(*args)

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    def _generate(self, graph: Any, inputs: Sequence[Any], kwargs: dict[str, Any]) -> None:
        texts = len(self._texts)
        try:
            self._module.compile_fx_inner(graph, inputs, **kwargs)
        except Exception as failure:
            if len(self._texts) == texts:
                self._failed(self._name, failure)

    def _take_text(self, lowering: Any) -> Any:
        code = lowering.codegen()[0]
        text = getattr(code, "value", code)
        self._texts.append(KERNEL_PATH.sub("", text))
        raise _WrittenError


class _WrittenError(Exception):
    """The text is there: no more is wanted."""


def _origin(code: CodeType | None, compile_call: CompileCall | None) -> CompileCall:
    """The function at work; the call of torch.compile where that is one of torch's own."""
    if code is None or is_torchs(code.co_filename):
        return compile_call or CompileCall("a graph", "", 0)
    name = getattr(code, "co_qualname", code.co_name).rpartition("<locals>.")[2]
    resumed = RESUMED.fullmatch(name)
    name = resumed["name"] if resumed is not None else name
    return CompileCall(name, code.co_filename, code.co_firstlineno)


def _lines(model: Any) -> dict[str, tuple[str, int]]:
    """Where each operation stands, by its name in Inductor's comments."""
    places = {}
    for node in (getattr(model, "graph", None) and model.graph.nodes) or ():
        frames = FRAME.findall(node.meta.get("stack_trace") or "")
        if frames:
            file, line = frames[-1]
            places[node.name] = (file, int(line))
    return places
