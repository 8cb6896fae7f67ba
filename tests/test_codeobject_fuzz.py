"""Hostile code objects: KinspectError or a result, nothing else, in bounded time and memory."""

from __future__ import annotations

import struct
import time
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.isa.objects.amdnote import read_note
from kinspect.inspector.isa.objects.bundle import extract_code_objects
from kinspect.inspector.isa.objects.codelisting import trim_listing
from kinspect.inspector.isa.objects.codeobject import read_code_object
from kinspect.inspector.isa.objects.dwarf import DebugSections, DwarfBudget, DwarfError
from kinspect.inspector.isa.objects.elf import Elf, read_elf
from kinspect.inspector.isa.objects.inlining import read_units
from kinspect.inspector.isa.objects.linemap import read_line_map, read_line_program
from kinspect.inspector.isa.objects.load import resources_only

DATA = Path(__file__).parent / "data" / "elf"
OBJECTS = [p.read_bytes() for p in sorted(DATA.glob("*.hsaco"))]
BUNDLE = struct.Struct("<QQQ")

# Values that break size arithmetic.
EDGES = [0, 1, 2, 7, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, (1 << 63) - 1, (1 << 64) - 1]


def survive(data: bytes) -> None:
    """Everything that reads a file without a disassembler; only KinspectError may come out."""
    try:
        code = read_code_object(data, "fuzzed")
    except KinspectError as error:
        check(error)
    else:
        lines = read_line_map(code.elf)
        for function in code.functions[:50]:
            lines.location_at(function.address)
        trim_listing("Disassembly of section .text:\n\ts_nop 0 // 000000001700: 00\n", code)
    for read in (extract_code_objects, resources_only):
        try:
            read(data, "fuzzed")
        except KinspectError as error:
            check(error)


def check(error: KinspectError) -> None:
    text = str(error)
    assert text.startswith("fuzzed")
    assert "\n" not in text
    assert len(text) < 2000
    assert error.hint


def patched(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


@given(st.sampled_from(OBJECTS), st.integers(0, 10_000))
def test_truncated(data: bytes, length: int) -> None:
    survive(data[:length])


@given(
    st.sampled_from(OBJECTS),
    st.lists(st.tuples(st.integers(0, 9999), st.binary(min_size=1, max_size=8)), max_size=20),
)
def test_mutated(data: bytes, changes: list[tuple[int, bytes]]) -> None:
    for at, new in changes:
        data = patched(data, at % len(data), new)[: len(data)]
    survive(data)


@given(st.sampled_from(OBJECTS), st.integers(0, 63), st.sampled_from(EDGES), st.data())
def test_mutated_headers(data: bytes, at: int, value: int, draw: st.DataObject) -> None:
    """Edge values in the ELF header and in fields of section headers."""
    table, count = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
    section = draw.draw(st.integers(0, count - 1))
    field, form = draw.draw(
        st.sampled_from(
            [(0, "<I"), (4, "<I"), (8, "<Q"), (16, "<Q"), (24, "<Q"), (32, "<Q"), (40, "<I"),
             (44, "<I"), (56, "<Q")]
        )
    )  # fmt: skip
    size = struct.calcsize(form)
    raw = struct.pack(form, value & (1 << 8 * size) - 1)
    survive(patched(data, table + 64 * section + field, raw))
    survive(patched(data, max(at, 4), struct.pack("<Q", value))[: len(data)])


@given(st.sampled_from(OBJECTS), st.data())
def test_mutated_symbols_notes_and_debug_information(data: bytes, draw: st.DataObject) -> None:
    elf = read_elf(data, "x")
    names = [".symtab", ".note", ".debug_info", ".debug_abbrev", ".debug_line", ".debug_rnglists"]
    present = [s for s in elf.sections if s.name in names and s.size]
    for _ in range(draw.draw(st.integers(1, 8))):
        section = draw.draw(st.sampled_from(present))
        at = section.offset + draw.draw(st.integers(0, section.size - 1))
        new = draw.draw(st.one_of(st.binary(min_size=1, max_size=4), st.just(b"\xff" * 8)))
        data = patched(data, at, new)[: len(data)]
    survive(data)


@given(
    st.binary(max_size=300),
    st.sampled_from([b"\x7fELF\x02\x01\x01@", b"CCOB", b"", b"__CLANG_OFFLOAD_BUNDLE__"]),
)
def test_random_bytes(data: bytes, start: bytes) -> None:
    survive(start + data)


@given(
    st.lists(
        st.tuples(st.sampled_from(EDGES), st.sampled_from(EDGES), st.sampled_from(EDGES)),
        max_size=4,
    ),
    st.sampled_from(EDGES),
    st.binary(max_size=40),
)
def test_random_bundles(entries: list[tuple[int, int, int]], count: int, tail: bytes) -> None:
    table = b"".join(BUNDLE.pack(*e) for e in entries)
    survive(b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", count) + table + tail)
    survive(b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(entries)) + table + tail)


# ------------------------------------------------------------------- msgpack


def with_note(note: bytes) -> Elf:
    """A minimal AMDGPU ELF file with one metadata note."""
    padded = note + bytes(-len(note) % 4)
    content = struct.pack("<III", 7, len(note), 32) + b"AMDGPU\0\0" + padded
    names = b"\0.note\0"
    table = 64 + len(content) + len(names)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01\x40\x03", 3, 224, 1, 0, 0, table, 0x54C, 64, 0,
        0, 64, 3, 2,
    )  # fmt: skip
    sections = bytes(64)
    sections += struct.pack("<IIQQQQIIQQ", 1, 7, 2, 0, 64, len(content), 0, 0, 4, 0)
    sections += struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, 64 + len(content), len(names), 0, 0, 1, 0)
    return read_elf(header + content + names + sections, "fuzzed")


leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 63), (1 << 64) - 1),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=5),
)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = (
    ".name", ".symbol", ".vgpr_count", ".agpr_count", ".wavefront_size", ".reqd_workgroup_size",
    ".uses_dynamic_stack", ".group_segment_fixed_size", ".private_segment_fixed_size",
)  # fmt: skip


@given(
    st.lists(st.dictionaries(st.sampled_from(KEYS), values, max_size=6) | values, max_size=3),
    values,
    values,
)
@example([{".symbol": "k.kd", ".reqd_workgroup_size": [1, 2]}], "gfx", [1, 2])
@example([{".name": "k", ".vgpr_count": True}], ":", [])
def test_senseless_notes(kernels: list[object], target: object, version: object) -> None:
    root = {"amdhsa.kernels": kernels, "amdhsa.target": target, "amdhsa.version": version}
    survive(with_note(msgpack.packb(root)).data)
    survive(with_note(msgpack.packb(kernels)).data)


@given(st.binary(max_size=100))
def test_random_notes(note: bytes) -> None:
    survive(with_note(note).data)


# ------------------------------------------------------------------- bombs


def bounded(run: Callable[[], object], seconds: float = 10.0, mib: int = 200) -> None:
    """`run` ends within bounds that are generous for a slow machine and hopeless for a bomb."""
    tracemalloc.start()
    start = time.process_time()
    try:
        run()
    finally:
        spent = time.process_time() - start
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert spent < seconds
    assert peak < mib << 20


MSGPACK_BOMBS = {
    "nested arrays": b"\x91" * 1_000_000,
    "nested maps": b"\x81\x00" * 500_000,
    "huge array": b"\xdd\xff\xff\xff\xff" + bytes(100),
    "nested huge arrays": b"\xdd\x00\x03\xff\xff" * 900 + bytes(2000),
    "huge map": b"\xdf\xff\xff\xff\xff" + bytes(100),
    "huge string": b"\xdb\xff\xff\xff\xff" + bytes(100),
    "huge extension": b"\xc9\xff\xff\xff\xff\x01" + bytes(100),
    "unhashable key": b"\x81\x90\x00",
}


@pytest.mark.parametrize("name", MSGPACK_BOMBS)
def test_msgpack_bombs(name: str) -> None:
    elf = with_note(MSGPACK_BOMBS[name])

    def run() -> None:
        with pytest.raises(KinspectError, match="metadata note does not decode"):
            read_note(elf)

    bounded(run)


def test_header_that_announces_sections_without_end() -> None:
    data = bytearray(OBJECTS[0])
    table = struct.unpack_from("<Q", data, 40)[0]
    struct.pack_into("<H", data, 60, 0)  # e_shnum: see the first section's size
    struct.pack_into("<Q", data, table + 32, 1 << 60)
    with pytest.raises(KinspectError, match="section table lies outside"):
        bounded(lambda: read_elf(bytes(data), "x"))


def test_symbols_that_share_one_long_name() -> None:
    count, length = 20_000, 1 << 16
    strings = b"\0" + b"a" * length + b"\0"
    symbols = b"".join(struct.pack("<IBBHQQ", 1 + i % 64, 0x12, 0, 1, 0, 8) for i in range(count))
    header_size = 64
    table = header_size + len(strings) + len(symbols)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01\x40\x03", 3, 224, 1, 0, 0, table, 0x54C, 64, 0,
        0, 64, 3, 0,
    )  # fmt: skip
    sections = bytes(64)
    sections += struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, header_size, len(strings), 0, 0, 1, 0)
    sections += struct.pack(
        "<IIQQQQIIQQ", 0, 2, 0, 0, header_size + len(strings), len(symbols), 1, 0, 8, 24
    )
    data = header + strings + symbols + sections

    def run() -> None:
        with pytest.raises(KinspectError, match="add up to an absurd size"):
            read_elf(data, "x")

    bounded(run, mib=600)


def line_header(formats: bytes, count: bytes) -> DebugSections:
    names = b"\x00\x00" + formats + count
    header = bytes([1, 1, 1, 0xFB, 14, 13]) + bytes(12) + names
    body = struct.pack("<HBBI", 5, 8, 0, len(header)) + header
    return DebugSections(line=struct.pack("<I", len(body)) + body)


def test_file_table_without_fields_that_announces_entries() -> None:
    # 44 bytes that keep readers which believe them busy for ever.
    count = b"\xff" * 9 + b"\x00"
    sections = line_header(b"\x00", count)

    def run() -> None:
        with pytest.raises(DwarfError):
            read_line_program(sections, 0, "", DwarfBudget(len(sections.line)))

    bounded(run, seconds=1, mib=5)


def test_abbreviation_with_attributes_that_take_no_bytes() -> None:
    # Each entry takes one byte and 10,000 attributes' work.
    abbreviation = b"\x01\x11\x00" + b"\x3f\x19" * 10_000 + b"\x00\x00\x00"
    entries = b"\x01" * 10_000
    body = struct.pack("<HBBI", 5, 1, 8, 0) + entries
    info = struct.pack("<I", len(body)) + body
    sections = DebugSections(
        line=b"x", info=info, abbrev=abbreviation.replace(b"\x11\x00", b"\x11\x01")
    )

    def run() -> None:
        with pytest.raises(DwarfError, match=r"without end|nested deeper"):
            read_units(sections, DwarfBudget(len(info) + len(abbreviation)))

    bounded(run)


def test_units_that_share_one_line_table() -> None:
    program = b"\x01" * 10_000
    header = bytes([1, 1, 1, 0xFB, 14, 13]) + bytes(12) + b"\x00\x00"
    body = struct.pack("<HI", 4, len(header)) + header + program
    line = struct.pack("<I", len(body)) + body
    abbreviation = b"\x01\x11\x00\x10\x17\x00\x00\x00"
    unit = struct.pack("<HIB", 4, 0, 8) + b"\x01" + struct.pack("<I", 0)
    info = (struct.pack("<I", len(unit)) + unit) * 2000
    sections = DebugSections(line=line, info=info, abbrev=abbreviation)
    budget = DwarfBudget(len(line) + len(info) + len(abbreviation))
    units = read_units(sections, budget)
    assert len(units) == 2000

    def read_all() -> None:
        for unit in units:
            read_line_program(sections, unit.line_offset or 0, "", budget)

    def run() -> None:
        with pytest.raises(DwarfError, match="without end"):
            read_all()

    bounded(run)


def test_decompression_bombs() -> None:
    bomb = zlib.compress(bytes(200 << 20), 9)
    claims_little = struct.pack("<4sHHQQ8x", b"CCOB", 3, 0, 32 + len(bomb), 1000) + bomb
    claims_much = struct.pack("<4sHHQQ8x", b"CCOB", 3, 0, 32 + len(bomb), 1 << 40) + bomb

    def run(data: bytes) -> None:
        with pytest.raises(KinspectError, match=r"decompress|inflates to far more"):
            extract_code_objects(data, "x")

    bounded(lambda: run(claims_little), mib=20)
    bounded(lambda: run(claims_much), mib=20)


@pytest.mark.parametrize("claim", [0, 200 << 20, 1 << 40])
def test_compressed_sections_that_are_bombs(claim: int) -> None:
    # 0 is no limit to zlib.
    content = struct.pack("<IIQQ", 1, 0, claim, 1) + zlib.compress(bytes(200 << 20), 9)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01\x40\x03", 3, 224, 1, 0, 0, 64 + len(content),
        0x54C, 64, 0, 0, 64, 2, 0,
    )  # fmt: skip
    sections = bytes(64)
    sections += struct.pack("<IIQQQQIIQQ", 0, 1, 0x800, 0, 64, len(content), 0, 0, 1, 0)
    elf = read_elf(header + content + sections, "x")

    def run() -> None:
        with pytest.raises(KinspectError, match=r"cannot be inflated.*decompress"):
            elf.bytes_of(elf.sections[1])

    bounded(run, mib=20)


def test_section_table_without_end_inside_the_file() -> None:
    count = 1 << 18
    header = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01\x40\x03", 3, 224, 1, 0, 0, 64, 0x54C, 64, 0,
        0, 64, 0, 0,
    )  # fmt: skip
    first = struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, count, 0, 0, 0, 0)
    data = header + first + bytes(64 * (count - 1))

    def run() -> None:
        with pytest.raises(KinspectError, match="262144 sections"):
            read_elf(data, "x")

    bounded(run, seconds=1, mib=50)


@pytest.mark.parametrize(
    ("shift", "message"), [(0, "without code for AMD GPUs"), (1, "entries that overlap")]
)
def test_bundle_whose_entries_overlap(shift: int, message: str) -> None:
    count = 20_000
    triple = b"hip-amdgcn-amd-amdhsa--gfx942"
    size = 32 + count * (24 + len(triple))
    entries = b"".join(
        BUNDLE.pack(n * shift, size - n * shift, len(triple)) + triple for n in range(count)
    )
    data = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", count) + entries

    def run() -> None:
        with pytest.raises(KinspectError, match=message):
            extract_code_objects(data, "x")

    bounded(run, mib=50)
