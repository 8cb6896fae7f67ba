"""Known findings: told from new ones by count, kept in a file that is never half there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.lint import baseline as baselines
from kinspect.inspector.lint.baseline import EMPTY, Baseline, BaselineEntry, compare, updated
from kinspect.inspector.lint.lint_results import CheckedKernel
from kinspect.inspector.lint.packs import parse_pack
from kinspect.inspector.lint.worsening import SAVING, WeighedFigure, figures_of
from kinspect.inspector.model import Finding, Location
from kinspect.inspector.pipeline import analysis
from msgspec.structs import replace

RULES = frozenset({"R1", "R2"})


def finding(fingerprint: str, rule: str = "R1", message: str = "m") -> Finding:
    return Finding(
        rule=rule,
        severity="error",
        confidence="certain",
        message=message,
        evidence={},
        locations=(),
        fix="",
        fingerprint=fingerprint,
    )


def kernel(name: str, *found: Finding) -> CheckedKernel:
    return CheckedKernel(name, name, None, "gfx942", "k.s", "k.s", None, None, found)


def known(*entries: BaselineEntry) -> Baseline:
    return Baseline({e.fingerprint: e for e in entries})


def entry(fingerprint: str, count: int = 1, kernel: str = "k", rule: str = "R1") -> BaselineEntry:
    return BaselineEntry(kernel, rule, "m", fingerprint, count)


def test_findings_of_one_fingerprint_are_counted() -> None:
    found = kernel("k", *(finding("a", message=str(n)) for n in range(3)), finding("b"))
    compared = compare(known(entry("a", 2), entry("b", 3)), [found], RULES)
    (one,) = compared.kernels
    assert [f.message for f in one.known] == ["0", "1", "m"]
    assert [f.message for f in one.findings] == ["2"]
    assert compared.gone == (entry("b", 2),)
    assert compared.unchecked == 0


def test_what_was_not_looked_at_has_not_gone() -> None:
    there = known(entry("a"), entry("b", kernel="other"), entry("c", rule="R9"))
    compared = compare(there, [kernel("k")], RULES)
    assert compared.gone == (entry("a"),)
    assert compared.unchecked == 2
    assert set(updated(there, compared).entries) == {"b", "c"}


def test_an_update_takes_in_and_takes_out() -> None:
    there = known(entry("a", 3), entry("b"))
    found = kernel("k", finding("a", message="new figures"), finding("c"), finding("c"))
    made = updated(there, compare(there, [found], RULES))
    assert made.entries == {
        "a": BaselineEntry("k", "R1", "new figures", "a", 1),
        "c": BaselineEntry("k", "R1", "m", "c", 2),
    }


def weighed(one: CheckedKernel, **values: float) -> CheckedKernel:
    """The kernel, all of its findings with these figures, of which more is worse."""
    figures = tuple(WeighedFigure(name, value, "us", True) for name, value in values.items())
    return replace(one, figures={f.fingerprint: figures for f in one.findings})


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({"t": 36.7}, {"t": 351.0}, "m (was 36.7 us, now 351 us)"),
        ({"t": 100.0}, {"t": 105.0}, ""),
        ({"t": 100.0}, {"t": 50.0}, ""),
        ({"t": 1.0, "u": 1.0}, {"t": 1.0, "u": 2.0}, "m (u was 1 us, now 2 us)"),
        ({"t": 1.0, SAVING: 3.0}, {"t": 9.0, SAVING: 3.1}, ""),
        ({"t": 1.0, SAVING: 3.0}, {"t": 1.0, SAVING: 4.0}, "m (its cure saved 3 us, now 4 us)"),
        ({"t": 1.0}, {"t": 2.0, SAVING: 4.0}, "m (was 1 us, now 2 us)"),
        ({}, {"t": 351.0}, ""),  # the baseline of an earlier version
    ],
)
def test_what_got_worse_is_new(
    before: dict[str, float], after: dict[str, float], said: str
) -> None:
    there = updated(EMPTY, compare(EMPTY, [weighed(kernel("k", finding("a")), **before)], RULES))
    found = weighed(kernel("k", finding("a")), **after)
    compared = compare(there, [found], RULES)
    (one,) = compared.kernels
    assert [f.message for f in one.findings] == ([said] if said else [])
    assert (len(one.known), compared.gone, compared.worse) == (not said, (), bool(said))
    accepted = updated(there, compared)
    assert accepted.entries["a"] == BaselineEntry("k", "R1", "m", "a", 1, after)
    assert not compare(accepted, [found], RULES).kernels[0].findings


def specialised(digit: str, *prints: str, line: str = "x = load()") -> CheckedKernel:
    anchor = Location("source", "k.py", 3, line)
    found = [replace(finding(each), anchor=anchor) for each in prints]
    return weighed(kernel(f"k.py::k@gfx942#{digit * 12}", *found), t=1.0)


def test_options_of_the_launch_are_no_part_of_what_is_known() -> None:
    there = updated(EMPTY, compare(EMPTY, [specialised("1", "a", "b")], RULES))
    compared = compare(there, [specialised("2", "c", "d")], RULES)
    (one,) = compared.kernels
    assert (len(one.known), one.findings, compared.unchecked) == (2, (), 0)
    assert set(updated(there, compared).entries) == {"c", "d"}
    # Of two specialisations nobody knows which it is; and another line is something else.
    two = compare(there, [specialised("2", "c"), specialised("3", "d")], RULES)
    assert not any(k.known for k in two.kernels)
    assert two.unchecked == 2
    assert not compare(there, [specialised("2", "c", line="y")], RULES).kernels[0].known
    # The one that is still there keeps its own.
    both = compare(there, [specialised("1", "a", "b"), specialised("2", "c")], RULES)
    assert [len(k.known) for k in both.kernels] == [2, 0]


@pytest.mark.parametrize(
    ("require", "found"),
    [
        ("vgpr_count <= 48", {"vgpr_count": True}),
        ("48 >= vgpr_count", {"vgpr_count": True}),
        ("occupancy.waves_per_eu >= 2", {"occupancy.waves_per_eu": False}),
        (
            "vgpr_spill_count + sgpr_spill_count == 0",
            {"vgpr_spill_count": True, "sgpr_spill_count": True},
        ),
        ("not vgpr_count > 3", {"vgpr_count": True}),
        ("vgpr_count - sgpr_count < 8", {"vgpr_count": True, "sgpr_count": False}),
        ("vgpr_count < 9 or vgpr_count > 11", {}),
        ("vgpr_spill_count <= 0.01 * instruction_count", {"vgpr_spill_count": True}),
        ("vgpr_count == 32", {}),
    ],
)
def test_the_direction_of_a_figure_follows_from_its_condition(
    require: str, found: dict[str, bool]
) -> None:
    text = {**RULE, "require": require}
    pack = json.dumps({"pack": "p", "rules": [text]})
    (rule,) = parse_pack(pack, "p", analysis.catalogue()).rules
    evidence = {name.name: 50 for name in rule.names}
    figures = figures_of(replace(finding("a"), evidence=evidence), rule, None)
    assert {figure.name: figure.rises for figure in figures} == found


RULE = {"id": "R1", "name": "n", "severity": "error", "scope": "kernel", "message": "m"}


PRINTS = st.lists(st.sampled_from("abcd"), max_size=8)


@given(PRINTS, st.lists(st.tuples(st.sampled_from(["k", "l"]), PRINTS), max_size=3))
def test_against_counting_by_hand(before: list[str], run: list[tuple[str, list[str]]]) -> None:
    """New, known and gone as multisets; and after an update nothing is new or gone."""
    names = dict.fromkeys(before)
    there = known(*(entry(name, before.count(name)) for name in names))
    kernels = [kernel(name, *map(finding, prints)) for name, prints in run]
    seen = any(name == "k" for name, _ in run)
    compared = compare(there, kernels, RULES)
    found = [p for _, prints in run for p in prints]
    for name in "abcd":
        new = sum(f.fingerprint == name for k in compared.kernels for f in k.findings)
        old = sum(f.fingerprint == name for k in compared.kernels for f in k.known)
        gone = sum(e.count for e in compared.gone if e.fingerprint == name)
        assert old == min(found.count(name), before.count(name))
        assert new == found.count(name) - old
        assert gone == (max(0, before.count(name) - found.count(name)) if seen else 0)
    again = compare(updated(there, compared), kernels, RULES)
    assert not any(k.findings for k in again.kernels)
    if seen:
        assert not again.gone


# --------------------------------------------------------------------------- the file


def test_the_file_is_sorted_with_a_line_for_each_entry(tmp_path: Path) -> None:
    path = tmp_path / "known.json"
    entries = [entry("z", 2), entry("a", kernel="b"), entry("y", rule="R0")]
    entries[0] = replace(entries[0], figures={"vgpr_count": 60, "time.us": 36.7}, line="x = 1")
    baselines.write(known(*entries), path)
    lines = path.read_text().splitlines()
    assert [json.loads(line.strip(" ,"))["fingerprint"] for line in lines[3:-2]] == ["a", "y", "z"]
    assert baselines.read(path) == known(*entries)
    baselines.write(known(*reversed(entries)), path)
    assert path.read_text().splitlines() == lines
    baselines.write(EMPTY, path)
    assert baselines.read(path) == EMPTY


def test_both_sides_of_a_merge_count_once() -> None:
    line = '{"kernel": "k", "rule": "R", "message": "m", "fingerprint": "a", "count": %d}'
    text = f'{{"schema_version": 1, "findings": [{line % 2}, {line % 3}, {line % 1}]}}'
    assert baselines.parse(text, "x").entries["a"].count == 3


def test_unknown_keys_of_the_same_version_are_left_alone() -> None:
    line = {"kernel": "k", "rule": "R", "message": "m", "fingerprint": "a", "count": 1, "since": 3}
    text = json.dumps({"schema_version": 1, "findings": [line], "by": "us"})
    assert set(baselines.parse(text, "x").entries) == {"a"}


GOOD = {"kernel": "k", "rule": "R", "message": "m", "fingerprint": "a", "count": 1}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ('{"schema_version": 1, "findings": [', "not valid JSON"),
        ("[]", "not a baseline"),
        ('{"schema_version": 2, "findings": []}', "schema version 2; this kinspect knows 1"),
        ('{"schema_version": "1", "findings": []}', "not a baseline"),
        ('{"schema_version": 1}', "not a baseline"),
        ('{"schema_version": 1, "kernels": []}', "not a baseline"),  # a report
        ('{"schema_version": 1, "findings": [3]}', "finding 1: Expected `object`, got `int`"),
        ('{"schema_version": 1, "findings": [{"\\ud800": 1}]}', "finding 1: "),  # half a surrogate
        *(
            (json.dumps({"schema_version": 1, "findings": [GOOD, {**GOOD, **bad}]}), said)
            for bad, said in (
                ({"count": 0}, "finding 2: Expected `int` >= 1 - at `$.count`"),
                ({"count": True}, "finding 2: Expected `int`, got `bool` - at `$.count`"),
                ({"count": 1.5}, "finding 2: Expected `int`"),
                ({"rule": None}, "got `null` - at `$.rule`"),
                ({"figures": [1]}, "got `array` - at `$.figures`"),
                ({"figures": {"time.us": "9"}}, "got `str` - at `$.figures[...]`"),
                ({"line": 3}, "got `int` - at `$.line`"),
                ({"fingerprint": ""}, "length >= 1 - at `$.fingerprint`"),
            )
        ),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "known.json"
    path.write_text(text)
    with pytest.raises(KinspectError) as raised:
        baselines.read(path)
    assert said in raised.value.message
    assert str(path) in raised.value.message
    assert raised.value.hint


def test_a_missing_or_unreadable_file(tmp_path: Path) -> None:
    with pytest.raises(KinspectError, match="no such baseline; write the first one with --update"):
        baselines.read(tmp_path / "none.json")
    with pytest.raises(KinspectError, match="cannot be read"):
        baselines.read(tmp_path)


def test_a_write_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "known.json"
    baselines.write(known(entry("a")), path)
    before = path.read_text()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", full)
        with pytest.raises(KinspectError, match="No space left"):
            baselines.write(known(entry("b")), path)
    assert path.read_text() == before
    assert [p.name for p in tmp_path.iterdir()] == ["known.json"]
    with pytest.raises(KinspectError, match="cannot be written"):
        baselines.write(EMPTY, tmp_path / "no" / "known.json")


def test_the_rest_of_a_kernel_is_left_as_it_was() -> None:
    one = replace(kernel("k", finding("a")), case="c", artifact="k.s")
    (after,) = compare(EMPTY, [one], RULES).kernels
    assert after == one
