"""`.kinspect` files: a report and its artifacts in one zip, itself a target.

Layout: `report.json` (JSON report, schema version 1) and `artifacts/<sha256>` for each artifact.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from ..base import limits
from ..base.errors import KinspectError
from ..base.named_files import file_bytes
from ..base.writing import replacing, sha256_of, unwritable
from ..model import Artifact, Report
from . import json_write as json_v1
from .json_read import Fits, SavedReport

_REPORT = "report.json"
_ARTIFACTS = "artifacts/"
_AGAIN = "make it again with --save"
_COPY_AGAIN = "make or copy the file again"
_PIECE = 1 << 20


def save(report: Report, path: Path) -> None:
    """Writes the archive; an existing file is replaced only once the new one is complete.

    Raises:
        KinspectError: the place cannot be written, or an artifact has gone from the store.
    """
    if path.exists() and not path.is_file():
        raise KinspectError(f"{path}: not a regular file", "check --save")
    text = io.StringIO()
    json_v1.write(report, text)
    artifacts = {a.sha256: a for k in report.kernels for a in k.artifacts.values()}
    try:
        with replacing(path) as raw, zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as out:
            out.writestr(_REPORT, text.getvalue().encode("utf-8", "backslashreplace"))
            for digest in sorted(artifacts):
                out.writestr(_ARTIFACTS + digest, _content(artifacts[digest], path))
    except OSError as error:
        raise unwritable(path, error, "check --save") from None


def _content(artifact: Artifact, archive: Path) -> bytes:
    """An artifact as it was when it was reported on."""
    failed = f"{archive}: cannot be written: {artifact.path}"
    try:
        data = file_bytes(artifact.path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise KinspectError(f"{failed} cannot be read ({reason})", "run again") from None
    if hashlib.sha256(data).hexdigest() != artifact.sha256:
        raise KinspectError(f"{failed} has changed since it was read", "run again")
    return data


def opened(
    path: Path, cache: Path, kinds: frozenset[str] | None = None, fits: Fits | None = None
) -> SavedReport:
    """Opens an archive; its artifacts of these kinds are laid out by sha256 under `cache`, checked.

    Raises:
        KinspectError: it is not such an archive, or is damaged.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            text = _zip_member(archive, archive.getinfo(_REPORT), str(path))
            report = SavedReport.open(text, str(path), cache, kinds, fits)
            unpacked: set[str] = set()
            needed = report.digests()
            budget = limits.artifact_budget(str(path), path.stat().st_size)
            for info in archive.infolist():
                digest = info.filename.removeprefix(_ARTIFACTS)
                if info.filename.startswith(_ARTIFACTS) and digest in needed:
                    _unpack(archive, info, cache, path, budget)
                    unpacked.add(digest)
            # A file of an earlier run is used only if its content is right.
            for digest in report.digests() - unpacked:
                _drop_if_changed(cache / digest, digest)
            return report
    except KeyError:
        raise KinspectError(f"{path}: no {_REPORT} in it", _AGAIN) from None
    except (zipfile.BadZipFile, OSError, NotImplementedError, ValueError) as error:
        # ValueError: names and dates of its table of contents that Python cannot make sense of.
        raise KinspectError(f"{path}: not a readable .kinspect archive ({error})", _AGAIN) from None


def _drop_if_changed(file: Path, digest: str) -> None:
    if file.is_file() and sha256_of(file) != digest:
        file.unlink()


def _unpack(
    archive: zipfile.ZipFile,
    info: zipfile.ZipInfo,
    cache: Path,
    path: Path,
    budget: limits.InflationBudget,
) -> None:
    """Unpacks an artifact to `cache`, unless it is there; checks its digest in either case."""
    digest = info.filename.removeprefix(_ARTIFACTS)
    file = cache / digest
    hasher = hashlib.sha256()
    pieces = _zip_pieces(archive, info, str(path), budget)
    try:
        if file.is_file() and sha256_of(file) == digest:
            for piece in pieces:
                hasher.update(piece)
            _check(hasher.hexdigest(), digest, path)
            return
        cache.mkdir(parents=True, exist_ok=True)
        with replacing(file) as out:
            for piece in pieces:
                hasher.update(piece)
                out.write(piece)
            _check(hasher.hexdigest(), digest, path)
    except OSError as error:
        raise unwritable(
            f"the cache folder {cache}",
            error,
            "set KINSPECT_CACHE_DIR to a folder that can be written",
        ) from None


def _check(actual: str, digest: str, path: Path) -> None:
    if actual != digest:
        raise KinspectError(f"{path}: artifact {digest[:12]} is damaged", _AGAIN)


def _zip_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> bytes:
    return b"".join(_zip_pieces(archive, member, name, limits.budget(name, member.compress_size)))


def _zip_pieces(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str, counted: limits.InflationBudget
) -> Iterator[bytes]:
    """Reads one file of a zip in pieces, which need not be held together."""
    if member.flag_bits & 1:
        raise KinspectError(f"{name}: {_short(member.filename)} is encrypted", _COPY_AGAIN)
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        # The others' modules inflate what they are given at one go, however much it is.
        method = f"method {member.compress_type}"
        raise KinspectError(
            f"{name}: {_short(member.filename)} is compressed by {method}, not deflated",
            _COPY_AGAIN,
        )
    try:
        with archive.open(member) as stream:
            while piece := stream.read(_PIECE):
                counted.take(len(piece))
                yield piece
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise KinspectError(
            f"{name}: {_short(member.filename)} is damaged ({error or type(error).__name__})",
            _COPY_AGAIN,
        ) from None


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
