"""What torch's compiler would time to choose: kernels for a product, and whether to pad it.

Of kernels each is taken in turn; a product stays as it is.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

_LAST = 1e6
"""Time of whatever is not to be chosen."""


class Choosing:
    """Stands in for the measurements.

    Args:
        note: told what was taken for granted.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._pick = 0
        self.points: list[dict[str, str]] = []

    def install(self) -> None:
        """Changes Inductor for good.

        Raises:
            AttributeError, ImportError: it is made otherwise in this torch.
        """
        module: Any = importlib.import_module("torch._inductor.select_algorithm")
        config: Any = importlib.import_module("torch._inductor.config")
        config.benchmark_epilogue_fusion = False  # whether to fuse would be timed as well
        template = module.TritonTemplateCaller
        choosing = self

        def timed(
            cache: Any,
            name: Any,
            nodes: Any,
            layout: Any,
            gen: Any,
            key: Any,
            choices: Any,
            *args: Any,
            **kwargs: Any,
        ) -> dict[Any, float]:
            templates = [choice for choice in choices if isinstance(choice, template)]
            if len(templates) > len(choosing.points):
                choosing.points = [_point(choice) for choice in templates]
            times = dict.fromkeys(choices, _LAST)
            if templates:
                times[templates[choosing._pick % len(templates)]] = 1.0
            return times

        module.AlgorithmSelectorCache.do_autotuning = timed
        padding: Any = importlib.import_module("torch._inductor.fx_passes.pad_mm")
        padding.get_cached_should_pad = self._padded
        module.AlgorithmSelectorCache.make_precompile_fn = _nothing_to_wait_for

    def begin(self, pick: int) -> None:
        """What is generated next takes this one of the kernels."""
        self._pick, self.points = pick, []

    def _padded(self, key: Any) -> bool:
        self._note("products that torch may pad, which it would time, are generated as they are")
        return False


def _point(choice: Any) -> dict[str, str]:
    """A kernel's configuration: tile, stages, waves."""
    stated = {**choice.info_dict(), **(getattr(choice, "info_kwargs", None) or {})}
    return {name: str(value) for name, value in stated.items() if name != "name"}


def _nothing_to_wait_for(*args: Any, **kwargs: Any) -> Any:
    return lambda: None
