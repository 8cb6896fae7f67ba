"""Launches that a HIP source states of its kernels, for figures that depend on them.

    // KINSPECT_LAUNCH gemm<128> grid=N/TILE,N/TILE workgroup=256 args="f32[N*N], f32[N*N], i32 N"

Numbers may be sums, products and quotients of numbers, of macros and constants of the file, and of
template parameters of the kernel, which are the arguments of each instance.
"""

from __future__ import annotations

import ast
import operator
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from msgspec import Struct

from ...base.errors import KinspectError
from .templates import TemplateKernel, arguments_of, parts_of, template_kernels, unspaced, written

MARK: Final = "KINSPECT_LAUNCH"
_STATED: Final = re.compile(rf"(?://|/\*)[ \t]{{0,9}}{MARK}[ \t](?P<text>[^\n]{{0,2000}})")
_CONSTANT: Final = re.compile(
    r"^[ \t]{0,80}(?:#[ \t]{0,9}define[ \t]{1,80}(?P<macro>\w{1,80})[ \t]{1,80}|(?:static )?"
    r"(?:constexpr|const) [\w ]{0,60}?(?P<name>\w{1,80})[ \t]{0,9}=[ \t]{0,9})"
    r"(?P<value>[^;/\n]{1,500})",
    re.M,
)
_ARGUMENT: Final = re.compile(
    r"\s*(?P<kind>[a-z]+\d+)(?=[\s\[])\s*(?:\[(?P<count>[^\]]+)\](?P<fill>.*)|(?P<value>\S.*))$"
)
_OPERATORS: Final[Mapping[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.floordiv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.LShift: lambda a, b: a << min(b, 64),
}  # fmt: skip
_MOST: Final = 1 << 62
_MOST_LAUNCHES: Final = 1_000
_MOST_TEXT: Final = 500
"""Characters of an expression."""


class StatedLaunch(Struct, frozen=True):
    """A launch of a kernel.

    Args:
        kernel: its name, as reports print it, or a pattern.
        grid: workgroups in x, y, z.
        workgroup: work-items in x, y, z; None for what the kernel requires.
        arguments: what is passed, as --args takes it.
        lds_bytes: dynamic LDS; None where nothing is said.
    """

    kernel: str
    grid: tuple[int, int, int]
    workgroup: tuple[int, int, int] | None
    arguments: str
    lds_bytes: int | None


def is_launched(stated: str, name: str) -> bool:
    """Whether a stated kernel is one of a name: with its template arguments, or without any."""
    plain = unspaced(name)
    return unspaced(stated) in (plain, plain.partition("<")[0])


class _Statement(Struct, frozen=True):
    line: int
    kernel: str
    words: Mapping[str, str]


class StatedLaunches(Struct, frozen=True):
    """The launches that a source states.

    Args:
        name: of the source, for errors.
        numbers: the text of each macro and constant.
    """

    name: str
    statements: tuple[_Statement, ...]
    templates: tuple[TemplateKernel, ...]
    numbers: Mapping[str, str]

    @property
    def kernels(self) -> list[str]:
        """The kernels of which they are."""
        return [statement.kernel for statement in self.statements]

    def of(self, kernel: str) -> StatedLaunch | None:
        """The first that is of a kernel, by its name with template arguments.

        Raises:
            KinspectError: it cannot be read.
        """
        for statement in self.statements:
            if is_launched(statement.kernel, kernel):
                return self._launch(statement, kernel)
        return None

    def _launch(self, statement: _Statement, kernel: str) -> StatedLaunch:
        known = _Numbers({**self.numbers, **arguments_of(kernel, self.templates)}, {})
        try:
            return _launch(statement, known)
        except _FAULTS as error:
            raise _misread(self.name, statement.line, error) from None

    def check(self) -> None:
        """Reads those of kernels that are no templates, or of stated arguments.

        Raises:
            KinspectError: one of them cannot be read.
        """
        names = {template.name for template in self.templates}
        for statement in self.statements:
            name, arguments = parts_of(statement.kernel)
            if arguments or name.rpartition("::")[2] not in names:
                self._launch(statement, statement.kernel)


_FAULTS: Final = (ValueError, SyntaxError, ZeroDivisionError, RecursionError)


def stated_launches(source: str, flags: Sequence[str], name: str) -> StatedLaunches:
    """The launches that a source states.

    `flags`: of the compile: their macros are known before those of the file.

    Raises:
        KinspectError: one of them cannot be read.
    """
    if MARK not in source:
        return StatedLaunches(name, (), (), {})
    numbers = {**_constants(source), **dict(_defined(flags))}
    statements: list[_Statement] = []
    for line, text in enumerate(source.splitlines(), 1):
        match = _STATED.search(text) if MARK in text else None
        if match is None:
            continue
        if len(statements) >= _MOST_LAUNCHES:
            raise KinspectError(
                f"{name}:{line}: more than {_MOST_LAUNCHES} launches are stated", "state fewer"
            )
        try:
            kernel, words = _words(match["text"].strip().removesuffix("*/"))
            statements.append(_Statement(line, _named(kernel, _Numbers(numbers, {})), words))
        except _FAULTS as error:
            raise _misread(name, line, error) from None
    launches = StatedLaunches(name, tuple(statements), tuple(template_kernels(source)), numbers)
    launches.check()
    return launches


def _misread(name: str, line: int, error: Exception) -> KinspectError:
    return KinspectError(
        f"{name}:{line}: {MARK} is not understood: {error}",
        f'such as: // {MARK} kernel grid=64 workgroup=256 args="f32[4096], i32 4096"',
    )


def _defined(flags: Sequence[str]) -> Iterator[tuple[str, str]]:
    for flag, value in zip(flags, [*flags[1:], ""], strict=False):
        text = value if flag == "-D" else flag[2:] if flag.startswith("-D") else ""
        if text:
            macro, _, stated = text.partition("=")
            yield macro, stated or "1"


def _constants(source: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for match in _CONSTANT.finditer(source):
        found.setdefault(match["macro"] or match["name"], match["value"].strip())
    return found


class _Numbers(NamedTuple):
    """The macros and constants of a file, and their values as far as they were asked for."""

    texts: Mapping[str, str]
    values: dict[str, int | None]

    def value(self, name: str) -> int:
        if name not in self.texts:
            raise ValueError(f"{name} is no number of this file")
        if name not in self.values:
            self.values[name] = None  # until it is known: it may name itself
            self.values[name] = _number(self.texts[name], self)
        found = self.values[name]
        if found is None:
            raise ValueError(f"{name} names itself, or is no number")
        return found


def _words(text: str) -> tuple[str, dict[str, str]]:
    """The kernel of a stated launch, and the texts that describe it by name."""
    words = shlex.split(text)
    at = next(
        (n for n, word in enumerate(words) if re.match(r"(grid|workgroup|block|args|lds)=", word)),
        0,
    )
    kernel = " ".join(words[:at])
    stated = dict(word.split("=", 1) for word in words[at:] if "=" in word)
    unknown = sorted(stated.keys() - {"grid", "workgroup", "block", "args", "lds"})
    if not kernel or "grid" not in stated or unknown or len(stated) != len(words) - at:
        raise ValueError(f"unknown {unknown[0]}" if unknown else "kernel or grid is missing")
    return kernel, stated


def _launch(statement: _Statement, known: _Numbers) -> StatedLaunch:
    stated = statement.words
    shape = stated.get("workgroup", stated.get("block"))
    return StatedLaunch(
        statement.kernel,
        _extents(stated["grid"], known),
        _extents(shape, known) if shape is not None else None,
        _arguments(stated.get("args", ""), known),
        _number(stated["lds"], known) if "lds" in stated else None,
    )


def _named(kernel: str, known: _Numbers) -> str:
    """A kernel's name with numbers in place of what can be worked out of its template arguments."""
    name, arguments = parts_of(kernel)
    if not arguments:
        return kernel
    return written(name, [_template_argument(argument, known) for argument in arguments])


def _template_argument(text: str, known: _Numbers) -> str:
    with suppress(ValueError, SyntaxError, ZeroDivisionError, RecursionError):
        return str(_number(text, known))

    def of(match: re.Match[str]) -> str:
        with suppress(ValueError, SyntaxError, ZeroDivisionError, RecursionError):
            return str(known.value(match[0])) if match[0] in known.texts else match[0]
        return match[0]

    return re.sub(r"\b[A-Za-z_]\w*", of, text.strip())


def _extents(text: str, known: _Numbers) -> tuple[int, int, int]:
    sizes = [_number(part, known) for part in text.split(",")]
    if not 1 <= len(sizes) <= 3 or min(sizes) < 1:
        raise ValueError(f"{text} is not X, X,Y or X,Y,Z from 1 on")
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def _arguments(text: str, known: _Numbers) -> str:
    """The same with numbers in place of names and expressions."""
    told = []
    for argument in filter(None, text.split(",")):
        match = _ARGUMENT.match(argument)
        if match is None:
            raise ValueError(f"{argument.strip()} is neither TYPE[COUNT] nor TYPE VALUE")
        if match["count"] is not None:
            told.append(f"{match['kind']}[{_number(match['count'], known)}]{match['fill']}")
        elif match["kind"].startswith(("f", "b")):
            told.append(f"{match['kind']} {match['value'].strip()}")
        else:
            told.append(f"{match['kind']} {_number(match['value'], known)}")
    return ", ".join(told)


def _number(text: str, known: _Numbers) -> int:
    if len(text) > _MOST_TEXT:
        raise ValueError(f"{text[:40]} is too long")
    return _value(ast.parse(text.strip(), mode="eval").body, known)


def _value(node: ast.expr, known: _Numbers) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        value = node.value
    elif isinstance(node, ast.Name):
        value = known.value(node.id)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = -_value(node.operand, known)
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        value = _OPERATORS[type(node.op)](_value(node.left, known), _value(node.right, known))
    else:
        raise ValueError("only numbers, names and + - * / % << are read")
    if abs(value) > _MOST:
        raise ValueError("a number is too large")
    return value
