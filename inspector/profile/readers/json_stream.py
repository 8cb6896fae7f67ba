"""Reads JSON files larger than memory record by record, and damaged ones up to the damage.

Profilers write a few small tables and arrays of millions of similar records. The structure is
walked key by key, and arrays are decoded in batches of about a megabyte. A batch is cut where the
text looks as if one record ended and the next began. A wrong guess leaves unbalanced brackets or
quotes, so that the batch does not decode; it is then halved, down to single records. The result
thus does not depend on the layout of the file, and the position of damage is known to the byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import msgspec

from .gzip_files import ByteSource
from .json_text import LENIENT, JsonText

_BATCH = 1 << 20
"""Bytes decoded at a time: a larger batch takes memory and is not faster."""

_SINGLE = 1 << 14
"""If a batch of this size does not decode, records are decoded one by one."""


_DEEPEST = 32
"""Skipped objects are walked key by key down to this depth; deeper ones are decoded as a whole."""

_FIRST_KEY = re.compile(rb'\{[ \t\r\n]*("(?:[^"\\]|\\.){0,200}")', re.DOTALL)


_WRONG_TYPE: Final = object()  # a value that is JSON, but not of the expected type

T = TypeVar("T")


class JsonStream:
    """Walks one JSON document from front to back."""

    def __init__(self, file: ByteSource, batch: int = _BATCH) -> None:
        """Starts at the beginning.

        Args:
            file: opened for reading bytes.
            batch: how many bytes are decoded at a time.
        """
        self._text = JsonText(file, batch)
        self._batch = batch
        self.skipped = 0
        """How many records are JSON, but not of the expected type."""

    @property
    def offset(self) -> int:
        """The position of the walk, in bytes from the beginning of the file."""
        return self._text.offset

    def peek(self) -> bytes:
        """Returns the next byte that is not white space; empty at the end."""
        return self._text.peek()

    def members(self) -> Iterator[str]:
        """Yields the keys of the object that comes next; the caller consumes each value.

        Raises:
            DamagedError: where it is no object, or stops being one.
        """
        self._text.expect(b"{")
        if self._text.peek() == b"}":
            self._text.position += 1
            return
        while True:
            yield self._text.key()
            if not self._text.has_next(b"}"):
                return

    def fields(self) -> Iterator[str]:
        """Like `members`, but a value that is no object is skipped and has no keys.

        Raises:
            DamagedError: it stops being JSON.
        """
        if self._text.peek() in (b"{", b""):
            yield from self.members()
        else:
            self.skip()

    def items(self) -> Iterator[None]:
        """Steps through the elements of the array that comes next; the caller consumes each.

        Raises:
            DamagedError: where it is no array, or stops being one.
        """
        self._text.expect(b"[")
        if self._text.peek() == b"]":
            self._text.position += 1
            return
        while True:
            yield
            if not self._text.has_next(b"]"):
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
        value = self._convert(self._text.take(), msgspec.json.Decoder(form), form)
        return None if value is _WRONG_TYPE else value

    def skip(self, depth: int = 0) -> None:
        """Skips the value that comes next, whatever its size.

        Raises:
            DamagedError: where it is no JSON.
        """
        first = self._text.peek()
        if first == b"{" and depth < _DEEPEST:
            for _ in self.members():
                self.skip(depth + 1)
        elif first == b"[":
            for _ in self.records(msgspec.Raw):
                pass
        else:
            self._text.take()

    @contextmanager
    def at(self, offset: int) -> Iterator[None]:
        """Moves to another offset, and back at the end of the `with` block."""
        origin = self._text.offset
        self._text.move(offset)
        try:
            yield
        finally:
            self._text.move(origin)

    def records(self, form: type[T]) -> Iterator[T]:
        """Yields the elements of the array that comes next, decoded.

        Args:
            form: the type that an element must have; others are counted in `skipped`.

        Raises:
            DamagedError: where it stops being an array of JSON values; all before was yielded.
        """
        decoder = msgspec.json.Decoder(form)
        several = msgspec.json.Decoder(list[form])  # type: ignore[valid-type]
        self._text.expect(b"[")
        if self._text.peek() == b"]":
            self._text.position += 1
            return
        while True:
            batch = self._decode_batch(several)
            if batch is not None:
                yield from batch
            else:
                record = self._convert(self._text.take(), decoder, form)
                if record is _WRONG_TYPE:
                    self.skipped += 1
                else:
                    yield record
            if not self._text.has_next(b"]"):
                return

    def _decode_batch(self, several: msgspec.json.Decoder[list[T]]) -> list[T] | None:
        """Decodes several records at once; None where the next one must be decoded alone."""
        if self._text.peek() not in (b"{", b"["):
            return None
        if len(self._text.buffer) - self._text.position < self._batch // 2:
            self._text.fill(self._batch)
        key: bytes | None = None
        if self._text.buffer[self._text.position : self._text.position + 1] == b"{":
            match = _FIRST_KEY.match(self._text.buffer, self._text.position)
            if match is None:
                return None
            key = match[1]
        size = len(self._text.buffer) - self._text.position
        while size > _SINGLE:
            end = self._text.position + size
            cut = (
                self._text.row_boundary(end)
                if key is None
                else self._text.record_boundary(key, end)
            )
            if cut is None:
                return None
            text = b"".join((b"[", memoryview(self._text.buffer)[self._text.position : cut], b"]"))
            try:
                batch = several.decode(text)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                size = (cut - self._text.position) // 2
                continue
            self._text.position = cut
            return batch
        return None

    def _convert(self, text: bytes, decoder: msgspec.json.Decoder[Any], form: Any) -> Any:
        try:
            return decoder.decode(text)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            pass
        # The fast decoder refuses NaN, control characters and text that is not UTF-8.
        try:
            value = LENIENT.decode(text.decode("utf-8", "replace"))
            return text if form is msgspec.Raw else msgspec.convert(value, form, strict=False)
        except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
            return _WRONG_TYPE
