"""Host threads: events by thread, group and depth, the launching thread first, within limits."""

from __future__ import annotations

from factories import Event, launch, rank_trace

from ccltui.metrics.device.launch_origin import MAX_DEPTHS, MAX_THREADS, host_threads
from ccltui.metrics.model.rank_facts import RankFacts
from ccltui.parsers.columns import RankTrace


def names(trace: RankTrace, thread: int) -> dict[tuple[str, int], list[str]]:
    """Names of the events of each level of a thread."""
    return {
        (level.group, level.depth): [
            trace.text(name) for name in trace.group(level.group).name[level.rows]
        ]
        for level in host_threads(RankFacts(trace)).threads[thread].levels
    }


def example() -> RankTrace:
    """Thread 1 records most events, thread 2 launches the only kernel."""
    return rank_trace(
        0,
        gpu=[Event("gemm", 40, 10, correlation=5)],
        annotations=[Event("step", 0, 100, 2), Event("forward", 10, 50, 2)],
        cpu_ops=[
            Event("linear", 10, 40, 2),
            Event("mm", 20, 20, 2),
            Event("relu", 55, 5, 2),
            *(Event("load", 10 * i, 5, 1) for i in range(9)),
        ],
        runtime=[launch(5, 30, thread=2), Event("cudaMalloc", 32, 1, 2)],
    )


def test_events_are_divided_by_depth_on_the_thread_that_launches() -> None:
    assert names(example(), 0) == {
        ("annotations", 0): ["step"],
        ("annotations", 1): ["forward"],
        ("cpu_ops", 0): ["linear", "relu"],
        ("cpu_ops", 1): ["mm"],
        ("runtime", 0): ["cudaLaunchKernel", "cudaMalloc"],
    }
    assert names(example(), 1) == {("cpu_ops", 0): ["load"] * 9}


def test_what_is_beyond_the_limits_is_counted() -> None:
    deep = [Event(f"op{i}", i, 100 - 2 * i, 1) for i in range(10)]
    others = [Event("worker", 0, 1, thread) for thread in range(2, 7)]

    found = host_threads(RankFacts(rank_trace(0, cpu_ops=[*deep, *others])))

    assert len(found.threads) == MAX_THREADS
    assert found.others == 6 - MAX_THREADS
    (first, _) = found.threads
    assert len(first.levels) == MAX_DEPTHS["cpu_ops"]
    assert first.deepest == {"cpu_ops": 10}


def test_a_rank_without_a_host_has_no_thread() -> None:
    found = host_threads(RankFacts(rank_trace(0, gpu=[Event("gemm", 0, 1)])))

    assert (found.threads, found.others) == ((), 0)
