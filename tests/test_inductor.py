"""TorchInductor's generated code: every metadata form, captured without running the file."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.capture.options import CaptureOptions
from kinspect.inspector.capture.resolving import resolve
from kinspect.inspector.capture.targets import kind_of
from kinspect.inspector.compile.pool import Compiler, CompileSettings
from kinspect.inspector.guest.inductor.stated_launches import grid_of
from kinspect.inspector.guest.syntax import Construction, LibraryName, UnreadableError, read
from kinspect.inspector.model import ErrorRecord, Variant
from kinspect.inspector.pipeline.capturing import variants_of
from kinspect.inspector.pipeline.jobs import Request

pytest.importorskip("triton")
WRAPPER = Path(__file__).parent / "data" / "inductor" / "wrapper.py.txt"
ARCH = "gfx942"

pytestmark = [pytest.mark.xdist_group("inductor"), pytest.mark.usefixtures("shared_guests")]


@dataclass(frozen=True)
class Captured:
    path: Path
    variants: dict[str, list[Variant]]
    errors: list[ErrorRecord]

    def one(self, kernel: str) -> Variant:
        (variant,) = self.variants[kernel]
        return variant

    def line_of(self, text: str) -> int:
        lines = self.path.read_text().split("\n")
        return next(n for n, line in enumerate(lines, 1) if text in line)


def needs_torch() -> None:
    pytest.importorskip("torch")


@pytest.fixture(scope="module")
def compiler(shared_guests: None) -> Iterator[Compiler]:
    with Compiler(CompileSettings(python=sys.executable)) as one:
        yield one


def capture(
    compiler: Compiler,
    path: Path,
    kernel: str | None = None,
    archs: Sequence[str] = (ARCH,),
    **o: Any,
) -> Captured:
    options = CaptureOptions(**{"max_configs": None, **o})
    request = Request((str(path),), archs=tuple(archs), kernel=kernel, capture=options)
    (target,) = resolve(str(path))
    assert target.kind == "inductor"
    variants, errors = variants_of(target, request, compiler)
    by_name: dict[str, list[Variant]] = {}
    for variant in variants:
        by_name.setdefault(variant.kernel, []).append(variant)
    return Captured(path, by_name, errors)


@pytest.fixture(scope="module")
def captured(compiler: Compiler, tmp_path_factory: pytest.TempPathFactory) -> Captured:
    needs_torch()
    path = tmp_path_factory.mktemp("inductor") / "output_code.py"
    shutil.copy(WRAPPER, path)
    return capture(compiler, path)


def test_every_kernel_is_captured_or_refused_by_name(captured: Captured) -> None:
    launched = [
        node.func.value.id
        for node in ast.walk(ast.parse(captured.path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "run"
        and isinstance(node.func.value, ast.Name)
    ]
    assert set(captured.variants) == set(launched)
    assert {e.kernel for e in captured.errors} == {"triton_poi_broken_6", "triton_poi_unsaid_7"}


def test_errors_name_the_line_of_the_wrapper(captured: Captured) -> None:
    broken, unsaid = sorted(captured.errors, key=lambda e: str(e.kernel))
    line = captured.line_of("no_such_function")
    assert f"output_code.py:{line}: " in broken.message
    assert "no_such_function" in broken.message
    assert "nothing says what argument n is" in unsaid.message
    for error in captured.errors:
        assert "\n" not in error.message + error.hint
        assert error.hint


@pytest.mark.parametrize(
    ("kernel", "signature", "attrs", "grid_of_first"),
    [
        (
            "triton__0",  # torch 2.0: by index, instance_descriptor
            {"in_ptr0": "*fp32", "out_ptr0": "*fp32", "xnumel": "i32", "XBLOCK": "constexpr"},
            {"in_ptr0": 16, "xnumel": 16},
            lambda c: (-(-4000 // c["XBLOCK"]),),
        ),
        (
            "triton_red_fused_mul_sum_1",  # torch 2.4: AttrsDescriptor(...), an argument that is 1
            {
                "in_ptr0": "*fp16",
                "out_ptr0": "*fp32",
                "ks0": "constexpr",
                "xnumel": "i32",
                "rnumel": "i32",
                "XBLOCK": "constexpr",
                "RBLOCK": "constexpr",
            },
            {"in_ptr0": 16, "out_ptr0": 16, "xnumel": 16, "rnumel": 16},
            lambda c: (-(-64 // c["XBLOCK"]),),
        ),
        (
            "triton_per_fused_softmax_2",  # torch 2.6: by name, AttrsDescriptor.from_dict
            {
                "in_ptr0": "*bf16",
                "out_ptr0": "*bf16",
                "xnumel": "i32",
                "rnumel": "i32",
                "XBLOCK": "constexpr",
            },
            {"in_ptr0": 16, "out_ptr0": 16, "xnumel": 16, "rnumel": 16},
            lambda c: None,  # its size is an argument of call()
        ),
        (
            "triton_poi_fused_transpose_3",  # torch 2.7: 'constexpr', attributes as dicts
            {
                "in_ptr0": "*fp32",
                "out_ptr0": "*fp32",
                "ynumel": "i32",
                "xnumel": "i32",
                "YBLOCK": "constexpr",
                "XBLOCK": "constexpr",
            },
            {"in_ptr0": 16, "out_ptr0": 16, "xnumel": 16},
            lambda c: (-(-1000 // c["XBLOCK"]), -(-200 // c["YBLOCK"])),
        ),
    ],
)
def test_metadata_forms(
    captured: Captured, kernel: str, signature: Any, attrs: Any, grid_of_first: Any
) -> None:
    for variant in captured.variants[kernel]:
        assert dict(variant.signature) == signature
        divisible = {n: a["tt.divisibility"] for n, a in variant.attrs.items()}
        assert divisible == attrs
        # What the front end made of it is in the TTIR itself.
        assert variant.ttir.count("tt.divisibility = 16") == len(attrs)
        grid = grid_of_first(variant.constexprs)
        while grid is not None and len(grid) > 1 and grid[-1] == 1:
            grid = grid[:-1]
        assert variant.grid == grid
        assert variant.constexprs["XBLOCK"] == (variant.tuning or {})["XBLOCK"]
    red = captured.variants["triton_red_fused_mul_sum_1"][0]
    assert red.constexprs["ks0"] == 1
    assert red.constexprs["RBLOCK"] > 1


def test_only_what_is_compiled_for_amd_has_pointer_ranges(captured: Captured) -> None:
    for variant in captured.variants["triton_poi_fused_transpose_3"]:
        assert variant.attrs["in_ptr0"]["tt.pointer_range"] == 32
        assert variant.options["enable_fp_fusion"] is False
        assert not any("generated for" in note for note in variant.notes)
    note = captured.variants["triton_per_fused_softmax_2"][0].notes
    assert any("generated for cuda (cc 90)" in n and "2 GB" in n for n in note)


def test_places_are_lines_of_the_wrapper(captured: Captured) -> None:
    variant = captured.variants["triton_per_fused_softmax_2"][0]
    assert variant.source is not None
    assert variant.source.file == str(captured.path)
    assert variant.source.line == captured.line_of("def triton_per_fused_softmax_2")
    assert variant.call_site is not None
    assert variant.call_site.line == captured.line_of("triton_per_fused_softmax_2.run(")
    load = captured.line_of("x = tl.load(in_ptr0 + at, row < 512")
    assert f'output_code.py":{load}:' in variant.ttir
    assert captured.variants["triton_poi_fused_transpose_3"][0].launches == 2
    fused = captured.variants["triton_red_fused_mul_sum_1"][0]
    assert "fused from aten.mul, aten.sum" in fused.notes


def test_configurations_that_the_file_states(captured: Captured) -> None:
    small, large = captured.variants["scale_kernel_0"]
    assert (small.constexprs["BLOCK"], small.options["num_warps"]) == (128, 2)
    assert (large.constexprs["BLOCK"], large.options["num_warps"]) == (512, 8)
    assert small.constexprs["dtype"] == "fp16"
    assert small.constexprs["scale"] == 0.5
    assert small.grid == (32,)  # its three last arguments
    assert small.qualname == "scale_kernel"
    product = captured.one("triton_tem_fused_mm_4")
    assert (product.options["num_warps"], product.options["num_stages"]) == (8, 2)
    assert product.grid == (4,)  # mm_grid(256, 64) of 64 x 64 tiles
    assert captured.one("triton_for_fused_5").grid == (4,)  # 3000 and 1000 by 1024


TORCHS_OWN = """
import json, torch
torch.version.hip = "6.4"
from torch._inductor.runtime.hints import DeviceProperties, ReductionHint
from torch._inductor.runtime.triton_heuristics import GridExpr, persistent_reduction, pointwise
device = DeviceProperties(type="hip", index=0, multi_processor_count=304, cc="gfx942", major=9,
                          regs_per_multiprocessor=65536, max_threads_per_multi_processor=2048,
                          warp_size=64)
meta = {"signature": {"in_ptr0": "*fp32", "out_ptr0": "*fp32"}, "device": device, "constants": {}}
tried = [
    pointwise({"x": 4096}, meta, inductor_meta={}, return_configs=True),
    persistent_reduction({"x": 512, "r0_": 128}, ReductionHint.INNER, meta, inductor_meta={},
                         return_configs=True),
]
sizes = {"xnumel": 70001, "ynumel": 140003, "znumel": 5, "r0_numel": 9999,
         "YBLOCK": 2, "ZBLOCK": 4, "R0_BLOCK": 512, "RSPLIT": 8, "RSPLIT_SIZE": 64}
grids = []
for kind in ("Grid1D", "Grid2D", "Grid3D", "BatchMatmulGrid3D", "Grid2DWithYZOverflow",
             "CooperativeReductionGrid", "SplitScanGrid", "MixOrderReductionGrid"):
    known = {**sizes, "XBLOCK": 1 if kind == "SplitScanGrid" else 32}
    try:
        grids.append([kind, known, GridExpr.from_meta({"grid_type": kind}, known).eval_slow(known)])
    except KeyError:  # this torch has no such grid
        pass
print(json.dumps({
    "tried": [[[c.kwargs["XBLOCK"], c.num_warps, c.kwargs.get("waves_per_eu")] for c in one]
              for one in tried],
    "grids": grids,
}))
"""


@pytest.fixture(scope="module")
def torchs_own() -> dict[str, Any]:
    """What torch itself says, in a process that believes in ROCm."""
    needs_torch()
    command = [sys.executable, "-c", TORCHS_OWN]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def test_block_sizes_are_those_that_torch_tries_on_rocm(
    captured: Captured, torchs_own: dict[str, Any]
) -> None:
    kernels = ("triton__0", "triton_per_fused_softmax_2")
    for kernel, configs in zip(kernels, torchs_own["tried"], strict=True):
        seen = [
            [v.constexprs["XBLOCK"], v.options["num_warps"], v.options.get("waves_per_eu")]
            for v in captured.variants[kernel]
        ]
        assert seen == [list(c) for c in dict.fromkeys(map(tuple, configs))]
        assert all("heuristic tries on gfx942" in v.notes[0] for v in captured.variants[kernel])


def test_captured_kernels_compile(captured: Captured, compiler: Compiler) -> None:
    for kernel in ("triton__0", "triton_red_fused_mul_sum_1", "triton_tem_fused_mm_4"):
        result = compiler.compile(captured.variants[kernel][0])
        assert result.error is None, result.error
        assert "s_endpgm" in result.artifacts["amdgcn"].path.read_text()


SINGLE = """
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.triton_helpers import libdevice
from torch._inductor.runtime.hints import DeviceProperties
triton_helpers.set_driver_to_gpu()

@triton_heuristics.pointwise(
    size_hints={'x': 65536}, filename=__file__,
    triton_meta={'signature': {'in_ptr0': '*fp32', 'xnumel': 'i32', 'XBLOCK': 'constexpr'},
                 'device': DeviceProperties(type='cuda', index=0, multi_processor_count=1, cc=90),
                 'constants': {}, 'configs': [{(0,): [['tt.divisibility', 16]]}]},
    inductor_meta={'grid_type': 'Grid1D', 'kernel_name': 'triton_poi_fused_exp_0'},
)
@triton.jit
def triton_poi_fused_exp_0(in_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 50000
    at = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    x = libdevice.exp(tl.load(in_ptr0 + at, at < xnumel))
    tl.store(in_ptr0 + at, x, at < xnumel)
"""


def test_what_a_run_chose_beats_the_heuristics(compiler: Compiler, tmp_path: Path) -> None:
    """A single-kernel module of Inductor's cache; torch is not needed for it."""
    path = tmp_path / "cabc.py"
    path.write_text(SINGLE)
    choice = {"XBLOCK": 2048, "num_warps": 8, "num_stages": 1, "waves_per_eu": 2}
    notes = {"configs_hash": "0" * 64, "found_by_coordesc": True, "time_taken_ms": 1}
    (tmp_path / "cabc.best_config").write_text(json.dumps({**choice, **notes}))
    found = capture(compiler, path)
    variant = found.one("triton_poi_fused_exp_0")
    assert variant.constexprs == {"XBLOCK": 2048}
    assert dict(variant.tuning or {}) == choice
    assert variant.grid == (25,)
    assert variant.call_site is None
    assert "chosen by a real run (cabc.best_config)" in variant.notes[0]


def test_a_file_takes_no_choice_from_a_folder_that_it_names(
    compiler: Compiler, tmp_path: Path
) -> None:
    needs_torch()
    for name in ("own", "elsewhere"):
        (tmp_path / name).mkdir()
    (tmp_path / "elsewhere" / "x.best_config").write_text('{"XBLOCK": 32, "num_warps": 1}')
    path = tmp_path / "own" / "output_code.py"
    path.write_text(
        "from torch._inductor.async_compile import AsyncCompile\nasync_compile = AsyncCompile()\n"
        f"# kernel path: {tmp_path}/elsewhere/x.py\n"
        f"triton_a = async_compile.triton('triton_a', '''{SINGLE}''', device_str='cuda')\n"
    )
    notes = [
        note for v in capture(compiler, path).variants.values() for one in v for note in one.notes
    ]
    assert notes
    assert not any("best_config" in note for note in notes)


def test_a_choice_is_no_link_to_elsewhere_and_holds_numbers_alone(
    compiler: Compiler, tmp_path: Path
) -> None:
    """A parameter of the kernel may be called as any key of a file of the user's."""
    needs_torch()
    folder = tmp_path / "own"
    folder.mkdir()
    (tmp_path / "secret.json").write_text('{"XBLOCK": 32, "num_warps": 1, "num_stages": "zebra"}')
    path = folder / "output_code.py"
    path.write_text(
        "from torch._inductor.async_compile import AsyncCompile\nasync_compile = AsyncCompile()\n"
        f"triton_a = async_compile.triton('triton_a', '''{SINGLE}''', device_str='cuda')\n"
    )

    def captured() -> str:
        return repr([v for found in capture(compiler, path).variants.values() for v in found])

    choice = folder / "output_code.best_config"
    choice.symlink_to("../secret.json")
    assert "best_config" not in captured()
    choice.unlink()
    choice.write_text((tmp_path / "secret.json").read_text())
    said = captured()
    assert "best_config" in said
    assert "zebra" not in said


def test_the_choice_of_newer_torch_is_found_by_the_compiled_entry(
    compiler: Compiler, tmp_path: Path
) -> None:
    """It is named by a hash; Triton's cache entry that it names says what it was compiled from."""
    folder = tmp_path / "ab"
    folder.mkdir()
    path = folder / "cabc.py"
    path.write_text(SINGLE)
    (folder / "cother.py").write_text(SINGLE)
    for name, entry, block in (("1" * 8, "OTHER", 64), ("2" * 8, "MINE", 512)):
        choice = {"XBLOCK": block, "num_warps": 4, "num_stages": 1, "triton_cache_hash": entry}
        (folder / f"{name}.best_config").write_text(json.dumps(choice))
        compiled = tmp_path / "triton" / "0" / entry
        compiled.mkdir(parents=True)
        module = "cabc.py" if entry == "MINE" else "cother.py"
        (compiled / "k.ttir").write_text(f'#loc = loc("/cache/ab/{module}":14:0)\n')
    assert capture(compiler, path).one("triton_poi_fused_exp_0").constexprs["XBLOCK"] == 512


def test_kernels_are_selected_by_name_and_swept(compiler: Compiler, tmp_path: Path) -> None:
    path = tmp_path / "cabc.py"
    path.write_text(SINGLE)
    choice = {"XBLOCK": 64, "num_warps": 1, "num_stages": 1}
    (tmp_path / "cabc.best_config").write_text(json.dumps(choice))
    found = capture(compiler, path, "*exp*", axes={"XBLOCK": [128, 256]}, archs=(ARCH, "gfx1201"))
    variants = found.variants["triton_poi_fused_exp_0"]
    assert [(v.arch, v.constexprs["XBLOCK"]) for v in variants] == [
        (arch, block) for arch in (ARCH, "gfx1201") for block in (128, 256)
    ]
    (error,) = capture(compiler, path, "nothing").errors
    assert "no kernel matches nothing" in error.message
    assert "triton_poi_fused_exp_0" in error.hint


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("async_compile = AsyncCompile()\nextern_kernels.mm(a, b)\n", "only library kernels"),
        ("async_compile = AsyncCompile()\nx = (\n", "never closed"),
        (
            "async_compile = AsyncCompile()\nk = async_compile.triton('k', '''\nimport os\n''')",
            "no function with one of Inductor's decorators",
        ),
        (
            "@triton_heuristics.template(triton_meta={**x})\n@triton.jit\ndef k(): pass",
            "not plain data",
        ),
        (
            "@triton_heuristics.template(num_warps=4)\n@triton.jit\ndef k(): pass\n",
            "no triton_meta",
        ),
    ],
)
def test_damaged_files_say_what_and_where(
    compiler: Compiler, tmp_path: Path, text: str, says: str
) -> None:
    path = tmp_path / "output_code.py"
    path.write_text(f"import triton\nfrom torch._inductor.runtime import x\n{text}")
    found = capture(compiler, path)
    assert not found.variants
    (error,) = found.errors
    assert says in error.message
    assert str(path) in error.message
    assert error.hint


def test_only_generated_files_are_taken_for_inductors(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import torch._inductor.config\nimport triton\n@triton.jit\ndef k(): pass\n")
    assert kind_of(script) == "script"
    script.write_text(SINGLE)
    assert kind_of(script) == "inductor"
    script.write_text(SINGLE + "\nKINSPECT_CASES = []\n")
    assert kind_of(script) == "script"


def test_literals_are_read_and_nothing_is_called() -> None:
    def value(text: str) -> Any:
        return read(ast.parse(text, mode="eval").body)

    assert value("{'a': [1, (2, -3)], 'b': {4}}") == {"a": [1, (2, -3)], "b": {4}}
    assert value("16 * 64 - 24 // 5") == 1020
    assert value("set()") == set()
    assert value("ReductionHint.INNER") == LibraryName("ReductionHint.INNER")
    assert value("f(1, x=2)") == Construction("f", (1,), {"x": 2})
    for text in ("[x for x in y]", "2 ** 10", "f(**x)", "'a' * 9", "1 // 0", "lambda: 0", "x[0]"):
        with pytest.raises(UnreadableError):
            value(text)


@pytest.mark.parametrize(
    ("kind", "sizes", "grid"),
    [
        ("Grid1D", {"xnumel": 1000, "XBLOCK": 64}, (16,)),
        ("Grid1D", {"xnumel": None, "XBLOCK": 64}, None),
        ("Grid2D", {"xnumel": 100, "XBLOCK": 64, "ynumel": 3, "YBLOCK": 2}, (2, 2)),
        ("Grid3D", {"xnumel": 1, "ynumel": 2, "znumel": 3}, (1, 2, 3)),
        ("BatchMatmulGrid3D", {"xnumel": 1, "ynumel": 2, "znumel": 3}, (3, 2)),
        ("Grid2DWithYZOverflow", {"xnumel": 4, "ynumel": 70000}, (4, 35000, 2)),
        ("CooperativeReductionGrid", {"xnumel": 4, "XBLOCK": 2, "RSPLIT": 8}, (8, 2)),
        ("SplitScanGrid", {"xnumel": 4, "r0_numel": 1000, "R0_BLOCK": 256}, (4, 4)),
        ("MixOrderReductionGrid", {"xnumel": 1000, "RSPLIT_SIZE": 64}, (16,)),
        ("SomethingNew", {"xnumel": 1000}, None),
    ],
)
def test_grids(kind: str, sizes: dict[str, Any], grid: Any) -> None:
    assert grid_of(None, {"grid_type": kind}, sizes, ()) == grid


def test_grids_are_torchs(torchs_own: dict[str, Any]) -> None:
    """Against torch's own launcher code."""
    assert len(torchs_own["grids"]) >= 3
    for kind, sizes, expected in torchs_own["grids"]:
        while len(expected) > 1 and expected[-1] == 1:
            expected = expected[:-1]
        assert grid_of(None, {"grid_type": kind}, sizes, ()) == tuple(expected), kind
