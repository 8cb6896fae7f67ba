"""Recordings that were made to harm: each ends soon, in one line, and leaves the others whole."""

from __future__ import annotations

import gzip
import io
import json
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from kinspect.inspector.base import limits
from kinspect.inspector.formats import profile_json
from kinspect.inspector.model.recording import Recording
from kinspect.inspector.pipeline import profiling
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.profile import reading
from kinspect.inspector.profile.builder import RecordingBuilder, RowIndex
from kinspect.inspector.profile.readers import rocpd
from kinspect.inspector.profile.readers.sqlite_file import open_database
from profile_bases import write_rocpd
from profile_files import program, write_results

UUID = "_0190_00001092"
ENDLESS = "WITH RECURSIVE c(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM c)"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return write_rocpd(tmp_path / "1_results.db", program(), views=False)


def changed(path: Path, *statements: str) -> Path:
    with sqlite3.connect(path, isolation_level=None) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()
    return path


def said(recording: Recording) -> str:
    return "\n".join(error.message for error in recording.errors)


# --------------------------------------------------------------------------- databases


@pytest.mark.parametrize("table", ["kernel_dispatch", "info_agent", "info_process", "pmc_event"])
def test_a_view_without_end_in_place_of_a_table(base: Path, table: str) -> None:
    name = f"rocpd_{table}{UUID}"
    path = changed(
        base,
        f'DROP TABLE "{name}"',
        f'CREATE VIEW "{name}" AS {ENDLESS} SELECT id, id AS guid, id AS dispatch_id, '
        '1 AS kernel_id, 1 AS event_id, 1 AS start, 2 AS "end" FROM c',
    )
    begun = time.process_time()
    recording = reading.read(path)
    assert time.process_time() - begun < 5
    assert f"{name} is not a table that stores rows" in said(recording)
    assert len(recording.dispatches) == (9 if table in ("info_agent", "pmc_event") else 0)


def test_other_views_are_of_no_concern(base: Path) -> None:
    changed(base, f"CREATE VIEW kernels AS {ENDLESS} SELECT id FROM c")
    recording = reading.read(base)
    assert recording.errors == ()
    assert len(recording.dispatches) == 9


def test_columns_that_are_computed_are_not_asked(base: Path) -> None:
    """Each value of this one would take half a gigabyte."""
    name = f"rocpd_info_process{UUID}"
    changed(
        base,
        f'DROP TABLE "{name}"',
        f'CREATE TABLE "{name}" (id INTEGER PRIMARY KEY, guid TEXT, pid INTEGER, '
        "command TEXT AS (hex(zeroblob(250000000))) VIRTUAL)",
        f"INSERT INTO \"{name}\" (id, guid, pid) VALUES (4242, '0190-00001092', 4242)",
    )
    begun = time.process_time()
    recording = reading.read(base)
    assert time.process_time() - begun < 5
    assert recording.command == ()
    assert len(recording.dispatches) == 9


@pytest.mark.parametrize(
    "statement",
    [
        f"{ENDLESS} SELECT id FROM c",
        "SELECT hex(zeroblob(1000))",
        "ATTACH DATABASE '/tmp/other' AS other",
        "PRAGMA writable_schema = ON",
        "SELECT id FROM kernels",
        "DELETE FROM rocpd_metadata",
    ],
)
def test_nothing_but_stored_rows_can_be_had(tmp_path: Path, statement: str) -> None:
    path = write_rocpd(tmp_path / "1_results.db", program(), views=True)
    with open_database(path) as found, pytest.raises(sqlite3.DatabaseError):
        found._connection.execute(statement).fetchone()


def test_an_index_does_not_say_which_rows_there_are(base: Path) -> None:
    name = f"rocpd_info_process{UUID}"
    changed(base, f'CREATE INDEX "by_guid" ON "{name}" (guid, id DESC)')
    statements: list[str] = []
    with open_database(base) as found:
        found._connection.set_trace_callback(statements.append)
        assert list(found.rows(name, ("id",), {"guid": "0190-00001092"})) == [(4242,)]
    assert any("NOT INDEXED" in statement for statement in statements)


def test_time_is_bounded_by_the_size_of_the_file(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of many processes has its own pass over all rows: quadratic in the file's size."""
    changed(
        base,
        f"INSERT INTO rocpd_info_process{UUID} (guid, nid, pid) WITH RECURSIVE c(i) AS "
        "(SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 3000) SELECT hex(i), 77, i FROM c",
        f"INSERT INTO rocpd_pmc_event{UUID} (guid, event_id, pmc_id, value) WITH RECURSIVE c(i) AS "
        "(SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 20000) SELECT 1, i, 7, 1 FROM c",
    )
    monkeypatch.setenv(limits.SECONDS_VARIABLE, "0.6")
    begun = time.process_time()
    recording = reading.read(base)
    assert time.process_time() - begun < 5
    assert "1_results.db: reading it takes more than" in said(recording)


def test_text_is_bounded_by_the_size_of_the_file(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kinspect.inspector.profile.readers.sqlite_file._SCANS", 0)
    assert "has more text than can be in it" in said(reading.read(base))


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        ("info_code_object", ["uri", "load_base", "pid"]),
        ("info_kernel_symbol", ["display_name", "kernel_name"]),
        ("info_process", ["pid", "command"]),
        ("info_agent", ["name", "type"]),
        ("info_pmc", ["name"]),
    ],
)
@pytest.mark.parametrize("value", ["x'00ff'", "7", "1.5"])
def test_a_cell_of_another_type(base: Path, table: str, columns: Sequence[str], value: str) -> None:
    """SQLite keeps any type in any column."""
    cells = ", ".join(f'"{column}" = {value}' for column in columns)
    changed(base, f'UPDATE "rocpd_{table}{UUID}" SET {cells}')
    shown = io.StringIO()
    profile_json.write(profiling.profile_of(base.parent, profiling.Options(), collect), shown)
    assert json.loads(shown.getvalue())["kernels"]


@pytest.mark.parametrize("text", ["[" * 100_000, '{"cu_count": ' + "9" * 5000 + "}", "{", "[1]"])
def test_what_describes_a_device_is_no_json(base: Path, text: str) -> None:
    changed(base, f"UPDATE rocpd_info_agent{UUID} SET extdata = '{text}'")
    recording = reading.read(base)
    assert "the descriptions of 2 devices are no JSON" in said(recording)
    assert len(recording.dispatches) == 9
    assert recording.agents[1].cus is None


# --------------------------------------------------------------------------- JSON


def test_blanks_without_end_in_a_packed_file(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    blank = gzip.compress(b" " * (64 << 20), 9)
    path.write_bytes(gzip.compress(b'{"traceEvents": [') + blank * 5)
    begun = time.process_time()
    recording = reading.read(path)
    assert time.process_time() - begun < 15
    assert "inflates to far more than a file of its size should" in said(recording)


EVENT = b'{"ph": "X", "cat": "kernel", "name": "%s", "ts": %s, "dur": 2, "args": {"stream": %s}}'


@pytest.mark.parametrize("time_of", [b"1e999999", b"1e99999999999", b"9" * 6000, b"1e400"])
def test_a_time_that_is_none(tmp_path: Path, time_of: bytes) -> None:
    path = tmp_path / "trace.json"
    events = (EVENT % (b"odd", time_of, b"9" * 6000), EVENT % (b"sound", b"1", b"7"))
    path.write_bytes(b'{"traceEvents": [' + b",".join(events) + b"]}")
    recording = reading.read(path)
    assert "1 kernels without times" in said(recording)
    assert [shape.name for shape in recording.shapes] == ["sound"]


def _att(folder: Path, name: str, text: bytes) -> None:
    (folder / "ui_output_agent_1_dispatch_1").mkdir(exist_ok=True)
    (folder / "ui_output_agent_1_dispatch_1" / name).write_bytes(text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("code.json", b'{"code": ' + b"[" * 300_000),
        ("code.json", b'{"code": [["s_nop 0", 0, 1, "a", 1, ' + b"9" * 6000 + b", 1, 2, 3, 4]]}"),
        ("occupancy.json", b'{"0": ' + b"[" * 300_000),
        ("occupancy.json", b'{"SE' + b"9" * 6000 + b'": [[1, 2, 3, 4, 5, 6]]}'),
        ("filenames.json", b'{"wave_filenames": {"' + b"9" * 6000 + b'": {}}}'),
        ("filenames.json", b"[" * 300_000),
        ("realtime.json", b'{"0": [[1, ' + b"9" * 6000 + b'], [2, 3]], "metadata": {}}'),
        ("realtime.json", b'{"0": [[1, 2], [3, 4]], "metadata": {"frequency": 1e308}}'),
        ("se0_sm0_sl0_wv0.json", b'{"wave": {"instructions": ' + b"[" * 300_000),
    ],
)
def test_a_thread_trace(tmp_path: Path, name: str, text: bytes) -> None:
    _att(tmp_path, "code.json", b'{"code": [["s_nop 0", 0, 1, "a", 1, 4, 1, 2, 3, 4]]}')
    _att(tmp_path, name, text)
    begun = time.process_time()
    recording = reading.read(tmp_path)
    assert time.process_time() - begun < 10
    assert "internal error" not in said(recording)
    assert recording.parts


# --------------------------------------------------------------------------- the others


def test_one_file_that_cannot_be_read_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_results(tmp_path / "1_results.json", program())
    (tmp_path / "b").mkdir()
    write_rocpd(tmp_path / "b" / "2_results.db", program(4300))

    def fails(group: reading.FileGroup, builder: RecordingBuilder) -> None:
        builder.dispatches.shape.append(0)  # ended between two columns
        raise RecursionError("deep")

    monkeypatch.setattr(rocpd, "read", fails)
    monkeypatch.delenv("KINSPECT_TRACEBACK", raising=False)
    recording = reading.read(tmp_path)
    assert len(recording.dispatches) == len(recording.dispatches.start) == 9
    (error,) = recording.errors
    assert "RecursionError: deep" in error.message
    assert (error.file or "").endswith("2_results.db")


def test_one_file_that_cannot_be_looked_at_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_results(tmp_path / "1_results.json", program())
    (tmp_path / "bad.db").write_bytes(b"")
    find: Callable[..., list[reading.FileGroup]] = rocpd.find

    def fails(files: list[Path]) -> list[reading.FileGroup]:
        if any(file.name == "bad.db" for file in files):
            raise ValueError("odd")
        return find(files)

    monkeypatch.setattr(rocpd, "find", fails)
    monkeypatch.delenv("KINSPECT_TRACEBACK", raising=False)
    recording = reading.read(tmp_path)
    assert len(recording.dispatches) == 9
    assert [Path(error.file or "").name for error in recording.errors] == ["bad.db"]


def test_numbers_far_apart_take_no_memory() -> None:
    rows = RowIndex()
    for number in range(1_000):
        rows.add(number << 20, number)
    assert len(rows._array) < 1 << 17
    assert all(rows.get(number << 20) == number for number in range(1_000))


@pytest.mark.parametrize("cell", ["9" * 5000, "0x" + "f" * 5000, "1e300", "-1e400", "١٢"])
def test_numbers_of_any_length_in_csv(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "1_kernel_trace.csv"
    path.write_text(
        "Kind,Agent_Id,Dispatch_Id,Kernel_Name,Start_Timestamp,End_Timestamp,LDS_Block_Size\n"
        f"KERNEL_DISPATCH,Agent 4,1,odd,10,20,{cell}\n"
        f"KERNEL_DISPATCH,Agent {cell},2,odd,10,{cell},0\n"
        "KERNEL_DISPATCH,Agent 4,3,sound,10,20,0\n"
    )
    (tmp_path / "1_agent_info.csv").write_text(
        f"Node_Id,Agent_Type,Cu_Count,Name\n4,GPU,{cell},gfx942\n"
    )
    recording = reading.read(tmp_path)
    assert "internal error" not in said(recording)
    assert "sound" in {shape.name for shape in recording.shapes}
