"""The names that a rule may use, and what kind of value stands behind each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from kinspect.inspector.model import MetricSpec

Kind = Literal["number", "text", "boolean", "mapping", "none", "any"]
Scope = Literal["kernel", "loop"]

HOT_LOOPS = "hot_loops."
"""Prefix of the sums over a kernel's hot loops: `hot_loops.count.scratch_load`. They let a kernel
rule tell work inside the hot loops from work outside."""

_LOOP_VALUES = (
    MetricSpec("hot", "bool", "derived", "loop", "True if the loop does the kernel's work"),
    MetricSpec("depth", "levels", "derived", "loop", "Nesting depth, 1 for an outermost loop"),
    MetricSpec(
        "unroll", "iterations", "derived", "loop", "Source iterations per iteration of the ISA loop"
    ),
)


def kind_of(spec: MetricSpec) -> Kind:
    """What a metric's values are, told by its unit: all but these four are numbers."""
    match spec.unit:
        case "bool":
            return "boolean"
        case "name":
            return "text"
        case "mapping":
            return "mapping"
        case "":
            return "any"
        case _:
            return "number"


@dataclass(frozen=True, slots=True)
class Entry:
    """A name resolved: the metric, the field of its mapping where one is named, kind and scope."""

    metric: str
    field: str | None
    kind: Kind
    scope: Literal["kernel", "loop", "both"]


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Metric names, exact and by family.

    Args:
        exact: full name -> spec.
        families: specs whose names have `*` in place of one or more dotted parts.
        words: what a `*` may stand for; empty allows anything, and then a mistyped member of a
            family goes unnoticed.
    """

    exact: Mapping[str, MetricSpec]
    families: tuple[MetricSpec, ...]
    words: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        specs: Mapping[str, MetricSpec] | Iterable[MetricSpec],
        words: Iterable[str] = (),
    ) -> Catalogue:
        """Builds the catalogue of a metrics table, adding what the engine itself supplies.

        Args:
            specs: the metrics, as a mapping from name or in any order.
            words: the members of the families: mnemonic classes and wait counters.
        """
        listed = tuple(specs.values()) if isinstance(specs, Mapping) else tuple(specs)
        sums = tuple(
            MetricSpec(f"{HOT_LOOPS}{s.name}", s.unit, "derived", "kernel", s.description)
            for s in listed
            if s.scope == "both" and s.name.startswith("count.")
        )
        known = {s.name: s for s in (*_LOOP_VALUES, *listed, *sums)}
        return cls(
            {name: s for name, s in known.items() if "*" not in name},
            tuple(s for name, s in known.items() if "*" in name),
            frozenset(words),
        )

    def find(self, name: str) -> Entry | None:
        """Resolves a dotted name; None if nothing in the catalogue answers to it."""
        spec = self._spec(name)
        if spec is not None:
            return Entry(name, None, kind_of(spec), spec.scope)
        parent, _, field = name.rpartition(".")
        spec = self._spec(parent)
        if spec is not None and kind_of(spec) in ("mapping", "any"):
            return Entry(parent, field, "any", spec.scope)
        return None

    def suggest(self, name: str) -> str:
        """` (did you mean ...?)` with the nearest known name, or nothing."""
        return nearest(name, self._names())

    def _spec(self, name: str) -> MetricSpec | None:
        found = self.exact.get(name)
        if found is not None:
            return found
        parts = name.split(".")
        return next((s for s in self.families if self._matches(s.name.split("."), parts)), None)

    def _matches(self, pattern: list[str], parts: list[str]) -> bool:
        return len(pattern) == len(parts) and all(
            want == part or (want == "*" and (not self.words or part in self.words))
            for want, part in zip(pattern, parts, strict=True)
        )

    def _names(self) -> Iterator[str]:
        yield from self.exact
        for family in self.families:
            for word in sorted(self.words):
                yield family.name.replace("*", word)


def nearest(name: str, known: Iterable[str]) -> str:
    """` (did you mean ...?)` with the known name most like `name`, empty if none is like it."""
    import difflib  # only on the way to an error

    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.7)
    return f" (did you mean {near[0]}?)" if near else ""
