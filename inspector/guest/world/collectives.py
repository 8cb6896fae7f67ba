"""What collectives give back: work that is done, with the tensors that it was done on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def finished(results: Any, tensors: Sequence[torch.Tensor]) -> Any:
    """The results of an operator of c10d's, whose work knows what it was done on.

    The fake process group's work has no result; DDP's reducer and its hooks ask for one.

    Args:
        results: a `Work`, or a tuple that ends with one.
        tensors: those that the collective writes to.
    """
    if isinstance(results, tuple):
        return (*results[:-1], finished(results[-1], tensors))
    if not isinstance(results, torch.ScriptObject):
        return results
    future: torch.futures.Future[list[torch.Tensor]] = torch.futures.Future()
    future.set_result(list(tensors))
    return torch._C._distributed_c10d._create_work_from_future(future).boxed()
