"""Autotuners: every configuration is a specialisation, and none of them wins.

Timings do not exist here, so that each configuration is run once for what it would compile. Of
more than a limit a sample is taken that is spread over their values. Pruning runs for real.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from ..frontend import plain
from ..records import Emit, note, one_line
from ..sampling import said_of_sample, spread

NEVER = [float("inf")] * 3
"""The timing of a configuration that is not run."""


class Tuning:
    """Follows Triton's autotuners.

    Args:
        emit: takes notes.
        most_configs: configurations of one launch to look at; None for all.
    """

    def __init__(self, emit: Emit, most_configs: int | None) -> None:
        self._emit = emit
        self._most = most_configs
        self._benched: dict[int, list[Any]] = {}
        self._sampled: dict[int, tuple[Any, ...]] = {}
        self._active: list[tuple[Any, Any]] = []  # tuner, configuration at work
        self._notes: set[str] = set()

    def install(self) -> None:
        """Patches the class; subclasses (libraries have their own) share what they inherit."""
        module = importlib.import_module("triton.runtime.autotuner")
        tuner = module.Autotuner
        self._patch_keys(tuner)
        bench, run, prune = tuner._bench, tuner.run, tuner.prune_configs

        @functools.wraps(prune)
        def prune_and_sample(tuner: Any, *args: Any, **kwargs: Any) -> Any:
            self._sampled.pop(id(tuner), None)
            configs = prune(tuner, *args, **kwargs)
            if self._most is not None and len(configs) > self._most:
                self._sampled[id(tuner)] = tuple(self.sample(tuner, configs))
            return configs

        @functools.wraps(bench)
        def bench_once(tuner: Any, *args: Any, config: Any, **meta: Any) -> Any:
            return self._bench(bench, tuner, args, config, meta)

        @functools.wraps(run)
        def run_followed(tuner: Any, *args: Any, **kwargs: Any) -> Any:
            self._benched.pop(id(tuner), None)
            self._active.append((tuner, None))
            try:
                return run(tuner, *args, **kwargs)
            finally:
                self._active.pop()

        tuner.prune_configs = prune_and_sample
        tuner._bench = bench_once
        tuner.run = run_followed

    def current(self) -> dict[str, Any] | None:
        """The configuration whose launch is under way; None outside of autotuners."""
        if not self._active:
            return None
        tuner, config = self._active[-1]
        if config is None:
            config = getattr(tuner, "best_config", None)
        return values(config) if config is not None else None

    @property
    def is_benching(self) -> bool:
        """Whether a launch at this moment is one that an autotuner only times."""
        return bool(self._active) and self._active[-1][1] is not None

    def say(self, text: str) -> None:
        """Notes something, once."""
        if text not in self._notes:
            self._notes.add(text)
            self._emit(note(text))

    def sample(self, tuner: Any, configs: Sequence[Any]) -> list[Any]:
        """Those of a tuner's configurations that are looked at; says so if some are not."""
        places = spread([values(config) for config in configs], self._most)
        if len(places) < len(configs):
            name = getattr(tuner.base_fn, "__name__", "kernel")
            self.say(said_of_sample(name, len(places), len(configs), "autotune configs"))
        return [configs[place] for place in places]

    def _is_left_out(self, tuner: Any, config: Any, benched_count: int) -> bool:
        """Whether a configuration is not looked at."""
        if self._most is None:
            return False
        sampled = self._sampled.get(id(tuner))
        if sampled is not None:
            return not any(config is sampled_config for sampled_config in sampled)
        if (
            benched_count < self._most
        ):  # a tuner with a pruning of its own: what else it has nobody knows
            return False
        name = getattr(tuner.base_fn, "__name__", "kernel")
        self.say(
            f"{name}: the first {self._most} of {len(tuner.configs)} autotune configs are looked "
            "at (--max-configs all: every one)"
        )
        return True

    def _bench(
        self, bench: Any, tuner: Any, args: tuple[Any, ...], config: Any, meta: dict[str, Any]
    ) -> Any:
        benched = self._benched.setdefault(id(tuner), [])
        if any(config is earlier for earlier in benched):
            benched.clear()  # a tuner that does not come through our `run` starts another round
        benched.append(config)
        name = getattr(tuner.base_fn, "__name__", "kernel")
        if self._is_left_out(tuner, config, len(benched) - 1):
            return NEVER
        self._active.append((tuner, config))
        try:
            return bench(tuner, *args, config=config, **meta)
        except Exception as failure:
            self.say(f"{name}: config {config} ended with {type(failure).__name__}: {failure}")
            return NEVER
        finally:
            self._active.pop()

    def _patch_keys(self, tuner: Any) -> None:
        """Triton 3.9 refuses an autotuner whose key names no argument; before, it was ignored."""
        init = tuner.__init__

        @functools.wraps(init)
        def tolerant(
            tuner: Any, fn: Any, arg_names: Any, configs: Any, key: Any, *args: Any, **kwargs: Any
        ) -> None:
            unknown = [name for name in key or () if name not in arg_names]
            if unknown:
                names = ", ".join(map(repr, unknown))
                kernel = one_line(getattr(fn, "__name__", "kernel"))
                self.say(f"{kernel}: its autotune key names no argument {names}: left out")
                key = [name for name in key if name in arg_names]
            init(tuner, fn, arg_names, configs, key, *args, **kwargs)
            tuner.cache_results = False  # its winners are none, and one would hide the others

        tuner.__init__ = tolerant


def values(config: Any) -> dict[str, Any]:
    """A `triton.Config` as plain values: its constants and the options it sets."""
    settings: Mapping[str, Any] = config.all_kwargs()
    return {name: plain(value) for name, value in settings.items()}
