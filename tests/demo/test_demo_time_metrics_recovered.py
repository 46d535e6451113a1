"""Parts of the time, volume of collectives and the critical path equal the schedule."""

from __future__ import annotations

from pathlib import Path

import pytest
from recovery import FAMILY, LOSSY, Recovered, nanoseconds, recover

every_job = pytest.mark.parametrize("recovered", sorted(FAMILY), indirect=True)
PARTS = ("window", "idle", "comp_only", "comm_only", "overlap", "mem_only")
SIZED = sorted(set(FAMILY) - LOSSY)


@every_job
def test_parts_of_the_time(recovered: Recovered) -> None:
    found = recovered.metric("temporal_breakdown").details["per_rank"]

    for rank in recovered.truth.ranks:
        measured = {key: nanoseconds(found[str(rank.rank)][f"{key}_ms"]) for key in PARTS}
        assert measured == {
            "window": rank.window_ns,
            "idle": rank.idle_ns,
            "comp_only": rank.comp_only_ns,
            "comm_only": rank.comm_only_ns,
            "overlap": rank.overlap_ns,
            "mem_only": rank.mem_only_ns,
        }


@every_job
def test_idle_and_busy_shares(recovered: Recovered) -> None:
    ranks = recovered.truth.ranks
    window, idle = sum(r.window_ns for r in ranks), sum(r.idle_ns for r in ranks)

    assert recovered.metric("idle_ratio").value == pytest.approx(idle / window, abs=1e-12)
    assert recovered.metric("gpu_busy").value == pytest.approx(1 - idle / window, abs=1e-12)
    assert recovered.metric("sm").value == pytest.approx(1 - idle / window, abs=1e-12)


@every_job
def test_work_of_ranks(recovered: Recovered) -> None:
    result = recovered.metric("rank_imbalance")
    if result.status == "unavailable":
        assert len(recovered.truth.ranks) < 2
        return
    work = [rank.comp_ns for rank in recovered.truth.ranks]

    assert result.value == pytest.approx(max(work) * len(work) / sum(work))


@every_job
def test_idle_time_is_all_divided(recovered: Recovered) -> None:
    details = recovered.metric("idle_causes").details

    parts = sum(row["ms"] for row in details["by_cause"].values())
    assert parts * len(recovered.truth.ranks) == pytest.approx(
        sum(rank.idle_ns for rank in recovered.truth.ranks) / 1e6
    )


@pytest.mark.parametrize("recovered", SIZED, indirect=True)
def test_every_collective_counts_once(recovered: Recovered) -> None:
    result = recovered.metric("collective_volume")
    truth = recovered.truth
    if not all(call.message_bytes >= 0 for call in truth.collectives) or result.value is None:
        assert result.reason == "no_message_size"
        return

    details = result.details
    if not details["num_unmatched"]:
        assert details["num_collectives"] == len(truth.collectives) + len(truth.transfers)
        expected = sum(c.message_bytes for c in (*truth.collectives, *truth.transfers))
        assert details["total_message_bytes"] == expected


@pytest.mark.parametrize(
    "recovered",
    ["nothing injected", "no overlap", "second host ahead", "tensor parallel alone", "gpipe"],
    indirect=True,
)
def test_the_chain_of_work_is_as_long_as_the_step(recovered: Recovered) -> None:
    """From the first work of any rank to the last end of any, without a gap."""
    truth = recovered.truth
    details = recovered.metric("critical_path").details
    offsets = truth.clock_offset_ns

    for index, step in enumerate(sorted(int(step) for step in details["per_step"])):
        windows = [
            (start - offsets[rank.rank], end - offsets[rank.rank])
            for rank in truth.ranks
            for start, end in [rank.work[index]]
        ]
        length = max(end for _, end in windows) - min(start for start, _ in windows)
        found = nanoseconds(details["per_step"][str(step)]["path_ms"])
        assert abs(found - length) <= 5_000  # what clocks and ends leave open


def test_the_chain_runs_through_the_late_rank_and_its_pipeline(tmp_path: Path) -> None:
    calm = recover(tmp_path / "calm", FAMILY["nothing injected"])
    slow = recover(tmp_path / "slow", FAMILY["slow products"])

    assert set(calm.metric("critical_path").details["by_rank"]) == {"0", "4"}
    assert set(slow.metric("critical_path").details["by_rank"]) == {"3", "7"}


@pytest.mark.parametrize("recovered", ["waiting for data", "silent host"], indirect=True)
def test_a_host_that_holds_a_step_up_is_on_the_chain(recovered: Recovered) -> None:
    (injected,) = recovered.spec.stragglers
    details = recovered.metric("critical_path").details
    steps = injected.steps or ()

    for index, row in enumerate(details["per_step"].values()):
        held = 4.0 if index in steps else 0.0
        assert row["host_ms"] == pytest.approx(held, abs=0.05)
    assert details["by_rank"]["3"]["ratio_of_path"] > 0.2


@every_job
def test_hosts_that_run_ahead_are_the_free_running_ones(recovered: Recovered) -> None:
    ahead = [one for one in recovered.metric("iter_time").warnings if "run ahead" in one]

    assert bool(ahead) == (recovered.truth.spec == FAMILY["free running host"])
