"""What the registers hold where most are live, in the words of the source.

A register's value is followed to the instructions that made it, through copies and spills, and on
to the instructions that read it next. Their positions lead to operations of the TTGIR, whose
results carry the names of the variables. Neither alone would do: where code was shared or moved,
an address has the position of another access, and what a dot takes has that of the loop.

Only uses that can be reached from the fullest instruction count: elsewhere the register may serve
something else.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from types import MappingProxyType
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from ..emulator.definitions import START, Definitions, Touched, ranges
from ..emulator.liveness import Liveness
from ..emulator.operands import SUFFIXES, Decoded, Operand, decode, halves_of
from ..emulator.outstanding import SCALAR_BIT, vector_bits
from ..emulator.undefined import rows_of
from ..model import (
    Instruction,
    LivePeak,
    LiveValue,
    SourceLoc,
    SpilledValue,
    TtgirModule,
    TtgirOp,
    TtgirType,
)
from .loop_shape import position_of
from .scratch_use import Use, address_of, scratch_accesses
from .subject import MATRIX_CLASSES, Place, Subject, innermost_loops, variable_name

_SCRATCH_ROW: Final = 1 << 16
"""Row of the first dword of scratch memory, beyond those of all registers."""
_MOST_STEPS: Final = 12
"""Instructions between a value and the use that says what it is for."""
_MOST_PLACES: Final = 500
"""Registers that are looked at on the way there."""
_VECTORS: Final = vector_bits(0, SCALAR_BIT)

_Role = Literal["accumulator", "operand", "address", "stored", "exchanged", "compared"]
Kind = Literal[
    "accumulator", "operand", "loaded", "exchanged", "address", "value", "constant", "argument"
]

_DOTS: Final = ("tt.dot", "tt.dot_scaled", "ttng.warp_group_dot")
_LOADS: Final = ("tt.load", "amdg.buffer_load", "tt.descriptor_load", "tt.gather")
_STORES: Final = ("tt.store", "amdg.buffer_store", "tt.descriptor_store", "tt.atomic_rmw")
_LDS_READS: Final = ("ttg.local_load", "ttg.convert_layout", "tt.reduce", "tt.scan", "tt.gather")
_LDS_WRITES: Final = ("ttg.local_store", "ttg.local_alloc", "ttg.convert_layout", "tt.reduce")
_MADE_BY: Final[Mapping[str, tuple[Kind, Sequence[str]]]] = MappingProxyType(
    {
        "mfma": ("accumulator", _DOTS),
        "wmma": ("accumulator", _DOTS),
        "global_load": ("loaded", _LOADS),
        "lds_read": ("exchanged", _LDS_READS),
    }
)
"""Class of an instruction -> what its result is, and the operations that it comes from."""
_RELAID: Final = frozenset(
    (
        "ttg.convert_layout", "ttg.local_alloc", "ttg.local_load", "ttg.local_store",
        "ttg.memdesc_trans", "ttg.memdesc_subslice", "arith.truncf", "arith.extf", "tt.fp_to_fp",
        "tt.expand_dims", "tt.broadcast", "tt.splat", "tt.trans", "tt.reshape",
        "amdg.in_thread_transpose",
    )
)  # fmt: skip
"""Operations whose result is their operand's value in another place, layout or precision."""
_VIEWS: Final = frozenset(
    (
        "tt.splat", "tt.broadcast", "tt.expand_dims", "tt.trans", "ttg.memdesc_trans",
        "ttg.memdesc_index", "ttg.memdesc_subslice", "ttg.local_alloc", "tt.reduce.return",
        "scf.yield",
    )
)  # fmt: skip
"""Operations that make no value: of several at one position, another one is meant."""
_CONSTANT: Final = re.compile(r"c-?\d+|cst")
"""What MLIR calls constants that have no name."""
_COPIES: Final = ("v_mov_b", "v_accvgpr_", "v_dual_mov_b")


class Identity(Struct, frozen=True):
    """A value of the source.

    Args:
        kind: what it is to the code.
        name: of the variable; None where nothing says.
        type: shape and element type of the tensor, `128x64xf32`; "" where nothing says.
        source: the user's line.
    """

    kind: Kind
    name: str | None = None
    type: str = ""
    source: SourceLoc | None = None


def named_values(
    subject: Subject, live: Liveness, index: int, hot: Set[str]
) -> tuple[LivePeak, tuple[SpilledValue, ...]]:
    """The values that registers and spill slots hold at an instruction, and all that are spilled.

    Args:
        subject: the kernel.
        live: its live registers.
        index: of the instruction, as a rule the one at which most are live.
        hot: ids of the hot loops.
    """
    namer = _Namer(subject, live)
    return namer.peak(index), namer.spilled(hot)


class _Namer:
    """Names the values of one kernel."""

    def __init__(self, subject: Subject, live: Liveness) -> None:
        self._function = subject.function
        self._live = live
        self._accum_offset = live.target.accum_offset
        self._ops = _Operations(subject.ttgir)
        self._slots = _slots(subject, live)
        self._flow = Definitions(subject.function, live, self._slots)
        self._identities: dict[tuple[int, int], Identity] = {}
        self._roles: dict[tuple[int, int], tuple[tuple[_Role, Identity], ...]] = {}
        self._use_indices: dict[tuple[int, int], Sequence[int]] = {}

    def peak(self, index: int) -> LivePeak:
        inst = self._function.instructions[index]
        live = self._live
        behind = live.after[index] | live.effects[index].writes
        rows_before = [row for row in rows_of(live.before[index]) if row < SCALAR_BIT]
        rows_behind = [row for row in rows_of(behind) if row < SCALAR_BIT]
        is_before = len(rows_before) >= len(rows_behind)
        rows = rows_before if is_before else rows_behind
        held: dict[Identity, set[int]] = defaultdict(set)
        for row in rows:
            fresh = not is_before and bool(live.effects[index].writes >> row & 1)
            held[self._identity_at(index, row, fresh=fresh)].add(row)
        for row in self._live_slots(index):
            held[self._identity_at(index, row, fresh=False)].add(row)
        owner = innermost_loops(self._function)
        loop = next(
            (
                owner[block.index].id
                for block in self._function.blocks
                if block.start <= index < block.stop and block.index in owner
            ),
            None,
        )
        return LivePeak(
            line=inst.line,
            instruction=inst.mnemonic,
            source=inst.loc,
            loop=loop,
            vgprs=sum(row < self._accum_offset for row in rows),
            agprs=sum(row >= self._accum_offset for row in rows),
            values=tuple(
                sorted(
                    (self._value(identity, rows) for identity, rows in held.items()),
                    key=lambda value: (
                        -(value.vgprs + value.agprs + value.scratch),
                        value.name or "",
                    ),
                )
            ),
        )

    def spilled(self, hot: Set[str]) -> tuple[SpilledValue, ...]:
        """Every value that is parked in scratch memory: most traffic in hot loops first."""
        stores: dict[int, list[int]] = defaultdict(list)
        reloads: dict[int, list[int]] = defaultdict(list)
        for index, touched in self._slots.items():
            for row in touched.writes:
                stores[row].append(index)
            for row in touched.reads:
                reloads[row].append(index)
        rows_of_value: dict[Identity, set[int]] = defaultdict(set)
        for row in sorted(stores):
            made_by: set[Identity] = set()
            roles: set[tuple[_Role, Identity]] = set()
            for index in stores[row]:
                made_by |= self._made_by(index, row)
                roles |= self._roles_from(index + 1, row)
            rows_of_value[_decided(made_by, roles)].add(row)
        loop_of = self._loops_of(hot)
        values = []
        for identity, rows in rows_of_value.items():
            parking = {index for row in rows for index in stores[row]}
            fetching = {index for row in rows for index in reloads[row]}
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

    def _loops_of(self, hot: Set[str]) -> dict[int, str]:
        """Index of an access of a spill slot -> id of the hot loop that it stands in."""
        owner = innermost_loops(self._function)
        return {
            index: owner[block.index].id
            for block in self._function.blocks
            if block.index in owner and owner[block.index].id in hot
            for index in range(block.start, block.stop)
            if index in self._slots
        }

    def _value(self, identity: Identity, rows: set[int]) -> LiveValue:
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
            scratch=sum(row >= _SCRATCH_ROW for row in rows),
            registers=" ".join(
                f"{letter}{first}" if first == last else f"{letter}[{first}:{last}]"
                for letter, numbers in named
                for first, last in ranges(numbers)
            ),
        )

    def _live_slots(self, index: int) -> list[int]:
        """Dwords of scratch that hold a spilled value which is reloaded later."""
        rows = {row for touched in self._slots.values() for row in touched.writes}
        return sorted(
            row
            for row in rows
            if self._flow.after(index, row) and self._flow.before(index, row) - {START}
        )

    # ----------------------------------------------------------------- one register

    def _identity_at(self, index: int, row: int, *, fresh: bool) -> Identity:
        """The value of a row before an instruction, or of a row that it writes (`fresh`)."""
        definitions = frozenset((index,)) if fresh else self._flow.before(index, row)
        made_by: set[Identity] = set()
        for definition in definitions:
            made_by |= self._made_by(definition, row)
        roles = self._roles_from(index + 1 if fresh else index, row)
        return _decided(made_by, roles)

    def _made_by(self, index: int, row: int) -> set[Identity]:
        """The values that an instruction puts into a row, copies and spills followed back."""
        made_by: set[Identity] = set()
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

    def _result(self, index: int, row: int) -> Identity:
        """The value that an instruction makes, which is neither copy nor spill."""
        if index == START:
            return Identity("argument")
        if (index, row) not in self._identities:
            inst = self._function.instructions[index]
            kind, preferred = _MADE_BY.get(inst.cls, ("value", ()))
            copied = self._copy(inst, row) is not None
            self._identities[index, row] = self._named(
                inst, "constant" if copied else kind, preferred
            )
        return self._identities[index, row]

    def _moved(self, index: int, row: int) -> list[tuple[int, int]] | None:
        """Where a copy, a spill's store or a reload takes a row's value from: (instruction, row).

        None for other instructions, and for copies of scalars and constants.
        """
        if index == START:
            return None
        inst = self._function.instructions[index]
        source = None
        if row >= _SCRATCH_ROW:
            position = self._slots[index].writes.index(row)
            data = self._data(inst)
            source = data[position] if position < len(data) else None
        elif index in self._slots and inst.cls == "scratch_load":
            position = row - min(rows_of(self._live.effects[index].writes))
            slot = self._slots[index].reads
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
        if not inst.mnemonic.startswith(("v_mov_b", "v_accvgpr_", "v_dual_")):
            return None
        parts = self._decoded(inst)
        halves = halves_of(parts, self._accum_offset) if "::" in parts.text else (parts,)
        for half in halves:
            result, *sources = half.operands
            if result.kind == "vgpr" and row in result.rows:
                if not half.name.startswith(_COPIES):
                    return None
                return replace(sources[0], first=sources[0].first + row - result.first, count=1)
        return None

    def _decoded(self, inst: Instruction) -> Decoded:
        return decode(inst.mnemonic, inst.operands, SUFFIXES, self._accum_offset)

    # ----------------------------------------------------------------- what it is for

    def _roles_from(self, index: int, row: int) -> frozenset[tuple[_Role, Identity]]:
        """What the value of a row before an instruction is used for in the end.

        Followed through the instructions that compute with it, breadth first.
        """
        roles: set[tuple[_Role, Identity]] = set()
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

    def _role_in(self, index: int, row: int) -> Iterable[tuple[_Role, Identity]]:
        """What one instruction uses a row for; nothing where it computes or moves something."""
        key = (index, row)
        if key not in self._roles:
            self._roles[key] = tuple(self._role(self._function.instructions[index], row))
        return self._roles[key]

    def _role(self, inst: Instruction, row: int) -> Iterable[tuple[_Role, Identity]]:
        if inst.cls in MATRIX_CLASSES:
            operands = self._decoded(inst).operands
            accumulates = len(operands) > 3 and row in operands[3].rows
            yield (
                "accumulator" if accumulates else "operand",
                self._named(inst, "accumulator", _DOTS),
            )
        elif inst.cls in ("global_load", "lds_direct"):
            yield "address", self._named(inst, "address", _LOADS)
        elif inst.cls == "lds_read":
            yield "address", self._named(inst, "address", _LDS_READS)
        elif inst.cls in ("global_store", "atomic", "lds_write", "lds_atomic"):
            is_lds = inst.cls.startswith("lds")
            identity = self._named(inst, "address", _LDS_WRITES if is_lds else _STORES)
            if row in self._address(inst):
                yield "address", identity
            else:
                yield "exchanged" if is_lds else "stored", identity
        elif not inst.cls.startswith("scratch") and not self._live.effects[inst.index].writes & (
            _VECTORS
        ):
            yield "compared", self._named(inst, "value", ())

    def _passed_on(self, index: int, row: int) -> Sequence[int]:
        """The rows that an instruction puts what it makes of a row into."""
        inst = self._function.instructions[index]
        if inst.cls == "scratch_store":
            data = self._data(inst)
            slot = self._slots[index].writes if index in self._slots else ()
            position = data.index(row) if row in data else len(slot)
            return slot[position : position + 1]
        if inst.cls == "scratch_load" and row >= _SCRATCH_ROW:
            first = min(rows_of(self._live.effects[index].writes))
            return (first + self._slots[index].reads.index(row),)
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

    def _named(self, inst: Instruction, kind: Kind, preferred: Sequence[str]) -> Identity:
        """The value that an instruction makes or touches, by the operation that it comes from."""
        source = inst.loc.in_user_code if inst.loc is not None else None
        line = SourceLoc(source.file, source.line) if source is not None and source.line else None
        op = self._ops.at(inst.loc, preferred)
        if op is None:
            return Identity(kind, None, "", line)
        return Identity(kind, self._ops.name(op), _tensor(op), line)


def _decided(made_by: Iterable[Identity], roles: Iterable[tuple[_Role, Identity]]) -> Identity:
    """One identity from all that may have made a value and all that it is for."""
    makers = set(made_by)
    # What was there before a loop matters less than what the loop makes of it.
    makers = {maker for maker in makers if maker.kind not in ("constant", "argument")} or makers
    kinds = Counter(role for role, _ in roles)
    of_role: dict[_Role, list[Identity]] = defaultdict(list)
    for role, identity in roles:
        of_role[role].append(identity)
    best = _best(makers)
    if kinds and set(kinds) <= {"address", "compared"} and kinds["address"]:
        accessed = _best(of_role["address"])
        return Identity("address", accessed.name, "", accessed.source)
    dot = _best(of_role["accumulator"]) if of_role["accumulator"] else best
    # What is multiplied into an accumulator comes there as well: it has another shape.
    is_start = best.kind == "constant" and set(kinds) == {"accumulator"}
    is_scaled = best.kind != "constant" and bool(dot.type) and best.type == dot.type
    if best.kind == "accumulator" or is_start or is_scaled:
        named = best if best.name and best.kind == "accumulator" else dot
        if named.kind == "accumulator":
            return Identity("accumulator", named.name, named.type or dot.type, named.source)
    if set(kinds) == {"operand"}:
        return Identity("operand", best.name, best.type, best.source)
    return best


def _best(identities: Iterable[Identity]) -> Identity:
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
    return ordered[0] if ordered else Identity("value")


def _tensor(op: TtgirOp) -> str:
    types: Iterable[TtgirType] = (*op.result_types, *op.operand_types[::-1])
    tensor = next((item for item in types if item.kind in ("tensor", "memdesc")), None)
    if tensor is None:
        return ""
    return "x".join((*map(str, tensor.shape), tensor.element))


class _Operations:
    """The operations of a TTGIR by position, and the names of their results."""

    def __init__(self, module: TtgirModule | None) -> None:
        self._by_place: dict[Place, list[TtgirOp]] = defaultdict(list)
        self._by_result: dict[str, TtgirOp] = {}
        for op in module.ops if module is not None else ():
            # A loop has the position of its header and one name for all that it carries.
            if op.loc is not None and not op.name.startswith("scf."):
                self._by_place[position_of(op.loc)].append(op)
            for result in op.results:
                self._by_result[result.partition("#")[0].partition(":")[0]] = op

    def at(self, loc: SourceLoc | None, preferred: Sequence[str]) -> TtgirOp | None:
        """The operation at a position: one of the preferred kind, else the most common name's."""
        ops = self._by_place.get(position_of(loc), []) if loc is not None else []
        chosen = [op for op in ops if op.name.startswith(tuple(preferred))] if preferred else []
        chosen = chosen or [op for op in ops if op.name not in _VIEWS] or ops
        names = Counter(name for op in chosen if (name := self.name(op)))
        if not names:
            return chosen[0] if chosen else None
        most = names.most_common(1)[0][0]
        return next(op for op in chosen if self.name(op) == most)

    def name(self, op: TtgirOp) -> str | None:
        """The variable that an operation's result is, looking through mere changes of layout."""
        seen = 0
        origin: TtgirOp | None = op
        while origin is not None and origin.name in _RELAID and origin.operands and seen < 12:
            origin = self._by_result.get(origin.operands[0].partition("#")[0])
            seen += 1
        return _variable(origin) or _variable(op)


def _variable(op: TtgirOp | None) -> str | None:
    """The name of an operation's first result, where the source gave it one."""
    if op is None or not op.results:
        return None
    name = variable_name(op.results[0].partition("#")[0])
    return None if name.isdigit() or _CONSTANT.fullmatch(name) else name


def _slots(subject: Subject, live: Liveness) -> Mapping[int, Touched]:
    """Dwords of scratch memory that spills store and reload, as rows, by instruction."""
    bases: dict[str, int] = {}
    touched = {}
    for inst, use in scratch_accesses(subject.function):
        if use is Use.PRIVATE:
            continue
        base, offset, size = address_of(inst)
        first = _SCRATCH_ROW * (1 + bases.setdefault(base, len(bases))) + offset // 4
        rows = tuple(range(first, first + max(size // 4, 1)))
        is_load = inst.cls == "scratch_load"
        touched[inst.index] = Touched(reads=rows) if is_load else Touched(writes=rows)
    return touched
