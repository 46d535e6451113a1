"""The work of a rank stream by stream, and of one kind of kernels."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from fakes import Plan, full_job, scene, trace
from msgspec.structs import replace

from ccltui.draw.lanes import Track
from ccltui.metrics.view.job_view import View
from ccltui.parsers.columns import MISSING, RankTrace, Samples
from ccltui.tui.state.rank_lanes import (
    COMMUNICATION,
    COPIES,
    counter_lanes_of,
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
