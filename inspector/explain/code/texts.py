"""The texts of a kernel: source, TTGIR, LLVM IR and assembly, read and split into lines.

Nothing is parsed here, so that a reader sees the text at once and what analysis knows of it later.
Lines are counted from 0, tabs are spread out to columns of 8, and characters that would steer a
terminal are replaced: what stands in a line is what a screen shows of it, column by column.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct

from ...errors import KinspectError
from ...isa.asm.kinds import is_binary
from ...model import KernelReport

TEXTS = ("source", "ttgir", "llir", "amdgcn")
"""The kinds of text, from what the user wrote to what the machine runs."""

TITLES: Mapping[str, str] = MappingProxyType(
    {"source": "Python", "ttgir": "TTGIR", "llir": "LLVM IR", "amdgcn": "ISA"}
)
"""What people call them."""

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
_MOST_BYTES = 256 << 20
"""Larger files are no one kernel's text."""
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_HARMLESS = bytes([9, 10, *range(32, 127)])
_FILE = re.compile(r'^[ \t]*\.file[ \t]+[1-9]\d*[ \t]+"([^"\n]*)"(?:[ \t]+"([^"\n]*)")?', re.M)
_MLIR_FILE = re.compile(r'loc\("([^"\n]+\.py)":\d+')
_IR_FILE = re.compile(r'!DIFile\(filename: "([^"\n]+)", directory: "([^"\n]*)"')

Read = Callable[[Path], str]


class Texts(Struct, frozen=True):
    """What there is to read of a kernel.

    Attributes:
        lines: kind -> its lines.
        files: kind -> the file they come from.
        missing: kind -> why there is no such text, in a sentence.
    """

    lines: Mapping[str, Sequence[str]]
    files: Mapping[str, str]
    missing: Mapping[str, str]

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds that are there, in the order of `TEXTS`."""
        return tuple(kind for kind in TEXTS if kind in self.lines)


def read_file(path: Path) -> str:
    """A file's text; bytes that are none are replaced.

    Raises:
        KinspectError: it cannot be read, or is not a text.
    """
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise KinspectError(f"{path} is larger than {_MOST_BYTES >> 20} MiB", "split it")
        data = path.read_bytes()
    except OSError as error:
        raise KinspectError(f"{path} cannot be read ({error.strerror})") from None
    if is_binary(data):
        raise KinspectError(f"{path} is not a text")
    return data.decode("utf-8", "replace")


def lines_of(text: str) -> list[str]:
    """A text's lines as a screen shows them; they are numbered as the parsers number them."""
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    if _steers(text):
        text = _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)
    lines = (text.expandtabs(8) if "\t" in text else text).split("\n")
    if len(lines) > 1 and not lines[-1]:
        lines.pop()  # what follows the last line's end is no line
    return lines


def _steers(text: str) -> bool:
    if text.isascii():  # what is left without the harmless: a fifth of what the pattern takes
        return bool(text.encode("ascii").translate(None, _HARMLESS))
    return _CONTROLS.search(text) is not None


def texts_of(report: KernelReport, read: Read | None = None) -> Texts:
    """The texts of a reported kernel: the compiler's artifacts, or the file that it was read from.

    Args:
        report: the kernel.
        read: reads a file; None: from the disk.
    """
    gathered = _Gathered(read or read_file)
    for kind in ("ttgir", "llir", "amdgcn"):
        artifact = report.artifacts.get(kind)
        if artifact is not None:
            gathered.take(kind, artifact.path)
    path = Path(report.id.partition("::")[0])
    if "amdgcn" not in report.artifacts:
        gathered.beside(path)
    places = [at for at in (report.source, report.variant and report.variant.source) if at]
    # The whole path in TTGIR where the report's is a short one, and the other way round.
    named = [Path(at.file) for at in places] + gathered.stated_source()
    gathered.source(named, path.parent)
    if report.artifacts:
        return gathered.texts(path, "The compile left no {}.")
    if report.variant is not None:
        return gathered.texts(path, "The report was saved without its {}.")
    return gathered.texts(path)


def texts_of_file(path: Path, read: Read | None = None) -> Texts:
    """The texts in a file and beside it, before anything is known of them.

    Args:
        path: assembly, TTGIR or LLVM IR.
        read: reads a file; None: from the disk.
    """
    gathered = _Gathered(read or read_file)
    gathered.beside(path)
    gathered.source(gathered.stated_source(), path.parent)
    return gathered.texts(path)


class _Gathered:
    """Texts as they are found."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._raw: dict[str, str] = {}
        self._files: dict[str, str] = {}
        self._missing: dict[str, str] = {}

    def take(self, kind: str, path: Path) -> bool:
        """Reads one of the texts; says why where it cannot."""
        try:
            self._raw[kind] = self._read(path)
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

    def beside(self, path: Path) -> None:
        """Reads a file, and what a compile has left beside it under the same name."""
        own = _SUFFIXES.get(path.suffix)
        if own is not None:
            self.take(own, path)
        if path.suffix in _REPORTS or (own is None and path.suffix not in _OBJECTS):
            return
        for suffix, kind in _SUFFIXES.items():
            if kind == "amdgcn" and path.suffix in _OBJECTS:
                continue  # lines of a code object are those of its disassembly
            sibling = path.with_suffix(suffix)
            if kind not in self._raw and kind != own and sibling != path and sibling.is_file():
                self.take(kind, sibling)

    def stated_source(self) -> list[Path]:
        """The source files that the texts name first."""
        candidates: list[Path] = []
        if (match := _MLIR_FILE.search(self._raw.get("ttgir", ""))) is not None:
            candidates.append(Path(match[1]))
        if (match := _FILE.search(self._raw.get("amdgcn", ""))) is not None:
            candidates.append(Path(match[1]) / match[2] if match[2] is not None else Path(match[1]))
        if (match := _IR_FILE.search(self._raw.get("llir", ""))) is not None:
            candidates.append(Path(match[2]) / match[1])
        return candidates

    def source(self, named: Sequence[Path], folder: Path) -> None:
        """Reads the first of these files that is there."""
        for place in dict.fromkeys(named):
            for path in (place, folder / place):
                if path.is_file() and self.take("source", path):
                    return
        if named:
            self._missing["source"] = f"{named[0]} is not on this machine."

    def texts(self, path: Path, reason: str = "") -> Texts:
        """What was found, and why the rest was not: the reason with the text's title in it."""
        missing = {
            kind: self._missing.get(kind) or _why_not(kind, path, reason)
            for kind in TEXTS
            if kind not in self._raw
        }
        lines = {kind: lines_of(self._raw[kind]) for kind in TEXTS if kind in self._raw}
        return Texts(lines, {kind: self._files[kind] for kind in lines}, missing)


def _why_not(kind: str, path: Path, reason: str) -> str:
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
