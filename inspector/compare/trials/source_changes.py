"""Changes of a kernel's source that can be made mechanically: they are made on its TTIR.

The identity of a set of changes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct

from ...base.errors import KinspectError
from ...model import Change, SourceLoc
from ...ttgir.parser import parse_ttgir

RANGE_STAGES, EXPONENTIAL = "tl.range's num_stages", "tl.exp(x)"
"""Names of changes: the stages that a loop states itself, and exponentials to the base of e."""
EXP2 = "tl.exp2(x * 1.4426950408889634)"
WIDENED_OPERANDS = ".to(tl.float32) of both operands of tl.dot"
"""Name of a change that multiplies operands of 16 bits as they are."""
INPUT_PRECISION = "tl.dot's input_precision"
_LOG2_E: Mapping[str, str] = {"f32": "1.44269502", "f64": "1.4426950408889634"}
"""Element type -> log2(e) in its precision."""

_LOOP = re.compile(r"^(?P<indent>\s*)(?:%\S+ = )?scf\.for\b")
_LOOP_END = re.compile(r"^(?P<indent>\s*)\}(?: \{(?P<attributes>[^}]*)\})?(?: loc\(.*\))?$")
_STAGES = re.compile(r"\btt\.num_stages = (?P<stages>\d+) : i32")
_EXP = re.compile(
    r"^(?P<indent>\s*)(?P<result>%\S+) = math\.exp (?P<operand>%\S+)(?P<flags> fastmath<\w+>)?"
    r" : (?P<type>(?:tensor<(?:\d+x)+)?(?P<element>f32|f64)\b.*?)(?P<loc> loc\(.*\))?$"
)
_WIDENED = re.compile(
    r"^\s*(?P<result>%\S+) = arith\.extf (?P<operand>%\S+)"
    r" : tensor<(?:\d+x)+(?P<element>f16|bf16)> to tensor<(?:\d+x)+f32>"
)
_DOT = re.compile(
    r"^(?P<head>\s*%\S+ = tt\.dot )(?P<left>%[\w.#]+), (?P<right>%[\w.#]+), (?P<sum>%[\w.#]+)"
    r"(?:, inputPrecision = (?P<precision>\w+))?(?P<attributes>[^:]*) : "
    r"tensor<(?P<left_shape>(?:\d+x)+)f32> \* tensor<(?P<right_shape>(?:\d+x)+)f32> -> "
)
"""A product of float32 operands."""
_IEEE = "ieee"


class LoopStages(Struct, frozen=True):
    """The stages of pipelining that a kernel's innermost loops state.

    Args:
        stated: those of the loops that state any, in the order of the TTIR.
    """

    stated: tuple[int, ...]
    silent: int

    @property
    def override_the_option(self) -> bool:
        """Whether no loop is left that the launch option num_stages could change."""
        return bool(self.stated) and not self.silent


def loop_stages(ttir: str) -> LoopStages:
    """Reads what `tl.range` says of the stages of innermost loops."""
    stated: list[int] = []
    silent = 0
    around: list[str] = []  # indentation of the loops that are open
    is_innermost = False
    for line in ttir.splitlines():
        if (begin := _LOOP.match(line)) is not None:
            around.append(begin["indent"])
            is_innermost = True
        elif around and (end := _LOOP_END.match(line)) and end["indent"] == around[-1]:
            around.pop()
            stages = _STAGES.search(end["attributes"] or "")
            if stages is not None:
                stated.append(int(stages["stages"]))
            elif is_innermost:
                silent += 1
            is_innermost = False
    return LoopStages(tuple(stated), silent)


def has_exponentials(ttir: str) -> bool:
    """Whether there are exponentials to the base of e."""
    return any(map(_EXP.match, ttir.splitlines()))


def widened_operands(ttir: str) -> str | None:
    """The 16-bit type of both operands of all float32 products before they were widened.

    None where there is no such product, or only some have operands that were widened from it.
    """
    elements = set()
    widened: dict[str, str] = {}
    for line in ttir.splitlines():
        if (conversion := _WIDENED.match(line)) is not None:
            widened[conversion["result"]] = conversion["element"]
        elif (dot := _DOT.match(line)) is not None:
            elements |= {widened.get(dot["left"]), widened.get(dot["right"])}
    return elements.pop() if len(elements) == 1 else None


def input_precisions(ttir: str) -> frozenset[str]:
    """The input_precision of the float32 products."""
    dots = filter(None, map(_DOT.match, ttir.splitlines()))
    return frozenset(dot["precision"] or _IEEE for dot in dots)


def places_of(ttir: str, operations: Collection[str]) -> tuple[SourceLoc, ...]:
    """The lines of the user's code that operations of some names come from, in order."""
    try:
        ops = parse_ttgir(ttir, "the kernel's TTIR").ops
    except KinspectError:
        return ()
    places = {
        (op.loc.in_user_code.file, op.loc.in_user_code.line)
        for op in ops
        if op.name in operations and op.loc is not None
    }
    return tuple(SourceLoc(file, line) for file, line in sorted(places))


def with_source_changes(ttir: str, changes: Iterable[Change]) -> str:
    """The TTIR as the front end would make it of the changed source, but for locations."""
    for change in changes:
        if change.kind == "source" and change.name == RANGE_STAGES:
            if change.before is None:
                ttir = _with_stated_stages(ttir)
            ttir = _STAGES.sub(f"tt.num_stages = {change.value} : i32", ttir)
        elif change.kind == "source" and change.name == EXPONENTIAL:
            lines = enumerate(ttir.splitlines(keepends=True))
            ttir = "".join(_in_base_two(number, line) for number, line in lines)
        elif change.kind == "source" and change.name == WIDENED_OPERANDS:
            ttir = _with_stored_operands(ttir)
        elif change.kind == "source" and change.name == INPUT_PRECISION:
            lines_of_dots = ttir.splitlines(keepends=True)
            ttir = "".join(_in_precision(line, str(change.value)) for line in lines_of_dots)
    return ttir


def _with_stated_stages(ttir: str) -> str:
    """The TTIR in which each innermost loop states its stages, as tl.range does."""
    lines = ttir.splitlines(keepends=True)
    around: list[str] = []
    is_innermost = False
    for number, line in enumerate(lines):
        if (begin := _LOOP.match(line)) is not None:
            around.append(begin["indent"])
            is_innermost = True
        elif around and (end := _LOOP_END.match(line)) and end["indent"] == around[-1]:
            around.pop()
            if is_innermost and _STAGES.search(end["attributes"] or "") is None:
                stated = "tt.num_stages = 1 : i32"
                at, added = end.end("attributes"), f", {stated}"
                if end["attributes"] is None:
                    at, added = len(end["indent"]) + 1, f" {{{stated}}}"
                lines[number] = f"{line[:at]}{added}{line[at:]}"
            is_innermost = False
    return "".join(lines)


def _with_stored_operands(ttir: str) -> str:
    """The TTIR with products of what the source widened, before it did."""
    widened: dict[str, tuple[str, str]] = {}
    lines = []
    for line in ttir.splitlines(keepends=True):
        if (conversion := _WIDENED.match(line)) is not None:
            widened[conversion["result"]] = conversion["operand"], conversion["element"]
        dot = _DOT.match(line)
        if dot is not None and dot["left"] in widened and dot["right"] in widened:
            left, left_element = widened[dot["left"]]
            right, right_element = widened[dot["right"]]
            precision = f", inputPrecision = {dot['precision']}" if dot["precision"] else ""
            line = (
                f"{dot['head']}{left}, {right}, {dot['sum']}{precision}{dot['attributes']} : "
                f"tensor<{dot['left_shape']}{left_element}> * "
                f"tensor<{dot['right_shape']}{right_element}> -> {line[dot.end() :]}"
            )
        lines.append(line)
    return "".join(lines)


def _in_precision(line: str, precision: str) -> str:
    """A line; a product of float32 with another input_precision."""
    dot = _DOT.match(line)
    if dot is None:
        return line
    operands = f"{dot['left']}, {dot['right']}, {dot['sum']}, inputPrecision = {precision}"
    return f"{dot['head']}{operands}{line[dot.start('attributes') :]}"


def _in_base_two(number: int, line: str) -> str:
    """A line; in place of an exponential to the base of e three lines by way of the base of 2."""
    match = _EXP.match(line.rstrip("\n"))
    if match is None:
        return line
    indent, flags, of_type, loc = (match[part] or "" for part in ("indent", "flags", "type", "loc"))
    log2_e = _LOG2_E[match["element"]]
    constant = f"dense<{log2_e}>" if of_type.startswith("tensor") else log2_e
    factor, scaled = f"%log2_e_of_line_{number}", f"%scaled_of_line_{number}"
    return (
        f"{indent}{factor} = arith.constant {constant} : {of_type}{loc}\n"
        f"{indent}{scaled} = arith.mulf {match['operand']}, {factor}{flags} : {of_type}{loc}\n"
        f"{indent}{match['result']} = math.exp2 {scaled}{flags} : {of_type}{loc}\n"
    )


def key_of(changes: Iterable[Change]) -> tuple[tuple[str, str, str], ...]:
    """What tells one set of changes from another: of the source also what it is made to."""
    return tuple(
        sorted(
            (c.kind, c.name, repr((c.value, c.before) if c.kind == "source" else c.value))
            for c in changes
        )
    )
