"""Reads JSON files that are larger than memory record by record, and damaged ones up to the damage.

Profilers write a few small tables and arrays of millions of similar records. The structure is
walked key by key, and arrays are decoded in batches of about a megabyte. A batch is cut where the
text looks as if one record ended and the next began. A wrong guess leaves unbalanced brackets or
quotes, so that the batch does not decode; it is then halved, down to single records. The result
thus does not depend on the layout of the file, and the place of a damage is known to the byte.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import msgspec

from ...limits import LimitError
from .json_files import Source

_BATCH = 1 << 20
"""Bytes decoded at a time: a larger batch takes memory and is not faster."""

_SINGLE = 1 << 14
"""Where a batch of this size does not decode, records are decoded one by one."""

_LONGEST = 4 << 20
"""Bytes. A syntax error this far before the end of the buffer is damage; one nearer to the end may
be a value that is not complete in the buffer yet."""

_DEEPEST = 32
"""Skipped objects are walked key by key down to this depth; deeper ones are decoded as a whole."""

_SPACE = re.compile(rb"[ \t\r\n]*")
_KEY = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_FIRST_KEY = re.compile(rb'\{[ \t\r\n]*("(?:[^"\\]|\\.){0,200}")', re.DOTALL)
_BETWEEN = re.compile(rb"\}[ \t\r\n]*,[ \t\r\n]*\{[ \t\r\n]*\Z")
_BETWEEN_ROWS = re.compile(rb"\][ \t\r\n]*,[ \t\r\n]*\[")
_NEAR_END = 1 << 12
"""Bytes before the end of what was read in which rows are looked for."""
_SCALAR = re.compile(rb"[-+.0-9A-Za-z]+")
_CUT = re.compile(rb"[-+.0-9A-Za-z]{0,40}\s*")
"""The incomplete word or number, if any, at the end of a file that was cut off."""

_MOST_DIGITS = 400
"""Longer integers are valid JSON but cannot be measurements: they become NaN."""

_ODD: Final = object()  # stands for a value that is JSON, but not of the expected type

T = TypeVar("T")


def _integer(text: str) -> int | float:
    return int(text) if len(text) <= _MOST_DIGITS else float("nan")


_LENIENT = json.JSONDecoder(strict=False, parse_int=_integer)
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


class JsonStream:
    """Walks one JSON document from front to back."""

    def __init__(self, file: Source, batch: int = _BATCH) -> None:
        """Starts at the beginning.

        Args:
            file: opened for reading bytes.
            batch: how many bytes are decoded at a time.
        """
        self._file = file
        self._batch = batch
        self._buffer = b""
        self._base = 0  # offset in the file of the buffer's first byte
        self._pos = 0  # position of the walk in the buffer
        self._end = False  # whether the buffer reaches to the end of the file
        self._trouble: str | None = None  # why the file could not be read to its end
        self.skipped = 0
        """How many records are JSON, but not of the expected type."""
        self._fill(3)
        if self._buffer.startswith(b"\xef\xbb\xbf"):
            self._pos = 3

    # ------------------------------------------------------------------ structure

    @property
    def offset(self) -> int:
        """The position of the walk, in bytes from the beginning of the file."""
        return self._base + self._pos

    def peek(self) -> bytes:
        """The next byte that is not white space; empty at the end."""
        while True:
            match = _SPACE.match(self._buffer, self._pos)
            self._pos = match.end() if match else self._pos
            if self._pos < len(self._buffer):
                return self._buffer[self._pos : self._pos + 1]
            if not self._fill(1):
                return b""

    def members(self) -> Iterator[str]:
        """The keys of the object that comes next; the caller consumes each value.

        Raises:
            DamagedError: where it is no object, or stops being one.
        """
        self._expect(b"{")
        if self.peek() == b"}":
            self._pos += 1
            return
        while True:
            yield self._key()
            if not self._goes_on(b"}"):
                return

    def fields(self) -> Iterator[str]:
        """Like `members`, but a value that is no object is skipped and has no keys.

        Raises:
            DamagedError: it stops being JSON.
        """
        if self.peek() in (b"{", b""):
            yield from self.members()
        else:
            self.skip()

    def items(self) -> Iterator[None]:
        """Steps through the elements of the array that comes next; the caller consumes each.

        Raises:
            DamagedError: where it is no array, or stops being one.
        """
        self._expect(b"[")
        if self.peek() == b"]":
            self._pos += 1
            return
        while True:
            yield
            if not self._goes_on(b"]"):
                return

    def value(self, form: type[T] | Any = Any) -> Any:
        """Decodes the value that comes next; all of it is in memory at once.

        Args:
            form: the type that it must have, for msgspec.

        Returns:
            The value; None where it is JSON, but not of that form.

        Raises:
            DamagedError: where it is no JSON.
        """
        value = self._convert(self._take(), msgspec.json.Decoder(form), form)
        return None if value is _ODD else value

    def skip(self, depth: int = 0) -> None:
        """Passes over the value that comes next, whatever its size.

        Raises:
            DamagedError: where it is no JSON.
        """
        first = self.peek()
        if first == b"{" and depth < _DEEPEST:
            for _ in self.members():
                self.skip(depth + 1)
        elif first == b"[":
            for _ in self.records(msgspec.Raw):
                pass
        else:
            self._take()

    @contextmanager
    def at(self, offset: int) -> Iterator[None]:
        """Moves to another offset, and back at the end of the `with` block."""
        origin = self.offset
        self._move(offset)
        try:
            yield
        finally:
            self._move(origin)

    # ------------------------------------------------------------------ records

    def records(self, form: type[T]) -> Iterator[T]:
        """The elements of the array that comes next, decoded.

        Args:
            form: the type that an element must have; others are counted in `skipped`.

        Raises:
            DamagedError: where it stops being an array of JSON values; all before was yielded.
        """
        decoder = msgspec.json.Decoder(form)
        several = msgspec.json.Decoder(list[form])  # type: ignore[valid-type]
        self._expect(b"[")
        if self.peek() == b"]":
            self._pos += 1
            return
        while True:
            batch = self._decode_batch(several)
            if batch is not None:
                yield from batch
            else:
                record = self._convert(self._take(), decoder, form)
                if record is _ODD:
                    self.skipped += 1
                else:
                    yield record
            if not self._goes_on(b"]"):
                return

    def _decode_batch(self, several: msgspec.json.Decoder[list[T]]) -> list[T] | None:
        """Decodes several records at once; None where the next one must be decoded alone."""
        if self.peek() not in (b"{", b"["):
            return None
        if len(self._buffer) - self._pos < self._batch // 2:
            self._fill(self._batch)
        key: bytes | None = None
        if self._buffer[self._pos : self._pos + 1] == b"{":
            match = _FIRST_KEY.match(self._buffer, self._pos)
            if match is None:
                return None
            key = match[1]
        size = len(self._buffer) - self._pos
        while size > _SINGLE:
            end = self._pos + size
            cut = self._row_boundary(end) if key is None else self._boundary(key, end)
            if cut is None:
                return None
            text = b"".join((b"[", memoryview(self._buffer)[self._pos : cut], b"]"))
            try:
                batch = several.decode(text)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                size = (cut - self._pos) // 2
                continue
            self._pos = cut
            return batch
        return None

    def _boundary(self, key: bytes, end: int) -> int | None:
        """The position behind what looks like the end of the last complete record before `end`."""
        start = self._pos + 1
        while (end := self._buffer.rfind(key, start, end)) > start:
            between = _BETWEEN.search(self._buffer, max(start, end - 64), end)
            if between:
                return between.start() + 1
        return None

    def _row_boundary(self, end: int) -> int | None:
        """Like `_boundary`, for records that are arrays."""
        cut = None
        for match in _BETWEEN_ROWS.finditer(self._buffer, max(self._pos + 1, end - _NEAR_END), end):
            cut = match.start() + 1
        return cut

    # ------------------------------------------------------------------ text

    def _take(self) -> bytes:
        """The text of the next value, which is JSON apart from NaN and raw line breaks."""
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
            if len(self._buffer) - self._pos < size:
                self._fill(size)
            # As Latin-1 every byte is one character, so that positions in both are the same.
            text = self._buffer[self._pos : self._pos + size].decode("latin-1")
            try:
                _, length = scanner.raw_decode(text)
            except json.JSONDecodeError as error:
                goes_on = len(text) - error.pos < _LONGEST and not (
                    self._end and self._pos + size >= len(self._buffer)
                )
                if not goes_on:
                    raise self._damaged(self.offset, error) from None
                size *= 2
            except RecursionError:
                raise DamagedError(self.offset, "nested too deeply") from None
            except ValueError:
                if scanner is _LENIENT:
                    raise DamagedError(self.offset, "the text is no JSON") from None
                scanner = _LENIENT
            else:
                raw = self._buffer[self._pos : self._pos + length]
                self._pos += length
                return raw

    def _scalar(self) -> bytes:
        text = self._match(_SCALAR)
        try:
            _LENIENT.decode(text.decode("ascii"))
        except ValueError:
            raise DamagedError(self.offset - len(text), "the text is no JSON") from None
        return text

    def _match(self, pattern: re.Pattern[bytes]) -> bytes:
        """The text that matches here, read on until the match is complete."""
        while True:
            match = pattern.match(self._buffer, self._pos)
            complete = match and (match.end() < len(self._buffer) or pattern is _KEY or self._end)
            if match and complete:
                self._pos = match.end()
                return match[0]
            ahead = len(self._buffer) - self._pos
            filled = ahead <= _LONGEST and self._fill(ahead + self._batch)
            if not filled and not (match and self._end):
                raise self._damaged(self.offset, None)

    def _convert(self, text: bytes, decoder: msgspec.json.Decoder[Any], form: Any) -> Any:
        try:
            return decoder.decode(text)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            pass
        # The fast decoder refuses NaN, control characters and text that is not UTF-8.
        try:
            value = _LENIENT.decode(text.decode("utf-8", "replace"))
            return text if form is msgspec.Raw else msgspec.convert(value, form, strict=False)
        except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
            return _ODD

    def _key(self) -> str:
        if self.peek() != b'"':
            raise self._damaged(self.offset, None)
        start = self.offset
        text = self._match(_KEY)
        if self.peek() != b":":
            raise self._damaged(start, None)
        self._pos += 1
        try:
            return str(json.loads(text.decode("utf-8", "replace"), strict=False))
        except ValueError:
            raise DamagedError(start, "the text is no JSON") from None

    def _expect(self, byte: bytes) -> None:
        if self.peek() != byte:
            raise self._damaged(self.offset, None)
        self._pos += 1

    def _goes_on(self, last: bytes) -> bool:
        """Whether another element follows, or this was the last."""
        mark = self.peek()
        if mark not in (b",", last) or not mark:
            raise self._damaged(self.offset, None)
        self._pos += 1
        return mark == b","

    def _damaged(self, offset: int, error: json.JSONDecodeError | None) -> DamagedError:
        if error is None:
            ended = self._end and self.offset >= self._base + len(self._buffer.rstrip())
            ended = ended or (self._end and self._buffer[self._pos : self._pos + 1] == b'"')
        else:
            # A decoder that ran out of text complains about its end, or about an open string.
            remaining = self._buffer[self._pos + error.pos :]
            ended = self._end and ("Unterminated" in error.msg or bool(_CUT.fullmatch(remaining)))
        if self._trouble is not None and ended:
            return DamagedError(offset, self._trouble)
        if ended:
            return DamagedError(offset, "the file ends in the middle")
        return DamagedError(offset + (error.pos if error else 0), "the text is no JSON")

    def _move(self, offset: int) -> None:
        self._file.seek(offset)
        self._buffer, self._base, self._pos = b"", offset, 0
        self._end, self._trouble = False, None

    def _fill(self, size: int) -> bool:
        """Reads on until `size` bytes lie ahead; returns whether any bytes were added."""
        chunks = [self._buffer[self._pos :]]
        bytes_before = bytes_ahead = len(chunks[0])
        while bytes_ahead < size and not self._end:
            try:
                chunk = self._file.read1(max(size - bytes_ahead, 1 << 16))
            except LimitError as error:
                self._trouble = f"{error.message},"
                chunk = b""
            except (EOFError, zlib.error, OSError) as error:
                self._trouble = f"the file cannot be unpacked further ({error})"
                chunk = b""
            if not chunk:
                self._end = True
            chunks.append(chunk)
            bytes_ahead += len(chunk)
        self._base += self._pos
        self._pos = 0
        self._buffer = b"".join(chunks)
        return bytes_ahead > bytes_before
