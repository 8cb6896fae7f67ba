"""From what the user names on the command line to the files to work on.

Nothing is executed here. What a file is gets decided by its first bytes where they are decisive
(ELF, zip), by what a .py file holds, and by its suffix otherwise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from ..errors import KinspectError

Kind = Literal[
    "script", "inductor", "asm", "code_object", "ttir", "ttgir", "report", "archive", "trace"
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
}

CODE_OBJECT = (b"\x7fELF", b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB")
"""How a code object begins, or a bundle of them."""
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
"""What Triton writes of one kernel, side by side, and the suffixes."""

_INDUCTOR = re.compile(
    rb"^async_compile = AsyncCompile\(\)"
    rb"|^@(?:triton_heuristics\.)?(?:pointwise|reduction|persistent_reduction|template|foreach"
    rb"|cooperative_reduction|split_scan|user_autotune|fixed_config)\(",
    re.M,
)


class Target(Struct, frozen=True):
    """One file to work on.

    Args:
        path: the file.
        kind: what it is.
        kernel: only this kernel of it (`file.py::kernel`).
        siblings: files of the same compile that lie beside it, by kind (`metadata`, `ttgir`, ...).
        archs: gfx names to look at it for; empty: those that were asked for, or the default.
        fault: why it cannot be worked on.
    """

    path: Path
    kind: Kind
    kernel: str | None = None
    siblings: Mapping[str, Path] = field(default_factory=dict)
    archs: tuple[str, ...] = ()
    fault: KinspectError | None = None


def only_of(
    targets: Sequence[Target], kinds: Collection[Kind], message: str, hint: str
) -> list[Target]:
    """The targets; each of another kind gets a fault.

    Args:
        targets: what was named.
        kinds: what can be worked on.
        message: what is wrong with the others.
        hint: what to do about it.

    Raises:
        KinspectError: there is one target, and it is of another kind.
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
    """What a file is: by its magic number, else by its suffix; None if neither is known."""
    try:
        with path.open("rb") as stream:
            magic = stream.read(24)
    except OSError as error:
        raise KinspectError(
            f"{path}: cannot be read ({error.strerror})", "check permissions"
        ) from None
    if magic.startswith(CODE_OBJECT):
        return "code_object"
    if magic.startswith(b"PK\x03\x04") and path.suffix == ".kinspect":
        return "archive"
    kind = SUFFIXES.get(path.suffix)
    return "inductor" if kind == "script" and is_inductor(path) else kind


def is_inductor(path: Path) -> bool:
    """Whether a .py file is TorchInductor's: `output_code.py`, or one kernel in its cache."""
    try:
        data = path.read_bytes()
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
    """Triton's metadata of a kernel, if `path` is such a file (and not some other JSON)."""
    if path is None:
        return None
    try:
        data = json.loads(path.read_text("utf-8", "replace"))
    except (OSError, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) and "shared" in data else None
