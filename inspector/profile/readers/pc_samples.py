"""PC samples of any format: added up by place, with the reasons why nothing was issued."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct, field

from ...model.recording import CodePlace, RecordedCodeObject, Samples

_PREFIX = "NOT_ISSUED_REASON_"
REASONS = (
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
"""`rocprofiler_pc_sampling_instruction_not_issued_reason_t`, by value."""

Method = Literal["host_trap", "stochastic"]


def reason(text: str | int) -> str:
    """Returns the short name of a reason.

    Both `ROCPROFILER_PC_SAMPLING_INSTRUCTION_NOT_ISSUED_REASON_WAITCNT` and 3 are `waitcnt`.
    """
    if isinstance(text, int):
        return REASONS[text] if 0 <= text < len(REASONS) else f"reason {text}"
    return text.rpartition(_PREFIX)[2].lower()


class SampleSum(Struct):
    """The samples of one method at one place, added up."""

    place: CodePlace
    method: Method
    count: int = 0
    issued: int = 0
    with_issue: int = 0  # how many say whether they issued their instruction
    lanes: int = 0
    masked: int = 0  # how many have an execution mask
    reasons: dict[str, int] = field(default_factory=dict)

    def add(self, mask: int | None, issued: bool | None, why: str | int | None) -> None:
        """Adds a sample; None for what it does not tell.

        `issued`: whether the wave issued the instruction.
        """
        self.count += 1
        if mask is not None:
            self.masked += 1
            self.lanes += mask.bit_count()
        if issued is not None:
            self.with_issue += 1
            if issued:
                self.issued += 1
            elif why is not None:
                name = reason(why)
                self.reasons[name] = self.reasons.get(name, 0) + 1

    def samples(self) -> Samples:
        """Returns the sums as the recording has them, the most frequent reason first."""
        return Samples(
            place=self.place,
            method=self.method,
            count=self.count,
            issued=self.issued if self.with_issue else None,
            reasons=dict(sorted(self.reasons.items(), key=lambda pair: -pair[1])),
            lanes=self.lanes / self.masked if self.masked else None,
        )


class ProcessSamples(Struct):
    """The samples of one process while they are read: one sum for every place."""

    process: int | None
    code_objects: dict[int, tuple[RecordedCodeObject, int]]
    """Id -> the code object, and `shift`: file address minus offset from the load base."""
    _sums: dict[tuple[object, ...], SampleSum] = field(default_factory=dict)

    def at(
        self,
        method: Method,
        shape: int | None,
        code_object: int,
        offset: int,
        *,
        text: str | None = None,
        comment: str | None = None,
    ) -> SampleSum:
        """Returns the sum of the samples at a place.

        `shape`: number of their dispatch's shape, where that is known.
        `code_object`: its id; 0 where the profiler knew none.
        `offset`: from the code object's load base; an address without a code object.
        """
        by_text = () if code_object or offset else (text, comment)
        key = (shape, code_object, offset, method, *by_text)
        total = self._sums.get(key)
        if total is None:
            place = self._place(shape, code_object, offset, text, comment)
            total = self._sums[key] = SampleSum(place, method)
        return total

    def samples(self) -> Sequence[Samples]:
        """Returns the sums, the largest first."""
        return [
            total.samples() for total in sorted(self._sums.values(), key=lambda item: -item.count)
        ]

    def _place(
        self, shape: int | None, code_object: int, offset: int, text: str | None, line: str | None
    ) -> CodePlace:
        """Returns the place of a sample; without a code object's id, the one loaded there."""
        object_id: int | None = code_object
        address: int | None = offset
        if code_object in self.code_objects:
            address = offset + self.code_objects[code_object][1]
        elif not code_object:
            object_id, address = self._containing(offset)
        return CodePlace(
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
