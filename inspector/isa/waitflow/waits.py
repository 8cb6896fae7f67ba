"""The counters that a wait instruction waits for.

`s_waitcnt vmcnt(3) lgkmcnt(0)` -> `{vmcnt: 3, lgkmcnt: 0}`. A counter is listed only where the
instruction constrains it. A bare number (`s_waitcnt 0xc07f`, as disassemblers and hand-written code
have it) is decoded with the bit fields of the target's generation, from the machine file.

Sources: LLVM's AMDGPUBaseInfo.cpp (field positions) and the ISA documents' S_WAITCNT pages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

BitFields = tuple[tuple[int, int], ...]
"""The bits of a counter in an immediate: (low bit, width), least significant part first."""

_SYMBOLIC = re.compile(r"(\w+cnt)(?:_sat)?\s*\(\s*(0[xX][0-9a-fA-F]+|\d{1,18})\s*\)")

# One counter per instruction: the immediate is the count itself.
_SINGLE = {
    "s_waitcnt_vscnt": "vscnt",
    "s_waitcnt_vmcnt": "vmcnt",
    "s_waitcnt_expcnt": "expcnt",
    "s_waitcnt_lgkmcnt": "lgkmcnt",
    "s_wait_loadcnt": "loadcnt",
    "s_wait_storecnt": "storecnt",
    "s_wait_samplecnt": "samplecnt",
    "s_wait_bvhcnt": "bvhcnt",
    "s_wait_expcnt": "expcnt",
    "s_wait_dscnt": "dscnt",
    "s_wait_kmcnt": "kmcnt",
    "s_wait_asynccnt": "asynccnt",
    "s_wait_tensorcnt": "tensorcnt",
    "s_wait_xcnt": "xcnt",
}

# gfx12's combined forms: dscnt in bits 5:0, the other counter in bits 13:8.
_PAIRED = {
    "s_wait_loadcnt_dscnt": "loadcnt",
    "s_wait_storecnt_dscnt": "storecnt",
}
# "Wait for all activity in the wave to be complete (all dependency and memory counters at zero)":
# the RDNA ISA documents' S_WAIT_IDLE.
_ALL = "s_wait_idle"
_PAIR_MASK = 0x3F

# gfx12 still accepts gfx11's instruction, with its bit fields: clang 22 assembles `s_waitcnt
# vmcnt(0)` to 0xbf8903f7 for gfx1201. There several counters replace each of gfx11's.
_RENAMED = {
    "vmcnt": ("loadcnt", "samplecnt", "bvhcnt"),
    "lgkmcnt": ("dscnt", "kmcnt"),
}
_GFX11_FIELDS: Mapping[str, BitFields] = {
    "vmcnt": ((10, 6),),
    "lgkmcnt": ((4, 6),),
    "expcnt": ((0, 3),),
}

COUNTERS = tuple(dict.fromkeys((*_SINGLE.values(), *_PAIRED.values())))
"""Every wait counter of every generation."""


def decode_wait(
    name: str,
    operands: str,
    fields: Mapping[str, BitFields] | None = None,
    maxima: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """GenerationCounters that a wait constrains, each with the count it waits down to.

    `name`: the mnemonic without encoding suffix; `fields`: for bare numbers of `s_waitcnt`: counter
    -> its bits. None where the target is unknown; `maxima`: the target's counters -> largest value;
    a field at its maximum waits for nothing.

    Returns:
        An empty mapping for waits that name no memory counter (`s_waitcnt_depctr`, `s_wait_alu`),
        and on an unknown target for bare numbers and `s_wait_idle`, which drains every counter.
    """
    if name == "s_waitcnt":
        return _decode_waitcnt(operands, fields or {}, maxima)
    if name == _ALL:
        return dict.fromkeys(maxima or (), 0)
    value = _number(operands.rpartition(",")[2])
    if value is None:
        return {}
    if name in _SINGLE:
        return {_SINGLE[name]: value}
    if name in _PAIRED:
        return {_PAIRED[name]: value >> 8 & _PAIR_MASK, "dscnt": value & _PAIR_MASK}
    return {}


def _decode_waitcnt(
    operands: str, fields: Mapping[str, BitFields], maxima: Mapping[str, int] | None
) -> dict[str, int]:
    """The counters that an `s_waitcnt` constrains; arguments as for `decode_wait`."""
    is_renamed = maxima is not None and "loadcnt" in maxima
    symbolic = _SYMBOLIC.findall(operands)
    if symbolic:
        read = {counter: _number(text) for counter, text in symbolic}
        counts = {counter: n for counter, n in read.items() if n is not None}
        if is_renamed:
            counts = _renamed(counts)
        # `vmcnt(63) expcnt(7) lgkmcnt(15)`: a counter at its maximum never delays the wave.
        return {c: n for c, n in counts.items() if maxima is None or n < maxima.get(c, n + 1)}
    value = _number(operands)
    if value is None:
        return {}
    if is_renamed and not fields:
        return _renamed(_unpack(value, _GFX11_FIELDS, {}))
    return _unpack(value, fields, maxima or {})


def _renamed(counts: Mapping[str, int]) -> dict[str, int]:
    """Counts by gfx11's counters as counts by gfx12's."""
    return {new: n for old, n in counts.items() for new in _RENAMED.get(old, (old,))}


def _unpack(
    value: int, fields: Mapping[str, BitFields], maxima: Mapping[str, int]
) -> dict[str, int]:
    """The counts in the bit fields of a bare number, without those at their maximum."""
    counts: dict[str, int] = {}
    for counter, bit_fields in fields.items():
        n = shift = 0
        for low, width in bit_fields:
            n |= (value >> low & (1 << width) - 1) << shift
            shift += width
        if n < maxima.get(counter, (1 << shift) - 1):
            counts[counter] = n
    return counts


def _number(text: str) -> int | None:
    try:
        return int(text.strip(), 0)
    except ValueError:
        return None
