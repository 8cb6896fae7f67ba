"""Defaults that differ between two Tritons: of the backend's options, and of its switches."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from ...compile.pool import CompileResult
from ...model import Variant

_NOT_DEFAULTS = frozenset(
    # What a compile, not the user, decides, or what no version may take from another.
    ("arch", "backend_name", "extern_libs", "warp_size", "sanitize_overflow", "debug")
)


class Defaults(Struct, frozen=True):
    """Defaults of two builds where they differ.

    Args:
        options: option of the AMD backend -> its values in the left and the right build.
        switches: environment variable -> whether what it switches is on in each of them.
    """

    options: Mapping[str, tuple[object, object]] = field(default_factory=dict)
    switches: Mapping[str, tuple[bool, bool]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.options or self.switches)

    def both(self) -> dict[str, tuple[object, object]]:
        """Returns all of them by name."""
        return {**self.options, **self.switches}

    def only(self, name: str) -> Defaults:
        """Returns one of them."""
        return Defaults(
            {key: pair for key, pair in self.options.items() if key == name},
            {key: pair for key, pair in self.switches.items() if key == name},
        )

    def environment(self) -> tuple[tuple[str, str], ...]:
        """Returns the variables with which the right build's switches are set as the left's."""
        return tuple((name, str(int(left))) for name, (left, _) in sorted(self.switches.items()))

    def left_options(self, variant: Variant) -> Variant:
        """Returns a variant that states the left build's options."""
        stated = {name: left for name, (left, _) in self.options.items()}
        return replace(variant, options={**variant.options, **stated})


def defaults_of(
    left: CompileResult, right: CompileResult, shared_options: frozenset[str], variant: Variant
) -> Defaults:
    """Returns the defaults that differ."""
    ours, theirs = left.metadata, right.metadata
    options = {
        name: (ours[name], theirs[name])
        for name in sorted(shared_options - _NOT_DEFAULTS - set(variant.options))
        if name in ours and name in theirs and ours[name] != theirs[name]
    }
    switches: dict[str, tuple[bool, bool]] = {}
    if left.switches is not None and right.switches is not None:
        for name, theirs_on in sorted(right.switches.items()):
            # A build without the switch is one without what it switches.
            ours_on = left.switches.get(name, False)
            if ours_on != theirs_on:
                switches[name] = (ours_on, theirs_on)
    return Defaults(options, switches)
