"""A launch's time in words, the same in all formats."""

from __future__ import annotations

from typing import Final

from ..model.time import KernelTime, Saving, StallReason
from .view import place

_NAMES: Final = {
    "vector": "VALU", "matrix": "matrix", "lds": "LDS", "l1": "L1", "l2": "L2", "l3": "L3",
    "memory": "memory",
}  # fmt: skip
_CHANGES: Final = {
    "scratch": "no spills to scratch",
    "lines": "accesses at their fewest cache lines",
    "conflicts": "no bank conflicts",
    "memory latency": "no memory latency (loads earlier, or more waves)",
    "memory bandwidth": "no limit of bandwidth (fewer bytes)",
    "memory": "no loads and stores at all",
    "lds": "no LDS accesses",
    "barriers": "no barriers",
    "vector work": "no vector instructions",
    "matrix work": "no matrix instructions",
    "occupancy": "twice the resident workgroups",
    "workgroups": "workgroups spread evenly over the compute units",
    "launch": "no launch",
}
STALLS: Final[dict[StallReason, str]] = {
    "issue": "instructions", "dependency": "dependencies", "vector": "VALU busy",
    "matrix": "matrix busy", "lds": "LDS", "memory": "memory", "barrier": "barriers",
    "scalar": "scalar loads", "icache": "instruction fetch", "launch": "launch",
    "tail": "idle units",
}  # fmt: skip
_BUSY: Final = 0.01


def amount(us: float) -> str:
    """Microseconds as they are read: `41 µs`, `4.1 µs`, `3,100 µs`."""
    return f"{us:,.0f} µs" if us >= 10 else f"{us:.2g} µs"


def estimate(time: KernelTime) -> str:
    """`41 µs (29–55, estimated)`."""
    low, high = amount(time.low).removesuffix(" µs"), amount(time.high).removesuffix(" µs")
    return f"{amount(time.us)} ({low}–{high}, estimated)"


def busy_units(time: KernelTime) -> str:
    """`memory 38 % of peak, matrix 4 %`: the units that do anything, the busiest first."""
    ranked = sorted(time.units.items(), key=lambda item: -item[1])
    told = [f"{_NAMES[name]} {100 * share:.0f} %" for name, share in ranked if share >= _BUSY]
    return ", ".join(told) or "hardly any"


def summary(time: KernelTime) -> str:
    """One line: how long, what limits it, how busy the units are."""
    return f"{estimate(time)}, limited by {time.limiter}; busy: {busy_units(time)}"


def where(time: KernelTime, most: int = 3) -> str:
    """The lines that take most: `50 % at gemm.py:15 (memory)`."""
    parts = [
        f"{100 * row.share:.0f} % at {place(row.source)} ({STALLS[row.reason]})"
        for row in time.lines
        if row.source is not None
    ]
    return ", ".join(parts[:most])


def change_of(saving: Saving) -> str:
    """What is taken away, in words."""
    return _CHANGES.get(saving.change, saving.change)


def against(time: KernelTime, measured_us: float) -> str:
    """What the model makes of a measured time."""
    ratio = measured_us / time.us
    if time.low <= measured_us <= time.high:
        return f"measured {amount(measured_us)}: within the model's range ({ratio:.2f} × its time)"
    if measured_us < time.low:
        warm = time.warm_us
        if warm is not None and measured_us >= warm * time.low / time.us:
            return (
                f"measured {amount(measured_us)}: as with the data in the Infinity Cache"
                f" ({amount(warm)})"
            )
        return (
            f"measured {amount(measured_us)}: {ratio:.2f} × the model's time, which it does not"
            " explain; another clock or other data?"
        )
    rest = measured_us - time.us
    return (
        f"measured {amount(measured_us)}: {ratio:.2f} × the model's time; {amount(rest)} are not"
        " explained (a lower clock, other kernels beside it, TLB misses, atomics that meet)"
    )
