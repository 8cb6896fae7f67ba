"""`torch.distributed` with this process as the only one at work.

Collectives are torch's own fake process group's: they do nothing, and need no network.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
from typing import Any

import torch

from .dispatch import Dispatcher

ENVIRONMENT = {
    "RANK": "0",
    "LOCAL_RANK": "0",
    "WORLD_SIZE": "1",
    "LOCAL_WORLD_SIZE": "1",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29500",
}


def install(dispatcher: Dispatcher) -> None:
    """Replaces `init_process_group` and `multiprocessing.spawn` in this process."""
    with contextlib.suppress(ImportError, AttributeError):
        spawning: Any = importlib.import_module("torch.multiprocessing")
        spawning.spawn = functools.partial(_spawn)
    package = torch.distributed
    if not package.is_available():
        return
    original = package.init_process_group

    @functools.wraps(original)
    def init(backend: Any = None, *args: Any, **kwargs: Any) -> None:
        if package.is_initialized():
            return
        fake = importlib.import_module("torch.testing._internal.distributed.fake_pg")
        size = int(kwargs.get("world_size", -1))
        if size < 1:
            size = int(os.environ.get("WORLD_SIZE", "1"))
        rank = int(kwargs.get("rank", -1))
        if rank < 0:
            rank = int(os.environ.get("RANK", "0"))
        original("fake", rank=rank, world_size=size, store=fake.FakeStore())

    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    package.init_process_group = init
    package.distributed_c10d.init_process_group = init
    package.is_nccl_available = lambda: True
    package.distributed_c10d.is_nccl_available = lambda: True


def _spawn(fn: Any, args: Any = (), nprocs: int = 1, *rest: Any, **kwargs: Any) -> None:
    """Runs the first process's work here."""
    fn(0, *args)
