"""Replaces Triton's benchmark helpers: a function runs once, and its time is one millisecond."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import itertools
import os
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..sampling import ends_and_middle
from .assumptions import LOG
from .stubs import Inert

MILLISECONDS = 1.0


def run_once(
    fn: Callable[[], Any],
    *args: Any,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
    grad_to_none: Sequence[Any] | None = None,
    **kwargs: Any,
) -> Any:
    """Triton's `do_bench`: runs `fn` once.

    Returns:
        Milliseconds as Triton's does: a number, a list for `return_mode="all"` or for more than
        one quantile.
    """
    for tensor in grad_to_none or ():
        tensor.grad = None
    fn()
    time = LOG.time(MILLISECONDS)
    if quantiles is not None:
        return [time] * len(quantiles) if len(quantiles) != 1 else time
    return [time] if return_mode == "all" else time


def install(
    note: Callable[[str], None], max_values: int | None, *, failures_are_real: bool
) -> None:
    """Replaces Triton's benchmark helpers in this process.

    `max_values` limits the x values of each benchmark; None for all. With `failures_are_real` what
    a benchmark raises ends the script, as Triton has it; else it becomes a note, and the next point
    is run.
    """
    os.environ.setdefault("MPLBACKEND", "Agg")
    testing: Any = importlib.import_module("triton.testing")
    for name in ("do_bench", "do_bench_cudagraph", "do_bench_proton", "do_bench_cudagraph_proton"):
        if hasattr(testing, name):
            setattr(testing, name, run_once)
    triton = importlib.import_module("triton")
    for name in ("do_bench", "do_bench_cudagraph"):  # older Triton exports them
        if hasattr(triton, name):
            setattr(triton, name, run_once)
    testing.set_gpu_clock = _set_gpu_clock
    testing.Mark.run = _mark_run(testing.Benchmark, note, max_values, failures_are_real)
    _vendor_libraries()


def _vendor_libraries() -> None:
    """Replaces the handles of hipBLASLt and cuBLAS that tutorials make, which would need a GPU."""
    library = importlib.import_module("triton._C.libtriton")
    for backend, module, handle in (
        ("amd", "hipblas", "HipblasLt"),
        ("nvidia", "cublas", "CublasLt"),
    ):
        part = getattr(getattr(library, backend, None), module, None)
        if part is not None and hasattr(part, handle):
            setattr(part, handle, Inert)


@contextlib.contextmanager
def _set_gpu_clock(ref_sm_clock: int = 1350, ref_mem_clock: int = 1215) -> Iterator[Any]:
    """Triton's `set_gpu_clock`, which yields TFLOPS and GB/s by its own formula."""
    yield 2e-6 * 108 * 4 * 256 * ref_sm_clock, 640 * 2 * ref_mem_clock * 1e-3


class EmptyTable(list):  # type: ignore[type-arg]
    """The empty results of a benchmark, in place of a data frame."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: self

    def __getitem__(self, key: Any) -> Any:
        return self

    def __repr__(self) -> str:
        return "(benchmarks are not measured)"

    __str__ = __repr__


def _mark_run(
    benchmark_class: type,
    note: Callable[[str], None],
    max_values: int | None,
    failures_are_real: bool,
) -> Callable[..., Any]:
    """A `Mark.run` that runs some x values with every line, and raises or notes failures."""

    def run(
        self: Any,
        show_plots: bool = False,
        print_data: bool = False,
        save_path: str = "",
        return_df: bool = False,
        **kwargs: Any,
    ) -> Any:
        single = isinstance(self.benchmarks, benchmark_class)
        benchmarks = [self.benchmarks] if single else list(self.benchmarks)
        for benchmark in benchmarks:
            all_values = list(benchmark.x_vals)
            x_vals = ends_and_middle(all_values, max_values)
            if len(x_vals) < len(all_values):
                note(
                    f"benchmark {benchmark.plot_name}: {len(x_vals)} of {len(all_values)} values of"
                    f" {', '.join(benchmark.x_names)} are run (--tests all: every one)"
                )
            for x, line in itertools.product(x_vals, benchmark.line_vals):
                values = list(x) if isinstance(x, (list, tuple)) else [x] * len(benchmark.x_names)
                x_values = dict(zip(benchmark.x_names, values))
                stated = {**x_values, benchmark.line_arg: line, **benchmark.args}
                try:
                    self.fn(**stated, **_accepted_arguments(self.fn, kwargs))
                except Exception as error:
                    if failures_are_real:
                        raise
                    point = f"{benchmark.plot_name} at {x_values}, {benchmark.line_arg}={line}"
                    note(f"benchmark {point}: {failure(error)}")
        tables = [EmptyTable() for _ in benchmarks]
        return (tables[0] if single else tables) if return_df else None

    return run


def _accepted_arguments(fn: Callable[..., Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    try:
        parameters = inspect.signature(fn).parameters
    except (TypeError, ValueError):
        return kwargs
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return kwargs
    return {name: value for name, value in kwargs.items() if name in parameters}


def failure(error: BaseException) -> str:
    """An exception in one line, with the innermost line of code that is not a library's."""
    frames = traceback.extract_tb(error.__traceback__)
    user_frames = [
        f for f in frames if "site-packages" not in f.filename and f.filename != __file__
    ]
    frame = (user_frames or list(frames))[-1:]
    text = " ".join(str(error).split())[:200]
    site = f" ({os.path.basename(frame[0].filename)}:{frame[0].lineno})" if frame else ""
    return f"{type(error).__name__}: {text}{site}"
