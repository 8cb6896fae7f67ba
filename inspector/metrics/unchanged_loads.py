"""Loads of a loop that bring the same address in every iteration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..isa.dataflow.value_graph import graph_of, rows_of
from ..model import Instruction, Loop, Scalar
from .entries import Unknown, of_loops
from .load_paths import code_of
from .subject import LineName, Subject
from .written_tensors import WRITES, is_coherent, unwritten

UNCHANGED_SPECS: Final = of_loops(
    {
        "loads.unchanged": "Vector loads of global memory in the loop's own code whose address no "
        "instruction of the loop changes, from tensors that the loop does not store to (nor the "
        "kernel, where the loop has barriers or atomics): how many `loads`, the first `at` which "
        "line; volatile loads are left out; None where a store's address is not known",
    }
)

_EXCHANGES: Final = frozenset(("atomic", "barrier"))


def unchanged(
    subject: Subject, loop: Loop, own: Sequence[Instruction]
) -> dict[str, Scalar] | Unknown:
    """The value of the metric of `UNCHANGED_SPECS`."""
    loads = {inst.index for inst in own if inst.cls == "global_load" and not is_coherent(inst)}
    function = subject.function
    code = code_of(function, *loop.blocks) if loads else ()
    done = list(graph_of(function).operations([inst.index for inst in code]))
    changed = rows_of(result for operation in done for result in operation.results)
    same = [
        operation.inst
        for operation in done
        if operation.inst.index in loads
        and (rows := rows_of(operation.sources))
        and rows.isdisjoint(changed)
    ]
    # Behind a barrier or an atomic stands what other waves have stored, anywhere in the kernel.
    is_exchange = any(inst.cls in _EXCHANGES for inst in code)
    writers = function.instructions if is_exchange else code
    stores = [inst for inst in writers if inst.cls in WRITES] if same else []
    if stores:
        safe = unwritten(subject, same, stores)
        if safe is None:
            return Unknown("where the loop stores is not known")
        same = [inst for inst in safe if inst.index in subject.places]
    return {"loads": len(same), "at": LineName.of(same)}
