"""Adds up PC samples by place, and names the reasons why nothing was issued."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct, field

from ...recording import CodeObject, Place, Samples

_PREFIX = "NOT_ISSUED_REASON_"
_REASONS = (
    "none",
    "no_instruction_available",
    "alu_dependency",
    "waitcnt",
    "internal_instruction",
    "barrier_wait",
    "arbiter_not_win",
    "arbiter_win_ex_stall",
    "other_wait",
    "sleep_wait",
)
"""rocprofiler_pc_sampling_instruction_not_issued_reason_t, in its order."""

Method = Literal["host_trap", "stochastic"]


def reason(text: str | int) -> str:
    """Returns the short name of a reason.

    Both `ROCPROFILER_PC_SAMPLING_INSTRUCTION_NOT_ISSUED_REASON_WAITCNT` and 3 are `waitcnt`.
    """
    if isinstance(text, int):
        return _REASONS[text] if 0 <= text < len(_REASONS) else f"reason {text}"
    return text.rpartition(_PREFIX)[2].lower()


class _Sum(Struct):
    place: Place
    method: Method
    count: int = 0
    issued: int = 0
    with_issue: int = 0  # how many say whether they were issued
    lanes: int = 0
    masked: int = 0  # how many have an execution mask
    reasons: dict[str, int] = field(default_factory=dict)


class Places(Struct):
    """The samples of one process while they are read: one sum for every place."""

    process: int | None
    code_objects: dict[int, tuple[CodeObject, int]]
    """Id -> the code object, and `shift`: file address minus offset from the load base."""
    _sums: dict[tuple[int | None, int, int, Method, str | None], _Sum] = field(default_factory=dict)

    def add(
        self,
        method: Method,
        shape: int | None,
        code_object: int,
        offset: int,
        *,
        mask: int | None = None,
        issued: bool | None = None,
        why: str | int | None = None,
        text: str | None = None,
        comment: str | None = None,
    ) -> None:
        """Adds a sample.

        Args:
            method: how it was taken.
            shape: number of its dispatch's shape, where that is known.
            code_object: its id; 0 where the profiler knew none.
            offset: from the code object's load base; an address without a code object.
            mask: which lanes were active.
            issued: whether the wave issued the instruction.
            why: why it did not.
            text: the instruction.
            comment: its source line.
        """
        text_key = None if text is None or (code_object or offset) else text
        key = (shape, code_object, offset, method, text_key)
        total = self._sums.get(key)
        if total is None:
            place = self._place(shape, code_object, offset, text, comment)
            total = self._sums[key] = _Sum(place, method)
        total.count += 1
        if mask is not None:
            total.masked += 1
            total.lanes += mask.bit_count()
        if issued is not None:
            total.with_issue += 1
            if issued:
                total.issued += 1
            elif why is not None:
                word = reason(why)
                total.reasons[word] = total.reasons.get(word, 0) + 1

    def samples(self) -> Sequence[Samples]:
        """Returns the sums, the largest first."""
        return [
            Samples(
                place=item.place,
                method=item.method,
                count=item.count,
                issued=item.issued if item.with_issue else None,
                reasons=dict(sorted(item.reasons.items(), key=lambda pair: -pair[1])),
                lanes=item.lanes / item.masked if item.masked else None,
            )
            for item in sorted(self._sums.values(), key=lambda item: -item.count)
        ]

    def _place(
        self, shape: int | None, code_object: int, offset: int, text: str | None, line: str | None
    ) -> Place:
        """Returns the place of a sample; without a code object's id, the one loaded there."""
        object_id: int | None = code_object
        address: int | None = offset
        if code_object in self.code_objects:
            address = offset + self.code_objects[code_object][1]
        elif not code_object:
            object_id, address = self._containing(offset)
        return Place(
            shape=shape,
            process=self.process,
            code_object=object_id,
            offset=address,
            text=text or None,
            comment=line or None,
        )

    def _containing(self, address: int) -> tuple[int | None, int | None]:
        """Returns the code object loaded at an address, and the address in its file."""
        for code_object, shift in self.code_objects.values():
            base, size = code_object.load_base, code_object.load_size
            if base is not None and size is not None and 0 <= address - base < size:
                return code_object.id, address - base + shift
        return None, None


def shift(load_base: int, load_size: int, load_delta: int) -> int:
    """Returns an address in a code object's file minus its offset from the load base.

    `load_delta` is what the loader has added to the file's addresses.
    """
    offset = load_base - load_delta
    return offset if load_delta > 0 and 0 <= offset < max(load_size, 1) else 0
