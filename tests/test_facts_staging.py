"""What TTGIR says of tiles on their way: pipelining, LDS round trips, conversions, buffers.

The witness for "through LDS" is Triton's own allocation of LDS; conversions of random layouts are
compared with it, and so are those of compiled kernels.
"""

from __future__ import annotations

import importlib.util
import random
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from kinspect.inspector import machines
from kinspect.inspector.metrics import staging
from kinspect.inspector.metrics.located import located
from kinspect.inspector.metrics.subject import Facts, KernelCode
from kinspect.inspector.model import Function, Resources, TtgirModule
from kinspect.inspector.ttgir.conversions import CONVERSIONS, movement
from kinspect.inspector.ttgir.flow import UNKNOWN, flow_of
from kinspect.inspector.ttgir.parser import parse_ttgir

DATA = Path(__file__).parent / "data"


def loaded(name: str, path: Path) -> ModuleType:
    pytest.importorskip("triton", minversion="3.9")
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


def job_of(kernel: str, *, out: str = "fp16", **options: int) -> Any:
    """A kernel of `facts_kernels.py` with its types; BM, BN and BK are constexprs."""
    jobs = loaded("ttgir_kernels", DATA / "ttgir" / "kernels.py")
    kernels = loaded("facts_kernels", DATA / "facts_kernels.py")
    block = {name: options.pop(name, size) for name, size in (("BM", 128), ("BN", 128), ("BK", 64))}
    types = {"a": "*fp16", "b": "*fp16", "c": f"*{out}"}
    if kernel == "gemm_transposed":
        types["b"] = "*u8"
    second = "stride_bn" if kernel == "gemm_transposed" else "stride_bk"
    types |= dict.fromkeys(("K", "stride_am", second, "stride_cm"), "i32")
    return jobs.Job(getattr(kernels, kernel), types, block, {"num_warps": 4, **options})


def compiled(
    kernel: str, arch: str, *, out: str = "fp16", **options: int
) -> tuple[str, TtgirModule]:
    """The TTGIR of such a kernel."""
    jobs = loaded("ttgir_kernels", DATA / "ttgir" / "kernels.py")
    text = jobs.compile_stages(job_of(kernel, out=out, **options), arch)["ttgir"]
    return text, parse_ttgir(text, kernel)


def facts(module: TtgirModule, arch: str, **options: int) -> dict[str, Any]:
    function = Function("f", True, 1, 1, (), (), (), Resources())
    subject = located(KernelCode(function, machines.load(arch), Facts(options=options), module))
    return {metric.name: metric.value for metric in staging.compute(subject)}


def line_of(kernel: str, text: str) -> str:
    """`facts_kernels.py:N` of the first line with a text, in one kernel."""
    lines = (DATA / "facts_kernels.py").read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"def {kernel}("))
    number = next(i for i, line in enumerate(lines) if i > start and text in line)
    return f"facts_kernels.py:{number + 1}"


# ------------------------------------------------------------------ conversions


def allocated(text: str, arch: str, folder: Path) -> TtgirModule:
    """The module with `allocation.offset` on every operation that Triton gives LDS."""
    from triton._C.libtriton import amd, ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import make_backend

    backend = make_backend(GPUTarget("hip", arch, 64 if arch.startswith("gfx9") else 32))
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    path = folder / "module.ttgir"
    path.write_text(text)
    module = ir.parse_mlir_module(str(path), context)
    passes = ir.pass_manager(context)
    amd.passes.ttgpuir.add_allocate_shared_memory(passes, arch)
    passes.run(module, "allocate")
    return parse_ttgir(str(module), "allocated")


def spread(pick: random.Random, count: int, dims: int) -> list[int]:
    sizes = [1] * dims
    while count > 1:
        sizes[pick.randrange(dims)] *= 2
        count //= 2
    return sizes


def layout(pick: random.Random, dims: int, warps: int, wave: int) -> str:
    kind = pick.random()
    if kind < 0.25 and dims < 3:
        parent = layout(pick, dims + 1, warps, wave)
        return f"#ttg.slice<{{dim = {pick.randrange(dims + 1)}, parent = {parent}}}>"
    if kind < 0.6 and dims == 2 and wave == 64:
        shape = pick.choice(["16, 16, 16", "32, 32, 8"])
        transposed = pick.choice(["true", "false"])
        mma = (
            f"#ttg.amd_mfma<{{version = 3, warpsPerCTA = {spread(pick, warps, 2)}, "
            f"instrShape = [{shape}], isTransposed = {transposed}}}>"
        )
        operand = f"opIdx = {pick.randrange(2)}, parent = {mma}, kWidth = {pick.choice([4, 8])}"
        return pick.choice([mma, f"#ttg.dot_op<{{{operand}}}>"])
    order = pick.sample(range(dims), dims)
    sizes = [pick.choice([1, 1, 2, 4, 8]) for _ in range(dims)]
    return (
        f"#ttg.blocked<{{sizePerThread = {sizes}, threadsPerWarp = {spread(pick, wave, dims)}, "
        f"warpsPerCTA = {spread(pick, warps, dims)}, order = {order}}}>"
    )


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"])
def test_movement_equals_tritons_allocation_for_random_layouts(arch: str, tmp_path: Path) -> None:
    pytest.importorskip("triton", minversion="3.9")
    pick = random.Random(arch)
    wave = 64 if arch.startswith("gfx9") else 32
    seen: dict[str, int] = {"registers": 0, "lanes": 0, "lds": 0}
    extents = {1: (64, 128, 256, 1024), 2: (16, 32, 64, 128), 3: (2, 4, 8, 16, 32)}
    for _ in range(8):
        warps = pick.choice([1, 2, 4, 8])
        arguments, body = [], []
        for number in range(25):
            dims = pick.choice([1, 2, 2, 2, 3])
            shape = "x".join(str(pick.choice(extents[dims])) for _ in range(dims))
            element = pick.choice(["f32", "f16", "i8", "i1"])
            source, target = (
                f"tensor<{shape}x{element}, {layout(pick, dims, warps, wave)}>" for _ in range(2)
            )
            arguments.append(f"%a{number}: {source}")
            body.append(f"%r{number} = ttg.convert_layout %a{number} : {source} -> {target}")
        text = (
            f'module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = {warps} : i32, '
            f'ttg.target = "hip:{arch}", "ttg.threads-per-warp" = {wave} : i32}} {{\n'
            f"tt.func public @f({', '.join(arguments)}) {{\n"
            + "\n".join(body)
            + "\ntt.return\n}\n}"
        )
        for op in allocated(text, arch, tmp_path).ops:
            if op.name in CONVERSIONS:
                how = movement(op)
                assert how is not None
                seen[how] += 1
                where = (op.operand_types[0].text, op.result_types[0].text)
                assert (how == "lds") == ("allocation.offset" in op.attributes), where
    assert min(seen.values()) > 0, seen


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1100"])
def test_epilogue_conversion_is_what_triton_allocates_lds_for(arch: str, tmp_path: Path) -> None:
    for kernel, expected in (("gemm", 0), ("gemm_residual", 1)):
        for out in ("fp16", "fp32"):
            text, module = compiled(kernel, arch, out=out, num_stages=2)
            through = [
                op
                for op in allocated(text, arch, tmp_path).ops
                if op.name in CONVERSIONS and "allocation.offset" in op.attributes
            ]
            found = facts(module, arch)["epilogue.converts"]
            assert found["lds"] == len(through) == expected, (kernel, out)
            if not through:
                continue
            # The sum is wanted along the rows, in fp32, whatever is stored.
            assert through[0].result_types[0].element == "f32"
            assert (found["bytes"], found["wide"]) == (128 * 128 * 4, out == "fp16")
            assert found["at"] == line_of("gemm_residual", "for k in range")  # where acc is from


# ------------------------------------------------------------------ pipelining


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1250"])
def test_a_loop_is_pipelined_from_two_stages_on(arch: str) -> None:
    for stages, unpipelined in ((1, 2), (2, 0), (3, 0)):
        _, module = compiled("gemm", arch, num_stages=stages)
        found = facts(module, arch, num_stages=stages)["pipeline.unpipelined"]
        at = line_of("gemm", "x = tl.load(ap)") if unpipelined else None
        wanted = {"loads": unpipelined, "of": 2, "at": at, "stages": stages}
        assert {name: found[name] for name in wanted} == wanted
        assert found["cause"] is found["reason"] is found["fix"] is None


def test_without_a_dot_there_is_nothing_to_pipeline() -> None:
    jobs = loaded("ttgir_kernels", DATA / "ttgir" / "kernels.py")
    text = jobs.compile_stages(jobs.JOBS["softmax"], "gfx942")["ttgir"]
    found = facts(parse_ttgir(text, "softmax"), "gfx942")
    assert found["pipeline.unpipelined"]["loads"] == found["pipeline.unpipelined"]["of"] == 0
    assert found["layout.converts"]["lds"] == 0


# ------------------------------------------------------------------ direct to LDS


def test_copies_straight_to_lds() -> None:
    for stages, missed in ((1, 2), (2, 0)):
        _, module = compiled("gemm", "gfx950", num_stages=stages)
        found = facts(module, "gfx950", num_stages=stages)["lds_direct.missed"]
        assert (found["loads"], found["of"]) == (missed, 2)
        expected = "the loop is not pipelined (num_stages=1)" if missed else None
        assert found["reason"] == expected
    _, module = compiled("gemm", "gfx942", num_stages=2)
    assert facts(module, "gfx942")["lds_direct.missed"] is None


# ------------------------------------------------------------------ LDS round trips


def test_a_tile_converted_to_the_layout_of_another_is_no_product() -> None:
    """Scales and zeros are exchanged to fit the weights, which themselves pass LDS once."""
    from kinspect.inspector.pipeline.collecting import collect
    from kinspect.inspector.pipeline.jobs import Request

    pytest.importorskip("triton")
    path = DATA / "dequantised_kernels.py"
    kernels = collect(Request((str(path),), ("gfx1100",), passes=False, jobs=2)).kernels
    assert len(kernels) == 2
    for kernel in kernels:
        moved = kernel.metrics["layout.converts"].value
        assert isinstance(moved, Mapping)
        assert moved["lds"] == 2
        products = kernel.metrics["product.converts"].value
        assert isinstance(products, Mapping)
        assert products["lds"] == 0
        assert "KI030" not in {finding.rule for finding in kernel.findings}


def test_dots_that_share_a_layout_over_columns_are_not_told_to_share_one() -> None:
    """As in a kernel that was tried: both dots over [4, 2] waves, whatever the instruction."""
    from kinspect.inspector.pipeline.collecting import collect
    from kinspect.inspector.pipeline.jobs import Request

    pytest.importorskip("triton")
    path = DATA.parent.parent / "rules" / "fixtures" / "dots.py"
    kernels = collect(Request((str(path),), ("gfx942",), "chained", passes=False, jobs=2)).kernels
    (kernel,) = (k for k in kernels if k.variant is not None and k.variant.case == "chained")
    text = kernel.artifacts["ttgir"].path.read_text()
    for waves, exchanged in (("[4, 1]", 1), ("[2, 2]", 0)):
        shared = text.replace(
            "warpsPerCTA = [4, 1], instrShape", f"warpsPerCTA = {waves}, instrShape"
        )
        products = facts(parse_ttgir(shared, "chained"), "gfx942")["product.converts"]
        assert products["lds"] == exchanged


def test_a_dot_behind_an_if_keeps_its_layout_whatever_the_instruction() -> None:
    """Two dots meet: with 16x16 instructions the exchange on the way to a third one is gone, the
    one between the two stays, and only the former was named as what they cure.
    """
    from kinspect.inspector.pipeline.collecting import collect
    from kinspect.inspector.pipeline.jobs import Request

    pytest.importorskip("triton")
    path = DATA.parent.parent / "rules" / "fixtures" / "dots.py"
    kernels = collect(Request((str(path),), ("gfx942",), "guarded", passes=False, jobs=2)).kernels
    figures = []
    for kernel in kernels:
        found = [kernel.metrics[name].value for name in ("layout.converts", "product.converts")]
        assert all(isinstance(value, Mapping) for value in found)
        figures.append([(value["lds"], value["bytes"]) for value in found])
    wide, small = figures
    assert wide == [(2, 64 * 64 * (4 + 2)), (1, 64 * 64 * 2)]
    assert small == [(1, 64 * 64 * 4), (0, 0)]


# ------------------------------------------------------------------ buffer operations


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx1100", "gfx1201"])
def test_bounded_tensors_are_read_through_buffers(arch: str) -> None:
    text, module = compiled("gemm", arch, num_stages=1)
    assert "amdg.buffer_load" in text
    found = facts(module, arch)["buffer.plain"]
    assert found == {"accesses": 0, "of": 3, "hot": 0, "at": None, "reason": None}


def unbounded(job: Any, arch: str, folder: Path) -> TtgirModule:
    """The TTGIR of a kernel whose launcher knows no tensor's size."""
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget, Language
    from triton.compiler.compiler import make_backend

    jobs = loaded("ttgir_kernels", DATA / "ttgir" / "kernels.py")
    text = jobs.compile_stages(job, arch, "ttir")["ttir"]
    assert ", tt.pointer_range = 32 : i32" in text
    path = folder / "unbounded.ttir"
    path.write_text(text.replace(", tt.pointer_range = 32 : i32", ""))
    target = GPUTarget("hip", arch, 64 if arch.startswith("gfx9") else 32)
    backend = make_backend(target)
    options = backend.parse_options(dict(job.options))
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    module = ir.parse_mlir_module(str(path), context)
    module.context = context
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, Language.TRITON)
    return parse_ttgir(str(stages["ttgir"](module, {"target": target})), "unbounded")


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx1100"])
def test_tensors_of_unknown_size_are_read_through_pointers(arch: str, tmp_path: Path) -> None:
    module = unbounded(job_of("gemm", num_stages=2), arch, tmp_path)
    plain = sum(op.name in ("tt.load", "tt.store") for op in module.ops)
    assert plain > 0
    found = facts(module, arch)["buffer.plain"]
    assert (found["accesses"], found["hot"]) == (plain, 2)
    assert found["at"] == line_of("gemm", "x = tl.load(ap)")
    size, _, proof = str(found["reason"]).partition(", and ")
    assert size == "a has no tt.pointer_range: its tensor may be larger than 2 GiB"
    assert "they rest on" in proof
    assert "stride_am" in proof


# ------------------------------------------------------------------ values


def test_every_value_is_known_and_the_walk_is_quick() -> None:
    for path in sorted((DATA / "ttgir").glob("*.ttgir")):
        module = parse_ttgir(path.read_text(), path.name)
        flow = flow_of(module)
        assert not any(UNKNOWN in operands for operands in flow.operands), path.name
    _, module = compiled("gemm", "gfx942", num_stages=2)
    best = 1.0
    for _ in range(5):
        begin = time.process_time()
        facts(module, "gfx942")
        best = min(best, time.process_time() - begin)
    assert best < 0.02  # a few milliseconds on an idle machine


def test_an_edited_module_leaves_the_figures_unknown() -> None:
    text = (
        'module attributes {ttg.target = "hip:gfx942"} {\n  tt.func @f(%a: i32) {\n'
        "    %0 = ttg.memdesc_index : i32\n    %1 = tt.dot %0, %0, %0 : i32\n"
        "    tt.return\n  }\n}\n"
    )
    found = facts(parse_ttgir(text, "edited"), "gfx942")
    assert set(found.values()) == {None}
