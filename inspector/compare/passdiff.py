"""The pass after which two MLIR dumps of one kernel begin to differ.

Versions of Triton run different passes. They are aligned by name, and the states before aligned
passes are compared: what lies between the last equal pair and the first unequal one is the cause.
"""

from __future__ import annotations

import difflib
import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from ..compile.ircontent import Content, changed_lines, content_of
from ..compile.irtext import VALUE, normal_mlir, older_spelling, spells_older, unified_diff
from ..compile.passes import Pass, PassDump

_LAYOUT_READERS = frozenset(("symbol-dce", "convert-scf-to-cf"))
"""Passes of every version that run late in TTGIR, when layouts have been chosen."""


Kind = Literal["order", "attributes", "operations"]
"""In what two modules differ: the order of equal statements alone; besides that, what is printed of
attributes, operands' types and pointer types; or operations, what they take, or results' types."""
_LEVELS: dict[Kind | None, int] = {None: 0, "order": 1, "attributes": 2, "operations": 2}
"""Order apart from contents: what the first pass that touches the contents changed may be but an
attribute (`loop.stage`) that a later one acts on."""


class PassDifference(Struct, frozen=True):
    """A place in two dumps where the modules begin to differ.

    Args:
        name: the pass after which they do, as on the command line; None where one side alone has
            the passes that made the difference, or the input is printed differently.
        stage: the stage it belongs to.
        left_only, right_only: passes that only one side runs there and that changed something.
        options: the pass's options on both sides where they differ, else None.
        before, after: the pairs of passes, by index, before which the states were last the same
            (None: never) and first differ. The index of a dump's end is its number of passes.
        lasts: whether the modules stay different to the end of the stage.
        kind: in what the modules differ there.
    """

    name: str | None
    stage: str
    left_only: tuple[str, ...]
    right_only: tuple[str, ...]
    options: tuple[str, str] | None
    before: tuple[int, int] | None
    after: tuple[int, int]
    lasts: bool
    kind: Kind

    @property
    def order_only(self) -> bool:
        """Whether the modules hold the same statements there, in another order."""
        return self.kind == "order"

    def words(self, left: str, right: str) -> str:
        """What made the difference and in what, for people.

        Args:
            left: what to call one compile.
            right: what to call the other.
        """
        alone = "" if self.before is None else _ALONE.get(self.kind, "")
        return self.made_by(left, right) + alone

    def made_by(self, left: str, right: str) -> str:
        """What made the difference, for people; likewise."""
        if self.before is None:
            return "how each reads and prints the same input"
        parts = [
            f"{', '.join(dict.fromkeys(names))} (only in {label})"
            for label, names in ((left, self.left_only), (right, self.right_only))
            if names
        ]
        if self.name is not None:
            options = ", run with other options" if self.options is not None else ""
            numbers = f"(number {self.before[0]} and {self.before[1]})"
            parts.insert(0, f"pass {self.name} {numbers}{options}")
        return " or ".join(parts) if parts else "passes that cannot be told apart"


_ALONE: dict[Kind, str] = {
    "order": " (the order of operations alone)",
    "attributes": " (attributes alone)",
}


class PassStep(Struct, frozen=True):
    """The state of two modules after a pass that both run.

    Args:
        name: the pass, as on the command line.
        at: its index in each dump.
        left, right: operations that only one side has then, whatever their order and values' names.
    """

    name: str
    at: tuple[int, int]
    left: int
    right: int


class Dumps:
    """Two pass dumps of one kernel, over the passes of one stage.

    Args:
        left: a dump of one compile.
        right: a dump of the other.
        stage: the first stage whose artifacts differ. Differences that are gone again by the end of
            an earlier stage do not count, for nothing came of them.
        printed_alike: both were printed by the same version of Triton. Others print attributes and
            pointer types in other ways: those do not count then.
    """

    def __init__(
        self, left: PassDump, right: PassDump, stage: str, *, printed_alike: bool = True
    ) -> None:
        older = _spells_older(left) != _spells_older(right)
        self._sides = (_States(left, older), _States(right, older))
        self._pairs = _of_stage(left.passes, right.passes, stage)
        self._printed_alike = printed_alike

    def differences(self) -> tuple[PassDifference, ...]:
        """Where the dumps begin to differ.

        Returns:
            In order: where they first differ; where they differ from then on; and where they differ
            from then on in more than the order of statements. Each once, and nothing where the
            dumps agree, or agree again at the end of the stage.
        """
        ranks = [self._rank(pair) for pair in self._pairs]
        if not ranks or not ranks[-1]:
            return ()
        # What the passes of an earlier stage left behind is not this stage's.
        inherited = ranks[0] if self._pairs[0] != (0, 0) and ranks[0] < ranks[-1] else 0
        places = {next(n for n, rank in enumerate(ranks) if rank > inherited)}
        for least in range(inherited + 1, ranks[-1] + 1):
            places.add(_last_beginning([rank < least for rank in ranks]))
        return tuple(self._difference(at, ranks) for at in sorted(places))

    def _rank(self, pair: tuple[int, int]) -> int:
        """0 for equal states, 1 for others in order alone, 2 for contents."""
        return _LEVELS[self._kind(pair)]

    def _kind(self, pair: tuple[int, int]) -> Kind | None:
        """In what two states differ; None for equal ones."""
        (left, right), (i, j) = self._sides, pair
        if left.digest(i) == right.digest(j):
            return None
        return kind_of(left.content(i), right.content(j), printed_alike=self._printed_alike)

    def steps(self) -> tuple[PassStep, ...]:
        """What the sides have for themselves after each pass that both run, in order."""
        left, right = self._sides
        steps = []
        for i, j in self._pairs[:-1]:
            ours, theirs = left.contents(i + 1), right.contents(j + 1)
            name = _name(left.dump.passes[i])
            steps.append(PassStep(name, (i, j), (ours - theirs).total(), (theirs - ours).total()))
        return tuple(steps)

    def excerpt(self, where: PassDifference, labels: tuple[str, str]) -> str:
        """A unified diff of the modules at the first state in which they differ.

        Places that differ in less than the whole does, in order say, are left out.
        """
        texts, names = [], []
        for label, side, i in zip(labels, self._sides, where.after, strict=True):
            next_pass = side.dump.passes[i]
            texts.append(side.text(i))
            names.append(f"{label}, before {_name(next_pass)} (pass {i})")
        (left, right), (i, j) = self._sides, where.after
        return unified_diff_of(
            texts[0],
            texts[1],
            (names[0], names[1]),
            where.kind,
            (left.content(i), right.content(j)),
        )

    def _difference(self, at: int, ranks: Sequence[int]) -> PassDifference:
        """What lies between the pair before `at` and the one at `at`, which differs (more)."""
        left_side, right_side = self._sides
        left, right = left_side.dump.passes, right_side.dump.passes
        i, j = self._pairs[at]
        lasts = all(ranks[at:])
        kind = self._kind((i, j)) or "operations"
        if at == 0:
            return PassDifference(None, left[i].stage, (), (), None, None, (i, j), lasts, kind)
        last_pair = self._pairs[at - 1]
        # The states just after the pass that both have. Where they differed before in less, it is
        # the rest that parts here.
        next_pair = (last_pair[0] + 1, last_pair[1] + 1)
        by_it = self._rank(next_pair) > ranks[at - 1]
        only: list[tuple[str, ...]] = [(), ()]
        if not by_it:
            only = [left_side.changing(next_pair[0], i), right_side.changing(next_pair[1], j)]
        mine, theirs = left[last_pair[0]].options, right[last_pair[1]].options
        # Versions before 3.9 print no options.
        options = (mine, theirs) if by_it and mine and theirs and mine != theirs else None
        differing_pair = next_pair if by_it else (i, j)
        return PassDifference(
            _name(left[last_pair[0]]) if by_it else None,
            left[last_pair[0]].stage,
            only[0],
            only[1],
            options,
            last_pair,
            differing_pair,
            lasts,
            self._kind(differing_pair) or kind,
        )


def kind_of(left: Content, right: Content, *, printed_alike: bool) -> Kind | None:
    """In what two texts differ whose normal forms are not the same; None for what does not count.

    Args:
        left: the statements of a text.
        right: those of another.
        printed_alike: see `Dumps`.
    """
    if left.bare != right.bare:
        return "operations"
    if printed_alike:
        return "order" if left.whole == right.whole else "attributes"
    return None if left.bare_digest == right.bare_digest else "order"


def unified_diff_of(
    left: str,
    right: str,
    labels: tuple[str, str],
    kind: Kind,
    contents: tuple[Content, Content],
) -> str:
    """A unified diff without the hunks that differ in less than the kind says.

    Args:
        left: a module.
        right: another.
        labels: what to call them.
        kind: in what they differ.
        contents: their statements.
    """
    diff = unified_diff(left, right, *labels)
    if kind == "order":
        return diff
    gone, new = changed_lines(*contents, bare=kind == "operations")
    hunks = list(_hunks(diff))
    relevant = [
        hunk
        for hunk in hunks[1:]
        if any(line[1:].strip() in {"-": gone, "+": new}.get(line[:1], ()) for line in hunk)
    ]
    shown_hunks = [hunks[0], *relevant] if relevant else hunks
    return "".join(f"{line}\n" for hunk in shown_hunks for line in hunk)


def _hunks(diff: str) -> Iterator[list[str]]:
    """The two lines with the names, then each hunk's lines."""
    part: list[str] = []
    for line in diff.splitlines():
        if line.startswith("@@"):
            yield part
            part = []
        part.append(line)
    yield part


class _States:
    """The states of a dump in their normal form; each is worked out once."""

    def __init__(self, dump: PassDump, older: bool) -> None:
        self.dump = dump
        self._older = older
        self._lines: dict[bytes, tuple[bytes, Counter[str]]] = {}
        self._contents: dict[bytes, Content] = {}
        self._keys: dict[int, bytes] = {}

    def text(self, index: int) -> str:
        """The module before a pass, in the spelling that both sides are given."""
        text = self.dump.text(index)
        return older_spelling(text) if self._older else text

    def digest(self, index: int) -> bytes:
        """Of the state before a pass."""
        return self._normal(index)[0]

    def content(self, index: int) -> Content:
        """Its statements, by their data flow."""
        self._normal(index)
        key = self._keys[index]
        if key not in self._contents:
            self._contents[key] = content_of(self.text(index))
        return self._contents[key]

    def contents(self, index: int) -> Counter[str]:
        """Its lines without values' names, whatever their order."""
        return self._normal(index)[1]

    def changing(self, start: int, stop: int) -> tuple[str, ...]:
        """The passes of a range that change something."""
        return tuple(
            _name(self.dump.passes[n])
            for n in range(start, stop)
            if self.digest(n) != self.digest(n + 1)
        )

    def _normal(self, index: int) -> tuple[bytes, Counter[str]]:
        if index not in self._keys:
            text = self.text(index).strip()
            # Most passes leave the text as it was.
            key = self._keys[index] = _sha(text)
            if key not in self._lines:
                normal = normal_mlir(text)
                lines = Counter(line.strip() for line in VALUE.sub("%", normal).splitlines())
                self._lines[key] = (_sha(normal), lines)
        return self._lines[self._keys[index]]


def _sha(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _last_beginning(equal: Sequence[bool]) -> int:
    """Where the run of unequal pairs that lasts to the end begins."""
    at = len(equal) - 1
    while at > 0 and not equal[at - 1]:
        at -= 1
    return at


def _name(pass_: Pass) -> str:
    return pass_.cli or pass_.name


def _aligned(left: Sequence[Pass], right: Sequence[Pass]) -> list[tuple[int, int]]:
    """Pairs of passes of the same name, stage and operation, in order."""
    keys = [[(p.stage, _name(p), p.function) for p in side] for side in (left, right)]
    matcher = difflib.SequenceMatcher(None, keys[0], keys[1], autojunk=False)
    return [
        (block.a + n, block.b + n)
        for block in matcher.get_matching_blocks()
        for n in range(block.size)
    ]


def _of_stage(left: Sequence[Pass], right: Sequence[Pass], stage: str) -> list[tuple[int, int]]:
    """The aligned pairs of a stage, and the one after it: before that stands what it made."""
    pairs = _aligned(left, right)
    inside = [n for n, (i, j) in enumerate(pairs) if stage in (left[i].stage, right[j].stage)]
    return pairs[inside[0] : inside[-1] + 2] if inside else []


def _spells_older(dump: PassDump) -> bool:
    return any(spells_older(dump.text(p.index)) for p in dump.passes if p.cli in _LAYOUT_READERS)
