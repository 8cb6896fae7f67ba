"""The cause that a fact about some addresses or a mask was lost."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from ...model import TtgirOp

Kind = Literal[
    "argument",
    "constant",
    "divided",
    "factor",
    "loaded",
    "predicate",
    "program",
    "range",
    "repeated",
    "reversed",
    "shared",
    "shift",
    "value",
    "wrap",
]
"""The kinds of causes, in this order: an argument of the kernel without the fact; a constant; an
unknown divisor; a factor that neighbours are multiplied by; a value from memory; a comparison that
may change at any element; the program's index; a range that is too short; one element for all
neighbours; elements that count down; one element for some neighbours; a constant that is added; any
other operation; a remainder that may wrap around."""


class Blame(Struct, frozen=True):
    """The cause that a fact was lost.

    Attributes:
        kind: see `Kind`.
        value: the SSA value at fault, e.g. `%stride_bk`.
        op: the operation that computes it, or that loses the fact with it; None for an argument.
        constant: the number, for `constant` and a constant `factor`; for `shared` the number of
            consecutive numbers that give one quotient.
        factor: for `shared` and `reversed`, the value that the quotients or elements are multiplied
            by; None where they are the addresses' steps themselves.
    """

    kind: Kind
    value: str
    op: TtgirOp | None = None
    constant: int | None = None
    factor: str | None = None
