"""The history of a thing through the dumped MLIR passes: who made, changed or removed it."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from ..base.errors import KinspectError
from ..base.limits import natural
from ..compile.mlir_text import line_numbers_without_locations
from ..compile.passes import CompilerPass, PassDump
from ..model import Layout, SourceLoc, TtgirModule, TtgirOp, TtgirType
from ..ttgir.conversions import tile_bytes
from ..ttgir.layouts import contig_per_thread
from ..ttgir.parser import parse_ttgir
from ..ttgir.queries import loads

Deed = Literal["made", "changed", "removed"]
_CONVERT = "ttg.convert_layout"
_ALLOC = "ttg.local_alloc"
_LOOPS = frozenset(("scf.for", "scf.while"))
_MOST_FORMS = 6
"""Operations that an event names on either side."""


class StateFigures(Struct, frozen=True):
    """Figures of the module before a pass.

    Args:
        local_alloc_bytes: LDS that `local_alloc` operations ask for, padding excluded; None where
            the size of an element is not known.
        load_elements: fewest neighbouring elements that a lane holds of a loaded tile; None without
            a tile whose layout is known.
    """

    convert_layouts: int
    local_alloc_bytes: int | None
    load_elements: int | None
    loops: int
    carried: int


class Event(Struct, frozen=True):
    """What a pass did to the thing.

    Args:
        deed: `made` if nothing of it was there before, `removed` if nothing is left.
        gone, new: operations, with the types of their results, that the pass took and put; the
            most frequent of each.
        lines_before, lines_after: the lines of its operations in the module before and after the
            pass, without debug locations (`PassDump.state`), from 1.
    """

    index: int
    name: str
    stage: str
    deed: Deed
    before: int
    after: int
    gone: tuple[str, ...]
    new: tuple[str, ...]
    lines_before: tuple[int, ...] = ()
    lines_after: tuple[int, ...] = ()


class PassFigures(Struct, frozen=True):
    """A pass that changed figures, and what they are before and after it."""

    index: int
    name: str
    stage: str
    before: StateFigures
    after: StateFigures


class _State(Struct, frozen=True):
    """What is compared of a state of the module."""

    digest: bytes
    forms: Counter[str]
    lines: tuple[int, ...]
    figures: StateFigures


class History(Struct, frozen=True):
    """The history of a thing, and the passes that changed the module's figures.

    Args:
        events: what passes did to it, in order.
        figures: the passes that changed a figure, in order.
        unread: states that could not be parsed; they are left out.
    """

    thing: str
    at_start: int
    events: tuple[Event, ...]
    figures: tuple[PassFigures, ...]
    unread: int


def history_of(dump: PassDump, thing: str) -> History:
    """Follows a thing through a dump.

    Args:
        thing: a line of the source (`42`), a value by its name (`%acc`), an operation
            (`local_alloc`, `ttg.local_alloc`) or the operations of a line (`local_alloc@42`).

    Raises:
        KinspectError: nothing in any state is meant by it.
    """
    events: list[Event] = []
    figures: list[PassFigures] = []
    at_start: int | None = None
    unread = 0
    maker: CompilerPass | None = None
    last: _State | None = None
    for item in _states(dump):
        text = dump.text(item.index)
        digest = hashlib.sha256(text.strip().encode()).digest()
        if last is not None and digest == last.digest:
            maker = item
            continue
        try:
            module = parse_ttgir(text, "pass")
        except KinspectError:
            unread += 1
            continue
        state = _state(text, digest, module, thing)
        if last is None:
            at_start = state.forms.total()
        elif maker is not None:
            event = _event(maker, last, state)
            events += [event] if event is not None else []
            if last.figures != state.figures:
                figures.append(
                    PassFigures(maker.index, _name(maker), maker.stage, last.figures, state.figures)
                )
        last, maker = state, item
    if not events and not at_start:
        raise KinspectError(
            f"nothing in the passes is {thing!r}",
            "name a line (42), a value (%acc), an operation (local_alloc) or those of a line"
            " (local_alloc@42)",
        )
    return History(thing, at_start or 0, tuple(events), tuple(figures), unread)


def _states(dump: PassDump) -> Iterator[CompilerPass]:
    """Yields the passes whose states before them are TTIR or TTGIR, of the first compile."""
    for item in dump.passes:
        if item.run != dump.passes[0].run:
            return
        yield item
        if item.stage == "llir":  # its first state is what the passes on TTGIR made
            return


def _state(text: str, digest: bytes, module: TtgirModule, thing: str) -> _State:
    ops = [op for op in module.ops if _is_meant(op, thing)]
    numbers = line_numbers_without_locations(text) if ops else []
    lines = tuple(numbers[op.line - 1] for op in ops)
    return _State(digest, Counter(map(_form, ops)), lines, _figures(module))


def _event(maker: CompilerPass, before: _State, after: _State) -> Event | None:
    if before.forms == after.forms:
        return None
    gone, new = before.forms - after.forms, after.forms - before.forms
    deed: Deed = "changed"
    if not before.forms:
        deed = "made"
    elif not after.forms:
        deed = "removed"
    return Event(
        maker.index,
        _name(maker),
        maker.stage,
        deed,
        before.forms.total(),
        after.forms.total(),
        _most(gone),
        _most(new),
        before.lines,
        after.lines,
    )


def _most(forms: Counter[str]) -> tuple[str, ...]:
    return tuple(
        form if count == 1 else f"{count} x {form}"
        for form, count in forms.most_common(_MOST_FORMS)
    )


def _name(item: CompilerPass) -> str:
    return item.cli or item.name


def _is_meant(op: TtgirOp, thing: str) -> bool:
    if thing.isdecimal():
        return any(loc.line == natural(thing) for loc in _user_frames(op.loc))
    if thing.startswith("%"):
        # MLIR tells values of one name apart by a number at the end.
        pattern = re.compile(re.escape(thing.lstrip("%")) + r"(_\d+)?(:\d+)?")
        return any(pattern.fullmatch(result.lstrip("%")) for result in op.results)
    name, _, line = thing.partition("@")
    if line.isdecimal() and (op.loc is None or op.loc.in_user_code.line != natural(line)):
        return False
    return op.name == name or op.name.endswith("." + name)


def _user_frames(loc: SourceLoc | None) -> Iterator[SourceLoc]:
    """Yields the position in the user's code and those that call it; not Triton's own files."""
    frame = loc.in_user_code if loc is not None else None
    while frame is not None:
        yield frame
        frame = frame.inlined_at


def _form(op: TtgirOp) -> str:
    types = ", ".join(map(_type_form, op.result_types or op.operand_types[:1]))
    return f"{op.name} {types}".strip()


def _type_form(value_type: TtgirType) -> str:
    shape = "x".join(map(str, value_type.shape))
    if value_type.kind not in ("tensor", "memdesc"):
        return value_type.text
    layout = f" {_layout_form(value_type.layout)}" if value_type.layout is not None else ""
    return f"{value_type.kind} {shape}x{value_type.element}{layout}"


def _layout_form(layout: Layout) -> str:
    """Returns a layout's text with its parent's in place of the alias, which passes renumber."""
    parent = layout.parent
    if parent is None or parent.alias is None:
        return layout.text
    alias = re.escape("#" + parent.alias.lstrip("#"))
    form = _layout_form(parent)
    return re.sub(rf"{alias}\b", lambda _: form, layout.text)


def _figures(module: TtgirModule) -> StateFigures:
    sizes = [tile_bytes(op.result_types[0]) for op in module.ops if op.name == _ALLOC]
    known = [size for size in sizes if size is not None]
    runs = [
        contig_per_thread(load.result_types[0].layout, load.result_types[0].shape)
        for load in loads(module)
        if load.result_types and load.result_types[0].kind == "tensor"
    ]
    loops = [op for op in module.ops if op.name in _LOOPS]
    return StateFigures(
        convert_layouts=sum(op.name == _CONVERT for op in module.ops),
        local_alloc_bytes=sum(known) if len(known) == len(sizes) else None,
        load_elements=min((run for run in runs if run is not None), default=None),
        loops=len(loops),
        carried=sum(len(op.result_types) for op in loops),
    )
