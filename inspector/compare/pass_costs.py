"""The time of each pass of a compile, with the size of its input."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ..compile.llvm_passes import MachinePass, PassTime
from ..compile.passes import PassDump

MOST_KINDS = 3
_OP = re.compile(r"^\s*(?:%[^=]*= )?\"?(?P<name>[a-z]\w*(?:\.\w+)+)", re.MULTILINE)


class PassCost(Struct, frozen=True):
    """The time of a pass and the input of its runs.

    Args:
        runs: how often it runs; None where the dump does not have it.
        operations: MLIR operations, or instructions of the machine code, in front of all its runs;
            None where the dump does not have it.
        kinds: the operations of which most stand in front of its largest run: name -> number. Empty
            for LLVM's passes.
    """

    level: str
    name: str
    seconds: float
    share: float
    runs: int | None = None
    operations: int | None = None
    kinds: Mapping[str, int] = {}

    @property
    def microseconds_each(self) -> float | None:
        """Time for each operation of the input; None where that is not known."""
        return 1e6 * self.seconds / self.operations if self.operations else None


def pass_costs(
    times: Sequence[PassTime], dump: PassDump, machine_code: Sequence[MachinePass]
) -> tuple[PassCost, ...]:
    """The cost of each pass, the longest first.

    Args:
        times: of all passes, of a compile that prints no code.
    """
    inputs: dict[str, list[Counter[str]]] = {}
    for item in dump.passes:
        inputs.setdefault(item.name, []).append(Counter(_OP.findall(dump.text(item.index))))
    instructions: dict[str, list[int]] = {}
    before: dict[str, int] = {}
    for made in machine_code:
        if made.function in before:
            instructions.setdefault(made.name, []).append(before[made.function])
        before[made.function] = made.instructions
    return tuple(
        _mlir_cost(time, inputs.get(time.name, ()))
        if time.level == "mlir"
        else _cost(time, instructions.get(time.name, ()))
        for time in times
    )


def _mlir_cost(time: PassTime, inputs: Sequence[Counter[str]]) -> PassCost:
    largest = max(inputs, key=Counter.total, default=Counter[str]())
    cost = _cost(time, [counted.total() for counted in inputs])
    return replace(cost, kinds=dict(largest.most_common(MOST_KINDS)))


def _cost(time: PassTime, sizes: Sequence[int]) -> PassCost:
    return PassCost(
        time.level,
        time.name,
        time.seconds,
        time.share,
        runs=len(sizes) or None,
        operations=sum(sizes) if sizes else None,
    )
