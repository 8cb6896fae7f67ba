"""The code objects of a report: found, read once, and disassembled where that is not too much."""

from __future__ import annotations

import bisect
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from msgspec import Struct, field
from msgspec.structs import replace

from ...errors import KinspectError
from ...isa.objects.bundle import extract_code_objects
from ...isa.objects.codeobject import read_code_object
from ...isa.objects.linemap import LineMap, read_line_map
from ...isa.objects.load import LoadedImage, load_images
from ...model import Function
from .values import Loaded

CODE_LIMIT = 8 << 20
"""Bytes of code that are disassembled; libraries of kernels have more, and that takes minutes."""


class CodeContents(Struct, frozen=True):
    """A code object that was read: disassembled, or its line table alone; and from which file."""

    images: tuple[LoadedImage, ...] = ()
    lines: LineMap | None = None
    path: Path | None = None

    def image_with(self, offset: int) -> LoadedImage | None:
        """The image that has an instruction at an address."""
        return next((i for i in self.images if find(i, offset)), None)


class Objects(Struct):
    """The code objects of a report.

    Args:
        folders: folders that may hold saved code objects.
        loaded: the code objects that the report names.
        limit: bytes of code that are disassembled at most.
        notes: what could not be read.
    """

    folders: Sequence[Path]
    loaded: tuple[Loaded, ...]
    limit: int = CODE_LIMIT
    notes: list[str] = field(default_factory=list)
    _code: dict[str, CodeContents | None] = field(default_factory=dict)

    def loaded_at(self, pc: int) -> Loaded | None:
        """Returns the code object that an address is in."""
        return next(
            (
                code_object
                for code_object in self.loaded
                if code_object.first <= pc < code_object.last
            ),
            None,
        )

    def contents(self, loaded: Loaded) -> CodeContents | None:
        """Returns the contents of a code object; None, noted once, if they are not available."""
        if loaded.uri not in self._code:
            self._code[loaded.uri] = self._read(loaded.uri)
        return self._code[loaded.uri]

    def _read(self, uri: str) -> CodeContents | None:
        """Reads a code object from a folder, or from the file that its URI names."""
        saved = next((f for d in self.folders if (f := find_saved(uri, d))), None)
        try:
            data = saved.read_bytes() if saved else read_file_uri(uri)
        except OSError as error:
            self.notes.append(f"{saved}: cannot be read ({error.strerror})")
            return None
        if data is None:
            self.notes.append(
                f"{uri}: the code object was not saved; pass its folder with --code-objects,"
                " or run with ROCM_DEBUG_AGENT_OPTIONS=--save-code-objects=DIR"
            )
            return None
        name = saved.name if saved else uri
        try:
            return replace(self._load(data, name), path=saved)
        except KinspectError as error:
            self.notes.append(str(error))
            return None

    def _load(self, data: bytes, name: str) -> CodeContents:
        parts = extract_code_objects(data, name)
        if len(parts) == 1:
            elf = read_code_object(parts[0][1], name).elf
            size = sum(section.size for section in elf.sections if section.executable)
            if size > self.limit:
                self.notes.append(
                    f"{name}: has {size >> 20} MiB of code, too much to disassemble here: lines"
                    " are named, suspects are not"
                )
                return CodeContents(lines=read_line_map(elf))
        return CodeContents(load_images(data, name))


def find(image: LoadedImage, offset: int) -> tuple[Function, int] | None:
    """Finds the instruction at an address: its function and its index; None if there is none."""
    for function in image.program.functions:
        addresses = [i.address if i.address is not None else -1 for i in function.instructions]
        if not addresses or not addresses[0] <= offset <= addresses[-1]:
            continue
        index = bisect.bisect_left(addresses, offset)
        if addresses[index] == offset:
            return function, index
    return None


# --------------------------------------------------------------------------- URIs


_SPECIAL = re.compile(r"[:/#?&=]")
_MOST = 1 << 30
"""Bytes of a code object that are read at most."""


class Uri(Struct, frozen=True):
    """A parsed URI; `size` 0 means up to the end of the file."""

    protocol: str
    path: str
    offset: int
    size: int


def parse_uri(text: str) -> Uri | None:
    """Takes a URI apart; None where it is none."""
    try:
        parts = urlsplit(text.strip())
    except ValueError:
        return None
    if not parts.scheme or "://" not in text:
        return None
    parameters = dict(parse_qsl(parts.fragment or parts.query))
    try:
        offset = int(parameters.get("offset", "0"), 0)
        size = int(parameters.get("size", "0"), 0)
    except ValueError:
        return None
    return Uri(parts.scheme, unquote(parts.netloc + parts.path), offset, size)


def saved_name(uri: str) -> str:
    """The file that the agent saves a code object in, without the number that newer ones prefix."""
    return _SPECIAL.sub("_", uri)


def find_saved(uri: str, folder: Path) -> Path | None:
    """The saved code object in a folder or those in it.

    Older agents name the file after the URI, newer ones put the code object's number before that.
    Where neither is there, a file of the size that the URI states, if there is one alone: Triton's
    cache holds the very bytes that were loaded.
    """
    name = saved_name(uri)
    numbered = re.compile(rf"^(?:\d+_)?{re.escape(name)}$")
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    for path in files:
        if numbered.match(path.name):
            return path
    parsed = parse_uri(uri)
    if parsed is None or not parsed.size:
        return None
    fitting = [p for p in files if p.stat().st_size == parsed.size and _is_elf(p)]
    distinct = {p.read_bytes(): p for p in fitting}
    return next(iter(distinct.values())) if len(distinct) == 1 else None


def read_file_uri(uri: str) -> bytes | None:
    """The bytes that a `file://` URI names; None where they are not to be had here."""
    parsed = parse_uri(uri)
    if parsed is None or parsed.protocol != "file":
        return None
    try:
        with Path(parsed.path).open("rb") as stream:
            stream.seek(parsed.offset)
            data = stream.read(min(parsed.size, _MOST) if parsed.size else _MOST)
    except OSError:
        return None
    return data or None


def _is_elf(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(4) == b"\x7fELF"
