"""Code objects: the decoded figures against LLVM's own readers, and what the file gets wrong."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgpack
import pytest
import yaml
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.isa.objects.amdnote import KernelNote
from kinspect.inspector.isa.objects.codeobject import CodeObject, read_code_object
from kinspect.inspector.isa.objects.crosscheck import compare, decode_descriptor, join
from kinspect.inspector.isa.objects.eflags import TARGETS, split_target, target_of
from kinspect.inspector.isa.objects.elf import read_elf
from kinspect.inspector.model import Resources

DATA = Path(__file__).parent / "data" / "elf"
COMMITTED = sorted(DATA.glob("*.hsaco"))
ARCHES = (
    "gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1010", "gfx1030", "gfx1100", "gfx1151",
    "gfx1201", "gfx1250", "gfx1251", "gfx9-4-generic", "gfx11-generic",
)  # fmt: skip


def tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


def output(*command: str | Path) -> str:
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=True, timeout=60
    ).stdout


def read(path: Path) -> CodeObject:
    return read_code_object(path.read_bytes(), path.name)


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Compiles tests/data/elf/two.ll with LLVM 22 and links it."""
    folder = tmp_path_factory.mktemp("hsaco")

    def run(arch: str, *options: str, link: bool = True) -> Path:
        llc, ld = tool("llc-22"), tool("ld.lld-22")
        stem = folder / "_".join((arch, *options)).translate({ord(c): "_" for c in "=,."})
        obj, linked = Path(f"{stem}.o"), Path(f"{stem}.hsaco")
        if not obj.exists():
            output(llc, f"-mcpu={arch}", *options, "-filetype=obj", DATA / "two.ll", "-o", obj)
            output(ld, "-shared", obj, "-o", linked)
        return linked if link else obj

    return run


# ------------------------------------------------------------------- against LLVM's readers


def notes_by_llvm(path: Path) -> tuple[str, dict[str, dict[str, int]]]:
    """The target, and symbol -> entries, that `llvm-readobj --notes` prints."""
    text = output(tool("llvm-readobj-22"), "--notes", path)
    root = yaml.safe_load(text.split("AMDGPU Metadata: ---")[1].split("\n...\n")[0])
    kernels = {k[".symbol"].removesuffix(".kd"): k for k in root["amdhsa.kernels"]}
    return root["amdhsa.target"], kernels


def directives_by_llvm(path: Path, kernel: str) -> dict[str, int]:
    text = output(
        tool("llvm-objdump-22"), "-D", "-j", ".rodata", f"--disassemble-symbols={kernel}.kd", path
    )
    found = re.findall(r"\.amdhsa_(\w+) (-?\d+)", text)
    assert found, text
    return {name: int(value) for name, value in found}


def check_against_llvm(path: Path) -> None:
    code = read(path)
    triple, notes = notes_by_llvm(path)
    arch, features = split_target(triple)
    assert (code.arch, set(code.features)) == (arch, set(features))
    assert set(code.kernels) == set(notes)
    assert code.notes == ()
    target = target_of(code.arch)
    assert target is not None
    for name, resources in code.kernels.items():
        note = notes[name]
        stated = {
            ".vgpr_count": resources.vgpr_count,
            ".agpr_count": resources.agpr_count,
            ".sgpr_count": resources.sgpr_count,
            ".vgpr_spill_count": resources.vgpr_spill_count,
            ".sgpr_spill_count": resources.sgpr_spill_count,
            ".group_segment_fixed_size": resources.lds_bytes,
            ".private_segment_fixed_size": resources.scratch_bytes,
            ".kernarg_segment_size": resources.kernarg_bytes,
            ".wavefront_size": resources.wave_size,
            ".max_flat_workgroup_size": resources.max_workgroup_size,
        }
        assert {k: v for k, v in stated.items() if v is not None} == {
            k: note[k] for k in stated if k in note
        }
        directives = directives_by_llvm(path, name)
        assert resources.vgprs_allocated == directives["next_free_vgpr"]
        assert resources.accum_offset == directives.get("accum_offset")
        mode = directives.get("workgroup_processor_mode")
        assert resources.wgp_mode == (None if mode is None else bool(mode))
        assert resources.wave_size == (32 if directives.get("wavefront_size32") else 64)
        stack = directives.get("uses_dynamic_stack")  # not recorded before v5
        assert resources.uses_dynamic_stack == (None if stack is None else bool(stack))
        assert resources.lds_bytes == directives["group_segment_fixed_size"]
        assert resources.scratch_bytes == directives["private_segment_fixed_size"]
        descriptor = code.descriptors[name]
        assert descriptor.kernarg_bytes == directives["kernarg_size"]
        assert (descriptor.kernarg_preload_dwords or 0) == directives.get(
            "user_sgpr_kernarg_preload_length", 0
        )
        if target.encoding.sgpr_granule:
            # objdump prints the whole count, since it says that nothing is reserved in it.
            assert descriptor.sgprs_allocated == directives["next_free_sgpr"]
        if target.encoding.accum_offset:
            assert descriptor.tg_split == bool(directives["tg_split"])
    check_sizes_against_llvm(path, code)


def check_sizes_against_llvm(path: Path, code: CodeObject) -> None:
    symbols = json.loads(
        output(tool("llvm-readobj-22"), "--elf-output-style=JSON", "--symbols", path)
    )[0]["Symbols"]
    functions = {
        s["Symbol"]["Name"]["Name"]: (s["Symbol"]["Value"], s["Symbol"]["Size"])
        for s in symbols
        if s["Symbol"]["Type"]["Name"] == "Function"
    }
    assert {f.name: (f.address, f.size) for f in code.functions} == functions
    for name, resources in code.kernels.items():
        assert resources.code_bytes == functions[name][1]


@pytest.mark.parametrize("path", COMMITTED, ids=lambda p: p.name)
def test_committed_objects_decode_as_by_llvm(path: Path) -> None:
    check_against_llvm(path)


@pytest.mark.parametrize("arch", ARCHES)
def test_compiled_objects_decode_as_by_llvm(arch: str, build: Callable[..., Path]) -> None:
    version = 6 if arch.endswith("generic") else 5
    check_against_llvm(build(arch, f"--amdhsa-code-object-version={version}"))


@pytest.mark.parametrize("arch", ["gfx1030", "gfx1100", "gfx1201"])
def test_wave64_objects_decode_as_by_llvm(arch: str, build: Callable[..., Path]) -> None:
    path = build(arch, "-mattr=+wavefrontsize64")
    assert {k.wave_size for k in read(path).kernels.values()} == {64}
    check_against_llvm(path)


@pytest.mark.parametrize("version", [4, 5, 6])
@pytest.mark.parametrize(
    "features", ["", "-xnack,+sramecc", "+xnack,-sramecc", "+xnack"], ids=lambda f: f or "any"
)
def test_version_and_features(version: int, features: str, build: Callable[..., Path]) -> None:
    path = build("gfx90a", f"-mattr={features}", f"--amdhsa-code-object-version={version}")
    code = read(path)
    assert code.version == version
    asked = {f[1:] + f[0] for f in features.split(",") if f}
    assert set(code.features) == asked
    check_against_llvm(path)


def test_generic_version(build: Callable[..., Path]) -> None:
    option = "--amdhsa-code-object-version=6"
    assert read(build("gfx11-generic", option)).generic_version == 1
    assert read(build("gfx1100", option)).generic_version is None


def test_every_processor_number_is_llvms(tmp_path: Path) -> None:
    mc = tool("llvm-mc-22")
    listed = subprocess.run(
        [mc, "-triple=amdgcn", "-mcpu=help"],
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )
    known = set(re.findall(r"Select the (gfx\S+) processor", listed.stdout + listed.stderr))
    assert len(known) > 40
    empty = tmp_path / "empty.s"
    empty.write_text("s_nop 0\n")
    ours = {t.name for t in TARGETS}
    assert known - ours == set()
    for name in sorted(known):
        made = tmp_path / f"{name}.o"
        output(mc, "-triple=amdgcn-amd-amdhsa", f"-mcpu={name}", "-filetype=obj", empty, "-o", made)
        assert read(made).arch == name


def test_objects_before_linking_read_the_same(build: Callable[..., Path]) -> None:
    linked, loose = read(build("gfx942")), read(build("gfx942", link=False))
    assert loose.kernels == linked.kernels
    assert [f.size for f in loose.functions] == [f.size for f in linked.functions]


# ------------------------------------------------------------------- disagreements


def resources_of(note: KernelNote, arch: str, **fields: int) -> Resources:
    target = target_of(arch)
    assert target is not None
    raw = struct.pack(
        "<III4xq20xIIIHH4x",
        fields.get("lds", 0),
        fields.get("scratch", 0),
        0,
        0,
        fields.get("accum", 4) // 4 - 1,
        fields.get("vgprs", 8) // fields.get("granule", 8) - 1
        | fields.get("sgprs", 8) // 8 - 1 << 6,
        0,
        fields.get("properties", 0),
        0,
    )
    return join(note, decode_descriptor(raw, target.encoding, 5), target.encoding, None)


@pytest.mark.parametrize(
    ("note", "arch", "fields", "says"),
    [
        # LLVM's own counts, as in real objects: nothing to say.
        (KernelNote(vgpr_count=130, agpr_count=0), "gfx942", {"vgprs": 136, "accum": 132}, []),
        (KernelNote(vgpr_count=192, agpr_count=64), "gfx942", {"vgprs": 192, "accum": 128}, []),
        # waves_per_eu inflates the request.
        (KernelNote(vgpr_count=11, agpr_count=0), "gfx942", {"vgprs": 104, "accum": 12}, []),
        (KernelNote(vgpr_count=64), "gfx1100", {"vgprs": 64, "properties": 1 << 10}, []),
        (
            KernelNote(vgpr_count=256, agpr_count=256),
            "gfx942",
            {"vgprs": 512, "accum": 256},
            ["256 with 256 AGPRs, which start at 256"],
        ),
        (
            KernelNote(vgpr_count=256),
            "gfx942",
            {"vgprs": 512, "accum": 256},
            ["agpr_count: the metadata does not say", "which the count may leave out"],
        ),
        (
            KernelNote(vgpr_count=100, agpr_count=0),
            "gfx90a",
            {"vgprs": 104, "accum": 64},
            ["AGPRs start at 64"],
        ),
        (
            KernelNote(vgpr_count=200, agpr_count=0),
            "gfx942",
            {"vgprs": 104, "accum": 200},
            ["allocates only 104"],
        ),
        (KernelNote(sgpr_count=50), "gfx942", {"sgprs": 48}, ["allocates only 48"]),
        (KernelNote(lds_bytes=512), "gfx942", {"lds": 1024}, ["lds_bytes", "512", "1024"]),
        (KernelNote(scratch_bytes=0), "gfx942", {"scratch": 16}, ["scratch_bytes"]),
        (KernelNote(wave_size=32), "gfx942", {}, ["wave_size: the metadata says 32"]),
        (KernelNote(uses_dynamic_stack=True), "gfx942", {}, ["uses_dynamic_stack"]),
    ],
)
def test_disagreements(
    note: KernelNote, arch: str, fields: dict[str, int], says: list[str]
) -> None:
    found = " ".join(resources_of(note, arch, **fields).disagreements)
    for part in says:
        assert part in found
    if not says:
        assert found == ""


def with_note(path: Path, change: Callable[[dict[str, object]], None]) -> bytes:
    """The object with its metadata note changed and packed again, padded to the same size."""
    data = path.read_bytes()
    elf = read_elf(data, path.name)
    (note,) = elf.notes()
    root = msgpack.unpackb(note.data)
    change(root["amdhsa.kernels"][0])
    packed = msgpack.packb(root)
    assert len(packed) <= len(note.data)
    # What is left over goes into an unused entry.
    root["x"] = b""
    spare = len(note.data) - len(msgpack.packb(root))
    if spare >= 0:
        root["x"] = bytes(spare)
        packed = msgpack.packb(root)
        while len(packed) > len(note.data):
            root["x"] = root["x"][:-1]
            packed = msgpack.packb(root)
    return data.replace(note.data, packed.ljust(len(note.data), b"\xc0"))


def test_a_real_object_without_agpr_count_says_so() -> None:
    path = DATA / "two.gfx942.hsaco"

    def change(kernel: dict[str, object]) -> None:
        del kernel[".agpr_count"], kernel[".args"]
        kernel[".group_segment_fixed_size"] = 77

    code = read_code_object(with_note(path, change), "edited.hsaco")
    changed, other = code.kernels.values()
    assert changed.agpr_count is None
    assert changed.lds_bytes == 0
    assert any(d.startswith("agpr_count: the metadata does not say") for d in changed.disagreements)
    assert any("lds_bytes: the metadata says 77" in d for d in changed.disagreements)
    assert other.disagreements == ()


def test_senseless_entries_are_unknown_and_named() -> None:
    def change(kernel: dict[str, object]) -> None:
        del kernel[".args"]
        kernel[".vgpr_count"] = "many"
        kernel[".sgpr_count"] = -4
        kernel[".wavefront_size"] = 0
        kernel[".uses_dynamic_stack"] = 2.5

    code = read_code_object(with_note(DATA / "two.gfx942.hsaco", change), "edited.hsaco")
    first = next(iter(code.kernels.values()))
    assert first.vgpr_count is None
    assert first.sgpr_count is None
    assert first.uses_dynamic_stack is not None  # the descriptor says it
    assert [d for d in first.disagreements if "metadata: " in d] == [
        "metadata: .vgpr_count is not a count",
        "metadata: .sgpr_count is not a count",
        "metadata: .wavefront_size is neither 32 nor 64",
        "metadata: .uses_dynamic_stack is neither true nor false",
    ]


def test_arch_of_flags_and_metadata_are_compared() -> None:
    data = bytearray((DATA / "two.gfx942.hsaco").read_bytes())
    data[48] = 0x4F  # EF_AMDGPU_MACH of gfx950
    code = read_code_object(bytes(data), "edited.hsaco")
    assert code.arch == "gfx950"
    assert code.notes == ("e_flags says gfx950, the metadata gfx942",)
    data[48] = 0xFE
    code = read_code_object(bytes(data), "edited.hsaco")
    assert code.arch == "gfx942"


def test_unknown_processor_leaves_registers_unknown() -> None:
    data = (DATA / "two.gfx942.hsaco").read_bytes().replace(b"gfx942", b"gfx9zz")
    data = data[:48] + b"\xfe" + data[49:]
    code = read_code_object(data, "new.hsaco")
    assert code.arch is None
    assert any("unknown processor" in n for n in code.notes)
    for resources in code.kernels.values():
        assert resources.vgprs_allocated is None
        assert resources.accum_offset is None
        assert resources.vgpr_count is not None


def test_compare_text_and_binary() -> None:
    binary = read(DATA / "two.gfx942.hsaco").kernels["second"]
    text = Resources(vgpr_count=binary.vgpr_count, next_free_vgpr=97, sgpr_count=999, lds_bytes=512)
    assert compare(text, binary) == (
        f"sgpr_count: the assembly text says 999, the code object {binary.sgpr_count}",
    )
    text = Resources(next_free_vgpr=105, wave_size=32)
    assert compare(text, binary) == (
        "wave_size: the assembly text says 32, the code object 64",
        "next_free_vgpr: the assembly text says 105, the code object's descriptor allocates 104",
    )
    assert compare(Resources(), binary) == ()


# ------------------------------------------------------------------- files that are something else


def test_wrong_files_are_named() -> None:
    good = (DATA / "two.gfx942.hsaco").read_bytes()
    cases = {
        b"": "empty",
        b"MZ..": "not an ELF file",
        good[:40]: "truncated",
        good[:4] + b"\x01" + good[5:]: "32-bit",
        good[:5] + b"\x02" + good[6:]: "big-endian",
        good[:18] + b"\x3e\x00" + good[20:]: "another machine .e_machine 62",
        good[:-100]: "section table lies outside",
    }
    for data, says in cases.items():
        with pytest.raises(KinspectError, match=says) as caught:
            read_code_object(data, "f.hsaco")
        assert str(caught.value).startswith("f.hsaco: ")
        assert caught.value.hint


def test_code_object_v2_is_named(tmp_path: Path) -> None:
    mc = tool("llvm-mc-22")
    source = tmp_path / "v2.s"
    source.write_text(
        's_nop 0\n.section .note,"a",@note\n.long 4, 4, 10\n.asciz "AMD"\n.ascii "---\\n"\n'
    )
    made = tmp_path / "v2.o"
    output(mc, "-triple=amdgcn-amd-amdhsa", "-mcpu=gfx900", "-filetype=obj", source, "-o", made)
    with pytest.raises(KinspectError, match=r"code object v2.*mcode-object-version"):
        read(made)


def test_stripped_objects_keep_their_kernels(build: Callable[..., Path], tmp_path: Path) -> None:
    path = build("gfx942")
    stripped = tmp_path / "stripped.hsaco"
    output(tool("llvm-strip-22"), path, "-o", stripped)
    assert read(stripped).kernels == read(path).kernels
