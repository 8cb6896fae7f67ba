"""`kinspect show ID`: what --format agent named, in full, from any folder and any time later."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from kinspect.inspector.cli.main import main

pytestmark = pytest.mark.usefixtures("shared_guests")

SMALL = Path(__file__).parent / "data" / "small_gfx942.s"
COLUMN_SUMS = Path(__file__).parent.parent / "docs" / "examples" / "column_sums.py"


@pytest.fixture(autouse=True)
def _no_ids_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids of other tests are not known here."""
    monkeypatch.setenv("KINSPECT_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    Path("small.s").write_text(SMALL.read_text())


class Printed:
    """Runs commands in this process."""

    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        self._capfd = capfd

    def __call__(self, *arguments: str, status: int = 0) -> str:
        """What a command prints; of a failure its line on stderr, and the command below it."""
        self._capfd.readouterr()
        assert main(arguments) == status, self._capfd.readouterr()
        out, err = self._capfd.readouterr()
        if status == 2:
            assert out == ""
            line, *command = err.splitlines()
            assert len(command) <= 1, err
            return " ".join((line, *command))
        return out


@pytest.fixture
def printed(capfd: pytest.CaptureFixture[str]) -> Printed:
    return Printed(capfd)


def ids(text: str, word: str) -> list[str]:
    return re.findall(rf"^{word} (\S+)", text, re.M)


def test_every_id_that_analyze_prints_can_be_opened(printed: Printed) -> None:
    text = printed("analyze", "small.s", "--format", "agent", "--details")
    (kernel,) = ids(text, "kernel")
    findings, loops = ids(text, "finding"), ids(text, "loop")
    assert findings
    assert loops == [f"{kernel}.L0"]
    assert "small  gfx942" in printed("show", kernel)
    for finding in findings:
        shown = printed("show", finding)
        assert shown.startswith(f"finding {finding}")
        rule = re.search(rf"^finding {finding} (\S+)", text, re.M)
        assert rule is not None
        assert rule[1] in shown


def test_a_finding_in_full(printed: Printed) -> None:
    text = printed("analyze", "small.s", "--format", "agent")
    finding = next(f for f in ids(text, "finding") if f"{f} KI001" in text)
    shown = printed("show", finding)
    assert re.search(r"^  spills\S* = \d+$", shown, re.M)  # a figure of the evidence
    assert re.search(r"^  at ISA 22 scratch_store_dword", shown, re.M)
    assert re.search(r"^  why: ", shown, re.M)
    assert re.search(r"^  fix: ", shown, re.M)
    assert re.search(r"^ +22 .*✗ KI001 +scratch_store_dword off, v20", shown, re.M)
    document = json.loads(printed("show", finding, "--format", "json"))
    assert document["kind"] == "finding"
    assert document["findings"][0]["fingerprint"].startswith(finding)
    assert document["rule"]["id"] == "KI001"
    assert {line["line"] for line in document["lines"]} >= {20, 21, 22, 23, 24}


def test_a_loop_and_an_access(printed: Printed) -> None:
    (kernel,) = ids(printed("analyze", "small.s", "--format", "agent"), "kernel")
    shown = printed("show", f"{kernel}.L0")
    assert shown.startswith("hot loop L0, the main one: ")
    assert re.search(r"^  count\.instructions = \d+ instructions$", shown, re.M)
    assert not re.search(r" = (0|unknown)( |$)", shown, re.M)
    assert f"more metrics: kinspect show {kernel}.L0 --details\n  code: kinspect show" in shown
    assert shown == printed("show", f"{kernel}.L0", "--format", "agent")
    assert "s_cbranch" not in shown, "code on demand alone"
    code = printed("show", f"{kernel}.L0", "--isa")
    whole = printed("show", f"{kernel}.L0", "--details")
    assert whole.endswith(f"\n\n{code}")
    assert " = unknown" in whole
    assert printed("show", f"{kernel}.L0", "--isa", "--format", "agent") == code
    details = printed("show", f"{kernel}.L0", "--details", "--format", "agent")
    assert details.rstrip() in whole
    assert " = unknown" in details
    loop = json.loads(printed("show", f"{kernel}.L0", "--format", "json"))
    (first, last) = loop["loop"]["lines"][0]
    numbers = [line["line"] for line in loop["lines"]]
    assert (numbers[0], numbers[-1]) == (first, last)
    access = json.loads(printed("show", f"{kernel}.M22", "--format", "json"))
    assert access["access"]["mnemonic"] == "scratch_store_dword"
    assert printed("show", f"{kernel}.M22").startswith("access scratch_store_dword  ISA 22")


def test_a_kernel_as_json_and_as_code(printed: Printed) -> None:
    (kernel,) = ids(printed("analyze", "small.s", "--format", "agent"), "kernel")
    document = json.loads(printed("show", kernel, "--format", "json"))
    assert document["kernel"]["memory_ops"]
    assert printed("show", kernel, "--plain") == SMALL.read_text()
    assert printed("show", kernel, "--isa", "--lines", "16:22") == printed(
        "show", "small.s", "--lines", "16:22"
    )


def test_ids_of_lint_by_its_own_rules(printed: Printed) -> None:
    Path("own.yaml").write_text(
        """
pack: own
description: of this test
rules:
  - id: OWN001
    name: reads-scratch
    severity: warning
    scope: kernel
    require: count.scratch_load == 0
    message: "{count.scratch_load} reads"
    explain: >-
      Scratch memory is slow, and this rule exists to be asked by a test that wants one of its own,
      with words enough to pass.
    fix: Do not read it.
    references: [{title: A page, url: "https://example.org/"}]
"""
    )
    text = printed("lint", "small.s", "--rules", "own.yaml", "--format", "agent")
    (finding,) = ids(text, "finding")
    assert "OWN001 reads-scratch" in printed("show", finding)
    # Of both runs the newer one is meant, and the kernel's id is the same in both.
    (kernel,) = ids(text, "kernel")
    assert ids(printed("analyze", "small.s", "--format", "agent"), "kernel") == [kernel]


@pytest.mark.parametrize(
    ("command", "form"), [("analyze", "json"), ("lint", "json"), ("lint", "sarif")]
)
def test_fingerprints_of_documents(command: str, form: str, printed: Printed) -> None:
    options = ["--select", "KI", "--fail-on", "never"] if command == "lint" else []
    text = SMALL.read_text().replace(
        "s_endpgm", "s_endpgm ; kinspect: ignore-file[KI001] a test", 1
    )
    Path("small.s").write_text(text)
    document = printed(command, "small.s", "--format", form, *options)
    fingerprints = set(re.findall(r'"fingerprint": ?"(\w{16})"', document))
    assert fingerprints
    if command == "lint":
        assert f'"{"suppressions" if form == "sarif" else "setting"}"' in document
    for fingerprint in fingerprints:
        assert printed("show", fingerprint).startswith(f"finding {fingerprint}")


def test_findings_of_trials_can_be_opened(printed: Printed) -> None:
    pytest.importorskip("triton")
    options = ("--arch", "gfx942", "--for", "KI044", "--budget", "0", "--format", "json")
    document = json.loads(printed("try", str(COLUMN_SUMS), *options))
    findings = [finding for kernel in document["kernels"] for finding in kernel["findings"]]
    assert "KI044" in {finding["rule"] for finding in findings}
    for finding in findings:
        shown = printed("show", finding["fingerprint"])
        assert re.search(rf"^finding \S+ +\w+ +{finding['rule']} \S+$", shown, re.M), shown
        assert "  why: " in shown


def test_it_is_opened_from_another_folder(printed: Printed, tmp_path: Path) -> None:
    (kernel,) = ids(printed("analyze", "small.s", "--format", "agent"), "kernel")
    os.chdir(tmp_path)
    printed("show", kernel, "--format", "json", "-o", "out.json")
    assert (
        json.loads((tmp_path / "out.json").read_text())["kernel"]["id"] == "small.s::small@gfx942"
    )
    assert Path.cwd() == tmp_path


def test_of_many_kernels_one_is_opened(printed: Printed) -> None:
    text = SMALL.read_text()
    Path("folder").mkdir()
    for name in ("first", "second"):
        Path("folder", f"{name}.s").write_text(text.replace("small", name))
    listing = printed("analyze", "folder", "--format", "agent")
    kernels = ids(listing, "kernel")
    names = re.findall(r"^kernel \S+ (\S+)", listing, re.M)
    for kernel, name in zip(kernels, names, strict=True):
        assert f"{name}  gfx942" in printed("show", kernel)
    assert {*names} == {"first", "second"}


def test_a_compiled_kernel_on_two_targets(printed: Printed) -> None:
    pytest.importorskip("triton")
    text = printed(
        *("analyze", str(COLUMN_SUMS), "--arch", "gfx942,gfx1100", "--format", "agent", "--details")
    )
    for kernel, arch in re.findall(r"^kernel (\S+) column_sums (\S+)", text, re.M):
        assert printed("show", kernel, "--isa").startswith(f"column_sums  {arch}  ISA")
    access = ids(text, "access")[0]
    shown = printed("show", access)
    assert "lines_ideal = " in shown
    assert "limited by tile" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["123456"], "123456: no file, and no id that was printed; `kinspect analyze TARGET"),
        (["KERNEL.L7"], "small has no loop L7; `kinspect show KERNEL` shows what it has"),
        (["KERNEL.M1"], "small has no memory access in line 1; `kinspect show KERNEL`"),
        (["FINDING.L0"], "no file, and no id that was printed"),
        (["FINDING", "--isa"], "is not a kernel; `kinspect show KERNEL` is one"),
        (["KERNEL", "--arch", "gfx942"], "names one kernel; drop --arch"),
        (["KERNEL", "--ttgir"], "There is no TTGIR beside small.s; there is --isa"),
    ],
)
def test_what_is_not_there_is_an_error(
    arguments: list[str], message: str, printed: Printed
) -> None:
    text = printed("analyze", "small.s", "--format", "agent")
    kernel, finding = ids(text, "kernel")[0], ids(text, "finding")[0]
    words = [word.replace("KERNEL", kernel).replace("FINDING", finding) for word in arguments]
    line = printed("show", *words, status=2)
    assert message.replace("KERNEL", kernel) in line


def test_what_has_changed_since_is_said(printed: Printed, tmp_path: Path) -> None:
    text = printed("analyze", "small.s", "--format", "agent")
    kernel = ids(text, "kernel")[0]
    finding = next(f for f in ids(text, "finding") if f"{f} KI001" in text)
    cured = [line for line in SMALL.read_text().splitlines() if "scratch_" not in line]
    Path("small.s").write_text("\n".join(cured) + "\n")
    line = printed("show", finding, status=2)
    assert f"{finding}: that finding is no longer there; `kinspect show {kernel}`" in line
    Path("small.s").write_text(SMALL.read_text().replace("small", "other"))
    assert "small of small.s is no longer there" in printed("show", kernel, status=2)
    Path("small.s").unlink()
    printed("show", kernel, status=2)
    os.chdir(tmp_path)
    Path("work").rmdir()
    assert "which has gone" in printed("show", kernel, status=2)


def test_a_file_of_that_name_is_a_file(printed: Printed) -> None:
    (kernel,) = ids(printed("analyze", "small.s", "--format", "agent"), "kernel")
    Path(kernel).write_text("no code\n")
    assert "no id" not in printed("show", kernel, status=2)


def test_an_id_may_be_longer_and_is_ambiguous_where_it_is_the_beginning_of_two(
    printed: Printed, tmp_path: Path
) -> None:
    (kernel,) = ids(printed("analyze", "small.s", "--format", "agent"), "kernel")
    (record,) = (tmp_path / "cache" / "printed-v1").iterdir()
    data = json.loads(record.read_text())
    whole = data["kernels"][0]["key"]
    assert "small  gfx942" in printed("show", whole)
    data["kernels"].append({**data["kernels"][0], "key": f"{whole[:-1]}x"})
    record.write_text(json.dumps(data))
    assert f"is the beginning of several ids; name one: {whole}, " in printed(
        "show", kernel, status=2
    )


def test_damaged_records_are_passed_over(printed: Printed, tmp_path: Path) -> None:
    (kernel,) = ids(printed("analyze", "small.s", "--format", "agent"), "kernel")
    folder = tmp_path / "cache" / "printed-v1"
    (folder / "zz.json").write_text("{")
    (folder / "zy.json").write_text('{"command": 3}')
    assert "small  gfx942" in printed("show", kernel)


def test_records_are_few(printed: Printed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kinspect.inspector.pipeline.printed_ids._MOST_RUNS", 2)
    for number in range(4):
        printed("analyze", "small.s", "--format", "agent", "--lds", str(number))
    printed("analyze", "small.s", "--format", "agent", "--lds", "3")
    assert len(list((tmp_path / "cache" / "printed-v1").iterdir())) == 2


def test_without_a_cache_the_report_is_printed_all_the_same(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("file").write_text("")
    monkeypatch.setenv("KINSPECT_CACHE_DIR", str(Path("file").resolve()))
    assert main(["analyze", "small.s", "--format", "agent"]) == 2
    out, err = capfd.readouterr()
    assert out.startswith("kernel ")
    assert "the cache folder" in err
