"""Finds what can be folded in a text: debug directives, metadata, sections of data, loop bodies.

A fold hides the lines below the line that it starts at. Lines are counted from 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ...model import Function


class Fold(Struct, frozen=True):
    """Lines that can be hidden.

    Args:
        start: the line that stays visible; the next one is the first hidden.
        what: `debug` directives, `data`, `metadata`, kernel `descriptor`, `prologue` (the code
            before the first loop), or `region` (a body in braces or of a Python block).
    """

    start: int
    last: int
    what: str


HIDDEN_FIRST = frozenset({"debug", "data", "metadata", "descriptor"})
"""Kinds of folds that are closed when a text is first shown."""

_DEBUG = re.compile(r"\s*(?:\.loc\b|\.file\b|\.cfi_|\.Ltmp\d+:\s*$|\.Lfunc_(?:begin|end)\d+:\s*$)")
_SECTION = re.compile(r"\s*\.(?:section|text\b|data\b|bss\b|rodata\b|pushsection|popsection|ident)")
_CODE_SECTION = re.compile(r'\s*\.(?:text\b|section\s+(?:"?\.text|[^,]+,\s*"[a-z]*x))')
# Directive that opens a block -> the directive that closes it, and the kind of its fold.
_OPENS = {
    ".amdhsa_kernel": (".end_amdhsa_kernel", "descriptor"),
    ".amd_kernel_code_t": (".end_amd_kernel_code_t", "descriptor"),
    ".amdgpu_metadata": (".end_amdgpu_metadata", "metadata"),
    ".amd_amdgpu_hsa_metadata": (".end_amd_amdgpu_hsa_metadata", "metadata"),
    ".amdgpu_pal_metadata": (".end_amdgpu_pal_metadata", "metadata"),
}
_SYMBOL_FIGURES = re.compile(
    r"\s*\.set\s+\.?[\w.$]+\.(?:num_\w+|numbered_\w+|private_\w+|uses_\w+|has_\w+)"
)
_INFO = re.compile(r";\s*(?:Kernel info|Function info):")
_METADATA = re.compile(r"(?:!|attributes #|declare )")
_BLOCK = re.compile(r"\s*(?:async\s+def|def|class)\b")


def all_folds(
    kind: str, lines: Sequence[str], function: Function | None = None
) -> tuple[Fold, ...]:
    """The folds of a text in order of `start`, at most one for each line; see `folds`."""
    find_folds = {"amdgcn": _assembly, "ttgir": _mlir, "llir": _llvm}.get(kind, _python)
    unordered = list(find_folds(lines))
    if kind == "amdgcn" and function is not None:
        unordered.extend(_prologue(function))
    return tuple(_nested(unordered))


def _nested(folds_unordered: Iterable[Fold]) -> list[Fold]:
    """Folds that nest properly, at most one for each line."""
    ordered = sorted(folds_unordered, key=lambda fold: (fold.start, -fold.last))
    nested: list[Fold] = []
    for fold in ordered:
        if not nested or nested[-1].start != fold.start:
            nested.append(fold)
    enclosing: list[int] = []  # indices in `nested` of the folds around the present one
    for index, fold in enumerate(nested):
        while enclosing and nested[enclosing[-1]].last < fold.start:
            enclosing.pop()
        for outer in enclosing:
            if nested[outer].last < fold.last:
                nested[outer] = replace(nested[outer], last=fold.last)
        enclosing.append(index)
    return nested


def _assembly(lines: Sequence[str]) -> Iterator[Fold]:
    index = 0
    while index < len(lines):
        body = lines[index].lstrip()
        last = index
        if body[:1] == ";" and _INFO.match(body):
            last = _last_of_run(lines, index + 1, lambda text: text.startswith(";"))
            yield from _fold(index, last, "metadata")
        elif body[:1] == ".":
            kind, last = _directives(lines, index)
            if kind == "debug" and index:
                # Hidden below the line above, so that not even the first directive stays visible.
                yield Fold(index - 1, last, kind)
            elif kind:
                yield from _fold(index, last, kind)
        index = last + 1


def _fold(start: int, last: int, kind: str) -> Iterator[Fold]:
    if last > start:
        yield Fold(start, last, kind)


def _directives(lines: Sequence[str], index: int) -> tuple[str, int]:
    """Returns the kind of the directives that start at a line, and their last line."""
    line = lines[index]
    block = _OPENS.get(line.split(None, 1)[0])
    if block is not None:
        closing, kind = block
        return kind, _closing_line(lines, index, closing)
    if _SECTION.match(line):
        return ("", index) if _CODE_SECTION.match(line) else ("data", _last_of_data(lines, index))
    for pattern, kind in ((_SYMBOL_FIGURES, "metadata"), (_DEBUG, "debug")):
        if pattern.match(line):
            return kind, _last_of_run(lines, index + 1, pattern.match)
    return "", index


def _last_of_run(lines: Sequence[str], start: int, holds: Callable[[str], object]) -> int:
    """The last of the lines from `start` on that meet a condition; `start - 1` if none does."""
    number = start
    while number < len(lines) and holds(lines[number]):
        number += 1
    return number - 1


def _closing_line(lines: Sequence[str], start: int, directive: str) -> int:
    """The first line after `start` that begins with a directive, or else the last line."""
    for number in range(start + 1, len(lines)):
        if lines[number].lstrip().startswith(directive):
            return number
    return len(lines) - 1


def _last_of_data(lines: Sequence[str], start: int) -> int:
    """The last line of a data section, which code, metadata or a descriptor ends."""
    number = start + 1
    while number < len(lines):
        line = lines[number]
        body = line.lstrip()
        if body[:1] == "." and (
            _CODE_SECTION.match(line) is not None or body.split(None, 1)[0] in _OPENS
        ):
            break
        number += 1
    return number - 1


def _prologue(function: Function) -> Iterator[Fold]:
    """The code before the first loop, which runs once and mostly computes addresses."""
    headers = [function.blocks[loop.header].start for loop in function.loops]
    instructions = function.instructions
    if not headers:
        return
    first = min(instructions[index].line for index in headers)
    leading = [inst.line for inst in instructions if inst.line < first]
    start = function.line_first - 1
    if leading and max(leading) - 1 > start >= 0:
        yield Fold(start, max(leading) - 1, "prologue")


def _mlir(lines: Sequence[str]) -> Iterator[Fold]:
    index, count = 0, len(lines)
    while index < count:
        if lines[index].startswith("#loc"):
            last = _last_of_run(lines, index + 1, lambda text: text.startswith("#loc"))
            if last > index:
                yield Fold(index, last, "debug")
            index = last
        index += 1
    yield from _regions(lines)


def _regions(lines: Sequence[str]) -> Iterator[Fold]:
    opened: list[tuple[int, int]] = []
    for number, line in enumerate(lines):
        body = line.strip()
        if not body:
            continue
        indent = len(line) - len(line.lstrip())
        if body[0] == "}" and opened and opened[-1][1] == indent:
            start, _ = opened.pop()
            if number - 1 > start:
                yield Fold(start, number - 1, "region")
        if body.endswith("{"):
            opened.append((number, indent))


def _llvm(lines: Sequence[str]) -> Iterator[Fold]:
    index, count = 0, len(lines)
    while index < count:
        line = lines[index]
        if _METADATA.match(line):
            first = line.split(None, 1)[0][:1]
            last = index
            for number in range(index + 1, count):
                if lines[number].startswith(first) and _METADATA.match(lines[number]):
                    last = number
                elif lines[number].strip():
                    break
            if last > index:
                yield Fold(index, last, "metadata")
            index = last
        elif "#dbg_" in line and line.lstrip().startswith("#dbg_"):
            last = _last_of_run(lines, index + 1, lambda text: text.lstrip().startswith("#dbg_"))
            if index:
                yield Fold(index - 1, last, "debug")
            index = last
        index += 1
    yield from _regions(lines)


def _python(lines: Sequence[str]) -> Iterator[Fold]:
    for number, line in enumerate(lines):
        if not _BLOCK.match(line):
            continue
        indent = len(line) - len(line.lstrip())
        last = number
        for following in range(number + 1, len(lines)):
            body = lines[following].strip()
            if not body:
                continue
            depth = len(lines[following]) - len(lines[following].lstrip())
            if depth <= indent and body[0] not in ")]}":
                break
            last = following
        if last > number:
            yield Fold(number, last, "region")
