"""Captures scripts, again and again with one more thing as on the GPU, to explain differences."""

from __future__ import annotations

import itertools
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kinspect.inspector import machines
from kinspect.inspector.capture.options import CaptureOptions, CapturePlan
from kinspect.inspector.capture.records import CapturedVariant, CaptureEnd
from kinspect.inspector.capture.script import capture_file
from kinspect.inspector.compile.pool import Compiler
from kinspect.inspector.model import Variant

from benchmarks.fidelity_specs import Launched, Spec, by_spec, from_capture, left_open, nearest

TIME_LIMIT = 900.0
"""Seconds for one run of a script: this compares what there is, and machines are busy."""
ARCH = "gfx942"
EVERY_X = re.compile(
    r"^( *)(\w+)\.run\((?:show_plots|save_path|print_data|return_df)\b[^)]*\)", re.M
)
"""A benchmark's run (`triton.testing.Mark.run`): capture does it at three of its x values."""
EVERY_X_FUNCTION = """\
def _every_x(mark):
    import triton.testing as testing
    one = isinstance(mark.benchmarks, testing.Benchmark)
    for benchmark in [mark.benchmarks] if one else mark.benchmarks:
        for x in benchmark.x_vals:
            at = x if isinstance(x, (list, tuple)) else [x] * len(benchmark.x_names)
            for line in benchmark.line_vals:
                stated = dict(zip(benchmark.x_names, at), **{benchmark.line_arg: line})
                try:
                    mark.fn(**stated, **benchmark.args)
                except Exception:
                    pass
"""
ANSWERS = (
    (re.compile(r"triton\.runtime\.driver\.active\.get_current_target\(\)\.backend"), '"cuda"'),
    (re.compile(r"torch\.version\.hip\b"), "None"),
    (re.compile(r"torch\.cuda\.get_device_capability\(\)"), "(9, 0)"),
)
"""A script's questions for the vendor and what they are answered on an H100 or H200."""
DEVICE = "device figures"
SAMPLING = "x values of benchmarks"
VENDOR = "vendor asked for"
WINNER = "autotuner's winner"
FAILED = "fails there too"
ENDED = "run ended early"
REASONS = {
    DEVICE: "gone once the device has the recording GPU's number of compute units, shared memory, "
    "registers and wave size",
    SAMPLING: "gone once benchmarks run at all their x values; capture takes three of each",
    VENDOR: "gone once the script's own questions for the vendor are answered as on NVIDIA",
    WINNER: "the same but for what the autotuner chooses by timing, which capture does not do",
    FAILED: "asked for on the GPU, where it did not compile either",
    ENDED: "captured only, and the recorded run did not come to its end",
}


class Listening:
    """A guest that also keeps the launch counts it sends.

    Args:
        worker: the guest.
    """

    def __init__(self, worker: Any) -> None:
        self.launches: dict[str, Any] = {}
        self.keys: list[str] = []
        self._worker = worker

    def stream(self, message: Mapping[str, Any], time_limit: float) -> Iterator[dict[str, Any]]:
        """The worker's own, with an ear to it."""
        for reply in self._worker.stream(message, time_limit):
            record = reply.get("record") or {}
            self.launches.update(record.get("launches") or {})
            if "variant" in record:
                self.keys.append(record["variant"]["key"])
            yield reply

    def close(self) -> None:
        """Ends the guest process."""
        self._worker.close()


def capture(
    script: Path, compiler: Compiler, device: Mapping[str, Any]
) -> tuple[list[Launched], list[str]]:
    """What a capture of the script finds on a device, and its notes and errors."""
    found: list[Variant] = []
    notes: list[str] = []
    with compiler.worker() as worker, tempfile.TemporaryDirectory() as folder:
        plan = CapturePlan(
            path=script,
            mode="script",
            archs=(ARCH,),
            devices={ARCH: device},
            folder=Path(folder),
            options=CaptureOptions(max_configs=None, time_limit=TIME_LIMIT),
        )
        guest = Listening(worker)
        for item in capture_file(guest, plan):
            if isinstance(item, CapturedVariant):
                found.append(item.variant)
            elif isinstance(item, CaptureEnd):
                notes += [*item.notes, *(e.message for e in item.errors)]
    pairs = zip(found, guest.keys, strict=True)
    return [from_capture(v, guest.launches.get(key)) for v, key in pairs], notes


def experiments(
    script: Path, folders: Iterable[Path], facts: Mapping[str, Any], compiler: Compiler
) -> Iterator[tuple[str, dict[Spec, Launched]]]:
    """Captures again, each time with one more thing as it was on the recording machine.

    Args:
        script: what is captured.
        folders: the repositories that it needs.
        facts: what the recording machine's driver says of its device.
        compiler: lends the guest.

    Yields:
        What was made the same, and what capture then finds.
    """
    device = {**amd_device(), **as_recorded(facts)}
    yield DEVICE, by_spec(capture(script, compiler, device)[0])
    root = min(folders).parent
    for why, change in ((SAMPLING, all_x), (VENDOR, lambda text: all_x(as_nvidia(text)))):
        with tempfile.TemporaryDirectory() as copy:
            changed = 0
            for path in itertools.chain.from_iterable(f.rglob("*.py") for f in folders):
                there = Path(copy) / path.relative_to(root)
                there.parent.mkdir(parents=True, exist_ok=True)
                text = path.read_text("utf-8", "replace")
                there.write_text(change(text))
                changed += there.read_text() != text
            if changed:
                there = Path(copy) / script.relative_to(root)
                yield why, by_spec(capture(there, compiler, device)[0])


def explain(
    explained: Counter[str],
    unexplained: list[str],
    recorded: Mapping[Spec, Launched],
    captured: Mapping[Spec, Launched],
    again: Iterator[tuple[str, dict[Spec, Launched]]],
    status: int | None,
) -> None:
    """Says of each specialisation that only one side has why that is so, if that is known.

    It is known where the difference goes away in an experiment; where the two differ in nothing
    but an autotuner's choice; and where the recorded run did not come to its end.
    """
    missing = recorded.keys() - captured.keys()
    extra = captured.keys() - recorded.keys()
    final = captured
    for why, found in again:
        cleared = (missing & found.keys()) | (extra - found.keys())
        explained[why] += len(cleared)
        missing, extra, final = missing - cleared, extra - cleared, found
        if not missing and not extra:
            break
    ours = {left_open(one) for one in final.values()}
    theirs = {left_open(one) for one in recorded.values()}
    for where, specs, side, others in (
        ("recorded", missing, recorded, ours),
        ("captured", extra, captured, theirs),
    ):
        for spec in specs:
            if side[spec].tuned and left_open(side[spec]) in others:
                explained[WINNER] += 1
            elif not side[spec].compiled:
                explained[FAILED] += 1
            elif where == "captured" and status:
                explained[ENDED] += 1
            else:
                apart = nearest(spec, final if where == "recorded" else recorded)
                unexplained.append(f"{where} only: {spec.kernel}: {', '.join(apart)}")


def same_grids(recorded: Launched, captured: Launched, benchmarks: object) -> str:
    """How the grids of an equal specialisation compare.

    Args:
        recorded: as it really ran.
        captured: the same as capture found it.
        benchmarks: whether the script has benchmarks, of which capture leaves out most x values.
    """
    if recorded.grids == captured.grids:
        return "equal"
    if recorded.tuned:  # later launches go to the winner alone, which may be another
        return WINNER
    if benchmarks and captured.grids <= recorded.grids:
        return SAMPLING
    return "unexplained"


def all_x(text: str) -> str:
    """The script with its benchmarks run at every x value, as they are on a GPU."""
    changed = EVERY_X.sub(r"\1_every_x(\2)", text)
    return EVERY_X_FUNCTION + changed if changed != text else text


def as_nvidia(text: str) -> str:
    """The script with its questions for the vendor answered as on an NVIDIA machine."""
    for question, answer in ANSWERS:
        text = question.sub(answer, text)
    return text


def amd_device() -> dict[str, Any]:
    """What scripts may ask of the target."""
    machine = machines.load(ARCH)
    return {
        "arch": ARCH,
        "wave_size": machine.wave_sizes[0],
        "compute_units": machine.cus,
        "lds_bytes": machine.lds_max,
    }


def as_recorded(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The AMD device with the figures of the recording machine's."""
    figures = {
        "compute_units": facts.get("multiprocessor_count"),
        "compute_units_per_multiprocessor": 1,
        "lds_bytes": facts.get("max_shared_mem"),
        "registers_per_block": facts.get("max_num_regs"),
        "wave_size": facts.get("warpSize"),
    }
    known = {name: value for name, value in figures.items() if value is not None}
    return {**amd_device(), **known}
