"""Damaged recordings of every format: a report of what is sound, or one line of error."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.model.recording import Recording
from kinspect.inspector.profile.builder import RecordingBuilder
from kinspect.inspector.profile.reading import read

from benchmarks.fuzz.seeds import SEEDS

FORMATS = (
    "rocprof_csv", "rocprof_older_csv", "rocprof_json", "rocpd", "rocprof_v1", "torch", "att",
    "compute", "proton",
)  # fmt: skip
_TRIALS = 60


def _is_consistent(recording: Recording) -> None:
    table, values = recording.dispatches, recording.values
    columns = (table.shape, table.number, table.start, table.end, table.queue, table.part)
    assert len(set(map(len, columns))) == 1
    assert len(values.dispatch) == len(values.counter) == len(values.value)
    assert all(0 <= row < len(table) for row in values.dispatch)
    assert all(0 <= shape < len(recording.shapes) for shape in table.shape)
    for error in recording.errors:
        assert "internal error" not in error.message
        assert "\n" not in error.message
        assert error.hint


def _read(folder: Path) -> Recording:
    """What can be read; where that is nothing, the error stands in an empty recording."""
    try:
        return read(folder)
    except KinspectError as error:
        builder = RecordingBuilder(folder)
        builder.fail(folder, error.message, error.hint)
        return builder.finish()


@pytest.mark.parametrize("damage", ["prefix", "byte"])
@pytest.mark.parametrize("name", FORMATS)
def test_any_prefix_and_any_flipped_byte_gives_a_report_or_one_line(
    tmp_path: Path, name: str, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KINSPECT_TRACEBACK", raising=False)
    chance = random.Random(name + damage)
    for number, files in enumerate(SEEDS[name]()):
        folder = tmp_path / str(number)
        for path, content in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        whole = read(folder)
        assert not whole.errors
        for _ in range(_TRIALS):
            path = chance.choice(sorted(files))
            text = bytearray(files[path])
            at = chance.randrange(len(text))
            if damage == "prefix":
                del text[at:]
            else:
                text[at] ^= 1 << chance.randrange(8)
            (folder / path).write_bytes(text)
            recording = _read(folder)
            _is_consistent(recording)
            if damage == "prefix":
                assert len(recording.dispatches) <= len(whole.dispatches)
            (folder / path).write_bytes(files[path])
