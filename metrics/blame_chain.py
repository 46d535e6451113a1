"""blame_chain: who is late because somebody else was late before, in another group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from metrics.classify import TYPES
from metrics.collectives import lag_tables
from metrics.collectives.blamed import NOBODY_LATE, blamed_of, worst_of
from metrics.collectives.chain import PIPELINE, Link, chains_of
from metrics.collectives.instance import CONFIDENCES
from metrics.collectives.selection import (
    chosen_of,
    describe_group,
    parts_of,
    require_ranks,
    source_of_times,
)
from metrics.collectives.trust import match_reasons, match_warnings, require_possible
from metrics.collectives.verdicts import UNKNOWN, usual_confidence
from metrics.directory import metric_cal as metric_cal_of
from metrics.envelope import answer
from metrics.registry import Metric
from metrics.result import Result
from metrics.statistics import microseconds, milliseconds, ratio

if TYPE_CHECKING:
    from metrics.view import View

MAX_FOLLOWED: Final = 100
MAX_SHOWN: Final = 10

_NOBODYS: Final = (PIPELINE, UNKNOWN)


def compute(view: View) -> Result:
    """Chains from the worst selected late arrivals to their roots."""
    require_ranks(view)
    source, warnings = source_of_times(view)
    parts = parts_of(view)
    chosen = chosen_of(view)
    match = lag_tables.match_table(chosen, [(part.arrived, part.rows) for part in parts])
    require_possible(match)
    blamed = blamed_of(view, parts, MAX_FOLLOWED)
    worst = worst_of(blamed, MAX_FOLLOWED)
    chains = chains_of(view.facts.causes, worst)
    waits = [_caused_wait(view, number, row) for number, row in worst]
    handed = [wait for wait, chain in zip(waits, chains, strict=True) if _is_handed_on(chain)]
    total = sum(one.num_blamed for one in blamed)
    roots = _roots(chains, waits)
    blamed_roots = [root for root in roots if root["cause"] not in _NOBODYS]
    first = next(iter([*blamed_roots, *roots]), {})
    details: dict[str, Any] = {
        "handed_on_ratio": ratio(sum(handed), sum(waits)),
        "root_rank": first.get("rank"),
        "root_cause": first.get("cause"),
        "root_confidence": first.get("confidence"),
        "num_blamed": total,
        "num_followed": len(chains),
        "num_handed_on": len(handed),
        "longest": max((len(chain) for chain in chains), default=0),
        "roots": roots,
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
    return answer(
        METRIC,
        view,
        details,
        source=source,
        basis={
            "root": "the rank behind most waiting of which a cause is known; the order of a "
            "pipeline is nobody's fault",
            "followed": "the group in which the late rank waited most beyond its peers",
            "weight": "waiting that the collective at the start of the chain caused",
        },
        reasons=match_reasons(view, match),
        warnings=[*warnings, *match_warnings(view, match)],
    )


def _caused_wait(view: View, number: int, row: int) -> int:
    return int(view.arrivals.groups[number].wait_ns[row].sum())


def _is_handed_on(chain: tuple[Link, ...]) -> bool:
    """Whether it began with another rank that was late itself, not with the pipeline's order."""
    root = chain[-1]
    return root.label != chain[0].label and root.cause not in _NOBODYS


def _roots(chains: Sequence[tuple[Link, ...]], waits: Sequence[int]) -> list[dict[str, Any]]:
    """Ranks and causes at the ends of the chains, those behind most waiting first.

    Each is as sure as more than half of the waiting behind it.
    """
    found: dict[tuple[str, str], tuple[list[int], list[int]]] = {}
    for chain, wait in zip(chains, waits, strict=True):
        root = chain[-1]
        behind, sure = found.setdefault((root.label, root.cause), ([], []))
        behind.append(wait)
        sure.append(root.confidence)
    ordered = sorted(found, key=lambda key: (-sum(found[key][0]), key))
    return [
        {
            "rank": label,
            "cause": cause,
            "count": len(found[label, cause][0]),
            "caused_wait_ms": milliseconds(sum(found[label, cause][0])),
            "confidence": CONFIDENCES[usual_confidence(*found[label, cause])],
        }
        for label, cause in ordered
    ]


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


METRIC = Metric(
    name="blame_chain",
    unit="ratio",
    definition=(
        "Share of the waiting for late ranks that began with another rank: the late rank had "
        "been kept by a collective of another group, and so on to the root; over the waiting at "
        "the collectives that were followed."
    ),
    needs=("GPU kernels", "2 ranks of one group", "process groups"),
    keys=(
        "handed_on_ratio",
        "root_rank",
        "root_cause",
        "root_confidence",
        "num_blamed",
        "num_followed",
        "num_handed_on",
        "longest",
        "roots",
        "chains",
        "match",
    ),
    headline="handed_on_ratio",
    compute=compute,
    label="lag handed on",
    category="stragglers",
)
metric_cal = metric_cal_of(METRIC.name)
