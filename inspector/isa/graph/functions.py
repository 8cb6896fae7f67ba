"""From raw functions to the model's: padding cut, branches resolved, blocks, loops and calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from ...model import Function, Instruction, Resources, Unread, UnreadKind
from ...printable import printable_line
from ..asm.contents import is_debug_label
from ..asm.rawcode import CLS, LINE, OP, OPERANDS, RawFunction
from ..flow import Flow, flow_of
from . import cfg
from .branches import Branches
from .calls import find_calls

LEFT_OUT = "its registers, scratch and LDS are not in the figures"
"""What a note on a call to code that is not at hand says of the caller's figures."""


_FEW_LINES = 5


def finish(
    raw: RawFunction,
    branches: Branches,
    resources: Resources,
    *,
    entry_points: Mapping[int, str],
    shown_name: str | None = None,
    defined: Callable[[str], bool] | None = None,
) -> Function:
    """Makes a `Function` of what was read.

    Args:
        raw: the rows; padding may still be in them.
        branches: where its branches go, by row.
        resources: what the text states of it.
        entry_points: address -> function, for disassemblies.
        shown_name: a readable name that the metadata gives, if it differs from the symbol.
        defined: whether the text holds a symbol's code; None where calls name only such.
    """
    unknown = branches.unknown
    if not raw.is_kernel:
        # Jumps through a register in a device function are its returns.
        unknown = [i for i in unknown if _flow(raw, i) is not Flow.INDIRECT]
    direct = {**branches.calls, **branches.leaves}
    notes = list(raw.notes)
    if branches.numeric:
        notes.append(
            "the branch on line "
            + _few([raw.rows[i][LINE] for i in branches.numeric])
            + " has a bare offset that is not followed"
        )
    if raw.unrecognised:
        notes.append(
            f"{len(raw.unrecognised)} lines are not recognised as instructions "
            f"(unknown macros?): line {_few(raw.unrecognised)}"
        )

    if raw.undecoded:
        notes.append(f"{raw.undecoded} words of it are not decoded")
    unread = [
        *raw.unread,
        *_unread("lines", raw.unrecognised),
        *_unread("jump", [raw.rows[i][LINE] for i in (*branches.numeric, *unknown)]),
    ]
    if raw.undecoded:
        words = [row[LINE] for row in raw.rows if row[CLS] == "unknown"]
        unread.append(Unread("words", raw.undecoded, tuple(words[:_FEW_LINES])))
    raw, moved = raw.without_padding((raw.real_entry, *branches.targets.values()))
    targets = {moved[i]: moved[target] for i, target in branches.targets.items()}
    # A row holds the fields of an instruction, but for the index, in their order.
    instructions = tuple([Instruction(index, *row) for index, row in enumerate(raw.rows)])
    labels: dict[int, list[str]] = {}
    aimed_at = set(targets.values())
    # Labels made for debug information count only where a branch has no other name to go to.
    debugging: list[tuple[str, int]] = []
    for name, index in raw.labels.items():
        if is_debug_label(name):
            debugging.append((name, index))
        else:
            labels.setdefault(index, []).append(name)
    for name, index in debugging:
        if index in aimed_at and index not in labels:
            labels[index] = [name]
    flow = cfg.build(
        instructions,
        targets,
        labels,
        unknown_jumps=[moved[i] for i in unknown],
        real_entry=raw.real_entry,
    )
    calls = find_calls(
        instructions,
        flow.blocks,
        {moved[i]: _name(symbol, entry_points) for i, symbol in direct.items()},
        entry_points,
    )
    notes.extend(flow.notes)
    if calls.unresolved:
        notes.append(
            f"the call on line {_few(calls.unresolved)} goes to an unknown function: {LEFT_OUT}"
        )
    for symbol, lines in calls.sites.items():
        if defined is not None and not defined(symbol):
            notes.append(
                f"the call on line {_few(lines)} goes to an unknown function ({symbol}): {LEFT_OUT}"
            )
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


def _unread(kind: UnreadKind, lines: Sequence[int]) -> list[Unread]:
    return [Unread(kind, len(lines), tuple(lines[:_FEW_LINES]))] if lines else []


def _flow(raw: RawFunction, i: int) -> Flow:
    return flow_of(raw.rows[i][OP], raw.rows[i][OPERANDS])


def _name(symbol: str, entry_points: Mapping[int, str]) -> str:
    if symbol.startswith("0x") and entry_points:
        return entry_points.get(int(symbol, 16), symbol)
    return symbol


def _few(lines: Sequence[int]) -> str:
    text = ", ".join(map(str, lines[:3]))
    return text + (f" and {len(lines) - 3} more" if len(lines) > 3 else "")
