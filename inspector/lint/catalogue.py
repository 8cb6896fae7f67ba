"""The names that rules may use, and the kind of value of each.

The metrics come from their own table. This file adds the names that the engine defines for loops,
instructions and waits, with unit and meaning, and the texts that some of them can have as value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from ..model import MetricKind, MetricSpec, Origin
from ..model.metric import METRICS, metric_of

# --------------------------------------------------------------------------- what the engine knows

MATCHES, WIDER = "matches", "wider"
"""How many instructions or waits a rule matched, and how many of them move more bits than the
narrowest; only for its message, fix and savings."""

_Row = tuple[str, str, Origin, str]
"""Name, unit, origin and description of a value."""


def _specs(scope: Literal["instruction", "wait"], *rows: _Row) -> tuple[MetricSpec, ...]:
    return tuple(
        MetricSpec(name, unit, origin, scope, description)
        for name, unit, origin, description in rows
    )


_LOOP = (
    MetricSpec("hot", "bool", "derived", "loop", "True if the loop does the kernel's work"),
    MetricSpec("depth", "levels", "derived", "loop", "Nesting depth, 1 for an outermost loop"),
    MetricSpec(
        "unroll", "iterations", "derived", "loop", "Source iterations per iteration of the ISA loop"
    ),
)
_OP = _specs(
    "instruction",
    ("op.mnemonic", "name", "compiler", "The instruction"),
    ("op.kind", "name", "compiler", "Its mnemonic class: global_load, lds_read, ..."),
    ("op.bits", "bits/lane", "compiler", "How much it moves"),
    ("op.depth", "levels", "derived", "How many loops it stands in"),
    ("op.hot", "bool", "derived", "Whether it stands in a hot loop"),
    ("op.spill", "bool", "derived", "Whether it stores or reloads a spilled value"),
    (
        "op.side_by_side",
        "bool",
        "derived",
        "Whether a wave's lanes access different bytes in as few cache lines as possible",
    ),
    (
        "op.joint_bits",
        "bits/lane",
        "derived",
        "What it and the lane's accesses of the bytes beside it move together, each of 32 bits or "
        "less, 128 at most; none in Triton's code and where it has no such neighbours",
    ),
)
_ACCESS = _specs(
    "instruction",
    ("access.op", "name", "compiler", "The operation of the TTGIR that it comes from"),
    ("access.dtype", "name", "compiler", "That operation's element type"),
    ("access.layout", "name", "compiler", "Its layout: kind, sizePerThread, order"),
    ("access.limited_by", "name", "derived", "What made it narrow"),
    ("access.reason", "name", "derived", "The same in a sentence, with the argument at fault"),
    ("access.fix", "name", "derived", "What to change"),
    ("access.bits", "bits/lane", "compiler", "The narrowest instruction it became"),
    ("access.widest", "bits/lane", "derived", "What element type and tile allow at most"),
    ("access.per_thread", "elements", "derived", "Neighbouring elements that a lane holds"),
    ("access.elements", "elements", "compiler", "Elements of the whole tile"),
    ("access.contiguity", "elements", "derived", "Elements known to be neighbours in memory"),
    ("access.mask", "elements", "derived", "Neighbouring elements that share a mask bit"),
    ("access.divisibility", "bytes", "derived", "Of the address, 0 for a constant 0"),
    ("access.instructions", "instructions", "compiler", "How many instructions it became"),
    (
        "access.narrow_stores",
        "stores",
        "derived",
        "Stores of such tiles in the same loop that nothing makes wider: with a wider access the"
        " elements would change lanes before them, through LDS",
    ),
)
_WAIT = _specs(
    "wait",
    ("wait.counter", "name", "compiler", "The counter it waits for"),
    ("wait.verdict", "name", "derived", "What it is there for"),
    ("wait.n", "operations", "compiler", "How many operations it leaves outstanding"),
    ("wait.could_be", "operations", "derived", "The largest n that would do, if over-strict"),
    ("wait.without", "name", "derived", "What may go wrong without it, if missing"),
    ("wait.slack", "instructions", "derived", "Instructions since the youngest it waits for"),
    ("wait.slack_cycles", "cycles", "derived", "Matrix cycles among them"),
    ("wait.full", "bool", "derived", "Whether it waits for everything: n is 0"),
    ("wait.hot", "bool", "derived", "Whether it stands in a hot loop"),
    ("wait.depth", "levels", "derived", "How many loops it stands in"),
)
_MATCHES = (
    MetricSpec(
        MATCHES,
        "matches",
        "derived",
        "instruction",
        "How many match in the loop; in texts and `removes` alone",
    ),
    MetricSpec(
        WIDER,
        "matches",
        "derived",
        "instruction",
        "How many of them move more bits than the narrowest, unknown where none does; in texts and "
        "`removes` alone",
    ),
)

ENGINE_VALUES: tuple[MetricSpec, ...] = (*_LOOP, *_OP, *_ACCESS, *_WAIT, *_MATCHES)
"""Everything above, for the catalogue."""

CHOICES: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "access.limited_by": frozenset(
            {"layout", "order", "contiguity", "broadcast", "divisibility", "mask", "dtype", "tile"}
        ),
        "wait.verdict": frozenset({"needed", "over-strict", "ordering", "idle", "missing"}),
    }
)
"""Name -> the texts that it can have as value. A comparison with another text would never hold."""

WORD_NAMES = frozenset({"op.kind", "wait.counter"})
"""Names whose value is a mnemonic class or a wait counter: one of the catalogue's words."""


# --------------------------------------------------------------------------- the catalogue

Kind = MetricKind | Literal["none"]
Scope = Literal["kernel", "loop", "instruction", "wait"]
Known = Literal["kernel", "loop", "both", "instruction", "wait", "matches"]
"""What a name is a property of. `both`: kernels and loops; `matches`: what an instruction or wait
rule matched, which only its message and fix may name."""

HOT_LOOPS = "hot_loops."
"""Prefix of the sums over a kernel's hot loops: `hot_loops.count.scratch_load`. They let a kernel
rule tell work inside the hot loops from work outside."""

MOST_IN_LOOP = "most_in_loop."
"""Prefix of the largest count in a hot loop: `most_in_loop.count.scratch_load`."""

OF_KERNEL = "kernel."
"""Prefix for the kernel's metric where the loop's would be read otherwise: `kernel.count.mfma`."""

_READABLE: Mapping[Scope, frozenset[Known]] = MappingProxyType(
    {
        "kernel": frozenset[Known]({"kernel", "both"}),
        "loop": frozenset[Known]({"kernel", "both", "loop"}),
        "instruction": frozenset[Known]({"kernel", "both", "loop", "instruction", "matches"}),
        "wait": frozenset[Known]({"kernel", "both", "loop", "wait", "matches"}),
    }
)
_PLURAL: Mapping[Known, str] = MappingProxyType(
    {
        "loop": "loops",
        "instruction": "instructions",
        "wait": "waits",
        "matches": "instructions and waits",
    }
)


class ResolvedName(Struct, frozen=True):
    """A resolved name.

    Args:
        field: the field of the metric's mapping, where the name has one.
    """

    metric: str
    field: str | None
    kind: Kind
    known: Known

    def hidden_from(self, scope: Scope) -> str | None:
        """Names what it is a property of, if rules of this scope cannot read it; else None."""
        return None if self.known in _READABLE[scope] else _PLURAL[self.known]


class Catalogue(Struct, frozen=True):
    """Metric names, exact and by family.

    Args:
        families: specs whose names have `*` in place of one or more dotted parts.
        words: what a `*` may be replaced by; empty allows anything, so that a mistyped member of a
            family goes unnoticed.
    """

    exact: Mapping[str, MetricSpec]
    families: tuple[MetricSpec, ...]
    words: frozenset[str] = frozenset()
    _of_families: dict[str, MetricSpec | None] = field(default_factory=dict)  # looked up so far
    _resolved: dict[str, ResolvedName | None] = field(default_factory=dict)

    @classmethod
    def of(
        cls, specs: Mapping[str, MetricSpec] | Iterable[MetricSpec], words: Iterable[str] = ()
    ) -> Catalogue:
        """The catalogue of a metrics table, with what the engine itself supplies.

        `words` are the members of families: mnemonic classes and wait counters.
        """
        listed = tuple(specs.values()) if isinstance(specs, Mapping) else tuple(specs)
        sums = tuple(
            replace(spec, name=f"{prefix}{spec.name}", origin="derived", scope="kernel")
            for prefix in (HOT_LOOPS, MOST_IN_LOOP)
            for spec in listed
            if spec.scope in ("both", "loop") and spec.name.startswith("count.")
        )
        specs_by_name = {spec.name: spec for spec in (*ENGINE_VALUES, *listed, *sums)}
        return cls(
            {name: spec for name, spec in specs_by_name.items() if "*" not in name},
            tuple(spec for name, spec in specs_by_name.items() if "*" in name),
            frozenset(words),
        )

    def find(self, name: str) -> ResolvedName | None:
        """Resolves a dotted name; None if the catalogue does not have it."""
        if name not in self._resolved:
            self._resolved[name] = self._resolve(name)
        return self._resolved[name]

    def _resolve(self, name: str) -> ResolvedName | None:
        spec = self.spec(name)
        if spec is not None:
            return ResolvedName(name, None, spec.kind, _readable_in(spec))
        parent, _, field = name.rpartition(".")
        spec = self.spec(parent)
        if spec is not None and spec.kind in ("mapping", "any"):
            return ResolvedName(parent, field, "any", _readable_in(spec))
        if name.startswith(OF_KERNEL):
            entry = self.find(name[len(OF_KERNEL) :])
            if entry is not None and entry.known in ("kernel", "both"):
                return replace(entry, known="kernel")
        return None

    def choices(self, name: str) -> frozenset[str]:
        """The texts that a name can have as value; empty where it can have any."""
        return self.words if name in WORD_NAMES else CHOICES.get(name, frozenset())

    def suggest(self, name: str) -> str:
        """` (did you mean ...?)` with the nearest known name, or nothing."""
        prefix = OF_KERNEL if name.startswith(OF_KERNEL) else ""
        known = (*self._names(), *METRICS)
        close = closest(name, (prefix + candidate for candidate in known))
        return f" (did you mean {metric_of(close)}?)" if close else ""

    def spec(self, name: str) -> MetricSpec | None:
        """The metric or family that a full name belongs to; None if there is none."""
        exact = self.exact.get(name)
        if exact is not None:
            return exact
        if name not in self._of_families:
            self._of_families[name] = self._family(name)
        return self._of_families[name]

    def _family(self, name: str) -> MetricSpec | None:
        words = name.split(".")
        for family in self.families:
            pattern = family.name.split(".")
            if len(pattern) == len(words) and all(
                expected == word or (expected == "*" and (not self.words or word in self.words))
                for expected, word in zip(pattern, words, strict=True)
            ):
                return family
        return None

    def _names(self) -> Iterator[str]:
        yield from self.exact
        for family in self.families:
            for word in sorted(self.words):
                yield family.name.replace("*", word)


def _readable_in(spec: MetricSpec) -> Known:
    return "matches" if spec.name in (MATCHES, WIDER) else spec.scope


def nearest(name: str, candidates: Iterable[str]) -> str:
    """` (did you mean ...?)` with the candidate most like `name`; empty if none is similar."""
    close = closest(name, candidates)
    return f" (did you mean {close}?)" if close else ""


def closest(name: str, candidates: Iterable[str]) -> str:
    """The candidate most like `name`; empty if none is similar."""
    import difflib  # only on the way to an error

    return next(iter(difflib.get_close_matches(name, list(candidates), n=1, cutoff=0.7)), "")
