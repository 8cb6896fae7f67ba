"""Makes functions of the model from raw ones: padding cut, branches, blocks, loops and calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from ...base.printable import printable_line
from ...model import Function, Instruction, Resources, Unread, UnreadKind
from ..asm.rawcode import CLS, LINE, OP, OPERANDS, RawFunction
from ..mnemonics import Flow, flow_of
from . import cfg
from .branches import Branches
from .calls import Calls, find_calls
from .cfg import abridged

LEFT_OUT = "its registers, scratch and LDS are not in the figures"
"""The end of a note on a call to code that is not in the file."""

_DEBUG_LABEL = re.compile(r"\.L(?:tmp|func_begin|func_end|post_getpc|post_addpc|exception)\d*$")
"""Labels that serve debug information or address arithmetic alone."""
_MOST_LINES = 5
"""Lines that an `Unread` lists."""


def finish(
    raw: RawFunction,
    branches: Branches,
    resources: Resources,
    *,
    entry_points: Mapping[int, str],
    shown_name: str | None = None,
    defined: Callable[[str], bool] | None = None,
) -> Function:
    """Makes a `Function` of a raw one.

    Args:
        raw: the rows, padding included.
        branches: the destinations of its branches.
        resources: the resources that the text states.
        entry_points: address -> function, for disassemblies.
        shown_name: a readable name that the metadata gives, if it differs from the symbol.
        defined: whether the text holds a symbol's code; None where it holds all of them.
    """
    branches = replace(branches, unknown=_unfollowed_jumps(raw, branches))
    notes = [*raw.notes, *_reading_notes(raw, branches)]
    unread = _unread_code(raw, [*branches.numeric, *branches.unknown])
    raw, new_index = raw.without_padding((raw.real_entry, *branches.targets.values()))
    branches = branches.renumbered(new_index)
    # A row holds the fields of an instruction, but for the index, in their order.
    instructions = tuple([Instruction(index, *row) for index, row in enumerate(raw.rows)])
    flow = cfg.build(
        instructions,
        branches.targets,
        _labels(raw, set(branches.targets.values())),
        unknown_jumps=branches.unknown,
        real_entry=raw.real_entry,
    )
    named = {**branches.calls, **branches.leaves}
    direct = {i: _name(symbol, entry_points) for i, symbol in named.items()}
    calls = find_calls(instructions, flow.blocks, direct, entry_points)
    notes.extend((*flow.notes, *_call_notes(calls, defined)))
    if not instructions:
        note = "no instruction of it was read" if unread else "no instructions: the kernel is empty"
        notes.append(note)
    if resources.code_bytes is None and raw.code_bytes is not None:
        resources = replace(resources, code_bytes=raw.code_bytes)
    name = printable_line(shown_name or raw.name)
    return Function(
        name=name,
        is_kernel=raw.is_kernel,
        line_first=raw.line,
        line_last=max(raw.line_last, raw.line),
        instructions=instructions,
        blocks=flow.blocks,
        loops=flow.loops,
        resources=resources,
        calls=calls.symbols,
        notes=tuple(dict.fromkeys(notes)),
        symbol=raw.name if name != raw.name else None,
        unread=tuple(unread),
    )


def _unfollowed_jumps(raw: RawFunction, branches: Branches) -> list[int]:
    """The rows of jumps that could go anywhere; those of a device function are its returns."""
    if raw.is_kernel:
        return branches.unknown
    flows = {i: flow_of(raw.rows[i][OP], raw.rows[i][OPERANDS]) for i in branches.unknown}
    return [i for i in branches.unknown if flows[i] is not Flow.INDIRECT]


def _reading_notes(raw: RawFunction, branches: Branches) -> Iterator[str]:
    """Notes on branches, lines and words of a function that could not be read."""
    if branches.numeric:
        lines = abridged([raw.rows[i][LINE] for i in branches.numeric])
        yield f"the branch on line {lines} has a bare offset that is not followed"
    if raw.unrecognised:
        yield (
            f"{len(raw.unrecognised)} lines are not recognised as instructions "
            f"(unknown macros?): line {abridged(raw.unrecognised)}"
        )
    if raw.undecoded:
        yield f"{raw.undecoded} words of it are not decoded"


def _unread_code(raw: RawFunction, jumps: Sequence[int]) -> list[Unread]:
    """The code that could not be read, for the model; `jumps` are rows of jumps not followed."""
    unread = [
        *raw.unread,
        *_unread("lines", raw.unrecognised),
        *_unread("jump", [raw.rows[i][LINE] for i in jumps]),
    ]
    if raw.undecoded:
        words = [row[LINE] for row in raw.rows if row[CLS] == "unknown"]
        unread.append(Unread("words", raw.undecoded, tuple(words[:_MOST_LINES])))
    return unread


def _labels(raw: RawFunction, targets: AbstractSet[int]) -> dict[int, list[str]]:
    """Index -> labels; those made for debug information only at targets without another name."""
    labels: dict[int, list[str]] = {}
    debug_labels: list[tuple[str, int]] = []
    for name, index in raw.labels.items():
        if _DEBUG_LABEL.match(name):
            debug_labels.append((name, index))
        else:
            labels.setdefault(index, []).append(name)
    for name, index in debug_labels:
        if index in targets and index not in labels:
            labels[index] = [name]
    return labels


def _call_notes(calls: Calls, defined: Callable[[str], bool] | None) -> Iterator[str]:
    """Notes on calls of functions that are not in the file."""
    if calls.unresolved:
        lines = abridged(calls.unresolved)
        yield f"the call on line {lines} goes to an unknown function: {LEFT_OUT}"
    for symbol, sites in calls.sites.items():
        if defined is not None and not defined(symbol):
            lines = abridged(sites)
            yield f"the call on line {lines} goes to an unknown function ({symbol}): {LEFT_OUT}"


def _unread(kind: UnreadKind, lines: Sequence[int]) -> list[Unread]:
    return [Unread(kind, len(lines), tuple(lines[:_MOST_LINES]))] if lines else []


def _name(symbol: str, entry_points: Mapping[int, str]) -> str:
    if symbol.startswith("0x") and entry_points:
        return entry_points.get(int(symbol, 16), symbol)
    return symbol
