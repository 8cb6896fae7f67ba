"""Reads the waves of a thread trace: when and where they ran, and the cost of each instruction."""

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
"""Line of the trace -> hits, latency, stall and idle cycles."""

_ENGINE = re.compile(r"(?:SE)?(\d{1,9})$")
"""The key of a shader engine."""
_AGAIN = "trace again, or copy the folder again: the rest of it was read"
_BEGIN = re.compile(rb'"begin"\s*:\s*(\d{1,18})(?!\d)')
_HEAD = 1 << 12
"""Bytes at the start of a wave's file in which its begin is searched."""
_INTEGERS = frozenset({int})
_FEW = 3
"""Damaged files that an error names."""
_LONGEST_KEY = 10
"""Digits of a key that is read as a number, and one more."""
_MOST_BYTES = 1 << 26
"""Of a file that is parsed as a whole."""
_FASTEST_MHZ = 1e5
"""A faster shader clock is taken for damage."""


def sum_waves(files: Sequence[Path], builder: Builder) -> Sums:
    """Adds up the instructions of wave files, as the decoder does for `code.json`.

    Idle time is that between the end of a wave's instruction and the begin of its next one.
    """
    totals: dict[int, list[int]] = {}
    damaged: list[Path] = []
    for file in files:
        try:
            with file.open("rb") as source:
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
    """When a wave began: that key precedes its instructions, since keys are sorted."""
    match = _BEGIN.search(head)
    return int(match[1]) if match else None


def _instructions(stream: JsonStream) -> Iterator[Any]:
    """The elements of `wave.instructions`, one by one: there may be millions."""
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
    """Whether all are integers that are small enough for their sums to be printed."""
    if set(map(type, numbers)) != _INTEGERS:
        return False
    return bool(min(numbers) >= -LARGEST and max(numbers) <= LARGEST)


def occupancy(
    path: Path | None, filenames: Path | None, builder: Builder
) -> tuple[tuple[WaveSpan, ...], int | None, str | None]:
    """Reads when waves began and ended on each CU.

    Args:
        path: `occupancy.json`, with every wave of the traced shader engines.
        filenames: `filenames.json`, with the waves traced in detail; read where the first file is
            missing.
        builder: receives errors about damage.

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


def _events(path: Path, builder: Builder) -> tuple[tuple[WaveSpan, ...], int | None, str | None]:
    spans: list[WaveSpan] = []
    kernels: Counter[int] = Counter()
    names: Any = None
    peak = invalid_count = begun_before = 0
    for key, events in _members(path, builder):
        engine = _ENGINE.match(key)
        if key == "dispatches":
            names = events
        if engine is None or not isinstance(events, list):
            continue
        valid_events = [event for event in events if _is_event(event)]
        invalid_count += len(events) - len(valid_events)
        running: dict[tuple[int, int, int], int] = {}
        waves_on_cu: Counter[int] = Counter()
        # At equal times ends come first: a slot is freed before another wave takes it.
        for time, cu, simd, slot, start, kernel in sorted(
            valid_events, key=lambda event: (event[0], event[4])
        ):
            slot_key = (cu, simd, slot)
            begin = running.pop(slot_key, None)
            if begin is not None:
                waves_on_cu[cu] -= 1
                end = None if start else time  # unknown where another wave has the slot already
                spans.append(
                    WaveSpan(
                        engine=int(engine[1]), cu=cu, simd=simd, slot=slot, begin=begin, end=end
                    )
                )
            elif not start:
                begun_before += 1
            if start:
                running[slot_key] = time
                kernels[kernel] += 1
                waves_on_cu[cu] += 1
                peak = max(peak, waves_on_cu[cu])
        spans += [
            WaveSpan(engine=int(engine[1]), cu=cu, simd=simd, slot=slot, begin=begin, end=None)
            for (cu, simd, slot), begin in running.items()
        ]
    if invalid_count:
        builder.fail(path, f"{invalid_count} events are of an unknown form", "the others were read")
    if begun_before:
        builder.note(
            f"{path}: {begun_before} waves began before the trace did; they are not counted"
        )
    spans.sort(key=lambda span: (span.engine, span.begin, span.cu or 0, span.simd, span.slot))
    return tuple(spans), peak or None, _most_run(names, kernels)


def _members(path: Path, builder: Builder) -> Iterator[tuple[str, Any]]:
    """The members of a file's object, one at a time: together they may not fit in memory."""
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
    """The name of the kernel that most waves ran.

    Args:
        dispatches: number of a dispatch -> name of its kernel.
        kernels: number of a dispatch -> how many waves ran it.
    """
    if not isinstance(dispatches, dict):
        return None
    for number, _ in kernels.most_common():
        name = dispatches.get(str(number))
        # Without a symbol the decoder writes "code object / 0xaddress".
        if isinstance(name, str) and name and " / 0x" not in name:
            return name
    return None


def _listed(data: Mapping[str, Any]) -> Iterable[WaveSpan]:
    """The waves in `filenames.json`, which are those traced in detail."""
    engines = data.get("wave_filenames")
    for engine, simds in _items(engines):
        for simd, slots in _items(simds):
            for slot, waves in _items(slots):
                for _, wave in _items(waves):
                    if isinstance(wave, list) and len(wave) >= 3:
                        begin, end = wave[1:3]
                        if is_whole(begin):
                            stop = end if is_whole(end) else None
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


def clock_mhz(path: Path | None, builder: Builder) -> float | None:
    """The mean shader clock during the trace in MHz, over all shader engines; None if unknown."""
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
            pair for pair in pairs if isinstance(pair, list) and len(pair) == 2 and _are_whole(pair)
        ]
        if len(valid) > 1:
            clocks += valid[-1][0] - valid[0][0]
            ticks += valid[-1][1] - valid[0][1]
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
