"""Findings in records of NCCL Inspector: who arrives late and since when, and slow groups."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ccltui.metrics.confidence import Sure
from ccltui.metrics.findings.culprits import details_of
from ccltui.metrics.findings.finding import Evidence, Finding
from ccltui.metrics.findings.words import ranks_text, sentence
from ccltui.parsers.numbers import time_text

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View


def inspector_findings(view: View) -> Iterator[Finding]:
    """Yield the rank that arrives latest, then the slowest group, where there is one."""
    yield from _late(view)
    yield from _slow(view)


def _late(view: View) -> Iterator[Finding]:
    found = details_of(view, "duration_lag")
    ranks = found.get("late_ranks") or ()
    if not ranks:
        return
    row: Mapping[str, Any] = found["ranks"][0]
    since = datetime.datetime.fromtimestamp(row["late_since_us"] // 10**6, datetime.UTC)
    others = f"; late in all: {ranks_text(ranks)}" if len(ranks) > 1 else ""
    yield Finding(
        kind="run_log",
        text=sentence(
            f"rank {row['rank']} arrives {time_text(row['lag_ms'])} late at {row['operation']} of "
            f"{row['communicator']} from {since:%Y-%m-%d %H:%M:%S} UTC on (NCCL Inspector)"
        ),
        more=sentence(
            f"in {len(row['late_windows'])} windows of {found['window_s']:.0f} s; "
            f"{100 * found['coverage']:.3g} % of collectives were recorded by all members{others}"
        ),
        saves_why="the records do not tell how long a step takes",
        sure=Sure(what="high", who="medium"),
        evidence=(Evidence("duration_lag", "lag_ms", row["lag_ms"], "ms"),),
        do="Record some steps of this rank with the PyTorch profiler while it is late, and look at "
        "its host in that time.",
    )


def _slow(view: View) -> Iterator[Finding]:
    found = details_of(view, "inspector_busbw")
    if not found.get("slow_groups"):
        return
    row: Mapping[str, Any] = found["groups"][0]
    yield Finding(
        kind="run_log",
        text=sentence(
            f"{row['operation']} of {ranks_text(row['ranks'])} ({row['communicator']}) "
            f"reaches {row['busbw_gbs']:.3g} GB/s of bus bandwidth, "
            f"equal groups {row['peers_gbs']:.3g} (NCCL Inspector)"
        ),
        saves_why="the records do not tell how long a step takes",
        sure=Sure(what="high", who="medium"),
        evidence=(Evidence("inspector_busbw", "busbw_gbs", row["busbw_gbs"], "GB/s"),),
        do="Run nccl-tests between these ranks, and look at the links and adapters of their hosts.",
    )
