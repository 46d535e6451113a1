"""Windows and the common clock of jobs in which a clock drifts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from recovery import Recovered, quick, recover

from ccltui.demo.kineto_writer import HostClock
from ccltui.demo.simulate import simulate
from ccltui.metrics.view.job_view import View
from ccltui.parsers.window import Window

DRIFT_PPB = 150_000


@pytest.fixture(scope="module")
def drifting(tmp_path_factory: pytest.TempPathFactory) -> Recovered:
    """Two hosts that meet often; the clock of the second is 5 ms ahead and runs fast."""
    spec = quick(
        pp=1,
        dp_shard=4,
        steps=6,
        world_allreduce=False,
        clock_offsets_ns=(0, 5_000_000),
        clock_drifts_ppb=(0, DRIFT_PPB),
    )
    return recover(tmp_path_factory.mktemp("drifting"), spec)


def test_times_of_all_ranks_are_one_after_correction(drifting: Recovered) -> None:
    schedule = simulate(drifting.spec)
    first, second = (HostClock(drifting.spec, host) for host in range(2))
    true = sorted(activity.end_ns for activity in schedule.activities[5])
    own = np.array([second.read(time) for time in true])

    found = drifting.view.on_job_clock("5", own)

    wanted = np.array([first.read(time) for time in true])
    assert np.abs(found - wanted).max() <= 50
    assert np.abs(own - 5_000_000 - wanted).max() > 1_000  # one offset alone is not enough


def test_the_way_back_is_the_same(drifting: Recovered) -> None:
    times = drifting.view.origin_ns + np.arange(0, 30_000_000, 999_983)

    there = drifting.view.on_own_clock("6", times)

    assert np.abs(drifting.view.on_job_clock("6", there) - times).max() <= 1
    assert drifting.view.on_own_clock("0", times).tolist() == times.tolist()


def test_a_window_cuts_all_ranks_at_one_moment(drifting: Recovered) -> None:
    view = drifting.view
    cut = View(view.job, previous=view).with_options(window=Window(12_000_000, None))

    edges = [
        int(view.on_job_clock(rank.label, rank.windows.start_ns[:1])[0]) - view.origin_ns
        for rank in cut.ranks
        if rank.comp.total_ns
    ]

    assert min(edges) >= 12_000_000 - 50


def test_raw_clocks_are_left_alone(drifting: Recovered) -> None:
    raw = drifting.view.with_options(raw_clocks=True)
    times = np.arange(5, dtype=np.int64)

    assert raw.on_job_clock("6", times).tolist() == times.tolist()
    assert raw.on_own_clock("6", times).tolist() == times.tolist()


def test_ranks_of_one_host_drift_alike(tmp_path: Path) -> None:
    # each rank of the second host meets the first in a group of its own, and tells less alone
    spec = quick(
        tp=4,
        pp=1,
        dp_shard=2,
        steps=16,
        clock_drifts_ppb=(0, 40_000),
        jitter_ns=2_003,
        end_skew_ns=2_001,
    )

    clocks = recover(tmp_path, spec).view.clocks.clocks

    told = {clocks[str(rank)].drift_ppb for rank in range(4, 8)}
    assert len(told) == 1
    assert told.pop() == pytest.approx(40_000, rel=0.15)
