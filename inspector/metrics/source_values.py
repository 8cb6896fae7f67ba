"""Values of the source by the instructions that make or touch them, for kernels with a TTGIR.

An instruction's position, with the calls that lead there, is a key into the locations of the TTGIR;
its operations' results carry the names of the variables.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, Literal

from msgspec import Struct

from ..model import Instruction, SourceLoc, TtgirModule, TtgirOp, TtgirType
from .loop_shape import position_of
from .subject import Place, variable_name

Kind = Literal[
    "accumulator", "operand", "loaded", "exchanged", "address", "value", "constant", "argument"
]


DOTS: Final = ("tt.dot", "tt.dot_scaled", "ttng.warp_group_dot")
LOADS: Final = ("tt.load", "amdg.buffer_load", "tt.descriptor_load", "tt.gather")
STORES: Final = ("tt.store", "amdg.buffer_store", "tt.descriptor_store", "tt.atomic_rmw")
LDS_READS: Final = ("ttg.local_load", "ttg.convert_layout", "tt.reduce", "tt.scan", "tt.gather")
LDS_WRITES: Final = ("ttg.local_store", "ttg.local_alloc", "ttg.convert_layout", "tt.reduce")
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
_WRITES: Final = ("tt.store", "amdg.buffer_store", "tt.descriptor_store", "ttg.local_store")
_CONVERSIONS: Final = ("arith.extf", "arith.truncf", "tt.fp_to_fp", "arith.sitofp", "arith.uitofp")
_READS: Final = (*LOADS, "ttg.local_load", "ttg.convert_layout")
_LOOPS: Final = ("scf.for", "scf.while")
_COMPUTED_BY: Final = (
    (("mul_f",), ("arith.mulf",)),
    (("fma", "fmac", "mad_f"), ("arith.addf", "arith.subf", "arith.mulf", "math.fma")),
    (("add_f", "sub_f"), ("arith.addf", "arith.subf")),
    (("exp_f", "log_f", "ldexp_f"), ("math.",)),
    (("cndmask",), ("arith.select",)),
    (("cvt_", "perm_b32", "lshlrev_b32", "and_b32"), _CONVERSIONS),
)
"""Parts of the mnemonics of vector instructions -> operations of which they may compute a result.

A sum and the conversion of its first term, say, have one position.
"""
_UNNAMED: Final = re.compile(r"c-?\d+|cst|arg\d+|\d+")
"""What MLIR calls values that have no name."""
_INTEGER: Final = re.compile(r"v_(?!cvt|cndmask|mov|perm)\w*_[uib](16|24|32|64)(_|$)")
"""Vector instructions that compute with integers."""
_MOST_CHANGES: Final = 12
"""Changes of layout and precision that are followed back to a name."""


class SourceValue(Struct, frozen=True, cache_hash=True):
    """A value of the source.

    Args:
        kind: what it is to the code.
        name: of the variable; None where nothing says.
        type: shape and element type of the tensor, `128x64xf32`; "" where nothing says.
        source: the user's line.
        is_float: whether floating-point arithmetic made it.
        is_served: whether the name is that of what it is for.
        is_scalars: whether each lane holds another scalar.
    """

    kind: Kind
    name: str | None = None
    type: str = ""
    source: SourceLoc | None = None
    is_float: bool = False
    is_served: bool = False
    is_scalars: bool = False


class SourceOperations:
    """The operations of a TTGIR by position, and the names of their results."""

    def __init__(self, module: TtgirModule | None) -> None:
        self._by_place: dict[Place, list[TtgirOp]] = defaultdict(list)
        self._by_result: dict[str, TtgirOp] = {}
        self._yields: dict[int, list[Sequence[str]]] = defaultdict(list)
        self._carried: dict[str, set[tuple[int, int]]] = defaultdict(set)
        """Argument of a loop's body -> index of the loop, place among what it carries."""
        self._names: set[str] = set()
        ops = module.ops if module is not None else ()
        # A loop has the position of its header and one name for all that it carries; what only
        # counts its iterations has both as well.
        headers = {position_of(op.loc) for op in ops if op.loc is not None and op.name in _LOOPS}
        for op in ops:
            if op.loc is not None and not op.name.startswith("scf."):
                place = position_of(op.loc)
                if place not in headers:
                    self._by_place[place].append(op)
            if op.name == "scf.yield" and op.parent is not None:
                self._yields[op.parent].append(op.operands)
            for result in op.results:
                self._by_result[_stem(result)] = op
            if op.name == "scf.for":
                (arguments,) = op.attributes.get("block_args", ((),))
                for number, argument in enumerate(arguments[1:]):
                    self._carried[argument].add((op.index, number))
            self._names.update(map(_stem, (*op.results, *op.operands)))

    def is_conversion(self, loc: SourceLoc | None) -> bool:
        """Whether an operation at a position changes the precision of its operand."""
        return any(op.name in _CONVERSIONS for op in self._ops(loc))

    def _ops(self, loc: SourceLoc | None) -> Sequence[TtgirOp]:
        return self._by_place.get(position_of(loc), ()) if loc is not None else ()

    def named_operands(self, inst: Instruction) -> set[str]:
        """The variables that the operations of a vector instruction take.

        Changes of layout and precision are looked through.
        """
        ops = [op for op in self._ops(inst.loc) if op.name not in _VIEWS]
        computed = [op for op in ops if op.name.startswith(tuple(_computed_by(inst.mnemonic)))]
        return {
            name
            for op in computed or ops
            for position in range(len(op.operands))
            if (name := self._origin(op, position))
        }

    def named_result(self, inst: Instruction) -> str | None:
        """The variable that a vector instruction computes.

        None as well where its position is not that of such arithmetic: where LLVM moved it, say.
        """
        op = self._at(inst.loc, _computed_by(inst.mnemonic))
        if op is None or not op.result_types:
            return None
        is_integer = not op.result_types[0].element.startswith(("f", "bf"))
        return self._name(op) if is_integer or not _INTEGER.search(inst.mnemonic) else None

    def dot_operand(self, inst: Instruction, position: int) -> SourceValue:
        """What a dot takes as its first (0) or second operand, by the matrix instruction's.

        Triton's lowering exchanges the two where the layout is transposed.
        """
        dot = self._at(inst.loc, DOTS)
        source = inst.loc.in_user_code if inst.loc is not None else None
        line = SourceLoc(source.file, source.line) if source is not None and source.line else None
        if dot is None or not dot.name.startswith(DOTS) or len(dot.operands) < 2:
            return SourceValue("operand", None, "", line)
        layout = dot.result_types[0].layout if dot.result_types else None
        params = layout.params if layout is not None else {}
        if params.get("isTransposed") is True or params.get("isTranspose") is True:
            position = 1 - position
        kind = dot.operand_types[position] if position < len(dot.operand_types) else None
        tensor = "x".join((*map(str, kind.shape), kind.element)) if kind is not None else ""
        return SourceValue("operand", self._origin(dot, position), tensor, line)

    def _at(
        self,
        loc: SourceLoc | None,
        preferred: Sequence[str],
        uses: Iterable[SourceLoc | None] = (),
    ) -> TtgirOp | None:
        """The operation at a position: one of the preferred kind, else the most common name's.

        Where they have several names, one whose result operations at the uses' positions take.
        """
        ops = list(self._ops(loc))
        chosen = [op for op in ops if op.name.startswith(tuple(preferred))] if preferred else []
        makers = [op for op in ops if op.name not in _VIEWS]
        chosen = chosen or [op for op in makers if not op.name.startswith(_READS)] or makers or ops
        names = Counter(name for op in chosen if (name := self._name(op)))
        if len(names) > 1:
            taken = {value for use in uses for op in self._ops(use) for value in op.operands}
            fitting = [op for op in chosen if taken.intersection(op.results)]
            fitting_names = Counter(name for op in fitting if (name := self._name(op)))
            if fitting_names:
                names, chosen = fitting_names, fitting
        if not names:
            return chosen[0] if chosen else None
        most = names.most_common(1)[0][0]
        return next(op for op in chosen if self._name(op) == most)

    def _name(self, op: TtgirOp) -> str | None:
        """The variable that an operation makes or stores, looking through changes of layout."""
        own = self._variable(op.results[0]) if op.results else None
        if (op.name not in _RELAID and op.name not in _WRITES) or not op.operands:
            return own
        position = 1 if op.name == "tt.store" else 0
        return self._origin(op, position) or own

    def _origin(self, op: TtgirOp, position: int) -> str | None:
        """The variable of an operand, looking through changes of layout and what loops carry."""
        for _ in range(_MOST_CHANGES):
            if position >= len(op.operands):
                return None
            value = op.operands[position]
            maker = self._by_result.get(_stem(value))
            if maker is None:
                # Blocks' arguments have the name of their loop, except those that are buffers.
                types = op.operand_types
                if position < len(types) and types[position].kind == "memdesc":
                    return self._variable(value)
                value = self._next(value)
                maker = self._by_result.get(_stem(value))
                if maker is None:
                    return None
            if maker.name.startswith("scf."):
                return self._yielded(maker, value)
            if maker.name not in _RELAID:
                return self._variable(value)
            op, position = maker, 0
        return None

    def _next(self, argument: str) -> str:
        """What an iteration hands on to the next one for an argument of a loop's body; else "".

        Names may repeat from loop to loop.
        """
        places = self._carried.get(argument, ())
        values = {
            operands[number]
            for loop, number in places
            for operands in self._yields[loop]
            if number < len(operands)
        }
        return values.pop() if len(values) == 1 else ""

    def _yielded(self, op: TtgirOp, value: str, depth: int = 0) -> str | None:
        """The variable that a loop or branch gives one of its results."""
        number = int(value.partition("#")[2] or 0)
        for operands in self._yields[op.index]:
            if number >= len(operands):
                continue
            name = self._variable(operands[number])
            maker = self._by_result.get(_stem(operands[number]))
            if maker is not None and maker.name.startswith("scf."):
                inner = depth < _MOST_CHANGES
                name = self._yielded(maker, operands[number], depth + 1) if inner else None
            if name and maker is not None:
                return name
        return None

    def _variable(self, value: str) -> str | None:
        """The variable in the SSA name of a value, where the source gave it a name.

        MLIR numbers all values of a name but the first: `%tile_2` alone is the variable `tile_2`.
        """
        full = _stem(value)
        name = variable_name(full)
        if _UNNAMED.fullmatch(name):
            return None
        return name if f"%{name}" in self._names else full.lstrip("%")

    def named(
        self,
        inst: Instruction,
        kind: Kind,
        preferred: Sequence[str],
        uses: Iterable[SourceLoc | None] = (),
    ) -> SourceValue:
        """The value that an instruction makes or touches, by the operation that it comes from.

        Args:
            inst: the instruction.
            kind: what the value is to it.
            preferred: beginnings of the names of operations that such instructions come from.
            uses: positions of the instructions that read it next.
        """
        source = inst.loc.in_user_code if inst.loc is not None else None
        line = SourceLoc(source.file, source.line) if source is not None and source.line else None
        op = self._at(inst.loc, preferred or _computed_by(inst.mnemonic), uses)
        if op is None:
            return SourceValue(kind, None, "", line)
        return SourceValue(kind, self._name(op), _tensor(op), line)


def _tensor(op: TtgirOp) -> str:
    types: Iterable[TtgirType] = (*op.result_types, *op.operand_types[::-1])
    tensor = next((item for item in types if item.kind in ("tensor", "memdesc")), None)
    if tensor is None:
        return ""
    return "x".join((*map(str, tensor.shape), tensor.element))


def _computed_by(mnemonic: str) -> Sequence[str]:
    if not mnemonic.startswith("v_") or mnemonic.startswith("v_dual_"):
        return ()
    return next(
        (names for parts, names in _COMPUTED_BY if any(part in mnemonic for part in parts)), ()
    )


def _stem(value: str) -> str:
    """The SSA name without the number of the result."""
    return value.partition("#")[0].partition(":")[0]
