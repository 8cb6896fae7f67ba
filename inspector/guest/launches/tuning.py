"""Follows Triton's autotuners: every configuration is run once, and so becomes a specialisation.

No time is measured, so no configuration is the best. Beyond a limit, a sample spread over their
values is run. Pruning is the tuner's own.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from ..frontend import plain
from ..records import Emit, note, one_line
from ..sampling import sample_note, spread

NOT_RUN = [float("inf")] * 3
"""The timing of a configuration that is not run."""


class TunerFollower:
    """Follows Triton's autotuners.

    `max_configs`: how many configurations of one launch to run; None for all.
    """

    def __init__(self, emit: Emit, max_configs: int | None) -> None:
        self._emit = emit
        self._max_configs = max_configs
        self._tried: dict[int, list[Any]] = {}
        self._sampled: dict[int, tuple[Any, ...]] = {}
        self._active: list[tuple[Any, Any]] = []  # tuner, configuration at work
        self._notes: set[str] = set()
        self.first_failure = ""
        """Why the first launch that failed did."""

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
            if self._max_configs is not None and len(configs) > self._max_configs:
                self._sampled[id(tuner)] = tuple(self.sample(tuner, configs))
            return configs

        @functools.wraps(bench)
        def bench_once(tuner: Any, *args: Any, config: Any, **meta: Any) -> Any:
            return self._bench(bench, tuner, args, config, meta)

        @functools.wraps(run)
        def run_followed(tuner: Any, *args: Any, **kwargs: Any) -> Any:
            self._tried.pop(id(tuner), None)
            self._active.append((tuner, None))
            try:
                return run(tuner, *args, **kwargs)
            finally:
                self._active.pop()

        tuner.prune_configs = prune_and_sample
        tuner._bench = bench_once
        tuner.run = run_followed

    def keep_failure(self, kernel: str, failure: Exception) -> None:
        """Keeps why a launch failed, if it is the first that did."""
        reason = f"{kernel} ended with {type(failure).__name__}: {failure}"
        self.first_failure = self.first_failure or reason

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

    def _note_once(self, text: str) -> None:
        if text not in self._notes:
            self._notes.add(text)
            self._emit(note(text))

    def sample(self, tuner: Any, configs: Sequence[Any]) -> list[Any]:
        """The configurations of a tuner that are run; a note says if some are left out."""
        indices = spread([values(config) for config in configs], self._max_configs)
        if len(indices) < len(configs):
            name = getattr(tuner.base_fn, "__name__", "kernel")
            self._note_once(sample_note(name, len(indices), len(configs), "autotune configs"))
        return [configs[index] for index in indices]

    def _is_left_out(self, tuner: Any, config: Any, tried_count: int) -> bool:
        if self._max_configs is None:
            return False
        sampled = self._sampled.get(id(tuner))
        if sampled is not None:
            return not any(config is sampled_config for sampled_config in sampled)
        # A tuner with pruning of its own: its configurations are not known in advance.
        if tried_count < self._max_configs:
            return False
        name = getattr(tuner.base_fn, "__name__", "kernel")
        self._note_once(
            f"{name}: the first {self._max_configs} of {len(tuner.configs)} autotune configs are "
            "looked at (--max-configs all: every one)"
        )
        return True

    def _bench(
        self, bench: Any, tuner: Any, args: tuple[Any, ...], config: Any, meta: dict[str, Any]
    ) -> Any:
        tried = self._tried.setdefault(id(tuner), [])
        if any(config is earlier for earlier in tried):
            tried.clear()  # a tuner with a `run` of its own starts another round
        tried.append(config)
        name = getattr(tuner.base_fn, "__name__", "kernel")
        if self._is_left_out(tuner, config, len(tried) - 1):
            return NOT_RUN
        self._active.append((tuner, config))
        try:
            return bench(tuner, *args, config=config, **meta)
        except Exception as failure:
            self.keep_failure(name, failure)
            self._note_once(
                f"{name}: config {config} ended with {type(failure).__name__}: {failure}"
            )
            return NOT_RUN
        finally:
            self._active.pop()

    def _patch_keys(self, tuner: Any) -> None:
        """Lets autotuners have keys that name no argument, which Triton 3.9 refuses."""
        init = tuner.__init__

        @functools.wraps(init)
        def init_tolerantly(
            tuner: Any, fn: Any, arg_names: Any, configs: Any, key: Any, *args: Any, **kwargs: Any
        ) -> None:
            unknown = [name for name in key or () if name not in arg_names]
            if unknown:
                names = ", ".join(map(repr, unknown))
                kernel = one_line(getattr(fn, "__name__", "kernel"))
                self._note_once(f"{kernel}: its autotune key names no argument {names}: left out")
                key = [name for name in key if name in arg_names]
            init(tuner, fn, arg_names, configs, key, *args, **kwargs)
            tuner.cache_results = False  # a cached choice would hide the other configurations

        tuner.__init__ = init_tolerantly


def values(config: Any) -> dict[str, Any]:
    """A `triton.Config` as plain values: its constants and the options it sets."""
    settings: Mapping[str, Any] = config.all_kwargs()
    return {name: plain(value) for name, value in settings.items()}
