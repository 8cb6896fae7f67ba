"""Compiles the conditions of rules, which are checked on loading and never executed as Python.

A condition is parsed with `ast`, and each allowed node is translated into a tree of `nodes`.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from .catalogue import Catalogue, Kind, ResolvedName, Scope, nearest
from .nodes import FUNCTIONS, Apply, Constant, Expression, IsNone, Join, MetricName, Node, Source

MAX_LENGTH = 2000
"""Most characters of one condition, which limits its nesting as well."""


class ExpressionError(ValueError):
    """A condition that cannot be accepted; `offset` is the character it is about, from 0."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset


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
_SOURCES: Mapping[str, Source] = MappingProxyType({"kernel": "kernel", "loop": "loop"})
_WORDS: Mapping[str, bool | None] = MappingProxyType({"true": True, "false": False, "none": None})


def compile_condition(text: str, catalogue: Catalogue, scope: Scope) -> Expression:
    """Checks and translates a condition, `count.mfma > 0 and vector_bits.lds_read.mean < 64`.

    A loop rule may also read metrics that only kernels have; a rule about instructions or waits may
    read those, and metrics of the enclosing loop.

    Raises:
        ExpressionError: bad syntax, an unknown name, or operands of the wrong kind.
    """
    expression = compile_figure(text, catalogue, scope)
    if expression.kind not in ("boolean", "any"):
        raise ExpressionError(
            f"this is a {expression.kind}, not a condition; compare it with something", 0
        )
    return expression


def compile_number(
    text: str, catalogue: Catalogue, scope: Scope, *, shown: bool = False
) -> Expression:
    """Compiles an arithmetic expression; `shown`: for a finding, of which more is known.

    Raises:
        ExpressionError: it is no valid expression, names an unknown metric, or is no number.
    """
    expression = compile_figure(text, catalogue, scope, shown=shown)
    if expression.kind not in ("number", "any"):
        raise ExpressionError(f"this is a {expression.kind}, not a number", 0)
    return expression


def compile_figure(
    text: str, catalogue: Catalogue, scope: Scope, *, shown: bool = False
) -> Expression:
    """Like `compile_number`, for an expression of any kind."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"longer than {MAX_LENGTH} characters", 0)
    source = text.replace("\n", " ").replace("\r", " ")
    lead = len(source) - len(source.lstrip())
    source = source.strip()
    if not source:
        raise ExpressionError("empty; write a comparison such as count.nop < 10", 0)
    try:
        tree = ast.parse(source, mode="eval").body
        checker = _Checker(source, catalogue, scope, shown)
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
    """Translates one `ast` tree; every translated node is returned with the kind of its values."""

    def __init__(self, source: str, catalogue: Catalogue, scope: Scope, shown: bool) -> None:
        self._source = source
        self._catalogue = catalogue
        self._scope = scope
        self._shown = shown
        self.names: list[MetricName] = []

    def node(self, node: ast.expr) -> tuple[Node, Kind]:
        """Translates a node of the tree."""
        match node:
            case ast.BoolOp(op=op, values=values):
                operands = self._operands(values, "boolean")
                return Join(isinstance(op, ast.Or), operands), "boolean"
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return Apply(FUNCTIONS["not"], self._operands([operand], "boolean")), "boolean"
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return Apply(FUNCTIONS["negative"], self._operands([operand], "number")), "number"
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                sides = self._operands([left, right], "number")
                return Apply(FUNCTIONS[_ARITHMETIC[type(op)]], sides), "number"
            case ast.Compare():
                return self._comparison(node), "boolean"
            case ast.Call(func=ast.Name(id="min" | "max" as name), args=args, keywords=[]) if (
                len(args) > 1
            ):
                return Apply(FUNCTIONS[name], self._operands(args, "number")), "number"
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
        pairs = [
            self._pair(left, _COMPARISONS[type(op)], right)
            for left, op, right in zip(sides, node.ops, sides[1:], strict=False)
        ]
        return pairs[0] if len(pairs) == 1 else Join(False, tuple(pairs))

    def _pair(self, left: ast.expr, op: str, right: ast.expr) -> Node:
        """Translates one comparison of a chain; refuses those that are never or always true."""
        if op in ("in", "not in"):
            return self._membership(left, op, right)
        (left_node, left_kind), (right_node, right_kind) = self.node(left), self.node(right)
        if op in ("is", "is not"):
            if right_kind != "none":
                raise self._error(right, f"`{op}` asks for none alone; compare values with ==")
            return IsNone(left_node, op == "is")
        for side, kind in ((left, left_kind), (right, right_kind)):
            if kind == "none":
                raise self._error(side, "a comparison with none is never true; write `is none`")
            if kind == "mapping":
                raise self._error(side, f"`{self._text(side)}` has fields; name the one to compare")
            if op not in ("==", "!=") and kind not in ("number", "any"):
                raise self._error(side, f"`{self._text(side)}` is {kind}; `{op}` compares numbers")
        if left_kind != right_kind and "any" not in (left_kind, right_kind):
            raise self._error(
                right,
                f"`{self._text(left)}` is {left_kind} and `{self._text(right)}` is {right_kind}; "
                "they are never equal",
            )
        self._check_choice(left_node, right_node, right)
        self._check_choice(right_node, left_node, left)
        return Apply(FUNCTIONS[op], (left_node, right_node))

    def _check_choice(self, name: Node, value: Node, node: ast.expr) -> None:
        """Refuses a text that the metric never has as value: a mistyped one would never match."""
        if not isinstance(name, MetricName) or not isinstance(value, Constant):
            return
        choices = self._catalogue.choices(name.name)
        if choices and value.value not in choices:
            hint = nearest(value.value, choices) or f" (it is {', '.join(sorted(choices))})"
            raise self._error(node, f"{name.name} is never {self._text(node)}{hint}")

    def _membership(self, left: ast.expr, op: str, right: ast.expr) -> Node:
        """Translates `left in (…)`, whose choices must be constants of the kind of `left`."""
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
            self._check_choice(item, choice, element)
            choices.append(choice.value)
        return Apply(FUNCTIONS[op], (item, Constant(tuple(choices))))

    def _name(self, node: ast.expr) -> tuple[Node, Kind]:
        """Translates the name of a metric, which the rule's scope must be able to read."""
        name = self._dotted(node)
        entry = self._catalogue.find(name)
        if entry is None:
            raise self._error(node, f"unknown metric {name}{self._catalogue.suggest(name)}")
        hidden = entry.hidden_from(self._scope)
        if hidden:
            message = f"{name} is known of {hidden} only; this rule's scope is {self._scope}"
            raise self._error(node, message)
        if entry.known == "matches" and not self._shown:
            raise self._error(
                node, f"{name} is for message, fix and removes: it counts what was found"
            )
        metric_name = MetricName(name, entry.metric, entry.field, self._source_of(entry))
        self.names.append(metric_name)
        return metric_name, entry.kind

    def _source_of(self, entry: ResolvedName) -> Source:
        if entry.known == "both":
            return "kernel" if self._scope == "kernel" else "loop"
        return _SOURCES.get(entry.known, "subject")

    def _dotted(self, node: ast.expr) -> str:
        """The dotted name that an attribute or name spells."""
        names = []
        inner = node
        while isinstance(inner, ast.Attribute):
            names.append(inner.attr)
            inner = inner.value
        if not isinstance(inner, ast.Name):
            raise self._error(
                inner, f"`{self._text(inner)}` has no fields; metric names look like count.mfma"
            )
        return ".".join([inner.id, *reversed(names)])

    def _operands(self, operands: Sequence[ast.expr], expected_kind: Kind) -> tuple[Node, ...]:
        """The translated operands, each of which must be of the expected kind."""
        nodes = []
        for operand in operands:
            node, kind = self.node(operand)
            if kind not in (expected_kind, "any"):
                text = self._text(operand)
                raise self._error(operand, f"`{text}` is {kind}, a {expected_kind} is needed here")
            nodes.append(node)
        return tuple(nodes)

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
        lead = self._source.encode()[: node.col_offset]
        return ExpressionError(message, len(lead.decode(errors="ignore")))
