"""Metrics that follow from counters, each with its formula and the values that went into it.

The operands of a ratio come from one pass: another pass is another run of the program. Amounts
(bytes, operations) do not change from run to run, so that sums of them may span passes, which
their notes say. What cannot be computed is left out; where a device figure is missing, a note says
so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

from msgspec import Struct

from . import amounts, counters, quirks
from .amounts import Derived
from .counters import figure
from .peaks import DevicePeaks
from .readings import PassReadings, Readings

_ACTIVE = "GRBM_GUI_ACTIVE"
_OVER_CLOCK = 1.1
"""GRBM_GUI_ACTIVE also runs around a kernel: beyond the peak clock by so much, it is no clock."""
_WAVES = "SQ_LEVEL_WAVES"
_ACCUMULATED = "SQ_ACCUM_PREV_HIRES"
_LEVELS = ("SQ_INST_LEVEL_", "SQ_IFETCH_LEVEL")


class _Ticks(Struct, frozen=True):
    """Clocks of one XCC in a pass, and how they were found."""

    counted: PassReadings
    value: float
    text: str


def derive(readings: Readings, device: DevicePeaks) -> Derived:
    """Computes all metrics that follow from a specialisation's counters on a device."""
    result = Derived()
    _raw(result, readings, device)
    _occupancy(result, readings, device)
    _busy(result, readings, device)
    _lds(result, readings, device)
    _cache(result, readings)
    _clock(result, readings, device)
    amounts.add(result, readings, device)
    return result


def _raw(result: Derived, readings: Readings, device: DevicePeaks) -> None:
    """Each counter in its unit, mean per dispatch."""
    scales: dict[tuple[int, str], list[str]] = {}
    for name, values in readings.counters.items():
        about = counters.about(name, device.arch)
        scale = about.scale
        if scale != 1:
            scales.setdefault((scale, about.unit), []).append(name)
        value = values.mean * scale
        text = f"mean of {values.count:,} dispatches"
        if name == _ACTIVE:
            ticks = _ticks(result, readings, device, name)
            if ticks is None:
                text += ", summed over XCCs"
            else:
                value, text = ticks.value, f"{text}; {ticks.text}"
        if scale != 1:
            text += f"; {figure(values.mean)} recorded, × {scale}"
        if about.text:
            text += f"; {about.text}"
        result.add(f"measured.counter.{name}", value, about.unit, text)
    for (scale, unit), names in scales.items():
        recorded_in = {4: "quad cycles", 1024: "KB of 1024 bytes"}.get(
            scale, f"units of {scale} {unit}"
        )
        result.add_note(f"recorded in {recorded_in}, shown in {unit}: {', '.join(sorted(names))}")


def _ticks(
    result: Derived,
    readings: Readings,
    device: DevicePeaks,
    *names: str,
    unless: Callable[[PassReadings], bool] | None = None,
) -> _Ticks | None:
    """Clocks of one XCC in the pass that has all these counters, GRBM_GUI_ACTIVE among them."""
    counted = readings.together(_ACTIVE, *names, unless=unless)
    recorded = counted.mean(_ACTIVE) if counted else None
    if counted is None or not recorded:
        return None
    if device.xccs is None:
        result.add_note(
            "no figures over time: over how many XCCs GRBM_GUI_ACTIVE is summed is unknown, as the "
            "recording does not describe the device"
        )
        return None
    value, note = quirks.per_xcc(recorded, device.xccs, counted.mean_ns, device.clock_mhz)
    result.add_note(note)
    if counted.is_merged:
        result.add_note(
            f"{counted.name} is merged from several passes: its ratios mix runs of the program"
        )
    text = f"{_ACTIVE} {figure(recorded)}"
    if value != recorded:
        text += f"/{device.xccs}"
    if counted.is_merged:
        text += " (may be of another run)"
    return _Ticks(counted, value, text)


def _needs(result: Derived, metric: str, **figures: float | None) -> bool:
    """Tells whether all figures of the device are known; adds a note on the missing ones."""
    missing = [name for name, value in figures.items() if not value]
    if missing:
        result.add_missing(metric, f"unknown of the device: {', '.join(missing)}")
    return not missing


def _occupancy(result: Derived, readings: Readings, device: DevicePeaks) -> None:
    """Adds the mean waves per SIMD, and their share of the most that the device can hold."""
    name, unit = "measured.occupancy.waves_per_eu", "waves/SIMD"
    for waves, text in _waves(result, readings, device):
        if waves is not None:
            result.add(name, waves, unit, text)
    _add_profilers(result, readings, "measured.occupancy.percent", "OccupancyPercent")
    mean = result.metrics.get(name)
    if mean is None or not isinstance(mean.value, float):
        return
    if _needs(result, "measured.occupancy.percent", waves_per_simd=device.max_waves):
        text = f"100 · {figure(mean.value)} waves/SIMD / {device.max_waves}"
        share = 100 * mean.value / (device.max_waves or 1)
        result.add("measured.occupancy.percent", share, "%", text)


def _waves(
    result: Derived, readings: Readings, device: DevicePeaks
) -> Iterator[tuple[float | None, str]]:
    """Yields the mean waves per SIMD, computed in several ways, the best first."""
    metric = "measured.occupancy.waves_per_eu"
    # The accumulator is of the level before it in the pass: with two levels, that is unknown,
    # unless the recording names it.
    for name, unless in ((f"{_WAVES}_ACCUM", None), (_ACCUMULATED, _has_more_levels)):
        ticks = _ticks(result, readings, device, name, _WAVES, unless=unless)
        if ticks and _needs(result, metric, simds=device.simds):
            total = ticks.counted.mean(name) or 0.0
            value = total / ticks.value / (device.simds or 1)
            text = f"{_ACCUMULATED} {figure(total)} (of {_WAVES})"
            yield value, f"{text} / ({ticks.text} · {device.simds} SIMDs)"
    counted = readings.together("MeanOccupancyPerCU")
    if counted and _needs(result, metric, simds_per_cu=device.simds_per_cu):
        mean = counted.mean("MeanOccupancyPerCU") or 0.0
        text = f"MeanOccupancyPerCU {figure(mean)} / {device.simds_per_cu} SIMDs"
        yield mean / (device.simds_per_cu or 1), text
    ticks = _ticks(result, readings, device, "SQ_WAVE_CYCLES")
    if ticks and _needs(result, metric, simds=device.simds):
        scale = counters.about("SQ_WAVE_CYCLES", device.arch).scale
        cycles = ticks.counted.mean("SQ_WAVE_CYCLES") or 0.0
        value = scale * cycles / ticks.value / (device.simds or 1)
        factor = f"{scale} · " if scale != 1 else ""
        text = f"{factor}SQ_WAVE_CYCLES {figure(cycles)}"
        yield value, f"{text} / ({ticks.text} · {device.simds} SIMDs)"


def _has_more_levels(counted: PassReadings) -> bool:
    return any(name.startswith(_LEVELS) for name in counted.means)


def _busy(result: Derived, readings: Readings, device: DevicePeaks) -> None:
    """Adds the shares of time in which units worked."""
    name = "measured.mfma_busy"
    _add_share(result, readings, device, name, "SQ_VALU_MFMA_BUSY_CYCLES", of="simds")
    differing = "; rocprofiler-sdk 0.5 divides by CUs, 1.0 by SIMDs"
    _add_profilers(result, readings, name, "MfmaUtil", differing)
    name = "measured.valu_busy"
    _add_share(result, readings, device, name, "SQ_ACTIVE_INST_VALU", of="simds")
    _add_profilers(result, readings, name, "VALUBusy")


def _lds(result: Derived, readings: Readings, device: DevicePeaks) -> None:
    """Adds the share of time that LDS was active, and what of it bank conflicts cost."""
    busy, conflict = "SQ_LDS_IDX_ACTIVE", "SQ_LDS_BANK_CONFLICT"
    _add_share(result, readings, device, "measured.lds.conflict_percent", conflict, of="cus")
    _add_share(result, readings, device, "measured.share.lds", busy, conflict, of="cus")
    for prefix in ("SQ", "SQC"):
        busy, conflict = f"{prefix}_LDS_IDX_ACTIVE", f"{prefix}_LDS_BANK_CONFLICT"
        counted = readings.together(busy, conflict)
        if counted is None:
            continue
        active, lost = counted.mean(busy) or 0.0, counted.mean(conflict) or 0.0
        if active > lost:
            text = f"{conflict} {figure(lost)} / ({busy} {figure(active)} - {figure(lost)})"
            result.add("measured.lds.conflicts_per_access", lost / (active - lost), "ratio", text)


def _cache(result: Derived, readings: Readings) -> None:
    """Adds the hit rate of the L2 cache."""
    for hit, miss in (("TCC_HIT", "TCC_MISS"), ("GL2C_HIT", "GL2C_MISS")):
        if (counted := readings.together(hit, miss)) is None:
            continue
        hits, misses = counted.mean(hit) or 0.0, counted.mean(miss) or 0.0
        if hits + misses:
            text = f"100 · {hit} {figure(hits)} / ({figure(hits)} + {miss} {figure(misses)})"
            result.add("measured.l2_hit", 100 * hits / (hits + misses), "%", text)
    _add_profilers(result, readings, "measured.l2_hit", "L2CacheHit")


def _add_share(
    result: Derived,
    readings: Readings,
    device: DevicePeaks,
    name: str,
    counter: str,
    less: str | None = None,
    *,
    of: Literal["simds", "cus"],
) -> None:
    """Adds cycles that units counted, without those of `less`, as a share of all their clocks."""
    ticks = _ticks(result, readings, device, counter, *([less] if less else []))
    units, word = (device.simds, "SIMDs") if of == "simds" else (device.cus, "CUs")
    if ticks is None or not _needs(result, name, **{of: units}):
        return
    cycles = ticks.counted.mean(counter) or 0.0
    text = f"{counter} {figure(cycles)}"
    if less is not None:
        lost = ticks.counted.mean(less) or 0.0
        cycles, text = cycles - lost, f"({text} - {less} {figure(lost)})"
    scale = counters.about(counter, device.arch).scale if less is None else 1
    factor = f"100 · {scale}" if scale != 1 else "100"
    value = 100 * scale * cycles / ticks.value / (units or 1)
    result.add(name, value, "%", f"{factor} · {text} / ({ticks.text} · {units} {word})")


def _add_profilers(
    result: Derived, readings: Readings, name: str, counter: str, note: str = ""
) -> None:
    """Adds a percentage that the profiler derived itself."""
    if (counted := readings.together(counter)) is not None:
        value = counted.mean(counter) or 0.0
        result.add(name, value, "%", f"{counter}, by the profiler{note}")


def _clock(result: Derived, readings: Readings, device: DevicePeaks) -> None:
    """Adds the mean clock, unless it is above the device's: then the counter ran for longer."""
    timed = [
        candidate for candidate in readings.passes if candidate.has(_ACTIVE) and candidate.mean_ns
    ]
    counted = max(timed, key=lambda counted: counted.dispatches, default=None)
    ticks = _ticks(result, readings, device) if counted else None
    if counted is None or ticks is None or counted is not ticks.counted or not counted.mean_ns:
        return
    clock = 1000 * ticks.value / counted.mean_ns
    if device.clock_mhz is None or clock <= _OVER_CLOCK * device.clock_mhz:
        text = f"{ticks.text} / {figure(counted.mean_ns)} ns"
        result.add("measured.clock_mhz", clock, "MHz", text)
    else:
        result.add_missing(
            "measured.clock_mhz",
            f"{figure(ticks.value)} clocks in {figure(counted.mean_ns)} ns are more than "
            f"{device.clock_mhz} MHz: {_ACTIVE} also runs before and after a short kernel, so that "
            "shares of its time come out too low",
        )
