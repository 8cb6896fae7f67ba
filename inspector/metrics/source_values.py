"""Values of the source by the instructions that make or touch them, for kernels with a TTGIR."""

from __future__ import annotations

import functools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec import Struct

from ..model import Instruction, SourceLoc, TtgirModule, TtgirOp, TtgirType, ValueKind
from .loop_shape import position_of
from .subject import Place, variable_name

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
        name: of the variable; None where nothing says.
        type: shape and element type of the tensor, `128x64xf32`; "" where nothing says.
        source: the user's line.
        is_float: whether floating-point arithmetic made it.
        is_served: whether the name is that of what it is for.
        is_scalars: whether each lane holds another scalar.
    """

    kind: ValueKind
    name: str | None = None
    type: str = ""
    source: SourceLoc | None = None
    is_float: bool = False
    is_served: bool = False
    is_scalars: bool = False


class _Candidates(Struct, frozen=True):
    """The operations at a position from which an instruction may come.

    Args:
        names: their variables, with the number of operations of each; the most common first.
        best: the first of those of the most common variable, or of all where none has one.
    """

    ops: Sequence[TtgirOp]
    names: Sequence[tuple[str, int]]
    best: TtgirOp | None


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
        self._at_loc: dict[SourceLoc, Sequence[TtgirOp]] = {}
        self._line_of: dict[SourceLoc, SourceLoc | None] = {}
        self._name_of: dict[int, str | None] = {}
        self._candidates_at: dict[tuple[SourceLoc | None, tuple[str, ...]], _Candidates] = {}
        self._values_at: dict[tuple[SourceLoc | None, tuple[str, ...], ValueKind], SourceValue] = {}
        self._operands_at: dict[tuple[SourceLoc | None, tuple[str, ...]], frozenset[str]] = {}

    def is_conversion(self, loc: SourceLoc | None) -> bool:
        """Whether an operation at a position changes the precision of its operand."""
        return any(op.name in _CONVERSIONS for op in self._ops(loc))

    def _ops(self, loc: SourceLoc | None) -> Sequence[TtgirOp]:
        """The operations at a position."""
        if loc is None:
            return ()
        ops = self._at_loc.get(loc)
        if ops is None:
            ops = self._at_loc[loc] = self._by_place.get(position_of(loc), ())
        return ops

    def _line(self, loc: SourceLoc | None) -> SourceLoc | None:
        """The user's own line of a position, without its column."""
        if loc is None:
            return None
        if loc not in self._line_of:
            source = loc.in_user_code
            self._line_of[loc] = SourceLoc(source.file, source.line) if source.line else None
        return self._line_of[loc]

    def named_operands(self, inst: Instruction) -> frozenset[str]:
        """The variables that the operations of a vector instruction take.

        Changes of layout and precision are looked through.
        """
        computed_by = _computed_by(inst.mnemonic)
        key = (inst.loc, computed_by)
        names = self._operands_at.get(key)
        if names is None:
            ops = [op for op in self._ops(inst.loc) if op.name not in _VIEWS]
            computed = [op for op in ops if op.name.startswith(computed_by)]
            names = self._operands_at[key] = frozenset(
                name
                for op in computed or ops
                for position in range(len(op.operands))
                if (name := self._origin(op, position))
            )
        return names

    def variable(self, op: TtgirOp) -> str | None:
        """The variable that an operation makes, stores or puts elsewhere."""
        return self._name(op)

    def named_result(self, inst: Instruction) -> str | None:
        """The variable that a vector instruction computes.

        None as well where its position is not that of such arithmetic: where LLVM moved it, say.
        """
        op = self._candidates(inst.loc, _computed_by(inst.mnemonic)).best
        if op is None or not op.result_types:
            return None
        is_integer = not op.result_types[0].element.startswith(("f", "bf"))
        return self._name(op) if is_integer or not _INTEGER.search(inst.mnemonic) else None

    def dot_operand(self, inst: Instruction, position: int) -> SourceValue:
        """What a dot takes as its first (0) or second operand, by the matrix instruction's.

        Triton's lowering exchanges the two where the layout is transposed.
        """
        dot = self._candidates(inst.loc, DOTS).best
        line = self._line(inst.loc)
        if dot is None or not dot.name.startswith(DOTS) or len(dot.operands) < 2:
            return SourceValue("operand", None, "", line)
        layout = dot.result_types[0].layout if dot.result_types else None
        params = layout.params if layout is not None else {}
        if params.get("isTransposed") is True or params.get("isTranspose") is True:
            position = 1 - position
        kind = dot.operand_types[position] if position < len(dot.operand_types) else None
        tensor = "x".join((*map(str, kind.shape), kind.element)) if kind is not None else ""
        return SourceValue("operand", self._origin(dot, position), tensor, line)

    def _candidates(self, loc: SourceLoc | None, preferred: tuple[str, ...]) -> _Candidates:
        """The operations at a position: of the preferred kind, else those that make values."""
        key = (loc, preferred)
        known = self._candidates_at.get(key)
        if known is None:
            ops = list(self._ops(loc))
            chosen = [op for op in ops if op.name.startswith(preferred)] if preferred else []
            makers = [op for op in ops if op.name not in _VIEWS]
            chosen = chosen or [op for op in makers if not op.name.startswith(_READS)]
            known = self._candidates_at[key] = self._by_name(chosen or makers or ops)
        return known

    def _by_name(self, ops: Sequence[TtgirOp]) -> _Candidates:
        """Some operations with their variables."""
        names = Counter(name for op in ops if (name := self._name(op))).most_common()
        if not names:
            return _Candidates(ops, names, ops[0] if ops else None)
        most = names[0][0]
        return _Candidates(ops, names, next(op for op in ops if self._name(op) == most))

    def _taken(self, candidates: _Candidates, uses: Iterable[SourceLoc | None]) -> TtgirOp | None:
        """Of candidates with several names, one whose result the operations at positions take."""
        taken = {value for use in uses for op in self._ops(use) for value in op.operands}
        fitting = self._by_name([op for op in candidates.ops if taken.intersection(op.results)])
        return fitting.best if fitting.names else candidates.best

    def _name(self, op: TtgirOp) -> str | None:
        """The variable that an operation makes or stores, looking through changes of layout."""
        if op.index not in self._name_of:
            self._name_of[op.index] = self._name_by_operands(op)
        return self._name_of[op.index]

    def _name_by_operands(self, op: TtgirOp) -> str | None:
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
        """What an iteration hands on to the next one for an argument of a loop's body; else ""."""
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
        kind: ValueKind,
        preferred: tuple[str, ...],
        uses: Callable[[], Iterable[SourceLoc | None]] | None = None,
    ) -> SourceValue:
        """The value that an instruction makes or touches, by the operation that it comes from.

        `preferred`: beginnings of the names of operations that such instructions come from; `uses`:
        gives the positions of the instructions that read it next. Where several operations fit, one
        whose result the operations there take is meant.
        """
        chosen = preferred or _computed_by(inst.mnemonic)
        key = (inst.loc, chosen, kind)
        value = self._values_at.get(key)
        if value is None:
            op = self._candidates(inst.loc, chosen).best
            value = self._values_at[key] = self._value(kind, op, inst.loc)
        if uses is None or value.name is None:
            return value
        candidates = self._candidates(inst.loc, chosen)
        if len(candidates.names) < 2:
            return value
        return self._value(kind, self._taken(candidates, uses()), inst.loc)

    def _value(self, kind: ValueKind, op: TtgirOp | None, loc: SourceLoc | None) -> SourceValue:
        """The value that an operation makes for an instruction at a position."""
        if op is None:
            return SourceValue(kind, None, "", self._line(loc))
        return SourceValue(kind, self._name(op), _tensor(op), self._line(loc))


def _tensor(op: TtgirOp) -> str:
    types: Iterable[TtgirType] = (*op.result_types, *op.operand_types[::-1])
    tensor = next((item for item in types if item.kind in ("tensor", "memdesc")), None)
    if tensor is None:
        return ""
    return "x".join((*map(str, tensor.shape), tensor.element))


@functools.lru_cache(maxsize=1 << 10)
def _computed_by(mnemonic: str) -> tuple[str, ...]:
    """Beginnings of the names of operations of which a vector instruction may compute a result."""
    if not mnemonic.startswith("v_") or mnemonic.startswith("v_dual_"):
        return ()
    return next(
        (names for parts, names in _COMPUTED_BY if any(part in mnemonic for part in parts)), ()
    )


def _stem(value: str) -> str:
    """The SSA name without the number of the result."""
    return value.partition("#")[0].partition(":")[0]
