"""Scalar operations that write EXEC from a mask: `s_*_saveexec`, `s_*_wrexec`.

Source: CDNA3 ISA, 12.1 to 12.5; RDNA3 ISA, 16.1 to 16.5.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..operands import EXEC, Decoded
from ..registry import BuildContext, Builder, Step, builds
from ..waves import Array, Waves
from .scalar_operands import (
    scalar_destination,
    scalar_source,
)

U64 = np.uint64
I64 = np.int64


def _save_exec(compute: Callable[[Array, Array], Array], kind: str) -> Builder:
    """D = EXEC; EXEC = compute(S0, EXEC); SCC = EXEC != 0."""

    def build(decoded: Decoded, context: BuildContext) -> Step:
        read = scalar_source(decoded.operands[1], kind)
        write = scalar_destination(decoded.operands[0], kind)

        def step(waves: Waves) -> None:
            before = waves.pair(EXEC) if kind == "u64" else waves.scalar[EXEC].copy()
            after = np.broadcast_to(compute(read(waves), before), before.shape)
            write(waves, before)
            if kind == "u64":
                waves.set_pair(EXEC, after)
            else:
                waves.scalar[EXEC] = after
            waves.scc = after != 0
            waves.exec_changed()

        return step

    return build


_SAVE_EXEC: dict[str, Callable[[Array, Array], Array]] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "andn2 and_not1": lambda s, e: s & ~e,
    "andn1 and_not0": lambda s, e: ~s & e,
    "orn2 or_not1": lambda s, e: s | ~e,
    "orn1 or_not0": lambda s, e: ~s | e,
    "nand": lambda s, e: ~(s & e),
    "nor": lambda s, e: ~(s | e),
    "xnor": lambda s, e: ~(s ^ e),
}
for _names, _compute in _SAVE_EXEC.items():
    for _bits in ("32", "64"):
        _words = [f"s_{name}_saveexec_b{_bits}" for name in _names.split()]
        builds(*_words)(_save_exec(_compute, "u" + _bits))


def _write_exec(compute: Callable[[Array, Array], Array], kind: str) -> Builder:
    """EXEC = compute(S0, EXEC); D = EXEC; SCC = EXEC != 0."""

    def build(decoded: Decoded, context: BuildContext) -> Step:
        read = scalar_source(decoded.operands[1], kind)
        write = scalar_destination(decoded.operands[0], kind)

        def step(waves: Waves) -> None:
            before = waves.pair(EXEC) if kind == "u64" else waves.scalar[EXEC]
            after = np.broadcast_to(compute(read(waves), before), before.shape).copy()
            if kind == "u64":
                waves.set_pair(EXEC, after)
            else:
                waves.scalar[EXEC] = after
            waves.exec_changed()
            write(waves, after)
            waves.scc = after != 0

        return step

    return build


for _bits in ("32", "64"):
    builds(f"s_andn1_wrexec_b{_bits}", f"s_and_not0_wrexec_b{_bits}")(
        _write_exec(lambda s, e: ~s & e, "u" + _bits)
    )
    builds(f"s_andn2_wrexec_b{_bits}", f"s_and_not1_wrexec_b{_bits}")(
        _write_exec(lambda s, e: s & ~e, "u" + _bits)
    )
