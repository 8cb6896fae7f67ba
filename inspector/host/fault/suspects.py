"""Finds the instruction that caused a stop: at the pc, before it, or still outstanding.

A wave does not wait for a memory operation before it goes on, and without precise memory mode the
fault is reported whenever the hardware learns of it. So the pc of a memory violation stands after
the culprit, and what may be outstanding at the pc are the suspects. (ROCdbgapi,
AMD_DBGAPI_MEMORY_PRECISION; in precise mode the pc is that of the instruction after the culprit:
rocr-debug-agent's help text of --precise-memory.)

The addresses that a wave's lanes asked for, from the registers that its report dumps.

The pc stands after the operation, so its registers may have been written since: an address in the
page that could not be reached is strong evidence, any other address proves nothing.

Global and flat: 64-bit address in a pair of vector registers, or a 32-bit offset added to a pair of
scalar registers, plus the signed immediate. Buffer: 48-bit base in the descriptor's first two
words, plus scalar offset, immediate and, with `offen`, the lane's offset; swizzled buffers and
`idxen` are left alone. (The CDNA3 and RDNA4 ISA documents' chapters on memory instructions.)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from ...isa.dataflow.operands import operand_texts
from ...isa.waitflow.counters import RAISING, decode_wait
from ...isa.waitflow.pending import outstanding
from ...isa.waitflow.steps import CounterStep, CounterSteps, steps_of
from ...model import Function, Instruction, Machine

IMPRECISE = frozenset({"MEMORY_VIOLATION", "ADDRESS_ERROR"})
"""Stop reasons of memory operations, which the pc has left behind."""
ARITHMETIC = frozenset(
    {
        *("FP_INPUT_DENORMAL", "FP_DIVIDE_BY_0", "FP_OVERFLOW", "FP_UNDERFLOW", "FP_INEXACT"),
        *("FP_INVALID_OPERATION", "INT_DIVIDE_BY_0"),
    }
)
"""Stop reasons of vector arithmetic; the pc may be some instructions further on."""
TRAPS = frozenset({"ASSERT_TRAP", "DEBUG_TRAP", "TRAP"})
_PROBE = -1
_MOST_WAITED = 8

_MEMORY = frozenset(
    {
        *("global_load", "global_store", "scratch_load", "scratch_store", "atomic"),
        *("smem_load", "smem_store", "lds_direct", "lds_direct_store", "image", "bvh"),
    }
)
"""Classes that reach memory outside of the CU: only these know pages."""


def reaches_memory(inst: Instruction) -> bool:
    """Tells whether an instruction can access a missing page."""
    return inst.cls in _MEMORY


def previous(function: Function, index: int) -> Instruction | None:
    """Returns the preceding instruction, by address; None at the function's begin."""
    return function.instructions[index - 1] if index > 0 else None


def trap_at(function: Function, index: int) -> Instruction | None:
    """Returns the `s_trap` of a trapped wave: at the pc, or before it on targets that step past."""
    current = function.instructions[index]
    preceding = previous(function, index)
    for inst in (current, preceding):
        if inst is not None and inst.op.name == "s_trap":
            return inst
    return None


def outstanding_at(function: Function, index: int, machine: Machine) -> tuple[Instruction, ...]:
    """Returns the memory operations that may be outstanding at an instruction, newest first.

    A wait for everything is inserted there; the operations that it ends are outstanding.
    """
    block = next((b.index for b in function.blocks if b.start <= index < b.stop), None)
    if block is None:
        return ()
    waits_of = partial(_waits_of, machine=machine)
    steps = _with_probe(
        steps_of(function, machine.counters, waits_of), block, index, machine.counters
    )
    ended = outstanding(steps, function.blocks, machine.counters).at_wait.get(_PROBE, {})
    places = {steps.producers[n] for numbers in ended.values() for n in numbers}
    operations = [function.instructions[i] for i in places]
    return tuple(
        sorted((i for i in operations if reaches_memory(i)), key=partial(_distance, index))
    )


def waited_before(function: Function, index: int) -> tuple[Instruction, ...]:
    """Returns the last memory operations before an instruction, nearest first."""
    operations = [
        i for i in function.instructions[:index] if i.cls in RAISING and reaches_memory(i)
    ]
    return tuple(reversed(operations[-_MOST_WAITED:]))


def _distance(index: int, inst: Instruction) -> tuple[bool, int]:
    # Operations behind the pc were issued in an earlier iteration of a loop: they are older.
    return (inst.index >= index, -inst.index)


def _with_probe(
    steps: CounterSteps, block: int, index: int, maxima: Mapping[str, int]
) -> CounterSteps:
    """Inserts a wait for everything before the instruction at `index` into the steps."""
    probe = CounterStep(_PROBE, waits=dict.fromkeys(maxima, 0))
    earlier: list[CounterStep] = []
    later: list[CounterStep] = []
    for step in steps.blocks[block]:
        if step.run:
            parts = _split(step.run, index)
            earlier += parts[0]
            later += parts[1]
        else:
            (earlier if step.index < index else later).append(step)
    blocks = list(steps.blocks)
    blocks[block] = (*earlier, probe, *later)
    return replace(steps, blocks=tuple(blocks))


def _split(
    run: Sequence[tuple[int, int]], index: int
) -> tuple[list[CounterStep], list[CounterStep]]:
    halves = [r for r in run if r[0] < index], [r for r in run if r[0] >= index]
    parts: list[list[CounterStep]] = []
    for half in halves:
        touches = 0
        for _, ids in half:
            touches |= ids
        parts.append([CounterStep(half[0][0], (), touches, run=tuple(half))] if half else [])
    return parts[0], parts[1]


def _waits_of(inst: Instruction, machine: Machine) -> Mapping[str, int]:
    if inst.cls != "wait":
        return {}
    return decode_wait(inst.op.name, inst.operands, machine.waitcnt_fields, machine.counters)


PAGE = 4096
_MASK64 = (1 << 64) - 1
_BASE48 = (1 << 48) - 1
_LANE = re.compile(r"\[(\d+)\] ([0-9a-fA-F]+)")
_PAIR = re.compile(r"^([vs])\[(\d+):(\d+)\]$")
_SINGLE = re.compile(r"^([vs])(\d+)$")
_RANGE = re.compile(r"^s\[\d+:\d+\]$")
_NUMBER = re.compile(r"^(0x)?[0-9a-fA-F]+$")
_OFFSET = re.compile(r"\boffset:(-?(?:0x[0-9a-fA-F]+|\d+))")
_SWIZZLED = 1 << 31  # the descriptor's second word, bit 31: swizzle enable


class LaneAddresses(Struct, frozen=True):
    """The address that each active lane accesses."""

    lanes: Mapping[int, int]

    def in_page(self, address: int) -> tuple[int, ...]:
        """Returns the lanes whose address is in the same page as another address."""
        page = address // PAGE
        return tuple(lane for lane, own in self.lanes.items() if own // PAGE == page)


def addresses_of(inst: Instruction, registers: Mapping[str, str]) -> LaneAddresses | None:
    """Computes the addresses of an instruction from its registers; None if they are unknown."""
    name = inst.op.name
    operands = list(operand_texts(inst.operands))
    match = _OFFSET.search(inst.operands)
    immediate = int(match[1], 0) if match else 0
    dumped = _Registers(registers)
    if name.startswith(("global_", "flat_")):
        lanes = _global(inst, operands, dumped)
    elif name.startswith("buffer_"):
        lanes = _buffer(operands, dumped)
    else:
        return None
    if not lanes:
        return None
    active = dumped.named("exec")
    return LaneAddresses(
        {
            lane: (address + immediate) & _MASK64
            for lane, address in lanes.items()
            if active is None or active >> lane & 1
        }
    )


class _Registers:
    """The registers in an agent's report: their names and hexadecimal texts.

    What the report does not hold is None for a scalar register, and {} for a vector register.
    """

    def __init__(self, dumped: Mapping[str, str]) -> None:
        self._dumped = dumped

    def scalar(self, number: int) -> int | None:
        text = self._dumped.get(f"s{number}")
        return int(text, 16) if text else None

    def named(self, name: str) -> int | None:
        text = self._dumped.get(name)
        return int(text, 16) if text else None

    def vector(self, number: int) -> dict[int, int]:
        text = self._dumped.get(f"v{number}", "")
        return {int(lane): int(value, 16) for lane, value in _LANE.findall(text)}

    def pair(self, kind: str, first: int) -> dict[int, int] | int | None:
        """Returns the 64-bit value of two registers, `s` or `v`; of `v` for each lane."""
        if kind == "s":
            low, high = self.scalar(first), self.scalar(first + 1)
            return None if low is None or high is None else high << 32 | low
        lows, highs = self.vector(first), self.vector(first + 1)
        return {lane: highs[lane] << 32 | low for lane, low in lows.items() if lane in highs}


def _global(inst: Instruction, operands: list[str], dumped: _Registers) -> dict[int, int]:
    """Returns lane -> address of a global or flat access, without its immediate offset."""
    address_index = _address_operand(inst, len(operands))
    if address_index >= len(operands):
        return {}
    base = _PAIR.match(operands[-1].split(" ")[0])
    if base and base[1] == "s":
        scalar, offset = dumped.pair("s", int(base[2])), _SINGLE.match(operands[address_index])
        if not isinstance(scalar, int) or offset is None or offset[1] != "v":
            return {}
        return {lane: scalar + off for lane, off in dumped.vector(int(offset[2])).items()}
    pair = _PAIR.match(operands[address_index].split(" ")[0])
    addresses = dumped.pair("v", int(pair[2])) if pair and pair[1] == "v" else None
    return addresses if isinstance(addresses, dict) else {}


def _address_operand(inst: Instruction, count: int) -> int:
    """Returns the index of the address among `count` operands: 0 in a store, 1 in a load.

    An atomic that returns the old value has a destination before the address, as a load has.
    """
    flat = inst.op.name.startswith("flat_")
    if inst.cls == "atomic":
        return 1 if count > (2 if flat else 3) else 0
    return 1 if inst.cls == "global_load" else 0


def _buffer(operands: list[str], dumped: _Registers) -> dict[int, int]:
    """Returns lane -> address of a buffer access; {} if it swizzles or has indices.

    The operands are data, the lane's offset, the descriptor, and the scalar offset with modifiers.
    """
    text = ",".join(operands)
    if "idxen" in text:
        return {}
    descriptor = next((i for i, operand in enumerate(operands) if _RANGE.match(operand)), None)
    if descriptor is None or descriptor == 0:
        return {}
    first = int(operands[descriptor][2:].split(":")[0])
    low, high = dumped.scalar(first), dumped.scalar(first + 1)
    if low is None or high is None or high & _SWIZZLED:
        return {}
    scalar_offset = _scalar_offset(operands[descriptor + 1 :], dumped)
    if scalar_offset is None:
        return {}
    base = ((high << 32 | low) & _BASE48) + scalar_offset
    if "offen" not in text:
        return {0: base}
    vector = _SINGLE.match(operands[descriptor - 1])
    if vector is None or vector[1] != "v":
        return {}
    return {lane: base + offset for lane, offset in dumped.vector(int(vector[2])).items()}


def _scalar_offset(operands: list[str], dumped: _Registers) -> int | None:
    """Returns the scalar offset behind a descriptor, a register or a number; 0 if there is none."""
    operand = operands[0].split(" ")[0] if operands else "0"
    register = _SINGLE.match(operand)
    if register and register[1] == "s":
        return dumped.scalar(int(register[2]))
    return int(operand, 0) if _NUMBER.match(operand) else None
