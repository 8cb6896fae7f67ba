"""Reads JSON files larger than memory record by record, and damaged ones up to the damage.

Profilers write a few small tables and arrays of millions of records. The structure is walked key by
key, and of an array one record at a time is in memory.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import msgspec

from ...base.limits import LimitError
from .recorded_files import ByteSource

_BATCH = 1 << 20
"""Bytes read at a time."""
_LONGEST = 4 << 20
"""Bytes. A syntax error this far before the end of the buffer is damage; one nearer to the end may
be a value that is not complete in the buffer yet."""
_DEEPEST = 32
"""Skipped objects are walked key by key down to this depth; deeper ones are decoded as a whole."""
_CUT = len("e+")
"""Characters that may follow a number and belong to it, once more of the file is read."""
_MOST_DIGITS = 400
"""Longer integers are valid JSON but cannot be measurements: they become NaN."""
_SPACE = re.compile(r"[ \t\r\n]*")
_DAMAGED = "the file is damaged or cut off"
_WRONG_TYPE: Final = object()  # a value that is JSON, but not of the expected type

T = TypeVar("T")


def _integer(text: str) -> int | float:
    return int(text) if len(text) <= _MOST_DIGITS else float("nan")


_FAST = json.JSONDecoder(strict=False)
_LENIENT = json.JSONDecoder(strict=False, parse_int=_integer)
"""A slower one that also takes numbers of thousands of digits."""


class DamagedError(Exception):
    """The text stops being JSON.

    Attributes:
        offset: byte in the (unpacked) file where the value begins that could not be read.
        reason: what is wrong, in words.
    """

    def __init__(self, offset: int, reason: str = _DAMAGED) -> None:
        super().__init__(f"{reason} at byte {offset:,}")
        self.offset = offset
        self.reason = reason


class JsonStream:
    """Walks one JSON document from front to back.

    The buffer is text of one character for each byte (Latin-1), so that positions in both are the
    same. NaN and raw line breaks in strings are read, too: profilers write them.
    """

    def __init__(self, file: ByteSource, batch: int = _BATCH) -> None:
        """Starts at the beginning, behind a byte order mark; `batch` bytes are read at a time."""
        self._file = file
        self._batch = batch
        self._move(0)
        self.skipped = 0
        """How many records are JSON, but not of the expected type."""
        self._fill(3)
        if self._buffer.startswith("\xef\xbb\xbf"):
            self._position = 3

    @property
    def offset(self) -> int:
        """The position of the walk, in bytes from the beginning of the file."""
        return self._base + self._position

    def peek(self) -> str:
        """Returns the next character that is not white space; empty at the end."""
        while True:
            match = _SPACE.match(self._buffer, self._position)
            self._position = match.end() if match else self._position
            if self._position < len(self._buffer):
                return self._buffer[self._position]
            if not self._fill(1):
                return ""

    def members(self) -> Iterator[str]:
        """Yields the keys of the object that comes next; the caller consumes each value.

        Raises:
            DamagedError: where it is no object, or stops being one.
        """
        for _ in self._elements("{", "}"):
            start = self.offset
            if self.peek() != '"':
                raise self._damaged(start)
            key = _decoded(self._take())
            if self.peek() != ":":
                raise self._damaged(start)
            self._position += 1
            yield key

    def fields(self) -> Iterator[str]:
        """Like `members`, but a value that is no object is skipped and has no keys.

        Raises:
            DamagedError: it stops being JSON.
        """
        if self.peek() in ("{", ""):
            yield from self.members()
        else:
            self.skip()

    def items(self) -> Iterator[None]:
        """Steps through the elements of the array that comes next; the caller consumes each.

        Raises:
            DamagedError: where it is no array, or stops being one.
        """
        return self._elements("[", "]")

    def value(self, form: type[T] | Any = Any) -> Any:
        """Decodes the value that comes next; all of it is in memory at once.

        Args:
            form: the type that it must have, for msgspec.

        Returns:
            The value; None where it is JSON, but not of that form.

        Raises:
            DamagedError: where it is no JSON.
        """
        value = _converted(self._take(), msgspec.json.Decoder(form), form)
        return None if value is _WRONG_TYPE else value

    def skip(self, depth: int = 0) -> None:
        """Skips the value that comes next, whatever its size.

        Raises:
            DamagedError: where it is no JSON.
        """
        first = self.peek()
        if first == "{" and depth < _DEEPEST:
            for _ in self.members():
                self.skip(depth + 1)
        elif first == "[":
            for _ in self.items():
                self._take()
        else:
            self._take()

    def records(self, form: type[T]) -> Iterator[T]:
        """Yields the elements of the array that comes next, decoded.

        Args:
            form: the type that an element must have; others are counted in `skipped`.

        Raises:
            DamagedError: where it stops being an array of JSON values; all before was yielded.
        """
        decoder = msgspec.json.Decoder(form)
        for _ in self.items():
            record = _converted(self._take(), decoder, form)
            if record is _WRONG_TYPE:
                self.skipped += 1
            else:
                yield record

    @contextmanager
    def at(self, offset: int) -> Iterator[None]:
        """Moves to another offset, and back at the end of the `with` block."""
        origin = self.offset
        self._move(offset)
        try:
            yield
        finally:
            self._move(origin)

    def _elements(self, first: str, last: str) -> Iterator[None]:
        """Steps through the elements of a container, whose marks are `first` and `last`."""
        if self.peek() != first:
            raise self._damaged(self.offset)
        self._position += 1
        if self.peek() == last:
            self._position += 1
            return
        mark = ","
        while mark == ",":
            yield
            mark = self.peek()
            if mark not in (",", last) or not mark:
                raise self._damaged(self.offset)
            self._position += 1

    def _take(self) -> str:
        """Consumes the text of the next value."""
        self.peek()
        decoder = _FAST
        while True:
            try:
                _, end = decoder.raw_decode(self._buffer, self._position)
            except json.JSONDecodeError as error:
                near_end = len(self._buffer) - error.pos < _LONGEST
                if not (near_end and self._fill(2 * (len(self._buffer) - self._position))):
                    raise self._damaged(self.offset) from None
            except RecursionError:
                raise DamagedError(self.offset, "nested too deeply") from None
            except ValueError:  # more digits than Python converts
                decoder = _LENIENT
            else:
                length = end - self._position
                # Of a number that is cut, as in `1.` or `1e+`, the beginning is one, too.
                if end + _CUT < len(self._buffer) or not self._fill(length + _CUT + 1):
                    text = self._buffer[self._position : self._position + length]
                    self._position += length
                    return text

    def _damaged(self, offset: int) -> DamagedError:
        return DamagedError(offset, self._read_error or _DAMAGED)

    def _move(self, offset: int) -> None:
        self._file.seek(offset)
        self._buffer = ""
        self._base = offset  # in the file, of the buffer's first character
        self._position = 0  # in the buffer
        self._end = False  # whether the buffer reaches to the end of the file
        self._read_error = ""  # why the file could not be read to its end

    def _fill(self, size: int) -> bool:
        """Reads on until `size` bytes lie ahead; returns whether any bytes were added."""
        chunks = [self._buffer[self._position :]]
        before = ahead = len(chunks[0])
        while ahead < size and not self._end:
            try:
                chunk = self._file.read1(max(size - ahead, self._batch))
            except LimitError as error:
                self._read_error = f"{error.message},"
                chunk = b""
            except (EOFError, zlib.error, OSError) as error:
                self._read_error = f"the file cannot be unpacked further ({error})"
                chunk = b""
            self._end = not chunk
            chunks.append(chunk.decode("latin-1"))
            ahead += len(chunk)
        self._base += self._position
        self._position = 0
        self._buffer = "".join(chunks)
        return ahead > before


def _decoded(text: str) -> Any:
    """Decodes JSON of one character for each byte; what is no UTF-8 in it is replaced."""
    return _LENIENT.decode(text.encode("latin-1").decode("utf-8", "replace"))


def _converted(text: str, decoder: msgspec.json.Decoder[Any], form: Any) -> Any:
    try:
        return decoder.decode(text.encode("latin-1"))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    # The fast decoder refuses NaN, control characters and text that is not UTF-8.
    try:
        return msgspec.convert(_decoded(text), form, strict=False)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
        return _WRONG_TYPE
