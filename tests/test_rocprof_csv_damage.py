"""Damaged CSV of profilers: what can be read is read, what cannot is counted and said."""

from __future__ import annotations

from pathlib import Path

import pytest
from csv_files import COUNTED, TRACE, counted, get, traced, values, write
from kinspect.inspector.model.recording import NONE
from kinspect.inspector.profile.reading import read


def test_damaged_cells_cost_their_row_alone(tmp_path: Path) -> None:
    bad = [traced(n) for n in range(1, 7)]
    bad[1][9] = "garbage"  # start
    bad[2][10] = 5  # ends before it starts
    bad[3][13] = "many"  # registers
    bad[4][5] = "99999999999999999999999"  # dispatch id
    write(tmp_path / "7_kernel_trace.csv", TRACE, bad)
    found = get(tmp_path)
    assert list(found.dispatches.number) == [1, 6]
    (error,) = found.errors
    assert "4 of 6 rows" in error.message
    assert "line 3" in error.message
    assert "Start_Timestamp is not a number" in error.message


def test_a_cell_beyond_what_csv_takes_costs_its_row_alone(tmp_path: Path) -> None:
    """Python's csv takes 128 KiB a cell; the rows of a known layout are not cut by it."""
    rows = [traced(1), traced(2, name="k" * 140_000), traced(3)]
    write(tmp_path / "7_kernel_trace.csv", TRACE, rows)
    found = get(tmp_path)
    assert len(found.dispatches) == 2
    (error,) = found.errors
    assert "1 of 3 rows could not be read" in error.message


def test_a_run_killed_while_it_wrote(tmp_path: Path) -> None:
    path = tmp_path / "7_counter_collection.csv"
    write(path, COUNTED, [counted(n, "SQ_WAVES", n) for n in range(1, 4000)])
    path.write_bytes(path.read_bytes()[:-25])
    found = get(tmp_path)
    assert len(found.dispatches) == 3998
    assert values(found)[3997, "SQ_WAVES"] == 3998
    (error,) = found.errors
    assert "1 of 3,999 rows" in error.message
    assert "line 4,000" in error.message


def test_values_that_are_no_numbers(tmp_path: Path) -> None:
    rows = [counted(1, "A", "nan"), counted(1, "B", "x"), counted(1, "C", "0x10")]
    write(tmp_path / "7_counter_collection.csv", COUNTED, rows)
    found = get(tmp_path)
    assert values(found) == {(0, "C"): 16}
    assert "1 of 3 rows" in found.errors[0].message
    assert any("undefined" in note for note in found.notes)


@pytest.mark.parametrize("name", ["7_kernel_trace.csv", "7_counter_collection.csv"])
def test_an_empty_file_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    found = get(tmp_path)
    assert found.notes == (f"{name}: empty file",)
    assert not found.errors


def test_a_header_alone_is_named(tmp_path: Path) -> None:
    write(tmp_path / "7_kernel_trace.csv", TRACE, [])
    found = get(tmp_path)
    assert len(found.dispatches) == 0
    assert found.notes == ("7_kernel_trace.csv: a header and no rows",)


def test_timestamps_of_zero_are_unknown(tmp_path: Path) -> None:
    row = traced(1)
    row[9] = row[10] = 0
    write(tmp_path / "7_kernel_trace.csv", TRACE, [row])
    found = get(tmp_path)
    assert list(found.dispatches.start) == [NONE]
    assert list(found.dispatches.end) == [NONE]


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "empty file"), (b"\n\n", "no header of a known form")],
    ids=["empty", "blank"],
)
def test_a_file_without_a_header_says_what_is_in_it(
    tmp_path: Path, content: bytes, said: str
) -> None:
    path = tmp_path / "1_kernel_trace.csv"
    path.write_bytes(content)
    (note,) = read(path).notes
    assert said in note
