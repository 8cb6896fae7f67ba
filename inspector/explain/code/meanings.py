"""Describes AMDGCN instructions in a sentence each, by patterns over their names.

The sentences stand in `meanings.yaml`. A name that matches no pattern has no sentence; its class
describes it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from ...base.documents import own_yaml
from ...model import OpInfo

_MIXED = "8-, 6- or 4-bit floats, as the operands after it say"
_MATRIX = re.compile(
    r"v_(?P<op>mfma|smfmac|wmma|swmmac)(?:_scale(?:16)?)?_(?P<out>[a-z]+\d+)_"
    r"(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)_?(?:(?P<blocks>\d+)b_?)?(?P<of>\w*)"
)
_CROSS_LANE = re.compile(r"\b(?:row_\w+|quad_perm|wave_\w+|dpp8):")


class _Sentences(Struct, frozen=True):
    """The contents of `meanings.yaml`, compiled.

    Args:
        types: type in a mnemonic -> its name.
        comparisons: relation in a comparison's mnemonic -> its name.
        patterns: (pattern of mnemonics, sentence), in order.
    """

    types: Mapping[str, str]
    type: re.Pattern[str]
    comparisons: Mapping[str, str]
    comparison: re.Pattern[str]
    patterns: tuple[tuple[re.Pattern[str], str], ...]


@functools.cache
def _sentences() -> _Sentences:
    raw: dict[str, Any] = own_yaml(Path(__file__).with_name("meanings.yaml"))
    types, comparisons = raw["types"], raw["comparisons"]
    return _Sentences(
        types=types,
        type=re.compile(rf"_({'|'.join(types)})(?=_|$)"),
        comparisons=comparisons,
        comparison=re.compile(rf"[vs]_cmp(?P<x>x)?k?_(?P<how>{'|'.join(comparisons)})_(\w+)$"),
        patterns=tuple((re.compile(pattern), text) for pattern, text in raw["sentences"]),
    )


def meaning(op: OpInfo, operands: str = "") -> str:
    """A sentence on what an instruction does; "" if none is known.

    The operands show, for example, whether a load goes to LDS.
    """
    name = op.name
    matrix = _MATRIX.match(name)
    if matrix is not None:
        return _matrix_sentence(matrix)
    compare = _sentences().comparison.match(name)
    if compare is not None:
        return _comparison_sentence(name, compare)
    if name.startswith("buffer_load") and re.search(r"\blds\b", operands):
        return "Loads from a buffer straight into LDS, past the VGPRs."
    text = _sentence(name)
    if text and name.startswith("v_") and _CROSS_LANE.search(operands) is not None:
        text += " Lanes take their input from other lanes."
    return text


@functools.lru_cache(maxsize=4096)
def _sentence(name: str) -> str:
    """Returns the sentence of the first pattern that a name matches, with its types filled in."""
    known = _sentences()
    text = next((text for pattern, text in known.patterns if pattern.match(name)), "")
    types = [known.types[type_] for type_ in known.type.findall(name)]
    last = types[-1] if types else "any type"
    if name.startswith("v_"):
        last += ", in each lane"
    between = f"{types[1]} to {types[0]}" if len(types) == 2 else "from one type to another"
    return text.format_map({"t": last, "carry": _carry(name), "from": between})


def _carry(name: str) -> str:
    """Returns the part of a sentence on the carry that an addition takes in or gives out."""
    if "_co_ci" in name or re.search(r"_(?:addc|subb|subbrev)_", name):
        return ", with the carry of the step before"
    return ", and the carry of it" if "_co_" in name else ""


def _matrix_sentence(match: re.Match[str]) -> str:
    m, n, k, blocks = match["m"], match["n"], match["k"], match["blocks"]
    sparse = ", A half zeros" if match["op"] in ("smfmac", "swmmac") else ""
    several = f", {blocks} blocks at once" if blocks else ""
    types = _sentences().types
    input_types = match["of"].removesuffix("_1k").removesuffix("1k")
    parts = [
        _MIXED if part == "f8f6f4" else types.get(part, part)
        for part in input_types.split("_")
        if part
    ]
    inputs = " and ".join(dict.fromkeys(parts))
    return (
        f"D = A × B + C on the matrix unit: A is {m} × {k}, B {k} × {n}"
        f"{', of ' + inputs if inputs else ''}; sums in {types.get(match['out'], match['out'])}"
        f"{sparse}{several}."
    )


def _comparison_sentence(name: str, match: re.Match[str]) -> str:
    kind = _sentences().types.get(match[3], match[3])
    relation = _sentences().comparisons[match["how"]]
    if match["how"] == "lg" and "float" not in kind:
        relation = "not equal to"
    if name.startswith("s_"):
        return f"Whether a is {relation} b ({kind}): the scalar condition."
    where = "EXEC: lanes where it does not hold stop" if match["x"] else "one bit per lane"
    return f"Whether a is {relation} b in each lane ({kind}), into {where}."
