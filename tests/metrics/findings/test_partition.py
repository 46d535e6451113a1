"""The partition of rank time: complete, disjoint, and what counting nanoseconds gives."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from factories import Coll, Event, allreduce, copy, job, kernel, launch, rank_trace, step, world
from full_jobs import view_of
from msgspec.structs import replace
from partition_checks import check

from ccltui.metrics.findings.rank_time.partition import Place, named_parts, partition
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.columns import RankTrace
from ccltui.parsers.window import Window

STEPS = 4


def drawn(rng: random.Random, rank: int, first: int = 0) -> tuple[RankTrace, list[Event]]:
    """Steps of 1000 us that follow one another, with work on three streams at random times."""
    gpu: list[Event] = []
    runtime: list[Event] = []
    for number in range(STEPS):
        for _ in range(rng.randrange(1, 9)):
            row, at, dur = len(gpu), 1000 * number + rng.randrange(900), rng.randrange(1, 400)
            event = rng.choice(
                (
                    kernel("gemm", at, dur),
                    copy(at, dur, 8),
                    allreduce(at, dur, Coll("allreduce", 8, 8), 20),
                )
            )
            gpu.append(replace(event, correlation=row))
            runtime.append(launch(row, 1000 * number + rng.randrange(50)))
    gpu.sort(key=lambda event: event.start_us)
    trace = rank_trace(
        rank,
        gpu=gpu,
        runtime=sorted(runtime, key=lambda event: event.start_us),
        annotations=[step(first + number, 1000 * number, 1000) for number in range(STEPS)],
        groups=[world(2)],
        world_size=2,
    )
    return trace, gpu


def counted_us(gpu: list[Event]) -> Counter[str]:
    """Time of each kind by counting microseconds from the first work to the last."""
    found: Counter[str] = Counter()
    first = int(min(event.start_us for event in gpu))
    last = int(max(event.start_us + event.dur_us for event in gpu))
    for at in range(first, last):
        kinds = {
            "copies" if event.category else "compute" if event.name == "gemm" else "communication"
            for event in gpu
            if event.start_us <= at < event.start_us + event.dur_us
        }
        order = ("compute", "copies", "communication")
        found[next((kind for kind in order if kind in kinds), "idle")] += 1
    return found


@pytest.mark.parametrize("seed", range(12))
def test_the_parts_are_those_of_counting_microseconds(seed: int) -> None:
    trace, gpu = drawn(random.Random(seed), 0)
    view = View(job(trace))

    found: Counter[str] = Counter()
    for part in partition(view).parts:
        found[part.kind] += part.total_ns // 1000
    assert found == +counted_us(gpu)
    check(view)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"steps": (1, 2)},
        {"span": "inner"},
        {"span": "trace"},
        {"window": Window(700_000, 2_300_000)},
        {"ranks": frozenset({1})},
        {"group": "default_pg"},
    ],
    ids=lambda options: "-".join(map(str, options)) or "all",
)
def test_the_metrics_agree_under_every_selection(seed: int, options: dict[str, object]) -> None:
    rng = random.Random(seed)
    ranks = [drawn(rng, rank)[0] for rank in (0, 1)]
    check(View(job(*ranks), ViewOptions(**options)))  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(6))
def test_single_steps_add_up_to_all(seed: int) -> None:
    view = View(job(drawn(random.Random(seed), 0)[0]))

    total: Counter[tuple[str, str]] = Counter()
    for number in range(STEPS):
        total.update(named_parts(view.with_options(steps=(number, number)))["0"])
    assert total == named_parts(view)["0"]


@pytest.mark.parametrize("name", ["training", "pipelined", "serving"])
def test_full_jobs(name: str) -> None:
    check(view_of(name))


def test_ranks_with_different_steps_and_without_steps() -> None:
    rng = random.Random(0)
    other = rank_trace(2, gpu=[kernel("gemm", 0, 50), kernel("gemm", 90, 50)])
    check(View(job(drawn(rng, 0)[0], drawn(rng, 1, first=9)[0], other)))


def test_the_place_of_an_idle_part_is_its_own_longest_piece() -> None:
    """The device idles [100,500): the host loads data [200,240) and [300,390), else nothing."""
    trace = rank_trace(
        0,
        gpu=[Event("a", 0, 100, correlation=1), Event("b", 500, 100, correlation=2)],
        runtime=[launch(1, 0), launch(2, 490)],
        cpu_ops=[
            Event("enumerate(DataLoader)#_Iter.__next__", 200, 40, 1),
            Event("enumerate(DataLoader)#_Iter.__next__", 300, 90, 1),
        ],
    )

    (part,) = (one for one in partition(View(job(trace))).parts if one.what == "data_loading")
    assert part.by_rank == {"0": 130_000}
    assert (part.place, part.weight) == (Place("0", 300_000), 90_000)
