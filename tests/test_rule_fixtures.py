"""Every bundled rule against kernels that it must find fault with, and kernels it must leave alone.

`rules/fixtures/fixtures.yaml` names them. The kernels are compiled here, so that a rule is held
against what today's compiler writes; hand-written assembly stands in where no compiler does so.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from kept_compiles import collect_kept
from kinspect.inspector.base.documents import yaml_loader
from kinspect.inspector.lint.engine import judge
from kinspect.inspector.lint.expr import compile_condition
from kinspect.inspector.lint.packs import Pack, Rule, load_named
from kinspect.inspector.lint.rule import NO_RULES
from kinspect.inspector.model import KernelReport
from kinspect.inspector.pipeline.analysis import catalogue as rule_catalogue
from kinspect.inspector.pipeline.analysis_options import AnalysisOptions
from kinspect.inspector.pipeline.jobs import Request
from msgspec.structs import replace

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "rules" / "fixtures"
PACKS = ("recommended", "strict", "guide")
# All are compiled by the first test that needs one: on a busy machine that takes minutes.
pytestmark = pytest.mark.timeout(1200)
JUDGED = AnalysisOptions(rules=NO_RULES, values=False)
"""What `kinspect lint` works out for many rules."""
_SPELLED = re.compile(r"(?P<file>[\w./-]+)(?:\[(?P<case>[^\]]+)\])?(?:@(?P<arch>gfx\w+))?")


@dataclass(frozen=True)
class Fixture:
    """One kernel: a file, its case (or a kernel's name), and the target it is compiled for."""

    file: Path
    case: str | None
    arch: str | None

    @classmethod
    def of(cls, text: str) -> Fixture:
        found = _SPELLED.fullmatch(text)
        assert found, f"fixtures.yaml: {text!r} is not FILE[CASE]@ARCH"
        name = found["file"]
        file = ROOT / name if name.startswith("kernels/") else FOLDER / name
        return cls(file, found["case"], found["arch"])


@dataclass(frozen=True)
class Listed:
    """What fixtures.yaml says of one rule."""

    fail: tuple[str, ...]
    keep: tuple[str, ...]


def _listed() -> dict[str, Listed]:
    document = yaml.load((FOLDER / "fixtures.yaml").read_text("utf-8"), Loader=yaml_loader())
    return {
        rule: Listed(tuple(entry["fail"]), tuple(entry["pass"])) for rule, entry in document.items()
    }


def _rules() -> dict[str, Rule]:
    """The rules as each pack states them; one that another pack extends counts once."""
    found: dict[str, Rule] = {}
    for name in PACKS:
        for rule in load_named(name, rule_catalogue()).rules:
            found.setdefault(rule.text.id, rule)
    return found


RULES = _rules()
LISTED = _listed()


@pytest.fixture(scope="module")
def kernels(request: pytest.FixtureRequest) -> Mapping[str, KernelReport]:
    """The reports by their names in fixtures.yaml, those of the rules that `-k` leaves.

    Files and targets are run together.
    """
    pytest.importorskip("triton")
    rules = {
        item.callspec.params["rule"].text.id
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.module is request.module  # others have fixtures of that name
        and "kernels" in item.fixturenames
    }
    entries = [entry for rule, entry in LISTED.items() if rule in rules]
    names = {name for entry in entries for name in (*entry.fail, *entry.keep)}
    wanted: dict[str | None, dict[Path, dict[str | None, str]]] = {}
    for name in sorted(names):
        fixture = Fixture.of(name)
        wanted.setdefault(fixture.arch, {}).setdefault(fixture.file, {})[fixture.case] = name
    found: dict[str, KernelReport] = {}
    for arch, files in wanted.items():
        for kernel in _reports(arch, files):
            cases = files[Path(kernel.id.partition("::")[0]).absolute()]
            case = kernel.variant.case if kernel.variant is not None else kernel.name
            for asked in {case, None} & cases.keys():
                found[cases[asked]] = kernel
    assert names <= found.keys(), f"not compiled: {sorted(names - found.keys())}"
    return found


def _reports(
    arch: str | None, files: Mapping[Path, Mapping[str | None, str]]
) -> tuple[KernelReport, ...]:
    """The reports of all files for a target, in one run: starting one takes a second."""
    targets = []
    for file, cases in files.items():
        # One case at a time is slow to capture, all of a large file slow to compile.
        only = next(iter(cases)) if len(cases) == 1 else None
        targets.append(str(file) if only is None else f"{file}::{only}")
    archs = () if arch is None else (arch,)
    request = Request(tuple(targets), archs, passes=False, jobs=2, analysis=JUDGED)
    return collect_kept(request).kernels


def _fires(rule: Rule, kernel: KernelReport) -> bool:
    return bool(judge(Pack("one", "", (rule,), "test"), kernel).findings)


@pytest.mark.xdist_group("rule fixtures")
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
def test_rule(rule: Rule, kernels: Mapping[str, KernelReport]) -> None:
    text = rule.text
    assert len(text.explain.split()) >= 20, "a newcomer has to understand it"
    assert text.fix
    assert text.references
    assert all(r.url.startswith("https://") and r.title for r in text.references)
    listed = LISTED.get(text.id)
    assert listed is not None, f"{text.id} has no fixtures"
    assert listed.fail, "a rule that never fires says nothing"
    assert listed.keep, "a rule that always fires says nothing"
    wrong = [name for name in listed.fail if not _fires(rule, kernels[name])]
    wrong += [name for name in listed.keep if _fires(rule, kernels[name])]
    assert not wrong


NAMING = {
    rule.text.id: rule
    for rule in RULES.values()
    if rule.text.scope in ("kernel", "loop")
    and any(name.name.endswith((".at", "_at")) for name in rule.message.names)
}
"""Rules whose messages name lines of the source."""


@pytest.mark.xdist_group("rule fixtures")
@pytest.mark.parametrize("rule", NAMING.values(), ids=NAMING.keys())
def test_findings_point_at_the_expressions_that_they_name(
    rule: Rule, kernels: Mapping[str, KernelReport]
) -> None:
    """Not at the `def` or the loop: with a column, and the instructions where there are some."""
    for fixture in LISTED[rule.text.id].fail:
        for finding in judge(Pack("one", "", (rule,), "test"), kernels[fixture]).findings:
            sources = [at for at in finding.locations if at.kind == "source"]
            named = {f"{Path(at.file or '').name}:{at.line}" for at in sources}
            names = [n.name for n in rule.message.names if n.name.endswith((".at", "_at"))]
            lines = {line for name in names if (line := finding.evidence.get(name)) is not None}
            assert not lines or named & lines, (fixture, named, lines)
            assert not lines or sources[0].column, fixture


@pytest.mark.xdist_group("rule fixtures")
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
def test_every_condition_matters(rule: Rule, kernels: Mapping[str, KernelReport]) -> None:
    """With any part of its conditions taken away, a rule treats one of its fixtures differently."""
    listed = LISTED[rule.text.id]
    names = (*listed.fail, *listed.keep)
    before = [_fires(rule, kernels[name]) for name in names]
    for changed, what in _weakened(rule):
        after = [_fires(changed, kernels[name]) for name in names]
        assert after != before, f"no fixture notices that {what} is gone"


def with_part(rule: Rule, **parts: object) -> Rule:
    """A rule in which some conditions are others than those that are written."""
    return replace(rule, compiled={**rule.compiled, **parts})


def _weakened(rule: Rule) -> Iterator[tuple[Rule, str]]:
    always = compile_condition("1 == 1", rule_catalogue(), rule.text.scope)
    yield with_part(rule, require=always), "`require`"
    never = compile_condition("1 == 2", rule_catalogue(), rule.text.scope)
    yield with_part(rule, require=never, untimed=None), "what `require` and `untimed` let pass"
    if rule.text.when is None:
        return
    parts = _conjuncts(" ".join(rule.text.when.split()))
    for number, part in enumerate(parts):
        rest = " and ".join(f"({p})" for n, p in enumerate(parts) if n != number)
        when = compile_condition(rest, rule_catalogue(), rule.text.scope) if rest else None
        yield with_part(rule, when=when), f"`{part}`"


def _conjuncts(text: str) -> list[str]:
    tree = ast.parse(text, mode="eval").body
    if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And):
        return [ast.get_source_segment(text, value) or "" for value in tree.values]
    return [text]


def test_only_known_rules_have_fixtures() -> None:
    assert LISTED.keys() <= RULES.keys()
