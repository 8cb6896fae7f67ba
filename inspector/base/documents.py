"""Documents (JSON, YAML, TOML) as values, within bounds: each damage is a `KinspectError`.

The parsers themselves fail in other ways on what a stranger may write: libyaml overflows the C
stack on deep nesting, PyYAML's constructors raise whatever comes on numbers and dates, tomllib
takes minutes for one key, and a number of 5,000 digits is an error here or there.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any

from .errors import KinspectError
from .limits import MOST_DIGITS, MOST_KEY_PARTS, MOST_NESTED, MOST_YAML_NODES, LimitError

_CORRECT = "correct the file"


def json_value(
    text: str | bytes, name: str, hint: str = _CORRECT, *, infinite_as_text: bool = False
) -> Any:
    """Parses JSON.

    Args:
        infinite_as_text: whether what Python writes for floats that JSON lacks becomes text.

    Raises:
        KinspectError: it is not JSON (which has no NaN), is nested too deeply, or holds a number
            that is too large or has thousands of digits.
    """
    import json

    try:
        constant = _text_of_constant if infinite_as_text else _finite
        return json.loads(text, parse_constant=constant, parse_float=_finite)
    except RecursionError:
        raise KinspectError(f"{name}: not valid JSON (nested too deeply)", hint) from None
    except ValueError as error:
        raise KinspectError(f"{name}: not valid JSON ({_reason(error)})", hint) from None


def _text_of_constant(text: str) -> str:
    return str(float(text))  # nan, inf, -inf


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"{text} is no number of JSON's")
    return value


def toml_value(text: str, name: str) -> dict[str, Any]:
    """Parses TOML.

    Raises:
        KinspectError: it is not TOML, is nested too deeply, or has a key of too many parts.
    """
    from importlib import import_module

    for number, line in enumerate(text.splitlines(), 1):
        if line.count(".") >= MOST_KEY_PARTS and _key_parts(line) > MOST_KEY_PARTS:
            raise KinspectError(
                f"{name}:{number}: not valid TOML (a key of over {MOST_KEY_PARTS} parts)", _CORRECT
            )
    tomllib = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        value: dict[str, Any] = tomllib.loads(text)
    except RecursionError:
        raise KinspectError(f"{name}: not valid TOML (nested too deeply)", _CORRECT) from None
    except ValueError as error:
        raise KinspectError(f"{name}: not valid TOML ({_reason(error)})", _CORRECT) from None
    if _LONG_NUMBER.search(text):
        _check_numbers(value, name)
    return value


_LONG_NUMBER = re.compile(r"0[xob][0-9a-fA-F_]{16}")
_MOST_BITS = 63


def _check_numbers(value: object, name: str) -> None:
    """Raises an error for a whole number of over 64 bits: decimal ones of many digits are none."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            _check_numbers(item, name)
    elif isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise KinspectError(f"{name}: not valid TOML (a number of over 64 bits)", _CORRECT)


_TOML_TOKEN = re.compile(r"(?P<part>[\w-]+|\"[^\"]*\"|'[^']*')|(?P<dot>\.)|(?P<space>[ \t]+)|.")


def _key_parts(line: str) -> int:
    """Returns the largest number of parts in a row with dots between them."""
    longest = parts = 0
    after_dot = False
    for match in _TOML_TOKEN.finditer(line):
        if match["part"] is not None:
            parts = parts + 1 if after_dot else 1
            after_dot = False
            longest = max(longest, parts)
        elif match["dot"] is not None:
            after_dot = parts > 0
        elif match["space"] is None:
            parts, after_dot = 0, False
    return longest


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())
    if "integer string conversion" in text:
        return "it holds a number of thousands of digits"
    return text if len(text) <= 200 else f"{text[:197]}..."


# A line far to the right, or many indicators in a row: with brackets, all that can nest deeply.
_FAR_RIGHT = re.compile(rf"^[ \t]{{{MOST_NESTED}}}|(?:[-?:][ \t]+){{{MOST_NESTED}}}", re.MULTILINE)


def yaml_value(text: str, name: str, hint: str = _CORRECT) -> Any:
    """Parses a document of YAML: plain values; 1:30 is a text, not ninety.

    Raises:
        KinspectError: it is not YAML, is nested too deeply, expands to far more than it holds
            (aliases of aliases), or has an invalid number.
    """
    import yaml

    loader = yaml_loader()
    try:
        check_yaml(text, name, hint)
        return yaml.load(text, Loader=loader)
    except KinspectError:
        raise
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        location = f"{name}:{mark.line + 1}" if mark is not None else name
        problem = _reason(Exception(getattr(error, "problem", None) or error))
        raise KinspectError(f"{location}: not valid YAML ({problem})", hint) from None
    except Exception as error:
        # Constructors of explicit tags and of dates raise what their conversions raise.
        problem = f"{type(error).__name__}: {_reason(error)}"
        raise KinspectError(f"{name}: not readable YAML ({problem})", hint) from None


def own_yaml(path: Path) -> Any:
    """Parses a YAML file that comes with kinspect."""
    import yaml

    return yaml.load(path.read_bytes(), Loader=yaml_loader())


def check_yaml(text: str, name: str, hint: str = _CORRECT) -> None:
    """Checks a text against the bounds before a parser that recurses in C reads it.

    Raises:
        LimitError: it is nested too deeply, or its aliases expand to far more than it holds.
        yaml.YAMLError: it is not YAML.
    """
    import yaml

    suspect = text.count("[") + text.count("{") >= MOST_NESTED or _FAR_RIGHT.search(text)
    if suspect or ("*" in text and "&" in text):
        try:
            _check_expansion(text, name, hint)
        except yaml.MarkedYAMLError as error:
            # libyaml has a lower bound of its own (PyYAML 6.0.4), and looks ahead.
            if not is_nested(text, error.problem_mark, MOST_NESTED):
                raise
            raise LimitError(_too_deep(name, error.problem_mark), hint) from None


def is_nested(text: str, mark: Any, limit: int) -> bool:
    """Tells whether more than `limit` collections are open at a mark of the YAML parser.

    Args:
        mark: the position of the parser's error; None if it has none.
    """
    if mark is None:
        return False
    lines = text.split("\n")
    text_before = "\n".join(
        [*lines[: mark.line], lines[min(mark.line, len(lines) - 1)][: mark.column]]
    )
    opened = (
        text_before.count("[")
        + text_before.count("{")
        - text_before.count("]")
        - text_before.count("}")
    )
    return opened > limit or mark.column > limit


def _too_deep(name: str, mark: Any) -> str:
    return f"{name}{_line_suffix(mark)}: YAML nested over {MOST_NESTED} deep"


def _check_expansion(text: str, name: str, hint: str) -> None:
    """Counts levels and nodes by the parser's events, which it gives without recursion."""
    import yaml

    open_sizes = [0]  # of each open collection: nodes in it, aliases counted as what they repeat
    anchors: dict[str, int] = {}
    named: list[str | None] = [None]
    events: Iterator[Any] = yaml.parse(text, Loader=yaml_loader())
    for event in events:
        kind = type(event)  # told by its type, which leaves its fields untyped
        if issubclass(kind, yaml.CollectionStartEvent):
            if len(open_sizes) > MOST_NESTED:
                raise LimitError(_too_deep(name, event.start_mark), hint)
            anchors.pop(event.anchor or "", None)
            open_sizes.append(1)
            named.append(event.anchor)
            continue
        if issubclass(kind, yaml.CollectionEndEvent):
            size, anchor = open_sizes.pop(), named.pop()
        elif issubclass(kind, yaml.ScalarEvent):
            size, anchor = 1, event.anchor
        elif issubclass(kind, yaml.AliasEvent):
            # One that is not known yet names what it stands in: a value that holds itself.
            size, anchor = anchors.get(event.anchor or "", MOST_YAML_NODES), None
        else:
            continue
        if anchor is not None:
            anchors[anchor] = size
        open_sizes[-1] += size
        if open_sizes[-1] > MOST_YAML_NODES and anchors:
            line = _line_suffix(event.start_mark)
            raise LimitError(f"{name}{line}: YAML whose aliases repeat without end", hint)


def _line_suffix(mark: Any) -> str:
    """Returns a mark of the YAML parser as `:LINE`; empty if there is none."""
    return "" if mark is None else f":{mark.line + 1}"


@cache
def yaml_loader() -> Any:
    """Returns PyYAML's safe loader, libyaml's if possible, without numbers to the base of 60.

    libyaml takes a tenth of the time. YAML 1.1 reads 1:30 as ninety, in time quadratic in the
    parts; here it is a text.
    """
    import yaml

    integer, real = "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"
    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader: Any = type("Loader", (base,), {})
    loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in (integer, real)]
        for first, resolvers in base.yaml_implicit_resolvers.items()
    }
    loader.add_implicit_resolver(
        integer,
        re.compile(r"^[-+]?(?:0b[01_]+|0[0-7_]*|[1-9][0-9_]*|0x[0-9a-fA-F_]+)$"),
        list("-+0123456789"),
    )
    loader.add_implicit_resolver(
        real,
        re.compile(
            r"^(?:[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+][0-9]+)?"
            r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
        ),
        list("-+0123456789."),
    )

    loader.add_constructor(integer, _bounded_number("construct_yaml_int"))
    loader.add_constructor(real, _bounded_number("construct_yaml_float"))
    return loader


def _bounded_number(method: str) -> Any:
    """Returns a constructor of numbers that refuses those of very many digits."""

    def construct(loader: Any, node: Any) -> Any:
        if len(str(node.value)) > MOST_DIGITS:
            from yaml.constructor import ConstructorError

            raise ConstructorError(
                None, None, f"a number of over {MOST_DIGITS} digits", node.start_mark
            )
        return getattr(loader, method)(node)

    return construct


# Parts of a dotted name; see guest/syntax.py, which the host does not import.
_DOTTED = r"(?:\.[\s\\]*\w+[\s\\]*){1000}"


def literal(source: str | ast.expr) -> Any:
    """The value of a Python literal; nothing is evaluated.

    Raises:
        ValueError: it is another expression, or none, or too deeply nested.
    """
    try:
        return ast.literal_eval(source)
    except (SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise ValueError(str(error)) from None


def python_tree(source: str | bytes) -> ast.Module:
    """Parses a Python module.

    Raises:
        SyntaxError: it is not Python, or has a dotted name of 1,000 parts and more, for which
            CPython's parser may need gigabytes.
        ValueError, RecursionError, MemoryError: as `ast.parse`, for NULs and deep nesting.
    """
    is_long = (
        re.search(_DOTTED.encode(), source)
        if isinstance(source, bytes)
        else re.search(_DOTTED, source)
    )
    if is_long:
        raise SyntaxError("a dotted name of 1,000 parts or more")
    return ast.parse(source)
