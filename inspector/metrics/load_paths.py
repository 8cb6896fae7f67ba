"""The paths through some code that have most loads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Final, Literal, NamedTuple

from ..isa.dataflow.operands import operand_texts
from ..isa.graph.longest_way import acyclic
from ..isa.vector_halves import written_registers
from ..isa.waitflow.registers import VCC, named, split_destination
from ..model import Function, Instruction

LOADS: Final = frozenset(("global_load", "lds_direct"))

_FLAGGED: Final = ("s_cbranch_vccz", "s_cbranch_vccnz")
_MOST_TRIED: Final = 64
"""Branches of a path whose ways are followed to the end; of others the flags are left out."""

Arm = Literal["then", "else"]


def load_paths(function: Function, start: int, within: Set[int] | None) -> list[Sequence[int]]:
    """Paths through a kernel without loops, or through an iteration of a loop, by block numbers.

    What is skipped over where no lane is active counts as executed. Of two ways that exclude each
    other a path takes the one with more loads. Where lanes for which a condition does not hold have
    code of their own, one path takes their arm of it, another one the other. A branch on a flag
    that the path itself has set goes as the flag says: LLVM joins the arms of uniform conditions
    so.

    Args:
        function: the kernel.
        start: the block that the paths begin with.
        within: the loop's blocks; None for all of the function's.
    """
    inside = range(len(function.blocks)) if within is None else within
    paths = _Paths(function, start, frozenset(inside))
    has_others = any(
        turns_to_others(inst) for number in inside for inst in code_of(function, number)
    )
    arms: tuple[Arm, ...] = ("then", "else") if has_others else ("then",)
    return [paths.blocks(arm) for arm in arms]


def code_of(function: Function, number: int) -> Sequence[Instruction]:
    """The instructions of a block."""
    block = function.blocks[number]
    return function.instructions[block.start : block.stop]


def _tests_flag(block: Sequence[Instruction]) -> bool:
    """Whether a block ends with a branch on a mask of lanes that is joined with EXEC."""
    return (
        bool(block)
        and block[-1].op.name in _FLAGGED
        and any(
            inst.op.name.startswith("s_and") and inst.operands.startswith("vcc") for inst in block
        )
    )


def turns_to_others(inst: Instruction) -> bool:
    """Whether an instruction turns to the lanes for which a condition does not hold."""
    return inst.op.name.startswith(("s_andn2_saveexec", "s_and_not1_saveexec", "s_or_saveexec"))


class _FlagCode:
    """What blocks do to the scalar registers that may hold all ones or zero, worked out once."""

    def __init__(self, function: Function, numbers: Sequence[int]) -> None:
        """Looks for the registers that such values are written to."""
        self._function = function
        self._steps: dict[int, Sequence[_FlagStep]] = {}
        self._registers = {
            register
            for number in numbers
            for inst in code_of(function, number)
            if _flag_of(inst) is not None
            for register in named(split_destination(inst.operands)[0])
        }

    def steps(self, number: int) -> Sequence[_FlagStep]:
        """The instructions of a block that write such registers, in order."""
        if number not in self._steps:
            steps = []
            for inst in code_of(self._function, number):
                written = written_registers(inst) & self._registers
                if written or _flag_of(inst) is not None:
                    to, _ = split_destination(inst.operands)
                    steps.append(_FlagStep(_flag_of(inst), tuple(written), named(to)))
            self._steps[number] = steps
        return self._steps[number]

    def last(self, number: int) -> str:
        """The mnemonic that a block ends with."""
        code = code_of(self._function, number)
        return code[-1].op.name if code else ""


class _Flag(NamedTuple):
    """All lanes' bits, or none: a constant, or the value of another register, inverted or not."""

    register: int | None
    is_set: bool


class _FlagStep(NamedTuple):
    """An instruction that writes a register that may hold such a value.

    Args:
        flag: the value; None of what is neither.
        written: the registers that it writes.
        results: those that hold the value then.
    """

    flag: _Flag | None
    written: Sequence[int]
    results: Sequence[int]


def _flag_of(inst: Instruction) -> _Flag | None:
    """The value that an instruction writes, where it may be all lanes' bits, or none."""
    name = inst.op.name
    if not name.startswith(("s_mov_b", "s_and_b", "s_andn2_b", "s_and_not1_b")):
        return None
    operands = operand_texts(inst.operands)
    if name.startswith("s_mov_b"):
        return _Flag(None, operands[-1] == "-1") if operands[-1] in ("0", "-1") else None
    if len(operands) != 3 or not operands[1].startswith("exec"):
        return None
    return _Flag(next(iter(named(operands[2])), -1), name.startswith("s_and_b"))


class _Flags:
    """The scalar registers that hold all ones or zero on a path, as far as it has come."""

    def __init__(self, code: _FlagCode, values: Mapping[int, bool] | None = None) -> None:
        self._code = code
        self._values = dict(values or {})

    def copy(self) -> _Flags:
        """The same registers, for a way of its own."""
        return _Flags(self._code, self._values)

    def jumps(self, number: int) -> bool | None:
        """Whether the branch at a block's end jumps; None where that is not known.

        Blocks are passed in the order of their execution.
        """
        values = self._values
        for flag, written, results in self._code.steps(number):
            value = None if flag is None else self._value(flag)
            for register in written:
                values.pop(register, None)
            if value is not None:
                values.update(dict.fromkeys(results, value))
        last = self._code.last(number)
        is_set = values.get(VCC[0]) if last in _FLAGGED else None
        return None if is_set is None else is_set == (last == "s_cbranch_vccnz")

    def _value(self, flag: _Flag) -> bool | None:
        if flag.register is None:
            return flag.is_set
        value = self._values.get(flag.register)
        return None if value is None else value == flag.is_set


class _Paths:
    """The ways that blocks may be executed in, without those that close a cycle.

    (Cycles are left where they are nested too deeply to be listed as loops, and in irreducible
    ones.)
    """

    def __init__(self, function: Function, start: int, inside: Set[int]) -> None:
        self._function = function
        self._start = start
        order, before = acyclic(function.blocks, start, inside)
        self._successors: dict[int, list[int]] = {number: [] for number in order}
        for number, origins in before.items():
            for origin in origins:
                self._successors[origin].append(number)
        self._ahead: dict[int, int] = {}
        """Block -> the blocks that may follow it, as bits."""
        self._loads: dict[int, int] = {}
        has_flags = any(_tests_flag(code_of(function, number)) for number in order)
        self._flags = _FlagCode(function, order) if has_flags else None
        self._most_loads: dict[int, int] = {}
        """Block -> loads from its beginning on, on the path with most of them."""
        for number in reversed(order):
            ahead, most = 0, 0
            for following in self._successors[number]:
                ahead |= self._ahead[following] | 1 << following
                most = max(most, self._most_loads[following])
            self._ahead[number] = ahead
            self._loads[number] = sum(inst.cls in LOADS for inst in code_of(function, number))
            self._most_loads[number] = most + self._loads[number]

    def blocks(self, arm: Arm) -> Sequence[int]:
        """The blocks of a path in the order of their execution."""
        flags = _Flags(self._flags) if self._flags is not None else None
        return self._followed(self._start, arm, flags, most_tried=_MOST_TRIED)

    def _followed(
        self, start: int, arm: Arm, flags: _Flags | None, *, most_tried: int
    ) -> Sequence[int]:
        """The blocks from one on."""
        path = [start]
        while ways := self._successors[path[-1]]:
            following = path[-1] + 1
            jumps = flags.jumps(path[-1]) if flags is not None else None
            if len(ways) > 1 and jumps is not None and following in ways:
                ways = [number for number in ways if (number != following) == jumps]
            number = ways[0] if len(ways) == 1 else self._next(path[-1], arm)
            if number is None and flags is not None and most_tried > 0:
                most_tried -= 1
                loads = {
                    way: self._loads_in(self._followed(way, arm, flags.copy(), most_tried=0))
                    for way in ways
                }
                number = max(ways, key=lambda way: (loads[way], self._most_loads[way]))
            elif number is None:
                number = max(
                    sorted(ways, key=self._function.blocks[path[-1]].successors.index),
                    key=lambda way: self._most_loads[way],
                )
            path.append(number)
        return path

    def _loads_in(self, numbers: Sequence[int]) -> int:
        return sum(self._loads[number] for number in numbers)

    def _next(self, number: int, arm: Arm) -> int | None:
        """The next block behind a branch to two; None where they exclude each other."""
        first, second = (
            n for n in self._function.blocks[number].successors if n in self._successors[number]
        )
        branch = code_of(self._function, number)[-1].op.name
        if branch.startswith("s_cbranch_exec") and number + 1 in (first, second):
            target = second if first == number + 1 else first
            jumps_in = branch == "s_cbranch_execnz"
            inner, outer = (target, number + 1) if jumps_in else (number + 1, target)
        elif self._ahead[first] >> second & 1:
            inner, outer = first, second
        elif self._ahead[second] >> first & 1:
            inner, outer = second, first
        else:
            return None
        leaves_out = self._begins_else if arm == "then" else self._begins_then
        return outer if leaves_out(number) else inner

    def _begins_else(self, number: int) -> bool:
        return any(map(turns_to_others, code_of(self._function, number)))

    def _begins_then(self, number: int) -> bool:
        """Whether a block turns to lanes beside which there are others, with code of their own."""
        code = code_of(self._function, number)
        at = max(
            (place for place, inst in enumerate(code) if "and_saveexec" in inst.op.name), default=-1
        )
        return at >= 0 and any(
            inst.op.name.startswith("s_xor_b") and "exec" in inst.operands for inst in code[at:]
        )
