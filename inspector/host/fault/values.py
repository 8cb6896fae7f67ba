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
        text: the line as written.
        gpu: the GPU's node as written.
        address: the accessed address, which the hardware rounds down to its page.
        reason: the reason as the runtime states it.
    """

    kind: str
    text: str
    gpu: str | None = None
    address: int | None = None
    reason: str = ""


class LoadedCode(Struct, frozen=True):
    """A code object of the process: its URI, and its addresses from `first` to before `last`."""

    uri: str
    first: int
    last: int


class Excerpt(Struct, frozen=True):
    """The report's own disassembly around a pc.

    Args:
        function: the demangled symbol; "" where the report names none.
        loaded: the code object.
        lines: (address, text) of each instruction.
        pc: the address that the arrow points at.
        source: the source lines in it, as (file, number, text).
    """

    function: str
    loaded: LoadedCode | None
    lines: tuple[tuple[int, str], ...]
    pc: int | None
    source: tuple[tuple[str, int, str], ...] = ()


class Wave(Struct, frozen=True):
    """One wave. `registers` is empty for all but the first wave at its pc."""

    id: str
    pc: int
    reasons: tuple[str, ...]
    entry: int | None = None
    kernel: str = ""
    registers: Mapping[str, str] = field(default_factory=dict)


class AgentReport(Struct, frozen=True):
    """A report of the ROCm debug agent, or only messages of the runtime.

    Args:
        messages: the runtime's messages, in order.
        waves: the reported waves, in order.
        excerpts: disassemblies by the pc that they point at.
        kernel: the kernel that the runtime itself names ("Kernel Name: ...").
        notes: warnings of the agent.
    """

    messages: tuple[Message, ...] = ()
    waves: tuple[Wave, ...] = ()
    excerpts: Mapping[int, Excerpt] = field(default_factory=dict)
    kernel: str = ""
    notes: tuple[str, ...] = ()


class CodeLine(Struct, frozen=True):
    """One instruction.

    Args:
        address: its address in the code object; in the process where that could not be read.
        line: its line in the listing that `kinspect CODE_OBJECT` shows.
        text: mnemonic and operands.
        loc: the source, innermost call first.
        source: the text of the line in the user's own code, where the file can be read.
    """

    address: int
    line: int | None
    text: str
    loc: SourceLoc | None = None
    source: str = ""


class Suspect(Struct, frozen=True):
    """A memory operation that may have caused a fault which was reported later.

    Args:
        code: the instruction.
        why: `outstanding` (issued before the pc, not waited for yet), `before` (the last one before
            the pc) or `waited` (already waited for).
        lanes: lanes of the first wave whose address lies in the faulting page.
        address: the address of the first such lane.
    """

    code: CodeLine
    why: str
    lanes: tuple[int, ...] = ()
    address: int | None = None


class Stop(Struct, frozen=True):
    """The waves that stopped at one pc for the same reasons.

    Args:
        pc: the reported pc.
        reasons: `MEMORY_VIOLATION`, ...; empty for waves that were not stopped by a fault.
        waves: their ids.
        kernels: kernels that they ran.
        function: the function that the pc is in.
        uri: URI of the code object.
        offset: the pc in the code object.
        saved: the file that holds only this code object, if it was read from one.
        at: the instruction at the pc.
        culprit: the instruction that caused the stop, where that is certain.
        context: instructions around the pc.
        suspects: most likely first.
        registers: registers of the first wave.
        notes: notes for the reader.
    """

    pc: int
    reasons: tuple[str, ...]
    waves: tuple[str, ...]
    kernels: tuple[str, ...] = ()
    function: str = ""
    uri: str | None = None
    offset: int | None = None
    saved: str | None = None
    at: CodeLine | None = None
    culprit: CodeLine | None = None
    context: tuple[CodeLine, ...] = ()
    suspects: tuple[Suspect, ...] = ()
    registers: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class FaultReport(Struct, frozen=True):
    """An explained report; stops with a reason come first.

    Args:
        files: the files that were read.
        messages: the runtime's messages.
        stops: the places at which waves stopped.
        kernel: the kernel that the runtime itself names.
        command: the program, where it was run here.
        status: its exit status.
        notes: what is missing, and how to get it.
    """

    files: tuple[str, ...]
    messages: tuple[Message, ...]
    stops: tuple[Stop, ...]
    kernel: str = ""
    command: tuple[str, ...] = ()
    status: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def faulted(self) -> bool:
        """Whether a message or a wave's reason says that a GPU stopped."""
        return bool(self.messages) or any(stop.reasons for stop in self.stops)
