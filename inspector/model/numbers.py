"""Numbers within the bounds that a report from anywhere must keep.

Figures that a file states are plain numbers: they are reported as they are, whatever they are.
Whoever reads a saved report holds them to 64 bits, and metrics to `LARGEST`.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

LARGEST: Final = 1e30
"""The product of a few numbers that are smaller is a number, too."""
Real = Annotated[float, Meta(gt=-LARGEST, lt=LARGEST)]
Positive = Annotated[float, Meta(gt=0, lt=LARGEST)]
Count = Annotated[int, Meta(ge=0)]
Line = Annotated[int, Meta(ge=0, lt=1 << 31)]
"""Of a file that was read: pages make rows of them."""
Depth = Annotated[int, Meta(ge=1, lt=1 << 31)]
Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$", max_length=64)]
"""A sha256. It names a file, and leads out of no folder."""
