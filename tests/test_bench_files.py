"""Cases in the words of other tools, read and written, and fitted to a kernel's own keys."""

from __future__ import annotations

import ast
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.bench.suite.case_files import (
    UserCase,
    as_gemm,
    fit_keys,
    keys_read,
    name_of,
    read_flags,
    read_gpumode,
    read_tune_gemm,
    scalar,
    write_tune_gemm,
)

KEYS = st.text("abXYZ_", min_size=1, max_size=5)
WORDS = st.sampled_from(["bf16", "column", "TN", "float8_e4m3fnuz", "fp16", "thd", "x"])
NUMBERS = st.integers(-(10**9), 10**9) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = NUMBERS | st.booleans() | WORDS


# --------------------------------------------------------------------------- gpumode


def test_gpumode_lines() -> None:
    text = "m: 64; n: 64; k: 128; seed: 6635\n\n# comment\nbs: 2;causal: true; dtype: bf16;\n"
    first, second = read_gpumode(text, "cases.txt")
    assert first.values == {"m": 64, "n": 64, "k": 128, "seed": 6635}
    assert second.values == {"bs": 2, "causal": True, "dtype": "bf16"}


@given(st.lists(st.dictionaries(KEYS, VALUES, min_size=1), min_size=1))
def test_gpumode_comes_back(cases: list[dict[str, Any]]) -> None:
    lines = ("; ".join(f"{key}: {value}" for key, value in case.items()) for case in cases)
    text = "".join(f"{line}\n" for line in lines)
    assert [case.values for case in read_gpumode(text, "f")] == cases


@pytest.mark.parametrize("line", ["m 64", "m: 64; 3: 4", "m:", "m: 1; m: 2", ": 5"])
def test_gpumode_refuses_with_the_line(line: str) -> None:
    with pytest.raises(KinspectError, match=r"f\.txt:2: "):
        read_gpumode(f"k: 1\n{line}\n", "f.txt")


def test_gpumode_wants_a_case() -> None:
    with pytest.raises(KinspectError, match="no case"):
        read_gpumode("# nothing\n", "f.txt")


@given(st.text(max_size=60))
def test_gpumode_never_fails_otherwise(text: str) -> None:
    with suppress(KinspectError):
        assert read_gpumode(text, "f")


@pytest.mark.parametrize(
    ("text", "value"),
    [("64", 64), ("-3", -3), ("0.5", 0.5), ("1e-3", 1e-3), ("True", True), ("1.5.2", "1.5.2")],
)
def test_scalars(text: str, value: object) -> None:
    assert scalar(text) == value
    assert type(scalar(text)) is type(value)


# --------------------------------------------------------------------------- tune_gemm


SIZES = """\
- {'M': 1024, 'N': 1024, 'K': 1024, 'rowMajorA': 'T', 'rowMajorB': 'N'}
# a comment of its own
- {'M': 4864, 'N': 4096, 'K': 8192, 'rowMajorA': 'T', 'rowMajorB': 'N', 'BLOCK_SIZE_M': 256, \
'GROUP_SIZE_M': 4, 'num_warps': 8} # TFLOPS: 512.34 time(us): 637.20
-   M: 1
    N: 2
    K: 3  # TFLOPS: nan time(us): 4.5
"""


def test_tune_gemm_sizes_and_results() -> None:
    plain, tuned, block = read_tune_gemm(SIZES, "gemm.yaml")
    assert plain == UserCase({"M": 1024, "N": 1024, "K": 1024, "rowMajorA": "T", "rowMajorB": "N"})
    assert tuned.config == {"BLOCK_M": 256, "GROUP_M": 4, "num_warps": 8}
    assert (tuned.us, tuned.tflops) == (637.2, 512.34)
    assert block == UserCase({"M": 1, "N": 2, "K": 3}, us=4.5)


LETTERS = st.sampled_from("TN")
SIZE = st.integers(1, 1 << 20)
SHAPES = st.fixed_dictionaries(
    {"M": SIZE, "N": SIZE, "K": SIZE}, optional={"rowMajorA": LETTERS, "rowMajorB": LETTERS}
)
CONFIGS = st.dictionaries(
    st.sampled_from(["BLOCK_M", "BLOCK_K", "GROUP_M", "num_warps", "kpack", "EVEN", "mode"]),
    st.integers(0, 512) | st.booleans() | WORDS,
)
TIMES = st.none() | st.integers(1, 10**7).map(lambda n: n / 100)


@given(st.lists(st.builds(UserCase, SHAPES, CONFIGS, TIMES, TIMES), min_size=1))
def test_tune_gemm_comes_back(cases: list[UserCase]) -> None:
    found = read_tune_gemm(write_tune_gemm(cases), "f.yaml")
    for before, after in zip(cases, found, strict=True):
        assert after.values == before.values
        assert after.config == before.config
        assert after.us == before.us
        assert after.tflops == (before.tflops if before.us is not None else None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- {M: 1", "f:2: not valid YAML"),
        ("", "not a list"),
        ("M: 1", "not a list"),
        ("- {M: 1, N: 2}", "f:1: M, N and K"),
        ("- {M: 1, N: 2, K: x}", "f:1: M, N and K"),
        ("- {M: 1, N: 2, K: 0}", "f:1: M, N and K"),
        ("- {M: 1, N: 2, K: 3}\n- 5", "f:2: M, N and K"),
        ("- {M: 1, N: 2, K: 3, x: [1]}", "f:1: a value"),
        ("- {M: 1, N: 2, K: 3} # TFLOPS: x time(us): 3", "f:1: 'x' is not a number"),
        ("- &a {M: 1, N: 2, K: 3, x: *b}", "f:1: YAML whose aliases"),
    ],
)
def test_tune_gemm_refuses_with_the_line(text: str, message: str) -> None:
    with pytest.raises(KinspectError) as caught:
        read_tune_gemm(text, "f")
    assert message in str(caught.value)


@given(st.text(alphabet="-{}:[] \n'MNK123#&*!|>", max_size=40))
def test_tune_gemm_never_fails_otherwise(text: str) -> None:
    with suppress(KinspectError):
        read_tune_gemm(text, "f")


def test_gemm_of_a_case() -> None:
    assert as_gemm({"M": 1, "N": 2, "K": 3, "layout": "TN", "dtype": "int8"}) == {
        "M": 1,
        "N": 2,
        "K": 3,
        "rowMajorA": "T",
        "rowMajorB": "N",
    }
    assert as_gemm({"M": 1, "N": 2, "K": 3, "layout": "column"}) == {"M": 1, "N": 2, "K": 3}
    assert as_gemm({"rows": 5}) is None


# --------------------------------------------------------------------------- flags


ATTENTION = [
    {"B": 1, "HQ": 1, "HK": 1, "Sq": 1, "Sk": 1, "D": 8, "name": "a"},
    {"B": 1, "HQ": 1, "HK": 1, "Sq": 1, "Sk": 1, "D": 8, "causal": True, "layout": "bshd"},
]
GEMM = [{"M": 1, "N": 1, "K": 1, "name": "x"}, {"M": 2, "N": 1, "K": 1, "layout": "TN"}]


def test_flags_of_flash_attention() -> None:
    words = "-b 4 -hq 16 -hk 8 -sq 1024 -sk 512 -d 64 -causal -layout bshd -dtype bf16 -return_time"
    case = fit_keys(read_flags(words.split()), ATTENTION, "flash_attn")
    assert case == {
        "B": 4,
        "HQ": 16,
        "HK": 8,
        "Sq": 1024,
        "Sk": 512,
        "D": 64,
        "causal": True,
        "layout": "bshd",
        "dtype": "bfloat16",
    }


def test_flags_default_as_flash_attention_does() -> None:
    given_case = read_flags(["-b", "1", "-hq=4", "-sq", "100"])
    assert given_case.values["hk"] == 4
    assert given_case.values["sk"] == 100
    assert (given_case.values["d"], given_case.values["dtype"]) == (128, "fp16")


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ("-int8", {"int8": "qkv"}),
        ("-int8 -quantize_p", {"int8": "qkvp"}),
        ("-int8 -int8_kv", {"int8": "kv"}),
        ("-int8_kv", {"int8": "kv"}),
        ("-persistent", {"persistent": "fixed"}),
        ("-persistent dynamic -causal", {"persistent": "dynamic", "causal": True}),
        ("-persistent -causal", {"persistent": "fixed", "causal": True}),
        ("-equal_seqlens", {"equal_seqlens": True}),
        ("-return_time", {}),
    ],
)
def test_switches(words: str, values: dict[str, object]) -> None:
    assert read_flags(words.split()).values == values


def test_every_flag_of_flash_attention_fits_the_bundled_kernel() -> None:
    path = Path(__file__).parents[1] / "kernels" / "flash_attn.py"
    words = (
        "-b 2 -hq 16 -hk 4 -sq 1024 -sk 1024 -d 64 -causal -int8 -quantize_p -dtype bf16"
        " -layout thd -equal_seqlens -persistent dynamic -return_time"
    )
    also = keys_read(ast.parse(path.read_text()))
    case = fit_keys(read_flags(words.split()), ATTENTION, "flash_attn", also)
    assert case == {
        "B": 2,
        "HQ": 16,
        "HK": 4,
        "Sq": 1024,
        "Sk": 1024,
        "D": 64,
        "causal": True,
        "int8": "qkvp",
        "dtype": "bfloat16",
        "layout": "thd",
        "equal_seqlens": True,
        "persistent": "dynamic",
    }


def test_keys_that_a_file_reads() -> None:
    tree = ast.parse("def f(case, x):\n    return case['a'], case.get('b', 1), x['c'], case[x]")
    assert keys_read(tree) == {"a", "b"}


def test_flags_of_other_kernels() -> None:
    case = fit_keys(read_flags(["-m", "4", "--n", "5", "-K", "6"]), GEMM, "gemm")
    assert case == {"M": 4, "N": 5, "K": 6}
    assert name_of(case) == "4x5x6"
    assert name_of({**case, "layout": "TN", "atomic": True}) == "4x5x6_TN_atomic"
    assert name_of({"rows": 3, "cols": 4}) == "rows3_cols4"


@pytest.mark.parametrize("words", [["4"], ["-b"], ["-3", "4"], ["--"], ["-int8_kv", "-quantize_p"]])
def test_flags_refused(words: list[str]) -> None:
    with pytest.raises(KinspectError):
        read_flags(words)


# --------------------------------------------------------------------------- fitting


def test_fitting_minds_no_capitals_and_names_what_is_near() -> None:
    line = UserCase({"m": 1, "n": 2, "k": 3, "seed": 5})
    assert fit_keys(line, GEMM, "gemm") == {"M": 1, "N": 2, "K": 3, "seed": 5}
    with pytest.raises(KinspectError, match=r"no case key 'layuot'; did you mean layout\?"):
        fit_keys(UserCase({"m": 1, "n": 2, "k": 3, "layuot": "TN"}), GEMM, "gemm")
    with pytest.raises(KinspectError, match="needs K, N as well"):
        fit_keys(UserCase({"m": 1}), GEMM, "gemm")


def test_fitting_knows_tune_gemms_layouts() -> None:
    sizes = UserCase({"M": 1, "N": 2, "K": 3, "rowMajorA": "T", "rowMajorB": "N"})
    assert fit_keys(sizes, GEMM, "gemm")["layout"] == "TN"
    # Another kernel's layouts have other names: tune_gemm's say nothing to it.
    other = [{"M": 1, "N": 1, "K": 1, "layout": "column"}, {"M": 1, "N": 1, "K": 1}]
    assert fit_keys(sizes, other, "fp8") == {"M": 1, "N": 2, "K": 3}
