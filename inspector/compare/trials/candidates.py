"""The changes to try for a finding: its rule's cures, as far as they change the kernel."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from ...lint.catalogue import Catalogue
from ...lint.expr import ExpressionError, compile_number
from ...lint.nodes import Values
from ...lint.rule import Cure, Rule
from ...machines.loader import load
from ...model import (
    Change,
    Finding,
    KernelReport,
    LoopReport,
    Scalar,
    SourceLoc,
    Variant,
    value_of,
)
from ...pipeline.reading import artifact_metadata
from .argument_changes import (
    ANNOTATION,
    SPECIALISING,
    annotated_ones,
    hidden_arguments,
    partly_aligned,
    run_time_divisors,
)
from .source_changes import (
    EXP2,
    EXPONENTIAL,
    INPUT_PRECISION,
    RANGE_STAGES,
    WIDENED_OPERANDS,
    has_exponentials,
    input_precisions,
    key_of,
    loop_stages,
    places_of,
    widened_operands,
)
from .space import Space

TILE, SPLIT, SWITCH = "tile", "split", "switch"
"""What a cure calls each of the kernel's block sizes, numbers of parts, and boolean constexprs."""
MINIMUM_OF_REGISTERS = "amdgpu-sched-strategy=iterative-minreg"

_SPILL_CURES = (
    Cure(option="waves_per_eu", values=(0,)),
    Cure(option="num_warps", factors=(2.0, 0.5)),
    Cure(option="num_stages", values=(1,)),
    Cure(option="matrix_instr_nonkdim", values=(16,)),
    Cure(constexpr=TILE, factors=(0.5,)),
    Cure(constexpr=SWITCH, values=(True, False)),
    Cure(option="llvm_fn_attrs", values=(MINIMUM_OF_REGISTERS,)),
)
_BY_TAG: Mapping[str, tuple[Cure, ...]] = MappingProxyType(
    {
        "registers": _SPILL_CURES,
        "occupancy": (
            Cure(option="num_stages", values=(1,)),
            Cure(option="waves_per_eu", metric="occupancy.next_step.gives"),
            Cure(option="num_warps", factors=(2.0, 0.5)),
            Cure(constexpr=TILE, factors=(0.5,)),
        ),
        "pipelining": (
            Cure(option="num_stages", values=(2, 3)),
            Cure(env="TRITON_HIP_USE_ASYNC_COPY", values=("1",)),
        ),
    }
)
"""Subject of a rule -> cures where it has none of its own. Of other subjects no option is known."""
_STEPS_OF_TILES = Cure(constexpr=TILE, factors=(2.0, 0.5))
# Parts of a loop may lose the alignment of its start: one step is not enough to tell.
_STEPS_OF_SPLITS = Cure(constexpr=SPLIT, factors=(0.5, 2.0, 4.0, 16.0))
_TIMES_THE_RATE: Mapping[str, str] = MappingProxyType(
    {"tf32": "matrix.rate.xf32", "bf16x3": "matrix.rate.split"}
)
"""input_precision of tl.dot -> how many times the rate of float32 it has on the target."""
_STAGES_TRIED = (2, 3)
_AFTER_TTGIR = frozenset(("waves_per_eu", "llvm_fn_attrs"))
"""Options that are read after TTGIR was made: others change nothing of a kernel saved as that."""
_DEFAULTS: Mapping[str, Scalar] = MappingProxyType(
    {
        "num_warps": 4,
        "waves_per_eu": 0,
        "num_stages": 2,
        "matrix_instr_nonkdim": 0,
        "kpack": 1,
        "llvm_fn_attrs": "",
        "allow_flush_denorm": False,
    }
)
"""Of `HIPOptions` in Triton 3.4 to 3.9, where the compile does not state an option."""


def cures_of(rule: Rule) -> tuple[Cure, ...]:
    """The rule's cures, else those of its subjects; none where nobody knows any."""
    if rule.text.cures:
        return rule.text.cures
    return next((_BY_TAG[tag] for tag in rule.text.tags if tag in _BY_TAG), ())


class Candidates:
    """Makes the changes to try for the findings of one kernel."""

    def __init__(
        self,
        kernel: KernelReport,
        space: Space,
        *,
        options: Iterable[str],
        environment: Mapping[str, str],
        catalogue: Catalogue,
    ) -> None:
        self._kernel = kernel
        self._space = space
        self._option_names = frozenset(options)
        self._environment = environment
        self._catalogue = catalogue
        self._options = _options_of(kernel)
        allowed = _metadata(kernel).get("allowed_dot_input_precisions")
        self._precisions = frozenset(allowed) if isinstance(allowed, list) else frozenset[str]()
        self._variant = kernel.variant
        self._loops = loop_stages(self._variant.ttir if self._variant is not None else "")

    def of(self, finding: Finding, rule: Rule) -> tuple[tuple[Change, ...], ...]:
        """The changes to try for a finding, in the order of the rule's cures.

        Each by itself, but for obstacles that only go together.
        """
        changes: dict[tuple[tuple[str, str, str], ...], tuple[Change, ...]] = {}
        for cure in cures_of(rule):
            for together in self._changes(cure, finding, rule):
                changes.setdefault(key_of(together), together)
        return tuple(changes.values())

    def neighbours(self) -> Iterator[tuple[Change, ...]]:
        """Yields the configurations beside the kernel's own: waves, tiles, splits, stages."""
        waves = self._options.get("num_warps", _DEFAULTS["num_warps"])
        if isinstance(waves, int):
            yield from self._to("num_warps", (2 * waves, waves // 2))
        for name in self._space.tiles:
            yield from ((change,) for change in self._scaled(name, _STEPS_OF_TILES))
        for name in self._space.splits:
            yield from ((change,) for change in self._scaled(name, _STEPS_OF_SPLITS))
        stages = self._options.get("num_stages", _DEFAULTS["num_stages"])
        is_read = self._space.has_dots and not self._loops.override_the_option
        if isinstance(stages, int) and is_read:
            yield from self._to("num_stages", (stages + 1, max(stages - 1, 1)))

    def _changes(self, cure: Cure, finding: Finding, rule: Rule) -> Iterator[tuple[Change, ...]]:
        if cure.source == "specialise":
            yield from self._specialising()
        else:
            yield from ((change,) for change in self._single(cure, finding, rule))

    def _single(self, cure: Cure, finding: Finding, rule: Rule) -> Iterator[Change]:
        if cure.env:
            before = self._environment.get(cure.env)
            for value in cure.values:
                if str(value) != before:
                    yield Change("environment", cure.env, str(value), before)
        elif cure.source:
            yield from self._of_source(cure, finding, rule)
        elif cure.option:
            is_late = self._variant is not None and self._variant.stage == "ttgir"
            if cure.option in (_AFTER_TTGIR if is_late else self._option_names):
                yield from self._of_option(cure, finding, rule)
        elif cure.constexpr == TILE:
            for name in self._space.tiles:
                yield from self._scaled(name, cure)
        elif cure.constexpr == SPLIT:
            for name in self._space.splits:
                yield from self._scaled(name, cure)
        elif cure.constexpr == SWITCH:
            for name in self._space.switches:
                is_on = self._constexpr(name)
                yield Change("constexpr", name, not is_on, is_on)
        elif cure.constexpr in self._space.tiles:
            yield from self._scaled(cure.constexpr, cure)

    def _specialising(self) -> Iterator[tuple[Change, ...]]:
        """What keeps Triton from noting values of arguments, dropped; both where both do."""
        variant = self._variant
        if variant is None or variant.stage != "ttir":
            return  # what is noted of arguments has its effect before
        dropped = {
            keyword: _dropped(keyword, names)
            for keyword in SPECIALISING
            if (names := hidden_arguments(variant, keyword))
        }
        yield from ((change,) for change in dropped.values())
        alone = annotated_ones(variant, specialised=False)
        if alone:
            yield (_dropped(ANNOTATION, alone),)
        ones = annotated_ones(variant, specialised=True)
        if ones != alone:
            keyword = SPECIALISING[0]
            both = [name for name in ones if name not in alone]
            every = dict.fromkeys((*hidden_arguments(variant, keyword), *both))
            yield _dropped(keyword, tuple(every)), _dropped(ANNOTATION, ones)

    def _of_source(self, cure: Cure, finding: Finding, rule: Rule) -> Iterator[Change]:
        variant = self._variant
        if variant is None:
            return
        if cure.source == "exp2":
            if has_exponentials(variant.ttir):
                at = places_of(variant.ttir, ("math.exp",))
                yield Change("source", EXPONENTIAL, EXP2, EXPONENTIAL, at)
        elif variant.stage != "ttir":
            return  # what is noted of arguments has its effect before
        elif cure.source == "range_stages":
            loops = self._loops
            most = None if loops.silent else max(loops.stated, default=None)
            for stages in _STAGES_TRIED:
                if loops.silent or any(own != stages for own in loops.stated):
                    yield Change("source", RANGE_STAGES, stages, most)
        elif cure.source == "constexpr_divisor":
            for name, value in run_time_divisors(variant).items():
                yield Change("argument", name, value, None)
        elif cure.source == "constexpr_pitch":
            for name, value in partly_aligned(variant).items():
                yield Change("argument", name, value, None)
        elif cure.source == "stored_operands":
            if (element := widened_operands(variant.ttir)) is not None:
                yield Change("source", WIDENED_OPERANDS, None, element, self._dots(variant))
        elif self._figure(_TIMES_THE_RATE[cure.source], finding, rule) is not None:
            before = input_precisions(variant.ttir)
            if before and cure.source not in before and cure.source in self._precisions:
                at, stated = self._dots(variant), ", ".join(sorted(before))
                yield Change("source", INPUT_PRECISION, cure.source, stated, at)

    @staticmethod
    def _dots(variant: Variant) -> tuple[SourceLoc, ...]:
        return places_of(variant.ttir, ("tt.dot",))

    def _of_option(self, cure: Cure, finding: Finding, rule: Rule) -> Iterator[Change]:
        name = cure.option
        before = self._options.get(name, _DEFAULTS.get(name))
        values: list[Scalar] = list(cure.values)
        if cure.factors and isinstance(before, int):
            values = [before * factor for factor in cure.factors]
        elif cure.metric:
            values = [self._figure(cure.metric, finding, rule)]
        wholes = [whole for value in values if (whole := _whole(value)) is not None]
        if name == "num_stages" and self._loops.stated:
            for whole in wholes:
                if any(stages != whole for stages in self._loops.stated):
                    yield Change("source", RANGE_STAGES, whole, max(self._loops.stated))
            if self._loops.override_the_option:
                return
        yield from (change for (change,) in self._to(name, wholes))

    def _to(self, option: str, values: Iterable[Scalar]) -> Iterator[tuple[Change]]:
        before = self._options.get(option, _DEFAULTS.get(option))
        for value in values:
            if value != before and self._is_possible(option, value):
                yield (Change("option", option, value, before),)

    def _is_possible(self, name: str, value: Scalar) -> bool:
        """Whether Triton takes the value, and it is not what it has chosen by itself."""
        if name == "num_warps":
            variant = self._variant
            if variant is None or not isinstance(value, int) or value < 1 or value & (value - 1):
                return False
            return value * variant.wave_size <= load(variant.arch).max_workgroup_size
        if name == "matrix_instr_nonkdim":
            chosen = value_of(self._kernel.metrics, "matrix.nonkdim")
            return value != chosen and (chosen is not None or self._space.has_dots)
        return True

    def _scaled(self, name: str, cure: Cure) -> Iterator[Change]:
        before = self._constexpr(name)
        if not isinstance(before, int):
            return
        for factor in cure.factors:
            value = self._space.scaled(name, before, factor)
            if value is not None and value != before:
                yield Change("constexpr", name, value, before)

    def _constexpr(self, name: str) -> Scalar:
        variant = self._variant
        value: Scalar = variant.constexprs.get(name) if variant is not None else None
        return value

    def _figure(self, text: str, finding: Finding, rule: Rule) -> Scalar:
        """The value of a cure's metric, in the loop that the finding is about; None if unknown."""
        try:
            expression = compile_number(text, self._catalogue, rule.text.scope)
        except ExpressionError:
            return None
        value = expression.evaluate(values_of(finding, self._kernel))
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return math.ceil(value) if is_number and value > 0 else None


def _dropped(name: str, arguments: tuple[str, ...]) -> Change:
    return Change("source", name, None, ", ".join(arguments), arguments=arguments)


def values_of(finding: Finding, kernel: KernelReport) -> Values:
    """The metrics of a kernel, and of the loop that a finding is about."""
    loop = loop_of(finding, kernel)
    return Values(
        {name: metric.value for name, metric in kernel.metrics.items()},
        {name: metric.value for name, metric in loop.metrics.items()} if loop else {},
    )


def loop_of(finding: Finding, kernel: KernelReport) -> LoopReport | None:
    """The innermost loop that a finding's first line of assembly is in; None for none.

    A finding on the kernel as a whole is of none, wherever the expression is that it points at.
    """
    anchor = finding.anchor
    head = (kernel.source.file, kernel.source.line) if kernel.source is not None else None
    if anchor is not None and (anchor.file, anchor.line) == head:
        return None
    lines = [place.line for place in finding.locations if place.kind == "amdgcn" and place.line]
    if not lines:
        return None
    around = [
        loop
        for loop in kernel.loops
        if any(first <= lines[0] <= last for first, last in loop.lines)
    ]
    return max(around, key=lambda loop: loop.depth, default=None)


def _whole(value: Scalar) -> Scalar:
    """A number without a fraction as an int; None for one with a fraction."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and value >= 1 else None
    return value


def _options_of(kernel: KernelReport) -> Mapping[str, Scalar]:
    """The options that a kernel was compiled with: those of its launch over Triton's defaults."""
    stated = dict(kernel.variant.options) if kernel.variant is not None else {}
    metadata = _metadata(kernel)
    scalars = {k: v for k, v in metadata.items() if isinstance(v, int | float | str | bool)}
    return {**scalars, **stated}


def option_names(kernel: KernelReport) -> frozenset[str]:
    """The options that a kernel's Triton has: its metadata states each, whoever has set it.

    Those of Triton 3.4 to 3.9 where the metadata is not at hand.
    """
    return frozenset(_metadata(kernel)) or frozenset(_DEFAULTS)


def _metadata(kernel: KernelReport) -> Mapping[str, object]:
    return artifact_metadata(kernel.artifacts.get("metadata")) or {}
