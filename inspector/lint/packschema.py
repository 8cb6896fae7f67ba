"""The JSON Schema of a pack, for editors; made from what packs are read into."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from msgspec import structs

from ..model import Trials
from .pack_reader import ID, TAG
from .rule import Cure, Override, PackText, Reference, Removes, RuleText

_SHAPES: Mapping[type, str] = MappingProxyType(
    {
        RuleText: "rule",
        Reference: "reference",
        Override: "override",
        Trials: "trials",
        Cure: "cure",
        Removes: "removes",
    }
)
_PLAIN: Mapping[type, str] = MappingProxyType({str: "string", bool: "boolean"})
_PATTERNS: Mapping[tuple[type, str], str] = MappingProxyType({(RuleText, "id"): f"^{ID}$"})
_ITEM_PATTERNS: Mapping[tuple[type, str], str] = MappingProxyType({(RuleText, "tags"): f"^{TAG}$"})
_ARGUMENT = re.compile(r"^    (\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)


def pack_schema() -> dict[str, Any]:
    """The schema. What it cannot express, such as which metrics exist, is checked on loading."""
    rules = {"type": "array", "items": {"$ref": "#/definitions/rule"}}
    pack = _object(PackText)
    pack["anyOf"] = [{"required": ["rules"]}, {"required": ["extends"]}]
    rule = _object(RuleText)
    rule["dependencies"] = {
        "cured_together": {"properties": {"scope": {"enum": ["loop", "instruction"]}}},
        "untimed": ["removes"],
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "A rule pack of kinspect",
        "oneOf": [pack, rules],
        "definitions": {
            "rule": rule,
            "reference": _object(Reference),
            "override": _object(Override),
            "trials": _object(Trials),
            "cure": _object(Cure),
            "removes": _object(Removes),
        },
    }


def _object(shape: type[Any]) -> dict[str, Any]:
    """Returns the JSON schema of a struct; descriptions are those of its docstring's `Args`."""
    hints = typing.get_type_hints(shape)
    documentation = inspect.getdoc(shape) or ""
    meanings = {name: " ".join(text.split()) for name, text in _ARGUMENT.findall(documentation)}
    properties = {}
    for field in structs.fields(shape):
        entry = _type(hints[field.name])
        if (shape, field.name) in _PATTERNS:
            entry["pattern"] = _PATTERNS[shape, field.name]
        if (shape, field.name) in _ITEM_PATTERNS:
            entry["items"]["pattern"] = _ITEM_PATTERNS[shape, field.name]
        if (shape, field.name) == (RuleText, "references"):
            entry["items"] = {"anyOf": [entry["items"], {"type": "string"}]}
        if field.name in meanings:
            entry["description"] = meanings[field.name]
        if isinstance(field.default, str | bool) and field.default != "":
            entry["default"] = field.default
        properties[field.name] = entry
    required = [f.name for f in structs.fields(shape) if f.required]
    schema: dict[str, Any] = {
        "type": "object",
        "description": documentation.split("\n\n")[0].replace("\n", " "),
        "properties": properties,
        "additionalProperties": False,
    }
    return schema | ({"required": required} if required else {})


def _type(hint: Any) -> dict[str, Any]:
    if hint is int:
        return {"type": "integer", "minimum": 0}
    if hint is float:
        return {"type": "number", "exclusiveMinimum": 0}
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    if hint in _SHAPES:
        return {"$ref": f"#/definitions/{_SHAPES[hint]}"}
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin is tuple:
        return {"type": "array", "items": _type(arguments[0])}
    if origin in (typing.Union, types.UnionType):
        # A key that may be left out, or be null in YAML.
        choices = [{"type": "null"} if a is type(None) else _type(a) for a in arguments]
        return {"anyOf": choices}
    return {"type": "object", "additionalProperties": _type(arguments[1])}  # a Mapping
