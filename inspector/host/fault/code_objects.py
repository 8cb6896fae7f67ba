"""The code objects of a report, each read once, and disassembled unless it is too large.

The bytes of a code object: the file that the debug agent saved, or the one that a URI names.

A report names its code objects by the URIs of ROCdbgapi: `file://PATH#offset=N&size=N` for a part
of a file, `memory://PID#offset=ADDRESS&size=N` for one that was loaded from memory.
"""

from __future__ import annotations

import bisect
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from msgspec import Struct, field
from msgspec.structs import replace

from ...base.errors import KinspectError
from ...base.named_files import file_bytes, is_of_folder, left_out, opened, opened_named
from ...isa.objects.bundle import extract_code_objects
from ...isa.objects.codeobject import read_code_object
from ...isa.objects.linemap import LineMap, read_line_map
from ...isa.objects.load import LoadedImage, load_images
from ...model import Function
from .values import LoadedCode

CODE_LIMIT = 8 << 20
"""Bytes of code that are disassembled; libraries of kernels have more, and that takes minutes."""


class CodePlace(Struct, frozen=True):
    """An instruction of a code object: the image, the function, and its index in the function."""

    image: LoadedImage
    function: Function
    index: int


class CodeContents(Struct, frozen=True):
    """The contents of a code object.

    Args:
        path: the file that holds it alone; None if it was read as a part of another file.
    """

    images: tuple[LoadedImage, ...] = ()  # its disassembled images; empty for one that is too large
    lines: LineMap | None = None  # the line table of one that is too large; None for all others
    path: Path | None = None

    def place_at(self, offset: int) -> CodePlace | None:
        """Finds the instruction at an address of the code object; None if there is none."""
        return next(filter(None, (_place_in(image, offset) for image in self.images)), None)


class CodeObjects(Struct):
    """The code objects that a report names, read when they are asked for."""

    folders: Sequence[Path]  # folders that may hold saved code objects
    loaded: tuple[LoadedCode, ...]  # the code objects with the addresses that they were loaded at
    limit: int = CODE_LIMIT  # the most bytes of code that are disassembled
    notes: list[str] = field(default_factory=list)  # what could not be read
    _by_uri: dict[str, CodeContents | None] = field(default_factory=dict)

    def loaded_at(self, pc: int) -> LoadedCode | None:
        """Returns the code object that holds an address of the process."""
        return next((loaded for loaded in self.loaded if loaded.first <= pc < loaded.last), None)

    def contents(self, loaded: LoadedCode) -> CodeContents | None:
        """Returns the contents of a code object; None, noted once, if they are not available."""
        if loaded.uri not in self._by_uri:
            self._by_uri[loaded.uri] = self._read(loaded.uri)
        return self._by_uri[loaded.uri]

    def _read(self, uri: str) -> CodeContents | None:
        """Reads a code object from a folder, or from the file that its URI names."""
        saved = find_saved(uri, self.folders)
        try:
            data = file_bytes(saved) if saved else read_file_uri(uri)
        except OSError as error:
            self.notes.append(f"{saved}: cannot be read ({error.strerror})")
            return None
        named = parse_uri(uri)
        if data is None and named is not None and (outside := left_out([named.path])):
            self.notes.append(outside)
            return None
        if data is None:
            self.notes.append(
                f"{uri}: the code object was not saved; pass its folder with --code-objects,"
                " or run with ROCM_DEBUG_AGENT_OPTIONS=--save-code-objects=DIR"
            )
            return None
        try:
            return replace(self._load(data, saved.name if saved else uri), path=saved)
        except KinspectError as error:
            self.notes.append(str(error))
            return None

    def _load(self, data: bytes, name: str) -> CodeContents:
        """Disassembles a code object, or reads the line table alone if its code is too large."""
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


def _place_in(image: LoadedImage, offset: int) -> CodePlace | None:
    """Finds the instruction at an address in one image."""
    for function in image.program.functions:
        addresses = [i.address if i.address is not None else -1 for i in function.instructions]
        if not addresses or not addresses[0] <= offset <= addresses[-1]:
            continue
        index = bisect.bisect_left(addresses, offset)
        if addresses[index] == offset:
            return CodePlace(image, function, index)
    return None


_SPECIAL = re.compile(r"[:/#?&=]")
_MOST_BYTES = 1 << 30
"""Bytes of a code object that are read at most."""


class CodeObjectUri(Struct, frozen=True):
    """A parsed URI; `size` 0 means up to the end of the file."""

    protocol: str
    path: str
    offset: int
    size: int


def parse_uri(text: str) -> CodeObjectUri | None:
    """Takes a URI apart; returns None for a text that is no URI."""
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
    return CodeObjectUri(parts.scheme, unquote(parts.netloc + parts.path), offset, size)


def saved_name(uri: str) -> str:
    """The file that the agent saves a code object in, without the number that newer ones prefix."""
    return _SPECIAL.sub("_", uri)


def find_saved(uri: str, folders: Iterable[Path]) -> Path | None:
    """Finds a saved code object in the first folder that has it, or in a folder below that."""
    return next((path for folder in folders if (path := _saved_in(uri, folder))), None)


def _saved_in(uri: str, folder: Path) -> Path | None:
    """Finds a saved code object in one folder.

    Older agents name the file after the URI, newer ones prefix the code object's number. If there
    is no such file, the only one of the size that the URI states is taken: Triton's cache holds
    the very bytes that were loaded.
    """
    numbered = re.compile(rf"^(?:\d+_)?{re.escape(saved_name(uri))}$")
    files = sorted(path for path in folder.rglob("*") if is_of_folder(path))
    for path in files:
        if numbered.match(path.name):
            return path
    parsed = parse_uri(uri)
    if parsed is None or not parsed.size:
        return None
    fitting = [path for path in files if path.stat().st_size == parsed.size and _is_elf(path)]
    distinct = {file_bytes(path): path for path in fitting}
    return next(iter(distinct.values())) if len(distinct) == 1 else None


def read_file_uri(uri: str) -> bytes | None:
    """Reads the bytes that a `file://` URI names; returns None if they are not on this machine."""
    parsed = parse_uri(uri)
    if parsed is None or parsed.protocol != "file":
        return None
    try:
        with opened_named(parsed.path, None) as stream:
            present = max(0, os.fstat(stream.fileno()).st_size - parsed.offset)
            stream.seek(parsed.offset)
            data = stream.read(min(parsed.size or present, present, _MOST_BYTES))
    except (OSError, ValueError, OverflowError):
        return None
    return data or None


def _is_elf(path: Path) -> bool:
    with opened(path) as stream:
        return stream.read(4) == b"\x7fELF"
