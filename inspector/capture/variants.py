"""Turns the guest's records of specialisations into variants."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from typing import Any

from ..model import (
    Assumption,
    EmulatedValue,
    Parameter,
    Passed,
    PassedMemory,
    SourceLoc,
    Variant,
)


def variant_of(fields: Mapping[str, Any], triton_version: str | None) -> Variant:
    """The variant that a record describes.

    Args:
        fields: the guest's record.
        triton_version: version of the Triton that made it.
    """
    grid, site = fields.get("grid"), fields.get("call_site")
    return Variant(
        kernel=fields["kernel"],
        arch=fields["arch"],
        wave_size=fields["wave_size"],
        ttir=fields["ttir"],
        stage=fields.get("stage", "ttir"),
        options=fields["options"],
        signature=fields["signature"],
        constexprs=fields["constexprs"],
        attrs=fields["attrs"],
        source=SourceLoc(fields["file"], fields["line"]) if fields.get("file") else None,
        qualname=fields["qualname"],
        case=fields["case"],
        grid=tuple(grid) if grid is not None else None,
        call_site=SourceLoc(site["file"], site["line"]) if site else None,
        triton_version=triton_version,
        tuning=fields.get("tuning"),
        launches=fields.get("launches"),
        notes=tuple(fields.get("notes") or ()),
        assumptions=tuple(map(_assumption, fields.get("assumptions") or ())),
        emulated=tuple(map(_emulated, fields.get("emulated") or ())),
        unspecialised=fields.get("unspecialised"),
        values=fields.get("values"),
        generator=fields.get("generator"),
        passed=_passed(fields.get("passed")),
    )


def _passed(fields: Mapping[str, Any] | None) -> Passed | None:
    """The recorded arguments of a launch (`guest/launches/argument_records.py`)."""
    if fields is None:
        return None
    return Passed(
        tuple(Parameter(kind, value) for kind, value in fields["parameters"]),
        tuple(
            PassedMemory(m["address"], m["size"], m["dtype"], _inflated(m["contents"], m["size"]))
            for m in fields["memories"]
        ),
    )


def _inflated(contents: str | None, size: int) -> bytes | None:
    """Inflates base64 text from the guest; None unless it has exactly `size` bytes."""
    if contents is None:
        return None
    inflated = zlib.decompressobj().decompress(base64.b64decode(contents), size)
    return inflated if len(inflated) == size else None


def _assumption(fields: Mapping[str, Any]) -> Assumption:
    file, line = fields.get("file"), fields.get("line")
    source = SourceLoc(file, line) if file and line else None
    explored = bool(fields.get("explored"))
    return Assumption(
        str(fields["what"]),
        str(fields["assumed"]),
        source,
        explored=explored,
        reason=fields.get("reason"),
    )


def _emulated(fields: Mapping[str, Any]) -> EmulatedValue:
    source = SourceLoc(fields["file"], fields["line"])
    return EmulatedValue(str(fields["what"]), str(fields["value"]), source)
