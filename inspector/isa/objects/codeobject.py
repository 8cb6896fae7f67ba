"""AMDGPU code objects (`.hsaco`, `.co`): target, kernels, and the resources stated of each.

Two places state a kernel's resources: the metadata note, written by the compiler for the runtime
and for people, and the kernel descriptor, which the hardware is programmed from. Both are read;
where they contradict each other, `Resources.disagreements` says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from ...base.errors import KinspectError
from ...model import Resources
from .amdnote import ObjectNote, read_note
from .crosscheck import DESCRIPTOR_SIZE, KernelDescriptor, decode_descriptor, join
from .eflags import (
    ABI_VERSIONS,
    Encoding,
    arch_of_flags,
    features_of_flags,
    generic_version_of_flags,
    mach_of_flags,
    split_target,
    target_of,
)
from .elf import EM_AMDGPU, OSABI_HSA, Elf, ElfSymbol, read_elf

_STT_NOTYPE, _STT_OBJECT, _STT_FUNC = 0, 1, 2
_DESCRIPTOR_SUFFIX = ".kd"


@dataclass(frozen=True, slots=True)
class CodeSymbol:
    """A function's code: `address` and `size` in bytes; `section` is its section's index."""

    name: str
    section: int
    address: int
    size: int


@dataclass(frozen=True, slots=True)
class CodeObject:
    """A code object's identity, kernels and functions, not disassembled.

    Args:
        arch: the gfx name of `e_flags`, else of the metadata's target string.
        features: settings the object is bound to, as in a target id (`xnack+`).
        version: code object version, 3 to 6.
        generic_version: the version of a generic target; None for others.
        kernels: kernel symbol -> its stated resources, in file order.
        descriptors: kernel symbol -> its decoded descriptor.
        functions: the code of kernels and device functions, by address.
        notes: remarks on the file for a reader of the report.
    """

    name: str
    arch: str | None
    features: tuple[str, ...]
    version: int | None
    generic_version: int | None
    kernels: Mapping[str, Resources]
    descriptors: Mapping[str, KernelDescriptor]
    functions: tuple[CodeSymbol, ...]
    notes: tuple[str, ...]
    elf: Elf = field(repr=False)


def read_code_object(data: bytes, name: str) -> CodeObject:
    """Read one AMDGPU ELF file.

    Args:
        data: the whole file. For executables and bundles see `bundle.extract_code_objects`.
        name: the file's name, for errors and notes.

    Raises:
        KinspectError: not an ELF file for AMD GPUs, damaged, or older than code object v3.
    """
    elf = read_elf(data, name)
    if elf.machine != EM_AMDGPU:
        raise KinspectError(
            f"{name}: an ELF file for another machine (e_machine {elf.machine}), not for AMD GPUs",
            "pass a code object (.hsaco, .co), or the HIP executable or library that embeds one",
        )
    version = ABI_VERSIONS.get(elf.abi_version) if elf.osabi == OSABI_HSA else None
    note = read_note(elf)
    arch, features, problems = _identity(elf, version, note)
    target = target_of(arch)
    encoding = target.encoding if target else None
    if target is None and arch is not None:
        problems.append(f"{arch}: the packing of its kernel descriptors is not known here")
    descriptors = dict(_descriptors(elf, encoding, version))
    notes = {k.name: k for k in note.kernels} if note else {}
    names = list(dict.fromkeys((*notes, *descriptors)))
    functions = tuple(sorted(_functions(elf, names), key=lambda f: (f.section, f.address, f.name)))
    symbols = {s.name: s for s in elf.symbols if s.section and s.name}
    sizes = {f.name: f.size or None for f in functions}
    kernels = {
        kernel: join(
            notes.get(kernel),
            descriptors.get(kernel),
            encoding,
            sizes.get(kernel),
            _entry_problems(kernel, symbols, descriptors),
        )
        for kernel in names
    }
    if not kernels:
        problems.append("holds no kernel")
    return CodeObject(
        name=name,
        arch=arch,
        features=features,
        version=version,
        generic_version=generic_version_of_flags(elf.flags, version),
        kernels=MappingProxyType(kernels),
        descriptors=MappingProxyType(descriptors),
        functions=functions,
        notes=tuple(problems),
        elf=elf,
    )


def _identity(
    elf: Elf, version: int | None, note: ObjectNote | None
) -> tuple[str | None, tuple[str, ...], list[str]]:
    """The gfx name and features by `e_flags`, else by the metadata, and problems with them."""
    problems = list(note.problems) if note else ["has no metadata note"]
    arch = arch_of_flags(elf.flags)
    features = features_of_flags(elf.flags, version)
    stated, stated_features = split_target(note.target) if note and note.target else (None, ())
    if arch is None and stated is None:
        problems.append(f"unknown processor: EF_AMDGPU_MACH 0x{mach_of_flags(elf.flags):02x}")
    if arch and stated and (arch, set(features)) != (stated, set(stated_features)):
        problems.append(
            f"e_flags says {':'.join((arch, *features))}, "
            f"the metadata {':'.join((stated, *stated_features))}"
        )
    if elf.osabi == OSABI_HSA and version is None:
        problems.append(f"unknown code object version: EI_ABIVERSION {elf.abi_version}")
    return (arch, features, problems) if arch else (stated, stated_features, problems)


def _descriptors(
    elf: Elf, encoding: Encoding | None, version: int | None
) -> Iterator[tuple[str, KernelDescriptor]]:
    """Yields the kernels that have descriptors, with the descriptor."""
    for symbol in elf.symbols:
        if not symbol.name.endswith(_DESCRIPTOR_SUFFIX) or symbol.type != _STT_OBJECT:
            continue
        raw = elf.read_symbol(symbol, DESCRIPTOR_SIZE)
        if raw is None:
            raise elf.damaged(f"the kernel descriptor {symbol.name!r} lies outside it")
        yield (
            symbol.name.removesuffix(_DESCRIPTOR_SUFFIX),
            decode_descriptor(raw, encoding, version),
        )


def _functions(elf: Elf, kernels: list[str]) -> Iterator[CodeSymbol]:
    """Yields the code of kernels and device functions."""
    # Hand-written assembly may leave out .type; a kernel is known by its descriptor then.
    kernel_names = frozenset(kernels)
    for symbol in elf.symbols:
        if symbol.type != _STT_FUNC and (
            symbol.type != _STT_NOTYPE or symbol.name not in kernel_names
        ):
            continue
        position = elf.position_of(symbol)
        if position is None or not position[0].executable:
            continue
        section, offset = position
        size = min(symbol.size, section.size - offset)
        yield CodeSymbol(symbol.name, section.index, symbol.value, size)


def _entry_problems(
    kernel: str, symbols: Mapping[str, ElfSymbol], descriptors: Mapping[str, KernelDescriptor]
) -> tuple[str, ...]:
    """The contradiction between a kernel's symbol and the entry in its descriptor, if any."""
    code, table = symbols.get(kernel), symbols.get(kernel + _DESCRIPTOR_SUFFIX)
    descriptor = descriptors.get(kernel)
    # The assembler leaves 0 in objects that are not linked yet.
    if code is None or table is None or descriptor is None or not descriptor.entry_offset:
        return ()
    entry = table.value + descriptor.entry_offset
    if entry == code.value:
        return ()
    return (f"the descriptor starts the kernel at 0x{entry:x}, its symbol at 0x{code.value:x}",)
