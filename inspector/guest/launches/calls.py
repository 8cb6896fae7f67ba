"""Files that only define kernels: what to launch is said by `--call` or in a comment.

    # kinspect: call flash_attn_func(T(2, 1024, 8, 64), T(2, 1024, 8, 64), T(2, 1024, 8, 64))

The expression is evaluated in the file's own namespace, where `T` makes a tensor on the GPU.
"""

from __future__ import annotations

import importlib
import io
import re
import tokenize
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from ..records import Emit, error, one_line
from ..syntax import parse
from .endings import place_in
from .project import Project

COMMENT = re.compile(r"#\s*kinspect:\s*call\s+(?P<call>.+)")


def stated_calls(source: bytes) -> list[str]:
    """The calls that a file's comments ask for; none where it cannot be tokenised."""
    if b"kinspect:" not in source:
        return []
    try:
        parse(source)  # Python's tokenizer takes minutes for blanks before what is no token
        tokens = list(tokenize.tokenize(io.BytesIO(source).readline))
    except (tokenize.TokenError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    comments = [t.string for t in tokens if t.type == tokenize.COMMENT]
    found = [COMMENT.match(text) for text in comments]
    return [match["call"].strip() for match in found if match is not None]


def make_calls(
    calls: Sequence[str], module: ModuleType, tensor: Any, project: Project, emit: Emit
) -> None:
    """Evaluates each call; one that fails does not keep the others.

    Args:
        calls: expressions or statements.
        module: the file they are about.
        tensor: makes stand-in tensors.
        project: which files are the user's.
        emit: takes an error for each that fails.
    """
    helpers: dict[str, Any] = {"T": tensor}
    for name in ("torch", "triton"):
        try:
            helpers[name] = importlib.import_module(name)
        except ImportError:
            continue
    for text in calls:
        namespace = {**helpers, **module.__dict__, "T": tensor}
        try:
            exec(compile(text, "<call>", "exec"), namespace)
        except Exception as failure:
            where = place_in(failure, project) or f"--call {text!r}"
            hint = (
                "it is evaluated where the file's names are known; "
                "T(2, 1024, 64, dtype='bf16') makes a tensor"
            )
            message = f"the call {text!r} ended with {type(failure).__name__}: {one_line(failure)}"
            emit(error("capture", message, hint, place=where))
