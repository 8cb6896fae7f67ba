"""Code that is written as machine words: `.long 0xC0120700, 0x00000000`."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from ...model import SourceLoc
from ..graph.branches import branch_destination, register_jump_destination
from ..mnemonics import FLOW_CLASSES, Flow, classify, flow_of, lookup
from .operands import SymbolTable
from .rawcode import ADDRESS, COMMENT, LINE, LOC, MNEMONIC, OP, OPERANDS, RawFunction, Row

_WORD = 4
_MASK = 0xFFFFFFFF
# Bytes of each value, by LLVM's AsmParser on AMDGPU; `.word` is none of its directives.
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
"""Padding words and their instructions, the same on every target."""
MAX_WORDS = 1 << 18
"""Limit on the words of `.fill` in one text; each becomes a row."""
PRELOAD_HEADER_BYTES = 256
"""Code that firmware preloading arguments skips (AMDGPUUsage, "Preloaded Kernel Arguments")."""
WORD = ".long"
"""The mnemonic of a row that is an undecoded word."""

DecodedWords = Sequence[tuple[int, str]]
"""The instructions in a run of words: (words taken, text), an empty text for what is unknown."""
Decode = Callable[[Sequence[Sequence[int]]], "Sequence[DecodedWords] | None"]
"""Decodes runs of words; None where no disassembler for the target is installed."""


class _WordRun(Struct, frozen=True):
    """Rows `start:stop` of a function that are consecutive words."""

    start: int
    stop: int


def words_of(directive: str, operands: str, symbols: SymbolTable) -> list[int] | None:
    """The 32-bit words that a data directive assembles to; None where they are unknown."""
    if directive == ".fill":
        return _filled(operands, symbols)
    size = _SIZES.get(directive)
    if size is None:
        return None
    words: list[int] = []
    for value_text in operands.split(","):
        value = symbols.evaluate(value_text.strip())
        if value is None:
            return None
        words.extend(value >> shift & _MASK for shift in range(0, 8 * size, 32))
    return words


def _filled(operands: str, symbols: SymbolTable) -> list[int] | None:
    """The words of `.fill count, size, value`; None where they are unknown or too many."""
    values = [symbols.evaluate(value_text.strip()) for value_text in operands.split(",")]
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
    """Whether control may come to an instruction after the last row so far."""
    if not function.rows or len(function.rows) in function.labels.values():
        return True
    last = function.rows[-1]
    return flow_of(last[OP], last[OPERANDS]).falls_through


def add_words(
    function: RawFunction, words: Iterable[int], line: int, location: SourceLoc | None
) -> None:
    """Adds words as rows; `decode` turns them into instructions later."""
    op = lookup(WORD)
    function.rows.extend(
        (line, WORD, f"0x{word:08x}", "", op, op.cls, location, None) for word in words
    )


def decode(functions: Sequence[RawFunction], decoder: Decode) -> None:
    """Replaces the words of functions by the instructions they encode.

    Words that control cannot reach are data and are removed. Branches among the words are resolved
    into `RawFunction.targets`. Words that cannot be decoded stay and are counted in `undecoded`.
    """
    runs = [(function, run) for function in functions for run in _runs(function)]
    if not runs:
        return
    label_rows = {id(function): _branch_labels(function) for function, _ in runs}
    run_words = [
        [int(row[OPERANDS], 16) for row in function.rows[run.start : run.stop]]
        if _is_reached(function, run, label_rows[id(function)])
        else []
        for function, run in runs
    ]
    unknown = [words for words in run_words if not FILLER_WORDS.keys() >= set(words)]
    answers = decoder(unknown) if unknown else None
    undecoded: list[DecodedWords | None] = [None] * len(unknown)
    results: Iterator[DecodedWords | None] = iter(answers or undecoded)
    decoded: dict[int, list[tuple[_WordRun, DecodedWords | None]]] = {}
    for (function, run), words in zip(runs, run_words, strict=True):
        is_filler = FILLER_WORDS.keys() >= set(words)
        instructions = [(1, FILLER_WORDS[word]) for word in words] if is_filler else next(results)
        decoded.setdefault(id(function), []).append((run, instructions))
    for function in functions:
        if id(function) in decoded:
            _splice(function, decoded[id(function)])


def _splice(function: RawFunction, runs: Sequence[tuple[_WordRun, DecodedWords | None]]) -> None:
    """Replaces runs of words by instructions; None leaves the words of a run as they are."""
    rows: list[Row] = []
    new_index: list[int] = []  # old row -> new row
    targets: dict[int, int] = {}
    position = 0
    for run, decoded in runs:
        new_index.extend(range(len(rows), len(rows) + run.start - position))
        rows.extend(function.rows[position : run.start])
        position = run.stop
        words = function.rows[run.start : run.stop]
        first_row = len(rows)
        if decoded is None:
            function.undecoded += len(words)
            new_index.extend(range(first_row, first_row + len(words)))
            rows.extend(words)
            continue
        replacements, owners = _instructions(words, decoded)
        function.undecoded += sum(row[MNEMONIC] == WORD for row in replacements)
        new_index.extend(first_row + k for k in owners)
        targets.update(_targets(function.name, replacements, first_row))
        rows.extend((*row[:ADDRESS], None) for row in replacements)
        new_index.extend([len(rows)] * (len(words) - len(owners)))
    new_index.extend(range(len(rows), len(rows) + len(function.rows) - position + 1))
    rows.extend(function.rows[position:])
    function.rows = rows
    function.flow_rows = [i for i, row in enumerate(rows) if row[OP].cls in FLOW_CLASSES]
    function.labels = {label: new_index[i] for label, i in function.labels.items()}
    function.numbered = {k: [new_index[i] for i in v] for k, v in function.numbered.items()}
    function.real_entry = new_index[function.real_entry]
    function.targets = targets
    _add_target_labels(function, targets.values())


def _runs(function: RawFunction) -> list[_WordRun]:
    """The runs of undecoded words in a function, in order."""
    runs: list[_WordRun] = []
    start: int | None = None
    for i, row in enumerate(function.rows):
        is_word = row[MNEMONIC] == WORD
        if is_word and start is None:
            start = i
        elif not is_word and start is not None:
            runs.append(_WordRun(start, i))
            start = None
    if start is not None:
        runs.append(_WordRun(start, len(function.rows)))
    return runs


def _branch_labels(function: RawFunction) -> list[int]:
    """The rows of labels that branches name, ascending."""
    words = {
        word
        for i in function.flow_rows
        for word in function.rows[i][OPERANDS].replace(",", " ").split()
    }
    return sorted({row for label, row in function.labels.items() if label in words})


def _is_reached(function: RawFunction, run: _WordRun, label_rows: Sequence[int]) -> bool:
    """Whether control may enter a run: from above, or at one of `label_rows` (ascending)."""
    if run.start == 0 or run.start == function.real_entry:
        return True
    previous_row = function.rows[run.start - 1]
    if flow_of(previous_row[OP], previous_row[OPERANDS]).falls_through:
        return True
    k = bisect.bisect_left(label_rows, run.start)
    return k < len(label_rows) and label_rows[k] < run.stop


def _instructions(words: Sequence[Row], decoded: DecodedWords) -> tuple[list[Row], list[int]]:
    """The rows of decoded words with addresses from 0, and for each word the row it is part of."""
    rows: list[Row] = []
    owner: list[int] = []
    for size, text in decoded:
        position = len(owner)
        if position >= len(words):
            break
        size = max(1, min(size, len(words) - position))
        pieces = text.split(None, 1) if text else [WORD, words[position][OPERANDS]]
        op = lookup(pieces[0])
        operands = pieces[1].rstrip() if len(pieces) > 1 else ""
        encoding = " ".join(row[OPERANDS][2:].upper() for row in words[position : position + size])
        rows.append(
            (
                *(words[position][LINE], pieces[0], operands, encoding, op),
                *(classify(op, operands, ""), words[position][LOC], _WORD * position),
            )
        )
        owner.extend([len(rows) - 1] * size)
    return rows, owner


def _targets(name: str, rows: list[Row], first_row: int) -> dict[int, int]:
    """The branches within one run: row -> row, both counted in the function."""
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
            destination = branch_destination(address, row[OPERANDS], row[COMMENT])
        target = row_at.get(destination) if destination is not None else None
        if target is not None:
            targets[first_row + i] = first_row + target
    return targets


def _add_target_labels(function: RawFunction, targets: Iterable[int]) -> None:
    """Names branch targets without a label by their line."""
    labelled_rows = set(function.labels.values())
    for target in sorted(set(targets) - labelled_rows):
        function.labels[f"line{function.rows[target][LINE]}"] = target
