"""Which metrics may infer communicators: a comparison of the streams of all ranks is expensive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from nameless_jobs import NODE, listed_node, listed_world, nameless_job

from ccltui.metrics.collectives.implied import implied_groups
from ccltui.metrics.facts import with_needs
from ccltui.metrics.registry import metrics
from ccltui.metrics.view.job_view import View, ViewOptions

MAY_INFER = {
    name for name, metric in metrics().items() if "inferred_groups" in with_needs(metric.facts)
} - {
    *("alltoall_imbalance", "busbw", "collective_volume", "hockney", "link_utilization"),
    *("node_locality", "pipeline_bubble", "token_to_expert_assignment"),
}
"""Metrics that compare ranks, without those that refuse this job: it has no sizes and no stages."""

NEED_OTHERS = {
    "blame_chain",
    "clock_offsets",
    "collective_mismatches",
    "straggler_cause",
    "straggler_lag",
    "verdict",
    "wait_vs_transfer",
    "what_if_no_straggler",
}
"""Those that refuse a single selected rank, before anything is inferred."""


@pytest.fixture
def inferences(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of ranks of each inference that is started."""
    started: list[int] = []
    real: Callable[..., Any] = implied_groups.implied_groups

    def counted(inputs: Any, *args: Any, **kwargs: Any) -> Any:
        started.append(len(inputs))
        return real(inputs, *args, **kwargs)

    monkeypatch.setattr(implied_groups, "implied_groups", counted)
    return started


def infer(inferences: list[int], view: View) -> set[str]:
    """Names of the metrics that start an inference, each on a job of its own."""
    found = set()
    for name, metric in metrics().items():
        inferences.clear()
        result = metric.run(View(view.job, view.options))
        assert result.reason != "internal_error", result.reasons
        if inferences:
            found.add(name)
    return found


def test_only_metrics_that_compare_ranks_infer_communicators(inferences: list[int]) -> None:
    assert infer(inferences, View(nameless_job(2 * NODE, 84))) == set(MAY_INFER)


def test_one_rank_alone(inferences: list[int]) -> None:
    one = View(nameless_job(2 * NODE, 84), ViewOptions(ranks=frozenset({0})))

    assert infer(inferences, one) == set(MAY_INFER) - NEED_OTHERS


def test_no_metric_infers_what_files_list(inferences: list[int]) -> None:
    assert infer(inferences, View(nameless_job(2 * NODE, 84, listed_node))) == set()


def test_the_count_of_a_large_job_infers_nothing(inferences: list[int]) -> None:
    result = metrics()["coll_call_num"].run(View(nameless_job(128, 84)))

    assert (result.status, result.value) == ("ok", 128 * 84)
    assert result.details["calls_by_type"]["AllReduce"] == 128 * 84
    assert [(row["ranks"], row["calls"]) for row in result.details["calls_by_group"]] == [
        (None, 128 * 84)
    ]
    assert result.details["rank_mismatch"] is None  # not: no rank differs
    assert not inferences


def test_kernels_are_of_the_only_group_that_their_file_lists() -> None:
    view = View(nameless_job(2 * NODE, 84, listed_node))

    rows = metrics()["coll_call_num"].run(view).details["calls_by_group"]
    assert [(row["ranks"], row["calls"]) for row in rows] == [
        (list(range(first, first + NODE)), NODE * 84) for first in (0, NODE)
    ]
    # The same groups as without the lists, from streams alone.
    inferred = View(nameless_job(2 * NODE, 84)).groups
    assert sorted(group.ranks for group in inferred) == sorted(g.ranks for g in view.groups)


def test_one_of_two_listed_groups_is_not_chosen(inferences: list[int]) -> None:
    job = nameless_job(2 * NODE, 84, lambda rank: [*listed_node(rank), *listed_world(2 * NODE)])

    assert metrics()["straggler_lag"].run(View(job)).status == "ok"
    assert inferences


def test_two_streams_are_no_single_communicator() -> None:
    rows = metrics()["coll_call_num"].run(View(nameless_job(NODE, 84, listed_node, streams=2)))

    assert [row["ranks"] for row in rows.details["calls_by_group"]] == [None]
