"""`kinspect env check`: what is said of machines that are folders here."""

from __future__ import annotations

import importlib.util
import io
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from kinspect.inspector.formats import environment as render
from kinspect.inspector.host.env.gpus import clock_limit, gpus
from kinspect.inspector.host.env.host import (
    Host,
    InstalledGpu,
    MachineFact,
    MachineReport,
    User,
    Verdict,
    run_program,
    this_host,
)
from kinspect.inspector.host.env.knobs import knobs
from kinspect.inspector.host.env.machine_facts import check, software_facts
from kinspect.inspector.present.text import show

Tool = Callable[..., "CompletedProcess[str]"]

OLD = "GFXCLK:\n0: 500Mhz\n1: 1090Mhz *\n2: 1700Mhz\nMCLK:\n0: 400Mhz\n1: 1600Mhz\n"
"""gfx90a before April 2024: the present clock stands between the limits (aldebaran_ppt.c)."""
CLOCKS = """OD_SCLK:
0:        500Mhz
1:       2100Mhz
OD_MCLK:
1:       1300MHz
OD_RANGE:
SCLK:     500Mhz       2100Mhz
"""


@pytest.fixture
def tool(tool_in_process: Tool) -> Tool:
    return tool_in_process


def put(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def answers(command: Sequence[str]) -> str | None:
    packages = {"triton": "3.4.0", "torch": "2.8.0+rocm7.0", "vllm": None}
    return json.dumps({"python": "3.12.3", "packages": packages})


def host_at(
    root: Path,
    environ: Mapping[str, str] | None = None,
    user: User | None = None,
    run: Callable[[Sequence[str]], str | None] = answers,
) -> Host:
    someone = user or User(1000, ("someone", "render"))
    return Host(root, environ or {}, run, someone, "6.8.0-45", "node1")


def gpu_files(node: int, version: int, minor: int, level: str = "auto") -> dict[str, str]:
    nodes = f"/sys/class/kfd/kfd/topology/nodes/{node}"
    card = f"/sys/class/drm/renderD{minor}/device"
    return {
        f"{nodes}/properties": (
            f"cpu_cores_count 0\nsimd_count 1216\ndrm_render_minor {minor}\n"
            f"gfx_target_version {version}\n"
        ),
        f"{nodes}/name": "aqua_vanjaram\n",
        f"{card}/power_dpm_force_performance_level": f"{level}\n",
        f"{card}/pp_od_clk_voltage": CLOCKS,
        f"/dev/dri/renderD{minor}": "",
    }


CPU = {
    "/sys/class/kfd/kfd/topology/nodes/0/properties": "cpu_cores_count 96\ngfx_target_version 0\n"
}
MI300X = {
    **CPU,
    **gpu_files(1, 90402, 128),
    "/dev/kfd": "",
    "/proc/sys/kernel/numa_balancing": "1\n",
    "/proc/sys/kernel/perf_event_paranoid": "4\n",
    "/proc/sys/kernel/random/boot_id": "boot-1\n",
    "/sys/module/amdgpu/version": "6.12.12\n",
    "/opt/rocm/.info/version": "7.0.2-56\n",
}
BARE = {"/proc/sys/kernel/numa_balancing": "1\n"}


def by_name(report: MachineReport) -> dict[str, MachineFact]:
    return {fact.name: fact for fact in report.facts}


def test_a_machine_without_a_gpu(tmp_path: Path) -> None:
    report = check(host_at(put(tmp_path, BARE), user=User(1000, ())), "python")
    facts = by_name(report)
    assert report.worth_changing == ()
    for name in ("gpus", "amdgpu", "ROCm", "/dev/kfd", "groups", "HIP_FORCE_DEV_KERNARG"):
        assert facts[name].verdict is Verdict.ABSENT, name
    assert facts["numa_balancing"].verdict is Verdict.ABSENT
    assert facts["kernel"].value == "6.8.0-45"


def test_an_mi300x_as_delivered(tmp_path: Path) -> None:
    report = check(host_at(put(tmp_path, MI300X)), "python")
    assert report.gpus == (
        InstalledGpu(1, "gfx942", "aqua_vanjaram", "/sys/class/drm/renderD128/device"),
    )
    assert [f.name for f in report.worth_changing] == [
        *("numa_balancing", "clock1", "HIP_FORCE_DEV_KERNARG")
    ]
    facts = by_name(report)
    assert facts["amdgpu"].value == "6.12.12"
    assert facts["ROCm"].value == "7.0.2-56"
    assert facts["torch"].value == "2.8.0+rocm7.0"
    assert facts["perf_event_paranoid"].verdict is Verdict.CHOICE
    assert "vllm" not in facts
    assert all(f.source.startswith(("AMD, ", "HIP ")) for f in report.worth_changing)


def test_the_same_as_the_guide_has_it(tmp_path: Path) -> None:
    files = {
        **MI300X,
        **gpu_files(1, 90402, 128, "perf_determinism"),
        "/proc/sys/kernel/numa_balancing": "0",
    }
    report = check(host_at(put(tmp_path, files), {"HIP_FORCE_DEV_KERNARG": "1"}), "python")
    assert report.worth_changing == ()
    assert by_name(report)["clock1"].value == "perf_determinism, 2100 MHz"


@pytest.mark.parametrize(
    ("version", "arch"),
    [
        (90010, "gfx90a"),
        (90402, "gfx942"),
        (90500, "gfx950"),
        (110000, "gfx1100"),
        (120001, "gfx1201"),
    ],
)
def test_targets_by_the_drivers_number(tmp_path: Path, version: int, arch: str) -> None:
    assert [g.arch for g in gpus(host_at(put(tmp_path, gpu_files(3, version, 130))))] == [arch]


def test_several_gpus_in_order(tmp_path: Path) -> None:
    files = {**CPU, **gpu_files(10, 90402, 129), **gpu_files(2, 90402, 128)}
    assert [g.node for g in gpus(host_at(put(tmp_path, files)))] == [2, 10]


def test_counters_of_rdna3_need_a_level(tmp_path: Path) -> None:
    fact = by_name(check(host_at(put(tmp_path, gpu_files(1, 110000, 128))), "p"))["clock1"]
    assert (fact.verdict, fact.expected) == (Verdict.CHOICE, "profile_standard, for counters")


def test_a_card_that_a_container_hides(tmp_path: Path) -> None:
    files = {k: v for k, v in gpu_files(1, 90402, 128).items() if "/drm/" not in k}
    assert by_name(check(host_at(put(tmp_path, files)), "p"))["clock1"].verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        (CLOCKS, 2100),
        ("", None),
        ("OD_MCLK:\n1: 1300Mhz\n", None),
        ("GFXCLK:\n1: 1900MHz", 1900),
        (OLD, 1700),
    ],
)
def test_the_clock_limit(text: str, limit: int | None) -> None:
    assert clock_limit(text) == limit


# --------------------------------------------------------------------------- rights


def rights(
    tmp_path: Path, user: User, monkeypatch: pytest.MonkeyPatch, allowed: bool
) -> MachineReport:
    monkeypatch.setattr("os.access", lambda path, mode: allowed)
    return check(host_at(put(tmp_path, MI300X), {"HIP_FORCE_DEV_KERNARG": "1"}, user), "p")


def test_no_right_to_the_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = by_name(rights(tmp_path, User(1000, ("someone",)), monkeypatch, False))
    for name in ("/dev/kfd", "/dev/dri/renderD128", "groups"):
        assert facts[name].verdict is Verdict.CHANGE, name
        assert "usermod -aG render,video" in facts[name].advice


def test_rights_without_the_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = by_name(rights(tmp_path, User(1000, ("109",)), monkeypatch, True))
    assert facts["/dev/kfd"].verdict is Verdict.GOOD
    assert facts["groups"].verdict is Verdict.GOOD


# --------------------------------------------------------------------------- variables


@pytest.mark.parametrize(
    ("name", "value", "verdict"),
    [
        ("HIP_FORCE_DEV_KERNARG", None, Verdict.CHANGE),
        ("HIP_FORCE_DEV_KERNARG", "0", Verdict.CHANGE),
        ("HIP_FORCE_DEV_KERNARG", "1", Verdict.GOOD),
        ("AMD_LOG_LEVEL", None, Verdict.GOOD),
        ("AMD_LOG_LEVEL", "0", Verdict.GOOD),
        ("AMD_LOG_LEVEL", "3", Verdict.CHANGE),
        ("HSA_TOOLS_LIB", "librocm-debug-agent.so.2", Verdict.CHANGE),
        ("TORCHINDUCTOR_MAX_AUTOTUNE", None, Verdict.CHOICE),
        ("TORCHINDUCTOR_MAX_AUTOTUNE", "1", Verdict.GOOD),
        ("AMDGCN_USE_BUFFER_OPS", None, Verdict.GOOD),
        ("AMDGCN_USE_BUFFER_OPS", "0", Verdict.CHOICE),
    ],
)
def test_verdicts(tmp_path: Path, name: str, value: str | None, verdict: Verdict) -> None:
    environ = {} if value is None else {name: value}
    fact = by_name(check(host_at(put(tmp_path, MI300X), environ), "python"))[name]
    assert (fact.value, fact.verdict) == (value, verdict)


def test_each_variable_once_and_with_a_source() -> None:
    names = [knob.name for knob in knobs()]
    assert len(names) == len(set(names)) > 40
    assert all(knob.why and knob.source for knob in knobs())


@pytest.mark.parametrize(
    ("package", "file", "prefixes"),
    [
        ("triton", "knobs.py", ("TRITON_", "AMDGCN_")),
        ("torch", "_inductor/config.py", ("TORCHINDUCTOR_",)),
    ],
)
def test_they_exist_in_what_is_installed(
    package: str, file: str, prefixes: tuple[str, ...]
) -> None:
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        pytest.skip(f"no {package}")
    text = (Path(found.origin).parent / file).read_text()
    names = [k.name for k in knobs() if k.name.startswith(prefixes)]
    assert names
    assert [name for name in names if f'"{name}"' not in text] == []


# --------------------------------------------------------------------------- software


def test_versions_without_importing(tmp_path: Path) -> None:
    put(
        tmp_path,
        {
            "torch/__init__.py": "raise SystemExit('imported')",
            "torch-9.9.9+rocm1.dist-info/METADATA": "Metadata-Version: 2.1\nName: torch\n"
            "Version: 9.9.9+rocm1\n",
        },
    )

    def run(command: Sequence[str]) -> str | None:
        return run_program(["env", f"PYTHONPATH={tmp_path}", *command])

    facts = {f.name: f for f in software_facts(host_at(tmp_path, run=run), sys.executable)}
    assert facts["torch"].value == "9.9.9+rocm1"
    assert facts["python"].value == f"{sys.version.split()[0]} ({sys.executable})"


@pytest.mark.parametrize("answer", [None, "", "no json", "[]", '{"python": "3"}'])
def test_an_interpreter_that_does_not_answer(tmp_path: Path, answer: str | None) -> None:
    (fact,) = software_facts(host_at(tmp_path, run=lambda command: answer), "/no/python")
    assert fact.verdict is Verdict.UNKNOWN
    assert "/no/python does not answer" in fact.advice


def test_a_build_for_other_hardware(tmp_path: Path) -> None:
    def run(command: Sequence[str]) -> str:
        return json.dumps({"python": "3.12", "packages": {"torch": "2.8.0+cpu", "triton": None}})

    facts = {f.name: f for f in software_facts(host_at(tmp_path, run=run), "p")}
    assert facts["torch"].verdict is Verdict.CHOICE
    assert facts["triton"].verdict is Verdict.ABSENT


# --------------------------------------------------------------------------- output


def test_the_table(tmp_path: Path) -> None:
    stream = io.StringIO()
    report = check(host_at(put(tmp_path, MI300X), {"AMD_LOG_LEVEL": "3"}), "python")
    show(render.check_document(report, every=False), stream)
    told = stream.getvalue()
    assert "  numa_balancing  1         worth changing  should be 0\n" in told
    assert "  gpu1    gfx942 aqua_vanjaram  good\n" in told
    assert "TRITON_DEBUG" not in told
    assert "\n4 worth changing\n" in told
    assert "  AMD_LOG_LEVEL: unset AMD_LOG_LEVEL to measure: every HIP call is logged" in told


def test_the_json(tmp_path: Path) -> None:
    value = render.check_fields(check(host_at(put(tmp_path, MI300X)), "python"))
    assert value["gpus"] == [{"node": 1, "arch": "gfx942", "name": "aqua_vanjaram"}]
    assert value["worth_changing"][0] == "numa_balancing"
    facts = {f["name"]: f for f in value["facts"]}
    assert facts["HIP_FORCE_DEV_KERNARG"]["value"] is None
    assert facts["TRITON_DEBUG"]["verdict"] == "good"


def test_this_machine(tool: Tool) -> None:
    done = tool("env", "check", env={"AMD_LOG_LEVEL": ""})
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "rocprofv3" in done.stdout
    assert "thread trace decoder" in done.stdout
    assert this_host().release in done.stdout


def test_strict(tool: Tool) -> None:
    done = tool("env", "check", "--strict", "--format", "json", env={"AMD_SERIALIZE_KERNEL": "3"})
    assert done.returncode == 1
    assert "AMD_SERIALIZE_KERNEL" in json.loads(done.stdout)["worth_changing"]
