"""The code of a hot loop on both sides, aligned by source line.

Register numbers, labels and offsets say nothing of what the compiler does differently, so they are
dropped before instructions are compared: `v_add_f32 v12, v3, v4` is `v_add_f32 v, v, v`.

The assembly of a reported kernel: of its artifacts, or of the file that it was read from.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from ...base.errors import KinspectError
from ...base.named_files import file_bytes, is_named
from ...capture.targets import kind_of
from ...isa.assembly import parse_text
from ...model import Function, Instruction, KernelReport, Loop, LoopReport
from ...pipeline.inputs import read_text
from ...pipeline.reading import artifact_text
from .diff_results import IsaDifference, LineDifference

MOST_FOR_ALIGNMENT = 4000
"""Instructions of one source line beyond which only their kinds are counted."""
MOST_PAIRS_OF_LINES = 1 << 20
"""Of source lines of both sides, up to which lines that moved are looked for: some seconds."""

EDITED = 1.5
"""So many times as many instructions have to agree with lines shifted for the shift to be taken."""

_REGISTERS = re.compile(r"\b(v|s|a|ttmp|acc)\[(\d+):(\d+)\]|\b(v|s|a|ttmp|acc)(\d+)\b")
_LABEL = re.compile(r"\.L[\w$.]+|\bBB\d+_\d+")
_OFFSET = re.compile(r"\boffset([01]?):\d+")
T = TypeVar("T")
_Places = tuple[str | None, str | None]


@lru_cache(maxsize=2)
def functions_of(text: str) -> Mapping[str, Function]:
    """Symbol or name -> function of an assembly text; kernels of one file are asked for in a row.

    Raises:
        KinspectError: there is no AMDGCN in the text.
    """
    program = parse_text(text, "the assembly")
    return {key: f for f in program.kernels for key in (f.name, f.symbol) if key}


def function_for(report: KernelReport, functions: Mapping[str, Function]) -> Function | None:
    """The function that a report is about; the only one there is, whatever its name."""
    function = functions.get(report.name)
    if function is None and len({id(f) for f in functions.values()}) == 1:
        function = next(iter(functions.values()))
    return function


def same_code(left: Function, right: Function) -> bool:
    """Tells whether two functions are the same but for the names of labels."""
    sides = [
        [(i.mnemonic, _LABEL.sub("label", i.operands)) for i in side.instructions]
        for side in (left, right)
    ]
    return sides[0] == sides[1]


def region_of(function: Function, loop: LoopReport | None) -> tuple[Instruction, ...] | None:
    """A loop's own instructions, nested loops excluded; all of them for None.

    None where the function has no such loop: the report is of another text.
    """
    if loop is None:
        return function.instructions
    header = [
        candidate
        for candidate in function.loops
        if function.instructions[function.blocks[candidate.header].start].line == loop.header.line
    ]
    if len(header) != 1:
        return None
    return tuple(_own_instructions(function, header[0]))


def _own_instructions(function: Function, loop: Loop) -> Iterator[Instruction]:
    """Yields the instructions of a loop that are in no loop nested in it."""
    inner = {
        block
        for nested in function.loops
        if nested.id != loop.id and set(nested.blocks) < set(loop.blocks)
        for block in nested.blocks
    }
    for index in sorted(loop.blocks):
        if index not in inner:
            block = function.blocks[index]
            yield from function.instructions[block.start : block.stop]


def compare_regions(
    left: Sequence[Instruction], right: Sequence[Instruction], loop: str | None
) -> IsaDifference:
    """Compares the code of a region, source line by source line.

    Args:
        left: instructions of one side, in the order of the code.
    """
    left_lines, right_lines = by_line(left), by_line(right)
    texts = [
        {place: [canonical(i) for i in instructions] for place, instructions in side.items()}
        for side in (left_lines, right_lines)
    ]
    lines = []
    shared_total = 0
    only = [0, 0]
    for left_line, right_line in paired_lines(*texts):
        sides = _instructions_at(texts[0], left_line), _instructions_at(texts[1], right_line)
        shared, edits = _aligned(*sides)
        shared_total += shared
        for n in (0, 1):
            only[n] += len(sides[n]) - shared
        if edits:
            counts = _counts(
                _instructions_at(left_lines, left_line),
                _instructions_at(right_lines, right_line),
            )
            lines.append(LineDifference(_line_words(left_line, right_line), counts, tuple(edits)))
    return IsaDifference(loop, tuple(lines), shared_total, (only[0], only[1]))


def paired_lines(
    left: Mapping[str, Sequence[str]], right: Mapping[str, Sequence[str]]
) -> list[_Places]:
    """Pairs the source lines of both sides: equal ones, as long as the source is the same.

    If far more instructions would agree with lines shifted, the source was edited: then lines are
    aligned in order by their instructions, unless there are too many of them.
    """
    equal: list[_Places] = [(place, place) for place in sorted({*left, *right}, key=_order)]
    if len(left) * len(right) > MOST_PAIRS_OF_LINES:
        return equal
    moved = _shifted(left, right)
    agreeing_equal, agreeing_moved = _agreeing(left, right, equal), _agreeing(left, right, moved)
    return moved if agreeing_moved > EDITED * agreeing_equal else equal


def _agreeing(
    left: Mapping[str, Sequence[str]], right: Mapping[str, Sequence[str]], pairs: Iterable[_Places]
) -> int:
    """Counts the instructions that pairs of lines have in common."""
    return sum(
        (Counter(_instructions_at(left, a)) & Counter(_instructions_at(right, b))).total()
        for a, b in pairs
    )


def _instructions_at(side: Mapping[str, Sequence[T]], place: str | None) -> Sequence[T]:
    return side.get(place, ()) if place is not None else ()


def _line_words(left_line: str | None, right_line: str | None) -> str:
    """Returns `k.py:17`, or `k.py:17 → 19` if the line has moved."""
    moved = left_line and right_line and left_line != right_line
    return (
        f"{left_line} → {right_line.rpartition(':')[2]}"
        if moved and right_line
        else left_line or right_line or ""
    )


def _shifted(
    left: Mapping[str, Sequence[str]], right: Mapping[str, Sequence[str]]
) -> list[_Places]:
    """Aligns the lines of both sides in order, so that as many instructions as possible agree."""
    rows, columns = sorted(left, key=_order), sorted(right, key=_order)
    left_counts = {place: Counter(texts) for place, texts in left.items()}
    right_counts = {place: Counter(texts) for place, texts in right.items()}
    # best[i][j]: the most instructions that can agree in the first i and j lines.
    best = [[0] * (len(columns) + 1) for _ in range(len(rows) + 1)]
    for i, row in enumerate(rows, 1):
        for j, column in enumerate(columns, 1):
            agree = (left_counts[row] & right_counts[column]).total()
            best[i][j] = max(best[i - 1][j], best[i][j - 1], best[i - 1][j - 1] + agree)
    pairs: list[_Places] = []
    i, j = len(rows), len(columns)
    while i or j:
        if i and best[i][j] == best[i - 1][j]:
            i -= 1
            pairs.append((rows[i], None))
        elif j and best[i][j] == best[i][j - 1]:
            j -= 1
            pairs.append((None, columns[j]))
        else:
            i, j = i - 1, j - 1
            pairs.append((rows[i], columns[j]))
    pairs.reverse()
    return pairs


def canonical(instruction: Instruction) -> str:
    """Returns an instruction without register numbers, labels and offsets, but with widths."""
    operands = _REGISTERS.sub(_register, instruction.operands)
    operands = _OFFSET.sub(r"offset\1", _LABEL.sub("label", operands))
    return f"{instruction.op.name} {' '.join(operands.split())}".rstrip()


def _register(match: re.Match[str]) -> str:
    if match[4]:
        return match[4]
    count = int(match[3]) - int(match[2]) + 1
    return f"{match[1]}[{count}]" if count > 1 else match[1]


def by_line(instructions: Sequence[Instruction]) -> dict[str, list[Instruction]]:
    """Returns `file.py:17` -> its instructions; "" for those without a position.

    The line is the user's, not the library's that the code was inlined from.
    """
    by_line: dict[str, list[Instruction]] = {}
    for instruction in instructions:
        line = ""
        if instruction.loc is not None:
            location = instruction.loc.in_user_code
            line = f"{location.file.rpartition('/')[2]}:{location.line}"
        by_line.setdefault(line, []).append(instruction)
    return by_line


def _order(place: str) -> tuple[bool, str, int]:
    file, _, line = place.rpartition(":")
    return (not place, file, int(line or 0))


def _counts(
    left: Sequence[Instruction], right: Sequence[Instruction]
) -> dict[str, tuple[int, int]]:
    left_counts, right_counts = (Counter(i.op.name for i in side) for side in (left, right))
    return {
        name: (left_counts[name], right_counts[name])
        for name in sorted({*left_counts, *right_counts})
        if left_counts[name] != right_counts[name]
    }


def _aligned(left: Sequence[str], right: Sequence[str]) -> tuple[int, list[str]]:
    """Counts the instructions that both sides have, and lists the others, equal ones once."""
    if list(left) == list(right):
        return len(left), []
    left_counts, right_counts = Counter(left), Counter(right)
    shared = (left_counts & right_counts).total()
    removed, added = left_counts - right_counts, right_counts - left_counts
    if not removed and not added:
        return shared, []
    if max(len(left), len(right)) > MOST_FOR_ALIGNMENT:
        edits = [("-", text, count) for text, count in removed.items()]
        edits += [("+", text, count) for text, count in added.items()]
        return shared, [_line(*item) for item in edits]
    return shared, _in_order(left, right, removed, added)


def _in_order(
    left: Sequence[str], right: Sequence[str], removed: Counter[str], added: Counter[str]
) -> list[str]:
    """Lists the instructions that only one side has, in the order of a plain diff."""
    rows: list[tuple[str, str]] = []
    matcher = SequenceMatcher(None, left, right, autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag != "equal":
            rows += [("-", text) for text in left[i1:i2]]
            rows += [("+", text) for text in right[j1:j2]]
    counts: dict[tuple[str, str], int] = {}
    for sign, text in rows:
        budget = removed if sign == "-" else added
        if budget[text] > 0:
            budget[text] -= 1
            counts[sign, text] = counts.get((sign, text), 0) + 1
    return [_line(sign, text, count) for (sign, text), count in counts.items()]


def _line(sign: str, text: str, count: int) -> str:
    return f"{sign} {text}" + (f"  ×{count}" if count > 1 else "")


def assembly_of(report: KernelReport) -> str | None:
    """The assembly of a kernel; None if it has gone since the report was made."""
    text = text_of_artifacts(report)
    if text is not None:
        return text
    path = Path(report.file)
    try:
        kind = kind_of(path) if is_named(path) else None
        if kind == "asm":
            return read_text(path)
        if kind == "code_object":
            return _disassembly(path)
    except (KinspectError, OSError):
        pass  # the file is gone since the report was saved
    return None


def text_of_artifacts(report: KernelReport) -> str | None:
    """The assembly among a report's artifacts; None where it cannot be read."""
    return artifact_text(report.artifacts.get("amdgcn"))


def _disassembly(path: Path) -> str | None:
    """The listing of a code object; None if the file holds several."""
    from ...isa.objects.load import load_images

    images = load_images(file_bytes(path), str(path))
    return images[0].text if len(images) == 1 else None
