"""Reading the JSON report back, of `schema_version` 1 or 2.

A saved sweep holds thousands of kernels, each of some hundred kilobytes: the text is cut into
kernels first, and each is read when it is asked for, into the model's own structs: msgspec holds
it against their types.

What the parts of a kernel say of its loops: a saved report may say anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, convert, msgpack
from msgspec.structs import replace

from ..base.documents import json_value
from ..base.errors import KinspectError
from ..base.printable import printable
from ..model import (
    ErrorRecord,
    Finding,
    KernelReport,
    LivePeak,
    LoopReport,
    Metric,
    MetricValue,
    Report,
    Variant,
)
from ..model.numbers import Digest
from .json_write import SCHEMA_VERSION, UNWRITTEN

_FINGERPRINT = re.compile(r"[0-9a-f]{16}")
_LOOP = re.compile(r"L[0-9]{1,9}")


def check_references(kernel: KernelReport) -> None:
    """Checks ids and fingerprints, which commands name, and what names loops.

    Loops have different ids and nest, and all that names a loop names one of them.

    Raises:
        ValueError: what is wrong, in words.
    """
    for finding in kernel.facts:
        if not _FINGERPRINT.fullmatch(finding.fingerprint):
            raise ValueError(f"{finding.fingerprint[:60]!r} is not a fingerprint of a finding")
    depths = _depths(kernel.loops)
    for part, ids in _named_loops(kernel):
        for name in ids:
            if name is not None and name not in depths:
                raise ValueError(f"{part} names loop {name[:60]!r}, which there is not")


def _depths(loops: Iterable[LoopReport]) -> dict[str, int]:
    """The depth of each loop; of parents it is one less, so that none lies in itself."""
    depths: dict[str, int] = {}
    for loop in loops:
        if not _LOOP.fullmatch(loop.id):
            raise ValueError(f"{loop.id[:60]!r} is not an id of a loop")
        if loop.id in depths:
            raise ValueError(f"there are two loops {loop.id[:60]!r}")
        depths[loop.id] = loop.depth
    for loop in loops:
        around = 0 if loop.parent is None else depths.get(loop.parent)
        if around is None or loop.depth != around + 1:
            parent = repr(loop.parent[:60]) if loop.parent is not None else "none"
            raise ValueError(f"loop {loop.id[:60]!r} of depth {loop.depth} in {parent}")
    return depths


def _named_loops(kernel: KernelReport) -> Iterator[tuple[str, Iterable[str | None]]]:
    """Yields the parts of a kernel that name loops, each with the different ids."""
    yield "main_loop", (kernel.main_loop,)
    yield "memory_ops", {op.loop for op in kernel.memory_ops}
    yield "waits", {wait.loop for wait in kernel.waits}
    yield "accesses", {access.loop for access in kernel.accesses}
    yield "spills", {loop for slot in kernel.spills for loop in slot.loops}
    yield "spilled_values", {loop for value in kernel.spilled_values for loop in value.loops}
    yield (
        "spilled_values",
        {traffic.loop for value in kernel.spilled_values for traffic in value.by_loop},
    )
    yield "untouched", {values.loop for values in kernel.untouched}
    yield "measured_lines", {line.loop for line in kernel.measured_lines}
    if kernel.live_peak is not None:
        yield "live_peak", (kernel.live_peak.loop,)


_READ_VERSIONS = (1, SCHEMA_VERSION)
_AGAIN = "make it again with `kinspect analyze --format json --details`, or --save"
_DAMAGE = (KeyError, TypeError, AttributeError, ValueError, RecursionError, OverflowError)
_UNFIT = "the saved report states a figure that this metric cannot have"
Fits = Callable[[Metric], bool]
"""Whether a metric can have its figure, by the catalogue of metrics."""


msgpack.Decoder(KernelReport, dec_hook=lambda kind, value: value)
"""Two threads that are the first to convert to a Struct end the process (msgspec 0.22)."""


class _Heading(Struct):
    """A report without its kernels."""

    target: str
    tool: dict[str, str]
    errors: tuple[ErrorRecord, ...]
    notes: tuple[str, ...] = ()


class _Stated(Struct):
    sha256: Digest


class _WithArtifacts(Struct):
    """What of a kernel says which artifacts it has."""

    artifacts: Mapping[str, _Stated]


class SavedReport(Struct, frozen=True):
    """A saved report whose kernels are read one by one.

    Args:
        folder: where its artifacts lie by sha256, if they came with it.
        kinds: which of them; None: all.
        fits: what tells of metrics whether they are to be believed; None: they are.
        entries: the kernels: JSON texts, or values where the text had to be read as a whole.
    """

    name: str
    target: str
    tool: Mapping[str, str]
    errors: tuple[ErrorRecord, ...]
    notes: tuple[str, ...]
    folder: Path | None
    entries: Sequence[Any]
    kinds: frozenset[str] | None = None
    fits: Fits | None = None

    @classmethod
    def open(
        cls,
        text: str | bytes,
        name: str,
        folder: Path | None = None,
        kinds: frozenset[str] | None = None,
        fits: Fits | None = None,
    ) -> SavedReport:
        """Reads all but the kernels; arguments and errors as for `read`."""
        data = _cut(text)
        if data is None:
            hint = "pass a report made by kinspect"
            data = json_value(text, name, hint, infinite_as_text=True)  # of older versions
        version = data.get("schema_version") if isinstance(data, dict) else None
        if version not in _READ_VERSIONS or not isinstance(data, dict):
            raise KinspectError(
                f"{name}: not a kinspect report of schema version 1 or {SCHEMA_VERSION}"
                f" (found {version!r})",
                _AGAIN,
            )
        if data.get("details") is False:
            raise KinspectError(f"{name}: a report without details", _AGAIN)
        try:
            entries = tuple(convert(data.pop("kernels"), list[Any]))  # each is read when asked for
            data = _clean(data)
            _drop_unwritten(ErrorRecord, data["errors"])
            heading = convert(data, _Heading)
        except _DAMAGE as error:
            raise _damaged(name, error) from None
        stated = (heading.target, heading.tool, heading.errors, heading.notes)
        return cls(name, *stated, folder, entries, kinds, fits)

    def report(self) -> Report:
        """Returns the complete report."""
        return Report(self.target, self.tool, tuple(self.kernels()), self.errors, self.notes)

    def kernels(self) -> Iterator[KernelReport]:
        """Yields the kernels in order.

        Raises:
            KinspectError: one is damaged; those before it have been yielded.
        """
        for entry in self.entries:
            yield self._kernel(entry)

    def digests(self) -> set[str]:
        """Returns the sha256 of the artifacts that its kernels name."""
        from msgspec import Raw, json

        if self.folder is None:
            return set()
        digests: set[str] = set()
        for entry in self.entries:
            try:
                kernel = (
                    json.decode(entry, type=_WithArtifacts)
                    if isinstance(entry, Raw)
                    else convert(entry, _WithArtifacts)
                )
            except _DAMAGE as error:
                raise _damaged(self.name, error) from None
            digests.update(
                stated.sha256
                for kind, stated in kernel.artifacts.items()
                if self.kinds is None or kind in self.kinds
            )
        return digests

    def _kernel(self, entry: Any) -> KernelReport:
        try:
            kernel = convert(_completed(_values(entry), self.folder), KernelReport, dec_hook=_path)
            check_references(kernel)
            mappings = _share(kernel.metrics, self.fits)
            for loop in kernel.loops:
                mappings += _share(loop.metrics, self.fits)
            _check_numbers(kernel, mappings)
        except _DAMAGE as error:
            raise _damaged(self.name, error) from None
        kernel = replace(kernel, saved_in=self.name)
        if not kernel.artifacts:
            return kernel
        artifacts = {
            kind: artifact
            for kind, artifact in kernel.artifacts.items()
            if self.folder is not None and (self.kinds is None or kind in self.kinds)
        }
        return replace(kernel, artifacts=artifacts)


def _check_numbers(kernel: KernelReport, mappings: Sequence[MetricValue]) -> None:
    """Holds whole numbers to 64 bits: MessagePack has no others, and is faster than a walk."""
    places = [(loop.unroll, loop.source) for loop in kernel.loops]
    rest = replace(kernel, variant=None, metrics={}, loops=())
    msgpack.encode((mappings, places, rest), enc_hook=str)


def _values(entry: Any) -> Any:
    from msgspec import Raw, json

    if not isinstance(entry, Raw):
        return _clean(entry)
    data = bytes(entry)
    value = json.decode(data)
    # Only what is spelled out or is not ASCII can steer: most texts need no second look.
    return value if data.isascii() and b"\\" not in data and b"\x7f" not in data else _clean(value)


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable(key): _clean(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return value


def _cut(text: str | bytes) -> dict[str, Any] | None:
    """A document's top-level values, its kernels as texts; None if that cannot be had so."""
    from msgspec import DecodeError, Raw, json

    try:
        top = json.decode(text, type=dict[str, Raw])
        kernels = json.decode(top.pop("kernels"), type=list[Raw])
        data: dict[str, Any] = {key: json.decode(value) for key, value in top.items()}
    except (DecodeError, UnicodeError, KeyError, RecursionError):
        return None
    data["kernels"] = kernels
    return data


def _damaged(name: str, error: Exception) -> KinspectError:
    return KinspectError(f"{name}: damaged report ({type(error).__name__}: {error})", _AGAIN)


def _completed(kernel: Any, folder: Path | None) -> Any:
    """A kernel's values with those of `UNWRITTEN` that follow from others, and no other of them."""
    if not isinstance(kernel, dict):
        return kernel
    _drop_unwritten(Finding, [*_items(kernel.get("findings")), *_items(kernel.get("leads"))])
    _drop_unwritten(LivePeak, [kernel.get("live_peak")])
    _drop_unwritten(Variant, [variant := kernel.get("variant")])
    if isinstance(variant, dict):
        variant |= {"kernel": kernel.get("name"), "arch": kernel.get("arch") or "", "ttir": ""}
    for of in (kernel, *_items(kernel.get("loops"))):
        for name, metric in _named(of.get("metrics") if isinstance(of, dict) else None):
            metric["name"] = name
    for kind, artifact in _named(kernel.get("artifacts")):
        artifact |= {"kind": kind, "path": folder and str(folder / str(artifact.get("sha256")))}
    return kernel


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _named(value: Any) -> Iterable[tuple[str, dict[str, Any]]]:
    pairs = value.items() if isinstance(value, dict) else ()
    return ((name, item) for name, item in pairs if isinstance(item, dict))


def _drop_unwritten(kind: type[Struct], values: Iterable[Any]) -> None:
    """Removes what no report has from JSON values of a struct."""
    for value in values:
        if isinstance(value, dict):
            for name in UNWRITTEN[kind]:
                value.pop(name, None)


def _path(kind: type, value: Any) -> Path:
    """The only type that JSON lacks: where an artifact lies."""
    return Path(value or "")


def _share(metrics: Mapping[str, Metric], fits: Fits | None) -> list[MetricValue]:
    """Makes equal figures of all kernels one object, as are their names; unknown what does not fit.

    Of thousands of kernels most figures are equal: this halves what a report takes in memory.
    Returns the values that are mappings.
    """
    mappings: list[MetricValue] = []
    assert isinstance(metrics, dict)  # it was read a moment ago
    for name, metric in metrics.items():
        value = metric.value
        if type(value) is dict:
            if fits is None or fits(metric):
                mappings.append(value)
            else:
                metrics[name] = _unknown(metric)
            continue
        key = type(value), metric, fits
        known = _KNOWN_METRICS.get(key)
        if known is None:
            if len(_KNOWN_METRICS) >= _MOST_KNOWN_METRICS:
                _KNOWN_METRICS.clear()
            known = metric if fits is None or fits(metric) else _unknown(metric)
            _KNOWN_METRICS[key] = known
        metrics[name] = known
    return mappings


def _unknown(metric: Metric) -> Metric:
    return replace(metric, value=None, note=_UNFIT)


_KNOWN_METRICS: Final[dict[tuple[type, Metric, Fits | None], Metric]] = {}
_MOST_KNOWN_METRICS: Final = 1 << 14
