"""Functions while they are being read, before padding is cut and control flow is known."""

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

# One by one, so that type checkers know what stands at each.
LINE: Final = 0
MNEMONIC: Final = 1
OPERANDS: Final = 2
COMMENT: Final = 3
OP: Final = 4
CLS: Final = 5
LOC: Final = 6
ADDRESS: Final = 7

FILLER = frozenset({"s_nop", "s_code_end"})
"""What assemblers and linkers fill gaps between and after code with."""


def _row_of(label: tuple[str, int]) -> int:
    return label[1]


class RawFunction(Struct):
    """The rows of one function. `flow_rows` are the indices of rows that may change the flow.

    `labels` maps a label to the index of the row that follows it; `numbered` holds the positions
    of local labels (`1:`), which may be set anew. `sizes` is the byte count of a row's encoding
    where a disassembly shows it. `real_entry` is the row at which the hardware begins, if that is
    not the first; `targets` are branches whose target row is known already, row by row; `undecoded`
    counts the words of code that stand as rows of their own.
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
        """Cuts the function at those of its labels that turn out to be functions themselves."""
        # By its labels: there may be thousands of names, and as many functions.
        cuts = sorted((i, n) for n, i in self.labels.items() if n in names and n != self.name)
        if not cuts:
            return [self]
        parts = []
        # Labels were met in the order of the rows: parts take their share by its bounds.
        labels = sorted(self.labels.items(), key=_row_of)
        bounds = [(0, self.name), *cuts, (len(self.rows), "")]
        for (start, name), (stop, _) in pairwise(bounds):
            rows = self.rows[start:stop]
            if not rows and name == self.name:
                continue
            part = RawFunction(name, rows[0][LINE] if rows else self.line, rows)
            flow = slice(bisect_left(self.flow_rows, start), bisect_left(self.flow_rows, stop))
            part.flow_rows = [i - start for i in self.flow_rows[flow]]
            first = bisect_left(labels, start, key=_row_of)
            last = bisect_right(labels, stop, key=_row_of)
            part.labels = {k: i - start for k, i in labels[first:last]}
            part.numbered = {
                k: [i - start for i in p[bisect_left(p, start) : bisect_right(p, stop)]]
                for k, p in self.numbered.items()
            }
            part.line_last = rows[-1][LINE] if rows else part.line
            lines = self.unrecognised
            part.unrecognised = lines[
                bisect_left(lines, part.line) : bisect_right(lines, part.line_last)
            ]
            parts.append(part)
        if parts:
            parts[0].notes = self.notes
            parts[0].real_entry = self.real_entry
            for part in parts:
                part.unread = [
                    u for u in self.unread if any(part.line <= n <= part.line_last for n in u.lines)
                ]
            parts[-1].line_last = max(parts[-1].line_last, self.line_last)
        return parts

    def without_padding(self, targets: Iterable[int]) -> tuple[RawFunction, Sequence[int]]:
        """Drops filler that control cannot reach: after a jump or end, up to a branch target.

        Args:
            targets: the rows that branches go to.

        Returns:
            The function, and for each old row number the new one.
        """
        branch_targets = set(targets)
        count = len(self.rows)
        dropped: list[tuple[int, int]] = []
        for i in self.flow_rows:
            row = self.rows[i]
            if flow_of(row[OP], row[OPERANDS]).falls_through:
                continue
            stop = i + 1
            while (
                stop < count and stop not in branch_targets and self.rows[stop][MNEMONIC] in FILLER
            ):
                stop += 1
            if stop > i + 1:
                dropped.append((i + 1, stop))
        tail = count
        while (
            tail
            and tail - 1 not in branch_targets
            and self.rows[tail - 1][MNEMONIC] == "s_code_end"
        ):
            tail -= 1
        covered = dropped[-1][1] if dropped else 0
        if max(tail, covered) < count:
            dropped.append((max(tail, covered), count))
        if not dropped:
            return self, range(count + 1)
        rows: list[Row] = []
        moved: list[int] = []
        position = 0
        for start, stop in dropped:
            moved.extend(range(len(rows), len(rows) + start - position))
            rows.extend(self.rows[position:start])
            moved.extend([len(rows)] * (stop - start))
            position = stop
        moved.extend(range(len(rows), len(rows) + count - position + 1))
        rows.extend(self.rows[position:])
        flow_rows = [
            i for i in self.flow_rows if self.rows[i] is rows[min(moved[i], len(rows) - 1)]
        ]
        result = replace(
            self,
            rows=rows,
            flow_rows=[moved[i] for i in flow_rows],
            real_entry=moved[self.real_entry],
            labels={label: moved[i] for label, i in self.labels.items()},
            numbered={k: [moved[i] for i in v] for k, v in self.numbered.items()},
        )
        return result, moved
