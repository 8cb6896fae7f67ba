"""Rule conditions: comparisons over metric names, checked when loaded, never executed as Python.

The text is parsed with `ast` and translated, node by allowed node, into the small trees below.
Metrics can be unknown (None). Anything computed from an unknown is unknown, `and`, `or` and `not`
follow Kleene's three-valued logic, and a condition that stays unknown decides nothing.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from kinspect.inspector.errors import KinspectError
from kinspect.inspector.lint.catalogue import Catalogue, Kind, Scope
from kinspect.inspector.model import MetricValue

MAX_LENGTH = 2000
"""Characters of one condition. Deep nesting is bounded with it."""


class ExpressionError(ValueError):
    """A condition that cannot be accepted; `offset` is the character it is about, from 0."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset


@dataclass(frozen=True, slots=True)
class Values:
    """What names stand for: the kernel's metrics, and in a loop rule those of the loop."""

    kernel: Mapping[str, MetricValue]
    loop: Mapping[str, MetricValue]


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, text, true, false, none, or the choices of an `in`."""

    value: Any

    def evaluate(self, values: Values) -> Any:
        return self.value


@dataclass(frozen=True, slots=True)
class MetricName:
    """A metric, or one field of a metric that is a mapping."""

    metric: str
    field: str | None
    of_loop: bool

    @property
    def name(self) -> str:
        return self.metric if self.field is None else f"{self.metric}.{self.field}"

    def evaluate(self, values: Values) -> MetricValue:
        found = (values.loop if self.of_loop else values.kernel).get(self.metric)
        if self.field is None:
            return found
        return found.get(self.field) if isinstance(found, Mapping) else None


@dataclass(frozen=True, slots=True)
class Apply:
    """An operation of `_OPERATIONS` on its operands, all of which are evaluated."""

    operation: str
    operands: tuple[Node, ...]

    def evaluate(self, values: Values) -> Any:
        return _OPERATIONS[self.operation](*(o.evaluate(values) for o in self.operands))


Node = Constant | MetricName | Apply


@dataclass(frozen=True, slots=True)
class Expression:
    """A checked condition or figure; `names` are the metrics it reads, in order."""

    text: str
    kind: Kind
    root: Node
    names: tuple[MetricName, ...]

    def evaluate(self, values: Values) -> Any:
        """The value, None where it is unknown.

        Raises:
            KinspectError: a value has another kind than the condition takes it for. Only fields of
                mappings can do that: the kind of everything else is checked on loading.
        """
        try:
            return self.root.evaluate(values)
        except (TypeError, OverflowError, RecursionError) as error:
            raise KinspectError(
                f"rule condition `{self.text}`: {error}",
                "compare each metric with a value of its own kind",
            ) from error


def _strict(function: Callable[..., Any]) -> Callable[..., Any]:
    def apply(*operands: Any) -> Any:
        return None if any(o is None for o in operands) else function(*operands)

    return apply


def _truth(value: Any) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    raise TypeError(f"{value!r} is neither true nor false")


def _and(*operands: Any) -> bool | None:
    truths = [_truth(o) for o in operands]
    return False if False in truths else None if None in truths else True


def _or(*operands: Any) -> bool | None:
    truths = [_truth(o) for o in operands]
    return True if True in truths else None if None in truths else False


def _divide(a: float, b: float) -> float | None:
    return a / b if b else None  # a share of nothing is unknown, not infinite


_OPERATIONS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "and": _and,
        "or": _or,
        "not": _strict(lambda a: not _truth(a)),
        "is": lambda a, b: a is b,
        "is not": lambda a, b: a is not b,
        "==": _strict(operator.eq),
        "!=": _strict(operator.ne),
        "<": _strict(operator.lt),
        "<=": _strict(operator.le),
        ">": _strict(operator.gt),
        ">=": _strict(operator.ge),
        "in": _strict(lambda a, choices: a in choices),
        "not in": _strict(lambda a, choices: a not in choices),
        "+": _strict(operator.add),
        "-": _strict(operator.sub),
        "*": _strict(operator.mul),
        "/": _strict(_divide),
        "negative": _strict(operator.neg),
        "min": _strict(min),
        "max": _strict(max),
    }
)
_COMPARISONS: Mapping[type[ast.AST], str] = MappingProxyType(
    {
        ast.Eq: "==",
        ast.NotEq: "!=",
        ast.Lt: "<",
        ast.LtE: "<=",
        ast.Gt: ">",
        ast.GtE: ">=",
        ast.Is: "is",
        ast.IsNot: "is not",
        ast.In: "in",
        ast.NotIn: "not in",
    }
)
_ARITHMETIC: Mapping[type[ast.AST], str] = MappingProxyType(
    {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
)
_WORDS: Mapping[str, bool | None] = MappingProxyType({"true": True, "false": False, "none": None})


def compile_condition(text: str, catalogue: Catalogue, scope: Scope) -> Expression:
    """Checks and translates a condition.

    Args:
        text: the condition, e.g. `count.mfma > 0 and vector_bits.lds_read.mean < 64`.
        catalogue: the names it may use.
        scope: what the rule looks at. A loop rule may also read metrics that only kernels have.

    Raises:
        ExpressionError: bad syntax, an unknown name, or operands of the wrong kind.
    """
    expression = compile_figure(text, catalogue, scope)
    if expression.kind not in ("boolean", "any"):
        raise ExpressionError(
            f"this is a {expression.kind}, not a condition; compare it with something", 0
        )
    return expression


def compile_figure(text: str, catalogue: Catalogue, scope: Scope) -> Expression:
    """As `compile_condition`, for an expression of any kind: what a message shows."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"longer than {MAX_LENGTH} characters", 0)
    source = text.replace("\n", " ").replace("\r", " ")
    lead = len(source) - len(source.lstrip())
    source = source.strip()
    if not source:
        raise ExpressionError("empty; write a comparison such as count.nop < 10", 0)
    try:
        tree = ast.parse(source, mode="eval").body
        checker = _Checker(source, catalogue, scope)
        root, kind = checker.node(tree)
    except SyntaxError as error:
        column = error.offset - 1 if error.offset else len(source)  # no offset: something missing
        message = f"{error.msg}; compare with ==, !=, <, <=, >, >=, in, join with and, or, not"
        raise ExpressionError(message, lead + column) from None
    except ExpressionError as error:
        raise ExpressionError(error.message, lead + error.offset) from None
    except (RecursionError, MemoryError, ValueError):
        raise ExpressionError("too deeply nested, or not text", 0) from None
    return Expression(source, kind, root, tuple(dict.fromkeys(checker.names)))


class _Checker:
    """Translates one `ast` tree; every node comes back with the kind of its values."""

    def __init__(self, source: str, catalogue: Catalogue, scope: Scope) -> None:
        self._source = source
        self._catalogue = catalogue
        self._scope = scope
        self.names: list[MetricName] = []

    def node(self, node: ast.expr) -> tuple[Node, Kind]:
        match node:
            case ast.BoolOp(op=op, values=values):
                word = "and" if isinstance(op, ast.And) else "or"
                return Apply(word, tuple(self._want(v, "boolean") for v in values)), "boolean"
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return Apply("not", (self._want(operand, "boolean"),)), "boolean"
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return Apply("negative", (self._want(operand, "number"),)), "number"
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                operands = (self._want(left, "number"), self._want(right, "number"))
                return Apply(_ARITHMETIC[type(op)], operands), "number"
            case ast.Compare():
                return self._comparison(node), "boolean"
            case ast.Call(func=ast.Name(id="min" | "max" as name), args=args, keywords=[]) if (
                len(args) > 1
            ):
                return Apply(name, tuple(self._want(a, "number") for a in args)), "number"
            case ast.Constant(value=value):
                return Constant(value), self._constant_kind(node, value)
            case ast.Name(id=word) if word in _WORDS:
                return Constant(_WORDS[word]), self._constant_kind(node, _WORDS[word])
            case ast.Name() | ast.Attribute():
                return self._name(node)
            case _:
                raise self._error(
                    node,
                    f"`{self._text(node)}` is not allowed here; conditions are made of metric "
                    "names, numbers, text, comparisons, and, or, not, + - * /, min(…), max(…)",
                )

    def _comparison(self, node: ast.Compare) -> Node:
        sides = [node.left, *node.comparators]
        parts = [
            self._pair(left, _COMPARISONS[type(op)], right)
            for left, op, right in zip(sides, node.ops, sides[1:], strict=False)
        ]
        return parts[0] if len(parts) == 1 else Apply("and", tuple(parts))

    def _pair(self, left: ast.expr, op: str, right: ast.expr) -> Node:
        if op in ("in", "not in"):
            return self._membership(left, op, right)
        (a, a_kind), (b, b_kind) = self.node(left), self.node(right)
        if op in ("is", "is not"):
            if b_kind != "none":
                raise self._error(right, f"`{op}` asks for none alone; compare values with ==")
            return Apply(op, (a, b))
        for side, kind in ((left, a_kind), (right, b_kind)):
            if kind == "none":
                raise self._error(side, "a comparison with none is never true; write `is none`")
            if kind == "mapping":
                raise self._error(side, f"`{self._text(side)}` has fields; name the one to compare")
            if op not in ("==", "!=") and kind not in ("number", "any"):
                raise self._error(side, f"`{self._text(side)}` is {kind}; `{op}` compares numbers")
        if a_kind != b_kind and "any" not in (a_kind, b_kind):
            raise self._error(
                right,
                f"`{self._text(left)}` is {a_kind} and `{self._text(right)}` is {b_kind}; "
                "they are never equal",
            )
        return Apply(op, (a, b))

    def _membership(self, left: ast.expr, op: str, right: ast.expr) -> Node:
        item, kind = self.node(left)
        if not isinstance(right, (ast.Tuple, ast.List, ast.Set)) or not right.elts:
            raise self._error(right, f'`{op}` needs a list of choices, such as ("vgpr", "lds")')
        choices = []
        for element in right.elts:
            choice, choice_kind = self.node(element)
            if not isinstance(choice, Constant) or choice_kind == "none":
                raise self._error(element, "choices are numbers or text written out")
            if choice_kind != kind and kind != "any":
                raise self._error(
                    element, f"`{self._text(left)}` is {kind}, this choice {choice_kind}"
                )
            choices.append(choice.value)
        return Apply(op, (item, Constant(tuple(choices))))

    def _name(self, node: ast.expr) -> tuple[Node, Kind]:
        name = self._dotted(node)
        entry = self._catalogue.find(name)
        if entry is None:
            raise self._error(node, f"unknown metric {name}{self._catalogue.suggest(name)}")
        if self._scope == "kernel" and entry.scope == "loop":
            raise self._error(node, f"{name} is known of loops only; this rule's scope is kernel")
        of_loop = self._scope == "loop" and entry.scope != "kernel"
        found = MetricName(entry.metric, entry.field, of_loop)
        self.names.append(found)
        return found, entry.kind

    def _dotted(self, node: ast.expr) -> str:
        parts = []
        at = node
        while isinstance(at, ast.Attribute):
            parts.append(at.attr)
            at = at.value
        if not isinstance(at, ast.Name):
            raise self._error(
                at, f"`{self._text(at)}` has no fields; metric names look like count.mfma"
            )
        return ".".join([at.id, *reversed(parts)])

    def _want(self, node: ast.expr, wanted: Kind) -> Node:
        found, kind = self.node(node)
        if kind not in (wanted, "any"):
            raise self._error(node, f"`{self._text(node)}` is {kind}, a {wanted} is needed here")
        return found

    def _constant_kind(self, node: ast.expr, value: object) -> Kind:
        if value is None:
            return "none"
        if isinstance(value, bool):
            return "boolean"
        if isinstance(value, (int, float)):
            return "number"
        if isinstance(value, str):
            return "text"
        raise self._error(node, f"`{self._text(node)}` is neither a number nor text")

    def _text(self, node: ast.expr) -> str:
        return ast.get_source_segment(self._source, node) or ""

    def _error(self, node: ast.expr, message: str) -> ExpressionError:
        # ast counts columns in UTF-8 bytes; people and editors count characters.
        before = self._source.encode()[: node.col_offset]
        return ExpressionError(message, len(before.decode(errors="ignore")))
