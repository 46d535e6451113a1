"""Findings on inference servers: slow replicas, and ranks named by their replica."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from ccltui.metrics.arrays.statistics import median, milliseconds
from ccltui.metrics.confidence import Sure
from ccltui.metrics.findings.finding import Evidence, Finding, Where
from ccltui.metrics.view.words import sentence
from ccltui.metrics.workload.job_steps import passes_without_marker, replicas_of
from ccltui.parsers.numbers import counted, percent, time_text

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.columns import RankTrace

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
