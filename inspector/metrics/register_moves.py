"""How values go from register to register: what copies, spills and arithmetic pass on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from ..isa.dataflow.definitions import START, Definitions, Touched, ranges
from ..isa.dataflow.liveness import Liveness
from ..isa.dataflow.operands import (
    SCALAR_BIT,
    SUFFIXES,
    Decoded,
    Operand,
    decode,
    halves_of,
    rows_of,
    vector_bits,
)
from ..model import Function, Instruction, SourceLoc
from .scratch_use import Dword, spilled_dwords

SCRATCH_ROW: Final = 1 << 16
"""Row of the first dword of scratch memory, beyond those of all registers."""
VECTORS: Final = vector_bits(0, SCALAR_BIT)
"""All vector registers."""
_MOST_READERS: Final = 16
"""Instructions that are asked for the name of what they read."""
_COPIES: Final = ("v_mov_b", "v_accvgpr_", "v_dual_mov_b")
_WIDENINGS: Final = ("v_lshlrev_b32", "v_and_b32")
_MAY_COPY: Final = (*_COPIES, *_WIDENINGS, "v_dual_")
_WIDENING_BITS: Final = frozenset(((False, 16), (True, 0xFFFF0000), (True, -0x10000)))
"""Whether bits are masked, by what: how the lower and the upper of two bf16 become f32."""


class RegisterMoves:
    """The moves of one kernel.

    Args:
        is_conversion: whether the source converts a value at a location.

    Attributes:
        slots: index of an access of spill slots -> the rows that it touches.
    """

    def __init__(
        self,
        function: Function,
        live: Liveness,
        is_conversion: Callable[[SourceLoc | None], bool],
    ) -> None:
        self._function = function
        self._live = live
        self._accum_offset = live.target.accum_offset
        self._is_conversion = is_conversion
        self.slots, self._bases = _slots(function)
        self._flow = Definitions(function, live, self.slots)
        self._use_indices: dict[tuple[int, int], Sequence[int]] = {}
        self._passed_on: dict[tuple[int, int], Sequence[int]] = {}

    def before(self, index: int, row: int) -> frozenset[int]:
        """The instructions whose results a row may hold before an instruction."""
        return self._flow.before(index, row)

    def uses(self, index: int, row: int) -> Sequence[int]:
        """The instructions that may read what a row holds before an instruction."""
        key = (index, row)
        uses = self._use_indices.get(key)
        if uses is None:
            is_inside = index < len(self._function.instructions)
            uses = self._use_indices[key] = self._flow.after(index, row) if is_inside else []
        return uses

    def is_used(self, reload: int, row: int) -> bool:
        """Whether anything reads what a reload fetches from a dword of scratch."""
        return any(self.uses(reload + 1, target) for target in self.passed_on(reload, row))

    def live_slots(self, index: int) -> list[int]:
        """Dwords of scratch that hold a spilled value which is reloaded and read later.

        Of a pair of registers that is spilled as a whole, one half may hold nothing.
        """
        rows = {row for touched in self.slots.values() for row in touched.writes}
        return sorted(
            row
            for row in rows
            if any(self.is_used(reload, row) for reload in self.uses(index, row))
            and self.before(index, row) - {START}
        )

    def row_of(self, dword: Dword) -> int:
        """The row of a dword of scratch memory that spills touch."""
        base, number = dword
        return SCRATCH_ROW * (1 + self._bases.index(base)) + number

    def slots_text(self, rows: Iterable[int]) -> str:
        """Dwords of scratch memory as ranges of bytes, `4:19 s32+0:3`; other rows are left out."""
        parts = []
        for first, last in ranges({row for row in rows if row >= SCRATCH_ROW}):
            base = self._bases[first // SCRATCH_ROW - 1]
            start, end = first % SCRATCH_ROW * 4, last % SCRATCH_ROW * 4 + 3
            parts.append(f"{base}+{start}:{end}" if base else f"{start}:{end}")
        return " ".join(parts)

    def readers(self, places: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """The instructions that read values next, behind copies, each with the row."""
        readers: list[tuple[int, int]] = []
        seen = set(places)
        waiting = list(places)
        while waiting and len(readers) < _MOST_READERS:
            index, row = waiting.pop()
            for use in self.uses(index, row):
                inst = self._function.instructions[use]
                copies = [
                    (use + 1, result)
                    for result in self.passed_on(use, row)
                    if result >= SCRATCH_ROW or use in self.slots or self._is_copy(inst, result)
                ]
                if not copies:
                    readers.append((use, row))
                waiting += [place for place in copies if place not in seen]
                seen.update(copies)
        return readers

    def _is_copy(self, inst: Instruction, row: int) -> bool:
        copy = self.copy(inst, row)
        return copy is not None and copy.kind == "vgpr"

    def moved(self, index: int, row: int) -> list[tuple[int, int]] | None:
        """Where a copy, a spill's store or a reload takes a row's value from: (instruction, row).

        None for other instructions, and for copies of scalars and constants.
        """
        if index == START:
            return None
        inst = self._function.instructions[index]
        source = None
        if row >= SCRATCH_ROW:
            position = self.slots[index].writes.index(row)
            data = self._data(inst)
            source = data[position] if position < len(data) else None
        elif index in self.slots and inst.cls == "scratch_load":
            position = row - min(rows_of(self._live.effects[index].writes))
            slot = self.slots[index].reads
            source = slot[position] if position < len(slot) else None
        else:
            copy = self.copy(inst, row)
            if copy is not None and copy.kind == "vgpr":
                source = copy.first
        if source is None:
            return None
        return [(definition, source) for definition in sorted(self.before(index, source))]

    def passed_on(self, index: int, row: int) -> Sequence[int]:
        """The rows that an instruction puts what it makes of a row into."""
        key = (index, row)
        results = self._passed_on.get(key)
        if results is None:
            results = self._passed_on[key] = self._results_of(index, row)
        return results

    def _results_of(self, index: int, row: int) -> Sequence[int]:
        inst = self._function.instructions[index]
        if inst.cls == "scratch_store":
            data = self._data(inst)
            slot = self.slots[index].writes if index in self.slots else ()
            position = data.index(row) if row in data else len(slot)
            return slot[position : position + 1]
        if inst.cls == "scratch_load" and row >= SCRATCH_ROW:
            first = min(rows_of(self._live.effects[index].writes))
            return (first + self.slots[index].reads.index(row),)
        if inst.mnemonic.startswith("v_dual_"):
            halves = halves_of(self.decoded(inst), self._accum_offset)
            return [
                result
                for half in halves
                if any(row in operand.rows for operand in _sources(half) if operand.kind == "vgpr")
                for result in half.operands[0].rows
            ]
        return rows_of(self._live.effects[index].writes & VECTORS)

    def _data(self, inst: Instruction) -> list[int]:
        """The rows whose values a store of scratch writes."""
        operands = self.decoded(inst).operands
        is_buffer = inst.mnemonic.startswith("buffer_")
        data = operands[0] if is_buffer else operands[1]
        return list(data.rows) if data.kind == "vgpr" else []

    def address(self, inst: Instruction) -> range:
        """The vector rows that hold the address of a store or atomic operation."""
        operands = self.decoded(inst).operands
        position = 1 if inst.mnemonic.startswith("buffer_") else 0
        if len(operands) <= position:
            return range(0)
        if inst.cls in ("atomic", "lds_atomic") and operands[0].kind == "vgpr":
            writes = self._live.effects[inst.index].writes
            position += int(bool(writes >> operands[0].first & 1))  # a result stands in front
        operand = operands[min(position, len(operands) - 1)]
        return operand.rows if operand.kind == "vgpr" else range(0)

    def copy(self, inst: Instruction, row: int) -> Operand | None:
        """The operand that an instruction copies to a row; None where it is no copy."""
        if not inst.mnemonic.startswith(_MAY_COPY):
            return None
        parts = self.decoded(inst)
        halves = halves_of(parts, self._accum_offset) if "::" in parts.text else (parts,)
        for half in halves:
            if len(half.operands) < 2:
                continue  # damaged text
            result, *sources = half.operands
            if result.kind == "vgpr" and row in result.rows:
                if half.name.startswith(_WIDENINGS):
                    return self._widened(inst, half)
                if not half.name.startswith(_COPIES):
                    return None
                return replace(sources[0], first=sources[0].first + row - result.first, count=1)
        return None

    def _widened(self, inst: Instruction, half: Decoded) -> Operand | None:
        """The register of bf16 values of which an instruction makes an f32 for its arithmetic.

        None where the source converts: the f32 is a value of its own there.
        """
        if len(half.operands) != 3:
            return None
        _, bits, source = half.operands
        is_widening = (half.name.startswith("v_and"), bits.integer) in _WIDENING_BITS
        if not is_widening or source.kind != "vgpr" or self._is_conversion(inst.loc):
            return None
        return source

    def is_constant(self, inst: Instruction) -> bool:
        """Whether a vector instruction makes the same of no register in every lane."""
        return inst.cls == "valu" and not self._live.effects[inst.index].reads

    def decoded(self, inst: Instruction) -> Decoded:
        return decode(inst.mnemonic, inst.operands, SUFFIXES, self._accum_offset)


def _sources(half: Decoded) -> Sequence[Operand]:
    """What an operation of a VOPD instruction reads."""
    return half.operands if half.name.startswith("v_fmac") else half.operands[1:]


def _slots(function: Function) -> tuple[Mapping[int, Touched], Sequence[str]]:
    """Dwords of scratch memory that spills store and reload, as rows, by instruction."""
    bases: dict[str, int] = {}
    touched = {}
    for index, dwords in spilled_dwords(function).items():
        rows = tuple(
            SCRATCH_ROW * (1 + bases.setdefault(base, len(bases))) + number
            for base, number in dwords
        )
        is_load = function.instructions[index].cls == "scratch_load"
        touched[index] = Touched(reads=rows) if is_load else Touched(writes=rows)
    return touched, tuple(bases)
