"""Table of the nodes of CUDA and HIP graphs over replays and ranks."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from ccltui.metrics.arrays.statistics import microseconds
from ccltui.metrics.device.device_time import device_answer, device_ranks
from ccltui.metrics.device.graph_nodes import Node, nodes_of
from ccltui.metrics.metric import metric
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.unavailable import refuse

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View

_ALONE: Final = Reason(
    "single_rank", "no node is compared: fewer than two ranks replay one at least three times"
)
_SHOWN: Final = 200
"""Rows of a table: those with the most time."""


@metric(
    unit="ratio",
    definition=(
        "Largest ratio, over the nodes of CUDA and HIP graphs that compute, of a node's median "
        "duration on its slowest rank to the median over the other ranks; the details list the "
        "two hundred nodes with the most time, over replays and ranks, with module and kernel."
    ),
    needs=("replays of CUDA or HIP graphs",),
    facts=("classes", "step_of_work"),
    keys=(
        "imbalance_ratio",
        "nodes",
        "modules",
        "num_nodes",
        "num_graphs",
        "num_events",
        "slow_rank",
        "slow_us",
    ),
    label="slowest graph node",
    in_all=False,
    higher_is_better=False,
)
def graph_nodes(view: View) -> Result:
    """The nodes of all graphs, most time first."""
    nodes = nodes_of(device_ranks(view))
    if not nodes:
        raise refuse("not_applicable", "no kernel here is of a CUDA or HIP graph")
    rows = [node.to_dict() for node in nodes[:_SHOWN]]
    ratios = [
        found[1] / found[2]
        for node in nodes
        if not node.communicates and (found := node.slowest()) is not None
    ]
    excess = _excess_by_rank(nodes)
    slow = max(excess, key=lambda label: excess[label], default=None)
    details: dict[str, Any] = {
        "imbalance_ratio": max(ratios, default=None),
        "nodes": rows,
        "modules": _modules(nodes)[:_SHOWN],
        "num_nodes": len(nodes),
        "num_graphs": len({node.graph for node in nodes}),
        "num_events": sum(one.replays for node in nodes for one in node.ranks.values()),
        "slow_rank": slow,
        "slow_us": None if slow is None else microseconds(excess[slow]),
    }
    return device_answer(
        graph_nodes,
        view,
        details,
        basis={
            "node": "graph node id, of graphs that run the same kernels on each rank; without "
            "it the n-th kernel of its name in a replay",
            "module": "module_fqn, else the name that mark_kernels gave",
            "slow_us": "sum of medians beyond those of the other ranks, where more than the "
            "spread over replays, of one replay of each graph",
        },
        reasons=[] if ratios else [_ALONE],
    )


def _excess_by_rank(nodes: list[Node]) -> dict[str, float]:
    found: defaultdict[str, float] = defaultdict(float)
    for node in nodes:
        excess = node.excess()
        if excess is not None:
            found[excess[0]] += excess[1]
    return dict(found)


def _modules(nodes: list[Node]) -> list[dict[str, Any]]:
    """Time of each module that annotations state, most first; its rank-wise sums of medians."""
    totals: defaultdict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        if node.module:
            totals[node.module].append(node)
    rows = []
    for module, own in totals.items():
        by_rank: defaultdict[str, float] = defaultdict(float)
        for node in own:
            for label, one in node.ranks.items():
                by_rank[label] += one.median_ns
        rows.append(
            {
                "module": module,
                "num_nodes": len(own),
                "total_ms": sum(node.total_ns for node in own) / 1e6,
                "median_us_per_rank": {
                    label: microseconds(ns) for label, ns in sorted(by_rank.items())
                },
            }
        )
    return sorted(rows, key=lambda row: -row["total_ms"])


metric_cal = graph_nodes.document_of
