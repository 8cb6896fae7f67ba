"""Makes a change that `kinspect try --format json` states in the script that it is about.

Only what the text of the script decides is done: a number in a launch or in an autotuner's
configuration, a keyword of @triton.jit, the annotation of an argument, the name of a function.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

UPCAST = ".to(tl.float32) of both operands of tl.dot"
LOG2_E = "1.4426950408889634"
Edit = tuple[int, int, str]
"""Offsets in the UTF-8 source, and the text between them."""


class NotMechanicalError(Exception):
    """The source does not say in one place what would have to be changed."""


def applied(source: str, kernel: str, change: dict[str, Any]) -> str:
    """The source with a change.

    Args:
        source: of the script.
        kernel: name of its function.
        change: kind, name, value and before, as in the JSON of `kinspect try`.

    Raises:
        NotMechanicalError: it cannot be made by rule.
    """
    script = _Script(source, kernel)
    kind, name = change["kind"], change["name"]
    if kind in ("option", "constexpr"):
        edits = script.setting(name, repr(change["value"]), is_constexpr=kind == "constexpr")
    elif kind == "argument":
        edits = script.annotation(name)
    elif kind == "source" and name == "tl.exp(x)":
        edits = script.exponentials()
    elif kind == "source" and name == UPCAST:
        edits = script.without_upcasts()
    elif kind == "source" and change["value"] is None:
        edits = script.without_keyword(name)
    elif kind == "source" and name == "tl.range's num_stages":
        edits = script.range_stages(repr(change["value"]))
    else:
        raise NotMechanicalError(f"no rule for a change of kind {kind} to {name}")
    return script.edited(edits)


class _Script:
    def __init__(self, source: str, kernel: str) -> None:
        self._bytes = source.encode()
        self._tree = ast.parse(source)
        self._starts = [0]
        for line in self._bytes.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        functions = [
            node
            for node in ast.walk(self._tree)
            if isinstance(node, ast.FunctionDef) and node.name == kernel
        ]
        if len(functions) != 1:
            raise NotMechanicalError(f"{len(functions)} functions are named {kernel}")
        self._function = functions[0]

    def edited(self, edits: list[Edit]) -> str:
        text = self._bytes
        for first, last, new in sorted(edits, reverse=True):
            text = text[:first] + new.encode() + text[last:]
        return text.decode()

    def setting(self, name: str, value: str, *, is_constexpr: bool) -> list[Edit]:
        """An option or constexpr, in the configurations that state it, else in the launches."""
        stated = [
            node
            for call in self._configurations()
            for node in self._of_configuration(call, name, is_constexpr)
        ]
        if stated:
            return [self._replaced(node, value) for node in stated]
        launches = list(self._launches())
        if not launches:
            raise NotMechanicalError(f"no launch of {self._function.name} is written out")
        edits = []
        for call, scope in launches:
            given = next((word.value for word in call.keywords if word.arg == name), None)
            if given is not None:
                edits.append(self._replaced(self._literal(given, scope), value))
            elif is_constexpr:
                raise NotMechanicalError(f"the launch does not pass {name} by name")
            else:
                passed: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
                last = max(map(self._end, passed))
                edits.append((last, last, f", {name}={value}"))
        return list(dict.fromkeys(edits))

    def annotation(self, name: str) -> list[Edit]:
        arguments = self._function.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if argument.arg == name:
                if argument.annotation is not None:
                    return [self._replaced(argument.annotation, "tl.constexpr")]
                end = self._end(argument)
                return [(end, end, ": tl.constexpr")]
        raise NotMechanicalError(f"{self._function.name} has no argument {name}")

    def exponentials(self) -> list[Edit]:
        """`tl.exp(x)` as `tl.exp2((x) * log2(e))`."""
        edits: list[Edit] = []
        for node in ast.walk(self._function):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("tl.exp", "tl.math.exp"):
                first, last = self._span(node.args[0])
                edits += [
                    (*self._span(node.func), "tl.exp2"),
                    (first, first, "("),
                    (last, last, f") * {LOG2_E}"),
                ]
        if not edits:
            raise NotMechanicalError(f"{self._function.name} calls no tl.exp itself")
        return edits

    def without_keyword(self, name: str) -> list[Edit]:
        """A keyword of the decorator, and the comma beside it."""
        for decorator in self._function.decorator_list:
            words = decorator.keywords if isinstance(decorator, ast.Call) else []
            for word in (word for word in words if word.arg == name):
                first, last = self._span(word)
                before = self._bytes[:first].rstrip()
                if before.endswith(b","):
                    return [(len(before) - 1, last, "")]
                after = self._bytes[last:]
                comma = len(after) - len(after.lstrip().removeprefix(b",").lstrip())
                return [(first, last + comma, "")]
        raise NotMechanicalError(f"no decorator of {self._function.name} has {name}")

    def without_upcasts(self) -> list[Edit]:
        """`x.to(tl.float32)` as `x` where it, or a name for it, is an operand of a `tl.dot`."""
        products = [
            node
            for node in ast.walk(self._function)
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "tl.dot"
        ]
        operands = [operand for call in products for operand in call.args[:2]]
        names = {operand.id for operand in operands if isinstance(operand, ast.Name)}
        operands += [
            node.value
            for node in ast.walk(self._function)
            if isinstance(node, ast.Assign) and {ast.unparse(at) for at in node.targets} & names
        ]
        edits: list[Edit] = []
        for operand in operands:
            if isinstance(operand, ast.Call) and ast.unparse(operand).endswith(".to(tl.float32)"):
                assert isinstance(operand.func, ast.Attribute)
                edits.append((self._end(operand.func.value), self._end(operand), ""))
        if not edits:
            raise NotMechanicalError(f"{self._function.name} converts no operand itself")
        return edits

    def range_stages(self, value: str) -> list[Edit]:
        edits = [
            self._replaced(word.value, value)
            for node in ast.walk(self._function)
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "tl.range"
            for word in node.keywords
            if word.arg == "num_stages"
        ]
        if not edits:
            raise NotMechanicalError("no tl.range states num_stages")
        return edits

    def _configurations(self) -> Iterator[ast.Call]:
        for decorator in self._function.decorator_list:
            for node in ast.walk(decorator):
                if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Config"):
                    yield node

    def _of_configuration(
        self, call: ast.Call, name: str, is_constexpr: bool
    ) -> Iterator[ast.expr]:
        """What a configuration says; AMD's own options may stand among its constexprs."""
        if not is_constexpr:
            yield from (word.value for word in call.keywords if word.arg == name)
        values = call.args[0] if call.args else None
        if isinstance(values, ast.Dict):
            for key, value in zip(values.keys, values.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == name:
                    yield value

    def _launches(self) -> Iterator[tuple[ast.Call, ast.AST]]:
        """`kernel[grid](...)`, each with the function that it stands in."""
        scopes = [n for n in ast.walk(self._tree) if isinstance(n, ast.FunctionDef)]
        for node in ast.walk(self._tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Subscript)
                and ast.unparse(node.func.value) == self._function.name
            ):
                around = [s for s in scopes if any(inner is node for inner in ast.walk(s))]
                yield node, around[-1] if around else self._tree

    def _literal(self, value: ast.expr, scope: ast.AST) -> ast.expr:
        """Where a value is written: itself, or the one assignment of its name."""
        if isinstance(value, ast.Constant):
            return value
        if isinstance(value, ast.Name):
            found = [
                literal
                for node in ast.walk(scope)
                if isinstance(node, ast.Assign)
                for target in node.targets
                for name, literal in _pairs(target, node.value)
                if name == value.id
            ]
            if len(found) == 1 and isinstance(found[0], ast.Constant):
                return found[0]
        raise NotMechanicalError(f"{ast.unparse(value)} is computed")

    def _replaced(self, node: ast.expr, text: str) -> Edit:
        return (*self._span(node), text)

    def _span(self, node: ast.expr | ast.keyword) -> tuple[int, int]:
        return self._starts[node.lineno - 1] + node.col_offset, self._end(node)

    def _end(self, node: ast.expr | ast.keyword | ast.arg) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._starts[node.end_lineno - 1] + node.end_col_offset


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Names and what is assigned to them; of `a, b = 1, 2` each by itself."""
    if isinstance(target, ast.Name):
        yield target.id, value
    elif (
        isinstance(target, ast.Tuple)
        and isinstance(value, ast.Tuple)
        and len(target.elts) == len(value.elts)
    ):
        for one, its_value in zip(target.elts, value.elts, strict=True):
            yield from _pairs(one, its_value)
