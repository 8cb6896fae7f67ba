"""Two derivations of where lanes lie, held against each other.

`emulator.addresses` works out of the machine code alone which address each lane of an access has.
The TTGIR says the same in its own way: a tensor's layout, which element each register of each lane
of each wave holds; a buffer's layout, or the arithmetic of pointers and offsets, where that element
lies. For each instruction that an operation became there must be registers whose elements lie
relative to one another, over all lanes of all waves, just as the instruction's lanes do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from ..model import Access, Instruction, TtgirType
from ..ttgir.axes.flow import Graph, functions
from ..ttgir.axes.tiles import Tile, tile_of
from ..ttgir.evaluated import Evaluated
from ..ttgir.layouts import to_linear
from ..ttgir.linear import LinearLayout, is_power_of_two
from ..ttgir.lowered import element_bits
from ..ttgir.matrix import MFMA_WAVE
from ..ttgir.shared import gaps_of, unpadded_offset
from .lanes import argument_offsets, known_arguments, size_of
from .subject import Subject

if TYPE_CHECKING:
    import numpy as np

    from ..emulator.addresses import Places

    Array = np.ndarray[Any, Any]

Verdict = Literal["agree", "differ"]


def checked(subject: Subject, accesses: Sequence[Access]) -> tuple[Access, ...]:
    """The accesses with what the comparison says of each.

    Args:
        subject: the kernel; `places` is where its lanes lie.
        accesses: its operations that move tiles.
    """
    if not subject.places or subject.ttgir is None:
        return tuple(accesses)
    tiles: dict[int, tuple[Graph, Tile]] = {}
    for graph in functions(subject.ttgir):
        for op in graph.ops:
            tile = tile_of(op)
            if tile is not None:
                tiles[op.line] = graph, tile
    instructions: dict[int, list[Instruction]] = {}
    for instruction in subject.function.instructions:
        instructions.setdefault(instruction.line, []).append(instruction)
    comparison = _Comparison(subject)
    claims: list[dict[int, Verdict | None]] = []
    for access in accesses:
        became = [inst for line in access.lines for inst in instructions.get(line, ())]
        claims.append(
            comparison.verdicts(*tiles[access.line], became) if access.line in tiles else {}
        )
    together: dict[int, set[Verdict | None]] = {}
    for claim in claims:
        for site, verdict in claim.items():
            together.setdefault(site, set()).add(verdict)
    return tuple(
        replace(access, lanes=_joined(claim, together)) if claim else access
        for access, claim in zip(accesses, claims, strict=True)
    )


def _joined(
    claim: Mapping[int, Verdict | None], together: Mapping[int, set[Verdict | None]]
) -> Verdict | None:
    """What the verdicts on its instructions come to for an operation.

    Operations of one position cannot be told apart: each is joined with all instructions there. One
    that lies as another of them does is that one's.
    """
    own = {verdict for site, verdict in claim.items() if verdict == "agree"}
    for site, verdict in claim.items():
        if verdict == "agree" or "agree" in together[site]:
            continue
        if None in together[site]:
            return None
        return "differ"
    return "agree" if own else None


class _Elements(Struct, frozen=True):
    """Where the TTGIR puts the element of each register.

    Args:
        offsets: bytes from anywhere, int64 [draw, register, wave, lane]; one draw where all agree.
        settled: whether nothing of it rests on what is not known (values in memory, iterations):
            the code's side draws that for itself, and for each wave.
        size: bytes of an element.
        space: `global` or `lds`.
    """

    offsets: Array
    settled: bool
    size: int
    space: str


class _Comparison:
    """The accesses of one kernel; layouts and values are worked out once."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._tables: dict[tuple[object, ...], _Elements | None] = {}
        self._evaluated: dict[int, Evaluated] = {}
        self._verdicts: dict[tuple[object, ...], Verdict | None] = {}

    def verdicts(
        self, graph: Graph, tile: Tile, instructions: Sequence[Instruction]
    ) -> dict[int, Verdict | None]:
        """What the comparison says of an operation and each instruction that it became."""
        elements = self._elements(graph, tile) if instructions else None
        return {
            inst.index: None if elements is None else self._of_instruction(inst, elements)
            for inst in instructions
        }

    def _of_instruction(self, instruction: Instruction, elements: _Elements) -> Verdict | None:
        transposes = _TRANSPOSES in instruction.op.traits
        verdicts = {
            self._of_part(places, elements, transposes=transposes)
            for places in self._subject.places.get(instruction.index, ())
            if places.space == elements.space
        }
        if "differ" in verdicts:
            return "differ"
        return "agree" if verdicts == {"agree"} else None

    def _of_part(self, places: Places, elements: _Elements, *, transposes: bool) -> Verdict | None:
        if places.scattered or places.where.shape[1:] != elements.offsets.shape[2:]:
            return None
        where = places.where - places.where[:, :1, :1]
        active = b"" if places.active is None else places.active.tobytes()
        key = id(elements), transposes, places.size, where.tobytes(), active
        if key not in self._verdicts:
            if transposes:
                verdict = _together(where, places.active, places.size, elements)
            else:
                verdict = _compared(where, places.active, places.size, elements)
            self._verdicts[key] = verdict
        return self._verdicts[key]

    # ----------------------------------------------------------------------- the TTGIR's side

    def _elements(self, graph: Graph, tile: Tile) -> _Elements | None:
        key: tuple[object, ...] = id(graph), tile.op.index
        start = None
        if tile.buffer is not None:
            name = tile.op.operands[0] if tile.cls == "lds_read" else tile.op.operands[-1]
            start = _start_in_allocation(graph, name, tile.buffer)
            if start is None:
                return None
            layouts = tile.tensor_type.layout, tile.buffer.layout
            texts = tuple(layout.text if layout is not None else "" for layout in layouts)
            key = *texts, tile.tensor_type.shape, tile.buffer.layout_shape, start, tile.element
        if key not in self._tables:
            try:
                self._tables[key] = self._worked_out(graph, tile, start)
            except (IndexError, TypeError, ValueError):
                self._tables[key] = None  # types that no Triton prints, e.g. of an edited file
        return self._tables[key]

    def _worked_out(
        self, graph: Graph, tile: Tile, start: tuple[int, ...] | None
    ) -> _Elements | None:
        linear = to_linear(tile.tensor_type.layout, tile.tensor_type.shape)
        bits = element_bits(tile.element)
        if linear is None or linear.block or bits is None or (bits % 8 and bits != 1):
            return None
        if len(linear.register) + len(linear.lane) + len(linear.warp) > _MOST_BITS:
            return None
        size = max(1, bits // 8)
        if tile.buffer is None or start is None:
            return self._in_memory(graph, tile, linear, size)
        offsets = _in_buffer(linear, tile.buffer, start)
        if offsets is None:
            return None
        return _Elements(offsets[None] * size, True, size, "lds")

    def _in_memory(
        self, graph: Graph, tile: Tile, linear: LinearLayout, size: int
    ) -> _Elements | None:
        """Those of an access of global memory."""
        import numpy as np

        from ..emulator.unknowns import DRAWS

        values = self._values(graph)
        addresses = values.value(tile.addresses or "")
        if addresses is None:
            return None
        index = _indices(linear)
        shape = tile.tensor_type.shape
        bytes_each = size if tile.offsets is not None else 1
        offsets = np.broadcast_to(addresses, (2 * DRAWS, *shape)).reshape(2 * DRAWS, -1)
        offsets = offsets[:, index] * bytes_each
        if tile.cls == "lds_direct":
            order = _order_in_buffer(graph, tile, linear)
            if order is None:
                return None
            offsets = np.take_along_axis(offsets, order[None], 3)
        # What differs between equal arguments rests on what is not known.
        settled = bool((offsets[:DRAWS] == offsets[DRAWS:]).all())
        return _Elements(offsets[:DRAWS], settled, size, "global")

    def _values(self, graph: Graph) -> Evaluated:
        import numpy as np

        from ..emulator.addresses import WORKGROUPS

        key = id(graph)
        if key not in self._evaluated:
            program = np.tile(np.array(WORKGROUPS, np.int64), 2)
            self._evaluated[key] = Evaluated(graph, self._arguments(graph), program)
        return self._evaluated[key]

    def _arguments(self, graph: Graph) -> dict[str, Array]:
        """The kernel's own arguments as the code's side has drawn them, twice each."""
        import numpy as np

        from ..emulator.unknowns import Arguments, DrawnMemory

        offsets = argument_offsets(self._subject.facts.signature)
        names = [name for name, argument in graph.carried.items() if argument.owner is graph.ops[0]]
        own = graph.ops[0].attributes.get("sym_name") == self._subject.function.name
        if not own or len(names) != len(offsets):
            return {}
        drawn = DrawnMemory(known_arguments(self._subject) or Arguments())
        arguments = {}
        for name, (argument, offset) in zip(names, offsets.items(), strict=True):
            kind = self._subject.facts.signature[argument]
            size = size_of(kind)
            if kind.startswith("*"):
                arguments[name] = np.zeros(2 * len(drawn.argument(0, 4)), np.int64)
            elif offset is not None and size in (4, 8) and kind[0] in "iu":
                arguments[name] = np.tile(drawn.argument(offset, size), 2)
        return arguments


_MOST_BITS: Final = 21
"""Of registers, lanes and waves together; Triton's tensors have at most 2^20 elements."""
_TRANSPOSES: Final = "transpose"


def _indices(linear: LinearLayout) -> Array:
    """Numbers of elements in row-major order, [register, wave, lane]."""
    import numpy as np

    index = np.zeros((1, 1, 1), np.int64)
    for axis, bases in enumerate((linear.register, linear.warp, linear.lane)):
        for basis in bases:
            step = 0
            for size, along in zip(linear.shape, basis, strict=True):
                step = step * size + along
            index = np.concatenate([index, index ^ step], axis)
    return index


def _start_in_allocation(graph: Graph, name: str, buffer: TtgirType) -> tuple[int, ...] | None:
    """Coordinates at which a buffer begins in its allocation; None where they are not known."""
    dims = len(buffer.shape)
    if buffer.layout_shape == buffer.shape:
        return (0,) * dims
    maker = graph.producers.get(name)
    if maker is None or not maker.name.endswith(".memdesc_subslice"):
        return None
    offsets = maker.attributes.get("offsets")
    source = maker.operand_types[0] if maker.operand_types else buffer
    if not isinstance(offsets, tuple) or source.layout_shape != source.shape:
        return None
    return offsets[-dims:] if len(offsets) >= dims else None


def _order_in_buffer(graph: Graph, tile: Tile, linear: LinearLayout) -> Array | None:
    """Lanes in the order in which they write LDS, [register, wave, lane]; None if not known.

    A load into LDS writes lane after lane. Where the buffer is swizzled, Triton has each lane load
    the element whose place that is, by exchanging the lanes' addresses within their wave.
    """
    pairs = zip(tile.op.operands, tile.op.operand_types, strict=False)
    name, buffer = next((pair for pair in pairs if pair[1].kind == "memdesc"), ("", None))
    start = _start_in_allocation(graph, name, buffer) if buffer is not None else None
    if buffer is None or start is None:
        return None
    offsets = _in_buffer(linear, buffer, start)
    return None if offsets is None else offsets.argsort(2, kind="stable")


def _in_buffer(linear: LinearLayout, buffer: TtgirType, start: Sequence[int]) -> Array | None:
    """Elements from the start of the buffer, [register, wave, lane].

    Args:
        linear: of the tile in registers.
        buffer: type of what it lies in.
        start: coordinates in the allocation at which it begins.
    """
    import numpy as np

    shape = buffer.layout_shape
    if buffer.layout is None or not all(map(is_power_of_two, shape)):
        return None
    first = unpadded_offset(buffer.layout, shape, start)
    if first is None:
        return None
    offsets = np.full((1, 1, 1), first, np.int64)
    for axis, bases in enumerate((linear.register, linear.warp, linear.lane)):
        for basis in bases:
            # Linear, as all sizes are powers of two.
            step = unpadded_offset(buffer.layout, shape, basis)
            if step is None:
                return None
            offsets = np.concatenate([offsets, offsets ^ step], axis)
    gaps = gaps_of(buffer.layout)
    return offsets + sum(offsets // interval * padding for interval, padding in gaps)


# --------------------------------------------------------------------------- both sides


def _compared(where: Array, active: Array | None, size: int, elements: _Elements) -> Verdict | None:
    """Whether registers' elements lie as the lanes do.

    Args:
        where: bytes from the first lane, int64 [draw, wave, lane].
        active: which lanes take part, bool of the same shape; None for all.
        size: bytes of each lane.
        elements: the TTGIR's.
    """
    import numpy as np

    apart = elements.offsets - where[:, None]  # [draw, register, wave, lane]
    counts = np.ones(apart.shape, bool)
    if active is not None:
        counts &= active[:, None]
    if not counts.any():
        return None
    if _fits(apart, counts, size, elements.size):
        return "agree"
    return "differ" if elements.settled else None


def _together(where: Array, active: Array | None, size: int, elements: _Elements) -> Verdict | None:
    """Whether groups of lanes read the elements that some registers of the group hold.

    Lanes of instructions that transpose while they read (gfx950's ds_read_b64_tr_b16) bring
    elements for one another, within 16 of them; of other widths nothing is said. Arguments as for
    `_compared`.
    """
    import numpy as np

    draws, waves, lanes = where.shape
    each = size // elements.size
    registers = elements.offsets.shape[1]
    if active is not None or size != _TRANSPOSED_BYTES or each < 1 or registers % each:
        return None
    if lanes != MFMA_WAVE:
        return None
    steps = np.arange(each) * elements.size
    read = np.sort(
        (where[..., None] + steps).reshape(draws, 1, waves, -1, _TRANSPOSED_LANES * each)
    )
    held = elements.offsets.reshape(-1, registers // each, each, waves, lanes)
    held = np.moveaxis(held, 2, -1).reshape(
        len(held), registers // each, waves, -1, _TRANSPOSED_LANES * each
    )
    apart = np.sort(held) - read
    fits = (apart == apart[:, :, :1, :1, :1]).all((2, 3, 4)).all(0).any()
    return "agree" if fits else "differ"


_TRANSPOSED_BYTES: Final = 8
_TRANSPOSED_LANES: Final = 16


def _fits(apart: Array, counts: Array, size: int, element: int) -> bool:
    """Whether some registers' elements lie as the lanes do, and side by side.

    Args:
        apart: between each register's element and the lane, in bytes, [draw, register, wave, lane].
        counts: which are to be looked at, bool of the same shape.
        size: bytes of each lane.
        element: bytes of one.
    """
    import numpy as np

    far = np.int64(1) << 62
    low = np.where(counts, apart, far).min((2, 3))
    high = np.where(counts, apart, -far).max((2, 3))
    draws = counts.any((1, 2, 3))
    if not draws.any():
        return True
    fits = ((low == high) | ~counts.any((2, 3)))[draws].all(0) & counts.any((0, 2, 3))
    # What an instruction moves of a lane are neighbours.
    starts = {tuple(low[draws, register]) for register in np.flatnonzero(fits)}
    return any(
        all(
            tuple(place + number * element for place in start) in starts
            for number in range(max(1, size // element))
        )
        for start in starts
    )
