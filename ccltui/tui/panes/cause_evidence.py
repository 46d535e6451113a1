"""Text of the evidence for a cause: the late rank compared with its peers, and usual lags."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ccltui.draw.spark import spark
from ccltui.parsers import numbers
from ccltui.tui.state.scene import rank_name

if TYPE_CHECKING:
    from ccltui.metrics.findings.causes.evidence import Evidence
    from ccltui.metrics.findings.causes.instance_report import LagHistory

_TREND = "in order of time  "
_MOST_CELLS = 80
_SHOWN = 3


def evidence_lines(evidence: Evidence, last: str) -> list[str]:
    """Describe what the last rank spent more time on since it last waited with its peers."""
    if evidence.since is None:
        return []
    own, peers = evidence.segment_ns, round(evidence.peers_segment_ns)
    found = [
        f"since they last waited for each other: {rank_name(last)} {numbers.duration(own)}, "
        f"its peers {numbers.duration(peers)} (median)"
    ]
    parts = [
        f"{name.replace('_', ' ')} {numbers.signed_duration(round(ns))}"
        for name, ns in list(evidence.parts_ns.items())[:_SHOWN]
    ]
    found += [f"against its peers: {', '.join(parts)}"] if parts else []
    found += [
        f"{numbers.signed_duration(round(one.more_ns))} in {one.late_count} of {one.name}, "
        f"its peers have {one.peers_count:g}"
        for one in evidence.kernels[:_SHOWN]
    ]
    found += [f"host: {numbers.duration(one.dur_ns)} in {one.name}" for one in evidence.host]
    return found


def history_lines(history: LagHistory, width: int) -> list[str]:
    """Describe lags of the ranks at all collectives of this kind: distribution and trend."""
    count, median = numbers.count(len(history.trend_ns)), numbers.duration(history.median_ns)
    low, high = (numbers.duration(int(history.edges_ns[i])) for i in (0, -1))
    bars = spark([count or None for count in history.counts.tolist()], len(history.counts))
    trend = spark(history.trend_ns.tolist(), max(min(width - len(_TREND), _MOST_CELLS), 8))
    return [
        f"lag of {count} such calls: median {median}  {low} {bars} {high}",
        f"{_TREND}{trend}",
    ]
