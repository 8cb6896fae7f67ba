"""Contents that were put off equal those that are computed at once: random programs, both ways."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from test_world import in_world

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

PROGRAMS = 40
STEPS = 12
ROWS, COLUMNS = 6, 5

Step = Callable[[random.Random, list[Any]], Any]


def _of(choose: random.Random, pool: list[Any]) -> Any:
    return choose.choice([its for its in pool if its.shape == (ROWS, COLUMNS)])


def _written(change: Callable[[Any, random.Random, list[Any]], Any]) -> Step:
    def step(choose: random.Random, pool: list[Any]) -> Any:
        target = _of(choose, pool)
        return change(target, choose, pool)

    return step


def _some_rows(of: Any, choose: random.Random) -> Any:
    first = choose.randrange(ROWS - 1)
    return of[first : first + choose.randint(1, ROWS - first)]


def _copied_rows(of: Any, choose: random.Random, pool: list[Any]) -> Any:
    count = choose.randint(1, 3)
    of[:count].copy_(_of(choose, pool)[-count:])
    return of


STEPS_OF: list[Step] = [
    lambda choose, pool: torch.full((ROWS, COLUMNS), choose.randint(-3, 3), dtype=torch.float32),
    lambda choose, pool: torch.arange(ROWS * COLUMNS, dtype=torch.float32).view(ROWS, COLUMNS),
    lambda choose, pool: _of(choose, pool) + _of(choose, pool),
    lambda choose, pool: _of(choose, pool) * choose.randint(-2, 2) - 1,
    lambda choose, pool: torch.where(_of(choose, pool) > 1, _of(choose, pool), _of(choose, pool)),
    lambda choose, pool: (_of(choose, pool) > choose.randint(-2, 5)).float(),
    lambda choose, pool: _of(choose, pool).t().contiguous().view(ROWS, COLUMNS),
    lambda choose, pool: _of(choose, pool).t().clone().t(),
    lambda choose, pool: _of(choose, pool) @ _of(choose, pool).t() @ _of(choose, pool) / 64,
    lambda choose, pool: _of(choose, pool).cumsum(choose.randrange(2)),
    lambda choose, pool: _of(choose, pool) - _of(choose, pool).amax(1, keepdim=True),
    lambda choose, pool: _of(choose, pool) / 8 + _of(choose, pool).mean(),
    lambda choose, pool: torch.cat([_of(choose, pool)[:2], _of(choose, pool)[2:]]),
    lambda choose, pool: _of(choose, pool).sort(0).values,
    lambda choose, pool: _of(choose, pool).half().float(),
    lambda choose, pool: _of(choose, pool).expand(2, ROWS, COLUMNS)[1],
    _written(lambda of, choose, pool: _some_rows(of, choose).fill_(choose.randint(-2, 2))),
    _written(lambda of, choose, pool: _some_rows(of, choose).mul_(-1)),
    _written(lambda of, choose, pool: of.add_(_of(choose, pool))),
    _written(lambda of, choose, pool: of.zero_()),
    _written(_copied_rows),
    _written(lambda of, choose, pool: of.clamp_(-50, 50)),
    _written(lambda of, choose, pool: torch.add(of, 1, out=of)),
]


def _run(seed: int) -> list[Any]:
    """All that a program makes, on the default device."""
    choose = random.Random(seed)
    pool = [torch.arange(ROWS * COLUMNS, dtype=torch.float32).view(ROWS, COLUMNS) - 7]
    for _ in range(STEPS):
        pool.append(choose.choice(STEPS_OF)(choose, pool))
    return pool


def _small_limits() -> None:
    """A few elements are a large tensor."""
    from kinspect.inspector.guest.world import tensors

    tensors.FLOAT_LIMIT = tensors.INTEGER_LIMIT = 8


@in_world()
def test_programs_come_out_as_they_would_at_once(world: Any) -> None:
    expected = [[its.tolist() for its in _run(seed)] for seed in range(PROGRAMS)]
    _small_limits()
    torch.set_default_device("cuda")
    for seed in range(PROGRAMS):
        found = _run(seed)
        assert any(its._payload.is_meta for its in found)
        for index in random.Random(seed).sample(range(len(found)), len(found)):
            its = found[index]
            assert its.tolist() == expected[seed][index], (seed, index, its._memory.refusal)


@in_world()
def test_random_numbers_are_the_same_however_they_are_asked_for(world: Any) -> None:
    _small_limits()
    large = torch.rand(100, device="cuda")
    values = large.tolist()
    assert len(set(values)) > 90
    assert max(values) == large.max().item()
    assert large[3:50].min().item() == min(values[3:50])
    assert (large.double().sum().item() - sum(values)) < 1e-9
    other = torch.rand(100, device="cuda")
    assert other.tolist() != values
    torch.manual_seed(7)
    assert torch.randint(0, 1000, (100,), device="cuda").max().item() < 1000


@in_world()
def test_shapes_that_rest_on_contents_are_true(world: Any) -> None:
    _small_limits()
    large = torch.arange(100, device="cuda") - 20
    assert large[large > 0].shape == (79,)
    assert large.nonzero().tolist() == [[k] for k in range(100) if k != 20]
    assert (large // 10).unique().tolist() == list(range(-2, 8))
    few = torch.arange(10, device="cuda")
    assert torch.repeat_interleave(few, few).shape == (45,)


@in_world()
def test_what_was_overwritten_since_is_as_it_was(world: Any) -> None:
    _small_limits()
    small, host = torch.ones(4, device="cuda"), torch.ones(80)
    large = torch.cat([small] * 20)
    other = large + host.to("cuda")
    small.fill_(2)
    assert large.sum().item() == 80
    assert torch.cat([small] * 20).sum().item() == 160
    assert other.sum().item() == 160
    assert large.fill_(3).sum().item() == 240


@in_world()
def test_what_there_was_no_room_to_copy_is_unknown(world: Any) -> None:
    from kinspect.inspector.guest.world import memory
    from kinspect.inspector.guest.world import tensor_io as reads

    _small_limits()
    memory.MAX_COPIED_BYTES = 8
    small = torch.ones(4, device="cuda")
    large = torch.cat([small] * 20)
    small.fill_(2)
    assert reads.contents(large) is None
    assert "overwritten" in large._memory.refusal
