"""Rule conditions: what they mean with known and unknown metrics, and what they refuse."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.lint.catalogue import Catalogue
from kinspect.inspector.lint.expr import ExpressionError, compile_condition, compile_figure
from kinspect.inspector.lint.nodes import Values
from kinspect.inspector.lint.rule import compile_template, show
from kinspect.inspector.model import MetricSpec


def spec(name: str, unit: str = "registers", scope: str = "kernel") -> MetricSpec:
    return MetricSpec(name, unit, "derived", scope, name)  # type: ignore[arg-type]


CATALOGUE = Catalogue.of(
    (
        spec("vgpr_count"),
        spec("lds_bytes", "bytes"),
        spec("empty", "bool"),
        spec("occupancy.limiter", "name"),
        spec("occupancy.next_step", "mapping"),
        spec("raw", ""),
        spec("count.*", "instructions", "both"),
        spec("vector_bits.*.min", "bits/lane", "both"),
    ),
    words=("mfma", "valu", "scratch_load", "global_load"),
)


def value(text: str, **kernel: object) -> object:
    metrics = {name.replace("__", "."): v for name, v in kernel.items()}
    return compile_figure(text, CATALOGUE, "kernel").evaluate(Values(metrics, {}))  # type: ignore[arg-type]


def refused(text: str, scope: str = "kernel") -> ExpressionError:
    with pytest.raises(ExpressionError) as caught:
        compile_condition(text, CATALOGUE, scope)  # type: ignore[arg-type]
    return caught.value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("vgpr_count == 130", True),
        ("count.mfma * 4 - 2 > 60", True),
        ("count.valu / count.mfma", 4.0),
        ("0 < count.mfma <= 16", True),
        ("0 < count.mfma < 16", False),
        ("128 < vgpr_count < lds_bytes", True),
        ("min(count.mfma, count.valu, 3)", 3),
        ("max(count.mfma, 0.5 * vgpr_count)", 65.0),
        ('occupancy.limiter == "vgpr"', True),
        ("occupancy.limiter != 'vgpr'", False),
        ('occupancy.limiter in ("lds", "vgpr")', True),
        ('occupancy.limiter not in ["lds", "vgpr"]', False),
        ("vgpr_count in (64, 128)", False),
        ("not empty", True),
        ("empty == true", False),
        ("empty == False", True),
        ("vgpr_count is none", False),
        ("vgpr_count is not None", True),
        ("-vgpr_count < -1.5", True),
        ("occupancy.next_step.reduce_by <= 8", True),
        ('occupancy.next_step.resource == "vgpr"', True),
        ("occupancy.next_step is none", False),
        ("not empty and (count.mfma == 1 or count.valu == 64)", True),
    ],
)
def test_known_values(text: str, expected: object) -> None:
    got = value(
        text,
        vgpr_count=130,
        lds_bytes=32768,
        empty=False,
        count__mfma=16,
        count__valu=64,
        occupancy__limiter="vgpr",
        occupancy__next_step={"resource": "vgpr", "reduce_by": 2, "gives": 4},
    )
    assert got == expected
    assert type(got) is type(expected)


@pytest.mark.parametrize(
    "text",
    [
        "vgpr_count > 1",
        "vgpr_count == vgpr_count",
        "vgpr_count != 5",
        "vgpr_count + 1 > 0",
        "vgpr_count * 0 == 0",
        "-vgpr_count < 0",
        "max(vgpr_count, 1000) > 5",
        "vgpr_count in (1, 2)",
        "1 < 2 < vgpr_count",
        "not vgpr_count > 1",
        'occupancy.limiter == "lds"',
        "occupancy.next_step.reduce_by < 8",
        "count.mfma / count.valu > 1",  # nothing to divide by: a share of nothing is unknown
        "vgpr_count > 1 and 1 < 2",
        "vgpr_count > 1 or 2 < 1",
    ],
)
def test_unknown_leaves_it_undecided(text: str) -> None:
    assert value(text, vgpr_count=None, count__mfma=3, count__valu=0) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("vgpr_count > 1 and 2 < 1", False),
        ("vgpr_count > 1 or 1 < 2", True),
        ("1 > 2 > vgpr_count", False),
        ("vgpr_count is none", True),
        ("vgpr_count is not none", False),
        ("vgpr_count is none or vgpr_count > 5", True),
        ("occupancy.next_step is none", True),
    ],
)
def test_unknown_that_does_not_matter(text: str, expected: bool) -> None:
    assert value(text, vgpr_count=None) is expected


# Kleene's logic has a second, arithmetic definition: false, unknown, true are 0, 1/2, 1; `and` is
# the minimum, `or` the maximum, `not x` is 1 - x. It serves as the oracle here.
NAMES = {"count.mfma": 0.0, "count.valu": 1.0, "count.scratch_load": 0.5}
ATOMS = st.sampled_from(sorted(NAMES)).map(lambda n: (f"{n} > 0", NAMES[n]))
FORMULAS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        inner.map(lambda a: (f"not ({a[0]})", 1 - a[1])),
        st.tuples(inner, inner).map(
            lambda p: (f"({p[0][0]}) and ({p[1][0]})", min(p[0][1], p[1][1]))
        ),
        st.tuples(inner, inner).map(
            lambda p: (f"({p[0][0]}) or ({p[1][0]})", max(p[0][1], p[1][1]))
        ),
    ),
    max_leaves=12,
)


@given(FORMULAS)
def test_logic_is_kleenes(formula: tuple[str, float]) -> None:
    text, expected = formula
    got = value(text, count__mfma=0, count__valu=1, count__scratch_load=None)
    assert {False: 0.0, True: 1.0, None: 0.5}[got] == expected  # type: ignore[index]


NUMBERS = st.integers(0, 999)
FIGURES = st.recursive(
    NUMBERS.map(lambda n: (str(n), n)),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda p: (f"({p[0][0]} + {p[1][0]})", p[0][1] + p[1][1])),
        st.tuples(inner, inner).map(lambda p: (f"({p[0][0]} - {p[1][0]})", p[0][1] - p[1][1])),
        st.tuples(inner, inner).map(lambda p: (f"({p[0][0]} * {p[1][0]})", p[0][1] * p[1][1])),
        st.tuples(inner, inner).map(
            lambda p: (f"min({p[0][0]}, {p[1][0]})", min(p[0][1], p[1][1]))
        ),
    ),
    max_leaves=10,
)


@given(FIGURES)
def test_arithmetic(figure: tuple[str, int]) -> None:
    text, expected = figure
    assert value(text) == expected


@given(st.text(max_size=60))
def test_any_text_is_either_accepted_or_explained(text: str) -> None:
    fault = None
    try:
        compile_condition(text, CATALOGUE, "kernel")
    except ExpressionError as error:
        fault = error
    assert fault is None or (fault.message and 0 <= fault.offset <= len(text) + 1)


@pytest.mark.parametrize(
    "text",
    [
        '__import__("os").system("true") == 0',
        "vgpr_count.__class__ == 1",
        "(lambda: 1)() == 1",
        "[n for n in (1, 2)] == 1",
        "{1: 2} == 1",
        'f"{vgpr_count}" == "1"',
        "(n := 5) > 1",
        "count[0] > 1",
        "1 if empty else 2",
        "vgpr_count ** 2 > 1",
        "vgpr_count // 2 > 1",
        "vgpr_count % 2 == 1",
        "vgpr_count << 2 > 1",
        "~vgpr_count > 1",
        "+vgpr_count > 1",
        "abs(vgpr_count) > 1",
        "min(vgpr_count) > 1",
        "max(*(1, 2)) > 1",
        "min(1, 2, key=vgpr_count) > 1",
        "vgpr_count.min(1, 2) > 1",
        "(1).real == 1",
        "(1, 2) == 1",
        "b'vgpr' == occupancy.limiter",
        "1j == 1",
        "... == 1",
        "await vgpr_count",
    ],
)
def test_only_the_named_forms_are_allowed(text: str) -> None:
    refused(text)


@pytest.mark.parametrize(
    ("text", "offset", "message"),
    [
        ("vgpr_cuont > 1", 0, "unknown metric vgpr_cuont (did you mean vgpr_count?)"),
        ("empty or count.scrach_load > 1", 9, "did you mean count.scratch_load?"),
        ("1 < vector_bits.global_laod.min", 4, "did you mean vector_bits.global_load.min?"),
        ('"é" == occupancy.limitr', 7, "did you mean occupancy.limiter?"),
        ("\n  vgpr_cuont > 1", 3, "unknown metric"),
        ("zzz > 1", 0, "unknown metric zzz"),
        ('vgpr_count == "many"', 14, "is number and"),
        ('vgpr_count > "many"', 13, "`>` compares numbers"),
        ('occupancy.limiter < "b"', 0, "is text"),
        ("occupancy.limiter == 3", 21, "is text and `3` is number"),
        ('vgpr_count in ("a", 2)', 15, "this choice text"),
        ("vgpr_count in lds_bytes", 14, "list of choices"),
        ("vgpr_count in (lds_bytes, 1)", 15, "written out"),
        ("vgpr_count in ()", 14, "list of choices"),
        ('occupancy.limiter + "a" == "b"', 0, "a number is needed"),
        ("empty + 1 > 0", 0, "a number is needed"),
        ("empty and vgpr_count", 10, "a boolean is needed"),
        ("not count.mfma", 4, "a boolean is needed"),
        ("vgpr_count", 0, "not a condition"),
        ("vgpr_count == none", 14, "write `is none`"),
        ("vgpr_count is 3", 14, "asks for none alone"),
        ("occupancy.next_step == 3", 0, "name the one to compare"),
        ("hot", 0, "known of loops only"),
        ("unroll > 2", 0, "known of loops only"),
        ('occupancy.limiter = "vgpr"', 18, "compare with =="),
        ("vgpr_count >", 12, "invalid syntax"),
        ("", 0, "empty"),
        ("not " * 600 + "empty", 0, "longer than"),
    ],
)
def test_what_is_wrong_and_where(text: str, offset: int, message: str) -> None:
    error = refused(text)
    assert message in error.message
    assert error.offset == offset


def test_deep_nesting_is_an_error_not_a_crash() -> None:
    assert "nested" in refused("-" * 1990 + "1 > 0").message


def test_without_words_a_family_takes_any_member() -> None:
    open_ended = Catalogue.of((spec("count.*", scope="both"),))
    assert compile_condition("count.anything > 0", open_ended, "loop").kind == "boolean"
    with pytest.raises(ExpressionError):
        compile_condition("count.any.thing > 0", open_ended, "loop")


def test_a_mapping_is_a_catalogue_too() -> None:
    catalogue = Catalogue.of({"vgpr_count": spec("vgpr_count")})
    assert compile_condition("vgpr_count > 0", catalogue, "kernel").names[0].name == "vgpr_count"


def test_loop_rules_read_the_loop_and_what_only_kernels_have() -> None:
    values = Values({"count.mfma": 100, "lds_bytes": 7}, {"count.mfma": 4, "hot": True, "depth": 2})
    text = "hot and depth == 2 and count.mfma == 4 and lds_bytes == 7"
    assert compile_condition(text, CATALOGUE, "loop").evaluate(values) is True
    assert compile_condition("count.mfma == 100", CATALOGUE, "kernel").evaluate(values) is True
    # A count that the loop lacks is unknown there; the kernel's must not stand in for it.
    assert (
        compile_condition("count.valu > 0", CATALOGUE, "loop").evaluate(
            Values({"count.valu": 9}, {})
        )
        is None
    )


def test_values_of_undeclared_kind_are_checked_when_used() -> None:
    assert value("raw == 3", raw="three") is False
    for text in ("raw < 3", "raw + 1 > 3", "not raw", "raw and true"):
        with pytest.raises(KinspectError, match="raw") as caught:
            value(text, raw="three")
        assert caught.value.hint


def test_what_is_decided_is_not_looked_into_further() -> None:
    assert value("empty and raw < 3", empty=False, raw="three") is False
    assert value("not empty or raw < 3", empty=False, raw="three") is True
    assert value("raw == 3 and lds_bytes > 1", raw="three", lds_bytes=None) is False


def test_names_are_listed_once_in_order() -> None:
    text = "count.valu > 0 and vgpr_count > count.valu and occupancy.next_step.gives > 1"
    names = [n.name for n in compile_condition(text, CATALOGUE, "kernel").names]
    assert names == ["count.valu", "vgpr_count", "occupancy.next_step.gives"]


def test_expressions_travel_between_processes() -> None:
    expression = compile_condition("0 < count.mfma < 9 or empty", CATALOGUE, "kernel")
    again = pickle.loads(pickle.dumps(expression))
    assert again == expression
    assert again.evaluate(Values({"count.mfma": 3}, {})) is True


def test_messages_show_metrics_and_figures() -> None:
    text = "{count.valu} VALU, {count.valu / count.mfma} per MFMA, {lds_bytes} B, {empty}, {raw}"
    template = compile_template(text, CATALOGUE, "kernel")
    metrics = {"count.valu": 12, "count.mfma": 9, "lds_bytes": 65536, "empty": False}
    assert template.render(Values(metrics, {})) == "12 VALU, 1.33 per MFMA, 65,536 B, no, unknown"
    assert [n.name for n in template.names][:3] == ["count.valu", "count.valu", "count.mfma"]


@pytest.mark.parametrize(
    ("text", "offset"),
    [("{count.mfam} MFMA", 1), ("a } b", 2), ("{a", 0), ("ok {count.mfma +} x", 16)],
)
def test_faulty_messages(text: str, offset: int) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_template(text, CATALOGUE, "kernel")
    assert caught.value.offset == offset


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (None, "unknown"),
        (True, "yes"),
        (0, "0"),
        (1234567, "1,234,567"),
        (2.0, "2"),
        (0.5, "0.50"),
        (12.345, "12.3"),
        (1234.5, "1,234"),
        (float("inf"), "inf"),
        ("vgpr", "vgpr"),
        ({"resource": "lds", "reduce_by": 4096}, "resource lds, reduce_by 4,096"),
    ],
)
def test_how_values_are_shown(shown: object, text: str) -> None:
    assert show(shown) == text  # type: ignore[arg-type]
