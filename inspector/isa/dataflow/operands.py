"""Operand texts of AMDGCN as registers, constants and modifiers.

Sets of registers as the bits of one integer: vector rows, then scalar rows, then high halves.

Sets that tell halves apart hold the low halves of vector registers where other sets hold whole
registers.
"""

from __future__ import annotations

import functools
import re
import struct
from typing import Final, Literal

from msgspec import Struct, field

DPP_CONTROLS: Final = frozenset(
    {"quad_perm", "row_shl", "row_shr", "row_ror", "row_bcast", "row_newbcast", "row_mirror",
     "row_half_mirror", "row_share", "row_xmask", "wave_shl", "wave_rol", "wave_shr", "wave_ror",
     "dpp8"}
)  # fmt: skip
"""Modifiers that choose the lane whose value a lane reads."""


Kind = Literal["vgpr", "sgpr", "constant", "none"]

VCC: Final = 106
TTMP: Final = 108
M0: Final = 124
EXEC: Final = 126
NULL: Final = 128
"""Rows of the scalar file that a write to `null` may use; a read of `null` is the constant 0."""
SCALAR_ROWS: Final = 144

_NAMED: Final = {
    "flat_scratch": (102, 2),
    "flat_scratch_lo": (102, 1),
    "flat_scratch_hi": (103, 1),
    "xnack_mask": (104, 2),
    "vcc": (VCC, 2),
    "vcc_lo": (VCC, 1),
    "vcc_hi": (VCC + 1, 1),
    "m0": (M0, 1),
    "exec": (EXEC, 2),
    "exec_lo": (EXEC, 1),
    "exec_hi": (EXEC + 1, 1),
    "null": (NULL, 2),
}
_LETTERS: Final = {
    "acc": "a", "ttmp": "s", "m0": "m", "exec": "e", "exec_lo": "e", "exec_hi": "e", "null": "n",
}  # fmt: skip
_REGISTER: Final = re.compile(
    r"(v|s|a|acc|ttmp)(?:(\d{1,9})|\[(\d{1,9})(?::(\d{1,9}))?\])(?:\.([lh]))?"
)
_MOST_AT_A_TIME: Final = 64
_MOST_REGISTERS: Final = {"v": 1024, "a": 256, "acc": 256, "s": VCC, "ttmp": 16}
"""Those that any target has; the scalar file goes on with others behind the last of a bank."""
_INTEGER: Final = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|\d+)")
_OCTAL: Final = re.compile(r"-?0\d")
_FLOAT: Final = re.compile(r"-?(?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?|-?\d+[eE][-+]?\d+")
_MODIFIER: Final = re.compile(r"[a-z]\w*(?::.+)?")
_FULL_NUMBER: Final = re.compile(r"v(?:\d+|\[\d+:\d+\]) /\*(v(?:\d+|\[\d+:\d+\]))\*/")
_LIST: Final = re.compile(r"\[[^\]]*[, ]")
"""A bracket that holds more than a range of registers."""
_SIGN_EXTENDED: Final = re.compile(r"sext\((.*)\)")
_LONG_LITERAL: Final = re.compile(r"lit(?:64)?\((.*)\)")
_SPECIAL_SOURCES: Final = frozenset(
    {
        "src_scc", "src_vccz", "src_execz", "src_shared_base", "src_shared_limit",
        "src_private_base", "src_private_limit", "src_flat_scratch_base_lo",
        "src_flat_scratch_base_hi", "src_pops_exiting_wave_id", "lds_direct",
    }
)  # fmt: skip


class Operand(Struct, frozen=True):
    """One operand.

    `first` is the row in the vector file (AGPRs follow the VGPRs from `accum_offset` on) or the
    scalar file (`operands.VCC` and its like), `count` the registers, `half` 0 or 1 where only bits
    0-15 or 16-31 are meant. A constant keeps `integer` or `real` as written: what bits it has
    depends on the operand's type. `name` is set for a source that is no register (`src_scc`).
    `letter` tells apart what shares a file: v VGPR, a AGPR, s SGPR (ttmp, VCC and the like too),
    m M0, e EXEC, n null; k constant, o `off`, x another name.
    """

    kind: Kind
    text: str
    first: int = 0
    count: int = 1
    half: int | None = None
    negate: bool = False
    absolute: bool = False
    sign_extend: bool = False
    integer: int | None = None
    real: float | None = None
    name: str | None = None
    letter: str = "k"

    @property
    def is_null(self) -> bool:
        return self.kind == "sgpr" and self.first == NULL

    @property
    def rows(self) -> range:
        """The registers' rows; empty for constants."""
        if self.kind in ("vgpr", "sgpr"):
            return range(self.first, self.first + self.count)
        return range(0)


class Decoded(Struct, frozen=True):
    """An instruction's parts: `name` without encoding suffix, `encoding` the suffix (`dpp`)."""

    name: str
    encoding: str
    operands: tuple[Operand, ...]
    modifiers: dict[str, str] = field(default_factory=dict)
    text: str = ""

    def flag(self, modifier: str) -> bool:
        """Whether a modifier without a value stands there (`offen`, `clamp`)."""
        return modifier in self.modifiers

    def number(self, modifier: str, otherwise: int = 0) -> int:
        """A modifier's integer (`offset:16`); `otherwise` where none is stated."""
        text = self.modifiers.get(modifier)
        found = None if text is None else parse_operand(text, 0).integer
        return otherwise if found is None else found

    def offset(self, modifier: str = "offset") -> int:
        """An offset; 0 where none is stated, or nothing that is a number."""
        return parse_operand(self.modifiers.get(modifier, ""), 0).integer or 0

    def numbers(self, modifier: str, otherwise: tuple[int, ...]) -> tuple[int, ...]:
        """A modifier's list (`op_sel:[0,1]`); `otherwise` where no numbers are stated."""
        text = self.modifiers.get(modifier)
        if text is None:
            return otherwise
        items = [parse_operand(item, 0).integer for item in text.strip("[]").split(",")]
        found = tuple(item for item in items if item is not None)
        return found if len(found) == len(items) else otherwise

    def bits(self, modifier: str, count: int, otherwise: int = 0) -> tuple[int, ...]:
        """A modifier's bits for `count` operands (`neg_lo`); `otherwise` where it names fewer."""
        bits = self.numbers(modifier, ())
        return (*bits, *(otherwise,) * (count - len(bits)))


def _split(text: str, separator: str) -> list[str]:
    """Parts between separators that stand outside of brackets and bars."""
    if separator not in text:
        return [text.strip()] if text.strip() else []
    if "(" not in text and ("[" not in text or _LIST.search(text) is None):
        # Brackets of registers alone, which hold no separators.
        return [part for piece in text.split(separator) if (part := piece.strip())]
    parts: list[str] = []
    depth = 0
    start = 0
    for position, character in enumerate(text):
        if character in "[(":
            depth += 1
        elif character in "])":
            depth -= 1
        elif character == separator and not depth:
            parts.append(text[start:position])
            start = position + 1
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


@functools.lru_cache(1 << 14)
def operand_texts(text: str) -> tuple[str, ...]:
    """The operands of an instruction as texts, modifiers with the last; one empty text for none."""
    return tuple(_split(text, ",")) or ("",)


def _no_register(text: str, name: str) -> Operand:
    return Operand("none", text, name=name, letter="o" if name == "off" else "x")


@functools.lru_cache(maxsize=1 << 14)
def parse_operand(text: str, accum_offset: int) -> Operand:
    """One operand; what is neither register nor number has `kind` none and its `name`.

    >>> parse_operand("-|v3|", 0).absolute
    True
    """
    body = text
    negate = absolute = extend = False
    if match := _SIGN_EXTENDED.fullmatch(body):
        extend, body = True, match[1]
    if body.startswith("-") and not (_INTEGER.fullmatch(body) or _FLOAT.fullmatch(body)):
        negate, body = True, body[1:]
    if body.startswith("|") and body.endswith("|") and len(body) > 2:
        absolute, body = True, body[1:-1]
    if match := _LONG_LITERAL.fullmatch(body):
        body = match[1]
    if match := _REGISTER.fullmatch(body):
        bank, single, low, high, half = match.groups()
        first = int(single or low)
        count = int(high) - first + 1 if high else 1
        exists = 0 < count <= _MOST_AT_A_TIME and first + count <= _MOST_REGISTERS[bank]
        kind: Kind = "vgpr"
        if bank == "s":
            kind = "sgpr"
        elif bank == "ttmp":
            kind, first = "sgpr", first + TTMP
        elif bank != "v":
            first += accum_offset
        if exists:
            is_high = {"l": 0, "h": 1}.get(half or "")
            letter = _LETTERS.get(bank, bank)
            return Operand(
                kind, text, first, count, is_high, negate, absolute, extend, letter=letter
            )
        return _no_register(text, body)
    if body in _NAMED:
        first, count = _NAMED[body]
        letter = _LETTERS.get(body, "s")
        return Operand("sgpr", text, first, count, None, negate, absolute, extend, letter=letter)
    if _INTEGER.fullmatch(body):
        is_octal = _OCTAL.match(body) is not None
        try:
            number = int(body, 8 if is_octal else 0)
        except ValueError:  # 08, or thousands of digits
            return _no_register(text, body)
        return Operand("constant", text, negate=negate, absolute=absolute, integer=number)
    if _FLOAT.fullmatch(body):
        return Operand("constant", text, negate=negate, absolute=absolute, real=float(body))
    return _no_register(text, body)


@functools.lru_cache(maxsize=1 << 14)
def _is_modifier(token: str) -> bool:
    return (
        _MODIFIER.fullmatch(token) is not None
        and _REGISTER.fullmatch(token) is None
        and token not in _NAMED
        and token not in _SPECIAL_SOURCES
        and token != "off"  # an operand: the address without a scalar base
    )


@functools.lru_cache(maxsize=1 << 10)
def _without_suffix(mnemonic: str, suffixes: tuple[str, ...]) -> tuple[str, str]:
    """A mnemonic without its encoding suffix, and that."""
    for suffix in suffixes:
        if mnemonic.endswith(suffix):
            return mnemonic[: -len(suffix)], suffix.lstrip("_")
    return mnemonic, ""


@functools.lru_cache(maxsize=1 << 14)
def _operands_in(
    part: str, accum_offset: int, before: int
) -> tuple[tuple[Operand, ...], tuple[tuple[str, str], ...]]:
    """The operands and modifiers between two commas."""
    operands: list[Operand] = []
    modifiers: list[tuple[str, str]] = []
    for position, token in enumerate(_split(part, " ")):
        if (position or not before or ":" in token) and _is_modifier(token):
            key, _, value = token.partition(":")
            modifiers.append((key, value))
        else:
            operands.append(parse_operand(token, accum_offset))
    return tuple(operands), tuple(modifiers)


@functools.lru_cache(maxsize=1 << 14)
def decode(mnemonic: str, text: str, suffixes: tuple[str, ...], accum_offset: int) -> Decoded:
    """Takes one instruction apart.

    Args:
        mnemonic: with its encoding suffix.
        text: its operands.
        suffixes: the encoding suffixes, longest first.
        accum_offset: row of the first AGPR.
    """
    name, encoding = _without_suffix(mnemonic, suffixes)
    if "/*" in text:
        # gfx1250 prints the low bits of a register's number and the whole number behind it.
        text = _FULL_NUMBER.sub(r"\1", text)
    operands: list[Operand] = []
    modifiers: dict[str, str] = {}
    for part in _split(text, ","):
        more, named = _operands_in(part, accum_offset, 1 if operands else 0)
        operands += more
        if named:
            modifiers.update(named)
    return Decoded(name, encoding, tuple(operands), modifiers, f"{mnemonic} {text}")


SUFFIXES: Final = ("_e64_dpp", "_e32", "_e64", "_dpp", "_sdwa")
"""Encoding suffixes of mnemonics."""


def halves_of(parts: Decoded, accum_offset: int) -> tuple[Decoded, Decoded]:
    """The two operations of a VOPD instruction (`v_dual_mov_b32 … :: v_dual_add_f32 …`)."""
    first, second = (
        decode(mnemonic.replace("v_dual_", "v_"), operands, SUFFIXES, accum_offset)
        for mnemonic, _, operands in (
            text.partition(" ") for text in parts.text.split(" :: ", maxsplit=1)
        )
    )
    return first, second


def constant_bits(operand: Operand, kind: str) -> int:
    """The bits that a constant has as an operand of a type.

    Integers stand for their bits, in 64-bit floats for the upper half (a 32-bit literal fills the
    high word); inline floats take the operand's own format (CDNA4 ISA, 6.2.1).
    """
    bits = _WIDTHS[kind]
    if operand.real is not None:
        if kind == "f64":
            return int(struct.unpack("<Q", struct.pack("<d", operand.real))[0])
        if kind in ("f16", "u16", "i16"):
            return int(struct.unpack("<H", struct.pack("<e", operand.real))[0])
        single = int(struct.unpack("<I", struct.pack("<f", operand.real))[0])
        return single >> 16 if kind == "bf16" else single
    value = operand.integer or 0
    if kind == "f64" and not -16 <= value <= 64:
        return value if value >> 32 else (value & 0xFFFFFFFF) << 32
    return value & ((1 << bits) - 1)


_WIDTHS: Final = {
    "u8": 8, "i8": 8, "u16": 16, "i16": 16, "f16": 16, "bf16": 16,
    "u32": 32, "i32": 32, "f32": 32, "u64": 64, "i64": 64, "f64": 64,
}  # fmt: skip


def opsel(decoded: Decoded) -> tuple[int, int, int, int]:
    """The field OPSEL: LLVM prints bits 0, 1 and 3 of instructions of two sources."""
    bits = decoded.numbers("op_sel", ())
    if len(bits) == 3:
        return bits[0], bits[1], 0, bits[2]
    first, second, third, fourth, *_ = (*bits, 0, 0, 0, 0)
    return first, second, third, fourth


SCALAR_BIT: Final = 1024
"""Bit of scalar row 0 in a set of registers; vector rows come before."""
VECTOR_REGISTERS: Final = (1 << SCALAR_BIT) - 1
"""The set of all vector registers."""
HIGH_HALVES: Final = 2048
"""Bit of the high half of vector row 0 in a set of halves; scalar rows come before."""


def vector_bits(first: int, count: int) -> int:
    """The set of `count` vector registers from row `first` on."""
    return ((1 << count) - 1) << first


def half_bits(first: int, count: int, half: int | None = None) -> int:
    """The halves of `count` vector registers from row `first` on.

    A 16-bit load into one half leaves the other at once usable, where the GPU keeps that one (LLVM,
    SIInsertWaitcnts.cpp: registers are tracked by halves unless D16 loads write 32 bits).

    Args:
        first: row of the first register.
        count: how many.
        half: 0 or 1 for the low or the high half alone.
    """
    rows = vector_bits(first, count)
    return (0 if half == 1 else rows) | (0 if half == 0 else rows << HIGH_HALVES)


def scalar_bits(first: int, count: int) -> int:
    """The set of `count` scalar registers from row `first` on."""
    return ((1 << count) - 1) << (first + SCALAR_BIT)


@functools.lru_cache(maxsize=1 << 13)
def rows_of(registers: int) -> tuple[int, ...]:
    """The rows in a bit set of registers, ascending; code comes back to the same few sets."""
    rows = []
    while registers:
        rows.append((registers & -registers).bit_length() - 1)
        registers &= registers - 1
    return tuple(rows)


def name_of(row: int, accum_offset: int) -> str:
    """`v12`, `a3`, `s40`, `vcc_lo`, `m0`."""
    if row < SCALAR_BIT:
        return f"a{row - accum_offset}" if row >= accum_offset else f"v{row}"
    scalar = row - SCALAR_BIT
    return {VCC: "vcc_lo", VCC + 1: "vcc_hi", M0: "m0"}.get(scalar, f"s{scalar}")
