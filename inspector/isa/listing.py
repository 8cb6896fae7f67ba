"""Reads the listings of `llvm-objdump -d`, with or without raw encodings, `-l`, `-S`, `-r`."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise

from msgspec import Struct, field

from ..model import Function, OpInfo, Program, Resources, SourceLoc
from .asm.debugloc import LocationTable
from .asm.machine_words import PRELOAD_HEADER_BYTES
from .asm.rawcode import ADDRESS, COMMENT, FILLER, MNEMONIC, OP, OPERANDS, RawFunction
from .asm.units import lines_of
from .graph.branches import (
    RETURN_REGISTERS,
    branch_destination,
    register_jump_destination,
    resolve_addresses,
)
from .graph.calls import finish
from .mnemonics import FLOW_CLASSES, Flow, classify, flow_of, lookup

_SYMBOL = re.compile(r"^(?:([0-9a-fA-F]{6,16}) )?<(.+)>:\s*$")
_FORMAT = re.compile(r"file format (elf\S*)")
_SECTION = re.compile(r"Disassembly of section (.+):")
_SOURCE = re.compile(r"; (.+):(\d{1,9})(?: \(discriminator \d+\))?$")
_WORDS = re.compile(r"[0-9A-Fa-f]{8}\b")
_SYMBOLIZED = re.compile(r"L\d+$")
# AMDGPU functions are laid out at multiples of this (.p2align 8).
_ALIGNMENT = 256


class _ListingContents(Struct):
    """The functions of a listing, and the facts that only its text states."""

    functions: list[RawFunction] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)  # address of each function's symbol
    kernels: set[str] = field(default_factory=set)  # named by a kernel descriptor
    sizes: dict[int, int] = field(default_factory=dict)  # address -> bytes
    other_format: str | None = None


def read_listing(text: str, name: str) -> Program | None:
    """Parses a listing; None if there is no AMDGCN instruction in it."""
    contents = _parse(text)
    _merge_labels(contents)
    nonempty = [(r, s) for r, s in zip(contents.functions, contents.starts, strict=True) if r.rows]
    is_amdgcn = any(row[OP].cls != "unknown" for raw, _ in nonempty for row in raw.rows[:64])
    if not is_amdgcn or (contents.other_format or "amdgpu").find("amdgpu") < 0:
        return None
    entry_points = {start: raw.name for raw, start in nonempty if start >= 0}
    functions = [_finish(raw, contents, entry_points) for raw, _ in nonempty]
    called = {symbol for function in functions for symbol in function.calls}
    if not called.isdisjoint(f.name for f in functions if f.is_kernel):
        functions = [
            _finish(raw, contents, entry_points, kernel=False) if raw.name in called else function
            for (raw, _), function in zip(nonempty, functions, strict=True)
        ]
    return Program(
        name=name,
        arch=None,
        features=(),
        form="objdump",
        functions=tuple(functions),
    )


def _parse(text: str) -> _ListingContents:
    """Returns the functions of a listing, one for each symbol in its sections of code."""
    headings = _Headings()
    sizes = headings.contents.sizes
    ops: dict[str, tuple[OpInfo, bool]] = {}  # mnemonic -> its entry, whether it is of a flow class
    for number, raw in lines_of(text, 0):
        line = raw.strip()
        if not line:
            continue
        if raw[0] not in " \t":
            headings.read(number, line)
            continue
        if not headings.in_code:
            continue
        body, slashes, tail = line.partition("//")
        if not slashes:
            continue  # relocations, source text, "..."
        address_text, _, encoding = tail.partition(":")
        try:
            address: int | None = int(address_text, 16)
        except ValueError:
            address = None
        parts = body.split(None, 1)
        if not parts:
            continue
        mnemonic = parts[0]
        if mnemonic[0] == "<":
            continue
        function = headings.function
        if function is None:
            function = headings.begin_nameless(number, address)
        elif mnemonic[0] == ".":
            function.undecoded += 1  # stays an instruction, of a kind that nobody knows
        entry = ops.get(mnemonic)
        if entry is None:
            op = lookup(mnemonic)
            entry = ops[mnemonic] = (op, op.cls in FLOW_CLASSES)
        op, is_flow = entry
        operands = parts[1].rstrip() if len(parts) > 1 else ""
        if is_flow:
            function.flow_rows.append(len(function.rows))
        words = len(_WORDS.findall(encoding))
        if words and address is not None:
            sizes[address] = 4 * words
        function.line_last = number
        comment, cls = encoding.strip(), classify(op, operands, "")
        function.rows.append(
            (number, mnemonic, operands, comment, op, cls, headings.location, address)
        )
    return headings.contents


class _Headings:
    """The lines between instructions: symbols, source positions, sections, the file's format.

    Attributes:
        contents: the functions so far.
        in_code: whether the section holds code.
        function: the one that instructions belong to; None at the start of a section.
        location: the source position that the next instructions stem from.
    """

    def __init__(self) -> None:
        self.contents = _ListingContents()
        self.in_code = True
        self.function: RawFunction | None = None
        self.location: SourceLoc | None = None
        self._locations = LocationTable()

    def read(self, number: int, line: str) -> None:
        """Reads a line that is not indented; `number` is its number."""
        symbol = _SYMBOL.match(line)
        if symbol is not None:
            self._read_symbol(number, symbol[2], int(symbol[1], 16) if symbol[1] else -1)
        elif line[0] == ";":
            self._read_source(line)
        else:
            section = _SECTION.search(line)
            if section is not None:
                self.in_code = section[1].startswith(".text")
                self.function = None
            file_format = _FORMAT.search(line)
            if file_format is not None and self.contents.other_format is None:
                self.contents.other_format = file_format[1]

    def begin_nameless(self, number: int, address: int | None) -> RawFunction:
        """Begins a function at an instruction that no symbol stands before."""
        function = RawFunction(f"<line {number}>", number)
        function.notes.append("no symbol stands before this code")
        self._begin(function, -1 if address is None else address)
        return function

    def _read_symbol(self, number: int, name: str, address: int) -> None:
        """Begins a function at a symbol; llvm-objdump's own labels (`L12`) stay within theirs."""
        if name.endswith(".kd"):
            self.contents.kernels.add(name.removesuffix(".kd"))
        if not self.in_code:
            return
        if self.function is not None and _SYMBOLIZED.match(name):
            self.function.labels[name] = len(self.function.rows)
            return
        function = RawFunction(name, number, line_last=number)
        function.labels[name] = 0
        self.location = None
        self._begin(function, address)

    def _begin(self, function: RawFunction, address: int) -> None:
        self.function = function
        self.contents.functions.append(function)
        self.contents.starts.append(address)

    def _read_source(self, line: str) -> None:
        """Reads a source position (`; a.py:3`); other comments are left out."""
        source = _SOURCE.match(line)
        if source is not None:
            source_line = int(source[2])
            self.location = (
                self._locations.location(source[1], source_line, 0) if source_line else None
            )


def _merge_labels(contents: _ListingContents) -> None:
    """Joins symbols that are labels within a function to the function they belong to."""
    if len(contents.functions) < 2:
        return
    merged: list[RawFunction] = []
    merged_starts: list[int] = []
    joins = _joins(contents.functions, contents.starts)
    for raw, start, is_joined in zip(contents.functions, contents.starts, joins, strict=True):
        if is_joined and merged:
            _append(merged[-1], raw)
        else:
            merged.append(raw)
            merged_starts.append(start)
    contents.functions, contents.starts = merged, merged_starts


def _joins(functions: Sequence[RawFunction], starts: Sequence[int]) -> list[bool]:
    """For each symbol's code, whether it belongs to the function of the code before it."""
    count = len(functions)
    ascending = all(a < b for a, b in pairwise(starts))
    changes = [0] * (count + 1)  # of the number of reasons to join i to i-1, from one i to the next
    for i, raw in enumerate(functions):
        if i + 1 < count and _falls_into_next(raw, starts[i + 1]):
            changes[i + 1] += 1
            changes[i + 2] -= 1
        if not ascending:
            continue
        for destination in _destinations(raw):
            k = bisect_right(starts, destination) - 1
            low, high = min(i, k), max(i, k)
            # A jump to another symbol's very start from afar is a tail call.
            if k < 0 or low == high or (k != i and destination == starts[k] and high - low > count):
                continue
            changes[low + 1] += 1
            changes[high + 1] -= 1
    return [reasons > 0 for reasons in accumulate(changes[:count])]


def _append(owner: RawFunction, raw: RawFunction) -> None:
    """Adds the code of a symbol that is a label to the function that it belongs to."""
    base = len(owner.rows)
    owner.rows.extend(raw.rows)
    owner.flow_rows.extend(base + k for k in raw.flow_rows)
    for label, k in raw.labels.items():
        owner.labels.setdefault(label, base + k)
    owner.line_last = raw.line_last
    owner.undecoded += raw.undecoded


def _falls_into_next(raw: RawFunction, next_start: int) -> bool:
    """Returns whether control runs on from a symbol's code into the next symbol's."""
    rows = raw.rows
    if not rows:
        return False
    last = len(rows) - 1
    while last >= 0 and rows[last][1] in FILLER:
        last -= 1
    if last < 0:
        return True
    begin = rows[0][ADDRESS] if last == 0 and rows[0][MNEMONIC] == "s_trap" else None
    if begin is not None and next_start == begin + PRELOAD_HEADER_BYTES:
        return True  # a header, and the code behind it begins with a label
    flow = flow_of(rows[last][OP], rows[last][OPERANDS])
    if not flow.falls_through:
        return False
    # A call that never returns, padded up to the next function.
    padded = last < len(rows) - 1 and next_start % _ALIGNMENT == 0
    return not (flow is Flow.CALL or padded)


def _destinations(raw: RawFunction) -> list[int]:
    """Returns the addresses that a function's jumps and branches lead to, calls left out."""
    destinations = []
    for i in raw.flow_rows:
        row = raw.rows[i]
        address = row[ADDRESS]
        flow = flow_of(row[OP], row[OPERANDS])
        destination: int | None = None
        if address is None:
            continue
        if flow in (Flow.JUMP, Flow.CONDITIONAL):
            destination = branch_destination(address, row[OPERANDS], row[COMMENT])
        elif flow is Flow.INDIRECT:
            destination = register_jump_destination(raw, i)
        if destination is not None:
            destinations.append(destination)
    return destinations


def _finish(
    raw: RawFunction,
    contents: _ListingContents,
    entry_points: dict[int, str],
    *,
    kernel: bool | None = None,
) -> Function:
    """Makes a function of what was read of it."""
    raw.is_kernel = _looks_like_kernel(raw, contents) if kernel is None else kernel
    row_at = {address: i for i, row in enumerate(raw.rows) if (address := row[ADDRESS]) is not None}
    raw.real_entry = _behind_preload_header(raw, row_at)
    branches = resolve_addresses(raw, row_at)
    _add_target_labels(raw, branches.targets.values())
    trimmed, _ = raw.without_padding((raw.real_entry, *branches.targets.values()))
    raw.code_bytes = _code_bytes(trimmed, contents)
    return finish(raw, branches, Resources(), entry_points=entry_points)


def _behind_preload_header(raw: RawFunction, row_at: Mapping[int, int]) -> int:
    """The row behind LLVM's header for kernel argument preloading, 0 where there is none."""
    first = raw.rows[0]
    start = first[ADDRESS]
    if first[MNEMONIC] != "s_trap" or start is None:
        return 0
    entry = row_at.get(start + PRELOAD_HEADER_BYTES, 0)
    filled = all(row[MNEMONIC] in FILLER for row in raw.rows[1:entry])
    return entry if entry and filled else 0


def _looks_like_kernel(raw: RawFunction, contents: _ListingContents) -> bool:
    """Returns whether a descriptor names a function, or it ends the program and never returns."""
    if contents.kernels:
        return raw.name in contents.kernels
    flows = [
        (flow_of(r[OP], r[OPERANDS]), r[OPERANDS]) for r in (raw.rows[i] for i in raw.flow_rows)
    ]
    returns = any(f is Flow.INDIRECT and o.startswith(RETURN_REGISTERS) for f, o in flows)
    return not returns and any(f is Flow.END for f, _ in flows)


def _add_target_labels(raw: RawFunction, targets: Iterable[int]) -> None:
    """Names branch targets as the listing does: `kernel+0x100`."""
    start = raw.rows[0][ADDRESS] if raw.rows else None
    labelled_rows = set(raw.labels.values())
    if start is None:
        return
    for target in sorted(set(targets)):
        address = raw.rows[target][ADDRESS]
        if target not in labelled_rows and address is not None:
            raw.labels[f"{raw.name}+0x{address - start:x}"] = target


def _code_bytes(raw: RawFunction, contents: _ListingContents) -> int | None:
    """Returns the bytes from the first to the last instruction; None without encodings."""
    if not raw.rows:
        return None
    first, last = raw.rows[0][ADDRESS], raw.rows[-1][ADDRESS]
    if first is None or last is None:
        return None
    size = contents.sizes.get(last)
    return None if size is None or last < first else last + size - first
