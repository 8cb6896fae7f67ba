"""Calls of Triton's random numbers, and which of them throw away three of the words that they make.

Philox makes four words of 32 or 64 bits in ten rounds (triton.language.random, `philox_impl`). A
round has four products, each of a line of its own: the high halves for words 0 and 2, the low ones
for words 1 and 3. `tl.rand` and `tl.randint` return word 0, and the compiler drops what only the
others need: the low half for word 1 of the last round, and none of a high half's line more often.
`tl.randn` uses words 0 and 1, `tl.rand4x` and `tl.randint4x` all of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Final

from ..model import SourceLoc, TtgirModule
from .loop_shape import position_of
from .subject import Place

_MODULE: Final = "triton/language/random.py"
_FILE: Final = "random.py"
_HIGH, _LOW = "tt.mulhiui", "arith.muli"


def random_calls(ttgir: TtgirModule) -> Mapping[Place, bool]:
    """Position of each call -> whether it uses one word of the four."""
    lines: dict[Place, dict[str, Counter[int]]] = defaultdict(lambda: defaultdict(Counter))
    for op in ttgir.ops:
        if op.name not in (_HIGH, _LOW) or op.loc is None or not op.loc.file.endswith(_MODULE):
            continue
        call = random_call(op.loc)
        if call is not None:
            lines[call][op.name][op.loc.line] += 1
    return {
        call: max(counts[_LOW].values(), default=0) < max(counts[_HIGH].values())
        for call, counts in lines.items()
        if counts[_HIGH]
    }


def random_call(loc: SourceLoc | None) -> Place | None:
    """The position that calls Triton's random numbers, of code there; None of other code."""
    if loc is None or loc.file.rpartition("/")[2] != _FILE:
        return None
    position = position_of(loc)
    return tuple(frame for frame in position if frame[0] != _FILE) or None
