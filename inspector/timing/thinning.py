"""The part of a kernel's code that decides where its waves go and which addresses they touch.

Values that feed no address, mask or branch are not computed: a matrix product takes the emulator
longer than all that the timing needs of its loop.

How often a counted loop still runs: from how far its two compared values move together.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from ..emulator.program import CodeBlock, PreparedCode, is_coherent
from ..emulator.waves import Array, Waves
from ..isa.dataflow.effects import RegisterEffect, bits_of
from ..isa.dataflow.masked_writes import masked_sites
from ..isa.dataflow.operands import SCALAR_BIT, VCC, Decoded, Operand, rows_of, scalar_bits
from ..lanes.slices import (
    ACCESSES,
    EXEC_BITS,
    LDS_CLASSES,
    SCC_BIT,
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
        elif inst.cls == "smem_load" and start is not None and len(parts.operands) > 1:
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


_COMPARES: Final = re.compile(r"s_cmpk?_(eq|lg|ne|gt|ge|lt|le)_([iu])32")
_VCC_BITS: Final = scalar_bits(VCC, 2)
_MOST_STEPS: Final = 6
"""From a branch back to the comparison."""
_SEEN: Final = 3
"""Iterations by which the compared values have to have moved alike."""


class CountedLoop(Struct):
    """A loop whose last branch goes by a comparison of two scalars.

    `goes_on`: which comparison of left - right with 0 lets it go on: `lt`, `ne`, …
    `written`: rows of the registers that an iteration writes which only branches rest on.
    """

    left: Operand
    right: Operand
    goes_on: str
    signed: bool
    written: Sequence[int] = ()
    _numbers: Array | None = None
    _distances: list[Array] = field(default_factory=list)
    _values: list[list[Array]] = field(default_factory=list)

    def left_over(self, waves: Waves, numbers: Array) -> Array | None:
        """Iterations that waves still run, int64 [wave]; None where that cannot be told yet.

        `waves`: they stand at the branch, and all go on. `numbers`: of them among all waves.
        """
        distance = self._value(self.left, waves) - self._value(self.right, waves)
        if self._numbers is None or not np.array_equal(self._numbers, numbers):
            self._numbers, self._distances, self._values = numbers, [], []
        self._distances = [*self._distances[1 - _SEEN :], distance]
        registers = [register.copy() for register in self._registers(waves)]
        self._values = [*self._values[1 - _SEEN :], registers]
        if len(self._distances) < _SEEN:
            return None
        steps = np.diff(np.stack(self._distances), axis=0)
        step = steps[0]
        if (steps != step).any() or not step.all():
            return None
        return _until_it_ends(self.goes_on, distance, step)

    def skip(self, waves: Waves, iterations: Array) -> None:
        """Registers that moved evenly get where iterations that are not carried out bring them.

        What comes behind the loop goes on from there: the rest of an unrolled loop, for example.
        """
        for register, *seen in zip(self._registers(waves), *self._values, strict=True):
            before, step = np.diff(np.stack(seen), axis=0)
            count = iterations.astype(register.dtype)
            moved = step * (count if register.ndim == 1 else count[:, None])
            register += np.where(step == before, moved, 0)

    def _registers(self, waves: Waves) -> list[Array]:
        return [
            waves.vector[row] if row < SCALAR_BIT else waves.scalar[row - SCALAR_BIT]
            for row in self.written
        ]

    def _value(self, operand: Operand, waves: Waves) -> Array:
        if operand.kind == "constant" and operand.integer is not None:
            return np.full(waves.count, operand.integer, np.int64)
        words: Array = waves.scalar[operand.first]
        return words.view(np.int32).astype(np.int64) if self.signed else words.astype(np.int64)


def counted_loop(
    code: PreparedCode, block: CodeBlock, inside: Collection[int], for_branches: Sequence[CodeBlock]
) -> CountedLoop | None:
    """The comparison that a loop's last branch goes by; None where it is none of two scalars.

    `block`: that ends with the branch. `for_branches`: what is carried out of each block.
    """
    name = code.decoded[block.leave.site].name
    if name not in _BRANCHES:
        return None
    register, when_set = _BRANCHES[name]
    finder = _Finder(code, inside)
    site: int | None = block.leave.site
    # From the branch back to the comparison, through masks that it is made into.
    for _ in range(_MOST_STEPS):
        site = finder.writer(register, site) if site is not None else None
        if site is None:
            return None
        parts = code.decoded[site]
        match = _COMPARES.fullmatch(parts.name)
        if match is not None:
            found = _of_comparison(
                parts, match, when_set == (block.leave.target in inside), finder.unchanged(site)
            )
            if found is not None:
                steps = [step for number in inside for _, _, step in for_branches[number].steps]
                found.written = _general_registers(code.effects[step].writes for step in steps)
            return found
        step = _through(parts, register)
        if step is None:
            return None
        register, is_same = step
        when_set = when_set == is_same
    return None


def _general_registers(written: Iterable[int]) -> list[int]:
    """Rows of those that hold numbers: neither VCC, EXEC and M0 nor what only the trap uses."""
    registers = functools.reduce(operator.or_, written, 0)
    return [row for row in rows_of(registers) if row < SCALAR_BIT + VCC]


def _of_comparison(
    parts: Decoded, match: re.Match[str], goes_on_when_true: bool, unchanged: bool
) -> CountedLoop | None:
    left, right = parts.operands
    known = all(
        o.kind == "sgpr" or (o.kind == "constant" and o.integer is not None) for o in (left, right)
    )
    if not known or not unchanged:
        return None
    relation = {"lg": "ne"}.get(match[1], match[1])
    return CountedLoop(
        left, right, relation if goes_on_when_true else _OPPOSITE[relation], match[2] == "i"
    )


def _through(parts: Decoded, register: int) -> tuple[int, bool] | None:
    """What a mask is made of: its register, and whether it is set where that is; None: unknown."""
    sources = parts.operands[1:]
    if parts.name in ("s_cselect_b64", "s_cselect_b32") and len(sources) > 1:
        values = sources[0].integer, sources[1].integer
        return _SELECTED.get(values)
    masks = [bits_of(source) for source in sources if source.kind == "sgpr"]
    others = [bits for bits in masks if bits & ~EXEC_BITS]
    if parts.name.startswith(("s_mov_b", "s_and_b")) and len(others) == 1:
        return others[0], True
    if parts.name.startswith("s_andn2_b") and len(masks) > 1 and not masks[0] & ~EXEC_BITS:
        return masks[1], False
    return None


class _Finder:
    """Looks for what wrote a register within a loop."""

    def __init__(self, code: PreparedCode, inside: Collection[int]) -> None:
        self._effects = [
            with_scc(effect, parts)
            for effect, parts in zip(code.effects, code.decoded, strict=True)
        ]
        self._decoded = code.decoded
        self._starts = {
            site: block.start
            for block in code.function.blocks
            for site in range(block.start, block.stop)
        }
        self._sites = sorted(
            site for number in inside for site in range(*_range(code.blocks[number]))
        )

    def writer(self, register: int, before: int) -> int | None:
        """The instruction that wrote a register last: in the same block, or the loop's only one."""
        for site in range(before - 1, self._starts[before] - 1, -1):
            if self._effects[site].writes & register:
                return site
        if register & SCC_BIT:
            return None
        writers = [site for site in self._sites if self._effects[site].writes & register]
        return writers[0] if len(writers) == 1 else None

    def unchanged(self, comparison: int) -> bool:
        """Whether what a comparison reads keeps its value until the loop's last branch."""
        read = self._effects[comparison].reads
        behind = [site for site in self._sites if site > comparison]
        return not any(self._effects[site].writes & read for site in behind)


def _range(block: CodeBlock) -> tuple[int, int]:
    return block.first, block.stop


_BRANCHES: Final = {
    "s_cbranch_scc0": (SCC_BIT, False),
    "s_cbranch_scc1": (SCC_BIT, True),
    "s_cbranch_vccz": (_VCC_BITS, False),
    "s_cbranch_vccnz": (_VCC_BITS, True),
}
"""What each branch goes by, and whether it is taken where that is set."""
_SELECTED: Final[dict[tuple[int | None, int | None], tuple[int, bool]]] = {
    (-1, 0): (SCC_BIT, True),
    (0, -1): (SCC_BIT, False),
}
_OPPOSITE: Final = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}


def _until_it_ends(goes_on: str, distance: Array, step: Array) -> Array | None:
    """How many steps it takes until a distance from 0 no longer lets the loop go on."""
    if goes_on == "ne":
        count, rest = np.divmod(-distance, step)
        return count if (rest == 0).all() and (count > 0).all() else None
    if goes_on in ("gt", "ge"):
        distance, step = -distance, -step
        goes_on = {"gt": "lt", "ge": "le"}[goes_on]
    if goes_on not in ("lt", "le") or (step <= 0).any():
        return None
    # It goes on while the distance is below 0, or at most 0.
    return -(distance // step) if goes_on == "lt" else -distance // step + 1
