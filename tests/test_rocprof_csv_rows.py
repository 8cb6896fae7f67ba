"""Rows of CSV files: every form in which they are written, and every way to damage them."""

from __future__ import annotations

from pathlib import Path

import pytest
from kinspect.inspector.profile.builder import RecordingBuilder
from kinspect.inspector.profile.readers import csv_table
from kinspect.inspector.profile.readers.csv_table import CsvTable, instant, integer, real

NAMES = ("Kernel_Name", "Dispatch_Id", "Start_Timestamp", "End_Timestamp")
HEADER = ",".join(f'"{name}"' for name in NAMES) + "\n"


def table_of(tmp_path: Path, content: str | bytes) -> CsvTable:
    path = tmp_path / "x.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return CsvTable.open(path)


def all_rows(table: CsvTable) -> list[list[str]]:
    return [row for _, row in table.rows()]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        (" 12 ", 12),
        ("0x1F", 31),
        ("16384.000000", 16384),
        ("1.6384E+4", 16384),
        ("", None),
        ("  ", None),
    ],
)
def test_an_integer_is_read_however_it_is_written(text: str, value: int | None) -> None:
    assert integer(text) == value


@pytest.mark.parametrize("text", ["abc", "1;2", "nan", "inf", "12 34", "0xZZ", "1_000", "５"])
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        integer(text)


@pytest.mark.parametrize("text", ["abc", "", "1_0.5", "１.5"])
def test_what_is_no_real_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        real(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1550151853029637", 1550151853029637),
        ("1410078545959517.0", 1410078545959517),
        ("8.1097E+14", None),  # ten digits are lost
        ("1.550151853029637E+15", 1550151853029637),  # all digits are there
        ("0", None),
        ("", None),
    ],
)
def test_a_rounded_timestamp_is_none(text: str, value: int | None) -> None:
    assert instant(text) == value


def test_columns_go_by_our_names_in_any_order(tmp_path: Path) -> None:
    table = table_of(tmp_path, "EndNs,gpu-id,Mine,KernelName,Index,BeginNs\n9,1,x,k,0,5\n")
    assert table.columns["end"] == 0
    assert table.columns["agent"] == 1
    assert table.columns["name"] == 3
    assert table.columns["number"] == 4
    assert table.columns["start"] == 5
    assert table.unknown_columns() == ["Mine"]
    assert all_rows(table) == [["9", "1", "x", "k", "0", "5"]]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("before", ["", "\n"])
def test_line_ends_marks_and_blank_lines(tmp_path: Path, end: str, mark: str, before: str) -> None:
    text = before + HEADER + '"f(int, int)",1,10,20\n\n"g",2,30,40\n'
    table = table_of(tmp_path, mark + text.replace("\n", end))
    assert table.names == list(NAMES)
    assert all_rows(table) == [["f(int, int)", "1", "10", "20"], ["g", "2", "30", "40"]]
    assert not table.bad


def test_a_quoted_name_may_hold_commas_quotes_and_line_breaks(tmp_path: Path) -> None:
    table = table_of(tmp_path, HEADER + '"a ""b"", c\nd",1,2,3\n"e",2,3,4\n')
    assert all_rows(table) == [['a "b", c\nd', "1", "2", "3"], ["e", "2", "3", "4"]]


def test_a_row_cut_off_midway_is_counted_and_the_next_one_read(tmp_path: Path) -> None:
    table = table_of(tmp_path, HEADER + '"a",1,2,3\n"b",2\n"d",4,5,6\n"e",5,6,7,8\n')
    assert [row[0] for row in all_rows(table)] == ["a", "d"]
    assert (table.count, table.bad, table.first_bad) == (4, 2, 3)
    builder = RecordingBuilder(tmp_path)
    table.report(builder)
    (error,) = builder.errors
    assert "2 of 4 rows" in error.message
    assert "line 3" in error.message
    assert "2 columns instead of 4" in error.message
    assert error.hint


def test_a_file_that_ends_in_a_row(tmp_path: Path) -> None:
    table = table_of(tmp_path, HEADER + '"a",1,2,3\n"b",2,3')
    assert [row[0] for row in all_rows(table)] == ["a"]
    assert table.unfinished
    assert (table.bad, table.first_bad) == (1, 3)


def test_an_open_quote_takes_the_next_row_alone_with_it(tmp_path: Path) -> None:
    table = table_of(tmp_path, HEADER + '"a",1,2,3\n"cut off\n' + '"b",2,3,4\n' * 50)
    assert len(all_rows(table)) == 50
    assert table.bad == 1


def test_bytes_that_are_no_text_are_kept_out_of_nothing_else(tmp_path: Path) -> None:
    table = table_of(tmp_path, HEADER.encode() + b'"\xff\xfe",1,2,3\n"b",2,3,4\n')
    assert [row[1] for row in all_rows(table)] == ["1", "2"]


def test_a_line_without_end_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_table, "_LONGEST_LINE", 300_000)
    content = HEADER + '"a",1,2,3\n' + "x" * 900_000 + '\n"b",2,3,4\n'
    table = table_of(tmp_path, content)
    assert [row[0] for row in all_rows(table)] == ["a", "b"]
    assert table.bad == 3  # pieces of 300,000 characters


@pytest.mark.parametrize(
    ("content", "said"),
    [("", "empty file"), (HEADER, "a header and no rows"), (HEADER.rstrip(), "a header and no")],
)
def test_a_file_without_rows_is_named(tmp_path: Path, content: str, said: str) -> None:
    table = table_of(tmp_path, content)
    assert all_rows(table) == []
    builder = RecordingBuilder(tmp_path)
    table.report(builder)
    assert not builder.errors
    assert said in builder.notes[0]
    assert "x.csv" in builder.notes[0]


def test_thousands_of_columns(tmp_path: Path) -> None:
    names = [f"TCC_HIT[{n}]" for n in range(5000)]
    content = ",".join(names) + "\n" + ",".join(map(str, range(5000))) + "\n"
    assert all_rows(table_of(tmp_path, content)) == [[str(n) for n in range(5000)]]


# ------------------------------------------------------------------ layouts against the csv module
