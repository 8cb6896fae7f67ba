"""Checks the lane addresses derived from the code against those of Triton's layouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from ..model import Access, Instruction, TtgirType
from ..ttgir.axes.graph import ValueGraph, functions
from ..ttgir.axes.widths import Tile, tile_of
from ..ttgir.evaluation import Evaluation
from ..ttgir.layouts import to_linear
from ..ttgir.linear import LinearLayout, is_power_of_two
from ..ttgir.lowered import element_bits
from ..ttgir.shared_buffers import gaps_of, unpadded_offset
from .argument_words import argument_offsets, known_arguments, size_of
from .lane_comparison import Elements, Verdict, compare, compare_transposed
from .subject import Subject

if TYPE_CHECKING:
    import numpy as np

    from ..lanes.addresses import Places

    Array = np.ndarray[Any, Any]


def checked(subject: Subject, accesses: Sequence[Access]) -> tuple[Access, ...]:
    """The accesses with the verdict of the comparison.

    Args:
        subject: the kernel; `places` are its lanes' addresses.
        accesses: its operations that move tiles.
    """
    if not subject.places or subject.ttgir is None:
        return tuple(accesses)
    tiles: dict[int, tuple[ValueGraph, Tile]] = {}
    for graph in functions(subject.ttgir):
        for op in graph.ops:
            tile = tile_of(op)
            if tile is not None:
                tiles[op.line] = graph, tile
    instructions: dict[int, list[Instruction]] = {}
    for instruction in subject.function.instructions:
        instructions.setdefault(instruction.line, []).append(instruction)
    comparison = _Comparison(subject)
    verdicts_of: list[dict[int, Verdict | None]] = []
    for access in accesses:
        machine_ops = [inst for line in access.lines for inst in instructions.get(line, ())]
        verdicts_of.append(
            comparison.verdicts(*tiles[access.line], machine_ops) if access.line in tiles else {}
        )
    site_verdicts: dict[int, set[Verdict | None]] = {}
    for verdicts in verdicts_of:
        for site, verdict in verdicts.items():
            site_verdicts.setdefault(site, set()).add(verdict)
    return tuple(
        replace(access, lanes=_combined(verdicts, site_verdicts)) if verdicts else access
        for access, verdicts in zip(accesses, verdicts_of, strict=True)
    )


def _combined(
    verdicts: Mapping[int, Verdict | None], site_verdicts: Mapping[int, set[Verdict | None]]
) -> Verdict | None:
    """The verdict on an operation by those on its instructions."""
    agreeing = {verdict for site, verdict in verdicts.items() if verdict == "agree"}
    for site, verdict in verdicts.items():
        if verdict == "agree" or "agree" in site_verdicts[site]:
            continue
        if None in site_verdicts[site]:
            return None
        return "differ"
    return "agree" if agreeing else None


class _Comparison:
    """Compares the accesses of one kernel; layouts and values are computed once."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._tables: dict[tuple[object, ...], Elements | None] = {}
        self._evaluated: dict[int, Evaluation] = {}
        self._verdicts: dict[tuple[object, ...], Verdict | None] = {}
        self._patterns: dict[int, tuple[Array, tuple[int, bytes, bytes]]] = {}
        """By identity, which holds as long as the subject has the places."""

    def verdicts(
        self, graph: ValueGraph, tile: Tile, instructions: Sequence[Instruction]
    ) -> dict[int, Verdict | None]:
        """The verdict on each instruction that an operation became."""
        elements = self._elements(graph, tile) if instructions else None
        return {
            inst.index: None if elements is None else self._of_instruction(inst, elements)
            for inst in instructions
        }

    def _of_instruction(self, instruction: Instruction, elements: Elements) -> Verdict | None:
        transposes = _TRANSPOSES in instruction.op.traits
        verdicts = {
            self._of_places(places, elements, transposes=transposes)
            for places in self._subject.places.get(instruction.index, ())
            if places.space == elements.space
        }
        if "differ" in verdicts:
            return "differ"
        return "agree" if verdicts == {"agree"} else None

    def _of_places(self, places: Places, elements: Elements, *, transposes: bool) -> Verdict | None:
        """The verdict on one access of an instruction; None where it cannot be compared."""
        if places.scattered or places.where.shape[1:] != elements.offsets.shape[2:]:
            return None
        if id(places) not in self._patterns:
            relative = places.where - places.where[:, :1, :1]
            active = b"" if places.active is None else places.active.tobytes()
            self._patterns[id(places)] = relative, (places.size, relative.tobytes(), active)
        where, pattern = self._patterns[id(places)]
        key = id(elements), transposes, pattern
        if key not in self._verdicts:
            if transposes:
                verdict = compare_transposed(where, places.active, places.size, elements)
            else:
                verdict = compare(where, places.active, places.size, elements)
            self._verdicts[key] = verdict
        return self._verdicts[key]

    # ----------------------------------------------------------------------- the TTGIR's side

    def _elements(self, graph: ValueGraph, tile: Tile) -> Elements | None:
        """The addresses of a tile's elements by the TTGIR; None where they are unknown."""
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
                self._tables[key] = self._compute_elements(graph, tile, start)
            except (IndexError, TypeError, ValueError):
                self._tables[key] = None  # types that no Triton prints, e.g. of an edited file
        return self._tables[key]

    def _compute_elements(
        self, graph: ValueGraph, tile: Tile, start: tuple[int, ...] | None
    ) -> Elements | None:
        """The addresses of a tile's elements, not cached."""
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
        return Elements(offsets[None] * size, True, size, "lds")

    def _in_memory(
        self, graph: ValueGraph, tile: Tile, linear: LinearLayout, size: int
    ) -> Elements | None:
        """The addresses of the elements of an access of global memory."""
        import numpy as np

        from ..lanes.unknowns import DRAWS

        values = self._values(graph)
        addresses = values.value(tile.addresses or "")
        if addresses is None:
            return None
        index = _indices(linear)
        shape = tile.tensor_type.shape
        bytes_each = size if tile.offsets is not None else 1
        count = len(addresses)
        # Addresses that differ between equal arguments depend on unknown values.
        settled = count == 1 or bool((addresses[:DRAWS] == addresses[DRAWS:]).all())
        first = addresses.reshape(count, -1)[:, 0]  # every layout has the first element
        if settled or (first[:DRAWS] != first[DRAWS:]).any():
            addresses = addresses[:DRAWS]
            count = len(addresses)
        offsets = np.broadcast_to(addresses, (count, *shape)).reshape(count, -1)
        offsets = offsets[:, index]
        if bytes_each > 1:
            offsets *= bytes_each
        if tile.cls == "lds_direct":
            order = _order_in_buffer(graph, tile, linear)
            if order is None:
                return None
            offsets = np.take_along_axis(offsets, order[None], 3)
        # Not every layout has all elements.
        if count > DRAWS:
            settled = bool((offsets[:DRAWS] == offsets[DRAWS:]).all())
        return Elements(offsets[:DRAWS], settled, size, "global")

    def _values(self, graph: ValueGraph) -> Evaluation:
        import numpy as np

        from ..lanes.addresses import WORKGROUPS

        key = id(graph)
        if key not in self._evaluated:
            program = np.tile(np.array(WORKGROUPS, np.int64), 2)
            self._evaluated[key] = Evaluation(graph, self._arguments(graph), program)
        return self._evaluated[key]

    def _arguments(self, graph: ValueGraph) -> dict[str, Array]:
        """The kernel's own arguments as drawn for the code's side, twice each."""
        import numpy as np

        from ..lanes.unknowns import Arguments, DrawnMemory

        offsets = argument_offsets(self._subject.facts.signature)
        names = [name for name, argument in graph.carried.items() if argument.owner is graph.ops[0]]
        is_kernel = graph.ops[0].attributes.get("sym_name") == self._subject.function.name
        if not is_kernel or len(names) != len(offsets):
            return {}
        drawn = DrawnMemory(known_arguments(self._subject) or Arguments())
        arguments = {}
        for name, (argument, offset) in zip(names, offsets.items(), strict=True):
            argument_type = self._subject.facts.signature[argument]
            size = size_of(argument_type)
            if argument_type.startswith("*"):
                arguments[name] = np.zeros(1, np.int64)
            elif offset is not None and size in (4, 8) and argument_type[0] in "iu":
                arguments[name] = np.tile(drawn.argument(offset, size), 2)
        return arguments


_MOST_BITS: Final = 21
"""Index bits of registers, lanes and waves; Triton's tensors have at most 2^20 elements."""
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


def _start_in_allocation(graph: ValueGraph, name: str, buffer: TtgirType) -> tuple[int, ...] | None:
    """Coordinates at which a buffer begins in its allocation; None where they are unknown."""
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


def _order_in_buffer(graph: ValueGraph, tile: Tile, linear: LinearLayout) -> Array | None:
    """Lanes in the order in which they write LDS, [register, wave, lane]; None if unknown.

    A load into LDS writes lane after lane. Where the buffer is swizzled, each lane loads the
    element for its slot: Triton exchanges the lanes' addresses within their wave.
    """
    pairs = zip(tile.op.operands, tile.op.operand_types, strict=False)
    name, buffer = next((pair for pair in pairs if pair[1].kind == "memdesc"), ("", None))
    start = _start_in_allocation(graph, name, buffer) if buffer is not None else None
    if buffer is None or start is None:
        return None
    offsets = _in_buffer(linear, buffer, start)
    return None if offsets is None else offsets.argsort(2, kind="stable")


def _in_buffer(linear: LinearLayout, buffer: TtgirType, start: Sequence[int]) -> Array | None:
    """Elements from the start of the buffer, [register, wave, lane]."""
    import numpy as np

    shape = buffer.layout_shape
    if buffer.layout is None or not all(map(is_power_of_two, shape)):
        return None
    start_offset = unpadded_offset(buffer.layout, shape, start)
    if start_offset is None:
        return None
    offsets = np.full((1, 1, 1), start_offset, np.int64)
    for axis, bases in enumerate((linear.register, linear.warp, linear.lane)):
        for basis in bases:
            # Linear, as all sizes are powers of two.
            step = unpadded_offset(buffer.layout, shape, basis)
            if step is None:
                return None
            offsets = np.concatenate([offsets, offsets ^ step], axis)
    gaps = gaps_of(buffer.layout)
    return offsets + sum(offsets // interval * padding for interval, padding in gaps)
