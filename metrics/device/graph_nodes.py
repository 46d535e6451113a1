"""Kernels of CUDA and HIP graphs by node, joined over replays and ranks.

All kernels of a replay have one launch, so that neither operators nor ranges of the host tell them
apart; the node that each is does. Upper halves of node ids are the number that the driver gave the
graph, which differs between ranks. Ranks capture the same program, so graphs are joined by what
their nodes run in order, and among equal ones by their order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.reductions import joint_inverse, quantile, rows_by_value
from ccltui.metrics.arrays.statistics import median, microseconds
from ccltui.metrics.model.classify import COMM
from ccltui.metrics.model.kernel_names import bare_name
from ccltui.metrics.model.rank_steps import replays_of
from ccltui.metrics.view.rank_view import in_turn
from ccltui.parsers.columns import MISSING
from ccltui.parsers.safe_text import natural_key

if TYPE_CHECKING:
    from ccltui.metrics.view.rank_view import RankView
    from ccltui.parsers.array_types import I64

_NODE_BITS: Final = 32
"""Of a node id the lower half is the node's number in its graph (cudaGraphNodeGetToolsId)."""
LEAST_REPLAYS: Final = 3
"""Replays on a rank from which on its node is compared: fewer show no spread."""
SLOWER: Final = 1.05
"""A node is slower on a rank from this multiple of the median of the others on: medians of one
kernel on equal devices differ by a few per cent with their clocks."""

NodeKey = tuple[str, int, int]
"""Graph (what its nodes run), its number among equal graphs, and the place of the node in it."""


class RankNode(Struct, frozen=True):
    """Durations of one node on one rank, in ns."""

    replays: int
    total_ns: int
    median_ns: float
    low_ns: float
    high_ns: float
    least_ns: int
    most_ns: int


class Node(Struct, frozen=True):
    """One node of a graph over replays and ranks.

    Attributes:
        graph: Number of the graph in the job.
        place: Place of the node in its graph.
        name: Name of the kernel or copy.
        module: Module that annotations state, "" without one.
        communicates: Whether it is a collective, which takes longer where it waits.
        ranks: Durations by rank label.
    """

    graph: int
    place: int
    name: str
    module: str
    communicates: bool
    ranks: dict[str, RankNode]

    @property
    def total_ns(self) -> int:
        """Time over all ranks."""
        return sum(one.total_ns for one in self.ranks.values())

    @property
    def label(self) -> str:
        """Module where it is known, else the name of the kernel and the place of the node."""
        return self.module or f"{bare_name(self.name)} (node {self.place})"

    def slowest(self) -> tuple[str, float, float] | None:
        """Return the rank on which it takes longest, its median and that of the others, in ns.

        None where fewer than two ranks replay it often enough.
        """
        medians = {
            label: one.median_ns
            for label, one in sorted(self.ranks.items(), key=lambda item: natural_key(item[0]))
            if one.replays >= LEAST_REPLAYS
        }
        if len(medians) < 2:
            return None
        slow = max(medians, key=lambda label: medians[label])
        others = median([ns for label, ns in medians.items() if label != slow])
        return (slow, medians[slow], others) if others else None

    def excess(self) -> tuple[str, float] | None:
        """Return the rank on which it takes longer than its spread explains, and by how much.

        Collectives take longest on ranks that wait: they are never slow themselves.
        """
        found = self.slowest()
        if found is None or self.communicates:
            return None
        slow, own_ns, others_ns = found
        highs = sorted(one.high_ns for label, one in self.ranks.items() if label != slow)
        usual_ns = highs[(len(highs) - 1) // 2]  # of most of the others: two ranks may be slow
        if own_ns < SLOWER * others_ns or self.ranks[slow].low_ns <= usual_ns:
            return None
        return slow, own_ns - others_ns

    def to_dict(self) -> dict[str, Any]:
        """JSON form, times in us."""
        found = self.slowest()
        slow, own_ns, others_ns = found or (None, None, None)
        every = [one.median_ns for one in self.ranks.values()]
        return {
            "graph": self.graph,
            "node": self.place,
            "name": self.name,
            "module": self.module or None,
            "is_communication": self.communicates,
            "replays": sum(one.replays for one in self.ranks.values()),
            "total_ms": self.total_ns / 1e6,
            "median_us": microseconds(median(every) or 0.0),
            "min_us": microseconds(min(one.least_ns for one in self.ranks.values())),
            "max_us": microseconds(max(one.most_ns for one in self.ranks.values())),
            "num_ranks": len(self.ranks),
            "slowest_rank": slow,
            "slowest_us": None if own_ns is None else microseconds(own_ns),
            "others_us": None if others_ns is None else microseconds(others_ns),
            "ratio": None if not own_ns or not others_ns else own_ns / others_ns,
        }


def nodes_of(ranks: Sequence[RankView]) -> list[Node]:
    """Return the nodes of the graphs that ranks replay, most time first; without any, none."""
    found: defaultdict[NodeKey, dict[str, RankNode]] = defaultdict(dict)
    described: dict[NodeKey, tuple[str, str, bool]] = {}
    for rank in in_turn(ranks):
        for key, about, durations in _nodes_on(rank):
            found[key][rank.label] = _summed(durations)
            known = described.get(key)
            described[key] = about if known is None or not known[1] else known
    graphs = {graph: place for place, graph in enumerate(sorted({key[:2] for key in found}))}
    nodes = [
        Node(graphs[key[:2]], key[2], *described[key], ranks=by_rank)
        for key, by_rank in found.items()
    ]
    return sorted(nodes, key=lambda node: (-node.total_ns, node.graph, node.place))


def _summed(durations: I64) -> RankNode:
    return RankNode(
        len(durations),
        int(durations.sum()),
        quantile(durations, 0.5),
        quantile(durations, 0.25),
        quantile(durations, 0.75),
        int(durations.min()),
        int(durations.max()),
    )


def _nodes_on(rank: RankView) -> Iterator[tuple[NodeKey, tuple[str, str, bool], I64]]:
    """Yield key, description and durations of each node that a rank replays in its windows."""
    nodes = rank.trace.group("gpu").graph_node
    if not len(nodes):
        yield from _by_order(rank)
        return
    rows = np.flatnonzero((nodes != MISSING) & rank.starts_inside)
    if len(rows):
        yield from _by_node(rank, rows)


def _by_node(rank: RankView, rows: I64) -> Iterator[tuple[NodeKey, tuple[str, str, bool], I64]]:
    gpu = rank.trace.group("gpu")
    node = gpu.sparse("graph_node")[rows] & ((1 << _NODE_BITS) - 1)
    graph = gpu.sparse("graph")[rows]
    graph = np.where(graph == MISSING, gpu.sparse("graph_node")[rows] >> _NODE_BITS, graph)
    seen: Counter[str] = Counter()
    for _, of_graph in rows_by_value(graph):
        _, number = joint_inverse(node[of_graph])
        members = [rows[of_graph[places]] for _, places in rows_by_value(number)]
        names = [rank.trace.text(int(gpu.name[one[0]])) for one in members]
        text = "\n".join(names)
        ordinal = seen[text]
        seen[text] += 1
        for place, one in enumerate(members):
            yield (text, ordinal, place), _about(rank, one, names[place]), gpu.dur_ns[one]


def _by_order(rank: RankView) -> Iterator[tuple[NodeKey, tuple[str, str, bool], I64]]:
    """Yield nodes of a profiler that states none: the n-th kernel of a name in its replay.

    Streams of a graph may overtake one another, but not equal kernels of one stream.
    """
    replayed = replays_of(rank.trace)
    if not len(replayed):
        return
    gpu, launch = rank.trace.group("gpu"), rank.facts.launch_row
    rows = np.flatnonzero(np.isin(launch, replayed) & rank.starts_inside)
    replays: defaultdict[str, list[I64]] = defaultdict(list)
    for _, places in rows_by_value(launch[rows]):
        own = rows[places]
        own = own[np.lexsort((own, gpu.track[own], gpu.name[own]))]
        counts = Counter(rank.trace.text(int(name)) for name in gpu.name[own].tolist())
        replays["\n".join(f"{name}\t{n}" for name, n in sorted(counts.items()))].append(own)
    for text, alike in replays.items():
        table = np.stack(alike)  # equal kernels: every replay has as many of each name
        first = np.argsort(gpu.start_ns[table[0]], kind="stable")
        for place, column in enumerate(first.tolist()):
            one = table[:, column]
            name = rank.trace.text(int(gpu.name[one[0]]))
            yield (text, 0, place), _about(rank, one, name), gpu.dur_ns[one]


def _about(rank: RankView, rows: I64, name: str) -> tuple[str, str, bool]:
    module = rank.trace.group("gpu").sparse("module")[rows[0]]
    return name, rank.trace.text(int(module)), bool(rank.facts.classes[rows[0]] == COMM)
