"""How tiles get from memory to the dots and back: what TTGIR says before LLVM sees the code.

Each figure names the operation at fault and its place in the source. They are worked out in
`staged.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..model import Metric, MetricSpec, TtgirModule
from .subject import Subject

UNPIPELINED = "pipeline.unpipelined"
CONVERTS = "layout.converts"
TRIPS = "lds_trips"
EPILOGUE = "epilogue.converts"
PLAIN = "buffer.plain"
DIRECT = "lds_direct.missed"
NARROW_OPERANDS = "narrow_operands"
_ABOUT: Mapping[str, str] = {
    UNPIPELINED: "Global loads in the innermost loop of a dot whose value is multiplied in the "
    "same iteration, so that it waits for memory: `loads` of the `of` that feed the dots, `at` "
    "which line, num_`stages`; what keeps one of them there is its `cause` (while, conditional, "
    "narrow; None: not known), in words the `reason`, and the `fix`",
    CONVERTS: "convert_layout in the loop with dots that moves most with them, and tiles of one "
    "dot that reach another dot through a buffer: `lds` of `of` move data through LDS, the largest "
    "`at` which line, `before` and `after` in which layout, `bytes` of all their tiles, "
    "`narrow_reads` of less than 32 bits per lane from the buffers; `products`: those of them that "
    "begin in the layout of a dot's result, end in that of a dot's operand or result and stand "
    "under no `if`, with the same figures; loaded operands on their way to a dot and tiles that "
    "are only stored are left out",
    TRIPS: "Values that pass through LDS more than once between a global load and a dot: how many "
    "`values`, `most` trips, the worst one's load (`at`), `path` and where its `first_at` and "
    "`second_at` trips are",
    EPILOGUE: "Conversions of a dot's result through LDS before its store: `lds` of them, `at` "
    "which line, `bytes` of their tiles, `wide`: in a wider type than is stored",
    PLAIN: "Tiles read or written through 64-bit pointers that could be buffer operations: "
    "`accesses` of `of`, `hot` in the loops with dots (in any loop where no loop has one), `at` "
    "which line, the `reason`",
    NARROW_OPERANDS: "Reads of less than 32 bits per lane by which operands of dots come from "
    "LDS, in the loops with dots: `loaded` of tiles that hold loaded elements, in whatever type; "
    "`twice`: the same, of tiles that are read by two dots or in two orders; "
    "`indexed`: the same, loaded where other loads say (pages, starts of sequences), so that "
    "another order in memory is not known to be aligned; `masked`: in another order the mask would "
    "split the loads, too; `unshared`: each workgroup reads a part of its own, so that writing "
    "another order costs what it saves; `apart`: the dot takes less than 32 bits of neighbours "
    "from a lane; `computed` of tiles that were worked out from what was loaded",
    DIRECT: "Loads in the loops with dots that are stored to LDS as they are, through registers, "
    "on a target that copies memory straight to LDS: `loads` of the `of` that feed the dots, `at` "
    "which line, the `reason`",
}
SPECS = tuple(
    MetricSpec(name, "mapping", "derived", "kernel", about) for name, about in _ABOUT.items()
)


def compute(subject: Subject) -> Iterator[Metric]:
    """All figures; None with a note where there is no TTGIR for an AMD target."""
    module = subject.ttgir
    note = "needs the kernel's TTGIR"
    if module is not None and not _for_amd(module):
        note = "compiled for no AMD target"
    elif module is not None:
        # The layout algebra is loaded for Triton kernels alone.
        from .staged import facts

        try:
            values = tuple(facts(subject, module))
            for spec, (value, why) in zip(SPECS, values, strict=True):
                yield Metric(spec.name, value, spec.unit, spec.origin, why)
            return
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            note = "the TTGIR is not as Triton prints it"  # an edited file
    for spec in SPECS:
        yield Metric(spec.name, None, spec.unit, spec.origin, note)


def _for_amd(module: TtgirModule) -> bool:
    return str(module.attributes.get("target", "hip:")).startswith("hip:")
