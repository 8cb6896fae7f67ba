"""A folder from which plain Triton compiles one kernel again, to be attached to a bug report."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from ..base.errors import KinspectError
from ..base.printable import one_line
from ..base.writing import synced, unwritable
from ..model import Variant
from .environment import compile_relevant, guest_environment

_SCRIPT = Path(__file__).parent.parent / "guest" / "reproduce.py"
_LONGEST = 200
"""Characters of a name that its temporary folder begins with: names end at 255 bytes."""
_PRIVATE = ("CACHE", "REDIS")
"""In names of variables of where compiles are stored: they change none, and may hold secrets."""


class Reproducer(Struct, frozen=True):
    """What is written.

    Args:
        triton: version of the Triton that compiled it; None where that is not known.
        assembly: what it gave; None where it failed, or nobody compiled it.
        failure: why the compile failed, in one line; empty where it did not.
    """

    variant: Variant
    label: str
    triton: str | None
    assembly: str | None
    failure: str = ""
    notes: tuple[str, ...] = ()


def refuse_occupied(folder: Path) -> None:
    """Refuses a folder that cannot be made, or is there and not empty.

    Raises:
        KinspectError: it cannot be used.
    """
    try:
        if folder.is_dir() and any(folder.iterdir()):
            raise KinspectError(f"{folder}: it is not empty", "name a new folder")
    except OSError as error:
        raise KinspectError(f"{folder}: {error.strerror or error}", "name a new folder") from None
    if not folder.is_dir() and os.path.lexists(folder):
        raise KinspectError(f"{folder}: it is not a folder", "name a new folder")
    if not folder.absolute().parent.is_dir():
        raise KinspectError(f"{folder.absolute().parent}: no such folder", "make it first")


def write(reproducer: Reproducer, folder: Path) -> None:
    """Writes the folder, whole or not at all.

    Raises:
        KinspectError: see `refuse_occupied`; or it cannot be written.
    """
    refuse_occupied(folder)
    temporary: Path | None = None
    try:
        place = folder.resolve()  # a folder does not take the place of a link to one
        temporary = Path(tempfile.mkdtemp(prefix=f".{place.name[:_LONGEST]}.", dir=place.parent))
        for name, text in _files(reproducer).items():
            with (temporary / name).open("w", encoding="utf-8", errors="backslashreplace") as out:
                out.write(text)
                synced(out)
        (temporary / "reproduce.py").chmod(0o755)
        temporary.chmod(0o755)
        temporary.replace(place)  # which may be there, if it is empty
    except OSError as error:
        raise unwritable(folder, error, "name another folder") from None
    finally:
        if temporary is not None:
            with suppress(OSError):
                shutil.rmtree(temporary)


def _files(reproducer: Reproducer) -> dict[str, str]:
    variant = reproducer.variant
    files = {
        f"kernel.{variant.stage}": variant.ttir,
        "options.json": json.dumps(_request(reproducer), indent=1, sort_keys=True) + "\n",
        "reproduce.py": _SCRIPT.read_text("utf-8"),
        "README.md": _readme(reproducer),
    }
    if reproducer.assembly is not None:
        files["expected.amdgcn"] = reproducer.assembly
    return files


def _request(reproducer: Reproducer) -> dict[str, Any]:
    variant = reproducer.variant
    environment = compile_relevant(guest_environment(os.environ)) | dict(variant.environment)
    return {
        "input": f"kernel.{variant.stage}",
        "kernel": variant.kernel,
        "arch": variant.arch,
        "wave_size": variant.wave_size,
        "options": dict(variant.options),
        "environment": {
            name: value
            for name, value in environment.items()
            if not any(part in name for part in _PRIVATE)
        },
        "triton": reproducer.triton,
        "signature": dict(variant.signature),
        "constexprs": dict(variant.constexprs),
        "grid": variant.grid,
    }


def _readme(reproducer: Reproducer) -> str:
    """Five lines for the report."""
    variant = reproducer.variant
    version = reproducer.triton or "an unknown version"
    if reproducer.failure:
        result = f"It fails there with: {_code(reproducer.failure)}"
    elif reproducer.assembly is not None:
        result = "`expected.amdgcn` is what it gave there; the script says whether yours differs."
    else:
        result = "What it gave there is not known."
    lines = (
        f"# {_code(reproducer.label)} on {variant.arch}, compiled with Triton {version}",
        f"`python reproduce.py` compiles `kernel.{variant.stage}` by `options.json` with the Triton"
        " it finds, and writes every stage to `out/`; no GPU or PyTorch is needed.",
        result,
        "Debug locations name source files of the machine that this comes from, and `options.json`"
        " the variables that it was compiled with.",
        "What is wrong: (what you see, and what you expect instead)",
    )
    return "".join(f"{line}\n" for line in lines)


def _code(text: str) -> str:
    """Text of strangers on one line of Markdown, as code: it can hold no markup."""
    return "`{}`".format(one_line(text).replace("`", "'"))
