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
from . import json_brief
from .json_write import SCHEMA_VERSION, UNWRITTEN

FOLDER = Path(__file__).parent
_Schema = dict[str, Any]
_COMPATIBILITY = (
    "Within a version keys are only added. Readers ignore keys they do not know."
    " null means unknown, never 0."
)
_ARGUMENTS = re.compile(r"^    ([a-z_][\w, ]*): (.*(?:\n {8}.*)*)", re.MULTILINE)
_SOMETIMES: Final[Mapping[type[Struct], tuple[str, ...]]] = MappingProxyType(
    {Finding: ("fix_is_trials",)}  # only with what was tried
)
_DEFAULT_FACTORIES: Final[Collection[object]] = (list, dict, set, tuple)
"""Factories of values that count as defaults."""
_BRIEF_KINDS: Final = (Finding, KernelTime, LoopReport, Metric, SourceLoc, Unread, ErrorRecord)
_TEXTS: Final = MappingProxyType({"type": "array", "items": {"type": "string"}})


def report_schema() -> _Schema:
    """The schema of a report with details."""
    definitions = _definitions((KernelReport, ErrorRecord))
    return _document("with details", _COMPATIBILITY, definitions, details=True)


def brief_schema() -> _Schema:
    """The schema of a report without details (`json_brief.py`)."""
    kernel = _definitions((KernelReport,))["KernelReport"]
    definitions = _without_details(_definitions(_BRIEF_KINDS))
    definitions["KernelReport"] = {
        **kernel,
        "required": [
            *(n for n in json_brief.FIELDS if n not in json_brief.OPTIONAL_FIELDS),
            "variant",
        ],
        "properties": {
            **{name: kernel["properties"][name] for name in json_brief.FIELDS},
            "variant": {"type": ["object", "null"], "description": "Parts of the variant."},
            "left_out": _left_out_schema(),
        },
        "additionalProperties": False,
    }
    limits = f"At most {json_brief.MOST_BYTES:,} bytes a kernel. {_COMPATIBILITY}"
    return _document("without details", limits, definitions, details=False)


def _without_details(definitions: _Schema) -> _Schema:
    """The definitions without what a brief report leaves out, and what only that refers to."""
    for kind, names in json_brief.LEFT_OUT_OF.items():
        definition = definitions[kind.__name__]
        for name in names:
            del definition["properties"][name]
        definition["required"] = [name for name in definition["required"] if name not in names]
    for name, optional in (("LoopReport", "metrics"), ("Metric", "origin")):
        definitions[name]["required"].remove(optional)
        definitions[name]["additionalProperties"] = False
    references = json.dumps(definitions)
    named = {kind.__name__ for kind in _BRIEF_KINDS}
    return {
        name: definition
        for name, definition in definitions.items()
        if name in named or f'/{name}"' in references
    }


def _left_out_schema() -> _Schema:
    return {
        "type": "object",
        "description": "What did not fit: names of parts of the variant, and numbers of the rest.",
        "properties": {
            "variant": dict(_TEXTS),
            **{name: {"type": "integer", "minimum": 1} for name in json_brief.COUNTS},
        },
        "additionalProperties": False,
    }


def _document(title: str, description: str, definitions: _Schema, *, details: bool) -> _Schema:
    """The schema of a whole report."""
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
    """The schema of a struct as it is written, with what its docstring says of it."""
    summary, _, _ = (inspect.getdoc(kind) or "").partition("\n\nArgs:")
    meanings = field_meanings(kind)
    properties = {}
    for field in structs.fields(kind):
        if field.name not in UNWRITTEN.get(kind, ()):
            entry = schema["properties"][field.encode_name]
            meaning = {"description": meanings[field.name]} if field.name in meanings else {}
            properties[field.encode_name] = {
                **{key: value for key, value in entry.items() if key != "default"},
                **meaning,
            }
    return {
        "type": "object",
        "description": " ".join(summary.split()),
        "required": [name for name in _always(kind) if name in properties],
        "properties": properties,
    }


def field_meanings(kind: type[Struct]) -> dict[str, str]:
    """What a struct's docstring says of its fields.

    Raises:
        ValueError: it describes something that is no field.
    """
    meanings = {
        name: " ".join(text.split())
        for names, text in _ARGUMENTS.findall(inspect.getdoc(kind) or "")
        for name in names.split(", ")
    }
    if unknown := meanings.keys() - {field.name for field in structs.fields(kind)}:
        raise ValueError(f"{kind.__name__} has no fields {', '.join(sorted(unknown))}")
    return meanings


def _always(kind: type[Struct]) -> Iterator[str]:
    """The keys that are written whatever the values."""
    for field in structs.fields(kind):
        is_left_out = field.default is not NODEFAULT or field.default_factory in _DEFAULT_FACTORIES
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
    """A schema, each key and each definition in a line of its own."""
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
