"""Reads `machines/gfx*.yaml` into `Machine`, strictly.

A file states `name`, `family`, optionally `inherits: <arch>`, and under `figures` each field of
`Machine` as `{value, source}`. An inheriting file states only what differs. `source` is made of
citations `document: place`, joined by `; `; the documents are listed once in `documents.yaml`.
"""

from __future__ import annotations

import functools
import typing
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec import Struct

from ..base.documents import own_yaml
from ..base.errors import KinspectError
from ..model import Machine
from .products import all_products, product_named
from .target_names import base_arch

DEFAULT_ARCH = "gfx942"
"""The target to compile for and to emulate where nobody names one."""
_FOLDER = Path(__file__).parent
_HEADER = frozenset({"name", "family", "inherits", "figures"})
# Fields of Machine that are not figures: the file's name and header give them.
_IDENTITY = frozenset({"arch", "name", "family", "sources"})
# Citations that need no document: the figure is unknown, and this says so.
_UNKNOWN = "not published"


class _Description(Struct, frozen=True):
    """A machine file merged with those it inherits from; `figures` is name -> (value, source)."""

    name: str
    family: str
    figures: Mapping[str, tuple[Any, str]]


@functools.cache
def names(folder: Path = _FOLDER) -> tuple[str, ...]:
    """All known targets, in order of their numbers (`gfx906` before `gfx90a` before `gfx1030`)."""
    return tuple(sorted((p.stem for p in folder.glob("gfx*.yaml")), key=lambda n: (len(n), n)))


def load(arch: str, folder: Path = _FOLDER) -> Machine:
    """The limits of one target.

    `arch`: a gfx name, with or without target features or a triple in front; or the name of a
    product, such as "mi300x" or "RX 7900 XTX".

    Raises:
        KinspectError: the target is unknown (the hint names the nearest ones), or its file is
            faulty (the message names file and key).
    """
    bare = base_arch(arch)
    return _load(bare if bare in names(folder) else _arch_of_product(arch, folder), folder)


def _arch_of_product(name: str, folder: Path) -> str:
    """The target of a product, or the error of a name that is neither's."""
    product = product_named(name)
    if product is not None:
        return product.arch
    typed = "".join(name.lower().split())
    near = _nearest(typed, (*names(folder), *(p.typed for p in all_products())), 3)
    raise KinspectError(
        f"unknown target '{name}'",
        f"did you mean {', '.join(near)}?" if near else "see `kinspect arch list`",
        meant=(name, near[0]) if near else None,
    )


def targets_named(names: Iterable[str]) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """The gfx names of targets that are named by gfx name or product, and target -> product.

    Raises:
        KinspectError: an unknown name, or two products of one target.
    """
    products: dict[str, str] = {}
    archs: dict[str, None] = {}
    for name in names:
        arch = load(name).arch
        archs[arch] = None
        product = product_named(name)
        if product is not None and products.setdefault(arch, product.name) != product.name:
            raise KinspectError(
                f"{products[arch]} and {product.name} are both {arch}, whose code is the same",
                "name the one to time for",
            )
    return tuple(archs), products


@functools.cache
def _load(arch: str, folder: Path) -> Machine:
    """The machine of one of `names`; raises as `load` does. Each machine is read once."""
    description = _describe(arch, folder, ())
    hints = typing.get_type_hints(Machine)
    keys = [name for name in Machine.__struct_fields__ if name not in _IDENTITY]
    values: dict[str, Any] = {}
    for key in keys:
        if key not in description.figures:
            raise _fault(arch, key, "is missing")
        value, _ = description.figures[key]
        try:
            values[key] = msgspec.convert(value, hints[key])
        except msgspec.ValidationError as error:
            raise _fault(arch, key, f"does not fit: {error}") from None
    return Machine(
        arch=arch,
        name=description.name,
        family=description.family,
        sources={key: source for key, (_, source) in description.figures.items()},
        **values,
    )


def _describe(arch: str, folder: Path, heirs: tuple[str, ...]) -> _Description:
    """A machine file with its inherited figures; `heirs` are the machines that inherit it."""
    raw = _read_mapping(folder / f"{arch}.yaml")
    for key in raw.keys() - _HEADER:
        raise _fault(arch, str(key), "is not a key of a machine file", _HEADER)
    for key in ("name", "family"):
        if not isinstance(raw.get(key), str):
            raise _fault(arch, key, "must be a text")
    figures: dict[str, tuple[Any, str]] = {}
    parent = raw.get("inherits")
    if parent is not None:
        if parent not in names(folder):
            raise _fault(arch, "inherits", f"names '{parent}', which has no file")
        if parent == arch or parent in heirs:
            raise _fault(arch, "inherits", f"goes in a circle through {parent}")
        figures.update(_describe(parent, folder, (*heirs, arch)).figures)
    stated = raw.get("figures", {})
    if not isinstance(stated, dict):
        raise _fault(arch, "figures", "must be a mapping of figures")
    allowed = frozenset(Machine.__struct_fields__) - _IDENTITY
    for key, entry in stated.items():
        if key not in allowed:
            raise _fault(arch, f"figures.{key}", "is not a figure", allowed)
        if not isinstance(entry, dict) or entry.keys() != {"value", "source"}:
            raise _fault(arch, f"figures.{key}", "must be {value: ..., source: ...}")
        source = entry["source"]
        if not isinstance(source, str) or not source.strip():
            raise _fault(arch, f"figures.{key}", "has no source")
        figures[key] = (entry["value"], cite(arch, key, source, folder))
    return _Description(raw["name"], raw["family"], figures)


def cite(arch: str, key: str, source: str, folder: Path = _FOLDER) -> str:
    """Spells the documents of a source out.

    Raises:
        KinspectError: it names one that `documents.yaml` lacks.
    """
    documents = _documents(folder)
    cited = []
    for citation in source.split("; "):
        document, _, passage = citation.partition(": ")
        if document == _UNKNOWN:
            cited.append(document)
        elif document not in documents:
            raise _fault(arch, f"figures.{key}", f"cites '{document}', not in documents.yaml")
        else:
            cited.append(f"{documents[document]}: {passage}" if passage else documents[document])
    return "; ".join(cited)


@functools.cache
def _documents(folder: Path) -> Mapping[str, str]:
    return _read_mapping(folder / "documents.yaml")


def _read_mapping(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file of this folder; raises KinspectError where it is none."""
    try:
        raw = own_yaml(path)
    except (OSError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise KinspectError(
            f"machines/{path.name} cannot be read: {reason}", "correct it"
        ) from None
    if not isinstance(raw, dict):
        raise KinspectError(f"machines/{path.name} is not a mapping", "see machines/gfx906.yaml")
    return raw


def _fault(
    arch: str, key: str, problem: str, allowed: frozenset[str] = frozenset()
) -> KinspectError:
    """The error for a fault of a machine file; its hint names the allowed key that is nearest."""
    near = _nearest(key.rpartition(".")[2], sorted(allowed), 1)
    hint = f"did you mean {near[0]}?" if near else "see machines/gfx906.yaml for a whole file"
    return KinspectError(f"machines/{arch}.yaml: {key} {problem}", hint)


def _nearest(name: str, known: Sequence[str], most: int) -> list[str]:
    """The known names that are spelt most like one."""
    import difflib  # only on the way to an error

    return difflib.get_close_matches(name, known, most)
