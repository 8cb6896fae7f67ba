"""`kinspect diff` on real compiles: saved reports, assembly, targets, options, exit statuses."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.cli.group import run
from kinspect.inspector.compare.diff import isa
from kinspect.inspector.compare.diff.isa import (
    canonical,
    compare_regions,
    function_for,
    functions_of,
)
from kinspect.inspector.compare.diff.reports import MOST_ISA
from kinspect.inspector.compare.diff.two_compiles import OptionSet, option_set
from kinspect.inspector.compile.tritons import known_tritons
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.isa.objects.disasm import find_disassemblers
from kinspect.inspector.model import KernelReport, Report
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request
from kinspect.inspector.pipeline.reading import load_saved
from kinspect.inspector.report import json_write as json_v1
from kinspect.inspector.report import saved
from msgspec.structs import replace

pytest.importorskip("triton")
pytestmark = pytest.mark.usefixtures("shared_guests")
KERNELS = Path(__file__).parent / "data" / "guest_kernels.py"

Diff = Callable[..., tuple[int, dict[str, Any], str]]


@pytest.fixture
def diff(capsys: pytest.CaptureFixture[str]) -> Diff:
    """Runs `kinspect diff … --format json`: exit status, JSON, stderr."""

    def call(*args: object) -> tuple[int, dict[str, Any], str]:
        status = run(["diff", *map(str, args), "--format", "json", "-j", "2"])
        out, err = capsys.readouterr()
        return status, json.loads(out) if out else {}, err

    return call


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("diff")


@pytest.fixture(scope="module")
def report() -> Report:
    found = collect(Request((str(KERNELS),), ("gfx942",), passes=False, jobs=2))
    assert not found.errors
    return found


@pytest.fixture(scope="module")
def archive(folder: Path, report: Report) -> Path:
    path = folder / "one.kinspect"
    saved.save(report, path)
    return path


def gemm_of(report: Report) -> KernelReport:
    return next(k for k in report.kernels if k.name == "gemm")


@pytest.fixture(scope="module")
def assembly(report: Report) -> str:
    return gemm_of(report).artifacts["amdgcn"].path.read_text()


def pair_of(data: dict[str, Any], name: str) -> dict[str, Any]:
    (pair,) = [p for p in data["pairs"] if p["kernel"].startswith(name)]
    return pair  # type: ignore[no-any-return]


# --------------------------------------------------------------------------- saved reports


def test_a_saved_report_and_its_source_are_the_same(diff: Diff, archive: Path) -> None:
    status, data, _ = diff(archive, KERNELS, "--no-passes", "--fail-on", "difference")
    assert status == 0
    assert data["counts"]["same"] == len(data["pairs"]) > 1
    assert all(p["stages"]["first"] is None for p in data["pairs"])


def test_reports_of_two_option_sets(diff: Diff, folder: Path, archive: Path) -> None:
    """The same figures as a recompile from TTIR, by another way: a file of its own."""
    text = KERNELS.read_text().replace("num_warps=4)]", "num_warps=4, num_stages=1)]")
    assert text != KERNELS.read_text()
    other = folder / "guest_kernels.py"
    other.write_text(text)
    two = folder / "two.kinspect"
    assert run(["analyze", str(other), "--no-passes", "--save", str(two), "-o", "/dev/null"]) == 0
    status, data, _ = diff(archive, two)
    assert status == 0
    pair = pair_of(data, "gemm")
    left, right = (
        gemm_of(load_saved(path)).loops[0].metrics["count.instructions"].value
        for path in (archive, two)
    )
    assert [loop["metrics"]["count.instructions"]["value"] for loop in pair["loops"][0]["sides"]]
    sides = pair["loops"][0]["sides"]
    assert [s["metrics"]["count.instructions"]["value"] for s in sides] == [left, right]


def test_without_artifacts_figures_are_compared_alone(
    diff: Diff, archive: Path, report: Report, folder: Path
) -> None:
    path = folder / "figures.json"
    with path.open("w") as stream:
        json_v1.write(report, stream)
    status, data, _ = diff(archive, path)
    assert status == 0
    assert data["counts"]["same"] == len(data["pairs"])
    assert all("figures alone" in " ".join(p["notes"]) for p in data["pairs"])


def test_a_kernel_that_is_missing_fails_closed(
    diff: Diff, archive: Path, report: Report, folder: Path
) -> None:
    less = folder / "less.kinspect"
    kept = tuple(k for k in report.kernels if k.name == "gemm")
    assert len(kept) < len(report.kernels)
    saved.save(replace(report, kernels=kept), less)
    assert diff(archive, less)[0] == 0
    status, data, err = diff(archive, less, "--fail-on", "regression")
    assert status == 2
    assert "cannot be compared: only in" in err
    assert len(data["only_left"]) == len(report.kernels) - len(kept)
    assert diff(less, archive, "--fail-on", "regression")[0] == 2
    assert diff(less, archive, "--fail-on", "regression", "--allow-new")[0] == 0
    assert diff(archive, less, "--fail-on", "difference")[0] == 1


def test_an_unknown_figure_fails_closed(diff: Diff, archive: Path, folder: Path) -> None:
    report = load_saved(archive)
    gemm = gemm_of(report)
    metrics = dict(gemm.metrics)
    for name in ("occupancy.waves_per_eu", "occupancy.by_vgpr"):
        metrics[name] = replace(metrics[name], value=None)
    path = folder / "unknown.kinspect"
    saved.save(replace(report, kernels=(replace(gemm, metrics=metrics),)), path)
    status, _, err = diff(archive, path, "--kernel", "gemm", "--fail-on", "regression")
    assert status == 2
    assert "unknown: occupancy.waves_per_eu" in err


def test_what_does_not_compile_fails(diff: Diff, archive: Path, folder: Path) -> None:
    broken = folder / "broken.py"
    broken.write_text(KERNELS.read_text().replace("tl.sum(x, 0)", "tl.no_such_thing(x, 0)"))
    status, data, err = diff(archive, broken, "--no-passes")
    assert status == 2
    assert data["errors"]
    assert "no_such_thing" in err


# --------------------------------------------------------------------------- assembly


def test_one_instruction_less_is_found(diff: Diff, assembly: str, folder: Path) -> None:
    lines = assembly.splitlines(keepends=True)
    loop = next(n for n, line in enumerate(lines) if "in Loop" in line or "Loop Header" in line)
    at = next(n for n in range(loop, len(lines)) if lines[n].lstrip().startswith("v_mfma"))
    one, other = folder / "one.s", folder / "other.s"
    one.write_text(assembly)
    other.write_text("".join(lines[:at] + lines[at + 1 :]))
    status, data, _ = diff(one, one, "--lds", 16384)
    assert status == 0
    assert data["pairs"][0]["verdict"] == "same"
    assert data["pairs"][0]["notes"] == []
    _, data, _ = diff(one, other, "--lds", 16384)
    assert data["pairs"][0]["notes"] == []  # the code is at hand, and shown
    (found,) = data["pairs"][0]["isa"]
    assert found["only"] == [1, 0]
    (line,) = found["lines"]
    name = lines[at].split()[0]
    ((counted, (before, after)),) = line["counts"].items()
    assert name.startswith(counted)
    assert before - after == 1
    assert [text.split()[:2] for text in line["lines"]] == [["-", counted]]


def test_the_code_of_code_objects_is_compared(
    diff: Diff, report: Report, assembly: str, folder: Path
) -> None:
    """A file without a text beside it is disassembled."""
    one, other = folder / "one.hsaco", folder / "other.hsaco"
    one.write_bytes(gemm_of(report).artifacts["hsaco"].path.read_bytes())
    staged = next(
        k
        for k in collect(
            Request((str(KERNELS),), ("gfx90a",), kernel="gemm", passes=False, jobs=2)
        ).kernels
    )
    other.write_bytes(staged.artifacts["hsaco"].path.read_bytes())
    if not find_disassemblers():
        pytest.skip("no disassembler")
    _, data, _ = diff(one, other)
    (pair,) = data["pairs"]
    assert not [note for note in pair["notes"] if "not at hand" in note]
    assert pair["isa"]


def test_code_that_was_not_looked_at_is_not_called_missing(
    diff: Diff, assembly: str, folder: Path
) -> None:
    """Of many kernels the code of the worst alone is compared unless --isa asks for all."""
    for name, text in (("many", assembly), ("more", assembly.replace("s_nop 0", "s_nop 1"))):
        (folder / name).mkdir()
        changed = re.sub(r"(v_lshlrev_b32_e32 v\d+, )\d+,", r"\g<1>9,", text, count=1)
        for n in range(MOST_ISA + 2):
            found = text if name == "many" else changed
            (folder / name / f"k{n}.s").write_text(found)
    _, data, _ = diff(folder / "many", folder / "more", "--lds", 16384)
    notes = [note for pair in data["pairs"] for note in pair["notes"]]
    assert not [note for note in notes if "not at hand" in note]
    _, data, _ = diff(folder / "many", folder / "more", "--lds", 16384, "--isa")
    assert not [note for pair in data["pairs"] for note in pair["notes"] if "figures alone" in note]


def test_code_that_differs_where_no_figure_does(diff: Diff, assembly: str, folder: Path) -> None:
    one, other = folder / "three.s", folder / "four.s"
    one.write_text(assembly)
    changed = re.sub(r"(v_lshlrev_b32_e32 v\d+, )\d+,", r"\g<1>9,", assembly, count=1)
    assert changed != assembly
    other.write_text(changed)
    status, data, _ = diff(one, other, "--lds", 16384, "--fail-on", "difference")
    assert status == 1
    assert data["pairs"][0]["verdict"] == "neutral"


def test_the_code_of_a_loop_adds_up(report: Report, diff: Diff) -> None:
    """What both have and what one has are all the instructions that the loop's metrics count."""
    _, data, _ = diff(KERNELS, "--kernel", "gemm", "--no-passes", "--set", "num_stages=1")
    pair = pair_of(data, "gemm")
    (found,) = pair["isa"]
    (loops,) = pair["loops"]
    for n, side in enumerate(loops["sides"]):
        counted = side["metrics"]["count.instructions"]["value"]
        assert found["same"] + found["only"][n] == counted
    more = Counter[str]()
    for line in found["lines"]:
        for text in line["lines"]:
            sign, name = text.split()[:2]
            times = int(text.rpartition("×")[2]) if "×" in text else 1
            more[name] += times if sign == "+" else -times
    stated = Counter[str]()
    for line in found["lines"]:
        for name, (before, after) in line["counts"].items():
            stated[name] += after - before
    assert {k: v for k, v in more.items() if v} == {k: v for k, v in stated.items() if v}


def test_registers_labels_and_offsets_are_no_difference() -> None:
    text = (Path(__file__).parent / "data" / "small_gfx942.s").read_text()
    renamed = re.sub(r"\bv(\d+)\b", lambda m: f"v{int(m[1]) + 1}", text)
    renamed = re.sub(
        r"\bv\[(\d+):(\d+)\]", lambda m: f"v[{int(m[1]) + 2}:{int(m[2]) + 2}]", renamed
    )
    assert renamed != text
    one, other = (parse_text(t, "t").kernels[0].instructions for t in (text, renamed))
    assert not compare_regions(one, other, None).lines
    wide = [i for i in one if i.mnemonic == "global_load_dwordx4"]
    assert wide
    assert "v[4]" in canonical(wide[0])


def test_the_code_of_an_edited_source_is_aligned_anew(assembly: str) -> None:
    """Lines added before and in the loop: what did not change is no difference."""

    def later(match: re.Match[str]) -> str:
        line = int(match[2])
        return f"{match[1]}{line and line + (7 if line > 28 else 5)}"

    moved = re.sub(r"(\.loc\s+\d+\s+)(\d+)", later, assembly)
    moved = re.sub(r"(guest_kernels\.py:)(\d+)", later, moved)
    one, other = (parse_text(t, "t").kernels[0].instructions for t in (assembly, moved))
    assert {i.loc.line for i in one if i.loc} != {i.loc.line for i in other if i.loc}
    assert not compare_regions(one, other, None).lines
    without = [i for i in other if not i.mnemonic.startswith("v_mfma")]
    gone = len(other) - len(without)
    found = compare_regions(one, without, None)
    assert found.only == (gone, 0)
    assert all("→" in line.place or len(line.counts) for line in found.lines)


def test_lines_that_moved_are_not_looked_for_among_very_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = {f"k.py:{n}": [f"v_{n}"] for n in range(4)}
    right = {f"k.py:{n + 1}": [f"v_{n}"] for n in range(4)}
    assert ("k.py:0", "k.py:1") in isa.paired_lines(left, right)
    monkeypatch.setattr(isa, "MOST_PAIRS_OF_LINES", 15)
    assert ("k.py:1", "k.py:1") in isa.paired_lines(left, right)


def test_the_only_function_is_the_kernel_whatever_its_name(report: Report, assembly: str) -> None:
    functions = functions_of(assembly)
    gemm = gemm_of(report)
    assert function_for(replace(gemm, name="elsewhere"), functions) is function_for(gemm, functions)


# --------------------------------------------------------------------------- targets, options


def test_two_targets(diff: Diff) -> None:
    status, data, _ = diff(
        KERNELS, "--arch", "gfx942", "--arch", "gfx950", "--kernel", "gemm", "--no-passes"
    )
    assert status == 0
    assert (data["left"], data["right"]) == ("gfx942", "gfx950")
    pair = pair_of(data, "gemm")
    assert [side["arch"] for side in pair["sides"]] == ["gfx942", "gfx950"]
    judged = {c["judgement"] for c in pair["changes"] if c["name"] == "count.instructions"}
    assert judged <= {"shown"}


def test_options_against_the_kernel_as_it_is(diff: Diff) -> None:
    _, data, _ = diff(KERNELS, "--kernel", "gemm", "--no-passes", "--with", "num_stages=1")
    assert (data["left"], data["right"]) == ("as it is", "num_stages=1")
    pair = pair_of(data, "gemm")
    assert pair["sides"][0]["options"]["num_stages"] == 2
    assert pair["sides"][1]["options"]["num_stages"] == 1
    assert pair["stages"]["first"] == "ttgir"


def test_equal_options_change_nothing(diff: Diff) -> None:
    args = (KERNELS, "--kernel", "gemm", "--no-passes")
    status, data, _ = diff(*args, "--set", "num_stages=2", "--set", "num_stages=2")
    assert status == 0
    assert pair_of(data, "gemm")["verdict"] == "same"


def test_a_regression_is_exit_1_only_when_asked(diff: Diff) -> None:
    # 2 waves/SIMD at most are asked of the compiler where more would be resident.
    args = (KERNELS, "--kernel", "gemm", "--no-passes", "--set", "waves_per_eu=0", "--set")
    status, data, _ = diff(*args, "num_warps=8")
    assert status == 0
    budget = ("--tolerance", "code_bytes=0", "--tolerance", "sgpr_count=0")
    pair = pair_of(data, "gemm")
    sizes = [s["metrics"]["code_bytes"]["value"] for s in pair["sides"]]
    assert sizes[0] != sizes[1]
    sets = (
        ("waves_per_eu=0", "num_warps=8")
        if sizes[1] > sizes[0]
        else ("num_warps=8", "waves_per_eu=0")
    )
    args = (KERNELS, "--kernel", "gemm", "--no-passes", "--set", sets[0], "--set", sets[1])
    assert diff(*args, *budget, "--fail-on", "regression")[0] == 1
    assert diff(*args, *budget, "--fail-on", "never")[0] == 0
    assert diff(*args, "--fail-on", "difference")[0] == 1


def test_the_same_triton_twice_is_the_same(diff: Diff) -> None:
    two = ("--triton", sys.executable, "--triton", sys.executable)
    status, data, _ = diff(KERNELS, "--kernel", "gemm", "--no-passes", *two)
    assert status == 0
    pair = pair_of(data, "gemm")
    assert pair["verdict"] == "same"
    assert any("the same Triton" in note for note in pair["notes"])


def test_two_tritons(diff: Diff) -> None:
    others = [path for label, path in known_tritons().items() if path != sys.executable]
    if not others:
        pytest.skip("needs a second Triton: KINSPECT_TRITONS=3.6=/path/to/python")
    two = ("--triton", sys.executable, "--triton", others[0])
    _, data, _ = diff(KERNELS, "--kernel", "gemm", *two)
    pair = pair_of(data, "gemm")
    assert pair["stages"]["first"] in ("ttgir", "llir", "amdgcn", None)
    assert pair["changes"] or pair["verdict"] in ("same", "neutral")


def test_an_operation_that_another_triton_cannot_lower(diff: Diff) -> None:
    """Triton 3.9's front end makes `arith.negf` of a minus, which 3.6 does not lower."""
    older = {v: p for v, p in known_tritons().items() if v.startswith(("3.5", "3.6"))}
    if not older or not metadata.version("triton").startswith("3.9"):
        pytest.skip("needs Triton 3.9 and, beside it, KINSPECT_TRITONS=3.6=/path/to/python")
    two = ("--triton", sys.executable, "--triton", next(iter(older.values())))
    silu = KERNELS.parents[2] / "kernels" / "moe_layer.py"
    status, data, _ = diff(silu, "--kernel", "silu_kernel", "--no-passes", *two)
    assert status == 0
    assert data["pairs"]
    assert all("does not compile in" in " ".join(p["notes"]) for p in data["pairs"])
    assert all(p["stages"]["first"] == "ttir" for p in data["pairs"])


# --------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((KERNELS,), "one target alone cannot be compared"),
        ((KERNELS, KERNELS, "--set", "kpack=2"), "several comparisons at once"),
        ((KERNELS, KERNELS, KERNELS), "compares two, not 3"),
        ((KERNELS, "--arch", "gfx942,gfx950,gfx90a"), "compares two, not 3"),
        ((KERNELS, "--set", "num_stage=2"), "did you mean num_stages?"),
        ((KERNELS, "--set", "num_stages=1..4"), "one value for each option"),
        ((KERNELS, "--set", "debug=true"), "front end reads this option"),
        ((KERNELS, KERNELS, "--tolerance", "vgprs=1"), "not a figure that diff judges"),
        ((KERNELS, "/no/such.s"), "no such file"),
    ],
)
def test_wrong_usage(diff: Diff, args: tuple[object, ...], said: str) -> None:
    status, data, err = diff(*args)
    assert (status, data) == (2, {})
    assert said in err
    assert err.count("kinspect: ") == 1


def test_compiled_targets_have_no_options(diff: Diff, folder: Path, assembly: str) -> None:
    path = folder / "five.s"
    path.write_text(assembly)
    status, _, err = diff(path, "--set", "num_stages=2")
    assert status == 2
    assert "compiled already" in err


def test_option_sets_as_typed() -> None:
    assert option_set("num_stages=3, waves_per_eu=2").values == {"num_stages": 3, "waves_per_eu": 2}
    assert OptionSet({}).label == "as it is"
    assert option_set("kpack=2").label == "kpack=2"


def test_text_says_what_is_worse(capsys: pytest.CaptureFixture[str]) -> None:
    args = ["diff", str(KERNELS), "--kernel", "gemm", "--no-passes", "--set", "num_stages=1"]
    assert run([*args, "--no-color", "--isa"]) == 0
    out = capsys.readouterr().out
    assert "as it is → num_stages=1" in out
    assert "hot loop guest_kernels.py:" in out
    assert "by source line" in out
