"""The Python interface: what programs and notebooks call."""

from __future__ import annotations

import doctest
import html
import importlib
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kinspect
import pytest
from kinspect.inspector.cli.main import main

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402

pytestmark = pytest.mark.usefixtures("shared_guests")


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    total = tl.load(x + offsets, mask=inside) + tl.load(y + offsets, mask=inside)
    tl.store(out + offsets, total, mask=inside)


@triton.autotune(
    [triton.Config({"BLOCK": 256}), triton.Config({"BLOCK": 1024}, num_warps=8)], key=["n"]
)
@triton.heuristics({"WHOLE": lambda launch: launch["n"] % launch["BLOCK"] == 0})
@triton.jit
def copy(x, out, n, BLOCK: tl.constexpr, WHOLE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = (offsets < n) | WHOLE
    tl.store(out + offsets, tl.load(x + offsets, mask=inside), mask=inside)


ROOT = Path(__file__).parent.parent
SMALL = Path(__file__).parent / "data" / "small_gfx942.s"
SCRIPT = """
import torch, triton, triton.language as tl
@triton.jit
def double(x, out, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(x + offsets) * 2)
x = torch.zeros(4096, device="cuda")
double[(4,)](x, x, BLOCK=1024)
"""


def tensors(number: int, **options: Any) -> list[kinspect.T]:
    return [kinspect.T(4096, dtype="fp16", **options) for _ in range(number)]


@pytest.fixture(scope="module")
def analysis() -> kinspect.Analysis:
    return kinspect.analyze(add, *tensors(3), 4096, BLOCK=1024, grid=(4,))


def test_every_public_name_is_there() -> None:
    assert set(kinspect.__all__) <= set(dir(kinspect))
    for name in kinspect.__all__:
        assert getattr(kinspect, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        kinspect.nothing  # noqa: B018


RESULTS = [
    value
    for name in kinspect.__all__
    if isinstance(value := getattr(kinspect, name), type) and hasattr(value, "to_dict")
]


@pytest.mark.parametrize("result", RESULTS, ids=lambda result: result.__name__)
def test_every_result_has_a_short_name_a_text_and_a_page(result: type) -> None:
    assert len(RESULTS) >= 8
    for name in ("__repr__", "__str__", "_repr_html_"):
        assert getattr(result, name) is not getattr(object, name, None)


def test_importing_the_package_imports_nothing_else() -> None:
    code = "import sys, kinspect; print([m for m in sys.modules if m.startswith('kinspect.')])"
    printed = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert printed.strip() == "[]"


def documented() -> list[str]:
    """Modules with examples."""
    files = [path for path in (ROOT / "inspector").rglob("*.py") if ">>> " in path.read_text()]
    return sorted(".".join(path.relative_to(ROOT).with_suffix("").parts) for path in files)


@pytest.mark.parametrize("name", documented())
def test_examples_in_docstrings(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, emulating_forks: None
) -> None:
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(f"kinspect.{name}")
    outcome = doctest.testmod(module, extraglobs={"kinspect": kinspect})
    assert outcome.failed == 0
    assert outcome.attempted


@pytest.mark.parametrize("name", [n for n in kinspect.__all__ if n.islower() and n.isidentifier()])
def test_every_function_has_an_example(name: str) -> None:
    if callable(value := getattr(kinspect, name)):
        assert ">>> " in value.__doc__, name


def test_a_kernel_is_specialised_as_a_launch_would(analysis: kinspect.Analysis) -> None:
    variant = analysis.kernel.variant
    assert variant is not None
    assert variant.grid == (4,)
    assert variant.signature["x"] == "*fp16"
    assert variant.signature["n"] == "i32"
    assert variant.attrs["x"] == {"tt.divisibility": 16, "tt.pointer_range": 32}
    assert variant.attrs["n"] == {"tt.divisibility": 16}
    one = kinspect.analyze(add, *tensors(3, aligned=False), 1, BLOCK=64).kernel.variant
    assert one is not None
    assert one.constexprs["n"] == 1
    assert "tt.divisibility" not in one.attrs["x"]


def test_the_same_code_as_from_a_script(analysis: kinspect.Analysis, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    source = Path(__file__).read_text().split("@triton.jit\n")[1].split("@triton.autotune")[0]
    script.write_text(
        "import torch, triton, triton.language as tl\n@triton.jit\n"
        + source
        + "x = torch.empty(4096, dtype=torch.float16, device='cuda')\n"
        "add[(4,)](x, x, x, 4096, BLOCK=1024)\n"
    )
    other = kinspect.analyze(script)

    def instructions(kernel: kinspect.AnalyzedKernel) -> list[str]:
        lines = (line.split(";")[0].strip() for line in (kernel.code() or "").splitlines())
        return [line for line in lines if line and not line.startswith((".", "add"))]

    assert instructions(other.kernel) == instructions(analysis.kernel)


@triton.jit
def fill(out, jobs, BLOCK: tl.constexpr):
    tl.store(out + tl.arange(0, BLOCK), jobs)


def test_a_parameter_may_have_the_name_of_an_option() -> None:
    variant = kinspect.compile(fill, kinspect.T(64), jobs=3.0, BLOCK=64).kernel.variant
    assert variant is not None
    assert variant.signature["jobs"] == "fp32"


def test_real_tensors_are_taken(analysis: kinspect.Analysis) -> None:
    torch = pytest.importorskip("torch")
    x = torch.empty(4097, dtype=torch.float16)
    mixed = kinspect.analyze(add, x[1:], *tensors(2), 4096, BLOCK=1024).kernel
    assert mixed.variant is not None
    assert "tt.divisibility" not in mixed.variant.attrs["x"]  # the view begins at an odd element
    assert "buffer_load_ushort" in (mixed.code() or "")
    assert "buffer_load_ushort" not in (analysis.kernel.code() or "")


def test_all_configurations_of_an_autotuned_kernel() -> None:
    analysis = kinspect.analyze(copy, *tensors(2), 4096, arch=["gfx942", "gfx1100"])
    assert len(analysis) == 4
    variants = [kernel.variant for kernel in analysis]
    assert {v.tuning["BLOCK"] for v in variants if v is not None and v.tuning} == {256, 1024}
    assert all(v is not None and v.constexprs["WHOLE"] is True for v in variants)
    assert {kernel.arch for kernel in analysis} == {"gfx942", "gfx1100"}
    with pytest.raises(ValueError, match="there are 4 kernels"):
        analysis.kernel  # noqa: B018


def test_figures_by_name(analysis: kinspect.Analysis) -> None:
    kernel = analysis["add"]
    assert kernel["vgpr_spill_count"] == 0
    assert kernel.metrics["vgpr_count"].value == kernel["vgpr_count"]
    assert kernel.metrics["vgpr_count"].unit == "registers"
    assert kernel["vgprs"] == kernel["vgpr_count"]
    assert "waves_per_simd" in kernel
    with pytest.raises(KeyError, match=r"near it: .*vgpr"):
        kernel["vgpr"]
    with pytest.raises(KeyError, match="no figure 'nonsense'; see `kinspect metrics list`"):
        kernel["nonsense"]
    with pytest.raises(KeyError, match="0 kernels are named 'sub'"):
        analysis["sub"]


def test_the_formats_of_the_command_line(analysis: kinspect.Analysis, tmp_path: Path) -> None:
    document = analysis.to_dict()
    assert json.loads(json.dumps(document))["kernels"][0]["name"] == "add"
    assert document["kernels"][0] == analysis.kernel.to_dict()
    assert "8 of 8 would fit" in str(analysis)
    assert "<html" in analysis.to_html()
    assert analysis.kernel._repr_html_().startswith("<iframe srcdoc=")
    linted = kinspect.lint(analysis)
    assert linted._repr_html_().startswith("<pre ")
    assert html.unescape(linted._repr_html_()).endswith(f">{linted}</pre>")
    analysis.save(tmp_path / "add.kinspect")
    loaded = kinspect.load(tmp_path / "add.kinspect")
    assert loaded.kernel["vgpr_count"] == analysis.kernel["vgpr_count"]
    assert loaded.kernel.code() == analysis.kernel.code()


def test_text_and_code_objects(analysis: kinspect.Analysis) -> None:
    text = analysis.kernel.code()
    assert text is not None
    assert kinspect.analyze(text).kernel["vgpr_count"] == analysis.kernel["vgpr_count"]
    image = analysis.kernel.report.artifacts["hsaco"].path.read_bytes()
    assert kinspect.analyze(image).kernel["vgpr_count"] == analysis.kernel["vgpr_count"]


def test_rules_are_asked(analysis: kinspect.Analysis) -> None:
    narrow = kinspect.analyze(add, *tensors(3, aligned=False), 4096, BLOCK=1024)
    result = kinspect.lint(narrow)
    assert {"KI025"} <= {finding.rule for finding in result.findings}
    assert not result.failing
    assert kinspect.lint(narrow, fail_on="warning").failing
    assert {f.rule for f in kinspect.lint(narrow, select=["KI025"]).findings} == {"KI025"}
    directly = kinspect.lint(add, *tensors(3, aligned=False), 4096, BLOCK=1024)
    assert [f.fingerprint for f in directly.findings] == [f.fingerprint for f in result.findings]
    assert result.to_dict()["kernels"][0]["findings"]


def test_files_are_linted_as_the_command_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """With what the settings say of targets, what cannot be read, and what is not known."""
    monkeypatch.chdir(tmp_path)
    Path("script.py").write_text(SCRIPT)
    Path("small.s").write_text(SMALL.read_text())
    Path("broken.s").write_text("s_nop 0\n")
    Path("pyproject.toml").write_text('[tool.kinspect]\narch = ["gfx1100"]\n')
    targets = {}
    for target, status in ((".", 2), ("small.s", 0)):
        assert main(["lint", target, "--format", "json", "--fail-on", "never"]) == status
        said = json.loads(capfd.readouterr().out)
        result = kinspect.lint(target, config="pyproject.toml", fail_on="never")
        assert json.loads(json.dumps(result.to_dict())) == said
        targets[target] = [kernel.arch for kernel in result.kernels]
    assert targets == {".": ["gfx1100"], "small.s": ["gfx942"]}
    with pytest.raises(kinspect.KinspectError, match=r"broken\.s: "):
        kinspect.lint("broken.s")


@triton.jit
def gather(x, at, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    index = tl.load(at + offsets, mask=offsets < n, other=0)
    tl.store(out + offsets, tl.load(x + index, mask=offsets < n), mask=offsets < n)


def test_kernels_are_emulated_with_what_a_call_passes() -> None:
    torch = pytest.importorskip("torch")
    x, out = kinspect.T(100, dtype="fp16"), kinspect.T(256, dtype="fp16", aligned=False)

    def emulated(indices: Any, numbers: kinspect.T = x) -> Any:
        kernel = kinspect.analyze(
            *(gather, numbers, indices, out, 256), BLOCK=64, grid=(4,), emulate=True
        ).kernel
        assert kernel.report.emulated is not None, kernel.notes
        return kernel.report.emulated

    inside = emulated(torch.arange(256, dtype=torch.int32) % 100)
    assert (inside.workgroups, inside.faults) == (4, ())
    assert inside.made_up == ("float16", "float16")
    outside = emulated(torch.arange(256, dtype=torch.int32))
    assert {fault.kind for fault in outside.faults} == {"outside"}
    # Made-up indices are 0, which is inside of everything.
    index = kinspect.T(256, dtype="i32")
    assert not emulated(index).faults
    without_grid = kinspect.analyze(gather, x, index, out, 256, BLOCK=64, emulate=True).kernel
    assert without_grid.report.emulated is None
    assert any("not emulated" in note for note in without_grid.notes)


def test_files_are_emulated_where_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("script.py").write_text(SCRIPT)
    emulated = kinspect.analyze("script.py", emulate=True).kernel.report.emulated
    assert emulated is not None
    assert emulated.workgroups == 4


def test_the_code_of_files_is_compared(tmp_path: Path) -> None:
    before, after = tmp_path / "before.s", tmp_path / "after.s"
    before.write_text(SMALL.read_text())
    after.write_text(SMALL.read_text().replace("s_add_i32 s9", "s_add_u32 s9"))
    (pair,) = kinspect.diff(before, after).pairs
    assert pair.isa
    assert pair.verdict != "same"


def test_two_runs_are_compared(analysis: kinspect.Analysis) -> None:
    narrow = kinspect.analyze(add, *tensors(3, aligned=False), 4096, BLOCK=1024)
    assert not kinspect.diff(analysis, analysis).differs
    difference = kinspect.diff(analysis, narrow)
    assert difference.differs
    assert difference.regressed
    assert not kinspect.diff(narrow, analysis).regressed
    assert difference.to_dict()["counts"]["regression"] == 1


def test_a_kernel_is_swept() -> None:
    result = kinspect.sweep(
        add, *tensors(3), 4096, axes={"BLOCK": [256, 1024], "num_warps": [1, 4]}
    )
    points = [(row["point"]["BLOCK"], row["point"]["num_warps"]) for row in result.rows]
    assert points == [(256, 1), (256, 4), (1024, 1), (1024, 4)]
    for row in result.rows:
        alone = kinspect.compile(add, *tensors(3), 4096, **row["point"]).kernel
        assert row["figures"]["vgprs"] == alone["vgpr_count"]


def test_cures_are_tried(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "script.py"
    script.write_text(
        "import torch, triton, triton.language as tl\n"
        "@triton.jit\n"
        "def total(x, y, blocks, BLOCK: tl.constexpr):\n"
        "    part = tl.zeros((BLOCK,), tl.float32)\n"
        "    for block in range(blocks):\n"
        "        part += tl.exp(tl.load(x + block * BLOCK + tl.arange(0, BLOCK)))\n"
        "    tl.store(y + tl.arange(0, BLOCK), part)\n"
        "x = torch.empty(65536, device='cuda')\n"
        "total[(1,)](x, x, 16, BLOCK=4096)\n"
    )
    result = kinspect.try_(script, rules=["KI063"])
    flushing, in_base_two = (
        {"allow_flush_denorm": True},
        {"tl.exp(x)": "tl.exp2(x * 1.4426950408889634)"},
    )
    # Either is enough: both together are not tried. The faster one comes first.
    assert result.cures == {"KI063": [in_base_two, flushing]}
    (kernel,) = result.kernels
    assert kernel.metrics["vgpr_count"] == kinspect.compile(script).kernel["vgpr_count"]
    assert re.search(r"tried: allow_flush_denorm False → True: .* µs .*, gone", str(result))
    analysis = kinspect.analyze(script)
    for held in (analysis, analysis.kernel):
        assert kinspect.try_(held, rules=["KI063"]).cures == result.cures


@triton.jit
def total(x, y, blocks, BLOCK: tl.constexpr):
    part = tl.zeros((BLOCK,), tl.float32)
    for block in range(blocks):
        part += tl.exp(tl.load(x + block * BLOCK + tl.arange(0, BLOCK)))
    tl.store(y + tl.arange(0, BLOCK), part)


def test_cures_are_tried_of_a_kernel_that_the_program_holds(tmp_path: Path) -> None:
    x = kinspect.T(65536)
    analysis = kinspect.analyze(total, x, x, 16, BLOCK=4096)
    cures = kinspect.try_(analysis.kernel, rules=["KI063"]).cures
    assert {"allow_flush_denorm": True} in cures["KI063"]
    assert kinspect.try_(total, x, x, 16, BLOCK=4096, rules=["KI063"]).cures == cures
    with pytest.raises(kinspect.KinspectError, match="as it was compiled"):
        kinspect.try_(analysis, arch="gfx90a")
    analysis.save(tmp_path / "held.kinspect")
    with pytest.raises(kinspect.KinspectError, match="compiled already"):
        kinspect.try_(kinspect.load(tmp_path / "held.kinspect"))


def test_a_held_kernel_is_specialised_with_other_constexprs() -> None:
    analysis = kinspect.analyze(copy, *tensors(2), 4096)
    origin, base = analysis.origin, analysis.kernels[0].variant
    assert origin is not None
    assert origin.launch is not None
    assert base is not None
    smaller = origin.launch.at(base, {"BLOCK": 128})
    assert (smaller.constexprs["BLOCK"], smaller.arch) == (128, base.arch)
    assert smaller.constexprs["WHOLE"]  # a heuristic's, of the new block
    assert smaller.signature == base.signature
    with pytest.raises(kinspect.KinspectError, match="power of 2"):
        origin.launch.at(base, {"BLOCK": 100})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kinspect.analyze(add, 1), "missing 4 required .*; its parameters are x, y"),
        (
            lambda: kinspect.analyze(add, *tensors(3), 5, BLOCK=1000),
            r"test_api.py:\d+: .*power of 2",
        ),
        (lambda: kinspect.analyze(add, *tensors(3), 5, BLOCK=64, num_wraps=2), "mean num_warps"),
        (lambda: kinspect.analyze(add, *tensors(3), 5, BLOCK=64, arch="gfx999"), "unknown target"),
        (lambda: kinspect.analyze(3), "a int cannot be analysed"),
        (lambda: kinspect.analyze("absent.py"), "no such file"),
        (lambda: kinspect.analyze("absent.py", 3), "only one takes arguments"),
        (lambda: kinspect.analyze(__file__, num_warps=3), "no option num_warps"),
        (lambda: kinspect.analyze("s_nop 0\ns_nop 1\n"), "no "),
        (lambda: kinspect.sweep(add, *tensors(3), 5, axes={}), "nothing to sweep"),
        (lambda: kinspect.load("absent.json"), "no such file"),
        (lambda: kinspect.T(3, dtype="nonsense"), "names no type"),
        (lambda: kinspect.T("fp16"), r"T\('fp16'\): extents are whole numbers; write T\("),
        (lambda: kinspect.T((4, 2.5)), "extents are whole numbers"),
        (lambda: kinspect.T(4, -1), "extents are whole numbers"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(kinspect.KinspectError, match=message) as raised:
        call()
    assert "\n" not in str(raised.value)


def test_a_shape_is_also_taken_as_one_tuple() -> None:
    """As `torch.empty` takes it."""
    assert kinspect.T((4, 2)).shape == kinspect.T([4, 2]).shape == kinspect.T(4, 2).shape == (4, 2)
    assert kinspect.T().numel() == 1
