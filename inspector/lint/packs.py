"""Loads rule packs: finds their files and resolves `extends` and `override`.

Every fault of a pack, and of those that it extends, is reported at once, each with
`file:line:column`, so that one run shows all there is to correct.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ..base import limits
from ..base.errors import KinspectError
from ..base.named_files import checked
from . import pack_yaml
from .catalogue import Catalogue, nearest
from .former_rules import FORMER
from .pack_reader import Draft, Reader
from .pack_yaml import Fault, PackError
from .rule import Override, Pack, Rule

DEFAULT_PACK = "recommended"
SUFFIX = ".yaml"


def load_named(name: str, catalogue: Catalogue, *, previews: bool = True) -> Pack:
    """Loads a pack by name: one that ships with kinspect, else the file of that name.

    Without `previews` rules whose status is preview are left out, a third of the work.

    Raises:
        KinspectError: there is neither; or as for `load_pack`.
    """
    return _Session(catalogue, previews=previews).load(_find(name, Path()))


def load_packs(names: Sequence[str], catalogue: Catalogue) -> tuple[Pack, ...]:
    """Loads several packs by name, as `load_named`; a pack that two of them extend is read once.

    Raises:
        PackError: the faults of all of them.
        KinspectError: one of them cannot be read.
    """
    session = _Session(catalogue)
    return session.load_all([_find(name, Path()) for name in names])


def load_pack(path: Path, catalogue: Catalogue) -> Pack:
    """Loads a pack from a file.

    Raises:
        PackError: it has faults, or a pack that it extends has: all of them, one per line.
        KinspectError: the file cannot be read.
    """
    return _Session(catalogue).load(_PackFile(path, str(path)))


def parse_pack(text: str, file: str, catalogue: Catalogue) -> Pack:
    """Loads a pack from its text; `file` names it in errors, and paths in it are relative to that.

    Raises:
        PackError: as for `load_pack`.
    """
    return _Session(catalogue).load(_PackFile(Path(file), file), text)


def bundled_packs() -> tuple[str, ...]:
    """Returns the names of the packs that ship with kinspect, the default first."""
    names = sorted(path.stem for path in bundled_folder().glob(f"*{SUFFIX}"))
    return tuple(sorted(names, key=lambda name: name != DEFAULT_PACK))


def bundled_folder() -> Path:
    """The folder of the packs that ship with kinspect."""
    # By its path: importing importlib.resources takes longer than loading all packs.
    spec = importlib.util.find_spec("kinspect.rules")
    folders = spec.submodule_search_locations if spec else None
    if not folders:
        raise KinspectError("kinspect's own rules are missing", "reinstall kinspect")
    return Path(folders[0])


class _PackFile(Struct, frozen=True):
    """A pack's file, and its name in errors."""

    path: Path
    label: str


class _Session:
    """Loads packs with those that they extend, each file once, and collects all faults."""

    def __init__(self, catalogue: Catalogue, *, previews: bool = True) -> None:
        self._catalogue = catalogue
        self._previews = previews
        self._faults: list[Fault] = []
        self._loaded: dict[str, Pack | None] = {}
        self._under_way: list[_PackFile] = []

    def load(self, file: _PackFile, text: str | None = None) -> Pack:
        """Loads one pack, for a session that loads no other: it is not stored for others."""
        pack = self._pack(file, pack_yaml.read(file.path) if text is None else text)
        if self._faults or pack is None:
            raise PackError(tuple(self._faults))
        return pack

    def load_all(self, files: Sequence[_PackFile]) -> tuple[Pack, ...]:
        """Loads the packs of several files; the faults of all of them are one error."""
        for file in files:
            key = _identity(file)
            if key not in self._loaded:
                self._loaded[key] = self._pack(file, pack_yaml.read(file.path))
        if self._faults:
            raise PackError(tuple(self._faults))
        packs = (self._loaded[_identity(file)] for file in files)
        return tuple(pack for pack in packs if pack is not None)

    def _pack(self, file: _PackFile, text: str) -> Pack | None:
        with limits.reading(file.label, len(text)):
            reader = Reader(
                text,
                file.label,
                self._catalogue,
                previews=self._previews,
                trusted=file.path.parent == bundled_folder(),
            )
            draft = reader.pack()
        pack = None
        if draft is not None:
            self._under_way.append(file)
            pack = self._joined(draft, reader, file)
            self._under_way.pop()
        self._faults += reader.faults
        return pack

    def _joined(self, draft: Draft, reader: Reader, file: _PackFile) -> Pack:
        """Joins a pack's own rules with those that it inherits and overrides; notes the faults."""
        parents = [self._parent(name, index, reader, file) for name, index in draft.extends]
        rules = self._inherited(draft, parents, reader)
        if None not in parents:  # else some rules that may be overridden are unknown
            self._override(draft.override, rules, reader, draft)
        for rule, index in draft.rules:
            earlier = rules.setdefault(rule.text.id, rule)
            if earlier is not rule:
                reader.fault(index, _id_taken(earlier))
        return Pack(draft.name, draft.description, tuple(rules.values()), file.label)

    def _parent(self, name: str, index: int, reader: Reader, file: _PackFile) -> Pack | None:
        """The pack that the one in `file` extends by `name`, which is written at offset `index`."""
        try:
            parent = _find(name, file.path.parent)
            if parent.path.parent != bundled_folder():
                checked(parent.path, file.path)
        except KinspectError as error:
            reader.fault(index, error.message)
            return None
        key = _identity(parent)
        if key in self._loaded:
            return self._loaded[key]
        chain = [_identity(file) for file in self._under_way]
        if key in chain:
            labels = [file.label for file in self._under_way[chain.index(key) :]]
            reader.fault(index, f"the pack extends itself: {' → '.join([*labels, parent.label])}")
            return None
        try:
            text = pack_yaml.read(parent.path)
        except KinspectError as error:
            reader.fault(index, error.message)
            return None
        self._loaded[key] = self._pack(parent, text)
        return self._loaded[key]

    def _inherited(
        self, draft: Draft, parents: Sequence[Pack | None], reader: Reader
    ) -> dict[str, Rule]:
        """Returns the rules of all parents by id; two rules of one id are a fault."""
        rules: dict[str, Rule] = {}
        for (_, index), parent in zip(draft.extends, parents, strict=True):
            for rule in parent.rules if parent is not None else ():
                earlier = rules.setdefault(rule.text.id, rule)
                # The same rule by two parents: the later parent's override wins.
                if (earlier.file, earlier.line) == (rule.file, rule.line):
                    rules[rule.text.id] = rule
                else:
                    reader.fault(index, f"{rule.file}:{rule.line}: {_id_taken(earlier)}")
        return rules

    def _override(
        self,
        overrides: Sequence[tuple[str, Override, int]],
        rules: dict[str, Rule],
        reader: Reader,
        draft: Draft,
    ) -> None:
        """Applies `override` to the inherited `rules`, in place; `enabled: false` removes one."""
        own_ids = {rule.text.id for rule, _ in draft.rules}
        for rule_id, change, index in overrides:
            if rule_id in own_ids and rule_id not in rules:
                reader.fault(index, f"{rule_id} is a rule of this very pack; change it there")
            elif rule_id in FORMER and rule_id not in rules:
                continue
            elif rule_id not in rules:
                hint = nearest(rule_id, rules)
                reader.fault(index, f"no rule {rule_id} in the packs that this one extends{hint}")
            elif not change.enabled:
                del rules[rule_id]
            else:
                rule = rules[rule_id]
                text = replace(
                    rule.text,
                    severity=change.severity or rule.text.severity,
                    confidence=change.confidence or rule.text.confidence,
                )
                is_stated = rule.is_severity_stated or change.severity is not None
                rules[rule_id] = replace(rule, text=text, is_severity_stated=is_stated)


def _identity(file: _PackFile) -> str:
    return os.path.realpath(file.path)


def _id_taken(earlier: Rule) -> str:
    return f"id {earlier.text.id} is taken by {earlier.file}:{earlier.line}"


def _find(name: str, folder: Path) -> _PackFile:
    """Finds the bundled pack of that name, else the file of that name, relative to `folder`."""
    shipped = bundled_packs()
    if name in shipped:
        return _PackFile(bundled_folder() / f"{name}{SUFFIX}", f"rules/{name}{SUFFIX}")
    path = Path(folder, os.path.expanduser(name))
    if os.path.exists(path):  # pathlib's own raises for a name that is too long
        return _PackFile(path, str(path))
    raise KinspectError(
        f"no rule pack {name}{nearest(name, shipped)}: neither a file nor one of"
        f" {', '.join(shipped)}",
        "give the path of a YAML file, or one of these names",
    )
