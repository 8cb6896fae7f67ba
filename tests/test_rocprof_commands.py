"""What profilers are asked, and what their complaints mean."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.profile.running import commands, counter_sets, installed, outcome
from kinspect.inspector.profile.running.commands import Att, Measurements

STAND_IN = Path(__file__).parent / "fake_rocprofv3.py"


def profiler(tool: str = "rocprofv3", version: str | None = "1.0.0") -> installed.Profiler:
    return installed.Profiler(tool, Path("/rocm/bin") / tool, installed.parse(version or ""))


def program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


# --------------------------------------------------------------------------- command lines


def combinations() -> list[Measurements]:
    """Every combination of options that changes a command line."""
    lists = counter_sets.groups(
        counter_sets.parse("occupancy,memory,lds,mfma,waits,roofline"), "gfx942"
    )
    asked = counter_sets.split(lists, counter_sets.of_arch("gfx942"), counter_sets.clock("gfx942"))
    values = ((None, 3), (None, "0x1"), (None, "0xF"), (None, "0x6000000"))
    atts = [None, *(Att(Path("/decoder"), *chosen) for chosen in itertools.product(*values))]
    samplings = [
        None,
        installed.sampling("gfx942"),
        installed.sampling("gfx942", "host_trap", 1),
        installed.sampling("gfx90a"),
    ]
    filters = list(itertools.product((None, "-odd|^void .*<float>\\("), (None, 0, 4)))
    made = [Measurements((), att, None, *f) for att in atts for f in filters]
    made += [Measurements(asked, None, None, *f) for f in filters]
    made += [
        Measurements(asked[:1], atts[n], s, *f) for n in (0, -1) for s in samplings for f in filters
    ]
    return made


def lines(
    mine: installed.Profiler, command: list[str], run: Path
) -> dict[tuple[str, ...], commands.PlannedPass]:
    """All different command lines of those combinations, by all but the folder."""
    found = {}
    for wanted in combinations():
        try:
            made = commands.plan(mine, wanted, command, run)
        except KinspectError:  # an old version cannot trace or sample at all
            continue
        for item in made:
            key = tuple(w for w in item.argv if not w.startswith(str(run)))
            found.setdefault(key, item)
    return found


def test_the_stand_in_takes_every_command_line(tmp_path: Path) -> None:
    from fake_rocprofv3 import parser

    mine = installed.describe(STAND_IN, "rocprofv3")
    found = lines(mine, ["prog", "--flag"], tmp_path)
    assert len(found) > 60
    for item in found.values():
        cut = item.argv.index("--")
        assert item.argv[cut + 1 :] == ("prog", "--flag")
        seen = parser().parse_args(item.argv[1:cut])
        inner = item.folder / "%pid%" if item.name == "att" else item.folder
        assert seen.output_directory == str(inner)
        assert seen.output_file == "%pid%"
        assert seen.output_format == (["json"] if item.name == "pc-sampling" else ["csv"])
        assert tuple(seen.pmc or ()) == item.counters


def test_passes_come_in_order_and_formats_are_always_named() -> None:
    wanted = Measurements(
        (("A", "B"), ("C",)), Att(Path("/d")), installed.sampling("gfx942"), "gemm", None
    )
    made = commands.plan(profiler(), wanted, ["./prog"], Path("/run"))
    names = ["trace", "counters-1", "counters-2", "att", "pc-sampling"]
    assert [item.name for item in made] == names
    assert [item.folder.name for item in made] == [
        f"{n:02d}-{name}" for n, name in enumerate(names)
    ]
    assert " --output-format csv -d /run/passes/01-counters-1 -o %pid% -- ./prog" in made[1].show()
    assert made[1].argv[1:4] == ("--pmc", "A", "B")
    assert "--kernel-include-regex=gemm" in made[1].argv
    assert "--kernel-include-regex=gemm" not in made[0].argv  # the trace takes no filters
    # Without a word on warm-ups the second launch is traced: the first is one.
    assert made[3].argv[made[3].argv.index("--kernel-iteration-range") + 1] == "[2]"


def test_what_a_version_does_not_have_is_worked_around_or_refused() -> None:
    old = profiler(version="0.4.0")
    _, counted = commands.plan(old, Measurements((("A", "B"),)), ["./prog"], Path("/run"))
    assert counted.argv[1:3] == ("-i", "/run/passes/01-counters-1/counters.txt")
    assert list(counted.files.values()) == ["pmc: A B\n"]
    for wanted in (Measurements(att=Att()), Measurements(sampling=installed.sampling("gfx942"))):
        with pytest.raises(KinspectError, match=r"rocprofv3 0\.4\.0 .*has no") as refused:
            commands.plan(old, wanted, ["./prog"], Path("/run"))
        assert refused.value.exit_code == 125
    early = commands.plan(
        profiler(version="0.5.0"),
        Measurements(sampling=installed.sampling("gfx90a")),
        ["x"],
        Path("/run"),
    )[1]
    assert early.environment == {"ROCPROFILER_PC_SAMPLING_BETA_ENABLED": "1"}
    assert "--pc-sampling-beta-enabled" not in early.argv


def test_the_profilers_before_rocprofv3() -> None:
    wanted = Measurements((("SQ_WAVES", "GRBM_COUNT"),), kernel="gemm")
    for tool, trace, counted in (
        (
            "rocprof",
            "/rocm/bin/rocprof --timestamp on -o /run/passes/00-trace/results.csv ./prog -x",
            "/rocm/bin/rocprof -i /run/passes/01-counters-1/counters.txt --timestamp on"
            " -o /run/passes/01-counters-1/results.csv ./prog -x",
        ),
        (
            "rocprofv2",
            "/rocm/bin/rocprofv2 --kernel-trace -d /run/passes/00-trace -o results ./prog -x",
            "/rocm/bin/rocprofv2 -i /run/passes/01-counters-1/counters.txt"
            " -d /run/passes/01-counters-1 -o results ./prog -x",
        ),
    ):
        made = commands.plan(profiler(tool), wanted, ["./prog", "-x"], Path("/run"))
        assert [item.show() for item in made] == [trace, counted]
        assert list(made[1].files.values()) == ["pmc: SQ_WAVES GRBM_COUNT\n"]
        assert "measures all kernels" in made[0].notes[0]
        with pytest.raises(KinspectError, match="neither --att"):
            commands.plan(profiler(tool), Measurements(att=Att()), ["x"], Path("/run"))
    compute = commands.plan
    for version, where in (
        ("3.0.0", "--path /run/passes/00-compute"),
        ("3.4.0", "--path /run/passes/00-compute --format-rocprof-output csv"),
        ("3.8.0", "--output-directory /run/passes/00-compute --format-rocprof-output csv"),
        (None, "--output-directory /run/passes/00-compute --format-rocprof-output csv"),
    ):
        mine = profiler("rocprof-compute", version)
        (only,) = compute(mine, Measurements(kernel="gemm"), ["./prog", "-x"], Path("/run"))
        assert only.show() == (
            f"/rocm/bin/rocprof-compute profile -n kinspect {where} --no-roof -k gemm -- ./prog -x"
        )
    with pytest.raises(KinspectError, match="chooses its counters itself"):
        compute(mine, wanted, ["x"], Path("/run"))


# --------------------------------------------------------------------------- complaints


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("[rocprofv3] Fatal error: rocprof-trace-decoder library path not found in ['/x']\n",
         "decodes thread traces", "--att-library-path"),
        ("E2025 tool.cpp] Given PC sampling configuration is not supported on any agent",
         "no such PC sampling", "rocprofv3 -L"),
        ("Unable to open /dev/kfd read-write: Permission denied\nroot is not member of render",
         "no permission", "render and video"),
        ("ROCk module is NOT loaded, possibly no GPU devices", "no GPU", "rocminfo"),
        ("RuntimeError: No HIP GPUs are available", "no GPU", "HIP_VISIBLE_DEVICES"),
        ("F :: ROCPROFILER_STATUS_ERROR_EXCEEDS_HW_LIMIT", "cannot be counted together", "fewer"),
        ("hsa_init failed with HSA_STATUS_ERROR_OUT_OF_RESOURCES", "HSA", "rocminfo"),
        ("Fatal error: Failed to resolve path. '/rocm/lib/librocprofiler-sdk.so' does not exist",
         "librocprofiler-sdk.so", "reinstall"),
        ("rocprofv3: error: unrecognized arguments: --att", "unrecognized arguments", "--dry-run"),
        ("Could not find counter SQ_WAVESS", "know a counter on this GPU: SQ_WAVESS", "-L"),
    ],
)  # fmt: skip
def test_a_profilers_complaint_is_translated(text: str, message: str, hint: str) -> None:
    (found,) = outcome.complaints(f"before\n{text}\nafter\n")
    assert message in found.message
    assert hint in found.hint


def test_of_several_failures_the_cause_is_named_and_no_others() -> None:
    found = outcome.complaints(
        "Unable to open /dev/kfd read-write: Permission denied\n"
        "hsa_init failed with HSA_STATUS_ERROR_OUT_OF_RESOURCES\nNo HIP GPUs are available\n"
    )
    assert [one.message for one in found if one.fatal] == [
        "no permission to open the GPU (/dev/kfd)"
    ]
    assert outcome.complaints("E2025 Opened result file: /x/rocprofv3: error: y.csv\n") == ()
    # A program may say so of itself.
    assert outcome.complaints("Fatal error: no such file\nmy rocprofv3: error: x\n") == ()
    (lesser,) = outcome.complaints(
        "Device 1 could not be locked for profiling due to lack of permissions (capability"
    )
    assert not lesser.fatal


# --------------------------------------------------------------------------- the real parser

REAL = [Path(path) for path in os.environ.get("KINSPECT_ROCPROFV3", "").split(os.pathsep) if path]


@pytest.mark.skipif(not REAL, reason="KINSPECT_ROCPROFV3 names no rocprofv3")
def test_the_real_rocprofv3_takes_every_command_line(tmp_path: Path) -> None:
    """Each is accepted, and a program runs below it with the environment that was asked for."""
    dump = [sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))"]
    decoder = tmp_path / "decoder"
    program(decoder / "librocprof-trace-decoder.so")
    for path in REAL:
        mine = installed.describe(path, "rocprofv3")
        assert mine.version is not None
        found = lines(mine, dump, tmp_path / "run")
        for item in found.values():
            argv = [str(decoder) if word == "/decoder" else word for word in item.argv]
            for file, text in item.files.items():
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
            done = subprocess.run(
                argv, capture_output=True, text=True, env={**os.environ, **item.environment}
            )
            assert done.returncode == 0, (argv, done.stderr)
            assert not outcome.complaints(done.stderr), (argv, done.stderr)
            _agrees(json.loads(done.stdout.splitlines()[-1]), item)
        assert len(found) > 100 or mine.version < (1, 0)
        sys.stdout.write(f"{mine.describe()}: {len(found)} command lines\n")


def _agrees(environment: dict[str, str], item: commands.PlannedPass) -> None:
    words = dict(itertools.pairwise(item.argv))
    # With counters from a file, a folder for their pass goes between.
    assert environment["ROCPROF_OUTPUT_PATH"].startswith(str(item.folder))
    assert environment["ROCPROF_OUTPUT_FILE_NAME"] == "%pid%"
    assert environment["ROCPROF_OUTPUT_FORMAT"] == words["--output-format"]
    assert "librocprofiler-sdk-tool.so" in environment["LD_PRELOAD"]
    if item.counters:
        assert environment["ROCPROF_COUNTERS"] == f"pmc: {' '.join(item.counters)}"
    if "--kernel-trace" in item.argv:
        assert environment["ROCPROF_KERNEL_TRACE"] in ("1", "True")
    regex = [w.partition("=")[2] for w in item.argv if w.startswith("--kernel-include-regex=")]
    assert environment.get("ROCPROF_KERNEL_FILTER_INCLUDE_REGEX") == (regex[0] if regex else None)
    for option, variable in (
        ("--kernel-iteration-range", "ROCPROF_KERNEL_FILTER_RANGE"),
        ("--pc-sampling-method", "ROCPROF_PC_SAMPLING_METHOD"),
        ("--pc-sampling-unit", "ROCPROF_PC_SAMPLING_UNIT"),
        ("--pc-sampling-interval", "ROCPROF_PC_SAMPLING_INTERVAL"),
        ("--att-target-cu", "ROCPROF_ATT_PARAM_TARGET_CU"),
    ):
        assert environment.get(variable) == words.get(option)
    for option, variable in (
        ("--att-shader-engine-mask", "ROCPROF_ATT_PARAM_SHADER_ENGINE_MASK"),
        ("--att-simd-select", "ROCPROF_ATT_PARAM_SIMD_SELECT"),
        ("--att-buffer-size", "ROCPROF_ATT_PARAM_BUFFER_SIZE"),
    ):
        asked = words.get(option)
        assert environment.get(variable) == (None if asked is None else str(int(asked, 16)))
    if "--att" in item.argv:
        assert environment["ROCPROF_ATT_LIBRARY_PATH"].endswith("decoder")
