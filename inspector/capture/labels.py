"""Labels for a kernel's specialisations, with as few values as distinguish them.

`matmul[BLOCK_M=64, num_warps=4]` beside `matmul[BLOCK_M=128, num_warps=8]`. A kernel with a single
specialisation needs no label; specialisations that the file names have that name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from ..model import Variant


def labelled(variants: Sequence[Variant]) -> list[Variant]:
    """The variants, with `case` set to the label where a kernel has several for one target."""
    groups: dict[tuple[str, str], list[int]] = {}
    for index, variant in enumerate(variants):
        groups.setdefault((variant.kernel, variant.arch), []).append(index)
    labels: dict[int, str | None] = {}
    for indices in groups.values():
        texts = _labels([variants[index] for index in indices])
        labels.update(zip(indices, texts, strict=True))
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
    # Tuned values always appear; others only where they are needed.
    tuned = {name for variant in group for name in variant.tuning or ()}
    label_names = [name for name in differing if name in tuned]
    for name in differing:
        if _distinct_count(facets, label_names) == len(group):
            break
        distinct_so_far = _distinct_count(facets, label_names)
        if (
            name not in label_names
            and _distinct_count(facets, [*label_names, name]) > distinct_so_far
        ):
            label_names.append(name)
    texts = []
    for variant, facet_values in zip(group, facets, strict=True):
        label_text = ", ".join(
            f"{n}={facet_values[n]}" for n in label_names if facet_values.get(n) is not None
        )
        texts.append(", ".join(part for part in (variant.case, label_text) if part) or None)
    return _numbered(texts)


def _facets(variant: Variant) -> dict[str, Any]:
    """The values by which specialisations of a kernel may differ, the most informative first."""
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


def _distinct_count(facets: Iterable[Mapping[str, Any]], names: Sequence[str]) -> int:
    return len({repr([facet_values.get(n) for n in names]) for facet_values in facets})


def _numbered(texts: Sequence[str | None]) -> list[str | None]:
    """The texts, with a number after each that occurs more than once."""
    counts: dict[str | None, int] = {}
    numbered: list[str | None] = []
    for text in texts:
        number = counts[text] = counts.get(text, 0) + 1
        if texts.count(text) > 1:
            text = f"{text} #{number}" if text else f"#{number}"
        numbered.append(text)
    return numbered
