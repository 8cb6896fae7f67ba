"""Replaces the measurements by which Inductor chooses kernels for matrix products.

Each kernel is chosen in turn; of several products the one with most kernels says how many there
are. Whether to pad a product would be measured too: it is not padded.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

_REJECTED_TIME = 1e6
"""Time of the kernels that are not to be chosen."""


class Choosing:
    """Makes Inductor choose a given kernel.

    Attributes:
        configurations: those of the kernels that Inductor could choose from, of the product with
            most of them.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._choice = 0
        self.configurations: list[dict[str, str]] = []

    def install(self) -> None:
        """Patches Inductor for the rest of the process.

        Raises:
            AttributeError, ImportError: this torch's Inductor has no such parts.
        """
        module: Any = importlib.import_module("torch._inductor.select_algorithm")
        config: Any = importlib.import_module("torch._inductor.config")
        config.benchmark_epilogue_fusion = False  # whether to fuse would be timed as well
        selector = module.AlgorithmSelectorCache
        if hasattr(selector, "do_autotuning"):  # older ones measure where nothing can be replaced
            measure = selector.do_autotuning
            selector.do_autotuning = self._unmeasured(measure, module.TritonTemplateCaller)
        selector.make_precompile_fn = lambda *args, **kwargs: lambda: None  # nothing to wait for
        padding: Any = importlib.import_module("torch._inductor.fx_passes.pad_mm")
        padding.get_cached_should_pad = self._should_pad

    def _unmeasured(self, measure: Callable[..., Any], template: Any) -> Callable[..., Any]:
        """What takes the place of `measure`: times by which the kernel is taken that is chosen."""
        signature = inspect.signature(measure)
        if "choices" not in signature.parameters:
            raise AttributeError(f"{measure.__qualname__} takes no choices")

        def do_autotuning(*args: Any, **kwargs: Any) -> dict[Any, float]:
            choices = signature.bind(*args, **kwargs).arguments["choices"]
            templates = [choice for choice in choices if isinstance(choice, template)]
            if len(templates) > len(self.configurations):
                self.configurations = [_configuration(choice) for choice in templates]
            times = dict.fromkeys(choices, _REJECTED_TIME)
            if templates:
                times[templates[self._choice % len(templates)]] = 1.0
            return times

        return do_autotuning

    def begin(self, choice: int) -> None:
        """Chooses a kernel, by its index, for the code that is generated next."""
        self._choice, self.configurations = choice, []

    def _should_pad(self, key: Any) -> bool:
        self._note("products that torch may pad, which it would time, are generated as they are")
        return False


def _configuration(choice: Any) -> dict[str, str]:
    stated = {**choice.info_dict(), **(getattr(choice, "info_kwargs", None) or {})}
    return {name: str(value) for name, value in stated.items() if name != "name"}
