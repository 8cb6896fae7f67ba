"""Packs as files: what they take over from each other, hostile and damaged text, their schema."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.isa.mnemonics import CLASSES
from kinspect.inspector.isa.waitflow.counters import COUNTERS
from kinspect.inspector.lint.catalogue import ENGINE_VALUES, Catalogue
from kinspect.inspector.lint.pack_reader import Reader
from kinspect.inspector.lint.pack_yaml import MAX_BYTES, MAX_DEPTH, compose
from kinspect.inspector.lint.packs import (
    DEFAULT_PACK,
    PackError,
    bundled_packs,
    load_named,
    load_pack,
    load_packs,
    parse_pack,
)
from kinspect.inspector.lint.packschema import pack_schema
from kinspect.inspector.lint.rule import COMPILERS, RuleText
from kinspect.inspector.metrics.catalogue import specs

ROOT = Path(__file__).parent.parent
CATALOGUE = Catalogue.of(specs(), [*CLASSES, *COUNTERS])


def rule(rule_id: str = "T001", **changes: str) -> str:
    fields = {
        "id": rule_id,
        "name": "a-rule",
        "severity": "info",
        "scope": "kernel",
        "require": "vgpr_count < 100",
        "message": "many",
    } | changes
    return "  - " + "\n    ".join(f"{key}: {value}" for key, value in fields.items()) + "\n"


def pack(*rules: str, head: str = "") -> str:
    return head + ("rules:\n" + "".join(rules) if rules else "")


def faults(path: Path) -> list[str]:
    """Without the folder, for brevity."""
    with pytest.raises(PackError) as caught:
        load_pack(path, CATALOGUE)
    assert caught.value.exit_code == 2
    assert caught.value.hint
    return [str(fault).replace(f"{path.parent}/", "") for fault in caught.value.faults]


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write(**files: str) -> Path:
        for name, text in files.items():
            (tmp_path / f"{name}.yaml").write_text(text)
        return tmp_path / "mine.yaml"

    return write


# --------------------------------------------------------------------------- extends and override


def test_rules_of_other_packs_come_first(write: Any) -> None:
    path = write(
        base=pack(rule("B1"), rule("B2"), head="pack: base\n"),
        mine=pack(rule("M1"), head="extends: base.yaml\n"),
    )
    found = load_pack(path, CATALOGUE)
    assert [r.text.id for r in found.rules] == ["B1", "B2", "M1"]
    assert [r.pack for r in found.rules] == ["base", "base", "mine"]
    assert found.rules[0].file.endswith("base.yaml")
    assert (found.rules[1].line, found.rules[2].line) == (9, 3)


def test_a_bundled_pack_by_name_and_nothing_else(write: Any) -> None:
    found = load_pack(write(mine="extends: recommended\n"), CATALOGUE)
    assert [r.text for r in found.rules] == [
        r.text for r in load_named(DEFAULT_PACK, CATALOGUE).rules
    ]


def test_rules_name_documents_of_their_pack(write: Any) -> None:
    head = "documents: {isa: {title: The ISA, url: https://example.org}}\n"
    rules = rule("R1", references="[isa, {title: t, url: u}]"), rule("R2", references="[isaa]")
    (found,) = load_pack(write(mine=pack(rules[0], head=head)), CATALOGUE).rules
    assert [reference.title for reference in found.text.references] == ["The ISA", "t"]
    (fault,) = faults(write(mine=pack(*rules, head=head)))
    assert fault.endswith("or a name in the pack's documents (did you mean isa?)")


def test_overrides_change_and_leave_out(write: Any) -> None:
    path = write(
        base=pack(rule("B1"), rule("B2"), rule("B3")),
        mine=pack(
            rule("M1"),
            head="extends: [base.yaml]\noverride:\n"
            "  B1: {severity: error}\n  B2: {enabled: false}\n  B3: {confidence: possible}\n",
        ),
    )
    rules = {r.text.id: r.text for r in load_pack(path, CATALOGUE).rules}
    assert list(rules) == ["B1", "B3", "M1"]
    assert (rules["B1"].severity, rules["B1"].confidence) == ("error", "certain")
    assert (rules["B3"].severity, rules["B3"].confidence) == ("info", "possible")
    base = load_pack(path.parent / "base.yaml", CATALOGUE)
    assert base.rules[0].text.severity == "info"


def test_a_pack_that_is_reached_by_two_ways_counts_once(write: Any) -> None:
    path = write(
        base=pack(rule("B1"), rule("B2")),
        strict=pack(rule("S1"), head="extends: base.yaml\noverride: {B1: {severity: error}}\n"),
        mine=pack(rule("M1"), head="extends: [base.yaml, strict.yaml]\n"),
    )
    found = load_pack(path, CATALOGUE).rules
    assert [(r.text.id, r.text.severity) for r in found] == [
        ("B1", "error"),
        ("B2", "info"),
        ("S1", "info"),
        ("M1", "info"),
    ]


def test_paths_start_from_the_file_that_names_them(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / "a" / "mine.yaml").write_text("extends: ../b/base.yaml\n")
    (tmp_path / "b" / "base.yaml").write_text("extends: other.yaml\n")
    (tmp_path / "b" / "other.yaml").write_text(pack(rule("O1")))
    found = load_pack(tmp_path / "a" / "mine.yaml", CATALOGUE)
    assert [r.text.id for r in found.rules] == ["O1"]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"mine": "extends: mine.yaml\n"}, ["mine.yaml:1:10: the pack extends itself: mine.yaml"]),
        (
            {"mine": "extends: a.yaml\n", "a": "extends: [b.yaml]\n", "b": "extends: a.yaml\n"},
            ["b.yaml:1:10: the pack extends itself: a.yaml → b.yaml → a.yaml"],
        ),
        (
            {"mine": "extends: recomended\n"},
            ["mine.yaml:1:10: no rule pack recomended (did you mean recommended?)"],
        ),
        (
            {"mine": "extends: [recommended, none.yaml]\n"},
            ["mine.yaml:1:24: no rule pack none.yaml: neither a file nor one of"],
        ),
        (
            {"mine": "extends: recommended\noverride: {KI01: {severity: info}}\n"},
            ["mine.yaml:2:12: no rule KI01 in the packs that this one extends (did you mean KI"],
        ),
        (
            {"mine": pack(rule("M1"), head="override: {M1: {severity: info}}\n")},
            ["mine.yaml:1:12: M1 is a rule of this very pack"],
        ),
        (
            {"mine": "extends: recommended\noverride: {KI001: {severty: info}}\n"},
            ["mine.yaml:2:20: unknown key severty (did you mean severity?)"],
        ),
        (
            {"mine": "extends: recommended\noverride:\n  KI001: {}\n  KI001: {}\n"},
            ["mine.yaml:4:3: `KI001` stands here twice"],
        ),
        (
            {"mine": "extends: recommended\noverride: {KI001: {severity: fatal, enabled: 1}}\n"},
            [
                "mine.yaml:2:30: Invalid enum value 'fatal'",
                "mine.yaml:2:46: Expected `bool`, got `int`",
            ],
        ),
        (
            {"mine": "extends: recommended\noverride: [KI001]\n"},
            ["mine.yaml:2:11: override is a mapping"],
        ),
        ({"mine": f"extends: {'x' * 5000}\n"}, ["mine.yaml:1:10: no rule pack xxx"]),
        ({"mine": "extends: ~nobody-of-that-name/x\n"}, ["mine.yaml:1:10: no rule pack ~nobody"]),
        ({"mine": "extends: .\n"}, ["mine.yaml:1:10: cannot read rule pack"]),
        ({"mine": 'extends: ""\n'}, ["mine.yaml:1:10: cannot read rule pack"]),
        ({"mine": 'extends: "a\\0b"\n'}, ["mine.yaml:1:10: no rule pack a"]),
        (  # what none.yaml would have held is not known
            {"mine": "extends: [recommended, none.yaml]\noverride: {X1: {enabled: false}}\n"},
            ["mine.yaml:1:24: no rule pack none.yaml"],
        ),
        ({"mine": "extends: [5]\n"}, ["mine.yaml:1:11: Expected `str`, got `int`"]),
        (
            {"mine": pack(rule("KI001"), head="extends: recommended\n")},
            ["mine.yaml:3:5: id KI001 is taken by rules/recommended.yaml:"],
        ),
        (
            {
                "a": pack(rule("A1")),
                "b": pack(rule("A1")),
                "mine": "extends: [a.yaml, b.yaml]\n",
            },
            ["mine.yaml:1:19: b.yaml:2: id A1 is taken by a.yaml:2"],
        ),
        (  # the faults of both files, those of the other one first
            {
                "base": pack(rule("B1", require="vgpr_cuont < 3")),
                "mine": pack(rule("M1", tags="[Memory]"), head="extends: base.yaml\n"),
            },
            [
                "base.yaml:6:14: unknown metric vgpr_cuont (did you mean vgpr_count?)",
                "mine.yaml:9:11: a tag is a word in small letters, not 'Memory'",
            ],
        ),
    ],
)
def test_faults_of_joined_packs(write: Any, files: dict[str, str], expected: list[str]) -> None:
    found = faults(write(**files))
    assert len(found) == len(expected), found
    for got, wanted in zip(found, expected, strict=True):
        assert got.startswith(wanted)


def test_rules_on_one_line_have_ids_of_their_own(write: Any) -> None:
    one = "{id: A, name: a, severity: info, scope: kernel, require: empty, message: m}"
    path = write(mine=f"[{one}, {one}]\n")
    assert faults(path) == [f"mine.yaml:1:{len(one) + 4}: id A is taken by line 1"]


def test_several_packs_are_read_together(write: Any) -> None:
    path = write(mine=pack(rule("M1"), head="extends: recommended\n"))
    names = [*bundled_packs(), str(path)]
    packs = load_packs(names, CATALOGUE)
    assert len(packs) == len(names)
    assert packs[0].name == "recommended"
    assert packs[-1].rules[-1].text.id == "M1"
    assert packs[-1].rules[0] is packs[0].rules[0]
    (path.parent / "a.yaml").write_text("rules: 5\n")
    (path.parent / "b.yaml").write_text("rules: [x]\n")
    with pytest.raises(PackError) as caught:
        load_packs([str(path.parent / f"{n}.yaml") for n in "ab"], CATALOGUE)
    assert len(caught.value.faults) == 2


def test_names_before_paths(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(mine=pack(rule("M1")), recommended=pack(rule("X1")))
    monkeypatch.chdir(path.parent)
    assert "X1" not in {r.text.id for r in load_named("recommended", CATALOGUE).rules}
    assert load_named("recommended.yaml", CATALOGUE).rules[0].text.id == "X1"
    assert load_named("mine.yaml", CATALOGUE).name == "mine"
    with pytest.raises(KinspectError, match=r"no rule pack recommende \(did you mean recommended"):
        load_named("recommende", CATALOGUE)


def test_errors_travel_between_processes(write: Any) -> None:
    with pytest.raises(PackError) as caught:
        load_pack(write(mine="rules: 5\n"), CATALOGUE)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.faults, str(again)) == (caught.value.faults, str(caught.value))


# --------------------------------------------------------------------------- hostile text


def fault(text: str) -> str:
    with pytest.raises(PackError) as caught:
        parse_pack(text, "t.yaml", CATALOGUE)
    return str(caught.value.faults[0])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: &x [1]\nb: *x\n", "t.yaml:1:4: anchors and aliases"),
        ("rules: *x\n", "t.yaml:1:8: anchors and aliases"),
        ("a: &a [1]\nb: &b [*a, *a, *a, *a]\n", "t.yaml:1:4: anchors and aliases"),
        ("? &k a\n: 1\n", "t.yaml:1:3: anchors and aliases"),
        (
            "rules: !!python/object/apply:os.system [x]\n",
            "t.yaml:1:8: the tag tag:yaml.org,2002:py",
        ),
        ("rules: !mine []\n", "t.yaml:1:8: the tag !mine has no meaning"),
        ("pack: !!binary aGk=\n", "t.yaml:1:7: the tag tag:yaml.org,2002:binary"),
        ("pack: !!bool maybe\nrules: []\n", "t.yaml:1:7: the value is not what its tag says"),
        ("pack: !!int ''\nrules: []\n", "t.yaml:1:7: the value is not what its tag says"),
        ("rules: []\n---\nrules: []\n", "t.yaml:2:1: a second document starts here"),
        ("--- a\n...\n--- b\n", "t.yaml:3:1: a second document starts here"),
        ("rules:\n  - \0\n", "t.yaml:2:5: character U+0000 has no place"),
        ("rules: \ud800\n", "t.yaml:1:8: character U+D800 has no place"),
        ("rules: \x1b[31m\n", "t.yaml:1:8: character U+001B has no place"),
        ("rules: []\nrules: []\n", "t.yaml:2:1: `rules` stands here twice"),
        ("rules: []\n5: x\n", "t.yaml:2:1: unknown key 5"),
        ("rules: []\n? {a: b}\n: x\n", "t.yaml:2:3: unknown key None"),
        ("rules: []\n<<: {a: b}\n", "t.yaml:2:1: unknown key <<"),
        ("", "t.yaml:1:1: a pack is a mapping with `rules:`"),
        ("# nothing\n", "t.yaml:1:1: a pack is a mapping with `rules:`"),
        ("~", "t.yaml:1:1: a pack is a mapping with `rules:`"),
        ("x" * (MAX_BYTES + 1), "t.yaml:1:1: longer than"),
        ("[" * (MAX_DEPTH + 1), f"t.yaml:1:{MAX_DEPTH + 1}: nested more than {MAX_DEPTH} deep"),
        ("- " * (MAX_DEPTH + 1), f"t.yaml:1:{2 * MAX_DEPTH + 1}: nested more than"),
        ("rules: [1,\n  'ü', }\n", "t.yaml:2:8: "),
    ],
)
def test_what_a_pack_may_not_hold(text: str, expected: str) -> None:
    assert fault(text).startswith(expected)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"rules:\n  - \xff\n", "mine.yaml:2:5: not text in UTF-8"),
        (b"\xff\xfer\x00", "mine.yaml:1:1: not text in UTF-8"),
        (b" " * (MAX_BYTES + 1), "larger than"),
    ],
)
def test_files_that_are_no_text(tmp_path: Path, data: bytes, expected: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(data)
    with pytest.raises(KinspectError, match="cannot read rule pack") as caught:
        load_pack(path, CATALOGUE)
    assert expected in caught.value.message
    assert caught.value.hint


def test_line_ends_and_byte_order_marks_do_not_matter(tmp_path: Path) -> None:
    text = pack(rule("M1", require="vgpr_cuont < 3"))
    path = tmp_path / "mine.yaml"
    places = []
    for data in (text, "\ufeff" + text, text.replace("\n", "\r\n")):
        path.write_bytes(data.encode())
        places.append(faults(path))
    assert places[0] == places[1] == places[2]


@pytest.mark.parametrize("opening", ["[", "- ", "{a: ", "? ", "[{a: "])
def test_deep_nesting_does_not_end_the_process(opening: str, tmp_path: Path) -> None:
    path = tmp_path / "deep.yaml"
    path.write_text(opening * 100_000)
    code = (
        "import sys; from pathlib import Path\n"
        "from kinspect.inspector.lint.packs import PackError, load_pack\n"
        "try: load_pack(Path(sys.argv[1]), {})\n"
        "except PackError as error: print(error.faults[0].message)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout.strip()) == (0, f"nested more than {MAX_DEPTH} deep")


def nodes(node: yaml.Node) -> Any:
    """A tree as plain values with the places of its nodes."""
    at = (node.tag, node.start_mark.index, node.end_mark.index)
    if isinstance(node, yaml.ScalarNode):
        return (*at, node.value)
    if isinstance(node, yaml.MappingNode):
        return (*at, [(nodes(key), nodes(value)) for key, value in node.value])
    return (*at, [nodes(item) for item in node.value])


@pytest.mark.parametrize("name", bundled_packs())
def test_the_tree_is_pyyamls(name: str) -> None:
    text = (ROOT / "rules" / f"{name}.yaml").read_text()
    tree = compose(text)
    assert tree is not None
    assert nodes(tree) == nodes(yaml.compose(text, Loader=yaml.SafeLoader))


@pytest.mark.parametrize("name", bundled_packs())
def test_bundled_packs_have_no_fault(name: str) -> None:
    """They are read without the checks that other packs get."""
    text = (ROOT / "rules" / f"{name}.yaml").read_text()
    reader = Reader(text, name, Catalogue.of(specs(), [*CLASSES, *COUNTERS]))
    checked = reader.pack()
    assert checked is not None
    assert not reader.faults
    trusted = Reader(text, name, Catalogue.of(specs(), [*CLASSES, *COUNTERS]), trusted=True).pack()
    assert trusted is not None
    for (one, _), (other, _) in zip(checked.rules, trusted.rules, strict=True):
        assert one.text == other.text
        assert one.line == other.line
        for part in COMPILERS:
            assert getattr(one, part) == getattr(other, part)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=12,
)


@given(VALUES, st.booleans())
def test_the_tree_of_any_document_is_pyyamls(value: object, flow: bool) -> None:
    text = yaml.safe_dump(value, default_flow_style=flow)
    tree = compose(text)
    assert tree is not None
    assert nodes(tree) == nodes(yaml.compose(text, Loader=yaml.SafeLoader))


SAMPLE = pack(
    rule("F1", when="not empty", references="[{title: t, url: u}]", tags="[memory]"),
    rule(
        "F2",
        scope="instruction",
        require="op.bits >= 64 and access.limited_by != 'mask'",
        message='"{matches} × {op.mnemonic}"',
        fix="'{access.fix}'",
        cause="narrow",
        removes="{what: wide accesses, part: op.bits / 128}",
    ),
    rule("F3", scope="wait", require=">-\n      wait.slack > 3\n      or wait.full"),
    head="pack: sample\ndescription: some\nextends: recommended\n"
    "override: {KI001: {severity: info}}\n",
)
PIECES = st.sampled_from(
    ["{", "}", "[", "]", ":", "- ", "\n", "  ", "'", '"', "&a", "*a", "!!int ", "!x ", "|", ">",
     "\0", "\t", "#", "?", ",", "---\n", "%", "null", "1e999", "2020-13-45", "1_0:9", "\ud800",
     "🙂", "extends: ", "<<: ", "=", "op.", "matches", "kernel.", "()", "\\", "or ", "not "]
)  # fmt: skip
EDITS = st.lists(
    st.tuples(st.integers(0, len(SAMPLE)), st.integers(0, 12), PIECES | st.text(max_size=3)),
    min_size=1,
    max_size=6,
)


@settings(max_examples=400, deadline=None)
@given(EDITS)
def test_damaged_packs_are_refused_or_read(edits: list[tuple[int, int, str]]) -> None:
    text = SAMPLE
    for at, length, piece in edits:
        text = text[:at] + piece + text[at + length :]
    error = None
    try:
        parse_pack(text, "t.yaml", CATALOGUE)
    except KinspectError as raised:
        error = raised
    if error is not None:
        assert isinstance(error, PackError)
        lines = text.split("\n")
        for at in error.faults:
            if at.file == "t.yaml":
                assert 1 <= at.line <= len(lines)
                assert 1 <= at.column <= len(lines[at.line - 1]) + 2


def test_the_sample_is_sound() -> None:
    assert [r.text.id for r in parse_pack(SAMPLE, "t.yaml", CATALOGUE).rules][-3:] == [
        "F1",
        "F2",
        "F3",
    ]


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60) | st.binary(max_size=60))
def test_any_file_is_refused_or_read(tmp_path_factory: Any, data: str | bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass"))
    error = None
    try:
        load_pack(path, CATALOGUE)
    except KinspectError as raised:
        error = raised
    assert error is None or error.hint


# --------------------------------------------------------------------------- schema


def test_the_schema_that_ships_is_the_one_that_is_made() -> None:
    assert json.loads((ROOT / "rules" / "pack.schema.json").read_text()) == pack_schema()


@pytest.mark.parametrize("name", bundled_packs())
def test_bundled_packs_fit_the_schema(name: str) -> None:
    schema = pack_schema()
    jsonschema.Draft7Validator.check_schema(schema)
    text = (ROOT / "rules" / f"{name}.yaml").read_text()
    jsonschema.Draft7Validator(schema).validate(yaml.safe_load(text))


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        (SAMPLE, True),
        ("extends: recommended\n", True),
        (yaml.safe_dump(yaml.safe_load(SAMPLE)["rules"]), True),
        ("pack: x\n", False),
        ("extends: 5\n", False),
        ("rules: []\nrulez: []\n", False),
        (pack(rule("bad id")), False),
        (pack(rule(severity="fatal")), False),
        (pack(rule(scope="loops")), False),
        (pack(rule(hot_only="true")), False),
        (pack(rule(removes="vector", cause="slow loads")), True),
        (pack(rule(removes="vectors")), False),
        (pack(rule(removes="{what: vector, part: 0.5}")), True),
        (pack(rule(removes="{what: vector, part: 0}")), False),
        (pack(rule(removes="{part: 0.5}")), False),
        (pack(rule(removes="{what: vector, of: 0.5}")), False),
        (pack(rule(cured_together="true", scope="kernel")), False),
        (pack(rule(cured_together="true", scope="loop", require="count.mfma > 0")), True),
        (pack(rule(tags="[Memory]")), False),
        (pack(rule(tags="[memory]")), True),
        (pack(rule(references="[{title: x}]")), False),
        ("rules:\n  - {id: A, name: b}\n", False),
        ("extends: recommended\noverride: {KI001: {severity: info}}\n", True),
        ("extends: recommended\noverride: {KI001: {level: info}}\n", False),
        ("rules: 5\n", False),
        ("5", False),
    ],
)
def test_schema_and_loader_agree(text: str, fits: bool) -> None:
    assert jsonschema.Draft7Validator(pack_schema()).is_valid(yaml.safe_load(text)) is fits
    loaded = True
    try:
        parse_pack(text, "t.yaml", CATALOGUE)
    except PackError:
        loaded = False
    assert loaded is fits


def test_the_examples_of_the_readme_load(write: Any) -> None:
    examples = re.findall(r"```yaml\n(.*?)```", (ROOT / "rules" / "README.md").read_text(), re.S)
    packs = [load_pack(write(mine=text), CATALOGUE) for text in examples]
    assert [len(p.rules) > 0 for p in packs] == [True, True]
    scopes = {r.text.scope for p in packs for r in p.rules}
    assert scopes == {"kernel", "loop", "instruction", "wait"}


def test_the_readme_names_what_rules_can_read() -> None:
    text = (ROOT / "rules" / "README.md").read_text()
    named = set(re.findall(r"`((?:op|access|wait)\.\w+)`", text))
    known = {s.name for s in ENGINE_VALUES if s.scope in ("instruction", "wait")} - {
        "matches",
        "wider",
    }
    assert named == known
    keys = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", text, re.M))))
    assert set(RuleText.__struct_fields__) <= keys


@pytest.mark.parametrize(
    "text",
    [
        "root:*:19000:0:99999:7:::\nhunter2:$6$hunter3:19000:0:99999:7:::\n",
        "hunter2:hunter3:\nhunter4:\n",
        'API_KEY=hunter2\nOTHER: "hunter3\n',
        "password: hunter2\nitems:\n - hunter3\n",
        "- hunter2\n- {name: hunter3}\n- {severity: hunter4, when: hunter5 > 2}\n",
        "password: !hunter2 x\n",
        "password: &hunter2 x\n",
        "rules:\n- apiGroups: [hunter2]\n  severity: hunter3\n  hunter4: x\n",
        "{hunter2: hunter3}\n",
        "hunter2\x1b[0m: x\n",
    ],
)
@pytest.mark.parametrize("how", ["extends: [{}]\n", "pack: mine\nextends: {}\nrules: []\n"])
def test_what_is_no_pack_is_not_quoted(tmp_path: Path, text: str, how: str) -> None:
    secret, outer = tmp_path / "secret", tmp_path / "outer.yaml"
    secret.write_text(text)
    outer.write_text(how.format(secret))
    with pytest.raises(KinspectError) as caught:
        load_pack(outer, CATALOGUE)
    said = str(caught.value)
    assert re.search(rf"{secret}:[0-9]+:[0-9]+: \w", said)
    assert "hunter" not in said
