"""The part of a kernel's code that decides where its waves go and which addresses they touch.

Values that feed no address, mask or branch are not computed: a matrix product takes the emulator
longer than all that the timing needs of its loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from ..emulator.program import CodeBlock, PreparedCode, is_coherent
from ..isa.dataflow.effects import RegisterEffect
from ..isa.dataflow.masked_writes import masked_sites
from ..lanes.slices import (
    ACCESSES,
    EXEC_BITS,
    LDS_CLASSES,
    address_bits,
    backward_slice,
    lds_address_bits,
    with_scc,
)

_FLOW: Final = frozenset(("branch", "wait", "barrier", "barrier_signal", "control"))
"""Classes that are carried out whatever needs them."""
_MATRIX: Final = frozenset(("mfma", "wmma"))
_LDS_WRITES: Final = frozenset(("lds_write", "lds_atomic"))
_GLOBAL_WRITES: Final = frozenset(("global_store", "atomic"))
_ROUNDS: Final = 4
"""Until it is known which memories hold values that are needed: there are three."""


class Thinned:
    """A kernel's steps, twice: those for addresses and branches, and those for branches alone.

    `for_addresses`, `for_branches`: the steps of each block. `deciding`: the loads of global memory
    on whose results addresses, masks or branches rest.
    """

    def __init__(self, code: PreparedCode) -> None:
        function = code.function
        effects = [
            with_scc(effect, parts)
            for effect, parts in zip(code.effects, code.decoded, strict=True)
        ]
        flow = {inst.index for inst in function.instructions if inst.cls in _FLOW}
        accesses = {}
        for inst, effect, parts in zip(function.instructions, effects, code.decoded, strict=True):
            if inst.cls in ACCESSES:
                address = address_bits(inst, parts)
                if inst.cls in LDS_CLASSES:
                    address |= lds_address_bits(inst, parts)
                accesses[inst.index] = address, effect.low | effect.high
        sites, read = _needed(code, effects, accesses, flow)
        self.for_addresses = _steps(code, sites)
        self.for_branches = _steps(code, _needed(code, effects, {}, flow)[0])
        # Scalar loads are among the sites where something reads them, others in any case.
        scalar = {inst.index for inst in function.instructions if inst.cls == "smem_load"}
        loads = read | scalar.intersection(sites)
        self.deciding = loads.intersection(_loads_of_data(code))


def _loads_of_data(code: PreparedCode) -> Iterator[int]:
    """What loads from global memory, scalar loads of the kernel's arguments aside."""
    start = code.function.resources.wave_start
    arguments = start.kernarg_ptr if start is not None else None
    for inst, parts in zip(code.function.instructions, code.decoded, strict=True):
        if inst.cls == "global_load":
            yield inst.index
        elif inst.cls == "smem_load" and start is not None:
            if parts.operands[1].first != arguments:
                yield inst.index
            target = parts.operands[0]
            if arguments in range(target.first, target.first + target.count):
                arguments = None  # from here on the registers hold something else


def _needed(
    code: PreparedCode,
    effects: Sequence[RegisterEffect],
    accesses: dict[int, tuple[int, int]],
    flow: set[int],
) -> tuple[Sequence[int], frozenset[int]]:
    """What accesses and branches rest on, through memory as well, and whose results they read."""
    masked = masked_sites(code.function, code.effects)
    always = set(flow)
    sites: Sequence[int] = ()
    read: frozenset[int] = frozenset()
    for _ in range(_ROUNDS):
        found = backward_slice(code.function, effects, accesses, always, EXEC_BITS, masked=masked)
        sites = found.sites
        read = found.read_on if accesses else frozenset(sites)
        added = _stored(code, set(sites), read) - always
        if not added:
            break
        always |= added
        for site in added & accesses.keys():
            accesses[site] = effects[site].reads, accesses[site][1]
    return sites, read


def _stored(code: PreparedCode, chosen: set[int], read: frozenset[int]) -> set[int]:
    """What has to be carried out as well, since memory or matrix units hand its values on."""
    instructions = code.function.instructions
    classes = {instructions[site].cls for site in read}
    added: set[int] = set()
    if classes & LDS_CLASSES:
        added |= {inst.index for inst in instructions if inst.cls in _LDS_WRITES}
    if any(instructions[site].cls == "scratch_load" for site in chosen):
        added |= {inst.index for inst in instructions if inst.cls == "scratch_store"}
    if any(instructions[site].cls in _MATRIX for site in chosen):
        # Products of a block share what they read (`matrix_products`).
        added |= {inst.index for inst in instructions if inst.cls in _MATRIX}
    # Of global memory only what waves tell one another is read back within a launch.
    if any(
        instructions[site].cls in ("global_load", "atomic") and is_coherent(code.decoded[site])
        for site in read
    ):
        added |= {inst.index for inst in instructions if inst.cls in _GLOBAL_WRITES}
    return added


def _steps(code: PreparedCode, sites: Sequence[int]) -> list[CodeBlock]:
    """The blocks with the steps of some sites alone; all of them where none were found."""
    if not sites:
        return code.blocks
    wanted = frozenset(sites)
    return [
        replace(block, steps=[step for step in block.steps if step[2] in wanted])
        for block in code.blocks
    ]
