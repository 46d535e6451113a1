"""Lanes of idle time and of the host: labels, colours of causes, and what has no lane."""

from __future__ import annotations

from factories import Event, job, kernel, launch, rank_trace

from ccltui.draw.palette import Ink
from ccltui.metrics.view.job_view import View
from ccltui.parsers.columns import RankTrace
from ccltui.tui.state.rank_lanes import host_lanes_of, idle_lane


def view_of(trace: RankTrace) -> View:
    return View(job(trace))


def example() -> RankTrace:
    """The host loads data and is blocked before it launches the second kernel."""
    return rank_trace(
        0,
        annotations=[Event("enumerate(DataLoader)#_Iter.__next__", 90, 30, 1)],
        runtime=[launch(1, 0), Event("cudaStreamSynchronize", 120, 50, 1), launch(2, 190)],
        cpu_ops=[Event("linear", 100, 80, 1), Event("mm", 110, 60, 1), Event("load", 0, 50, 9)],
        gpu=[Event("a", 10, 90, correlation=1), Event("b", 200, 100, correlation=2)],
    )


def test_idle_time_has_the_colours_of_its_causes() -> None:
    (rank,) = view_of(example()).ranks
    lane = idle_lane(rank)

    assert lane is not None
    found = [
        (lane.text(int(name)), int(start) // 1000, lane.inks[kind])
        for name, start, kind in zip(lane.name, lane.start_ns, lane.kind, strict=True)
    ]
    assert found == [
        ("data loading", 100, Ink.INPUT),
        ("synchronisation", 120, Ink.BLOCKED),
        ("operators", 170, Ink.HOST),
        ("host other", 180, Ink.HOST),
        ("launch latency", 190, Ink.DELAY),
    ]
    assert int(lane.work.sum_ns[-1]) == 100_000


def test_a_rank_without_device_work_is_not_idle() -> None:
    (rank,) = view_of(rank_trace(0, cpu_ops=[Event("mm", 0, 5, 1)])).ranks

    assert idle_lane(rank) is None


def test_lanes_of_the_host_by_thread_and_depth() -> None:
    lanes = host_lanes_of(view_of(example()), ("0",))["0"]

    labels = [row.label for row in lanes.rows]
    assert labels == ["1 range", "op", "op 2", "call", "2 op"]
    assert [row.text(int(row.name[0])) for row in lanes.rows] == [
        "enumerate(DataLoader)#_Iter.__next__",
        *("linear", "mm", "cudaLaunchKernel", "load"),
    ]
    calls = lanes.rows[3]
    assert [calls.inks[kind] for kind in calls.kind] == [Ink.HOST, Ink.BLOCKED, Ink.HOST]
    assert lanes.rows[0].inks[lanes.rows[0].kind[0]] is Ink.INPUT
    assert lanes.note == "thread 1 is 1, 2 is 9"


def test_what_has_no_lane_is_announced() -> None:
    deep = [Event(f"op{i}", i, 100 - 2 * i, 1) for i in range(6)]
    trace = rank_trace(0, cpu_ops=[*deep, *(Event("w", 0, 1, thread) for thread in (2, 3, 4))])

    note = host_lanes_of(view_of(trace), ("0",))["0"].note

    assert note.endswith("not drawn: 2 deeper op levels of thread 1, 2 more threads")
    bare = view_of(rank_trace(0, gpu=[kernel("a", 0, 1)]))
    assert host_lanes_of(bare, ("0",))["0"].note == "nothing of the host is recorded"
