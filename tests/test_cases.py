"""What the guest knows without Triton: types, selections. Checked against Triton where it is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kinspect.inspector.guest.cases.case import RANGES, TYPES, Case, CaseError
from kinspect.inspector.guest.cases.selection import Selection, listed, not_for
from kinspect.inspector.guest.cases.stated_case import stated_case
from kinspect.inspector.guest.cases.types import ALIASES, FLOATS, INTEGERS, is_type, nearest_type


def test_the_types_are_tritons() -> None:
    language = pytest.importorskip("triton.language")
    for name in INTEGERS + FLOATS:
        assert language.str_to_ty(name, None) is not None
        pointer = language.str_to_ty(f"*k{name}", None)
        assert pointer.const
        assert is_type(f"*k{name}")
    with pytest.raises(KeyError):
        language.str_to_ty("int32", None)


def test_no_type_of_tritons_is_missing() -> None:
    language = pytest.importorskip("triton.language")
    utilities = pytest.importorskip("triton._utils")
    known = {language.str_to_ty(name, None).name for name in INTEGERS + FLOATS}
    dtype = language.core.dtype
    assert known == {*dtype.SINT_TYPES, *dtype.UINT_TYPES, *dtype.FP_TYPES}
    # A launch spells PyTorch's names by this table.
    for alias, name in utilities.type_canonicalisation_dict.items():
        if alias in ALIASES:
            meant = language.str_to_ty(ALIASES[alias], None)
            assert meant == language.str_to_ty(name, None), alias


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("int32", "i32"),
        ("*float", "*fp32"),
        ("float*", "*fp32"),
        ("**half", "**fp16"),
        ("*kbfloat16", "*kbf16"),
        ("torch.float8_e4m3fnuz", "fp8e4b8"),
        ("tl.int64", "i64"),
        ("FP16", "fp16"),
        ("double", "fp64"),
        ("fp8e4n", "fp8e4nv"),
        ("*i23", "*i32"),
        ("quaternion", None),
        ("", None),
    ],
)
def test_nearest_type(wrong: str, right: str | None) -> None:
    assert not is_type(wrong)
    assert nearest_type(wrong) == right
    assert right is None or is_type(right)


@pytest.mark.parametrize(
    ("rest", "plain"),
    [
        ("", True),
        (",input_rank=4", True),
        (",SwizzledSharedLayout(vec=1, per_phase=1, max_phase=1, order=[1, 0])", True),
        (",SwizzledSharedLayout(**{})", False),
        (",SwizzledSharedLayout(f())", False),
        (r",SwizzledSharedLayout('\,input_rank=1', ',f())#')", False),  # Triton cuts the rank out
        (",SwizzledSharedLayout", False),
        (",print(1)", False),
        (",1", False),
        ("]", False),
        ("," + "(" * 1_900, False),
    ],
)
def test_nothing_is_evaluated_of_a_descriptors_type(rest: str, plain: bool) -> None:
    assert is_type(f"tensordesc<fp16[64, 64]{rest}>") is plain
    assert not is_type(f"tensordesc<half[64, 64]{rest}>")
    assert not is_type(f"tensordesc{rest}")


def test_the_rules_for_options_cover_tritons_own_defaults() -> None:
    compiler = pytest.importorskip("triton.backends.amd.compiler")
    target = pytest.importorskip("triton.backends.compiler").GPUTarget("hip", "gfx942", 64)
    defaults = compiler.HIPBackend(target).parse_options({}).__dict__
    assert set(RANGES) <= set(defaults)
    for name, value in defaults.items():
        accepts, allowed = RANGES.get(name) or TYPES.get(type(value), (bool, ""))
        assert not allowed or accepts(value), name


CASES = [
    {"kernel": "add", "name": "small"},
    {"kernel": "add", "name": "[odd]"},
    {"kernel": "gemm_a", "name": "small"},
    {"kernel": 3, "name": "nameless"},
    None,
]


@pytest.mark.parametrize(
    ("wanted", "taken"),
    [
        ((), [0, 1, 2, 3, 4]),
        (("add",), [0, 1]),
        (("add[small]",), [0]),
        (("add[[odd]]",), [1]),
        (("[odd]",), [1]),
        (("gemm_?",), [2]),
        (("gemm_[ab]",), []),
        (("*[small]",), [0, 2]),
        (("add[smal]",), []),
        (("module.add",), [0, 1]),
        (("nameless",), [3]),
        (("add", "small"), [0]),
        (("ADD",), []),
    ],
)
def test_selection(wanted: tuple[str, ...], taken: list[int]) -> None:
    selection = Selection(wanted, {"add": "module.add", "gemm_a": "gemm_a", "idle": "idle"})
    assert selection.selected(CASES) == [(n, CASES[n]) for n in taken]


def test_nothing_selected() -> None:
    qualnames = {"add": "add", "idle": "idle"}
    message, hint = Selection(["ad"], qualnames).unmatched(CASES, "x.py", None)
    assert message == "no kernel or case matches 'ad' (did you mean 'add'?)"
    assert hint.startswith("there is add[small], add[[odd]], gemm_a[small], nameless: ")
    assert "'idle' has no case" in Selection(["idle"], qualnames).unmatched(CASES, "x.py", None)[0]
    both = Selection(["add", "zzz"], qualnames).unmatched(CASES, "x.py", None)[0]
    assert both == "no kernel or case matches 'add' and 'zzz'"


def test_lists_break_off() -> None:
    assert listed(["a", "b", "a"]) == "a, b"
    assert listed(map(str, range(8))) == "0, 1, 2, 3, 4, 5, 6, 7"
    assert listed(map(str, range(9))) == "0, 1, 2, 3, 4, 5, 6, 7, …"


def test_not_for() -> None:
    def case(name: str, *archs: str) -> Case:
        return Case(name, "k", {}, {}, {}, None, None, archs, True)

    message, _ = not_for([case("b", "gfx9999")], ["gfx942"])
    assert message == "case 'b' is only for gfx9999, not gfx942"
    message, _ = not_for([case("a", "gfx11*"), case("b", "gfx9999")], ["gfx942", "gfx950"])
    assert message == (
        "no case is for gfx942, gfx950: 'a' is only for gfx11*; 'b' is only for gfx9999"
    )


def test_of_many_kernels_that_a_signature_could_be_of_the_first_are_listed() -> None:
    names = [f"kernel_{number}" for number in range(80)]
    kernels: Any = SimpleNamespace(by_name=dict.fromkeys(names), defined_here=names)
    with pytest.raises(CaseError) as failure:
        stated_case({"positional": [], "named": {}, "defines": {}}, kernels, ())
    assert failure.value.hint == f"choose by --kernel: {', '.join(names[:8])}, …"
