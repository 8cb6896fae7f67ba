"""The history of a thing through the dumped MLIR passes: who made, changed or removed it.

The states before the passes are parsed as TTIR or TTGIR; an operation counts by its name and the
types of its results, layouts written out, so that numbering and aliases do not matter.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from ..compile.passes import CompilerPass, PassDump
from ..errors import KinspectError
from ..model import Layout, TtgirModule, TtgirOp, TtgirType
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
        convert_layouts: conversions of layouts.
        local_alloc_bytes: LDS that `local_alloc` operations ask for, padding excluded; None where
            the size of an element is not known.
        load_elements: fewest neighbouring elements that a lane holds of a loaded tile; None without
            a tile whose layout is known.
        loops: loops.
        carried: values that the loops carry, all together.
    """

    convert_layouts: int
    local_alloc_bytes: int | None
    load_elements: int | None
    loops: int
    carried: int


class Event(Struct, frozen=True):
    """What a pass did to the thing.

    Args:
        index: the pass's number in the dump.
        name: its name on the command line, else its class.
        stage: `ttir`, `ttgir` or `llir`.
        deed: `made` if nothing of it was there before, `removed` if nothing is left.
        before, after: operations of it before and after the pass.
        gone, new: operations, with the types of their results, that the pass took and put; the
            most frequent of each.
    """

    index: int
    name: str
    stage: str
    deed: Deed
    before: int
    after: int
    gone: tuple[str, ...]
    new: tuple[str, ...]


class PassFigures(Struct, frozen=True):
    """A pass that changed figures, and what they are before and after it."""

    index: int
    name: str
    stage: str
    before: StateFigures
    after: StateFigures


class History(Struct, frozen=True):
    """The history of a thing, and the passes that changed the module's figures.

    Args:
        thing: as the user named it.
        at_start: operations of it in the first state.
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
        dump: the passes of one compile.
        thing: a line of the source (`42`), a value by its name (`%acc`) or an operation
            (`local_alloc`, `ttg.local_alloc`).

    Raises:
        KinspectError: nothing in any state is meant by it.
    """
    events: list[Event] = []
    figures: list[PassFigures] = []
    at_start: int | None = None
    unread = 0
    maker: CompilerPass | None = None
    last: tuple[bytes, Counter[str], StateFigures] | None = None
    for item in _states(dump):
        text = dump.text(item.index)
        digest = hashlib.sha256(text.strip().encode()).digest()
        if last is not None and digest == last[0]:
            maker = item
            continue
        try:
            module = parse_ttgir(text, "pass")
        except KinspectError:
            unread += 1
            continue
        state = digest, _forms(module, thing), _figures(module)
        if last is None:
            at_start = state[1].total()
        elif maker is not None:
            event = _event(maker, last[1], state[1])
            events += [event] if event is not None else []
            if last[2] != state[2]:
                figures.append(
                    PassFigures(maker.index, _name(maker), maker.stage, last[2], state[2])
                )
        last, maker = state, item
    if not events and not at_start:
        raise KinspectError(
            f"nothing in the passes is {thing!r}",
            "name a line (42), a value (%acc) or an operation (local_alloc)",
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


def _event(maker: CompilerPass, before: Counter[str], after: Counter[str]) -> Event | None:
    if before == after:
        return None
    gone, new = before - after, after - before
    deed: Deed = "changed"
    if not before:
        deed = "made"
    elif not after:
        deed = "removed"
    return Event(
        maker.index,
        _name(maker),
        maker.stage,
        deed,
        before.total(),
        after.total(),
        _most(gone),
        _most(new),
    )


def _most(forms: Counter[str]) -> tuple[str, ...]:
    return tuple(
        form if count == 1 else f"{count} x {form}"
        for form, count in forms.most_common(_MOST_FORMS)
    )


def _name(item: CompilerPass) -> str:
    return item.cli or item.name


def _forms(module: TtgirModule, thing: str) -> Counter[str]:
    """Counts the operations that a thing means, by name and types of results."""
    return Counter(_form(op) for op in module.ops if _is_meant(op, thing))


def _is_meant(op: TtgirOp, thing: str) -> bool:
    if thing.isdecimal():
        return op.loc is not None and op.loc.line == int(thing)
    if thing.startswith("%"):
        # MLIR tells values of one name apart by a number at the end.
        pattern = re.compile(re.escape(thing.lstrip("%")) + r"(_\d+)?(:\d+)?")
        return any(pattern.fullmatch(result.lstrip("%")) for result in op.results)
    return op.name == thing or op.name.endswith("." + thing)


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
