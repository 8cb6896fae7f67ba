"""Files as they are or packed by gzip, read from the front; what can be unpacked is had."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol


class Source(Protocol):
    """What is read from: `read1` gives what there is before it complains about what is not."""

    def read1(self, size: int, /) -> bytes:
        """Some bytes, at most so many; none at the end."""

    def seek(self, offset: int, /) -> int:
        """Goes to a byte."""


@contextmanager
def open_plain(path: Path) -> Iterator[Source]:
    """Opens a file for reading, unpacking it if it is gzip (by its first bytes)."""
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        if packed:
            with gzip.GzipFile(fileobj=file) as inside:
                yield inside
        else:
            yield file


def head(path: Path, size: int) -> bytes:
    """The first bytes of a file, unpacked; empty where it cannot be read."""
    found = b""
    try:
        with open_plain(path) as file:
            while len(found) < size and (part := file.read1(size - len(found))):
                found += part
    except (OSError, EOFError, zlib.error):
        pass
    return found.removeprefix(b"\xef\xbb\xbf")
