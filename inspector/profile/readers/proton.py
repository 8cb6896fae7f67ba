"""Trees of Triton's Proton (`*.hatchet`): times of kernels by scope, as JSON or MessagePack.

A node is a scope or a kernel: `frame.name`, `metrics`, `children`. Kernels have the number of their
launches and their time added up; a tree keeps no dispatches, so it is read as a summary. Beside the
root stands what is known of the devices. What a launch function computed for Proton's own use runs
below a frame of its own and is left out, as Proton's viewer does.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ...base.limits import MOST_NESTED, LimitError
from ...model.recording import Agent, Part, TopKernel
from ..builder import LARGEST, RecordingBuilder, brief, int64
from ..reading import FileGroup
from .recorded_files import head, open_plain

FORMAT = "Proton tree"

_SUFFIXES = (".hatchet", ".hatchet_msgpack", ".json", ".mpk", ".msgpack")
_HEAD_BYTES = 1 << 12
"""Of a file, by which it is recognised."""
_PIECE_BYTES = 1 << 20
"""How much of a file is decompressed at a time: its limits are checked in between."""
_MOST_DEPTH = 10 * MOST_NESTED
"""Of nested frames: one is a scope, or a call in Python."""
_TREE = re.compile(rb'\A\s*\[\s*\{\s*"(?:children|frame|metrics)"\s*:')
_PACKED = re.compile(rb"\A[\x91-\x9f][\x82-\x8f]\xa5frame")
_LAUNCH_METADATA = "__proton_launch_metadata"
"""The frame of what launch functions compute for Proton."""
_ROOT = "ROOT"
_TIME = re.compile(r"time \((?P<unit>s|ms|us|ns)\)")
_NS = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}
_AGAIN = "profile again, and finalize Proton before the program ends"


def find(files: Sequence[Path]) -> list[FileGroup]:
    """Returns the files that begin as Proton's trees do."""
    return [
        FileGroup.of_file(file) for file in files if file.suffix in _SUFFIXES and _is_tree(file)
    ]


def _is_tree(file: Path) -> bool:
    first = head(file, _HEAD_BYTES)
    if _PACKED.match(first):
        return True
    return bool(_TREE.match(first)) and (b'"frame"' in first or b'"children"' in first)


def read(group: FileGroup, builder: RecordingBuilder) -> None:
    """Reads the trees; one that does not decode is reported as damaged."""
    (path,) = group.files
    builder.begin(Part(group.name, str(path), FORMAT, profiler="Proton"))
    builder.tool.setdefault("name", "Proton")
    try:
        tree = _decoded(path)
    except (msgspec.MsgspecError, RecursionError, ValueError, OSError, EOFError) as error:
        builder.fail(path, f"{path.name}: damaged or cut off ({brief(error)})", _AGAIN)
    else:
        _add(path, tree, builder)


def _decoded(path: Path) -> Any:
    with open_plain(path) as file:
        pieces = []
        while piece := file.read1(_PIECE_BYTES):
            pieces.append(piece)
    text = b"".join(pieces)
    return msgspec.msgpack.decode(text) if _PACKED.match(text) else msgspec.json.decode(text)


def _add(path: Path, tree: Any, builder: RecordingBuilder) -> None:
    """Adds the durations of a tree's kernels, summed by name and device."""
    nodes = [node for node in tree if isinstance(node, dict)] if isinstance(tree, list) else []
    roots = [node for node in nodes if "frame" in node]
    for node in nodes:
        if "frame" not in node:
            _devices(node, builder)
    counts: Counter[tuple[str, str | None]] = Counter()
    times: dict[tuple[str, str | None], float] = {}
    incomplete = sampled = 0
    for name, metrics in _kernels(roots, path):
        calls, total = int64(metrics.get("count")), _time_of(metrics)
        if calls is None or calls <= 0 or total is None:
            incomplete += 1
            continue
        kernel = name, _device(metrics)
        counts[kernel] += calls
        times[kernel] = times.get(kernel, 0.0) + total
        sampled += "num_samples" in metrics
    for (name, device), total in times.items():
        count = counts[name, device]
        top = TopKernel(name, count, round(total), total / count, agent=device)
        builder.summary.append(top)
    if incomplete:
        builder.fail(
            path,
            f"{path.name}: {incomplete:,} frames have a time or a count, not both, and were left"
            " out",
            "if the file is as Proton wrote it, report Triton's version",
        )
    if sampled:
        builder.note(f"{path.name}: PC samples in it are not read: it keeps no instructions")
    if not times:
        builder.note(f"{path.name}: no kernels in this tree")


def _kernels(roots: Sequence[Any], path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the name and metrics of the frames that are kernels, without the scopes."""
    stack = [(root, 0) for root in reversed(roots)]
    while stack:
        node, depth = stack.pop()
        if depth > _MOST_DEPTH:
            raise LimitError(f"{path.name}: nested too deeply", _AGAIN)
        frame, metrics = node.get("frame"), node.get("metrics")
        name = frame.get("name") if isinstance(frame, dict) else None
        if not isinstance(name, str) or name.split(":")[0] == _LAUNCH_METADATA:
            continue
        children = node.get("children")
        listed = children if isinstance(children, list) else []
        inner = [child for child in listed if isinstance(child, dict)]
        if isinstance(metrics, dict) and name != _ROOT and _is_measured(metrics):
            yield name, metrics
        stack += [(child, depth + 1) for child in reversed(inner)]


def _is_measured(metrics: dict[str, Any]) -> bool:
    return "count" in metrics or any(_TIME.fullmatch(str(name)) for name in metrics)


def _time_of(metrics: dict[str, Any]) -> float | None:
    for name, value in metrics.items():
        unit = _TIME.fullmatch(name)
        if unit is not None and isinstance(value, int | float) and 0 <= value < LARGEST:
            return float(value) * _NS[unit["unit"]]
    return None


def _device(metrics: dict[str, Any]) -> str | None:
    number = metrics.get("device_id")
    return f"device {number}" if isinstance(number, str | int) else None


def _devices(kinds: dict[str, Any], builder: RecordingBuilder) -> None:
    """Adds the devices of a tree: kind (`HIP`, `CUDA`) -> number -> properties."""
    for kind, numbers in kinds.items():
        if not isinstance(numbers, dict):
            continue
        for number, about in numbers.items():
            if not isinstance(about, dict):
                continue
            arch = str(about.get("arch") or "")
            clock = int64(about.get("clock_rate"))
            cus = int64(about.get("num_sms"))
            key = f"device {number}"
            builder.agents.setdefault(
                key,
                Agent(
                    key=key,
                    arch=arch if kind == "HIP" and arch.startswith("gfx") else None,
                    product=None if kind == "HIP" else f"{kind} {arch}".strip(),
                    cus=cus if cus and cus > 0 else None,
                    clock_mhz=clock // 1000 if clock and clock > 0 else None,  # stated in kHz
                ),
            )
