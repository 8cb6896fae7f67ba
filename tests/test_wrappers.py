"""Which call is shown to a user whose file launches nothing by itself."""

from __future__ import annotations

import ast
import textwrap

import pytest
from kinspect.inspector.guest.launches.suggestions import (
    StatedTypes,
    suggested_calls,
    suggested_types,
)

KERNELS = """
@triton.jit
def kernel(x, y_ptr, n, eps, BLOCK: tl.constexpr):
    eps = eps.to(tl.float32)
    x += tl.program_id(0) * BLOCK
    tl.store(y_ptr + tl.arange(0, BLOCK), tl.load(x + tl.arange(0, BLOCK)) + eps)
"""


def suggested(source: str) -> list[str]:
    return suggested_calls(ast.parse(KERNELS + textwrap.dedent(source)), {"kernel"})


LAUNCH = "kernel[(1,)](x, x, 1, 1, 64)"
TILE = "T(1024, 1024)"


@pytest.mark.parametrize(
    ("parameters", "body", "arguments"),
    [
        ("x, y, n, eps", "kernel[(n,)](x, y, n, eps, 64)", f"{TILE}, {TILE}, 1024, 1.0"),
        ("x: torch.Tensor, n: int, p: float, on: bool", LAUNCH, f"{TILE}, 1024, 1.0, True"),
        ("x, m=3, *, y", "kernel[(1,)](x, y, m, 1, 64)", f"{TILE}, y={TILE}"),
        ("x", f"b, h, s, d = x.shape; {LAUNCH}", "T(2, 8, 1024, 64)"),
        ("x", "kernel[(x.stride(2),)](x, x, 1, 1, 64)", "T(8, 1024, 64)"),
        ("x", f"assert x.dtype == torch.int8; {LAUNCH}", "T(1024, 1024, dtype='int8')"),
        ("x, y", f"assert x.dtype == y.dtype; {LAUNCH}", f"{TILE}, {TILE}"),
        ("x", "torch.library.wrap_triton(kernel)[(1,)](x, x, 1, 1, 64)", TILE),
        ("x", "kernel.run(x, x, 1, 1, 64, grid=(1,))", TILE),
    ],
)
def test_arguments_are_guessed_from_their_use(parameters: str, body: str, arguments: str) -> None:
    assert suggested(f"def f({parameters}):\n    {body}") == [f"f({arguments})"]


def test_shapes_are_those_that_docstrings_state() -> None:
    source = '''
    def _launch(x, gain, weight, lengths, table):
        """
        Args:
            x (torch.Tensor): what comes in, of
                shape `[B, T, hidden]`.
            gain: (hidden,) the norm's.
            lengths (Optional[torch.Tensor]): no shape is told.
            table (int, optional): nor here.
        """
        kernel[(x.shape[2],)](x, gain, lengths.stride(0), table.stride(1), 64)

    def public(x, gain, weight, lengths, table):
        """Fused, for a packed `weight: (3 * hidden, hidden)`."""
        _launch(x, gain, weight, lengths, table)
        flag = x.dtype == torch.bfloat16
    '''
    half = ", dtype='bfloat16')"
    given = ("2, 1024, 64", "64", "192, 64", "1024, 1024", "1024, 1024")
    assert suggested(source) == [f"public({', '.join(f'T({one}{half}' for one in given)})"]


@pytest.mark.parametrize(
    ("told", "extents"),
    [
        ("x: (M, K) and more", "1024, 1024"),
        ("x: [B, T, H, K]", "2, 1024, 8, 64"),
        ("x (Tensor): (batch, heads, seq_len, head_dim)", "2, 8, 1024, 64"),
        ("x: (16, N // 2 + 1)", "16, 513"),
        ("x: (N * N * 100, 2 - N)", "65536, 1"),
        ("x: (B, see below)", "1024, 1024"),
        ("x: (int, optional)", "1024, 1024"),
        ("x: (0, -1)", "1024, 1024"),
        ("xs: (4, 4)", "1024, 1024"),
        ("x: what it is\n\nReturns:\n    (B, N, K)", "1024, 1024"),
    ],
)
def test_shapes_in_docstrings(told: str, extents: str) -> None:
    text = textwrap.indent(told, "    ")
    source = f'def f(x):\n    """F.\n\n{text}\n    """\n    kernel[(1,)](x, x, 1, 1, 64)\n'
    assert suggested(source) == [f"f(T({extents}))"]


def test_types_are_stated_where_nothing_launches() -> None:
    stated = suggested_types(ast.parse(KERNELS), {"kernel"})
    assert stated == StatedTypes("kernel", ("*fp16:16", "*fp16:16", "i32", "fp32"), ("BLOCK",))
    inner = KERNELS + "@triton.jit\ndef outer(p):\n    kernel(p, p, 1, 1, 16)\n"
    found = suggested_types(ast.parse(inner), {"kernel", "outer"})
    assert found is not None
    assert found.kernel == "outer"
    assert suggested_types(ast.parse("x = 1"), set()) is None


def test_what_is_loaded_for_an_address_is_an_integer() -> None:
    source = """
    @triton.jit
    def kernel(x, w, starts, lengths, table, y, BLOCK: tl.constexpr):
        start = tl.load(starts + tl.program_id(0))
        places = tl.load(table + start + tl.arange(0, BLOCK))
        row = places * 64
        x = x + start * 64
        value = tl.load(x + tl.arange(0, BLOCK))
        for k in range(0, tl.load(lengths)):
            value = value * tl.load(w + k)
        tl.store(y + row, value)
    """
    found = suggested_types(ast.parse(textwrap.dedent(source)), {"kernel"})
    assert found is not None
    floats, integers = "*fp16:16", "*i32:16"
    assert found.types == (floats, floats, integers, integers, integers, floats)


def test_what_leads_to_no_launch_is_not_called() -> None:
    assert suggested("def other(x):\n    return x + 1") == []


def test_the_outermost_function_is_called_and_what_it_passes_on_is_followed() -> None:
    source = """
    def _launch(a, size, eps):
        b, h, s, d = a.shape
        kernel[(b,)](a, a, size, eps, 64)

    def public(q, size, eps=1e-6):
        _launch(q, size=size, eps=eps)

    def _another(z):
        _launch(z, 1, 2)
    """
    assert suggested(source) == ["public(T(2, 8, 1024, 64), 1024)", "_another(T(2, 8, 1024, 64))"]


def test_an_autograd_function_is_called_by_its_alias() -> None:
    source = """
    class Norm(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, eps):
            kernel[(1,)](x, x, x.numel(), eps, 64)
            return x

        @staticmethod
        def backward(ctx, dy):
            inner(dy)

    def inner(dy):
        kernel[(1,)](dy, dy, 1, 1, 64)

    norm = Norm.apply
    """
    assert suggested(source) == ["norm(T(1024, 1024), 1.0)"]
    assert suggested(source.replace("norm = Norm.apply", "")) == ["Norm.apply(T(1024, 1024), 1.0)"]


def test_functions_that_call_each_other_are_all_named() -> None:
    source = """
    def first(x, n):
        second(x, n // 2)

    def second(x, n):
        kernel[(1,)](x, x, n, 1, 64)
        first(x, n)
    """
    assert suggested(source) == ["first(T(1024, 1024), 1024)", "second(T(1024, 1024), 1024)"]
