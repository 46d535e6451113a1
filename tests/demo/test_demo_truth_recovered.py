"""The metrics find what was injected: calls, steps, overlap and traffic."""

from __future__ import annotations

from collections import Counter

import pytest
from recovery import FAMILY, LOSSY, Recovered, nanoseconds

every_job = pytest.mark.parametrize("recovered", sorted(FAMILY), indirect=True)
whole_jobs = pytest.mark.parametrize("recovered", sorted(set(FAMILY) - LOSSY), indirect=True)


@every_job
def test_calls(recovered: Recovered) -> None:
    truth = recovered.truth

    result = recovered.metric("coll_call_num")

    found = result.details
    assert found["calls_per_rank"] == {str(rank.rank): rank.calls for rank in truth.ranks}
    assert +Counter(found["calls_by_type"]) == truth.calls_by_type
    assert found["total_calls"] == sum(rank.calls for rank in truth.ranks)
    for rank in truth.ranks:
        per_step = dict(found["calls_per_step"][str(rank.rank)])
        outside = per_step.pop("outside", 0)
        assert per_step == {str(step): calls for step, calls in rank.calls_by_step.items()}
        assert outside == rank.calls - sum(rank.calls_by_step.values())


@whole_jobs
def test_members_of_a_group_call_alike(recovered: Recovered) -> None:
    found = recovered.metric("coll_call_num").details

    assert found["rank_mismatch"] == []
    assert found["num_without_metadata"] == 0
    assert found["api_calls"] == found["total_calls"]


@every_job
def test_steps(recovered: Recovered) -> None:
    truth = recovered.truth

    found = recovered.metric("iter_time").details

    assert [nanoseconds(ms) for ms in found["iter_times_ms"]] == list(truth.step_ns.values())
    assert found["num_iterations"] == len(truth.step_ns)
    for rank in truth.ranks:
        assert found["per_rank"][str(rank.rank)]["n"] == len(rank.step_ns)


@every_job
def test_overlap(recovered: Recovered) -> None:
    found = recovered.metric("comm_comp_overlap").details["per_rank"]

    for rank in recovered.truth.ranks:
        measured = found[str(rank.rank)]
        assert {
            key: nanoseconds(measured[f"{key}_ms"])
            for key in ("comm_time", "comp_time", "overlap_time", "exposed_comm", "idle")
        } == {
            "comm_time": rank.comm_ns,
            "comp_time": rank.comp_ns,
            "overlap_time": rank.overlap_ns,
            "exposed_comm": rank.exposed_comm_ns,
            "idle": rank.idle_ns,
        }
        assert measured["num_comm_kernels"] == rank.calls


@whole_jobs
def test_sums_of_concurrent_work(recovered: Recovered) -> None:
    found = recovered.metric("comm_comp_overlap").details["per_rank"]

    for rank in recovered.truth.ranks:
        measured = found[str(rank.rank)]
        assert nanoseconds(measured["comm_sum_ms"]) == rank.comm_sum_ns
        assert nanoseconds(measured["comp_sum_ms"]) == rank.comp_sum_ns
        assert nanoseconds(measured["mem_time_ms"]) == rank.mem_ns
