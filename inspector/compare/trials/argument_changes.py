"""Changes of what a kernel's TTIR states of its arguments.

An argument that Triton may specialise on is 1, or divisible by 16; one that is a tl.constexpr is
its value. The values are those of the launch that was captured.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from ...model import SourceLoc, Variant
from ...ttgir.parser import parse_ttgir

SPECIALISING = ("do_not_specialize", "do_not_specialize_on_alignment")
"""Keywords of @triton.jit that keep Triton from noting values of arguments."""
ANNOTATION = "annotation"
"""Name of a change: an argument's type is not annotated. Triton notes nothing that is 1 with it."""
_BOTH = f"{SPECIALISING[0]} and {ANNOTATION}"
"""The reason of an argument that has both: its value of 1 is noted only without either."""
DIVISIBLE_BY = 16
_EXTENSIONS = ("arith.extsi", "arith.extui")
_NOTE = f"tt.divisibility = {DIVISIBLE_BY} : i32"
_INTEGER = re.compile(r"i(?:8|16|32|64)")
_HEADER = re.compile(r"^\s*tt\.func public @")
_SAME_VALUE = re.compile(
    r"^\s*(?P<result>%[\w.]+) = (?:tt\.(?:splat|broadcast|expand_dims)"
    r"|arith\.(?:extsi|extui|trunci)) (?P<operand>%[\w.]+)"
)
_DIVISION = re.compile(
    r"^\s*%[\w.]+ = arith\.(?:div|rem|floordiv|ceildiv)[su]i %[\w.]+, (?P<divisor>%[\w.]+)"
)
_ALIGNING = re.compile(
    r"^\s*%[\w.]+ = arith\.(?:muli|cmpi \w+,) (?P<left>%[\w.]+), (?P<right>%[\w.]+)"
)
"""What addresses and masks are made of: products with a pitch, comparisons with a size."""


def hidden_arguments(variant: Variant, keyword: str) -> tuple[str, ...]:
    """The arguments whose values Triton would note without a keyword of @triton.jit."""
    values = variant.values or {}
    reasons = (keyword, _BOTH) if keyword == SPECIALISING[0] else (keyword,)
    return tuple(
        name
        for name, reason in (variant.unspecialised or {}).items()
        if reason in reasons
        and name in values
        and (values[name] % DIVISIBLE_BY == 0 or (values[name] == 1 and reason == SPECIALISING[0]))
        and _argument_type(variant.ttir, name) is not None
    )


def annotated_ones(variant: Variant, *, specialised: bool) -> tuple[str, ...]:
    """The arguments that are 1, of which Triton would note that without their annotation.

    Those that an operation takes together with a narrower integer are left out: without the
    annotation it would compute in the narrower type, which this TTIR does not show.
    """
    reasons = (ANNOTATION, _BOTH) if specialised else (ANNOTATION,)
    values = variant.values or {}
    ones = [
        name
        for name, reason in (variant.unspecialised or {}).items()
        if reason in reasons
        and values.get(name) == 1
        and _argument_type(variant.ttir, name) is not None
    ]
    widening = _that_widen_others(variant.ttir, ones) if ones else frozenset()
    return tuple(name for name in ones if name not in widening)


def without_annotation(variant: Variant, names: Iterable[str]) -> Variant:
    """The kernel without the annotations of arguments that are 1, which is noted then."""
    ttir = variant.ttir
    for name in names:
        ttir = with_constant(ttir, name, 1)
    left = {n: why for n, why in (variant.unspecialised or {}).items() if n not in set(names)}
    return replace(variant, ttir=ttir, unspecialised=left)


def _that_widen_others(ttir: str, names: Iterable[str]) -> frozenset[str]:
    """The arguments for whose sake an operation widens its other operand."""
    ops = parse_ttgir(ttir, "the kernel's TTIR").ops
    computing = {
        op.loc for op in ops if op.name.startswith("arith.") and op.name not in _EXTENSIONS
    }
    arguments = {f"%{name}": name for name in names}
    copies: dict[str, str] = dict(arguments)
    extended: dict[str, SourceLoc | None] = {}
    widening: set[str] = set()
    for op in ops:
        if op.name in ("tt.splat", "tt.broadcast", "tt.expand_dims") and op.results:
            source, result = op.operands[0], op.results[0]
            if source in copies:
                copies[result] = copies[source]
            if source in extended:
                extended[result] = extended[source]
        elif op.name in _EXTENSIONS:
            extended[op.results[0]] = op.loc
        elif op.name.startswith("arith."):
            own = [copies[name] for name in op.operands if name in copies]
            others = [extended[name] for name in op.operands if name in extended]
            if any(loc is None or loc in computing for loc in others):
                widening.update(own)
    return frozenset(widening)


def specialised(variant: Variant, keyword: str) -> Variant:
    """The kernel without a keyword of @triton.jit: what it hid of arguments is noted."""
    ttir, attrs = variant.ttir, dict(variant.attrs)
    for name in hidden_arguments(variant, keyword):
        if (variant.values or {})[name] == 1:
            ttir = with_constant(ttir, name, 1)
        else:
            ttir = _with_divisibility(ttir, name)
            attrs[name] = {**attrs.get(name, {}), "tt.divisibility": DIVISIBLE_BY}
    hidden = {n: why for n, why in (variant.unspecialised or {}).items() if why != keyword}
    if keyword == SPECIALISING[0]:
        hidden = {name: ANNOTATION if why == _BOTH else why for name, why in hidden.items()}
    return replace(variant, ttir=ttir, attrs=attrs, unspecialised=hidden)


def run_time_divisors(variant: Variant) -> dict[str, int]:
    """Arguments by which integers are divided -> their values in the launch, as far as known."""
    return _known_operands(variant, _DIVISION)


def partly_aligned(variant: Variant) -> dict[str, int]:
    """Pitches and sizes that are even but no multiples of 16 -> their values in the launch.

    Triton notes of an argument only that it is divisible by 16; of a constant it sees by what.
    """
    known = _known_operands(variant, _ALIGNING)
    return {n: value for n, value in known.items() if value % 2 == 0 and value % DIVISIBLE_BY}


def _known_operands(variant: Variant, operation: re.Pattern[str]) -> dict[str, int]:
    """Arguments that are operands, the groups of a match -> their values, as far as known."""
    values: Mapping[str, int] = variant.values or {}
    same: dict[str, str] = {}
    known: dict[str, int] = {}
    for line in variant.ttir.splitlines():
        if (copy := _SAME_VALUE.match(line)) is not None:
            same[copy["result"]] = same.get(copy["operand"], copy["operand"])
        elif (match := operation.match(line)) is not None:
            for operand in match.groups():
                name = same.get(operand, operand).removeprefix("%")
                if values.get(name, 0) > 0 and _argument_type(variant.ttir, name) is not None:
                    known[name] = values[name]
    return known


def with_constant(ttir: str, name: str, value: int) -> str:
    """The TTIR with an argument's value in the place of its uses; the signature stays."""
    of_type = _argument_type(ttir, name)
    if of_type is None:
        return ttir
    constant = f"%{name}_as_constant"
    use = re.compile(rf"%{re.escape(name)}(?![\w.])")

    def lines() -> Iterator[str]:
        is_body = False
        for line in ttir.splitlines(keepends=True):
            yield use.sub(constant, line) if is_body else line
            if not is_body and _HEADER.match(line):
                is_body = True
                yield f"    {constant} = arith.constant {value} : {of_type}\n"
            elif line.startswith("  }"):
                is_body = False

    return "".join(lines())


def _argument_type(ttir: str, name: str) -> str | None:
    """The type of a kernel's integer argument; None where it has none of that name."""
    match = _argument(ttir, name)
    return match["type"] if match is not None else None


def _argument(ttir: str, name: str) -> re.Match[str] | None:
    header = next((line for line in ttir.splitlines() if _HEADER.match(line)), "")
    return re.search(
        rf"%{re.escape(name)}: (?P<type>{_INTEGER.pattern})(?P<notes> \{{[^}}]*\}})?", header
    )


def _with_divisibility(ttir: str, name: str) -> str:
    """The TTIR with the note that an argument is divisible by 16."""
    match = _argument(ttir, name)
    if match is None or "tt.divisibility" in (match["notes"] or ""):
        return ttir
    notes = f"{match['notes'][:-1]}, {_NOTE}}}" if match["notes"] else f" {{{_NOTE}}}"
    return ttir.replace(match[0], f"%{name}: {match['type']}{notes}", 1)
