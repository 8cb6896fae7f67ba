"""The places in a script that a graph of torch.compile and its operations come from."""

from __future__ import annotations

import re
from types import CodeType
from typing import Any

from .generated import Origin, is_internal

_FRAME = re.compile(r'^ *File "(?P<file>.+)", line (?P<line>\d+), in ', re.MULTILINE)
"""A line of the stack trace that Dynamo attaches to each operation of a graph."""
_RESUMED_NAME = re.compile(r"torch_dynamo_resume_in_(?P<name>.+)_at_\d+")
"""Dynamo's name of the part of a function that follows a graph break."""


def origin_of(code: CodeType | None, compile_call: Origin | None) -> Origin:
    """The function that is traced, with its file and line.

    Args:
        code: the code object that Dynamo traces; None where it traces none.
        compile_call: the call of torch.compile, which is the origin where `code` is torch's own
            or not known.
    """
    if code is None or is_internal(code.co_filename):
        return compile_call or Origin("a graph", "", 0)
    name = getattr(code, "co_qualname", code.co_name).rpartition("<locals>.")[2]
    resumed = _RESUMED_NAME.fullmatch(name)
    name = resumed["name"] if resumed is not None else name
    return Origin(name, code.co_filename, code.co_firstlineno)


def operation_places(model: Any) -> dict[str, tuple[str, int]]:
    """The file and line of each operation of Dynamo's graph, by its name in Inductor's comments.

    Operations that Dynamo added itself have no stack trace and are left out.
    """
    graph = getattr(model, "graph", None)
    places = {}
    for node in graph.nodes if graph is not None else ():
        frames = _FRAME.findall(node.meta.get("stack_trace") or "")
        if frames:
            file, line = frames[-1]  # the innermost
            places[node.name] = (file, int(line))
    return places
