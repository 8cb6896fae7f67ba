"""Which profiler is found, what its PC sampler takes, and how counters are split into passes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.profile.figures import counters
from kinspect.inspector.profile.running import counter_sets, installed
from kinspect.inspector.profile.running.counter_sets import CounterGroup

ARCHS = (
    "gfx906",
    "gfx908",
    "gfx90a",
    "gfx942",
    "gfx950",
    "gfx1030",
    "gfx1100",
    "gfx1151",
    "gfx1201",
)
STAND_IN = Path(__file__).parent / "fake_rocprofv3.py"


# --------------------------------------------------------------------------- finding


def program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_the_rocprofv3_of_the_programs_environment_comes_first(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    program(venv / "bin" / "python")
    (venv / "pyvenv.cfg").touch()
    places = [
        program(venv / "bin" / "rocprofv3"),
        program(venv / "lib/python3.12/site-packages/_rocm_sdk_core/bin/rocprofv3"),
        program(tmp_path / "path" / "rocprofv3"),
        program(tmp_path / "rocm-path" / "bin" / "rocprofv3"),
        program(tmp_path / "opt" / "rocm" / "bin" / "rocprofv3"),
        program(tmp_path / "opt" / "rocm-7.10.0" / "bin" / "rocprofv3"),
        program(tmp_path / "opt" / "rocm-7.9.0" / "bin" / "rocprofv3"),
    ]
    environment = {"PATH": str(tmp_path / "path"), "ROCM_PATH": str(tmp_path / "rocm-path")}
    command = [str(venv / "bin" / "python"), "x.py"]
    found = []
    while places:
        found.append(
            installed.find_profiler(command, environment=environment, opt=tmp_path / "opt").path
        )
        assert found[-1] == places.pop(0)
        found[-1].unlink()
    older = program(tmp_path / "path" / "rocprof")
    assert (
        installed.find_profiler(command, environment=environment, opt=tmp_path / "opt").path
        == older
    )
    older.unlink()
    with pytest.raises(KinspectError, match="rocm-path") as none:
        installed.find_profiler(command, environment=environment, opt=tmp_path / "opt")
    assert none.value.exit_code == 125
    for place in ("venv/bin", "_rocm_sdk_core/bin", "path", "opt/rocm/bin", "opt/rocm-7.9.0/bin"):
        assert place in none.value.message


def test_a_system_interpreter_is_no_environment(tmp_path: Path) -> None:
    program(tmp_path / "usr" / "bin" / "python")
    program(tmp_path / "usr" / "bin" / "rocprofv3")
    with pytest.raises(KinspectError):
        installed.find_profiler(
            [str(tmp_path / "usr" / "bin" / "python")],
            environment={"PATH": str(tmp_path)},
            opt=tmp_path / "opt",
        )


def test_the_version_comes_from_the_text_else_from_the_release_else_it_is_asked(
    tmp_path: Path,
) -> None:
    stated = program(
        tmp_path / "a/bin/rocprofv3", '#!/usr/bin/env python3\nX = {"version": "1.3.0"}\n'
    )
    assert installed.describe(stated, "rocprofv3").version == (1, 3, 0)
    (tmp_path / "b/.info").mkdir(parents=True)
    (tmp_path / "b/.info/version").write_text("6.4.1-83\n")
    released = program(tmp_path / "b/bin/rocprofv3")
    assert installed.describe(released, "rocprofv3").version == (0, 6, 0)
    # The others count for themselves.
    compute = program(
        tmp_path / "b/bin/rocprof-compute", "#!/bin/sh\necho 'version: 3.1.0 (release)'\n"
    )
    assert installed.describe(compute, "rocprof-compute").version == (3, 1, 0)
    asked = program(tmp_path / "c/bin/rocprofv3", "#!/bin/sh\necho '   version: 1.1.0'\n")
    assert installed.describe(asked, "rocprofv3").version == (1, 1, 0)
    refusing = program(tmp_path / "d/bin/rocprofv3", "#!/bin/sh\necho 9.9.9\nexit 2\n")
    assert installed.describe(refusing, "rocprofv3").version is None
    assert installed.describe(refusing, "rocprofv3").has("--att")  # taken for a new one


def test_a_named_profiler_must_be_one_that_can_be_run(tmp_path: Path) -> None:
    assert (
        installed.find_profiler(["true"], named=program(tmp_path / "rocprof-compute")).tool
        == "rocprof-compute"
    )
    assert (
        installed.find_profiler(["true"], named=program(tmp_path / "rocprofv2")).tool == "rocprofv2"
    )
    assert installed.find_profiler(["true"], named=program(tmp_path / "mine")).tool == "rocprofv3"
    with pytest.raises(KinspectError, match="no program that can be run"):
        installed.find_profiler(["true"], named=tmp_path / "none")


def test_the_options_of_a_readable_script_count_more_than_its_version() -> None:
    found = installed.describe(STAND_IN, "rocprofv3")
    assert found.version == (1, 0, 0)
    assert found.has("--pmc")
    assert not found.has("--no-such")


@pytest.mark.parametrize(
    ("rocm", "sdk"),
    [("6.1.0", None), ("6.2.4", (0, 4, 0)), ("6.4.3", (0, 6, 0)), ("7.0.2", (1, 0, 0))],
)
def test_the_sdk_of_a_rocm_release(rocm: str, sdk: tuple[int, ...] | None) -> None:
    version = installed.parse(rocm)
    assert version is not None
    assert installed.sdk_of_rocm(version) == sdk


def test_the_decoder_is_looked_for_where_rocprofv3_looks(tmp_path: Path) -> None:
    root = tmp_path / "rocm"
    mine = installed.Profiler("rocprofv3", program(root / "bin/rocprofv3"), (1, 0, 0))
    environment = {"LD_LIBRARY_PATH": str(tmp_path / "ld")}
    with pytest.raises(KinspectError, match="librocprof-trace-decoder") as none:
        installed.find_decoder(mine, environment=environment)
    assert str(tmp_path / "ld") in none.value.message
    assert none.value.exit_code == 125
    program(root / "lib/deep/librocprof-trace-decoder.so.0")
    assert installed.find_decoder(mine, environment=environment) == root / "lib/deep"
    program(tmp_path / "ld/librocprof-trace-decoder.so")
    assert installed.find_decoder(mine, environment=environment) == tmp_path / "ld"
    stated = {**environment, "ROCPROF_ATT_LIBRARY_PATH": str(tmp_path / "stated")}
    with pytest.raises(KinspectError):
        installed.find_decoder(mine, environment=stated)
    assert installed.find_decoder(mine, tmp_path / "ld", stated) == tmp_path / "ld"


def test_the_arch_is_that_of_the_drivers_topology(tmp_path: Path) -> None:
    def node(number: int, version: int) -> None:
        (tmp_path / str(number)).mkdir()
        text = f"simd_count 4\ngfx_target_version {version}\nmax_waves_per_simd 8\n"
        (tmp_path / str(number) / "properties").write_text(text)

    assert installed.gpu_arch(topology=tmp_path) is None
    node(0, 0)
    assert installed.gpu_arch(topology=tmp_path) is None
    node(1, 90402)
    node(2, 90402)
    assert installed.gpu_arch(topology=tmp_path) == "gfx942"
    node(3, 90010)
    with pytest.raises(KinspectError, match="gfx942, gfx90a"):
        installed.gpu_arch(topology=tmp_path)


def test_the_arch_is_else_asked_of_rocms_tools(tmp_path: Path) -> None:
    mine = installed.Profiler("rocprofv3", program(tmp_path / "bin/rocprofv3"), (1, 0, 0))
    program(tmp_path / "bin/rocminfo", "#!/bin/sh\necho '  Name:                    gfx1151'\n")
    assert installed.gpu_arch(mine, tmp_path / "none") == "gfx1151"
    program(tmp_path / "bin/rocm_agent_enumerator", "#!/bin/sh\necho gfx000; echo gfx950\n")
    assert installed.gpu_arch(mine, tmp_path / "none") == "gfx950"


# --------------------------------------------------------------------------- PC sampling


@pytest.mark.parametrize(
    ("arch", "method", "interval", "expected"),
    [
        ("gfx942", None, None, ("stochastic", "cycles")),
        ("gfx942", "host_trap", 1, ("host_trap", "time")),
        ("gfx950", "stochastic", 256, ("stochastic", "cycles")),
        ("gfx90a", None, None, ("host_trap", "time")),
        ("gfx90a", "stochastic", None, "has no stochastic"),
        ("gfx942", "stochastic", 128, "at least 256"),
        ("gfx942", "stochastic", 1000, "power of two"),
        ("gfx1100", None, None, "gfx1100 has no PC sampling"),
    ],
)
def test_pc_sampling_is_asked_for_as_the_arch_takes_it(
    arch: str, method: str | None, interval: int | None, expected: tuple[str, str] | str
) -> None:
    if isinstance(expected, str):
        with pytest.raises(KinspectError, match=expected) as refused:
            installed.sampling(arch, method, interval)
        assert refused.value.exit_code == 2
        return
    found = installed.sampling(arch, method, interval)
    assert (found.method, found.unit) == expected
    assert interval in (None, found.interval)
    if found.power_of_two:
        assert found.interval & (found.interval - 1) == 0


# --------------------------------------------------------------------------- sets and passes


@pytest.mark.parametrize("arch", ARCHS)
def test_every_set_has_something_on_every_arch_and_fits_few_passes(arch: str) -> None:
    clock = counter_sets.clock(arch)
    assert clock == "GRBM_GUI_ACTIVE"
    for name in counter_sets.names():
        groups = counter_sets.groups([name], arch)
        made = counter_sets.split(groups, counter_sets.of_arch(arch), clock)
        assert 1 <= len(made) <= 3, (name, made)
        for group in groups:
            assert any(set(group.counters) <= set(one) for one in made)
            assert set(group.counters) <= counters.known(arch)
        assert all(clock in one for one in made)  # every ratio's time beside it


def test_the_sets_of_a_gfx942_by_hand() -> None:
    hardware = counter_sets.of_arch("gfx942")
    lds = counter_sets.split(counter_sets.groups(["lds"], "gfx942"), hardware)
    assert len(lds) == 1
    assert {"SQ_LDS_BANK_CONFLICT", "SQ_LDS_IDX_ACTIVE", "GRBM_GUI_ACTIVE"} <= set(lds[0])
    # FETCH_SIZE takes three of TCC's four counters, WRITE_SIZE two, hits and misses two.
    memory = counter_sets.split(counter_sets.groups(["memory"], "gfx942"), hardware)
    assert len(memory) == 2
    assert not any({"FETCH_SIZE", "WRITE_SIZE"} <= set(one) for one in memory)


def test_sets_and_names_mix_and_nothing_is_asked_for_twice() -> None:
    words = counter_sets.parse("lds, SQ_WAVES SQ_WAVES,SQ_INSTS_LDS")
    assert words == ("lds", "SQ_WAVES", "SQ_INSTS_LDS")
    groups = counter_sets.groups(words, "gfx942")
    assert [group.name for group in groups] == ["lds", "SQ_WAVES"]


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("SQ_WAVESS", "SQ_WAVES"),
        ("ocupancy", "occupancy"),
        ("sq_lds_bank_conflicts", "SQ_LDS_BANK_CONFLICT"),
    ],
)
def test_an_unknown_counter_is_answered_with_the_nearest(word: str, near: str) -> None:
    with pytest.raises(KinspectError, match=word) as refused:
        counter_sets.groups([word], "gfx942")
    assert near in refused.value.hint
    assert refused.value.exit_code == 2


def test_counters_that_cannot_share_a_pass_are_refused_by_name() -> None:
    names = tuple(f"SQ_{n}" for n in range(9))
    hardware = counter_sets.Hardware(lambda n: (n,), lambda n: "SQ", lambda b: 8)
    with pytest.raises(KinspectError, match=r"SQ_0, SQ_1.*take 9 counters of SQ.*has 8") as refused:
        counter_sets.split([CounterGroup("mine", names)], hardware)
    assert refused.value.exit_code == 2
    derived = counter_sets.Hardware(lambda n: names, lambda n: "SQ", lambda b: 8)
    with pytest.raises(KinspectError, match="Everything takes 9"):
        counter_sets.split([CounterGroup("Everything", ("Everything",))], derived)


_BLOCKS = {"A": 2, "B": 3, "C": None}
_BASIC = [f"{block}_{n}" for block in _BLOCKS for n in range(6)]


@st.composite
def _problems(draw: st.DrawFn) -> tuple[list[CounterGroup], dict[str, tuple[str, ...]]]:
    """Groups over basic counters and derived ones that take some of them."""
    derived = {
        f"derived{n}": tuple(draw(st.lists(st.sampled_from(_BASIC), min_size=1, max_size=3)))
        for n in range(4)
    }
    names = st.sampled_from(_BASIC + list(derived))
    lists = draw(st.lists(st.lists(names, min_size=1, max_size=4, unique=True), max_size=8))
    return [CounterGroup(f"g{n}", tuple(found)) for n, found in enumerate(lists)], derived


@given(_problems(), st.randoms(use_true_random=False))
def test_every_counter_is_placed_within_limits_and_no_group_is_torn_apart(
    problem: tuple[list[CounterGroup], dict[str, tuple[str, ...]]], random: object
) -> None:
    groups, derived = problem
    hardware = counter_sets.Hardware(lambda n: derived.get(n, (n,)), lambda n: n[0], _BLOCKS.get)

    def fits(names: tuple[str, ...]) -> bool:  # counted another way than the code does
        taken = {basic for name in names for basic in derived.get(name, (name,))}
        return all(
            most is None or sum(basic[0] == block for basic in taken) <= most
            for block, most in _BLOCKS.items()
        )

    if not all(fits(group.counters) for group in groups):
        with pytest.raises(KinspectError, match="in one pass"):
            counter_sets.split(groups, hardware, "A_0")
        return
    made = counter_sets.split(groups, hardware, "A_0")
    assert all(fits(one) for one in made)
    assert all(len(set(one)) == len(one) for one in made)
    for group in groups:
        assert any(set(group.counters) <= set(one) for one in made)
    assert {n for one in made for n in one} - {"A_0"} <= {n for g in groups for n in g.counters}
    assert len(made) <= len(groups)
    if groups and fits(tuple(n for g in groups for n in g.counters)):
        assert len(made) == 1
    random.shuffle(groups)  # type: ignore[attr-defined]
    again = counter_sets.split(groups, hardware, "A_0")
    assert [set(one) for one in again] == [set(one) for one in made]
