"""The torch dispatch mode that sends a script's operators to the dispatcher."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch._C import DispatchKey
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode

MODELESS = frozenset(("cond", "invoke_subgraph", "scan", "strict_mode"))
"""Higher-order operators that refuse to run while a dispatch mode is active (torch 2.13)."""


class DeviceMode(TorchDispatchMode):
    """Sends every operator to the dispatcher while the script runs."""

    supports_higher_order_operators = True

    def __init__(self, run: Callable[..., Any]) -> None:
        super().__init__()
        self._run = run

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Otherwise torch would wrap this mode for Dynamo, whose import takes seconds.
        return False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """True: Dynamo traces code under this mode as if the mode were not there."""
        return True

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        if isinstance(func, HigherOrderOperator):
            return self._run_higher_order(func, args, kwargs or {})
        return self._run(func, args, kwargs or {})

    def _run_higher_order(
        self, func: HigherOrderOperator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """Runs an operator that takes functions (wrap_triton, torch.cond) as if without a mode.

        The operators that those functions call on device tensors still reach the dispatcher,
        through the tensors' own `__torch_dispatch__`.
        """
        kernel = func.py_kernels[DispatchKey.CompositeExplicitAutograd]
        if func.name() in MODELESS:
            return kernel(*args, **kwargs)
        with self:
            return kernel(*args, **kwargs)
