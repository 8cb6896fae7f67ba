"""Columns of profilers' CSV files: what all versions call them, and the numbers in their cells."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite

COLUMN_NAMES: Mapping[str, tuple[str, ...]] = {
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

UNREAD_COLUMNS: frozenset[str] = frozenset(
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


_TOO_LARGE = 2**64
"""Integers from here on are refused: an execution mask has 64 bits, all others have at most 63."""
_LONGEST_NUMBER = 64
"""Characters of a hexadecimal number that are read, so that a damaged cell cannot fill memory."""


def _is_plain(text: str) -> bool:
    """Whether text has none of what only Python takes for parts of numbers: `1_000`, `５`."""
    return text.isascii() and "_" not in text


def integer(text: str) -> int | None:
    """An integer written as `12`, `0x0c`, `12.000000` or `1.2e1`; None if empty.

    Raises:
        ValueError: it is no finite number, or does not fit 64 bits.
    """
    if not _is_plain(text):
        raise ValueError("no number")
    try:
        number = int(text)
    except ValueError:
        text = text.strip()
        if not text:
            return None
        if text[:2].lower() == "0x":
            number = int(text[:_LONGEST_NUMBER], 16)
        else:
            value = float(text)
            if not isfinite(value):
                raise
            number = round(value)
    if not -_TOO_LARGE < number < _TOO_LARGE:
        raise ValueError("no number of 64 bits")
    return number


def instant(text: str) -> int | None:
    """A timestamp in ns; None where it is empty, 0 (never taken) or was rounded by its writer.

    `8.1097E+14` has lost its last ten digits: the difference of two such times is no duration.

    Raises:
        ValueError: it is no number.
    """
    value = integer(text)
    if value is None or value <= 0:
        return None
    mantissa, letter, _ = text.lower().partition("e")
    if letter and len(re.sub(r"\D", "", mantissa)) < len(str(value)):
        return None
    return value


def real(text: str) -> float:
    """A number with a fraction, or an integer in any form that `integer` reads.

    Raises:
        ValueError: the text is no number, or empty.
    """
    if not _is_plain(text):
        raise ValueError("no number")
    try:
        return float(text)
    except ValueError:
        number = integer(text)
        if number is None:
            raise
        return float(number)
