"""Streams that let no text through that steers what shows it.

Everything that kinspect prints or writes as text goes through a `PlainStream`. It spells out what a
terminal would obey (see `printable`), and keeps a line from being taken for a workflow command by a
CI runner that reads the output as its log. Text that steers on purpose (colours, a progress line)
goes to the stream underneath, `underneath`, by those few who clean the strangers' part of it.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

import msgspec
from msgspec import to_builtins

from .errors import KinspectError
from .printable import printable
from .status import StatusLine
from .writing import unwritable

_MOST_PENDING = 1 << 16
_LINE_COMMANDS = ("::",)
"""What begins a command behind blanks at the start of a line: GitHub's."""
_COMMANDS = ("##[", "##vso[", "##teamcity[")
"""What begins one wherever it stands in a line: older ones of GitHub, of Azure Pipelines, of
TeamCity. The last character is the bracket that `no_commands` spells out."""
_TAIL = max(map(len, (*_LINE_COMMANDS, *_COMMANDS))) - 1
_COMMAND = re.compile(
    rf"^[^\S\n]*(?:{'|'.join(map(re.escape, _LINE_COMMANDS))})"
    rf"|(?:{'|'.join(map(re.escape, _COMMANDS))})",
    re.MULTILINE | re.IGNORECASE,
)


def no_commands(text: str, line_start: str = "") -> str:
    r"""A text none of whose lines a CI runner takes for a command.

    `::` at the start of a line becomes `\::`, which Markdown shows as `::`; `##[` and `##vso[`
    anywhere become `##\u005b` and `##vso\u005b`, which mean the same in a JSON string.

    Args:
        text: the text.
        line_start: the text that was written before, on the same line; it stays as it is.
    """
    line = line_start + text
    if "::" not in line and "##" not in line:
        return text
    start = len(line_start)

    def broken(match: re.Match[str]) -> str:
        if match.end() <= start:
            return match[0]
        if match[0].endswith("["):
            return f"{match[0][:-1]}\\u005b"
        position = max(match.end() - 2, start)
        return f"{line[match.start() : position]}\\{line[position : match.end()]}"

    return _COMMAND.sub(broken, line)[start:]


def dump_json(value: object, stream: TextIO) -> None:
    """Writes a value as an indented JSON document: structs as objects, unknown types as text."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_builtin)
    with suppress(msgspec.DecodeError):  # a number that JSON lacks
        # A third of the time that `json` takes with an indentation.
        text = msgspec.json.format(text.encode("utf-8", "surrogatepass"), indent=1).decode(
            "utf-8", "surrogatepass"
        )
    stream.write(printable(text) + "\n")


def _builtin(value: object) -> Any:
    return to_builtins(value, enc_hook=_unknown)


def _unknown(value: object) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)


class PlainStream:
    """A text stream that cleans what is written to it.

    Args:
        log: whether a CI runner may read it as its log.
        required: whether it is an error if the text cannot be written.
        status: a line on the same terminal, which makes room for what is written.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        log: bool = True,
        required: bool = True,
        name: str = "the output",
        status: StatusLine | None = None,
    ) -> None:
        self.status = status
        self._stream = stream
        self._log = log
        self._required = required
        self._name = name
        self._is_closed = False
        self._pending: list[str] = []
        self._size = 0
        # The current line without blanks, while a command could still begin; else None.
        self._line_start: str | None = ""
        self._tail = ""  # the characters before that a command could begin with
        # A terminal and stderr show a line as soon as it is written.
        self._is_unbuffered = not required or _is_terminal(stream)

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":  # click would write to it where the encoding is ASCII
            raise AttributeError(name)
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Writes text, which `flush` passes on at the latest."""
        if not isinstance(text, str):  # libraries test in this way what a stream accepts
            raise TypeError(f"text is needed, not {type(text).__name__}")
        self._pending.append(text)
        self._size += len(text)
        if self._is_unbuffered or self._size > _MOST_PENDING:
            self._pass_on()
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Writes several pieces of text."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Passes on the text that was written.

        Raises:
            KinspectError: it cannot be written, and is required.
        """
        self._pass_on()
        if not self._is_closed:
            self._attempt(self._stream.flush)

    def underneath(self) -> TextIO:
        """Returns the stream itself, after passing on everything that was written."""
        self._pass_on()
        if self.status is None:
            return self._stream
        return cast(TextIO, _RoomyStream(self._stream, self.status))

    def _pass_on(self) -> None:
        """Cleans the pending text and writes it to the stream."""
        if not self._pending:
            return
        text = "".join(self._pending)
        self._pending.clear()
        self._size = 0
        if self._is_closed:
            return
        # A carriage return may be the first half of a line's end that is still to come.
        if text.endswith("\r") and not self._is_unbuffered:
            self._pending.append("\r")
            text = text[:-1]
        clean = printable(text)
        if self._log:
            clean = self._without_commands(clean)
        if self.status is not None:
            self.status.make_room(clean)
        self._attempt(lambda: self._write_encodable(clean))

    def _without_commands(self, text: str) -> str:
        """`no_commands` of a text that goes on where the last one ended."""
        if not text:
            return text
        # Where the line began otherwise, any word stands for its beginning.
        clean = no_commands(
            text, f"x{self._tail}" if self._line_start is None else self._line_start
        )
        if "\n" in text or self._line_start is not None:
            line = text.rpartition("\n")[2]
            begun = (line if "\n" in text else f"{self._line_start}{line}").lstrip()
            self._line_start = begun if begun in ("", ":") else None
        self._tail = (self._tail + text)[-_TAIL:]
        return clean

    def _write_encodable(self, text: str) -> None:
        """Writes text; what the stream's encoding lacks is escaped."""
        try:
            self._stream.write(text)
        except UnicodeEncodeError:
            encoding = self._stream.encoding or "ascii"
            self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))

    def _attempt(self, write: Callable[[], object]) -> None:
        """Writes, and closes the stream if that fails."""
        try:
            write()
        except BrokenPipeError:
            # The reader (head, less) went away: the status is still that of the run.
            self._give_up()
        except (OSError, ValueError) as error:
            self._give_up()
            if self._required:
                failure = error if isinstance(error, OSError) else OSError(str(error))
                raise unwritable(self._name, failure, "write elsewhere") from None

    def _give_up(self) -> None:
        """Drops what is still to come; Python would complain of the rest at exit."""
        self._is_closed = True
        try:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
        except (OSError, ValueError):
            pass


class _RoomyStream:
    """The stream of a terminal whose status line makes room for what is written."""

    def __init__(self, stream: TextIO, status: StatusLine) -> None:
        self._stream = stream
        self._status = status

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Writes text as it is."""
        self._status.make_room(text)
        return self._stream.write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Writes several pieces of text as they are."""
        for line in lines:
            self.write(line)


def underneath(stream: TextIO) -> TextIO:
    """The stream that a `PlainStream` writes to; any other stream itself."""
    return stream.underneath() if isinstance(stream, PlainStream) else stream


def plain(stream: TextIO, *, log: bool = True, name: str = "the output") -> TextIO:
    """A stream that cleans what is written to it; one that does so already as it is."""
    if isinstance(stream, PlainStream):
        return cast(TextIO, stream)
    return cast(TextIO, PlainStream(stream, log=log, name=name))


@contextmanager
def standard_streams(*, has_status: bool = False) -> Iterator[None]:
    """Makes stdout and stderr plain for the duration.

    What is opened next must not get the number of a standard stream that the caller closed: stdin
    and stderr lead nowhere then; what is printed to stdout is an error, for it is lost.

    Raises:
        KinspectError: what was printed cannot be written. Not while another error passes.
    """
    _open_missing_descriptors()
    originals = sys.stdout, sys.stderr
    status = None
    if has_status and _is_terminal(sys.stderr) and os.environ.get("TERM") != "dumb":
        status = StatusLine(sys.stderr.fileno())
        status.start()
    beside = status if _is_terminal(sys.stdout) else None
    out = PlainStream(sys.stdout, name="standard output", status=beside)
    sys.stdout, sys.stderr = (
        cast(TextIO, out),
        cast(TextIO, PlainStream(originals[1], required=False, status=status)),
    )
    try:
        yield
        out.flush()
    finally:
        if status is not None:
            status.end()
        with suppress(KinspectError):
            out.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = originals


def _open_missing_descriptors() -> None:
    """Opens standard streams that the caller closed, to the null device; stdout takes no text."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            # Takes the lowest number that is free: this one.
            os.open(os.devnull, os.O_RDONLY if name == "stdout" else os.O_RDWR)
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False
