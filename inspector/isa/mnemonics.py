"""The mnemonic table: what an AMDGCN instruction does, by its name, and where control goes next.

All knowledge stands in `mnemonics.yaml` as ordered patterns; this file reads and queries it. Names
that no pattern matches get the class `unknown`: a new LLVM must not stop an analysis.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from ..base.documents import own_yaml
from ..model import OpInfo

# LLVM spells "this atomic returns the old value" as glc (to gfx90a, gfx10-11), sc0 (gfx94x/950) or
# a temporal hint ending in _RETURN (gfx12+): AMDGPUAsmParser / AMDGPUInstPrinter of LLVM 22.
_RETURNS = re.compile(r"(?<![\w:])(?:glc|sc0)(?![\w:])|\bth:\w+_RETURN\b")
BYTE_OFFSET = re.compile(r"\boffset:(-?(?:0x[0-9A-Fa-f]{1,8}|0|[1-9]\d{0,8}))(?!\w)")
"""The constant that is added to an access's address, in bytes; numbers beyond any are no match."""
_LITERAL = re.compile(r"\w*", re.ASCII)
_FIRST_REGISTER = re.compile(r"\s*[va](?:\[(\d+):(\d+)\]|\d+)")


class _MnemonicPattern(Struct, frozen=True):
    match: str
    cls: str
    bits: int | None
    by_width: bool
    times: int
    traits: frozenset[str]


class _Refinement(Struct, frozen=True):
    cls: str
    trait: str | None
    operands: re.Pattern[str] | None
    comment: re.Pattern[str] | None


class _Family(Struct, frozen=True):
    patterns: tuple[_MnemonicPattern, ...]
    traits: tuple[tuple[str, tuple[str, ...]], ...]


class _MnemonicTable(Struct, frozen=True):
    suffixes: tuple[str, ...]
    classes: Mapping[str, str]
    widths: Mapping[str, int]
    families: Mapping[str, Mapping[str, Any]]
    refinements: Mapping[str, tuple[_Refinement, ...]]


@functools.cache
def _regex(text: str) -> re.Pattern[str]:
    # Compiled on first use: a small kernel needs few of the table's patterns. `{w}` matches any
    # word that looks like a width; `lookup` refuses those that are none. (An alternation of all
    # widths would cost more to compile than everything else here.)
    for group in ("w", "w2"):
        text = text.replace("{w}", f"(?P<{group}>[a-z]+[0-9]*(?:x[0-9]+)?)", 1)
    return re.compile(text, re.ASCII)


@functools.cache
def _beginning(text: str) -> str:
    """What every name that a pattern matches begins with: a name without it needs no compiling."""
    literal = _LITERAL.match(text)
    depth = 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "|" and depth == 0:
            return ""
    assert literal is not None
    behind = text[literal.end() : literal.end() + 1]
    return literal[0][:-1] if behind in ("?", "*", "{") else literal[0]


def _matched(text: str, name: str) -> re.Match[str] | None:
    """The match of a whole mnemonic, if there is one."""
    return _regex(text).fullmatch(name) if name.startswith(_beginning(text)) else None


def _optional(text: str | None) -> re.Pattern[str] | None:
    return None if text is None else re.compile(text)


def _load() -> _MnemonicTable:
    """Reads the table; the patterns of a family stay raw until `_family` needs them."""
    raw: dict[str, Any] = own_yaml(Path(__file__).with_name("mnemonics.yaml"))
    refinements: dict[str, tuple[_Refinement, ...]] = {}
    for r in raw["refine"]:
        refinement = _Refinement(
            r["class"], r.get("trait"), _optional(r.get("operands")), _optional(r.get("comment"))
        )
        for cls in r["when"]:
            refinements[cls] = (*refinements.get(cls, ()), refinement)
    return _MnemonicTable(
        suffixes=tuple(sorted(raw["suffixes"], key=len, reverse=True)),
        classes=MappingProxyType({c["name"]: c["about"] for c in raw["classes"]}),
        widths=MappingProxyType(raw["widths"]),
        families=MappingProxyType({word: f for f in raw["families"] for word in f["words"]}),
        refinements=MappingProxyType(refinements),
    )


_TABLE = _load()

CLASSES: Mapping[str, str] = _TABLE.classes
"""Every class in the order of the table, with what it means in one line."""


def _strip(mnemonic: str) -> str:
    # Only VALU mnemonics carry an encoding suffix; elsewhere such an ending is part of the name.
    if mnemonic.startswith("v_"):
        for suffix in _TABLE.suffixes:
            if mnemonic.endswith(suffix):
                return mnemonic[: -len(suffix)]
    return mnemonic


@functools.cache
def _family(word: str) -> _Family | None:
    """The patterns of the mnemonics that begin with `word` (`v`, `s`, `global`, ...)."""
    raw = _TABLE.families.get(word)
    if raw is None:
        return None
    patterns = tuple(
        _MnemonicPattern(
            match=p["match"],
            cls=p["class"],
            bits=None if p.get("bits") == "width" else p.get("bits"),
            by_width=p.get("bits") == "width",
            times=p.get("times", 1),
            traits=frozenset(p.get("traits", ())),
        )
        for p in raw["patterns"]
    )
    return _Family(patterns, tuple((t["match"], tuple(t["add"])) for t in raw.get("traits", ())))


@functools.cache
def lookup(mnemonic: str) -> OpInfo:
    """Looks a mnemonic up in the table, without its encoding suffix (`_e32`, `_dpp`, ...).

    `mnemonic`: as it stands in the assembly text, e.g. `v_add_f32_e32`.

    Returns:
        Its entry. A name that no pattern matches has the class `unknown`; nothing is raised.
    """
    name = _strip(mnemonic)
    family = _family(name.split("_", 1)[0])
    for pattern in family.patterns if family else ():
        match = _matched(pattern.match, name)
        if match is None:
            continue
        bits = pattern.bits
        if pattern.by_width:
            word = next(filter(None, match.groupdict().values()))
            if word not in _TABLE.widths:
                continue
            bits = _TABLE.widths[word] * pattern.times
        assert family is not None
        added = (t for text, traits in family.traits if _matched(text, name) for t in traits)
        return OpInfo(name, pattern.cls, bits, pattern.traits.union(added))
    return OpInfo(name, "unknown")


REFINED = frozenset(_TABLE.refinements)
"""Classes that `classify` may change."""


def classify(op: OpInfo, operands: str, comment: str) -> str:
    """The class of one instruction: `op.cls` unless operands or comment say more.

    Args:
        op: the mnemonic's entry.
        operands: the operand text, modifiers included (`off, s[4:7], 0 offen lds`).
        comment: the text after `;`, or empty.
    """
    refinements = _TABLE.refinements.get(op.cls)
    if refinements is None:
        return op.cls
    for r in refinements:
        if (
            (r.trait is None or r.trait in op.traits)
            and (r.operands is None or r.operands.search(operands))
            and (r.comment is None or r.comment.search(comment))
        ):
            return r.cls
    return op.cls


def returns_value(op: OpInfo, operands: str) -> bool:
    """Whether an atomic gives back the old value (it then counts as a load for the waits)."""
    return "returns" in op.traits or (op.cls == "atomic" and _RETURNS.search(operands) is not None)


def access_bits(op: OpInfo, operands: str) -> int | None:
    """Bits that one access moves: per lane, or per wave for scalar loads and stores.

    `op.bits` except where one name has two widths: gfx1200's transposing global loads move half of
    the name's width per lane in wave64, which the destination registers show.
    """
    if "wave32_width" not in op.traits:
        return op.bits
    match = _FIRST_REGISTER.match(operands)
    if match is None:
        return op.bits
    first_register, last_register = match.groups()
    return 32 if first_register is None else 32 * (int(last_register) - int(first_register) + 1)


FLOW_CLASSES = frozenset({"branch", "control"})
"""The only classes whose instructions may continue elsewhere than at the next one."""

# AMDHSA trap handler ABI (LLVM's AMDGPUUsage, "Trap Handler ABI"): id 2 is llvm.trap and ends the
# wave, id 3 is llvm.debugtrap and goes on.
_FATAL_TRAP = "2"


class Flow(Enum):
    """The ways control can go after an instruction."""

    NEXT = "next"
    JUMP = "jump"
    CONDITIONAL = "conditional"
    CALL = "call"  # returns to the next instruction
    INDIRECT = "indirect"  # to an address in a register: return, tail call, long branch
    END = "end"

    @property
    def falls_through(self) -> bool:
        """Whether the next instruction may follow."""
        return self in _FALLS_THROUGH


_FALLS_THROUGH = frozenset({Flow.NEXT, Flow.CONDITIONAL, Flow.CALL})

# In this order: `indirect` ones are unconditional as well.
_BY_TRAIT = (
    ("end", Flow.END),
    ("call", Flow.CALL),
    ("indirect", Flow.INDIRECT),
    ("conditional", Flow.CONDITIONAL),
    ("unconditional", Flow.JUMP),
)


def flow_of(op: OpInfo, operands: str) -> Flow:
    """The way control goes after an instruction.

    Args:
        op: its entry in the mnemonic table.
        operands: its operand text, looked at for traps alone.
    """
    if op.cls not in FLOW_CLASSES:
        return Flow.NEXT
    for trait, flow in _BY_TRAIT:
        if trait in op.traits:
            return flow
    if op.name == "s_trap" and operands.strip() == _FATAL_TRAP:
        return Flow.END
    return Flow.NEXT
