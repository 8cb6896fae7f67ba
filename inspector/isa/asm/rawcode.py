"""Functions as they are read, before padding is cut and control flow is known."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from ...model import OpInfo, SourceLoc, Unread
from ..mnemonics import flow_of

Row = tuple[int, str, str, str, OpInfo, str, SourceLoc | None, int | None]
"""An instruction: line, mnemonic, operands, comment, op, class, location, address."""

# The indices of a row's fields, one by one, so that type checkers know their types.
LINE: Final = 0
MNEMONIC: Final = 1
OPERANDS: Final = 2
COMMENT: Final = 3
OP: Final = 4
CLS: Final = 5
LOC: Final = 6
ADDRESS: Final = 7

FILLER = frozenset({"s_nop", "s_code_end"})
"""Instructions that assemblers and linkers fill gaps with."""


def _row_of(label: tuple[str, int]) -> int:
    return label[1]


class RawFunction(Struct):
    """The rows of one function and what was read with them.

    Args:
        name: the symbol, or `<line N>` where none stands before the code.
        line: the line it begins on.
        flow_rows: indices of the rows that may change the flow.
        labels: label -> index of the row that follows it.
        numbered: number of a local label (`1:`) -> rows; such labels may be set several times.
        line_last: the line it ends on.
        is_kernel: whether the text describes it as a kernel.
        unrecognised: lines that are no instructions.
        unread: what was not read of it.
        real_entry: the row at which the hardware begins, where that is not the first.
        targets: row of a branch -> row it goes to, where that is known already.
        notes: remarks for people.
        code_bytes: size of the code; None where it is not known.
        undecoded: words of code that stand as rows of their own.
    """

    name: str
    line: int
    rows: list[Row] = field(default_factory=list)
    flow_rows: list[int] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    numbered: dict[str, list[int]] = field(default_factory=dict)
    line_last: int = 0
    is_kernel: bool = False
    unrecognised: list[int] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    real_entry: int = 0
    targets: dict[int, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    code_bytes: int | None = None
    undecoded: int = 0

    def split(self, names: AbstractSet[str]) -> list[RawFunction]:
        """Cuts the function at its labels that are functions too; `names` are all functions."""
        # A loop over the labels, as there may be thousands of names and as many functions.
        cuts = sorted((i, n) for n, i in self.labels.items() if n in names and n != self.name)
        if not cuts:
            return [self]
        functions = []
        # Labels are in the order of the rows: each function takes those within its bounds.
        labels = sorted(self.labels.items(), key=_row_of)
        bounds = [(0, self.name), *cuts, (len(self.rows), "")]
        for (start, name), (stop, _) in pairwise(bounds):
            if start == stop and name == self.name:
                continue
            first_label = bisect_left(labels, start, key=_row_of)
            last_label = bisect_right(labels, stop, key=_row_of)
            function = self._part(name, start, stop)
            function.labels = {label: i - start for label, i in labels[first_label:last_label]}
            functions.append(function)
        if functions:
            functions[0].notes = self.notes
            functions[0].real_entry = self.real_entry
            for function in functions:
                function.unread = [
                    u
                    for u in self.unread
                    if any(function.line <= n <= function.line_last for n in u.lines)
                ]
            functions[-1].line_last = max(functions[-1].line_last, self.line_last)
        return functions

    def _part(self, name: str, start: int, stop: int) -> RawFunction:
        """The function of the rows `start:stop`, without its labels."""
        rows = self.rows[start:stop]
        part = RawFunction(name, rows[0][LINE] if rows else self.line, rows)
        part.line_last = rows[-1][LINE] if rows else part.line
        flow = slice(bisect_left(self.flow_rows, start), bisect_left(self.flow_rows, stop))
        part.flow_rows = [i - start for i in self.flow_rows[flow]]
        part.numbered = {
            label: [i - start for i in p[bisect_left(p, start) : bisect_right(p, stop)]]
            for label, p in self.numbered.items()
        }
        lines = self.unrecognised
        part.unrecognised = lines[
            bisect_left(lines, part.line) : bisect_right(lines, part.line_last)
        ]
        return part

    def without_padding(self, targets: Iterable[int]) -> tuple[RawFunction, Sequence[int]]:
        """Drops filler that control cannot reach: after a jump or end, up to a branch target.

        `targets`: the rows that branches go to.

        Returns:
            The function, and for each old row number the new one.
        """
        count = len(self.rows)
        padding = self._padding(set(targets))
        if not padding:
            return self, range(count + 1)
        rows: list[Row] = []
        new_index: list[int] = []
        position = 0
        for start, stop in padding:
            new_index.extend(range(len(rows), len(rows) + start - position))
            rows.extend(self.rows[position:start])
            new_index.extend([len(rows)] * (stop - start))
            position = stop
        new_index.extend(range(len(rows), len(rows) + count - position + 1))
        rows.extend(self.rows[position:])
        flow_rows = [
            i for i in self.flow_rows if self.rows[i] is rows[min(new_index[i], len(rows) - 1)]
        ]
        result = replace(
            self,
            rows=rows,
            flow_rows=[new_index[i] for i in flow_rows],
            real_entry=new_index[self.real_entry],
            labels={label: new_index[i] for label, i in self.labels.items()},
            numbered={k: [new_index[i] for i in v] for k, v in self.numbered.items()},
        )
        return result, new_index

    def _padding(self, targets: AbstractSet[int]) -> list[tuple[int, int]]:
        """(start, stop) of each run of filler that control cannot reach, ascending."""
        count = len(self.rows)
        padding: list[tuple[int, int]] = []
        for i in self.flow_rows:
            row = self.rows[i]
            if flow_of(row[OP], row[OPERANDS]).falls_through:
                continue
            stop = i + 1
            while stop < count and stop not in targets and self.rows[stop][MNEMONIC] in FILLER:
                stop += 1
            if stop > i + 1:
                padding.append((i + 1, stop))
        tail = count
        while tail and tail - 1 not in targets and self.rows[tail - 1][MNEMONIC] == "s_code_end":
            tail -= 1
        covered = padding[-1][1] if padding else 0
        if max(tail, covered) < count:
            padding.append((max(tail, covered), count))
        return padding
