"""`.kinspect` files: a report and its artifacts in one zip, itself a target.

Layout: `report.json` (JSON report, schema version 1) and `artifacts/<sha256>` for each artifact.
"""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
import zipfile
from pathlib import Path

from kinspect.inspector.errors import KinspectError
from kinspect.inspector.model import Report
from kinspect.inspector.render import json_v1
from kinspect.inspector.render.json_read import SavedReport

_REPORT = "report.json"
_ARTIFACTS = "artifacts/"
_MOST_BYTES = 4 << 30
"""What a hostile archive may unpack to."""


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
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise KinspectError(
            f"{path}: cannot be written ({error.strerror})", "check --save"
        ) from None
    try:
        with os.fdopen(handle, "wb") as raw, zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as out:
            out.writestr(_REPORT, text.getvalue())
            for digest in sorted(artifacts):
                out.write(artifacts[digest].path, _ARTIFACTS + digest)
        Path(temporary).replace(path)
    except OSError as error:
        Path(temporary).unlink(missing_ok=True)
        raise KinspectError(
            f"{path}: cannot be written ({error})", "run again, or free space"
        ) from None


def load(path: Path, cache: Path) -> Report:
    """Reads an archive; see `opened`."""
    return opened(path, cache).report()


def opened(path: Path, cache: Path, kinds: frozenset[str] | None = None) -> SavedReport:
    """Opens an archive; its artifacts are laid out by sha256 under `cache`, checked.

    Args:
        path: the archive.
        cache: a folder.
        kinds: which artifacts are wanted; None: all.

    Raises:
        KinspectError: it is not such an archive, or is damaged.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(info.file_size for info in archive.infolist()) > _MOST_BYTES:
                raise KinspectError(f"{path}: unpacks to over 4 GiB", "make it again with --save")
            report = SavedReport.open(archive.read(_REPORT), str(path), cache, kinds)
            wanted = report.digests() if kinds is not None else None
            for info in archive.infolist():
                digest = info.filename.removeprefix(_ARTIFACTS)
                named = info.filename.startswith(_ARTIFACTS)
                if named and (wanted is None or digest in wanted):
                    _unpack(archive, info, cache, path)
            return report
    except (
        zipfile.BadZipFile,
        KeyError,
        OSError,
        EOFError,
        NotImplementedError,
        RuntimeError,
    ) as error:
        raise KinspectError(
            f"{path}: not a readable .kinspect archive ({error})", "make it again with --save"
        ) from None


def _unpack(archive: zipfile.ZipFile, info: zipfile.ZipInfo, cache: Path, path: Path) -> None:
    digest = info.filename.removeprefix(_ARTIFACTS)
    data = archive.read(info)
    if hashlib.sha256(data).hexdigest() != digest:
        raise KinspectError(
            f"{path}: artifact {digest[:12]} is damaged", "make it again with --save"
        )
    place = cache / digest
    if place.exists():
        return
    cache.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=cache)
    with os.fdopen(handle, "wb") as out:
        out.write(data)
    Path(temporary).replace(place)
