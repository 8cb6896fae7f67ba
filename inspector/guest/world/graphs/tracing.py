"""Makes Dynamo trace device tensors as plain tensors of the GPU that they claim to be on.

A device tensor is a subclass with a `__torch_dispatch__` of its own (`world/tensors.py`). Dynamo
would trace into that code, and treat its instances as a user's subclass.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import CodeType
from typing import Any

from ..dispatch import DeviceMode
from ..tensors import DeviceTensor

OWN_PACKAGE = __name__.partition(".world.")[0]


class Tracing:
    """Patches Dynamo for the stand-in world.

    Args:
        failed: called with a function's name and the error, where Dynamo itself failed on it.

    Attributes:
        code: the code object that is being traced; None between traces.
    """

    def __init__(
        self,
        compiling: Callable[[], AbstractContextManager[None]],
        failed: Callable[[str, BaseException], None],
    ) -> None:
        self._compiling = compiling
        self._failed = failed
        self.code: CodeType | None = None

    def install(self) -> None:
        """Patches Dynamo for the rest of the process.

        Raises:
            AttributeError, ImportError: this torch's Dynamo has no such parts.
        """
        importlib.import_module("torch._dynamo.trace_rules").add(OWN_PACKAGE)
        self._skip_dispatch()
        self._trace_as_plain_tensors()
        self._follow_traces()
        config: Any = importlib.import_module("torch._dynamo.config")
        # A script must not notice a failure of Dynamo that it would not have had on a GPU.
        config.suppress_errors = True

    @staticmethod
    def _skip_dispatch() -> None:
        """Keeps Dynamo out of our dispatch of operators that run outside of a graph.

        C++ calls it as a new frame of Python, and Dynamo would begin to trace there.
        """
        disable = importlib.import_module("torch._dynamo").disable
        mode: Any = DeviceMode
        mode.__torch_dispatch__ = disable(mode.__torch_dispatch__)
        dispatch = DeviceTensor.__dict__["__torch_dispatch__"].__func__
        DeviceTensor.__torch_dispatch__ = classmethod(disable(dispatch))  # type: ignore[assignment]

    @staticmethod
    def _trace_as_plain_tensors() -> None:
        """Makes device tensors that enter a graph plain tensors there, not a subclass."""
        builder: Any = importlib.import_module("torch._dynamo.variables.builder")
        original_wrap = builder.VariableBuilder._wrap
        original_infer = builder.infer_subclass_type

        def wrap(variables: Any, value: Any) -> Any:
            if isinstance(value, DeviceTensor):
                return variables.wrap_tensor(value)
            return original_wrap(variables, value)

        def infer_subclass_type(value: Any) -> Any:
            return None if isinstance(value, DeviceTensor) else original_infer(value)

        builder.VariableBuilder._wrap = wrap
        builder.infer_subclass_type = infer_subclass_type

    def _follow_traces(self) -> None:
        """Runs each trace inside `compiling`, and reports Dynamo's internal errors."""
        convert_frame: Any = importlib.import_module("torch._dynamo.convert_frame")
        internal_error = importlib.import_module("torch._dynamo.exc").InternalTorchDynamoError
        original_compile = convert_frame._compile

        def compile_frame(code: CodeType, *args: Any, **kwargs: Any) -> Any:
            outer_code, self.code = self.code, code
            try:
                with self._compiling():
                    return original_compile(code, *args, **kwargs)
            except internal_error as failure:
                self._failed(code.co_name, failure)
                raise
            finally:
                self.code = outer_code

        convert_frame._compile = compile_frame
