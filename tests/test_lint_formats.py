"""The formats of lint: golden files, the published schemas, limits of GitHub, any text anywhere."""

from __future__ import annotations

import importlib.util
import io
import json
import re
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kinspect.inspector.base.printable import printable_columns
from kinspect.inspector.formats import (
    github,
    junit,
    lint_json,
    sarif,
)
from kinspect.inspector.formats.github import path_in_repository, repository_root
from kinspect.inspector.lint.lint_results import CheckedKernel, LintReport, Suppressed, Suppression
from kinspect.inspector.lint.rule import Reference
from kinspect.inspector.model import ErrorRecord, Finding, Location, SourceLoc
from kinspect.inspector.present import lint
from lxml import etree
from msgspec.structs import replace

HERE = Path(__file__).parent
DATA = HERE / "data"
RENDER = HERE.parent / "inspector" / "formats"
NOW = datetime(2026, 1, 2, 3, 4, 5)
LINT_SCHEMA = jsonschema.Draft202012Validator(json.loads((RENDER / "lint.schema.json").read_text()))
SARIF_SCHEMA = jsonschema.Draft202012Validator(
    json.loads((DATA / "schemas" / "sarif-2.1.0.json").read_text())
)
JUNIT_SCHEMA = etree.XMLSchema(etree.parse(DATA / "schemas" / "junit-10.xsd"))


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GOLDEN = load(HERE / "golden" / "regenerate.py")


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    found: dict[str, str] = GOLDEN.reports()
    return found


@pytest.fixture(scope="module")
def small() -> LintReport:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(DATA)
        report: LintReport = GOLDEN.lint_report()
    return report


def rendered(write: Callable[..., None], report: LintReport, **options: Any) -> str:
    stream = io.StringIO()
    write(report, stream, **options)
    return stream.getvalue()


@pytest.mark.parametrize("name", sorted(GOLDEN.LINT_WRITERS))
def test_golden(made: dict[str, str], name: str) -> None:
    """Made by `python tests/golden/regenerate.py`."""
    assert made[name] == (HERE / "golden" / name).read_text()


# --------------------------------------------------------------------------- a report to vary


def finding(rule: str = "T001", message: str = "3 × it", **changes: Any) -> Finding:
    base = Finding(
        rule=rule,
        severity="error",
        confidence="certain",
        message=message,
        evidence={},
        locations=(),
        fix="mend it",
        fingerprint="f" * 16,
    )
    return replace(base, **changes)


def kernel(number: int = 0, *findings: Finding, **changes: Any) -> CheckedKernel:
    base = CheckedKernel(
        id=f"gemm.py::gemm@gfx942#{number}",
        name="gemm",
        case=f"case{number}",
        arch="gfx942",
        file="gemm.py",
        target="gemm.py",
        source=SourceLoc("gemm.py", 8),
        artifact=None,
        findings=findings,
    )
    return replace(base, **changes)


def report_of(small: LintReport, *kernels: CheckedKernel, **changes: Any) -> LintReport:
    plain = replace(small, errors=(), unused=(), baseline=None, gone=(), notes=())
    return replace(plain, kernels=kernels, **changes)


def source(line: int, text: str = "x = tl.load(p)", file: str = "gemm.py") -> tuple[Location, ...]:
    return (Location("source", file, line, text),)


# --------------------------------------------------------------------------- text


def test_text_says_each_thing_once(made: dict[str, str]) -> None:
    told = made["lint_small.txt"]
    assert told.count("fix: Pass the stride as a constexpr 1.") == 1
    assert "(gfx90a, also on gfx950)" in told  # word for word the same
    assert "A lane can load" not in told
    assert "A lane can load" in made["lint_small_details.txt"]
    assert told.splitlines()[-1].startswith(
        "1 error, 3 warnings, 1 note in 4 kernels; 1 known, 1 suppressed, 1 target could not be"
    )


def at_column(file: Path | str, text: str, mark: str) -> CheckedKernel:
    """A finding at a part of line 1 of a file, which text says."""
    place = Location("source", str(file), 1, text, text.index(mark) + 1)
    return kernel(0, finding(locations=(place,)), source=SourceLoc(str(file), 1))


@pytest.mark.parametrize(
    ("text", "mark", "marked"),
    [
        ("x = tl.load(p, mask=n) / d", "tl", "tl.load(p, mask=n) / d"),
        ("x = tl.load(p, mask=n) / d", "p,", "p"),
        ("name = 'Zürich'; y = tl.sum(ü) + 1", "tl", "tl.sum(ü) + 1"),
        ("\tx = f(\ta)", "f(", "f( a)"),
        ("x = f(\n  1)\n", "f(", "f("),
        ("x = = 2", "= 2", "="),  # cannot be parsed
        ("x = tl.load(p)", "d(p", "d"),  # nothing begins there
    ],
)
def test_a_caret_marks_the_expression(
    text: str, mark: str, marked: str, small: LintReport, tmp_path: Path
) -> None:
    file = tmp_path / "k.py"
    indented = text.startswith("\t")
    file.write_text(f"if 1:\n{text}\n" if indented else text)
    line = text.splitlines()[0]
    place = Location("source", str(file), 1 + indented, line, line.index(mark) + 1)
    checked = kernel(0, finding(locations=(place,)))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        shown = rendered(lint.write, report_of(small, checked)).splitlines()
    assert shown[1].startswith(f"  k.py:{place.line}:{place.column}: error T001 ")
    code, caret = shown[2], shown[3]
    assert code.strip() == line.strip().replace("\t", " ")
    assert set(caret.strip()) <= {"^", "~"}
    assert code[caret.index("^") : len(caret)] == marked


def test_without_a_column_or_its_line_nothing_is_marked(small: LintReport) -> None:
    for place in (
        Location("source", "k.py", 1, "x = 1"),
        Location("source", "k.py", 1, "x = 1", 40),
        Location("source", "k.py", 1, "", 1),
    ):
        shown = rendered(lint.write, report_of(small, kernel(0, finding(locations=(place,)))))
        assert "^" not in shown


def test_columns_in_other_formats(small: LintReport, tmp_path: Path) -> None:
    file = tmp_path / "k.py"
    report = report_of(small, at_column(file, "x = tl.load(p)", "tl"))
    (result,) = sarif_run(report, tmp_path)["results"]
    region = result["locations"][0]["physicalLocation"]["region"]
    assert (region["startLine"], region["startColumn"]) == (1, 5)
    first = rendered(github.write, report, root=tmp_path).splitlines()[0]
    assert first.startswith("::error file=k.py,line=1,col=5,")
    assert f"{file}:1:5\n" in rendered(junit.write, report)


def test_columns_change_no_sarif_fingerprint(small: LintReport, tmp_path: Path) -> None:
    """Nor does a place that is more exact than the line by which the finding is known."""
    anchor = Location("source", "gemm.py", 16, "for k in range(n):")
    loop = finding(locations=(anchor,), anchor=anchor)
    exact = finding(locations=source(17), anchor=anchor)
    prints = [
        sarif_run(report_of(small, kernel(0, each)), tmp_path)["results"][0]["partialFingerprints"]
        for each in (loop, exact, replace(exact, locations=(replace(source(17)[0], column=3),)))
    ]
    assert prints[1:] == prints[:1] * 2


def test_specialisations_are_one_entry(small: LintReport) -> None:
    kernels = [kernel(n, finding(message=f"{n + 1:,} × it")) for n in range(12)]
    told = rendered(lint.write, report_of(small, *kernels))
    assert told.count("T001") == 1
    assert "1 × it (gfx942 case0, and 11 more specialisations, with other figures)" in told
    assert told.splitlines()[0].endswith("12 specialisations")


def test_one_line_in_several_kernels_is_one_entry(small: LintReport) -> None:
    """Instantiations of a template, and what is inlined: a header's line was told 21 times."""
    kernels = [
        kernel(n, finding(message=f"{8 * n} × global_load_b{32 * n}", locations=source(31)),
               name=f"_Z5quantI{n}", source=SourceLoc("gemm.py", 8 + n))
        for n in (1, 2, 4)
    ]  # fmt: skip
    told = rendered(lint.write, report_of(small, *kernels))
    assert told.count("T001") == 1
    assert "8 × global_load_b32 (and in 2 more kernels, with other figures)" in told
    loads, stores = (
        kernel(0, finding(message=f"3 × global_{kind}_b32", locations=source(31)))
        for kind in ("load", "store")
    )
    assert rendered(lint.write, report_of(small, loads, stores)).count("T001") == 2
    elsewhere = replace(kernels[0], findings=(finding(message="9 × global_load_b32"),))
    told = rendered(lint.write, report_of(small, elsewhere, *kernels[1:]))
    assert told.count("T001") == 2  # of no line that is known: another kernel


def test_the_fingerprint_of_a_line_is_not_that_of_the_kernel_that_comes_first(
    small: LintReport, tmp_path: Path
) -> None:
    a, b, c = (kernel(n, finding(locations=source(31)), name=f"_Z5quantI{n}") for n in range(3))
    prints = [
        sarif.to_dict(report_of(small, *kernels), tmp_path)["runs"][0]["results"][0][
            "partialFingerprints"
        ]
        for kernels in ((a, b, c), (b, c))
    ]
    assert prints[0] == prints[1]


def test_a_line_of_several_loops_is_one_entry(small: LintReport) -> None:
    loops = [finding(message=f"{n} × it", locations=source(31)) for n in (4, 1)]
    told = rendered(lint.write, report_of(small, kernel(0, *loops)))
    assert told.count("T001") == 1
    assert "4 × it (and 1 more loop of it, with other figures)" in told


def test_other_words_are_another_entry(small: LintReport) -> None:
    a, b = kernel(0, finding(message="3 × it")), kernel(1, finding(message="3 × that"))
    assert rendered(lint.write, report_of(small, a, b)).count("T001") == 2


def test_the_worst_comes_first(small: LintReport) -> None:
    mild = kernel(0, finding("T003", severity="info"), name="mild")
    bad = kernel(1, finding("T003", severity="info"), finding("T001"), name="bad")
    lines = rendered(lint.write, report_of(small, mild, bad)).splitlines()
    assert [line.split()[0] for line in lines if line and line[0] != " "][:2] == ["bad", "mild"]
    assert lines[1].split()[:3] == ["gemm.py:8:", "error", "T001"]


def test_hundreds_of_kernels_are_grouped_by_rule(small: LintReport) -> None:
    kernels = [kernel(n, finding(locations=source(n + 1)), name=f"k{n}") for n in range(200)]
    told = rendered(lint.write, report_of(small, *kernels))
    assert told.splitlines()[0].split("  ")[-1] == "200 places in 200 kernels"
    assert "and 192 more places" in told
    assert len(told.splitlines()) < 20
    assert rendered(lint.write, report_of(small, *kernels), details=True).count("k199:") == 1


def test_plain_text_does_not_load_rich() -> None:
    program = """
        import sys
        from kinspect.inspector.lint.lint_results import LintReport
        from kinspect.inspector.present import lint
        lint.write(LintReport("x", {}, (), {}, "error", ()), sys.stdout)
        print(sorted({"rich", "xml", "yaml", "torch"} & set(sys.modules)))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "no findings in 0 kernels\n[]\n"


def test_colour_on_demand(small: LintReport) -> None:
    assert "\x1b[1;31merror" in rendered(lint.write, small, color=True)
    assert "\x1b" not in rendered(lint.write, small, color=False)


# --------------------------------------------------------------------------- JSON


def test_json_keeps_its_schema_and_everything(small: LintReport) -> None:
    LINT_SCHEMA.check_schema(LINT_SCHEMA.schema)
    data = json.loads(rendered(lint_json.write, small))
    LINT_SCHEMA.validate(data)
    assert [k["id"] for k in data["kernels"]] == [k.id for k in small.kernels]
    told = [f["fingerprint"] for k in data["kernels"] for f in (*k["findings"], *k["known"])]
    assert told == [f.fingerprint for k in small.kernels for f in (*k.findings, *k.known)]
    (suppressed,) = (s for k in data["kernels"] for s in k["suppressed"])
    assert suppressed["comment"]["reason"] == "it is long on purpose"
    assert suppressed["finding"]["rule"] == "T003"
    assert data["baseline"] == {"file": "baseline.json", "gone": ["0123456789abcdef"]}
    assert data["summary"]["failing"] == len(small.failing) == 1
    assert {rule["id"] for rule in data["rules"]} == set(small.rules)


@pytest.mark.parametrize("key", ["kernels", "rules", "baseline", "summary"])
def test_the_json_schema_demands_the_keys(small: LintReport, key: str) -> None:
    data = lint_json.to_dict(small)
    del data[key]
    assert not LINT_SCHEMA.is_valid(data)


# --------------------------------------------------------------------------- SARIF


def sarif_run(report: LintReport, root: Path = DATA, **options: Any) -> dict[str, Any]:
    data = json.loads(rendered(sarif.write, report, root=root, **options))
    SARIF_SCHEMA.validate(data)
    (run,) = data["runs"]
    assert isinstance(run, dict)
    return run


def test_sarif_keeps_the_standard(small: LintReport, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DATA)
    SARIF_SCHEMA.check_schema(SARIF_SCHEMA.schema)
    run = sarif_run(small)
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        assert result["locations"][0]["physicalLocation"]["region"]["startLine"] >= 1
    prints = [r["partialFingerprints"][sarif.FINGERPRINT] for r in run["results"]]
    assert len(set(prints)) == len(prints)
    assert run["invocations"][0]["executionSuccessful"] is False
    states = Counter((r["baselineState"], bool(r["suppressions"])) for r in run["results"])
    assert states == {("new", False): 4, ("unchanged", False): 1, ("new", True): 1}


def test_sarif_names_the_tools_page_if_it_has_one(small: LintReport) -> None:
    assert "informationUri" not in sarif_run(small)["tool"]["driver"]
    page = {**small.tool, "uri": "https://example.org/kinspect"}
    driver = sarif_run(replace(small, tool=page))["tool"]["driver"]
    assert driver["informationUri"] == page["uri"]


def test_what_a_pack_says_is_no_markup(small: LintReport) -> None:
    """A project's own pack reaches code scanning."""
    hostile = Reference(title="<img src=x>", url="javascript:alert(1)")
    rules = {
        id: replace(rule, text=replace(rule.text, explain="<b>no</b>", references=(hostile,)))
        for id, rule in small.rules.items()
    }
    for rule in sarif_run(replace(small, rules=rules))["tool"]["driver"]["rules"]:
        shown = rule["help"]["markdown"]
        assert "](" not in shown
        assert "<b>" not in shown
        assert "<img" not in shown
        assert "`javascript:alert(1)`" in shown


def test_sarif_merges_specialisations(small: LintReport) -> None:
    same = [kernel(n, finding(message=f"{n} × it", locations=source(17))) for n in range(5)]
    elsewhere = kernel(9, finding(locations=source(18)))
    run = sarif_run(report_of(small, *same, elsewhere), Path.cwd())
    assert [r["properties"]["count"] for r in run["results"]] == [5, 1]
    first = run["results"][0]
    assert first["message"]["text"] == (
        "0 × it (gemm gfx942 case0, and 4 more specialisations, with other figures)"
    )
    assert [s["kernel"] for s in first["properties"]["specialisations"]] == [k.id for k in same]
    assert "baselineState" not in first
    assert first["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "gemm.py", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 17, "snippet": {"text": "x = tl.load(p)"}},
    }


def test_a_sarif_fingerprint_survives_edits(small: LintReport) -> None:
    def prints(*kernels: CheckedKernel) -> list[str]:
        results = sarif_run(report_of(small, *kernels), Path.cwd())["results"]
        return [r["partialFingerprints"][sarif.FINGERPRINT] for r in results]

    (before,) = prints(kernel(0, finding(locations=source(17))))
    moved = kernel(1, finding(message="4 × it", locations=source(40, "  x = tl.load(p)")))
    assert prints(moved, kernel(2, finding(locations=source(40, "  x = tl.load(p)")))) == [before]
    assert prints(kernel(0, finding(locations=source(17, "y = 1")))) != [before]
    assert prints(kernel(0, finding(locations=source(17)), name="other")) != [before]
    twice = kernel(0, finding(locations=source(17)), finding(locations=source(19)))
    assert len(set(prints(twice))) == 2


def test_sarif_of_files_outside_the_repository(small: LintReport, tmp_path: Path) -> None:
    """Code scanning shows nothing outside of it: the file that was linted stands in."""
    away = kernel(
        0,
        finding(
            locations=(*source(5, file="/usr/lib/lib.py"), Location("amdgcn", None, 7, "s_nop"))
        ),
        source=SourceLoc("/usr/lib/lib.py", 1),
        file=str(tmp_path / "a b:c.s"),
    )
    (result,) = sarif_run(report_of(small, away), tmp_path)["results"]
    at = result["locations"][0]["physicalLocation"]
    assert at["artifactLocation"] == {"uri": "a%20b%3Ac.s", "uriBaseId": "%SRCROOT%"}
    assert at["region"] == {"startLine": 1}
    (link,) = result["relatedLocations"]
    assert link["physicalLocation"]["artifactLocation"] == {"uri": "file:///usr/lib/lib.py"}
    listed = replace(away, artifact=str(tmp_path / "a b:c.s"))
    (result,) = sarif_run(report_of(small, listed), tmp_path)["results"]
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": 7}


def test_sarif_keeps_the_worst_within_githubs_limit(small: LintReport) -> None:
    mild = [kernel(n, finding("T003", severity="info", locations=source(n + 1))) for n in range(30)]
    run = sarif_run(report_of(small, *mild, kernel(99, finding())), limit=10)
    assert len(run["results"]) == 10
    assert run["results"][0]["level"] == "error"
    (notice,) = run["invocations"][0]["toolExecutionNotifications"]
    assert notice["message"]["text"] == "21 results of lesser weight are left out"
    assert sarif.MOST_RESULTS == 25_000


def test_two_runs_have_two_categories(small: LintReport) -> None:
    one = sarif_run(report_of(small, kernel(0)))["automationDetails"]["id"]
    two = sarif_run(report_of(small, kernel(0, arch="gfx1100")))["automationDetails"]["id"]
    assert one != two
    assert one.endswith("/")
    assert two.endswith("/")


# --------------------------------------------------------------------------- JUnit


def junit_of(report: LintReport) -> Any:
    text = rendered(junit.write, report, date=NOW)
    root = etree.fromstring(text.encode())
    JUNIT_SCHEMA.assertValid(root)
    return root


def test_junit_keeps_its_schema_and_counts(small: LintReport) -> None:
    root = junit_of(small)
    for suite in root:
        cases = suite.findall("testcase")
        assert suite.get("tests") == str(len(cases))
        assert suite.get("failures") == str(len(suite.findall("testcase/failure")))
        assert suite.get("errors") == str(len(suite.findall("testcase/error")))
        # Ant's schema allows one outcome for each case.
        assert all(len(case) <= 1 for case in cases)
    assert len(root.findall(".//failure")) == 1
    assert len(root.findall(".//error")) == 1
    assert len(root.findall(".//testcase")) == len(small.kernels) + len(small.errors)


@pytest.mark.parametrize(("fail_on", "failing"), [("never", 0), ("error", 1), ("info", 4)])
def test_junit_fails_as_the_run_does(small: LintReport, fail_on: Any, failing: int) -> None:
    root = junit_of(replace(small, fail_on=fail_on))
    assert len(root.findall(".//failure")) == failing
    told = "".join(root.itertext())
    assert all(f.message in told for k in small.kernels for f in (*k.findings, *k.known))


def test_junit_names_are_distinct(small: LintReport) -> None:
    root = junit_of(report_of(small, *(kernel(n, case=None) for n in range(3))))
    names = [case.get("name") for case in root.iter("testcase")]
    assert names == ["gemm gfx942", "gemm gfx942 #2", "gemm gfx942 #3"]


# --------------------------------------------------------------------------- GitHub

COMMAND = re.compile(r"^::(?P<command>[a-z-]+)(?: (?P<properties>[^\n]*?))?::(?P<message>[^\n]*)$")
"""As documented: `::name key=value,key=value::message`."""


def undone(text: str, *codes: str) -> str:
    for code in codes:
        text = text.replace(f"%{code}", chr(int(code, 16)))
    return text.replace("%25", "%")


def parsed(line: str) -> tuple[str, dict[str, str], str]:
    """Reads a workflow command; shares nothing with the writer."""
    match = COMMAND.match(line)
    assert match is not None, line
    pairs = [part.split("=", 1) for part in (match["properties"] or "").split(",") if part]
    return (
        match["command"],
        {k: undone(v, "0D", "0A", "3A", "2C") for k, v in pairs},
        undone(match["message"], "0D", "0A"),
    )


def test_github_annotations_read_back(small: LintReport, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DATA)
    lines = [parsed(line) for line in rendered(github.write, small, root=DATA).splitlines()]
    assert lines[1] == (
        "error",
        {"file": "small_gfx942.s", "line": "22", "title": "T001 spills-in-hot-loop"},
        "1 × scratch load and 1 × scratch store in the hot loop (small gfx942). Fix: Make the tile"
        " smaller, or: allow more registers.",
    )
    assert [command for command, _, _ in lines].count("warning") == 3
    assert lines[-1][:2] == ("notice", {"title": "kinspect lint"})
    for _, properties, _ in lines:
        if "line" in properties:
            assert len((DATA / properties["file"]).read_text().splitlines()) >= int(
                properties["line"]
            )


@pytest.mark.parametrize(
    "text", ["a%b", "a:b,c", "one\ntwo", "a\r\nb", "::error::x", "%0A", "%253A"]
)
def test_github_escapes(text: str) -> None:
    line = github.annotation("error", {"title": text, "file": "x.py"}, text)
    assert line.count("\n") == 1
    assert parsed(line[:-1]) == ("error", {"title": text, "file": "x.py"}, text)


def test_github_gives_the_worst_ten_of_each(small: LintReport) -> None:
    found = [
        finding(rule, severity=severity, locations=source(n + 1), message=f"it::error::##[x] {n}")
        for n in range(15)
        for rule, severity in (("T001", "error"), ("T002", "warning"), ("T003", "info"))
    ]
    lines = rendered(github.write, report_of(small, kernel(0, *found)), root=Path.cwd())
    commands = [line for line in lines.splitlines() if line.startswith("::")]
    assert Counter(parsed(line)[0] for line in commands) == {
        "error": 10,
        "warning": 10,
        "notice": 10,
    }
    assert parsed(commands[-1])[2].startswith("15 errors, 15 warnings, 15 notes in 1 kernel")
    rest = [line for line in lines.splitlines() if not line.startswith("::")]
    assert len(rest) == 46 - 30
    assert not any("##[" in line for line in rest)


def test_names_count_from_the_workspace(
    small: LintReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "repo" / "sub").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "repo" / "sub")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path / "repo"))
    first = rendered(github.write, report_of(small, kernel(0, finding()))).splitlines()[0]
    assert parsed(first)[1]["file"] == "sub/gemm.py"


def test_the_root_without_a_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below = tmp_path / "repo" / "a" / "b"
    below.mkdir(parents=True)
    (tmp_path / "repo" / ".git").mkdir()
    monkeypatch.chdir(below)
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    assert repository_root() == tmp_path / "repo"
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path / "other"))
    assert repository_root() == tmp_path / "repo"
    assert path_in_repository("../x.py", tmp_path / "repo") == "a/x.py"
    assert path_in_repository("../../../x.py", tmp_path / "repo") is None
    sibling = str(tmp_path / "repository.py")
    assert path_in_repository(sibling, tmp_path / "repo") is None


# --------------------------------------------------------------------------- Markdown


def test_markdown_stays_below_the_limit(small: LintReport) -> None:
    many = [
        kernel(n, finding(locations=source(n + 1), message="ä" * 200), name=f"kernel_{n}")
        for n in range(2000)
    ]
    told = rendered(lint.write_markdown, report_of(small, *many))
    assert len(told.encode()) <= lint.MOST_BYTES
    assert "and 1,992 more places" in told
    assert told.count("<details>") == told.count("</details>") == 1
    large = kernel(0, *(finding(message=f"{'ä' * n} it") for n in range(300)))
    told = rendered(lint.write_markdown, report_of(small, kernel(1, finding("T002")), large))
    assert len(told.encode()) <= lint.MOST_BYTES
    assert "more parts not shown: see the whole report" in told


def test_markdown_shows_text_as_it_is(small: LintReport) -> None:
    odd = "a|b <img src=x> @someone `code` [x](y) *z*"
    told = rendered(lint.write_markdown, report_of(small, kernel(0, finding(message=odd))))
    (row,) = (line for line in told.splitlines() if line.startswith("- **error**"))
    assert "<img" not in row
    assert " `@someone` " in row


# --------------------------------------------------------------------------- any text

ANY = st.text(st.characters(exclude_categories=()), max_size=40)
ODD = st.sampled_from(
    [
        "",
        "\x00\x1b[31m",
        "]]>",
        "<&>\"'",
        "a\u2028b\x85c",
        "\ud800",
        "\ufffe",
        "::",
        "%0A",
        "\r",
        "|",
    ]
)


@st.composite
def odd_reports(draw: st.DrawFn) -> LintReport:
    """A report with any text wherever text may come from users, files or compilers."""
    text = ANY | ODD
    found = tuple(
        Finding(
            rule=draw(text) or "r",
            severity=draw(st.sampled_from(["error", "warning", "info"])),
            confidence="certain",
            message=draw(text),
            evidence={draw(text): draw(text)},
            locations=(
                Location("source", draw(text), draw(st.integers(1, 9)), draw(text)),
                Location("amdgcn", None, draw(st.integers(1, 9)), draw(text)),
            ),
            fix=draw(text),
            fingerprint="0" * 16,
        )
        for _ in range(draw(st.integers(1, 3)))
    )
    comment = Suppression(draw(text), 1, (draw(text),), "line", draw(text), draw(text))
    checked = CheckedKernel(
        draw(text),
        draw(text),
        draw(text),
        draw(text),
        draw(text),
        draw(text),
        SourceLoc(draw(text), 1),
        draw(text),
        found,
        found[:1],
        (Suppressed(found[0], comment), Suppressed(found[0], draw(text))),
    )
    error = ErrorRecord(draw(text), draw(text), draw(text), draw(text), draw(text), draw(text))
    return LintReport(
        draw(text),
        {"name": "kinspect", "version": "1"},
        (draw(text),),
        {},
        "warning",
        (checked,),
        (error,),
        (comment,),
        draw(text),
        (draw(text),),
        (draw(text),),
    )


@given(odd_reports())
def test_any_text_in_sarif(report: LintReport) -> None:
    text = rendered(sarif.write, report, root=Path("/"))
    text.encode()
    SARIF_SCHEMA.validate(json.loads(text))


@given(odd_reports())
def test_any_text_in_junit(report: LintReport) -> None:
    root = junit_of(report)
    assert len(root.findall(".//testcase")) == 2


@given(odd_reports())
def test_any_text_in_github(report: LintReport) -> None:
    text = rendered(github.write, report, root=Path("/"))
    text.encode()
    lines = text.splitlines()  # at every character that anything takes for the end of a line
    assert len(lines) == text.count("\n")
    for line in lines:
        command, properties, _ = parsed(line)
        assert command in ("error", "warning", "notice")
        assert set(properties) <= {"file", "line", "title"}


@pytest.mark.parametrize("write", [lint.write, lint.write_markdown, lint_json.write])
@given(report=odd_reports())
def test_any_text_elsewhere(
    write: Callable[[LintReport, TextIO], None], report: LintReport
) -> None:
    told = rendered(write, report)
    told.encode()
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", told)


@given(ANY | ODD)
def test_clean_text_is_legal_xml(text: str) -> None:
    clean = printable_columns(text)
    root = etree.fromstring(f"<a>{re.sub('[<&>]', '', clean)}</a>".encode())
    assert root.tag == "a"
    assert "".join(c for c in clean if c.isalnum()) == "".join(c for c in text if c.isalnum())


# --------------------------------------------------------------------------- size


@pytest.mark.parametrize(
    "write",
    [lint.write, lint_json.write, lint.write_markdown, sarif.write, junit.write, github.write],
)
def test_thousands_of_kernels(small: LintReport, write: Callable[..., None]) -> None:
    import time

    many = [
        kernel(n, *(finding(rule, locations=source(n % 50 + 1)) for rule in small.rules))
        for n in range(5000)
    ]
    started = time.process_time()
    rendered(write, report_of(small, *many))
    assert time.process_time() - started < 20  # quadratic would be minutes
