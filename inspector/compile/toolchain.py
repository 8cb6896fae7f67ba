"""Finds out which Triton an interpreter has, and remembers it: importing Triton is slow.

The store's keys need Triton's own key, and working that out means starting the interpreter and
hashing Triton's files (about half a second). The answer is kept with the modification times of
everything it follows from; while those hold, a warm run starts no guest at all.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from ..base.errors import KinspectError
from ..base.programs import find_program
from .store import Store, sealed, unsealed
from .worker import START_SECONDS, Worker

FORMAT = 2
FOLDER = f"toolchains-v{FORMAT}"
PATH_VARIABLES = ("PYTHONPATH", "PYTHONHOME", "PYTHONNOUSERSITE", "PYTHONUSERBASE", "HOME")
"""Variables that decide where an interpreter finds Triton."""


class Toolchain(Struct, frozen=True):
    """An interpreter and its Triton.

    `triton_key`: identity of Triton's compiler; vendor builds share version numbers.
    """

    python: str
    python_version: str
    triton_version: str
    triton_key: str
    options: tuple[str, ...] = ()


def ask(worker: Worker) -> dict[str, Any]:
    """The guest's answer to `hello`, whether it has Triton or not (`problem` says why not).

    Raises:
        KinspectError: the interpreter cannot be started, or died as it imported Triton.
    """
    return worker.request({"op": "hello"}, START_SECONDS)


def toolchain(worker: Worker, cache: Path | None) -> Toolchain:
    """The worker's toolchain, from the cache when nothing it follows from has changed.

    `worker`: started only when the cache does not answer.
    `cache`: the store's root folder; None to ask the guest.

    Raises:
        KinspectError: the interpreter has no usable Triton.
    """
    path = None if cache is None else cache / FOLDER / f"{_identity(worker)}.json"
    answer = None if path is None else _cached(path)
    if answer is None:
        answer = ask(worker)
        if answer["problem"]:
            raise KinspectError(answer["problem"], answer["hint"])
        if path is not None:
            _remember(path, answer)
    return Toolchain(
        python=worker.python,
        python_version=str(answer["python"]),
        triton_version=str(answer["triton"]),
        triton_key=str(answer["triton_key"]),
        options=tuple(map(str, answer["options"])),
    )


def _identity(worker: Worker) -> str:
    # Not realpath: a virtual environment's python is a link, and the link decides what it imports.
    executable = find_program(worker.python, worker.environment.get("PATH"))
    stated = {name: worker.environment.get(name) for name in PATH_VARIABLES}
    text = json.dumps([os.path.abspath(executable or worker.python), stated], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _cached(path: Path) -> dict[str, Any] | None:
    try:
        answer = unsealed(path.read_bytes())
        fresh = bool(answer["witnesses"]) and all(_unchanged(w) for w in answer["witnesses"])
        complete = all(answer[name] for name in ("python", "triton", "triton_key", "options"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return dict(answer) if fresh and complete else None


def _unchanged(witness: list[Any]) -> bool:
    path, modified, size = witness
    try:
        stat = os.stat(path)
    except OSError:
        return modified is None
    return (stat.st_mtime_ns, stat.st_size) == (modified, size)


def _remember(path: Path, answer: Mapping[str, Any]) -> None:
    # Staged by the store, which knows what a killed run leaves behind.
    with (
        contextlib.suppress(OSError, KinspectError),
        Store(path.parent.parent).stage() as folder,
    ):
        partial = folder / path.name
        partial.write_text(sealed(answer), encoding="utf-8")
        path.parent.mkdir(parents=True, exist_ok=True)
        os.replace(partial, path)
