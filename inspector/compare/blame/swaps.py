"""Compiles a kernel by two Tritons with one layer exchanged at a time.

The chain leads from the left build's own compile to the right build's own: first the right one's
code generator takes over (LLVM IR of the left), then the flags and attributes that it is given,
then the translation to LLVM IR (TTGIR of the left), the passes on TTGIR (TTIR of the left), the
front end, and the defaults of options and switches at last, since those matter to all of them. What
the metric changes by from one compile to the next is that layer's doing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from ... import machines
from ...capture.resolving import resolve
from ...capture.targets import Target
from ...compile.llvm_passes import TIMING, PassTime
from ...compile.mlir_content import content_of
from ...compile.passes import PassDump, read_passes
from ...compile.pool import Compiler, CompileResult, LlvmInputs
from ...compile.tritons import resolve as interpreter
from ...errors import KinspectError
from ...model import KernelReport, Variant
from ...pipeline.analysis import Context, analyze_text
from ...pipeline.capturing import COMPILED, variants_of
from ...pipeline.jobs import Request, settings_of
from ...pipeline.naming import label_of
from ..passdiff import kind_of
from ..stages import Comparison, Side, compare
from .attributes import with_attributes
from .defaults import Defaults, defaults_of
from .pass_bisection import guilty_passes
from .respelling import newer_spellings
from .results import COMPILE_SECONDS, Blame, Layer, Share, SlowPass, Step, Verdict
from .timing import cpu_seconds, fastest, seconds_from_ttir, slow_pass
from .verdicts import differing_metric, guilty_of, shares_of, verdict_of

_HEADER = "; kinspect: "
"""See `guest.lowering.LLIR_HEADER`."""
REST_HEADER = "// kinspect: "
"""See `guest.remaining_passes.HEADER`."""


class _Compiled(Struct, frozen=True):
    """A compile with its report; `problem` says why there is none."""

    result: CompileResult
    report: KernelReport | None
    problem: str | None
    respelled: bool = False
    times: tuple[PassTime, ...] = ()


class _Build(Struct, frozen=True):
    """A Triton of the run, with the environment that its compiler sets."""

    label: str
    version: str
    compiler: Compiler


def blame(request: Request, tritons: tuple[str, str], metric: str | None = None) -> Blame:
    """Finds the layer that makes a figure of one kernel differ between two Tritons.

    Args:
        request: one kernel, as a .py or .ttir file, and how it is compiled.
        tritons: interpreters or labels of the two, see `compile.tritons`.
        metric: the figure, or `results.COMPILE_SECONDS`; None for the first of `verdicts.FIGURES`
            that differs.

    Raises:
        KinspectError: an unknown Triton, a target that is not one kernel's source, a kernel that a
            build does not compile, or a metric that the kernel does not have.
    """
    for arch in request.archs:
        machines.load(arch)
    targets = resolve(request.targets[0])
    if len(targets) != 1 or targets[0].kind not in COMPILED:
        raise KinspectError(f"{request.targets[0]}: not one compilable file", "pass a .py file")
    timed = metric == COMPILE_SECONDS
    with ExitStack() as stack:
        pythons = [interpreter(name).python for name in tritons]
        left, right = (
            _build(name, stack.enter_context(_compiler(request, python, timed)))
            for name, python in zip(tritons, pythons, strict=True)
        )
        if left.label == right.label:
            left, right = (
                replace(build, label=f"{build.label} ({number})")
                for number, build in enumerate((left, right), 1)
            )
        chain = _Chain(request, targets[0], left, right, pythons[1], stack, timed)
        return chain.blame(metric)


def _compiler(
    request: Request, python: str, timed: bool, environment: tuple[tuple[str, str], ...] = ()
) -> Compiler:
    """Returns a compiler that also dumps the passes, or one that prints their times."""
    settings: Any = settings_of(replace(request, python=python, passes=not timed))
    return Compiler(replace(settings, environment=(*environment, *(TIMING if timed else ()))))


def _build(name: str, compiler: Compiler) -> _Build:
    version = compiler.toolchain().triton_version
    label = name if "/" not in name else f"Triton {version}"
    return _Build(label, version, compiler)


class _Exchange(Struct, frozen=True):
    """A compile of the chain: what is exchanged in it, beyond the one before."""

    input: str
    input_from: str
    compiled_by: str
    options_from: str
    layers: tuple[Layer, ...]
    compiled: _Compiled


class _Ends(Struct, frozen=True):
    """Both builds' own compiles, what their front ends make, and the defaults that differ."""

    ours: Variant
    theirs: Variant
    first: _Compiled
    last: _Compiled
    defaults: Defaults


class _Middle(Struct, frozen=True):
    """The right build with the left one's defaults: its front end's result, and two compiles.

    Args:
        build: the right build, its switches set as the left's.
        theirs: what its front end makes.
        swapped: the left build's TTIR, with the left build's options stated.
        from_ttir: compile of `swapped`.
        from_source: compile of `theirs`.
    """

    build: _Build
    theirs: Variant
    swapped: Variant
    from_ttir: _Compiled
    from_source: _Compiled


class _Chain(Struct):
    """The compiles between two builds.

    Args:
        request: the kernel, and how it is compiled.
        target: the request's target.
        left, right: the builds.
        right_python: interpreter of the right one.
        stack: closes further compilers.
        timed: whether the metric is the compile's time.
    """

    request: Request
    target: Target
    left: _Build
    right: _Build
    right_python: str
    stack: ExitStack
    timed: bool
    _variants: dict[tuple[tuple[str, str], ...], tuple[_Build, Variant]] = field(
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
        guilty = guilty_of(shares, steps[0].metrics[chosen], timed=self.timed)
        comparison = self._comparison(ends.first, middle.from_ttir)
        detail = comparison
        changed: Mapping[str, tuple[object, object]] = {}
        if guilty is not None and "option_default" in guilty.layers:
            changed = self._responsible_defaults(ends, guilty, chosen)
            # The same TTIR again: the front end may have heeded a switch too.
            older = self._compiled(middle.build, ends.defaults.left_options(ends.theirs))
            detail = self._comparison(older, ends.last)
        elif guilty is not None and "llvm_flag" in guilty.layers:
            changed = _llvm_differences(ends.first, self._llvm_reference(middle))
        verdict = verdict_of(
            guilty, shares, detail, self._same_ttir(ends.ours, middle.theirs), changed
        )
        if self.timed:
            verdict = replace(
                verdict, pass_name=None, slow_pass=_slow_pass(exchanges, guilty), change="unknown"
            )
        if verdict.layers == ("ttgir",) and not self.timed:
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
        )

    def _ends(self) -> _Ends:
        """Returns both builds' own compiles.

        Raises:
            KinspectError: one does not compile the kernel.
        """
        ours = self._variant(self.left)
        theirs = self._variant(self.right, ours)
        first, last = self._compiled(self.left, ours), self._compiled(self.right, theirs)
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
        from_ttir = self._compiled(build, swapped)
        from_source = self._compiled(build, theirs) if ends.defaults else ends.last
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

    def _llvm_reference(self, middle: _Middle) -> _Compiled:
        """Returns the right build's compile with the left one's defaults."""
        return middle.from_source if middle.from_ttir.problem is not None else middle.from_ttir

    def _steps(self, exchanges: Sequence[_Exchange], first: _Compiled) -> list[Step]:
        steps: list[Step] = []
        pending: tuple[Layer, ...] = ()
        for item in exchanges:
            pending = (*item.layers, *pending)
            compiled = item.compiled
            times = cpu_seconds(compiled.result)
            metrics = dict(_figures(compiled))
            seconds = seconds_from_ttir(times, item.input, cpu_seconds(first.result))
            if self.timed and compiled.problem is None and seconds is not None:
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

    def _with_switches(self, ends: _Ends, defaults: Defaults) -> tuple[_Build, Variant]:
        """Returns the right build with switches set as the left's, and what its front end makes."""
        environment = defaults.environment()
        if not environment:
            return self.right, ends.theirs
        if environment not in self._variants:
            compiler = _compiler(self.request, self.right_python, self.timed, environment)
            build = replace(self.right, compiler=self.stack.enter_context(compiler))
            self._variants[environment] = build, self._variant(build, ends.ours)
        return self._variants[environment]

    def _responsible_defaults(
        self, ends: _Ends, guilty: Share, metric: str
    ) -> Mapping[str, tuple[object, object]]:
        """Returns the defaults that alone make half of the change or more; all if none does."""
        every = ends.defaults.both()
        if len(every) < 2 or not guilty.delta or self.timed:
            return every
        last = _figures(ends.last)[metric]
        chosen = {}
        for name, pair in every.items():
            single = ends.defaults.only(name)
            build, theirs = self._with_switches(ends, single)
            compiled = self._compiled(build, single.left_options(theirs))
            figure = _figures(compiled).get(metric)
            if figure is not None and (last - figure) / guilty.delta >= 0.5:
                chosen[name] = pair
        return chosen or every

    def _bisected(
        self,
        verdict: Verdict,
        first: _Compiled,
        middle: _Middle,
        steps: Sequence[Step],
        metric: str,
    ) -> Verdict:
        """Returns the verdict with the pass on TTGIR that changes the metric, if one is found."""
        figures = {step.input: step.metrics.get(metric) for step in steps if step.input != "llir"}
        by_left, by_right = figures.get("ttgir"), figures.get("ttir")
        dumps = [_pass_dump(compiled) for compiled in (first, middle.from_ttir)]
        if by_left is None or by_right is None or dumps[0] is None or dumps[1] is None:
            return verdict

        def measure(module: str, skipped: int, passes: int) -> float | None:
            header = f"{REST_HEADER}{json.dumps({'skipped': skipped, 'passes': passes})}\n"
            for text in (module, *newer_spellings(module)):
                rest = replace(middle.swapped, ttir=header + text, stage="ttgir")
                compiled = self._compiled(middle.build, rest)
                if compiled.problem is None:
                    return _figures(compiled).get(metric)
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

    def _variant(self, build: _Build, like: Variant | None = None) -> Variant:
        """Returns the kernel as a build's own front end makes it.

        Raises:
            KinspectError: there is not one such kernel.
        """
        variants, errors = variants_of(self.target, self.request, build.compiler)
        if like is not None:
            name = label_of(like)
            variants = [v for v in variants if label_of(v) == name and v.arch == like.arch][:1]
        if not variants:
            reason = errors[0].message if errors else "no kernel in it"
            raise KinspectError(f"{build.label}: {reason}", "see `kinspect analyze`")
        if len(variants) > 1:
            names = ", ".join(label_of(v) for v in variants[:8])
            raise KinspectError(
                f"{self.request.targets[0]}: it has {len(variants)} kernels",
                f"choose one with --kernel: {names}",
            )
        return variants[0]

    def _compiled(self, build: _Build, variant: Variant) -> _Compiled:
        times: tuple[PassTime, ...] = ()
        if self.timed:
            result, times = fastest(build.compiler, variant)
        else:
            result = build.compiler.compile(variant)
            if result.from_store and (result.llvm is None or result.switches is None):
                # Stored by a version that did not record them.
                result = build.compiler.compile(variant, anew=True)
        if result.error is not None:
            return _Compiled(result, None, result.error.message)
        assembly = result.artifacts["amdgcn"].path.read_text("utf-8", "replace")
        context = Context(
            str(self.target.path),
            arch=variant.arch,
            metadata=result.metadata,
            variant=variant,
            artifacts=result.artifacts,
        )
        reports = list(analyze_text(assembly, context))
        if len(reports) != 1:
            return _Compiled(result, None, f"{len(reports)} kernels in its assembly")
        return _Compiled(result, reports[0], None, times=times)

    def _from_ttgir(self, first: _Compiled, middle: _Middle) -> _Compiled:
        """Compiles the left build's TTGIR by the right one."""
        text = first.result.artifacts["ttgir"].path.read_text("utf-8")
        taken = replace(middle.swapped, ttir=text, stage="ttgir")
        compiled = self._compiled(middle.build, taken)
        if compiled.problem is None:
            return compiled
        for newer in newer_spellings(text):
            respelled = self._compiled(middle.build, replace(taken, ttir=newer))
            if respelled.problem is None:
                return replace(respelled, respelled=True)
        return compiled

    def _from_llir(
        self,
        first: _Compiled,
        middle: _Middle,
        ours: LlvmInputs | None,
        handed: LlvmInputs | None,
    ) -> _Compiled:
        """Compiles the left build's LLVM IR by the right one.

        Args:
            first: the left build's compile.
            middle: the right build, with the left one's defaults.
            ours: what the left build hands to the code generator; None if unknown.
            handed: what is handed to it in place of that; None for the right build's flags.
        """
        text = first.result.artifacts["llir"].path.read_text("utf-8")
        llvm = None
        if ours is not None and handed is not None:
            changed = with_attributes(text, ours.attributes, handed.attributes)
            if changed is None:
                problem = "the kernel's attributes cannot be found in the LLVM IR"
                return _Compiled(CompileResult(middle.swapped), None, problem)
            text = changed
            llvm = {"flags": list(handed.flags), "features": handed.features}
        given = {"metadata": dict(first.result.metadata), "llvm": llvm}
        header = _HEADER + json.dumps(given, default=str) + "\n"
        variant = replace(middle.swapped, ttir=header + text, stage="llir")
        return self._compiled(middle.build, variant)

    def _comparison(self, first: _Compiled, middle: _Compiled) -> Comparison | None:
        """Compares two compiles of the same TTIR with the same options."""
        if first.problem is not None or middle.problem is not None:
            return None
        return compare(_side(self.left.label, first), _side(self.right.label, middle))

    def _same_ttir(self, ours: Variant, theirs: Variant) -> bool:
        """Tells whether both front ends make the same TTIR, the order of statements aside."""
        kind = kind_of(
            content_of(ours.ttir),
            content_of(theirs.ttir),
            printed_alike=self.left.version == self.right.version,
        )
        return kind in (None, "order")


def _side(label: str, compiled: _Compiled) -> Side:
    result = compiled.result
    ends = tuple((s.stage, s.dump_bytes) for s in result.stages if s.dump_bytes is not None)
    return Side(label, result.artifacts, ends, compiled.report)


def _pass_dump(compiled: _Compiled) -> PassDump | None:
    side = _side("", compiled)
    artifact = side.artifacts.get("passes")
    return None if artifact is None else read_passes(artifact.path, side.stage_ends, changes=False)


def _figures(compiled: _Compiled) -> Mapping[str, float]:
    if compiled.report is None:
        return {}
    return {
        name: metric.value
        for name, metric in compiled.report.metrics.items()
        if isinstance(metric.value, int | float) and not isinstance(metric.value, bool)
    }


def _llvm_differences(
    first: _Compiled, reference: _Compiled
) -> Mapping[str, tuple[object, object]]:
    """Returns what two builds hand to LLVM's code generator where it differs."""
    ours, theirs = first.result.llvm, reference.result.llvm
    if ours is None or theirs is None:
        return {}
    pairs: dict[str, tuple[object, object]] = {
        "flags": (", ".join(ours.flags), ", ".join(theirs.flags)),
        "features": (ours.features, theirs.features),
    }
    for name in sorted({*ours.attributes, *theirs.attributes}):
        pairs[name] = ours.attributes.get(name), theirs.attributes.get(name)
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


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
