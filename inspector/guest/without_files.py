"""Keeps the compiler from opening files that a kernel names, in whatever way it does.

Assembly makes directives of macros, arguments and operands in more ways than can be looked for, and
`.incbin` would carry a file into the code. MLIR opens the file of an operation's location, be it a
pipe, to show the line of an error. A filter of system calls holds for one thread: such functions of
Triton's run in a thread of their own, which ends with them.

Refuses assembly that names files for LLVM's assembler or linker, before it is assembled.

Triton prints a kernel as text and assembles that. Inline assembly stands in it as written, and so
do names of kernels and of source files, with any line that they hold. Directives that macros make
are not seen here: `without_files` keeps the assembler from files, and `check_object` the linker.
"""

from __future__ import annotations

import functools
import importlib
import re
import struct
import threading
from collections.abc import Callable
from typing import Any

from .system_calls import deny_opening

_INLINE = re.compile(r"\basm\b|#ASMSTART|\.(?:macro|irpc?|rept?|altmacro)\b", re.I)
"""In LLVM IR and in assembly: what may come from inline assembly."""
_FUNCTIONS = (
    ("triton._C.libtriton", "llvm", "translate_to_asm"),
    ("triton._C.libtriton", "amd", "assemble_amdgcn"),
    ("triton.backends.amd.compiler", None, "compile_amdgpu"),  # both since 3.9
    ("triton.backends.amd.compiler", None, "assemble_amdgcn"),
)
"""(module, object in it, function) of Triton that parse assembly, their first argument."""
_QUOTING = (("pass_manager", "run"), ("module", "verify"))
"""Classes and methods of Triton that show lines of the files in locations."""


def guard_assembler() -> None:
    """Makes this process's Triton parse assembly where no file can be opened."""
    for module, name, function in _FUNCTIONS:
        owner = importlib.import_module(module)
        owner = owner if name is None else getattr(owner, name)
        if hasattr(owner, function):
            setattr(owner, function, without_files(getattr(owner, function)))
    backend: Any = importlib.import_module("triton.backends.amd.compiler")
    if hasattr(backend, "_load_amd_codegen"):  # the library must be open by then
        backend._load_amd_codegen(backend.get_amd_codegen_path())


def guard_diagnostics() -> None:
    """Makes errors of this process's MLIR show no lines of files."""
    ir: Any = importlib.import_module("triton._C.libtriton").ir
    for owner, name in _QUOTING:
        method = getattr(getattr(ir, owner), name)
        setattr(getattr(ir, owner), name, without_files(method))


def without_files(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a function so that it can open no file.

    Where the system has no such filter, it raises ValueError for a text with inline assembly.
    """

    @functools.wraps(function)
    def run(first: Any, *args: Any, **kwargs: Any) -> Any:
        results: list[Any] = []
        errors: list[BaseException] = []

        def work() -> None:
            try:
                if not deny_opening() and isinstance(first, str) and _INLINE.search(first):
                    raise ValueError(
                        "it has inline assembly, and this system has no seccomp to keep the"
                        " assembler from reading files into the code"
                    )
                results.append(function(first, *args, **kwargs))
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        if errors:
            raise errors[0]
        return results[0]

    return run


_FILES = re.compile(
    r"\.(?:incbin|include|deplibs|linker-options)\b|llvm_(?:dependent_libraries|linker_options)",
    re.I,
)
_SECTION_TYPE = re.compile(r"\.(?:push)?section\b[^\n\r;]*,\s*[@%\"](?P<type>[\w.-]*)", re.I)
_PLAIN_TYPES = frozenset(("progbits", "nobits", "note", "init_array", "fini_array"))
_PLAIN_NUMBERS = frozenset((0, 1, 2, 3, 4, 7, 8, 9, 14, 15, 16, 17, 18, 0x6FFF4C03))
"""Types of sections that name no file: those of the ELF specification, and LLVM's addrsig."""


def guard_linker() -> None:
    """Looks at each object of this process before Triton links it."""
    amd: Any = importlib.import_module("triton._C.libtriton").amd
    link = amd.link_hsaco

    def checked(source: str, *arguments: Any) -> Any:
        with open(source, "rb") as stream:
            check_object(stream.read())
        return link(source, *arguments)

    amd.link_hsaco = checked


def check_object(content: bytes) -> None:
    """Checks the sections of an object: lld opens the files that some name.

    Raises:
        ValueError: one is of such a type.
    """
    (start,) = struct.unpack_from("<Q", content, 0x28)
    size, count = struct.unpack_from("<HH", content, 0x3A)
    if not count and start:  # more than 65,279: the first section says how many
        (count,) = struct.unpack_from("<Q", content, start + 0x20)
    for number in range(count):
        (kind,) = struct.unpack_from("<I", content, start + number * size + 4)
        if kind not in _PLAIN_NUMBERS:
            raise ValueError(f"its assembly has a section of type {kind:#x}, for the linker")


def check_assembly(text: str) -> None:
    """Checks a kernel's assembly.

    Raises:
        ValueError: it would read a file.
    """
    types = (match["type"].lower() for match in _SECTION_TYPE.finditer(text) if match["type"])
    if _FILES.search(text) is not None or not _PLAIN_TYPES.issuperset(types):
        raise ValueError(
            "its assembly names files or libraries (.incbin, .include, sections for the linker), "
            "which would go into the code: put what it needs into the kernel itself"
        )
