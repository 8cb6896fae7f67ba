"""Commands whose options are the defaults of their function's parameters.

    @command()
    def show(name: str = argument("NAME"), details: bool = option("Everything.")) -> None: ...

A parameter's name is the option's (`--details`), its annotation says what kind it is: `bool` is a
flag, a tuple may be repeated, `Path` is one.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click


class _Declared:
    """An option or argument that takes its name and kind from the parameter it stands at."""

    def __init__(
        self, kind: type[click.Parameter], names: Sequence[str], settings: Mapping[str, Any]
    ) -> None:
        self._kind, self._names, self._settings = kind, names, settings

    def named(self, name: str, annotation: str) -> click.Parameter:
        """The parameter for click."""
        settings = dict(self._settings)
        if "Path" in annotation:
            settings.setdefault("type", click.Path(path_type=Path))
        if self._kind is click.Argument:
            return click.Argument([name], **settings)
        if annotation == "bool":
            settings.setdefault("is_flag", True)
        if annotation.startswith("tuple["):
            settings.setdefault("multiple", "callback" not in settings)
        names = self._names or (f"--{name.replace('_', '-')}",)
        return click.Option([name, *names], **settings)


def option(help_text: str | None = None, *names: str, **settings: Any) -> Any:
    """An option, as the default of a parameter; `names` where they are not the parameter's."""
    return _Declared(click.Option, names, {"help": help_text, **settings})


def argument(metavar: str | None = None, **settings: Any) -> Any:
    """A positional argument, as the default of a parameter."""
    return _Declared(click.Argument, (), {"metavar": metavar, **settings})


class Options:
    """Several options that are one parameter: what `take` makes of the values that it removes."""

    def __init__(
        self,
        params: Sequence[click.Parameter],
        take: Callable[[dict[str, Any]], Any] | None = None,
    ) -> None:
        self._params = params
        self._take = take

    @property
    def arguments(self) -> list[click.Parameter]:
        """The positional ones."""
        return [param for param in self._params if isinstance(param, click.Argument)]

    @property
    def options(self) -> list[click.Parameter]:
        """The others."""
        return [param for param in self._params if not isinstance(param, click.Argument)]

    def take(self, values: dict[str, Any]) -> Any:
        """Takes the values of its options out of a command's."""
        return taken(self._params, values) if self._take is None else self._take(values)


def options(*params: click.Parameter) -> Any:
    """Options whose values are one parameter: a dict by name."""
    return Options(params)


def taken(params: Sequence[click.Parameter], values: dict[str, Any]) -> dict[str, Any]:
    """Takes the values of some options out of a command's, by name."""
    return {p.name: values.pop(p.name) for p in params if p.name and p.expose_value}


def command(
    name: str | None = None,
    cls: type[click.Command] = click.Command,
    group: click.Group | None = None,
    **settings: Any,
) -> Callable[[Callable[..., Any]], click.Command]:
    """Makes a command, or one of a group, of a function with options as its defaults."""

    def made(function: Callable[..., Any]) -> click.Command:
        several: dict[str, Options] = {}
        first: list[click.Parameter] = []
        params: list[click.Parameter] = []
        for own, parameter in inspect.signature(function).parameters.items():
            declared = parameter.default
            if isinstance(declared, Options):
                several[own] = declared
                first += declared.arguments
                params += declared.options
            else:
                params.append(declared.named(own, parameter.annotation))

        @functools.wraps(function)
        def run(**values: Any) -> Any:
            for own, declared in several.items():
                values[own] = declared.take(values)
            return function(**values)

        make = (group or click).command
        result: click.Command = make(name, cls=cls, params=[*first, *params], **settings)(run)
        return result

    return made
