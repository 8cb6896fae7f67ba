"""Rules and packs as values, and the templates of their messages.

A template holds figures in braces: `{count.scratch_load} reloads`, `{count.valu / count.mfma}`.
Text in double square brackets is left out where a figure in it is unknown: `the kernel spills[[,
{spills.hot_slots} values in hot loops]]`. Brackets without a figure are plain text. A figure with
two wordings stands for the first where it is 1, else for the second: `{atomics.of} {atomics.of |
atomic adds | atomics add}`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

from msgspec import Struct, field

from ..model import MetricValue, Trials
from ..model.time import Removed
from .catalogue import Catalogue, Scope
from .expr import ExpressionError, compile_condition, compile_figure, compile_number
from .nodes import Expression, MetricName, Values

# --------------------------------------------------------------------------- messages

_BRACED = re.compile(r"\{([^{}]*)\}")
_OPTIONS = ("num_warps", "num_stages", "waves_per_eu", "matrix_instr_nonkdim", "kpack")
_NAMES = {name: rf"\b{name}\b" for name in _OPTIONS}
_NAMES["tile"] = r"\b(?:blocks?|tiles?)\b"
"""What is tried -> how texts name it."""
_OPTIONAL = re.compile(rf"\[\[([^\[\]]*(?:\{{|{'|'.join(_NAMES.values())})[^\[\]]*)\]\]")


class Wordings(Struct, frozen=True):
    """What is written beside a figure where it is 1, and where it is not."""

    figure: Expression
    of_one: str
    of_others: str

    @property
    def names(self) -> tuple[MetricName, ...]:
        return self.figure.names

    def render(self, values: Values, *, plural: bool) -> str:
        is_one = not plural and self.figure.evaluate(values) == 1
        return self.of_one if is_one else self.of_others


class Template(Struct, frozen=True):
    """Texts, figures, and nested templates, left out where one of their figures is unknown."""

    parts: tuple[str | Expression | Wordings | Template, ...]

    @property
    def names(self) -> tuple[MetricName, ...]:
        return tuple(
            name for piece in self.parts if not isinstance(piece, str) for name in piece.names
        )

    @property
    def has_wordings(self) -> bool:
        """Whether it reads otherwise where a figure is 1."""
        return any(
            isinstance(piece, Wordings) or (isinstance(piece, Template) and piece.has_wordings)
            for piece in self.parts
        )

    def render(self, values: Values, *, plural: bool = False) -> str:
        """The text with its figures; `plural`: in the wording of figures other than 1."""
        return "".join(_rendered(piece, values, plural) for piece in self.parts)

    def without(self, tried: Collection[str]) -> Template:
        """The template without the nested ones that name any of these options, or `tile`."""
        named = re.compile(
            "|".join(_NAMES.get(name, rf"\b{re.escape(name)}\b") for name in tried) or "(?!)"
        )
        return Template(
            tuple(
                piece
                for piece in self.parts
                if not isinstance(piece, Template)
                or not any(isinstance(part, str) and named.search(part) for part in piece.parts)
            )
        )

    def is_known(self, values: Values) -> bool:
        """Whether every figure in it is known."""
        for piece in self.parts:
            figure = piece.figure if isinstance(piece, Wordings) else piece
            if isinstance(figure, Expression) and figure.evaluate(values) is None:
                return False
        return True


Piece = str | Expression | Wordings | Template


def _rendered(piece: Piece, values: Values, plural: bool) -> str:
    if isinstance(piece, str):
        return piece
    if isinstance(piece, Wordings):
        return piece.render(values, plural=plural)
    if isinstance(piece, Template):
        return piece.render(values, plural=plural) if piece.is_known(values) else ""
    return show(piece.evaluate(values))


def compile_template(text: str, catalogue: Catalogue, scope: Scope) -> Template:
    """Compiles a message or fix and checks the metrics that it names.

    Raises:
        ExpressionError: a brace has no partner, or a pair of braces holds no valid figure.
    """

    def pieces_between(start: int, stop: int) -> list[Piece]:
        return _pieces_between(text, start, stop, catalogue=catalogue, scope=scope)

    pieces: list[Piece] = []
    end = 0
    for match in _OPTIONAL.finditer(text):
        pieces += pieces_between(end, match.start())
        inner = pieces_between(match.start(1), match.end(1))
        pieces.append(Template(tuple(inner)))
        end = match.end()
    pieces += pieces_between(end, len(text))
    return Template(tuple(pieces))


def _pieces_between(
    text: str, start: int, stop: int, *, catalogue: Catalogue, scope: Scope
) -> list[Piece]:
    """The plain texts and figures in `text[start:stop]`, in order."""
    pieces: list[Piece] = []
    end = start
    for match in _BRACED.finditer(text, start, stop):
        pieces.append(_plain(text, end, match.start()))
        written, *wordings = match[1].split("|")
        try:
            figure = compile_figure(written, catalogue, scope, shown=True)
            pieces.append(Wordings(figure, *_two(wordings)) if wordings else figure)
        except ExpressionError as error:
            raise ExpressionError(error.message, match.start(1) + error.offset) from None
        end = match.end()
    pieces.append(_plain(text, end, stop))
    return [piece for piece in pieces if piece != ""]


def _two(wordings: Sequence[str]) -> tuple[str, str]:
    """The wordings behind a figure, without the spaces around them."""
    if len(wordings) != 2:
        raise ExpressionError("a figure has no wordings or two: {count | wave | waves}", 0)
    of_one, of_others = (" ".join(wording.split()) for wording in wordings)
    return of_one, of_others


def _plain(text: str, start: int, stop: int) -> str:
    """`text[start:stop]`, in which no brace may stand."""
    stray = re.search(r"[{}]", text[start:stop])
    if stray:
        raise ExpressionError("a brace without its partner", start + stray.start())
    return text[start:stop]


def show(value: MetricValue) -> str:
    """A value as people read it: thousands separated, about three significant digits."""
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {show(item)}" for key, item in value.items())
    if isinstance(value, str):
        return value
    if isinstance(value, int) or value.is_integer():
        return f"{int(value):,}"
    decimals = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{decimals}f}"


# --------------------------------------------------------------------------- rules


class Reference(Struct, frozen=True, kw_only=True):
    """A public document that a rule rests on."""

    title: str
    url: str


class Cure(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A change of the compile that may cure what a rule finds: `kinspect try` compiles it.

    One of `option`, `constexpr` and `env` says what is changed, one of `values`, `factors` and
    `metric` to what; `source` says both. A value that the kernel has already is not tried.

    Args:
        option: an option of Triton's backend, such as num_warps.
        constexpr: a constexpr of the kernel by name; `tile` for each of its block sizes, `split`
            for each number of parts into which the launch cuts work (`SPLIT_K`, `NUM_SPLITS`).
        env: an environment variable that Triton reads while it compiles.
        source: a change of the source that can be made mechanically: `exp2` writes exponentials to
            the base of 2, of arguments times log2(e); `specialise` drops do_not_specialize and the
            annotations of arguments that are 1; `constexpr_divisor` makes an argument by which
            integers are divided a tl.constexpr, `constexpr_pitch` a pitch or size that is even but
            no multiple of 16; `stored_operands` drops the .to(tl.float32) of both
            operands of tl.dot; `tf32` and `bf16x3` are its input_precision, where the target
            multiplies so; `range_stages` writes tl.range(..., num_stages=2), and 3, for the
            innermost loops.
        values: what it is set to, one after the other.
        factors: what its present value is multiplied by, one after the other.
        metric: the metric that it is set to, rounded up.
    """

    option: str = ""
    constexpr: str = ""
    env: str = ""
    source: Literal[
        "",
        "exp2",
        "specialise",
        "constexpr_divisor",
        "constexpr_pitch",
        "stored_operands",
        "tf32",
        "bf16x3",
        "range_stages",
    ] = ""
    values: tuple[int | bool | str, ...] = ()
    factors: tuple[float, ...] = ()
    metric: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether it says once what is changed, and once to what."""
        subjects = [bool(name) for name in (self.option, self.constexpr, self.env)]
        ways = [bool(way) for way in (self.values, self.factors, self.metric)]
        if self.source:
            return not any(subjects) and not any(ways)
        return sum(subjects) == sum(ways) == 1 and not (self.env and not self.values)


class Removes(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The work that the cure of a finding takes away; the timing model says what it is worth.

    Args:
        what: kind of work. `scratch`: accesses of private memory; `lines`: cache lines that bring
            nothing; `conflicts`: of LDS banks; `wide accesses`: lanes move 16 bytes at a time;
            `earlier loads`: loads of loops begin an iteration earlier; `repeated products`: matrix
            products that another wave does as well; `occupancy`: more workgroups at a time;
            `workgroups`: they spread evenly over all compute units; `work`: of all waves;
            `iterations`: of loops; `latency`: waiting for memory; `code`: misses of the instruction
            cache; else instructions of a unit, `lds` with the crossbar; `products`: those of the
            matrix unit, with the loads and LDS accesses of their operands.
        part: of the work at the finding's place, 0 to 1, a figure over metrics; of `occupancy` what
            is added; all of it without one.
        of: what `part` counts: all of the work at the `place`, or that of the loop, or of the code
            outside of loops, where those instructions are that the message names (`named`), which
            go first.
    """

    what: Removed
    part: str | float | None = None
    of: Literal["place", "named"] = "place"


class RuleText(Struct, frozen=True, kw_only=True):
    """A rule as written: the keys of its YAML mapping, their types and defaults.

    A finding is made where `when` holds and `require` does not.

    Args:
        id: never reused: a rule that is withdrawn leaves a gap.
        name: the same for people, `words-joined-by-dashes`.
        severity: how much it matters if true.
        scope: what the rule looks at: the kernel as a whole, each loop, each memory access
            (instruction) or each wait.
        require: the condition that must hold.
        message: what is wrong, with figures in braces.
        confidence: how surely the static figures show it.
        when: the condition under which the rule applies; always without one.
        untimed: what makes the fact large enough to be told where its cure's saving is not known;
            where it is, that alone decides. Only with `removes`.
        cause: what makes the kernel slow, by name. Rules of one cause that find something at one
            place have one finding: that of the first in the pack.
        removes: the work that its cure takes away. Where a launch's time is known, severity and
            order follow from what that saves; what saves less than 3 % is told by `--all` alone.
        explain: why it matters, for a newcomer.
        fix: what to change; may hold figures in braces, as the message does.
        references: documents that the rule rests on; those of the pack's `documents` by name.
        status: `preview` rules are not yet proved on real kernels.
        cured_together: one change of the kernel cures it in all loops, and for scope instruction
            loads and stores alike, for which `fix` reads the same: these are one finding, whose
            figures are those of the loop that gains most; only for scope loop or instruction.
        tags: subjects, such as memory, registers, waits, matrix, launch, correctness.
        tried: what came of the fix on real kernels; all 0 where nobody tried it, left out where
            the author does not say.
        prevents_launch: what it finds keeps the kernel from running at all; then only rules that
            do the same, and those tagged correctness, speak.
        cures: changes of options, constexprs and environment that `kinspect try` compiles.
        cures_only: whether `fix` names nothing besides `cures`: it is not printed where all of them
            were compiled and failed.
        improves: the figure that has to be better than before where a change is to count as a
            cure, for a rule can fall silent for other reasons, too: `occupancy` (resident waves) or
            `lds_conflicts` (cycles for the same work).
    """

    id: str
    name: str
    severity: Literal["error", "warning", "info"]
    scope: Scope
    require: str
    message: str
    confidence: Literal["certain", "likely", "possible"] = "certain"
    when: str | None = None
    untimed: str | None = None
    cause: str = ""
    removes: Removed | Removes | None = None
    explain: str = ""
    fix: str = ""
    references: tuple[Reference, ...] = ()
    status: Literal["preview", "stable"] = "stable"
    cured_together: bool = False
    tags: tuple[str, ...] = ()
    tried: Trials | None = None
    prevents_launch: bool = False
    cures: tuple[Cure, ...] = ()
    cures_only: bool = False
    improves: Literal["", "occupancy", "lds_conflicts"] = ""


class Override(Struct, frozen=True, kw_only=True):
    """What a pack changes of a rule that it takes over from another.

    Args:
        severity: in place of the rule's own.
        confidence: in place of the rule's own.
        enabled: false leaves the rule out.
    """

    severity: Literal["error", "warning", "info"] | None = None
    confidence: Literal["certain", "likely", "possible"] | None = None
    enabled: bool = True


class PackText(Struct, frozen=True, kw_only=True):
    """A pack as written: the keys of its YAML mapping, their types and defaults.

    Args:
        pack: its name; that of the file without one.
        description: in one line.
        extends: packs whose rules come first: the name of one that ships with kinspect, or the
            path of a file, from this file's folder.
        override: id of one of their rules -> what changes of it.
        documents: name -> a document that several of its rules rest on.
        rules: the pack's own.
    """

    pack: str = ""
    description: str = ""
    extends: str | tuple[str, ...] = ()
    override: Mapping[str, Override] = field(default_factory=dict)
    documents: Mapping[str, Reference] = field(default_factory=dict)
    rules: tuple[RuleText, ...] = ()


class Removing(Struct, frozen=True):
    """`Removes`, compiled."""

    what: Removed
    part: Expression | None
    of: Literal["place", "named"] = "place"


def compile_removes(removes: Removed | Removes, catalogue: Catalogue, scope: Scope) -> Removing:
    """Compiles what a cure takes away.

    Raises:
        ExpressionError: as `compile_number`.
    """
    if isinstance(removes, str):
        return Removing(removes, None)
    part = removes.part
    if isinstance(part, int | float) and part <= 0:
        raise ExpressionError("part is larger than 0", 0)
    compiled = None if part is None else compile_number(str(part), catalogue, scope, shown=True)
    return Removing(removes.what, compiled, removes.of)


COMPILERS: Mapping[str, Callable[[Any, Catalogue, Scope], Any]] = MappingProxyType(
    {
        "when": compile_condition,
        "require": compile_condition,
        "untimed": compile_condition,
        "message": compile_template,
        "fix": compile_template,
        "removes": compile_removes,
    }
)
"""Key of a rule -> what compiles its value."""


class Rule(Struct, frozen=True):
    """A rule ready to be applied. What it says is compiled when it is first needed.

    Args:
        text: the rule as written, with the overrides of packs that extend its pack.
        is_severity_stated: whether its severity is that of a user's pack: no saving changes it.
        compiled: key -> what `COMPILERS` make of its value, so far.
    """

    text: RuleText
    line: int
    file: str
    pack: str
    catalogue: Catalogue
    compiled: dict[str, Any] = field(default_factory=dict)
    is_severity_stated: bool = False

    @property
    def when(self) -> Expression | None:
        """The condition under which it applies; None: always."""
        found: Expression | None = self._part("when")
        return found

    @property
    def require(self) -> Expression:
        """The condition that must hold."""
        found: Expression = self._part("require")
        return found

    @property
    def untimed(self) -> Expression | None:
        """What makes it large enough where nobody knows what its cure saves; None: anything."""
        found: Expression | None = self._part("untimed")
        return found

    @property
    def message(self) -> Template:
        """What is wrong."""
        found: Template = self._part("message")
        return found

    @property
    def fix(self) -> Template:
        """What to change."""
        found: Template = self._part("fix")
        return found

    @property
    def removes(self) -> Removing | None:
        """What its cure takes away; None where nobody says."""
        found: Removing | None = self._part("removes")
        return found

    def _part(self, key: str) -> Any:
        if key not in self.compiled:
            value = getattr(self.text, key)
            self.compiled[key] = (
                None if value is None else COMPILERS[key](value, self.catalogue, self.text.scope)
            )
        return self.compiled[key]

    @property
    def names(self) -> tuple[MetricName, ...]:
        """The metrics in conditions and message, each once; those of `require` come first."""
        when = self.when.names if self.when else ()
        size = self.untimed.names if self.untimed else ()
        return tuple(dict.fromkeys((*self.require.names, *size, *when, *self.message.names)))

    def reads(self, metrics: Collection[str]) -> bool:
        """Whether it names one of these metrics; compiled only where their words stand in it."""
        text = self.text
        written = " ".join((text.require, text.when or "", text.untimed or "", text.message))
        return any(metric in written for metric in metrics) and any(
            name.name in metrics for name in self.names
        )

    @property
    def read_names(self) -> tuple[MetricName, ...]:
        """All metrics that a finding of the rule rests on, those of its fix included."""
        part = self.removes.part if self.removes is not None else None
        return (*self.names, *self.fix.names, *(part.names if part is not None else ()))


class Pack(Struct, frozen=True):
    """The rules of one file, those of the packs that it extends first."""

    name: str
    description: str
    rules: tuple[Rule, ...]
    file: str


NO_RULES = Pack("", "", (), "")
"""Asks nothing: in place of the default pack where something else judges the reports."""
