"""Shapes of parameters as docstrings state them: `x: (B, S, H) in fp16`, `q of shape [B, T, D]`.

They are guesses, used only for a call that is suggested to the user.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Mapping

Shape = tuple[str, ...]

GROUP = re.compile(r"\(([^()\[\]]*)\)|\[([^()\[\]]*)\]")
NO_EXTENTS = frozenset(
    (
        *("bool", "default", "dict", "float", "int", "keyword", "list", "none", "optional"),
        *("required", "str", "tensor", "tuple"),
    )
)
"""Words in brackets behind a parameter's name that describe its type, not its shape."""
MAX_RANK = 6
MAX_EXTENT = 1 << 16
OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Div)
SEQUENCE, BATCH, HEADS = 1024, 2, 8
EXTENT = 1024


def stated_shape(docstring: str, name: str, other_names: Collection[str]) -> Shape | None:
    """The extents that a docstring states for a parameter.

    Args:
        docstring: of the function.
        name: of the parameter.
        other_names: names of its other parameters, whose text is not read.
    """
    lines = docstring.splitlines()
    for number, line in enumerate(lines):
        match = re.match(rf"[\s*`:-]*(?:param\s+)?{re.escape(name)}\b(.*)", line)
        if match is None:
            continue
        text = match[1]
        for continuation in lines[number + 1 :]:
            first_word = re.match(r"[\s*`:-]*(?:param\s+)?(\w+)", continuation)
            if first_word is None or first_word[1] in other_names:
                break
            text += " " + continuation
        for group in GROUP.finditer(text):
            shape = _extents(group[1] if group[1] is not None else group[2], group[1] is None)
            if shape is not None:
                return shape
    inline = re.search(rf"\b{re.escape(name)}`*\s*:\s*`*({GROUP.pattern})", docstring)
    return _extents(inline[1][1:-1], inline[1].startswith("[")) if inline is not None else None


def extents(shapes: Iterable[Shape]) -> Mapping[Shape, str]:
    """Example extents for the shapes of one call, as `T(...)` takes them.

    A name gets the same number in all shapes.
    """
    kinds = list(dict.fromkeys(shapes))
    numbers: dict[str, int] = {}
    for shape in sorted(kinds, key=len, reverse=True):
        for dimension, extent in enumerate(shape):
            if extent.isidentifier() and extent not in numbers:
                numbers[extent] = _example_extent(extent, dimension, len(shape))
    return {
        shape: ", ".join(str(_evaluate(extent, numbers)) for extent in shape) for shape in kinds
    }


def _extents(text: str, is_list: bool) -> Shape | None:
    """The extents in brackets; None where the text is no shape.

    Args:
        text: the text inside the brackets.
        is_list: whether the brackets are square ones.
    """
    parts = [part.strip(" `'\"") for part in text.split(",")]
    if not is_list and len(parts) == 1:
        return None  # (optional), (int)
    if not parts[-1]:
        parts.pop()
    if not parts or len(parts) > MAX_RANK or not all(map(_is_extent, parts)):
        return None
    return tuple(parts)


def _is_extent(text: str) -> bool:
    """Whether a text is a positive integer, a name, or arithmetic on these."""
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            if node.id.lower() in NO_EXTENTS:
                return False
        elif isinstance(node, ast.Constant):
            if type(node.value) is not int or node.value < 1:
                return False
        elif not isinstance(node, (ast.BinOp, ast.Load, *OPERATORS)):
            return False
    return True


def _example_extent(name: str, dimension: int, rank: int) -> int:
    """An example extent for a dimension of this name and index in a shape of this rank."""
    lower_name = name.lower()
    if lower_name in ("b", "bs", "z") or lower_name.startswith("batch"):
        return BATCH
    if (
        lower_name in ("l", "s", "t")
        or "seq" in lower_name
        or "len" in lower_name
        or "ctx" in lower_name
    ):
        return SEQUENCE
    if (
        rank > 3
        and "dim" not in lower_name
        and ("head" in lower_name or (lower_name[0] == "h" and len(lower_name) < 5))
    ):
        return HEADS
    return 64 if rank > 2 and dimension == rank - 1 else HEADS if rank > 3 else EXTENT


def _evaluate(text: str, numbers: Mapping[str, int]) -> int:
    """The value of an extent, between 1 and `MAX_EXTENT`.

    Args:
        text: an extent, see `_is_extent`.
        numbers: name -> example extent; other names get `EXTENT`.
    """

    def evaluate(node: ast.AST) -> int:
        if isinstance(node, ast.BinOp):
            x, y = evaluate(node.left), evaluate(node.right)
            if isinstance(node.op, ast.Add):
                return x + y
            if isinstance(node.op, ast.Sub):
                return x - y
            return x * y if isinstance(node.op, ast.Mult) else x // max(y, 1)
        if isinstance(node, ast.Constant):
            return int(node.value)  # type: ignore[arg-type]
        return numbers.get(getattr(node, "id", ""), EXTENT)

    return min(max(1, evaluate(ast.parse(text, mode="eval").body)), MAX_EXTENT)
