"""Columns of profilers' CSV files: what they are called in all versions, and single ones taken out.

A profiler quotes each column either always or never. A row that is cut at its quotes falls into
quoted cells and runs of unquoted ones; a run is cut at its commas only as far as it is asked for.
Faster by half than the csv module, and nothing is assumed: what differs from the first row's form
is left to that module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

# --------------------------------------------------------------------------- names

FIELDS: Mapping[str, tuple[str, ...]] = {
    "name": ("kernelname",),
    "kernel_id": ("kernelid",),
    "agent": ("agentid", "gpuid"),
    "process": ("processid", "pid"),
    "guid": ("guid",),
    "number": ("dispatchid", "index"),
    "queue": ("queueid",),
    "start": ("starttimestamp", "beginns"),
    "end": ("endtimestamp", "endns"),
    "lds": ("ldsblocksize", "groupsegmentsize", "ldsperworkgroup", "lds"),
    "scratch": ("scratchsize", "privatesegmentsize", "scratchperworkitem", "scr"),
    "vgpr": ("vgprcount", "archvgprcount", "archvgpr", "vgpr"),
    "accum_vgpr": ("accumvgprcount", "accumvgpr"),
    "sgpr": ("sgprcount", "sgpr"),
    "wave_size": ("wavesize",),
    "workgroup_x": ("workgroupsizex",),
    "workgroup_y": ("workgroupsizey",),
    "workgroup_z": ("workgroupsizez",),
    "workgroup_size": ("workgroupsize", "wgr"),
    "grid_x": ("gridsizex",),
    "grid_y": ("gridsizey",),
    "grid_z": ("gridsizez",),
    "grid_size": ("gridsize", "grd"),
    "counter": ("countername",),
    "value": ("countervalue",),
    "xcc": ("xccindex",),
    "mask": ("execmask",),
    "instruction": ("instruction",),
    "comment": ("instructioncomment",),
    "issued": ("waveissuedinstruction",),
    "reason": ("stallreason",),
    "label": ("name",),  # of statistics: a kernel or a function
    "direction": ("direction",),
    "calls": ("calls",),
    "domain": ("domain",),
    "total_ns": ("totaldurationns", "durationnsec"),
    "mean_ns": ("averagens", "averagensec"),
    "min_ns": ("minns", "minnsec"),
    "max_ns": ("maxns", "maxnsec"),
}
"""Our names of columns, and theirs in all versions, the preferred first (folded: `fold`)."""

SILENT: frozenset[str] = frozenset(
    {
        "kind", "streamid", "threadid", "correlationid", "tid", "pid", "queueindex", "sig", "obj",
        "dispatchns", "completens", "durationns", "fbar", "percentage", "stddev", "sampletimestamp",
        "instructiontype", "wavecount", "node", "",
    }
)  # fmt: skip
"""Columns that every version writes and that are not read."""


def fold(name: str) -> str:
    """Removes case and punctuation of a column's name: `Kernel_Name` and `KernelName` are one."""
    return re.sub(r"[^a-z0-9\[\]]", "", name.lower())


# --------------------------------------------------------------------------- layout

_CELL = re.compile(r'(?:^|,)("[^"]*"|[^",]*)(?=,|$)')


class _Run(Struct):
    """Unquoted cells between two quotes: the text at `part` is cut at commas, and pieces picked."""

    part: int
    cells: int
    leading: bool  # whether a comma stands before the first cell
    trailing: bool  # whether one stands behind the last cell
    limit: int = -1  # how many commas to cut at; -1 for all
    picks: tuple[int, ...] = ()  # indices of the pieces to take
    uncut_cells: int = 0  # cells in the last piece, which is part of the key as a text

    @property
    def pieces(self) -> int:
        """How many pieces the text of a complete row is cut into."""
        return self.limit + 1 if self.limit >= 0 else self.cells + self.leading + self.trailing


class Layout(Struct):
    """How a table's rows are quoted, and which of their cells to take.

    `singles` says in which group each column asked for by itself comes, `key` which groups together
    are the key's text.
    """

    singles: dict[str, int]
    key: tuple[int, ...]
    _parts: int  # of a row cut at quotes
    _steps: tuple[int | _Run, ...]
    _checked: dict[int, set[str]] = field(default_factory=dict)  # part -> uncut texts that fit

    @classmethod
    def of(
        cls, line: str, width: int, singles: Mapping[str, int], keys: frozenset[int]
    ) -> Layout | None:
        """Determines the layout of rows like `line`; returns None if it has not `width` columns.

        Args:
            line: a row.
            width: columns of the table.
            singles: columns to take by themselves, by name.
            keys: columns that make up the key; they may be among the singles.
        """
        cells = _CELL.findall(line)
        if len(cells) != width or width < 2 or not (singles or keys):
            return None
        name_of = {column: name for name, column in singles.items()}
        group_of: dict[str, int] = {}
        key: list[int] = []
        steps: list[int | _Run] = []
        groups = 0
        part = 0
        column = 0
        while column <= width:
            run_end = column
            while run_end < width and not cells[run_end].startswith('"'):
                run_end += 1
            step = _Run(
                part,
                run_end - column,
                part > 0 and run_end > column,
                run_end < width and run_end > column,
            )
            key_start = run_end
            while key_start > column and key_start - 1 in keys and key_start - 1 not in name_of:
                key_start -= 1
            picks = []
            for cell in range(column, key_start if run_end - key_start > 1 else run_end):
                if cell in name_of or cell in keys:
                    picks.append(cell - column + step.leading)
                    if cell in name_of:
                        group_of[name_of[cell]] = groups
                    if cell in keys:
                        key.append(groups)
                    groups += 1
            if run_end - key_start > 1:
                step.uncut_cells = run_end - key_start
                step.limit = key_start - column + step.leading
                picks.append(step.limit)
                key.append(groups)
                groups += 1
            step.picks = tuple(picks)
            steps.append(step)
            if run_end == width:
                part += 1
                break
            if run_end in name_of or run_end in keys:
                steps.append(part + 1)
                if run_end in name_of:
                    group_of[name_of[run_end]] = groups
                if run_end in keys:
                    key.append(groups)
                groups += 1
            part += 2
            column = run_end + 1
        return cls(group_of, tuple(key), part, tuple(steps))

    def groups(self, lines: Sequence[str]) -> list[tuple[str, ...]] | None:
        """Takes the cells of many lines, group by group; returns None if a line is of another form.

        Lines hold no carriage returns.
        """
        parts = [line.split('"') for line in lines]
        if set(map(len, parts)) != {self._parts}:
            return None
        columns = list(zip(*parts, strict=True))
        groups: list[tuple[str, ...]] = []
        for step in self._steps:
            if isinstance(step, int):
                groups.append(columns[step])
                continue
            column = columns[step.part]
            if not step.cells:
                ends = step.part in (0, self._parts - 1)
                if set(column) != {"" if ends else ","}:
                    return None
                continue
            cut = [text.split(",", step.limit) for text in column]
            if set(map(len, cut)) != {step.pieces}:
                return None
            pieces = list(zip(*cut, strict=True))
            if step.leading and set(pieces[0]) != {""}:
                return None
            if step.uncut_cells:
                if not self._have_all_cells(step, pieces[-1]):
                    return None
            elif step.trailing and set(pieces[-1]) != {""}:
                return None
            groups.extend(pieces[pick] for pick in step.picks)
        return groups

    def _have_all_cells(self, step: _Run, texts: tuple[str, ...]) -> bool:
        """Tells whether uncut texts have as many cells as they should."""
        checked = self._checked.setdefault(step.part, set())
        for text in set(texts) - checked:
            if text.count(",") != step.uncut_cells - 1 + step.trailing:
                return False
            if step.trailing and not text.endswith(","):
                return False
            checked.add(text)
        return True
