"""What the columns of profilers' CSV files are called, in all versions."""

from __future__ import annotations

import re
from collections.abc import Mapping

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
"""Columns that every version knows and that nothing here asks for."""


def fold(name: str) -> str:
    """A column's name without case and punctuation: `Kernel_Name` and `KernelName` are one."""
    return re.sub(r"[^a-z0-9\[\]]", "", name.lower())
