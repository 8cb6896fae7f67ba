"""What a location stands for does not depend on what was looked up before it."""

from __future__ import annotations

import itertools

import pytest
from kinspect.inspector.model import SourceLoc
from kinspect.inspector.ttgir.lines import LocationLine, location
from kinspect.inspector.ttgir.locs import (
    MAX_FRAMES,
    Alias,
    CallSiteLoc,
    FileLoc,
    Fused,
    Loc,
    LocTable,
)


def places(*lines: str) -> dict[str | None, LocationLine]:
    read = [location(line) for line in lines]
    return {line[0]: line for line in read if line is not None}


def chain(length: int) -> list[str]:
    """`#loc0` is a place, each other alias a name for the one before it."""
    return ['#loc0 = loc("k.py":7:3)'] + [
        f'#loc{n} = loc("n"(#loc{n - 1}))' for n in range(1, length)
    ]


@pytest.mark.parametrize("length", [199, 200, 201, 202, 203, 5000])
@pytest.mark.parametrize("first", [0.0, 0.5, 1.0])
def test_a_chain_of_any_length_is_followed_from_either_end(length: int, first: float) -> None:
    table = LocTable({}, places(*chain(length)))
    order = [int(first * (length - 1)), *range(length)]
    assert {table.resolve(Alias(f"#loc{n}")) for n in order} == {SourceLoc("k.py", 7, 3)}


def test_a_long_chain_of_calls_keeps_the_innermost_frames() -> None:
    lines = ['#loc0 = loc("k.py":1:1)'] + [
        line
        for n in range(1, 400)
        for line in (
            f'#at{n} = loc("k.py":{n + 1}:1)',
            f"#loc{n} = loc(callsite(#at{n} at #loc{n - 1}))",
        )
    ]
    results = []
    for order in (range(400), reversed(range(400))):
        table = LocTable({}, places(*lines))
        for n in order:
            table.resolve(Alias(f"#loc{n}"))
        results.append(table.resolve(Alias("#loc399")))
    assert results[0] == results[1]
    frames, frame = [], results[0]
    while frame is not None:
        frames.append(frame.line)
        frame = frame.inlined_at
    assert frames == list(range(400, 400 - MAX_FRAMES, -1))


PLACE, OTHER = FileLoc("a.py", 1, 1), FileLoc("b.py", 2, 1)
CIRCULAR: dict[str, dict[str, Loc]] = {
    "itself": {"#a": Alias("#a"), "#b": Fused((Alias("#a"), PLACE))},
    "calls": {
        "#a": CallSiteLoc(Alias("#b"), PLACE),
        "#b": CallSiteLoc(Alias("#a"), OTHER),
        "#c": CallSiteLoc(Alias("#b"), Alias("#a")),
    },
    "two circles": {
        "#a": Fused((Alias("#b"), Alias("#c"), PLACE)),
        "#b": Fused((Alias("#d"), OTHER)),
        "#c": CallSiteLoc(Alias("#d"), OTHER),
        "#d": CallSiteLoc(Alias("#a"), PLACE),
    },
}


@pytest.mark.parametrize("aliases", CIRCULAR.values(), ids=CIRCULAR)
def test_circular_aliases_are_the_same_in_any_order(aliases: dict[str, Loc]) -> None:
    seen = set()
    for order in itertools.permutations(aliases):
        table = LocTable(aliases, {})
        resolved = {name: table.resolve(Alias(name)) for name in order}
        seen.add(tuple(resolved[name] for name in aliases))
    assert len(seen) == 1


def test_what_leads_back_to_itself_has_no_place_of_its_own() -> None:
    table = LocTable(CIRCULAR["itself"], {})
    assert table.resolve(Alias("#a")) is None
    assert table.resolve(Alias("#b")) == SourceLoc("a.py", 1, 1)
    assert table.resolve(Alias("#unknown")) is None
