"""Reports on saved assembly that are kept from run to run."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.base import named_files
from kinspect.inspector.lint import engine
from kinspect.inspector.lint.engine import Judgement
from kinspect.inspector.lint.rule import NO_RULES, Pack
from kinspect.inspector.model import KernelReport
from kinspect.inspector.pipeline import analysis, collecting, forked, stored_reports
from kinspect.inspector.pipeline.analysis_options import AnalysisOptions, Context, Overrides
from kinspect.inspector.pipeline.jobs import Request
from kinspect.inspector.pipeline.stored_reports import StoredReports
from kinspect.inspector.report import json_write
from msgspec.structs import replace

DATA = Path(__file__).parent / "data"
FILES = [
    DATA / "small_gfx942.s",
    *sorted((DATA / "emulator").glob("*.s")),
    *sorted((DATA / "isa").glob("attend.triton39.*.amdgcn")),  # each with its code object
]
SMALL = (DATA / "small_gfx942.s").read_text()
CONTEXT = Context("small.s")


@pytest.fixture
def analysed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were analysed."""
    texts: list[str] = []
    unchanged = analysis.analyze_text

    def noted(text: str, context: Context) -> list[KernelReport]:
        texts.append(text)
        return unchanged(text, context)

    monkeypatch.setattr(analysis, "analyze_text", noted)
    return texts


def kept(cache: Path) -> list[Path]:
    return [path for path in (cache / stored_reports.FOLDER).rglob("*") if path.is_file()]


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux alone")
def test_a_repeated_run_analyses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINSPECT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(forked, "MIN_BYTES", 1)
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    monkeypatch.chdir(DATA)
    request = Request(tuple(str(path.relative_to(DATA)) for path in FILES), jobs=2)
    alone = collecting.collect(replace(request, jobs=1))
    first = collecting.collect(request)
    assert len(kept(tmp_path / "cache")) >= len(FILES) // 2

    def refused(text: str, context: Context) -> list[KernelReport]:
        raise AssertionError(f"{context.path} is analysed")

    fresh = [k.id.partition("::")[0] for k in first.kernels if k.unread]
    again = replace(request, targets=tuple(t for t in request.targets if t not in fresh))
    monkeypatch.setattr(analysis, "analyze_text", refused)
    second = collecting.collect(again)
    assert not second.errors
    whole = json_write.to_dict(alone)["kernels"]
    assert json_write.to_dict(first)["kernels"] == whole
    files = set(again.targets)
    assert json_write.to_dict(second)["kernels"] == [
        kernel for kernel in whole if kernel["id"].partition("::")[0] in files
    ]


def test_rules_are_asked_each_time(tmp_path: Path, analysed: list[str]) -> None:
    stored = StoredReports(tmp_path)
    (first,) = stored.analyzed(SMALL, CONTEXT)
    assert first.findings
    pack = analysis.default_pack()
    fewer = replace(pack, rules=tuple(rule for rule in pack.rules if rule.text.id == "KI001"))
    options = AnalysisOptions(rules=fewer)
    (second,) = stored.analyzed(SMALL, replace(CONTEXT, analysis=options))
    assert {finding.rule for finding in second.findings} == {"KI001"}
    assert replace(second, findings=first.findings) == first
    assert len(analysed) == 1


@pytest.mark.parametrize(
    "changed",
    [
        lambda context: replace(context, path="other.s"),
        lambda context: replace(context, arch="gfx942"),
        lambda context: replace(context, overrides=Overrides(lds_bytes=1024)),
        lambda context: replace(context, metadata={"num_warps": 4}),
        lambda context: replace(context, patterns=("small",)),
        lambda context: replace(context, analysis=AnalysisOptions(lanes=False)),
        lambda context: replace(context, analysis=AnalysisOptions(values=False)),
    ],
)
def test_what_else_is_stated_is_analysed_anew(
    changed: Callable[[Context], Context], tmp_path: Path, analysed: list[str]
) -> None:
    stored = StoredReports(tmp_path)
    stored.analyzed(SMALL, CONTEXT)
    other: Sequence[Any] = stored.analyzed(SMALL, changed(CONTEXT))
    assert len(analysed) == 2
    assert other == analysis.analyze_text(SMALL, changed(CONTEXT))
    stored.analyzed(SMALL, changed(CONTEXT))
    assert len(analysed) == 3, "only the one that the test asked for itself"


def test_another_text_folder_or_version_is_analysed_anew(
    tmp_path: Path, analysed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = StoredReports(tmp_path / "cache")
    stored.analyzed(SMALL, CONTEXT)
    stored.analyzed(SMALL.replace("v_mov_b32_e32 v20, 0", "v_mov_b32_e32 v20, 1"), CONTEXT)
    assert len(analysed) == 2
    monkeypatch.chdir(tmp_path)
    stored.analyzed(SMALL, CONTEXT)
    assert len(analysed) == 3
    monkeypatch.setattr(stored_reports, "_package_state", lambda: (1, 1, 1))
    stored.analyzed(SMALL, CONTEXT)
    assert len(analysed) == 4
    stored.analyzed(SMALL, CONTEXT)
    assert len(analysed) == 4


@pytest.mark.parametrize(
    "text",
    [
        SMALL.replace("\ts_barrier\n", "\tno_such_instruction v0\n"),
        SMALL.replace("\ts_barrier\n", '\t.include "other.s"\n'),
        SMALL.replace("\ts_barrier\n", '\t.macro m d\n\t.\\d "o.s"\n\t.endm\n\tm include\n'),
    ],
)
def test_what_may_be_read_otherwise_tomorrow_is_not_kept(text: str, tmp_path: Path) -> None:
    assert text != SMALL
    StoredReports(tmp_path).analyzed(text, CONTEXT)
    assert not kept(tmp_path)


@pytest.mark.parametrize("damage", [b"", b"short", None])
def test_a_damaged_report_is_made_again(
    damage: bytes | None, tmp_path: Path, analysed: list[str]
) -> None:
    stored = StoredReports(tmp_path)
    whole = stored.analyzed(SMALL, CONTEXT)
    (file,) = kept(tmp_path)
    data = file.read_bytes()
    file.write_bytes(data[:-9] + b"123456789" if damage is None else damage)
    assert stored.analyzed(SMALL, CONTEXT) == whole
    assert file.read_bytes() == data
    assert len(analysed) == 2


def test_without_a_folder_it_analyses_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert StoredReports(tmp_path / "file").analyzed(SMALL, CONTEXT)


def test_the_oldest_are_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = StoredReports(tmp_path)
    for number in range(4):
        stored.analyzed(SMALL, replace(CONTEXT, path=f"{number}.s"))
    files = kept(tmp_path)
    for age, file in enumerate(files):
        os.utime(file, ns=(age, age))
    stored.prune()
    assert len(kept(tmp_path)) == 4
    size = files[0].stat().st_size
    monkeypatch.setattr(stored_reports, "MOST_BYTES", 3 * size)
    stored.prune()
    assert set(kept(tmp_path)) == {files[3]}


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels of which rules were asked."""
    names: list[str] = []
    unchanged = engine.judge

    def noted(pack: Pack, kernel: KernelReport, *more: Any) -> Judgement:
        if pack.rules:
            names.append(kernel.name)
        return unchanged(pack, kernel, *more)

    monkeypatch.setattr(engine, "judge", noted)
    return names


def with_source(source: Path) -> str:
    """The small kernel with code of a file of the test's own."""
    begin = "\ts_load_dwordx4"
    before, found, behind = SMALL.partition(begin)
    assert found
    file = f'\t.file\t1 "{source.parent}" "{source.name}"\n\t.loc\t1 7 3\n'
    return before + file + found + behind


def test_findings_of_the_default_rules_are_kept(
    tmp_path: Path, judged: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "kernel.py"
    source.write_text("".join(f"line {number}\n" for number in range(1, 200)))
    text = with_source(source)
    named_files.allow(tmp_path)
    stored = StoredReports(tmp_path / "cache")
    first = stored.analyzed(text, CONTEXT)
    quoted = [place.text for f in first[0].findings for place in f.locations if place.file]
    assert any(line.startswith("line ") for line in quoted)
    assert len(judged) == 1
    assert stored.analyzed(text, CONTEXT) == first
    assert len(judged) == 1

    source.write_text("".join(f"another {number}\n" for number in range(1, 200)))
    second = stored.analyzed(text, CONTEXT)
    assert len(judged) == 2
    quoted = [place.text for f in second[0].findings for place in f.locations if place.file]
    assert any(line.startswith("another ") for line in quoted)
    assert stored.analyzed(text, CONTEXT) == second
    assert len(judged) == 2

    monkeypatch.setattr(stored_reports, "_rules_state", lambda: (("recommended.yaml", (1, 1)),))
    assert stored.analyzed(text, CONTEXT) == second
    assert len(judged) == 3


def test_findings_are_added_to_a_report_that_has_none(tmp_path: Path, judged: list[str]) -> None:
    stored = StoredReports(tmp_path)
    bare = replace(CONTEXT, analysis=AnalysisOptions(rules=NO_RULES))
    assert not stored.analyzed(SMALL, bare)[0].findings
    assert not judged
    first = stored.analyzed(SMALL, CONTEXT)
    assert first[0].findings
    assert len(judged) == 1
    assert stored.analyzed(SMALL, CONTEXT) == first
    assert len(judged) == 1
    assert not stored.analyzed(SMALL, bare)[0].findings
