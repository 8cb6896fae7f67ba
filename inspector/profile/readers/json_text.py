"""Reads the text of a JSON file token by token, and tells where and why it stops being JSON.

Only a part of the file is in memory. A text is read beyond the standard where profilers write it
so: NaN, raw line breaks in strings, integers of any length.
"""

from __future__ import annotations

import json
import re
import zlib

from ...base.limits import LimitError
from .gzip_files import ByteSource

_SINGLE = 1 << 14
"""Bytes of a value that are decoded first; a longer one is tried again with twice as many."""

_LONGEST = 4 << 20
"""Bytes. A syntax error this far before the end of the buffer is damage; one nearer to the end may
be a value that is not complete in the buffer yet."""
_SPACE = re.compile(rb"[ \t\r\n]*")
_KEY = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BETWEEN = re.compile(rb"\}[ \t\r\n]*,[ \t\r\n]*\{[ \t\r\n]*\Z")
_BETWEEN_ROWS = re.compile(rb"\][ \t\r\n]*,[ \t\r\n]*\[")
_NEAR_END = 1 << 12
"""How far before the end of the buffer the end of a row is looked for, in bytes."""
_SCALAR = re.compile(rb"[-+.0-9A-Za-z]+")
_CUT = re.compile(rb"[-+.0-9A-Za-z]{0,40}\s*")
"""The incomplete word or number, if any, at the end of a file that was cut off."""
_MOST_DIGITS = 400
"""Longer integers are valid JSON but cannot be measurements: they become NaN."""


def _integer(text: str) -> int | float:
    return int(text) if len(text) <= _MOST_DIGITS else float("nan")


LENIENT = json.JSONDecoder(strict=False, parse_int=_integer)
"""A slower decoder that also accepts numbers of thousands of digits and control characters."""


class DamagedError(Exception):
    """The text stops being JSON.

    Attributes:
        offset: byte in the (unpacked) file where the value begins that could not be read.
        reason: what is wrong, in words.
    """

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"{reason} at byte {offset:,}")
        self.offset = offset
        self.reason = reason


class JsonText:
    """The text of a JSON file around a position that moves from front to back.

    Attributes:
        buffer: the bytes in memory, from at most `position` on.
        position: the index in `buffer` of the next byte.
    """

    def __init__(self, file: ByteSource, batch: int) -> None:
        """Starts at the beginning, behind a byte order mark.

        Args:
            file: opened for reading bytes.
            batch: how many bytes are read at a time.
        """
        self._file = file
        self._batch = batch
        self.buffer = b""
        self._base = 0  # offset in the file of the buffer's first byte
        self.position = 0
        self._end = False  # whether the buffer reaches to the end of the file
        self._read_error: str | None = None  # why the file could not be read to its end
        self.fill(3)
        if self.buffer.startswith(b"\xef\xbb\xbf"):
            self.position = 3

    @property
    def offset(self) -> int:
        """The position of the walk, in bytes from the beginning of the file."""
        return self._base + self.position

    def peek(self) -> bytes:
        """Returns the next byte that is not white space; empty at the end."""
        while True:
            match = _SPACE.match(self.buffer, self.position)
            self.position = match.end() if match else self.position
            if self.position < len(self.buffer):
                return self.buffer[self.position : self.position + 1]
            if not self.fill(1):
                return b""

    def record_boundary(self, key: bytes, end: int) -> int | None:
        """Returns the position behind what looks like the last complete record before `end`."""
        start = self.position + 1
        while (end := self.buffer.rfind(key, start, end)) > start:
            between = _BETWEEN.search(self.buffer, max(start, end - 64), end)
            if between:
                return between.start() + 1
        return None

    def row_boundary(self, end: int) -> int | None:
        """Returns as `record_boundary`, for records that are arrays."""
        cut = None
        for match in _BETWEEN_ROWS.finditer(
            self.buffer, max(self.position + 1, end - _NEAR_END), end
        ):
            cut = match.start() + 1
        return cut

    def take(self) -> bytes:
        """Consumes the text of the next value, which is JSON apart from NaN and raw line breaks."""
        first = self.peek()
        if not first:
            raise self._damaged(self.offset, None)
        if first == b'"':
            return self._match(_KEY)
        if first not in (b"{", b"["):
            return self._scalar()
        scanner = json.JSONDecoder(strict=False)
        size = _SINGLE
        while True:
            if len(self.buffer) - self.position < size:
                self.fill(size)
            # As Latin-1 every byte is one character, so that positions in both are the same.
            text = self.buffer[self.position : self.position + size].decode("latin-1")
            try:
                _, length = scanner.raw_decode(text)
            except json.JSONDecodeError as error:
                is_incomplete = len(text) - error.pos < _LONGEST and not (
                    self._end and self.position + size >= len(self.buffer)
                )
                if not is_incomplete:
                    raise self._damaged(self.offset, error) from None
                size *= 2
            except RecursionError:
                raise DamagedError(self.offset, "nested too deeply") from None
            except ValueError:
                if scanner is LENIENT:
                    raise DamagedError(self.offset, "the text is no JSON") from None
                scanner = LENIENT
            else:
                raw = self.buffer[self.position : self.position + length]
                self.position += length
                return raw

    def _scalar(self) -> bytes:
        text = self._match(_SCALAR)
        try:
            LENIENT.decode(text.decode("ascii"))
        except ValueError:
            raise DamagedError(self.offset - len(text), "the text is no JSON") from None
        return text

    def _match(self, pattern: re.Pattern[bytes]) -> bytes:
        """Consumes the text that matches here; reads on until the match is complete."""
        while True:
            match = pattern.match(self.buffer, self.position)
            complete = match and (match.end() < len(self.buffer) or pattern is _KEY or self._end)
            if match and complete:
                self.position = match.end()
                return match[0]
            ahead = len(self.buffer) - self.position
            filled = ahead <= _LONGEST and self.fill(ahead + self._batch)
            if not filled and not (match and self._end):
                raise self._damaged(self.offset, None)

    def key(self) -> str:
        """Consumes the key of a member and its colon.

        Raises:
            DamagedError: there is none.
        """
        if self.peek() != b'"':
            raise self._damaged(self.offset, None)
        start = self.offset
        text = self._match(_KEY)
        if self.peek() != b":":
            raise self._damaged(start, None)
        self.position += 1
        try:
            return str(json.loads(text.decode("utf-8", "replace"), strict=False))
        except ValueError:
            raise DamagedError(start, "the text is no JSON") from None

    def expect(self, byte: bytes) -> None:
        """Consumes white space and a byte, which must come next."""
        if self.peek() != byte:
            raise self._damaged(self.offset, None)
        self.position += 1

    def has_next(self, last: bytes) -> bool:
        """Consumes `,` or the end of the container; tells whether another element follows."""
        mark = self.peek()
        if mark not in (b",", last) or not mark:
            raise self._damaged(self.offset, None)
        self.position += 1
        return mark == b","

    def _damaged(self, offset: int, error: json.JSONDecodeError | None) -> DamagedError:
        """Returns the error of damage: unpacking failed, the file was cut off, or it is no JSON."""
        if error is None:
            is_cut_off = self._end and self.offset >= self._base + len(self.buffer.rstrip())
            is_cut_off = is_cut_off or (
                self._end and self.buffer[self.position : self.position + 1] == b'"'
            )
        else:
            # A decoder that ran out of text complains about its end, or about an open string.
            remaining = self.buffer[self.position + error.pos :]
            is_cut_off = self._end and (
                "Unterminated" in error.msg or bool(_CUT.fullmatch(remaining))
            )
        if self._read_error is not None and is_cut_off:
            return DamagedError(offset, self._read_error)
        if is_cut_off:
            return DamagedError(offset, "the file ends in the middle")
        return DamagedError(offset + (error.pos if error else 0), "the text is no JSON")

    def move(self, offset: int) -> None:
        self._file.seek(offset)
        self.buffer, self._base, self.position = b"", offset, 0
        self._end, self._read_error = False, None

    def fill(self, size: int) -> bool:
        """Reads on until `size` bytes lie ahead; returns whether any bytes were added."""
        chunks = [self.buffer[self.position :]]
        bytes_before = bytes_ahead = len(chunks[0])
        while bytes_ahead < size and not self._end:
            try:
                chunk = self._file.read1(max(size - bytes_ahead, 1 << 16))
            except LimitError as error:
                self._read_error = f"{error.message},"
                chunk = b""
            except (EOFError, zlib.error, OSError) as error:
                self._read_error = f"the file cannot be unpacked further ({error})"
                chunk = b""
            if not chunk:
                self._end = True
            chunks.append(chunk)
            bytes_ahead += len(chunk)
        self._base += self.position
        self.position = 0
        self.buffer = b"".join(chunks)
        return bytes_ahead > bytes_before
