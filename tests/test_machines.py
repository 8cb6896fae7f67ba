"""Machine files: strict loading, and figures against LLVM's assembler, compiler and schedule."""

from __future__ import annotations

import csv
import io
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from elftools.elf.elffile import ELFFile
from kinspect.inspector import machines
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.machines import load, matrix_cycles, names
from kinspect.inspector.machines.rates import rates_of
from kinspect.inspector.model import Machine

FOLDER = Path(machines.__file__).parent
DATA = Path(__file__).parent / "data" / "recorded"
MC, LLC, MCA = (shutil.which(f"{tool}-22") for tool in ("llvm-mc", "llc", "llvm-mca"))
needs_mc = pytest.mark.skipif(MC is None, reason="llvm-mc-22 is not installed")
TRIPLE = "amdgcn-amd-amdhsa"


# LLVM 20 dropped the pre-production steppings of gfx942, whose features are the same.
CPU = {"gfx940": "gfx942", "gfx941": "gfx942"}


def assemble(arch: str, text: str, *options: str) -> subprocess.CompletedProcess[bytes]:
    assert MC is not None
    return subprocess.run(
        [MC, f"-triple={TRIPLE}", f"-mcpu={CPU.get(arch, arch)}", *options],
        input=text.encode(), capture_output=True, check=False,
    )  # fmt: skip


def refused(arch: str, lines: Sequence[str]) -> dict[str, str]:
    """Those of these lines that LLVM's assembler does not take, with its first word on each."""
    found: dict[str, str] = {}
    errors = assemble(arch, "\n".join(lines) + "\n").stderr.decode()
    for number, message in re.findall(r"^<stdin>:(\d+):\d+: error: (.*)$", errors, re.M):
        found.setdefault(lines[int(number) - 1], message)
    return found


# --------------------------------------------------------------------------- loading


def test_names_in_order() -> None:
    assert names()[:4] == ("gfx803", "gfx900", "gfx906", "gfx908")
    assert names()[4:10] == ("gfx90a", "gfx940", "gfx941", "gfx942", "gfx950", "gfx1010")
    assert names()[-1] == "gfx1250"
    assert sorted(names()) == sorted(path.stem for path in FOLDER.glob("gfx*.yaml"))


@pytest.mark.parametrize("arch", names())
def test_every_figure_has_a_source(arch: str) -> None:
    machine = load(arch)
    figures = set(Machine.__struct_fields__) - {"arch", "name", "family", "sources"}
    assert set(machine.sources) == figures
    assert all(text.strip() for text in machine.sources.values())
    assert machine.arch == arch
    # Every wave size has its figures, and nothing else has.
    for per_wave in (machine.vgpr_total, machine.vgpr_granule, machine.vgpr_encoding_granule):
        assert set(per_wave) >= set(machine.wave_sizes)
    assert (machine.eus_cu_mode is None) == (machine.lds_pool_cu_mode is None)
    assert set(machine.lds_granule) == {"22", "triton", "hardware"}
    assert machine.sgpr_total is None or set(machine.sgpr_steps) == {"22", "triton"}
    for steps in machine.sgpr_steps.values():
        assert list(steps) == sorted(steps)
        assert [w for _, w in steps] == sorted((w for _, w in steps), reverse=True)


def test_documents_are_all_cited_and_spelt_out() -> None:
    documents = yaml.safe_load((FOLDER / "documents.yaml").read_text())
    rates = (rates_of(arch) for arch in names())
    sources = [known.sources for known in rates if known is not None]
    sources += [load(arch).sources for arch in names()]
    text = " ".join(text for of_arch in sources for text in of_arch.values())
    assert [key for key, title in documents.items() if title not in text] == []
    assert "AMDGPUBaseInfo.cpp: IsaInfo::getMaxWavesPerEU" in load("gfx942").sources["max_waves"]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_no_key_stands_twice(path: Path) -> None:
    def walk(node: yaml.Node) -> None:
        if isinstance(node, yaml.MappingNode):
            keys = [key.value for key, _ in node.value]
            assert sorted(set(keys)) == sorted(keys)
            for _, value in node.value:
                walk(value)

    walk(yaml.compose(path.read_text()))


@pytest.mark.parametrize(
    "written",
    ["gfx942", "gfx942:sramecc+:xnack-", "amdgcn-amd-amdhsa--gfx942:xnack+", " GFX942 ",
     "amdgpu9.42-amd-amdhsa-unknown-gfx942"],
)  # fmt: skip
def test_targets_as_files_write_them(written: str) -> None:
    assert load(written) is load("gfx942")


@pytest.mark.parametrize(
    ("written", "hint"),
    [("gfx943", "did you mean gfx94"), ("gfx1105", "gfx11"), ("sm_90", "arch list"),
     ("../gfx942", "gfx942"), ("", "arch list")],
)  # fmt: skip
def test_unknown_target_names_the_nearest(written: str, hint: str) -> None:
    with pytest.raises(KinspectError, match="unknown target") as caught:
        load(written)
    assert hint in caught.value.hint


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for path in FOLDER.glob("*.yaml"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def write(folder: Path, arch: str, text: str) -> None:
    (folder / f"{arch}.yaml").write_text(text)


HEAD = "name: N\nfamily: F\n"


def test_a_new_target_is_one_new_file(folder: Path) -> None:
    write(folder, "gfx999", HEAD + "inherits: gfx942\nfigures:\n  cus: {value: 7, source: specs}\n")
    got = load("gfx999:xnack+", folder)
    assert (got.arch, got.name, got.cus) == ("gfx999", "N", 7)
    assert got.vgpr_total == load("gfx942").vgpr_total
    assert got.sources["max_waves"] == load("gfx942").sources["max_waves"]
    assert "gfx999" in names(folder)
    assert "gfx999" not in names()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (HEAD + "figures: {}", "gfx999.yaml: wave_sizes is missing"),
        (HEAD + "inherit: gfx942", "gfx999.yaml: inherit is not a key"),
        (HEAD + "inherits: gfx4711", "gfx999.yaml: inherits names 'gfx4711'"),
        (HEAD + "inherits: gfx999", "goes in a circle"),
        (HEAD + "inherits: gfx942\nfigures:\n  cuss: {value: 1, source: specs}",
         "figures.cuss is not a figure; did you mean cus?"),
        (HEAD + "inherits: gfx942\nfigures:\n  cus: 304", "figures.cus must be"),
        (HEAD + "inherits: gfx942\nfigures:\n  cus: {value: 1}", "figures.cus must be"),
        (HEAD + "inherits: gfx942\nfigures:\n  cus: {value: 1, source: ''}", "has no source"),
        (HEAD + "inherits: gfx942\nfigures:\n  cus: {value: 1, source: hearsay}", "'hearsay'"),
        (HEAD + "inherits: gfx942\nfigures:\n  cus: {value: many, source: specs}",
         "cus does not fit: Expected `int | null`, got `str`"),
        (HEAD + "inherits: gfx942\nfigures:\n  agpr: {value: maybe, source: specs}",
         "agpr does not fit"),
        (HEAD + "inherits: gfx942\nfigures:\n  vgpr_total: {value: {64: x}, source: specs}",
         "vgpr_total does not fit"),
        (HEAD + "inherits: gfx942\nfigures: [1]", "figures must be a mapping"),
        ("family: F\ninherits: gfx942", "name must be a text"),
        ("- 1", "is not a mapping"),
        ("a: b: c", "cannot be read"),
    ],
)  # fmt: skip
def test_faulty_files_are_named_with_the_key(folder: Path, text: str, fault: str) -> None:
    write(folder, "gfx999", text)
    with pytest.raises(KinspectError) as caught:
        load("gfx999", folder)
    assert fault in str(caught.value)
    assert "\n" not in str(caught.value)


# --------------------------------------------------------------------------- against LLVM


@needs_mc
@pytest.mark.parametrize("arch", names())
def test_wait_counters_and_their_fields(arch: str) -> None:
    """LLVM encodes what the fields say, and takes no more than the largest value."""
    machine = load(arch)
    # gfx12 counts loads, LDS and scalar loads apart; the three old counters are gone.
    assert bool(machine.waitcnt_fields) == ("vmcnt" in machine.counters)
    widths = {
        counter: sum(w for _, w in parts) for counter, parts in machine.waitcnt_fields.items()
    }
    beyond = [f"s_waitcnt {counter}({1 << width})" for counter, width in widths.items()]
    messages = refused(arch, beyond)
    assert list(messages) == beyond
    assert all("too large" in message for message in messages.values()), messages
    taken = {c: (0, 1, (1 << width) - 2) for c, width in widths.items()}
    lines = [f"s_waitcnt {counter}({n})\n" for counter, numbers in taken.items() for n in numbers]
    shown = assemble(arch, "".join(lines), "-show-encoding").stdout
    codes = re.findall(rb"encoding: \[0x(..),0x(..)", shown)
    assert len(codes) == len(lines)
    encoded = iter(codes)
    for counter, parts in machine.waitcnt_fields.items():
        width = widths[counter]
        assert machine.counters.get(counter, (1 << width) - 1) == (1 << width) - 1
        for n in taken[counter]:
            low_byte, high_byte = next(encoded)
            number, got, shift = int(high_byte + low_byte, 16), 0, 0
            for low, w in parts:
                got |= (number >> low & (1 << w) - 1) << shift
                shift += w
            assert got == n, (counter, n)


@needs_mc
@pytest.mark.parametrize("arch", names())
def test_counters_are_those_of_the_waits_that_exist(arch: str) -> None:
    waits = {
        "vscnt": "s_waitcnt_vscnt null, 0",
        **{new: f"s_wait_{new} 0" for new in ("loadcnt", "storecnt", "dscnt", "kmcnt", "xcnt")},
    }
    wrong = refused(arch, list(waits.values()))
    for counter, line in waits.items():
        assert (counter in load(arch).counters) == (line not in wrong), counter


@needs_mc
@pytest.mark.parametrize("arch", names())
def test_register_encoding_granules(arch: str) -> None:
    """The kernel descriptor's register count, as LLVM's assembler packs it."""
    machine = load(arch)
    asked = 77
    for wave in machine.wave_sizes:
        wave_line = ".amdhsa_wavefront_size32 " + str(int(wave == 32))
        lines = [
            ".text", "k: s_endpgm", ".rodata", ".amdhsa_kernel k",
            f".amdhsa_next_free_vgpr {asked}", ".amdhsa_next_free_sgpr 33",
            wave_line if machine.eus_cu_mode is not None else "",
            ".amdhsa_accum_offset 80" if machine.agpr == "unified" else "",
            ".end_amdhsa_kernel",
        ]  # fmt: skip
        done = assemble(arch, "\n".join(lines) + "\n", "-filetype=obj")
        assert done.returncode == 0, done.stderr
        section = ELFFile(io.BytesIO(done.stdout)).get_section_by_name(".rodata")
        rsrc1 = int.from_bytes(section.data()[48:52], "little")
        granule = machine.vgpr_encoding_granule[wave]
        assert (rsrc1 & 63) + 1 == -(-asked // granule)


@needs_mc
@pytest.mark.parametrize("arch", names())
def test_registers_that_can_be_named(arch: str) -> None:
    machine = load(arch)

    last = machine.sgpr_addressable - 1
    vgprs = machine.vgpr_addressable // (2 if machine.agpr == "unified" else 1)
    takes = {
        f"s_mov_b32 s{last}, 0": True,
        f"s_mov_b32 s{last + 1}, 0": False,
        "v_accvgpr_read_b32 v0, a0": machine.agpr != "none",
    }
    if vgprs <= 256:  # beyond, s_set_vgpr_msb picks the bank
        takes |= {f"v_mov_b32 v{vgprs - 1}, 0": True, f"v_mov_b32 v{vgprs}, 0": False}
    assert refused(arch, list(takes)).keys() == {line for line, taken in takes.items() if not taken}


@pytest.mark.skipif(LLC is None, reason="llc-22 is not installed")
@pytest.mark.parametrize("arch", names())
def test_lds_limit_is_what_llvm_refuses_to_exceed(arch: str) -> None:
    assert LLC is not None
    most = load(arch).lds_max
    for size, fits in ((most, True), (most + 1, False)):
        source = (
            f"@lds = internal addrspace(3) global [{size} x i8] poison\n"
            "define amdgpu_kernel void @k() {\n"
            "store volatile i8 0, ptr addrspace(3) @lds\nret void\n}\n"
        )
        done = subprocess.run(
            [LLC, f"-mtriple={TRIPLE}", f"-mcpu={CPU.get(arch, arch)}", "-filetype=null"],
            input=source, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ("exceeds limit" not in done.stderr) is fits, (size, done.stderr)


# --------------------------------------------------------------------------- matrix instructions


@pytest.mark.parametrize(
    ("arch", "name", "cycles"),
    [
        ("gfx90a", "v_mfma_f32_32x32x8f16", 64),
        ("gfx90a", "v_mfma_f32_32x32x4bf16", 64),
        ("gfx942", "v_mfma_f32_32x32x8_f16", 32),
        ("gfx942", "v_mfma_f32_32x32x8f16", 32),
        ("gfx942", "v_mfma_f32_32x32x8bf16_1k", 32),
        ("gfx942", "v_mfma_f32_16x16x32_fp8_fp8", 16),
        ("gfx942", "v_mfma_i32_32x32x16_i8", 32),
        ("gfx942", "v_mfma_f64_16x16x4_f64", 32),
        ("gfx950", "v_mfma_f64_16x16x4_f64", 64),
        ("gfx950", "v_mfma_f32_32x32x16_f16", 32),
        ("gfx950", "v_mfma_f32_16x16x32_bf16", 16),
        ("gfx1100", "v_wmma_f32_16x16x16_f16", 32),
        ("gfx1151", "v_wmma_i32_16x16x16_iu4", 16),
        ("gfx1201", "v_wmma_f32_16x16x16_f16", 16),
        ("gfx1201", "v_wmma_f32_16x16x16_fp8_fp8", 8),
        ("gfx1250", "v_wmma_f32_16x16x32_f16", 8),
        ("gfx942", "v_mfma_f32_32x32x16_f16", None),
        ("gfx1030", "v_wmma_f32_16x16x16_f16", None),
        ("gfx1201", "v_wmma_i32_16x16x16_iu4", None),
    ],
)
def test_matrix_cycles(arch: str, name: str, cycles: int | None) -> None:
    assert matrix_cycles(load(arch), name, "v[0:15], v[16:17], v[18:19], v[0:15]") == cycles


@pytest.mark.parametrize("scale", ["", "scale_"])
@pytest.mark.parametrize(
    ("modifiers", "factor"),
    [("", 2), ("cbsz:1", 2), ("cbsz:4", 2), ("blgp:4", 2), ("cbsz:1 blgp:4", 2),
     ("cbsz:4 blgp:1", 2), ("cbsz:4 blgp:4", 1), ("cbsz:2 blgp:3", 1),
     ("op_sel_hi:[0,0,0] cbsz:4 blgp:2", 1)],
)  # fmt: skip
def test_f8f6f4_depends_on_both_formats(scale: str, modifiers: str, factor: int) -> None:
    operands = f"v[0:3], v[32:39], v[64:71], v[0:3] {modifiers}"
    machine = load("gfx950")
    for shape, cycles in (("16x16x128", 16), ("32x32x64", 32)):
        name = f"v_mfma_{scale}f32_{shape}_f8f6f4"
        assert matrix_cycles(machine, name, operands) == cycles * factor


def test_f8f6f4_of_gfx1250_is_unknown_where_the_schedule_ignores_the_formats() -> None:
    machine, name = load("gfx1250"), "v_wmma_f32_16x16x128_f8f6f4"
    assert matrix_cycles(machine, name, "v[0:7], v[32:47], v[64:79], v[0:7]") == 8
    fp4 = "matrix_a_fmt:MATRIX_FMT_FP4 matrix_b_fmt:MATRIX_FMT_FP4"
    assert matrix_cycles(machine, name, f"v[0:7], v[32:39], v[64:71], v[0:7] {fp4}") is None


def _operations(name: str) -> int:
    """Multiplications and additions of one dense product M x N x K (times its blocks)."""
    m, n, k = (int(d) for d in re.search(r"_(\d+)x(\d+)x(\d+)", name).groups())  # type: ignore[union-attr]
    blocks = re.search(r"_(\d+)b_", name)
    return 2 * m * n * k * (int(blocks[1]) if blocks else 1)


@pytest.mark.parametrize(
    ("arch", "simds", "name", "modifiers", "peak"),
    [
        # Operations per clock and CU, from the vendor's peak rates: TFLOPS / (CUs x clock).
        ("gfx90a", 4, "v_mfma_f32_32x32x8f16", "", 1024),
        ("gfx942", 4, "v_mfma_f32_32x32x8_f16", "", 2048),
        ("gfx942", 4, "v_mfma_f32_32x32x16_fp8_fp8", "", 4096),
        ("gfx942", 4, "v_mfma_f32_32x32x2_f32", "", 256),
        ("gfx950", 4, "v_mfma_f32_32x32x16_f16", "", 4096),
        ("gfx950", 4, "v_mfma_f32_32x32x64_f8f6f4", "", 8192),
        ("gfx950", 4, "v_mfma_f32_32x32x64_f8f6f4", "cbsz:4 blgp:4", 16384),
        ("gfx950", 4, "v_mfma_f64_16x16x4_f64", "", 128),
        ("gfx1100", 2, "v_wmma_f32_16x16x16_f16", "", 512),
        ("gfx1100", 2, "v_wmma_i32_16x16x16_iu4", "", 1024),
        ("gfx1201", 2, "v_wmma_f32_16x16x16_f16", "", 1024),
        ("gfx1201", 2, "v_wmma_f32_16x16x16_fp8_fp8", "", 2048),
        ("gfx1201", 2, "v_wmma_i32_16x16x32_iu4", "", 4096),
    ],
)
def test_published_peak_rates(arch: str, simds: int, name: str, modifiers: str, peak: int) -> None:
    cycles = matrix_cycles(load(arch), name, f"v[0:3], v[4:5], v[6:7], v[0:3] {modifiers}")
    assert cycles is not None
    assert simds * _operations(name) / cycles == peak


def test_vendors_peak_matches_cus_and_clock() -> None:
    """MI300X: 1307.4 TFLOPS of dense FP16; MI355X: 2516.6; RX 7900 XTX 122.9; RX 9070 XT 194.6."""
    for arch, rate, tflops in (
        ("gfx942", 2048, 1307.4), ("gfx950", 4096, 2516.6), ("gfx1100", 512, 122.9),
        ("gfx1201", 1024, 194.6), ("gfx908", 1024, 184.6),
    ):  # fmt: skip
        machine = load(arch)
        assert machine.cus is not None
        assert machine.clock_mhz is not None
        assert machine.cus * machine.clock_mhz * rate / 1e6 == pytest.approx(tflops, rel=0.005)


def test_cycles_equal_the_recorded_calculator_and_schedule() -> None:
    checked = 0
    for line in (DATA / "mcalc_cycles.txt").read_text().splitlines():
        match = re.match(r"(cdna\d),(\S+): (\d+)", line)
        if match:
            arch = {"cdna1": "gfx908", "cdna2": "gfx90a", "cdna3": "gfx942"}[match[1]]
            assert matrix_cycles(load(arch), match[2], "") == int(match[3]), line
            checked += 1
    with (DATA / "mfma_lat.csv").open() as file:
        for row in csv.DictReader(file):
            # Passes of 4 clocks on CDNA, clocks on gfx1250; the RDNA schedules do not say.
            clocks = {"gfx908": 4, "gfx90a": 4, "gfx942": 4, "gfx950": 4, "gfx1250": 1}
            name, factor = row["mnemonic"], clocks.get(row["cpu"])
            if factor is None or name.endswith("16x16x4_f32"):
                continue
            want = float(row["mca_rthroughput"]) * factor
            if row["cpu"] == "gfx950" and name.endswith("f8f6f4"):
                name += ":narrow"
            assert load(row["cpu"]).mfma_cycles.get(name) == want, row
            checked += 1
    assert checked > 300


def test_every_matrix_instruction_has_a_figure() -> None:
    with (DATA / "mnemonics.csv").open() as file:
        rows = list(csv.DictReader(file))
    unknown = {}
    for arch in ("gfx908", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1200", "gfx1250"):
        taken = [
            row["mnemonic"]
            for row in rows
            if row[arch] == "1"
            and re.match(r"v_(mfma|smfmac|wmma|swmmac)_(?!ld_)", row["mnemonic"])
        ]
        table = load(arch).mfma_cycles
        unknown[arch] = {name for name in taken if name not in table}
        assert {name.removesuffix(":narrow") for name in table} <= set(taken)
    assert {arch: left for arch, left in unknown.items() if left} == {
        "gfx1200": {"v_wmma_i32_16x16x16_iu4", "v_swmmac_i32_16x16x32_iu4"},
        "gfx1250": {"v_wmma_f32_16x16x4_f32"},
    }


@pytest.mark.skipif(MCA is None, reason="llvm-mca-22 is not installed")
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950"])
def test_a_block_of_matrix_instructions_takes_the_sum(arch: str) -> None:
    """llvm-mca's throughput of a mixed block, in passes of 4 clocks."""
    assert MCA is not None
    block = [
        ("v_mfma_f32_32x32x8f16", "a[0:15], v[32:33], v[64:65], a[0:15]"),
        ("v_mfma_f32_16x16x16f16", "a[0:3], v[32:33], v[64:65], a[0:3]"),
        ("v_mfma_f32_32x32x2f32", "a[0:15], v32, v64, a[0:15]"),
        ("v_mfma_f32_4x4x4f16", "a[0:3], v[32:33], v[64:65], a[0:3]"),
    ]
    done = subprocess.run(
        [MCA, f"-mtriple={TRIPLE}", f"-mcpu={arch}", "-iterations=1"],
        input="".join(f"{name} {operands}\n" for name, operands in block),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = re.search(r"Block RThroughput:\s*([\d.]+)", done.stdout)
    assert found is not None
    cycles = [matrix_cycles(load(arch), name, operands) for name, operands in block]
    assert None not in cycles
    assert sum(c for c in cycles if c) == 4 * float(found[1])


@pytest.mark.skipif(MCA is None, reason="llvm-mca-22 is not installed")
@pytest.mark.parametrize("arch", ["gfx906", "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1201"])
def test_latencies_are_not_beyond_llvms_schedule(arch: str) -> None:
    """LLVM counts in passes of 4 clocks on CDNA. There only a transcendental's is longer than ours:
    the result may be read one wait state later already (CDNA3 ISA, 4.5)."""
    assert MCA is not None
    add = "s_add_u32 s0, s1, s2" if arch != "gfx1201" else "s_add_co_u32 s0, s1, s2"
    code = f"v_add_f32 v0, v1, v2\nv_exp_f32 v0, v1\n{add}\n"
    done = subprocess.run(
        [MCA, f"-mtriple={TRIPLE}", f"-mcpu={arch}", "-instruction-tables=normal",
         "-instruction-info", "-resource-pressure=false", "-summary-view=false"],
        input=code, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    rows = re.findall(r"^\s*\d+\s+(\d+)\s+[\d.]+\s", done.stdout, re.M)
    clocks = 4 if arch.startswith("gfx9") else 1
    valu, transcendental, salu = (int(row) * clocks for row in rows)
    ours = load(arch).result_cycles
    assert (ours["valu"], ours["salu"]) == (valu, salu)
    assert ours["transcendental"] == (transcendental if clocks == 1 else 4)
    assert ours["transcendental"] <= transcendental
