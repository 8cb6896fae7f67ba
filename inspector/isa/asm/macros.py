"""Assembler macros: `.macro`, `.rept`, `.irp`, `.irpc` and conditional assembly, expanded lazily.

Hand-written and Tensile kernels are written with them. Lines come out one at a time, so that the
reader has set every symbol that a later `.if` asks for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from msgspec import Struct

from .contents import Omissions
from .symbols import SymbolTable

Lines = Iterator[tuple[int, str]]

_USES_MACROS = re.compile(r"^[ \t]*\.(?:macro|rept|rep|irpc?|if\w*|include)\b", re.MULTILINE)
_PARAMETER = re.compile(r"\\(?:(@)|(\(\))|([A-Za-z_.$][\w.$]*))")
_ESCAPED = re.compile(r"!(.)")
_BARE = re.compile(r"(?<![\w.$\\])[A-Za-z_][\w$]*")
_FORMAL = re.compile(r"([A-Za-z_.$][\w.$]*)(?::(req|vararg))?(?:\s*=\s*(\"[^\"]*\"|[^\s,]*))?")
_NAMED = re.compile(r"([A-Za-z_.$][\w.$]*)\s*=(?!=)\s*(.*)$", re.DOTALL)
_COMMENT = re.compile(r'"(?:\\.|[^"\\])*"|;.*|//.*', re.DOTALL)

# What damaged or hostile input may cost at most.
MAX_LINES = 200_000
_MAX_NESTING = 128
_MAX_LINE = 65_536

_MACRO = (frozenset({".macro"}), frozenset({".endm", ".endmacro"}))
_REPEATS = frozenset({".rept", ".rep", ".irp", ".irpc"})
_ENDS: Mapping[str, tuple[frozenset[str], frozenset[str]]] = MappingProxyType(
    {".macro": _MACRO} | dict.fromkeys(_REPEATS, (_REPEATS, frozenset({".endr", ".endrep"})))
)
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


def uses_macros(text: str) -> bool:
    """Whether a text has anything for `Expander` to do."""
    quick = any(word in text for word in (".macro", ".rep", ".irp", ".if", ".include"))
    return quick and _USES_MACROS.search(text) is not None


def strip_comment(text: str) -> str:
    """A statement without its `;` or `//` comment; quoted text is left alone."""
    if ";" not in text and "//" not in text:
        return text.strip()
    if '"' not in text:
        return text.partition(";")[0].partition("//")[0].strip()
    return _COMMENT.sub(lambda m: m[0] if m[0].startswith('"') else "", text).strip()


class _Parameter(Struct, frozen=True):
    """A parameter of a macro.

    Args:
        name: without a backslash.
        qualifier: "req", "vararg", or "" for neither.
        default: its text where no argument is given; "" without one.
    """

    name: str
    qualifier: str
    default: str


class _Macro(Struct, frozen=True):
    """A macro as it was defined; `body` is (line number, text)."""

    parameters: tuple[_Parameter, ...]
    body: tuple[tuple[int, str], ...]


class _Condition(Struct, frozen=True):
    """An open `.if`.

    Args:
        active: whether the branch that is open now is read.
        branch_taken: whether no later branch may be read: one was, or the `.if` is skipped itself.
    """

    active: bool
    branch_taken: bool


class _Frame(Struct):
    """Lines being read: the file itself, or a body with its parameters filled in.

    Args:
        lines: those not read yet.
        stands_at: the line number that all of them get, for a macro's code stands where the macro
            is used; None where each keeps its own.
        macro: whether it is a macro's body, which `.exitm` ends.
        conditions: how many `.if` were open at its beginning.
    """

    lines: Lines
    stands_at: int | None
    macro: bool
    conditions: int


class Expander:
    """Iterates over (line number, text) with macros expanded and skipped conditions left out."""

    def __init__(
        self,
        lines: Lines,
        symbols: SymbolTable,
        omissions: Omissions,
        include: Callable[[str], Lines | None],
    ) -> None:
        self._include_lines = include
        self._symbols = symbols
        self._left_out = omissions.add
        self._macros: dict[str, _Macro] = {}
        self._stack = [_Frame(lines, None, False, 0)]
        self._conditions: list[_Condition] = []  # the innermost last
        self._count = 0
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
            if frame.stands_at is not None:
                number = frame.stands_at
            if len(self._stack) > 1:
                self._count += 1
                if self._count > MAX_LINES:
                    self._left_out(
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
            if self._conditions and not self._conditions[-1].active:
                continue
            macro = self._macros.get(word)
            if macro is not None:
                self._invoke(macro, number, strip_comment(words[1] if len(words) > 1 else ""))
                continue
            yield number, text

    def _directive(self, word: str, number: int, text: str) -> bool:
        """Acts on a directive that steers expansion; False for all others."""
        active = not self._conditions or self._conditions[-1].active
        if word in _COMPARISONS or word in _OTHER_IFS or word in (".else", ".endif"):
            self._conditional(word, number, self._operands(text), active)
            return True
        if not active:
            return False
        if word == ".macro":
            self._define(self._operands(text), self._body(word, number)[0])
        elif word in _REPEATS:
            self._repeat(word, number, self._operands(text))
        elif word == ".exitm":
            while len(self._stack) > 1 and not self._stack[-1].macro:
                self._stack.pop()
            if len(self._stack) > 1:
                del self._conditions[self._stack.pop().conditions :]
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

    # ---- conditions

    def _conditional(self, word: str, number: int, operands: str, active: bool) -> None:
        if word == ".endif":
            if self._conditions:
                self._conditions.pop()
        elif word in (".else", ".elseif"):
            if not self._conditions:
                return
            taken = self._conditions.pop().branch_taken
            outside = not self._conditions or self._conditions[-1].active
            read = (
                outside and not taken and (word == ".else" or self._holds(word, number, operands))
            )
            self._conditions.append(_Condition(read, taken or read))
        else:
            read = active and self._holds(word, number, operands)
            self._conditions.append(_Condition(read, read or not active))

    def _holds(self, word: str, number: int, operands: str) -> bool:
        if word in _COMPARISONS:
            value = self._symbols.evaluate(operands)
            if value is None:
                self._left_out(
                    "condition",
                    number,
                    f"the condition on line {number} cannot be evaluated: its code is left out",
                )
                return False
            return _COMPARISONS[word](value)
        if word in (".ifdef", ".ifndef", ".ifnotdef"):
            return (operands in self._symbols) == (word == ".ifdef")
        if word in (".ifb", ".ifnb"):
            return (not operands) == (word == ".ifb")
        left, _, right = operands.partition(",")
        return (left.strip() == right.strip()) == (word in (".ifc", ".ifeqs"))

    # ---- bodies

    def _body(self, kind: str, start: int) -> tuple[tuple[tuple[int, str], ...], bool]:
        """Takes the lines up to the directive that ends this one, nested ones included.

        Returns:
            The lines, and whether the end was there.
        """
        opens, ends = _ENDS[kind]
        depth = 0
        body: list[tuple[int, str]] = []
        for number, text in self._stack[-1].lines:
            self._count += len(self._stack) > 1
            if self._count > MAX_LINES:
                break
            words = text.split(None, 1)
            word = words[0] if words else ""
            if word in ends:
                if depth == 0:
                    return tuple(body), True
                depth -= 1
            elif word in opens:
                depth += 1
            body.append((number, text))
        self._left_out("expansion", start, f"the {kind} on line {start} has no end")
        return tuple(body), False

    def _define(self, operands: str, body: tuple[tuple[int, str], ...]) -> None:
        name, _, formals_text = operands.replace(",", " ", 1).partition(" ")
        formals = tuple(
            _Parameter(m[1], m[2] or "", (m[3] or "").strip('"'))
            for m in _FORMAL.finditer(formals_text)
        )
        if name:
            self._macros[name] = _Macro(formals, body)

    def _push(self, lines: Lines, stands_at: int | None, *, macro: bool, at_line: int) -> None:
        """Reads these lines next, unless too many bodies are open.

        Args:
            lines: a body with its parameters filled in, or an included file.
            stands_at: the line number that all of them get; None where each keeps its own. Inside
                a body that has such a number, it is that body's.
            macro: whether it is a macro's body.
            at_line: where it is used, for the note if it is left out.
        """
        if len(self._stack) > _MAX_NESTING:
            self._left_out(
                "expansion",
                at_line,
                f"macros nest deeper than {_MAX_NESTING} at line {at_line}: left out",
            )
            return
        outer = self._stack[-1].stands_at
        self._stack.append(
            _Frame(lines, stands_at if outer is None else outer, macro, len(self._conditions))
        )

    def _include(self, number: int, operands: str) -> None:
        lines = self._include_lines(operands.strip().strip('"'))
        if lines is None:
            self._left_out(
                "include", number, f"line {number} includes {operands}, which is not read"
            )
        else:
            self._push(lines, number, macro=False, at_line=number)

    def _repeat(self, word: str, number: int, operands: str) -> None:
        body, ended = self._body(word, number)
        if not ended:  # read once: repeated, what is left of the file would grow beyond bounds
            lines: Lines = iter(body)
        elif word in (".rept", ".rep"):
            times = self._symbols.evaluate(operands)
            if times is None:
                self._left_out(
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
        self._push(lines, None, macro=False, at_line=number)

    def _alternate_argument(self, text: str, number: int) -> str:
        """`%expression` is its value, `<text>` the text."""
        if text.startswith("%"):
            value = self._symbols.evaluate(text[1:])
            if value is not None:
                return str(value)
            self._left_out(
                "expansion", number, f"the argument {text} on line {number} has no value"
            )
        elif text.startswith("<") and text.endswith(">"):
            return _ESCAPED.sub(r"\1", text[1:-1])
        return text

    def _invoke(self, macro: _Macro, number: int, operands: str) -> None:
        arguments = _arguments(operands, alternate=self._alternate)
        if self._alternate:
            arguments = [self._alternate_argument(argument, number) for argument in arguments]
        values = {parameter.name: parameter.default for parameter in macro.parameters}
        position = 0
        for index, argument in enumerate(arguments):
            named = _NAMED.match(argument)
            if named is not None and named[1] in values:
                values[named[1]] = named[2].strip()
            elif position < len(macro.parameters):
                parameter = macro.parameters[position]
                if parameter.qualifier == "vararg":
                    values[parameter.name] = ", ".join(arguments[index:])
                    break
                values[parameter.name] = argument
                position += 1
        serial = self._expansions
        self._expansions += 1
        bare = self._alternate  # parameters count without a backslash, too
        lines = ((n, _fill(text, values, serial, bare=bare)) for n, text in macro.body)
        self._push(lines, number, macro=True, at_line=number)


def _fill(text: str, values: Mapping[str, str], serial: int, *, bare: bool = False) -> str:
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
    """Splits macro arguments at commas, or at blanks where there is no comma.

    With `alternate`, `<` and `>` hold a text together.
    """
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
