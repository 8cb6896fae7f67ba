"""Follows the values in registers to the instructions that made them and to what they are for.

Copies and spills are followed back; what reads a value next is followed on until an instruction
says what it is for: a dot, an access, a comparison. Only uses that can be reached from the place
asked about count: elsewhere the register may serve something else.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal

from msgspec.structs import replace

from ..emulator.definitions import START, Definitions, Touched, ranges
from ..emulator.liveness import Liveness
from ..emulator.operands import SUFFIXES, Decoded, Operand, decode, halves_of
from ..emulator.register_sets import SCALAR_BIT, rows_of, vector_bits
from ..model import Instruction
from .scratch_use import spilled_dwords
from .source_values import (
    DOTS,
    LDS_READS,
    LDS_WRITES,
    LOADS,
    STORES,
    Kind,
    SourceOperations,
    SourceValue,
)
from .subject import MATRIX_CLASSES, Subject

SCRATCH_ROW: Final = 1 << 16
"""Row of the first dword of scratch memory, beyond those of all registers."""
_MOST_STEPS: Final = 12
"""Instructions between a value and the use that says what it is for."""
_MOST_PLACES: Final = 500
"""Registers that are looked at on the way there."""
_MOST_READERS: Final = 16
"""Instructions that are asked for the name of what they read."""
_VECTORS: Final = vector_bits(0, SCALAR_BIT)
_FLOAT: Final = re.compile(r"_(b?f16|f32|f64)(_|$)")
_COPIES: Final = ("v_mov_b", "v_accvgpr_", "v_dual_mov_b")
_WIDENINGS: Final = ("v_lshlrev_b32", "v_and_b32")
_WIDENING_BITS: Final = frozenset(((False, 16), (True, 0xFFFF0000), (True, -0x10000)))
"""Whether bits are masked, by what: how the lower and the upper of two bf16 become f32."""
_MADE_BY: Final[Mapping[str, tuple[Kind, Sequence[str]]]] = MappingProxyType(
    {
        "mfma": ("accumulator", DOTS),
        "wmma": ("accumulator", DOTS),
        "global_load": ("loaded", LOADS),
        "lds_read": ("exchanged", LDS_READS),
    }
)
"""Class of an instruction -> what its result is, and the operations that it comes from."""

Role = Literal["accumulator", "operand", "address", "stored", "exchanged", "compared"]


class ValueFlow:
    """The values of one kernel.

    Rows are those of the emulator's register file, spilled dwords as further rows behind them.
    """

    def __init__(self, subject: Subject, live: Liveness) -> None:
        self._function = subject.function
        self._live = live
        self._accum_offset = live.target.accum_offset
        self._operations = SourceOperations(subject.ttgir)
        self.slots, self._bases = _slots(subject)
        """Index of an access of spill slots -> the rows that it touches."""
        self._flow = Definitions(subject.function, live, self.slots)
        self._variables: dict[int, list[tuple[int, str]]] = defaultdict(list)
        for mark in subject.function.variables:
            first = mark.first + (self._accum_offset if mark.file == "a" else 0)
            for row in range(first, first + mark.count):
                self._variables[row].append((mark.index, mark.name))
        self._results: dict[tuple[int, int], SourceValue] = {}
        self._roles: dict[tuple[int, int], tuple[tuple[Role, SourceValue], ...]] = {}
        self._use_indices: dict[tuple[int, int], Sequence[int]] = {}
        self._naming: set[int] = set()
        """The loads that are being named by what their results are for."""

    def live_slots(self, index: int) -> list[int]:
        """Dwords of scratch that hold a spilled value which is reloaded and read later.

        Of a pair of registers that is spilled as a whole, one half may hold nothing.
        """
        rows = {row for touched in self.slots.values() for row in touched.writes}
        return sorted(
            row
            for row in rows
            if any(self.is_used(reload, row) for reload in self._uses(index, row))
            and self._flow.before(index, row) - {START}
        )

    def slots_text(self, rows: Iterable[int]) -> str:
        """Dwords of scratch memory as ranges of bytes, `4:19 s32+0:3`; other rows are left out."""
        parts = []
        for first, last in ranges({row for row in rows if row >= SCRATCH_ROW}):
            base = self._bases[first // SCRATCH_ROW - 1]
            start, end = first % SCRATCH_ROW * 4, last % SCRATCH_ROW * 4 + 3
            parts.append(f"{base}+{start}:{end}" if base else f"{start}:{end}")
        return " ".join(parts)

    def is_used(self, reload: int, row: int) -> bool:
        """Whether anything reads what a reload fetches from a dword of scratch."""
        return any(self._uses(reload + 1, target) for target in self._passed_on(reload, row))

    def value_at(self, index: int, row: int, *, fresh: bool) -> SourceValue:
        """The value of a row before an instruction, or of a row that it writes (`fresh`)."""
        definitions = frozenset((index,)) if fresh else self._flow.before(index, row)
        made_by: set[SourceValue] = set()
        for definition in definitions:
            made_by |= self._made_by(definition, row)
        start = index + 1 if fresh else index
        return self._decided(made_by, self._roles_from(start, row), [(start, row)])

    def spilled_value(self, row: int, stores: Sequence[int]) -> SourceValue:
        """The value of a dword of scratch memory, from the instructions that store to it."""
        made_by: set[SourceValue] = set()
        roles: set[tuple[Role, SourceValue]] = set()
        for index in stores:
            made_by |= self._made_by(index, row)
            roles |= self._roles_from(index + 1, row)
        return self._decided(made_by, roles, [(index + 1, row) for index in stores])

    def _decided(
        self,
        made_by: Iterable[SourceValue],
        roles: Iterable[tuple[Role, SourceValue]],
        places: Sequence[tuple[int, int]],
    ) -> SourceValue:
        """One value from what may have made it, what it is for, and who reads it next."""
        value = _decided(made_by, roles)
        if value.is_scalars:
            return replace(value, is_scalars=False)
        if value.kind == "constant":
            # It stands where LLVM put it, at the position of something else as a rule.
            return replace(value, name=self._name_by_readers(places) or value.name)
        if value.name is not None and not value.is_served:
            return value
        if value.kind in ("value", "loaded", "exchanged", "operand"):
            name = self._name_by_operands(places)
            if name is None and value.kind == "value":
                name = self._name_by_readers(places)
            value = replace(value, name=name or value.name)
        return replace(value, is_served=False)

    def _readers(self, places: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """The instructions that read values next, behind copies, each with the row."""
        readers: list[tuple[int, int]] = []
        seen = set(places)
        waiting = list(places)
        while waiting and len(readers) < _MOST_READERS:
            index, row = waiting.pop()
            for use in self._uses(index, row):
                inst = self._function.instructions[use]
                copies = [
                    (use + 1, result)
                    for result in self._passed_on(use, row)
                    if result >= SCRATCH_ROW or use in self.slots or self._is_copy(inst, result)
                ]
                if not copies:
                    readers.append((use, row))
                waiting += [place for place in copies if place not in seen]
                seen.update(copies)
        return readers

    def _is_copy(self, inst: Instruction, row: int) -> bool:
        copy = self._copy(inst, row)
        return copy is not None and copy.kind == "vgpr"

    def _name_by_operands(self, places: Sequence[tuple[int, int]]) -> str | None:
        """The variable that the source's operations take where instructions read a value.

        An operation's other operands are left out by what the instruction's other registers hold.
        """
        certain: set[str] = set()
        likely: set[str] = set()
        for use, row in self._readers(places):
            inst = self._function.instructions[use]
            if inst.cls in MATRIX_CLASSES:
                names = {value.name for role, value in self._role_in(use, row) if role == "operand"}
            elif inst.cls != "valu":
                continue
            else:
                names = set(self._operations.named_operands(inst))
                names -= self._names_beside(use, row) if len(names) > 1 else set()
            found = [name for name in names if name is not None]
            if len(found) == 1:
                # Two operations that became one have the position of the first.
                (likely if inst.mnemonic.startswith(("v_pk_", "v_dual_")) else certain).add(
                    found[0]
                )
        agreed = certain or likely
        return next(iter(agreed)) if len(agreed) == 1 else None

    def _names_beside(self, use: int, row: int) -> set[str | None]:
        """The variables in the other registers that an instruction reads."""
        return {
            value.name
            for other in rows_of(self._live.effects[use].reads & _VECTORS)
            if other != row
            for definition in self._flow.before(use, other)
            for value in self._made_by(definition, other)
        }

    def _name_by_readers(self, places: Sequence[tuple[int, int]]) -> str | None:
        """The variable that all vector instructions that read a value next compute."""
        names = set()
        for use, _ in self._readers(places):
            inst = self._function.instructions[use]
            if inst.cls == "valu":
                names.add(self._operations.named_result(inst))
        return next(iter(names)) if len(names) == 1 else None

    def _made_by(self, index: int, row: int) -> set[SourceValue]:
        """The values that an instruction puts into a row, copies and spills followed back."""
        made_by: set[SourceValue] = set()
        seen = {(index, row)}
        waiting = [(index, row)]
        while waiting:
            place = waiting.pop()
            sources = self._moved(*place)
            if sources is None:
                made_by.add(self._result(*place))
                continue
            fresh = [source for source in sources if source not in seen]
            seen.update(fresh)
            waiting += fresh
        return made_by

    def _result(self, index: int, row: int) -> SourceValue:
        """The value that an instruction makes, which is neither copy nor spill."""
        if index == START:
            return SourceValue("argument")
        if (index, row) not in self._results:
            inst = self._function.instructions[index]
            if inst.mnemonic.startswith("v_writelane"):  # scalars that found no SGPR
                return SourceValue("value", is_scalars=True)
            kind, preferred = _MADE_BY.get(inst.cls, ("value", ()))
            if self._copy(inst, row) is not None or self._is_constant(inst):
                kind = "constant"
            uses = (self._function.instructions[use].loc for use in self._uses(index + 1, row))
            named = self._operations.named(inst, kind, preferred, uses)
            if named.name is None:
                named = replace(named, name=self._variable(index, row))
            is_float = _FLOAT.search(inst.mnemonic) is not None
            self._results[index, row] = replace(named, is_float=is_float)
        return self._results[index, row]

    def _is_constant(self, inst: Instruction) -> bool:
        """Whether a vector instruction makes the same of no register in every lane."""
        return inst.cls == "valu" and not self._live.effects[inst.index].reads

    def _variable(self, index: int, row: int) -> str | None:
        """The variable that debug information knows the value by that an instruction writes.

        It is named at places where a register holds it, which may come long after the instruction.
        """
        names = Counter(
            name
            for place, name in self._variables.get(row, ())
            if index in self._flow.before(place, row)
        )
        return names.most_common(1)[0][0] if names else None

    def _moved(self, index: int, row: int) -> list[tuple[int, int]] | None:
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
            copy = self._copy(inst, row)
            if copy is not None and copy.kind == "vgpr":
                source = copy.first
        if source is None:
            return None
        return [(definition, source) for definition in sorted(self._flow.before(index, source))]

    def _data(self, inst: Instruction) -> list[int]:
        """The rows whose values a store of scratch writes."""
        operands = self._decoded(inst).operands
        is_buffer = inst.mnemonic.startswith("buffer_")
        data = operands[0] if is_buffer else operands[1]
        return list(data.rows) if data.kind == "vgpr" else []

    def _copy(self, inst: Instruction, row: int) -> Operand | None:
        """The operand that an instruction copies to a row; None where it is no copy."""
        if not inst.mnemonic.startswith((*_COPIES, *_WIDENINGS, "v_dual_")):
            return None
        parts = self._decoded(inst)
        halves = halves_of(parts, self._accum_offset) if "::" in parts.text else (parts,)
        for half in halves:
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
        _, bits, source = half.operands
        is_widening = (half.name.startswith("v_and"), bits.integer) in _WIDENING_BITS
        if not is_widening or source.kind != "vgpr" or self._operations.is_conversion(inst.loc):
            return None
        return source

    def _decoded(self, inst: Instruction) -> Decoded:
        return decode(inst.mnemonic, inst.operands, SUFFIXES, self._accum_offset)

    def _roles_from(self, index: int, row: int) -> frozenset[tuple[Role, SourceValue]]:
        """What the value of a row before an instruction is used for in the end.

        Followed through the instructions that compute with it, breadth first.
        """
        roles: set[tuple[Role, SourceValue]] = set()
        seen = {(index, row)}
        level = [(index, row)]
        for _ in range(_MOST_STEPS):
            following: list[tuple[int, int]] = []
            for place in level:
                for use in self._uses(*place):
                    role = self._role_in(use, place[1])
                    roles.update(role)
                    for result in () if role else self._passed_on(use, place[1]):
                        if (use + 1, result) not in seen:
                            seen.add((use + 1, result))
                            following.append((use + 1, result))
            level = following
            if not level or len(seen) > _MOST_PLACES:
                break
        return frozenset(roles)

    def _uses(self, index: int, row: int) -> Sequence[int]:
        key = (index, row)
        if key not in self._use_indices:
            is_inside = index < len(self._function.instructions)
            self._use_indices[key] = self._flow.after(index, row) if is_inside else []
        return self._use_indices[key]

    def _role_in(self, index: int, row: int) -> Iterable[tuple[Role, SourceValue]]:
        """What one instruction uses a row for; nothing where it computes or moves something."""
        key = (index, row)
        if key not in self._roles:
            self._roles[key] = tuple(self._role(self._function.instructions[index], row))
        return self._roles[key]

    def _role(self, inst: Instruction, row: int) -> Iterable[tuple[Role, SourceValue]]:
        if inst.cls in MATRIX_CLASSES:
            operands = self._decoded(inst).operands
            accumulates = len(operands) > 3 and row in operands[3].rows
            position = next((n for n in (0, 1) if row in operands[n + 1].rows), None)
            if accumulates or position is None:
                yield (
                    "accumulator" if accumulates else "operand",
                    self._operations.named(inst, "accumulator", DOTS),
                )
            else:
                yield "operand", self._operations.dot_operand(inst, position)
        elif inst.cls in ("global_load", "lds_direct"):
            yield "address", self._read_by(inst, LOADS)
        elif inst.cls == "lds_read":
            yield "address", self._read_by(inst, LDS_READS)
        elif inst.cls in ("global_store", "atomic", "lds_write", "lds_atomic"):
            is_lds = inst.cls.startswith("lds")
            identity = self._operations.named(inst, "address", LDS_WRITES if is_lds else STORES)
            if row in self._address(inst):
                yield "address", identity
            else:
                yield "exchanged" if is_lds else "stored", identity
        elif not inst.cls.startswith("scratch") and not self._live.effects[inst.index].writes & (
            _VECTORS
        ):
            yield "compared", self._operations.named(inst, "value", ())

    def _read_by(self, inst: Instruction, preferred: Sequence[str]) -> SourceValue:
        """What a load reads: by its position, else by what the first register is for."""
        rows = rows_of(self._live.effects[inst.index].writes & _VECTORS)
        uses = (
            self._function.instructions[use].loc
            for row in rows[:1]
            for use in self._uses(inst.index + 1, row)
        )
        identity = self._operations.named(inst, "address", preferred, uses)
        if identity.name is not None or inst.index in self._naming or not rows:
            return identity
        self._naming.add(inst.index)
        loaded = self.value_at(inst.index, min(rows), fresh=True)
        self._naming.remove(inst.index)
        return SourceValue("address", loaded.name, "", identity.source or loaded.source)

    def _passed_on(self, index: int, row: int) -> Sequence[int]:
        """The rows that an instruction puts what it makes of a row into."""
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
            halves = halves_of(self._decoded(inst), self._accum_offset)
            return [
                result
                for half in halves
                if any(row in operand.rows for operand in _sources(half) if operand.kind == "vgpr")
                for result in half.operands[0].rows
            ]
        return list(rows_of(self._live.effects[index].writes & _VECTORS))

    def _address(self, inst: Instruction) -> range:
        """The vector rows that hold the address of a store or atomic operation."""
        operands = self._decoded(inst).operands
        position = 1 if inst.mnemonic.startswith("buffer_") else 0
        if len(operands) <= position:
            return range(0)
        if inst.cls in ("atomic", "lds_atomic") and operands[0].kind == "vgpr":
            writes = self._live.effects[inst.index].writes
            position += int(bool(writes >> operands[0].first & 1))  # a result stands in front
        operand = operands[min(position, len(operands) - 1)]
        return operand.rows if operand.kind == "vgpr" else range(0)


def _decided(
    made_by: Iterable[SourceValue], roles: Iterable[tuple[Role, SourceValue]]
) -> SourceValue:
    """One value from all that may have made a value and all that it is for."""
    makers = set(made_by)
    # What was there before a loop matters less than what the loop makes of it.
    makers = {maker for maker in makers if maker.kind not in ("constant", "argument")} or makers
    kinds = Counter(role for role, _ in roles)
    of_role: dict[Role, list[SourceValue]] = defaultdict(list)
    for role, identity in roles:
        of_role[role].append(identity)
    if any(maker.is_scalars for maker in makers):
        return SourceValue("value", is_scalars=True)
    best = _best(makers)
    is_index = best.kind == "loaded" and best.name is not None  # of a gather
    if not is_index and kinds and set(kinds) <= {"address", "compared"} and kinds["address"]:
        accessed = _best(of_role["address"])
        return SourceValue("address", accessed.name, "", accessed.source)
    dot = _best(of_role["accumulator"]) if of_role["accumulator"] else best
    # What is multiplied into an accumulator comes there as well: it has another shape.
    is_start = best.kind == "constant" and set(kinds) == {"accumulator"}
    is_scaled = best.is_float and not kinds["address"] and bool(dot.type) and best.type == dot.type
    if best.kind == "accumulator" or is_start or is_scaled:
        named = best if best.name and best.kind == "accumulator" else dot
        if named.kind == "accumulator":
            return SourceValue("accumulator", named.name, named.type or dot.type, named.source)
    if set(kinds) == {"operand"} and best.kind != "constant":
        operand = _best(of_role["operand"])
        names = {identity.name for identity in of_role["operand"]}
        # What is made where the dot stands has the name of the dot's result.
        is_unnamed = best.name is None or best.source == operand.source
        if is_unnamed and len(names) == 1 and operand.name is not None:
            best = replace(operand, source=best.source or operand.source)
        return SourceValue("operand", best.name, best.type, best.source)
    if best.name is None and best.kind in ("value", "constant"):
        served = {identity for _, identity in roles if identity.name}
        if len({identity.name for identity in served}) == 1:
            use = _best(served)
            return SourceValue(best.kind, use.name, "", use.source, is_served=True)
    return replace(best, is_float=False)


def _best(identities: Iterable[SourceValue]) -> SourceValue:
    """A dot's result, or what is known best; of equals the first in the source."""
    ordered = sorted(
        identities,
        key=lambda identity: (
            identity.kind != "accumulator",
            identity.name is None,
            not identity.type,
            identity.source.line if identity.source else 0,
            identity.source.file if identity.source else "",
            identity.name or "",
            identity.type,
            identity.kind,
        ),
    )
    return ordered[0] if ordered else SourceValue("value")


def _sources(half: Decoded) -> Sequence[Operand]:
    """What an operation of a VOPD instruction reads."""
    return half.operands if half.name.startswith("v_fmac") else half.operands[1:]


def _slots(subject: Subject) -> tuple[Mapping[int, Touched], Sequence[str]]:
    """Dwords of scratch memory that spills store and reload, as rows, by instruction.

    `SCRATCH_ROW` of them follow each other for each register that offsets are added to; the second
    value has these registers in order.
    """
    bases: dict[str, int] = {}
    touched = {}
    for index, dwords in spilled_dwords(subject.function).items():
        rows = tuple(
            SCRATCH_ROW * (1 + bases.setdefault(base, len(bases))) + number
            for base, number in dwords
        )
        is_load = subject.function.instructions[index].cls == "scratch_load"
        touched[index] = Touched(reads=rows) if is_load else Touched(writes=rows)
    return touched, tuple(bases)
