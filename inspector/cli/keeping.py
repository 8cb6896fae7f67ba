"""The options of `analyze` and `lint` that keep a run in the history."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from ..bench.history.keeping import Keeper

F = TypeVar("F", bound=Callable[..., Any])


def history_options(function: F) -> F:
    """Gives a command `history` (a flag) and `label`, which asks for the same."""
    label = click.option(
        "--label", metavar="TEXT", help="Keep it under this name.  [the commit, in a git checkout]"
    )
    flag = click.option(
        "--history", is_flag=True, help="Keep the figures; see `kinspect history plot`."
    )
    return flag(label(function))


def keeper_for(command: str, history: bool, label: str | None) -> Keeper | None:
    """What keeps the run; None if that was not asked for.

    Raises:
        KinspectError: the history cannot be used.
    """
    if not history and label is None:
        return None
    from ..bench.history.keeping import Keeper

    return Keeper(command, label)
