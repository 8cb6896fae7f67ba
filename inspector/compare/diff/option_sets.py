"""Sets of compile options, as `kinspect diff --set` takes them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from ...capture.sweep_axes import Value, axes_of
from ...errors import KinspectError

_NO_OPTIONS = "as it is"


class OptionSet(Struct, frozen=True):
    """Options of one side, which replace or join those that a kernel was captured with."""

    values: Mapping[str, Value]

    @property
    def label(self) -> str:
        """`num_stages=3, waves_per_eu=2`; `as it is` for an empty set."""
        return ", ".join(f"{name}={value}" for name, value in self.values.items()) or _NO_OPTIONS


def option_set(text: str) -> OptionSet:
    """Parses `num_stages=3,waves_per_eu=2`.

    Raises:
        KinspectError: the text is not of that form, or names an option twice.
    """
    values: dict[str, Value] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        (axis,) = axes_of([part])
        if len(axis.values) != 1 or axis.name in values:
            raise KinspectError(
                f"--set {text}: one value for each option", "write --set num_stages=3,kpack=2"
            )
        values[axis.name] = axis.values[0]
    if not values:
        raise KinspectError("--set names no option", "write e.g. --set num_stages=3")
    return OptionSet(values)
