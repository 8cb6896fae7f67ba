"""Assembler macros (`.macro`, `.rept`, `.irp`, `.irpc`, `.include`) and conditional assembly
(`.if`), expanded lazily.

Hand-written and Tensile kernels are written with them. Lines come out one at a time, so that the
reader has set every symbol that a later `.if` refers to.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from msgspec import Struct

from .contents import Omissions
from .operands import SymbolTable

Lines = Iterator[tuple[int, str]]

_USES_MACROS = re.compile(r"^[ \t]*\.(?:macro|rept|rep|irpc?|if\w*|include)\b", re.MULTILINE)
_PARAMETER = re.compile(r"\\(?:(@)|(\(\))|([A-Za-z_.$][\w.$]*))")
_ESCAPED = re.compile(r"!(.)")
_BARE = re.compile(r"(?<![\w.$\\])[A-Za-z_][\w$]*")
_FORMAL = re.compile(r"([A-Za-z_.$][\w.$]*)(?::(req|vararg))?(?:\s*=\s*(\"[^\"]*\"|[^\s,]*))?")
_NAMED = re.compile(r"([A-Za-z_.$][\w.$]*)\s*=(?!=)\s*(.*)$", re.DOTALL)
_COMMENT = re.compile(r'"(?:\\.|[^"\\])*"|;.*|//.*', re.DOTALL)

# Limits on what damaged or hostile input may cost.
MAX_LINES = 200_000
_MAX_NESTING = 128
_MAX_LINE = 65_536

_MACRO = (frozenset({".macro"}), frozenset({".endm", ".endmacro"}))
_REPEATS = frozenset({".rept", ".rep", ".irp", ".irpc"})
_ENDS: Mapping[str, tuple[frozenset[str], frozenset[str]]] = MappingProxyType(
    {".macro": _MACRO} | dict.fromkeys(_REPEATS, (_REPEATS, frozenset({".endr", ".endrep"})))
)


def uses_macros(text: str) -> bool:
    """Whether a text has directives that `Expander` handles."""
    quick = any(word in text for word in (".macro", ".rep", ".irp", ".if", ".include"))
    return quick and _USES_MACROS.search(text) is not None


def strip_comment(text: str) -> str:
    """A statement without its `;` or `//` comment; quoted text stays as it is."""
    if ";" not in text and "//" not in text:
        return text.strip()
    if '"' not in text:
        return text.partition(";")[0].partition("//")[0].strip()
    return _COMMENT.sub(lambda m: m[0] if m[0].startswith('"') else "", text).strip()


class _Parameter(Struct, frozen=True):
    """A parameter of a macro.

    Args:
        name: the name, without a backslash.
        qualifier: "req", "vararg", or "" for neither.
        default: the text in place of a missing argument; "" without a default.
    """

    name: str
    qualifier: str
    default: str


class _Macro(Struct, frozen=True):
    """The definition of a macro; `body` is (line number, text)."""

    parameters: tuple[_Parameter, ...]
    body: tuple[tuple[int, str], ...]


class _Frame(Struct):
    """A source of lines: the file itself, or a body with its parameters filled in.

    Args:
        lines: the lines that are not read yet.
        line_of_use: the line number that all lines get, as a macro's code counts where the macro
            is used; None where each keeps its own number.
        is_macro: whether it is a macro's body, which `.exitm` ends.
        condition_depth: how many `.if` were open at its beginning.
    """

    lines: Lines
    line_of_use: int | None
    is_macro: bool
    condition_depth: int


class Expander:
    """Iterates over (line number, text), macros expanded and code of false conditions left out."""

    def __init__(
        self,
        lines: Lines,
        symbols: SymbolTable,
        omissions: Omissions,
        include: Callable[[str], Lines | None],
    ) -> None:
        self._include_lines = include
        self._symbols = symbols
        self._omit = omissions.add
        self._macros: dict[str, _Macro] = {}
        self._stack = [_Frame(lines, None, False, 0)]
        self._conditions = Conditions(symbols, omissions)
        self._expanded_lines = 0
        self._expansions = 0
        self._alternate = False  # `.altmacro`: %expressions and <texts> as arguments

    def __iter__(self) -> Lines:
        while self._stack:
            frame = self._stack[-1]
            entry = next(frame.lines, None)
            if entry is None:
                self._stack.pop()
                continue
            number, text = entry
            if frame.line_of_use is not None:
                number = frame.line_of_use
            if len(self._stack) > 1:
                self._expanded_lines += 1
                if self._expanded_lines > MAX_LINES:
                    self._omit(
                        "expansion",
                        number,
                        f"macro expansion stopped at line {number}: over {MAX_LINES} lines",
                    )
                    del self._stack[1:]
                    continue
            words = text.split(None, 1)
            if not words:
                continue
            word = words[0]
            if word[0] == "." and self._directive(word, number, text):
                continue
            if not self._conditions.active:
                continue
            macro = self._macros.get(word)
            if macro is not None:
                self._invoke(macro, number, strip_comment(words[1] if len(words) > 1 else ""))
                continue
            yield number, text

    def _directive(self, word: str, number: int, text: str) -> bool:
        """Acts on a directive that steers expansion; False for all others."""
        if word in CONDITIONAL_DIRECTIVES:
            self._conditions.handle(word, number, self._operands(text))
            return True
        if not self._conditions.active:
            return False
        if word == ".macro":
            self._define(self._operands(text), self._body(word, number)[0])
        elif word in _REPEATS:
            self._repeat(word, number, self._operands(text))
        elif word == ".exitm":
            while len(self._stack) > 1 and not self._stack[-1].is_macro:
                self._stack.pop()
            if len(self._stack) > 1:
                self._conditions.close_to(self._stack.pop().condition_depth)
        elif word in (".altmacro", ".noaltmacro"):
            self._alternate = word == ".altmacro"
        elif word == ".include":
            self._include(number, self._operands(text))
        elif word == ".purgem":
            self._macros.pop(self._operands(text), None)
        else:
            return False
        return True

    @staticmethod
    def _operands(text: str) -> str:
        parts = strip_comment(text).split(None, 1)
        return parts[1] if len(parts) > 1 else ""

    def _body(self, directive: str, start: int) -> tuple[tuple[tuple[int, str], ...], bool]:
        """Takes the lines up to the directive that ends this one, nested ones included."""
        opening, closing = _ENDS[directive]
        depth = 0
        body: list[tuple[int, str]] = []
        for number, text in self._stack[-1].lines:
            self._expanded_lines += len(self._stack) > 1
            if self._expanded_lines > MAX_LINES:
                break
            words = text.split(None, 1)
            word = words[0] if words else ""
            if word in closing:
                if depth == 0:
                    return tuple(body), True
                depth -= 1
            elif word in opening:
                depth += 1
            body.append((number, text))
        self._omit("expansion", start, f"the {directive} on line {start} has no end")
        return tuple(body), False

    def _define(self, operands: str, body: tuple[tuple[int, str], ...]) -> None:
        """Defines a macro by the operands of `.macro` and its body."""
        name, _, formals_text = operands.replace(",", " ", 1).partition(" ")
        formals = tuple(
            _Parameter(m[1], m[2] or "", (m[3] or "").strip('"'))
            for m in _FORMAL.finditer(formals_text)
        )
        if name:
            self._macros[name] = _Macro(formals, body)

    def _push(self, lines: Lines, line_of_use: int | None, *, is_macro: bool, number: int) -> None:
        """Reads these lines next, unless too many bodies are open."""
        if len(self._stack) > _MAX_NESTING:
            self._omit(
                "expansion",
                number,
                f"macros nest deeper than {_MAX_NESTING} at line {number}: left out",
            )
            return
        outer = self._stack[-1].line_of_use
        self._stack.append(
            _Frame(lines, line_of_use if outer is None else outer, is_macro, self._conditions.depth)
        )

    def _include(self, number: int, operands: str) -> None:
        """Reads an included file next, or notes that it is not read."""
        lines = self._include_lines(operands.strip().strip('"'))
        if lines is None:
            self._omit("include", number, f"line {number} includes {operands}, which is not read")
        else:
            self._push(lines, number, is_macro=False, number=number)

    def _repeat(self, word: str, number: int, operands: str) -> None:
        """Reads the body of `.rept`, `.irp` or `.irpc` next, as often as its operands say."""
        body, has_end = self._body(word, number)
        if not has_end:  # read once: the body is all of the file's remainder
            lines: Lines = iter(body)
        elif word in (".rept", ".rep"):
            times = self._symbols.evaluate(operands)
            if times is None:
                self._omit(
                    "expansion", number, f"the .rept on line {number} has no known count: read once"
                )
                times = 1
            count = min(max(times, 0), MAX_LINES // max(len(body), 1) + 1)
            lines = (entry for _ in range(count) for entry in body)
        else:
            name, _, values_text = operands.partition(",")
            values = list(values_text.strip()) if word == ".irpc" else _arguments(values_text)
            key = name.strip()
            lines = ((n, _fill(text, {key: value}, 0)) for value in values for n, text in body)
        self._push(lines, None, is_macro=False, number=number)

    def _alternate_argument(self, text: str, number: int) -> str:
        """An argument under `.altmacro`: the value of `%expression`, the text of `<text>`."""
        if text.startswith("%"):
            value = self._symbols.evaluate(text[1:])
            if value is not None:
                return str(value)
            self._omit("expansion", number, f"the argument {text} on line {number} has no value")
        elif text.startswith("<") and text.endswith(">"):
            return _ESCAPED.sub(r"\1", text[1:-1])
        return text

    def _invoke(self, macro: _Macro, number: int, operands: str) -> None:
        """Reads the body of a macro next, its parameters replaced by the arguments."""
        arguments = _arguments(operands, alternate=self._alternate)
        if self._alternate:
            arguments = [self._alternate_argument(argument, number) for argument in arguments]
        values = {parameter.name: parameter.default for parameter in macro.parameters}
        position = 0
        for index, argument in enumerate(arguments):
            keyword = _NAMED.match(argument)
            if keyword is not None and keyword[1] in values:
                values[keyword[1]] = keyword[2].strip()
            elif position < len(macro.parameters):
                parameter = macro.parameters[position]
                if parameter.qualifier == "vararg":
                    values[parameter.name] = ", ".join(arguments[index:])
                    break
                values[parameter.name] = argument
                position += 1
        serial = self._expansions
        self._expansions += 1
        bare = self._alternate  # parameters need no backslash then
        lines = ((n, _fill(text, values, serial, bare=bare)) for n, text in macro.body)
        self._push(lines, number, is_macro=True, number=number)


def _fill(text: str, values: Mapping[str, str], serial: int, *, bare: bool = False) -> str:
    r"""A line of a body with its parameters, `\@` (the serial number) and `\()` replaced."""
    if bare and values:
        text = _BARE.sub(lambda m: f"\\{m[0]}" if m[0] in values else m[0], text)[:_MAX_LINE]
    if "\\" not in text:
        return text

    def value(match: re.Match[str]) -> str:
        if match[1]:
            return str(serial)
        return "" if match[2] else values.get(match[3], match[0])

    # A body that feeds itself its own arguments doubles in length with every level.
    return _PARAMETER.sub(value, text)[:_MAX_LINE]


def _arguments(text: str, *, alternate: bool = False) -> list[str]:
    """Splits macro arguments at commas, or at blanks where there is no comma."""
    opening, closing = ("([<", ")]>") if alternate else ("([", ")]")
    text = text.strip()
    if not text:
        return []
    parts: list[str] = []
    depth = start = 0
    quoted = False
    for i, c in enumerate(text):
        if c == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif c in opening:
            depth += 1
        elif c in closing:
            depth = max(depth - 1, 0)
        elif c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    if not parts and not quoted and depth == 0 and '"' not in text and "(" not in text:
        return text.split()
    parts.append(text[start:])
    return [p.strip().strip('"') for p in parts]


_COMPARISONS: Mapping[str, Callable[[int], bool]] = MappingProxyType(
    {
        ".if": lambda v: v != 0,
        ".ifne": lambda v: v != 0,
        ".ifeq": lambda v: v == 0,
        ".ifgt": lambda v: v > 0,
        ".ifge": lambda v: v >= 0,
        ".iflt": lambda v: v < 0,
        ".ifle": lambda v: v <= 0,
        ".elseif": lambda v: v != 0,
    }
)
_OTHER_IFS = frozenset(
    {".ifdef", ".ifndef", ".ifnotdef", ".ifc", ".ifnc", ".ifeqs", ".ifnes", ".ifb", ".ifnb"}
)
CONDITIONAL_DIRECTIVES = frozenset({*_COMPARISONS, *_OTHER_IFS, ".else", ".endif"})


class _Condition(Struct, frozen=True):
    """An open `.if`.

    Args:
        active: whether its current branch is assembled.
        decided: whether no later branch can be: one was, or the `.if` itself is skipped.
    """

    active: bool
    decided: bool


class Conditions:
    """The open `.if` directives of a text.

    Attributes:
        active: whether the code at the current line is assembled.
    """

    def __init__(self, symbols: SymbolTable, omissions: Omissions) -> None:
        self.active = True
        self._symbols = symbols
        self._omissions = omissions
        self._open: list[_Condition] = []  # the innermost last

    @property
    def depth(self) -> int:
        """How many `.if` are open."""
        return len(self._open)

    def close_to(self, depth: int) -> None:
        """Closes the innermost `.if` until `depth` of them are open."""
        del self._open[depth:]
        self._update()

    def handle(self, word: str, line: int, operands: str) -> None:
        """Acts on one of `CONDITIONAL_DIRECTIVES`.

        Args:
            word: the directive, with its dot.
            line: its line number, for the note where a condition cannot be evaluated.
            operands: its operands, without comments.
        """
        if word not in (".else", ".elseif", ".endif"):
            holds = self.active and self._holds(word, line, operands)
            self._open.append(_Condition(holds, holds or not self.active))
        elif self._open:
            condition = self._open.pop()
            self._update()
            if word != ".endif":
                holds = (
                    self.active
                    and not condition.decided
                    and (word == ".else" or self._holds(word, line, operands))
                )
                self._open.append(_Condition(holds, condition.decided or holds))
        self._update()

    def _update(self) -> None:
        self.active = not self._open or self._open[-1].active

    def _holds(self, word: str, line: int, operands: str) -> bool:
        """Whether a condition is true; one that cannot be evaluated is noted and false."""
        if word in _COMPARISONS:
            value = self._symbols.evaluate(operands)
            if value is None:
                self._omissions.add(
                    "condition",
                    line,
                    f"the condition on line {line} cannot be evaluated: its code is left out",
                )
                return False
            return _COMPARISONS[word](value)
        if word in (".ifdef", ".ifndef", ".ifnotdef"):
            return (operands in self._symbols) == (word == ".ifdef")
        if word in (".ifb", ".ifnb"):
            return (not operands) == (word == ".ifb")
        left, _, right = operands.partition(",")
        return (left.strip() == right.strip()) == (word in (".ifc", ".ifeqs"))
