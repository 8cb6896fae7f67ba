"""`kinspect lint` as its users call it: status, choice of rules, comments, settings, baseline."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.cli.main import main
from kinspect.inspector.model import ErrorRecord
from kinspect.inspector.pipeline import analysis, linting
from kinspect.inspector.pipeline import collecting as pipeline
from kinspect.inspector.pipeline.events import Failed
from kinspect.inspector.pipeline.jobs import Request
from kinspect.inspector.pipeline.linting import LintEvent
from kinspect.inspector.report import json_write as json_v1
from kinspect.inspector.report import saved

SMALL = Path(__file__).parent / "data" / "small_gfx942.s"
Tool = Callable[..., subprocess.CompletedProcess[str]]

# Like the default pack's rules of these names; that one gains rules, and these tests would notice.
BASE_PACK = """\
pack: base
rules:
  - id: KI001
    name: spills-in-hot-loop
    severity: error
    scope: loop
    require: count.scratch_load + count.scratch_store == 0
    message: "{count.scratch_load} reloads"
    explain: x
    fix: y
  - id: KI002
    name: far-too-many-registers
    severity: error
    scope: kernel
    require: vgpr_count <= 512
    message: "{vgpr_count} VGPRs"
    explain: x
    fix: y
"""
OWN_PACK = """\
pack: ours
description: Two rules of our own.
rules:
  - id: OUR1
    name: few-registers
    severity: warning
    scope: kernel
    require: vgpr_count <= 32
    message: "{vgpr_count} VGPRs"
    explain: x
    fix: y
  - id: OUR2
    name: no-barriers
    severity: info
    scope: loop
    require: count.barrier == 0
    message: "{count.barrier} barriers in the loop"
    explain: x
    fix: y
"""


@dataclass(frozen=True)
class Done:
    status: int
    out: str
    err: str

    @property
    def report(self) -> Any:
        return json.loads(self.out)

    def found(self, state: str = "findings") -> list[tuple[str, str]]:
        """(rule, severity) of the findings in that state, in order."""
        listed = [f for k in self.report["kernels"] for f in k[state]]
        bare = [f.get("finding", f) for f in listed]
        return [(f["rule"], f["severity"]) for f in bare]

    def unused(self) -> list[tuple[int, list[str], str]]:
        told = self.report["unused_suppressions"]
        return [(u["line"], u["rules"], u.get("note") or "") for u in told]


@pytest.fixture
def lint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., Done]]:
    """Runs `kinspect lint ... --format json` in this process, in a folder with `small.s`.

    The rules are those of BASE_PACK where the arguments name none.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.s").write_text(SMALL.read_text())
    (tmp_path / "ours.yaml").write_text(OWN_PACK)
    (tmp_path / "base.yaml").write_text(BASE_PACK)
    before = signal.getsignal(signal.SIGTERM)

    def run(*args: str | Path, form: str = "json") -> Done:
        capsys.readouterr()
        stated = {"--rules", "--config"} & set(map(str, args))
        rules = () if stated else ("--rules", "base.yaml")
        status = main(["lint", *map(str, args), *rules, "--format", form])
        captured = capsys.readouterr()
        return Done(status, captured.out, captured.err)

    yield run
    signal.signal(signal.SIGTERM, before)


Lint = Callable[..., Done]


def edited(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) >= 1
    path.write_text(text.replace(old, new, 1))


def refused(done: Done, *said: str) -> None:
    """Status 2, nothing on stdout, and each of these on stderr."""
    assert done.status == 2
    assert done.out == ""
    assert "Traceback" not in done.err
    for text in said:
        assert text in done.err, done.err


# --------------------------------------------------------------------------- status and rules


@pytest.mark.parametrize(
    ("args", "status", "found"),
    [
        ((), 1, [("KI001", "error")]),
        (("--fail-on", "never"), 0, [("KI001", "error")]),
        (("--ignore", "KI001"), 0, []),
        (("--ignore", "spills-in-hot-loop"), 0, []),
        (("--select", "KI00"), 1, [("KI001", "error")]),
        (("--select", "KI002", "--select", "far-too-many-registers"), 0, []),
        (("--rules", "ours.yaml"), 0, [("OUR1", "warning"), ("OUR2", "info")]),
        (
            ("--rules", "ours.yaml", "--fail-on", "warning"),
            1,
            [("OUR1", "warning"), ("OUR2", "info")],
        ),
        (("--rules", "ours.yaml", "--fail-on", "info", "--ignore", "OUR1"), 1, [("OUR2", "info")]),
        (
            ("--rules", "base.yaml", "--rules", "ours.yaml", "--rules", "ours.yaml"),
            1,
            [("KI001", "error"), ("OUR1", "warning"), ("OUR2", "info")],
        ),
    ],
)  # fmt: skip
def test_exit_status_and_choice_of_rules(
    lint: Lint, args: tuple[str, ...], status: int, found: list[tuple[str, str]]
) -> None:
    done = lint("small.s", *args)
    assert (done.status, done.found()) == (status, found)
    assert done.err == ""


def test_without_a_word_the_recommended_rules_are_asked(
    lint: Lint, capsys: pytest.CaptureFixture[str]
) -> None:
    named = lint("small.s", "--rules", "recommended")
    assert ("KI001", "error") in named.found()
    assert main(["lint", "small.s", "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out) == named.report


def test_previews_that_a_prefix_leaves_out_are_counted(lint: Lint) -> None:
    previews = [r for r in analysis.recommended_pack().rules if r.text.status == "preview"]
    note = f"--select KI: {len(previews)} of its rules are in preview and not asked"
    pack = ("small.s", "--rules", "recommended")
    assert note in lint(*pack, "--select", "KI").err
    assert "in preview" not in lint(*pack, "--select", "KI,preview").err
    assert "in preview" not in lint(*pack).err


def test_preview_rules_of_the_default_pack_are_asked_when_selected(lint: Lint) -> None:
    previews = [r for r in analysis.recommended_pack().rules if r.text.status == "preview"]
    assert previews
    for rule in previews:
        done = lint("small.s", "--rules", "recommended", "--select", rule.text.id)
        assert (done.status, done.err) == (0, "") or done.found(), done.err
        assert [r["id"] for r in done.report["rules"]] == [rule.text.id]


def test_nothing_to_ask_is_no_success(lint: Lint) -> None:
    refused(lint("small.s", "--select", "KI001", "--ignore", "KI0"), "no rule is left to ask")
    refused(lint("small.s", "--select", ""), "--select: it is empty")


def test_code_for_an_unknown_target_is_not_clean(lint: Lint) -> None:
    body = "global_load_dword v1, v[2:3], off\nv_add_f32 v1, v1, v1\ns_endpgm\n.Lend:\n"
    head = ".text\n.globl k\n.type k,@function\nk:\n"
    Path("bare.s").write_text(f"{head}{body}.size k, .Lend-k\n")
    done = lint("bare.s", "--rules", "recommended")
    assert done.status == 2
    assert "the target is unknown" in done.err
    told = lint("bare.s", "--rules", "recommended", "--arch", "gfx942")
    assert (told.status, told.found()) == (1, [("KI022", "error")])


def test_a_rule_of_a_pack_that_is_not_asked_is_said_to_be_there(lint: Lint) -> None:
    refused(
        lint("small.s", "--rules", "ours.yaml", "--select", "KI001"),
        "--select: KI001 stands in the pack recommended: add --rules recommended",
    )
    assert lint("small.s", "--rules", "ours.yaml", "--ignore", "KI001").status == 0


def test_unknown_rules_are_all_told_and_nothing_is_evaluated(lint: Lint) -> None:
    done = lint("small.s", "--select", "KI0001,KI001", "--ignore", "spills-in-hot-lop")
    refused(
        done,
        "kinspect: error: --select: no rule KI0001 (did you mean KI001?)\n",
        "kinspect: error: --ignore: no rule spills-in-hot-lop (did you mean spills-in-hot-loop?);",
    )


def test_a_bad_pack_shows_all_its_faults_and_nothing_is_evaluated(
    lint: Lint, tmp_path: Path
) -> None:
    edited(tmp_path / "ours.yaml", "vgpr_count <= 32", "vgpr_cnt <= 32")
    edited(tmp_path / "ours.yaml", "severity: info", "severity: note")
    done = lint("small.s", "--rules", "ours.yaml", "--rules", "base.yaml", "-o", "out.json")
    refused(done, "ours.yaml:8:14: ", "did you mean vgpr_count?", "ours.yaml:14:15: ")
    assert not (tmp_path / "out.json").exists()


def test_one_id_for_two_rules_is_refused(lint: Lint, tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text(OWN_PACK.replace("<= 32", "<= 64"))
    done = lint("small.s", "--rules", "ours.yaml", "--rules", "other.yaml")
    refused(done, "OUR1 is one rule in ours.yaml:4 and another in other.yaml:4")


@pytest.mark.parametrize("packs", [("base.yaml", "stricter.yaml"), ("stricter.yaml", "base.yaml")])
def test_a_rule_that_one_of_the_packs_overrides_is_one_rule(
    lint: Lint, tmp_path: Path, packs: tuple[str, str]
) -> None:
    """As of `--rules recommended --rules strict`, which extends it."""
    ours = (tmp_path / "ours.yaml").read_text()
    (tmp_path / "base.yaml").write_text(ours)
    (tmp_path / "stricter.yaml").write_text(
        "pack: stricter\nextends: base.yaml\noverride:\n  OUR1: {severity: error}\n"
    )
    options = [word for pack in packs for word in ("--rules", pack)]
    done = lint("small.s", *options, "--select", "OUR1", "--format", "json")
    findings = [f for k in json.loads(done.out)["kernels"] for f in k["findings"]]
    assert {(f["rule"], f["severity"]) for f in findings} == {("OUR1", "error")}


@pytest.mark.parametrize("bad", ["none.s", "none.json"])
def test_a_target_that_is_not_there(lint: Lint, bad: str) -> None:
    done = lint("small.s", bad, "--fail-on", "never")
    assert (done.status, done.found()) == (2, [("KI001", "error")])
    line, *command = done.err.splitlines()
    assert line.startswith("kinspect: error: ")
    assert f"{bad}: read: no such file" in line
    assert all(text.startswith("  kinspect ") for text in command)


def test_a_failed_target_is_2_and_the_others_are_still_reported(lint: Lint, tmp_path: Path) -> None:
    (tmp_path / "broken.s").write_bytes(b"\0\0\0")
    done = lint("broken.s", "small.s", "--fail-on", "never")
    assert (done.status, done.found()) == (2, [("KI001", "error")])
    assert "kinspect: error: broken.s: read: " in done.err
    assert len(done.report["errors"]) == 1


def test_a_newer_report_is_2(lint: Lint, tmp_path: Path) -> None:
    (tmp_path / "new.json").write_text('{"schema_version": 99, "kernels": []}')
    done = lint("new.json")
    assert (done.status, done.found()) == (2, [])
    assert "not a kinspect report of schema version 1 or 2 (found 99)" in done.err


@pytest.mark.parametrize("name", ["report.json", "report.kinspect"])
def test_saved_reports_are_judged_anew_by_the_rules_asked(
    lint: Lint, tmp_path: Path, name: str
) -> None:
    report = pipeline.collect(Request(("small.s",)))
    assert "KI001" in [f.rule for f in report.kernels[0].findings]
    if name.endswith("json"):
        text = io.StringIO()
        json_v1.write(report, text)
        (tmp_path / name).write_text(text.getvalue())
    else:
        saved.save(report, tmp_path / name)
    direct = lint("small.s", "--rules", "ours.yaml", "--rules", "base.yaml").report["kernels"]
    again = lint(name, "--rules", "ours.yaml", "--rules", "base.yaml").report["kernels"]
    assert len(direct[0]["findings"]) == 3
    assert again == direct
    assert lint(name, "--rules", "ours.yaml").found() == [("OUR1", "warning"), ("OUR2", "info")]


@pytest.mark.parametrize("form", ["text", "json", "sarif", "junit", "github", "md"])
def test_every_format_is_written_to_stdout_or_a_file(lint: Lint, tmp_path: Path, form: str) -> None:
    done = lint("small.s", form=form)
    assert done.status == 1
    assert "KI001" in done.out
    to_file = lint("small.s", "--output", "result", form=form)
    assert (to_file.status, to_file.out) == (1, "")
    assert "KI001" in (tmp_path / "result").read_text()


# --------------------------------------------------------------------------- comments


@pytest.mark.parametrize(
    ("line", "comment"),
    [
        ("scratch_load_dword v20, off, off offset:4 ; 4-byte Folded Reload",
         "scratch_load_dword v20, off, off offset:4 ; reload ; kinspect: ignore[KI001] by hand"),
        ("\tscratch_load_dword v20",
         "\t// kinspect: ignore[spills-in-hot-loop]\n\tscratch_load_dword v20"),
        (".LBB0_1:", ".LBB0_1: ; kinspect: ignore[KI001]"),
        ("; A small kernel", "; kinspect: ignore-file[KI001]\n; A small kernel"),
    ],
    ids=["line", "before", "loop", "file"],
)  # fmt: skip
def test_comments_in_assembly(lint: Lint, tmp_path: Path, line: str, comment: str) -> None:
    edited(tmp_path / "small.s", line, comment)
    done = lint("small.s")
    assert (done.status, done.found(), done.unused()) == (0, [], [])
    assert done.found("suppressed") == [("KI001", "error")]


def test_a_kernel_as_a_whole_is_meant_by_its_label(lint: Lint, tmp_path: Path) -> None:
    edited(tmp_path / "small.s", "\nsmall:\n", "\nsmall: ; kinspect: ignore\n")
    done = lint("small.s", "--rules", "ours.yaml")
    assert done.found() == [("OUR2", "info")]  # about a loop
    assert done.found("suppressed") == [("OUR1", "warning")]


def test_unused_comments_are_told_for_rules_that_were_asked(lint: Lint, tmp_path: Path) -> None:
    edited(tmp_path / "small.s", "\ts_nop 15", "\ts_nop 15 ; kinspect: ignore[KI001, OUR1, KI9]")
    done = lint("small.s")
    assert done.status == 1
    assert [(n, rules) for n, rules, _ in done.unused()] == [
        (29, ["KI001"]), (29, ["OUR1"]), (29, ["KI9"])
    ]  # fmt: skip
    notes = {rules[0]: note for _, rules, note in done.unused()}
    assert notes["KI001"] == ""
    assert "no rule OUR1" in notes["OUR1"]
    # Rules that are not asked, or not of what was looked at, may have their comments.
    edited(tmp_path / "small.s", ", OUR1, KI9", "")
    assert lint("small.s", "--ignore", "KI001").unused() == []
    assert lint("small.s", "--kernel", "small").unused() == []


KERNELS = '''\
import triton
import triton.language as tl


@triton.jit
def load_step(src, at, mask):
    return tl.load(
        src + at,
        mask=mask,
    )


@triton.jit
def strided_kernel(src, dst, n, stride, BLOCK: tl.constexpr):
    """Sums every `stride`-th value, which no load can take side by side."""
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = (start + tl.arange(0, BLOCK)) * stride
        acc += load_step(src, at, at < n * stride).to(tl.float32)
    tl.store(dst + tl.arange(0, BLOCK), acc)


@triton.jit
def unused_kernel(dst):
    tl.store(dst, 1)  # kinspect: ignore[PY1] never compiled here


SIGNATURE = {"src": "*fp16:16", "dst": "*fp32:16", "n": "i32", "stride": "i32"}
KINSPECT_CASES = [
    {"name": "a", "kernel": "strided_kernel", "signature": SIGNATURE, "constexprs": {"BLOCK": 1024}}
]
'''
PY_PACK = """\
pack: py
rules:
  - {id: PY1, name: loads-in-loop, severity: error, scope: loop, require: count.global_load == 0,
     message: "{count.global_load} loads", explain: x, fix: y}
  - {id: PY2, name: any-code, severity: error, scope: kernel, require: instruction_count == 0,
     message: "{instruction_count} instructions", explain: x, fix: y}
"""


def test_comments_in_python(lint: Lint, tmp_path: Path, shared_guests: None) -> None:
    pytest.importorskip("triton")
    source = tmp_path / "kernels.py"
    (tmp_path / "py.yaml").write_text(PY_PACK)

    def run(old: str = "", new: str = "") -> Done:
        source.write_text(KERNELS)
        if old:
            edited(source, old, new)
        return lint("kernels.py", "--rules", "py.yaml")

    both = [("PY1", "error"), ("PY2", "error")]
    plain = run()
    # The comment in the kernel that nothing launches is not called unused.
    assert (plain.status, sorted(plain.found()), plain.unused()) == (1, both, [])
    for old, new, left in (
        ("src + at,", "src + at,  # kinspect: ignore[PY1] in the helper's statement", ["PY2"]),
        ("    for start", "    # kinspect: ignore[loads-in-loop]\n    for start", ["PY2"]),
        ("BLOCK):\n", "BLOCK):  # kinspect: ignore\n", ["PY2"]),
        ("@triton.jit\ndef strided", "@triton.jit  # kinspect: ignore[PY2]\ndef strided", ["PY1"]),
        ("tl.constexpr):", "tl.constexpr):  # kinspect: ignore[PY2]", ["PY1"]),
        ("import triton\n", "import triton\n# kinspect: ignore-file[PY1, any-code] x\n", []),
    ):
        done = run(old, new)
        assert [rule for rule, _ in done.found()] == left, new
        assert done.status == bool(left)
        assert done.unused() == [], new
    stale = run("tl.float32)\n    for", "tl.float32)  # kinspect: ignore[PY2, any-cod]\n    for")
    assert sorted(stale.found()) == both
    assert stale.unused() == [
        (16, ["PY2"], ""), (16, ["any-cod"], "no rule any-cod (did you mean any-code?)")
    ]  # fmt: skip


# --------------------------------------------------------------------------- settings


def settle(folder: Path, text: str) -> None:
    (folder / "pyproject.toml").write_text(text)


def test_settings_hold_where_the_command_line_is_silent(lint: Lint, tmp_path: Path) -> None:
    sub = tmp_path / "sub"
    sub.mkdir()
    for pack in ("ours.yaml", "base.yaml"):
        (tmp_path / pack).rename(sub / pack)
    (sub / "settings.toml").write_text(
        '[tool.kinspect]\nrules = ["base.yaml", "ours.yaml"]\nfail-on = "info"\n'
        'ignore = ["KI001", "OUR1"]\n'
    )
    settings = ("--config", "sub/settings.toml")
    assert ("KI001", "error") in lint("small.s", "--rules", "recommended").found()
    assert lint("small.s", *settings).found() == [("OUR2", "info")]
    assert lint("small.s", *settings).status == 1
    assert lint("small.s", *settings, "--fail-on", "error").status == 0
    assert lint("small.s", *settings, "--ignore", "OUR2").found() == []  # adds to the settings'
    selected = lint("small.s", *settings, "--select", "OUR")  # in place of the settings' choice
    assert selected.found() == [("OUR1", "warning"), ("OUR2", "info")]
    only_base = ("--rules", "sub/base.yaml")
    assert lint("small.s", *settings, *only_base).found() == []


def test_faults_of_the_settings_are_all_told_and_nothing_is_evaluated(
    lint: Lint, tmp_path: Path
) -> None:
    settle(
        tmp_path,
        '[tool.kinspect]\nselect = ["KI0001"]\narch = ["gfx924"]\n'
        '[[tool.kinspect.kernel]]\nmatch = "*"\nignore = ["KI0002"]\n'
        'severity = { KI0003 = "info" }\n'
        'budget = { vgpr_cont = 1, scratch_bytes = "about 2", "op.bits" = 3, empty = 1 }\n',
    )
    refused(
        lint("small.s"),
        "tool.kinspect.select: no rule KI0001 (did you mean KI001?)",
        "tool.kinspect.arch: unknown target 'gfx924'",
        "[[tool.kinspect.kernel]] 1.ignore: no rule KI0002 (did you mean KI002?)",
        "[[tool.kinspect.kernel]] 1.severity: no rule KI0003",
        "1.budget.vgpr_cont: no metric vgpr_cont (did you mean vgpr_count?)",
        "1.budget.scratch_bytes: 'about 2' is not a comparison",
        "1.budget.op.bits: ",
        "1.budget.empty: ",
    )
    settle(tmp_path, "[tool.kinspect]\nselct = []\n")
    refused(lint("small.s"), "pyproject.toml: tool.kinspect: unknown key selct (did you mean")


@pytest.mark.parametrize(
    ("entry", "found", "suppressed"),
    [
        ('match = "sm*"\nignore = ["KI"]', [], ["KI001"]),
        ('match = "other"\nignore = ["KI"]', ["KI001 error"], []),
        (
            'match = "*"\narch = "gfx9*"\nseverity = { spills-in-hot-loop = "info" }',
            ["KI001 info"],
            [],
        ),
        ('match = "*"\narch = "gfx1*"\nignore = ["KI"]', ["KI001 error"], []),
        ('match = "*"\nfile = "*.s"\nignore = ["KI"]', [], ["KI001"]),
        ('match = "*"\nfile = "kernels/*"\nignore = ["KI"]', ["KI001 error"], []),
        ('match = "small"\nbudget = { vgpr_count = 40, scratch_bytes = 8 }', ["KI001 error"], []),
        ('match = "small"\nbudget = { vgpr_count = 39 }', ["KI001 error", "budget error"], []),
        (
            'match = "small"\nbudget = { vgpr_count = 39 }\nignore = ["budget"]',
            ["KI001 error"],
            ["budget"],
        ),
        ('match = "small"\nbudget = { "occupancy.waves_per_eu" = ">= 8" }', ["KI001 error"], []),
        (
            'match = "small"\nbudget = { occupancy.waves_per_eu = ">= 9", lds_bytes = "< 4096" }\n'
            'severity = { budget = "warning" }',
            ["KI001 error", "budget warning", "budget warning"],
            [],
        ),
    ],
)  # fmt: skip
def test_settings_for_single_kernels(
    lint: Lint, tmp_path: Path, entry: str, found: list[str], suppressed: list[str]
) -> None:
    settle(tmp_path, f"[[tool.kinspect.kernel]]\n{entry}\n")
    done = lint("small.s")
    assert [" ".join(f) for f in done.found()] == found
    assert [rule for rule, _ in done.found("suppressed")] == suppressed
    assert done.status == any("error" in f for f in found)


def test_a_budget_says_what_is_and_what_may_be(lint: Lint, tmp_path: Path) -> None:
    settle(
        tmp_path,
        '[[tool.kinspect.kernel]]\nmatch = "*"\nbudget = { vgpr_count = 128, code_bytes = 9 }\n'
        '[[tool.kinspect.kernel]]\nmatch = "small"\nbudget = { vgpr_count = 39 }\n'
        '[[tool.kinspect.kernel]]\nmatch = "smal"\nignore = ["KI001"]\n',
    )
    done = lint("small.s", "--select", "budget")
    (kernel,) = done.report["kernels"]
    (finding,) = kernel["findings"]
    assert finding["message"] == (
        "vgpr_count is 40, the budget of pyproject.toml: [[tool.kinspect.kernel]] 2 is 39"
    )
    assert finding["fix"]
    # What cannot be judged, and what speaks of nothing, is said.
    assert "note: code_bytes is not known of 1 kernel: the budget of" in done.err
    assert "note: no kernel of this run matches pyproject.toml: [[tool.kinspect" in done.err
    assert lint("small.s", "--select", "KI").found() == [("KI001", "error")]
    assert lint("small.s", "--ignore", "over-budget").found() == [("KI001", "error")]


def test_two_budgets_of_a_kernel_have_two_fingerprints(lint: Lint, tmp_path: Path) -> None:
    limits = "{ vgpr_count = 1, lds_bytes = 1 }"
    settle(tmp_path, f'[[tool.kinspect.kernel]]\nmatch = "*"\nbudget = {limits}\n')
    (kernel,) = lint("small.s").report["kernels"]
    prints = [f["fingerprint"] for f in kernel["findings"] if f["rule"] == "budget"]
    assert len(set(prints)) == 2


def test_targets_of_the_settings_are_for_what_is_compiled(
    lint: Lint, tmp_path: Path, shared_guests: None
) -> None:
    settle(tmp_path, '[tool.kinspect]\narch = ["gfx950", "gfx1201"]\n')
    assert lint("small.s").found() == [("KI001", "error")]  # for gfx942, as it says itself
    assert lint("small.s", "--arch", "gfx950").status == 2
    pytest.importorskip("triton")
    (tmp_path / "kernels.py").write_text(KERNELS)
    done = lint("kernels.py", "small.s", "kernels.py::strided_kernel", "--ignore", "KI")
    assert [k["arch"] for k in done.report["kernels"]] == [
        "gfx950", "gfx1201", "gfx942", "gfx950", "gfx1201"
    ]  # fmt: skip


# --------------------------------------------------------------------------- baseline


def test_a_baseline_lets_known_findings_pass(lint: Lint, tmp_path: Path) -> None:
    base = ("--baseline", "known.json")
    refused(lint("small.s", *base), "known.json: no such baseline", "--update-baseline")
    refused(lint("small.s", "--update-baseline"), "--update-baseline", "--baseline FILE")
    made = lint("small.s", *base, "--update-baseline")
    assert (made.status, made.found("known")) == (0, [("KI001", "error")])
    assert "known.json: findings: 1 added, 0 removed" in made.err
    again = lint("small.s", *base)
    assert (again.status, again.found(), again.found("known")) == (0, [], [("KI001", "error")])
    # Another finding is new; lines that move are not.
    edited(tmp_path / "small.s", "; A small kernel", ";\n;\n; A small kernel")
    more = lint("small.s", *base, "--rules", "base.yaml", "--rules", "ours.yaml")
    assert (more.status, more.found()) == (0, [("OUR1", "warning"), ("OUR2", "info")])
    assert lint("small.s", *base, "--rules", "ours.yaml", "--fail-on", "info").status == 1


def test_a_known_finding_that_got_worse_is_new(lint: Lint, tmp_path: Path) -> None:
    base = ("--baseline", "known.json", "--rules", "ours.yaml")
    settle(tmp_path, '[[tool.kinspect.kernel]]\nmatch = "*"\nbudget = { vgpr_count = 8 }\n')
    assert lint("small.s", *base, "--update-baseline").status == 0
    assert lint("small.s", *base).status == 0
    edited(tmp_path / "small.s", ".vgpr_count:     ", ".vgpr_count:     1")
    edited(tmp_path / "small.s", ".amdhsa_next_free_vgpr ", ".amdhsa_next_free_vgpr 1")
    worse = lint("small.s", *base)
    assert (worse.status, worse.found()) == (1, [("budget", "error"), ("OUR1", "warning")])
    messages = [f["message"] for k in worse.report["kernels"] for f in k["findings"]]
    assert all(" (was " in message and ", now 1" in message for message in messages)
    updated = lint("small.s", *base, "--update-baseline")
    assert "known.json: findings: 0 added, 0 removed, 2 worse" in updated.err
    assert lint("small.s", *base).status == 0


def test_what_has_gone_is_told_and_removed(lint: Lint, tmp_path: Path) -> None:
    settle(tmp_path, '[tool.kinspect]\nbaseline = "ci.json"\n')
    assert lint("small.s", "--update-baseline").status == 0
    before = (tmp_path / "ci.json").read_text()
    # Not asked is not gone.
    assert lint("small.s", "--ignore", "KI001").report["baseline"]["gone"] == []
    assert lint("small.s", "--ignore", "KI001", "--update-baseline").status == 0
    assert (tmp_path / "ci.json").read_text() == before
    text = (tmp_path / "small.s").read_text()
    (tmp_path / "small.s").write_text(
        "\n".join(line for line in text.split("\n") if "\tscratch_" not in line)
    )
    gone = lint("small.s")
    assert gone.status == 0
    assert len(gone.report["baseline"]["gone"]) == 1
    # A run that failed in part does not throw away what it may only have missed.
    (tmp_path / "broken.s").write_bytes(b"\0")
    failed = lint("small.s", "broken.s", "--update-baseline")
    assert failed.status == 2
    assert "not written: 1 of its findings were not found, but part of the run failed" in failed.err
    assert (tmp_path / "ci.json").read_text() == before
    assert lint("small.s", "--update-baseline").status == 0
    assert json.loads((tmp_path / "ci.json").read_text())["findings"] == []
    # Nothing is lost where nothing has gone.
    (tmp_path / "small.s").write_text(text)
    assert lint("small.s", "broken.s", "--update-baseline").status == 2
    assert (tmp_path / "ci.json").read_text() == before


def test_a_damaged_baseline_is_refused_before_anything_is_evaluated(
    lint: Lint, tmp_path: Path
) -> None:
    (tmp_path / "known.json").write_text('{"schema_version": 7, "findings": []}')
    refused(lint("none.s", "--baseline", "known.json"), "known.json: baseline of schema version 7")
    refused(lint("none.s", "--baseline", "known.json", "--update-baseline"), "schema version 7")


# --------------------------------------------------------------------------- ways to end


def test_an_interrupted_run_reports_what_it_has_and_keeps_the_baseline(
    lint: Lint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = ("--baseline", "known.json")
    lint("small.s", *base, "--update-baseline", "--rules", "ours.yaml", "--rules", "base.yaml")
    before = (tmp_path / "known.json").read_text()
    unchanged = pipeline.transformed_reports

    def interrupted(*args: Any, **options: Any) -> Iterator[LintEvent]:
        yield from unchanged(*args, **options)
        yield Failed((1, 0), ErrorRecord("k.py", None, "compile", "interrupted: 3 left", ""))
        raise KeyboardInterrupt

    monkeypatch.setattr(linting, "transformed_reports", interrupted)
    edited(tmp_path / "small.s", "\ts_barrier\n", "\ts_nop 0\n")
    done = lint(
        "small.s", *base, "--update-baseline", "--rules", "ours.yaml", "--rules", "base.yaml"
    )
    assert done.status == 2
    assert "interrupted: 3 left" in done.err
    assert done.found("known") == [("KI001", "error"), ("OUR1", "warning")]
    assert (tmp_path / "known.json").read_text() == before


def test_nothing_half_written_is_left(
    lint: Lint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kinspect.inspector.formats import lint_json

    def half(report: object, stream: io.StringIO) -> None:
        stream.write("half")
        raise KeyboardInterrupt

    (tmp_path / "out.json").write_text("before")
    monkeypatch.setattr(lint_json, "write", half)
    assert lint("small.s", "-o", "out.json").status == 130
    assert (tmp_path / "out.json").read_text() == "before"
    assert not list(tmp_path.glob(".*partial"))


def test_a_job_that_is_stopped_leaves_no_file(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    started = tmp_path / "started"
    (tmp_path / "slow.py").write_text(
        f"import pathlib, time\npathlib.Path({str(started)!r}).touch()\ntime.sleep(60)\n"
    )
    args = ["lint", "slow.py", "-o", "out.sarif", "--format", "sarif"]
    run = subprocess.Popen(
        [sys.executable, "-m", "kinspect.inspector.cli", *args],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    for _ in range(600):
        if started.exists() or run.poll() is not None:
            break
        time.sleep(0.1)
    assert started.exists()
    run.send_signal(signal.SIGTERM)
    _, err = run.communicate(timeout=60)
    assert run.returncode in (2, 130), err
    assert "Traceback" not in err
    written = tmp_path / "out.sarif"
    assert not written.exists() or json.loads(written.read_text())["version"] == "2.1.0"
    assert not list(tmp_path.glob(".*partial"))


def test_saved_artifacts_need_no_triton_torch_or_rich(tool: Tool, tmp_path: Path) -> None:
    text = io.StringIO()
    json_v1.write(pipeline.collect(Request((str(SMALL),))), text)
    (tmp_path / "saved.json").write_text(text.getvalue())
    (tmp_path / "ours.yaml").write_text(OWN_PACK)
    heavy = ("triton", "torch", "rich", "textual", "jinja2", "elftools", "numpy")
    code = (
        "import sys\nfrom kinspect.inspector.cli.main import main\n"
        f"status = main(['lint', {str(SMALL)!r}, 'saved.json', '--rules', 'ours.yaml', '--rules',"
        " 'recommended', '--select', 'KI001,OUR'])\n"
        f"loaded = [m for m in {heavy!r} if m in sys.modules]\n"
        "sys.stderr.write(f'{status} {loaded}')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=tmp_path,
        check=False,
    )  # fmt: skip
    assert done.stderr == "1 []"


def test_as_a_command(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "small.s").write_text(SMALL.read_text())
    done = tool("lint", "small.s")
    assert done.returncode == 1
    assert "KI001" in done.stdout
    assert done.stderr == ""
    shown = tool("lint", "--help")
    assert shown.returncode == 0
    for option in ("--rules", "--select", "--fail-on", "--baseline", "--update-baseline"):
        assert option in shown.stdout
    assert "lint" in tool("--help").stdout
