"""Rule packs: their YAML form, checked in full when loaded, and the rules they hold.

Every fault of a pack is reported at once, each with `file:line:column`, so that one run shows all
there is to correct.
"""

from __future__ import annotations

import importlib.util
import re
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import yaml
from kinspect.inspector.errors import KinspectError
from kinspect.inspector.lint.catalogue import Catalogue, Scope, nearest
from kinspect.inspector.lint.expr import Expression, ExpressionError, MetricName, compile_condition
from kinspect.inspector.lint.template import Template, compile_template
from kinspect.inspector.model import MetricSpec

DEFAULT_PACK = "recommended.yaml"

_ID = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")
_NON_BLANK = re.compile(r"\S")
_BLOCK_HEADER = re.compile(r"[|>][^\n]*\n")

_COMPILERS: Mapping[str, Callable[[str, Catalogue, Scope], Expression | Template]] = (
    MappingProxyType(
        {"when": compile_condition, "require": compile_condition, "message": compile_template}
    )
)

Specs = Catalogue | Mapping[str, MetricSpec] | Iterable[MetricSpec]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A public document that a rule rests on."""

    title: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleText:
    """A rule as written: the keys of its YAML mapping, their types and defaults.

    A finding is made where `when` holds and `require` does not.
    """

    id: str
    name: str
    severity: Literal["error", "warning", "info"]
    scope: Scope
    require: str
    message: str
    confidence: Literal["certain", "likely", "possible"] = "certain"
    when: str | None = None
    explain: str = ""
    fix: str = ""
    references: tuple[Reference, ...] = ()
    status: Literal["preview", "stable"] = "stable"
    hot_only: bool = True


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule ready to be applied; `line` is where it stands in its pack."""

    text: RuleText
    when: Expression | None
    require: Expression
    message: Template
    line: int

    @property
    def names(self) -> tuple[MetricName, ...]:
        """The metrics that the rule mentions, each once, the decisive ones first."""
        when = self.when.names if self.when else ()
        return tuple(
            dict.fromkeys((*self.require.names, *when, *self.message.names)),
        )


@dataclass(frozen=True, slots=True)
class Pack:
    """The rules of one file."""

    name: str
    description: str
    rules: tuple[Rule, ...]
    file: str


def load_default(catalogue: Specs) -> Pack:
    """The pack that ships with kinspect.

    Args:
        catalogue: the metrics that exist; see `Catalogue.of`.
    """
    # Found as a path: importing importlib.resources costs more than all of the loading.
    spec = importlib.util.find_spec("kinspect.rules")
    folders = spec.submodule_search_locations if spec else None
    if not folders:
        raise KinspectError("kinspect's own rules are missing", "reinstall kinspect")
    text = Path(folders[0], DEFAULT_PACK).read_text(encoding="utf-8")
    return parse_pack(text, f"rules/{DEFAULT_PACK}", catalogue)


def load_pack(path: Path, catalogue: Specs) -> Pack:
    """Reads a pack.

    Raises:
        KinspectError: the file cannot be read, or has faults: all of them, one per line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise KinspectError(
            f"cannot read rule pack {path}: {error}", "give the path of a YAML file in UTF-8"
        ) from error
    return parse_pack(text, str(path), catalogue)


def parse_pack(text: str, file: str, catalogue: Specs) -> Pack:
    """Checks a pack's text; `file` is what errors call it.

    Raises:
        KinspectError: as for `load_pack`.
    """
    known = catalogue if isinstance(catalogue, Catalogue) else Catalogue.of(catalogue)
    reader = _Reader(text, file, known)
    pack = reader.pack()
    if reader.faults or pack is None:
        raise KinspectError("\n".join(reader.faults), "correct these lines of the rule pack")
    return pack


class _Reader:
    """One pass over one pack, gathering its faults."""

    def __init__(self, text: str, file: str, catalogue: Catalogue) -> None:
        self._text = text
        self._file = file
        self._catalogue = catalogue
        self._types = {shape: typing.get_type_hints(shape) for shape in (RuleText, Reference)}
        self._constructor = yaml.constructor.SafeConstructor()
        self.faults: list[str] = []

    def pack(self) -> Pack | None:
        root = self._compose()
        if isinstance(root, yaml.SequenceNode):
            listed: yaml.Node = root
            found = {}
        elif isinstance(root, yaml.MappingNode):
            nodes = self._keys(root, ("pack", "description", "rules"))
            found = {k: self._value(n, str) for k, n in nodes.items() if k != "rules"}
            if not isinstance(nodes.get("rules"), yaml.SequenceNode):
                self._fault(nodes.get("rules", root), "a pack needs `rules:`, a list of rules")
                return None
            listed = nodes["rules"]
        else:
            if not self.faults:
                self._fault(root, "a pack is a mapping with `rules:`, or a list of rules")
            return None
        rules = [rule for node in listed.value if (rule := self._rule(node))]
        self._check_ids(rules, listed)
        name = found.get("pack") or Path(self._file).stem
        return Pack(name, found.get("description") or "", tuple(rules), self._file)

    def _compose(self) -> yaml.Node | None:
        # Nodes keep their marks; the C parser takes a tenth of the Python one's time.
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            return yaml.compose(self._text, Loader=loader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            where = f"{mark.line + 1}:{mark.column + 1}" if mark else "1:1"
            self.faults.append(f"{self._file}:{where}: {error.problem or error.context}")
        except yaml.YAMLError as error:
            self.faults.append(f"{self._file}:1:1: {' '.join(str(error).split())}")
        return None

    def _rule(self, node: yaml.Node) -> Rule | None:
        before = len(self.faults)
        found = self._record(node, RuleText)
        if found is None:
            return None
        nodes, values = found
        if "id" in values and not _ID.fullmatch(values["id"]):
            self._fault(nodes["id"], "an id is a letter, then letters, digits, `.`, `_` or `-`")
        scope: Scope = values.get("scope", "loop")
        if scope == "kernel" and "hot_only" in nodes:
            self._fault(nodes["hot_only"], "hot_only is for rules of scope loop")
        compiled: dict[str, Any] = {}
        for key, compiler in _COMPILERS.items():
            if values.get(key) is None:
                continue
            try:
                compiled[key] = compiler(values[key], self._catalogue, scope)
            except ExpressionError as error:
                at = self._index(nodes[key], values[key], error.offset)
                self._fault(nodes[key], error.message, at)
        if len(self.faults) > before:
            return None
        line = node.start_mark.line + 1
        text = RuleText(**values)
        return Rule(text, compiled.get("when"), compiled["require"], compiled["message"], line)

    def _record(
        self, node: yaml.Node, shape: type[Any]
    ) -> tuple[dict[str, yaml.Node], dict[str, Any]] | None:
        """The keys of a mapping with their nodes and their values, as `shape` has them."""
        if not isinstance(node, yaml.MappingNode):
            self._fault(node, f"a mapping with {', '.join(self._types[shape])} goes here")
            return None
        hints = self._types[shape]
        nodes = self._keys(node, tuple(hints))
        missing = [f.name for f in fields(shape) if f.default is MISSING and f.name not in nodes]
        if missing:
            self._fault(node, f"{', '.join(missing)} missing")
        values = {}
        for key, value in nodes.items():
            before = len(self.faults)
            found = self._value(value, hints[key])
            if len(self.faults) == before:
                values[key] = found
        return nodes, values

    def _keys(self, node: yaml.MappingNode, known: tuple[str, ...]) -> dict[str, yaml.Node]:
        found: dict[str, yaml.Node] = {}
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else None
            if name in found:
                self._fault(key, f"`{name}` stands here twice")
            elif name in known:
                found[name] = value
            else:
                hint = nearest(str(name), known) or f" (known: {', '.join(known)})"
                self._fault(key, f"unknown key {name}{hint}")
        return found

    def _value(self, node: yaml.Node, wanted: Any) -> Any:
        if wanted == tuple[Reference, ...]:
            return self._references(node)
        import msgspec  # costs as much as everything else here: only when a pack is read

        try:
            return msgspec.convert(self._constructor.construct_document(node), wanted, strict=True)
        except (msgspec.ValidationError, yaml.YAMLError, ValueError) as error:
            self._fault(node, " ".join(str(error).split()))
            return None

    def _references(self, node: yaml.Node) -> tuple[Reference, ...]:
        if not isinstance(node, yaml.SequenceNode):
            self._fault(node, "references are a list of mappings with title and url")
            return ()
        found = []
        for item in node.value:
            before = len(self.faults)
            record = self._record(item, Reference)
            if record and len(self.faults) == before:
                found.append(Reference(**record[1]))
        return tuple(found)

    def _check_ids(self, rules: list[Rule], listed: yaml.Node) -> None:
        first: dict[str, int] = {}
        nodes = {node.start_mark.line + 1: node for node in listed.value}
        for rule in rules:
            line = first.setdefault(rule.text.id, rule.line)
            if line != rule.line:
                self._fault(nodes[rule.line], f"id {rule.text.id} is taken by line {line}")

    def _index(self, node: yaml.Node, value: str, offset: int) -> int:
        """Where in the file character `offset` of a scalar stands.

        YAML's folding and indentation change white space alone, so the n-th visible character of
        the value is the n-th of the text it was written as.
        """
        start, stop = node.start_mark.index, node.end_mark.index
        written = self._text[start:stop]
        header = _BLOCK_HEADER.match(written)
        if header:
            start += header.end()
        elif written[:1] in ("'", '"'):
            start += 1
        nth = len(_NON_BLANK.findall(value[:offset]))
        for count, match in enumerate(_NON_BLANK.finditer(self._text, start, stop)):
            if count == nth:
                return match.start()
        return start

    def _fault(self, node: yaml.Node | None, message: str, index: int | None = None) -> None:
        if index is None:
            index = node.start_mark.index if node is not None else 0
        line = self._text.count("\n", 0, index) + 1
        column = index - (self._text.rfind("\n", 0, index) + 1) + 1
        self.faults.append(f"{self._file}:{line}:{column}: {message}")
