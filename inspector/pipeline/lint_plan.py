"""Plans a lint run: checks its rules, settings and budgets before anything is evaluated."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from .. import machines
from ..base import named_files
from ..base.errors import FaultsError, KinspectError
from ..lint.budget import BUDGET, NAME, budget_rule
from ..lint.engine import read_by
from ..lint.former_rules import FORMER, what_became_of
from ..lint.lint_results import FailOn
from ..lint.packs import DEFAULT_PACK, bundled_folder, bundled_packs, load_packs
from ..lint.ranking import Severity
from ..lint.rule import Pack, Rule
from ..lint.selection import PREVIEW, Words, chosen, union
from ..lint.settings import KernelSettings, Settings
from ..machines.products import product_named
from ..metrics import given_metrics
from ..metrics.kernel import Asked
from ..model import KernelReport
from . import analysis
from .naming import matches

if TYPE_CHECKING:
    from ..lint.baseline import Baseline


class LintOptions(Struct, frozen=True):
    """The options of a lint run on the command line; None or empty if absent."""

    rules: tuple[str, ...] = ()
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fail_on: FailOn | None = None
    baseline: Path | None = None
    update: bool = False


class Override(Struct, frozen=True):
    """A `[[tool.kinspect.kernel]]` table with its names of rules resolved.

    Args:
        severity: id -> severity.
        budgets: metric -> the pack with its rule.
        folder: the folder that patterns of files are relative to.
    """

    settings: KernelSettings
    ignore: frozenset[str]
    severity: Mapping[str, Severity]
    budgets: Mapping[str, Pack]
    folder: Path

    def matches(self, kernel: KernelReport) -> bool:
        """Tells whether it applies to a kernel."""
        settings = self.settings
        if settings.arch is not None:
            product = product_named(settings.arch)
            pattern = product.arch if product is not None else settings.arch
            if not fnmatchcase(kernel.arch or "", pattern):
                return False
        if settings.file is not None and not self._in_file(kernel, settings.file):
            return False
        return matches((settings.match,), kernel.name, kernel.variant)

    def _in_file(self, kernel: KernelReport, pattern: str) -> bool:
        files = [kernel.file]
        if kernel.source is not None:
            files.append(kernel.source.file)
        return any(
            fnmatchcase(name, pattern) for file in files for name in _names(file, self.folder)
        )


def _names(file: str, folder: Path) -> tuple[str, ...]:
    """Returns a file's name, and its path relative to a folder if it lies in it."""
    try:
        return file, Path(file).resolve().relative_to(folder.resolve()).as_posix()
    except (ValueError, OSError):
        return (file,)


_TIMES = frozenset(spec.name for spec in given_metrics.TIME_SPECS)


class LintPlan(Struct, frozen=True):
    """The rules, settings and baseline of a run.

    Args:
        rules: id -> rule: those of `pack`, and the budgets' under the id `BUDGET`.
        overrides: the settings for single kernels, in the order of the file.
        fail_on: the least severity of a new finding that fails the run.
        baseline: the file of known findings; None if there is none.
        accepted: the known findings; None if there is no baseline.
    """

    packs: tuple[str, ...]
    pack: Pack
    rules: Mapping[str, Rule]
    narrowed: bool
    words: Words
    overrides: tuple[Override, ...]
    fail_on: FailOn
    baseline: Path | None
    accepted: Baseline | None = None
    update: bool = False
    notes: tuple[str, ...] = ()

    @property
    def asked(self) -> Asked:
        """The figures that rules and budgets read."""
        budgets = [pack for override in self.overrides for pack in override.budgets.values()]
        rules = [*self.rules.values(), *(rule for pack in budgets for rule in pack.rules)]
        return Asked(*read_by(rules), values=False)

    @property
    def needs_time(self) -> bool:
        """Whether launches are timed: a rule says what its cure removes, or asks for a time."""
        if any(rule.text.removes is not None for rule in self.rules.values()):
            return True
        budgets = [pack for override in self.overrides for pack in override.budgets.values()]
        own = [rule for rule in self.rules.values() if Path(rule.file).parent != bundled_folder()]
        rules = [*own, *(rule for pack in budgets for rule in pack.rules)]
        return any(name.name in _TIMES for rule in rules for name in rule.read_names)


def make_plan(command_line: LintOptions, settings: Settings) -> LintPlan:
    """Makes the plan of a run from its command line, which has precedence, and the settings.

    Raises:
        KinspectError: a pack, a name of a rule, a budget or the baseline is wrong.
    """
    file = _baseline(command_line, settings)
    accepted = _read_baseline(file, command_line.update) if file is not None else None
    packs = _packs(command_line, settings)
    pack = union(packs)
    words = Words(pack.rules, lambda: _elsewhere(pack, settings), {BUDGET: BUDGET, NAME: BUDGET})
    # Rules that the command line selects stay, even if the settings ignore them.
    asked = command_line.select or settings.select or ()
    former = {word: FORMER[word] for word in asked if word in FORMER and not words.ids(word)}
    select = [word for word in (former.get(word, word) for word in asked) if word is not None]
    ignore = (
        command_line.ignore if command_line.select else (*settings.ignore, *command_line.ignore)
    )
    faults = list(_faults_of_words(command_line, settings, words))
    overrides = [_override(entry, settings, words, faults) for entry in settings.kernels]
    if faults:
        raise FaultsError(faults, "`kinspect rules list` shows the rules")
    selected = chosen(pack, words, select if asked else None, ignore)
    if not selected.rules and select and not any(override.budgets for override in overrides):
        raise KinspectError(
            f"select {', '.join(select)}: no rule is left to ask",
            "ignore fewer; rules in preview are selected by id, by name or by `preview`",
        )
    # `select` of the settings is about rules alone: their budgets stay.
    without_budgets = BUDGET in words.all_of(ignore) or (
        bool(command_line.select) and BUDGET not in words.all_of(command_line.select)
    )
    if without_budgets:
        overrides = [replace(override, budgets={}) for override in overrides]
    rules = {rule.text.id: rule for rule in selected.rules}
    for override in overrides:
        for budget in override.budgets.values():
            rules.setdefault(BUDGET, budget.rules[0])
    return LintPlan(
        packs=tuple(p.name for p in packs),
        pack=selected,
        rules=rules,
        narrowed=len(selected.rules) < len(pack.rules),
        words=words,
        overrides=tuple(overrides),
        fail_on=command_line.fail_on or settings.fail_on or "error",  # type: ignore[arg-type]
        baseline=file,
        accepted=accepted,
        update=command_line.update,
        notes=(
            *(note for word in former if (note := what_became_of(word))),
            *_unselected_previews(pack, selected, words, command_line.select),
        ),
    )


def _faults_of_words(command_line: LintOptions, settings: Settings, words: Words) -> Iterator[str]:
    """Yields the unknown names of rules, and the unknown archs of the settings."""
    yield from (f"--select: {f}" for w in command_line.select if (f := words.fault(w)))
    settings_file = f"{settings.file}: tool.kinspect"
    for option, names in (
        ("--ignore", command_line.ignore),
        (f"{settings_file}.select", settings.select or ()),
        (f"{settings_file}.ignore", settings.ignore),
    ):
        for fault in (words.fault(name, lenient=True) for name in names):
            if fault:
                yield f"{option}: {fault}"
    for error in _unknown_archs(settings):
        yield f"{settings_file}.arch: {error}"


def _unselected_previews(
    pack: Pack, selected: Pack, words: Words, select: Sequence[str]
) -> Iterator[str]:
    """Yields a note on each word of the command line that matches preview rules, unselected."""
    unselected = {rule.text.id for rule in pack.rules} - {r.text.id for r in selected.rules}
    previews = {rule.text.id for rule in pack.rules if rule.text.status == PREVIEW} & unselected
    for word in select:
        rules = words.ids(word) & previews
        if rules:
            yield (
                f"--select {word}: {len(rules)} of its rules are in preview and not asked; add"
                " `preview`, or name them"
            )


def _unknown_archs(settings: Settings) -> Iterator[str]:
    for arch in settings.arch:
        try:
            machines.load(arch)
        except KinspectError as error:
            yield str(error)


def _baseline(command_line: LintOptions, settings: Settings) -> Path | None:
    """Returns the baseline's file, that of the command line first; None if there is none."""
    if command_line.baseline is not None:
        return command_line.baseline
    if settings.baseline is not None:
        return _named_in(settings, settings.baseline, ".json" if command_line.update else None)
    if command_line.update:
        raise KinspectError(
            "--update-baseline: there is no baseline to write", "add --baseline FILE"
        )
    return None


def _read_baseline(file: Path, update: bool) -> Baseline:
    from ..lint import baseline as baselines  # not for a run without one

    return baselines.read(file) if file.exists() or not update else baselines.EMPTY


def _override(
    entry: KernelSettings, settings: Settings, words: Words, faults: list[str]
) -> Override:
    """Resolves the names of rules and metrics of one entry; appends what is wrong to `faults`."""
    label = f"{settings.file}: {entry.place}"
    for key, names in (("ignore", entry.ignore), ("severity", tuple(entry.severity))):
        word_faults = [words.fault(name, lenient=True) for name in names]
        faults += [f"{label}.{key}: {fault}" for fault in word_faults if fault]
    budgets = {}
    for metric, limit in entry.budget.items():
        try:
            budgets[metric] = budget_rule(metric, limit, entry.label, analysis.catalogue())
        except KinspectError as error:
            faults.append(f"{label}.budget.{metric}: {error.message}")
    severity = {id_: level for word, level in entry.severity.items() for id_ in words.ids(word)}
    return Override(
        settings=entry,
        ignore=words.all_of(entry.ignore),
        severity=severity,  # type: ignore[arg-type]  # the settings' reader has checked it
        budgets=budgets,
        folder=settings.folder,
    )


def _packs(command_line: LintOptions, settings: Settings) -> tuple[Pack, ...]:
    """Loads the packs of the command line, else of the settings, else the default one."""
    names = command_line.rules or tuple(_from_folder(n, settings) for n in settings.rules or ())
    if names in ((), (DEFAULT_PACK,)):
        return (analysis.recommended_pack(),)  # cached: the analysis may use it as well
    return load_packs(tuple(dict.fromkeys(names)), analysis.catalogue())


def _from_folder(name: str, settings: Settings) -> str:
    """Returns the path of a pack that the settings name, or the name of one that ships."""
    return name if name in bundled_packs() else str(_named_in(settings, name))


def _named_in(settings: Settings, name: str, written: str | None = None) -> Path:
    """The path of a file that the settings name; see `named_files.checked`."""
    path = settings.folder / os.path.expanduser(name)  # as packs are found
    return path if settings.file is None else named_files.checked(path, settings.file, written)


def _elsewhere(pack: Pack, settings: Settings) -> dict[str, str]:
    """Returns ids, names and tags of rules outside `pack` -> the pack that has them."""
    ids = {rule.text.id for rule in pack.rules}
    packs_by_word: dict[str, str] = {}
    names = [*bundled_packs(), *(_from_folder(name, settings) for name in settings.rules or ())]
    for other_pack in load_packs(tuple(dict.fromkeys(names)), analysis.catalogue()):
        for rule in other_pack.rules:
            if rule.text.id not in ids:
                for word in (rule.text.id, rule.text.name, *rule.text.tags):
                    packs_by_word.setdefault(word, other_pack.name)
    return packs_by_word
