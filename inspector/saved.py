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

from kinspect.inspector import limits
from kinspect.inspector.errors import KinspectError
from kinspect.inspector.model import Report
from kinspect.inspector.render import json_v1
from kinspect.inspector.render.json_read import SavedReport

_REPORT = "report.json"
_ARTIFACTS = "artifacts/"
_AGAIN = "make it again with --save"


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
            out.writestr(_REPORT, text.getvalue().encode("utf-8", "backslashreplace"))
            for digest in sorted(artifacts):
                out.write(artifacts[digest].path, _ARTIFACTS + digest)
        Path(temporary).replace(path)
    except OSError as error:
        raise KinspectError(
            f"{path}: cannot be written ({error})", "run again, or free space"
        ) from None
    finally:
        Path(temporary).unlink(missing_ok=True)


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
            text = limits.zip_member(archive, archive.getinfo(_REPORT), str(path))
            report = SavedReport.open(text, str(path), cache, kinds)
            wanted = report.digests()
            for info in archive.infolist():
                digest = info.filename.removeprefix(_ARTIFACTS)
                if info.filename.startswith(_ARTIFACTS) and digest in wanted:
                    _unpack(archive, info, cache, path)
            return report
    except KeyError:
        raise KinspectError(f"{path}: no {_REPORT} in it", _AGAIN) from None
    except (zipfile.BadZipFile, OSError, NotImplementedError, ValueError) as error:
        # ValueError: names and dates of its table of contents that Python cannot make sense of.
        raise KinspectError(f"{path}: not a readable .kinspect archive ({error})", _AGAIN) from None


def _unpack(archive: zipfile.ZipFile, info: zipfile.ZipInfo, cache: Path, path: Path) -> None:
    digest = info.filename.removeprefix(_ARTIFACTS)
    data = limits.zip_member(archive, info, str(path))
    if hashlib.sha256(data).hexdigest() != digest:
        raise KinspectError(f"{path}: artifact {digest[:12]} is damaged", _AGAIN)
    place = cache / digest
    if place.exists():
        return
    cache.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=cache)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
        Path(temporary).replace(place)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
