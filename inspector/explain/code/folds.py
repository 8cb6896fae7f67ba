"""What a reader may fold away: debug directives, metadata, sections of data, bodies of loops.

A fold belongs to the line above what it hides. Lines count from 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ...model import Function


class Fold(Struct, frozen=True):
    """Lines that can be hidden.

    Attributes:
        start: the line that stays.
        last: the last line that is hidden; the first is the one behind `start`.
        what: `debug` directives, `data`, `metadata`, kernel `descriptor`, `prologue` before the
            first loop, `region` of nested code.
    """

    start: int
    last: int
    what: str


HIDDEN_FIRST = frozenset({"debug", "data", "metadata", "descriptor"})
"""What is folded at the beginning: nobody reads a kernel for it."""

_DEBUG = re.compile(r"\s*(?:\.loc\b|\.file\b|\.cfi_|\.Ltmp\d+:\s*$|\.Lfunc_(?:begin|end)\d+:\s*$)")
_SECTION = re.compile(r"\s*\.(?:section|text\b|data\b|bss\b|rodata\b|pushsection|popsection|ident)")
_CODE_SECTION = re.compile(r'\s*\.(?:text\b|section\s+(?:"?\.text|[^,]+,\s*"[a-z]*x))')
_OPENS = {
    ".amdhsa_kernel": (".end_amdhsa_kernel", "descriptor"),
    ".amd_kernel_code_t": (".end_amd_kernel_code_t", "descriptor"),
    ".amdgpu_metadata": (".end_amdgpu_metadata", "metadata"),
    ".amd_amdgpu_hsa_metadata": (".end_amd_amdgpu_hsa_metadata", "metadata"),
    ".amdgpu_pal_metadata": (".end_amdgpu_pal_metadata", "metadata"),
}
_STATED = re.compile(
    r"\s*\.set\s+\.?[\w.$]+\.(?:num_\w+|numbered_\w+|private_\w+|uses_\w+|has_\w+)"
)
_INFO = re.compile(r";\s*(?:Kernel info|Function info):")
_LOCATIONS = re.compile(r"#loc\w*(?: =|\()")
_METADATA = re.compile(r"(?:!|attributes #|declare )")


def folds(kind: str, lines: Sequence[str], function: Function | None = None) -> Mapping[int, int]:
    """What can be folded: line that stays -> last line that is hidden under it.

    Args:
        kind: of the text: source, ttgir, llir or amdgcn.
        lines: the text.
        function: the kernel in an assembly; its prologue can be folded then.
    """
    return {fold.start: fold.last for fold in all_folds(kind, lines, function)}


def folded_first(kind: str, lines: Sequence[str]) -> frozenset[int]:
    """The lines whose folds are closed when a text is first shown."""
    return frozenset(f.start for f in all_folds(kind, lines) if f.what in HIDDEN_FIRST)


def all_folds(
    kind: str, lines: Sequence[str], function: Function | None = None
) -> tuple[Fold, ...]:
    """What can be folded, by its first line; one for each line at most."""
    make = {"amdgcn": _assembly, "ttgir": _mlir, "llir": _llvm}.get(kind, _python)
    all_of_kind = list(make(lines))
    if kind == "amdgcn" and function is not None:
        all_of_kind.extend(_prologue(function))
    return tuple(_nested(all_of_kind))


def _nested(folds_found: Iterable[Fold]) -> list[Fold]:
    """The same as a tree: one for each line, and none that begins within another and ends behind.

    Where one does, the outer takes in what the inner hides.
    """
    ordered = sorted(folds_found, key=lambda fold: (fold.start, -fold.last))
    nested: list[Fold] = []
    for fold in ordered:
        if not nested or nested[-1].start != fold.start:
            nested.append(fold)
    around: list[int] = []  # places in `nested` of the folds that a line stands in
    for place, fold in enumerate(nested):
        while around and nested[around[-1]].last < fold.start:
            around.pop()
        for outer in around:
            if nested[outer].last < fold.last:
                nested[outer] = replace(nested[outer], last=fold.last)
        around.append(place)
    return nested


def _assembly(lines: Sequence[str]) -> Iterator[Fold]:
    at, count = 0, len(lines)
    while at < count:
        line = lines[at]
        body = line.lstrip()
        if not body or body[0] not in ".;":
            at += 1
            continue
        if body[0] == ";":
            if _INFO.match(body):
                last = _while(lines, at + 1, lambda text: text.startswith(";"))
                if last > at:
                    yield Fold(at, last, "metadata")
                at = last
            at += 1
            continue
        word = body.split(None, 1)[0]
        opened = _OPENS.get(word)
        if opened is not None:
            last = _until(lines, at, opened[0])
            if last > at:
                yield Fold(at, last, opened[1])
            at = last + 1
            continue
        if _SECTION.match(line):
            if _CODE_SECTION.match(line) is None:
                last = _data(lines, at)
                if last > at:
                    yield Fold(at, last, "data")
                at = last + 1
                continue
        elif _STATED.match(line):
            last = _while(lines, at + 1, lambda text: _STATED.match(text) is not None)
            if last > at:
                yield Fold(at, last, "metadata")
            at = last
        elif _DEBUG.match(line):
            last = _while(lines, at + 1, lambda text: _DEBUG.match(text) is not None)
            if at:
                yield Fold(at - 1, last, "debug")  # under the code above, so that none stays
            elif last:
                yield Fold(0, last, "debug")
            at = last
        at += 1


def _while(lines: Sequence[str], at: int, holds: Callable[[str], bool]) -> int:
    """The last line of the run that begins at a line; the line before where there is none."""
    while at < len(lines) and holds(lines[at]):
        at += 1
    return at - 1


def _until(lines: Sequence[str], at: int, word: str) -> int:
    for number in range(at + 1, len(lines)):
        if lines[number].lstrip().startswith(word):
            return number
    return len(lines) - 1


def _data(lines: Sequence[str], at: int) -> int:
    """The last line of a section of data: what follows it is code, metadata or descriptors."""
    number = at + 1
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
    """What comes before the first loop: it runs once, mostly to work out addresses."""
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
    at, count = 0, len(lines)
    while at < count:
        if lines[at].startswith("#loc"):
            last = _while(lines, at + 1, lambda text: text.startswith("#loc"))
            if last > at:
                yield Fold(at, last, "debug")
            at = last
        at += 1
    yield from _regions(lines)


def _regions(lines: Sequence[str]) -> Iterator[Fold]:
    """Bodies in braces: from a line that ends with `{` to the line that closes it."""
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
    at, count = 0, len(lines)
    while at < count:
        line = lines[at]
        if _METADATA.match(line):
            first = line.split(None, 1)[0][:1]
            last = at
            for number in range(at + 1, count):
                if lines[number].startswith(first) and _METADATA.match(lines[number]):
                    last = number
                elif lines[number].strip():
                    break
            if last > at:
                yield Fold(at, last, "metadata")
            at = last
        elif "#dbg_" in line and line.lstrip().startswith("#dbg_"):
            last = _while(lines, at + 1, lambda text: text.lstrip().startswith("#dbg_"))
            if at:
                yield Fold(at - 1, last, "debug")
            at = last
        at += 1
    yield from _regions(lines)


_BLOCK = re.compile(r"\s*(?:async\s+def|def|class)\b")


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
