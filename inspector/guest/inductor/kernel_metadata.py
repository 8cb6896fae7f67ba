"""Reads Inductor's metadata of a kernel's arguments, in each of the forms they have had.

    torch 2.0 - 2.3   meta / triton_meta, signature by index, instance_descriptor(...)
    torch 2.4         the same with triton.compiler's AttrsDescriptor(...)
    torch 2.5, 2.6    signature by name, AttrsDescriptor.from_dict({...})
    torch 2.7 and on  'constexpr' in the signature, configs [{(0,): [['tt.divisibility', 16]]}]

Sources: torch/_inductor/codegen/triton_utils.py and runtime/hints.py of those versions.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..syntax import Construction, LibraryName

DIVISIBLE_BY_16 = ["tt.divisibility", 16]
DESCRIPTOR = ("divisible_by_16", "equal_to_1")
"""The first two parameters of every descriptor class, in order."""
REDUCTION_BLOCK = {"RBLOCK": "R0_BLOCK"}
"""Name of the (first) reduction dimension's block size in torch 2.6 and older -> today's."""


class MetadataError(Exception):
    """Metadata that do not say how to compile a kernel."""


@dataclass(frozen=True)
class KernelArguments:
    """A kernel's arguments as its metadata state them, before its block sizes are chosen.

    Args:
        types: argument -> Triton type, without the constants.
        attributes: position of an argument -> Triton's attributes of it.
    """

    types: Mapping[str, str]
    constants: Mapping[str, Any]
    attributes: Mapping[int, Sequence[Sequence[Any]]]

    def specialised(
        self, names: Sequence[str], values: Mapping[str, Any], defaults: Mapping[str, Any]
    ) -> tuple[dict[str, str], dict[str, Any], dict[tuple[int, ...], Any]]:
        """Signature, constants and attributes as `ASTSource` takes them.

        Raises:
            MetadataError: an argument has neither a type nor a value.
        """
        constants = {**self.constants, **{n: v for n, v in values.items() if n in names}}
        signature: dict[str, str] = {}
        for name in names:
            if name not in constants and name in self.types:
                signature[name] = self.types[name]
                continue
            if name not in constants:
                if name not in defaults:
                    raise MetadataError(f"nothing says what argument {name} is")
                constants[name] = defaults[name]
            signature[name] = "constexpr"
        attributes: dict[tuple[int, ...], Any] = {
            (position,): [list(pair) for pair in pairs]
            for position, pairs in self.attributes.items()
            if position < len(names) and signature[names[position]] != "constexpr"
        }
        return signature, {n: constants[n] for n in names if n in constants}, attributes


def triton_meta(keywords: Mapping[str, Any]) -> Mapping[str, Any]:
    """The metadata for Triton; torch 2.0 called them `meta`.

    Raises:
        MetadataError: there are none.
    """
    meta = keywords.get("triton_meta", keywords.get("meta"))
    if not isinstance(meta, Mapping) or not isinstance(meta.get("signature"), Mapping):
        raise MetadataError("its decorator has no triton_meta with a signature")
    return meta


def arguments(meta: Mapping[str, Any], names: Sequence[str]) -> KernelArguments:
    """Reads the metadata of a kernel.

    Raises:
        MetadataError: the metadata are in none of the known forms.
    """
    types, constants = {}, {}
    for key, kind in meta["signature"].items():
        if not isinstance(kind, str):
            raise MetadataError(f"the type of argument {key!r} is {kind!r}, not text")
        types[_name(key, names)] = kind
    for key, value in (meta.get("constants") or {}).items():
        constants[_name(key, names)] = constant(value)
    attributes, one_positions = _attributes(meta.get("configs") or [], len(names))
    for position in one_positions:
        constants.setdefault(names[position], 1)
    types_passed = {n: t for n, t in types.items() if t != "constexpr" and n not in constants}
    return KernelArguments(types_passed, constants, attributes)


def constant(value: Any) -> Any:
    """A constant as the kernel gets it: the name `tl.float32` becomes Triton's dtype.

    Raises:
        MetadataError: it names something that Triton's language does not have.
    """
    if isinstance(value, LibraryName):
        language = importlib.import_module("triton.language")
        if value.name.startswith(("tl.", "triton.language.")) and hasattr(language, value.last):
            return getattr(language, value.last)
        raise MetadataError(f"a constant is {value.name}, which only a run would know")
    if isinstance(value, Construction):
        raise MetadataError(f"a constant is {value.name}(...), which only a run would know")
    return value


def device_type(meta: Mapping[str, Any]) -> str | None:
    """`cuda` or `hip`: what the file was generated for; None where it does not say."""
    device = meta.get("device")
    if isinstance(device, Construction):
        stated = device.kwargs.get("type")
        return stated if isinstance(stated, str) else None
    stated = meta.get("device_type")
    return stated if isinstance(stated, str) else None


def device_name(meta: Mapping[str, Any]) -> str | None:
    """`cuda (cc 90)` or `gfx942`: what the file was generated for; None where it does not say."""
    kind, device = device_type(meta), meta.get("device")
    cc = device.kwargs.get("cc") if isinstance(device, Construction) else meta.get("cc")
    if kind == "hip" and isinstance(cc, str) and cc:
        return cc
    return f"{kind} (cc {cc})" if kind and cc else kind


def _name(key: Any, names: Sequence[str]) -> str:
    """The argument that a key of the metadata means: its name, or its position in torch <= 2.4."""
    if isinstance(key, str):
        if key in names:
            return key
        raise MetadataError(f"the kernel has no argument {key!r}")
    if type(key) is int and 0 <= key < len(names):
        return names[key]
    raise MetadataError(f"the kernel has no argument number {key!r}")


def _attributes(
    configs: Sequence[Any], count: int
) -> tuple[dict[int, list[list[Any]]], Iterable[int]]:
    """Attributes by position, and the positions of arguments that are 1."""
    config = configs[0] if configs else {}
    if isinstance(config, Mapping):
        attributes = {}
        for key, pairs in config.items():
            position = key[0] if isinstance(key, tuple) and len(key) == 1 else key
            if type(position) is not int or not 0 <= position < count:
                raise MetadataError(f"attributes of an argument {key!r}, which it has not")
            attributes[position] = [list(pair) for pair in pairs]
        return attributes, ()
    if not isinstance(config, Construction):
        raise MetadataError(f"its configs are {config!r}")
    if config.name.endswith("from_dict"):
        descriptor = config.args[0] if config.args else {}
        properties = (
            descriptor.get("arg_properties") or {} if isinstance(descriptor, Mapping) else {}
        )
        divisible = properties.get("tt.divisibility") or ()
        one_positions = properties.get("tt.equal_to") or ()
    else:
        stated = {**dict(zip(DESCRIPTOR, config.args)), **config.kwargs}
        divisible, one_positions = (stated.get(name) or () for name in DESCRIPTOR)
    for position in (*divisible, *one_positions):
        if type(position) is not int or not 0 <= position < count:
            raise MetadataError(f"attributes of an argument number {position!r}, which it has not")
    return {position: [list(DIVISIBLE_BY_16)] for position in divisible}, tuple(one_positions)
