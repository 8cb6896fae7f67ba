"""A kernel's figures, each worked out when it is first read, from those that it needs.

`KernelStages` holds what a report is made of: the loops, the listed instructions, the metrics. A
family of metrics states how it is made of these, in the table of `catalogue`; nothing else says in
which order they come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ..isa.graph import longest_way
from ..isa.graph.cfg import innermost_loops
from ..isa.mnemonics import access_bits
from ..model import (
    Access,
    Instruction,
    LaneUse,
    LdsBuffer,
    LoopReport,
    MemoryOp,
    Metric,
    MetricSpec,
    WaitOp,
    int_of,
)
from . import live_registers, loops
from .access_spans import GlobalAccesses
from .joint_accesses import joint_accesses
from .lane_metrics import untried_kpack
from .located import located
from .named_positions import NamedPositions
from .options import option
from .subject import (
    MEMORY_CLASSES,
    KernelCode,
    NamedValues,
    Subject,
    Tally,
    always_executed,
    own_instructions,
    tally,
)

if TYPE_CHECKING:
    from ..isa.graph.longest_way import Way
    from .conflict_remedies import OperandTile
    from .exposed_latency import Played

_MEMORY: Final = frozenset(MEMORY_CLASSES)


class Family(Struct, frozen=True):
    """Metrics that are made together: of a kernel as a whole, of any region, or of all loops.

    Args:
        kernel: makes those of a kernel.
        region: makes those that exist for a kernel with code and for each of its loops.
        loops: makes those of loops, by the loop's id; a loop may have none.
    """

    specs: tuple[MetricSpec, ...] = ()
    kernel: Callable[[KernelStages], Iterable[Metric]] | None = None
    region: Callable[[Region], Iterable[Metric]] | None = None
    loops: Callable[[KernelStages], Mapping[str, Mapping[str, Metric]]] | None = None


class Families:
    """The table of metrics, by name.

    Args:
        families: all of them, in the order of a report.
    """

    def __init__(self, families: Sequence[Family]) -> None:
        self.listed = tuple(families)
        self._exact: dict[str, list[int]] = {}
        self._patterns: list[tuple[str, int]] = []
        for number, family in enumerate(families):
            for spec in family.specs:
                if "*" in spec.name:
                    self._patterns.append((spec.name, number))
                else:
                    self._exact.setdefault(spec.name, []).append(number)
        self._known: dict[str, tuple[int, ...]] = {}

    def of(self, name: str) -> tuple[int, ...]:
        """Numbers of the families that may make the metric of a name."""
        found = self._known.get(name)
        if found is None:
            by_pattern = (n for pattern, n in self._patterns if fnmatchcase(name, pattern))
            found = self._known[name] = tuple(self._exact.get(name) or by_pattern)
        return found


class Figures(Mapping[str, Metric]):
    """The metrics of a kernel or loop by name; each family is made when one of it is first read.

    Args:
        make: makes the metrics of a family here; None where it has none for this subject.
    """

    def __init__(
        self, families: Families, make: Callable[[Family], Iterable[Metric] | None]
    ) -> None:
        self._families = families
        self._make = make
        self._made: dict[int, Mapping[str, Metric] | None] = {}

    def __getitem__(self, name: str) -> Metric:
        for number in self._families.of(name):
            metric = self._of(number).get(name)
            if metric is not None:
                return metric
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        for number in range(len(self._families.listed)):
            yield from self._of(number)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def all(self) -> dict[str, Metric]:
        """All of them, in the order of the table."""
        numbers = range(len(self._families.listed))
        return {name: metric for n in numbers for name, metric in self._of(n).items()}

    def chosen(self, names: Iterable[str] | None) -> dict[str, Metric]:
        """Those of some names, in the order of the table; all for None."""
        if names is None:
            return self.all()
        wanted = frozenset(names)
        numbers = sorted({number for name in wanted for number in self._families.of(name)})
        made = (metric for number in numbers for metric in self._of(number).values())
        return {metric.name: metric for metric in made if metric.name in wanted}

    def _of(self, number: int) -> Mapping[str, Metric]:
        if number not in self._made:
            self._made[number] = None
            made = self._make(self._families.listed[number]) or ()
            self._made[number] = {metric.name: metric for metric in made}
        metrics = self._made[number]
        if metrics is None:
            names = ", ".join(spec.name for spec in self._families.listed[number].specs)
            raise RuntimeError(f"{names}: made of themselves")
        return metrics


class Region:
    """A run of instructions with its figures: a kernel, or what a loop has beside nested loops.

    Args:
        loop: id of the loop; None for the kernel.
    """

    def __init__(
        self,
        stages: KernelStages,
        loop: str | None,
        code: Sequence[Instruction],
        metrics: Mapping[str, Metric],
    ) -> None:
        self.stages = stages
        self.subject = stages.subject
        self.metrics = metrics
        self._loop = loop
        self._code = code

    @cached_property
    def counted(self) -> Tally:
        """One pass over its instructions."""
        return tally(self._code, self.subject.machine)

    @property
    def memory(self) -> Sequence[MemoryOp]:
        """Its memory accesses."""
        if self._loop is None:
            return self.stages.memory
        return self.stages.memory_of_loops.get(self._loop, ())


class KernelStages:
    """What the report of a kernel is made of.

    Args:
        code: the kernel as it was read.
    """

    def __init__(self, code: KernelCode, families: Families) -> None:
        self.subject: Subject = located(code)
        self._families = families
        self._by_loop: dict[int, Mapping[str, Mapping[str, Metric]]] = {}
        self._positions = NamedPositions(self.subject.function)
        self.metrics = Figures(families, self._of_kernel)

    # ------------------------------------------------------------------ code and loops

    @cached_property
    def own_code(self) -> Mapping[str, Sequence[Instruction]]:
        """Loop id -> its instructions, nested loops excluded."""
        return own_instructions(self.subject.function)

    @cached_property
    def of_loops(self) -> Mapping[str, Figures]:
        """Loop id -> its metrics."""
        return {loop: self._loop_figures(loop, code) for loop, code in self.own_code.items()}

    @cached_property
    def loops(self) -> tuple[LoopReport, ...]:
        """Every loop, in the order of their ids, with its metrics of `of_loops`."""
        return loops.reports(self.subject, self.own_code, self.of_loops)

    @cached_property
    def hot(self) -> frozenset[str]:
        """Ids of the hot loops."""
        return frozenset(loop.id for loop in self.loops if loop.hot)

    @cached_property
    def main(self) -> LoopReport | None:
        """The hot loop that does most."""
        return loops.main_loop(self.loops)

    @cached_property
    def executed(self) -> Mapping[str, Sequence[int]]:
        """Hot loop -> the blocks that every iteration executes."""
        return always_executed(self.subject.function, self.hot)

    @cached_property
    def ways(self) -> Mapping[str, Way]:
        """Hot loop -> the longest way through an iteration."""
        return longest_way.longest_ways(self.subject.function, self.hot)

    @cached_property
    def played(self) -> Mapping[str, Played | None]:
        """Hot loop -> its iterations one after another."""
        from .exposed_latency import played_loops

        return played_loops(self.subject, self.ways)

    # ------------------------------------------------------------------ accesses

    @cached_property
    def memory(self) -> tuple[MemoryOp, ...]:
        """The memory operations in program order, with what their lanes touch."""
        return self.listed()

    @cached_property
    def memory_of_loops(self) -> Mapping[str | None, Sequence[MemoryOp]]:
        """The memory operations by the innermost loop around them; None: outside of all."""
        own: dict[str | None, list[MemoryOp]] = {}
        for op in self.memory:
            own.setdefault(op.loop, []).append(op)
        return own

    def listed(self, *, lanes: bool = True) -> tuple[MemoryOp, ...]:
        """The memory operations in program order.

        `lanes`: whether they state what their lanes touch.
        """
        function = self.subject.function
        owner = innermost_loops(function)
        uses: Mapping[int, LaneUse] = self.subject.uses if lanes else {}
        joint = joint_accesses(self.subject, owner) if lanes else {}
        listed = []
        for block in function.blocks:
            loop = owner.get(block.index)
            loop_id, depth = (loop.id, loop.depth) if loop else (None, 0)
            listed += [
                MemoryOp(
                    inst.line,
                    inst.mnemonic,
                    inst.cls,
                    access_bits(inst.op, inst.operands),
                    loop_id,
                    depth,
                    inst.loc,
                    inst.comment if "Folded" in inst.comment else "",
                    uses.get(inst.index),
                    joint.get(inst.index),
                )
                for inst in function.instructions[block.start : block.stop]
                if inst.cls in _MEMORY
            ]
        return tuple(listed)

    @cached_property
    def waits(self) -> tuple[WaitOp, ...]:
        """The waits in program order."""
        at = self.subject.sync.waits
        instructions = self.subject.function.instructions
        return tuple(wait for inst in instructions for wait in at.get(inst.index, ()))

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        """The accesses of the TTGIR with their instructions; none without a TTGIR."""
        if self.subject.ttgir is None:
            return ()
        # Only kernels with a TTGIR need the algebra of layouts; importing it takes milliseconds.
        from .accesses import accesses
        from .lane_layouts import checked

        return checked(self.subject, accesses(self.subject, self.memory))

    @cached_property
    def tiles(self) -> Mapping[int, OperandTile]:
        """The operands of dots whose conflicts a remedy reaches, by the TTGIR's lines."""
        conflicting = any(op.use is not None and op.use.conflicts for op in self.memory)
        if self.subject.ttgir is None or not self.accesses or not conflicting:
            return {}
        from .conflict_remedies import operand_tiles

        try:
            return operand_tiles(self.subject.ttgir, untried_kpack(self.subject))
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            return {}  # the TTGIR is not as Triton prints it: an edited file

    @cached_property
    def in_global(self) -> GlobalAccesses:
        """The bytes that accesses of global memory touch."""
        return GlobalAccesses(self.subject)

    # ------------------------------------------------------------------ registers and LDS

    @cached_property
    def named(self) -> tuple[NamedValues, str]:
        """The values that registers hold, and a note where they could not be named."""
        return live_registers.named(self.subject, self.hot)

    @cached_property
    def buffers(self) -> tuple[LdsBuffer, ...]:
        """The buffers in LDS."""
        from .lds_buffers import lds_buffers

        return lds_buffers(self.subject)

    @cached_property
    def num_stages(self) -> int | None:
        """`num_stages` of the compile."""
        return option(self.subject, "num_stages")

    @cached_property
    def beyond_allocation(self) -> str | None:
        """A note on registers that the code uses beyond the allocated ones."""
        return live_registers.beyond_allocation(
            self.subject, int_of(self.metrics, "vgpr_allocated")
        )

    # ------------------------------------------------------------------ metrics

    def _of_kernel(self, family: Family) -> list[Metric]:
        made = list(family.kernel(self)) if family.kernel is not None else []
        if family.region is not None and self.subject.function.instructions:
            made += family.region(self._whole)
        return [self._positions.placed(metric) for metric in made]

    @cached_property
    def _whole(self) -> Region:
        return Region(self, None, self.subject.function.instructions, self.metrics)

    def _loop_figures(self, loop: str, code: Sequence[Instruction]) -> Figures:
        figures = Figures(self._families, lambda family: self._of_loop(family, loop, region))
        region = Region(self, loop, code, figures)
        return figures

    def _of_loop(self, family: Family, loop: str, region: Region) -> list[Metric]:
        made = list(family.region(region)) if family.region is not None else []
        if family.loops is not None:
            by_loop = self._by_loop.get(id(family))
            if by_loop is None:
                by_loop = self._by_loop[id(family)] = family.loops(self)
            made += by_loop.get(loop, {}).values()
        return [self._positions.placed(metric) for metric in made]
