"""The counters of targets: the hardware block that counts each, its unit and its operands.

Facts stand in `counter_names.yaml` (names, blocks, operands, limits) and `counters.yaml` (units).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from ...base.documents import own_yaml
from ...machines.target_names import base_arch

_FOLDER = Path(__file__).parent
_INSTANCE = re.compile(r"\[\d+\]$")
_REDUCTION = re.compile(r"_(sum|max|min|avr)$")


class CounterInfo(Struct, frozen=True):
    """The definition of a counter. A recorded value times `scale` is in `unit`.

    `over` is what kind of instances it sums up (XCC, SE, CU, SIMD, ...), empty where not known.
    """

    name: str
    unit: str
    scale: int = 1
    over: str = ""
    text: str = ""
    source: str = ""


class _Tables(Struct):
    like: Mapping[str, str]
    guessed: frozenset[str]
    limits: dict[str, Mapping[str, int]] = field(default_factory=dict)
    prefixes: Mapping[str, str] = field(default_factory=dict)
    blocks: dict[str, str] = field(default_factory=dict)
    names: dict[str, set[str]] = field(default_factory=dict)  # by arch
    operands: dict[str, dict[str, tuple[str, ...]]] = field(default_factory=dict)  # name -> by arch


class _CounterRule(Struct, frozen=True):
    match: re.Pattern[str]
    architectures: tuple[str, ...]
    unit: str
    scale: int
    over: str
    text: str
    source: str


def block_of(name: str) -> str | None:
    """The block whose registers count it; None for a derived counter, and where it is unknown."""
    tables = _tables()
    bare = _INSTANCE.sub("", name)
    if bare in tables.operands:
        return None
    block = tables.blocks.get(bare)
    if block is None:
        block = next((b for p, b in tables.prefixes.items() if bare.startswith(p)), None)
    return block


def limit(block: str, arch: str) -> int | None:
    """Returns how many counters of a block a pass can hold; None if unknown."""
    return _tables().limits.get(_stand_in(arch), {}).get(block)


def known(arch: str) -> frozenset[str]:
    """Returns the counters of a target, basic and derived; empty if the target is unknown."""
    return frozenset(_tables().names.get(_stand_in(arch), ()))


def is_guessed(arch: str) -> bool:
    """Tells whether `known` is empty or of a similar target: a name that is not in it may exist."""
    return not known(arch) or base_arch(arch) in _tables().guessed


def operands(name: str, arch: str | None = None) -> tuple[str, ...]:
    """Returns the basic counters that a derived one is computed from; of a basic one, itself.

    `arch`: a derived counter has other operands on other targets; without it, those of all.
    """
    by_arch = _tables().operands.get(_INSTANCE.sub("", name))
    if by_arch is None:
        return (name,)
    if arch is not None:
        names = by_arch.get(_stand_in(arch))
        if names is not None:
            return names
    return tuple(dict.fromkeys(o for names in by_arch.values() for o in names))


def nearest(name: str, arch: str) -> tuple[str, ...]:
    """Returns up to three known counters with similar names."""
    import difflib  # only on the way to an error

    by_lower = {n.lower(): n for n in sorted(known(arch) or _tables().blocks)}
    near = difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=0.6)
    return tuple(by_lower[n] for n in near)


def about(name: str, arch: str | None) -> CounterInfo:
    """Returns the definition of a counter; an unknown one is a plain count."""
    bare = _INSTANCE.sub("", name)
    family = base_arch(arch) if arch else None
    for rule in _rules():
        if not rule.match.fullmatch(bare):
            continue
        if rule.architectures and family is None:
            break  # its unit depends on the target
        if not rule.architectures or (family is not None and family.startswith(rule.architectures)):
            return CounterInfo(
                name=name,
                unit=rule.unit,
                scale=rule.scale,
                over=rule.over,
                text=rule.text,
                source=rule.source,
            )
    return CounterInfo(name, "count")


def _stand_in(arch: str) -> str:
    base = base_arch(arch)
    return _tables().like.get(base, base)


@functools.cache
def _rules() -> tuple[_CounterRule, ...]:
    """Reads the definitions of `counters.yaml`, in order of precedence."""
    return tuple(
        _CounterRule(
            match=re.compile(entry["match"]),
            architectures=tuple(entry.get("architectures", "").split()),
            unit=entry["unit"],
            scale=entry.get("scale", 1),
            over=entry.get("over", ""),
            text=entry["text"],
            source=entry["source"],
        )
        for entry in table("counters.yaml")
    )


@functools.cache
def _tables() -> _Tables:
    """Reads the names, blocks, limits and operands of `counter_names.yaml`."""
    raw = table("counter_names.yaml")
    tables = _Tables(raw["like"], frozenset(raw["guessed"].split()), prefixes=raw["prefixes"])
    for entry in raw["limits"]["architectures"]:
        for arch in entry["architectures"].split():
            tables.limits[arch] = entry["blocks"]
    for block, entries in raw["blocks"].items():
        for entry in entries:
            names = entry["names"].split()
            tables.blocks.update(dict.fromkeys(names, block))
            _add(tables, entry["architectures"].split(), names)
    for name, entries in raw["derived"].items():
        for entry in entries:
            archs = entry["architectures"].split()
            _add(tables, archs, [name])
            for arch in archs:
                tables.operands.setdefault(name, {})[arch] = tuple(entry["of"].split())
    for entry in raw["reduced"]:
        archs, names = entry["architectures"].split(), entry["names"].split()
        _add(tables, archs, names)
        for name in names:
            operand = (_REDUCTION.sub("", name),)
            tables.operands.setdefault(name, {}).update(dict.fromkeys(archs, operand))
    return tables


def _add(tables: _Tables, archs: Iterable[str], names: Iterable[str]) -> None:
    for arch in archs:
        tables.names.setdefault(arch, set()).update(names)


@functools.cache
def table(name: str) -> Any:
    """A YAML file of this folder."""
    return own_yaml(_FOLDER / name)


def figure(value: float) -> str:
    """Returns a number with six digits, in its shorter form: `486977`, `1.55e8`, `0.0125`."""
    if value == int(value) and abs(value) < 1e7:
        return str(int(value))
    text = f"{value:.6g}"
    mantissa, mark, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if mark else text
