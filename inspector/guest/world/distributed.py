"""`torch.distributed` in a single process, however many the script believes there are.

Collectives are those of torch's own fake process group, which needs no network: other processes
are assumed to send what this one has. To the script the groups have the backend that it named.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import torch

from .assumptions import LOG

ENVIRONMENT = {
    "RANK": "0",
    "LOCAL_RANK": "0",
    "WORLD_SIZE": "1",
    "LOCAL_WORLD_SIZE": "1",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29500",
}
FAKE = "fake"
"""Torch's name of the backend whose collectives do nothing."""
NCCL_TIMEOUT = timedelta(minutes=10)


class ProcessGroupNCCL:
    """The class of NCCL's groups, which torch has only where it was built with NCCL."""

    class Options(SimpleNamespace):
        """The options of a group, which have no effect here."""

        def __init__(self, is_high_priority_stream: bool = False) -> None:
            super().__init__(
                is_high_priority_stream=is_high_priority_stream, config=SimpleNamespace()
            )


def install(note: Callable[[str], None]) -> None:
    """Lets this process form groups with processes that do not exist."""
    with contextlib.suppress(ImportError, AttributeError):
        spawning: Any = importlib.import_module("torch.multiprocessing")
        spawning.spawn = functools.partial(_run_first_process)
    if not torch.distributed.is_available():
        return
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    module = _c10d()
    module.ProcessGroupNCCL = torch.distributed.ProcessGroupNCCL = ProcessGroupNCCL
    if module.default_pg_nccl_timeout is None:
        module.default_pg_nccl_timeout = NCCL_TIMEOUT
    helper = "_new_process_group_helper"
    for name, replacement in (
        ("is_nccl_available", lambda: True),
        ("init_process_group", _init_process_group(module.init_process_group, note)),
        (helper, _new_group_helper(getattr(module, helper))),
        ("split_group", _split_group),
        ("broadcast_object_list", _broadcast_objects),
        ("scatter_object_list", _scatter_objects),
        ("recv_object_list", _receive_objects),
    ):
        if hasattr(module, name):
            _replace(getattr(module, name), replacement)


def finished_work(results: Any, tensors: Sequence[torch.Tensor]) -> Any:
    """The results of a collective of c10d, with a `Work` that is done and returns its tensors.

    The fake process group's work has no result, which DDP's reducer and hooks ask for.
    """
    if isinstance(results, tuple):
        return (*results[:-1], finished_work(results[-1], tensors))
    if not isinstance(results, torch.ScriptObject):
        return results
    future: torch.futures.Future[list[torch.Tensor]] = torch.futures.Future()
    future.set_result(list(tensors))
    return torch._C._distributed_c10d._create_work_from_future(future).boxed()


def _c10d() -> Any:
    return torch.distributed.distributed_c10d


def _init_process_group(
    original: Callable[..., Any], note: Callable[[str], None]
) -> Callable[..., Any]:
    """An `init_process_group` that waits for no other process."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def init(*args: Any, **kwargs: Any) -> None:
        if _c10d().is_initialized():
            return
        fake = importlib.import_module("torch.testing._internal.distributed.fake_pg")
        stated = signature.bind(*args, **kwargs).arguments
        init_method = stated.pop("init_method", None)
        rank, size = (_rank_or_size(stated, init_method, name) for name in ("rank", "world_size"))
        original(**{**stated, "rank": rank, "world_size": size, "store": fake.FakeStore()})
        if size > 1:
            note(
                f"of {size} processes of torch.distributed this one alone runs: what the"
                " others would send is taken to be what it has itself"
            )

    return init


def _new_group_helper(original: Callable[..., Any]) -> Callable[..., Any]:
    """The function that makes every group: a fake one that claims the backend asked for."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def make(*args: Any, **kwargs: Any) -> Any:
        module = _c10d()
        stated = signature.bind(*args, **kwargs).arguments
        backend = module.Backend(str(stated["backend"]))
        for options in ("backend_options", "pg_options"):
            stated.pop(options, None)  # for other backends than the fake one
        if stated["group_size"] < 1:  # unknown: with MPI, torch asks the library
            stated["group_rank"], stated["group_size"] = 0, 1
        group, store = original(**{**stated, "backend": module.Backend(FAKE)})
        if store is not None:
            module._world.pg_map[group] = (backend, store)
            module._world.pg_backend_config[group] = str(module.BackendConfig(backend))
        return group, store

    return make


def _split_group(
    parent_pg: Any = None,
    split_ranks: Any = None,
    timeout: Any = None,
    pg_options: Any = None,
    group_desc: str | None = None,
    **kwargs: Any,
) -> Any:
    """`split_group`: only NCCL's communicators can be split, so a new group is made."""
    module = _c10d()
    parent = parent_pg or module._get_default_group()
    own_ranks = next((ranks for ranks in split_ranks if parent.rank() in ranks), None)
    if own_ranks is None:
        return None
    ranks = [module.get_global_rank(parent, rank) for rank in own_ranks]
    return module.new_group(ranks, timeout, group_desc=group_desc)


# Collectives of Python objects exchange sizes first, which the fake group cannot: so each has its
# replacement.


def _broadcast_objects(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """`broadcast_object_list`: leaves the list unchanged."""
    _is_source(src, group, group_src)


def _scatter_objects(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """`scatter_object_list`: stores this process's part, if it is the source."""
    if _is_source(src, group, group_src):
        assert scatter_object_input_list is not None
        rank = torch.distributed.get_rank(group)
        scatter_object_output_list[0] = scatter_object_input_list[rank]


def _receive_objects(
    object_list: list[Any], src: int | None = None, group: Any = None, *options: Any, **kwargs: Any
) -> int:
    """`recv_object_list`: leaves the list unchanged."""
    _assume_sent()
    return src or 0


def _is_source(src: int | None, group: Any, group_src: int | None) -> bool:
    """Whether this process is the sender; if not, the assumption is logged."""
    if group_src is not None:
        is_source = group_src == torch.distributed.get_rank(group)
    else:
        is_source = (src or 0) == torch.distributed.get_rank()
    if not is_source:
        _assume_sent()
    return bool(is_source)


def _assume_sent() -> None:
    LOG.answer("the objects that another process would send", "what the list holds already")


def _rank_or_size(arguments: Mapping[str, Any], url: str | None, name: str) -> int:
    """`rank` or `world_size`, from the arguments, the URL or the environment."""
    value = int(arguments.get(name, -1))
    if value < 0 and url is not None:
        value = int(parse_qs(urlsplit(url).query).get(name, ["-1"])[0])
    return value if value >= 0 else int(os.environ.get(name.upper(), ENVIRONMENT[name.upper()]))


def _replace(original: Any, replacement: Callable[..., Any]) -> None:
    """Replaces a function in all of torch.distributed's modules that hold it."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "torch" and name.startswith("torch.distributed"):
            for attribute in [key for key, value in vars(module).items() if value is original]:
                setattr(module, attribute, replacement)


def _run_first_process(
    fn: Any, args: Any = (), nprocs: int = 1, *spawn_args: Any, **kwargs: Any
) -> None:
    """`torch.multiprocessing.spawn`: runs the function as the first process would, and no other."""
    fn(0, *args)
