"""Databases as profilers write them: rocprofv3's rocpd, and rocprof v1's `results.db`.

The forms are those of rocprofiler-sdk's table definitions; nothing in them was recorded.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from profile_files import (
    CPU_HANDLE,
    GPU_HANDLE,
    LOAD_BASE,
    STALL,
    Json,
    Program,
    counter_handles,
    sdk_agent,
)
from profile_traces import OldLaunch

_TABLES: Mapping[str, str] = {
    "metadata": "tag TEXT, value TEXT",
    "string": "string TEXT UNIQUE",
    "info_node": "hash BIGINT, machine_id TEXT, hostname TEXT",
    "info_process": "nid INTEGER, ppid INTEGER, pid INTEGER, init BIGINT, fini BIGINT, "
    "start BIGINT, end BIGINT, command TEXT, environment JSONB, extdata JSONB",
    "info_thread": "nid INTEGER, ppid INTEGER, pid INTEGER, tid INTEGER, name TEXT",
    "info_agent": "nid INTEGER, pid INTEGER, type TEXT, absolute_index INTEGER, "
    "logical_index INTEGER, type_index INTEGER, uuid INTEGER, name TEXT, model_name TEXT, "
    "vendor_name TEXT, product_name TEXT, user_name TEXT, extdata JSONB DEFAULT '{}'",
    "info_queue": "nid INTEGER, pid INTEGER, name TEXT",
    "info_stream": "nid INTEGER, pid INTEGER, name TEXT",
    "info_pmc": "nid INTEGER, pid INTEGER, agent_id INTEGER, target_arch TEXT, name TEXT, "
    "symbol TEXT, description TEXT, block TEXT, expression TEXT, is_constant INTEGER, "
    "is_derived INTEGER",
    "info_code_object": "nid INTEGER, pid INTEGER, agent_id INTEGER, uri TEXT, load_base BIGINT, "
    "load_size BIGINT, load_delta BIGINT, storage_type TEXT, extdata JSONB DEFAULT '{}'",
    "info_kernel_symbol": "nid INTEGER, pid INTEGER, code_object_id INTEGER, kernel_name TEXT, "
    "display_name TEXT, kernel_object INTEGER, group_segment_size INTEGER, "
    "private_segment_size INTEGER, sgpr_count INTEGER, arch_vgpr_count INTEGER, "
    "accum_vgpr_count INTEGER, extdata JSONB DEFAULT '{}'",
    "event": "category_id INTEGER, stack_id INTEGER, parent_stack_id INTEGER, "
    "correlation_id INTEGER, extdata JSONB DEFAULT '{}'",
    "pmc_event": "event_id INTEGER, pmc_id INTEGER, value REAL, extdata JSONB DEFAULT '{}'",
    "kernel_dispatch": "nid INTEGER, pid INTEGER, tid INTEGER, agent_id INTEGER, "
    "kernel_id INTEGER, dispatch_id INTEGER, queue_id INTEGER, stream_id INTEGER, start BIGINT, "
    "end BIGINT, private_segment_size INTEGER, group_segment_size INTEGER, "
    "workgroup_size_x INTEGER, workgroup_size_y INTEGER, workgroup_size_z INTEGER, "
    "grid_size_x INTEGER, grid_size_y INTEGER, grid_size_z INTEGER, region_name_id INTEGER, "
    "event_id INTEGER, extdata JSONB DEFAULT '{}'",
}

_TRACK = (
    "nid INTEGER, ppid INTEGER, pid INTEGER, tid INTEGER, agent_id INTEGER, queue_id INTEGER, "
    "stream_id INTEGER, name_id INTEGER"
)
_SAMPLED = (
    "method TEXT, timestamp BIGINT, exec_mask TEXT, dispatch_id INTEGER, instruction TEXT, "
    "instruction_comment TEXT, correlation_id INTEGER, wave_issued_instruction INTEGER, "
    "instruction_type TEXT, stall_reason TEXT, wave_count INTEGER"
)
_PLACED = ("nid", "pid", "tid", "agent_id", "queue_id", "stream_id")


def rocpd_views(uuids: Sequence[str], tables: Iterable[str]) -> str:
    """The views by which a rocpd file hides its uuids, and the one that rocprofv3 reports from."""
    text = ""
    for table in tables:
        union = " UNION ALL ".join(f'SELECT * FROM "rocpd_{table}{uuid}"' for uuid in uuids)
        text += f"CREATE VIEW rocpd_{table} AS {union};\n"
    return text + (
        "CREATE VIEW kernels AS SELECT S.display_name AS name, P.pid AS pid, "
        "A.absolute_index AS agent_abs_index, K.dispatch_id, K.kernel_id, K.start, K.end, "
        "K.end - K.start AS duration, K.group_segment_size AS lds_size, "
        "S.arch_vgpr_count AS vgpr_count FROM rocpd_kernel_dispatch K "
        "JOIN rocpd_info_kernel_symbol S ON S.id = K.kernel_id AND S.guid = K.guid "
        "JOIN rocpd_info_process P ON P.id = K.pid AND P.guid = K.guid "
        "JOIN rocpd_info_agent A ON A.id = K.agent_id AND A.guid = K.guid;\n"
        "CREATE VIEW counters_collection AS SELECT P.pid AS pid, K.dispatch_id, "
        "I.name AS counter_name, SUM(E.value) AS value FROM rocpd_pmc_event E "
        "JOIN rocpd_info_pmc I ON I.id = E.pmc_id AND I.guid = E.guid "
        "JOIN rocpd_kernel_dispatch K ON K.event_id = E.event_id AND K.guid = E.guid "
        "JOIN rocpd_info_process P ON P.id = K.pid AND P.guid = K.guid "
        "GROUP BY E.guid, K.dispatch_id, I.name;\n"
    )


def write_rocpd(
    path: Path, *programs: Program, schema: str = "3", views: bool = True, samples: bool = False
) -> Path:
    """A rocprofv3 database: one set of tables per process.

    Args:
        path: of the file.
        programs: the processes.
        schema: "3" as SDK 1.0 writes it, "4" as newer ones do: where a dispatch ran is a track.
        views: whether the views are there; `rocpd merge` and copies may lack them.
        samples: whether PC samples are in it, in the table that newer versions have.
    """
    tables = dict(_TABLES)
    if schema == "4":
        tables["track"] = _TRACK
        columns = [c for c in tables["kernel_dispatch"].split(", ") if c.split()[0] not in _PLACED]
        tables["kernel_dispatch"] = ", ".join(["track_id INTEGER", *columns])
    if samples:
        tables["pc_sampling"] = _SAMPLED
    uuids = [f"_0190_{what.pid:08x}" for what in programs]
    with sqlite3.connect(path) as base:
        for uuid, what in zip(uuids, programs, strict=True):
            guid = uuid.strip("_").replace("_", "-")
            for table, columns_of in tables.items():
                base.execute(
                    f'CREATE TABLE "rocpd_{table}{uuid}" '
                    f"(id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, "
                    f"guid TEXT DEFAULT '{guid}' NOT NULL, {columns_of})"
                )
            _fill(base, uuid, what, schema, samples)
        if views:
            base.executescript(rocpd_views(uuids, tables))
    base.close()
    return path


def _insert(base: sqlite3.Connection, table: str, **row: Any) -> None:
    names = ", ".join(f'"{name}"' for name in row)
    marks = ", ".join("?" * len(row))
    base.execute(f'INSERT INTO "{table}" ({names}) VALUES ({marks})', list(row.values()))


def _fill(base: sqlite3.Connection, uuid: str, what: Program, schema: str, samples: bool) -> None:
    pid, where = what.pid, {"nid": 77, "pid": what.pid}

    def add(table: str, **row: Any) -> None:
        _insert(base, f"rocpd_{table}{uuid}", **row)

    add("metadata", tag="schema_version", value=schema)
    add("info_node", id=77, hash=1, machine_id="m", hostname="h")
    add("info_process", id=pid, nid=77, pid=pid, command="python gemm.py", environment="{}")
    add("string", id=1, string="KERNEL_DISPATCH")
    cpu, gpu = sdk_agent(0, CPU_HANDLE, None), sdk_agent(what.node, GPU_HANDLE, what.arch)
    for kind, about in (("CPU", cpu), ("GPU", gpu)):
        node = about["node_id"]
        add(
            "info_agent",
            **where,
            id=node,
            type=kind,
            absolute_index=node,
            name=about["name"],
            product_name=about["product_name"],
            extdata=json.dumps(about),
        )
    for number in sorted({kernel.code_object for kernel in what.kernels}):
        base_address = LOAD_BASE + 0x10_0000 * number
        add(
            "info_code_object",
            **where,
            id=number,
            agent_id=what.node,
            uri=f"memory://{pid}#offset=0x55d{number:03x}000&size=9000",
            load_base=base_address,
            load_size=0x8000,
            load_delta=base_address,
        )
    for kernel in what.kernels:
        add(
            "info_kernel_symbol",
            **where,
            id=kernel.kernel_id,
            code_object_id=kernel.code_object,
            kernel_name=f"{kernel.mangled or kernel.name}.kd",
            display_name=kernel.name,
            sgpr_count=kernel.sgpr,
            arch_vgpr_count=kernel.vgpr,
            accum_vgpr_count=kernel.accum_vgpr,
        )
    handles = counter_handles(what.launches)
    for name, handle in handles.items():
        add("info_pmc", **where, id=handle, agent_id=what.node, name=name, symbol=name)
    placed = where | {"tid": pid, "agent_id": what.node, "queue_id": 1, "stream_id": 0}
    if schema == "4":
        add("track", id=5, **placed)
        placed = {"track_id": 5}
    for launch in what.launches:
        event = 100 + launch.number
        add("event", id=event, category_id=1)
        sizes: Json = {}
        for axis, group, grid in zip("xyz", launch.workgroup, launch.grid, strict=True):
            sizes |= {f"workgroup_size_{axis}": group, f"grid_size_{axis}": grid}
        add(
            "kernel_dispatch",
            **placed,
            **sizes,
            id=launch.number,
            kernel_id=launch.kernel,
            dispatch_id=launch.number,
            start=launch.start,
            end=launch.end,
            private_segment_size=launch.scratch,
            group_segment_size=launch.lds,
            region_name_id=1,
            event_id=event,
        )
        for name, values in launch.counters.items():
            for value in values:
                add("pmc_event", event_id=event, pmc_id=handles[name], value=value)
    for sample in what.samples if samples else ():
        text, line = (
            what.instructions[sample.instruction] if sample.instruction >= 0 else (None,) * 2
        )
        more: Json = {}
        if sample.issued is not None:
            more = {
                "wave_issued_instruction": int(sample.issued),
                "stall_reason": STALL + sample.why,
            }
        add(
            "pc_sampling",
            method="host_trap" if sample.issued is None else "stochastic",
            exec_mask=f"{sample.mask:#x}",
            dispatch_id=sample.dispatch,
            instruction=text,
            instruction_comment=line,
            **more,
        )


def write_v1_db(path: Path, launches: Sequence[OldLaunch], pid: int = 517) -> Path:
    """rocprof v1's `results.db`."""
    common = '"BeginNs" INTEGER, "EndNs" INTEGER'
    device = (
        f'{common}, "dev-id" INTEGER, "queue-id" INTEGER, "Name" TEXT, "pid" INTEGER, '
        '"tid" INTEGER, "roctx-range" TEXT, "stream-id" INTEGER, "Index" INTEGER, "Data" TEXT, '
        '"__section" INTEGER, "__lane" INTEGER, "DurationNs" INTEGER'
    )
    with sqlite3.connect(path) as base:
        base.execute(f"CREATE TABLE OPS ({device})")
        base.execute(f"CREATE TABLE COPY ({device})")
        base.execute(f'CREATE TABLE HIP ({common}, "pid" INTEGER, "Name" TEXT)')
        base.execute('CREATE TABLE KERN ("Index" INTEGER, "KernelName" TEXT)')
        for index, launch in enumerate(launches):
            row: Json = {
                "BeginNs": launch.begin,
                "EndNs": launch.end,
                "dev-id": launch.device,
                "queue-id": launch.queue,
                "Name": launch.name,
                "pid": pid,
                "tid": pid,
                "Index": index,
                "DurationNs": launch.end - launch.begin,
            }
            _insert(base, "OPS", **row)
        _insert(base, "COPY", Name="CopyHostToDevice", BeginNs=1, EndNs=2)
    base.close()
    return path
