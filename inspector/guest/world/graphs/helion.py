"""Helion's kernels, whose generated Triton kernels are launched like any other.

Helion traces a kernel with torch's fake tensors, as torch.compile does. Its autotuner would time
many configurations: here the script's list is launched, or Helion's default where it has none.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from ...sampling import spread

MODULE = "helion.runtime.kernel"
TRACING_METHODS = ("__init__", "to_code")
"""Methods of a bound kernel (one with arguments) that trace it."""


class Helion:
    """Adapts Helion to a machine without a GPU.

    Attributes:
        keep: stores generated code and returns its path: (name, text); None not to store it.
    """

    def __init__(
        self,
        tracing: Callable[[], AbstractContextManager[None]],
        note: Callable[[str], None],
    ) -> None:
        self.max_choices: int | None = None
        self.keep: Callable[[str, str], str] | None = None
        self._tracing = tracing
        self._note = note

    def adjust(self, module: Any) -> None:
        """Patches Helion's module of kernels, once it is imported."""
        kind = module.BoundKernel
        for name in TRACING_METHODS:
            setattr(kind, name, self._traced_method(getattr(kind, name)))
        kind.autotune = self._autotune(kind.autotune)
        module.PyCodeCache = self._cache(module.PyCodeCache)

    def _traced_method(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def traced(*args: Any, **kwargs: Any) -> Any:
            with self._tracing():
                return function(*args, **kwargs)

        return traced

    def _cache(self, cache_class: Any) -> Any:
        """A cache of modules that stores their text where reports can point at its lines."""

        class Cache(cache_class):
            @classmethod
            def load(cls, source_code: str, extra: str = "") -> Any:
                if helion.keep is None:
                    return cache_class.load(source_code, extra=extra)
                path = helion.keep("helion", source_code)
                return cache_class.load_by_key_path(os.path.basename(path) + extra, path)

        helion = self
        return Cache

    def _autotune(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """An autotuner that launches configurations, spread over their values; picks the first."""

        @functools.wraps(original)
        def autotune(bound: Any, args: Sequence[Any], **options: Any) -> Any:
            listed = list(bound.kernel.configs)
            name = bound.kernel.name
            if not listed:
                listed = [bound.config_spec.default_config()]
                self._note(f"Helion's autotuner is not run for {name}: its default is compiled")
            normalized = bound.kernel.normalize_args(*args)
            first, *further = spread(
                [listed_config.config for listed_config in listed], self.max_choices
            )
            for index in further:
                bound.compile_config(listed[index])(*normalized)
            if further:
                launch_count = len(further) + 1
                self._note(
                    f"{launch_count} of the {len(listed)} configurations of {name} are launched"
                )
            bound.set_config(listed[first])
            return listed[first]

        return autotune
