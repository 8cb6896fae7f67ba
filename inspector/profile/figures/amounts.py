"""Bytes and operations per dispatch, their rates and the place in the roofline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from ...model import Metric
from . import counters
from .counters import figure, table
from .peaks import DevicePeaks
from .readings import PassReadings, Readings

_KB = 1024


class Derived(Struct):
    """The metrics that could be computed, and notes on them."""

    metrics: dict[str, Metric] = field(default_factory=dict)
    _notes: dict[str, str | None] = field(default_factory=dict)
    """Note -> the metric whose absence it explains; None where it explains none."""

    @property
    def notes(self) -> list[str]:
        """The notes, without reasons for the absence of a metric that was computed another way."""
        return [note for note, metric in self._notes.items() if metric not in self.metrics]

    def add(self, name: str, value: float, unit: str, note: str) -> None:
        """Adds a metric, unless there is one of that name, which is better."""
        self.metrics.setdefault(
            name, Metric(name=name, value=value, unit=unit, origin="measured", note=note)
        )

    def add_note(self, note: str) -> None:
        """Adds a note, once; an empty one is none."""
        if note:
            self._notes.setdefault(note)

    def add_missing(self, name: str, reason: str) -> None:
        """Notes why a metric could not be computed in one of the ways in which it can be."""
        self._notes.setdefault(f"no {name}: {reason}", name)


class Amount(Struct):
    """A sum of counters per dispatch; `per_ns` over the time of the pass of each, None without."""

    value: float = 0.0
    per_ns: float | None = 0.0
    text: str = ""
    zero: list[str] = field(default_factory=list)  # counters that were 0
    passes: set[str] = field(default_factory=set)

    def add_counter(self, counter: str, counted: PassReadings, factor: float) -> None:
        """Adds a counter of a pass times a constant."""
        mean = counted.mean(counter) or 0.0
        self.value += factor * mean
        if self.per_ns is not None:
            self.per_ns = self.per_ns + factor * mean / counted.mean_ns if counted.mean_ns else None
        self.passes.add(counted.name)
        if not mean:
            self.zero.append(counter)
            return
        sign = "-" if factor < 0 else "+"
        term = f"{figure(abs(factor))} · {counter} {figure(mean)}"
        self.text = f"{self.text} {sign} {term}" if self.text else term

    def add_amount(self, amount: Amount) -> None:
        """Adds another amount."""
        self.value += amount.value
        if self.per_ns is not None:
            self.per_ns = None if amount.per_ns is None else self.per_ns + amount.per_ns
        self.text = " + ".join(text for text in (self.text, amount.text) if text)
        self.zero += amount.zero
        self.passes |= amount.passes

    @property
    def note(self) -> str:
        text = self.text or "0"
        if self.zero:
            text += f"; 0 were: {', '.join(self.zero)}"
        if len(self.passes) > 1:
            text += f"; from passes {', '.join(sorted(self.passes))}"
        return text


class _Operations(Struct):
    """Operations of one kind of unit, by element type."""

    by_element: dict[str, Amount]
    missing: list[str]


def add(sink: Derived, readings: Readings, device: DevicePeaks) -> None:
    """Adds all metrics of amounts, rates and peaks."""
    read = _traffic(readings, device, "read_bytes", "FETCH_SIZE", "FetchSize")
    write = _traffic(readings, device, "write_bytes", "WRITE_SIZE", "WriteSize")
    for name, amount in (("measured.read_bytes", read), ("measured.write_bytes", write)):
        if amount is not None:
            sink.add(name, amount.value, "bytes", amount.note)
    moved = _total(read, write)
    if moved is not None and moved.per_ns is not None:
        _memory_share(sink, moved, device)
    matrix = _operations(readings, device, "matrix_flops")
    vector = _operations(readings, device, "vector_flops")
    _flops(sink, matrix, vector, moved, device)
    if device.memory_bytes_per_s is not None and readings.counters:
        source = device.sources.get("memory_bytes_per_s", "")
        sink.add("roofline.peak_bytes_per_s", device.memory_bytes_per_s, "bytes/s", source)


def _traffic(readings: Readings, device: DevicePeaks, kind: str, *names: str) -> Amount | None:
    """Bytes beyond the L2 cache: as the profiler sums them, or from requests."""
    for name in names:
        counted = readings.together(name)
        if counted is not None:
            amount = Amount()
            amount.add_counter(name, counted, _KB)
            return amount
    for entry in table("formulas.yaml")[kind]:
        archs = tuple(entry["architectures"])
        if device.arch is None or not _is_of(device.arch, archs):
            continue
        counted = readings.together(*entry["terms"])
        if counted is not None:
            amount = Amount()
            for counter, factor in entry["terms"].items():
                amount.add_counter(counter, counted, factor)
            return amount
    return None


def _is_of(arch: str, families: Iterable[str]) -> bool:
    """Tells whether a target is one of these, or of one of these families (`gfx11`)."""
    return any(
        arch == family or (len(family) == len("gfx11") and arch[:-2] == family)
        for family in families
    )


def _total(read: Amount | None, write: Amount | None) -> Amount | None:
    """Returns the bytes in both directions; None if either is unknown: half a sum would mislead."""
    if read is None or write is None:
        return None
    total = Amount()
    total.add_amount(read)
    total.add_amount(write)
    return total


def _memory_share(sink: Derived, moved: Amount, device: DevicePeaks) -> None:
    name, peak = "measured.share.memory", device.memory_bytes_per_s
    if peak is None:
        sink.add_missing(name, "the device's memory bandwidth is unknown")
        return
    rate = (moved.per_ns or 0.0) * 1e9
    source = device.sources.get("memory_bytes_per_s", "")
    text = (
        f"100 · {figure(rate)} bytes/s / {figure(peak)} ({source}); {moved.note}; bytes beyond the "
        "L2 cache, of which an Infinity Cache may serve some"
    )
    sink.add(name, 100 * rate / peak, "%", text)


def _operations(readings: Readings, device: DevicePeaks, kind: str) -> _Operations:
    """Returns the operations of `matrix` or `vector` instructions, by element type."""
    exists = counters.known(device.arch) if device.arch else frozenset()
    operations: dict[str, Amount] = {}
    missing: list[str] = []
    for element, terms in table("formulas.yaml")[kind].items():
        existing = {name: factor for name, factor in terms.items() if not exists or name in exists}
        amount = Amount()
        for name, factor in existing.items():
            counted = readings.together(name)
            if counted is None:
                missing.append(name)
            else:
                amount.add_counter(name, counted, factor)
        if amount.passes:
            operations[element] = amount
    for element, name in table("formulas.yaml").get(f"{kind}_derived", {}).items():
        counted = readings.together(name)
        if counted is not None and element not in operations:
            amount = operations[element] = Amount()
            amount.add_counter(name, counted, 1)
            missing = [m for m in missing if m not in table("formulas.yaml")[kind][element]]
    return _Operations(operations, missing)


def _flops(
    sink: Derived,
    matrix: _Operations,
    vector: _Operations,
    moved: Amount | None,
    device: DevicePeaks,
) -> None:
    """Adds the operations, their rate, and their number per byte; at least, if some are unknown."""
    total = Amount()
    for amount in (*matrix.by_element.values(), *vector.by_element.values()):
        total.add_amount(amount)
    if not total.passes:
        return
    missing = [*matrix.missing, *vector.missing]
    lacking = f"; not recorded, so it is at least this: {', '.join(missing)}" if missing else ""
    sink.add("measured.flops", total.value, "flop", f"{total.note}{lacking}")
    if total.per_ns is not None:
        rate = total.per_ns * 1e9
        text = f"measured.flops {figure(total.value)} over the time of their passes{lacking}"
        sink.add("roofline.flops_per_s", rate, "flop/s", text)
    if moved is not None and moved.value:
        text = f"measured.flops {figure(total.value)} / {figure(moved.value)} bytes{lacking}"
        passes = total.passes | moved.passes
        if len(passes) > 1:
            text += f"; from passes {', '.join(sorted(passes))}"
        sink.add("roofline.flops_per_byte", total.value / moved.value, "flop/byte", text)
    _matrix_share(sink, matrix, device)
    _roof(sink, matrix, vector, total, device)


def _matrix_share(sink: Derived, matrix: _Operations, device: DevicePeaks) -> None:
    """Adds the rate of matrix operations as a share of the peaks of their element types."""
    name, share, terms = "measured.share.mfma", 0.0, []
    if not matrix.by_element:
        return
    for element, amount in matrix.by_element.items():
        if amount.per_ns is None:
            return
        if not amount.value:
            continue
        peak = _peak(device, device.matrix, element)
        if peak is None:
            sink.add_missing(name, f"the device's peak for {element} is unknown")
            return
        share += 100 * amount.per_ns * 1e9 / peak
        terms.append(f"{element} {figure(amount.per_ns * 1e9)} of {figure(peak)} flop/s")
    note = f"100 · sum of: {'; '.join(terms)}" if terms else "no matrix operations"
    if matrix.missing:
        note += f"; not recorded: {', '.join(matrix.missing)}"
    sink.add(name, share, "%", note)


def _roof(
    sink: Derived, matrix: _Operations, vector: _Operations, total: Amount, device: DevicePeaks
) -> None:
    """Adds the peak for this mix: all operations over the time they need at their types' peaks."""
    name, seconds, terms = "roofline.peak_flops_per_s", 0.0, []
    for unit, operations, peaks in (
        ("matrix", matrix, device.matrix),
        ("vector", vector, device.vector),
    ):
        for element, amount in operations.by_element.items():
            if not amount.value:
                continue
            peak = _peak(device, peaks, element)
            if peak is None:
                sink.add_missing(name, f"the device's peak for {unit} {element} is unknown")
                return
            seconds += amount.value / peak
            share = 100 * amount.value / total.value
            terms.append(f"{figure(round(share, 1))} % {unit} {element} at {figure(peak)}")
    if seconds:
        clock = f"{device.cus} CUs at {device.clock_mhz} MHz ({device.sources.get('clock_mhz')})"
        note = f"mix of {', '.join(terms)} flop/s; {clock}"
        sink.add(name, total.value / seconds, "flop/s", note)


def _peak(device: DevicePeaks, peaks: Mapping[str, float], element: str) -> float | None:
    per_clock = peaks.get(element)
    return device.flops_per_s(per_clock) if per_clock is not None else None
