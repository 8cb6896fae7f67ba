"""Follows a launch through its decorators: heuristics and autotuners around a JITFunction.

`@triton.autotune` and `@triton.heuristics` wrap a kernel in layers that all have a `run`. The `run`
of the outermost is the launch as the script wrote it: launches are counted there, and a sweep
(`-D NAME=1,2,...`) repeats the launch there, once for each of its points. The innermost layer, the
JITFunction, is where launch options that this Triton does not know are dropped.
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
from .request import ScriptRequest
from .tuning import TunerFollower, values

UNRECOGNISED = re.compile(r"Keyword argument (\w+) was specified but unrecognised")
"""Triton's message for a launch option that it does not have (`JITFunction.run`)."""

Run = Callable[..., Any]
"""A layer's own `run`, unbound: `(layer, *args, **kwargs)`."""
RunLayer = Callable[[Any, tuple[Any, ...], "dict[str, Any]"], Any]
"""Runs a layer with positional and keyword arguments: `(layer, args, kwargs)`."""


class LaunchLimitError(BaseException):
    """The script made as many launches as `--first` allows.

    No Exception, since scripts catch those around their launches.
    """


class Layers:
    """Patches `run` of JITFunction, Autotuner and Heuristics; sweeps as the request says.

    `is_selected` tells whether a kernel of a name and qualified name was asked for.
    """

    def __init__(
        self,
        tuning: TunerFollower,
        request: ScriptRequest,
        *,
        emit: Emit,
        is_selected: Callable[[str, str], bool],
    ) -> None:
        self._tuning = tuning
        self._request = request
        self._emit = emit
        self._is_selected = is_selected
        self._launch_count = 0
        self._thread = threading.local()  # `in_launch`: whether an outer layer is running
        self._point: dict[str, Any] = {}  # the point of the sweep that is being launched
        self._config: Any = None  # the `triton.Config` that the sweep is launching
        self._dropped_options: tuple[str, ...] = ()  # launch options that were dropped, to be noted
        self._swept_launches = 0  # launches made for the present sweep

    def is_trial(self) -> bool:
        """Whether the present launch is an autotuner's or a sweep's, and not the script's own."""
        return self._tuning.is_benching or self._swept_launches > 0

    def install(self) -> None:
        """Patches the classes. Call it after `TunerFollower.install`, whose patches it wraps."""
        jit_function = importlib.import_module("triton.runtime.jit").JITFunction
        autotuner = importlib.import_module("triton.runtime.autotuner")
        self._patch(jit_function, self._run_jit_function)
        self._patch(autotuner.Autotuner, self._run_autotuner)
        self._patch(autotuner.Heuristics, self._run_heuristics)

    def origin(self) -> Origin:
        """The origin of the specialisation that is about to be compiled."""
        config = values(self._config) if self._config is not None else self._tuning.current()
        tuned = {**(config or {}), **self._point}
        return Origin(tuned or None, self._dropped_options)

    def _patch(self, cls: Any, run_layer: Callable[..., Any]) -> None:
        """Puts `run_layer` in place of the class's `run`; the outermost layer is a launch."""
        run = cls.run

        @functools.wraps(run)
        def run_or_launch(layer: Any, *args: Any, **kwargs: Any) -> Any:
            if getattr(self._thread, "in_launch", False):
                return run_layer(run, layer, args, kwargs)
            self._thread.in_launch = True
            try:
                return self._launch(functools.partial(run_layer, run), layer, args, kwargs)
            except Exception as failure:
                self._tuning.keep_failure(getattr(_jit_function(layer), "__name__", ""), failure)
                raise
            finally:
                self._thread.in_launch = False

        cls.run = run_or_launch

    def _launch(
        self, run_layer: RunLayer, layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        function = _jit_function(layer)
        name = getattr(function, "__name__", "")
        qualname = getattr(getattr(function, "fn", None), "__qualname__", "")
        for value in (*args, *kwargs.values()):
            if isinstance(value, Inert):
                raise NotInstalledError(value.origin)
        if not self._is_selected(name, qualname):
            return run_layer(layer, args, kwargs)
        points = self._points_of(function.arg_names)
        if points:
            result = self._launch_each_point(points, run_layer, layer, args=args, kwargs=kwargs)
        else:
            result = run_layer(layer, args, kwargs)
        if not kwargs.get("warmup"):
            self._launch_count += 1
            most = self._request.max_launches
            if most is not None and self._launch_count >= most:
                raise LaunchLimitError
        return result

    def _points_of(self, parameters: Sequence[str]) -> Sequence[Mapping[str, Any]]:
        if self._request.points:
            return [point for point in self._request.points if set(point) <= set(parameters)]
        swept_names = [name for name in self._request.axes if name in parameters]
        if not swept_names:
            return []
        products = itertools.product(*(self._request.axes[name] for name in swept_names))
        return [dict(zip(swept_names, values)) for values in products]

    def _launch_each_point(
        self,
        points: Sequence[Mapping[str, Any]],
        run_layer: RunLayer,
        layer: Any,
        *,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Launches with the arguments of each point; returns the last one's result."""
        result = None
        self._swept_launches = 0
        for point in points:
            self._point = dict(point)
            try:
                result = run_layer(layer, args, dict(kwargs))
            except Exception as failure:
                stated = ", ".join(f"{k}={v}" for k, v in self._point.items())
                message = f"with {stated}: {type(failure).__name__}: {failure}"
                hint = "the launch itself refuses these values"
                kernel = _jit_function(layer).__name__
                self._emit(error("capture", message, hint, kernel=kernel, case=stated))
            finally:
                self._point = {}
        self._swept_launches = 0
        return result

    def _run_heuristics(
        self, run: Run, layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        args, kwargs = self._with_point(layer, args, kwargs)
        return run(layer, *args, **kwargs)

    def _run_autotuner(
        self, run: Run, layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Runs the tuner; at a point of a sweep, launches each configuration itself.

        The tuner's own `run` caches its choice under a key without the point, so it would use the
        first point's configuration for all.
        """
        if not self._point:
            return run(layer, *args, **kwargs)
        layer.nargs = dict(zip(layer.arg_names, args))
        result = None
        for config in self._configs_at_point(layer):
            self._config = config
            try:
                settings = {k: v for k, v in config.all_kwargs().items() if k not in kwargs}
                if config.pre_hook is not None:
                    config.pre_hook({**layer.nargs, **kwargs, **settings, **self._point})
                result = layer.fn.run(*args, **kwargs, **settings)
            finally:
                self._config = None
        return result

    def _configs_at_point(self, tuner: Any) -> Sequence[Any]:
        by_other_settings: dict[str, Any] = {}
        for config in tuner.configs if self._request.all_configs else tuner.configs[:1]:
            unswept = {k: v for k, v in config.all_kwargs().items() if k not in self._point}
            by_other_settings.setdefault(repr(unswept), config)
        return self._tuning.sample(tuner, list(by_other_settings.values()))

    def _run_jit_function(
        self, run: Run, layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Launches without the options that this Triton does not know, and notes them."""
        args, kwargs = self._with_point(layer, args, kwargs)
        try:
            for _ in range(len(kwargs) + 1):  # each round drops one option
                try:
                    result = run(layer, *args, **kwargs)
                    self._swept_launches += bool(self._point)
                    return result
                except KeyError as failure:
                    unknown = UNRECOGNISED.search(str(failure))
                    if unknown is None or unknown[1] not in kwargs:
                        raise
                    name = unknown[1]
                    reason = f"this Triton has no option {name}, and a real launch fails for it"
                    text = f"{reason}: compiled without {name}={kwargs.pop(name)!r}"
                    self._dropped_options += (text,)
        finally:
            self._dropped_options = ()
        return None

    def _with_point(
        self, layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if not self._point:
            return args, kwargs
        names = list(layer.arg_names)
        positional, by_name = list(args), dict(kwargs)
        for name, value in self._point.items():
            index = names.index(name) if name in names else len(positional)
            if index < len(positional):
                positional[index] = value
            else:
                by_name[name] = value
        return tuple(positional), by_name


def _jit_function(layer: Any) -> Any:
    while not hasattr(layer, "params") and hasattr(layer, "fn"):
        layer = layer.fn
    return layer
