"""Names for a kernel's specialisations: what tells them apart, and no more.

`matmul[BLOCK_M=64, num_warps=4]` beside `matmul[BLOCK_M=128, num_warps=8]`; where one kernel has a
single specialisation it needs no label. Specialisations that the file names itself keep the name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from ..model import Variant


def labelled(variants: Sequence[Variant]) -> list[Variant]:
    """The variants with `case` set where a kernel has several for one target."""
    groups: dict[tuple[str, str], list[int]] = {}
    for index, variant in enumerate(variants):
        groups.setdefault((variant.kernel, variant.arch), []).append(index)
    labels: dict[int, str | None] = {}
    for members in groups.values():
        texts = _labels([variants[index] for index in members])
        labels.update(zip(members, texts, strict=True))
    return [replace(variant, case=labels[i]) for i, variant in enumerate(variants)]


def _labels(group: Sequence[Variant]) -> list[str | None]:
    stated = [v.case for v in group]
    if len(group) == 1 or len(set(stated)) == len(group):
        return stated
    facets = [_facets(variant) for variant in group]
    names = dict.fromkeys(name for facet_values in facets for name in facet_values)
    differing = [
        n for n in names if len({repr(facet_values.get(n)) for facet_values in facets}) > 1
    ]
    # What was tuned is always said; the rest only as far as it is needed.
    tuned = {name for variant in group for name in variant.tuning or ()}
    chosen = [name for name in differing if name in tuned]
    for name in differing:
        if _distinct(facets, chosen) == len(group):
            break
        distinct_so_far = _distinct(facets, chosen)
        if name not in chosen and _distinct(facets, [*chosen, name]) > distinct_so_far:
            chosen.append(name)
    texts = []
    for variant, facet_values in zip(group, facets, strict=True):
        chosen_text = ", ".join(
            f"{n}={facet_values[n]}" for n in chosen if facet_values.get(n) is not None
        )
        texts.append(", ".join(part for part in (variant.case, chosen_text) if part) or None)
    return _numbered(texts)


def _facets(variant: Variant) -> dict[str, Any]:
    """Everything by which two specialisations of a kernel may differ, the most telling first."""
    facets: dict[str, Any] = {}
    _add(facets, variant.tuning or {})
    _add(facets, variant.constexprs)
    types = {n: t for n, t in variant.signature.items() if t != "constexpr"}
    _add(facets, types)
    _add(facets, variant.options)
    for name, attrs in variant.attrs.items():
        for attribute, value in attrs.items():
            facets[f"{name}.{attribute.removeprefix('tt.')}"] = value
    return facets


def _add(facets: dict[str, Any], facts: Mapping[str, Any]) -> None:
    for name, value in facts.items():
        facets.setdefault(name, value)


def _distinct(facets: Iterable[Mapping[str, Any]], names: Sequence[str]) -> int:
    return len({repr([facet_values.get(n) for n in names]) for facet_values in facets})


def _numbered(texts: Sequence[str | None]) -> list[str | None]:
    """The texts, with a number behind those that occur more than once."""
    counts: dict[str | None, int] = {}
    out: list[str | None] = []
    for text in texts:
        number = counts[text] = counts.get(text, 0) + 1
        if texts.count(text) > 1:
            text = f"{text} #{number}" if text else f"#{number}"
        out.append(text)
    return out
