"""Findings that name one step, node of a graph, replica of a server or operator of the host.

Operators count that no other one encloses: what runs inside of them is theirs.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ccltui.metrics.arrays.reductions import distinct_values, median_along, unique_inverse
from ccltui.metrics.arrays.statistics import median, milliseconds
from ccltui.metrics.confidence import Sure
from ccltui.metrics.device.graph_nodes import Node, nodes_of
from ccltui.metrics.findings.finding import Evidence, Finding, Where
from ccltui.metrics.findings.rank_time.idle_causes import (
    LATE_START_NS,
    idle_gaps,
    idle_of,
    idle_times,
)
from ccltui.metrics.findings.slow_steps import SlowStep, slow_steps
from ccltui.metrics.unavailable import Refusal
from ccltui.metrics.view.words import numbers_text, sentence, short_name
from ccltui.metrics.workload.job_steps import longer_by_nature, passes_without_marker, replicas_of
from ccltui.parsers.array_types import I64
from ccltui.parsers.numbers import counted, percent, time_text

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView
    from ccltui.parsers.columns import Events, RankTrace

MOST_OF_IT: Final = 0.5
"""Share of the idle time from which on an operator is named: it alone is worth a look then."""


class SlowOperator(Struct, frozen=True):
    """An operator in which most of the time passes in which a device waits for its launches.

    Attributes:
        name: its name.
        share: the share of that time.
        longest_ns: the most of that time in one call, 0 where many short calls take it.
    """

    name: str
    share: float
    longest_ns: int

    def text(self, who: str) -> str:
        """Return the sentence, without a full stop; ``who`` is the rank, "" where there is one."""
        each = f", up to {time_text(milliseconds(self.longest_ns))} of it in one call"
        return (
            f"{percent(self.share)} of that is spent in {short_name(self.name)}"
            f"{each if self.longest_ns else ''}{f' on {who}' if who else ''}"
        )

    @property
    def do(self) -> str:
        """What to do, "" where its calls are many and short, as those of any other program."""
        if not self.longest_ns:
            return ""
        return (
            f"Find out why {short_name(self.name)} takes so long: the Timeline shows what runs "
            "inside of it, Python stacks (with_stack=True) what calls it."
        )


def slow_operator(rank: RankView) -> SlowOperator | None:
    """Return the operator that has most of a rank's idle time for operators, None without one."""
    return rank.sum_up(slow_operator, lambda: _slow_operator(rank))


def _slow_operator(rank: RankView) -> SlowOperator | None:
    idle = idle_times(rank, idle_gaps(rank), rank.windows)["operators"]
    events = rank.trace.group("cpu_ops")
    rows = _outermost(rank, events)
    inside = idle.within(events.start_ns[rows], events.end_ns[rows])
    names, place = unique_inverse(events.name[rows])
    total = np.zeros(len(names), np.int64)
    np.add.at(total, place, inside)
    if not len(names) or not idle.total_ns:
        return None
    most = int(total.argmax())
    own = inside[place == most]
    share = min(int(total[most]) / idle.total_ns, 1.0)  # threads may run it at the same time
    if share < MOST_OF_IT or names[most] < 0:
        return None
    is_long = own[own >= LATE_START_NS].sum() >= MOST_OF_IT * total[most]
    longest = int(own.max()) if is_long else 0
    return SlowOperator(rank.trace.text(int(names[most])), share, longest)


def _outermost(rank: RankView, events: Events) -> I64:
    """Rows of the operators that no other one of their thread encloses; markers are no operators.

    Old files have the markers of steps among operators.
    """
    steps = rank.facts.marked_steps[0]
    is_marker = np.isin(events.start_ns, [step.start_ns for step in steps])
    is_marker &= np.isin(events.end_ns, [step.end_ns for step in steps])
    found = [np.empty(0, np.int64)]
    for track in distinct_values(events.track).tolist():
        rows = np.flatnonzero((events.track == track) & ~is_marker)
        ended = np.maximum.accumulate(events.end_ns[rows])
        found.append(rows[np.append(True, events.start_ns[rows][1:] >= ended[:-1])[: len(rows)]])
    return np.concatenate(found)


SLOW_REPLICA: Final = 1.1
"""A replica is slow from this multiple of the median of the others on: replicas serve other
requests, and batches of other sizes differ by some per cent."""


def has_replicas(view: View) -> bool:
    """Whether the job is several replicas that do not wait for each other."""
    return any(trace.replica for trace in view.job.ranks)


def slow_replicas(view: View) -> Iterator[Finding]:
    """Yield a finding on the replica whose decode takes longer than that of the others."""
    found = [one for one in replicas_of(view) if one.decode_ns]
    if len(found) < 2:
        return
    place, slow = max(enumerate(found), key=lambda one: one[1].decode_ns or 0.0)
    others = median([one.decode_ns for one in found if one is not slow and one.decode_ns])
    if slow.decode_ns is None or not others or slow.decode_ns < SLOW_REPLICA * others:
        return
    excess = slow.decode_ns - others
    share = excess * len(slow.ranks) / sum((one.decode_ns or 0) * len(one.ranks) for one in found)
    yield Finding(
        kind="slow_replica",
        text=sentence(
            f"replica {slow.replica} takes {time_text(slow.decode_ns / 1e6)} for a pass of decode, "
            f"{'the other' if len(found) == 2 else 'the median of the others'} "
            f"{time_text(others / 1e6)}: {percent(share)} of the time of all ranks"
        ),
        more="Replicas do not wait for each other: requests on this one take longer.",
        where=Where(ranks=slow.ranks, group=slow.replica),
        share=share,
        cost_ms=milliseconds(excess) * len(slow.ranks) / sum(len(one.ranks) for one in found),
        saves_why="a larger batch takes longer too, and the traces do not state batches",
        sure=Sure(what="high", who="medium"),
        evidence=(
            Evidence(
                "trace_proxy_latency",
                f"replicas.{place}.decode_period_ms",
                milliseconds(slow.decode_ns),
                "ms",
            ),
        ),
        do="Compare its batch sizes and requests with those of the others, then its host: CPUs, "
        "clocks of the GPUs, other processes.",
    )


def by_replica(view: View, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return findings whose ranks are named by replica too, as the server numbers them."""
    if not has_replicas(view):
        return tuple(findings)
    traces = {trace.label: trace for trace in view.job.ranks if trace.replica}
    return tuple(
        _of_replica(one, traces[one.where.ranks[0]])
        if len(one.where.ranks) == 1 and one.where.ranks[0] in traces
        else one
        for one in findings
    )


def _of_replica(one: Finding, trace: RankTrace) -> Finding:
    own = (trace.rank or 0) - trace.first_rank
    place = f"Rank {trace.label} is rank {own} of replica {trace.replica}."
    text = re.sub(
        r"^(?:Everyone|The other rank) waits ", f"Replica {trace.replica} waits ", one.text
    )
    return replace(one, text=text, more=f"{place} {one.more}".rstrip())


def prefill_apart(view: View) -> tuple[str, ...]:
    """Return that passes of prefill are not among the steps, where they are not."""
    left_out = [
        one
        for rank in view.ranks[:1]
        for one in passes_without_marker(rank)
        if one.id not in {step.id for step in rank.facts.marked_steps[0]}
    ]
    if not left_out:
        return ()
    number = counted(len(left_out), "other pass", "other passes")
    return (
        f"No step is marked: the steps are the passes of decode, and {number} of the first rank "
        "are not among them (trace_proxy_latency times them; --span trace measures all).",
    )


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


SLOW_STEP: Final = 1.3
"""A step is slow from this multiple of the median step on: less is the scatter of steps."""
NEARLY_ALL: Final = 0.9
"""Share of the idle time of one cause in slow steps from which on the others do not have it."""
EXPLAINS: Final = 0.5
"""Share of the excess of slow steps from which on idle time of one cause makes them slow."""
LEAST_STEPS: Final = 3
"""Of fewer steps none is the usual one."""
MOST_NAMED: Final = 4
"""Steps that are listed by their numbers."""


class SlowLengths(Struct, frozen=True):
    """Steps that take much longer than the median step.

    Attributes:
        steps: their ids.
        times: the longest as a multiple of the median step, each on its slowest rank.
        excess_ns: what they take beyond the median step, mean over ranks.
        share: that as a share of all steps.
        who: the longest of them, where one rank made all of them slow; None where none is named.
    """

    steps: tuple[int, ...]
    times: float
    excess_ns: float
    share: float
    who: SlowStep | None

    @property
    def names(self) -> str:
        """The steps in words."""
        if len(self.steps) > MOST_NAMED:
            return counted(len(self.steps), "step")
        noun = "step" if len(self.steps) == 1 else "steps"
        return f"{noun} {numbers_text([str(step) for step in self.steps])}"

    @property
    def longer(self) -> str:
        """How much longer they take, without the steps."""
        up_to = "" if len(self.steps) == 1 else "up to "
        return f"{up_to}{self.times:.1f} times as long as the others"

    @property
    def takes(self) -> str:
        """The verb of these steps."""
        return "takes" if len(self.steps) == 1 else "take"


class InSlowSteps(Struct, frozen=True):
    """Sentences on idle time that slow steps alone have: a part of the first, the next, and how."""

    text: str
    more: str
    do: str


def slow_lengths(view: View, ranks: Sequence[RankView]) -> SlowLengths | None:
    """Return the slow steps of ranks; None without any, or where many are."""
    by_rank: dict[int, list[int]] = {}
    prefill = frozenset[int]().union(*(longer_by_nature(rank) for rank in ranks))
    for rank in ranks:
        for step, start, end in rank.step_windows:
            if step not in prefill:
                by_rank.setdefault(step, []).append(end - start)
    lengths = {step: max(found) for step, found in by_rank.items()}
    if len(lengths) < LEAST_STEPS:
        return None
    middle = float(median_along(list(lengths.values())))
    slow = {step: ns for step, ns in lengths.items() if middle and ns >= SLOW_STEP * middle}
    if not slow or len(slow) > len(lengths) / 3:
        return None
    # One delay is in a step of the late rank, and in the next one of those that wait for it.
    means = {step: sum(found) / len(found) for step, found in by_rank.items()}
    usual = float(median_along(list(means.values())))
    excess = sum(max(means[step] - usual, 0.0) for step in slow)
    steps = tuple(sorted(slow))
    return SlowLengths(
        steps,
        max(slow.values()) / middle,
        excess,
        excess / sum(means.values()),
        _who(view, steps),
    )


def in_slow_steps(
    slow: SlowLengths, ranks: Sequence[RankView], total_ns: int, causes: Sequence[str]
) -> InSlowSteps | None:
    """Return that idle time of some causes makes steps slow; None where other steps have it too.

    Args:
        slow: the slow steps.
        ranks: all ranks with device work.
        total_ns: all idle time of these causes.
        causes: the causes, which one finding states.
    """
    inside = sum(idle_of(rank).inside(cause, slow.steps) for rank in ranks for cause in causes)
    mean_ns = inside / len(ranks)
    if slow.who is not None or inside < NEARLY_ALL * total_ns:
        return None
    if mean_ns < EXPLAINS * slow.excess_ns:
        return None
    much = time_text(milliseconds(mean_ns))
    few = "it is a warm-up step" if len(slow.steps) == 1 else "they are warm-up steps"
    return InSlowSteps(
        f", {'all' if inside == total_ns else 'nearly all'} of it in {slow.names}: {much}",
        sentence(f"{slow.names} {slow.takes} {slow.longer}"),
        f"If {few}, leave {'it' if len(slow.steps) == 1 else 'them'} out with --steps.",
    )


def slow_finding(
    view: View,
    ranks: Sequence[RankView],
    slow: SlowLengths,
    period_ms: float,
    blamed: Container[str],
) -> Finding:
    """Return the finding on slow steps; it names a rank only where no other one blames it."""
    steps = slow.steps
    who = None if slow.who is None or slow.who.label in blamed else slow.who
    much = f"{percent(slow.share)} of the time"
    text = (
        f"{slow.names} {slow.takes} {slow.longer}: {much}"
        if who is None
        else f"rank {who.label} makes {slow.names} take {slow.longer}: {much}"
    )
    how = (
        "a step lasts from its first work to that of the next, on its slowest rank; the share is "
        "the mean over ranks, and the other findings hold this time too"
    )
    return Finding(
        kind="slow_steps",
        text=sentence(text),
        more=sentence(how) if who is None else f"{sentence(who.why)} {sentence(how)}",
        where=Where(ranks=() if who is None else (str(who.label),), steps=steps),
        share=slow.share,
        cost_ms=period_ms * slow.share,
        saves_ms=period_ms * slow.share,
        # A few steps are no proof of a fault: the work of ranks may vary by chance.
        sure=Sure(what="high", who="unknown" if who is None else "medium", how_much="medium"),
        place={"rank": ranks[0].label if who is None else who.rank, "step": steps[0]},
        do="Compare a slow step with a normal one in the Steps pane; leave warm-up steps out with "
        "--steps.",
    )


def _who(view: View, steps: Sequence[int]) -> SlowStep | None:
    """Return how the longest of these steps became slow, if one rank made all of them slow.

    None where that is not known, or known with low confidence.
    """
    try:
        causes = {one.step: one for one in slow_steps(view)}
    except Refusal:  # the steps of these ranks do not match: nobody is told from them
        return None
    told = [causes[step] for step in steps if step in causes]
    if len(told) < len(steps) or len({one.label for one in told}) > 1 or told[0].label is None:
        return None
    if any(one.sure.who not in ("medium", "high") for one in told):
        return None
    return max(told, key=lambda one: one.over_ns)
