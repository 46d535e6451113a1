"""Findings in records of NCCL Inspector: who arrives late and since when, and slow groups."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ccltui.metrics.confidence import Sure
from ccltui.metrics.findings.culprits import details_of
from ccltui.metrics.findings.finding import Evidence, Finding, Where
from ccltui.metrics.findings.words import ranks_text, sentence
from ccltui.parsers.numbers import percent, time_text

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View

_MOST_RANKS: Final = 3
_NO_STEPS: Final = "the records do not tell how long a step takes"
_HIDDEN: Final = (
    "the loss is smaller where communication is hidden behind computation, which the records do "
    "not show"
)


def inspector_findings(view: View) -> Iterator[Finding]:
    """Yield the ranks that the others wait for, and the slowest group, the largest loss first."""
    found = [*_late(view), *_slow(view)]
    yield from sorted(found, key=lambda one: -(one.share or 0))


def _late(view: View) -> Iterator[Finding]:
    found = details_of(view, "duration_lag")
    ranks = found.get("late_ranks") or ()
    for rank in ranks[:_MOST_RANKS]:
        rows = [
            row for row in found["ranks"] if row["rank"] == rank and row["waited_s"] is not None
        ]
        row: Mapping[str, Any] = max(rows, key=lambda one: one["waited_s"])
        others = f"; late in all: {ranks_text(ranks)}" if len(ranks) > 1 else ""
        share = _share(found, sum(one["waited_s"] for one in rows))
        yield Finding(
            kind="waiting_for_rank",
            text=sentence(
                f"the others wait {percent(share)} of the time for rank {rank}, which arrives "
                f"{time_text(row['lag_ms'])} late at {row['operation']} of "
                f"{row['communicator']} {_from_to(row, found)} (NCCL Inspector)"
            ),
            more=sentence(
                f"in {len(row['late_windows'])} windows of {found['window_s']:.0f} s; "
                f"{100 * found['coverage']:.3g} % of collectives were recorded by all "
                f"members{others}; {_HIDDEN}"
            ),
            where=Where(ranks=(rank,), host=row["host"] or None, group=row["communicator"]),
            share=share,
            cost_ms=share * found["recorded_s"] * 1e3,
            saves_why=_NO_STEPS,
            sure=Sure(what="high", who="medium", how_much="low"),
            evidence=(
                Evidence("duration_lag", "lag_ms", row["lag_ms"], "ms"),
                Evidence("duration_lag", "ranks.waited_s", row["waited_s"], "s"),
            ),
            do="Record some steps of this rank with the PyTorch profiler while it is late, and "
            "look at its host in that time.",
        )


def _share(found: Mapping[str, Any], lost_s: float) -> float:
    """Share of the time of all ranks; ``lost_s`` is of all ranks together."""
    whole = float(found["num_ranks"] * found["recorded_s"])
    return lost_s / whole if whole > 0 else 0.0


def _from_to(row: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """State when a rank is late: until the end, or up to when it was late last."""
    since = datetime.datetime.fromtimestamp(row["late_since_us"] // 10**6, datetime.UTC)
    until = datetime.datetime.fromtimestamp(row["late_until_us"] // 10**6, datetime.UTC)
    if row["late_until_us"] >= found["last_us"]:
        return f"from {since:%Y-%m-%d %H:%M:%S} UTC on"
    form = "%H:%M:%S" if since.date() == until.date() else "%Y-%m-%d %H:%M:%S"
    return f"from {since:%Y-%m-%d %H:%M:%S} to {until:{form}} UTC"


def _slow(view: View) -> Iterator[Finding]:
    found = details_of(view, "inspector_busbw")
    if not found.get("slow_groups"):
        return
    groups: Sequence[Mapping[str, Any]] = found["groups"]
    row = max((one for one in groups if one["slow"]), key=lambda one: one["lost_s"])
    alike = [one for one in groups if one["slow"] and one["ranks"] == row["ranks"]]
    share = _share(found, sum(one["lost_s"] * one["n_ranks"] for one in alike))
    hosts = row["hosts"]
    yield Finding(
        kind="slow_link",
        text=sentence(
            f"{row['operation']} of {ranks_text(row['ranks'])} ({row['communicator']}) "
            f"reaches {row['busbw_gbs']:.3g} GB/s of bus bandwidth, equal groups "
            f"{row['peers_gbs']:.3g}: {percent(share)} of the time is lost (NCCL Inspector)"
        ),
        more=sentence(_HIDDEN),
        where=Where(
            ranks=tuple(row["ranks"]),
            host=hosts[0] if len(hosts) == 1 else None,
            group=row["communicator"],
        ),
        share=share,
        cost_ms=share * found["recorded_s"] * 1e3,
        saves_why=_NO_STEPS,
        sure=Sure(what="high", who="medium", how_much="low"),
        evidence=(
            Evidence("inspector_busbw", "busbw_gbs", row["busbw_gbs"], "GB/s"),
            Evidence("inspector_busbw", "groups.lost_s", row["lost_s"], "s"),
        ),
        do="Run nccl-tests between these ranks, and look at the links and adapters of their hosts.",
    )
