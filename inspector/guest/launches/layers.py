"""Follows a launch through its decorators: heuristics and autotuners around a JITFunction.

The outermost layer's `run` is the launch as the script asked for it. There launches are counted,
and there a sweep launches again for each of its points; the innermost is where options that this
Triton does not know are dropped.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..records import Emit, error
from ..world.stubs import Inert, NotInstalledError
from .recorder import Origin
from .tuning import Tuning, values

UNRECOGNISED = re.compile(r"Keyword argument (\w+) was specified but unrecognised")


class LaunchLimitError(BaseException):
    """Ends a script that has made as many launches as were asked for (`--first`).

    It is no Exception, since scripts catch those.
    """


class Layers:
    """Patches the `run` of every layer.

    While a sweep is at work, `_sweep_point` holds the point that is launched, `_tried_config` the
    autotuner's configuration there; `_dropped` tells of the options that a launch lost.

    Args:
        tuning: says which configuration an autotuner tries.
        emit: takes the errors of a sweep's points.
        first: launches after which the script is ended; None for no limit.
        axes: names and values of a sweep.
        all_configs: whether a sweep goes over the configurations of autotuned kernels too.
        is_selected: whether a kernel of this name and qualified name was asked for.
    """

    def __init__(
        self,
        tuning: Tuning,
        emit: Emit,
        first: int | None,
        axes: Mapping[str, Sequence[Any]],
        all_configs: bool,
        is_selected: Callable[[str, str], bool],
    ) -> None:
        self._tuning = tuning
        self._emit = emit
        self._first = first
        self._axes = axes
        self._all_configs = all_configs
        self._is_selected = is_selected
        self._launches = 0
        self._local = threading.local()
        self._sweep_point: dict[str, Any] = {}
        self._tried_config: Any = None
        self._dropped: tuple[str, ...] = ()
        self._swept = 0

    def is_trial(self) -> bool:
        """Whether the launch under way comes on top of the one that the script asked for.

        An autotuner times others before it, a sweep launches again at its other points.
        """
        return self._tuning.is_benching or self._swept > 0

    def install(self) -> None:
        """Patches the classes. After `Tuning.install`: this goes around it."""
        jit = importlib.import_module("triton.runtime.jit").JITFunction
        autotuner = importlib.import_module("triton.runtime.autotuner")
        self._wrap(jit, self._run_function)
        self._wrap(autotuner.Autotuner, self._run_tuner)
        self._wrap(autotuner.Heuristics, self._run_with_point)

    def origin(self) -> Origin:
        """What is known of the specialisation that is about to be compiled."""
        config = (
            values(self._tried_config) if self._tried_config is not None else self._tuning.current()
        )
        tuned = {**(config or {}), **self._sweep_point}
        return Origin(tuned or None, self._dropped)

    def _wrap(self, cls: Any, step: Callable[..., Any]) -> None:
        run = cls.run

        @functools.wraps(run)
        def followed(layer: Any, *args: Any, **kwargs: Any) -> Any:
            if getattr(self._local, "inside", False):
                return step(run, layer, args, kwargs)
            self._local.inside = True
            try:
                return self._launch(functools.partial(step, run), layer, args, kwargs)
            finally:
                self._local.inside = False

        cls.run = followed

    def _launch(
        self, run: Callable[..., Any], layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """One launch of the outermost layer: by itself, or at each point of the sweep.

        Raises:
            NotInstalledError: an argument comes of a module that only stands in for a missing one.
            LaunchLimitError: it was the last one that was asked for.
        """
        function = _innermost(layer)
        name = getattr(function, "__name__", "")
        qualname = getattr(getattr(function, "fn", None), "__qualname__", "")
        for value in (*args, *kwargs.values()):
            if isinstance(value, Inert):
                raise NotInstalledError(value.origin)
        if not self._is_selected(name, qualname):
            return run(layer, args, kwargs)
        axes = [axis for axis in self._axes if axis in function.arg_names]
        if axes:
            result = self._launch_each_point(run, layer, args, kwargs, axes)
        else:
            result = run(layer, args, kwargs)
        if not kwargs.get("warmup"):
            self._launches += 1
            if self._first is not None and self._launches >= self._first:
                raise LaunchLimitError
        return result

    def _launch_each_point(
        self,
        run: Callable[..., Any],
        layer: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        axes: Sequence[str],
    ) -> Any:
        """Launches at every point of these axes; gives the last result.

        A point that the launch refuses is an error of its own, and the others still go on.
        """
        result = None
        self._swept = 0
        for values_of_point in itertools.product(*(self._axes[axis] for axis in axes)):
            self._sweep_point = dict(zip(axes, values_of_point))
            try:
                result = run(layer, args, dict(kwargs))
            except Exception as failure:
                stated = ", ".join(f"{k}={v}" for k, v in self._sweep_point.items())
                message = f"with {stated}: {type(failure).__name__}: {failure}"
                hint = "the launch itself refuses these values"
                self._emit(error("capture", message, hint, _innermost(layer).__name__, stated))
            finally:
                self._sweep_point = {}
        self._swept = 0
        return result

    def _run_with_point(
        self, run: Callable[..., Any], layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A layer of heuristics, which decide by the point's values."""
        args, kwargs = self._with_point(layer, args, kwargs)
        return run(layer, *args, **kwargs)

    def _run_tuner(
        self, run: Callable[..., Any], layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """An autotuner's launch; in a sweep, one with each configuration that the point allows."""
        if not self._sweep_point:
            return run(layer, *args, **kwargs)
        # Its cache knows nothing of points: each would be answered with the first one's winner.
        layer.nargs = dict(zip(layer.arg_names, args))
        result = None
        for config in self._configs(layer):
            self._tried_config = config
            try:
                named = {k: v for k, v in config.all_kwargs().items() if k not in kwargs}
                if config.pre_hook is not None:
                    config.pre_hook({**layer.nargs, **kwargs, **named, **self._sweep_point})
                result = layer.fn.run(*args, **kwargs, **named)
            finally:
                self._tried_config = None
        return result

    def _configs(self, tuner: Any) -> Sequence[Any]:
        """The configurations less what the point sets anyhow, each once."""
        different: dict[str, Any] = {}
        for config in tuner.configs if self._all_configs else tuner.configs[:1]:
            remaining = {k: v for k, v in config.all_kwargs().items() if k not in self._sweep_point}
            different.setdefault(repr(remaining), config)
        return self._tuning.sample(tuner, list(different.values()))

    def _run_function(
        self, run: Callable[..., Any], layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The JITFunction's own launch, without the options that this Triton does not know."""
        args, kwargs = self._with_point(layer, args, kwargs)
        try:
            # Launch options come and go with Triton's versions.
            for _ in range(len(kwargs) + 1):
                try:
                    result = run(layer, *args, **kwargs)
                    self._swept += bool(self._sweep_point)
                    return result
                except KeyError as failure:
                    unknown = UNRECOGNISED.search(str(failure))
                    if unknown is None or unknown[1] not in kwargs:
                        raise
                    name = unknown[1]
                    reason = f"this Triton has no option {name}, and a real launch fails for it"
                    self._dropped += (f"{reason}: compiled without {name}={kwargs.pop(name)!r}",)
        finally:
            self._dropped = ()
        return None

    def _with_point(
        self, layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with the point's values in place of the launch's."""
        if not self._sweep_point:
            return args, kwargs
        names = list(layer.arg_names)
        positional, named = list(args), dict(kwargs)
        for name, value in self._sweep_point.items():
            place = names.index(name) if name in names else len(positional)
            if place < len(positional):
                positional[place] = value
            else:
                named[name] = value
        return tuple(positional), named


def _innermost(layer: Any) -> Any:
    """The JITFunction under the decorators."""
    while not hasattr(layer, "params") and hasattr(layer, "fn"):
        layer = layer.fn
    return layer
