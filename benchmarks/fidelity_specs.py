"""Recorded and captured specialisations in one form, and how they differ."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kinspect.inspector.capture.trace import TracedSpecialization
from kinspect.inspector.model import Variant

DEFAULT_STAGES = 2
"""`num_stages` of a launch that names none, for AMD (`HIPOptions` in triton/backends/amd)."""
BLOCK_SHAPE = re.compile(r"\[[\d, ]+\]")


@dataclass(frozen=True)
class Spec:
    """What is compared of a specialisation."""

    kernel: str
    signature: tuple[tuple[str, str], ...]
    constexprs: tuple[tuple[str, str], ...]
    divisible: frozenset[str]
    warps: int
    stages: int


@dataclass
class Launched:
    """A specialisation with its grids.

    `tuned` are the constexprs that an autotuner set; `compiled` says whether a compile succeeded.
    """

    spec: Spec
    grids: set[tuple[int, ...]]
    tuned: frozenset[str]
    compiled: bool = True


def from_trace(one: TracedSpecialization) -> Launched:
    """A recorded specialisation in the form that is compared."""
    names = list(one.signature)
    asked = one.asked or {}
    divisible = {
        argument(names, path)
        for path, pairs in one.attrs
        if ["tt.divisibility", 16] in [list(p) for p in pairs]
    }
    spec = Spec(
        one.kernel.qualname,
        tuple((name, type_text(kind)) for name, kind in one.signature.items()),
        tuple(sorted((argument(names, p), value_text(v)) for p, v in one.constexprs)),
        frozenset(divisible),
        int(one.options["num_warps"]),
        int(asked.get("num_stages", DEFAULT_STAGES)),
    )
    grids = {tuple(grid) for grid, _ in one.grids}
    tuned = frozenset(one.tuning.config if one.tuning else ())
    return Launched(spec, grids, tuned, one.compiled)


def from_capture(one: Variant, facts: Mapping[str, Any] | None) -> Launched:
    """A captured specialisation, with its launches, in the form that is compared."""
    divisible = {name for name, attrs in one.attrs.items() if attrs.get("tt.divisibility") == 16}
    spec = Spec(
        one.qualname or one.kernel,
        tuple(one.signature.items()),
        tuple(sorted((name, plain_text(v)) for name, v in one.constexprs.items())),
        frozenset(divisible),
        int(one.options["num_warps"]),
        int(one.options["num_stages"]),
    )
    grids = {(*grid, 1, 1)[:3] for grid, _ in (facts or {}).get("grids", ())}
    return Launched(spec, grids, frozenset(one.tuning or ()))


def by_spec(launched: Iterable[Launched]) -> dict[Spec, Launched]:
    """Joins those that are told apart by nothing that is compared (paths of libraries, say)."""
    found: dict[Spec, Launched] = {}
    for one in launched:
        known = found.get(one.spec)
        if known is not None:
            one = replace(
                one, grids=one.grids | known.grids, compiled=one.compiled or known.compiled
            )
        found[one.spec] = one
    return found


def left_open(one: Launched) -> Spec:
    """A specialisation without what its autotuner chose."""
    spec = one.spec
    constexprs = tuple(pair for pair in spec.constexprs if pair[0] not in one.tuned)
    if not one.tuned:
        return spec
    # A configuration's pre_hook sets the blocks of tensor descriptors, which their types state.
    signature = tuple((name, BLOCK_SHAPE.sub("[]", kind)) for name, kind in spec.signature)
    return replace(spec, signature=signature, constexprs=constexprs, warps=0, stages=0)


def nearest(spec: Spec, others: Mapping[Spec, Launched]) -> list[str]:
    """In what a specialisation differs from the nearest one of the same kernel."""
    found = [differences(spec, other) for other in others if other.kernel == spec.kernel]
    return min(found, key=len, default=["kernel"])


def differences(one: Spec, other: Spec) -> list[str]:
    """The parts in which two specialisations of a kernel differ."""
    found = [
        f"signature {name}: {a} / {b}"
        for name, a, b in unequal(dict(one.signature), dict(other.signature))
    ]
    found += [
        f"constexpr {name}: {a} / {b}"
        for name, a, b in unequal(dict(one.constexprs), dict(other.constexprs))
    ]
    apart = one.divisible ^ other.divisible
    found += [f"divisibility {name}" for name in sorted(apart)]
    if one.warps != other.warps:
        found.append(f"num_warps: {one.warps} / {other.warps}")
    if one.stages != other.stages:
        found.append(f"num_stages: {one.stages} / {other.stages}")
    return found


def unequal(one: Mapping[str, str], other: Mapping[str, str]) -> Iterator[tuple[str, Any, Any]]:
    for name in dict.fromkeys((*one, *other)):
        if one.get(name) != other.get(name):
            yield name, one.get(name), other.get(name)


def argument(names: Sequence[str], path: Sequence[int | str]) -> str:
    """`x`, or `x[1]` for an element of a tuple."""
    first, *rest = path
    name = names[first] if isinstance(first, int) else first
    return "".join([name, *(f"[{n}]" for n in rest)])


def type_text(kind: Any) -> str:
    """A recorded type as the front end's report spells it."""
    if isinstance(kind, dict):
        return "(" + ", ".join(map(type_text, kind["tuple"])) + ")"
    return str(kind)


def value_text(value: Any) -> str:
    """A recorded constant as text that equals `plain_text` of the captured one."""
    if not isinstance(value, dict):
        return repr(value)
    for name in ("tuple", "list", "items"):
        if name in value:
            return "[" + ", ".join(map(value_text, value[name])) + "]"
    if "constexpr" in value:
        return value_text(value["constexpr"])
    if "object" in value:
        return repr(value["object"]["qualname"].rpartition(".")[2])
    texts = [v for v in value.values() if isinstance(v, str)]
    return repr(texts[0]) if texts else repr(value)


def plain_text(value: Any) -> str:
    """A captured constant as text."""
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(plain_text, value)) + "]"
    return repr(value)
