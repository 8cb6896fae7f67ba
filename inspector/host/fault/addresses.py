"""The addresses that a wave's lanes asked for, from the registers that its report dumps.

The pc stands after the operation, so its registers may have been written since: an address in the
page that could not be reached is strong evidence, any other address proves nothing.

Global and flat: 64-bit address in a pair of vector registers, or a 32-bit offset added to a pair of
scalar registers, plus the signed immediate. Buffer: 48-bit base in the descriptor's first two
words, plus scalar offset, immediate and, with `offen`, the lane's offset; swizzled buffers and
`idxen` are left alone. (The CDNA3 and RDNA4 ISA documents' chapters on memory instructions.)
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from ...isa.dataflow.operands import operand_texts
from ...model import Instruction

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
