"""Rules that were, and which rule tells now what they told.

Ids are never reused. Comments, settings, packs and command lines may still name one: it is known,
and selects the rule that tells it now, or none.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_NOT_TOLD: Final = (
    "KI014", "KI021", "KI023", "KI027", "KI029", "KI034", "KI035", "KI040", "KI041", "KI057",
    "KI062", "KI066", "KI072", "KI077", "KI078", "KI079", "KI080", "KI087", "KI102",
    "KI104", "KI115", "KI125", "KG014",
)  # fmt: skip
FORMER: Final[Mapping[str, str | None]] = MappingProxyType(
    {
        "KI002": "KI001",
        "KI010": "KI009",
        "KI028": "KI044",
        "KI096": "KI049",
        "KI105": "KI054",
        "KI123": "KI122",
        "KI126": "KI039",
        **dict.fromkeys(_NOT_TOLD),
    }
)
"""Id of a rule that was -> the rule that tells it now; None where none does."""
_SINCE: Final = "2026-12"


def what_became_of(word: str) -> str | None:
    """What became of a rule that was, in one line; None for any other word."""
    id_ = word.upper()
    if id_ not in FORMER:
        return None
    successor = FORMER[id_]
    if successor is None:
        return f"{id_} is no longer told"
    return f"{id_} is told by {successor} since {_SINCE}"
