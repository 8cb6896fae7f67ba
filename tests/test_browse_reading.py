"""Whole readings: code objects, TTGIR alone, damaged texts, and a kernel from its source."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kinspect.inspector.explain.code.explanations import explain_instruction
from kinspect.inspector.explain.code.folds import all_folds
from kinspect.inspector.explain.code.reading import KernelReading, reading_of
from kinspect.inspector.explain.code.texts import Texts, lines_of, texts_of, texts_of_file
from kinspect.inspector.explain.code.uses import uses
from kinspect.inspector.isa.objects.disasm import find_disassemblers
from kinspect.inspector.model import KernelReport
from kinspect.inspector.pipeline.analysis import analyze_code_object, analyze_text, analyze_ttgir
from kinspect.inspector.pipeline.analysis_options import Context
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request

DATA = Path(__file__).parent / "data"
ISA = DATA / "isa" / "attend.triton39.gfx90a.amdgcn"
TTGIR = DATA / "ttgir" / "gemm_rowmax-3.9-gfx942.ttgir"
LLVM = DATA / "isa" / "located.ll"


@pytest.mark.parametrize("name", ["isa/attend.triton39.gfx90a.hsaco", "elf/inlined.dwarf5.hsaco"])
def test_a_code_object_is_read_as_its_disassembly(name: str) -> None:
    if not find_disassemblers():
        pytest.skip("needs a disassembler")
    path = DATA / name
    report = analyze_code_object(path.read_bytes(), Context(str(path)))[0]
    texts = texts_of(report)
    assert texts.lines == {}
    assert "code object" in texts.missing["amdgcn"]
    reading = reading_of(report, texts)
    assert reading.function is not None
    lines = reading.texts.lines["amdgcn"]
    assert "amdgcn" not in reading.texts.missing
    for inst in reading.function.instructions:
        assert inst.mnemonic in lines[inst.line - 1]
    starts = {loop.header.line - 1 for loop in report.loops}
    assert set(reading.marks.loop_starts) == starts
    for wait in report.waits:
        assert "wait" in lines[wait.line - 1]
    # Debug information gives positions, though no directive stands in a disassembly.
    placed = [i for i in reading.function.instructions if i.loc is not None]
    assert bool(placed) == ("dwarf" in name)


def test_ttgir_alone_has_no_code() -> None:
    report = analyze_ttgir(TTGIR.read_text("utf-8"), Context(str(TTGIR)))[0]
    reading = reading_of(report, texts_of(report))
    assert reading.function is None
    assert reading.texts.kinds == ("ttgir",)
    assert reading.texts.missing["amdgcn"] == "TTGIR alone: there is code only after a compile."
    assert reading.marks.finding_lines() == reading.marks.loop_starts == ()
    assert reading.notes == ()


def test_a_file_can_be_read_without_a_report() -> None:
    reading = reading_of(None, texts_of_file(ISA))
    assert reading.function is not None
    assert reading.function.name == "attend"
    line = reading.marks.loop_starts[0]
    assert reading.marks.depth(line) == 1
    counts = [reading.marks.outstanding(n) for n in range(len(reading.texts.lines["amdgcn"]))]
    assert max(one.get("vmcnt") or 0 for one in counts) > 0  # the file names its target


def use_all(reading: KernelReading, lines: Sequence[str]) -> None:
    """Asks everything of every line."""
    for kind in reading.texts.kinds:
        all_folds(kind, reading.texts.lines[kind], reading.function)
        for line in range(len(reading.texts.lines[kind])):
            for other in reading.texts.kinds:
                reading.links.related(kind, line, other)
                found = reading.links.nearest(kind, line, other)
                assert found is None or 0 <= found < len(reading.texts.lines[other])
    marks = reading.marks
    for line in range(len(lines)):
        marks.outstanding(line), marks.wait(line), marks.findings(line)
        for at in (*marks.producers(line), *marks.waiters(line)):
            assert 0 <= at < len(lines)
        explain_instruction(lines[line])
    if reading.function is not None:
        for line in range(0, len(lines), 29):
            uses(reading.function, line)


PLACES = st.lists(st.integers(0, 5000), min_size=1, max_size=6)


@pytest.mark.parametrize("path", [ISA, TTGIR, LLVM], ids=lambda p: p.suffix)
@given(places=PLACES, letters=st.text(min_size=1, max_size=3))
def test_damaged_texts_are_read_as_far_as_they_go(
    path: Path, places: list[int], letters: str
) -> None:
    """Lines lost, doubled and spoilt at any place; analysis may give up, a reader never does."""
    lines = path.read_text("utf-8").split("\n")[:400]
    for number, place in enumerate(places):
        at = place % len(lines)
        if number % 3 == 0:
            del lines[at : at + 1 + place % 7]
        elif number % 3 == 1:
            lines[at:at] = lines[at // 2 : at // 2 + 3]
        else:
            lines[at] = lines[at][: place % 20] + letters + lines[at][place % 30 :]
        lines = lines or [""]
    kind = {".amdgcn": "amdgcn", ".ttgir": "ttgir", ".ll": "llir"}[path.suffix]
    shown = lines_of("\n".join(lines))
    use_all(reading_of(None, Texts({kind: shown}, {kind: path.name}, {})), shown)


def test_macros_stand_where_they_are_used() -> None:
    path = DATA / "isa" / "handwritten.gfx90a.s"
    report = analyze_text(path.read_text("utf-8"), Context(str(path)))[0]
    reading = reading_of(report, texts_of(report))
    lines = reading.texts.lines["amdgcn"]
    used = [n for n, line in enumerate(lines) if re.match(r"\s+LOOP_BODY", line)]
    assert used
    assert all(reading.marks.cls(n) is not None for n in used)
    use_all(reading, lines)


@pytest.fixture(scope="module")
def compiled(shared_guests: None) -> dict[str, KernelReport]:
    pytest.importorskip("triton")
    found = collect(Request((str(DATA / "access_kernels.py"),), ("gfx942",), passes=False, jobs=2))
    return {one.name: one for one in found.kernels}


@pytest.mark.slow
def test_all_texts_of_a_compiled_kernel_are_linked(compiled: dict[str, KernelReport]) -> None:
    """A load in the source leads to the loads in TTGIR, LLVM IR and code, and each of them back."""
    followed = 0
    for report in compiled.values():
        reading = reading_of(report, texts_of(report))
        texts = reading.texts
        assert texts.kinds == ("source", "ttgir", "llir", "amdgcn"), texts.missing
        assert reading.notes == ()
        for line, text in enumerate(texts.lines["source"]):
            if "tl.load(" not in text or not reading.links.related("source", line, "ttgir"):
                continue
            for kind, pattern in (
                ("ttgir", r"tt\.load|buffer_load"),
                ("llir", r"\bload\b|buffer\.load"),
                ("amdgcn", r"(?:global|buffer|s)_load"),
            ):
                related = reading.links.related("source", line, kind)
                found = [n for n in related if re.search(pattern, texts.lines[kind][n])]
                assert found, (report.name, kind, text)
                for n in found:
                    assert line in reading.links.related(kind, n, "source")
                    assert reading.links.nearest(kind, n, "source") is not None
                    followed += 1
        use_all(reading, texts.lines["amdgcn"])
    assert followed > 20
