"""Lets Dynamo take device tensors for tensors of the GPU that they claim."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import CodeType
from typing import Any

from ..dispatch import DeviceMode
from ..tensors import DeviceTensor

OURS = __name__.partition(".world.")[0]
"""The package that Dynamo leaves alone."""


class Tracing:
    """Dynamo, while it looks at a script.

    Args:
        compiling: entered around each trace.
        failed: told of functions that Dynamo itself broke down over, and why.
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
        """Changes Dynamo for good.

        Raises:
            AttributeError, ImportError: it is made otherwise in this torch.
        """
        importlib.import_module("torch._dynamo.trace_rules").add(OURS)
        self._operators()
        self._inputs()
        self._compiles()
        config: Any = importlib.import_module("torch._dynamo.config")
        # What only fails here, a script is not to notice.
        config.suppress_errors = True

    @staticmethod
    def _operators() -> None:
        """Operators outside of a graph come to Python from C++, where Dynamo would set in again."""
        disable = importlib.import_module("torch._dynamo").disable
        mode: Any = DeviceMode
        mode.__torch_dispatch__ = disable(mode.__torch_dispatch__)
        plain = DeviceTensor.__dict__["__torch_dispatch__"].__func__
        DeviceTensor.__torch_dispatch__ = classmethod(disable(plain))  # type: ignore[assignment]

    def _inputs(self) -> None:
        builder: Any = importlib.import_module("torch._dynamo.variables.builder")
        wrap = builder.VariableBuilder._wrap
        subclass_of = builder.infer_subclass_type

        def wrapped(variables: Any, value: Any) -> Any:
            if isinstance(value, DeviceTensor):
                return variables.wrap_tensor(value)
            return wrap(variables, value)

        def subclass(value: Any) -> Any:
            return None if isinstance(value, DeviceTensor) else subclass_of(value)

        builder.VariableBuilder._wrap = wrapped
        builder.infer_subclass_type = subclass

    def _compiles(self) -> None:
        module: Any = importlib.import_module("torch._dynamo.convert_frame")
        internal = importlib.import_module("torch._dynamo.exc").InternalTorchDynamoError
        plain = module._compile

        def compiled(code: CodeType, *args: Any, **kwargs: Any) -> Any:
            outer_code, self.code = self.code, code
            try:
                with self._compiling():
                    return plain(code, *args, **kwargs)
            except internal as failure:
                self._failed(code.co_name, failure)
                raise
            finally:
                self.code = outer_code

        module._compile = compiled
