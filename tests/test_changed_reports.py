"""Saved reports in which one value is another: refused in one line, or shown; never a bug of ours.

The report is of real kernels; what no kernel of it has is put beside.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.cli import group
from kinspect.inspector.metrics import catalogue
from kinspect.inspector.model import Metric
from kinspect.inspector.pipeline import collecting, reading
from kinspect.inspector.pipeline.jobs import Request
from kinspect.inspector.report import json_write

Values = dict[str, Any]
Path_ = tuple[str | int, ...]
DATA = Path(__file__).parent / "data"
GOOD = DATA / "small_gfx942.s"
CHANGES: Final = 120
"""Of each seed; of the first one a quarter."""
OTHERS: Final[dict[type, Sequence[Any]]] = {
    str: ("x", "L0", "L1", ""),
    int: (0, -1, 1, 2, (1 << 31) - 1, 1 << 40, 10**25, 10**300, 10**400),
    float: (0.0, -1.5, 1e29, 1e308, 3),
    bool: (True, False),
    type(None): (1, "x", 0.5, "L0", True, {"a": 1}),
    list: ([], [1], ["x"], {}),
    dict: ({}, {"a": 1}, {"a": None}, []),
}
ANY: Final = (*tuple(value for values in OTHERS.values() for value in values), None)


@pytest.fixture(scope="module")
def report() -> Values:
    targets = (str(GOOD), str(DATA / "isa" / "attend.triton39.gfx950.amdgcn"))
    document = json_write.to_dict(collecting.collect(Request(targets)))
    text = json.dumps(document)
    assert len(document["kernels"]) >= 2
    value: Values = json.loads(text)
    kernel = value["kernels"][0]
    loop = kernel["loops"][0]["id"]
    place = {"file": "k.py", "line": 3}
    held = {"name": "x", "kind": "value", "type": "", "source": place, "registers": "v1"}
    counts = {"vgprs": 1, "agprs": 0}
    kernel["untouched"] = [{"loop": loop, **counts, "values": [{**held, **counts, "scratch": 0}]}]
    slot = {"offset": 4, "bytes": 4, "stores": [20], "reloads": [21], "loops": [loop], "source": []}
    kernel["spills"] = [slot]
    kernel["spilled_values"] = [
        {
            "name": "x",
            "kind": "value",
            "type": "",
            "source": place,
            "dwords": 1,
            "stores": 1,
            "reloads": 1,
            "hot_stores": 1,
            "hot_reloads": 1,
            "loops": [loop],
            "slots": "0:3",
            "by_loop": [{"loop": loop, "stores": 1, "reloads": 1}],
        }
    ]
    kernel["accesses"] = [
        {
            "op": "tt.load",
            "line": 3,
            "class": "global_load",
            "source": place,
            "dtype": "f16",
            "shape": [64],
            "layout": "blocked",
            "loop": loop,
            "bits": 16,
            "widest": 128,
            "limited_by": "mask",
            "reason": "a mask",
            "lines": [20],
        }
    ]
    tiles = {"reads": 8, "distinct": 2, "xcds": 8, "ratio": 2.0, "contiguous": 4}
    kernel["metrics"]["xcd.tiles"] = {"value": tiles, "unit": "mapping", "origin": "estimated"}
    kernel["metrics"]["time.us"] = {"value": 3.5, "unit": "us", "origin": "measured"}
    return value


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: Values) -> Path:
    monkeypatch.setenv("KINSPECT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "base.json").write_text(json.dumps(report))
    (tmp_path / "small.s").write_text(GOOD.read_text())
    return tmp_path


def _commands(name: str) -> Iterator[list[str]]:
    yield ["analyze", name]
    yield ["analyze", name, "--details"]
    for form in ("agent", "md"):
        yield ["analyze", name, "--format", form]
    yield ["report", name, "-o", "page.html"]
    yield ["lint", name, "--fail-on", "never"]
    yield ["lint", name, "--fail-on", "never", "--format", "agent"]
    yield ["diff", name, "base.json"]
    yield ["diff", "base.json", name]


def _run(words: Sequence[str]) -> tuple[int, str, str]:
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        status = group.run(list(words))
    return status, out.getvalue(), errors.getvalue()


def _show(place: Path, changed: Values, what: object) -> None:
    """Runs every view over a changed report."""
    (place / "x.json").write_text(json.dumps(changed))
    for words in _commands("x.json"):
        _, out, errors = _run(words)
        assert "internal error" not in out + errors, (what, words, errors)
        if "damaged report" in errors:
            break  # so say the others


def _paths(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield (*path, key)
        if isinstance(item, dict | list):
            yield from _paths(item, (*path, key))


def _changed(report: Values, path: Path_, value: Any) -> Values:
    """A copy with another value at a place; without it, where the value is `...`."""
    changed = copy.deepcopy(report)
    parent: Any = changed
    for key in path[:-1]:
        parent = parent[key]
    if value is ...:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return changed


def _at(value: Any, path: Path_) -> Any:
    for key in path:
        value = value[key]
    return value


# --------------------------------------------------------------------------- any value


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 9))]
)
def test_no_changed_value_is_a_bug(place: Path, report: Values, seed: int) -> None:
    chance = random.Random(seed)
    kinds: dict[Path_, list[Path_]] = {}  # so that what there is once changes as often
    for path in _paths(report["kernels"], ("kernels",)):
        kinds.setdefault(tuple("" if isinstance(k, int) else k for k in path), []).append(path)
    for _ in range(CHANGES if seed else CHANGES // 8):
        path = chance.choice(kinds[chance.choice(sorted(kinds))])
        likely = OTHERS[type(_at(report, path))]
        value = chance.choice(
            (chance.choice(likely), chance.choice(likely), chance.choice(ANY), ...)
        )
        _show(place, _changed(report, path, value), (path, value))


# --------------------------------------------------------------------------- references


def _references(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    """The places of a kernel at which a loop is named."""
    for place in _paths(value, path):
        owner, key = place[:-1], place[-1]
        names_loops = key in ("loop", "parent", "main_loop") or owner[-1:] == ("loops",)
        if names_loops and "metrics" not in place and not isinstance(_at(value, place), dict):
            yield place


def test_what_names_no_loop_is_refused_and_the_others_are_reported(
    place: Path, report: Values
) -> None:
    kernel = report["kernels"][0]
    by_field: dict[tuple[str | int, ...], Path_] = {}
    for reference in _references(kernel):
        by_field[tuple(key for key in reference if isinstance(key, str))] = reference
    assert {path[0] for path in by_field} >= {
        *("main_loop", "loops", "memory_ops", "waits", "accesses", "spills", "spilled_values"),
        *("untouched", "live_peak"),
    }  # fmt: skip
    for reference in by_field.values():
        changed = _changed(report, ("kernels", 0, *reference), "L99")
        (place / "x.json").write_text(json.dumps(changed))
        status, out, errors = _run(["analyze", "x.json", "small.s"])
        assert status == 2, reference
        assert errors.startswith("kinspect: error: x.json: "), reference
        assert "damaged report" in errors
        assert "L99" in errors
        assert errors.count("\n") == 1
        assert "small" in out


LOOPS: dict[str, Callable[[list[Values]], object]] = {
    "a loop in itself": lambda loops: loops[0].update(parent=loops[0]["id"]),
    "one deeper than its place": lambda loops: loops[0].update(depth=1 << 30),
    "the same loop again": lambda loops: loops.append(loops[0]),
    "two in each other": lambda loops: loops.extend(
        {**loops[0], "id": id_, "parent": parent, "depth": depth}
        for id_, parent, depth in (("A", "B", 2), ("B", "A", 3))
    ),
}


@pytest.mark.parametrize("damage", LOOPS)
def test_loops_nest(place: Path, report: Values, damage: str) -> None:
    changed = copy.deepcopy(report)
    LOOPS[damage](changed["kernels"][0]["loops"])
    (place / "x.json").write_text(json.dumps(changed))
    with pytest.raises(KinspectError, match="damaged report"):
        reading.load_saved(place / "x.json")


# --------------------------------------------------------------------------- metrics


def _with_all_metrics(report: Values, value: Any) -> Values:
    """A kernel with every metric of the catalogue, in it and its loops."""
    changed = copy.deepcopy(report)
    metrics = {
        spec.name.replace("*", "global_load"): {
            "value": value(spec) if callable(value) else value,
            "unit": spec.unit,
            "origin": spec.origin,
        }
        for spec in catalogue.specs()
    }
    for kernel in changed["kernels"]:
        for owner in (kernel, *kernel["loops"]):
            owner["metrics"] = {**owner["metrics"], **copy.deepcopy(metrics)}
    return changed


FIGURES: dict[str, Any] = {
    **{repr(value)[:12]: value for value in ANY if not isinstance(value, list)},
    "mappings, empty but for the keys": lambda spec: (
        dict.fromkeys(spec.keys) if spec.kind == "mapping" else None
    ),
    "mappings of words": lambda spec: (
        {**dict.fromkeys(spec.keys, "x"), "a": "x"} if spec.kind == "mapping" else 1
    ),
    "what fits": lambda spec: {"number": 1, "text": "x", "boolean": True, "any": "x"}.get(
        spec.kind, dict.fromkeys(spec.keys, 1)
    ),
}


@pytest.mark.parametrize("figure", FIGURES)
def test_no_figure_of_any_metric_is_a_bug(place: Path, report: Values, figure: str) -> None:
    """A view that reads a key of a mapping states it in the catalogue, or this fails."""
    _show(place, _with_all_metrics(report, FIGURES[figure]), figure)


@pytest.mark.parametrize("name", ["xcd.tiles", "live.at", "bound.longest"])
def test_a_mapping_without_a_key_that_is_read_is_unknown(
    place: Path, report: Values, name: str
) -> None:
    (spec,) = (spec for spec in catalogue.specs() if spec.name == name)
    assert spec.keys
    for missing in spec.keys:
        value = dict.fromkeys(spec.keys - {missing}, 1)
        changed = copy.deepcopy(report)
        changed["kernels"][0]["metrics"][name] = {
            "value": value,
            "unit": "mapping",
            "origin": "derived",
        }
        (place / "x.json").write_text(json.dumps(changed))
        metric = reading.load_saved(place / "x.json").kernels[0].metrics[name]
        assert metric.value is None
        assert "saved report" in metric.note


@pytest.mark.parametrize(
    ("name", "value", "fits"),
    [
        ("vgpr_count", 40, True),
        ("vgpr_count", None, True),
        ("vgpr_count", -7, True),  # the compiler stated it
        ("vgpr_count", "40", False),
        ("vgpr_count", True, False),
        ("vgpr_count", 10**300, False),
        ("vgpr_count", {}, False),
        ("count.mfma", 2, True),
        ("count.mfma", -2, False),
        ("vector_bits.lds_read.mean", 64.0, True),
        ("vector_bits.lds_read.mean", "64", False),
        ("empty", False, True),
        ("empty", 0, False),
        ("gpu.unit", "CU", True),
        ("gpu.unit", 1, False),
        ("occupancy.limiter", "vgpr", True),
        ("occupancy.next_step", {"resource": "vgpr"}, True),
        ("occupancy.next_step", 1, False),
        ("float64", {"any": "thing"}, True),
        ("float64", 1, False),
        ("nobody.knows", "x", True),
        ("nobody.knows", 10**300, False),
    ],
)
def test_what_a_metric_can_have(name: str, value: Any, fits: bool) -> None:
    assert catalogue.fits(Metric(name, value, "", "derived")) is fits


def test_whole_numbers_have_64_bits(place: Path, report: Values) -> None:
    for path in (
        *(("memory_ops", 0, "bits"), ("waits", 0, "n"), ("source", "line"), ("demand", "vgprs")),
        ("loops", 0, "unroll"),
    ):
        changed = copy.deepcopy(report)
        owner = changed["kernels"][0]
        if path[0] == "source":
            owner["source"] = {"file": "k.py", "line": 1}
        for key in path[:-1]:
            owner = owner[key]
        owner[path[-1]] = 1 << 64
        (place / "x.json").write_text(json.dumps(changed))
        with pytest.raises(KinspectError, match="damaged report"):
            reading.load_saved(place / "x.json")


def test_a_constexpr_may_be_larger(place: Path, report: Values) -> None:
    changed = copy.deepcopy(report)
    changed["kernels"][0]["variant"] = {
        "case": None,
        "signature": {},
        "constexprs": {"K": 1 << 100},
        "attrs": {},
        "options": {},
        "wave_size": 64,
        "grid": None,
    }
    (place / "x.json").write_text(json.dumps(changed))
    variant = reading.load_saved(place / "x.json").kernels[0].variant
    assert variant is not None
    assert variant.constexprs == {"K": 1 << 100}


def test_what_kinspect_writes_is_read_as_it_is(place: Path) -> None:
    """Of every file of machine code in the tests' data: nothing is refused, or unknown."""
    kinds = {".s", ".amdgcn", ".hsaco"}
    targets = tuple(str(f) for f in sorted((DATA / "isa").iterdir()) if f.suffix in kinds)
    found = collecting.collect(Request(targets))
    document = json_write.to_dict(found)
    (place / "all.json").write_text(json.dumps(document))
    assert json_write.to_dict(reading.load_saved(place / "all.json")) == document


def test_a_metric_has_one_meaning() -> None:
    """Families may make a figure together, but not two figures of one name."""
    meanings: dict[str, object] = {}
    for family in catalogue.METRICS.listed:
        for spec in family.specs:
            assert meanings.setdefault(spec.name, spec) == spec
