"""The result of holding two versions of Triton responsible for a figure, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from ...metrics.times import US as TIME_US
from ...model import TimeChange
from ..stages import Comparison
from ..times import time_change

Layer = Literal["front_end", "option_default", "ttgir", "llvm_ir", "llvm_flag", "llvm"]
"""A layer of the compiler. `front_end`: from Python to TTIR. `option_default`: defaults of the AMD
backend's options, and of the switches that environment variables set. `ttgir`: the passes from TTIR
to TTGIR. `llvm_ir`: from TTGIR to LLVM IR, with LLVM's optimiser. `llvm_flag`: flags, target
features and function attributes that Triton gives LLVM's code generator. `llvm`: that itself."""
LAYERS: tuple[Layer, ...] = (
    "front_end",
    "option_default",
    "ttgir",
    "llvm_ir",
    "llvm_flag",
    "llvm",
)
COMPILE_SECONDS = "compile_seconds"
"""The metric of the time that a compile takes: CPU seconds from TTIR to the code object."""

Change = Literal["content", "order", "none", "unknown"]


class Step(Struct, frozen=True):
    """One compile of the chain that leads from the left Triton to the right one.

    Consecutive steps differ in one layer, `layer`, or in several where a compile between failed.

    Args:
        layers: those in which it differs from the last step before it that compiled.
        metrics: its figures by name; a figure that is unknown is missing.
        seconds: stage -> wall seconds that it took, of the stages behind the input.
        problem: why it does not compile; None if it does.
        respelled: whether the input was put into the compiling build's spelling, which may lose
            attributes that the older Triton does not write.
        cpu_seconds: stage -> CPU seconds, as `seconds`.
    """

    input: str
    input_from: str
    compiled_by: str
    options_from: str
    layers: tuple[Layer, ...]
    metrics: Mapping[str, float]
    seconds: Mapping[str, float]
    problem: str | None = None
    respelled: bool = False
    cpu_seconds: Mapping[str, float] = {}


class Share(Struct, frozen=True):
    """What a layer, or several that no compile tells apart, changes in the metric.

    Args:
        delta: figure with the right Triton's layers, minus that with the left's; None if unknown.
    """

    layers: tuple[Layer, ...]
    delta: float | None


class SlowPass(Struct, frozen=True):
    """The pass whose time changes most between the compiles before and after a layer's exchange.

    Args:
        before, after: wall seconds that it takes in one compile, the least of all compiles; 0 where
            it does not run.
    """

    level: str
    name: str
    before: float
    after: float


class Verdict(Struct, frozen=True):
    """The layer that is held responsible.

    Args:
        layers: the first layer of the pipeline that changes the metric the way the whole does, and
            by half of it or more; the one that changes it most where none makes half. Several where
            no compile tells them apart. Empty where the metric does not differ.
        pass_name: the first MLIR pass whose result differs in content; None outside of `ttgir` and
            `llvm_ir`, or where no dump tells. For a default: what it changes first.
        bisected: whether it was found by running the left build's passes up to it and the right
            one's from there, so that the metric itself tells; then the first that matters.
        options: option or environment variable -> defaults on both sides, where `option_default`
            is responsible: the one that makes half of the change or more by itself, if one does.
            Where `llvm_flag` is: `flags`, `features` or an attribute's name -> what Triton gives
            LLVM on both sides; None for an attribute that it does not set.
        slow_pass: the pass whose time changes most, where the metric is the compile's time.
        change: whether what the layer makes differs in content or in order alone.
        share: the part of the metric's whole change, 1 for all; None where that is 0 or unknown.
    """

    layers: tuple[Layer, ...]
    pass_name: str | None = None
    only_left: tuple[str, ...] = ()
    only_right: tuple[str, ...] = ()
    pass_options: tuple[str, str] | None = None
    options: Mapping[str, tuple[object, object]] = {}
    change: Change = "unknown"
    share: float | None = None
    slow_pass: SlowPass | None = None
    bisected: bool = False


class Blame(Struct, frozen=True):
    """Two builds, the chain of compiles between them, and the verdict.

    Args:
        steps: the chain, from the left build's own compile to the right's.
        shares: what each layer changes, in the order of the pipeline.
        comparison: the same TTIR compiled by both, stage by stage; None where one does not.
        no_time: why the time of the launch is not known; "" where it is.
    """

    kernel: str
    arch: str
    left: str
    right: str
    versions: tuple[str, str]
    metric: str
    steps: tuple[Step, ...]
    shares: tuple[Share, ...]
    verdict: Verdict
    comparison: Comparison | None
    no_time: str = ""

    @property
    def time(self) -> TimeChange | None:
        """From the left build's code to the right's; None where it is not known of both."""
        before, after = (self.steps[end].metrics.get(TIME_US) for end in (0, -1))
        return time_change(before, after)
