"""Reports on assembly that are kept in the cache folder, for runs that are repeated."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..base.limits import is_cut_short
from ..base.named_files import file_bytes, is_named
from ..base.version import VERSION
from ..lint.packs import bundled_folder
from ..lint.rule import NO_RULES
from ..model import Finding, KernelReport
from . import analysis
from .analysis import ANALYSIS_VERSION
from .analysis_options import Context
from .source_positions import source_positions

FOLDER = "reports-v3"
MOST_BYTES = 512 << 20
"""Of all reports together; a kernel of 200 instructions takes 50 kB."""
_PRUNED_OF_256 = 4
"""Of so many times that reports may be added, old ones are looked for."""
_CHECKSUM_BYTES = 32
_OF_OTHER_FILES = re.compile(r"\.(?:include|incbin|macro|irpc?)\b", re.I)
"""Directives by which a text names files that its key does not cover, if by those of a macro."""


_FileState = tuple[int, int]
"""Bytes and latest change of a file, nanoseconds."""


class _Judged(Struct, frozen=True):
    """The findings of the default rules.

    Args:
        sources: the files of which lines may be quoted; None of one that was not there.
    """

    rules: tuple[tuple[str, _FileState], ...]
    sources: dict[str, _FileState | None]
    findings: list[tuple[Finding, ...]]
    leads: list[tuple[Finding, ...]]

    @classmethod
    def of(cls, reports: Sequence[KernelReport]) -> _Judged:
        """What the default rules said of some reports."""
        files = {place.file for report in reports for place in source_positions(report)}
        return cls(
            _rules_state(),
            {file: _source_state(file) for file in files},
            [report.findings for report in reports],
            [report.leads for report in reports],
        )

    def is_current(self) -> bool:
        """Whether the rules and the quoted sources are as they were."""
        return self.rules == _rules_state() and all(
            _source_state(file) == state for file, state in self.sources.items()
        )


class _Stored(Struct, frozen=True):
    """What is kept of one text: its reports without findings, and those."""

    reports: list[KernelReport]
    judged: _Judged | None = None

    def current(self) -> list[KernelReport] | None:
        """The reports as the default rules judge them; None where they may judge otherwise now."""
        judged = self.judged
        if judged is None or not judged.is_current():
            return None
        parts = zip(self.reports, judged.findings, judged.leads, strict=True)
        return [replace(report, findings=said, leads=leads) for report, said, leads in parts]


class StoredReports:
    """Analyses assembly texts, or takes their reports from the folder."""

    def __init__(self, cache: Path) -> None:
        self._folder = cache / FOLDER

    def analyzed(self, text: str, context: Context) -> Sequence[KernelReport]:
        """As `analysis.analyze_text`."""
        is_timed = context.analysis.times_code
        return self.kept(text, context, functools.partial(analysis.analyze_text, text), is_timed)

    def kept(
        self,
        text: str,
        context: Context,
        analyse: Callable[[Context], Sequence[KernelReport]],
        is_timed: bool,
        stated: Sequence[object] = (),
    ) -> Sequence[KernelReport]:
        """What `analyse` makes of a context, or made of the same one before; without artifacts.

        Args:
            analyse: makes the reports, and judges them by the context's rules.
            is_timed: whether launches may be timed, by which findings are judged.
        """
        options = context.analysis
        if is_timed and options.rules is not None:
            return analyse(context)  # what their findings save is worked out with the time
        place = self._place(text, context, (options.time if is_timed else None, *stated))
        if place is None:
            return analyse(context)
        stored = _read(place)
        current = stored.current() if stored is not None and options.rules is None else None
        if current is not None:
            return current
        if os.urandom(1)[0] < _PRUNED_OF_256:
            self.prune()
        if is_timed:
            return _timed(place, context, analyse)
        return _untimed(place, stored, context, analyse)

    def prune(self) -> None:
        """Drops the oldest reports where there are too many."""
        files = []
        with contextlib.suppress(OSError):
            for group in os.scandir(self._folder):
                files += [(entry.stat(), entry.path) for entry in os.scandir(group)]
        total = sum(status.st_size for status, _ in files)
        if total <= MOST_BYTES:
            return
        for status, path in sorted(files, key=lambda item: item[0].st_mtime_ns):
            if total <= MOST_BYTES // 2:
                return
            with contextlib.suppress(OSError):
                os.unlink(path)
                total -= status.st_size

    def _place(self, text: str, context: Context, more: Sequence[object]) -> Path | None:
        """Where the reports on a text are kept; None where they depend on more than the key has."""
        options = context.analysis
        if options.sample is not None or context.variant is not None or context.artifacts:
            return None
        if _OF_OTHER_FILES.search(text):
            return None
        stated = (
            *(VERSION, ANALYSIS_VERSION, _package_state(), os.getcwd()),
            *(context.path, context.arch, context.patterns, context.overrides, context.notes),
            *(context.metadata, context.ttgir, context.ttir),
            *(options.lanes, options.races, options.values, options.asked),
            *(options.judges_all, more),
        )
        try:
            parts = [msgspec.msgpack.encode(stated), text.encode("utf-8", "surrogatepass")]
            if context.code_object is not None:
                parts.append(file_bytes(context.code_object))
        except (OSError, TypeError, ValueError, OverflowError):
            return None
        name = _digest(*(_digest(part) for part in parts)).hex()
        return self._folder / name[:2] / name[2:]


def _timed(
    place: Path, context: Context, analyse: Callable[[Context], Sequence[KernelReport]]
) -> Sequence[KernelReport]:
    """Analyses, times and judges; keeps the whole, unless the limit on time may have decided."""
    started = time.process_time()
    reports = analyse(context)
    took, options = time.process_time() - started, context.analysis.time
    if _is_final(reports) and (options is None or took < options.seconds):
        _write(place, reports, _Judged.of(reports))
    return reports


def _untimed(
    place: Path,
    stored: _Stored | None,
    context: Context,
    analyse: Callable[[Context], Sequence[KernelReport]],
) -> Sequence[KernelReport]:
    """Judges the kept reports by the context's rules; analyses where there are none."""
    is_new, found = stored is None, stored.reports if stored is not None else None
    if found is None:
        found = [*analyse(replace(context, analysis=replace(context.analysis, rules=NO_RULES)))]
    reports = analysis.with_findings(found, context.analysis)
    if context.analysis.rules is None:
        if _is_final(found):
            _write(place, found, _Judged.of(reports))
    elif is_new and _is_final(found):
        _write(place, found, None)
    return reports


def _is_final(reports: Sequence[KernelReport]) -> bool:
    """Whether another run would find the same: what was not read may be read by a disassembler."""
    return not any(report.unread for report in reports) and not is_cut_short()


def _source_state(file: str) -> _FileState | None:
    """The state of a source that may be read; --source-root makes others so."""
    return _state_of(file) if is_named(file) else None


def _state_of(file: str) -> _FileState | None:
    try:
        status = os.stat(file)
    except (OSError, ValueError):
        return None
    return status.st_size, status.st_mtime_ns


@functools.cache
def _rules_state() -> tuple[tuple[str, _FileState], ...]:
    """The files of rules that ship with kinspect, with their states."""
    folder = bundled_folder()
    names = sorted(name for name in os.listdir(folder) if name.endswith(".yaml"))
    states = ((name, _state_of(os.path.join(folder, name))) for name in names)
    return tuple((name, state) for name, state in states if state is not None)


def _digest(*parts: bytes) -> bytes:
    from hashlib import blake2b  # loads OpenSSL

    return blake2b(b"".join(parts), digest_size=_CHECKSUM_BYTES).digest()


@functools.cache
def _package_state() -> tuple[int, int, int]:
    """Number, bytes and latest change of the package's files: another state, other reports."""
    number = size = latest = 0
    for folder, _, names in os.walk(Path(__file__).parent.parent):
        for name in names:
            if name.endswith((".py", ".yaml")):
                with contextlib.suppress(OSError):
                    status = os.stat(os.path.join(folder, name))
                    number, size = number + 1, size + status.st_size
                    latest = max(latest, status.st_mtime_ns)
    return number, size, latest


@functools.cache
def _decoder() -> msgspec.msgpack.Decoder[_Stored]:
    return msgspec.msgpack.Decoder(_Stored)


def _read(place: Path) -> _Stored | None:
    """The reports that are kept there; None where there are none, or they are damaged."""
    try:
        data = file_bytes(place)
    except OSError:
        return None
    checksum, encoded = data[:_CHECKSUM_BYTES], data[_CHECKSUM_BYTES:]
    if _digest(encoded) != checksum:
        return None
    try:
        return _decoder().decode(encoded)
    except msgspec.MsgspecError:
        return None


def _write(place: Path, reports: Sequence[KernelReport], judged: _Judged | None) -> None:
    """Keeps reports. They are not synced to the disk: a damaged file is noticed by its checksum."""
    bare = [replace(report, findings=(), leads=(), artifacts={}) for report in reports]
    temporary = place.with_name(f"{place.name}.{os.getpid()}")
    try:
        encoded = msgspec.msgpack.encode(_Stored(bare, judged))
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(temporary, "xb") as stream:
            stream.write(_digest(encoded) + encoded)
        temporary.replace(place)
    except (OSError, TypeError, ValueError, OverflowError):
        with contextlib.suppress(OSError):
            temporary.unlink()
