"""Width of memory accesses: bytes moved per lane and how wide each access is.

`vectorized.<class>` is the share of accesses at the widest form, 128 bits per lane for global, LDS
and scratch memory on every supported target (ISA documents: `*_dwordx4`, `ds_*_b128`; LDS reads of
two addresses count as the sum of both).
"""

from __future__ import annotations

from collections.abc import Iterator

from ..model import Metric, MetricSpec
from .subject import MEMORY_CLASSES, Subject, Tally

WIDEST_BITS = 128
NARROW_BITS = 32
"""What an LDS bank, and a register, holds; narrower accesses take as long and fill part of it."""

SPECS = (
    MetricSpec("bytes.*", "bytes/lane", "derived", "both", "Bytes that one lane moves"),
    MetricSpec("vector_bits.*.min", "bits/lane", "derived", "both", "Narrowest access"),
    MetricSpec("vector_bits.*.max", "bits/lane", "derived", "both", "Widest access"),
    MetricSpec("vector_bits.*.mean", "bits/lane", "derived", "both", "Mean width of an access"),
    MetricSpec(
        "narrow.*", "count", "derived", "both", "Accesses that move less than 32 bits per lane"
    ),
    MetricSpec(
        "vectorized.*", "ratio", "derived", "both", "Share of accesses that move 128 bits per lane"
    ),
)


def compute(subject: Subject, region: Tally) -> Iterator[Metric]:
    for cls in MEMORY_CLASSES:
        accesses = region.accesses.get(cls, ())
        widths = [bits for bits in accesses if bits is not None]
        if len(widths) < len(accesses):
            note = f"{len(accesses) - len(widths)} of {len(accesses)} accesses have no fixed width"
            yield Metric(f"bytes.{cls}", None, "bytes/lane", "derived", note)
        else:
            yield Metric(f"bytes.{cls}", sum(widths) // 8, "bytes/lane", "derived")
        if not widths:
            continue
        yield Metric(f"vector_bits.{cls}.min", min(widths), "bits/lane", "derived")
        yield Metric(f"vector_bits.{cls}.max", max(widths), "bits/lane", "derived")
        mean = round(sum(widths) / len(widths), 2)
        yield Metric(f"vector_bits.{cls}.mean", mean, "bits/lane", "derived")
        narrow = sum(bits < NARROW_BITS for bits in widths)
        yield Metric(f"narrow.{cls}", narrow, "count", "derived")
        share = round(sum(w >= WIDEST_BITS for w in widths) / len(accesses), 4)
        yield Metric(f"vectorized.{cls}", share, "ratio", "derived")
