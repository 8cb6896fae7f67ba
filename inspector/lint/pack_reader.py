"""Reads one rule pack: from YAML to compiled rules, and every fault with its line and column."""

from __future__ import annotations

import functools
import re
import threading
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml
from msgspec import Struct

from ..model import Trials
from . import pack_yaml
from .catalogue import Catalogue, Scope, nearest
from .expr import ExpressionError, compile_number
from .pack_yaml import Fault
from .rule import COMPILERS, Cure, Override, PackText, Reference, Rule, RuleText

ID = r"[A-Za-z][A-Za-z0-9._-]*"
TAG = r"[a-z][a-z0-9-]*"

_ONE_AT_A_TIME = threading.Lock()
"""Two threads that are the first to convert to a Struct end the process (msgspec 0.22)."""
_ID = re.compile(ID)
_TAG = re.compile(TAG)
_NON_BLANK = re.compile(r"\S")
_KEY_OF_PACK = re.compile(r"^(?:pack|rules|extends|override)[ \t]*:", re.MULTILINE)
_STATED_BY_RULES = frozenset({"id", "message"})
_BLOCK_HEADER = re.compile(r"[|>][^\n]*\n")
_GONE: Mapping[str, str] = MappingProxyType(
    {
        "worth": "the time of the launch decides what is worth a change; see `removes`",
        "saves": "say what work the cure takes away, with `removes`",
        "superseded_by": "rules with the same `cause` make one finding, that of the first",
        "hot_only": "ask for `hot`, `op.hot` or `wait.hot` in `when`: then all loops are looked at",
    }
)
"""Keys that rules had -> what to do in place of them."""


class Draft(Struct, frozen=True):
    """A pack as its own file states it. The numbers are offsets into the text, for error messages.

    Args:
        override: id of one of their rules, and what changes of it.
    """

    name: str
    description: str
    extends: tuple[tuple[str, int], ...]
    override: tuple[tuple[str, Override, int], ...]
    rules: tuple[tuple[Rule, int], ...]


@functools.cache
def _types() -> Mapping[type, dict[str, Any]]:
    shapes = (PackText, RuleText, Reference, Override, Trials)
    return {shape: typing.get_type_hints(shape) for shape in shapes}


class Reader:
    """Reads one pack and collects its faults.

    Args:
        previews: whether rules whose status is preview are read as well.
        trusted: whether the pack is one of kinspect's own, which tests have read without: its
            rules are not checked, and compiled where they are needed.
    """

    def __init__(
        self,
        text: str,
        file: str,
        catalogue: Catalogue,
        *,
        previews: bool = True,
        trusted: bool = False,
    ) -> None:
        self._previews = previews
        self._trusted = trusted
        self._text = text
        self._file = file
        self._catalogue = catalogue
        self._types = _types()
        self._constructor = yaml.constructor.SafeConstructor()
        self._name = Path(file).stem
        self._documents: dict[str, Reference] = {}
        # A pack can extend any file by its path. Of one that is no pack, a password file say,
        # nothing goes into a message.
        self._may_quote = False
        self.faults: list[Fault] = []

    def pack(self) -> Draft | None:
        """Returns the pack in the text, or None if it is not a pack at all; see `faults`."""
        try:
            root = pack_yaml.compose(self._text, trusted=self._trusted)
        except pack_yaml.DocumentError as error:
            looks_like_pack = _KEY_OF_PACK.search(self._text) is not None
            self.fault(error.index, error.message if looks_like_pack else error.unquoted)
            return None
        self._may_quote = _is_pack(root)
        if isinstance(root, yaml.SequenceNode):
            return Draft(
                name=self._name, description="", extends=(), override=(), rules=self._rules(root)
            )
        if not isinstance(root, yaml.MappingNode):
            self._fault(root, "a pack is a mapping with `rules:`, or a list of rules")
            return None
        nodes = self._keys(root, tuple(self._types[PackText]))
        texts = {k: self._value(nodes[k], str) for k in ("pack", "description") if k in nodes}
        self._name = texts.get("pack") or self._name
        extends = self._extends(nodes["extends"]) if "extends" in nodes else ()
        override = self._override(nodes["override"]) if "override" in nodes else ()
        if "documents" in nodes:
            self._documents = dict(self._named(nodes["documents"]))
        listed = nodes.get("rules")
        if not isinstance(listed, yaml.SequenceNode) and (
            listed is not None or "extends" not in nodes
        ):
            self._fault(listed or root, "a pack needs `rules:`, a list of rules")
            return None
        rules = self._rules(listed) if listed is not None else ()
        return Draft(
            name=self._name,
            description=texts.get("description") or "",
            extends=extends,
            override=override,
            rules=rules,
        )

    def _rules(self, listed: yaml.Node) -> tuple[tuple[Rule, int], ...]:
        rules = []
        line_of: dict[str, int] = {}
        for node in listed.value:
            if not self._previews and _is_preview(node):
                continue
            rule = self._rule(node)
            if rule is None:
                continue
            if rule.text.id in line_of:
                self._fault(node, f"id {rule.text.id} is taken by line {line_of[rule.text.id]}")
                continue
            line_of[rule.text.id] = rule.line
            rules.append((rule, node.start_mark.index))
        return tuple(rules)

    def _extends(self, node: yaml.Node) -> tuple[tuple[str, int], ...]:
        items = node.value if isinstance(node, yaml.SequenceNode) else [node]
        names = [(self._value(item, str), item.start_mark.index) for item in items]
        return tuple((name, index) for name, index in names if name is not None)

    def _override(self, node: yaml.Node) -> tuple[tuple[str, Override, int], ...]:
        """Returns (id of another pack's rule, the changes to it, offset in the text)."""
        if not isinstance(node, yaml.MappingNode):
            self._fault(node, "override is a mapping from the id of a rule to what changes")
            return ()
        overrides: dict[str, tuple[Override, int]] = {}
        for key, value in node.value:
            fault_count = len(self.faults)
            rule_id = self._value(key, str)
            record = self._record(value, Override)
            if rule_id in overrides:
                self._fault(key, f"`{rule_id}` stands here twice")
            if record and len(self.faults) == fault_count:
                overrides[rule_id] = (Override(**record[1]), key.start_mark.index)
        return tuple((rule_id, change, index) for rule_id, (change, index) in overrides.items())

    def _rule(self, node: yaml.Node) -> Rule | None:
        """Returns a rule with its conditions and texts compiled, or None if it has a fault."""
        if self._trusted:
            return self._rule_of(self._value(node, RuleText), node, {})
        fault_count = len(self.faults)
        record = self._record(node, RuleText)
        if record is None:
            return None
        nodes, values = record
        if "id" in values and not _ID.fullmatch(values["id"]):
            self._fault(nodes["id"], "an id is a letter, then letters, digits, `.`, `_` or `-`")
        scope: Scope = values.get("scope", "loop")
        if scope not in ("loop", "instruction") and "cured_together" in nodes:
            self._fault(
                nodes["cured_together"], "cured_together is for rules of scope loop or instruction"
            )
        if "untimed" in nodes and "removes" not in nodes:
            self._fault(nodes["untimed"], "untimed is for rules with removes")
        compiled = self._compiled(nodes, values, scope)
        for tag in values.get("tags", ()):
            if not _TAG.fullmatch(tag):
                self._fault(nodes["tags"], f"a tag is a word in small letters, not {tag!r}")
        for cure in values.get("cures", ()):
            self._check_cure(cure, nodes["cures"], scope)
        if len(self.faults) > fault_count:
            return None
        return self._rule_of(RuleText(**values), node, compiled)

    def _rule_of(self, text: RuleText, node: yaml.Node, compiled: dict[str, Any]) -> Rule:
        return Rule(
            text=text,
            line=node.start_mark.line + 1,
            file=self._file,
            pack=self._name,
            catalogue=self._catalogue,
            compiled=compiled,
            is_severity_stated=not self._trusted,
        )

    def _check_cure(self, cure: Cure, node: yaml.Node, scope: Scope) -> None:
        """Notes what is wrong with a cure beyond the types of its keys."""
        if not cure.is_complete:
            self._fault(
                node,
                "a cure has one of option, constexpr and env, and one of values, factors and metric"
                " (env: values); or source alone",
            )
        if any(factor <= 0 for factor in cure.factors):
            self._fault(node, "factors are larger than 0")
        if cure.metric:
            try:
                compile_number(cure.metric, self._catalogue, scope)
            except ExpressionError as error:
                self._fault(node, error.message if self._may_quote else "metric cannot be read")

    def _compiled(
        self, nodes: Mapping[str, yaml.Node], values: Mapping[str, Any], scope: Scope
    ) -> dict[str, Any]:
        """Compiles a rule's conditions and templates; those with a fault are left out."""
        compiled: dict[str, Any] = {}
        for key, compiler in COMPILERS.items():
            value = values.get(key)
            if value is None:
                continue
            try:
                compiled[key] = compiler(value, self._catalogue, scope)
            except ExpressionError as error:
                is_text = isinstance(value, str)
                index = self._index(nodes[key], value, error.offset) if is_text else None
                reason = error.message if self._may_quote else f"{key} cannot be read"
                self._fault(nodes[key], reason, index)
        return compiled

    def _record(
        self, node: yaml.Node, shape: type[Any]
    ) -> tuple[dict[str, yaml.Node], dict[str, Any]] | None:
        """Returns a mapping's nodes and converted values by key, as `shape` declares them."""
        if not isinstance(node, yaml.MappingNode):
            self._fault(node, f"a mapping with {', '.join(self._types[shape])} goes here")
            return None
        hints = self._types[shape]
        nodes = self._keys(node, tuple(hints))
        required = shape.__struct_fields__[: -len(shape.__struct_defaults__) or None]
        missing = [name for name in required if name not in nodes]
        if missing:
            self._fault(node, f"{', '.join(missing)} missing")
        values = {}
        for key, value in nodes.items():
            fault_count = len(self.faults)
            converted = self._value(value, hints[key])
            if len(self.faults) == fault_count:
                values[key] = converted
        return nodes, values

    def _keys(self, node: yaml.MappingNode, allowed: tuple[str, ...]) -> dict[str, yaml.Node]:
        """Returns the nodes of a mapping by key; a key that is not `allowed` is a fault."""
        key_nodes: dict[str, yaml.Node] = {}
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else None
            if name in key_nodes:
                self._fault(key, f"`{name}` stands here twice")
            elif name in allowed:
                key_nodes[name] = value
            else:
                near = nearest(str(name), allowed)
                gone = _GONE.get(str(name)) if "removes" in allowed else None
                if gone and self._may_quote:
                    self._fault(key, f"{name} is gone: {gone}")
                elif self._may_quote:
                    hint = near or f" (known: {', '.join(allowed)})"
                    self._fault(key, f"unknown key {name}{hint}")
                elif near:
                    self._fault(key, f"unknown key{near}")
        return key_nodes

    def _value(self, node: yaml.Node, value_type: Any) -> Any:
        """Converts a node to a type; returns None, and notes a fault, if it has another type."""
        if value_type == tuple[Reference, ...]:
            return self._references(node)
        if value_type == Trials | None:
            return self._trials(node)
        import msgspec  # costs as much as everything else here: only when a pack is read

        try:
            with _ONE_AT_A_TIME:
                value = self._constructor.construct_document(node)
                if value_type is RuleText:  # of a trusted pack: not read key by key
                    named = value.get("references", ())
                    value["references"] = [self._documents.get(str(each), each) for each in named]
                return msgspec.convert(value, value_type, strict=True)
        except (msgspec.ValidationError, yaml.YAMLError, ValueError) as error:
            reason = " ".join(str(error).split())
            self._fault(node, reason if self._may_quote else "the value is not of the kind needed")
            return None
        except (LookupError, TypeError, AttributeError, ArithmeticError):
            # A tag that the value does not go with (`!!bool maybe`): PyYAML has no error for it.
            self._fault(node, "the value is not what its tag says")
            return None

    def _trials(self, node: yaml.Node) -> Trials | None:
        record = self._record(node, Trials)
        values = record[1] if record is not None else {}
        if any(count < 0 for count in values.values()):
            self._fault(node, "counts of kernels are 0 or more")
        return Trials(**values)

    def _references(self, node: yaml.Node) -> tuple[Reference, ...]:
        if not isinstance(node, yaml.SequenceNode):
            self._fault(node, "references are a list of mappings with title and url")
            return ()
        return tuple(found for item in node.value if (found := self._reference(item)) is not None)

    def _reference(self, node: yaml.Node) -> Reference | None:
        if isinstance(node, yaml.ScalarNode):
            if node.value not in self._documents:
                hint = nearest(node.value, self._documents) if self._may_quote else ""
                what = "a mapping with title, url goes here, or a name in the pack's documents"
                self._fault(node, f"{what}{hint}")
            return self._documents.get(node.value)
        fault_count = len(self.faults)
        record = self._record(node, Reference)
        return Reference(**record[1]) if record and len(self.faults) == fault_count else None

    def _named(self, node: yaml.Node) -> Iterator[tuple[str, Reference]]:
        """The documents of a pack, by name."""
        if not isinstance(node, yaml.MappingNode):
            self._fault(node, "documents are a mapping from a name to title and url")
            return
        for key, value in node.value:
            reference = self._reference(value)
            if reference is not None:
                yield str(key.value), reference

    def _index(self, node: yaml.Node, value: str, offset: int) -> int:
        """Returns the position in the file of character `offset` of a scalar.

        YAML's folding and indentation change white space alone, so the n-th visible character of
        the value is the n-th of the text it was written as.
        """
        start, stop = node.start_mark.index, node.end_mark.index
        scalar_text = self._text[start:stop]
        header = _BLOCK_HEADER.match(scalar_text)
        if header:
            start += header.end()
        elif scalar_text[:1] in ("'", '"'):
            start += 1
        nth = len(_NON_BLANK.findall(value[:offset]))
        for count, match in enumerate(_NON_BLANK.finditer(self._text, start, stop)):
            if count == nth:
                return match.start()
        return start

    def _fault(self, node: yaml.Node | None, message: str, index: int | None = None) -> None:
        if index is None:
            index = node.start_mark.index if node is not None else 0
        self.fault(index, message)

    def fault(self, index: int, message: str) -> None:
        """Notes what is wrong at character `index` of the text."""
        line = self._text.count("\n", 0, index) + 1
        column = index - (self._text.rfind("\n", 0, index) + 1) + 1
        self.faults.append(Fault(self._file, line, column, message))


def _is_pack(root: yaml.Node | None) -> bool:
    """Tells whether a document is meant as a pack, however faulty: it has rules or extends one."""
    if isinstance(root, yaml.SequenceNode):
        return any(_names(item) >= _STATED_BY_RULES for item in root.value)
    names = _names(root)
    if not isinstance(root, yaml.MappingNode) or "rules" not in names:
        return bool(names & {"extends", "override"})
    rules = next(value for key, value in root.value if key.value == "rules")
    if not isinstance(rules, yaml.SequenceNode) or not rules.value:
        return True
    return bool(names & {"extends", "override"}) or any(
        _names(item) & _STATED_BY_RULES for item in rules.value
    )


def _is_preview(node: yaml.Node) -> bool:
    return isinstance(node, yaml.MappingNode) and any(
        (key.value, value.value) == ("status", "preview") for key, value in node.value
    )


def _names(node: yaml.Node | None) -> set[str]:
    if not isinstance(node, yaml.MappingNode):
        return set()
    return {key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)}
