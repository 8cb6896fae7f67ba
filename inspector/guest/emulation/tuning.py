"""Has autotuners run one configuration each, so that no other has written what it leaves out."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


class ConfigChoice:
    """The configuration that autotuners run, and what there was to choose from.

    Args:
        number: of the configuration, from 0; of a tuner with fewer it counts on from its first. One
            that cannot be launched is passed over.
        runs: how many configurations are run in all; None for all that there are.

    Attributes:
        most: configurations of the tuner that has most; 1 where none tunes.
    """

    def __init__(self, number: int, runs: int | None, note: Callable[[str], None]) -> None:
        self.most = 1
        self.chosen: dict[str, str] = {}
        self._number = number
        self._runs = runs
        self._note = note
        self._done: set[int] = set()

    def install(self) -> None:
        tuner: Any = importlib.import_module("triton.runtime.autotuner").Autotuner
        prune, bench = tuner.prune_configs, tuner._bench

        def prune_and_turn(tuner: Any, *args: Any, **kwargs: Any) -> Any:
            configs = list(prune(tuner, *args, **kwargs))
            self._done.discard(id(tuner))
            self._count(len(configs))
            first = self._number % max(len(configs), 1)
            return configs[first:] + configs[:first]

        def bench_first(tuner: Any, *args: Any, config: Any, **kwargs: Any) -> Any:
            if id(tuner) in self._done:
                return [float("inf")] * 3
            times = bench(tuner, *args, config=config, **kwargs)
            if times[0] != float("inf"):
                self._done.add(id(tuner))
                name = getattr(tuner.base_fn, "__name__", "kernel")
                self.chosen[name] = in_words(config.all_kwargs())
            return times

        tuner.prune_configs, tuner._bench = prune_and_turn, bench_first
        if hasattr(tuner, "check_disk_cache"):  # it would take what another run has chosen
            tuner.check_disk_cache = lambda tuner, key, configs, benchmark: benchmark() or False

    def _count(self, configs: int) -> None:
        self.most = max(self.most, configs)
        if self._runs is not None and configs > self._runs:
            self._note(
                f"of an autotuner's {configs} configurations {self._runs} ran (--configs all: all)"
            )


def in_words(values: Mapping[str, Any]) -> str:
    """`BLOCK=64 num_warps=4`: the values of a configuration, without those that all have."""
    return " ".join(f"{name}={value}" for name, value in values.items() if name != "num_ctas")
