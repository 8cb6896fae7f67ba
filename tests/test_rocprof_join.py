"""Measured kernels and analysed ones: matched by what was recorded, never guessed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kinspect.inspector.isa.mangled import plain_name
from kinspect.inspector.model import Artifact, KernelReport, Metric, Variant
from kinspect.inspector.model.recording import (
    Agent,
    KernelMatch,
    KernelProfile,
    KernelShape,
    Part,
    RecordedCodeObject,
)
from kinspect.inspector.profile import reading
from kinspect.inspector.profile.builder import RecordingBuilder
from kinspect.inspector.profile.join import bare_name, hashes, join_kernels, match, name_parts
from kinspect.inspector.profile.kernel_profiles import profile
from msgspec.structs import replace
from profile_bases import write_rocpd
from profile_files import Kernel, Launch, Program, write_results

MI300X = Agent("4", arch="gfx942", product="AMD Instinct MI300X")


def report(
    identity: str = "gemm/a",
    name: str = "gemm",
    arch: str | None = "gfx942",
    grid: tuple[int, ...] | None = None,
    sha256: str | None = None,
    **figures: int | None,
) -> KernelReport:
    metrics = {n: Metric(n, value, "", "compiler") for n, value in figures.items()}
    variant = Variant(
        kernel=name, arch=arch or "gfx942", wave_size=64, ttir="", options={}, grid=grid
    )
    artifacts = {"hsaco": Artifact("hsaco", sha256, 1, Path("x"))} if sha256 else {}
    return KernelReport(
        id=identity,
        name=name,
        arch=arch,
        source=None,
        variant=variant,
        artifacts=artifacts,
        metrics=metrics,
        loops=(),
        main_loop=None,
        memory_ops=(),
        waits=(),
        findings=(),
    )


def measured(agent: Agent | None = MI300X, name: str = "gemm.kd", **facts: object) -> KernelProfile:
    shape = KernelShape(name, **facts)  # type: ignore[arg-type]
    builder = RecordingBuilder(Path("run"))
    builder.begin(Part("p", "", "made up"))
    builder.dispatch(builder.shape(shape), 1, 100, 200)
    (kernel,) = profile(builder.finish())
    return replace(kernel, agent=agent)


def verdict(kernel: KernelProfile, *reports: KernelReport) -> tuple[str, tuple[str, ...]]:
    found = match(kernel, reports)
    return found.verdict, found.kernels


# --------------------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("recorded", "analysed", "same"),
    [
        ("gemm", "gemm", True),
        ("gemm.kd", "gemm", True),
        ("gemm [clone .kd]", "gemm", True),
        ("vecCopy(double*, int) (.kd)", "vecCopy(double*, int)", True),
        ("vecCopy(double*, int)", "vecCopy", True),
        ("vecCopy(double*, int)", "vecCopy(float*, int)", False),
        ("void scale<float, 4>(float*)", "scale<float, 4>", True),
        ("void scale<float, 4>(float*)", "scale<float,4>(float *)", True),
        ("void scale<float, 4>(float*)", "scale<half, 4>(float*)", False),
        ("scale", "void scale<float, 4>(float*)", True),  # truncated by the profiler
        ("ns::scale<float>(int)", "scale<float>(int)", False),
        ("gemm_1", "gemm", False),
        ("(anonymous namespace)::f(int)", "(anonymous namespace)::f(int)", True),
        ("tile(shape)", "_Z4tile5shape", True),
        ("_Z4tile5shape", "tile(shape)", True),
        ("tiles(shape)", "_Z4tile5shape", False),
        ("void ns::tile<float, 2>(float*)", "_ZN2ns4tileIfLi2EEEvPT_", True),
        ("_ZN2ns4tileIfLi2EEEvPT_", "_ZN2ns4tileIfLi2EEEvPT_", True),
        ("_ZN2ns4tileIfLi4EEEvPT_", "_ZN2ns4tileIfLi2EEEvPT_", False),
        ("(anonymous namespace)::f(int)", "_ZN12_GLOBAL__N_11fEi", True),
    ],
)
def test_names(recorded: str, analysed: str, same: bool) -> None:
    found, _ = verdict(measured(name=recorded), report(name=analysed))
    assert found == ("likely" if same else "none")


def test_no_kernel_of_that_name() -> None:
    found = match(measured(name="other.kd"), [report()])
    assert found == KernelMatch("none", (), ("no analysed kernel is named other; there is gemm",))
    several = [report(name=f"k{n}") for n in range(6)]
    (reason,) = match(measured(name="other"), several).reasons
    assert reason == "no analysed kernel is named other; there is k0, k1, k2, k3 and 2 more"
    assert bare_name(" f.kd ") == "f"


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_Z4tile5shape", "tile"),
        ("_ZN3foo3BarIiE3bazILi576ELNS_4KindE3ELb1EEEvPKfDv4_f", "foo::Bar::baz"),
        ("_ZN2ns1fIXadL_Z4nameiEEN1x1yEE1gE1z", "ns::f::g"),
        (
            "_ZNK2at6native7reducerIN3c108BFloat16EJLm12EL4Mode2EEE3runEv",
            "at::native::reducer::run",
        ),
        ("_ZplRK1aS1_", None),  # an operator
        ("_Z99short", None),
        ("_Z", None),
        ("tile", None),
    ],
)
def test_plain_names_of_mangled_ones(symbol: str, name: str | None) -> None:
    assert plain_name(symbol) == name


# --------------------------------------------------------------------------- what was recorded


@pytest.mark.parametrize(
    ("facts", "figures", "fits"),
    [
        # ACCUM_OFFSET: 94 VGPRs are 96, in steps of 4 or of 8.
        ({"vgpr": 96}, {"arch_vgpr_count": 94}, True),
        ({"vgpr": 100}, {"arch_vgpr_count": 97}, True),
        ({"vgpr": 104}, {"arch_vgpr_count": 97}, True),
        ({"vgpr": 128}, {"arch_vgpr_count": 96}, False),
        # 4 VGPRs are allocated as 8 registers: the rest is counted as AGPRs.
        ({"vgpr": 4, "accum_vgpr": 4}, {"arch_vgpr_count": 4, "agpr_count": 0}, True),
        ({"vgpr": 128, "accum_vgpr": 128}, {"arch_vgpr_count": 128, "agpr_count": 128}, True),
        ({"vgpr": 128, "accum_vgpr": 0}, {"arch_vgpr_count": 128, "agpr_count": 64}, False),
        ({"lds_bytes": 8192}, {"lds_bytes": 8192}, True),
        ({"lds_bytes": 8192}, {"lds_bytes": 8000}, True),  # in steps of 512
        ({"lds_bytes": 8192}, {"lds_bytes": 4096}, False),
        ({"lds_bytes": 0}, {"lds_bytes": 8192}, True),  # dynamic LDS is not in rocprofv3's CSV
        ({"lds_bytes": 8192}, {"lds_bytes": 0}, False),
        ({"lds_bytes": 8192}, {"lds_bytes": None}, True),
        ({"scratch_bytes": 0}, {"scratch_bytes": 0}, True),
        ({"scratch_bytes": 64}, {"scratch_bytes": 0}, False),
        ({"workgroup": (256, 1, 1)}, {"workgroup_size": 256}, True),
        ({"workgroup": (16, 16, 1)}, {"workgroup_size": 256}, True),
        ({"workgroup_size": 512}, {"workgroup_size": 256}, False),
        ({"wave_size": 32}, {"wave_size": 64}, False),
    ],
)
def test_figures_that_fit(
    facts: dict[str, object], figures: dict[str, int | None], fits: bool
) -> None:
    found = match(measured(**facts), [report(**figures)])
    assert found.verdict == ("likely" if fits else "none")


def test_reasons_are_in_words() -> None:
    kernel = measured(vgpr=128, lds_bytes=512, workgroup=(256, 1, 1))
    found = match(kernel, [report(arch_vgpr_count=93, lds_bytes=8192, workgroup_size=256)])
    assert found.reasons[0].startswith(
        "gemm/a is another build: vgpr: recorded 128, compiled 93, which profilers may write as "
        "96; LDS: recorded 512, "
    )


def test_lds_that_a_profiler_leaves_out_is_said() -> None:
    found = match(measured(lds_bytes=0, vgpr=64), [report(lds_bytes=8192, arch_vgpr_count=64)])
    assert found.reasons[1] == (
        "LDS: recorded 0, compiled 8192: rocprofv3's CSV leaves dynamic LDS out"
    )


def test_another_target_is_another_kernel() -> None:
    found = match(measured(), [report(arch="gfx90a")])
    assert found.reasons == ("gemm/a is another build: target: recorded gfx942, compiled gfx90a",)
    assert verdict(measured(agent=None), report(arch="gfx90a")) == ("likely", ("gemm/a",))
    assert verdict(measured(), report(arch="amdgcn-amd-amdhsa--gfx942:sramecc+"))[0] == "likely"


def test_a_workgroup_that_is_only_a_bound_does_not_prove_anything() -> None:
    bound = report()
    metric = Metric("workgroup_size", 256, "work-items", "estimated")
    bound = replace(bound, metrics={"workgroup_size": metric})
    assert verdict(measured(workgroup_size=64), bound)[0] == "likely"
    found = match(measured(workgroup_size=512), [bound])
    assert found.reasons == (
        "gemm/a is another build: workgroup: recorded 512, at most 256 allowed",
    )


def test_registers_of_gfx950_may_be_halved() -> None:
    agent = Agent("4", arch="gfx950")
    compiled = report(arch="gfx950", arch_vgpr_count=120, vgpr_count=248, agpr_count=128)
    for recorded in (120, 124, 248):  # all of it, half of it, the architectural ones
        kernel = measured(agent=agent, vgpr=recorded, accum_vgpr=0)
        assert verdict(kernel, compiled)[0] == "likely"
    assert verdict(measured(agent=agent, vgpr=64, accum_vgpr=0), compiled)[0] == "none"
    # On gfx942 the same count would not do.
    assert verdict(measured(vgpr=124), replace(compiled, arch="gfx942"))[0] == "none"


def test_gfx908_has_two_register_files_of_which_the_larger_is_recorded() -> None:
    agent = Agent("4", arch="gfx908")
    compiled = report(arch="gfx908", arch_vgpr_count=60, agpr_count=128, vgpr_count=128)
    kernel = measured(agent=agent, vgpr=128, accum_vgpr=128)
    assert verdict(kernel, compiled)[0] == "likely"
    assert verdict(measured(agent=agent, vgpr=96, accum_vgpr=96), compiled)[0] == "none"


def test_rdna_counts_in_its_own_granule() -> None:
    agent = Agent("4", arch="gfx1151")
    compiled = report(arch="gfx1151", arch_vgpr_count=90, agpr_count=0, wave_size=32)
    assert verdict(measured(agent=agent, vgpr=96, accum_vgpr=0), compiled)[0] == "likely"
    assert verdict(measured(agent=agent, vgpr=104), compiled)[0] == "none"


def test_configurations_of_one_name_are_told_by_what_they_take() -> None:
    small = report("gemm/small", arch_vgpr_count=64, lds_bytes=8192, workgroup_size=256)
    large = report("gemm/large", arch_vgpr_count=128, lds_bytes=32768, workgroup_size=256)
    kernel = measured(vgpr=128, lds_bytes=32768, workgroup=(256, 1, 1))
    found = match(kernel, [small, large])
    assert (found.verdict, found.kernels) == ("likely", ("gemm/large",))
    assert found.reasons == ("name and target gfx942, vgpr 128, LDS 32768, workgroup 256 agree",)
    assert verdict(measured(vgpr=256), small, large) == ("none", ())


def test_several_that_agree_are_all_named() -> None:
    one, two = report("gemm/1", arch_vgpr_count=64), report("gemm/2", arch_vgpr_count=62)
    found = match(measured(vgpr=64), [one, two, report("gemm/3", arch_vgpr_count=90)])
    assert (found.verdict, found.kernels) == ("ambiguous", ("gemm/1", "gemm/2"))
    assert found.reasons[1] == (
        "gemm/3 is another build: vgpr: recorded 64, compiled 90, which profilers may write as "
        "92 or 96"
    )


def test_the_grid_of_the_captured_launch_decides_between_equals_only() -> None:
    one = report("gemm/1", workgroup_size=256, grid=(100, 2))
    two = report("gemm/2", workgroup_size=256, grid=(50, 2))
    kernel = measured(workgroup=(256, 1, 1), grid=(12800, 2, 1))
    found = match(kernel, [one, two])
    assert (found.verdict, found.kernels) == ("likely", ("gemm/2",))
    assert "grid 50×2×1 workgroups" in found.reasons[0]
    by_size = measured(workgroup_size=256, grid_size=25600)
    assert verdict(by_size, one, two) == ("likely", ("gemm/2",))
    other = measured(workgroup=(256, 1, 1), grid=(512, 1, 1))
    assert verdict(other, one, two)[0] == "ambiguous"
    assert verdict(other, one)[0] == "likely"  # another launch of the only candidate
    assert verdict(replace(kernel, grids=2), one, two)[0] == "ambiguous"


# --------------------------------------------------------------------------- code objects


def test_the_same_code_object_is_exact(tmp_path: Path) -> None:
    file = tmp_path / "gemm.hsaco"
    file.write_bytes(b"code")
    digest = hashlib.sha256(b"code").hexdigest()
    same = report("gemm/same", sha256=digest, arch_vgpr_count=64)
    twin = report("gemm/twin", sha256="0" * 64, arch_vgpr_count=64)
    kernel = measured(vgpr=64, code_object=2, process=7)
    for one in (
        RecordedCodeObject(2, 7, "memory://7#offset=0x1&size=4", None, None, str(file)),
        RecordedCodeObject(2, None, f"file://{file}", None, None),
    ):
        code = hashes([one])
        assert match(kernel, [same, twin], code).verdict == "exact"
        assert match(kernel, [same, twin], code).kernels == ("gemm/same",)
    other = hashes([RecordedCodeObject(3, 7, None, None, None, str(file))])
    assert match(kernel, [same, twin], other).verdict == "ambiguous"
    part_of_file = RecordedCodeObject(2, 7, f"file://{file}#offset=64&size=2", None, None)
    missing = RecordedCodeObject(2, 7, f"file://{tmp_path}/gone", None, None)
    assert hashes([part_of_file, missing]) == {}


def test_a_shared_code_object_needs_more_to_tell(tmp_path: Path) -> None:
    digest = hashlib.sha256(b"code").hexdigest()
    (tmp_path / "x").write_bytes(b"code")
    code = hashes([RecordedCodeObject(2, None, None, None, None, str(tmp_path / "x"))])
    one = report("f/1", "f<int>", sha256=digest)
    two = report("f/2", "f<float>", sha256=digest)
    assert match(measured(name="f", code_object=2), [one, two], code).verdict == "ambiguous"
    found = match(measured(name="f<float>", code_object=2), [one, two], code)
    assert (found.verdict, found.kernels) == ("exact", ("f/2",))


# --------------------------------------------------------------------------- into the reports


def test_measured_metrics_join_the_static_ones() -> None:
    compiled = report(arch_vgpr_count=64)
    kernels, reports = join_kernels([measured(vgpr=64)], [compiled, report("other", "other")])
    assert kernels[0].match.verdict == "likely"
    assert reports[0].metrics["arch_vgpr_count"].value == 64
    assert reports[0].metrics["measured.duration.median"].value == 100
    assert reports[0].metrics["measured.duration.median"].origin == "measured"
    assert "measured.duration.median" not in reports[1].metrics


def test_nothing_is_added_where_it_is_not_certain_which() -> None:
    one, two = report("gemm/1"), report("gemm/2")
    kernels, reports = join_kernels([measured()], [one, two])
    assert kernels[0].match.verdict == "ambiguous"
    assert reports == (one, two)


def test_of_two_measured_kernels_the_first_counts_and_the_other_is_named() -> None:
    slow, fast = measured(vgpr=64), measured(vgpr=64, workgroup_size=64)
    slow, fast = replace(slow, id="gemm#1"), replace(fast, id="gemm#2", metrics={})
    _, (found,) = join_kernels([slow, fast], [report(arch_vgpr_count=64)])
    assert found.metrics["measured.dispatches"].value == 1
    assert found.notes == ("measured as gemm#1; gemm#2 may be this kernel as well",)


FIGURES = st.fixed_dictionaries(
    {
        "arch_vgpr_count": st.integers(1, 256),
        "agpr_count": st.sampled_from([0, 16, 128]),
        "lds_bytes": st.integers(0, 65536),
        "scratch_bytes": st.sampled_from([0, 16, 100]),
        "workgroup_size": st.sampled_from([64, 256]),
    }
)


@given(st.lists(FIGURES, min_size=1, max_size=5), st.integers(0, 4))
def test_the_kernel_that_was_launched_is_never_ruled_out(
    configurations: list[dict[str, int]], chosen: int
) -> None:
    """What the driver records of a configuration always leaves that one among the answers."""
    chosen %= len(configurations)
    reports = [report(f"gemm/{n}", **figures) for n, figures in enumerate(configurations)]
    taken = configurations[chosen]
    offset = (taken["arch_vgpr_count"] + 3) // 4 * 4
    total = (offset + taken["agpr_count"] + 7) // 8 * 8
    kernel = measured(
        vgpr=offset,
        accum_vgpr=total - offset,
        lds_bytes=(taken["lds_bytes"] + 511) // 512 * 512,
        scratch_bytes=taken["scratch_bytes"],
        workgroup_size=taken["workgroup_size"],
    )
    found = match(kernel, reports)
    assert f"gemm/{chosen}" in found.kernels
    assert found.verdict in ("likely", "ambiguous")
    assert (found.verdict == "likely") == (len(found.kernels) == 1)


@pytest.mark.parametrize(
    ("least_us", "grid", "share"), [(0.05, 2048, 50.0), (0.25, 2048, 250.0), (0.05, 4096, None)]
)
def test_share_of_the_least_time(least_us: float, grid: int, share: float | None) -> None:
    """The dispatch takes 100 ns; one of another size is another launch."""
    analysed = report()
    figures = {
        "launch.matrix_us": Metric("launch.matrix_us", least_us, "us", "derived"),
        "grid.workgroups": Metric("grid.workgroups", 8, "workgroups", "compiler"),
    }
    kernel = measured(grid=(grid, 1, 1), workgroup=(256, 1, 1))
    _, (joined_report,) = join_kernels([kernel], [replace(analysed, metrics=figures)])
    metric = joined_report.metrics.get("measured.bound_share")
    assert (metric.value if metric is not None else None) == share
    assert metric is None or ("cannot be" in metric.note) is (metric.value == 250.0)


@pytest.mark.parametrize("recorded", ["gemm<128u, 128ul, 1l>(float*)", "void gemm<128, 128u, 1>"])
def test_numbers_of_unsigned_template_arguments_are_the_same(recorded: str) -> None:
    assert name_parts(recorded)[:2] == ("gemm", "<128,128,1>")


# --------------------------------------------------------------------------- instances

INSTANCES = "_Z4gemmILi128EEvPf", "_Z4gemmILi64EEvPf"


@pytest.mark.parametrize("write", [write_rocpd, write_results])
@pytest.mark.parametrize(
    "shown", [("void gemm<128>(float*)", "void gemm<64>(float*)"), ("gemm", "gemm")]
)
@pytest.mark.parametrize("analysed", [INSTANCES, ("gemm<128>", "gemm<64>")])
def test_the_symbol_of_the_kernel_id_tells_instances_apart(
    tmp_path: Path,
    write: Callable[..., Path],
    shown: tuple[str, str],
    analysed: tuple[str, str],
) -> None:
    """They have the same registers, grid and, as `--truncate-kernels` writes it, name."""
    kernels = [
        Kernel(name, number, vgpr=8, mangled=symbol)
        for number, name, symbol in zip((7, 8), shown, INSTANCES, strict=True)
    ]
    launches = [Launch(7 + n % 2, n + 1, 100 * n, 100 * n + 50) for n in range(6)]
    suffix = "db" if write is write_rocpd else "json"
    path = write(tmp_path / f"1_results.{suffix}", Program(kernels=kernels, launches=launches))
    recording = reading.read(path, ("results_json", "rocpd"))
    matched, _ = join_kernels(profile(recording), [report(name, name) for name in analysed])
    found = {kernel.shape.symbol: kernel.match.kernels for kernel in matched}
    assert found == {symbol: (name,) for symbol, name in zip(INSTANCES, analysed, strict=True)}
