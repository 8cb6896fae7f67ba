"""Comments that leave findings out: only real ones, with the lines that they speak of."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kinspect.inspector.lint.lint_results import Suppression
from kinspect.inspector.lint.suppress import (
    NO_MARKS,
    Coverage,
    Marks,
    in_assembly,
    in_python,
    in_text,
    match,
    unused,
)


def spoken(marks: Marks) -> list[tuple[int, tuple[str, ...], int, int]]:
    """Each comment's line, its rules, and the lines it speaks of."""
    return [
        (c.suppression.line, c.suppression.rules, c.first, c.last)
        for c in marks.comments
        if c.suppression.scope == "line"
    ]


PYTHON = '''\
"""Text: # kinspect: ignore[IN_A_STRING] is none."""
import tl  # kinspect: ignore[A1]
# kinspect: ignore[B1] the reason
# an ordinary comment between
x = tl.load(
    p,
    # kinspect: ignore[C1]
    mask=m,  # kinspect: ignore[D1, wide-name]
)
# kinspect: ignore[E1]

y = 1
s = "# kinspect: ignore[IN_A_STRING]"; z = f"{s} # kinspect: ignore[IN_A_STRING]"
# kinspect: call f(1)
@jit
# kinspect: ignore[F1]
def kernel(
    a,
):  # kinspect: ignore
    for k in range(3):  #kinspect:ignore[G1]
        pass
    # kinspect: ignore[H1]
'''


def test_python_comments_speak_of_their_statement() -> None:
    assert spoken(in_python(PYTHON, "k.py")) == [
        (2, ("A1",), 2, 2),
        (3, ("B1",), 5, 9),  # alone: of the statement after it, other comments between or not
        (7, ("C1",), 5, 9),
        (8, ("D1", "wide-name"), 5, 9),
        (10, ("E1",), 10, 10),  # a blank line: it speaks of nothing
        (16, ("F1",), 17, 19),
        (19, (), 17, 19),
        (20, ("G1",), 20, 20),
        (22, ("H1",), 22, 22),
    ]


def test_reason_and_scope() -> None:
    text = "# kinspect: ignore-file[A1,b-two] generated code\nx = 1  # kinspect: ignore[C] – why\n"
    file, line = in_python(text, "k.py").comments
    assert file.suppression == Suppression("k.py", 1, ("A1", "b-two"), "file", "generated code")
    assert line.suppression == Suppression("k.py", 2, ("C",), "line", "why")
    assert file.covers(999)
    assert line.covers(2)
    assert not line.covers(1)


def test_a_second_comment_on_a_line_counts() -> None:
    (one,) = in_python("x = 1  # noqa: E501  # kinspect: ignore[A1]\n", "k.py").comments
    assert one.suppression.rules == ("A1",)


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("# kinspect: ignore[KI001", "bracket"),
        ("# kinspect: ignore[]", "no rule between"),
        ("# kinspect: ignore KI001", "ignore[KI001]"),
        ("# kinspect: ignore-file KI001, KI002", "ignore-file[KI001]"),
    ],
)
def test_faulty_comments_leave_nothing_out_and_are_told(text: str, note: str) -> None:
    marks = in_python(f"x = 1  {text}\n", "k.py")
    assert not marks.comments
    (faulty,) = marks.faulty
    assert note in faulty.note


@pytest.mark.parametrize(
    "text",
    ["# kinspect: ignored", "# kinspect: call f(1)", "# ignore[A1]",
     "# kinspect ignore[A1]"],
)  # fmt: skip
def test_other_comments_are_none(text: str) -> None:
    assert in_text(f"x = 1  {text}\n", "k.py") is NO_MARKS


@pytest.mark.parametrize("word", ["ingore", "IGNORE", "ignore-files", "Ignore-file"])
def test_misspelt_ones_are_said(word: str) -> None:
    marks = in_text(f"x = 1  # kinspect: {word}[KI024] why\n", "k.py")
    assert not marks.comments
    (faulty,) = marks.faulty
    assert faulty.note.startswith(f"{word} is no word for it")


def test_functions_and_what_calls_a_kernel_as_a_whole() -> None:
    text = (
        "# kinspect: ignore[A1]\n@autotune(\n    1,\n)\n@jit\ndef kernel(a,\n           b):\n"
        "    'Docstring.'\n    return a\n\n\ndef other(): return 1\n"
    )
    marks = in_python(text, "k.py")
    assert [(s.name, s.first, s.header, s.last) for s in marks.spans] == [
        ("kernel", 2, 7, 9),
        ("other", 12, 12, 12),
    ]
    assert marks.header(9, "whatever") == (2, 3, 4, 5, 6, 7)
    assert marks.header(11, "whatever") == (11,)
    assert any(marks.comments[0].covers(n) for n in marks.header(6, "kernel"))


DAMAGED = PYTHON.replace(")\n# kinspect: ignore[E1]", "\n# kinspect: ignore[E1]")


def test_nothing_is_read_from_where_python_gives_a_file_up() -> None:
    # Python's tokenizer would take minutes for the blanks of such a file.
    text = "x = 1  # kinspect: ignore[A1]\ny = $\nz = 1  # kinspect: ignore[B1]\n"
    assert spoken(in_python(text, "k.py")) == [(1, ("A1",), 1, 1)]
    blanks = "x = 1  # kinspect: ignore[A1]\ny = (\n" + "\t" * 30_000 + "$)\n"
    assert spoken(in_python(blanks, "k.py")) == [(1, ("A1",), 1, 1)]


def test_a_damaged_file_still_says_what_can_be_read() -> None:
    with pytest.raises(SyntaxError):
        ast.parse(DAMAGED)
    marks = in_python(DAMAGED, "k.py")
    assert (2, ("A1",), 2, 2) in spoken(marks)
    assert not marks.spans
    assert in_python("x = 1 # kinspect: ignore[A]\n    y = (\n", "k.py").comments
    assert in_python("\0# kinspect: ignore[A]", "k.py") is not None


@given(st.integers(0, len(PYTHON)), st.text(alphabet="\"'()[]{}#\\\n\t\0\ufeffa:", max_size=4))
def test_no_damage_breaks_the_reader(at: int, junk: str) -> None:
    for text in (PYTHON[:at] + junk, PYTHON[:at] + junk + PYTHON[at:]):
        for marks in (in_python(text, "k.py"), in_assembly(text, "k.s")):
            assert all(c.first <= c.last for c in marks.comments)


@given(st.lists(st.sampled_from(["x = 1", "# note", "", "s = '''", "'''", "y = (", ")"])))
def test_only_what_python_itself_takes_for_a_comment_counts(lines: list[str]) -> None:
    """The witness is the parser: text that changes the tree is no comment."""
    mark = "# kinspect: ignore[A1]"
    text = "\n".join(lines) + "\n"
    try:
        before = ast.dump(ast.parse(text))
    except SyntaxError:
        return
    for number in range(len(lines)):
        changed = [line + (f" {mark}" if n == number else "") for n, line in enumerate(lines)]
        with_mark = "\n".join(changed) + "\n"
        try:
            is_comment = ast.dump(ast.parse(with_mark)) == before
        except SyntaxError:
            continue
        found = in_python(with_mark, "k.py").comments
        # `# note # kinspect: …` is one comment with ours in it
        assert [c.suppression.line for c in found] == ([number + 1] if is_comment else [])


ASSEMBLY = """\
; kinspect: ignore-file[A1]
kernel: ; @kernel  ; kinspect: ignore[B1]
\ts_nop 0 // kinspect: ignore[C1] why
\t; kinspect: ignore[D1]
\t; another
\tv_mov_b32 v0, v1
\t.ascii "; kinspect: ignore[NONE]"
/* ; kinspect: ignore[NONE]
   // kinspect: ignore[NONE] */ s_endpgm ; kinspect: ignore[E1]
\t; kinspect: ignore[F1]

\ts_nop 1 # kinspect: ignore[NONE]
other:
"""


def test_assembly_comments() -> None:
    marks = in_text(ASSEMBLY, "k.s")
    assert marks == in_assembly(ASSEMBLY, "k.s")
    assert marks.comments[0].suppression.scope == "file"
    assert spoken(marks) == [
        (2, ("B1",), 2, 3),  # beside a label: of the code after it, too
        (3, ("C1",), 3, 3),
        (4, ("D1",), 6, 6),
        (9, ("E1",), 9, 9),
        (10, ("F1",), 10, 10),
    ]
    assert marks.header(None, "kernel") == (2,)
    assert marks.header(None, "nobody") == ()
    assert marks.comments[2].suppression.reason == "why"


# --------------------------------------------------------------------------- matching

CODE = """\
@jit
def one(p):
    a = load(p)  # kinspect: ignore[KI1, second]
    b = load(p)  # kinspect: ignore
    return a


@jit
def two(p):
    return load(p)  # kinspect: ignore[KI1]
# kinspect: ignore-file[KI3]
"""
RULES = {"KI1", "first", "KI2", "second", "KI3", "third"}


def unknown(word: str) -> str | None:
    return None if word == "KI9" else f"no rule {word}"


Used = dict[str, set[tuple[int, str]]]


def left(used: Used, coverage: Coverage, *, narrowed: bool = False, code: str = CODE) -> list[str]:
    marks = in_python(code, "k.py")
    found = unused(marks, used.get("k.py", set()), coverage, RULES, unknown, narrowed=narrowed)
    return [f"{s.line} {','.join(s.rules)} {s.note}".strip() for s in found]


def test_a_finding_is_left_out_by_id_or_name_at_one_of_its_places() -> None:
    used: Used = {}
    marks = {"k.py": in_python(CODE, "k.py")}
    by = match(("KI1", "first"), [("k.py", 99), ("k.py", 3)], marks, used)
    assert by is not None
    assert by.line == 3
    assert match(("KI2", "second"), [("k.py", 3)], marks, used) is by
    assert match(("KI2", "second"), [("k.py", 10)], marks, used) is None
    assert match(("KI8", "any"), [("k.py", 4)], marks, used) is not None
    assert match(("KI3", "third"), [("k.py", 1)], marks, used) is not None
    assert match(("KI1", "first"), [("other.py", 3)], marks, used) is None
    assert left(used, Coverage(True, frozenset({3, 10}))) == ["10 KI1"]


def test_unused_ones_are_told_rule_by_rule_where_the_run_has_coverage() -> None:
    used: Used = {}
    match(("KI1", "first"), [("k.py", 3)], {"k.py": in_python(CODE, "k.py")}, used)
    everything = Coverage(True, frozenset({3, 10}))
    assert left(used, everything) == ["3 second", "4", "10 KI1", "11 KI3"]
    # A comment for all rules may be about one of those that this run leaves out.
    assert left(used, everything, narrowed=True) == ["3 second", "10 KI1", "11 KI3"]
    # Kernel `two` has not been compiled, and so not all of the file coverage at.
    assert left(used, Coverage(False, frozenset({3}))) == ["3 second", "4"]
    assert left(used, Coverage(True, frozenset({3}))) == ["3 second", "4", "11 KI3"]
    assert left(used, Coverage(False, frozenset())) == []


def test_a_comment_for_the_file_is_judged_by_the_whole_file_wherever_it_stands() -> None:
    code = "def one(p):\n    # kinspect: ignore-file[KI3]\n    return p\n"
    seen = frozenset({3})
    assert left({}, Coverage(False, seen), code=code) == []
    assert left({}, Coverage(True, frozenset()), code=code) == ["2 KI3"]


def test_names_of_no_rule_are_told_and_inactive_rules_are_not() -> None:
    code = "x = 1  # kinspect: ignore[KI9, KI77]\ny = 1  # kinspect: ignore[\n"
    told = left({}, Coverage(True, frozenset()), code=code)
    assert told == ["2  its bracket is not closed", "1 KI77 no rule KI77"]
