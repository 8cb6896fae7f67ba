"""Parses AMDGCN assembly, or an llvm-objdump listing of it, to a `Program`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from ..base.errors import KinspectError
from ..model import Function, Program, Unread
from .asm.contents import UnitContents
from .asm.debugloc import with_variables
from .asm.machine_words import WORD, decode
from .asm.rawcode import CLS, MNEMONIC, RawFunction
from .asm.reader import read_unit
from .asm.resources import Statements, read_resources
from .asm.units import Includes, is_listing, names_amdgpu, no_includes, not_amdgcn, split_units
from .graph.branches import resolve_labels
from .graph.calls import LEFT_OUT, finish
from .stack import with_stack_accesses


def parse_text(text: str, name: str, includes: Includes = no_includes) -> Program:
    """Parses one text; of a bundle for several devices, the part for the first.

    Args:
        text: compiler output, hand-written assembly, a text bundle of hipcc, or the output of
            `llvm-objdump -d`. Undecodable bytes should have been replaced by the caller.
        name: a file name as a rule, for errors and the result.
        includes: the files that it includes.

    Returns:
        The functions with their instructions, blocks, loops and stated resources. What could not
        be read or followed stands in `Function.unread`, and for people in `notes`, of the program
        or of the function.

    Raises:
        KinspectError: there is no AMDGCN in the text; the message says what it looks like.
    """
    programs = parse_texts(text, name, includes)
    program = programs[0]
    other_archs = [p.arch or "an unknown target" for p in programs[1:]]
    if not other_archs:
        return program
    note = (
        f"the file also holds code for {', '.join(other_archs)}, which is not part of this result"
    )
    return replace(program, notes=(*program.notes, note))


def parse_texts(text: str, name: str, includes: Includes = no_includes) -> tuple[Program, ...]:
    """Parses one text, as `parse_text`, to one program for each architecture in it.

    Raises:
        KinspectError: there is no AMDGCN in the text.
    """
    if is_listing(text):
        from .listing import read_listing

        listing = read_listing(text, name)
        if listing is None:
            raise not_amdgcn(text, name)
        return (listing,)
    units, skipped = split_units(text)
    groups: dict[tuple[str | None, tuple[str, ...]], list[tuple[UnitContents, list[Function]]]] = {}
    for unit in units:
        contents = read_unit(unit, includes)
        functions = with_variables(_functions(contents), unit.text, unit.lines_before)
        if not functions and not contents.directive_count:
            continue
        if not contents.directive_count and not _convincing(contents.functions, unit.text):
            continue
        key = (contents.target.arch, contents.target.features)
        groups.setdefault(key, []).append((contents, functions))
    if not groups:
        if skipped:
            raise KinspectError(
                f"{name}: the bundle holds no AMDGCN, only {', '.join(skipped[:3])}",
                "bundle the device assembly too (hipcc -S writes both), or pass the device file",
            )
        raise not_amdgcn(text, name)
    host = [f"the bundle's part for {target} is not read" for target in skipped]
    return tuple(
        _program(name, arch, features, parts, host) for (arch, features), parts in groups.items()
    )


def _program(
    name: str,
    arch: str | None,
    features: tuple[str, ...],
    parts: Sequence[tuple[UnitContents, list[Function]]],
    notes: Sequence[str],
) -> Program:
    """The program of the units for one architecture."""
    part_notes = [note for c, _ in parts for note in (*c.notes, *c.omissions.notes)]
    versions = [c.code_object_version for c, _ in parts if c.code_object_version is not None]
    return Program(
        name=name,
        arch=arch,
        features=features,
        form="asm",
        functions=tuple(function for _, functions in parts for function in functions),
        code_object_version=versions[0] if versions else None,
        notes=tuple(dict.fromkeys([*notes, *part_notes])),
    )


def _convincing(functions: Sequence[RawFunction], text: str) -> bool:
    """Whether text without AMDGPU directives is AMDGCN, judged by its words.

    Prose and foreign assembly hold a word such as `exp` or `s_x` by chance; known mnemonics must
    outweigh the lines that make no sense. A file made of macros that are defined elsewhere has more
    of those, but names AMDGPU's own directives or symbols somewhere.
    """
    if any(function.rows for function in functions) and names_amdgpu(text):
        return True
    counts: Counter[bool] = Counter()
    for function in functions:
        counts.update(row[CLS] != "unknown" for row in function.rows)
        counts[False] += len(function.unrecognised)
    return counts[True] > counts[False]


def _functions(contents: UnitContents) -> list[Function]:
    """The finished functions of a unit; notes what is missing in `contents`."""
    raws: list[RawFunction] = []
    for unsplit in contents.functions:
        raws.extend(unsplit.split(contents.kernels))
    _decode_words(raws, contents)
    _assign_unread(raws, contents.omissions.unread)
    labels = {label for raw in raws for label in (raw.name, *raw.labels)}

    def defined(symbol: str) -> bool:  # `.set alias, function` counts
        return symbol in labels or symbol in contents.symbols

    functions = []
    present: set[str] = set()
    for raw in raws:
        raw.is_kernel = raw.name in contents.kernels
        if not raw.rows and not raw.is_kernel and not raw.unrecognised:
            continue
        statements = contents.statements.get(raw.name, Statements())
        present.add(raw.name)
        functions.append(
            finish(
                raw,
                resolve_labels(raw),
                read_resources(raw.name, statements, contents.symbols),
                entry_points={},
                shown_name=contents.display_names.get(raw.name),
                defined=defined,
            )
        )
    for kernel in sorted(contents.kernels - present):
        contents.notes.append(f"kernel {kernel} is described but its code is not in the text")
    return _with_notes_of_callees(with_stack_accesses(functions), defined)


def _decode_words(raws: Sequence[RawFunction], contents: UnitContents) -> None:
    """Turns code that is written as machine words into instructions."""
    if not any(row[MNEMONIC] == WORD for raw in raws for row in raw.rows):
        return
    from .objects.disasm import decoder

    waves = {
        read_resources(raw.name, contents.statements[raw.name], contents.symbols).wave_size
        for raw in raws
        if raw.name in contents.statements
    }
    decode(raws, decoder(contents.target.arch, waves, contents.notes))


def _assign_unread(raws: Sequence[RawFunction], unread: Sequence[Unread]) -> None:
    """Adds each omission to the function whose lines hold it, else to all functions."""
    for omission in unread:
        (line,) = omission.lines
        owners = [raw for raw in raws if raw.line <= line <= raw.line_last]
        for raw in owners or raws:
            raw.unread.append(omission)


def _with_notes_of_callees(
    functions: list[Function], defined: Callable[[str], bool]
) -> list[Function]:
    """Adds to kernels a note for each unknown function that their callees call."""
    by_symbol = {f.symbol or f.name: f for f in functions}
    unknown = {f.name: [s for s in f.calls if not defined(s)] for f in functions}
    if not any(unknown.values()):
        return functions
    noted = []
    for function in functions:
        reached = dict.fromkeys(function.calls) if function.is_kernel else {}
        work = list(reached)
        notes: list[str] = []
        while work:
            callee = by_symbol.get(work.pop())
            if callee is None:
                continue
            notes.extend(
                f"it calls {callee.name}, which calls an unknown function ({s}): {LEFT_OUT}"
                for s in unknown[callee.name]
            )
            fresh = [s for s in callee.calls if s not in reached]
            reached |= dict.fromkeys(fresh)
            work.extend(fresh)
        noted.append(replace(function, notes=(*function.notes, *notes)) if notes else function)
    return noted
