"""Pairs the kernels of two reports that are the same kernel.

By everything that a specialisation is first; what is left over by less and less, each time only
where there is one such kernel on either side. What cannot be told apart is left alone rather than
guessed at. The result does not depend on the order of the kernels, and is the same both ways.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ...model import KernelReport, Metric

ARCH = "arch"
"""Name of the target among what may be varied; all others are names of options."""


class Pair(Struct, frozen=True):
    """Two reports of one kernel. `matched_by` is empty where all of its identity is equal."""

    left: KernelReport
    right: KernelReport
    matched_by: str


class Pairing(Struct, frozen=True):
    """The pairs, and the kernels without a counterpart."""

    pairs: tuple[Pair, ...]
    only_left: tuple[KernelReport, ...]
    only_right: tuple[KernelReport, ...]


class _Step(Struct, frozen=True):
    without: frozenset[str]
    words: str


_PLACE = frozenset({"file", "folder"})
_STEPS = (
    _Step(frozenset(), ""),
    _Step(frozenset({"folder"}), "all but the folder"),
    _Step(_PLACE, "all but the file"),
    _Step(_PLACE | {"case"}, "all but the name of the case"),
    _Step(_PLACE | {"options"}, "all but the options"),
    _Step(_PLACE | {"options", "case"}, "signature and constexprs"),
    _Step(_PLACE | {"options", "constexprs"}, "name, signature and case"),
    _Step(_PLACE | {"options", "constexprs", "signature"}, "name and case"),
    _Step(_PLACE | {"options", "constexprs", "signature", "case"}, "the name alone"),
)
_ALONE = "being the only kernel on either side: their names differ"


def pair_up(
    left: Sequence[KernelReport], right: Sequence[KernelReport], varied: Collection[str] = ()
) -> Pairing:
    """Pairs the kernels of two reports; each is in one pair at most.

    Args:
        varied: what differs on purpose and so is no part of a kernel's identity: `arch`, and names
            of options.
    """
    ignored = frozenset(varied)
    if not {k.arch for k in left} & {k.arch for k in right}:
        ignored |= {ARCH}
    pairs: list[Pair] = []
    rest_left, rest_right = list(left), list(right)
    for step in _STEPS:
        key = _key(step.without, ignored)
        a, b = _grouped(rest_left, key), _grouped(rest_right, key)
        rest_left, rest_right = [], []
        for name in sorted({*a, *b}):
            left_group, right_group = a.get(name, []), b.get(name, [])
            pair_count = min(len(left_group), len(right_group))
            # Equal in everything they are duplicates, one as good as the other.
            if pair_count and (not step.without or len(left_group) == len(right_group) == 1):
                matched, left_group, right_group = _duplicates(left_group, right_group)
                pairs += [
                    Pair(left_kernel, right_kernel, step.words)
                    for left_kernel, right_kernel in matched
                ]
            rest_left += left_group
            rest_right += right_group
    if len(left) == len(right) == len(rest_left) == len(rest_right) == 1:
        pairs, rest_left, rest_right = [Pair(left[0], right[0], _ALONE)], [], []
    by_left = {id(pair.left): pair for pair in pairs}
    return Pairing(
        tuple(by_left[id(kernel)] for kernel in _ordered([pair.left for pair in pairs])),
        tuple(_ordered(rest_left)),
        tuple(_ordered(rest_right)),
    )


def _grouped(
    kernels: Iterable[KernelReport], key: Callable[[KernelReport], str]
) -> dict[str, list[KernelReport]]:
    groups: dict[str, list[KernelReport]] = {}
    for kernel in kernels:
        groups.setdefault(key(kernel), []).append(kernel)
    return groups


def _duplicates(
    left_kernels: list[KernelReport], right_kernels: list[KernelReport]
) -> tuple[list[tuple[KernelReport, KernelReport]], list[KernelReport], list[KernelReport]]:
    """Kernels of one identity: those of equal contents together, the others in a fixed order."""
    if len(left_kernels) == len(right_kernels) == 1:
        return [(left_kernels[0], right_kernels[0])], [], []
    pairs = []
    by_contents = _grouped(right_kernels, _figures)
    left_unmatched = []
    for kernel in _ordered(left_kernels):
        equal = by_contents.get(_figures(kernel))
        if equal:
            pairs.append((kernel, equal.pop(0)))
        else:
            left_unmatched.append(kernel)
    right_unmatched = _ordered([kernel for group in by_contents.values() for kernel in group])
    pair_count = min(len(left_unmatched), len(right_unmatched))
    pairs += zip(left_unmatched[:pair_count], right_unmatched[:pair_count], strict=True)
    return pairs, left_unmatched[pair_count:], right_unmatched[pair_count:]


def _key(without: frozenset[str], ignored: frozenset[str]) -> Callable[[KernelReport], str]:
    def key(kernel: KernelReport) -> str:
        return _json(
            {name: part for name, part in _identity(kernel, ignored).items() if name not in without}
        )

    return key


def _identity(kernel: KernelReport, ignored: frozenset[str]) -> dict[str, Any]:
    """The identity of a kernel, part by part; parts that its report does not have are None."""
    variant = kernel.variant
    folder, _, file = kernel.file.rpartition("/")
    parts: dict[str, Any] = {
        "folder": folder,
        "file": file,
        "name": kernel.name,
        "arch": None if ARCH in ignored else kernel.arch,
    }
    if variant is None:
        return parts
    options = {k: v for k, v in variant.options.items() if k not in ignored}
    tuning = {k: v for k, v in (variant.tuning or {}).items() if k not in ignored}
    return {
        **parts,
        "case": variant.case,
        "signature": [dict(variant.signature), {k: dict(v) for k, v in variant.attrs.items()}],
        "constexprs": dict(variant.constexprs),
        "options": [options, tuning],
    }


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _ordered(kernels: Iterable[KernelReport]) -> list[KernelReport]:
    """The kernels in an order that depends on their contents, not on their order in the reports."""
    groups = _grouped(kernels, _key(frozenset(), frozenset()))
    out = []
    for name in sorted(groups):
        group = groups[name]
        out += group if len(group) == 1 else sorted(group, key=_figures)
    return out


def _figures(kernel: KernelReport) -> str:
    return _json(
        [
            _values(kernel.metrics),
            [[loop.id, loop.header.line, _values(loop.metrics)] for loop in kernel.loops],
            {kind: a.sha256 for kind, a in kernel.artifacts.items()},
        ]
    )


def _values(metrics: Mapping[str, Metric]) -> dict[str, Any]:
    return {name: metric.value for name, metric in metrics.items()}
