"""The pass after which two MLIR dumps of one kernel begin to differ.

Versions of Triton run different passes. They are aligned by name, and the states before aligned
passes are compared: what lies between the last equal pair and the first unequal one is the cause.
"""

from __future__ import annotations

import difflib
import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from kinspect.inspector.compiler.codetext import normal_mlir, older_spelling, spells_older
from kinspect.inspector.compiler.irtext import VALUE, unified_diff
from kinspect.inspector.compiler.passes import Pass, PassDump

_LAYOUT_READERS = frozenset(("symbol-dce", "convert-scf-to-cf"))
"""Passes of every version that run late in TTGIR, when layouts have been chosen."""


@dataclass(frozen=True, slots=True)
class PassDifference:
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
        order_only: the modules hold the same operations there, in another order.
    """

    name: str | None
    stage: str
    left_only: tuple[str, ...]
    right_only: tuple[str, ...]
    options: tuple[str, str] | None
    before: tuple[int, int] | None
    after: tuple[int, int]
    lasts: bool
    order_only: bool

    def words(self, left: str, right: str) -> str:
        """What made the difference, for people.

        Args:
            left: what to call one compile.
            right: what to call the other.
        """
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
        made_by = " or ".join(parts) if parts else "passes that cannot be told apart"
        return f"{made_by} (the order of operations alone)" if self.order_only else made_by


@dataclass(frozen=True, slots=True)
class PassStep:
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
    """

    def __init__(self, left: PassDump, right: PassDump, stage: str) -> None:
        older = _spells_older(left) != _spells_older(right)
        self._sides = (_States(left, older), _States(right, older))
        self._pairs = _of_stage(left.passes, right.passes, stage)

    def differences(self) -> tuple[PassDifference, ...]:
        """Where the dumps begin to differ.

        Returns:
            In order: where they first differ; where they differ from then on; and where they differ
            from then on in more than the order of operations. Each once, and nothing where the
            dumps agree, or agree again at the end of the stage.
        """
        one, other = self._sides
        equal = [one.digest(i) == other.digest(j) for i, j in self._pairs]
        if not equal or equal[-1]:
            return ()
        # Contents are alike where the order of operations alone differs.
        alike = [
            same or one.contents(i) == other.contents(j)
            for same, (i, j) in zip(equal, self._pairs, strict=True)
        ]
        places = {equal.index(False), _last_beginning(equal)}
        if not alike[-1]:
            places.add(_last_beginning(alike))
        return tuple(self._difference(at, equal) for at in sorted(places))

    def steps(self) -> tuple[PassStep, ...]:
        """What the sides have for themselves after each pass that both run, in order."""
        one, other = self._sides
        found = []
        for i, j in self._pairs[:-1]:
            ours, theirs = one.contents(i + 1), other.contents(j + 1)
            name = _name(one.dump.passes[i])
            found.append(PassStep(name, (i, j), (ours - theirs).total(), (theirs - ours).total()))
        return tuple(found)

    def excerpt(self, where: PassDifference, labels: tuple[str, str]) -> str:
        """A unified diff of the modules at the first state in which they differ."""
        texts, names = [], []
        for label, side, i in zip(labels, self._sides, where.after, strict=True):
            one = side.dump.passes[i]
            texts.append(side.text(i))
            names.append(f"{label}, before {_name(one)} (pass {i})")
        return unified_diff(*texts, *names)

    def _difference(self, at: int, equal: Sequence[bool]) -> PassDifference:
        """What lies between the pair before `at` and the one at `at`, which differs (more)."""
        one, other = self._sides
        left, right = one.dump.passes, other.dump.passes
        i, j = self._pairs[at]
        lasts = not any(equal[at:])
        if at == 0:
            return PassDifference(None, left[i].stage, (), (), None, None, (i, j), lasts, False)
        before = self._pairs[at - 1]
        # The states just after the pass that both have. Where the order differed before, it is
        # the contents that part here.
        after = (before[0] + 1, before[1] + 1)
        if equal[at - 1]:
            by_it = one.digest(after[0]) != other.digest(after[1])
        else:
            by_it = one.contents(after[0]) != other.contents(after[1])
        only: list[tuple[str, ...]] = [(), ()]
        if not by_it:
            only = [one.changing(after[0], i), other.changing(after[1], j)]
        mine, theirs = left[before[0]].options, right[before[1]].options
        # Versions before 3.9 print no options.
        options = (mine, theirs) if by_it and mine and theirs and mine != theirs else None
        return PassDifference(
            _name(left[before[0]]) if by_it else None,
            left[before[0]].stage,
            only[0],
            only[1],
            options,
            before,
            after if by_it else (i, j),
            lasts,
            one.contents(i) == other.contents(j),
        )


class _States:
    """The states of a dump in their normal form; each is worked out once."""

    def __init__(self, dump: PassDump, older: bool) -> None:
        self.dump = dump
        self._older = older
        self._lines: dict[bytes, tuple[bytes, Counter[str]]] = {}
        self._keys: dict[int, bytes] = {}

    def text(self, index: int) -> str:
        """The module before a pass, in the spelling that both sides are given."""
        text = self.dump.text(index)
        return older_spelling(text) if self._older else text

    def digest(self, index: int) -> bytes:
        """Of the state before a pass."""
        return self._normal(index)[0]

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


def _name(one: Pass) -> str:
    return one.cli or one.name


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
