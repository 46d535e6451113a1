"""Lag that a late rank inherited from another rank through a collective of another group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ccltui.metrics.arrays.statistics import microseconds, milliseconds, ratio
from ccltui.metrics.collectives.matching.match import CONFIDENCES
from ccltui.metrics.findings.causes.cause_search import Link
from ccltui.metrics.findings.causes.roots import (
    BLAMELESS_CAUSES,
    MAX_FOLLOWED,
    NOBODY_LATE,
    Root,
    RootWaiting,
    late_arrivals_of,
    root_statement,
    root_waiting,
)
from ccltui.metrics.metric import metric
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.result import Result
from ccltui.metrics.view.collective_selection import (
    MATERIALITY,
    MATERIALITY_TEXT,
    describe_group,
    require_ranks,
    source_of_times,
)
from ccltui.metrics.view.match_quality import (
    coverage_of,
    match_reasons,
    match_warnings,
    possible_match,
)
from ccltui.metrics.view.provenance import answer

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View

MAX_SHOWN: Final = 10


@metric(
    unit="ratio",
    definition=(
        "Share of the waiting for late ranks that began with another rank, because a collective "
        "of another group had delayed the late rank, and so on back to the root; over the "
        "waiting at the collectives that were followed. The root is the rank behind most of it."
    ),
    needs=("GPU kernels", "2 ranks of one group", "process groups"),
    facts=("roots",),
    keys=(
        "inherited_lag_ratio",
        "root_rank",
        "root_cause",
        "root_confidence",
        "root_sure",
        "root_share",
        "root_share_of_time",
        "root_why",
        "unknown_share",
        "coverage",
        "num_blamed",
        "num_followed",
        "num_inherited",
        "longest",
        "roots",
        "chains",
        "match",
    ),
    label="inherited lag",
    parameters={MATERIALITY: MATERIALITY_TEXT},
)
def blame_chain(view: View) -> Result:
    """Chains from the worst selected late arrivals to their roots."""
    require_ranks(view)
    source, warnings = source_of_times(view)
    match = possible_match(view)
    blamed = late_arrivals_of(view, MAX_FOLLOWED)
    found = root_waiting(view)
    chains, waits = [one.chain for one in found.behind], [one.wait_ns for one in found.behind]
    inherited = [wait for wait, chain in zip(waits, chains, strict=True) if _is_inherited(chain)]
    total = sum(one.num_blamed for one in blamed)
    roots = found.roots
    details: dict[str, Any] = {
        "inherited_lag_ratio": ratio(sum(inherited), sum(waits)),
        **root_statement(found),
        "unknown_share": ratio(roots.unknown_ns, roots.wait_ns),
        "coverage": coverage_of(view).text,
        "num_blamed": total,
        "num_followed": len(chains),
        "num_inherited": len(inherited),
        "longest": max((len(chain) for chain in chains), default=0),
        "roots": [_root_row(found, root) for root in roots.every],
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
    if roots.why_nobody is not None:
        warnings = [*warnings, roots.why_nobody]
    return answer(
        blame_chain,
        view,
        details,
        source=source,
        basis={
            "root": "the rank behind most waiting, whether or not its cause is known; no rank "
            "where that is less than a fifth of the waiting, or not material",
            "root_share": "of the waiting that does not follow from the order of a pipeline",
            "root_confidence": "of the whole statement: rank, cause and share",
            "root_sure": "what: the cause; who: the rank; how_much: what fixing it saves",
            "followed": "the group in which the late rank waited most beyond its peers",
            "weight": "waiting, while nothing computes, at the collective where the chain begins; "
            "of a rank late by itself, only what lies beyond the next latest rank",
            "share_of_time": "of the measured time of all ranks, with the waiting that was not "
            "followed in proportion",
        },
        reasons=match_reasons(view),
        warnings=[*warnings, *match_warnings(view)],
    )


def _is_inherited(chain: tuple[Link, ...]) -> bool:
    """Whether the lag began with another late rank, not with the order of the pipeline."""
    root = chain[-1]
    return root.label != chain[0].label and root.cause not in BLAMELESS_CAUSES


def _root_row(found: RootWaiting, root: Root) -> dict[str, Any]:
    return {
        "rank": root.label or None,
        "cause": root.cause,
        "count": root.count,
        "caused_wait_ms": milliseconds(root.wait_ns),
        "share_of_waiting": ratio(root.wait_ns, found.followed_ns),
        "share_of_time": found.of_time(root.wait_ns),
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
