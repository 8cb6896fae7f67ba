"""What Triton's atomics and conversions of 8-bit floats became, held against the assembly."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from kept_compiles import collect_kept
from kinspect.inspector.model import KernelReport, Scalar
from kinspect.inspector.pipeline.jobs import Request

FOLDER = Path(__file__).parent.parent / "rules" / "fixtures"


def compiled(name: str, arch: str) -> dict[str, KernelReport]:
    pytest.importorskip("triton")
    report = collect_kept(Request((str(FOLDER / name),), (arch,), passes=False, jobs=2))
    assert not report.errors
    return {k.variant.case: k for k in report.kernels if k.variant is not None and k.variant.case}


@pytest.fixture(scope="module")
def atomics() -> dict[str, KernelReport]:
    return compiled("atomics.py", "gfx942")


@pytest.fixture(scope="module")
def float8() -> dict[str, KernelReport]:
    return compiled("float8.py", "gfx942")


def rdna_float8() -> dict[str, KernelReport]:
    return compiled("float8.py", "gfx1100")


def gfx12_float8() -> dict[str, KernelReport]:
    return compiled("float8.py", "gfx1201")


def mapping(kernel: KernelReport, name: str) -> Mapping[str, Scalar]:
    value = kernel.metrics[name].value
    assert isinstance(value, Mapping)
    return value


def assembly(kernel: KernelReport) -> str:
    return kernel.artifacts["amdgcn"].path.read_text("utf-8")


def test_ordered_sums_flush_caches_and_relaxed_ones_do_not(
    atomics: dict[str, KernelReport],
) -> None:
    ordered, relaxed = (atomics[f"add_rows_{order}"] for order in ("acq_rel", "relaxed"))
    assert mapping(ordered, "atomics")["ordered"] == 1
    assert mapping(relaxed, "atomics")["ordered"] == 0
    for instruction in ("buffer_wbl2", "buffer_inv"):
        assert instruction in assembly(ordered)
        assert instruction not in assembly(relaxed)


@pytest.mark.parametrize("name", ["take_numbers", "fill_list"])
def test_numbers_that_atomics_hand_out_need_no_order(
    atomics: dict[str, KernelReport], name: str
) -> None:
    """Nothing that is read behind the atomics is written before them."""
    assert mapping(atomics[f"{name}_acq_rel"], "atomics")["ordered"] == 1
    assert mapping(atomics[f"{name}_relaxed"], "atomics")["ordered"] == 0


@pytest.mark.parametrize(
    "name",
    [
        "add_and_unlock",
        "store_and_count",
        "take_numbers_and_read",
        "add_in_turn",
        "wait_and_copy",
    ],
)
def test_what_may_be_a_signal_keeps_its_order(atomics: dict[str, KernelReport], name: str) -> None:
    assert mapping(atomics[f"{name}_acq_rel"], "atomics")["ordered"] == 0


def test_sums_are_told_apart_by_where_their_addresses_come_from(
    atomics: dict[str, KernelReport],
) -> None:
    def sums(name: str) -> tuple[Scalar, ...]:
        value = mapping(atomics[f"{name}_relaxed"], "atomics.sums")
        return value["placed"], value["loaded_at"] is not None

    assert sums("add_mirrored") == (1, False)
    assert sums("add_rows") == (1, False)
    assert sums("count_keys") == (0, True)
    assert sums("add_products") == (1, False)
    assert sums("fill_list") == (0, False)  # its result is used
    assert sums("store_and_count") == (0, False)  # counts who has come by
    assert mapping(atomics["add_columns_of_1024"], "atomics.sums")["workgroups"] == 1024


def test_sums_are_beside_the_longest_loop_without_any(atomics: dict[str, KernelReport]) -> None:
    beside = {
        name: mapping(atomics[f"{name}_relaxed"], "atomics.sums")["beside"]
        for name in ("add_rows", "add_mirrored", "add_products")
    }
    assert (beside["add_rows"], beside["add_mirrored"]) == (0, 0)
    assert isinstance(beside["add_products"], int)
    assert beside["add_products"] > 40


def test_conversions_are_written_out_where_no_instruction_does_them(
    float8: dict[str, KernelReport],
) -> None:
    for name, kernel in float8.items():
        has_instruction = any(
            f"v_cvt_pk_{kinds}" in assembly(kernel) for kinds in ("fp8_f32", "f32_fp8")
        )
        value = mapping(kernel, "convert.written_out")
        assert has_instruction == name.endswith("fp8e4b8")  # gfx942 has the fnuz formats
        is_cheap = has_instruction or name == "widen_fp8e5"  # the upper half of a float16
        assert (value["conversions"] == 0) == is_cheap


def test_what_is_written_out_is_what_the_targets_format_saves(
    float8: dict[str, KernelReport],
) -> None:
    for kernel in ("widen", "narrow"):
        foreign, own = (float8[f"{kernel}_{kind}"] for kind in ("fp8e4nv", "fp8e4b8"))
        counts = [k.metrics["count.valu"].value for k in (foreign, own)]
        assert isinstance(counts[0], int)
        assert isinstance(counts[1], int)
        written_out = mapping(foreign, "convert.written_out")["instructions"]
        assert isinstance(written_out, int)
        assert counts[0] - counts[1] <= written_out <= counts[0]


def test_a_format_of_the_targets_own_is_not_told_to_be_foreign() -> None:
    """gfx12 has instructions for e4m3fn (RDNA4 ISA: V_CVT_PK_F32_FP8); Triton 3.9 uses none."""
    kernels = {n: mapping(k, "convert.written_out") for n, k in gfx12_float8().items()}
    widened = kernels["widen_fp8e4nv"]
    assert (widened["conversions"], widened["formats"], widened["by_bfloat16"]) == (1, None, 1)
    assert kernels["narrow_fp8e4nv"]["conversions"] == 0  # nothing that is shorter is known
    assert kernels["narrow_fp8e4b8"]["formats"] == "tl.float8e4nv and tl.float8e5 (OCP)"


def test_without_formats_only_what_can_be_shorter_is_told(float8: dict[str, KernelReport]) -> None:
    """gfx11 converts no 8-bit float by an instruction: e4m3fn goes by bfloat16, the rest stays."""
    assert mapping(float8["widen_fp8e4nv"], "convert.written_out")["formats"] is not None
    on_rdna = {name: mapping(k, "convert.written_out") for name, k in rdna_float8().items()}
    assert {name for name, value in on_rdna.items() if value["conversions"]} == {"widen_fp8e4nv"}
    assert on_rdna["widen_fp8e4nv"]["by_bfloat16"] == 1
    assert {value["formats"] for value in on_rdna.values()} == {None}
    counts = {name: k.metrics["count.valu"].value for name, k in rdna_float8().items()}
    assert int(str(counts["widen_to_bfloat16"])) < 0.6 * int(str(counts["widen_fp8e4nv"]))
