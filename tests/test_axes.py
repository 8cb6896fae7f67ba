"""The analysis of axes: whatever it claims must hold of the numbers that a program computes."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from kinspect.inspector.ttgir.axes.analysis import Axes, analyze
from kinspect.inspector.ttgir.axes.facts import UNBOUNDED, AxisFacts, meet, of_constant
from kinspect.inspector.ttgir.axes.graph import functions
from kinspect.inspector.ttgir.parser import parse_ttgir

LENGTH = 16
WIDE = (8, LENGTH)


def axes_of(body: str, arguments: str = "", *wanted: str) -> Axes:
    """The facts of values of one function, given by its operations."""
    text = f"module {{\n  tt.func public @f({arguments}) {{\n{body}\n    tt.return\n  }}\n}}\n"
    (graph,) = functions(parse_ttgir(text, "test"))
    return analyze(graph, wanted)


def broken(facts: AxisFacts, values: np.ndarray) -> str:
    """Which claim the values break; empty if none."""
    values = np.atleast_1d(values).astype(np.int64)
    if facts.constant is not None and (values != facts.constant).any():
        return f"constant {facts.constant}"
    for dim in range(values.ndim):
        rows = np.moveaxis(values, dim, -1).reshape(-1, values.shape[dim])
        size = rows.shape[1]
        run, by, same = (
            part[dim] for part in (facts.contiguity, facts.divisibility, facts.constancy)
        )
        run, same = min(run, size), min(same, size)
        groups = rows.reshape(-1, run)
        if (groups - groups[:, :1] != np.arange(run)).any():
            return f"contiguity {run} of dim {dim}"
        first = groups[:, 0]
        if (first != 0).any() if by >= UNBOUNDED else (first % by != 0).any():
            return f"divisibility {by} of dim {dim}"
        groups = rows.reshape(-1, same)
        if (groups != groups[:, :1]).any():
            return f"constancy {same} of dim {dim}"
    return ""


# --------------------------------------------------------------------------- random programs


@dataclass
class Program:
    """Operations as text, and the number that each value is."""

    lines: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    values: dict[str, np.ndarray] = field(default_factory=dict)
    inside: str = "    "

    def type_of(self, name: str, element: str = "i32") -> str:
        return text_of(self.values[name].shape, element)

    def add(self, text: str, value: object) -> str:
        name = f"%v{len(self.values)}"
        self.values[name] = np.asarray(value)
        self.lines.append(f"{self.inside}{name} = {text}")
        return name

    def of_shape(self, shape: tuple[int, ...]) -> list[str]:
        return [n for n, v in self.values.items() if v.shape == shape and v.dtype != bool]


def text_of(shape: tuple[int, ...], element: str = "i32") -> str:
    return f"tensor<{'x'.join(map(str, shape))}x{element}>" if shape else element


COMPUTED = {
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
    "arith.minsi": np.minimum,
    "arith.maxsi": np.maximum,
    "arith.andi": lambda a, b: a & b,
    "arith.ori": lambda a, b: a | b,
    "arith.divsi": lambda a, b: a // b,
    "arith.remsi": lambda a, b: a % b,
}
POSITIVE = ("arith.divsi", "arith.remsi")
PREDICATES = {
    "slt": np.less,
    "sle": np.less_equal,
    "sgt": np.greater,
    "sge": np.greater_equal,
    "eq": np.equal,
}
LARGEST = 1 << 28  # sums of few such numbers stay inside 32 bits


def calculate(program: Program, data: st.DataObject, shape: tuple[int, ...]) -> None:
    """One more operation on two values of a shape."""
    names = program.of_shape(shape)
    a, b = data.draw(st.sampled_from(names)), data.draw(st.sampled_from(names))
    op = data.draw(st.sampled_from([*COMPUTED, "arith.cmpi", "shift"]))
    x, y = program.values[a], program.values[b]
    of = text_of(shape)
    if op == "arith.cmpi":
        predicate = data.draw(st.sampled_from(sorted(PREDICATES)))
        bit = program.add(f"arith.cmpi {predicate}, {a}, {b} : {of}", PREDICATES[predicate](x, y))
        c, d = data.draw(st.sampled_from(names)), data.draw(st.sampled_from(names))
        chosen = np.where(program.values[bit], program.values[c], program.values[d])
        types = f"{text_of(shape, 'i1')}, {of}" if shape else of
        program.add(f"arith.select {bit}, {c}, {d} : {types}", chosen)
        return
    if op == "shift":
        amount = data.draw(st.integers(0, 4))
        left = data.draw(st.booleans())
        by = program.add(constant(amount, shape), np.full(shape, amount, np.int64))
        value = x << amount if left else x >> amount
        if abs(value).max(initial=0) < LARGEST and (left or (x >= 0).all()):
            program.add(f"arith.{'shli' if left else 'shrsi'} {a}, {by} : {of}", value)
        return
    if op in POSITIVE and not ((x >= 0).all() and (y > 0).all()):
        return
    value = COMPUTED[op](x, y)
    if abs(value).max(initial=0) < LARGEST:
        program.add(f"{op} {a}, {b} : {of}", value)


def constant(value: int, shape: tuple[int, ...]) -> str:
    text = f"dense<{value}>" if shape else str(value)
    return f"arith.constant {text} : {text_of(shape)}"


def begin(data: st.DataObject) -> Program:
    """Arguments with what is known of them, constants, ranges."""
    program = Program()
    for k in range(data.draw(st.integers(1, 3))):
        known = data.draw(st.sampled_from([None, 4, 16, 16]))
        value = data.draw(st.integers(0, 40)) * (known or 1)
        program.values[f"%a{k}"] = np.asarray(value)
        stated = f" {{tt.divisibility = {known} : i32}}" if known else ""
        program.arguments.append(f"%a{k}: i32{stated}")
    for value in data.draw(st.lists(st.sampled_from([0, 1, 2, 3, 4, 8, 12, 16, 64]), max_size=3)):
        program.add(constant(value, ()), value)
    for start in data.draw(st.lists(st.sampled_from([0, 0, 8, 4, 3, 16]), min_size=1, max_size=2)):
        end = start + LENGTH
        program.add(
            f"tt.make_range {{end = {end} : i32, start = {start} : i32}} : tensor<{LENGTH}xi32>",
            np.arange(start, end),
        )
    return program


def spread(program: Program, data: st.DataObject) -> None:
    """A scalar to a tensor, or a row or column to two dimensions."""
    if data.draw(st.booleans()):
        name = data.draw(st.sampled_from(program.of_shape(())))
        shape = data.draw(st.sampled_from([(LENGTH,), (LENGTH,), WIDE]))
        program.add(
            f"tt.splat {name} : i32 -> {text_of(shape)}", np.full(shape, program.values[name])
        )
        return
    name = data.draw(st.sampled_from(program.of_shape((LENGTH,))))
    values = program.values[name]
    row = data.draw(st.booleans())
    axis, shape = (0, (1, LENGTH)) if row else (1, (LENGTH, 1))
    one = program.add(
        f"tt.expand_dims {name} {{axis = {axis} : i32}} : {text_of((LENGTH,))} -> {text_of(shape)}",
        values.reshape(shape),
    )
    if row:
        program.add(
            f"tt.broadcast {one} : {text_of(shape)} -> {text_of(WIDE)}",
            np.broadcast_to(values.reshape(shape), WIDE),
        )
        return
    across = program.add(
        f"tt.broadcast {one} : {text_of(shape)} -> {text_of((LENGTH, 8))}",
        np.broadcast_to(values.reshape(shape), (LENGTH, 8)),
    )
    program.add(
        f"tt.trans {across} {{order = array<i32: 1, 0>}} : {text_of((LENGTH, 8))}"
        f" -> {text_of(WIDE)}",
        program.values[across].T,
    )


def reshaped(program: Program, data: st.DataObject) -> None:
    names = program.of_shape(WIDE)
    if names:
        name = data.draw(st.sampled_from(names))
        shape = data.draw(st.sampled_from([(4, 32), (128,), (8, 4, 4), (2, 4, 16), (LENGTH, 8)]))
        program.add(
            f"tt.reshape {name} : {text_of(WIDE)} -> {text_of(shape)}",
            program.values[name].reshape(shape),
        )


@settings(max_examples=150, phases=[Phase.generate])
@given(st.data())
def test_claims_hold_of_random_programs(data: st.DataObject) -> None:
    program = begin(data)
    for _ in range(data.draw(st.integers(4, 14))):
        step = data.draw(st.integers(0, 9))
        if step < 3:
            spread(program, data)
        elif step == 3:
            reshaped(program, data)
        else:
            shapes = [s for s in ((), (LENGTH,), WIDE) if program.of_shape(s)]
            calculate(program, data, data.draw(st.sampled_from(shapes)))
    axes = axes_of("\n".join(program.lines), ", ".join(program.arguments), *program.values)
    for name, values in program.values.items():
        found = broken(axes.of(name, values.ndim), values)
        assert not found, (name, found, axes.of(name), values, program.lines)


@settings(max_examples=100, phases=[Phase.generate])
@given(st.data())
def test_claims_hold_of_values_that_loops_carry(data: st.DataObject) -> None:
    """A loop around a random body: the claims hold in every iteration and after it."""
    program = begin(data)
    for _ in range(4):
        spread(program, data)
    first = data.draw(st.sampled_from(program.of_shape((LENGTH,))))
    lower, step = (data.draw(st.sampled_from([0, 1, 4, 16])) for _ in range(2))
    step = max(step, 1)
    bounds = [program.add(constant(n, ()), n) for n in (lower, lower + 3 * step, step)]
    of = text_of((LENGTH,))
    before = len(program.lines)
    carried, index = program.values[first], lower
    steps = data.draw(st.lists(st.sampled_from(sorted(COMPUTED)), min_size=1, max_size=4))
    picks = [data.draw(st.integers(0, 99)) for _ in steps]
    outside = program.of_shape((LENGTH,))
    history: dict[str, list[np.ndarray]] = {}
    body: list[str] = []
    for iteration in range(3):
        values = {"%x": carried, "%i": np.asarray(index), "%si": np.full(LENGTH, index)}
        body = [f"      %si = tt.splat %i : i32 -> {of}"]
        last = "%x"
        for k, (op, pick) in enumerate(zip(steps, picks, strict=True)):
            names = [*outside, "%si", "%x"]
            other = names[pick % len(names)]
            a = values[last]
            b = values.get(other, program.values.get(other))
            assert b is not None
            if op in POSITIVE and not ((a >= 0).all() and (b > 0).all()):
                return  # not what the analysis speaks of
            values[f"%b{k}"] = COMPUTED[op](a, b)
            if abs(values[f"%b{k}"]).max() >= LARGEST:
                return
            body.append(f"      %b{k} = {op} {last}, {other} : {of}")
            last = f"%b{k}"
        for name, value in values.items():
            history.setdefault(name, []).append(value)
        body.append(f"      scf.yield {last} : {of}")
        carried, index = values[last], index + step
        assert iteration < 3
    loop = (
        f"    %r = scf.for %i = {bounds[0]} to {bounds[1]} step {bounds[2]}"
        f" iter_args(%x = {first}) -> ({of})  : i32 {{"
    )
    lines = [*program.lines[:before], loop, *body, "    }"]
    history["%r"] = [carried]
    axes = axes_of("\n".join(lines), ", ".join(program.arguments), *history)
    for name, seen in history.items():
        for value in seen:
            found = broken(axes.of(name, value.ndim), value)
            assert not found, (name, found, axes.of(name), value, lines)


facts = st.builds(
    lambda c, d, k: AxisFacts((1 << c,), (d,), (1 << k,)),
    st.integers(0, 4),
    st.sampled_from([1, 2, 4, 6, 8, 16, 48, UNBOUNDED]),
    st.integers(0, 4),
)


@given(facts, facts)
def test_meeting_only_loses(a: AxisFacts, b: AxisFacts) -> None:
    both = meet(a, b)
    assert both == meet(b, a)
    assert meet(both, a) == both
    assert a.contiguity[0] % both.contiguity[0] == 0
    assert gcd(a.divisibility[0], both.divisibility[0]) == both.divisibility[0]


# --------------------------------------------------------------------------- what is claimed at all


def test_rows_of_a_matrix() -> None:
    """`ptr + rows[:, None] * stride + cols[None, :]`, the form of nearly every kernel."""
    axes = axes_of(
        """
    %r = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %c = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %r1 = tt.expand_dims %r {axis = 1 : i32} : tensor<8xi32> -> tensor<8x1xi32>
    %s = tt.splat %stride : i32 -> tensor<8x1xi32>
    %rs = arith.muli %r1, %s : tensor<8x1xi32>
    %rb = tt.broadcast %rs : tensor<8x1xi32> -> tensor<8x16xi32>
    %c1 = tt.expand_dims %c {axis = 0 : i32} : tensor<16xi32> -> tensor<1x16xi32>
    %cb = tt.broadcast %c1 : tensor<1x16xi32> -> tensor<8x16xi32>
    %o = arith.addi %rb, %cb : tensor<8x16xi32>
    %p = tt.splat %ptr : !tt.ptr<f16> -> tensor<8x16x!tt.ptr<f16>>
    %a = tt.addptr %p, %o : tensor<8x16x!tt.ptr<f16>>, tensor<8x16xi32>""",
        "%ptr: !tt.ptr<f16> {tt.divisibility = 16 : i32},"
        " %stride: i32 {tt.divisibility = 16 : i32}",
        "%a",
    )
    assert axes.of("%a", 2) == AxisFacts((1, 16), (2, 16), (1, 1))
    assert axes.of("%o", 2).divisibility[1] == 16


def test_hints_of_the_author_override() -> None:
    hints = "tt.contiguity = dense<16> : tensor<1xi32>, tt.divisibility = dense<8> : tensor<1xi32>"
    axes = axes_of(
        f"""
    %r = tt.make_range {{end = 16 : i32, start = 0 : i32}} : tensor<16xi32>
    %n = tt.splat %a : i32 -> tensor<16xi32>
    %w = arith.remsi %r, %n {{{hints}}} : tensor<16xi32>""",
        "%a: i32",
        "%w",
    )
    assert axes.of("%w") == AxisFacts((16,), (8,), (1,))


def test_branches_and_while_loops_meet() -> None:
    axes = axes_of(
        """
    %c4 = arith.constant 4 : i32
    %c8 = arith.constant 8 : i32
    %c12 = arith.constant 12 : i32
    %c = arith.cmpi slt, %a, %c8 : i32
    %either = scf.if %c -> (i32) {
      scf.yield %c8 : i32
    } else {
      scf.yield %c12 : i32
    }
    %w:2 = scf.while (%x = %c8, %y = %c4) : (i32, i32) -> (i32, i32) {
      %more = arith.cmpi slt, %x, %a : i32
      scf.condition(%more) %x, %y : i32, i32
    } do {
    ^bb0(%p: i32, %q: i32):
      %next = arith.addi %p, %c12 : i32
      scf.yield %next, %q : i32, i32
    }""",
        "%a: i32",
        "%either",
        "%w#0",
        "%w#1",
        "%next",
    )
    assert axes.of("%either").divisibility == (4,)
    assert axes.of("%either").constant is None
    assert axes.of("%w#0").divisibility == (4,)
    assert axes.of("%w#1") == of_constant(4, ())
    assert axes.of("%next").divisibility == (4,)


@pytest.mark.parametrize(
    ("predicate", "bound", "constancy"),
    [("slt", 16, 16), ("slt", 6, 2), ("slt", 1, 1), ("sge", 24, 8), ("eq", 16, 1), ("sgt", 16, 1)],
)
def test_masks_change_in_steps_of_what_divides_the_bound(
    predicate: str, bound: int, constancy: int
) -> None:
    axes = axes_of(
        f"""
    %r = tt.make_range {{end = 16 : i32, start = 0 : i32}} : tensor<16xi32>
    %b = arith.constant dense<{bound}> : tensor<16xi32>
    %m = arith.cmpi {predicate}, %r, %b : tensor<16xi32>""",
        "",
        "%m",
    )
    assert axes.of("%m").constancy == (constancy,)


def test_a_name_used_twice_is_two_values() -> None:
    """Loops beside each other may reuse names; a while loop's two regions may, too."""
    axes = axes_of(
        """
    %c0 = arith.constant 0 : i32
    %c4 = arith.constant 4 : i32
    %c9 = arith.constant 9 : i32
    %r = scf.for %i = %c0 to %a step %c4 iter_args(%x = %c4) -> (i32)  : i32 {
      %n = arith.addi %x, %c4 : i32
      scf.yield %n : i32
    }
    %s = scf.for %x = %c0 to %a step %c4 iter_args(%i = %c9) -> (i32)  : i32 {
      %n = arith.addi %i, %c9 : i32
      scf.yield %n : i32
    }
    %w = scf.while (%x = %c4) : (i32) -> i32 {
      %more = arith.cmpi slt, %x, %a : i32
      %n = arith.addi %x, %c4 : i32
      scf.condition(%more) %n : i32
    } do {
    ^bb0(%x: i32):
      %n = arith.addi %x, %c4 : i32
      scf.yield %n : i32
    }""",
        "%a: i32",
        "%r",
        "%s",
        "%w",
        "%x'2",
    )
    assert axes.of("%r").divisibility == (4,)
    assert axes.of("%s").divisibility == (1,)
    assert axes.of("%w").divisibility == (4,)
    assert axes.of("%x'2").divisibility == (4,)  # the second loop's index
