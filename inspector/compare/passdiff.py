"""Finds the pass after which two MLIR dumps of one kernel begin to differ."""

from __future__ import annotations

import difflib
import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ..compile.mlir_content import Content, changed_lines, content_of
from ..compile.mlir_text import VALUE, normal_mlir, older_spelling, spells_older, unified_diff
from ..compile.passes import CompilerPass, PassDump

_LAYOUT_READERS = frozenset(("symbol-dce", "convert-scf-to-cf"))
"""Passes that every version runs late in TTGIR, when layouts have been chosen."""

Kind = Literal["order", "attributes", "operations"]
"""In what two modules differ. `order`: only in the order of equal statements. `attributes`: in what
is printed of attributes, operands' types and pointer types. `operations`: in operations, their
operands, or the types of their results."""
_KIND_SUFFIX: dict[Kind, str] = {
    "order": " (the order of operations alone)",
    "attributes": " (attributes alone)",
}
_LEVELS: dict[Kind | None, int] = {None: 0, "order": 1, "attributes": 2, "operations": 2}
"""Rank of a difference. Attributes rank as high as operations: the first pass that changes contents
may set only an attribute (`loop.stage`) that a later pass acts on."""


class PassDifference(Struct, frozen=True):
    """A place in two dumps where the modules begin to differ.

    Args:
        name: the pass after which they differ, as on the command line; None where the difference
            comes from passes that only one side runs, or where the input is printed differently.
        left_only, right_only: passes that only one side runs there and that changed something.
        options: the pass's options on both sides where they differ, else None.
        before, after: the pairs of passes, by index, before which the states were last the same
            (None: never) and first differ. The index of a dump's end is its number of passes.
        lasts: whether the modules stay different to the end of the stage.
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
        """Whether the modules there have the same statements in another order."""
        return self.kind == "order"

    def words(self, left: str, right: str) -> str:
        """The cause of the difference and its kind, in words."""
        kind_suffix = "" if self.before is None else _KIND_SUFFIX.get(self.kind, "")
        return self.made_by(left, right) + kind_suffix

    def made_by(self, left: str, right: str) -> str:
        """The cause of the difference in words; see `words` for the arguments."""
        if self.before is None:
            return "how each reads and prints the same input"
        causes = [
            f"{', '.join(dict.fromkeys(names))} (only in {label})"
            for label, names in ((left, self.left_only), (right, self.right_only))
            if names
        ]
        if self.name is not None:
            options = ", run with other options" if self.options is not None else ""
            numbers = f"(number {self.before[0]} and {self.before[1]})"
            causes.insert(0, f"pass {self.name} {numbers}{options}")
        return " or ".join(causes) if causes else "passes that cannot be told apart"


class PassStep(Struct, frozen=True):
    """The state of two modules after a pass that both run.

    Args:
        left, right: how many operations only that side has then; order and values' names do not
            count.
    """

    name: str
    indices: tuple[int, int]
    left: int
    right: int


class Dumps:
    """Two pass dumps of one kernel, over the passes of one stage.

    Args:
        stage: the first stage whose artifacts differ. Differences that disappear before the end of
            an earlier stage do not count.
        printed_alike: whether the same version of Triton printed both. Versions print attributes
            and pointer types in different ways, which do not count if this is false.
    """

    def __init__(
        self, left: PassDump, right: PassDump, stage: str, *, printed_alike: bool = True
    ) -> None:
        older = _spells_older(left) != _spells_older(right)
        self._sides = (_States(left, older), _States(right, older))
        self._pairs = _of_stage(left.passes, right.passes, stage)
        self._printed_alike = printed_alike

    def differences(self) -> tuple[PassDifference, ...]:
        """Finds where the dumps begin to differ.

        Returns:
            In order, each place once: where they first differ; where the difference that lasts to
            the end of the stage begins; and where one that lasts and is more than the order of
            statements begins. Empty where the dumps agree at the end of the stage.
        """
        ranks = [self._rank(pair) for pair in self._pairs]
        if not ranks or not ranks[-1]:
            return ()
        # Differences that earlier stages left behind are not this stage's.
        inherited = ranks[0] if self._pairs[0] != (0, 0) and ranks[0] < ranks[-1] else 0
        places = {next(index for index, rank in enumerate(ranks) if rank > inherited)}
        for least in range(inherited + 1, ranks[-1] + 1):
            places.add(_last_beginning([rank < least for rank in ranks]))
        return tuple(self._difference(index, ranks) for index in sorted(places))

    def _rank(self, pair: tuple[int, int]) -> int:
        """Returns 0 for equal states, 1 if only the order differs, 2 if the contents do."""
        return _LEVELS[self._kind(pair)]

    def _kind(self, pair: tuple[int, int]) -> Kind | None:
        """Returns the kind of difference of two states; None for equal ones."""
        (left, right), (i, j) = self._sides, pair
        if left.digest(i) == right.digest(j):
            return None
        return kind_of(left.content(i), right.content(j), printed_alike=self._printed_alike)

    def steps(self) -> tuple[PassStep, ...]:
        """Counts, after each pass that both run, the operations that only one side has."""
        left, right = self._sides
        steps = []
        for i, j in self._pairs[:-1]:
            left_lines, right_lines = left.line_counts(i + 1), right.line_counts(j + 1)
            left_only, right_only = left_lines - right_lines, right_lines - left_lines
            name = name_of(left.dump.passes[i])
            steps.append(PassStep(name, (i, j), left_only.total(), right_only.total()))
        return tuple(steps)

    def excerpt(self, where: PassDifference, labels: tuple[str, str]) -> str:
        """Returns a unified diff of the modules at the first state in which they differ.

        Hunks with a lesser difference than the modules' (only in order, say) are left out.
        """
        texts, names = [], []
        for label, side, i in zip(labels, self._sides, where.after, strict=True):
            next_pass = side.dump.passes[i]
            texts.append(side.text(i))
            names.append(f"{label}, before {name_of(next_pass)} (pass {i})")
        (left, right), (i, j) = self._sides, where.after
        return unified_diff_of(
            texts[0],
            texts[1],
            (names[0], names[1]),
            where.kind,
            (left.content(i), right.content(j)),
        )

    def _difference(self, pair_index: int, ranks: Sequence[int]) -> PassDifference:
        """The difference that appears, or grows, between two neighbouring pairs of passes."""
        left, right = self._sides
        left_index, right_index = pair = self._pairs[pair_index]
        at_pair = PassDifference(
            name=None,
            stage=left.dump.passes[left_index].stage,
            left_only=(),
            right_only=(),
            options=None,
            before=None,
            after=pair,
            lasts=all(ranks[pair_index:]),
            kind=self._kind(pair) or "operations",
        )
        if pair_index == 0:
            return at_pair
        last_pair = self._pairs[pair_index - 1]
        left_pass, right_pass = left.dump.passes[last_pair[0]], right.dump.passes[last_pair[1]]
        after_last = replace(at_pair, stage=left_pass.stage, before=last_pair)
        # The states just after the earlier pass, which both run: do they already differ more?
        next_pair = (last_pair[0] + 1, last_pair[1] + 1)
        if self._rank(next_pair) > ranks[pair_index - 1]:
            return replace(
                after_last,
                name=name_of(left_pass),
                options=different_options(left_pass, right_pass),
                after=next_pair,
                kind=self._kind(next_pair) or at_pair.kind,
            )
        return replace(
            after_last,
            left_only=left.changing(next_pair[0], left_index),
            right_only=right.changing(next_pair[1], right_index),
        )


def different_options(left: CompilerPass, right: CompilerPass) -> tuple[str, str] | None:
    """Returns the options of a pass on both sides; None if they are equal or not printed."""
    if left.options and right.options and left.options != right.options:
        return left.options, right.options
    return None  # versions before 3.9 print none


def kind_of(left: Content, right: Content, *, printed_alike: bool) -> Kind | None:
    """Returns the kind of difference of two texts; None if the difference does not count.

    Args:
        left: the statements of one text; the normal forms of both are different.
    """
    if left.bare != right.bare:
        return "operations"
    if printed_alike:
        return "order" if left.full == right.full else "attributes"
    return None if left.bare_digest == right.bare_digest else "order"


def unified_diff_of(
    left: str,
    right: str,
    labels: tuple[str, str],
    kind: Kind,
    contents: tuple[Content, Content],
) -> str:
    """Returns a unified diff without the hunks whose difference is less than `kind`."""
    diff = unified_diff(left, right, *labels)
    if kind == "order":
        return diff
    removed, added = changed_lines(*contents, bare=kind == "operations")
    hunks = list(_hunks(diff))
    relevant = [
        hunk
        for hunk in hunks[1:]
        if any(line[1:].strip() in {"-": removed, "+": added}.get(line[:1], ()) for line in hunk)
    ]
    shown_hunks = [hunks[0], *relevant] if relevant else hunks
    return "".join(f"{line}\n" for hunk in shown_hunks for line in hunk)


def _hunks(diff: str) -> Iterator[list[str]]:
    """Yields the lines of a unified diff: first the two with the names, then those of each hunk."""
    hunk: list[str] = []
    for line in diff.splitlines():
        if line.startswith("@@"):
            yield hunk
            hunk = []
        hunk.append(line)
    yield hunk


class _States:
    """The states of a dump in normal form; each is computed once."""

    def __init__(self, dump: PassDump, older: bool) -> None:
        self.dump = dump
        self._older = older
        self._lines: dict[bytes, tuple[bytes, Counter[str]]] = {}
        self._contents: dict[bytes, Content] = {}
        self._keys: dict[int, bytes] = {}

    def text(self, index: int) -> str:
        """Returns the module before a pass, in the older spelling if the other side has that."""
        text = self.dump.text(index)
        return older_spelling(text) if self._older else text

    def digest(self, index: int) -> bytes:
        """Returns a hash of the normal form of the state before a pass."""
        return self._normal(index)[0]

    def content(self, index: int) -> Content:
        """Returns the statements of the state before a pass, by their data flow."""
        self._normal(index)
        key = self._keys[index]
        if key not in self._contents:
            self._contents[key] = content_of(self.text(index))
        return self._contents[key]

    def line_counts(self, index: int) -> Counter[str]:
        """Counts the lines of the state before a pass; values' names are left out."""
        return self._normal(index)[1]

    def changing(self, start: int, stop: int) -> tuple[str, ...]:
        """Returns the names of the passes of a range that change something."""
        return tuple(
            name_of(self.dump.passes[index])
            for index in range(start, stop)
            if self.digest(index) != self.digest(index + 1)
        )

    def _normal(self, index: int) -> tuple[bytes, Counter[str]]:
        """Returns digest and lines of the state before a pass, see `digest` and `line_counts`."""
        if index not in self._keys:
            text = self.text(index).strip()
            # Most passes change nothing, so that many states share one text.
            key = self._keys[index] = _sha(text)
            if key not in self._lines:
                normal = normal_mlir(text)
                lines = Counter(line.strip() for line in VALUE.sub("%", normal).splitlines())
                self._lines[key] = (_sha(normal), lines)
        return self._lines[self._keys[index]]


def _sha(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _last_beginning(equal: Sequence[bool]) -> int:
    """Returns the index at which the run of unequal pairs that lasts to the end begins."""
    index = len(equal) - 1
    while index > 0 and not equal[index - 1]:
        index -= 1
    return index


def name_of(pass_: CompilerPass) -> str:
    """Returns a pass's name on the command line, or its class where the dump has none."""
    return pass_.cli or pass_.name


def aligned(left: Sequence[CompilerPass], right: Sequence[CompilerPass]) -> list[tuple[int, int]]:
    """Pairs the passes of the same name, stage and operation, in order."""
    keys = [
        [(pass_.stage, name_of(pass_), pass_.function) for pass_ in side] for side in (left, right)
    ]
    matcher = difflib.SequenceMatcher(None, keys[0], keys[1], autojunk=False)
    return [
        (block.a + offset, block.b + offset)
        for block in matcher.get_matching_blocks()
        for offset in range(block.size)
    ]


def _of_stage(
    left: Sequence[CompilerPass], right: Sequence[CompilerPass], stage: str
) -> list[tuple[int, int]]:
    """Returns the pairs of a stage and the next one, whose state is the stage's result."""
    pairs = aligned(left, right)
    inside = [
        number
        for number, (left_index, right_index) in enumerate(pairs)
        if stage in (left[left_index].stage, right[right_index].stage)
    ]
    return pairs[inside[0] : inside[-1] + 2] if inside else []


def _spells_older(dump: PassDump) -> bool:
    return any(spells_older(dump.text(p.index)) for p in dump.passes if p.cli in _LAYOUT_READERS)
