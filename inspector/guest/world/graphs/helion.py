"""Helion's kernels: what it generates is Triton, launched as any other.

It traces a kernel with torch's fake tensors as torch.compile does. Its autotuner would time many
configurations: here those that the script lists are launched, else Helion's own first choice.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from ...sampling import spread

MODULE = "helion.runtime.kernel"
TRACING = ("__init__", "to_code")
"""Methods of a kernel that is bound to arguments which trace it."""


class Helion:
    """Helion in this world.

    Args:
        tracing: entered while it traces.
        note: takes a remark on something approximated.
    """

    def __init__(
        self,
        tracing: Callable[[], AbstractContextManager[None]],
        note: Callable[[str], None],
    ) -> None:
        self.most_choices: int | None = None
        self.keep: Callable[[str, str], str] | None = None
        self._tracing = tracing
        self._note = note

    def adjust(self, module: Any) -> None:
        """Changes its module of kernels, once it is loaded."""
        kind = module.BoundKernel
        for name in TRACING:
            setattr(kind, name, self._traced(getattr(kind, name)))
        kind.autotune = self._autotune(kind.autotune)
        module.PyCodeCache = self._cache(module.PyCodeCache)

    def _traced(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def traced(*args: Any, **kwargs: Any) -> Any:
            with self._tracing():
                return function(*args, **kwargs)

        return traced

    def _cache(self, plain: Any) -> Any:
        """Keeps the text that is loaded where reports can point at its lines."""

        class Cache(plain):
            """Inductor's cache of modules."""

            @classmethod
            def load(cls, source_code: str, extra: str = "") -> Any:
                """The module of a text."""
                if helion.keep is None:
                    return plain.load(source_code, extra=extra)
                path = helion.keep("helion", source_code)
                return plain.load_by_key_path(os.path.basename(path) + extra, path)

        helion = self
        return Cache

    def _autotune(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Launches the configurations, spread over their values; the first one wins."""

        @functools.wraps(original)
        def autotune(bound: Any, args: Sequence[Any], **options: Any) -> Any:
            listed = list(bound.kernel.configs)
            name = bound.kernel.name
            if not listed:
                listed = [bound.config_spec.default_config()]
                self._note(f"Helion's autotuner is not run for {name}: its default is compiled")
            normalized = bound.kernel.normalize_args(*args)
            first, *further = spread(
                [listed_config.config for listed_config in listed], self.most_choices
            )
            for place in further:
                bound.compile_config(listed[place])(*normalized)
            if further:
                launched = len(further) + 1
                self._note(f"{launched} of the {len(listed)} configurations of {name} are launched")
            bound.set_config(listed[first])
            return listed[first]

        return autotune
