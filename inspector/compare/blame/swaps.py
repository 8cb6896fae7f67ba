"""Compiles a kernel by two Tritons with one layer exchanged at a time.

The chain leads from the left build's own compile to the right build's own: first the right one's
code generator takes over (LLVM IR of the left), then its translation to LLVM IR (TTGIR of the
left), its passes on TTGIR (TTIR of the left), its option defaults, and its front end at last. What
the metric changes by from one compile to the next is that layer's doing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ... import machines
from ...capture.resolving import resolve
from ...capture.targets import Target
from ...compile.mlir_content import content_of
from ...compile.pool import Compiler, CompileResult
from ...compile.tritons import resolve as interpreter
from ...errors import KinspectError
from ...model import KernelReport, Variant
from ...pipeline.analysis import Context, analyze_text
from ...pipeline.capturing import COMPILED, variants_of
from ...pipeline.jobs import Request, settings_of
from ...pipeline.naming import label_of
from ..passdiff import kind_of
from ..stages import Comparison, Side, compare
from .respelling import newer_ttgir
from .results import Blame, Layer, Step
from .verdicts import differing_metric, shares_of, verdict_of

_HEADER = "; kinspect: "
"""See `guest.lowering.LLIR_HEADER`."""
_NO_OPTIONS = frozenset(
    # What a compile, not the user, decides, or what no version may take from another.
    ("arch", "backend_name", "extern_libs", "warp_size", "sanitize_overflow", "debug")
)


class _Compiled(Struct, frozen=True):
    """A compile with its report; `problem` says why there is none."""

    result: CompileResult
    report: KernelReport | None
    problem: str | None
    respelled: bool = False


class _Build(Struct, frozen=True):
    """A Triton of the run."""

    label: str
    version: str
    compiler: Compiler


def blame(request: Request, tritons: tuple[str, str], metric: str | None = None) -> Blame:
    """Finds the layer that makes a figure of one kernel differ between two Tritons.

    Args:
        request: one kernel, as a .py or .ttir file, and how it is compiled.
        tritons: interpreters or labels of the two, see `compile.tritons`.
        metric: the figure; None for the first of `verdicts.FIGURES` that differs.

    Raises:
        KinspectError: an unknown Triton, a target that is not one kernel's source, a kernel that a
            build does not compile, or a metric that the kernel does not have.
    """
    for arch in request.archs:
        machines.load(arch)
    targets = resolve(request.targets[0])
    if len(targets) != 1 or targets[0].kind not in COMPILED:
        raise KinspectError(f"{request.targets[0]}: not one compilable file", "pass a .py file")
    with ExitStack() as stack:
        left, right = (
            _build(name, stack.enter_context(Compiler(_settings(request, name))))
            for name in tritons
        )
        if left.label == right.label:
            left, right = (
                replace(build, label=f"{build.label} ({number})")
                for number, build in enumerate((left, right), 1)
            )
        return _Chain(request, targets[0], left, right).blame(metric)


def _settings(request: Request, name: str) -> Any:
    return settings_of(replace(request, python=interpreter(name).python, passes=True))


def _build(name: str, compiler: Compiler) -> _Build:
    version = compiler.toolchain().triton_version
    label = name if "/" not in name else f"Triton {version}"
    return _Build(label, version, compiler)


class _Chain(Struct):
    """The compiles between two builds."""

    request: Request
    target: Target
    left: _Build
    right: _Build

    def blame(self, metric: str | None) -> Blame:
        """See the function `blame`."""
        ours = self._variant(self.left)
        theirs = self._variant(self.right, ours)
        first, last = self._compiled(self.left, ours), self._compiled(self.right, theirs)
        for build, end in ((self.left, first), (self.right, last)):
            if end.problem is not None:
                raise KinspectError(f"{build.label}: {end.problem}", "both must compile it")
        defaults = self._defaults(first, last, ours)
        options = {**ours.options, **{name: pair[0] for name, pair in defaults.items()}}
        swapped = replace(ours, options=options)
        middle = self._compiled(self.right, swapped)
        plain = self._compiled(self.right, ours)
        a, b = self.left.label, self.right.label
        candidates: list[tuple[tuple[str, str, str, str], Layer | None, _Compiled]] = [
            (("source", a, a, a), None, first),
            (("llir", a, b, a), "llvm", self._from_llir(first, swapped)),
            (("ttgir", a, b, a), "llvm_ir", self._from_ttgir(first, swapped)),
            (("ttir", a, b, a), "ttgir", middle),
            (("ttir", a, b, b), "option_default", plain),
            (("source", b, b, b), "front_end", last),
        ]
        steps: list[Step] = []
        pending: list[Layer] = []
        for names, layer, compiled in candidates:
            if layer is not None:
                pending.insert(0, layer)
            steps.append(_step(names, tuple(pending), compiled))
            if compiled.problem is None:
                pending = []
        chosen = metric or differing_metric(steps)
        if chosen not in steps[0].metrics or chosen not in steps[-1].metrics:
            raise KinspectError(
                f"the kernel has no figure {chosen!r}", "see `kinspect metrics list`"
            )
        comparison = self._comparison(first, middle)
        shares = shares_of(steps, chosen)
        same_ttir = self._same_ttir(ours, theirs)
        return Blame(
            kernel=label_of(ours),
            arch=ours.arch,
            left=a,
            right=b,
            versions=(self.left.version, self.right.version),
            metric=chosen,
            steps=tuple(steps),
            shares=shares,
            verdict=verdict_of(shares, comparison, same_ttir, defaults),
            comparison=comparison,
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
        result = build.compiler.compile(variant)
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
        return _Compiled(result, reports[0], None)

    def _from_ttgir(self, first: _Compiled, variant: Variant) -> _Compiled:
        """Compiles the left build's TTGIR by the right one."""
        text = first.result.artifacts["ttgir"].path.read_text("utf-8")
        taken = replace(variant, ttir=text, stage="ttgir")
        compiled = self._compiled(self.right, taken)
        newer = newer_ttgir(text)
        if compiled.problem is None or newer == text:
            return compiled
        respelled = self._compiled(self.right, replace(taken, ttir=newer))
        return compiled if respelled.problem is not None else replace(respelled, respelled=True)

    def _from_llir(self, first: _Compiled, variant: Variant) -> _Compiled:
        """Compiles the left build's LLVM IR by the right one."""
        text = first.result.artifacts["llir"].path.read_text("utf-8")
        header = _HEADER + json.dumps(dict(first.result.metadata), default=str) + "\n"
        return self._compiled(self.right, replace(variant, ttir=header + text, stage="llir"))

    def _defaults(
        self, first: _Compiled, last: _Compiled, variant: Variant
    ) -> dict[str, tuple[object, object]]:
        """Returns the options that both have, nobody set, and whose defaults differ."""
        shared = set(self.left.compiler.toolchain().options)
        shared &= set(self.right.compiler.toolchain().options)
        left, right = first.result.metadata, last.result.metadata
        return {
            name: (left[name], right[name])
            for name in sorted(shared - _NO_OPTIONS - set(variant.options))
            if name in left and name in right and left[name] != right[name]
        }

    def _comparison(self, first: _Compiled, middle: _Compiled) -> Comparison | None:
        """Compares the same TTIR with the same options, compiled by both."""
        if middle.problem is not None:
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


def _step(names: tuple[str, str, str, str], layers: tuple[Layer, ...], made: _Compiled) -> Step:
    metrics: Mapping[str, float] = {}
    if made.report is not None:
        metrics = {
            name: metric.value
            for name, metric in made.report.metrics.items()
            if isinstance(metric.value, int | float) and not isinstance(metric.value, bool)
        }
    return Step(*names, layers, metrics, made.result.seconds, made.problem, made.respelled)
