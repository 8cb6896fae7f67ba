"""Code that is written as machine words: `.long 0xC0120700, 0x00000000`.

Generated kernels hold instructions that their assembler did not know, or nothing else at all. The
words become rows of their own; `decode` has a disassembler turn them into instructions, each on the
line that its first word stands on.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from ...model import SourceLoc
from ..graph.branches import branch_destination, register_jump_destination
from ..mnemonics import FLOW_CLASSES, Flow, classify, flow_of, lookup
from .rawcode import ADDRESS, LINE, MNEMONIC, OP, OPERANDS, RawFunction, Row
from .symbols import SymbolTable

_WORD = 4
_MASK = 0xFFFFFFFF
# LLVM's AsmParser on AMDGPU; `.word` is none of them.
_SIZES: Mapping[str, int] = MappingProxyType(
    {".long": 4, ".int": 4, ".4byte": 4, ".quad": 8, ".8byte": 8}
)
DATA_DIRECTIVES = (
    *_SIZES,
    *(".byte", ".short", ".2byte", ".value", ".octa", ".fill", ".zero", ".skip", ".space"),
    *(".ascii", ".asciz", ".string", ".float", ".single", ".double"),
)
FILLER_WORDS: Mapping[int, str] = MappingProxyType(
    {0xBF800000: "s_nop 0", 0xBF9F0000: "s_code_end"}
)
"""What assemblers fill gaps with, the same on every target: word -> instruction."""
MAX_WORDS = 1 << 18
"""Words of `.fill` in one text; each becomes a row."""
PRELOAD_HEADER_BYTES = 256
"""What firmware that preloads arguments skips (AMDGPUUsage, "Preloaded Kernel Arguments")."""
WORD = ".long"
"""The mnemonic of a row that is an undecoded word."""

Decode = Callable[[Sequence[Sequence[int]]], "Sequence[Sequence[tuple[int, str]]] | None"]
"""Decodes runs of words. Of each: (words taken, text) per instruction, an empty text for what is
unknown. None where nothing here can decode for the target."""


class _Run(Struct, frozen=True):
    """Rows `start:stop` of a function that are words one after the other."""

    start: int
    stop: int


def words_of(directive: str, operands: str, symbols: SymbolTable) -> list[int] | None:
    """The 32-bit words that a data directive assembles to; None where that cannot be told."""
    if directive == ".fill":
        return _filled(operands, symbols)
    size = _SIZES.get(directive)
    if size is None:
        return None
    words: list[int] = []
    for part in operands.split(","):
        value = symbols.evaluate(part.strip())
        if value is None:
            return None
        words.extend(value >> shift & _MASK for shift in range(0, 8 * size, 32))
    return words


def _filled(operands: str, symbols: SymbolTable) -> list[int] | None:
    values = [symbols.evaluate(part.strip()) for part in operands.split(",")]
    if None in values or not values:
        return None
    count, size, value = (*(v or 0 for v in values), *(1, 0)[len(values) - 1 :])
    if size != _WORD or not 0 <= count <= MAX_WORDS:
        return None
    return [value & _MASK] * count


def is_preload_header(row: Row, following: Sequence[int]) -> bool:
    """Whether a kernel's first instruction is LLVM's header for kernel argument preloading.

    Firmware that does not preload starts at the header and traps; the hardware of everyone else
    starts behind it.

    Args:
        row: the first instruction.
        following: the words of the data directive after it.
    """
    fills = _WORD * (len(following) + 1) == PRELOAD_HEADER_BYTES
    return row[MNEMONIC] == "s_trap" and fills and FILLER_WORDS.keys() >= set(following)


def is_reachable(function: RawFunction) -> bool:
    """Whether control may come to what follows the last row so far."""
    if not function.rows or len(function.rows) in function.labels.values():
        return True
    last = function.rows[-1]
    return flow_of(last[OP], last[OPERANDS]).falls_through


def add_words(
    function: RawFunction, words: Iterable[int], line: int, location: SourceLoc | None
) -> None:
    """Adds words as rows, to be decoded once the function is complete."""
    op = lookup(WORD)
    function.rows.extend(
        (line, WORD, f"0x{word:08x}", "", op, op.cls, location, None) for word in words
    )


def decode(functions: Sequence[RawFunction], decoder: Decode) -> None:
    """Replaces the words of functions by the instructions that they are.

    Words that control cannot reach are data and go. Branches among the words are resolved here,
    into `RawFunction.targets`. What cannot be decoded stays and is counted in `undecoded`.
    """
    work = [(function, run) for function in functions for run in _runs(function)]
    if not work:
        return
    aimed_at = {id(function): _referenced(function) for function, _ in work}
    reached = [_is_reached(function, run, aimed_at[id(function)]) for function, run in work]
    texts = [
        [int(row[OPERANDS], 16) for row in function.rows[run.start : run.stop]]
        if is_reached
        else []
        for (function, run), is_reached in zip(work, reached, strict=True)
    ]
    unknown = [text for text in texts if not FILLER_WORDS.keys() >= set(text)]
    answers = decoder(unknown) if unknown else None
    none: list[Sequence[tuple[int, str]] | None] = [None] * len(unknown)
    results: Iterator[Sequence[tuple[int, str]] | None] = iter(none if answers is None else answers)
    decoded: dict[int, list[tuple[_Run, Sequence[tuple[int, str]] | None]]] = {}
    for (function, run), text in zip(work, texts, strict=True):
        is_filler = FILLER_WORDS.keys() >= set(text)
        instructions = [(1, FILLER_WORDS[word]) for word in text] if is_filler else next(results)
        decoded.setdefault(id(function), []).append((run, instructions))
    for function in functions:
        if id(function) in decoded:
            _splice(function, decoded[id(function)])


def _splice(
    function: RawFunction, runs: Sequence[tuple[_Run, Sequence[tuple[int, str]] | None]]
) -> None:
    """Puts instructions in the place of runs of words: None leaves a run, nothing removes it."""
    rows: list[Row] = []
    moved: list[int] = []  # old row -> new row
    targets: dict[int, int] = {}
    position = 0
    for run, decoded in runs:
        moved.extend(range(len(rows), len(rows) + run.start - position))
        rows.extend(function.rows[position : run.start])
        position = run.stop
        old = function.rows[run.start : run.stop]
        first = len(rows)
        if decoded is None:
            function.undecoded += len(old)
            moved.extend(range(first, first + len(old)))
            rows.extend(old)
            continue
        fresh, owner = _instructions(old, decoded)
        function.undecoded += sum(row[MNEMONIC] == WORD for row in fresh)
        moved.extend(first + k for k in owner)
        targets.update(_targets(function.name, fresh, first))
        rows.extend((*row[:ADDRESS], None) for row in fresh)
        moved.extend([len(rows)] * (len(old) - len(owner)))
    moved.extend(range(len(rows), len(rows) + len(function.rows) - position + 1))
    rows.extend(function.rows[position:])
    function.rows = rows
    function.flow_rows = [i for i, row in enumerate(rows) if row[OP].cls in FLOW_CLASSES]
    function.labels = {label: moved[i] for label, i in function.labels.items()}
    function.numbered = {k: [moved[i] for i in v] for k, v in function.numbered.items()}
    function.real_entry = moved[function.real_entry]
    function.targets = targets
    _label(function, targets.values())


def _runs(function: RawFunction) -> list[_Run]:
    runs: list[_Run] = []
    start: int | None = None
    for i, row in enumerate(function.rows):
        is_word = row[MNEMONIC] == WORD
        if is_word and start is None:
            start = i
        elif not is_word and start is not None:
            runs.append(_Run(start, i))
            start = None
    if start is not None:
        runs.append(_Run(start, len(function.rows)))
    return runs


def _referenced(function: RawFunction) -> list[int]:
    """The rows of labels that branches name, ascending."""
    words = {
        word
        for i in function.flow_rows
        for word in function.rows[i][OPERANDS].replace(",", " ").split()
    }
    return sorted({row for label, row in function.labels.items() if label in words})


def _is_reached(function: RawFunction, run: _Run, aimed_at: Sequence[int]) -> bool:
    if run.start == 0 or run.start == function.real_entry:
        return True
    previous_row = function.rows[run.start - 1]
    if flow_of(previous_row[OP], previous_row[OPERANDS]).falls_through:
        return True
    k = bisect.bisect_left(aimed_at, run.start)
    return k < len(aimed_at) and aimed_at[k] < run.stop


def _instructions(
    old: Sequence[Row], decoded: Sequence[tuple[int, str]]
) -> tuple[list[Row], list[int]]:
    """The rows of decoded words with addresses from 0, and for each word the row it is part of."""
    rows: list[Row] = []
    owner: list[int] = []
    for size, text in decoded:
        at = len(owner)
        if at >= len(old):
            break
        size = max(1, min(size, len(old) - at))
        parts = text.split(None, 1) if text else [WORD, old[at][OPERANDS]]
        op = lookup(parts[0])
        operands = parts[1].rstrip() if len(parts) > 1 else ""
        encoding = " ".join(row[OPERANDS][2:].upper() for row in old[at : at + size])
        rows.append(
            (
                *(old[at][LINE], parts[0], operands, encoding, op),
                *(classify(op, operands, ""), old[at][6], _WORD * at),
            )
        )
        owner.extend([len(rows) - 1] * size)
    return rows, owner


def _targets(name: str, rows: list[Row], first: int) -> dict[int, int]:
    """Branches within one run: row -> row, both counted in the whole function."""
    run = RawFunction(name, 0, rows)
    row_at = {row[ADDRESS]: i for i, row in enumerate(rows)}
    targets: dict[int, int] = {}
    for i, row in enumerate(rows):
        if row[OP].cls not in FLOW_CLASSES:
            continue
        flow = flow_of(row[OP], row[OPERANDS])
        address, destination = row[ADDRESS], None
        if flow is Flow.INDIRECT:
            destination = register_jump_destination(run, i)
        elif flow in (Flow.JUMP, Flow.CONDITIONAL) and address is not None:
            destination = branch_destination(address, row[OPERANDS], row[3])
        target = row_at.get(destination) if destination is not None else None
        if target is not None:
            targets[first + i] = first + target
    return targets


def _label(function: RawFunction, targets: Iterable[int]) -> None:
    """Names branch targets by their line, where no label stands there."""
    labelled_rows = set(function.labels.values())
    for target in sorted(set(targets) - labelled_rows):
        function.labels[f"line{function.rows[target][LINE]}"] = target
