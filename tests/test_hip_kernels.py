"""HIP as clang writes it: places in the source, workgroups of two dimensions, hidden arguments."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from kinspect.inspector.cli.group import cli
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.metrics.lanes import SHAPE, WAVES
from kinspect.inspector.model import KernelReport
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.analysis_options import Context, Overrides

pytestmark = pytest.mark.skipif(not shutil.which("clang-22"), reason="clang-22 is not installed")

MACROS = """
#define kernel __attribute__((global)) __launch_bounds__
#define shared __attribute__((shared))
#define X __builtin_amdgcn_workitem_id_x()
#define Y __builtin_amdgcn_workitem_id_y()
#define __launch_bounds__(n) __attribute__((amdgpu_flat_work_group_size(1, n)))
#define device __attribute__((device))
"""
TILE = """
kernel(1024) void transpose(unsigned *out, const unsigned *in) {
    shared unsigned tile[32][ROW];
    tile[Y][X] = in[Y * 32 + X];
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
    out[Y * 32 + X] = tile[X][Y];
}
"""


def compiled(folder: Path, source: str, *options: str, file: str = "k.hip") -> str:
    """The assembly of a source with the macros above, compiled in `folder`."""
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text(MACROS + source)
    subprocess.run(
        ["clang-22", "-x", "hip", "--cuda-device-only", "-nogpulib", "-nogpuinc", "-S", "-O2",
         "--offload-arch=gfx942", "-gline-tables-only", *options, file, "-o", "k.s"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    return (folder / "k.s").read_text()


def report(text: str, workgroup: tuple[int, int, int] | None = None) -> KernelReport:
    (kernel,) = analyze_text(text, Context("k.s", overrides=Overrides(workgroup=workgroup)))
    return kernel


@pytest.mark.parametrize(("row", "cycles"), [(32, 64), (33, 2), (34, 4)])
def test_banks_of_a_workgroup_of_two_dimensions(tmp_path: Path, row: int, cycles: int) -> None:
    """A column of 32 rows: 32 dwords in one bank, in banks of their own, in every second one.

    A wave has two columns; they lie in one phase each.
    """
    text = compiled(tmp_path, TILE.replace("ROW", str(row)))
    read = next(op for op in report(text, (32, 32, 1)).memory_ops if op.cls == "lds_read")
    assert read.use is not None
    assert (read.use.cycles, read.use.cycles_ideal) == (cycles, 2)


def test_the_shape_is_not_made_up(tmp_path: Path) -> None:
    """1,024 work-items in a row would write and read LDS quite differently.

    In global memory they are taken to be as long as a wave, which is said.
    """
    kernel = report(compiled(tmp_path, TILE.replace("ROW", "33")))
    uses = [(op.cls, op.use) for op in kernel.memory_ops if op.use is not None]
    assert {use.unknown for cls, use in uses if cls.startswith("lds")} == {SHAPE}
    assert all(use.wide_rows or use.unknown for cls, use in uses if cls.startswith("global"))
    assert kernel.metrics["lds.conflict_cycles"].value is None


def test_waves_that_the_launch_may_not_have(tmp_path: Path) -> None:
    """Part of the largest workgroup loads; whether these are all waves is not known.

    A wave all of whose lanes take part counts where there is one.
    """
    source = """
kernel(512) void part(unsigned *out, const unsigned *in) {
    if (X < NUMBER) out[X] = in[2 * X];
}
"""
    text = compiled(tmp_path, source.replace("NUMBER", "32"))
    loads = [op for op in report(text).memory_ops if op.cls == "global_load"]
    assert [op.use.unknown for op in loads if op.use is not None] == [WAVES]
    text = compiled(tmp_path, source.replace("NUMBER", "256"))
    loads = [op for op in report(text).memory_ops if op.cls == "global_load"]
    assert [(op.use.lines, op.use.origin) for op in loads if op.use is not None] == [
        (4, "estimated")
    ]
    loads = [op for op in report(text, (256, 1, 1)).memory_ops if op.cls == "global_load"]
    assert [op.use.lines for op in loads if op.use is not None] == [4]


def test_a_row_of_the_workgroup_as_wide_as_the_launch_has_it(tmp_path: Path) -> None:
    """The code reads the width of the workgroup (blockDim.x): rows of 8 lanes, 64 bytes apart."""
    source = """
kernel(256) void rows(unsigned *out, const unsigned *in) {
    auto *group = (__attribute__((address_space(4))) const unsigned short *)
        __builtin_amdgcn_implicitarg_ptr();
    unsigned width = group[6];
    out[Y * width * 2 + X] = in[Y * width + X];
}
"""
    text = compiled(tmp_path, source)
    function = parse_text(text, "k.s").kernels[0]
    assert function.resources.group_size_offset == 28  # two pointers, three counts of workgroups
    uses = {op.cls: op.use for op in report(text, (8, 8, 1)).memory_ops}
    load, store = uses["global_load"], uses["global_store"]
    assert load is not None
    assert store is not None
    assert (load.lines, load.lines_ideal) == (2, 2)
    assert (store.lines, store.lines_ideal) == (4, 2)


def test_places_in_files_that_were_named_from_the_folder_of_the_compile(tmp_path: Path) -> None:
    header = tmp_path / "include" / "rocwmma" / "load.h"
    header.parent.mkdir(parents=True)
    header.write_text("device inline unsigned load(const unsigned *p) {\n    return *p;\n}\n")
    source = """
#include <rocwmma/load.h>
kernel(64) void copy(unsigned *out, const unsigned *in) {
    out[X] = load(in + X);
}
"""
    text = compiled(tmp_path, source, "-Iinclude", file="src/deep/k.hip")
    load = next(op for op in report(text).memory_ops if op.cls == "global_load")
    assert load.source is not None
    assert (load.source.file, load.source.line) == (str(header), 2)
    user = load.source.in_user_code
    assert (user.file, user.line) == (str(tmp_path / "src" / "deep" / "k.hip"), 11)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--workgroup", "0"), "each from 1 on"),
        (("--workgroup", "64,64"), "4,096 work-items"),
        (("--workgroup", "64", "--waves", "1"), "exclude each other"),
    ],
)
def test_workgroups_that_there_cannot_be(options: tuple[str, ...], reason: str) -> None:
    result = CliRunner().invoke(cli, ["analyze", __file__, *options])
    assert result.exit_code != 0
    assert reason in result.output + str(result.exception)


@pytest.mark.parametrize(
    ("element", "pitch", "pad"),
    [("unsigned", 32 * 4, 4), ("__attribute__((ext_vector_type(4))) unsigned", 32 * 16, 16)],
)
def test_padding_that_was_tried_frees_the_compiled_kernel(
    tmp_path: Path, element: str, pitch: int, pad: int
) -> None:
    """What the model says of one element more a row is what the kernel compiled with it shows."""
    source = TILE.replace("unsigned", element)
    before = report(compiled(tmp_path, source.replace("ROW", "32")), (32, 32, 1))
    value = before.metrics["lds.conflicts"].value
    assert isinstance(value, dict)
    assert (value["row"], value["pad"]) == (pitch, pad)
    after = report(compiled(tmp_path, source.replace("ROW", "33")), (32, 32, 1))
    assert after.metrics["lds.data_cycles"].value == value["padded"]
    assert after.metrics["lds.conflict_cycles"].value == 0


def test_a_swizzle_that_was_tried_frees_the_compiled_kernel(tmp_path: Path) -> None:
    source = TILE.replace("ROW", "32")
    before = report(compiled(tmp_path, source), (32, 32, 1))
    value = before.metrics["lds.conflicts"].value
    assert isinstance(value, dict)
    assert value["swizzle"] == 4
    (remedy,) = {op.use.remedy for op in before.memory_ops if op.use and op.use.remedy}
    assert remedy.swizzle_row == 128
    turned = source.replace("tile[Y][X]", "tile[Y][X ^ Y]").replace("tile[X][Y]", "tile[X][Y ^ X]")
    after = report(compiled(tmp_path, turned), (32, 32, 1))
    assert after.metrics["lds.data_cycles"].value == remedy.swizzled == remedy.cycles_ideal


def test_a_count_of_lanes_that_stop_at_different_times_is_not_uniform(tmp_path: Path) -> None:
    """Rows of a triangle: each lane searches for the row that its number lies in."""
    source = """
kernel(64) void rows(double *out, const double *in, int n) {
    long rest = X; int row = 0;
    while (rest >= n - 1 - row) { rest -= n - 1 - row; ++row; }
    double sum = 0;
    for (int i = 0; i < n; ++i) { sum += in[(long)row * n + i]; out[(long)i * n + X] = sum; }
}
"""
    kernel = report(compiled(tmp_path, source))
    for loop in kernel.loops:
        value = loop.metrics["cache.uniform_loads"].value
        assert not isinstance(value, dict) or value["loads"] == 0


def test_lanes_that_all_read_one_address(tmp_path: Path) -> None:
    """A volatile scale is no scalar load, but one address."""
    source = """
kernel(64) void scaled(unsigned *out, volatile unsigned *scale, const unsigned *in) {
    out[X] = in[X] * scale[1] + in[X / 2];
}
"""
    kernel = report(compiled(tmp_path, source))
    loads = [op.use for op in kernel.memory_ops if op.cls == "global_load"]
    assert sorted((use.addresses, use.waste) for use in loads if use is not None) == [
        (1, round(100 - 100 * 4 / 128, 2)), (32, 0), (64, 0),
    ]  # fmt: skip
    value = kernel.metrics["cache.uniform_loads"].value
    assert isinstance(value, dict)
    assert (value["loads"], value["of"], value["unknown"]) == (1, 3, 0)


@pytest.mark.parametrize(
    ("element", "index", "lines", "by_stride"),
    [
        ("unsigned", "X * stride", 64, True),
        ("unsigned", "X / 8 * stride + X % 8", 8, False),
        ("__attribute__((ext_vector_type(4))) unsigned", "X * stride", 64, False),
        ("unsigned", "X * 32", 64, False),
    ],
)
def test_a_stride_that_may_be_one_is_said(
    tmp_path: Path, element: str, index: str, lines: int, by_stride: bool
) -> None:
    """`x[i * stride]` is a column of a matrix, or the contiguous dimension of a strided tensor."""
    source = f"""
kernel(64) void strided(const {element} *in, {element} *out, int stride) {{
    out[X] = in[{index}];
}}
"""
    value = report(compiled(tmp_path, source), (64, 1, 1)).metrics["cache.waste"].value
    assert isinstance(value, dict)
    assert (value["lines"], value["by_stride"]) == (lines, by_stride)


ROWS = """
kernel(256) void rows_of_eight(const float *in, const int *order, volatile float *out) {
    const volatile float *row = in + WHICH * 8;
    for (int k = 0; k < 8; ++k) out[X * 8 + k] = row[k];
}
"""
LEFT_OVER = """
kernel(256) void fours(const float *__restrict__ in, volatile float *out, int n) {
    int first = X * 4;
    if (first + 3 < n) for (int k = 0; k < 4; ++k) out[first + k] = in[first + k];
    else for (int k = 0; k < 3; ++k) if (first + k < n) out[first + k] = in[first + k];
}
"""


@pytest.mark.parametrize(
    ("which", "said", "more"),
    [
        ("X", "16 of 16 global accesses touch", None),
        ("order[X]", "8 of 9 global accesses (8 unknown) touch", 8),
    ],
)
def test_accesses_that_are_not_known_are_told_beside_the_others(
    tmp_path: Path, which: str, said: str, more: int | None
) -> None:
    kernel = report(compiled(tmp_path, ROWS.replace("WHICH", which)), (256, 1, 1))
    (message,) = (found.message for found in kernel.findings if found.rule == "KI048")
    assert message.startswith(said)
    value = kernel.metrics["cache.waste"].value
    assert isinstance(value, dict)
    assert value["more"] == more


def test_accesses_that_are_left_over_are_not_counted(tmp_path: Path) -> None:
    kernel = report(compiled(tmp_path, LEFT_OVER), (256, 1, 1))
    uses = [op.use for op in kernel.memory_ops if op.use is not None]
    assert sum(use.at_edge for use in uses) == 6
    value = kernel.metrics["cache.waste"].value
    assert isinstance(value, dict)
    assert (value["accesses"], value["of"], value["more"]) == (8, 8, None)


UNIFORM = """
kernel(256) void scaled(float *out, const float *in, const float *scale, int rows, int n) {
    PLAIN for (int row = 0; row < rows; ++row) out[row * n + X] = in[row * n + X] * scale[row];
}
kernel(256) void scaled_restrict(float *__restrict__ out, const float *__restrict__ in,
                                 const float *__restrict__ scale, int rows, int n) {
    PLAIN for (int row = 0; row < rows; ++row) out[row * n + X] = in[row * n + X] * scale[row];
}
kernel(256) void in_place(float *scale, const float *__restrict__ in, int rows, int n) {
    PLAIN for (int row = 0; row < rows; ++row)
        scale[(row + 1) * n + X] = in[row * n + X] * scale[row];
}
kernel(256) void by_column(float *out, const float *in, const float *scale, int rows, int n) {
    PLAIN for (int row = 0; row < rows; ++row) {
        unsigned i = row * 256 + X;
        out[i] = in[i] * scale[i / (unsigned)n];
    }
}
kernel(256) void of_either(float *out, const float *in, const float *scale, int rows, int n) {
    shared float local[256];
    local[X] = in[X];
    __builtin_amdgcn_s_barrier();
    const float *from = n > 256 ? scale : local;
    PLAIN for (int row = 0; row < rows; ++row) out[row * n + X] = in[row * n + X] * from[row];
}
"""


def test_loads_of_one_address_for_any_size(tmp_path: Path) -> None:
    """`i / n` is the same for all lanes only where n is large: no scalar load would do.

    Nor would it where a pointer may be of the LDS, though memory that it reads may not change.
    """
    source = UNIFORM.replace("PLAIN", '_Pragma("clang loop vectorize(disable) unroll(disable)")')
    text = compiled(tmp_path, source)
    found = {}
    for kernel in analyze_text(text, Context("k.s", overrides=Overrides(workgroup=(256, 1, 1)))):
        (loop,) = [loop for loop in kernel.loops if loop.hot]
        value = loop.metrics["cache.uniform_loads"].value
        assert isinstance(value, dict)
        found[kernel.name.split("Pf")[0].lstrip("_Z0123456789")] = (
            value["loads"],
            value["unwritten"],
        )
    assert found == {
        "scaled": (1, 1), "scaled_restrict": (0, 0), "in_place": (1, 0), "by_column": (0, 0),
        "of_either": (1, 0),
    }  # fmt: skip


STRIDES = """
#define ID (__builtin_amdgcn_workgroup_id_x() * SIZE + X)
#define HIDDEN ((const unsigned *)__builtin_amdgcn_implicitarg_ptr())
#define SIZE (((const unsigned short *)HIDDEN)[6])
#define GRID GRID_SIZE
kernel(256) void scaled(float *out, const float *in, unsigned n, unsigned step) {
    for (unsigned i = ID; i < n; i += GRID) out[i] = in[i] * 2;
}
"""


@pytest.mark.parametrize(
    ("grid", "by"),
    [
        ("(HIDDEN[0] * SIZE)", "grid"),
        ("(__builtin_amdgcn_grid_size_x())", "grid"),
        ("(HIDDEN[1] * step)", "grid"),
        ("step", None),
        ("SIZE", "workgroup"),
        ("(2 * SIZE)", "workgroup"),
        ("(step * n)", None),
    ],
)
def test_loops_that_go_on_by_the_grid_or_the_workgroup(
    tmp_path: Path, grid: str, by: str | None
) -> None:
    source = STRIDES.replace("GRID_SIZE", grid)
    kernel = report(compiled(tmp_path, source, "-mcode-object-version=5"))
    values = [loop.metrics["loop.grid_stride"].value for loop in kernel.loops]
    # MI300X has 304 CUs.
    is_by_grid = by == "grid"
    expected = {
        "by_grid": is_by_grid,
        "cus": 304 if is_by_grid else None,
        "group": by if by == "workgroup" else None,
    }
    assert values == [expected] * len(kernel.loops)
    assert kernel.loops
