"""What the registers hold where most are live, and what is spilled, in the words of the source."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cached_property

from ..isa.dataflow.definitions import ranges
from ..isa.dataflow.liveness import Liveness
from ..isa.dataflow.operands import SCALAR_BIT, rows_of
from ..isa.graph.cfg import loop_of
from ..model import LivePeak, LiveValue, LoopTraffic, ParkedValue, SpilledValue, UntouchedValues
from .register_moves import SCRATCH_ROW
from .scratch_use import Web, webs
from .source_values import SourceValue
from .subject import NamedValues, Subject
from .value_flow import ValueFlow


def named_values(subject: Subject, live: Liveness, index: int, hot: Set[str]) -> NamedValues:
    """The values that registers and spill slots hold at an instruction, and all that are spilled.

    `live`: its live registers; `index`: of the instruction, as a rule the one at which most are
    live.
    """
    named = _NamedRegisters(subject, live)
    return NamedValues(
        named.peak(index), named.spilled(hot), named.parked(), tuple(named.untouched(hot))
    )


class _NamedRegisters:
    """The tables of one kernel."""

    def __init__(self, subject: Subject, live: Liveness) -> None:
        self._function = subject.function
        self._live = live
        self._accum_offset = live.target.accum_offset
        self._values = ValueFlow(subject, live)
        self._moves = self._values.moves

    def peak(self, index: int) -> LivePeak:
        inst = self._function.instructions[index]
        live = self._live
        behind = live.after[index] | live.effects[index].writes
        rows_before = [row for row in rows_of(live.before[index]) if row < SCALAR_BIT]
        rows_behind = [row for row in rows_of(behind) if row < SCALAR_BIT]
        is_before = len(rows_before) >= len(rows_behind)
        rows = rows_before if is_before else rows_behind
        held: dict[SourceValue, set[int]] = defaultdict(set)
        for row in rows:
            fresh = not is_before and bool(live.effects[index].writes >> row & 1)
            held[self._values.value_at(index, row, fresh=fresh)].add(row)
        for row in self._moves.live_slots(index):
            held[self._values.value_at(index, row, fresh=False)].add(row)
        loop = loop_of(self._function).get(index)
        return LivePeak(
            line=inst.line,
            instruction=inst.mnemonic,
            source=inst.loc,
            loop=loop.id if loop is not None else None,
            vgprs=sum(row < self._accum_offset for row in rows),
            agprs=sum(row >= self._accum_offset for row in rows),
            values=self._sorted_values(held),
        )

    def untouched(self, hot: Set[str]) -> Iterator[UntouchedValues]:
        """What passes through each hot loop in registers that it neither reads nor writes."""
        for loop in self._function.loops:
            blocks = [self._function.blocks[number] for number in loop.blocks]
            passing = self._live.untouched(blocks) if loop.id in hot else 0
            rows = [row for row in rows_of(passing) if row < SCALAR_BIT]
            if not rows:
                continue
            first = self._function.blocks[loop.header].start
            held: dict[SourceValue, set[int]] = defaultdict(set)
            for row in rows:
                held[self._values.value_at(first, row, fresh=False)].add(row)
            yield UntouchedValues(
                loop=loop.id,
                vgprs=sum(row < self._accum_offset for row in rows),
                agprs=sum(row >= self._accum_offset for row in rows),
                values=self._sorted_values(held),
            )

    def _sorted_values(self, held: Mapping[SourceValue, set[int]]) -> tuple[LiveValue, ...]:
        """The values with their registers, the most first."""
        return tuple(
            sorted(
                (self._value(identity, rows) for identity, rows in held.items()),
                key=lambda value: (-(value.vgprs + value.agprs + value.scratch), value.name or ""),
            )
        )

    @cached_property
    def _webs(self) -> Mapping[int, Sequence[Web]]:
        """Dword of scratch memory -> the webs of what is spilled there, one value after another."""
        return {
            self._moves.row_of(dword): of_dword for dword, of_dword in webs(self._function).items()
        }

    @cached_property
    def _web_at(self) -> Mapping[tuple[int, int], Web]:
        """Access of a dword of scratch memory, by its index and the dword -> its web."""
        return {
            (index, row): web
            for row, of_dword in self._webs.items()
            for web in of_dword
            for index in (*web.stores, *web.reloads)
        }

    @cached_property
    def _value_of_web(self) -> Mapping[tuple[int, Web], SourceValue]:
        """Dword of scratch memory and web that is stored to -> the value that it holds there."""
        values = {}
        for row, of_dword in sorted(self._webs.items()):
            for web in of_dword:
                if web.stores:
                    holder, stores = self._holder(row, web)
                    values[row, web] = self._values.spilled_value(holder, stores)
        return values

    def parked(self) -> dict[int, ParkedValue]:
        """Line of the assembly that stores to or reloads from a slot -> the value of most of it."""
        parked = {}
        for index, touched in self._moves.slots.items():
            accessed = [
                (row, self._web_at[index, row]) for row in (*touched.writes, *touched.reads)
            ]
            values = Counter(
                self._value_of_web[place] for place in accessed if place in self._value_of_web
            ).most_common(1)
            for value, _ in values:
                line = self._function.instructions[index].line
                parked[line] = ParkedValue(value.name, value.kind, value.source)
        return parked

    def spilled(self, hot: Set[str]) -> tuple[SpilledValue, ...]:
        """Every value that is parked in scratch memory: most traffic in hot loops first."""
        places_of_value: dict[SourceValue, list[tuple[int, Web]]] = defaultdict(list)
        for place, value in self._value_of_web.items():
            places_of_value[value].append(place)
        loop_of = self._loops_of(hot)
        values = []
        for identity, places in places_of_value.items():
            rows = {row for row, _ in places}
            parking = {index for _, web in places for index in web.stores}
            fetching = {index for _, web in places for index in web.reloads}
            values.append(
                SpilledValue(
                    name=identity.name,
                    kind=identity.kind,
                    type=identity.type,
                    source=identity.source,
                    dwords=len(rows),
                    stores=len(parking),
                    reloads=len(fetching),
                    hot_stores=sum(index in loop_of for index in parking),
                    hot_reloads=sum(index in loop_of for index in fetching),
                    loops=tuple(sorted({loop_of[i] for i in parking | fetching if i in loop_of})),
                    slots=self._moves.slots_text(rows),
                    by_loop=_traffic(parking, fetching, loop_of),
                )
            )
        values.sort(
            key=lambda value: (
                -(value.hot_stores + value.hot_reloads),
                -value.dwords,
                value.name or "",
                value.source.line if value.source else 0,
            )
        )
        return tuple(values)

    def _holder(self, row: int, web: Web) -> tuple[int, Sequence[int]]:
        """The dword whose value a dword is parked with, and the stores of that value."""
        parked_with = {other for index in web.stores for other in self._moves.slots[index].writes}
        for other in (row, *sorted(parked_with)):
            joined = {
                self._web_at[index, other]: None
                for index in web.stores
                if (index, other) in self._web_at
            }
            for beside in joined:
                if any(self._moves.is_used(index, other) for index in beside.reloads):
                    return other, beside.stores
        return row, web.stores

    def _loops_of(self, hot: Set[str]) -> dict[int, str]:
        """Index of an access of a spill slot -> id of the hot loop that it stands in."""
        return {
            index: loop.id
            for index, loop in loop_of(self._function).items()
            if loop.id in hot and index in self._moves.slots
        }

    def _value(self, identity: SourceValue, rows: set[int]) -> LiveValue:
        vgprs = {row for row in rows if row < self._accum_offset}
        agprs = {row - self._accum_offset for row in rows if self._accum_offset <= row < SCALAR_BIT}
        named = [("v", vgprs), ("a", agprs)]
        return LiveValue(
            name=identity.name,
            kind=identity.kind,
            type=identity.type,
            source=identity.source,
            vgprs=len(vgprs),
            agprs=len(agprs),
            scratch=sum(row >= SCRATCH_ROW for row in rows),
            registers=" ".join(
                f"{letter}{first}" if first == last else f"{letter}[{first}:{last}]"
                for letter, numbers in named
                for first, last in ranges(numbers)
            ),
            slots=self._moves.slots_text(rows),
        )


def _traffic(
    parking: Set[int], fetching: Set[int], loop_of: Mapping[int, str]
) -> tuple[LoopTraffic, ...]:
    """The accesses of a spilled value by hot loop, in the order of their ids."""
    stores, reloads = (
        Counter(loop_of[index] for index in indices if index in loop_of)
        for indices in (parking, fetching)
    )
    return tuple(
        LoopTraffic(loop, stores[loop], reloads[loop]) for loop in sorted({*stores, *reloads})
    )
