"""Damage to files: bytes and sizes, tokens and lines of texts, values of documents."""

from __future__ import annotations

import io
import json
import os
import random
import re
import socket
import sqlite3
import struct
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

Files = dict[str, bytes]
MOST_BYTES = 16 << 20
_USUAL_BYTES = 1 << 20

_SIZES = (0, 1, 2, 7, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, (1 << 63) - 1)
_NUMBERS = (
    b"0", b"-1", b"1", b"255", b"65536", b"2147483648", b"-9223372036854775809", b"1e308", b"1e999",
    b"NaN", b"-Infinity", b"0x7fffffffffffffff", b"0x" + b"f" * 600, b"1" + b"0" * 18, b"9" * 5000,
    b"1:2:3:4", b"0.1", b"--", b"1_000",
)  # fmt: skip
_WORDS = (
    b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"\x1b]0;x\x07", b"\r", b"\r\n", b"\t",
    b"\"", b"'", b"\\", b"#", b"//", b"/*", b"*/", b";", b"(", b")",
    b"[", b"]", b"{", b"}", b"<", b">", b",", b":", b"=",
    b"&a ", b"*a", b"<<: ", b"!!int ", b"!!timestamp ", b"- ", b"? ", b"%", b"@", b"$", b"$0",
    b"\\@",
    b"null", b"true", b"\xe2\x80\xae", "\u2028".encode(),
)  # fmt: skip
_STRINGS = ("", "x", "x" * 100_000, "\x1b[31m", "\ud800", "../../etc", "1" * 5000, "a\nb", "::x")
"""Strings that a document gets in place of a value."""
_VALUES = (
    0, -1, 1, 1 << 31, 1 << 63, 10**18, -(10**18), 10**400, 1.5, float("nan"), float("inf"), 1e308,
)  # fmt: skip
"""Numbers that it gets."""
_CELLS = (
    None, -1, 0, 1 << 62, 1.5, "", "x" * 10_000, b"\xff\x00", '{"a": ' * 2000, "[" * 100_000,
    "9" * 5000,
)  # fmt: skip
"""Values that a column of a database gets."""
_TEXT_NUMBER = re.compile(rb"-?\b\d+(?:\.\d+)?\b|0x[0-9a-fA-F]+")
_TOKEN = re.compile(rb"[\w.$@-]+|[^\w\s]")


def mutated(
    files: Files, rng: random.Random, kinds: Mapping[str, str], words: list[bytes]
) -> Files:
    """A copy of a seed with one file damaged, once or several times.

    Args:
        files: by name.
        rng: decides everything.
        kinds: suffix -> what its files are: text, json, jsonl, yaml, zip, sqlite; others: bytes.
        words: tokens that mean something to the reader.
    """
    name = rng.choice(sorted(files))
    data = files[name]
    kind = next((k for suffix, k in kinds.items() if name.endswith(suffix)), "bytes")
    steps: tuple[Callable[..., bytes], ...] = _STEPS[kind]
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        data = rng.choice(steps)(data, rng, words)
        if len(data) > _USUAL_BYTES and rng.random() < 0.9:
            data = data[:_USUAL_BYTES]
    return {**files, name: data[:MOST_BYTES]}


OUTSIDE = "content of a file outside"
"""No reader's result may hold it."""


def make_special(path: Path, rng: random.Random) -> None:
    """Puts something else in the place of a file: a pipe, a link, a device, a hole of 8 GB."""
    outside = path.parent / "../outside.txt"
    if not outside.exists():
        outside.write_text(f"{OUTSIDE}\n" * 100)
    if path.is_dir():
        return
    path.unlink()
    links = ("/dev/zero", "/dev/tty", "/dev/stdin", "/proc/self/mem", path.name, "..", "gone")
    kind = rng.choice(("pipe", "socket", "folder", "hole", "closed", "outside", *links))
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(os.path.relpath(path))
    elif kind == "folder":
        path.mkdir()
    elif kind in ("hole", "closed"):
        path.touch(0o600 if kind == "hole" else 0)
        os.truncate(path, 8 << 30 if kind == "hole" else 0)
    else:
        path.symlink_to("../outside.txt" if kind == "outside" else kind)


def _at(data: bytes, rng: random.Random) -> int:
    return rng.randrange(len(data) + 1)


def _flip(data: bytes, rng: random.Random, words: list[bytes]) -> bytes:
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 4, 16)) if found else 0):
        found[rng.randrange(len(found))] = rng.randrange(256)
    return bytes(found)


def _size(data: bytes, rng: random.Random, words: list[bytes]) -> bytes:
    """A number lied about, as tables of files hold them."""
    form = rng.choice(("<H", "<I", "<Q"))
    width = struct.calcsize(form)
    if len(data) < width:
        return data
    # Headers stand at the begin, tables at the end: both more often than the middle.
    top = len(data) - width
    at = rng.choice(
        (rng.randint(0, min(top, 256)), rng.randint(0, top), max(0, top - rng.randint(0, 4096)))
    )
    value = struct.unpack_from(form, data, at)[0]
    value = rng.choice(
        (*_SIZES, value + 1, value - 1, value * 2, len(data), value ^ (1 << rng.randrange(16)))
    )
    value %= 1 << (8 * width)
    return data[:at] + struct.pack(form, value) + data[at + width :]


def _cut(data: bytes, rng: random.Random, words: list[bytes]) -> bytes:
    return data[: _at(data, rng)]


def _drop(data: bytes, rng: random.Random, words: list[bytes]) -> bytes:
    at = _at(data, rng)
    return data[:at] + data[at + rng.choice((1, 4, 16, 256, 4096)) :]


def _repeat(data: bytes, rng: random.Random, words: list[bytes]) -> bytes:
    at, length = _at(data, rng), rng.choice((1, 2, 8, 64, 1024))
    return data[:at] + data[at : at + length] * rng.choice((2, 10, 1000, 20_000)) + data[at:]


def _word(data: bytes, rng: random.Random, words: list[bytes]) -> bytes:
    at = _at(data, rng)
    word = rng.choice((*_WORDS, *_NUMBERS, *words))
    return data[:at] + word * rng.choice((1, 1, 1, 2, 300, 30_000)) + data[at:]


def _number(data: bytes, rng: random.Random, words: list[bytes]) -> bytes:
    one = _TEXT_NUMBER.search(data, _at(data, rng))
    if one is None:
        return data
    return data[: one.start()] + rng.choice(_NUMBERS) + data[one.end() :]


def _token(data: bytes, rng: random.Random, words: list[bytes]) -> bytes:
    one, another = (_TOKEN.search(data, _at(data, rng)) for _ in range(2))
    if one is None or another is None:
        return data
    other = rng.choice((another[0], rng.choice((*_WORDS, *words)), b""))
    return data[: one.start()] + other + data[one.end() :]


def _lines(data: bytes, rng: random.Random, words: list[bytes]) -> bytes:
    lines = data.split(b"\n")
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    way = rng.randrange(5)
    if way == 0:
        del lines[at : at + rng.choice((1, 1, 8, 100))]
    elif way == 1:
        lines[at], lines[other] = lines[other], lines[at]
    elif way == 2:
        lines[at:at] = lines[other : other + rng.choice((1, 8, 100))] * rng.choice((1, 3, 100))
    elif way == 3:
        lines[at] = rng.choice((b"", lines[at] * 3000, lines[at].strip(), b" " * 3000 + lines[at]))
    else:
        lines[at] += rng.choice((*_WORDS, *words, *_NUMBERS))
    return b"\n".join(lines)


def _nest(data: bytes, rng: random.Random, words: list[bytes]) -> bytes:
    at, depth = _at(data, rng), rng.choice((10, 300, 3000, 100_000))
    start, end = rng.choice(
        ((b"[", b"]"), (b"{", b"}"), (b"(", b")"), (b'{"a":', b"}"), (b"<", b">"), (b"- ", b""))
    )
    return data[:at] + start * depth + b"1" + end * rng.choice((depth, depth - 1, 0)) + data[at:]


def _other(rng: random.Random, value: Any) -> Any:
    deep: Any = 1
    for _ in range(rng.choice((3, 150, 600))):
        deep = [deep] if rng.random() < 0.5 else {"a": deep}
    return rng.choice(
        (None, True, False, [], {}, [value], {"a": value}, [value] * 100, deep)
        + (rng.choice(_STRINGS), rng.choice(_VALUES)) * 2
    )


def _value(value: Any, rng: random.Random) -> Any:
    """The same document with one of its values exchanged, added or gone."""
    path, here = [], value
    while isinstance(here, dict | list) and here and rng.random() < 0.93:
        key = (
            rng.choice(sorted(here, key=str))
            if isinstance(here, dict)
            else rng.randrange(len(here))
        )
        path.append((here, key))
        here = here[key]
    if not path:
        return _other(rng, value)
    owner, key = path[-1]
    way = rng.randrange(10)
    if way == 0:
        del owner[key]
    elif way == 1 and isinstance(owner, dict):
        owner[rng.choice(("", "a", "\ud800", "x" * 1000, str(key) + "x"))] = owner.pop(key)
    elif way == 2 and isinstance(owner, list):
        owner[key:key] = [here] * rng.choice((1, 2, 500))
    else:
        owner[key] = _other(rng, here)
    return value


def _json(data: bytes, rng: random.Random, words: list[bytes]) -> bytes:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return _word(data, rng, words)
    for _ in range(rng.choice((1, 1, 2, 5))):
        value = _value(value, rng)
    return _dumped(value, data)


def _dumped(value: Any, otherwise: bytes) -> bytes:
    """The document, or what it was: a part repeated within its repetition grows without end."""
    parts, size = [], 0
    try:
        for part in json.JSONEncoder().iterencode(value):
            parts.append(part)
            size += len(part)
            if size > 2 * _USUAL_BYTES:
                return otherwise
    except (ValueError, RecursionError, TypeError):
        return otherwise
    return "".join(parts).encode()


def _json_lines(data: bytes, rng: random.Random, words: list[bytes]) -> bytes:
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    lines[at] = _json(lines[at], rng, words)
    return b"\n".join(lines)


def _yaml(data: bytes, rng: random.Random, words: list[bytes]) -> bytes:
    try:
        value = yaml.safe_load(data)
        value = _value(value, rng)
        return yaml.safe_dump(value, default_flow_style=rng.random() < 0.3).encode(
            "utf-8", "replace"
        )
    except Exception:  # damaged before
        return _word(data, rng, words)


def _zip(data: bytes, rng: random.Random, words: list[bytes]) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {info.filename: archive.read(info) for info in archive.infolist()}
    except Exception:  # damaged before
        return _size(data, rng, words)
    name = rng.choice(sorted(members))
    change = _json if name.endswith(".json") else rng.choice((_flip, _cut, _repeat))
    members[name] = change(members[name], rng, words)
    if rng.random() < 0.1:
        members.pop(name)
    method = rng.choice(
        (zipfile.ZIP_DEFLATED,) * 4 + (zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    )
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for key, value in members.items():
            archive.writestr(key, value)
    return out.getvalue()


def _sqlite(data: bytes, rng: random.Random, words: list[bytes]) -> bytes:
    with tempfile.NamedTemporaryFile(suffix=".db") as stream:
        stream.write(data)
        stream.flush()
        try:
            base = sqlite3.connect(stream.name)
            tables = [
                r[0] for r in base.execute("SELECT name FROM sqlite_master WHERE type='table'")
            ]
            table = rng.choice(tables)
            columns = [r[1] for r in base.execute(f'PRAGMA table_info("{table}")')]
            column, way = rng.choice(columns), rng.randrange(6)
            if way == 0:
                base.execute(f'ALTER TABLE "{table}" RENAME TO "{table}_x"')
                if rng.random() < 0.5:
                    endless = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r)"
                    listed = ", ".join(f"n AS [{c}]" for c in columns)
                    base.execute(f'CREATE VIEW "{table}" AS {endless} SELECT {listed} FROM r')
            elif way == 1:
                base.execute(
                    f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "x{rng.randrange(9)}"'
                )
            elif way == 2:
                base.execute(f'DELETE FROM "{table}"')
            else:
                base.execute(
                    f'UPDATE OR IGNORE "{table}" SET "{column}" = ?', (rng.choice(_CELLS),)
                )
            base.commit()
            base.close()
            with open(stream.name, "rb") as found:
                return found.read()
        except sqlite3.Error:
            return _size(data, rng, words)


_BYTES = (_flip, _size, _size, _size, _cut, _drop, _repeat, _word)
_TEXT = (_number, _token, _lines, _lines, _word, _cut, _repeat, _nest, _flip)
_STEPS: Mapping[str, tuple[Callable[..., bytes], ...]] = {
    "bytes": _BYTES,
    "text": _TEXT,
    "json": (_json,) * 8 + (_word, _cut, _nest, _number, _flip),
    "jsonl": (_json_lines,) * 8 + (_word, _cut, _lines, _flip),
    "yaml": (_yaml,) * 5 + _TEXT,
    "zip": (_zip,) * 6 + _BYTES,
    "sqlite": (_sqlite,) * 8 + _BYTES,
}
