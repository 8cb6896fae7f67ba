"""Loops that go on, in smaller steps, where another loop has stopped."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Final

from ..isa.dataflow.value_graph import Operation, graph_of, is_same, registers, rows_of
from ..isa.twos_complement import signed
from ..model import Function

_SUM: Final = re.compile(r"[sv]_(add|sub|subrev)(k?)_[iu](?:32|64)")
_SHIFTED_SUM: Final = "v_lshl_add_u64"


def leftovers(function: Function) -> set[str]:
    """Ids of the loops that do what another one's larger steps leave over."""
    inner = {loop.parent for loop in function.loops}
    innermost = [loop for loop in function.loops if loop.id not in inner]
    if len(innermost) < 2:
        return set()
    code = graph_of(function).by_block
    steps = {loop.id: dict(_steps([code[number] for number in loop.blocks])) for loop in innermost}
    found = set[str]()
    for main in innermost:
        behind = sorted(
            (
                loop
                for loop in innermost
                if loop.parent == main.parent and loop.header > main.header and steps[loop.id]
            ),
            key=lambda loop: loop.header,
        )
        if not behind or not steps[main.id]:
            continue
        origins = {register: {step} for register, step in steps[main.id].items()}
        reached = max(main.blocks) + 1
        for loop in behind:
            for block in code[reached : loop.header]:
                for operation in block:
                    _follow(operation, origins)
            reached = max(reached, loop.header)
            if not origins:
                break
            if _goes_on(origins, steps[loop.id]):
                found.add(loop.id)
    return found


def _goes_on(origins: Mapping[int, Set[int]], steps: Mapping[int, int]) -> bool:
    """Whether a loop steps by less what follows from a register that an earlier one has stepped."""
    return any(
        main_step * step > 0 and abs(main_step) > abs(step)
        for register, step in steps.items()
        for main_step in origins.get(register, ())
    )


def _follow(operation: Operation, origins: dict[int, set[int]]) -> None:
    """Hands the steps that registers come from on to what an operation computes from them."""
    passed = set[int]()
    if not operation.inst.cls.endswith("_load"):
        for register in rows_of(operation.sources):
            passed.update(origins.get(register, ()))
    for register in rows_of(operation.results):
        if passed:
            origins[register] = passed
        else:
            origins.pop(register, None)


def _steps(blocks: Sequence[Sequence[Operation]]) -> Iterator[tuple[int, int]]:
    """Yields the registers that each iteration adds a constant to, and nothing else, with it."""
    done = [operation for block in blocks for operation in block]
    writes = Counter(row for operation in done for row in rows_of(operation.results))
    for operation in done:
        step = _step(operation)
        row = registers(operation.results[0])[0] if step else None
        if step and row is not None and writes[row] == 1:
            yield row, step


def _step(operation: Operation) -> int | None:
    """The constant that an operation adds to its own result, of 64 bits to the lower half."""
    sources, result = [*operation.sources], operation.results[:1]
    is_shifted = operation.name == _SHIFTED_SUM
    sum_of = _SUM.fullmatch(operation.name)
    if is_shifted and len(sources) == 3 and sources[1].integer == 0:
        del sources[1]
    elif sum_of is None:
        return None
    if len(sources) != 2 or not result or not registers(result[0]):
        return None
    kind, is_short = (sum_of[1], sum_of[2]) if sum_of is not None else ("add", "")
    if kind == "subrev" or (kind == "add" and sources[0].integer is not None):
        sources.reverse()
    register, constant = sources
    if not is_same(register, result[0]) or constant.integer is None:
        return None
    step = signed(constant.integer, 16 if is_short else 32)
    return step if kind == "add" else -step
