"""Checks the types of arguments that a file states.

Triton evaluates part of a tensor descriptor's type (`str_to_ty` in triton/language/__init__.py).
"""

from __future__ import annotations

import re
from typing import Any

from .refusals import RefusedError

ELEMENT = r"(?:[iu]\d{1,2}|[fb]p?\d{1,2}|bf16|fp8\w{0,8}|B|nvTmaDesc)"
ARGUMENT = re.compile(
    rf"\*{{0,4}}k?\*{{0,4}}{ELEMENT}"
    rf"|constexpr|void"
    rf"|tensordesc(?:_im2col)?<{ELEMENT}\[[\d, ]{{1,80}}\](?:,input_rank=\d{{1,2}})?>"
)


def check_type(kind: Any) -> None:
    """Checks the type of an argument, or a tuple of types.

    Raises:
        RefusedError: a text is not just a type.
    """
    if isinstance(kind, (tuple, list)):
        for inner_kind in kind:
            check_type(inner_kind)
    elif not isinstance(kind, str) or ARGUMENT.fullmatch(kind) is None:
        raise RefusedError(f"the argument type {kind!r}")
