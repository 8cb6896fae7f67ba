"""Pictures of layouts are read back: what they say of each element is what the layout does.

The text is parsed as a person would read it (the coordinates beside a row and above a column, the
number in the cell), for random layouts, and each element's lane, wave and bank compared with those
of the layout, which `test_ttgir_layout.py` compares with Triton's.
"""

from __future__ import annotations

import io
import json
import random
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import pytest
from kinspect.inspector.cli.group import run
from kinspect.inspector.explain.layout_values import drawing_of, values_of
from kinspect.inspector.formats import layout_svg, layout_text
from kinspect.inspector.ttgir.layouts import holders_of, to_linear
from kinspect.inspector.ttgir.parser import parse_ttgir
from kinspect.inspector.ttgir.shared_buffers import shared_offset
from test_ttgir_layout import (
    Draw,
    blocked,
    layout_of,
    linear,
    mfma,
    mfma_operand,
    padded,
    phased,
    shared_linear,
    slice_of_blocked,
    wmma,
    wmma_operand,
)

pytestmark = pytest.mark.usefixtures("shared_guests")

DATA = Path(__file__).parent / "data" / "ttgir"
BANKS = 32


class Grid(NamedTuple):
    """Cells by the coordinates that stand beside them."""

    rows: list[str]
    columns: list[int]
    cells: dict[tuple[int, int], str]

    def at(self, row: int, column: int) -> tuple[str, int, int] | None:
        """The text of an element's cell, and how far behind the cell's first it stands."""
        numbers = [int(text) for text in self.rows]
        y, x = bisect_right(numbers, row) - 1, bisect_right(self.columns, column) - 1
        text = self.cells.get((y, x))
        return None if text is None else (text, row - numbers[y], column - self.columns[x])


def grid_of(lines: Sequence[str], width: int) -> Grid:
    """A grid, whose columns may go on under the last row.

    Args:
        lines: of the grid.
        width: of the texts beside a row, where there are several.
    """
    rows: list[str] = []
    columns: list[int] = []
    cells: dict[tuple[int, int], str] = {}
    first = 0
    row = 0
    for line in lines:
        if "│" not in line:
            first = len(columns)
            columns += [int(text) for text in line.split() if text.isdecimal()]
            row = 0
            continue
        head, _, body = line.partition("│")
        texts = re.findall(r"w\d+ r\S+|b\d+ w\d+ r\S+|\S+", body)
        if first == 0:
            rows.append(head.split()[0])
        for at, text in enumerate(texts):
            cells[row, first + at] = text
        row += 1
    return Grid(rows, columns, cells)


def rendered(text: str, shape: Sequence[int], *, memory: bool = False) -> tuple[str, Any]:
    of = f"{'x'.join(map(str, shape))}xf16, {text}"
    of = f"!ttg.memdesc<{of}, #ttg.shared_memory, mutable>" if memory else f"tensor<{of}>"
    (value,) = values_of(parse_ttgir(f"module {{\n%0 = test.op : {of}\n}}", of))
    item = drawing_of([value], BANKS)
    stream = io.StringIO()
    layout_text.write([item], stream, color=False)
    return stream.getvalue(), item


def registers(shown: str) -> set[int]:
    """`0–7`, `0,4`: what a list of registers means."""
    members: set[int] = set()
    for part in shown.split(","):
        first, _, last = part.partition("–")
        members |= set(range(int(first), int(last or first) + 1))
    return members


@pytest.mark.parametrize(
    "make",
    [blocked, slice_of_blocked, linear, mfma, mfma_operand, wmma, wmma_operand],
    ids=lambda make: make.__name__,
)
def test_the_picture_names_a_holder_of_every_element(make: Callable[[Draw], Any]) -> None:
    draw, pick = Draw(3), random.Random(3)
    read = 0
    for _ in range(25):
        text, shape, _, _ = make(draw)
        picture, _ = rendered(text, shape)
        assert all(len(line) <= 80 for line in picture.splitlines()), picture
        holders = holders_of(to_linear(layout_of(text), shape))  # type: ignore[arg-type]
        assert holders is not None
        _, _, body = picture.partition(" elements; a cell is ")
        if "one tile of" not in picture:
            body, _, tensor = body.partition("The tensor is")
            tiles = grid_of([x for x in tensor.splitlines() if "│" in x or number_line(x)], 1)
        height, width = (int(n) for n in re.match(r"(\d+)×(\d+)|one", body).groups("1"))  # type: ignore[union-attr]
        tile = grid_of([x for x in body.splitlines() if "│" in x or number_line(x)], 1)
        tile_size = re.search(r"tile of (?:(\d+)×)?(\d+) elements", picture)
        assert tile_size is not None
        rows, columns = int(tile_size[1] or 1), int(tile_size[2])
        for _ in range(40):
            where = [pick.randrange(size) for size in shape]
            where[:-2] = [0] * len(where[:-2])
            row, column = ([0, *where])[-2:]
            cell = tile.at(row % rows, column % columns)
            if cell is None:
                assert "more: --format" in picture
                continue
            label, down, across = cell
            match = re.fullmatch(r"(?:b(\d+):)?(?:w(\d+):)?(\d+)(?:–\d+)?(?:r(\d+))?", label)
            assert match is not None, label
            block, wave, lane, _ = (int(n or 0) for n in match.groups())
            lane += down // height + across // width
            expected = holders.all_at(where)
            if "one tile of" not in picture:
                outer = tiles.at(row, column)
                if outer is None:
                    assert "more: --format" in picture
                    continue
                held = re.fullmatch(r"(?:b(\d+) )?w(\d+) r(\S+)", outer[0])
                assert held is not None
                block, wave = block ^ int(held[1] or 0), wave ^ int(held[2])
                if "…" not in held[3] and "–" in held[3]:
                    assert {h.register for h in expected} & registers(held[3])
            assert (block, wave, lane) in {(h.block, h.warp, h.lane) for h in expected}, picture
            read += 1
    assert read > 700


def number_line(line: str) -> bool:
    return bool(re.fullmatch(r" {4,}\d[\d ]*", line))


def swizzled(draw: Draw) -> tuple[str, list[int]]:
    return phased(draw, "swizzled_shared", 2)


def rotating(draw: Draw) -> tuple[str, list[int]]:
    return phased(draw, "amd_rotating_shared", 2)


@pytest.mark.parametrize(
    "make", [swizzled, rotating, padded, shared_linear], ids=lambda make: make.__name__
)
def test_the_picture_names_the_bank_of_every_element(
    make: Callable[[Draw], tuple[str, list[int]]],
) -> None:
    draw = Draw(3)
    read = 0
    for number in range(25):
        if number >= 8 and read > 2000:
            break
        text, shape = make(draw)
        if len(shape) != 2:
            continue
        picture, _ = rendered(text, shape, memory=True)
        assert all(len(line) <= 80 for line in picture.splitlines()), picture
        said = re.search(r"cell is (\d+) elements? along dim (\d)", picture)
        assert said is not None
        cell, fast = int(said[1]), int(said[2])
        lines = picture.splitlines()
        head = next(number for number, line in enumerate(lines) if line.lstrip().startswith("row"))
        grid = grid_of([line for line in lines[head:] if line], 2)
        for y, rows in enumerate(grid.rows):
            for row in (int(number) for number in rows.split(",") if number != "…"):
                for column in range(shape[fast]):
                    bank = grid.cells[y, column // cell]
                    where = (row, column) if fast == 1 else (column, row)
                    offset = shared_offset(layout_of(text), shape, where)
                    assert offset is not None
                    assert (offset - column % cell) * 2 // 4 % BANKS == int(bank), picture
                    read += 1
    assert read > 2000


def test_tool_tips_of_the_drawing_say_the_same() -> None:
    text = (
        "#ttg.amd_mfma<{version = 3, warpsPerCTA = [2, 2], instrShape = [16, 16, 16], "
        "isTransposed = true}>"
    )
    _, item = rendered(text, (64, 64))
    stream = io.StringIO()
    layout_svg.write([item], stream)
    tree = ElementTree.fromstring(stream.getvalue())
    tips = [each.text or "" for each in tree.iter("{http://www.w3.org/2000/svg}title")]
    holders = holders_of(to_linear(layout_of(text), (64, 64)))  # type: ignore[arg-type]
    assert holders is not None
    cells = 0
    for tip in tips:
        match = re.fullmatch(
            r"row (\d+), columns (\d+)–\d+: wave (\d+), lane (\d+), r(\d+)–\d+", tip
        )
        if match is None:
            continue
        row, column, wave, lane, register = map(int, match.groups())
        holder = holders.at((row, column))
        assert (holder.warp, holder.lane, holder.register) == (wave, lane, register)
        cells += 1
    assert cells == 64  # 16×16 elements, of which a lane holds 4
    assert len(tips) == 64 + 16


# ------------------------------------------------------------------ the command


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A `.kinspect` file of a kernel for two targets."""
    pytest.importorskip("triton")
    path = tmp_path_factory.mktemp("layout") / "kernel.kinspect"
    kernels = str(DATA.parent / "guest_kernels.py")
    arguments = ["--kernel", "gemm", "--arch", "gfx942,gfx950", "--no-passes", "-o", "/dev/null"]
    assert run(["analyze", kernels, *arguments, "--save", str(path)]) == 0
    return path


def layout(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    capsys.readouterr()
    status = run(["layout", *map(str, arguments)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_values_are_listed_and_drawn_by_name_layout_and_line(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, listed, _ = layout(capsys, saved, "--arch", "gfx942")
    assert status == 0
    of_mma = listed.partition("#mma  amd_mfma")[2].split("\n\n")[0]
    name = re.search(r"^  (%\w+).*guest_kernels.py", of_mma, re.M)
    assert name is not None
    status, by_name, _ = layout(capsys, saved, "--arch", "gfx942", name[1])
    assert status == 0
    assert by_name.splitlines()[0].startswith(f"{name[1]}  ")
    assert "amd_mfma" in by_name
    alias = re.search(r"^(#\w+)  amd_mfma", by_name, re.M)
    line = re.search(r"guest_kernels.py:(\d+)", by_name)
    assert alias is not None
    assert line is not None
    for wanted in (alias[1], line[1], f"guest_kernels.py:{line[1]}"):
        status, others, _ = layout(capsys, saved, "--arch", "gfx942", wanted)
        assert status == 0
        assert by_name.split("\n\n", 1)[1] in others, wanted


def test_a_ttgir_s_lines_are_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("triton")
    path = DATA / "gemm_rowmax-3.9-gfx950.ttgir"
    lines = path.read_text().splitlines()
    number = next(n for n, line in enumerate(lines, 1) if "local_alloc" in line)
    name = lines[number - 1].split()[0]
    status, picture, err = layout(capsys, path, number)
    assert status == 0, err
    assert picture.startswith(f"{name}  ")
    assert f"(TTGIR line {number})" in picture
    assert "64 where it begins" in picture  # banks of gfx950


def test_colour_adds_nothing_to_the_text(
    saved: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, plain, _ = layout(capsys, saved, "--arch", "gfx942", "#shared")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    _, coloured, _ = layout(capsys, saved, "--arch", "gfx942", "#shared", "--color")
    assert "\x1b[30;10" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain
    monkeypatch.setenv("NO_COLOR", "1")
    _, without, _ = layout(capsys, saved, "--arch", "gfx942", "#shared", "--color")
    assert not re.search(r"\x1b\[[\d;]*[34]\d", without)


def test_formats(saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = (saved, "--arch", "gfx950")
    page, drawing = tmp_path / "a.html", tmp_path / "a.svg"
    assert layout(capsys, *chosen, "--format", "html", "-o", page)[0] == 0
    assert layout(capsys, *chosen, "#mma", "--format", "svg", "-o", drawing)[0] == 0
    ElementTree.parse(drawing)
    sections = re.findall(r"<section .*?</section>", page.read_text(), re.S)
    _, listed, _ = layout(capsys, *chosen, "--format", "json")
    values = json.loads(listed)["values"]
    assert len(sections) == len(values) > 5
    for section in sections:
        ElementTree.fromstring(re.sub(r"^<section[^>]*>|</section>$", "", section))
    assert all((value["registers"] is None) != (value["lds"] is None) for value in values)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--arch", "gfx942", "%nothing"), "no value or layout named %nothing"),
        (("--arch", "gfx942", "9999"), "no value with a layout on line 9999; the nearest with one"),
        ((), "it has 2 kernels; choose one with --kernel, --arch or --case: gemm"),
        (("--arch", "gfx942", "--format", "svg"), "--format svg draws one value"),
    ],
)
def test_what_cannot_be_drawn_is_one_line(
    saved: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    status, out, err = layout(capsys, saved, *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_of_a_part_its_allocation_is_drawn() -> None:
    """The rows and columns of a slice lie as the layout lays out the whole."""
    text = "#ttg.swizzled_shared<{vec = 4, perPhase = 1, maxPhase = 16, order = [1, 0]}>"
    whole, _ = rendered(text, (64, 64), memory=True)
    of = f"!ttg.memdesc<64x16xf16, {text}, #ttg.shared_memory, mutable, 64x64>"
    (value,) = values_of(parse_ttgir(f"module {{\n%0 = test.op : {of}\n}}", of))
    stream = io.StringIO()
    layout_text.write([drawing_of([value], BANKS)], stream, color=False)
    assert "part of 64×64" in stream.getvalue()
    assert stream.getvalue().split("\n\n", 1)[1] == whole.split("\n\n", 1)[1]


@pytest.mark.parametrize("shape", [(1 << 40, 4), (1 << 20, 1 << 20)])
def test_a_shape_that_no_tensor_has_is_not_drawn(shape: tuple[int, int]) -> None:
    blocked_text = (
        "#ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [8, 8], warpsPerCTA = [1, 1], "
        "order = [1, 0]}>"
    )
    shared = "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>"
    assert rendered(blocked_text, shape)[1].picture is None
    assert rendered(shared, shape, memory=True)[1].picture is None


def test_assembly_has_no_layouts(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = layout(capsys, DATA.parent / "small_gfx942.s")
    assert status == 2
    assert "there is no TTGIR in it" in err


def test_one_of_several_specialisations_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("triton")
    script = tmp_path / "two.py"
    script.write_text(
        "import torch, triton, triton.language as tl\n\n\n"
        "@triton.jit\n"
        "def double(x, y, B: tl.constexpr):\n"
        "    off = tl.arange(0, B)\n"
        "    tl.store(y + off, tl.load(x + off) * 2)\n\n\n"
        "for dtype in (torch.float32, torch.float16):\n"
        "    x = torch.zeros(1024, device='cuda', dtype=dtype)\n"
        "    double[(1,)](x, torch.empty_like(x), 1024)\n"
    )
    status, _, err = layout(capsys, script)
    assert status == 2
    assert "--case: double[x=*fp32]@gfx942, double[x=*fp16]@gfx942" in err
    status, out, _ = layout(capsys, script, "--case", "fp16")
    assert status == 0
    assert "1024xf16" in out
    status, out, err = layout(capsys, script, "--case", "bf16")
    assert (status, out) == (2, "")
    assert "it has no case bf16; there are: double[x=*fp32]@gfx942" in err
