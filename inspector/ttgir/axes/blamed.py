"""The cause that a fact about some addresses or a mask was lost."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from ...model import TtgirOp

Kind = Literal[
    "argument",  # an argument of the kernel without the fact
    "constant",  # a constant
    "divided",  # an unknown divisor
    "factor",  # a factor that neighbours are multiplied by
    "loaded",  # a value from memory
    "predicate",  # a comparison that may change at any element
    "program",  # the program's index
    "range",  # a range that is too short
    "repeated",  # one element for all neighbours
    "reversed",  # elements that count down
    "shared",  # one element for some neighbours
    "shift",  # a constant that is added
    "value",  # any other operation
    "wrap",  # a remainder that may wrap around
]
"""The kinds of causes."""


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
