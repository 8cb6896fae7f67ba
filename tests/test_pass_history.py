"""What passes did to an operation or a line, on the dump of a real compile (tests/data/passes)."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.compare.passhistory import history_of
from kinspect.inspector.compile.mlir_text import line_numbers_without_locations, strip_locations
from kinspect.inspector.compile.passes import PassDump, read_passes

PACKED = Path(__file__).parent / "data" / "passes" / "gemm.mlir.xz"
LOAD, LOOP, DOT = 9, 32, 34  # lines of the source: the load is in a function that two lines call


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> PassDump:
    path = tmp_path_factory.mktemp("dump") / "passes.mlir"
    path.write_bytes(lzma.decompress(PACKED.read_bytes()))
    return read_passes(path, changes=False)


def texts_at(dump: PassDump, index: int, lines: tuple[int, ...]) -> list[str]:
    state = dump.state(index).splitlines()
    return [state[line - 1] for line in lines]


@pytest.mark.parametrize("thing", ["tt.dot", f"tt.dot@{DOT}", f"dot@{DOT}"])
def test_events_name_the_lines_of_the_operations(dump: PassDump, thing: str) -> None:
    history = history_of(dump, thing)
    assert history.at_start == 1
    assert [event.name for event in history.events] == [
        "convert-triton-to-tritongpu",
        "tritonamdgpu-accelerate-matmul",
        "tritonamdgpu-pipeline",
    ]
    for event in history.events:
        before = texts_at(dump, event.index, event.lines_before)
        after = texts_at(dump, event.index + 1, event.lines_after)
        assert (len(before), len(after)) == (event.before, event.after)
        assert all(" = tt.dot " in line for line in before + after)


def test_an_operation_of_another_line_is_not_meant(dump: PassDump) -> None:
    assert history_of(dump, f"tt.load@{LOAD}").at_start == 2
    with pytest.raises(KinspectError, match="nothing in the passes"):
        history_of(dump, f"tt.load@{DOT}")


def test_the_line_of_a_call_means_what_was_inlined_there(dump: PassDump) -> None:
    """Both loads are of the line in the function, and each of a line of the loop that calls it."""

    def loads(line: int) -> int:
        (first, *_) = history_of(dump, str(line)).events
        return sum(" = tt.load " in text for text in texts_at(dump, 0, first.lines_before))

    assert loads(LOAD) == 2
    assert loads(DOT) == 2
    assert loads(LOOP) == 0


def test_lines_are_numbered_as_they_are_without_locations(dump: PassDump) -> None:
    for compiler_pass in dump.passes:
        text = dump.text(compiler_pass.index)
        numbers = line_numbers_without_locations(text)
        stripped = strip_locations(text).splitlines()
        for line, number in zip(text.splitlines(), numbers, strict=True):
            if kept := strip_locations(line):
                assert kept == stripped[number - 1]
