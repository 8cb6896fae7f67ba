"""Compiles a kernel by two Tritons with one layer exchanged at a time.

The chain leads from the left build's own compile to the right build's own: first the right one's
code generator takes over (LLVM IR of the left), then the flags and attributes that it is given,
then the translation to LLVM IR (TTGIR of the left), the passes on TTGIR (TTIR of the left), the
front end, and the defaults of options and switches at last, since those matter to all of them. What
the metric changes by from one compile to the next is that layer's doing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from msgspec import Struct, field
from msgspec.structs import replace

from ...base.errors import KinspectError
from ...base.named_files import file_text
from ...capture.resolving import resolve
from ...compile.mlir_content import content_of
from ...compile.pool import CompileResult, LateStart, LlvmInputs
from ...compile.tritons import resolve as interpreter
from ...model import Variant
from ...pipeline.capturing import COMPILED
from ...pipeline.jobs import Request
from ...pipeline.naming import label_of
from ..passdiff import kind_of
from ..stages import Comparison, compare
from .blamed_layers import (
    COMPILE_SECONDS,
    Blame,
    Layer,
    Share,
    SlowPass,
    Step,
    Verdict,
    differing_metric,
    guilty_of,
    noise_of,
    shares_of,
    verdict_of,
)
from .compiles import (
    Build,
    Compiled,
    Kernel,
    build_of,
    cpu_seconds,
    figures_of,
    pass_dump,
    seconds_from_ttir,
    side_of,
    slow_pass,
)
from .exchanges import (
    Defaults,
    defaults_of,
    differences,
    exchanged,
    newer_spellings,
    with_attributes,
)
from .pass_bisection import guilty_passes


def blame(request: Request, tritons: tuple[str, str], metric: str | None = None) -> Blame:
    """Finds the layer that makes a figure of one kernel differ between two Tritons.

    Args:
        request: one kernel, as a .py or .ttir file, and how it is compiled.
        metric: the figure, or `results.COMPILE_SECONDS`; None for the first of `verdicts.FIGURES`
            that differs.

    Raises:
        KinspectError: an unknown Triton, a target that is not one kernel's source, a kernel that a
            build does not compile, or a metric that the kernel does not have.
    """
    targets = resolve(request.targets[0])
    if len(targets) != 1 or targets[0].kind not in COMPILED:
        raise KinspectError(f"{request.targets[0]}: not one compilable file", "pass a .py file")
    kernel = Kernel(request, targets[0], metric == COMPILE_SECONDS)
    with ExitStack() as stack:
        pythons = [interpreter(name).python for name in tritons]
        left, right = (
            build_of(name, stack.enter_context(kernel.compiler(python)))
            for name, python in zip(tritons, pythons, strict=True)
        )
        if left.label == right.label:
            left, right = (
                replace(build, label=f"{build.label} ({number})")
                for number, build in enumerate((left, right), 1)
            )
        chain = _Chain(kernel, left, right, pythons[1], stack)
        return chain.blame(metric)


class _Exchange(Struct, frozen=True):
    """A compile of the chain: what is exchanged in it, beyond the one before."""

    input: str
    input_from: str
    compiled_by: str
    options_from: str
    layers: tuple[Layer, ...]
    compiled: Compiled


class _Ends(Struct, frozen=True):
    """Both builds' own compiles, what their front ends make, and the defaults that differ."""

    ours: Variant
    theirs: Variant
    first: Compiled
    last: Compiled
    defaults: Defaults


class _Middle(Struct, frozen=True):
    """The right build with the left one's defaults: its front end's result, and two compiles.

    Args:
        swapped: the left build's TTIR, with the left build's options stated.
    """

    build: Build
    theirs: Variant
    swapped: Variant
    from_ttir: Compiled
    from_source: Compiled


class _Chain(Struct):
    """The compiles between two builds."""

    kernel: Kernel
    left: Build
    right: Build
    right_python: str
    stack: ExitStack
    _variants: dict[tuple[tuple[str, str], ...], tuple[Build, Variant]] = field(
        default_factory=dict
    )

    def blame(self, metric: str | None) -> Blame:
        """See the function `blame`."""
        ends = self._ends()
        middle = self._middle(ends)
        exchanges = self._exchanges(ends, middle)
        steps = self._steps(exchanges, ends.first)
        chosen = metric or differing_metric(steps)
        if chosen not in steps[0].metrics or chosen not in steps[-1].metrics:
            raise KinspectError(
                f"the kernel has no figure {chosen!r}", "see `kinspect metrics list`"
            )
        shares = shares_of(steps, chosen)
        noise = noise_of(chosen, steps[0].metrics[chosen], steps[-1].metrics[chosen])
        guilty = guilty_of(shares, noise)
        comparison = self._comparison(ends.first, middle.from_ttir)
        detail = comparison
        changed: Mapping[str, tuple[object, object]] = {}
        if guilty is not None and "option_default" in guilty.layers:
            changed = self._responsible_defaults(ends, guilty, chosen)
            # The same TTIR again: the front end may have heeded a switch too.
            older = self.kernel.compiled(middle.build, ends.defaults.left_options(ends.theirs))
            detail = self._comparison(older, ends.last)
        elif guilty is not None and "llvm_flag" in guilty.layers:
            changed = self._responsible_llvm_inputs(ends, middle, exchanges, guilty, chosen)
        verdict = verdict_of(
            guilty, shares, detail, self._same_ttir(ends.ours, middle.theirs), changed
        )
        if self.kernel.timed:
            verdict = replace(
                verdict, pass_name=None, slow_pass=_slow_pass(exchanges, guilty), change="unknown"
            )
        if verdict.layers == ("ttgir",) and not self.kernel.timed:
            verdict = self._bisected(verdict, ends.first, middle, steps, chosen)
        return Blame(
            kernel=label_of(ends.ours),
            arch=ends.ours.arch,
            left=self.left.label,
            right=self.right.label,
            versions=(self.left.version, self.right.version),
            metric=chosen,
            steps=tuple(steps),
            shares=shares,
            verdict=verdict,
            comparison=comparison,
            no_time=_no_time(ends),
        )

    def _ends(self) -> _Ends:
        """Returns both builds' own compiles."""
        ours = self.kernel.variant(self.left)
        theirs = self.kernel.variant(self.right, ours)
        first, last = (
            self.kernel.compiled(self.left, ours),
            self.kernel.compiled(self.right, theirs),
        )
        for build, end in ((self.left, first), (self.right, last)):
            if end.problem is not None:
                raise KinspectError(f"{build.label}: {end.problem}", "both must compile it")
        toolchains = [build.compiler.toolchain() for build in (self.left, self.right)]
        shared = frozenset(toolchains[0].options) & frozenset(toolchains[1].options)
        defaults = defaults_of(first.result, last.result, shared, ours)
        return _Ends(ours, theirs, first, last, defaults)

    def _middle(self, ends: _Ends) -> _Middle:
        build, theirs = self._with_switches(ends, ends.defaults)
        swapped = ends.defaults.left_options(ends.ours)
        theirs = ends.defaults.left_options(theirs)
        from_ttir = self.kernel.compiled(build, swapped)
        from_source = self.kernel.compiled(build, theirs) if ends.defaults else ends.last
        return _Middle(build, theirs, swapped, from_ttir, from_source)

    def _exchanges(self, ends: _Ends, middle: _Middle) -> list[_Exchange]:
        """Returns the chain of compiles."""
        a, b = self.left.label, self.right.label
        chain = [_Exchange("source", a, a, a, (), ends.first)]
        theirs = self._llvm_reference(middle).result.llvm
        ours = ends.first.result.llvm
        if ours is not None and theirs is not None:
            generated = self._from_llir(ends.first, middle, ours, ours)
            flagged = generated
            if ours != theirs:
                flagged = self._from_llir(ends.first, middle, ours, theirs)
            chain.append(_Exchange("llir", a, b, a, ("llvm",), generated))
            chain.append(_Exchange("llir", a, b, a, ("llvm_flag",), flagged))
        else:
            generated = self._from_llir(ends.first, middle, None, None)
            chain.append(_Exchange("llir", a, b, a, ("llvm_flag", "llvm"), generated))
        from_ttgir = self._from_ttgir(ends.first, middle)
        return [
            *chain,
            _Exchange("ttgir", a, b, a, ("llvm_ir",), from_ttgir),
            _Exchange("ttir", a, b, a, ("ttgir",), middle.from_ttir),
            _Exchange("source", b, b, a, ("front_end",), middle.from_source),
            _Exchange("source", b, b, b, ("option_default",), ends.last),
        ]

    def _llvm_reference(self, middle: _Middle) -> Compiled:
        """Returns the right build's compile with the left one's defaults."""
        return middle.from_source if middle.from_ttir.problem is not None else middle.from_ttir

    def _steps(self, exchanges: Sequence[_Exchange], first: Compiled) -> list[Step]:
        steps: list[Step] = []
        pending: tuple[Layer, ...] = ()
        for item in exchanges:
            pending = (*item.layers, *pending)
            compiled = item.compiled
            times = cpu_seconds(compiled.result)
            metrics = dict(figures_of(compiled))
            seconds = seconds_from_ttir(times, item.input, cpu_seconds(first.result))
            if self.kernel.timed and compiled.problem is None and seconds is not None:
                metrics[COMPILE_SECONDS] = seconds
            steps.append(
                Step(
                    input=item.input,
                    input_from=item.input_from,
                    compiled_by=item.compiled_by,
                    options_from=item.options_from,
                    layers=pending,
                    metrics=metrics,
                    seconds=compiled.result.seconds,
                    cpu_seconds=times,
                    problem=compiled.problem,
                    respelled=compiled.respelled,
                )
            )
            if compiled.problem is None:
                pending = ()
        return steps

    def _with_switches(self, ends: _Ends, defaults: Defaults) -> tuple[Build, Variant]:
        """Returns the right build with switches set as the left's, and what its front end makes."""
        environment = defaults.environment()
        if not environment:
            return self.right, ends.theirs
        if environment not in self._variants:
            compiler = self.kernel.compiler(self.right_python, environment)
            build = replace(self.right, compiler=self.stack.enter_context(compiler))
            self._variants[environment] = build, self.kernel.variant(build, ends.ours)
        return self._variants[environment]

    def _responsible_defaults(
        self, ends: _Ends, guilty: Share, metric: str
    ) -> Mapping[str, tuple[object, object]]:
        """Returns the defaults that alone make half of the change or more; all if none does."""
        every = ends.defaults.both()
        if len(every) < 2 or not guilty.delta or self.kernel.timed:
            return every
        last = figures_of(ends.last)[metric]
        chosen = {}
        for name, pair in every.items():
            single = ends.defaults.only(name)
            build, theirs = self._with_switches(ends, single)
            compiled = self.kernel.compiled(build, single.left_options(theirs))
            figure = figures_of(compiled).get(metric)
            if figure is not None and (last - figure) / guilty.delta >= 0.5:
                chosen[name] = pair
        return chosen or every

    def _responsible_llvm_inputs(
        self,
        ends: _Ends,
        middle: _Middle,
        exchanges: Sequence[_Exchange],
        guilty: Share,
        metric: str,
    ) -> Mapping[str, tuple[object, object]]:
        """Returns what alone makes half of the change or more; all that differs if nothing does."""
        ours, theirs = ends.first.result.llvm, self._llvm_reference(middle).result.llvm
        if ours is None or theirs is None:
            return {}
        every = differences(ours, theirs)
        before = next((x.compiled for x in exchanges if x.layers == ("llvm",)), None)
        if len(every) < 2 or not guilty.delta or before is None or self.kernel.timed:
            return every
        figure = figures_of(before).get(metric)
        chosen = {}
        for name, pair in every.items():
            single = self._from_llir(ends.first, middle, ours, exchanged(ours, theirs, name))
            with_it = figures_of(single).get(metric)
            if figure is None or with_it is None:
                continue
            if (with_it - figure) / guilty.delta >= 0.5:
                chosen[name] = pair
        return chosen or every

    def _bisected(
        self,
        verdict: Verdict,
        first: Compiled,
        middle: _Middle,
        steps: Sequence[Step],
        metric: str,
    ) -> Verdict:
        """Returns the verdict with the pass on TTGIR that changes the metric, if one is found."""
        figures = {step.input: step.metrics.get(metric) for step in steps if step.input != "llir"}
        by_left, by_right = figures.get("ttgir"), figures.get("ttir")
        dumps = [pass_dump(compiled) for compiled in (first, middle.from_ttir)]
        if by_left is None or by_right is None or dumps[0] is None or dumps[1] is None:
            return verdict

        def measure(module: str, skipped: int, passes: int) -> float | None:
            start = LateStart(skipped, passes)
            for text in (module, *newer_spellings(module)):
                rest = replace(middle.swapped, ttir=text, stage="ttgir")
                compiled = self.kernel.compiled(middle.build, rest, start)
                if compiled.problem is None:
                    return figures_of(compiled).get(metric)
            return None

        guilty = guilty_passes((dumps[0], dumps[1]), (by_left, by_right), measure)
        if guilty is None:
            return verdict
        return replace(
            verdict,
            pass_name=guilty.name,
            only_left=guilty.only_left,
            only_right=guilty.only_right,
            pass_options=guilty.options,
            bisected=True,
        )

    def _from_ttgir(self, first: Compiled, middle: _Middle) -> Compiled:
        """Compiles the left build's TTGIR by the right one."""
        text = file_text(first.result.artifacts["ttgir"].path)
        taken = replace(middle.swapped, ttir=text, stage="ttgir")
        compiled = self.kernel.compiled(middle.build, taken)
        if compiled.problem is None:
            return compiled
        for newer in newer_spellings(text):
            respelled = self.kernel.compiled(middle.build, replace(taken, ttir=newer))
            if respelled.problem is None:
                return replace(respelled, respelled=True)
        return compiled

    def _from_llir(
        self,
        first: Compiled,
        middle: _Middle,
        ours: LlvmInputs | None,
        handed: LlvmInputs | None,
    ) -> Compiled:
        """Compiles the left build's LLVM IR by the right one."""
        text = file_text(first.result.artifacts["llir"].path)
        start = LateStart(metadata=first.result.metadata)
        if ours is not None and handed is not None:
            changed = with_attributes(text, ours.attributes, handed.attributes)
            if changed is None:
                problem = "the kernel's attributes cannot be found in the LLVM IR"
                return Compiled(CompileResult(middle.swapped), None, problem)
            text = changed
            start = replace(start, flags=handed.flags, features=handed.features)
        variant = replace(middle.swapped, ttir=text, stage="llir")
        return self.kernel.compiled(middle.build, variant, start)

    def _comparison(self, first: Compiled, middle: Compiled) -> Comparison | None:
        """Compares two compiles of the same TTIR with the same options."""
        if first.problem is not None or middle.problem is not None:
            return None
        return compare(side_of(self.left.label, first), side_of(self.right.label, middle))

    def _same_ttir(self, ours: Variant, theirs: Variant) -> bool:
        """Tells whether both front ends make the same TTIR, the order of statements aside."""
        kind = kind_of(
            content_of(ours.ttir),
            content_of(theirs.ttir),
            printed_alike=self.left.version == self.right.version,
        )
        return kind in (None, "order")


def _no_time(ends: _Ends) -> str:
    """Why the time of a build's code is not known; "" where it is of both."""
    reports = (ends.first.report, ends.last.report)
    return next((r.no_time for r in reports if r is not None and r.no_time), "")


def _slow_pass(exchanges: Sequence[_Exchange], guilty: Share | None) -> SlowPass | None:
    """Returns the pass whose time changes most as the guilty layers are exchanged."""
    if guilty is None:
        return None
    before = exchanges[0].compiled
    for item in exchanges[1:]:
        if item.compiled.problem is not None:
            continue
        if set(item.layers) & set(guilty.layers):
            return slow_pass(before.times, item.compiled.times)
        # A compile of LLVM IR has no times of MLIR's passes.
        if item.input != "llir" or guilty.layers[0] in ("llvm", "llvm_flag"):
            before = item.compiled
    return None
