"""Shapes of parameters as docstrings state them: `x: (B, S, H) in fp16`, `q of shape [B, T, D]`.

For the call that is shown to a user: a guess, which nothing rests on.
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
"""What stands in brackets behind a parameter's name and is its type."""
MOST_RANK = 6
MOST_EXTENT = 1 << 16
OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Div)
SEQUENCE, BATCH, HEADS = 1024, 2, 8
EXTENT = 1024


def stated_shape(docstring: str, name: str, other_names: Collection[str]) -> Shape | None:
    """The extents that a docstring states for a parameter.

    Args:
        docstring: of the function.
        name: of the parameter.
        other_names: names of its other parameters: what follows them is theirs.
    """
    lines = docstring.splitlines()
    for number, line in enumerate(lines):
        match = re.match(rf"[\s*`:-]*(?:param\s+)?{re.escape(name)}\b(.*)", line)
        if match is None:
            continue
        text = match[1]
        for continuation in lines[number + 1 :]:
            first = re.match(r"[\s*`:-]*(?:param\s+)?(\w+)", continuation)
            if first is None or first[1] in other_names:
                break
            text += " " + continuation
        for group in GROUP.finditer(text):
            shape = _extents(group[1] if group[1] is not None else group[2], group[1] is None)
            if shape is not None:
                return shape
    inline = re.search(rf"\b{re.escape(name)}`*\s*:\s*`*({GROUP.pattern})", docstring)
    return _extents(inline[1][1:-1], inline[1].startswith("[")) if inline is not None else None


def extents(shapes: Iterable[Shape]) -> Mapping[Shape, str]:
    """Numbers for the shapes of one call, as `T(...)` takes them: a letter means one number."""
    kinds = list(dict.fromkeys(shapes))
    numbers: dict[str, int] = {}
    for shape in sorted(kinds, key=len, reverse=True):
        for place, extent in enumerate(shape):
            if extent.isidentifier() and extent not in numbers:
                numbers[extent] = _usual(extent, place, len(shape))
    return {shape: ", ".join(str(_value(extent, numbers)) for extent in shape) for shape in kinds}


def _extents(text: str, is_list: bool) -> Shape | None:
    parts = [part.strip(" `'\"") for part in text.split(",")]
    if not is_list and len(parts) == 1:
        return None  # (optional), (int)
    if not parts[-1]:
        parts.pop()
    if not parts or len(parts) > MOST_RANK or not all(map(_is_extent, parts)):
        return None
    return tuple(parts)


def _is_extent(text: str) -> bool:
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


def _usual(name: str, place: int, rank: int) -> int:
    low = name.lower()
    if low in ("b", "bs", "z") or low.startswith("batch"):
        return BATCH
    if low in ("l", "s", "t") or "seq" in low or "len" in low or "ctx" in low:
        return SEQUENCE
    if rank > 3 and "dim" not in low and ("head" in low or (low[0] == "h" and len(low) < 5)):
        return HEADS
    return 64 if rank > 2 and place == rank - 1 else HEADS if rank > 3 else EXTENT


def _value(text: str, numbers: Mapping[str, int]) -> int:
    def evaluate(node: ast.AST) -> int:
        if isinstance(node, ast.BinOp):
            left, right = evaluate(node.left), evaluate(node.right)
            if isinstance(node.op, ast.Add):
                return left + right
            if isinstance(node.op, ast.Sub):
                return left - right
            return left * right if isinstance(node.op, ast.Mult) else left // max(right, 1)
        if isinstance(node, ast.Constant):
            return int(node.value)  # type: ignore[arg-type]
        return numbers.get(getattr(node, "id", ""), EXTENT)

    return min(max(1, evaluate(ast.parse(text, mode="eval").body)), MOST_EXTENT)
