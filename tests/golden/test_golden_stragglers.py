"""Matching, clocks and lag on public traces, against independently computed numbers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from ccltui.metrics.catalog.stragglers.straggler_lag import straggler_lag
from ccltui.metrics.collectives.arrivals import clock_free
from ccltui.metrics.collectives.matching.match import HIGH, LOW, MEDIUM, GroupMatch, gather
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.array_types import I64
from ccltui.parsers.job import open_job

pytestmark = pytest.mark.shared

ALL_REDUCE = TYPES.index("AllReduce")


def view_of(path: Path, cache: Path) -> View:
    return View(open_job(path, cache_dir=cache, jobs=1))


def only(view: View) -> GroupMatch:
    (match,) = view.matches.groups
    return match


def times(view: View) -> tuple[I64, I64]:
    """Recorded starts and durations of the complete instances, ns [n, m]."""
    match = only(view)
    inputs = {item.label: item for item in view.match_inputs}
    start, dur = gather(match, inputs, "start_ns"), gather(match, inputs, "dur_ns")
    return start[match.complete], dur[match.complete]


def overlapping(view: View) -> int:
    return int((only(view).overlap == 1).sum())


def surely_overlapping(view: View) -> int:
    """Number of complete instances without a member that ended before the last one started."""
    start, dur = times(view)
    return int((start.max(axis=1) <= (start + dur).min(axis=1)).sum())


def us(values: I64) -> list[float]:
    return [float(value) for value in values / 1000]


def counts(members: Iterable[int], size: int) -> list[int]:
    return [int(count) for count in np.bincount(np.array(list(members)), minlength=size)]


class TestMegatronTp8:
    """Kineto traces alone, and beside the execution traces of the same run: the same numbers."""

    @pytest.fixture(scope="class", params=["alone", "with execution traces"])
    def described(self, request: pytest.FixtureRequest) -> bool:
        return bool(request.param != "alone")

    @pytest.fixture(scope="class")
    def view(self, shared: Path, tmp_path_factory: pytest.TempPathFactory, described: bool) -> View:
        folder = shared / "traces/astra-sim/megatron-tp8"
        if not described:
            alone = tmp_path_factory.mktemp("alone")
            for path in folder.glob("megatron_kineto_*"):
                (alone / path.name).symlink_to(path)
            folder = alone
        return view_of(folder, tmp_path_factory.mktemp("megatron"))

    def test_all_84_collectives_match_and_overlap(self, view: View, described: bool) -> None:
        match = only(view)

        assert [len(item.calls) for item in view.match_inputs] == [84] * 8
        assert match.rows.shape == (84, 8)
        assert (match.num_incomplete, match.num_mismatched) == (0, 0)
        assert overlapping(view) == 84
        assert match.confidence.tolist() == [HIGH if described else MEDIUM] * 84

    def test_ends_meet_within_60_us_while_starts_are_ms_apart(self, view: View) -> None:
        start, dur = times(view)
        end_spread, start_skew = np.ptp(start + dur, axis=1), np.ptp(start, axis=1)

        assert us(np.array([np.median(end_spread), end_spread.max()])) == [30, 49]
        assert us(np.array([np.median(start_skew), start_skew.max()])) == [2785, 41730]

    def test_ranks_0_and_6_come_last(self, view: View) -> None:
        start, dur = times(view)

        assert counts(start.argmax(axis=1), 8) == [32, 4, 4, 15, 0, 1, 28, 0]
        assert counts(dur.argmin(axis=1), 8) == [32, 4, 4, 13, 2, 0, 25, 4]
        assert us(dur.sum(axis=0)) == [
            241191, 481306, 413325, 472390, 495240, 490928, 263846, 481865,
        ]  # fmt: skip

    def test_the_metric_names_the_late_ranks_not_their_victims(self, view: View) -> None:
        result = straggler_lag.run(view)

        details = result.details
        assert result.status == "ok"
        assert result.value == pytest.approx(5319.012, abs=0.001)
        assert (details["p50_lag_us"], details["max_lag_us"]) == (2806, 41750)
        assert details["stragglers"] == [0, 6]
        assert details["match"]["overlap_pass_ratio"] == 1.0

    def test_the_ranks_of_one_machine_share_a_clock(self, view: View) -> None:
        offsets = [abs(offset) for offset in view.clocks.offsets_ns.values()]

        assert max(offsets) < 15_000
        assert view.clocks.residual_p95_ns == pytest.approx(20_000, abs=5_000)


# run, kernels of each rank, matched, overlapping without and with the tolerance of ends, of which
# allreduce, last rank and how often. Within the tolerance are misses of 4, 1 and 23 us in the third
# and 18 us in the fourth run, below an eighth of calls of 34, 47, 199 and 317 us.
TORCHREC = [
    ("trace/sst_long_a2a_optimizer", [13, 13, 12, 13], 12, 12, 12, 0, (2, 12)),
    ("trace/sst_long_a2a_optimizer_2", [33, 33, 31, 33], 31, 29, 29, 15, (2, 17)),
    ("trace/sst_long_a2a_optimizer_3", [32, 31, 31, 32], 31, 28, 31, 15, (2, 18)),
    ("trace/sst_long_a2a_optimizer_4", [30, 30, 30, 30], 30, 25, 26, 15, (3, 13)),
    ("trace/sst_long_a2a_optimizer_5_qcomm", [31, 31, 30, 31], 30, 30, 30, 14, (2, 18)),
    ("log/resnet18", [12, 12], 12, 12, 12, 0, (1, 12)),
]


@pytest.mark.parametrize(
    ("run", "kernels", "matched", "exact", "overlap", "reduces", "last"), TORCHREC
)
def test_torchrec_windows_that_open_late_shift_no_match(
    shared: Path,
    own_cache: Path,
    run: str,
    kernels: list[int],
    matched: int,
    exact: int,
    overlap: int,
    reduces: int,
    last: tuple[int, int],
) -> None:
    view = view_of(shared / "traces/torchrec" / run, own_cache)

    start, _ = times(view)
    match = only(view)
    assert [len(item.calls) for item in view.match_inputs] == kernels
    assert int(match.usable.sum()) == len(start) == matched
    assert (surely_overlapping(view), overlapping(view)) == (exact, overlap)
    is_reduce = (match.kind == ALL_REDUCE) & match.complete
    assert match.overlap[is_reduce].tolist() == [1] * reduces
    assert set(match.confidence[is_reduce].tolist()) <= {MEDIUM}
    who = counts(start.argmax(axis=1), len(kernels))
    assert (int(np.argmax(who)), max(who)) == last


@pytest.mark.parametrize(
    ("run", "overlap"),
    [
        ("sst_long_a2a_optimizer", 0),
        ("sst_long_a2a_optimizer_2", 0),
        ("sst_long_a2a_optimizer_3", 13),
        ("sst_long_a2a_optimizer_4", 25),
        ("sst_long_a2a_optimizer_5_qcomm", 16),
    ],
)
def test_torchrec_counted_from_the_start_pairs_the_wrong_kernels(
    shared: Path, own_cache: Path, run: str, overlap: int
) -> None:
    view = view_of(shared / "traces/torchrec/trace" / run, own_cache)

    passed = 0
    for kind in range(len(TYPES)):
        ranks = [item.calls.take(item.calls.kind == kind) for item in view.match_inputs]
        count = min(len(calls) for calls in ranks)
        starts = np.stack([calls.start_ns[:count] for calls in ranks])
        ends = np.stack([calls.end_ns[:count] for calls in ranks])
        passed += int((starts.max(axis=0) <= ends.min(axis=0)).sum()) if count else 0
    assert passed == overlap


def test_a_late_rank_of_resnet18_has_the_least_collective_time(
    shared: Path, own_cache: Path
) -> None:
    view = view_of(shared / "traces/torchrec/log/resnet18", own_cache)

    _, dur = times(view)
    result = straggler_lag.run(view)

    assert us(dur.sum(axis=0)) == [7734, 172]
    assert result.details["stragglers"] == [1]
    assert (result.status, result.reason) == ("partial", "unmatched_collectives")
    assert result.details["match"]["low"] == 12  # SendRecv kernels may be anything


class TestTraceFilter:
    """Two of 128 ranks, down-sampled: nothing confident can be said, and nothing is."""

    @pytest.fixture(scope="class")
    def view(self, shared: Path, tmp_path_factory: pytest.TempPathFactory) -> View:
        return view_of(shared / "traces/hta/trace_filter", tmp_path_factory.mktemp("filter"))

    def test_by_position_and_raw_starts(self, view: View) -> None:
        start, dur = times(view)
        skew = np.ptp(start, axis=1)

        assert us(np.array([skew.mean(), np.median(skew), skew.max()])) == [
            51349.5,
            37589.5,
            164191,
        ]
        assert counts(start.argmax(axis=1), 2) == [2, 8]
        assert us((start.max(axis=1, keepdims=True) - start).sum(axis=0)) == [381329, 132166]
        lag = clock_free(dur, 0)
        assert us(np.array([lag.lag_ns.mean(), np.median(lag.lag_ns), lag.lag_ns.max()])) == [
            22945.6, 21864, 78652,
        ]  # fmt: skip
        assert counts(lag.last, 2) == [3, 7]

    def test_the_overlap_test_fails_on_6_of_10(self, view: View) -> None:
        # One of the six misses by 15 us in a call of 68 ms: within the tolerance of ends.
        assert (surely_overlapping(view), overlapping(view)) == (4, 5)
        assert set(only(view).confidence.tolist()) == {LOW}

    def test_sizes_show_that_three_positions_hold_different_collectives(self, view: View) -> None:
        assert only(view).num_mismatched == 3

    def test_the_result_is_partial_and_blames_nobody(self, view: View) -> None:
        result = straggler_lag.run(view)

        assert (result.status, result.reason) == ("partial", "unmatched_collectives")
        assert result.details["match"]["high"] == result.details["match"]["medium"] == 0
        assert result.details["stragglers"] == []
        assert result.details["lag_aligned"] is None


class TestSynthetic:
    """Rank r joins each collective 0, 4, 16, 64 µs late; ``clk`` adds 2500 µs to rank 3."""

    @pytest.fixture(scope="class", params=["rank3", "rank3_clk"])
    def view(
        self,
        request: pytest.FixtureRequest,
        shared: Path,
        tmp_path_factory: pytest.TempPathFactory,
    ) -> View:
        job = tmp_path_factory.mktemp("synthetic")
        for name in ("rank0", "rank1", "rank2", request.param):
            (job / f"{name}.json.gz").symlink_to(shared / f"golden/synth/{name}.json.gz")
        return view_of(job, tmp_path_factory.mktemp("cache"))

    @pytest.fixture
    def shift_us(self, view: View) -> int:
        return 2500 if "clk" in view.job.ranks[3].source.path else 0

    def test_all_21_lags(self, view: View) -> None:
        _, dur = times(view)
        lag = clock_free(dur, 0)

        assert us(np.array([lag.lag_ns.mean(), np.median(lag.lag_ns)])) == [
            pytest.approx(50.873, abs=0.001),
            64,
        ]
        assert counts(lag.last, 4) == [0, 0, 3, 18]
        assert us(dur.sum(axis=0)) == [46876.493, 46792.493, 46568.166, 45808.159]

    def test_the_metric_counts_the_15_allreduces(self, view: View) -> None:
        result = straggler_lag.run(view)

        details = result.details
        assert (result.status, details["num_collectives"]) == ("ok", 15)
        assert [details[key] for key in ("mean_lag_us", "min_lag_us", "max_lag_us")] == [
            pytest.approx(64, abs=0.001)
        ] * 3
        waits = [details["wait_us"][str(rank)] for rank in range(4)]
        assert waits == pytest.approx([960, 900, 720, 0], abs=0.01)
        assert details["blame"]["3"]["last_count"] == 15
        assert details["stragglers"] == []  # all of it is less than 1 % of the time of the ranks
        finer = view.with_options(overrides={"materiality_pct": 0.05})
        assert straggler_lag.run(finer).details["stragglers"] == [3]
        assert details["lag_aligned"]["mean_lag_us"] == pytest.approx(64, abs=1)

    def test_the_offset_of_rank_3(self, view: View, shift_us: int) -> None:
        offsets = [view.clocks.offsets_ns[str(rank)] / 1000 for rank in range(4)]

        assert offsets == pytest.approx([0, 0, 0, shift_us], abs=1)

    def test_the_overlap_test_before_and_after_correction(self, view: View, shift_us: int) -> None:
        start, dur = times(view)
        is_reduce = only(view).kind == ALL_REDUCE
        before = (start.max(axis=1) <= (start + dur).min(axis=1))[is_reduce]

        assert only(view).overlap[is_reduce].tolist() == [1] * 15
        assert int(before.sum()) == (7 if shift_us else 15)

    def test_raw_clocks_show_the_wrong_skew_that_is_to_be_avoided(
        self, view: View, shift_us: int
    ) -> None:
        raw = straggler_lag.run(view.with_options(raw_clocks=True)).details

        expected = 2564 if shift_us else 64
        assert raw["lag_aligned"]["mean_lag_us"] == pytest.approx(expected, abs=0.01)
        assert raw["mean_lag_us"] == pytest.approx(64, abs=0.001)


def test_two_ranks_5_ms_apart_without_lag(shared: Path, own_cache: Path) -> None:
    view = view_of(shared / "golden/two_rank", own_cache)

    result = straggler_lag.run(view)

    assert (result.status, result.value) == ("ok", 0.0)
    assert result.details["stragglers"] == []
    assert result.details["clock"]["1"]["offset_us"] == 5000.0
    assert result.details["lag_aligned"]["mean_lag_us"] == 0.0
    raw = straggler_lag.run(View(view.job, ViewOptions(raw_clocks=True)))
    assert raw.details["lag_aligned"]["mean_lag_us"] == 5000.0
