"""Findings on nodes of CUDA and HIP graphs: which layer makes a rank late, without host events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from ccltui.metrics.arrays.statistics import milliseconds
from ccltui.metrics.confidence import Sure
from ccltui.metrics.device.graph_nodes import Node, nodes_of
from ccltui.metrics.findings.finding import Evidence, Finding, Where
from ccltui.metrics.view.words import sentence, short_name
from ccltui.parsers.numbers import counted, percent, time_text

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView

Costs = Callable[[float], tuple[float, float]]
CONCENTRATED: Final = 0.5
"""A node is named where it has this share of what its rank loses in graphs: with less no single
layer is the cause, and the device as a whole may be slow."""


class SlowNode(Struct, frozen=True):
    """The node in which a rank loses most, against the other ranks; times in ns.

    Attributes:
        rank: Label of the rank.
        node: The node.
        number: Its row in `graph_nodes`.
        own_ns: Its median on the rank.
        others_ns: The median over the other ranks.
        lost_ns: What the rank loses in all replays of it.
        count: Number of nodes in which it is slower.
    """

    rank: str
    node: Node
    number: int
    own_ns: float
    others_ns: float
    lost_ns: float
    count: int

    @property
    def text(self) -> str:
        """What is slow, where, and by how much."""
        others = f"; {counted(self.count - 1, 'other node is', 'other nodes are')} slower there too"
        return (
            f"rank {self.rank} takes {time_text(self.own_ns / 1e6)} for "
            f"{short_name(self.node.label)} in each replay of its graph, the others "
            f"{time_text(self.others_ns / 1e6)}{others if self.count > 1 else ''}"
        )


def slow_node(ranks: Sequence[RankView]) -> SlowNode | None:
    """Return the node that makes one rank slower than the others, None where none stands out."""
    slower: defaultdict[str, list[tuple[float, int, Node]]] = defaultdict(list)
    for number, node in enumerate(nodes_of(ranks)):
        excess = node.excess()
        if excess is not None:
            rank, ns = excess
            slower[rank].append((ns * node.ranks[rank].replays, number, node))
    if not slower:
        return None
    rank = max(slower, key=lambda one: sum(ns for ns, *_ in slower[one]))
    lost_ns, number, node = max(slower[rank], key=lambda one: one[0])
    found = node.slowest()
    if found is None or lost_ns < CONCENTRATED * sum(ns for ns, *_ in slower[rank]):
        return None
    return SlowNode(rank, node, number, found[1], found[2], lost_ns, len(slower[rank]))


def with_slow_node(
    view: View, ranks: Sequence[RankView], found: Sequence[Finding], costs: Costs
) -> list[Finding]:
    """Return findings with the node of a graph that makes a rank slow.

    Where a finding names that rank already, the node is what it is late in; else it is a finding
    of its own. ``costs`` returns the share of rank time and the cost in ms of lost ns.
    """
    slow = slow_node(ranks) if len(view.job.ranks) > 1 else None
    if slow is None:
        return list(found)
    share, cost_ms = costs(slow.lost_ns)
    named = [one for one in found if one.where.ranks == (slow.rank,) and one.kind in _OF_RANKS]
    if not named:
        return [*found, _alone(slow, share, cost_ms)]
    main = max(named, key=lambda one: one.share or 0.0)
    if (main.share or 0.0) < share / 2:
        return [*found, _alone(slow, share, cost_ms)]
    kernel = slow.node.name
    told = replace(
        main,
        more=f"{main.more} {sentence(slow.text)}".strip(),
        where=replace(main.where, kernel=kernel, range=slow.node.module or None),
        evidence=(*main.evidence, _evidence(slow)),
    )
    return [told if one is main else one for one in found]


_OF_RANKS: Final = frozenset({"waiting_for_rank", "slow_worker", "occasional_worker"})


def _alone(slow: SlowNode, share: float, cost_ms: float) -> Finding:
    return Finding(
        kind="slow_layer",
        text=sentence(f"{slow.text}: {percent(share)} of the time of all ranks"),
        where=Where(ranks=(slow.rank,), kernel=slow.node.name, range=slow.node.module or None),
        share=share,
        cost_ms=cost_ms,
        saves_why="no replay shows how much shorter a step would be",
        sure=Sure(what="high", who="medium", how_much="low"),
        evidence=(_evidence(slow),),
        do="Compare the shapes and data of that layer between ranks (experts, padding, a larger "
        "shard), then the clocks of the device.",
    )


def _evidence(slow: SlowNode) -> Evidence:
    key = f"nodes.{slow.number}.slowest_us"
    return Evidence("graph_nodes", key, 1000 * milliseconds(slow.own_ns), "us")
