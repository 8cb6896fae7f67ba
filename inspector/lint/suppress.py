"""Reads the comments that suppress findings, and matches them with findings.

    x = tl.load(p)  # kinspect: ignore[KI009] the tail is rare
    # kinspect: ignore[KI009, narrow-lds-reads]
    # kinspect: ignore-file[KI013] generated

In assembly they follow `;` or `//`. A comment at the end of a line applies to the statement that it
is in (in assembly: to the line), one on a line of its own to the next statement (line). No file is
read here: the functions take texts and return values.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import PurePath

from msgspec import Struct
from msgspec.structs import replace

from ..base.documents import python_tree
from .lint_results import Suppression

MARK = "kinspect:"
"""A text without this has no such comment."""

_IGNORE = re.compile(r"(?:#|;|//)\s*kinspect:\s*ignore(?P<file>-file)?(?P<remainder>(?![\w-]).*)")
_MISSPELT = re.compile(r"(?:#|;|//)\s*kinspect:\s*(?P<word>[A-Za-z][\w-]*)\s*\[", re.I)
_RULES = re.compile(r"\s*\[(?P<rules>[^\]]*)\]")
_RULE_ID = re.compile(r"[A-Z]{2,}-?\d+\b")
# The part of an assembly line before a comment: strings, and all but the signs that begin one.
_CODE = re.compile(r'(?:"(?:[^"\\]|\\.)*"|/(?![/*])|[^";/])*')
_LABEL = re.compile(r"\s*(?P<name>[\w.$@]+|\"[^\"]+\"):")


class Comment(Struct, frozen=True):
    """A suppression and the lines `first` to `last` (counted from 1) that it applies to."""

    suppression: Suppression
    first: int
    last: int

    def covers(self, line: int) -> bool:
        """Tells whether it applies to a line of its file."""
        return self.suppression.scope == "file" or self.first <= line <= self.last

    def names(self, rule: Collection[str]) -> tuple[str, ...]:
        """Its names among id and name of a rule; `("",)` if it applies to all rules."""
        if not self.suppression.rules:
            return ("",)
        return tuple(name for name in self.suppression.rules if name in rule)


class Span(Struct, frozen=True):
    """A function of a source file, or a label of an assembly: lines `first` to `last`.

    `header` is the last line of its head: decorators and `def`.
    """

    name: str
    first: int
    header: int
    last: int

    def holds(self, line: int) -> bool:
        """Tells whether a line of its file belongs to it."""
        return self.first <= line <= self.last


class Marks(Struct, frozen=True):
    """The suppressions in a file.

    Args:
        faulty: those that are not understood; they suppress nothing.
        spans: the file's functions; empty where there is no comment, or the file cannot be parsed.
    """

    comments: tuple[Comment, ...] = ()
    faulty: tuple[Suppression, ...] = ()
    spans: tuple[Span, ...] = ()

    def header(self, line: int | None, name: str) -> tuple[int, ...]:
        """The lines at which a comment applies to a kernel as a whole: those of its head.

        Where no line in the kernel is known, its name is used.
        """
        if line is not None:
            enclosing = [span for span in self.spans if span.holds(line)]
            innermost = max(enclosing, key=lambda span: span.first, default=None)
            return tuple(range(innermost.first, innermost.header + 1)) if innermost else (line,)
        return tuple(span.header for span in self.spans if span.name == name)


NO_MARKS = Marks()


# --------------------------------------------------------------------------- reading


def in_text(text: str, file: str) -> Marks:
    """The suppressions of a Python file or an assembly; the file's suffix tells which it is."""
    if MARK not in text:
        return NO_MARKS
    return in_python(text, file) if PurePath(file).suffix == ".py" else in_assembly(text, file)


def _parseable_lines(text: str) -> str:
    """The lines before the first syntax error of a Python file.

    Beyond an error the tokenizer may be slow: it takes a minute for 30,000 blanks before something
    that is no token.
    """
    try:
        python_tree(text)
    except SyntaxError as error:
        return "".join(text.splitlines(keepends=True)[: max(0, (error.lineno or 1) - 1)])
    except (ValueError, RecursionError, MemoryError):
        return ""
    return text


def in_python(text: str, file: str) -> Marks:
    """The suppressions of a Python file, up to the first syntax error."""
    comments = _CommentCollector(file)
    in_statement: list[tuple[int, str]] = []  # comments in the current statement, with their lines
    before_statement: list[tuple[int, str]] = []  # comments on lines of their own before it
    start: int | None = None
    try:
        for token in tokenize.generate_tokens(io.StringIO(_parseable_lines(text)).readline):
            line = token.start[0]
            if token.type == tokenize.COMMENT:
                (before_statement if start is None else in_statement).append((line, token.string))
            elif token.type == tokenize.NEWLINE and start is not None:
                comments.add(in_statement, start, line)
                comments.add(before_statement, start, line)
                in_statement, before_statement, start = [], [], None
            elif token.type == tokenize.NL:
                is_blank = not before_statement or before_statement[-1][0] != line
                if start is None and is_blank:
                    comments.add(before_statement)  # a blank line ends what they apply to
                    before_statement = []
            elif token.type not in _NO_CODE and start is None:
                start = line
    except (tokenize.TokenError, SyntaxError):
        pass  # what was read up to the damage still counts
    comments.add(before_statement)
    comments.add(in_statement, start)
    return comments.marks(_functions(text))


_NO_CODE = frozenset({tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.NEWLINE})


def in_assembly(text: str, file: str) -> Marks:
    """The suppressions of an assembly text."""
    comments = _CommentCollector(file)
    before_code: list[tuple[int, str]] = []  # comments on lines of their own, with their lines
    beside_label: list[tuple[int, str]] = []  # they apply to the code after the label, too
    labels: list[Span] = []
    in_block = False
    for number, line in enumerate(text.split("\n"), 1):
        code, comment, in_block = _split(line, in_block)
        label = _LABEL.match(code)
        if label:
            labels.append(Span(label["name"].strip('"'), number, number, number))
        if label and not code[label.end() :].strip():
            beside_label += [*before_code, (number, comment)]
            before_code = []
        elif code.strip():
            for comment_line, label_comment in beside_label:
                comments.add([(comment_line, label_comment)], comment_line, number)
            comments.add([*before_code, (number, comment)], number, number)
            before_code, beside_label = [], []
        elif comment:
            before_code.append((number, comment))
        else:
            comments.add(before_code)
            before_code = []
    comments.add([*beside_label, *before_code])
    return comments.marks(tuple(labels))


def _split(line: str, in_block: bool) -> tuple[str, str, bool]:
    """Splits an assembly line into code and comment, and tells whether a `/*` is left open."""
    code, position = "", 0
    while True:
        if in_block:
            end = line.find("*/", position)
            if end < 0:
                return code, "", True
            in_block, position = False, end + 2
        stop = _CODE.match(line, position).end()  # type: ignore[union-attr]  # matches ""
        code += line[position:stop]
        if line.startswith("/*", stop):
            in_block, position = True, stop + 2
        elif line.startswith('"', stop):  # not closed: the rest is text
            return code + line[stop:], "", False
        else:
            return code, line[stop:], False


def _functions(text: str) -> tuple[Span, ...]:
    try:
        tree = python_tree(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    return tuple(
        Span(
            node.name,
            min([node.lineno, *(d.lineno for d in node.decorator_list)]),
            max(node.lineno, node.body[0].lineno - 1),
            node.end_lineno or node.lineno,
        )
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


class _CommentCollector:
    """Collects the comments of one file as suppressions with the lines that they apply to."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._comments: list[Comment] = []
        self._faulty: list[Suppression] = []

    def add(
        self, comments: Iterable[tuple[int, str]], first: int | None = None, last: int | None = None
    ) -> None:
        """Adds comments, given with their lines."""
        for line, text in comments:
            for suppression in _suppressions_in(text, self._file, line):
                if suppression.note:
                    self._faulty.append(suppression)
                else:
                    start = line if first is None else first
                    self._comments.append(Comment(suppression, start, max(line, last or line)))

    def marks(self, spans: tuple[Span, ...]) -> Marks:
        if not self._comments and not self._faulty:
            return NO_MARKS
        ordered = sorted(self._comments, key=lambda c: c.suppression.line)
        return Marks(tuple(ordered), tuple(self._faulty), spans)


def _suppressions_in(comment: str, file: str, line: int) -> Iterator[Suppression]:
    """The suppressions in one comment; one that has a note is faulty."""
    request = _IGNORE.search(comment)
    if request is None:
        misspelt = _MISSPELT.search(comment)
        if misspelt is not None:
            word = misspelt["word"]
            note = f"{word} is no word for it: write ignore[RULE] or ignore-file[RULE]"
            yield Suppression(file=file, line=line, rules=(), scope="line", reason="", note=note)
        return
    scope, words = "file" if request["file"] else "line", request["remainder"]
    listed = _RULES.match(words)
    reason = (words[listed.end() :] if listed else words).strip(" \t*/-–—:")
    names: tuple[str, ...] = ()
    note = ""
    if listed:
        names = tuple(dict.fromkeys(n.strip() for n in listed["rules"].split(",") if n.strip()))
        note = "" if names else "there is no rule between the brackets"
    elif words.lstrip().startswith("["):
        note = "its bracket is not closed"
    elif rule := _RULE_ID.match(reason):
        # `ignore KI009` would suppress all rules, which is hardly what was meant.
        note = f"rules go in brackets: ignore{request['file'] or ''}[{rule[0]}]"
    yield Suppression(file=file, line=line, rules=names, scope=scope, reason=reason, note=note)  # type: ignore[arg-type]


# --------------------------------------------------------------------------- matching


def match(
    rule: Collection[str],
    places: Iterable[tuple[str, int]],
    marks: Mapping[str, Marks],
    used: dict[str, set[tuple[int, str]]],
) -> Suppression | None:
    """The first comment that suppresses a finding at one of its places, (file, line); None: none.

    Every comment that does is added to `used`: file -> (line of the comment, its name for the rule;
    "" for all rules). `rule` is id and name.
    """
    first_suppression = None
    for file, line in places:
        for comment in marks.get(file, NO_MARKS).comments:
            names = comment.names(rule) if comment.covers(line) else ()
            for name in names:
                used.setdefault(file, set()).add((comment.suppression.line, name))
            if names and first_suppression is None:
                first_suppression = comment.suppression
    return first_suppression


class Coverage(Struct, frozen=True):
    """The part of a file that a run has analysed.

    Args:
        lines: the lines that the code of the analysed kernels came from.
    """

    is_whole: bool
    lines: frozenset[int]

    def reaches(self, comment: Comment, spans: Iterable[Span]) -> bool:
        """Tells whether this run analysed the code that a comment applies to.

        A file may have kernels that were not compiled; whether comments in those are unused is
        unknown.
        """
        enclosing = [
            span for span in spans if span.holds(comment.first) or span.holds(comment.last)
        ]
        if comment.suppression.scope == "file" or not enclosing:
            return self.is_whole
        return any(span.holds(line) for span in enclosing for line in self.lines)


def unused(
    marks: Marks,
    used: Collection[tuple[int, str]],
    coverage: Coverage,
    rule_names: Collection[str],
    unknown: Callable[[str], str | None],
    *,
    narrowed: bool,
) -> Iterator[Suppression]:
    """Yields the suppressions of a file that suppressed nothing, as far as this run can tell.

    `used` are those that did (see `match`), `rule_names` ids and names of the rules that were
    applied; `unknown` says what is wrong with another name, None if a rule has it. Where the run is
    `narrowed` to some rules of the packs, a comment for all rules may be meant for the others.
    """
    yield from marks.faulty
    for comment in marks.comments:
        suppression, line = comment.suppression, comment.suppression.line
        if coverage.reaches(comment, marks.spans):
            unused_names = [
                name
                for name in suppression.rules
                if name in rule_names and (line, name) not in used
            ]
            if unused_names:
                yield replace(suppression, rules=tuple(unused_names))
            if not suppression.rules and not narrowed and (line, "") not in used:
                yield suppression
        for name in suppression.rules:
            note = None if name in rule_names else unknown(name)
            if note is not None:
                yield replace(suppression, rules=(name,), note=note)
