"""Reads the waves of a thread trace: when and where they ran, and the cost of each instruction."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...base.named_files import file_bytes, opened
from ...model.recording import WaveSpan
from ..builder import LARGEST, RecordingBuilder, brief, is_int64
from .json_stream import DamagedError, JsonStream

Sums = Mapping[int, tuple[int, int, int, int]]
"""Line of the trace -> hits, latency, stall and idle cycles."""

_ENGINE = re.compile(r"(?:SE)?(\d{1,9})$")
"""The key of a shader engine."""
_LEAST_PACKED = 1 << 16
"""Older decoders packed an event into one number, of which its time is the upper part."""
_AGAIN = "trace again, or copy the folder again: the rest of it was read"
_BEGIN = re.compile(rb'"begin"\s*:\s*(\d{1,18})(?!\d)')
_HEAD = 1 << 12
"""Bytes at the start of a wave's file in which its begin is looked for."""
_INTEGERS = frozenset({int})
_FEW = 3
"""How many damaged files an error names."""
_LONGEST_KEY = 10
"""A key of this many digits is not read as a number."""
_MOST_BYTES = 1 << 26
"""Limit on a file that is parsed as a whole."""
_FASTEST_MHZ = 1e5
"""A faster shader clock is taken for damage."""


def sum_waves(files: Sequence[Path], builder: RecordingBuilder) -> Sums:
    """Adds up the instructions of wave files, as the decoder does for `code.json`.

    Idle time is that between the end of a wave's instruction and the begin of its next one.
    """
    totals: dict[int, list[int]] = {}
    damaged: list[Path] = []
    for file in files:
        try:
            with opened(file) as source:
                end_of_last = _begin(source.read(_HEAD))
                source.seek(0)
                for record in _instructions(JsonStream(source)):
                    if not _is_instruction(record):
                        continue
                    time, _, stall, duration, line = record[:5]
                    total = totals.setdefault(line, [0, 0, 0, 0])
                    total[0] += 1
                    total[1] += duration
                    total[2] += stall
                    if end_of_last is not None and time > end_of_last:
                        total[3] += time - end_of_last
                    end_of_last = max(time + duration, end_of_last or 0)
        except (DamagedError, OSError):
            damaged.append(file)
    if damaged:
        names = ", ".join(path_.name for path_ in damaged[:_FEW])
        builder.fail(
            damaged[0].parent,
            f"{len(damaged)} of {len(files)} wave files are damaged or cut off ({names}): their "
            "later instructions are missing in the sums",
            _AGAIN,
        )
    return {line: (sums[0], sums[1], sums[2], sums[3]) for line, sums in totals.items()}


def _begin(head: bytes) -> int | None:
    """Returns when a wave began; that key precedes its instructions, since keys are sorted."""
    match = _BEGIN.search(head)
    return int(match[1]) if match else None


def _instructions(stream: JsonStream) -> Iterator[Any]:
    """Yields the elements of `wave.instructions`, of which there may be millions."""
    for key in stream.fields():
        if key != "wave":
            stream.skip()
            continue
        for inner in stream.fields():
            if inner == "instructions" and stream.peek() == "[":
                yield from stream.records(Any)
            else:
                stream.skip()


def _is_instruction(record: Any) -> bool:
    return isinstance(record, list) and len(record) >= 5 and _are_integers(record[:5])


def _are_integers(numbers: Sequence[Any]) -> bool:
    """Tells whether all are integers that are small enough for their sums to be printed."""
    if set(map(type, numbers)) != _INTEGERS:
        return False
    return bool(min(numbers) >= -LARGEST and max(numbers) <= LARGEST)


def occupancy(
    path: Path | None, filenames: Path | None, builder: RecordingBuilder
) -> tuple[tuple[WaveSpan, ...], int | None, str | None]:
    """Reads when waves began and ended on each CU.

    `path`: `occupancy.json`, with every wave of the traced shader engines.
    `filenames`: `filenames.json`, with the waves traced in detail; read where the first file is
    missing.

    Returns:
        The waves; the most waves on one CU at a time; the kernel that most of them ran.
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


def _events(
    path: Path, builder: RecordingBuilder
) -> tuple[tuple[WaveSpan, ...], int | None, str | None]:
    """Reads the begins and ends of waves; see `occupancy` for the result."""
    spans: list[WaveSpan] = []
    kernels: Counter[int] = Counter()
    names: Any = None
    peak = invalid_count = begun_before = packed = 0
    for key, events in _members(path, builder):
        engine = _ENGINE.match(key)
        if key == "dispatches":
            names = events
        if engine is None or not isinstance(events, list):
            continue
        # At equal times ends come first: a slot is freed before another wave takes it.
        valid_events = sorted(
            (event for event in events if _is_event(event)), key=lambda event: (event[0], event[4])
        )
        packed += sum(is_int64(event) and event >= _LEAST_PACKED for event in events)
        invalid_count += len(events) - len(valid_events)
        engine_spans, engine_peak, unstarted = _engine_spans(int(engine[1]), valid_events)
        spans += engine_spans
        peak = max(peak, engine_peak)
        begun_before += unstarted
        kernels.update(event[5] for event in valid_events if event[4])
    if packed and packed == invalid_count:
        builder.note(
            f"{path}: an older decoder packed its events into numbers, which are not read: the "
            "waves are those that were traced in detail"
        )
    elif invalid_count:
        builder.fail(path, f"{invalid_count} events are of an unknown form", "the others were read")
    if begun_before:
        builder.note(
            f"{path}: {begun_before} waves began before the trace did; they are not counted"
        )
    spans.sort(key=lambda span: (span.engine, span.begin, span.cu or 0, span.simd, span.slot))
    return tuple(spans), peak or None, _most_run(names, kernels)


def _engine_spans(engine: int, events: Sequence[Sequence[int]]) -> tuple[list[WaveSpan], int, int]:
    """Pairs the begins and ends of a shader engine's waves."""
    spans: list[WaveSpan] = []
    begins: dict[tuple[int, int, int], int] = {}  # CU, SIMD, slot -> begin of the wave in it
    waves_on_cu: Counter[int] = Counter()
    peak = unstarted = 0

    def add(cu: int, simd: int, slot: int, begin: int, end: int | None) -> None:
        spans.append(WaveSpan(engine=engine, cu=cu, simd=simd, slot=slot, begin=begin, end=end))

    for time, cu, simd, slot, start, _ in events:
        begin = begins.pop((cu, simd, slot), None)
        if begin is not None:
            waves_on_cu[cu] -= 1
            # The end is unknown where another wave has taken the slot already.
            add(cu, simd, slot, begin, None if start else time)
        elif not start:
            unstarted += 1
        if start:
            begins[cu, simd, slot] = time
            waves_on_cu[cu] += 1
            peak = max(peak, waves_on_cu[cu])
    for (cu, simd, slot), begin in begins.items():
        add(cu, simd, slot, begin, None)
    return spans, peak, unstarted


def _members(path: Path, builder: RecordingBuilder) -> Iterator[tuple[str, Any]]:
    """Yields the members of a file's object one by one: together they may not fit in memory."""
    try:
        with opened(path) as file:
            stream = JsonStream(file)
            for key in stream.fields():
                if stream.peek() == "[":
                    yield key, list(stream.records(Any))
                else:
                    yield key, stream.value()
    except (DamagedError, OSError) as error:
        builder.fail(path, f"damaged or cut off ({brief(error)})", _AGAIN)


def _is_event(event: Any) -> bool:
    return isinstance(event, list) and len(event) == 6 and _are_integers(event)


def _most_run(dispatches: Any, kernels: Counter[int]) -> str | None:
    """Returns the name of the kernel that most waves ran; None if it is unknown."""
    if not isinstance(dispatches, dict):
        return None
    for number, _ in kernels.most_common():
        name = dispatches.get(str(number))
        # Without a symbol the decoder writes "code object / 0xaddress".
        if isinstance(name, str) and name and " / 0x" not in name:
            return name
    return None


def _listed(data: Mapping[str, Any]) -> Iterable[WaveSpan]:
    """Yields the waves in `filenames.json`, which are those traced in detail."""
    engines = data.get("wave_filenames")
    for engine, simds in _items(engines):
        for simd, slots in _items(simds):
            for slot, waves in _items(slots):
                for _, wave in _items(waves):
                    if isinstance(wave, list) and len(wave) >= 3:
                        begin, end = wave[1:3]
                        if is_int64(begin):
                            stop = end if is_int64(end) else None
                            yield WaveSpan(
                                engine=engine, cu=None, simd=simd, slot=slot, begin=begin, end=stop
                            )


def _items(data: Any) -> list[tuple[int, Any]]:
    if not isinstance(data, dict):
        return []
    return [
        (int(key), value)
        for key, value in data.items()
        if key.isdecimal() and len(key) < _LONGEST_KEY
    ]


def clock_mhz(path: Path | None, builder: RecordingBuilder) -> float | None:
    """Returns the mean shader clock of the trace in MHz, over all engines; None if unknown."""
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
        valid = [
            pair
            for pair in pairs
            if isinstance(pair, list) and len(pair) == 2 and _are_integers(pair)
        ]
        if len(valid) > 1:
            clocks += valid[-1][0] - valid[0][0]
            ticks += valid[-1][1] - valid[0][1]
    if clocks <= 0 or ticks <= 0:
        return None
    mhz = clocks / ticks * frequency / 1e6
    return mhz if mhz < _FASTEST_MHZ else None


def _load(path: Path, builder: RecordingBuilder) -> Any:
    try:
        if path.stat().st_size > _MOST_BYTES:
            builder.fail(path, f"larger than {_MOST_BYTES >> 20} MiB", "trace fewer waves")
            return None
        return json.loads(file_bytes(path))
    except (ValueError, RecursionError, OSError) as error:
        builder.fail(path, f"damaged or cut off ({brief(error)})", _AGAIN)
        return None
