"""The JSON schemas of reports, made from the model's types and docstrings.

`python -m kinspect.inspector.report.schema` writes them beside this file.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from msgspec import NODEFAULT, Struct, structs
from msgspec.json import schema_components

from .. import model
from ..base.writing import replacing
from ..model import (
    ErrorRecord,
    Finding,
    KernelReport,
    KernelTime,
    LoopReport,
    Metric,
    SourceLoc,
    Unread,
)
from .json_write import SCHEMA_VERSION, UNWRITTEN

FOLDER = Path(__file__).parent
_Schema = dict[str, Any]
_DETAILS = "keys are only added. Readers ignore keys they do not know. null means unknown, never 0."
_ARGUMENTS = re.compile(r"^    ([a-z_][\w, ]*): (.*(?:\n {8}.*)*)", re.MULTILINE)
_SOMETIMES: Final[Mapping[type[Struct], tuple[str, ...]]] = MappingProxyType(
    {Finding: ("fix_is_trials",)}  # only with what was tried
)
_BRIEF_KERNEL = (
    *("id", "name", "arch", "source", "metrics", "loops", "main_loop", "findings", "leads"),
    *("notes", "unread", "time", "no_time"),
)
_BRIEF_OPTIONAL = ("leads", "unread", "time", "no_time")
_TEXTS: Final = MappingProxyType({"type": "array", "items": {"type": "string"}})


def report_schema() -> _Schema:
    """The schema of a report with details."""
    definitions = _definitions((KernelReport, ErrorRecord))
    return _document("with details", f"Within a version {_DETAILS}", True, definitions)


def brief_schema() -> _Schema:
    """The schema of a report without details (`json_brief.py`)."""
    kernel = _definitions((KernelReport,))["KernelReport"]
    definitions = _definitions(
        (Finding, KernelTime, LoopReport, Metric, SourceLoc, Unread, ErrorRecord)
    )
    for name, optional in (("LoopReport", "metrics"), ("Metric", "origin")):
        definitions[name]["required"].remove(optional)
        definitions[name]["additionalProperties"] = False
    del definitions["Metric"]["properties"]["note"]
    del definitions["Metric"]["properties"]["positions"], definitions["CodePosition"]
    definitions["KernelTime"]["required"].remove("instructions")
    del definitions["KernelTime"]["properties"]["instructions"], definitions["InstructionTime"]
    counts = ("loops", "metrics_of_loops", "findings", "leads", "notes")
    left_out = {
        "type": "object",
        "description": "What did not fit: names of parts of the variant, and numbers of the rest.",
        "properties": {
            "variant": dict(_TEXTS),
            **{name: {"type": "integer", "minimum": 1} for name in counts},
        },
        "additionalProperties": False,
    }
    definitions["KernelReport"] = {
        **kernel,
        "required": [*(n for n in _BRIEF_KERNEL if n not in _BRIEF_OPTIONAL), "variant"],
        "properties": {
            **{name: kernel["properties"][name] for name in _BRIEF_KERNEL},
            "variant": {"type": ["object", "null"], "description": "Parts of the variant."},
            "left_out": left_out,
        },
        "additionalProperties": False,
    }
    limits = f"At most 20,000 bytes a kernel. Within a version {_DETAILS}"
    return _document("without details", limits, False, definitions)


def _document(title: str, description: str, details: bool, definitions: _Schema) -> _Schema:
    properties = {
        "schema_version": {"const": SCHEMA_VERSION},
        "details": {"const": details},
        "tool": {
            "type": "object",
            "required": ["name", "version"],
            "additionalProperties": {"type": "string"},
        },
        "target": {"type": "string", "description": "As given on the command line."},
        "errors": {"type": "array", "items": {"$ref": "#/$defs/ErrorRecord"}},
        "notes": {**_TEXTS, "description": "About the run as a whole."},
        "kernels": {"type": "array", "items": {"$ref": "#/$defs/KernelReport"}},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"kinspect report {title}, schema version {SCHEMA_VERSION}",
        "description": description,
        "type": "object",
        "required": list(properties),
        "properties": properties,
        "$defs": definitions,
    }


def _definitions(kinds: Sequence[type[Struct]]) -> _Schema:
    """The schemas of structs and of those in them, by name, as they are written."""
    _, definitions = schema_components(
        kinds, ref_template="#/$defs/{name}", schema_hook=lambda _: {"type": "string"}
    )
    return {name: _written(getattr(model, name), each) for name, each in definitions.items()}


def _written(kind: type[Struct], schema: _Schema) -> _Schema:
    documentation = inspect.getdoc(kind) or ""
    summary, _, _ = documentation.partition("\n\nArgs:")
    meanings = {
        name: " ".join(text.split())
        for names, text in _ARGUMENTS.findall(documentation)
        for name in names.split(", ")
    }
    properties = {}
    for field in structs.fields(kind):
        if field.name not in UNWRITTEN.get(kind, ()):
            entry = schema["properties"][field.encode_name]
            entry.pop("default", None)
            meaning = {"description": meanings[field.name]} if field.name in meanings else {}
            properties[field.encode_name] = entry | meaning
    return {
        "type": "object",
        "description": " ".join(summary.split()),
        "required": [name for name in _always(kind) if name in properties],
        "properties": properties,
    }


def _always(kind: type[Struct]) -> Iterator[str]:
    """The keys that are written whatever the values."""
    left_out: Collection[object] = (
        list,
        dict,
        set,
        tuple,
    )  # factories of values that count as defaults
    for field in structs.fields(kind):
        is_left_out = field.default is not NODEFAULT or field.default_factory in left_out
        if field.name in _SOMETIMES.get(kind, ()):
            continue
        if not (kind.__struct_config__.omit_defaults and is_left_out):
            yield field.encode_name


def texts() -> dict[str, str]:
    """File name -> contents of each schema, a definition in each line."""
    return {
        "report.schema.json": _text(report_schema()),
        "report_brief.schema.json": _text(brief_schema()),
    }


def _text(schema: _Schema) -> str:
    definitions = schema.pop("$defs")
    head = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in schema.items()]
    lines = [f"  {json.dumps(name)}: {json.dumps(each)}" for name, each in definitions.items()]
    return (
        ",\n".join(("{\n" + head[0], *head[1:], ' "$defs": {\n' + ",\n".join(lines))) + "\n }\n}\n"
    )


if __name__ == "__main__":
    for name, contents in texts().items():
        with replacing(FOLDER / name) as stream:
            stream.write(contents.encode())
