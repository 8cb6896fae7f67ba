"""Reading a kernel's texts: what is there, where it comes from, why the rest is missing."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
from kinspect.inspector.explain.code.texts import TEXTS, lines_of, texts_of, texts_of_file
from kinspect.inspector.model import Artifact, KernelReport, SourceLoc, Variant
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.analysis_options import Context
from msgspec.structs import replace

DATA = Path(__file__).parent / "data"
ISA = DATA / "isa" / "attend.triton39.gfx950.amdgcn"
TTGIR = DATA / "ttgir" / "gemm_rowmax-3.9-gfx950.ttgir"
LLVM = DATA / "isa" / "located.ll"


def reported(path: Path) -> KernelReport:
    return analyze_text(path.read_text("utf-8"), Context(str(path)))[0]


@pytest.mark.parametrize("path", sorted((DATA / "isa").glob("*.[as]*")), ids=lambda p: p.name)
def test_lines_are_the_files_lines_as_a_screen_shows_them(path: Path) -> None:
    lines = texts_of_file(path).lines["amdgcn"]
    assert list(lines) == [line.expandtabs(8) for line in path.read_text("utf-8").splitlines()]


def test_nothing_in_a_line_steers_the_terminal() -> None:
    lines = lines_of("a\x1b[31mb\tc\r\nd\x9b5n\x0ce\n\nlast")
    assert lines == ["a�[31mb c", "d�5n�e", "", "last"]
    assert lines_of("") == [""]


def test_what_lies_beside_a_file_is_read_too(tmp_path: Path) -> None:
    source = tmp_path / "kernels.py"
    source.write_text("import triton\n")
    code = ISA.read_text("utf-8").replace(
        '"/src/kernels" "triton_kernels.py"', f'"{tmp_path}" "kernels.py"'
    )
    (tmp_path / "k.amdgcn").write_text(code)
    shutil.copy(TTGIR, tmp_path / "k.ttgir")
    texts = texts_of_file(tmp_path / "k.amdgcn")
    assert texts.kinds == ("source", "ttgir", "amdgcn")
    assert texts.files["source"] == str(source)
    assert texts.files["ttgir"] == str(tmp_path / "k.ttgir")
    assert texts.lines["source"] == ["import triton"]
    assert texts.missing == {"llir": "There is no LLVM IR beside k.amdgcn."}
    shutil.copy(LLVM, tmp_path / "k.llir")
    for name in ("k.llir", "k.ttgir"):  # whichever of them is opened
        assert texts_of_file(tmp_path / name).kinds == TEXTS


def test_a_report_leads_to_the_file_that_it_was_read_from() -> None:
    texts = texts_of(reported(ISA))
    assert [Path(name).resolve() for name in texts.files.values()] == [ISA]
    assert texts.missing["source"] == "/src/kernels/triton_kernels.py is not on this machine."


def test_artifacts_count_more_than_what_lies_beside(tmp_path: Path) -> None:
    stored = tmp_path / "3f2a"
    shutil.copy(ISA, stored)
    report = replace(
        reported(ISA),
        id="gone.py::attend@gfx950",
        artifacts={
            "amdgcn": Artifact("amdgcn", "3f2a", 1, stored),
            "ttgir": Artifact("ttgir", "77", 1, tmp_path / "77"),
        },
    )
    texts = texts_of(report)
    assert texts.files == {"amdgcn": str(stored)}
    assert len(texts.lines["amdgcn"]) == len(ISA.read_text("utf-8").splitlines())
    assert texts.missing["ttgir"].startswith(f"{tmp_path / '77'} cannot be read")
    assert texts.missing["llir"] == "The compile left no LLVM IR."


def test_a_file_that_cannot_be_read_is_a_sentence(tmp_path: Path) -> None:
    broken = tmp_path / "k.s"
    broken.write_bytes(b"\x7fELF\0\0")
    assert texts_of_file(broken).missing["amdgcn"] == f"{broken} is not a text."
    assert texts_of_file(tmp_path / "none.s").lines == {}


def test_what_was_saved_without_its_texts_says_so() -> None:
    report = replace(reported(ISA), id="old.json::attend@gfx950")
    assert texts_of(report).missing["amdgcn"] == "old.json was saved without its ISA."
    variant = Variant(
        kernel="attend",
        arch="gfx950",
        wave_size=64,
        ttir="module {}",
        options={},
        source=SourceLoc("/k/gone.py", 3),
    )
    texts = texts_of(replace(reported(ISA), id="gone.py::attend@gfx950", variant=variant))
    assert texts.missing["amdgcn"] == "The report was saved without its ISA."
    assert texts.missing["source"] == "/src/kernels/triton_kernels.py is not on this machine."
    report = replace(reported(ISA), id="old.hsaco::attend@gfx950")
    assert "code object" in texts_of(report).missing["amdgcn"]


def test_a_hundred_thousand_lines_are_there_at_once(tmp_path: Path) -> None:
    text = ISA.read_text("utf-8")
    big = tmp_path / "big.s"
    big.write_text(text * (100_000 // text.count("\n") + 1))
    took = []
    for _ in range(3):
        start = time.process_time()
        texts = texts_of_file(big)
        took.append(time.process_time() - start)
    assert len(texts.lines["amdgcn"]) >= 100_000
    assert min(took) < 0.3, took
