"""Reads and parses the ROCm debug agent's report, line by line, and the runtime's own messages.

Reports are long (65,000 lines for 250 waves) and mixed with a program's output. Lines are therefore
recognised one by one, wherever they are, and registers are kept only for the first wave at each pc.
A wave and its disassembly may come in either order.

Source of the format: rocr-debug-agent's debug_agent.cpp (print_wavefronts, print_registers) and
code_object.cpp (disassemble); ROCR-Runtime's runtime.cpp (VMFaultHandler) for the messages. Before
ROCm 6.4 the wave's line has no kernel; since 7 it has `kernel_code_entry` and `kernargs`.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from ...base import limits
from ...base.errors import KinspectError
from ...base.named_files import is_of_folder, opened
from .values import AgentReport, Excerpt, LoadedCode, Message, Wave

_MOST_BYTES = 256 << 20
"""Of a log: a report of the agent has some megabytes."""
_LONGEST_LINE = 1 << 20
"""Characters of a line; a longer one is read in pieces."""
_HEX = r"0x[0-9a-fA-F]+"
_BLANKS = " " * 64
_MANY_BLANKS = re.compile(r"\s{65,}")

# A wave, and the registers and memory after it.
_WAVE = re.compile(rf"\bwave_(?P<id>\d+): pc=(?P<pc>{_HEX})(?P<rest>.*)")
_STATE = re.compile(r"\((?:stopped, reason: (?P<reasons>[A-Z0-9_|]*)|(?P<running>running))\)")
_ENTRY = re.compile(rf"\(kernel_code_entry={_HEX}(?:\s*<(?P<kernel>.*)>)?")
_REGISTERS = re.compile(r"^\s*(?P<name>[\w -]+?) registers:\s*$")
_REGISTER = re.compile(r"(?P<name>\w+): (?P<value>\[0\] .*|[0-9a-f]{8,})(?=\s|$)")
_MEMORY = re.compile(r"^\s*(?:Local|Global) memory ")
_MOST_JOINED = 12
"""The most lines that a terminal or log may have broken the line of a wave into."""

# A disassembly.
_DISASSEMBLY = re.compile(r"\bDisassembly(?: for function (?P<name>.*))?:\s*$")
_OBJECT = re.compile(r"^\s*code object: (?P<uri>\S.*?)\s*$")
_LOADED = re.compile(rf"^\s*loaded at: \[(?P<first>{_HEX})[-,]\s*(?P<last>{_HEX})\]")
_CODE = re.compile(
    rf"^\s*(?P<arrow>=>)?\s*(?P<address>{_HEX})(?: <[+-]\d+>)?:\s+(?P<text>[a-z.]\S*.*?)\s*$"
)
_END = re.compile(r"\bEnd of disassembly\b")

# Messages of the runtime.
_FAULT = re.compile(
    r"memory access fault by GPU (?:node-)?(?P<gpu>\d+)\s*(?:\([^)]*\)\s*)?"
    rf"(?:on|at virtual) address (?P<address>{_HEX}|\(nil\))\.?\s*"
    r"(?:Reasons?:\s*(?P<reason>.*?)\.?\s*)?$",
    re.IGNORECASE,
)
# Since ROCm 7.13 (clr's rocdevice.cpp); it guesses the kernel from what is in the queues.
_ERROR = re.compile(
    rf"Memory Fault Error \[.*?GPU index: (?P<gpu>\d+), faulting addr: (?P<address>{_HEX})"
    r"(?:, kernel: (?P<kernel>.*))?\]"
)
_EVENT = re.compile(r"System event \(HSA_AMD_GPU_MEMORY_FAULT_EVENT(?::\s*(?P<reason>[^)]*))?\)")
_PAGE = re.compile(rf"\bFaulting page: (?P<address>{_HEX})")
_QUEUE = re.compile(r"(?P<what>HSA_STATUS_ERROR_[A-Z_]+)(?::\s*(?P<reason>.*?))?(?:\)|\s*$| code:)")
_QUEUE_SIGNS = ("Queue error", "aborting with error", "HSA_STATUS_ERROR_EXCEPTION")
_HANG = re.compile(
    r"HW Exception by GPU (?:node-)?(?P<gpu>\d+).*?reason\s*:\s*(?P<reason>.*?)\s*$", re.IGNORECASE
)
_KERNEL = re.compile(r"^\s*Kernel Name:\s*(?P<name>\S.*?)\s*$")

# Remarks of the agent.
_WARNING = re.compile(r"\brocm-debug-agent: (?:warning|error): (?P<text>.*)$")
_IMPRECISE = re.compile(r"(?P<text>Precise (?:memory|ALU exceptions) not supported.*)")


def report_files(path: Path) -> tuple[Path, ...]:
    """Returns the files of a report: the file itself, or the reports and stderr in a run's folder.

    Raises:
        KinspectError: there are none.
    """
    if not path.exists():
        raise KinspectError(f"{path}: no such file or folder", "name a saved report")
    if not path.is_dir():
        return (path,)
    found = (*sorted(path.glob("report*.txt")), *sorted(path.glob("stderr.txt")))
    files = tuple(filter(is_of_folder, found))
    if not files:
        raise KinspectError(
            f"{path}: no report*.txt or stderr.txt in it",
            "name the file, or a folder that `kinspect fault -- command` made",
        )
    return files


def read_reports(paths: Sequence[Path]) -> AgentReport:
    """Reads saved reports as one, in order.

    Raises:
        KinspectError: a file can't be read, or no file holds a report or fault message.
    """
    size = sum(path.stat().st_size for path in paths if path.is_file())
    with limits.reading(", ".join(map(str, paths)), size):
        report = parse_report(_lines(paths))
    if not report.waves and not report.messages and not report.excerpts:
        names = ", ".join(map(str, paths))
        raise KinspectError(
            f"{names}: holds neither a report of the ROCm debug agent nor a fault message of the"
            " runtime",
            "pass what the program wrote to stderr, or the agent's --output file",
        )
    return report


def _lines(paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        try:
            with opened(path, _MOST_BYTES, pipes=True) as stream:
                text = io.TextIOWrapper(stream, encoding="utf-8", errors="replace")
                while line := text.readline(_LONGEST_LINE):
                    yield line
        except OSError as error:
            raise KinspectError(
                f"{path}: cannot be read ({error.strerror})", "check the path"
            ) from None


def parse_report(lines: Iterable[str]) -> AgentReport:
    """Parses a report, even an incomplete one.

    Args:
        lines: the lines, with or without line ends; other output may be between them.
    """
    parser = _ReportParser()
    for line in lines:
        # Patterns that begin with `\s*` take time quadratic in a run of blanks: shorten those.
        parser.add(_MANY_BLANKS.sub(_BLANKS, line.rstrip("\r\n")))
    return parser.result()


class _Disassembly(Struct):
    """A disassembly that is being read."""

    function: str
    uri: str = ""
    first: int = 0
    last: int = 0
    lines: list[tuple[int, str]] = field(default_factory=list)
    pc: int | None = None


class _ReportParser:
    """Takes the lines of a report one by one and collects waves, code and messages."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._waves: list[Wave] = []
        self._registers: dict[str, str] | None = None  # of the current wave; None: not kept
        self._pcs: set[int] = set()
        self._excerpts: dict[int, Excerpt] = {}
        self._disassembly: _Disassembly | None = None
        self._wave_pieces: list[str] = []  # pieces of a wave's line that was broken into several
        self._kernel = ""
        self._notes: dict[str, None] = {}

    def add(self, line: str) -> None:
        """Parses a line of the report; a wave's line may be broken into several."""
        if self._wave_pieces:
            self._wave_pieces.append(line)
            joined = " ".join(piece.strip() for piece in self._wave_pieces)
            if _STATE.search(joined) or len(self._wave_pieces) > _MOST_JOINED:
                self._wave_pieces = []
                self._wave(joined)
            return
        if "wave_" in line and (match := _WAVE.search(line)):
            self._close()
            if _STATE.search(match["rest"]):
                self._wave(line)
            else:
                self._wave_pieces = [line]
            return
        if "Disassembly" in line and (match := _DISASSEMBLY.search(line)):
            self._close()
            self._disassembly = _Disassembly(match["name"] or "")
        elif self._disassembly is not None:
            self._code(self._disassembly, line)
        elif self._register(line):
            return
        else:
            self._message(line)

    def result(self) -> AgentReport:
        self._close()
        if self._wave_pieces:
            self._wave(" ".join(self._wave_pieces))
        return AgentReport(
            messages=tuple(dict.fromkeys(self._messages)),
            waves=tuple(self._waves),
            excerpts=self._excerpts,
            kernel=self._kernel,
            notes=tuple(self._notes),
        )

    def _wave(self, text: str) -> None:
        """Adds a wave; registers are stored for the first wave at each pc."""
        match = _WAVE.search(text)
        if match is None:
            return
        pc, tail = int(match["pc"], 16), match["rest"]
        state, entry = _STATE.search(tail), _ENTRY.search(tail)
        reasons = (state["reasons"] or "") if state else ""
        name = entry["kernel"] if entry else None
        self._registers = {} if pc not in self._pcs else None
        self._pcs.add(pc)
        wave = Wave(
            id=match["id"],
            pc=pc,
            reasons=tuple(r for r in reasons.split("|") if r and r != "NONE"),
            kernel=" ".join(name.split()) if name else "",
            registers=self._registers if self._registers is not None else {},
        )
        self._waves.append(wave)

    def _register(self, line: str) -> bool:
        """Consumes a line of the registers and memory after a wave; tells whether it is one."""
        if _REGISTERS.match(line) or _MEMORY.match(line):
            return True
        if not self._waves or not line[:1].isspace():
            return False
        matches = list(_REGISTER.finditer(line))
        if not matches or not line[: matches[0].start()].isspace():
            return False
        if self._registers is not None:
            self._registers.update((match["name"], match["value"].strip()) for match in matches)
        return True

    def _code(self, disassembly: _Disassembly, line: str) -> None:
        """Adds a line of a disassembly, which other output may interrupt."""
        if _END.search(line):
            self._close()
        elif match := _OBJECT.match(line):
            disassembly.uri = match["uri"]
        elif match := _LOADED.match(line):
            disassembly.first, disassembly.last = int(match["first"], 16), int(match["last"], 16)
        elif match := _CODE.match(line):
            address = int(match["address"], 16)
            disassembly.lines.append((address, match["text"]))
            if match["arrow"]:
                disassembly.pc = address
        else:
            self._message(line)  # the source, or output of another process or thread

    def _close(self) -> None:
        """Ends the disassembly under way, and adds it as an excerpt if it has a pc or an object."""
        disassembly, self._disassembly = self._disassembly, None
        if disassembly is None or (disassembly.pc is None and not disassembly.uri):
            return
        loaded = (
            LoadedCode(disassembly.uri, disassembly.first, disassembly.last)
            if disassembly.uri
            else None
        )
        excerpt = Excerpt(
            function=disassembly.function,
            loaded=loaded,
            lines=tuple(disassembly.lines),
            pc=disassembly.pc,
        )
        key = disassembly.pc if disassembly.pc is not None else disassembly.first
        self._excerpts.setdefault(key, excerpt)

    def _message(self, line: str) -> None:
        """Adds a line outside of waves and code, if it is a message of the runtime or the agent."""
        text = line.strip()
        if text.startswith("=>") and (match := _CODE.match(text)):
            pc = int(match["address"], 16)  # an excerpt that was copied without its header
            self._excerpts.setdefault(pc, Excerpt("", None, ((pc, match["text"]),), pc))
        elif match := _FAULT.search(text) or _ERROR.search(text) or _EVENT.search(text):
            found = match.groupdict()
            address = found.get("address")
            message = Message(
                "memory",
                match[0]
                if match.re is _ERROR
                else text[0 if match.re is _EVENT else match.start() :],
                found.get("gpu"),
                None if address is None else 0 if address == "(nil)" else int(address, 16),
                found.get("reason") or "",
            )
            self._messages.append(message)
            if (kernel := found.get("kernel")) and kernel != "<unknown>":
                self._kernel = self._kernel or kernel
        elif match := _PAGE.search(text):
            self._page(text, int(match["address"], 16))
        elif match := _HANG.search(text):
            hang = Message("hang", text[match.start() :], match["gpu"], reason=match["reason"])
            self._messages.append(hang)
        elif any(sign in text for sign in _QUEUE_SIGNS) and (match := _QUEUE.search(text)):
            reason = (match["reason"] or "").strip(" .")
            self._messages.append(Message("queue", match["what"], reason=reason))
        elif match := _KERNEL.match(text):
            self._kernel = self._kernel or match["name"]
        elif match := _WARNING.search(text) or _IMPRECISE.search(text):
            self._notes[f"the debug agent says: {match['text']}"] = None

    def _page(self, text: str, address: int) -> None:
        """Adds the address of a faulting page to the message before it, or as one of its own."""
        latest = self._messages[-1] if self._messages else None
        if latest is not None and latest.kind == "memory" and latest.address is None:
            self._messages[-1] = replace(latest, address=address)
        else:
            self._messages.append(Message("memory", text, address=address))
