"""Strings that steer a terminal are spelled out, everything else stays as it is."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kinspect.inspector.base.printable import (
    is_printable,
    printable,
    printable_columns,
    printable_line,
    spreadsheet_cell,
)

HOSTILE = {
    "title": "\x1b]0;owned\x07",
    "clipboard": "\x1b]52;c;cm0gLXJm\x1b\\",
    "link": "\x1b]8;;http://example.com\x1b\\here\x1b]8;;\x1b\\",
    "colour": "\x1b[31;8mhidden\x1b[0m",
    "C1 CSI": "\x9b2J",
    "C1 OSC": "\x9d0;x\x9c",
    "overwrite": "spills 12\rspills 0 ",
    "backspace": "12\b\b 0",
    "NUL": "a\x00b",
    "DEL": "a\x7fb",
    "bidi": "a\u202e\u2066b\u2069c",
    "line separator": "a\u2028::error::b",
    "surrogate": "a\udcffb",
    "tags": "a\U000e0041b",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_nothing_that_steers_is_left(text: str) -> None:
    assert not is_printable(text)
    for clean in (printable(text), printable_line(text), printable_columns(text)):
        assert is_printable(clean)
        assert not {unicodedata.category(c) for c in clean} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert len(printable_columns(text)) == len(text)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_json_passes_without_loss(text: str) -> None:
    document = json.dumps({"name": f'\\"{text}'}, ensure_ascii=False)
    assert json.loads(printable(document)) == {"name": f'\\"{text}'}


def test_ordinary_text_stays() -> None:
    for text in ("", "kernel_0d1d", "a\tb\nc\r\nd", "été × 3 – “ok” 你好 🚀 e\u0301"):
        assert printable(text) is text
        assert printable_columns(text) is text
    assert printable_line("void f<int>(a,\n\tb)") == "void f<int>(a,  b)"
    assert printable("\x1b[2J") == "\\u001b[2J"


@given(st.text(st.characters(exclude_categories=())))
def test_any_text(text: str) -> None:
    assert is_printable(printable(text))
    assert printable(printable(text)) == printable(text)
    assert len(printable_columns(text)) == len(text)
    assert len(printable_line(text).splitlines()) <= 1


@pytest.mark.parametrize("cell", ["=HYPERLINK(A1)", "+1", "-x", "@f", "\t=1"])
def test_no_cell_is_a_formula(cell: str) -> None:
    assert spreadsheet_cell(cell) == f"'{cell}"
    assert [spreadsheet_cell(value) for value in (-1, None, "a=b", "")] == [-1, None, "a=b", ""]
