"""Describes the GPU that kernels run on: name, target, driver and clocks.

Times calls on a device, with a warm-up, flushed caches, and a rule for when to stop.

A run is timed by two events on the device's stream, from the start of its first kernel to the end
of its last. Before each run a buffer larger than any cache is overwritten, as Triton's `do_bench`
does, so that inputs come from memory. It is overwritten as often as it takes the host to enqueue
the whole call: otherwise a short kernel's time would be that of its launch.

The rule is gpumode's: at most 100 runs; from the third on stop as soon as the standard error of the
mean is below 0.1 % of it, or the runs together took 10 s.
"""

from __future__ import annotations

import json
import math
import os
import platform
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Optional

QUERY_SECONDS = 10.0

Query = Callable[[Sequence[str]], Optional[str]]  # noqa: UP045  (evaluated, in Python 3.9 too)
"""Runs a command and returns its output; None if it is missing or failed."""


def query(command: Sequence[str]) -> str | None:
    """Output of a command; None if it is missing or failed."""
    try:
        program = shutil.which(command[0], path=_absolute_path())
        if program is None:
            return None
        words = [program, *command[1:]]
        completed = subprocess.run(
            words, capture_output=True, text=True, timeout=QUERY_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return completed.stdout if completed.returncode == 0 else None


def _absolute_path() -> str:
    """PATH without the folders that are relative to the working one."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(filter(os.path.isabs, folders))


def describe(torch: Any) -> dict[str, Any]:
    """Name, target and size of the current GPU, and the versions of the software on it."""
    properties = torch.cuda.get_device_properties(0)
    hip = torch.version.hip
    if hip:
        arch = str(getattr(properties, "gcnArchName", "")).partition(":")[0] or None
    else:
        arch = f"sm_{properties.major}{properties.minor}"
    return {
        "device": {
            "name": torch.cuda.get_device_name(0),
            "arch": arch,
            "backend": "hip" if hip else "cuda",
            "compute_units": properties.multi_processor_count,
            "memory_bytes": properties.total_memory,
        },
        "versions": {
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "triton": _version("triton"),
            "driver": driver(torch),
            "cuda": torch.version.cuda,
            "hip": hip,
        },
    }


def driver(torch: Any, query: Query = query) -> str | None:
    """The driver's version; None if unknown."""
    if torch.version.hip:
        try:
            with open("/sys/module/amdgpu/version", encoding="ascii") as stream:
                return stream.read().strip() or None
        except OSError:
            return None
    reply = query([*_nvidia_smi(torch), "--query-gpu=driver_version"])
    return reply.strip().splitlines()[0].strip() if reply and reply.strip() else None


def clocks(torch: Any, query: Query = query) -> dict[str, int | None]:
    """Present clocks in MHz: `core_mhz`, `core_max_mhz`, `memory_mhz`; None for unknown ones."""
    none: dict[str, int | None] = {"core_mhz": None, "core_max_mhz": None, "memory_mhz": None}
    if torch.version.hip:
        return {**none, **_amd_clocks(query)}
    reply = query([*_nvidia_smi(torch), "--query-gpu=clocks.sm,clocks.max.sm,clocks.mem"])
    if not reply or not reply.strip():
        return none
    figures = [_number(cell) for cell in reply.strip().splitlines()[0].split(",")]
    return dict(zip(none, figures)) if len(figures) == len(none) else none


def _nvidia_smi(torch: Any) -> list[str]:
    """The command for torch's device 0, which CUDA_VISIBLE_DEVICES may have reordered."""
    command = ["nvidia-smi", "--format=csv,noheader,nounits"]
    uuid = str(getattr(torch.cuda.get_device_properties(0), "uuid", "") or "")
    if uuid:
        command.append("--id=" + (uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"))
    return command


def _amd_clocks(query: Query) -> dict[str, int | None]:
    reply = query(["rocm-smi", "--showclocks", "--json"])
    try:
        cards = json.loads(reply or "")
        card = next(value for key, value in sorted(cards.items()) if key.startswith("card"))
    except (ValueError, AttributeError, StopIteration):
        return {}
    figures: dict[str, int | None] = {}
    for key, value in card.items():
        if "sclk clock speed" in key:
            figures["core_mhz"] = _number(str(value))
        elif "mclk clock speed" in key:
            figures["memory_mhz"] = _number(str(value))
    return figures


def _number(text: str) -> int | None:
    match = re.search(r"\d+", text)
    return int(match[0]) if match is not None else None


def _version(name: str) -> str | None:
    try:
        module = __import__(name)
    except ImportError:
        return None
    return str(getattr(module, "__version__", "")) or None


FLUSH_BYTES = 256 << 20  # the size of MI300X's Infinity Cache; L2 caches are smaller
MAX_FLUSHES = 64
FLUSHES_OVER_LAUNCH = 1.5  # margin over the time that the host takes to enqueue a call


class TorchGpu:
    """The GPU that torch sees, CUDA or ROCm; `flush_us` is the time of one flush of the caches."""

    def __init__(self, torch: Any) -> None:
        self.torch_device = "cuda"  # also in ROCm builds
        self._torch = torch
        self._buffer = torch.empty(FLUSH_BYTES // 4, dtype=torch.int32, device=self.torch_device)
        self.flush(2)
        self.synchronize()
        _, elapsed = self.timed(lambda: self.flush(4))
        self.synchronize()
        self.flush_us = max(elapsed() / 4, 1.0)

    def now(self) -> float:
        """The host's clock, in seconds."""
        return time.perf_counter()

    def synchronize(self) -> None:
        """Waits until the device is idle; raises the errors of kernels."""
        self._torch.cuda.synchronize()

    def flush(self, times: int) -> None:
        """Overwrites the buffer that is larger than the caches."""
        for _ in range(times):
            self._buffer.zero_()

    def timed(self, call: Callable[[], Any]) -> tuple[Any, Callable[[], float]]:
        """Enqueues a call between two events on the current stream."""
        start = self._torch.cuda.Event(enable_timing=True)
        end = self._torch.cuda.Event(enable_timing=True)
        start.record()
        result = call()
        end.record()
        return result, lambda: float(start.elapsed_time(end)) * 1000


@dataclass(frozen=True)
class StoppingRule:
    """When to stop.

    Args:
        min_runs: runs before precision or time count.
        precision: stop when standard error / mean is below this.
        total_us: stop when the runs together took this long.
        warm_up_s: how long to run before the first time is taken; 0 for no warm-up.
    """

    max_runs: int = 100
    min_runs: int = 3
    precision: float = 0.001
    total_us: float = 10e6
    warm_up_s: float = 0.05

    def stops(self, times: Sequence[float]) -> bool:
        """Whether these times are enough."""
        if len(times) >= self.max_runs:
            return True
        if len(times) < self.min_runs:
            return False
        total = math.fsum(times)
        mean = total / len(times)
        return standard_error(times) < self.precision * mean or total > self.total_us


ONCE = StoppingRule(max_runs=1, warm_up_s=0.0)
TUNING = StoppingRule(max_runs=10, precision=0.005, total_us=0.5e6, warm_up_s=0.005)
"""Rule for one configuration of many: precise enough to find the fastest."""


def standard_error(times: Sequence[float]) -> float:
    """The standard error of the mean; 0 for a single time."""
    count = len(times)
    if count < 2:
        return 0.0
    mean = math.fsum(times) / count
    variance = math.fsum((t - mean) ** 2 for t in times) / (count - 1)
    return math.sqrt(variance / count)


def time_call(
    device: TorchGpu, call: Callable[[], Any], rule: StoppingRule = StoppingRule()
) -> tuple[list[float], Any]:
    """Times of a call in µs, in order, and the result of its last run.

    The call must have run before: a compile would count as time to enqueue.
    """
    flushes = 1 if not rule.warm_up_s else _warm_up(device, call, rule)
    times: list[float] = []
    result: Any = None
    while not rule.stops(times):
        result = None  # its memory is free again for the next run
        device.flush(flushes)
        result, elapsed = device.timed(call)
        device.synchronize()
        times.append(elapsed())
    return times, result


def _warm_up(device: TorchGpu, call: Callable[[], Any], rule: StoppingRule) -> int:
    device.synchronize()
    start = device.now()
    enqueue_seconds = math.inf
    runs = 0
    while runs < 2 or (runs < rule.max_runs and device.now() - start < rule.warm_up_s):
        call_start = device.now()
        call()
        enqueue_seconds = min(enqueue_seconds, device.now() - call_start)
        device.synchronize()
        runs += 1
    flushes = FLUSHES_OVER_LAUNCH * enqueue_seconds * 1e6 / max(device.flush_us, 1e-3)
    return min(1 + math.ceil(flushes), MAX_FLUSHES)
