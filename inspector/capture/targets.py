"""The kinds of files to work on, and how they are recognised.

Nothing is executed. The kind follows from the first bytes where they are decisive (ELF, zip), from
the contents of a .py file, and from the suffix otherwise.

The folder that targets must lie in: the root of a server, or the folder of a recording.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from ..base.documents import json_value, python_tree
from ..base.errors import KinspectError
from ..base.limits import BASE_BYTES
from ..base.named_files import file_bytes, named_text, opened

Kind = Literal[
    "script", "inductor", "asm", "code_object", "ttir", "ttgir", "report", "archive", "trace", "hip"
]

SUFFIXES: Mapping[str, Kind] = {
    ".py": "script",
    ".s": "asm",
    ".S": "asm",
    ".asm": "asm",
    ".amdgcn": "asm",
    ".hsaco": "code_object",
    ".co": "code_object",
    ".o": "code_object",
    ".ttir": "ttir",
    ".ttgir": "ttgir",
    ".mlir": "ttgir",
    ".json": "report",
    ".kinspect": "archive",
    ".kitrace": "trace",
    ".hip": "hip",
    ".cu": "hip",
}

CPP = frozenset((".cpp", ".cc", ".cxx", ".hpp", ".h", ".cuh"))
"""Suffixes of C++: a file that has a kernel is a HIP source."""
CODE_OBJECT = (b"\x7fELF", b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB")
"""First bytes of a code object, and of a bundle of them."""
STAGES: Mapping[str, str] = {
    "metadata": ".json",
    "ttir": ".ttir",
    "ttgir": ".ttgir",
    "llir": ".llir",
    "amdgcn": ".amdgcn",
    "hsaco": ".hsaco",
    "ptx": ".ptx",
    "cubin": ".cubin",
}
"""Stage of a kernel that Triton writes -> suffix of its file."""

_INDUCTOR = re.compile(
    rb"^async_compile = AsyncCompile\(\)"
    rb"|^@(?:triton_heuristics\.)?(?:pointwise|reduction|persistent_reduction|template|foreach"
    rb"|cooperative_reduction|split_scan|user_autotune|fixed_config)\(",
    re.M,
)


class Target(Struct, frozen=True):
    """One file to work on.

    Args:
        kernel: the only kernel of it to work on (`file.py::kernel`); None for all.
        siblings: files of the same compile beside it, by stage (`metadata`, `ttgir`, ...).
        archs: gfx names of its targets; empty for those of the command line, or the default.
        fault: why it cannot be worked on; None if it can.
        folder: the folder that was named, where it was found in one.
    """

    path: Path
    kind: Kind
    kernel: str | None = None
    siblings: Mapping[str, Path] = field(default_factory=dict)
    archs: tuple[str, ...] = ()
    fault: KinspectError | None = None
    folder: Path | None = None


def only_of(
    targets: Sequence[Target], kinds: Collection[Kind], message: str, hint: str
) -> list[Target]:
    """The targets, with a fault in each one that is not of one of these kinds.

    Raises:
        KinspectError: there is only one target, and it is of another kind.
    """
    checked = []
    for target in targets:
        if target.kind not in kinds and target.fault is None:
            fault = KinspectError(f"{target.path}: {message}", hint)
            if len(targets) == 1:
                raise fault
            target = replace(target, fault=fault)
        checked.append(target)
    return checked


def kind_of(path: Path) -> Kind | None:
    """The kind of a file, from its first bytes or its suffix; None if neither is known.

    Raises:
        KinspectError: it cannot be read.
    """
    try:
        with opened(path) as stream:
            magic = stream.read(24)
    except OSError as error:
        raise KinspectError(
            f"{path}: cannot be read ({error.strerror})", "check permissions"
        ) from None
    if magic.startswith(CODE_OBJECT):
        return "code_object"
    if magic.startswith(b"PK\x03\x04") and path.suffix == ".kinspect":
        return "archive"
    if path.suffix in CPP:
        return "hip" if declares_kernel(path) else None
    kind = SUFFIXES.get(path.suffix)
    return "inductor" if kind == "script" and is_inductor(path) else kind


def named_kind(path: Path) -> Kind | None:
    """The kind of a file that may not be there, by its suffix alone; C++ is looked into."""
    if path.suffix in CPP:
        return kind_of(path) if path.is_file() else None
    return SUFFIXES.get(path.suffix)


_OF_KERNELS = (b"__global__", b"<<<", b"hipLaunchKernel")
"""What a C++ file has that declares a kernel, or launches one of a header."""


def declares_kernel(path: Path) -> bool:
    """Whether a C++ file has, or launches, a function that HIP launches."""
    try:
        data = file_bytes(path, BASE_BYTES)
    except OSError:
        return False
    return any(mark in data for mark in _OF_KERNELS)


_GENERATED_NAME = re.compile(r"output_code\.py|c[a-z2-7]{40,}\.py")
"""Files that Inductor writes; in its cache a hash in base 32 behind a `c`."""


def is_inductor(path: Path) -> bool:
    """Whether a .py file is TorchInductor's: `output_code.py`, or one kernel in its cache.

    A file of such a name is, whatever it says: else its text would decide whether it is run.
    """
    if _GENERATED_NAME.fullmatch(path.name):
        return True
    try:
        data = file_bytes(path, BASE_BYTES)
    except OSError:
        return False
    return (
        b"torch._inductor" in data
        and b"KINSPECT_CASES" not in data
        and _INDUCTOR.search(data) is not None
    )


def siblings_of(path: Path, kind: Kind) -> dict[str, Path]:
    """Files that Triton wrote beside this one for the same kernel."""
    if kind not in ("asm", "code_object", "ttir", "ttgir"):
        return {}
    siblings = {}
    for stage, suffix in STAGES.items():
        sibling = path.with_suffix(suffix)
        if sibling != path and sibling.is_file():
            siblings[stage] = sibling
    return siblings


def triton_metadata(path: Path | None) -> dict[str, Any] | None:
    """Triton's metadata of a kernel; None if the file is missing, or other JSON."""
    if path is None:
        return None
    try:
        data = json_value(named_text(path) or "", str(path))
    except KinspectError:
        return None
    return data if isinstance(data, dict) and "shared" in data else None


def assigns_name(source: bytes, name: str) -> bool:
    """Whether a module assigns or imports the name at its top level."""
    try:
        body = python_tree(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # MemoryError: nested too deeply
        return False
    return any(name in _bound_names(statement) for statement in body)


def _bound_names(statement: ast.stmt) -> Iterator[str]:
    targets: Sequence[ast.expr] = ()
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign | ast.AugAssign):
        targets = [statement.target]
    elif isinstance(statement, ast.ImportFrom):
        yield from (alias.asname or alias.name for alias in statement.names)
    for target in targets:
        if isinstance(target, ast.Name):
            yield target.id


_FOLDER: ContextVar[Path | None] = ContextVar("folder", default=None)


@contextmanager
def confined(folder: Path) -> Iterator[None]:
    """Within it, `resolving` refuses what lies outside a folder, or is a link that leads out."""
    token = _FOLDER.set(folder.resolve())
    try:
        yield
    finally:
        _FOLDER.reset(token)


def root() -> Path | None:
    """The folder of `confined`; None outside of it."""
    return _FOLDER.get()


def is_confined() -> bool:
    """Whether this is within `confined`."""
    return _FOLDER.get() is not None


def outside(path: Path) -> KinspectError | None:
    """What is wrong with the place of a file; None where it may be read."""
    folder = _FOLDER.get()
    if folder is None or path.resolve().is_relative_to(folder):
        return None
    return KinspectError(
        f"{path}: leads out of {folder}" if path.is_symlink() else f"{path}: is not in {folder}",
        "copy what it leads to into that folder",
    )
