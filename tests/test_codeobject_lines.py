"""Source lines of code objects, with the calls they were inlined into, against LLVM's."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from kinspect.inspector.isa.objects.codeobject import CodeObject, read_code_object
from kinspect.inspector.isa.objects.elf import read_elf
from kinspect.inspector.isa.objects.linemap import read_line_map
from kinspect.inspector.model import SourceLoc

DATA = Path(__file__).parent / "data" / "elf"


def tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


def read(path: Path) -> CodeObject:
    return read_code_object(path.read_bytes(), path.name)


def frames(loc: SourceLoc | None) -> list[tuple[str, int, int]]:
    found = []
    while loc is not None:
        found.append((loc.file, loc.line, loc.column or 0))
        loc = loc.inlined_at
    return found


@pytest.mark.parametrize("name", ["inlined.dwarf4", "inlined.dwarf5", "triton.gfx90a"])
def test_lines_are_those_of_llvm_symbolizer(name: str) -> None:
    path = DATA / f"{name}.hsaco"
    code = read(path)
    lines = read_line_map(code.elf)
    assert lines.problem is None
    addresses = [a for f in code.functions for a in range(f.address, f.address + f.size, 4)]
    answer = subprocess.run(
        [tool("llvm-symbolizer-22"), f"--obj={path}", "--output-style=JSON"],
        input="\n".join(map(hex, addresses)),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    deepest = 0
    for address, line in zip(addresses, answer.splitlines(), strict=True):
        symbols = json.loads(line)["Symbol"]
        expected = [(s["FileName"], s["Line"], s["Column"]) for s in symbols]
        if not expected[0][1]:
            expected = []  # line 0: no particular line
        assert frames(lines.location_at(address)) == expected, hex(address)
        deepest = max(deepest, len(expected))
    assert deepest >= 2


@pytest.mark.parametrize(("kind", "problem"), [("zlib", None), ("zstd", "cannot be inflated")])
def test_compressed_debug_information(kind: str, problem: str | None, tmp_path: Path) -> None:
    plain, packed = DATA / "inlined.dwarf5.hsaco", tmp_path / "packed.hsaco"
    subprocess.run(
        [tool("llvm-objcopy-22"), f"--compress-debug-sections={kind}", plain, packed], check=True
    )
    elf = read(packed).elf
    assert any(s.flags & 0x800 for s in elf.sections)
    lines, expected = read_line_map(elf), read_line_map(read(plain).elf)
    if problem:
        assert problem in (lines.problem or "")
        return
    functions = read(plain).functions
    addresses = [a for f in functions for a in range(f.address, f.address + f.size, 4)]
    assert addresses
    assert [lines.location_at(a) for a in addresses] == [expected.location_at(a) for a in addresses]


def test_no_debug_information_is_no_problem() -> None:
    lines = read_line_map(read(DATA / "two.gfx942.hsaco").elf)
    assert not lines
    assert lines.problem is None


def test_damaged_debug_information_is_a_note() -> None:
    data = (DATA / "inlined.dwarf5.hsaco").read_bytes()
    elf = read_elf(data, "x")
    section = elf.section(".debug_line")
    assert section is not None
    broken = data[: section.offset] + b"\xff" * section.size + data[section.offset + section.size :]
    lines = read_line_map(read_elf(broken, "x"))
    assert not lines
    assert lines.problem is not None
    assert "damaged debug information" in lines.problem
