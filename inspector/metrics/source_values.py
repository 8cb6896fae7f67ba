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
_CONSTANT: Final = re.compile(r"c-?\d+|cst")
"""What MLIR calls constants that have no name."""


class SourceValue(Struct, frozen=True):
    """A value of the source.

    Args:
        kind: what it is to the code.
        name: of the variable; None where nothing says.
        type: shape and element type of the tensor, `128x64xf32`; "" where nothing says.
        source: the user's line.
        is_float: whether floating-point arithmetic made it.
    """

    kind: Kind
    name: str | None = None
    type: str = ""
    source: SourceLoc | None = None
    is_float: bool = False


class SourceOperations:
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

    def _at(self, loc: SourceLoc | None, preferred: Sequence[str]) -> TtgirOp | None:
        """The operation at a position: one of the preferred kind, else the most common name's."""
        ops = self._by_place.get(position_of(loc), []) if loc is not None else []
        chosen = [op for op in ops if op.name.startswith(tuple(preferred))] if preferred else []
        chosen = chosen or [op for op in ops if op.name not in _VIEWS] or ops
        names = Counter(name for op in chosen if (name := self._name(op)))
        if not names:
            return chosen[0] if chosen else None
        most = names.most_common(1)[0][0]
        return next(op for op in chosen if self._name(op) == most)

    def _name(self, op: TtgirOp) -> str | None:
        """The variable that an operation's result is, looking through mere changes of layout."""
        seen = 0
        origin: TtgirOp | None = op
        while origin is not None and origin.name in _RELAID and origin.operands and seen < 12:
            origin = self._by_result.get(origin.operands[0].partition("#")[0])
            seen += 1
        return _variable(origin) or _variable(op)

    def named(self, inst: Instruction, kind: Kind, preferred: Sequence[str]) -> SourceValue:
        """The value that an instruction makes or touches, by the operation that it comes from.

        Args:
            inst: the instruction.
            kind: what the value is to it.
            preferred: beginnings of the names of operations that such instructions come from.
        """
        source = inst.loc.in_user_code if inst.loc is not None else None
        line = SourceLoc(source.file, source.line) if source is not None and source.line else None
        op = self._at(inst.loc, preferred)
        if op is None:
            return SourceValue(kind, None, "", line)
        return SourceValue(kind, self._name(op), _tensor(op), line)


def _tensor(op: TtgirOp) -> str:
    types: Iterable[TtgirType] = (*op.result_types, *op.operand_types[::-1])
    tensor = next((item for item in types if item.kind in ("tensor", "memdesc")), None)
    if tensor is None:
        return ""
    return "x".join((*map(str, tensor.shape), tensor.element))


def _variable(op: TtgirOp | None) -> str | None:
    """The name of an operation's first result, where the source gave it one."""
    if op is None or not op.results:
        return None
    name = variable_name(op.results[0].partition("#")[0])
    return None if name.isdigit() or _CONSTANT.fullmatch(name) else name
