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

from msgspec import Struct
from msgspec.structs import replace

from ..isa.dataflow.definitions import START
from ..isa.dataflow.liveness import Liveness
from ..isa.dataflow.operands import rows_of
from ..model import Instruction, SourceLoc, ValueKind
from .register_moves import VECTORS, RegisterMoves
from .source_values import (
    DOTS,
    LDS_READS,
    LDS_WRITES,
    LOADS,
    STORES,
    SourceOperations,
    SourceValue,
)
from .subject import MATRIX_CLASSES, Subject

_MOST_STEPS: Final = 12
"""Instructions between a value and the use that says what it is for."""
_MOST_PLACES: Final = 500
"""Registers that are looked at on the way there."""
_FLOAT: Final = re.compile(r"_(b?f16|f32|f64)(_|$)")
_MADE_BY: Final[Mapping[str, tuple[ValueKind, tuple[str, ...]]]] = MappingProxyType(
    {
        "mfma": ("accumulator", DOTS),
        "wmma": ("accumulator", DOTS),
        "global_load": ("loaded", LOADS),
        "lds_read": ("exchanged", LDS_READS),
    }
)
"""Class of an instruction -> what its result is, and the operations that it comes from."""

Role = Literal["accumulator", "operand", "address", "stored", "exchanged", "compared"]


class _Step(Struct, frozen=True):
    """The next uses of what a row holds at some place.

    Args:
        roles: what they use it for.
        following: where those that compute with it leave their results.
    """

    roles: tuple[tuple[Role, SourceValue], ...]
    following: tuple[tuple[int, int], ...]


class ValueFlow:
    """The values of one kernel.

    Attributes:
        moves: how they go from register to register; rows are counted as there.
    """

    def __init__(self, subject: Subject, live: Liveness) -> None:
        self._function = subject.function
        self._live = live
        self._operations = SourceOperations(subject.ttgir)
        self.moves = RegisterMoves(subject.function, live, self._operations.is_conversion)
        self._variables: dict[int, list[tuple[int, str]]] = defaultdict(list)
        for mark in subject.function.variables:
            first = mark.first + (live.target.accum_offset if mark.file == "a" else 0)
            for row in range(first, first + mark.count):
                self._variables[row].append((mark.index, mark.name))
        self._results: dict[tuple[int, int], SourceValue] = {}
        self._roles: dict[tuple[int, int], tuple[tuple[Role, SourceValue], ...]] = {}
        self._steps: dict[tuple[int, int], _Step] = {}
        self._naming: set[int] = set()
        """The loads that are being named by what their results are for."""

    def value_at(self, index: int, row: int, *, fresh: bool) -> SourceValue:
        """The value of a row before an instruction, or of a row that it writes (`fresh`)."""
        definitions = frozenset((index,)) if fresh else self.moves.before(index, row)
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

    def _name_by_operands(self, places: Sequence[tuple[int, int]]) -> str | None:
        """The variable that the source's operations take where instructions read a value."""
        certain: set[str] = set()
        likely: set[str] = set()
        for use, row in self.moves.readers(places):
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
            for other in rows_of(self._live.effects[use].reads & VECTORS)
            if other != row
            for definition in self.moves.before(use, other)
            for value in self._made_by(definition, other)
        }

    def _name_by_readers(self, places: Sequence[tuple[int, int]]) -> str | None:
        """The variable that all vector instructions that read a value next compute."""
        names = set()
        for use, _ in self.moves.readers(places):
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
            sources = self.moves.moved(*place)
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
            if self.moves.copy(inst, row) is not None or self.moves.is_constant(inst):
                kind = "constant"
            named = self._operations.named(
                inst, kind, preferred, lambda: self._use_locs(index + 1, row)
            )
            if named.name is None:
                named = replace(named, name=self._variable(index, row))
            is_float = _FLOAT.search(inst.mnemonic) is not None
            self._results[index, row] = replace(named, is_float=is_float)
        return self._results[index, row]

    def _variable(self, index: int, row: int) -> str | None:
        """The variable that debug information knows the value by that an instruction writes."""
        names = Counter(
            name
            for place, name in self._variables.get(row, ())
            if index in self.moves.before(place, row)
        )
        return names.most_common(1)[0][0] if names else None

    def _roles_from(self, index: int, row: int) -> frozenset[tuple[Role, SourceValue]]:
        """What the value of a row before an instruction is used for in the end."""
        roles: set[tuple[Role, SourceValue]] = set()
        seen = {(index, row)}
        level = [(index, row)]
        for _ in range(_MOST_STEPS):
            following: list[tuple[int, int]] = []
            for place in level:
                step = self._steps.get(place) or self._step_from(place)
                roles.update(step.roles)
                for other in step.following:
                    if other not in seen:
                        seen.add(other)
                        following.append(other)
            level = following
            if not level or len(seen) > _MOST_PLACES:
                break
        return frozenset(roles)

    def _step_from(self, place: tuple[int, int]) -> _Step:
        """What reads a row next uses it for, and the places of what it makes of it."""
        index, row = place
        roles: list[tuple[Role, SourceValue]] = []
        following: list[tuple[int, int]] = []
        for use in self.moves.uses(index, row):
            role = self._role_in(use, row)
            if role:
                roles += role
            else:
                following += [(use + 1, result) for result in self.moves.passed_on(use, row)]
        step = self._steps[place] = _Step(tuple(roles), tuple(following))
        return step

    def _role_in(self, index: int, row: int) -> Sequence[tuple[Role, SourceValue]]:
        """What one instruction uses a row for; nothing where it computes or moves something."""
        key = (index, row)
        role = self._roles.get(key)
        if role is None:
            role = tuple(self._role(self._function.instructions[index], row))
            if key in self._roles:
                # A load that was named by its own result on the way: what rests on the first
                # answer is not the same any more.
                self._steps.clear()
            self._roles[key] = role
        return role

    def _role(self, inst: Instruction, row: int) -> Iterable[tuple[Role, SourceValue]]:
        if inst.cls in MATRIX_CLASSES:
            operands = self.moves.decoded(inst).operands
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
            if row in self.moves.address(inst):
                yield "address", identity
            else:
                yield "exchanged" if is_lds else "stored", identity
        elif not inst.cls.startswith("scratch") and not self._live.effects[inst.index].writes & (
            VECTORS
        ):
            yield "compared", self._operations.named(inst, "value", ())

    def _use_locs(self, index: int, row: int) -> list[SourceLoc | None]:
        """The positions of the instructions that may read what a row holds at some place."""
        return [self._function.instructions[use].loc for use in self.moves.uses(index, row)]

    def _read_by(self, inst: Instruction, preferred: tuple[str, ...]) -> SourceValue:
        """What a load reads: by its position, else by what the first register is for."""
        rows = rows_of(self._live.effects[inst.index].writes & VECTORS)
        identity = self._operations.named(
            inst,
            "address",
            preferred,
            (lambda: self._use_locs(inst.index + 1, rows[0])) if rows else None,
        )
        if identity.name is not None or inst.index in self._naming or not rows:
            return identity
        self._naming.add(inst.index)
        loaded = self.value_at(inst.index, min(rows), fresh=True)
        self._naming.remove(inst.index)
        return SourceValue("address", loaded.name, "", identity.source or loaded.source)


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
