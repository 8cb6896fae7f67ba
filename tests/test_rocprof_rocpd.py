"""rocprofv3's database against what SQLite's own views say, and rocprof v1's against a recording.

The rocpd files are made up; no recording in that format was at hand.
"""

from __future__ import annotations

import os
import sqlite3
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.model.recording import KernelShape, Recording
from kinspect.inspector.profile import reading
from kinspect.inspector.profile.readers import rocpd
from profile_bases import write_rocpd, write_v1_db
from profile_files import PcSample, program, write_results
from profile_traces import OldLaunch, write_v1_json


def imported(path: Path) -> Recording:
    return reading.read(path, ("results_json", "rocpd", "torch_trace"))


def rows_of(recording: Recording) -> list[tuple[KernelShape, int, int, int]]:
    table = recording.dispatches
    return [
        (recording.shapes[shape], number, start, end)
        for shape, number, start, end in zip(
            table.shape, table.number, table.start, table.end, strict=True
        )
    ]


def counters(recording: Recording) -> dict[tuple[int | None, int, str], float]:
    """Sums by process, dispatch id and counter."""
    found: dict[tuple[int | None, int, str], float] = defaultdict(float)
    values, rows = recording.values, rows_of(recording)
    for row, counter, value in zip(values.dispatch, values.counter, values.value, strict=True):
        shape, number, _, _ = rows[row]
        found[shape.process, number, recording.counters[counter]] += value
    return dict(found)


# --------------------------------------------------------------------------- what is in it


@pytest.mark.parametrize("processes", [(4242,), (4242, 4300)])
def test_the_same_as_its_views_say(tmp_path: Path, processes: tuple[int, ...]) -> None:
    path = write_rocpd(tmp_path / "1_results.db", *map(program, processes))
    with sqlite3.connect(path) as base:
        kernels = base.execute(
            "SELECT pid, dispatch_id, name, agent_abs_index, kernel_id, start, end, lds_size, "
            "vgpr_count FROM kernels ORDER BY pid, dispatch_id"
        ).fetchall()
        sums = base.execute("SELECT pid, dispatch_id, counter_name, value FROM counters_collection")
        expected = {(pid, number, name): value for pid, number, name, value in sums}
    base.close()
    recording = imported(path)
    assert recording.errors == ()
    assert len(kernels) == 9 * len(processes)
    assert kernels == sorted(
        (
            s.process,
            number,
            s.name,
            int(s.agent or -1),
            s.kernel_id,
            start,
            end,
            s.lds_bytes,
            s.vgpr,
        )
        for s, number, start, end in rows_of(recording)
    )
    assert counters(recording) == expected
    assert expected[4242, 9, "SQ_WAVES"] == 128.0


@pytest.mark.parametrize("schema", ["3", "4"])
@pytest.mark.parametrize("views", [True, False])
def test_the_same_as_the_json_of_the_run(tmp_path: Path, schema: str, views: bool) -> None:
    (tmp_path / "a").mkdir()
    what = (program(), program(4300))
    straight = imported(write_results(tmp_path / "a" / "1_results.json", *what))
    base = imported(write_rocpd(tmp_path / "1_results.db", *what, schema=schema, views=views))
    assert base.errors == ()
    assert base.shapes == straight.shapes
    assert base.dispatches == straight.dispatches
    assert base.agents == straight.agents
    assert base.code_objects == straight.code_objects
    assert base.command == straight.command
    assert counters(base) == counters(straight)
    assert dict(base.tool) == {"name": "rocprofv3", "rocpd schema": schema}


def test_samples_have_texts_and_no_addresses(tmp_path: Path) -> None:
    """Newer versions' table states the instruction; execution masks are hexadecimal text."""
    what = replace(program(), samples=[*program().samples, PcSample(1, 0, mask=0b101)])
    recording = imported(write_rocpd(tmp_path / "1_results.db", what, samples=True))
    assert recording.errors == ()
    trap, stalled, *_ = recording.samples
    assert (trap.place.text, trap.place.comment) == ("s_waitcnt vmcnt(0)", "gemm.py:17")
    assert (trap.count, trap.method, trap.issued, trap.lanes) == (3, "host_trap", None, 64.0)
    assert (trap.place.code_object, trap.place.offset) == (None, None)
    assert dict(stalled.reasons) == {"waitcnt": 1, "alu_dependency": 1}
    assert (stalled.count, stalled.issued) == (3, 1)
    assert {sample.lanes for sample in recording.samples} == {64.0, 136 / 3, 1.0, 2.0}


def test_samples_with_addresses(tmp_path: Path) -> None:
    path = write_rocpd(tmp_path / "1_results.db", program(), samples=True)
    with sqlite3.connect(path) as base:
        table = "rocpd_pc_sampling_0190_00001092"
        base.execute(f"ALTER TABLE {table} ADD COLUMN code_object_id INTEGER")
        base.execute(f"ALTER TABLE {table} ADD COLUMN code_object_offset INTEGER")
        base.execute(f"UPDATE {table} SET code_object_id = 1, code_object_offset = 16 * id")
    base.close()
    places = {sample.place.offset: sample.place for sample in imported(path).samples}
    assert set(places) == {16 * number for number in range(1, 8)}
    assert {place.code_object for place in places.values()} == {1}


def test_streamed_counters_are_not_the_dispatch_s(tmp_path: Path) -> None:
    """Schema 3.0.3: a value with a sample is one of many over time."""
    path = write_rocpd(tmp_path / "1_results.db", program())
    with sqlite3.connect(path) as base:
        base.execute("ALTER TABLE rocpd_pmc_event_0190_00001092 ADD COLUMN sample_id INTEGER")
        base.execute("UPDATE rocpd_pmc_event_0190_00001092 SET sample_id = 1 WHERE value = 28")
    base.close()
    assert counters(imported(path))[4242, 1, "SQ_WAVES"] == 100.0


def test_a_counter_whose_instances_lie_apart(tmp_path: Path) -> None:
    path = write_rocpd(tmp_path / "1_results.db", program())
    with sqlite3.connect(path) as base:
        base.execute(
            "INSERT INTO rocpd_pmc_event_0190_00001092 (event_id, pmc_id, value) "
            "VALUES (101, 1000, 5)"
        )
    base.close()
    assert counters(imported(path))[4242, 1, "SQ_WAVES"] == 133.0


# --------------------------------------------------------------------------- strange and damaged


def test_found_by_what_is_in_it(tmp_path: Path) -> None:
    ours = write_rocpd(tmp_path / "any name", program())
    old = write_v1_db(tmp_path / "old", [OldLaunch("k", 1, 2)])
    foreign = tmp_path / "foreign_results.db"
    with sqlite3.connect(foreign) as base:
        base.execute("CREATE TABLE rocpd_api (id INTEGER)")
    base.close()
    text = tmp_path / "text.db"
    text.write_text("SQLite format 3 is what this file is not of")
    files = [ours, old, foreign, text, tmp_path / "gone.db", tmp_path]
    assert [group.files for group in rocpd.find(files)] == [(ours,), (old,)]
    with pytest.raises(KinspectError, match="no recording of a known format"):
        imported(foreign)


def test_nothing_is_written(tmp_path: Path) -> None:
    path = write_rocpd(tmp_path / "1_results.db", program())
    before = path.read_bytes()
    path.chmod(0o444)
    tmp_path.chmod(0o555)
    try:
        assert len(imported(path).dispatches) == 9
    finally:
        tmp_path.chmod(0o755)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "1_results.db"
    path.touch()
    recording = imported(path)
    (error,) = recording.errors
    assert error.message == "1_results.db: is empty: nothing was written"
    assert "profile again" in error.hint


def test_a_damaged_table_leaves_the_others(tmp_path: Path) -> None:
    path = write_rocpd(tmp_path / "1_results.db", program())
    with sqlite3.connect(path) as base:
        ((page, size),) = base.execute(
            "SELECT rootpage, (SELECT page_size FROM pragma_page_size) FROM sqlite_master "
            "WHERE name = 'rocpd_pmc_event_0190_00001092'"
        )
    base.close()
    text = bytearray(path.read_bytes())
    text[(page - 1) * size : (page - 1) * size + 16] = b"\xff" * 16
    path.write_bytes(text)
    recording = imported(path)
    assert len(recording.dispatches) == 9
    assert len(recording.values) == 0
    (error,) = recording.errors
    assert error.message.startswith("1_results.db: counters could not be read to the end: ")


def test_while_it_is_being_written(tmp_path: Path) -> None:
    """A journal beside it: the writer has not ended. A write-ahead log: it is locked meanwhile."""
    path = write_rocpd(tmp_path / "1_results.db", program())
    writer = sqlite3.connect(path, isolation_level=None)
    try:
        writer.execute("BEGIN EXCLUSIVE")
        writer.execute("DELETE FROM rocpd_string_0190_00001092")
        assert (tmp_path / "1_results.db-journal").stat().st_size
        recording = imported(path)
        assert len(recording.dispatches) == 9
        assert [error.message for error in recording.errors] == [
            "1_results.db: its journal is still there: the last rows are missing"
        ]
        writer.execute("ROLLBACK")
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("PRAGMA locking_mode = EXCLUSIVE")
        writer.execute("DELETE FROM rocpd_string_0190_00001092")
        (error,) = imported(path).errors
        assert "locked" in error.message
        assert "wait until the profiled program has ended" in error.hint
    finally:
        writer.close()
    assert imported(path).errors == ()


def test_what_a_log_still_holds_is_read(tmp_path: Path) -> None:
    path = write_rocpd(tmp_path / "1_results.db", program())
    writer = sqlite3.connect(path, isolation_level=None)
    try:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("DELETE FROM rocpd_kernel_dispatch_0190_00001092 WHERE id > 4")
        recording = imported(path)
    finally:
        writer.close()
    assert len(recording.dispatches) == 4
    (error,) = recording.errors  # ten values for each dispatch that is gone
    assert error.message == "1_results.db: 50 rows without a kernel or counter, left out"


def test_missing_tables_and_columns(tmp_path: Path) -> None:
    path = write_rocpd(tmp_path / "1_results.db", program(), views=False)
    with sqlite3.connect(path) as base:
        for table in ("info_agent", "info_code_object", "metadata", "info_process"):
            base.execute(f"DROP TABLE rocpd_{table}_0190_00001092")
        for column in ("grid_size_z", "group_segment_size", "queue_id"):
            base.execute(f"ALTER TABLE rocpd_kernel_dispatch_0190_00001092 DROP COLUMN {column}")
    base.close()
    recording = imported(path)
    assert recording.errors == ()
    shape = recording.shapes[0]
    assert (shape.name, shape.process, shape.agent) == ("matmul_kernel", 4242, None)
    assert (shape.grid, shape.grid_size, shape.lds_bytes) == (None, None, None)
    assert shape.workgroup == (256, 1, 1)


def test_values_of_foreign_types(tmp_path: Path) -> None:
    path = write_rocpd(tmp_path / "1_results.db", program())
    with sqlite3.connect(path) as base:
        table = "rocpd_kernel_dispatch_0190_00001092"
        base.execute(f"UPDATE {table} SET start = 'soon', kernel_id = 99 WHERE id = 1")
        base.execute(f"UPDATE {table} SET start = 7.0, end = NULL WHERE id = 2")
        base.execute("UPDATE rocpd_info_agent_0190_00001092 SET extdata = '{'")
        base.execute("UPDATE rocpd_pmc_event_0190_00001092 SET value = 'x' WHERE id = 1")
    base.close()
    recording = imported(path)
    rows = rows_of(recording)
    assert (rows[0][0].name, rows[0][2]) == ("kernel 99", -1)
    assert rows[1][2:] == (7, -1)
    gpu = recording.agents[1]
    assert (gpu.arch, gpu.product, gpu.cus) == ("gfx942", "AMD Instinct MI300X", None)
    assert "1 rows without a kernel or counter" in recording.errors[0].message


# --------------------------------------------------------------------------- formats side by side


def test_a_run_in_two_formats_counts_once(tmp_path: Path) -> None:
    write_results(tmp_path / "1_results.json", program())
    write_rocpd(tmp_path / "1_results.db", program())
    write_rocpd(tmp_path / "2_results.db", program(4300))
    recording = imported(tmp_path)
    assert len(recording.dispatches) == 18
    assert [part.format for part in recording.parts] == ["rocprofv3 JSON", "rocpd", "rocpd"]
    assert recording.notes == ("1_results.db holds the same run as 1_results.json, which was read",)


def test_the_second_format_is_read_where_the_first_is_damaged(tmp_path: Path) -> None:
    path = write_results(tmp_path / "1_results.json", program())
    text = path.read_bytes()
    path.write_bytes(text[: text.index(b'"callback_records": {\n"counter_coll')])
    write_rocpd(tmp_path / "1_results.db", program())
    recording = imported(tmp_path)
    assert len(recording.dispatches) == 9
    assert "1_results.json, which is damaged" in recording.notes[0]


# --------------------------------------------------------------------------- rocprof v1


def test_rocprof_v1(tmp_path: Path) -> None:
    launches = [OldLaunch("void f<int>(int*)", 1_000, 3_500), OldLaunch("g", 4_000, 4_100, 0, 1)]
    recording = imported(write_v1_db(tmp_path / "results.db", launches))
    assert recording.errors == ()
    assert [
        (s.name, s.agent, s.process, start, end) for s, _, start, end in rows_of(recording)
    ] == [("void f<int>(int*)", "2", 517, 1_000, 3_500), ("g", "0", 517, 4_000, 4_100)]
    assert list(recording.dispatches.queue) == [0, 1]
    assert dict(recording.tool) == {"name": "rocprof v1"}
    assert recording.parts[0].format == "rocprof v1 database"
    write_v1_json(tmp_path / "results.json", launches)
    assert len(imported(tmp_path).dispatches) == 2


def test_a_recording_of_rocprof_v1() -> None:
    """Its own results.stats.csv says: elementwise_kernel, 1 call, 5280 ns in total."""
    named = os.environ.get("KINSPECT_SAMPLES")
    found = sorted(Path(named).rglob("HIP_trace/results.db")) if named else []
    if not found:
        pytest.skip("KINSPECT_SAMPLES names no folder with a recording of rocprof v1")
    recording = imported(found[0])
    ((shape, _, start, end),) = rows_of(recording)
    assert (shape.name, shape.agent, shape.process) == ("elementwise_kernel", "2", 517)
    assert end - start == 5280
    assert recording.errors == ()
