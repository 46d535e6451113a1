"""Why ranks are late on public traces, and how modest the answer is where it must be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ccltui.metrics.findings.causes.cause_search import CAUSES, job_causes
from ccltui.metrics.findings.causes.instance_report import describe
from ccltui.metrics.registry import find
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import open_job

pytestmark = pytest.mark.shared

Opener = Callable[[str], View]


@pytest.fixture(scope="module")
def opened(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Opener:
    """Views of public traces by their path, each opened once."""
    known: dict[str, View] = {}

    def view_of(name: str) -> View:
        if name not in known:
            cache = tmp_path_factory.mktemp("causes")
            known[name] = View(open_job(shared / "traces" / name, cache_dir=cache, jobs=1))
        return known[name]

    return view_of


MEGATRON = "astra-sim/megatron-tp8"


def ask(view: View, metric: str) -> Result:
    return find(metric).run(view)


def test_megatron_freezes_inside_operators_on_ranks_0_and_6(opened: Opener) -> None:
    # 8 ranks of one tensor-parallel group: the host stands still for 10 to 20 ms inside aten::view,
    # aten::mm or cudaLaunchKernel, which take microseconds on the other ranks
    result = ask(opened(MEGATRON), "straggler_cause")

    details = result.details
    assert result.status == "ok"
    assert details["num_blamed"] == 53
    assert next(iter(details["causes"])) == "host_blocked"
    assert details["causes"]["host_blocked"]["share_of_lag"] > 0.85
    assert {rank: next(iter(row)) for rank, row in details["per_rank"].items()}.items() >= {
        ("0", "host_blocked"),
        ("6", "host_blocked"),
    }
    assert result.value == pytest.approx(0.9, abs=0.03)


def test_megatron_never_claims_more_than_its_matches_do(shared: Path, tmp_path: Path) -> None:
    # without the execution traces matches are of medium confidence, and so is every cause
    for path in (shared / "traces" / MEGATRON).glob("megatron_kineto_*"):
        (tmp_path / path.name).symlink_to(path)
    view = View(open_job(tmp_path, cache_dir=tmp_path / "cache", jobs=1))
    details = ask(view, "straggler_cause").details

    assert {row["confidence"]["high"] for row in details["causes"].values()} == {0}


def test_megatron_names_the_operator_and_its_length(opened: Opener) -> None:
    found = describe(opened(MEGATRON), 0, 31)

    assert (found.last, found.cause, found.lag_ns) == ("0", "host_blocked", 19_324_000)
    assert found.evidence is not None
    (blocked,) = [one for one in found.evidence.host if one.cause == "host_blocked"]
    assert (blocked.name, blocked.dur_ns // 1_000_000) == ("aten::view", 9)
    assert found.busbw_gbps == pytest.approx(176.9, abs=0.1)


def test_megatron_without_its_stragglers(opened: Opener) -> None:
    details = ask(opened(MEGATRON), "what_if_no_straggler").details

    assert details["replay_error_us"] <= 100  # of 330 ms: ends of one collective differ that much
    assert details["slowdown"] == pytest.approx(3.31, abs=0.02)
    saved = {rank: row["saved_ms"] for rank, row in details["without_rank"].items()}
    worth = {rank: ms for rank, ms in saved.items() if ms is not None}
    assert sorted(worth, key=lambda rank: -worth[rank])[:2] == ["0", "6"]


def test_the_first_collective_of_megatron_stays_unknown(opened: Opener) -> None:
    # rank 0 begins to record when others have arrived: nothing says what it did before
    found = describe(opened(MEGATRON), 0, 0)

    assert (found.last, found.cause, found.lag_ns) == ("0", "unknown", 41_750_000)


def test_a_rank_that_sleeps_is_told_without_metadata(opened: Opener) -> None:
    # rank 2 sleeps a second a step inside its sparse part; all-to-alls are matched by order alone,
    # and all others wait for it at once, which no transfer between two ranks does
    result = ask(opened("torchrec/trace/sst_long_a2a_optimizer"), "straggler_cause")

    worst = result.details["worst"][:3]
    assert [row["last"] for row in worst] == ["2"] * 3
    assert [row["cause"] for row in worst] == ["host_stall"] * 3
    assert "medium" in {row["confidence"] for row in worst} <= {"low", "medium"}
    assert all(0.99e6 < row["more_us"]["host_stall"] < 1.01e6 for row in worst)
    assert worst[0]["host"][-1]["name"] == "# running sparse arch"


@pytest.mark.parametrize("number", ["", "_2", "_3", "_4", "_5_qcomm"])
def test_torchrec_blames_rank_2_most(opened: Opener, number: str) -> None:
    view = opened(f"torchrec/trace/sst_long_a2a_optimizer{number}")

    details = ask(view, "straggler_cause").details

    assert next(iter(details["per_rank"])) == "2"


def test_a_down_sampled_pair_of_128_ranks_tells_nothing_for_certain(opened: Opener) -> None:
    view = opened("hta/trace_filter")

    for name in ("straggler_cause", "blame_chain", "what_if_no_straggler"):
        result = ask(view, name)
        assert result.status in ("partial", "unavailable")
    causes = ask(view, "straggler_cause").details["causes"] or {}
    assert all(row["confidence"]["high"] == 0 for row in causes.values())


def test_nothing_is_confident_where_matches_are_not(opened: Opener) -> None:
    for name in (MEGATRON, "torchrec/trace/sst_long_a2a_optimizer_4", "torchrec/log/resnet18"):
        view = opened(name)
        causes = job_causes(view)
        told: Counter[str] = Counter()
        for number, group in enumerate(view.arrivals.groups):
            rows = np.flatnonzero(group.last >= 0)
            found = causes.verdicts(number, rows)
            assert (found.confidence <= group.confidence[rows]).all()
            told.update(CAUSES[cause] for cause in found.cause)
        assert told
