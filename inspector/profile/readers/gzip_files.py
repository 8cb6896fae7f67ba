"""Opens files, gzipped or not; of a damaged gzip file, everything before the damage is read."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from ...base import limits
from ...base.limits import InflationBudget, LimitError
from ...base.named_files import opened


class ByteSource(Protocol):
    """A binary source: `read1` returns the bytes before a damaged place before it raises."""

    def read1(self, size: int, /) -> bytes:
        """Some bytes, at most `size`; none at the end."""
        ...

    def seek(self, offset: int, /) -> int:
        """Goes to a byte."""
        ...


class _Counted:
    """A gzip file that inflates to no more than a file of its size may.

    Bytes that are read again after `seek` are inflated again, and count again.
    """

    def __init__(self, inside: gzip.GzipFile, budget: InflationBudget) -> None:
        self._inside = inside
        self._budget = budget

    def read1(self, size: int, /) -> bytes:
        """Reads some bytes, at most `size`; none at the end."""
        data = self._inside.read1(size)
        self._budget.take(len(data))
        return data

    def seek(self, offset: int, /) -> int:
        """Goes to a byte."""
        return self._inside.seek(offset)


@contextmanager
def open_plain(path: Path) -> Iterator[ByteSource]:
    """Opens a file for reading, unpacking it if it is gzip (by its first bytes)."""
    with opened(path) as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        if packed:
            with gzip.GzipFile(fileobj=file) as inside:
                yield _Counted(inside, limits.budget(path.name, path.stat().st_size))
        else:
            yield file


def head(path: Path, size: int) -> bytes:
    """Returns the first bytes of a file, unpacked; empty if it cannot be read."""
    data = b""
    try:
        with open_plain(path) as file:
            while len(data) < size and (part := file.read1(size - len(data))):
                data += part
    except (OSError, EOFError, zlib.error, LimitError):
        pass
    return data.removeprefix(b"\xef\xbb\xbf")
