"""Loops that go on, in smaller steps, where another loop has stopped."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from functools import cache
from typing import Final

from ..isa.dataflow.operands import operand_texts
from ..isa.twos_complement import signed
from ..isa.vector_halves import written_registers
from ..isa.waitflow.registers import named, split_destination
from ..model import Function, Instruction, Loop

_SUM: Final = re.compile(r"[sv]_(add|sub|subrev)k?_(?:(?:co|nc)_)*[iu](?:32|64)")
_SHIFTED_SUM: Final = "v_lshl_add_u64"
_COMPARISONS: Final = ("s_cmp", "s_bitcmp", "v_cmpx")
_LITERAL: Final = re.compile(r"-?(?:0x[0-9a-f]{1,16}|0|[1-9]\d{0,18})")
_FLAGS: Final = re.compile(r"vcc(?:_lo)?|exec(?:_lo)?|null|s\[\d+:\d+\]")


def leftovers(function: Function) -> set[str]:
    """Ids of the loops that do what another one's larger steps leave over."""
    inner = {loop.parent for loop in function.loops}
    innermost = [loop for loop in function.loops if loop.id not in inner]
    if len(innermost) < 2:
        return set()
    steps = {loop.id: dict(_steps(function, loop)) for loop in innermost}
    moved = cache(lambda index: _moved(function.instructions[index]))
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
            for block in function.blocks[reached : loop.header]:
                for index in range(block.start, block.stop):
                    _follow(moved(index), origins)
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


def _follow(moved: tuple[Set[int], Set[int]], origins: dict[int, set[int]]) -> None:
    """Hands the steps that registers come from on to what an instruction computes from them."""
    sources, results = moved
    passed = set[int]()
    for register in sources:
        passed.update(origins.get(register, ()))
    for register in results:
        if passed:
            origins[register] = passed
        else:
            origins.pop(register, None)


def _moved(inst: Instruction) -> tuple[Set[int], Set[int]]:
    """The registers that an instruction computes from, and those that it writes."""
    _, sources = split_destination(inst.operands)
    return set() if inst.cls.endswith("_load") else set(named(sources)), _results(inst)


def _results(inst: Instruction) -> set[int]:
    """The registers that an instruction writes; some comparisons set SCC or EXEC alone."""
    return set() if inst.op.name.startswith(_COMPARISONS) else written_registers(inst)


def _steps(function: Function, loop: Loop) -> Iterator[tuple[int, int]]:
    """Yields the registers that each iteration adds a constant to, and nothing else, with it."""
    writes: Counter[int] = Counter()
    added: dict[int, int] = {}
    for number in loop.blocks:
        block = function.blocks[number]
        for inst in function.instructions[block.start : block.stop]:
            writes.update(_results(inst))
            step = _step(inst)
            if step is not None:
                register, constant = step
                added[register] = constant
    for register, constant in added.items():
        if writes[register] == 1:
            yield register, constant


def _step(inst: Instruction) -> tuple[int, int] | None:
    """The register that an instruction adds a constant to, the lower half of 64 bits, with it."""
    name = inst.op.name
    is_shifted = name == _SHIFTED_SUM
    sum_of = _SUM.fullmatch(name)
    if sum_of is None and not is_shifted:
        return None
    result, *sources = operand_texts(inst.operands)
    registers = named(result)
    if not registers:
        return None
    if is_shifted and (len(sources) != 3 or sources[1] != "0"):
        return None
    operands = [text for text in sources if not _FLAGS.fullmatch(text) or named(text) == registers]
    if is_shifted:
        operands = [operands[0], operands[-1]]
    is_short = name.startswith("s_addk")
    if is_short:
        operands.insert(0, result)
    operation = "add" if sum_of is None else sum_of[1]
    if operation == "subrev":
        operands.reverse()
    if len(operands) != 2:
        return None
    if operation == "add" and _LITERAL.fullmatch(operands[0]):
        operands.reverse()
    if named(operands[0]) != registers or not _LITERAL.fullmatch(operands[1]):
        return None
    step = signed(int(operands[1], 0), 16 if is_short else 32)
    return (registers[0], step if operation == "add" else -step) if step else None
