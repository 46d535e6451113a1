"""Lanes of devices and hosts, and the kernel at a place."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from factories import Event, job, kernel, launch, rank_trace
from fakes import BASE_NS, COMPUTE_NS, Plan, full_job, ready_and_end, scene, trace
from msgspec.structs import replace

from ccltui.draw.palette import Ink
from ccltui.draw.timeline_chart import Track
from ccltui.metrics.view.job_view import View
from ccltui.parsers.columns import MISSING, RankTrace, Samples
from ccltui.tui.state.event_table import Running, running_at, running_at_cursor
from ccltui.tui.state.pane_states import TIMELINE
from ccltui.tui.state.rank_lanes import (
    COMMUNICATION,
    COPIES,
    counter_lanes_of,
    host_lanes_of,
    idle_lane,
    kernels_of,
    streams_of,
)

VIEW = View(full_job(Plan()))


def same(one: Track, other: Track) -> bool:
    """Whether two tracks are busy at the same times."""
    return np.array_equal(one.start_ns, other.start_ns) and np.array_equal(one.end_ns, other.end_ns)


def test_streams_come_by_their_number_with_what_they_do() -> None:
    seven, twenty = streams_of(VIEW, ("3",))["3"]

    assert (seven.label, twenty.label) == ("s7", "s20")
    compute, communication, copies = seven.parts
    assert same(compute, seven.work)
    assert len(communication.start_ns) == len(copies.start_ns) == 0
    assert same(twenty.parts[1], twenty.work)
    assert set(seven.kind.tolist()) == {0}
    assert set(twenty.kind.tolist()) == {1}
    assert seven.text(int(seven.name[0])) == "sm90_xmma_gemm_bf16"
    assert twenty.text(int(twenty.name[0])) == "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
    lane = scene().findings.lanes["3"]
    assert same(seven.work, lane.compute)
    assert same(twenty.work, lane.network)


def test_work_without_a_stream_is_not_lost() -> None:
    one = trace(Plan(), 0)
    gpu = one.events["gpu"]
    track = gpu.track.copy()
    track[:5] = MISSING
    changed = replace(one, events={**one.events, "gpu": gpu.with_columns(track=track)})
    job = replace(full_job(Plan(ranks=1)), ranks=(changed,))

    nameless, *_ = streams_of(View(job), ("0",))["0"]
    assert nameless.label == "s?"
    assert len(nameless.start_ns) == 5


@pytest.mark.parametrize(
    ("category", "track"), [("gemm", "compute"), (COMMUNICATION, "network"), (COPIES, None)]
)
def test_one_kind_of_kernels_on_every_rank(category: str, track: str | None) -> None:
    found = kernels_of(VIEW, category)
    lanes = scene().findings.lanes

    assert list(found) == list(lanes)
    for label, lane in lanes.items():
        assert same(found[label], Track.empty() if track is None else getattr(lane, track))


def test_an_unknown_rank_is_an_error() -> None:
    with pytest.raises(KeyError):
        streams_of(VIEW, ("99",))


def with_clock(number: int, *readings: float) -> RankTrace:
    """A rank with readings of its clock, one each millisecond."""
    one = trace(Plan(), number)
    first = int(one.group("gpu").start_ns[0])
    count = len(readings)
    samples = Samples(
        time_ns=first + 1_000_000 * np.arange(count),
        name=np.full(count, len(one.strings), np.int32),
        value=np.array(readings),
    )
    return replace(one, strings=(*one.strings, "SM Clock (MHz)"), samples=samples)


def test_readings_of_a_clock_hold_until_the_next_and_low_ones_differ_in_colour() -> None:
    high = (1980.0, 1980.0, 1980.0, 1980.0)
    traces = (*(with_clock(rank, *high) for rank in range(3)), with_clock(3, 1980, 1980, 1200, 1))
    view = View(replace(full_job(Plan(ranks=4)), ranks=traces))

    lanes = counter_lanes_of(view, ("0", "3"))

    ((usual,), (slow,)) = lanes["0"], lanes["3"]
    assert [one.label for one in (usual, slow)] == ["SM clk", "SM clk"]
    assert usual.kind.tolist() == [0]
    assert slow.kind.tolist() == [0, 1]  # 1 MHz is no reading of a clock
    assert [slow.text(one) for one in slow.name.tolist()] == ["1980 MHz", "1200 MHz"]
    assert slow.start_ns.tolist() == [traces[3].samples.time_ns[at] for at in (0, 2)]
    assert usual.end_ns.tolist() == [traces[0].samples.time_ns[3]]
    assert pickle.loads(pickle.dumps(slow)).text(0) == "1980 MHz"  # another process draws it


def test_a_rank_without_readings_has_no_such_lane() -> None:
    assert counter_lanes_of(VIEW, ("3",)) == {"3": ()}


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


GEMM = "sm90_xmma_gemm_bf16"
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


@pytest.mark.parametrize(
    ("time_ns", "name", "stream"),
    [(0, GEMM, 7), (COMPUTE_NS - 160_000, GEMM, 7), (COMPUTE_NS - 140_000, NCCL, 20)],
)
def test_the_latest_to_start_is_named(time_ns: int, name: str, stream: int) -> None:
    running = running_at(trace(Plan(), 0), BASE_NS + time_ns)

    assert running is not None
    assert (running.name, running.stream) == (name, stream)


def test_before_and_after_everything_it_is_idle() -> None:
    rank = trace(Plan(), 0)
    _, end = ready_and_end(Plan())

    assert running_at(rank, BASE_NS - 1) is None
    assert running_at(rank, BASE_NS + int(end[-1])) is None
    assert running_at(rank, BASE_NS + int(end[-1]) - 1) is not None


def test_at_the_cursor_of_a_scene() -> None:
    found = scene(pane=TIMELINE)
    found = found.with_state(found.state.select(rank="3", time_ns=1_000))
    ready, _ = ready_and_end(Plan())

    assert running_at_cursor(found) == Running(GEMM, 7, int(ready[3, 0]))
