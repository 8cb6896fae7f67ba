"""The texts of a kernel: source, TTGIR, LLVM IR and assembly, read and split into lines.

Nothing is parsed here, so that a reader sees the text at once and what analysis knows of it later.
Lines are counted from 0, tabs are spread out to columns of 8, and characters that would steer a
terminal are replaced: what stands in a line is what a screen shows of it, column by column.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct

from ...base import named_files
from ...base.errors import KinspectError
from ...isa.asm.units import is_binary
from ...model import KernelReport

TEXTS = ("source", "ttgir", "llir", "amdgcn")
"""The kinds of text, from what the user wrote to what the machine runs."""

TITLES: Mapping[str, str] = MappingProxyType(
    {"source": "Python", "ttir": "TTIR", "ttgir": "TTGIR", "llir": "LLVM IR", "amdgcn": "ISA"}
)
"""Kind of text -> its name for people; TTIR is a kernel's where it was captured or compiled."""

_SUFFIXES: Mapping[str, str] = MappingProxyType(
    {
        ".ttgir": "ttgir",
        ".llir": "llir",
        ".ll": "llir",
        ".amdgcn": "amdgcn",
        ".s": "amdgcn",
        ".asm": "amdgcn",
    }
)
_OBJECTS = frozenset({".hsaco", ".co", ".o", ".out", ".so", ".elf"})
_REPORTS = frozenset({".json", ".kinspect"})
_MAX_BYTES = 256 << 20
"""Larger files are rejected: they hold more than one kernel's text."""
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_HARMLESS = bytes([9, 10, *range(32, 127)])
_FILE = re.compile(r'^[ \t]*\.file[ \t]+[1-9]\d*[ \t]+"([^"\n]*)"(?:[ \t]+"([^"\n]*)")?', re.M)
_MLIR_FILE = re.compile(r'loc\("([^"\n]+\.py)":\d+')
_IR_FILE = re.compile(r'!DIFile\(filename: "([^"\n]+)", directory: "([^"\n]*)"')


class Texts(Struct, frozen=True):
    """The texts of a kernel.

    Args:
        missing: kind -> why there is no such text, in a sentence.
    """

    lines: Mapping[str, Sequence[str]]
    files: Mapping[str, str]
    missing: Mapping[str, str]

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of the existing texts, in the order of `TEXTS`."""
        return tuple(kind for kind in TEXTS if kind in self.lines)


def _read(path: Path, *, own: bool) -> str:
    """A file as UTF-8, with invalid bytes replaced; others than `own` are named by data."""
    opened = named_files.opened if own else named_files.opened_named
    try:
        with opened(path, _MAX_BYTES) as stream:
            data = stream.read(os.fstat(stream.fileno()).st_size)
    except OSError as error:
        raise KinspectError(f"{path} cannot be read ({error.strerror})") from None
    if is_binary(data):
        raise KinspectError(f"{path} is not a text")
    return data.decode("utf-8", "replace")


def lines_of(text: str) -> list[str]:
    """A text's lines as a screen shows them, numbered as by the parsers.

    Tabs are expanded, and control characters are replaced by U+FFFD.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    if _has_controls(text):
        text = _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)
    lines = (text.expandtabs(8) if "\t" in text else text).split("\n")
    if len(lines) > 1 and not lines[-1]:
        lines.pop()  # no line follows the last line feed
    return lines


def _has_controls(text: str) -> bool:
    if text.isascii():  # deleting harmless bytes takes a fifth of the pattern's time
        return bool(text.encode("ascii").translate(None, _HARMLESS))
    return _CONTROLS.search(text) is not None


def texts_of(report: KernelReport) -> Texts:
    """The texts of an analysed kernel: the compiler's artifacts, or those of its file."""
    reader = _TextReader()
    for kind in ("ttgir", "llir", "amdgcn"):
        artifact = report.artifacts.get(kind)
        if artifact is not None:
            reader.read(kind, artifact.path, own=True)
    path = Path(report.file)
    if "amdgcn" not in report.artifacts:
        reader.read_beside(path)
    locations = [loc for loc in (report.source, report.variant and report.variant.source) if loc]
    # The report and TTGIR may each name the source by a path that does not lead to it.
    candidates = [Path(location.file) for location in locations] + reader.stated_source()
    reader.read_source(candidates, path.parent)
    if report.artifacts:
        return reader.texts(path, "The compile left no {}.")
    if report.variant is not None:
        return reader.texts(path, "The report was saved without its {}.")
    return reader.texts(path)


def with_ttir(texts: Texts, report: KernelReport) -> Texts:
    """The texts with the TTIR that the kernel was compiled from, or why there is none."""
    artifact = report.artifacts.get("ttir")
    reader = _TextReader()
    own = artifact is not None
    path = artifact.path if artifact is not None else Path(report.file)
    if (own or path.suffix == ".ttir") and reader.read("ttir", path, own=own):
        return reader.with_ttir(texts)
    return reader.with_ttir(texts, f"There is no TTIR of {report.name}.")


def texts_of_file(path: Path) -> Texts:
    """The texts in a file that has not been analysed, and in files beside it."""
    reader = _TextReader()
    named_files.allow_target(path)
    reader.read_beside(path)
    reader.read_source(reader.stated_source(), path.parent)
    return reader.texts(path)


class _TextReader:
    """Reads the texts of a kernel, and records why some are missing."""

    def __init__(self) -> None:
        self._raw: dict[str, str] = {}
        self._files: dict[str, str] = {}
        self._missing: dict[str, str] = {}

    def read(self, kind: str, path: Path, *, own: bool = False) -> bool:
        """Reads one of the texts; records the reason and returns False if it cannot be read.

        `own` is for artifacts, which are ours; all others are named by data.
        """
        try:
            self._raw[kind] = _read(path, own=own)
        except KinspectError as error:
            self._missing.setdefault(kind, f"{error.message}.")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            self._missing.setdefault(kind, f"{path} cannot be read ({reason}).")
        else:
            self._files[kind] = str(path)
            self._missing.pop(kind, None)
            return True
        return False

    def with_ttir(self, texts: Texts, reason: str = "") -> Texts:
        """Other texts with the TTIR that was read here, or with the reason that it is missing."""
        if "ttir" in self._raw:
            return Texts(
                {**texts.lines, "ttir": lines_of(self._raw["ttir"])},
                {**texts.files, "ttir": self._files["ttir"]},
                texts.missing,
            )
        missing = self._missing.get("ttir", reason)
        return Texts(texts.lines, texts.files, {**texts.missing, "ttir": missing})

    def read_beside(self, path: Path) -> None:
        """Reads a file, and a compile's other texts of the same name beside it."""
        own_kind = _SUFFIXES.get(path.suffix)
        if own_kind is not None:
            self.read(own_kind, path)
        if path.suffix in _REPORTS or (own_kind is None and path.suffix not in _OBJECTS):
            return
        for suffix, kind in _SUFFIXES.items():
            if kind == "amdgcn" and path.suffix in _OBJECTS:
                continue  # lines of a code object are those of its disassembly
            sibling = path.with_suffix(suffix)
            if kind not in self._raw and kind != own_kind and sibling != path and sibling.is_file():
                self.read(kind, sibling)

    def stated_source(self) -> list[Path]:
        """The first source file that each of the texts names."""
        candidates: list[Path] = []
        if (match := _MLIR_FILE.search(self._raw.get("ttgir", ""))) is not None:
            candidates.append(Path(match[1]))
        if (match := _FILE.search(self._raw.get("amdgcn", ""))) is not None:
            candidates.append(Path(match[1]) / match[2] if match[2] is not None else Path(match[1]))
        if (match := _IR_FILE.search(self._raw.get("llir", ""))) is not None:
            candidates.append(Path(match[2]) / match[1])
        return candidates

    def read_source(self, candidates: Sequence[Path], folder: Path) -> None:
        """Reads the first of the files that exists, as it is or in a folder."""
        for candidate in dict.fromkeys(candidates):
            for path in (candidate, folder / candidate):
                if named_files.is_named(path) and self.read("source", path):
                    return
        if candidates:
            missing = f"{candidates[0]} is not on this machine."
            self._missing["source"] = named_files.left_out(candidates) or missing

    def texts(self, path: Path, reason: str = "") -> Texts:
        """The texts that were read, and why the others are missing."""
        missing = {
            kind: self._missing.get(kind) or _why_missing(kind, path, reason)
            for kind in TEXTS
            if kind not in self._raw
        }
        lines = {kind: lines_of(self._raw[kind]) for kind in TEXTS if kind in self._raw}
        return Texts(lines, {kind: self._files[kind] for kind in lines}, missing)


def _why_missing(kind: str, path: Path, reason: str) -> str:
    """A sentence on why a text is missing, for `_TextReader.texts`."""
    title = TITLES[kind]
    if kind == "source":
        return "The code does not say which source it was made from."
    if reason:
        return reason.format(title)
    if kind == "amdgcn" and path.suffix in _OBJECTS:
        return f"{path.name} is a code object: it holds no assembly text."
    if kind == "amdgcn" and path.suffix == ".ttgir":
        return "TTGIR alone: there is code only after a compile."
    if path.suffix in _REPORTS:
        return f"{path.name} was saved without its {title}."
    return f"There is no {title} beside {path.name}."
