"""What the house promises of its own code, held against the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
WORDS = frozenset(("note", "notes", "message", "hint", "why", "fix", "unit", "title", "format"))
"""Fields of the model that are written for people."""
_NAMES_OF_PROSE = frozenset(("note",))
"""Variables that hold such a field."""
TESTS_OF_TEXT = frozenset(
    ("startswith", "endswith", "partition", "rpartition", "find", "index", "removeprefix")
)
SPLITTERS = frozenset(("split", "rsplit", "splitlines"))
MATCHERS = frozenset(("match", "search", "fullmatch", "findall"))


def modules() -> Iterator[Path]:
    for room in ("inspector", "tui"):
        for path in sorted((ROOT / room).rglob("*.py")):
            if "guest" not in path.parts:  # what Triton and torch say is all that it has of them
                yield path


def decisions(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Where the text of such a field is looked into or compared."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of, name = node.func.value, node.func.attr
            looked_into = name in TESTS_OF_TEXT and is_prose(of)
            if looked_into or (name in MATCHERS and any(map(is_prose, node.args))):
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Subscript) and is_prose(pieces_of(node.value)):
            yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            # `note not in self.notes` keeps one from being told twice and decides nothing.
            if any(map(is_prose, sides)) and any(map(is_literal, sides)):
                yield node.lineno, ast.unparse(node)


def pieces_of(node: ast.expr) -> ast.expr:
    """What a call splits; the node itself where it is none. A piece is taken by its position."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.value if node.func.attr in SPLITTERS else node
    return node


def is_prose(node: ast.expr) -> bool:
    if isinstance(node, ast.Name):
        return node.id in _NAMES_OF_PROSE
    return isinstance(node, ast.Attribute) and node.attr in WORDS


def is_literal(node: ast.expr) -> bool:
    """A text or a constant's name, not None or nothing."""
    if isinstance(node, ast.Constant):
        return node.value not in (None, "")
    return isinstance(node, ast.Name) and node.id.isupper()


# These shape what is shown and decide nothing.
ALLOWED = {
    # A message that names its file is not shown behind the file's name once more.
    "inspector/cli/progress.py: error.message[len(file):]",
    "inspector/cli/progress.py: error.message.startswith(file)",
    "inspector/isa/objects/load.py: error.message.removeprefix(f'{name}: ')",
    "inspector/pipeline/error_records.py: error.message.removeprefix(f'{file}: ')",
    # A unit of measurement says how its number is written.
    "inspector/explain/profile_view.py: metric.unit == 'ns'",
    "inspector/explain/profile_view.py: metric.unit == '%'",
    # What is shown of a long text.
    "inspector/explain/profile_view.py: note[:MAX_NOTE_CHARS - 1]",
    "inspector/lint/budget.py: error.message.split('\\n')[0]",
    # A dictionary of notes, by their text.
    "inspector/compare/sweep/sweeping.py: into.notes[event.text]",
    # No share can be over 100 %.
    "inspector/profile/kernel_profiles.py: metric.unit != '%'",
}


def test_no_decision_rests_on_words() -> None:
    found = {
        f"{path.relative_to(ROOT).as_posix()}: {text}"
        for path in modules()
        for _, text in decisions(ast.parse(path.read_text("utf-8")))
    }
    assert found == ALLOWED, sorted(found ^ ALLOWED)


@pytest.mark.parametrize(
    "text",
    [
        "m.note.startswith('Triton')",
        "'typed' in k.notes",
        "e.message == 'x'",
        "P.match(e.hint)",
        "any('SGPR' in note for note in k.notes)",
        "part.format.split()[0]",
        "part.format == 'rocprof CSV'",
        "k.notes[1:]",
    ],
)
def test_it_would_be_seen(text: str) -> None:
    assert list(decisions(ast.parse(text)))


# --------------------------------------------------------------------------- docstrings

Documented = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_SECTION = re.compile(r"^(?:Args|Attributes):\n((?:[ ]+.*\n|\n(?=[ ]))+)", re.MULTILINE)
_ENTRY = re.compile(r"^ {4}\*{0,2}(\w+(?:, \w+)*):", re.MULTILINE)


def documented_names(node: Documented) -> list[str]:
    """The names under `Args:` and `Attributes:` of a docstring."""
    text = f"{ast.get_docstring(node) or ''}\n"
    return [
        name
        for section in _SECTION.findall(text)
        for names in _ENTRY.findall(section)
        for name in names.split(", ")
    ]


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    arguments = function.args
    names = {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    return names | {a.arg for a in (arguments.vararg, arguments.kwarg) if a is not None}


def members(node: ast.ClassDef) -> set[str]:
    """Parameters of its constructor, fields, slots and properties; what `__init__` sets."""
    names: set[str] = set()
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign | ast.Assign):
            names |= {n.id for n in ast.walk(statement) if isinstance(n, ast.Name)}
            if "__slots__" in names:
                names |= {n.value for n in ast.walk(statement) if isinstance(n, ast.Constant)}
        elif isinstance(statement, ast.FunctionDef):
            names.add(statement.name)
            if statement.name in ("__init__", "__new__"):
                names |= parameters(statement)
                names |= {n.attr for n in ast.walk(statement) if isinstance(n, ast.Attribute)}
    return names


def stale_names(tree: ast.AST) -> Iterator[str]:
    """Documented arguments that do not exist."""
    for node in ast.walk(tree):
        if isinstance(node, Documented):
            known = members(node) if isinstance(node, ast.ClassDef) else parameters(node)
            for name in documented_names(node):
                if name not in known:
                    yield f"{node.name}: {name}"


def test_documented_arguments_exist() -> None:
    stale = [
        f"{path.relative_to(ROOT).as_posix()}: {text}"
        for room in ("inspector", "tui")
        for path in sorted((ROOT / room).rglob("*.py"))
        for text in stale_names(ast.parse(path.read_text("utf-8")))
    ]
    assert not stale


def test_a_renamed_argument_would_be_seen() -> None:
    function = 'def f(a):\n    """F.\n\n    Args:\n        a: one.\n        b: other.\n    """\n'
    struct = 'class C:\n    """C.\n\n    Args:\n        x, y: two.\n    """\n    x: int\n'
    assert list(stale_names(ast.parse(function))) == ["f: b"]
    assert list(stale_names(ast.parse(struct))) == ["C: y"]


# --------------------------------------------------------------------------------- circles


def imports_of(path: Path, package: str) -> Iterator[str]:
    """What a module imports of the checkout, late imports and those for types included."""
    parts = package.split(".")
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = ".".join(filter(None, [*parts[: len(parts) - node.level + 1], node.module]))
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def circles(imported: dict[str, set[str]]) -> dict[str, set[str]]:
    """The modules in circles, and between them: neither an end nor a beginning remains."""
    left = {name: (imported[name] & imported.keys()) - {name} for name in imported}
    while True:
        needed = set().union(*left.values())
        kept = {name for name, others in left.items() if others and name in needed}
        if len(kept) == len(left):
            return left
        left = {name: left[name] & kept for name in kept}


def test_no_module_is_in_a_circle_of_imports() -> None:
    imported = {}
    for room in ("inspector", "tui"):
        for path in (ROOT / room).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            package = ".".join(parts[:-1])
            name = package if parts[-1] == "__init__" else ".".join(parts)
            imported[name] = set(imports_of(path, package))
    assert len(imported) > 500
    assert list(circles(imported)) == []


def test_a_circle_would_be_seen() -> None:
    imported = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}, "e": set[str]()}
    assert circles(imported).keys() == {"b", "c"}


def test_contributing_names_modules_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    rows = re.findall(r"^\| `(\w+)/`(.*) \|$", text, flags=re.MULTILINE)
    assert len(rows) > 15
    for room, words in rows:
        folders = (ROOT / "inspector" / room, *([ROOT / "tui"] if room == "cli" else []))
        stems = {path.stem for folder in folders for path in folder.rglob("*")}
        named = set(re.findall(r"`([a-z]\w*)(?:\.py)?`", words))
        assert named - stems <= {"analyze", "model"}, room  # a command; the room itself
