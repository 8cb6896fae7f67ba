"""What a thread trace says of waves: when and where they ran, what each instruction cost them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...recording import WaveSpan
from ..builder import LARGEST, Builder, is_whole
from .streams import DamagedError, JsonStream

Sums = Mapping[int, tuple[int, int, int, int]]
"""Line of the trace -> hits, latency, stall, idle."""

_ENGINE = re.compile(r"(?:SE)?(\d{1,9})$")
_AGAIN = "trace again, or copy the folder again: the rest of it was read"
_BEGIN = re.compile(rb'"begin"\s*:\s*(\d{1,18})(?!\d)')
_HEAD = 1 << 12
_INTEGERS = frozenset({int})
_FEW = 3
_LONGEST_KEY = 10
_MOST_BYTES = 1 << 26
_FASTEST_MHZ = 1e5


def sum_waves(files: Sequence[Path], builder: Builder) -> Sums:
    """Adds up the instructions of wave files, as the decoder does for `code.json`.

    Idle is the time from the end of a wave's instruction to the begin of its next one.
    """
    totals: dict[int, list[int]] = {}
    damaged: list[Path] = []
    for file in files:
        try:
            with file.open("rb") as source:
                ended = _begin(source.read(_HEAD))
                source.seek(0)
                for record in _instructions(JsonStream(source)):
                    if not _is_instruction(record):
                        continue
                    time, _, stall, duration, line = record[:5]
                    total = totals.setdefault(line, [0, 0, 0, 0])
                    total[0] += 1
                    total[1] += duration
                    total[2] += stall
                    if ended is not None and time > ended:
                        total[3] += time - ended
                    ended = max(time + duration, ended or 0)
        except (DamagedError, OSError):
            damaged.append(file)
    if damaged:
        names = ", ".join(f.name for f in damaged[:_FEW])
        builder.fail(
            damaged[0].parent,
            f"{len(damaged)} of {len(files)} wave files are damaged or cut off ({names}): their "
            "later instructions are missing in the sums",
            _AGAIN,
        )
    return {line: (t[0], t[1], t[2], t[3]) for line, t in totals.items()}


def _begin(head: bytes) -> int | None:
    """When a wave began, which stands before its instructions: keys are in alphabetical order."""
    match = _BEGIN.search(head)
    return int(match[1]) if match else None


def _instructions(stream: JsonStream) -> Iterator[Any]:
    """The elements of `wave.instructions`; they come by the million."""
    for key in stream.fields():
        if key != "wave":
            stream.skip()
            continue
        for inner in stream.fields():
            if inner == "instructions" and stream.peek() == b"[":
                yield from stream.records(Any)
            else:
                stream.skip()


def _is_instruction(record: Any) -> bool:
    return isinstance(record, list) and len(record) >= 5 and _are_whole(record[:5])


def _are_whole(numbers: Sequence[Any]) -> bool:
    """Whether they are machine numbers, of which sums are still some that can be printed."""
    if set(map(type, numbers)) != _INTEGERS:
        return False
    return bool(min(numbers) >= -LARGEST and max(numbers) <= LARGEST)


def occupancy(
    path: Path | None, filenames: Path | None, builder: Builder
) -> tuple[tuple[WaveSpan, ...], int | None, str | None]:
    """Reads when waves began and ended on each CU.

    Args:
        path: `occupancy.json`: every wave of the traced shader engines.
        filenames: `filenames.json`: those traced in detail, read where the former is missing.
        builder: is told what is damaged.

    Returns:
        The waves; the most that were on one CU at a time; the kernel that most of them ran.
    """
    if path is not None:
        spans, peak, kernel = _events(path, builder)
        if spans:
            return spans, peak, kernel
    if filenames is not None:
        data = _load(filenames, builder)
        if isinstance(data, dict):
            return tuple(_listed(data)), None, None
    return (), None, None


def _events(path: Path, builder: Builder) -> tuple[tuple[WaveSpan, ...], int | None, str | None]:
    spans: list[WaveSpan] = []
    kernels: Counter[int] = Counter()
    names: Any = None
    peak = strange = headless = 0
    for key, events in _members(path, builder):
        engine = _ENGINE.match(key)
        if key == "dispatches":
            names = events
        if engine is None or not isinstance(events, list):
            continue
        whole = [e for e in events if _is_event(e)]
        strange += len(events) - len(whole)
        running: dict[tuple[int, int, int], int] = {}
        on_cu: Counter[int] = Counter()
        # At one time, ends come first: a slot is free before it is taken again.
        for time, cu, simd, slot, start, kernel in sorted(whole, key=lambda e: (e[0], e[4])):
            at = (cu, simd, slot)
            begun = running.pop(at, None)
            if begun is not None:
                on_cu[cu] -= 1
                spans.append(
                    WaveSpan(int(engine[1]), cu, simd, slot, begun, None if start else time)
                )
            elif not start:
                headless += 1
            if start:
                running[at] = time
                kernels[kernel] += 1
                on_cu[cu] += 1
                peak = max(peak, on_cu[cu])
        spans += [
            WaveSpan(int(engine[1]), cu, simd, slot, begun, None)
            for (cu, simd, slot), begun in running.items()
        ]
    if strange:
        builder.fail(path, f"{strange} events are of an unknown form", "the others were read")
    if headless:
        builder.note(f"{path}: {headless} waves began before the trace did; they are not counted")
    spans.sort(key=lambda s: (s.engine, s.begin, s.cu or 0, s.simd, s.slot))
    return tuple(spans), peak or None, _most_run(names, kernels)


def _members(path: Path, builder: Builder) -> Iterator[tuple[str, Any]]:
    """The members of a file's object one by one: millions of events do not lie side by side."""
    try:
        with path.open("rb") as file:
            stream = JsonStream(file)
            for key in stream.fields():
                if stream.peek() == b"[":
                    yield key, list(stream.records(Any))
                else:
                    yield key, stream.value()
    except (DamagedError, OSError) as error:
        builder.fail(path, f"damaged or cut off ({' '.join(str(error).split())[:80]})", _AGAIN)


def _is_event(event: Any) -> bool:
    return isinstance(event, list) and len(event) == 6 and _are_whole(event)


def _most_run(dispatches: Any, kernels: Counter[int]) -> str | None:
    if not isinstance(dispatches, dict):
        return None
    for number, _ in kernels.most_common():
        name = dispatches.get(str(number))
        # Without a symbol the decoder writes "code object / 0xaddress".
        if isinstance(name, str) and name and " / 0x" not in name:
            return name
    return None


def _listed(data: Mapping[str, Any]) -> Iterable[WaveSpan]:
    engines = data.get("wave_filenames")
    for engine, simds in _items(engines):
        for simd, slots in _items(simds):
            for slot, waves in _items(slots):
                for _, wave in _items(waves):
                    if isinstance(wave, list) and len(wave) >= 3:
                        begin, end = wave[1:3]
                        if is_whole(begin):
                            stop = end if is_whole(end) else None
                            yield WaveSpan(engine, None, simd, slot, begin, stop)


def _items(data: Any) -> list[tuple[int, Any]]:
    if not isinstance(data, dict):
        return []
    return [(int(k), v) for k, v in data.items() if k.isdecimal() and len(k) < _LONGEST_KEY]


def clock_mhz(path: Path | None, builder: Builder) -> float | None:
    """The shader clock over the trace: clocks passed by real time passed, over all engines."""
    data = _load(path, builder) if path is not None else None
    if not isinstance(data, dict):
        return None
    metadata = data.get("metadata")
    frequency = metadata.get("frequency") if isinstance(metadata, dict) else None
    if not isinstance(frequency, (int, float)) or not 0 < frequency < LARGEST:
        return None
    clocks = ticks = 0
    for key, pairs in data.items():
        if not _ENGINE.match(key) or not isinstance(pairs, list):
            continue
        whole = [p for p in pairs if isinstance(p, list) and len(p) == 2]
        whole = [p for p in whole if _are_whole(p)]
        if len(whole) > 1:
            clocks += whole[-1][0] - whole[0][0]
            ticks += whole[-1][1] - whole[0][1]
    if clocks <= 0 or ticks <= 0:
        return None
    mhz = clocks / ticks * frequency / 1e6
    return mhz if mhz < _FASTEST_MHZ else None


def _load(path: Path, builder: Builder) -> Any:
    try:
        if path.stat().st_size > _MOST_BYTES:
            builder.fail(path, f"larger than {_MOST_BYTES >> 20} MiB", "trace fewer waves")
            return None
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError, OSError) as error:
        builder.fail(path, f"damaged or cut off ({' '.join(str(error).split())[:80]})", _AGAIN)
        return None
