"""Lag that a late rank inherited from another rank through a collective of another group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ccltui.metrics.arrays.statistics import microseconds, milliseconds, ratio
from ccltui.metrics.collectives.causes.blame_link import Link
from ccltui.metrics.collectives.causes.chain import chains_of
from ccltui.metrics.collectives.causes.root_rule import BLAMELESS_CAUSES, Root, Roots, roots_of
from ccltui.metrics.collectives.causes.verdicts import UNKNOWN
from ccltui.metrics.collectives.lateness import lag_tables
from ccltui.metrics.collectives.reports.instance_report import CONFIDENCES
from ccltui.metrics.collectives.reports.late_arrivals import (
    NOBODY_LATE,
    late_arrivals_of,
    most_waiting,
)
from ccltui.metrics.metric import metric
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.result import Result
from ccltui.metrics.view.collective_selection import (
    chosen_of,
    describe_group,
    parts_of,
    require_ranks,
    source_of_times,
)
from ccltui.metrics.view.match_coverage import coverage_of
from ccltui.metrics.view.match_quality import match_reasons, match_warnings, require_possible
from ccltui.metrics.view.provenance import answer

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View

MAX_FOLLOWED: Final = 100
MAX_SHOWN: Final = 10


@metric(
    unit="ratio",
    definition=(
        "Share of the waiting for late ranks that began with another rank, because a collective "
        "of another group had delayed the late rank, and so on back to the root; over the "
        "waiting at the collectives that were followed, and with a root named only where it has "
        "a fifth of that waiting or the cause of half of it is known."
    ),
    needs=("GPU kernels", "2 ranks of one group", "process groups"),
    keys=(
        "handed_on_ratio",
        "root_rank",
        "root_cause",
        "root_confidence",
        "root_share",
        "root_why",
        "unknown_share",
        "coverage",
        "num_blamed",
        "num_followed",
        "num_handed_on",
        "longest",
        "roots",
        "chains",
        "match",
    ),
    headline="handed_on_ratio",
    label="inherited lag",
)
def blame_chain(view: View) -> Result:
    """Chains from the worst selected late arrivals to their roots."""
    require_ranks(view)
    source, warnings = source_of_times(view)
    parts = parts_of(view)
    chosen = chosen_of(view)
    match = lag_tables.match_table(chosen, [(part.arrived, part.rows) for part in parts])
    require_possible(match)
    blamed = late_arrivals_of(view, parts, MAX_FOLLOWED)
    worst = most_waiting(blamed, MAX_FOLLOWED)
    chains = chains_of(view.facts.causes, worst)
    waits = [_caused_wait(view, number, row) for number, row in worst]
    handed = [wait for wait, chain in zip(waits, chains, strict=True) if _is_handed_on(chain)]
    total = sum(one.num_blamed for one in blamed)
    roots = roots_of(chains, waits)
    details: dict[str, Any] = {
        "handed_on_ratio": ratio(sum(handed), sum(waits)),
        **_named(roots),
        "coverage": coverage_of(view).text,
        "num_blamed": total,
        "num_followed": len(chains),
        "num_handed_on": len(handed),
        "longest": max((len(chain) for chain in chains), default=0),
        "roots": [_root_row(root) for root in roots.every],
        "chains": [
            {"caused_wait_ms": milliseconds(wait), "links": [_row(view, one) for one in chain]}
            for wait, chain in list(zip(waits, chains, strict=True))[:MAX_SHOWN]
        ],
        "match": match,
    }
    if len(chains) < total:
        warnings = [*warnings, f"the {len(chains)} worst of {total} late arrivals are followed"]
    if not total:
        warnings = [*warnings, NOBODY_LATE]
    if roots.why_unknown is not None:
        warnings = [*warnings, f"the root is {roots.why_unknown}"]
    return answer(
        blame_chain,
        view,
        details,
        source=source,
        basis={
            "root": "the rank behind most waiting of which a cause is known; the order of a "
            "pipeline is nobody's fault; unknown where the cause of more than half is, and that "
            "rank has less than a fifth",
            "followed": "the group in which the late rank waited most beyond its peers",
            "weight": "waiting that the collective at the start of the chain caused",
        },
        reasons=match_reasons(view, match),
        warnings=[*warnings, *match_warnings(view, match)],
    )


def _caused_wait(view: View, number: int, row: int) -> int:
    return int(view.arrivals.groups[number].wait_ns[row].sum())


def _is_handed_on(chain: tuple[Link, ...]) -> bool:
    """Whether the lag began with another late rank, not with the order of the pipeline."""
    root = chain[-1]
    return root.label != chain[0].label and root.cause not in BLAMELESS_CAUSES


def _named(roots: Roots) -> dict[str, Any]:
    """The root and its share of the waiting; the unknown share, and why if all is unknown."""
    named = roots.named
    return {
        "root_rank": None if named is None else named.label,
        "root_cause": named.cause if named else UNKNOWN if roots.why_unknown else None,
        "root_confidence": None if named is None else CONFIDENCES[named.confidence],
        "root_share": None if named is None else ratio(named.wait_ns, roots.wait_ns),
        "root_why": roots.why_unknown,
        "unknown_share": ratio(roots.unknown_ns, roots.wait_ns),
    }


def _root_row(root: Root) -> dict[str, Any]:
    return {
        "rank": root.label,
        "cause": root.cause,
        "count": root.count,
        "caused_wait_ms": milliseconds(root.wait_ns),
        "confidence": CONFIDENCES[root.confidence],
    }


def _row(view: View, link: Link) -> dict[str, Any]:
    return {
        "rank": link.label,
        "group": describe_group(view, link.group)["group"],
        "type": TYPES[link.kind],
        "index": link.row,
        "count": link.count,
        "lag_us": microseconds(link.lag_ns),
        "cause": link.cause,
        "explained": link.share,
        "confidence": CONFIDENCES[link.confidence],
    }


metric_cal = blame_chain.document_of
