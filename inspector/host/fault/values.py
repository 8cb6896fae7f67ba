"""A report of stopped waves as the debug agent writes it, and its explanation.

`AgentReport` holds what was read, `FaultReport` what was made of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from ...model import SourceLoc


class Message(Struct, frozen=True):
    """The runtime's message about the fault.

    Args:
        kind: `memory` (a page that could not be reached), `queue` (an error of a whole queue) or
            `hang`.
    """

    kind: str
    text: str  # the line as written
    gpu: str | None = None  # the GPU's node as written
    address: int | None = None  # the accessed address, which the hardware rounds down to its page
    reason: str = ""  # the reason as the runtime states it


class LoadedCode(Struct, frozen=True):
    """A code object of the process: its URI, and its addresses from `first` to before `last`."""

    uri: str
    first: int
    last: int


class Excerpt(Struct, frozen=True):
    """The report's own disassembly around a pc."""

    function: str  # the demangled symbol; "" where the report names none
    loaded: LoadedCode | None  # the code object
    lines: tuple[tuple[int, str], ...]  # (address, text) of each instruction
    pc: int | None  # the address that the arrow points at


class Wave(Struct, frozen=True):
    """One wave. `registers` is empty for all but the first wave at its pc."""

    id: str
    pc: int
    reasons: tuple[str, ...]
    kernel: str = ""
    registers: Mapping[str, str] = field(default_factory=dict)


class AgentReport(Struct, frozen=True):
    """A report of the ROCm debug agent, or only messages of the runtime.

    Args:
        excerpts: disassemblies by the pc that they point at.
    """

    messages: tuple[Message, ...] = ()  # the runtime's messages, in order
    waves: tuple[Wave, ...] = ()  # the reported waves, in order
    excerpts: Mapping[int, Excerpt] = field(default_factory=dict)
    kernel: str = ""  # the kernel that the runtime itself names ("Kernel Name: ...")
    notes: tuple[str, ...] = ()  # warnings of the agent


class CodeLine(Struct, frozen=True):
    """One instruction."""

    address: int  # its address in the code object; in the process where that could not be read
    line: int | None  # its line in the listing that `kinspect CODE_OBJECT` shows
    text: str  # mnemonic and operands
    loc: SourceLoc | None = None  # the source, innermost call first
    source: str = ""  # the text of the line in the user's own code, where the file can be read


class Suspect(Struct, frozen=True):
    """A memory operation that may have caused a fault which was reported later.

    Args:
        why: `outstanding` (issued before the pc, not waited for yet), `before` (the last one before
            the pc) or `waited` (already waited for).
    """

    code: CodeLine  # the instruction
    why: str
    lanes: tuple[int, ...] = ()  # lanes of the first wave whose address lies in the faulting page
    address: int | None = None  # the address of the first such lane


class Stop(Struct, frozen=True):
    """The waves that stopped at one pc for the same reasons.

    Args:
        reasons: `MEMORY_VIOLATION`, ...; empty for waves that were not stopped by a fault.
    """

    pc: int  # the reported pc
    reasons: tuple[str, ...]
    waves: tuple[str, ...]  # their ids
    kernels: tuple[str, ...] = ()  # kernels that they ran
    function: str = ""  # the function that the pc is in
    uri: str | None = None  # URI of the code object
    offset: int | None = None  # the pc in the code object
    saved: str | None = None  # the file that holds only this code object, if it was read from one
    at: CodeLine | None = None  # the instruction at the pc
    culprit: CodeLine | None = None  # the instruction that caused the stop, where that is certain
    context: tuple[CodeLine, ...] = ()  # instructions around the pc
    suspects: tuple[Suspect, ...] = ()  # most likely first
    registers: Mapping[str, str] = field(default_factory=dict)  # registers of the first wave
    notes: tuple[str, ...] = ()  # notes for the reader


class FaultReport(Struct, frozen=True):
    """An explained report; stops with a reason come first."""

    files: tuple[str, ...]  # the files that were read
    messages: tuple[Message, ...]  # the runtime's messages
    stops: tuple[Stop, ...]  # the places at which waves stopped
    kernel: str = ""  # the kernel that the runtime itself names
    command: tuple[str, ...] = ()  # the program, where it was run here
    status: int | None = None  # its exit status
    notes: tuple[str, ...] = ()  # what is missing, and how to get it

    @property
    def faulted(self) -> bool:
        """Whether a message or a wave's reason says that a GPU stopped."""
        return bool(self.messages) or any(stop.reasons for stop in self.stops)
