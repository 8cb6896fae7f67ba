"""Loads code objects and fat binaries: disassembled and parsed, with resources and source lines."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from ...base.errors import KinspectError
from ...base.printable import printable_line
from ...model import Function, Instruction, Program, Resources, VariableMark
from ..assembly import parse_text
from ..stack import with_stack_accesses
from .bundle import extract_code_objects
from .codelisting import count_data, trim_listing
from .codeobject import CodeObject, CodeSymbol, read_code_object
from .disasm import Disassembly, NoDisassemblerError, disassemble_object
from .eflags import split_target
from .linemap import LineMap, read_line_map


class LoadedImage(Struct, frozen=True):
    """A code object of a file; `text` is the listing that `program`'s lines refer to."""

    triple: str
    text: str
    program: Program
    code: CodeObject


def load_code_object(data: bytes, name: str, arch: str | None = None) -> Program:
    """Disassemble and parse the one code object of a file.

    Args:
        data: a code object, offload bundle, or HIP executable or library.
        name: name of the program, for errors too.
        arch: the one to load of a file for several processors, `gfx90a` or `gfx90a:xnack-`.

    Returns:
        The program: resources from note and descriptor, `loc` where the object has debug
        information, and its problems in `notes`.

    Raises:
        KinspectError: the file is damaged or holds no code for AMD GPUs; it holds several code
            objects that fit; or no disassembler here can decode it.
    """
    triple, image = _single(data, name, arch)
    return _load(triple, image, name).program


def load_images(data: bytes, name: str, arch: str | None = None) -> tuple[LoadedImage, ...]:
    """Disassemble and parse every code object of a file, or every one for `arch`.

    Raises:
        KinspectError: as `load_code_object`; a file may hold several here.
    """
    images = _choose(extract_code_objects(data, name), name, arch)
    if len(images) == 1:
        return (_load(*images[0], name),)
    return tuple(
        _load(triple, image, f"{name}#{index}:{triple}")
        for index, (triple, image) in enumerate(images)
    )


def load_or_resources(data: bytes, name: str, arch: str | None = None) -> Program:
    """Loads the one code object of a file; its metadata alone where nothing can disassemble it.

    Raises:
        KinspectError: as `load_code_object`, except that no disassembler is needed.
    """
    try:
        return load_code_object(data, name, arch)
    except NoDisassemblerError as error:
        program = resources_only(data, name, arch)
        reason = error.message.removeprefix(f"{name}: ")
        return replace(program, notes=(*program.notes, f"{reason}; {error.hint}"))


def resources_only(data: bytes, name: str, arch: str | None = None) -> Program:
    """Read the one code object of a file without disassembling it.

    Returns:
        A program whose functions have no instructions, and a note that says so.

    Raises:
        KinspectError: as `load_code_object`, except that no disassembler is needed.
    """
    _, image = _single(data, name, arch)
    code = read_code_object(image, name)
    sizes = {f.name: f for f in code.functions}
    names = [*code.kernels, *(f for f in sizes if f not in code.kernels)]
    return Program(
        name=name,
        arch=code.arch,
        features=code.features,
        form="objdump",
        functions=tuple(_empty_function(n, code, sizes.get(n)) for n in names),
        code_object_version=code.version,
        notes=(
            *code.notes,
            "not disassembled: resources alone, no instructions",
        ),
    )


def _single(data: bytes, name: str, arch: str | None) -> tuple[str, bytes]:
    images = _choose(extract_code_objects(data, name), name, arch)
    if len(images) == 1:
        return images[0]
    triples = ", ".join(dict.fromkeys(_target_id(t) for t, _ in images))
    raise KinspectError(
        f"{name}: holds {len(images)} code objects ({triples}); one is expected here",
        "choose with --arch, or extract one with clang-offload-bundler --unbundle",
    )


def _choose(
    images: list[tuple[str, bytes]], name: str, arch: str | None
) -> list[tuple[str, bytes]]:
    if arch is None:
        return images
    matching = [i for i in images if arch in (_target_id(i[0]), split_target(i[0])[0])]
    if not matching:
        targets = ", ".join(dict.fromkeys(_target_id(t) for t, _ in images))
        raise KinspectError(f"{name}: holds no code for {arch}", f"choose one of {targets}")
    return matching


def _target_id(triple: str) -> str:
    arch, features = split_target(triple)
    return ":".join((arch, *features)) if arch else triple


def _load(triple: str, image: bytes, name: str) -> LoadedImage:
    """Disassembles and parses one code object."""
    code = read_code_object(image, name)
    disassembly = disassemble_object(code)
    text = trim_listing(disassembly.text, code)
    parsed = parse_text(text, name)
    lines = read_line_map(code.elf)
    sizes = {f.name: f for f in code.functions}
    functions = [_merge(f, code, sizes, lines) for f in parsed.functions]
    functions = with_stack_accesses(functions)
    present = {_symbol(f) for f in functions}
    functions += [_empty_function(n, code, sizes.get(n)) for n in code.kernels if n not in present]
    program = replace(
        parsed,
        arch=code.arch,
        features=code.features,
        form="objdump",
        functions=tuple(functions),
        code_object_version=code.version,
        # The parser's own notes are on gaps of a listing that the object fills.
        notes=(*code.notes, *_notes(disassembly, text, lines)),
    )
    return LoadedImage(triple, text, program, code)


def _notes(disassembly: Disassembly, text: str, lines: LineMap) -> list[str]:
    notes = [lines.problem] if lines.problem else []
    unknown = count_data(text)
    if unknown:
        notes.append(
            f"{unknown} words of code are unknown to {disassembly.tool}, which may be too old for "
            "this compiler: what follows them may be wrong; install a newer LLVM"
        )
    return notes


def _symbol(function: Function) -> str:
    return function.symbol or function.name


def _merge(
    function: Function, code: CodeObject, sizes: Mapping[str, CodeSymbol], lines: LineMap
) -> Function:
    """The function of a listing with the resources and source lines of its code object."""
    symbol = _symbol(function)
    stated = code.kernels.get(symbol)
    size = sizes[symbol].size if symbol in sizes else 0
    resources = stated or Resources()
    if resources.code_bytes is None:
        resources = replace(resources, code_bytes=size or function.resources.code_bytes)
    return replace(
        function,
        is_kernel=stated is not None,
        resources=resources,
        instructions=tuple(_with_location(i, lines) for i in function.instructions)
        if lines
        else function.instructions,
        variables=tuple(_variables(function, lines)),
    )


def _variables(function: Function, lines: LineMap) -> Iterator[VariableMark]:
    """Yields the variables that registers hold in a function, where each range of them begins."""
    addresses = [inst.address for inst in function.instructions if inst.address is not None]
    if not lines.variables or len(addresses) != len(function.instructions):
        return
    for variable in sorted(lines.variables, key=lambda variable: variable.low):
        index = bisect_left(addresses, variable.low)
        if index < len(addresses) and addresses[index] < variable.high:
            yield VariableMark(index, variable.file, variable.number, 1, variable.name)


def _with_location(instruction: Instruction, lines: LineMap) -> Instruction:
    if instruction.address is None:
        return instruction
    loc = lines.location_at(instruction.address)
    return instruction if loc is None else replace(instruction, loc=loc)


def _empty_function(name: str, code: CodeObject, symbol: CodeSymbol | None) -> Function:
    """The function of a symbol whose code is not in the listing."""
    resources = code.kernels.get(name) or Resources(
        code_bytes=symbol.size or None if symbol else None
    )
    display_name = printable_line(name)
    return Function(
        name=display_name,
        symbol=name if display_name != name else None,
        is_kernel=name in code.kernels,
        line_first=0,
        line_last=0,
        instructions=(),
        blocks=(),
        loops=(),
        resources=resources,
        notes=("its code is not in the listing",),
    )
