"""The changes to try for the findings of kernels: what `try` compiles, and what a report offers.

The rules whose findings are tried, and by which changed kernels are judged.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType

from msgspec.structs import replace

from ...base.errors import KinspectError
from ...compile.environment import guest_environment
from ...lint.catalogue import nearest
from ...lint.former_rules import FORMER, what_became_of
from ...lint.packs import bundled_packs, load_packs
from ...lint.rule import Pack, Rule
from ...lint.selection import Words
from ...model import Change, Finding, KernelReport
from ...pipeline.analysis import catalogue, default_pack
from ...pipeline.reading import artifact_text
from .candidates import Candidates, option_names
from .space import own_space, space_of

Changes = tuple[tuple[Change, ...], ...]
"""Sets of changes, each to be compiled together."""


def is_compilable(kernel: KernelReport) -> bool:
    """Whether a kernel can be compiled again: its TTIR or TTGIR is at hand."""
    return kernel.variant is not None and bool(kernel.variant.ttir)


def candidates_by_kernel(
    kernels: Sequence[KernelReport],
    environment: Mapping[str, str],
    options: Callable[[KernelReport], Iterable[str]],
) -> Iterator[tuple[KernelReport, Candidates]]:
    """Yields the kernels that can be compiled again, each with what makes its changes.

    Args:
        kernels: of one run: configurations of an autotuned kernel name each other's tiles.
    """
    compilable = list(filter(is_compilable, kernels))
    by_path: dict[str, list[KernelReport]] = {kernel.file: [] for kernel in compilable}
    for kernel in kernels:
        if (path := kernel.file) in by_path:
            by_path[path].append(kernel)
    spaces = {path: own_space(path, of_path) for path, of_path in by_path.items()}
    for kernel in compilable:
        yield (
            kernel,
            Candidates(
                kernel,
                space_of(kernel, spaces[kernel.file].get(kernel.name, {})),
                options=options(kernel),
                environment=environment,
                catalogue=catalogue(),
            ),
        )


def findings_to_try(kernels: Sequence[KernelReport]) -> frozenset[str]:
    """Fingerprints of the findings for which `kinspect try --for RULE` compiles something.

    Rules of the user's own packs, and budgets, are none that `try` knows.
    """
    rules = bundled_rules()
    with_findings = [_with_ttir(kernel) for kernel in kernels if kernel.findings]
    candidates = candidates_by_kernel(with_findings, guest_environment(os.environ), option_names)
    return frozenset(
        finding.fingerprint
        for kernel, made in candidates
        for finding in kernel.findings
        if finding.rule in rules and made.of(finding, rules[finding.rule])
    )


def _with_ttir(kernel: KernelReport) -> KernelReport:
    """The kernel of a report that was read back, with the TTIR of its artifacts."""
    variant = kernel.variant
    if variant is None or variant.ttir or variant.stage != "ttir":
        return kernel
    ttir = artifact_text(kernel.artifacts.get("ttir"))
    return replace(kernel, variant=replace(variant, ttir=ttir)) if ttir else kernel


def to_try_of(kernel: KernelReport, findings: Sequence[Finding]) -> frozenset[str]:
    """`findings_to_try` of a kernel with other findings than those of its report."""
    return findings_to_try([replace(kernel, findings=tuple(findings))])


def changes_for(
    kernel: KernelReport,
    candidates: Candidates,
    rules: Mapping[str, Rule],
    chosen: frozenset[str] | None,
) -> Iterator[tuple[int, Changes]]:
    """Yields the changes for each finding of a kernel, by the finding's index.

    Args:
        rules: id -> rule.
        chosen: ids of the rules whose findings are tried; None for all.
    """
    for index, finding in enumerate(kernel.findings):
        if (chosen is None or finding.rule in chosen) and finding.rule in rules:
            yield index, candidates.of(finding, rules[finding.rule])


@cache
def bundled_rules() -> Mapping[str, Rule]:
    """Id -> rule of any bundled pack: those that `try --for` takes."""
    rules: dict[str, Rule] = {}
    for bundled in load_packs(bundled_packs(), catalogue()):
        for rule in bundled.rules:
            rules.setdefault(rule.text.id, rule)
    return MappingProxyType(rules)


def judging_pack(words: Sequence[str]) -> tuple[Pack, frozenset[str] | None]:
    """The default rules with those that the user names, of any pack, preview rules too.

    Returns:
        The pack, and the ids of the rules that were named; None where none were: all are tried.

    Raises:
        KinspectError: a word names no rule.
    """
    pack = default_pack()
    if not words:
        return pack, None
    rules = bundled_rules()
    known = Words(tuple(rules.values()), dict)
    ids: set[str] = set()
    for word in words:
        named = known.ids(FORMER.get(word) or word)
        if not named:
            raise KinspectError(
                what_became_of(word) or f"{word}: no such rule{nearest(word, rules)}",
                "`kinspect rules list --rules strict` has the ids, names and tags",
            )
        ids |= named
    own = {rule.text.id for rule in pack.rules}
    named_rules = tuple(rule for key, rule in rules.items() if key in ids and key not in own)
    return replace(pack, rules=(*pack.rules, *named_rules)), frozenset(ids)
