"""Links between texts, held against positions that plain patterns find in the texts."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from kinspect.inspector.explain.code.links import Links
from kinspect.inspector.explain.code.reading import KernelReading, reading_of
from kinspect.inspector.explain.code.texts import Texts, lines_of
from kinspect.inspector.model import SourceLoc

DATA = Path(__file__).parent / "data"
USER = "triton_kernels.py"
TRITON = sorted((DATA / "isa").glob("*.triton39.*.amdgcn"))
TTGIR = sorted((DATA / "ttgir").glob("*.ttgir"))
LLC = shutil.which("llc-22")


def read(source: str | None, **texts: Path | str) -> KernelReading:
    """A reading of texts as if they lay together; the source has 100 empty lines."""
    lines: dict[str, Sequence[str]] = {
        kind: lines_of(text.read_text("utf-8") if isinstance(text, Path) else text)
        for kind, text in texts.items()
    }
    files = dict.fromkeys(texts, "file")
    if source is not None:
        lines["source"], files["source"] = [""] * 100, source
    return reading_of(None, Texts(lines, files, {}))


# ------------------------------------------------------------------------------ plain patterns


def frames_by_comment(lines: Sequence[str]) -> dict[int, list[int]]:
    """Line of an instruction -> the user's lines that it goes through, by `.loc` comments alone."""
    found: dict[int, list[int]] = {}
    here: list[int] = []
    for number, line in enumerate(lines):
        if re.match(r"\s+\.loc\s", line):
            comment = line.partition(";")[2]
            places = re.findall(r"([\w.]+):(\d+):\d+", comment)
            here = [int(at) for name, at in places if name == USER and at != "0"]
            if re.match(r"\s+\.loc\s+\d+ 0 ", line):
                here = []
        elif re.match(r"\s*\.type\s.*@function", line):
            here = []
        elif re.match(r"\s+[a-z]\w*(\s|$)", line) and here:
            found[number] = list(dict.fromkeys(here))
    return found


def frames_by_alias(lines: Sequence[str], user: str) -> dict[int, list[int]]:
    """Line of an operation -> the user's lines, by resolving `#loc12` with patterns."""
    table = dict(re.findall(r"^(#loc\d*) = loc\((.*)\)$", "\n".join(lines), re.M))

    def places(text: str) -> list[tuple[str, int]]:
        text = text.strip()
        if text in table:
            return places(table[text])
        if text.startswith("callsite("):
            callee, caller = re.fullmatch(r"callsite\((.*) at (.*)\)", text).groups()  # type: ignore[union-attr]
            return places(callee) + places(caller)
        if text.startswith("fused["):
            parts = [places(one) for one in text[6:-1].split(",")]
            return next((part for part in parts if part), [])
        place = re.fullmatch(r'"(.*)":(\d+):\d+', text)
        if place is not None:
            return [(place[1], int(place[2]))]
        named = re.fullmatch(r'"[^"]*"\((.*)\)', text)
        return places(named[1]) if named is not None else []

    found: dict[int, list[int]] = {}
    for number, line in enumerate(lines):
        # An operation with a body states its position where the body ends.
        match = re.match(r"\s+(?:%.*? = )?[a-z\"].* loc\((#loc\d*)\)$", line)
        if match is not None and not line.endswith("{"):
            own = [at for name, at in places(match[1]) if name == user]
            if own:
                found[number] = list(dict.fromkeys(own))
    return found


# ------------------------------------------------------------------------------ real texts


@pytest.mark.parametrize("path", TRITON, ids=lambda p: p.name)
def test_assembly_and_source_are_linked_as_the_directives_say(path: Path) -> None:
    reading = read(f"/src/kernels/{USER}", amdgcn=path)
    expected = frames_by_comment(lines_of(path.read_text("utf-8")))
    assert len(expected) > 50
    links = reading.links
    for line in range(len(reading.texts.lines["amdgcn"])):
        found = links.related("amdgcn", line, "source")
        assert list(found) == [at - 1 for at in expected.get(line, ())], line
    for line in range(100):
        wanted = [at for at, frames in expected.items() if line + 1 in frames]
        assert list(links.related("source", line, "amdgcn")) == wanted


@pytest.mark.parametrize("path", TTGIR, ids=lambda p: p.name)
def test_ttgir_and_source_are_linked_as_the_locations_say(path: Path) -> None:
    lines = lines_of(path.read_text("utf-8"))
    expected = frames_by_alias(lines, "kernel.py")
    assert len(expected) > 40
    links = read("kernel.py", ttgir=path).links
    for line, frames in expected.items():
        found = links.related("ttgir", line, "source")
        assert list(found) == [at - 1 for at in frames], lines[line]
    for line in range(100):
        found = links.related("source", line, "ttgir")
        wanted = [at for at, frames in expected.items() if line + 1 in frames]
        # Operations with bodies are linked too, by the position at their end.
        others = [at for at in found if at not in wanted]
        assert [at for at in found if at in wanted] == wanted
        assert all(re.search(r"[{]$|func", lines[at]) for at in others)


@pytest.mark.parametrize("kind", ["amdgcn", "ttgir"])
def test_a_line_is_related_both_ways_or_not_at_all(kind: str) -> None:
    path = TRITON[0] if kind == "amdgcn" else TTGIR[0]
    source = f"/src/kernels/{USER}" if kind == "amdgcn" else "kernel.py"
    reading = read(source, **{kind: path})
    pairs = 0
    for line in range(len(reading.texts.lines[kind])):
        for at in reading.links.related(kind, line, "source"):
            assert line in reading.links.related("source", at, kind)
            pairs += 1
    assert pairs > 40


def under_directive(lines: Sequence[str], place: str) -> list[int]:
    """Lines of the instructions under `.loc`s of that file, line and column."""
    found, here = [], False
    for number, line in enumerate(lines):
        if re.match(r"\s+\.loc\s", line):
            here = re.match(rf"\s+\.loc\s+{place}\b", line) is not None
        elif here and re.match(r"\s+[a-z]\w+(\s|$)", line):
            found.append(number)
    return found


def check_located(llir: Path, isa: Path) -> None:
    """located.ll has one operation for each place."""
    reading = read(None, llir=llir, amdgcn=isa)
    ir, code = reading.texts.lines["llir"], reading.texts.lines["amdgcn"]
    for operation, place in (("mul", "0 12 7"), ("add", "1 4 3"), ("xor", "1 8 2")):
        line = next(n for n, text in enumerate(ir) if f"= {operation} i32" in text)
        wanted = under_directive(code, place)
        assert wanted, place
        assert list(reading.links.related("llir", line, "amdgcn")) == wanted
        assert reading.links.related("amdgcn", wanted[0], "llir") == (line,)
    line = next(n for n, text in enumerate(ir) if "store" in text)  # its position is line 0
    assert reading.links.related("llir", line, "amdgcn") == ()


def test_llvm_ir_and_assembly_of_one_module_are_linked() -> None:
    check_located(DATA / "isa" / "located.ll", DATA / "isa" / "located.llvm22.gfx90a.s")


@pytest.mark.skipif(LLC is None, reason="needs llc-22")
@pytest.mark.parametrize("target", ["gfx942", "gfx1201"])
def test_so_they_are_on_other_targets(target: str, tmp_path: Path) -> None:
    source, out = DATA / "isa" / "located.ll", tmp_path / "k.s"
    command = [str(LLC), "-mtriple=amdgcn-amd-amdhsa", f"-mcpu={target}", "-o", str(out)]
    subprocess.run([*command, str(source)], check=True)
    check_located(source, out)


IR = """
define amdgpu_kernel void @k(ptr addrspace(1) %p, i32 %n) !dbg !4 {
  %a = mul i32 %n, %n, !dbg !8
  %b = xor i32 %a, 7, !dbg !9
    #dbg_value(i32 %b, !20, !DIExpression(), !10)
  store i32 %b, ptr addrspace(1) %p, !dbg !10
  call void @g(), !dbg !12
  ret void, !dbg !11
}
!0 = distinct !DICompileUnit(language: DW_LANG_C, file: !1, emissionKind: LineTablesOnly)
!1 = !DIFile(filename: "k.py", directory: "/src")
!2 = !DIFile(filename: "standard.py", directory: "/x/triton/language")
!4 = distinct !DISubprogram(name: "k", scope: !1, file: !1, line: 3, unit: !0)
!5 = distinct !DISubprogram(name: "f", scope: !2, file: !2, line: 90, unit: !0)
!6 = distinct !DILexicalBlock(scope: !4, file: !1, line: 4)
!7 = !DILocation(line: 6, column: 9, scope: !6)
!8 = !DILocation(line: 5, column: 3, scope: !6)
!9 = !DILocation(line: 91, column: 2, scope: !5, inlinedAt: !7)
!10 = !DILocation(line: 7, column: 1, scope: !4)
!11 = !DILocation(line: 0, scope: !4)
!12 = !DILocation(line: 0, scope: !5, inlinedAt: !7)
"""


def test_llvm_ir_has_scopes_files_and_inlined_calls() -> None:
    links = read("/src/k.py", llir=IR).links
    found = [links.related("llir", line, "source") for line in range(1, 8)]
    assert found == [(2,), (4,), (5,), (6,), (6,), (), ()]  # what the compiler made has line 0
    assert links.related("source", 5, "llir") == (3,)
    assert not any(links.related("llir", line, "source") for line in range(9, 21))  # metadata


# ------------------------------------------------------------------------------ rules of the game


def links_of(
    positions: Mapping[str, Mapping[int, SourceLoc]], source: str | None = "/k/a.py"
) -> Links:
    return Links(positions, source, 100)


def test_a_column_that_both_know_picks_the_expression() -> None:
    """`dot(load(a), load(b))` is one line of Python, and three operations."""
    ttgir = {n: SourceLoc("/k/a.py", 9, column) for n, column in ((3, 5), (4, 20), (5, 5))}
    isa = {n: SourceLoc("/k/a.py", 9, column) for n, column in ((10, 20), (11, 5), (12, None))}
    links = links_of({"ttgir": ttgir, "amdgcn": isa})
    assert links.related("ttgir", 4, "amdgcn") == (10,)
    assert links.related("ttgir", 3, "amdgcn") == (11,)
    assert links.related("amdgcn", 11, "ttgir") == (3, 5)
    assert links.related("amdgcn", 12, "ttgir") == (3, 4, 5)  # no column: the whole line
    assert links.related("source", 8, "amdgcn") == (10, 11, 12)


def test_what_was_inlined_belongs_to_the_helper_and_to_its_call() -> None:
    call = SourceLoc("/k/a.py", 30)
    helper = SourceLoc("/k/a.py", 4, 1, call)
    library = SourceLoc("/x/triton/language/standard.py", 200, 2, helper)
    links = links_of({"amdgcn": {7: library, 8: call}})
    assert links.related("amdgcn", 7, "source") == (3, 29)
    assert links.nearest("amdgcn", 7, "source") == 3
    assert links.related("source", 29, "amdgcn") == (7, 8)
    assert links.nearest("source", 29, "amdgcn") == 8  # its own code before that of the callee
    assert links.related("source", 199, "amdgcn") == ()  # a line 200 of another file


def test_the_nearest_line_is_where_most_of_the_statement_stands() -> None:
    at = SourceLoc("/k/a.py", 9)
    links = links_of({"amdgcn": dict.fromkeys((2, 300, 302, 303, 310, 900), at)})
    assert links.nearest("source", 8, "amdgcn") == 300


def test_a_line_without_position_takes_that_of_its_neighbour() -> None:
    links = links_of({"amdgcn": {10: SourceLoc("/k/a.py", 5), 13: SourceLoc("/k/a.py", 6)}})
    assert links.nearest("amdgcn", 11, "source") == 4
    assert links.nearest("amdgcn", 12, "source") == 5
    assert links.nearest("amdgcn", 9, "source") == 4
    assert links.related("amdgcn", 11, "source") == ()
    assert links.nearest("amdgcn", 60, "source") is None
    assert links.nearest("source", 90, "amdgcn") is None
    assert links.nearest("source", 6, "amdgcn") == 13


def test_a_directive_leads_where_its_instruction_leads() -> None:
    reading = read(f"/src/kernels/{USER}", amdgcn=TRITON[0])
    lines = reading.texts.lines["amdgcn"]
    checked = 0
    for number, line in enumerate(lines[:-1]):
        follows = reading.links.related("amdgcn", number + 1, "source")
        if ".loc" in line and follows:
            assert reading.links.nearest("amdgcn", number, "source") == follows[0]
            checked += 1
    assert checked > 100


def test_texts_may_name_a_file_by_paths_of_different_lengths() -> None:
    short, long = SourceLoc("a.py", 3), SourceLoc("/k/a.py", 3)
    links = links_of({"ttgir": {1: short}, "amdgcn": {2: long}})
    assert links.related("ttgir", 1, "amdgcn") == (2,)
    assert links.related("ttgir", 1, "source") == (2,)
    other = SourceLoc("/other/a.py", 3)
    links = links_of({"ttgir": {1: short}, "amdgcn": {2: long, 3: other}})
    assert links.related("ttgir", 1, "amdgcn") == ()  # it may be either
    assert links.related("source", 2, "amdgcn") == (2,)


def test_a_source_that_is_shorter_than_it_was_has_no_such_line() -> None:
    links = Links({"amdgcn": {1: SourceLoc("/k/a.py", 50)}}, "/k/a.py", 10)
    assert links.related("amdgcn", 1, "source") == ()
