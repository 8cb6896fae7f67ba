"""Rule packs: where they come from, what they take over from each other, and how they are loaded.

Every fault of a pack, and of those that it extends, is reported at once, each with
`file:line:column`, so that one run shows all there is to correct.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ..errors import KinspectError
from ..model import MetricSpec
from . import document
from .catalogue import Catalogue, nearest
from .document import Fault, PackError
from .reader import Draft, Reader
from .rule import Override, Pack, Reference, Rule, RuleText

__all__ = [
    "DEFAULT_PACK",
    "Fault",
    "Pack",
    "PackError",
    "Reference",
    "Rule",
    "RuleText",
    "bundled_packs",
    "load_named",
    "load_pack",
    "load_packs",
    "parse_pack",
]

DEFAULT_PACK = "recommended"
SUFFIX = ".yaml"

Specs = Catalogue | Mapping[str, MetricSpec] | Iterable[MetricSpec]


def load_named(name: str, catalogue: Specs) -> Pack:
    """The pack of that name which ships with kinspect, else the one in the file of that name.

    Args:
        name: name of the pack; `DEFAULT_PACK` is the default of commands.
        catalogue: the metrics that exist; see `Catalogue.of`.

    Raises:
        KinspectError: there is neither; or as for `load_pack`.
    """
    return _Session(_as_catalogue(catalogue)).load(_find(name, Path()))


def load_packs(names: Sequence[str], catalogue: Specs) -> tuple[Pack, ...]:
    """As `load_named`, for several; what they have in common is read once.

    Raises:
        PackError: the faults of all of them.
        KinspectError: one of them cannot be read.
    """
    session = _Session(_as_catalogue(catalogue))
    return session.loaded([_find(name, Path()) for name in names])


def load_pack(path: Path, catalogue: Specs) -> Pack:
    """Reads a pack from a file.

    Raises:
        PackError: it has faults, or a pack that it extends has: all of them, one per line.
        KinspectError: the file cannot be read.
    """
    return _Session(_as_catalogue(catalogue)).load(_Place(path, str(path)))


def parse_pack(text: str, file: str, catalogue: Specs) -> Pack:
    """Checks a pack's text; `file` is what errors call it, and where paths in it start from.

    Raises:
        PackError: as for `load_pack`.
    """
    return _Session(_as_catalogue(catalogue)).load(_Place(Path(file), file), text)


def bundled_packs() -> tuple[str, ...]:
    """Names of the packs that ship with kinspect, the default first."""
    names = sorted(path.stem for path in _folder().glob(f"*{SUFFIX}"))
    return tuple(sorted(names, key=lambda name: name != DEFAULT_PACK))


class _Place(Struct, frozen=True):
    """A pack's file, and what errors call it."""

    path: Path
    label: str


class _Session:
    """The loading of one pack with those that it extends, each of them once."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._faults: list[Fault] = []
        self._done: dict[str, Pack | None] = {}
        self._under_way: list[_Place] = []

    def load(self, place: _Place, text: str | None = None) -> Pack:
        pack = self._pack(place, document.read(place.path) if text is None else text)
        if self._faults or pack is None:
            raise PackError(tuple(self._faults))
        return pack

    def loaded(self, places: Sequence[_Place]) -> tuple[Pack, ...]:
        """The packs of several files; the faults of all of them as one error."""
        for place in places:
            key = _identity(place)
            if key not in self._done:
                self._done[key] = self._pack(place, document.read(place.path))
        if self._faults:
            raise PackError(tuple(self._faults))
        packs = (self._done[_identity(place)] for place in places)
        return tuple(pack for pack in packs if pack is not None)

    def _pack(self, place: _Place, text: str) -> Pack | None:
        reader = Reader(text, place.label, self._catalogue)
        draft = reader.pack()
        pack = None
        if draft is not None:
            self._under_way.append(place)
            pack = self._joined(draft, reader, place)
            self._under_way.pop()
        self._faults += reader.faults
        return pack

    def _joined(self, draft: Draft, reader: Reader, place: _Place) -> Pack:
        parents = [self._parent(name, at, reader, place) for name, at in draft.extends]
        rules = self._inherited(draft, parents, reader)
        if None not in parents:  # else half of what may be overridden is not known
            self._override(draft.override, rules, reader, draft)
        for rule, at in draft.rules:
            first = rules.setdefault(rule.text.id, rule)
            if first is not rule:
                reader.fault(at, _id_taken(first))
        for rule, at in draft.rules:
            for superior in rule.text.superseded_by:
                if superior in rules and rule.text.id in rules[superior].text.superseded_by:
                    reader.fault(at, f"{rule.text.id} and {superior} supersede each other")
        return Pack(draft.name, draft.description, tuple(rules.values()), place.label)

    def _parent(self, name: str, at: int, reader: Reader, place: _Place) -> Pack | None:
        try:
            parent = _find(name, place.path.parent)
        except KinspectError as error:
            reader.fault(at, error.message)
            return None
        key = _identity(parent)
        if key in self._done:
            return self._done[key]
        chain = [_identity(p) for p in self._under_way]
        if key in chain:
            label = [p.label for p in self._under_way[chain.index(key) :]]
            reader.fault(at, f"the pack extends itself: {' → '.join([*label, parent.label])}")
            return None
        try:
            text = document.read(parent.path)
        except KinspectError as error:
            reader.fault(at, error.message)
            return None
        self._done[key] = self._pack(parent, text)
        return self._done[key]

    def _inherited(
        self, draft: Draft, parents: Sequence[Pack | None], reader: Reader
    ) -> dict[str, Rule]:
        rules: dict[str, Rule] = {}
        for (_, at), parent in zip(draft.extends, parents, strict=True):
            for rule in parent.rules if parent is not None else ():
                first = rules.setdefault(rule.text.id, rule)
                # One rule that came by two ways: the later has the last word.
                if (first.file, first.line) == (rule.file, rule.line):
                    rules[rule.text.id] = rule
                else:
                    reader.fault(at, f"{rule.file}:{rule.line}: {_id_taken(first)}")
        return rules

    def _override(
        self,
        overrides: Sequence[tuple[str, Override, int]],
        rules: dict[str, Rule],
        reader: Reader,
        draft: Draft,
    ) -> None:
        own = {rule.text.id for rule, _ in draft.rules}
        for rule_id, change, at in overrides:
            if rule_id in own and rule_id not in rules:
                reader.fault(at, f"{rule_id} is a rule of this very pack; change it there")
            elif rule_id not in rules:
                hint = nearest(rule_id, rules)
                reader.fault(at, f"no rule {rule_id} in the packs that this one extends{hint}")
            elif not change.enabled:
                del rules[rule_id]
            else:
                rule = rules[rule_id]
                text = replace(
                    rule.text,
                    severity=change.severity or rule.text.severity,
                    confidence=change.confidence or rule.text.confidence,
                )
                rules[rule_id] = replace(rule, text=text)


def _identity(place: _Place) -> str:
    return os.path.realpath(place.path)


def _id_taken(first: Rule) -> str:
    return f"id {first.text.id} is taken by {first.file}:{first.line}"


def _as_catalogue(catalogue: Specs) -> Catalogue:
    return catalogue if isinstance(catalogue, Catalogue) else Catalogue.of(catalogue)


def _find(name: str, folder: Path) -> _Place:
    """The bundled pack of that name, else the file of that name, seen from `folder`."""
    shipped = bundled_packs()
    if name in shipped:
        return _Place(_folder() / f"{name}{SUFFIX}", f"rules/{name}{SUFFIX}")
    path = Path(folder, os.path.expanduser(name))
    if os.path.exists(path):  # pathlib's own raises for a name that is too long
        return _Place(path, str(path))
    raise KinspectError(
        f"no rule pack {name}{nearest(name, shipped)}: neither a file nor one of"
        f" {', '.join(shipped)}",
        "give the path of a YAML file, or one of these names",
    )


def _folder() -> Path:
    # Found as a path: importing importlib.resources costs more than all of the loading.
    spec = importlib.util.find_spec("kinspect.rules")
    folders = spec.submodule_search_locations if spec else None
    if not folders:
        raise KinspectError("kinspect's own rules are missing", "reinstall kinspect")
    return Path(folders[0])
