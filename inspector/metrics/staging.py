"""The catalogue of figures on the ways of tiles from memory to the dots and back, by TTGIR."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..model import Metric, TtgirModule
from .entries import of_kernels, of_loops
from .subject import Subject

if TYPE_CHECKING:
    from .staged import Fact

UNPIPELINED = "pipeline.unpipelined"
CONVERTS = "layout.converts"
PRODUCTS = "product.converts"
EPILOGUE = "epilogue.converts"
PLAIN = "buffer.plain"
DIRECT = "lds_direct.missed"
NARROW_OPERANDS = "narrow_operands"
NARROW_HERE = "narrow_here"
COPIES = "narrow_copies"

SPECS = of_kernels(
    {
        UNPIPELINED: "Global loads in the innermost loop of a dot whose value is multiplied in "
        "the same iteration, so that it waits for memory: `loads` of the `of` that feed the dots, "
        "`at` which line, num_`stages`; what keeps one of them there is its `cause` (while, "
        "conditional, narrow; None: not known), in words the `reason`, and the `fix`",
        CONVERTS: "convert_layout in the loop with dots that moves most with them, and tiles of "
        "one dot that reach another dot through a buffer: `lds` of `of` move data through LDS, "
        "the largest `at` which line, `before` and `after` in which layout, `bytes` of all their "
        "tiles; loaded operands on their way to a dot and tiles that are only stored are left out",
        PRODUCTS: "As layout.converts, of those that begin in the layout of a dot's result, end in "
        "that of a dot's operand or result and stand under no `if`",
        EPILOGUE: "Conversions of a dot's result through LDS before its store: `lds` of them, `at` "
        "which line, `bytes` of their tiles, `wide`: in a wider type than is stored",
        PLAIN: "Tiles read or written through 64-bit pointers that could be buffer operations: "
        "`accesses` of `of`, `hot` in the loops with dots (in any loop where no loop has one), "
        "`at` which line, the `reason`",
        NARROW_OPERANDS: "Reads of less than 32 bits per lane by which operands of dots come from "
        "LDS, in the loops with dots: `loaded` of tiles that hold loaded elements, in whatever "
        "type; `twice`: the same, of tiles that are read by two dots or in two orders; `indexed`: "
        "the same, loaded where other loads say (pages, starts of sequences), so that another "
        "order in memory is not known to be aligned; `masked`: in another order the mask would "
        "split the loads, too; `unshared`: each workgroup reads a part of its own, so that "
        "writing another order costs what it saves; `apart`: the dot takes less than 32 bits of "
        "neighbours from a lane; `computed` of tiles that were worked out from what was loaded, "
        "or that lie in LDS with K contiguous and are read in the layout of what they are "
        "combined with",
        DIRECT: "Loads in the loops with dots that are stored to LDS as they are, through "
        "registers, on a target that copies memory straight to LDS: `loads` of the `of` that feed "
        "the dots, `at` which line, the `reason`",
    }
)
NARROW_SPECS = of_loops(
    {
        NARROW_HERE: "As narrow_operands, of the reads that stand in this loop; of all loops with "
        "dots where positions do not tell them apart",
    }
)
COPY_SPECS = of_kernels(
    {
        COPIES: "Tiles that two dots read in both orders, so that one of them reads by less than "
        "32 bits: how many `tiles`, `bytes` of one transposed copy of each, the largest "
        "num_`stages` up to the kernel's own with which they fit into a workgroup's LDS (None: "
        "none), and that in words (`said`)",
    }
)


def compute(subject: Subject) -> Iterator[Metric]:
    """The figures of `SPECS`; None with a note where there is no TTGIR for an AMD target."""
    for spec, (value, note) in zip(SPECS, _figures(subject), strict=True):
        yield Metric(spec.name, value, spec.unit, spec.origin, note)


def _figures(subject: Subject) -> Sequence[Fact]:
    """Each figure of `SPECS` with a note that says why it is None."""
    module = subject.ttgir
    if module is None:
        return [(None, "needs the kernel's TTGIR")] * len(SPECS)
    if not _for_amd(module):
        return [(None, "compiled for no AMD target")] * len(SPECS)
    from .staged import facts

    try:
        return tuple(facts(subject, module))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):  # an edited file
        return [(None, "the TTGIR is not as Triton prints it")] * len(SPECS)


def _for_amd(module: TtgirModule) -> bool:
    return str(module.attributes.get("target", "hip:")).startswith("hip:")
