"""Causes of late arrivals of ranks, each with the numbers behind it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.arrays.statistics import microseconds, milliseconds, ratio
from ccltui.metrics.collectives.matching.match import CONFIDENCES
from ccltui.metrics.findings.causes.cause_search import (
    CAUSES,
    MEANINGS,
    UNKNOWN,
    job_causes,
)
from ccltui.metrics.findings.causes.chain import chains_of
from ccltui.metrics.findings.causes.instance_report import Instance, describe
from ccltui.metrics.findings.causes.roots import (
    MAX_EXAMINED,
    NOBODY_LATE,
    LateArrivals,
    RootWaiting,
    late_arrivals_of,
    most_waiting,
    root_statement,
    root_waiting,
)
from ccltui.metrics.metric import metric
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
from ccltui.parsers.numbers import duration

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View

MAX_SHOWN: Final = 10

_UNKNOWN = CAUSES.index(UNKNOWN)


@metric(
    unit="ratio",
    definition=(
        "Share of the lag of late ranks, over all collectives with a blamed rank, that the "
        "trace explains: what the last rank did beyond the median of its punctual peers since "
        "they last waited for each other, where one cause makes up at least half of it."
    ),
    needs=("GPU kernels, or gloo's annotations", "2 ranks of one group"),
    facts=("roots",),
    keys=(
        "explained_ratio",
        "main_rank",
        "main_cause",
        "main_confidence",
        "main_sure",
        "main_share",
        "main_share_of_time",
        "main_why",
        "coverage",
        "num_blamed",
        "num_examined",
        "num_unknown",
        "blamed_lag_ms",
        "explained_lag_ms",
        "other_stages_lag_ms",
        "causes",
        "per_rank",
        "by_group",
        "per_step",
        "worst",
        "meanings",
        "match",
    ),
    lists_measured=False,
    label="explained lag",
    parameters={MATERIALITY: MATERIALITY_TEXT},
)
def straggler_cause(view: View) -> Result:
    """Causes of the selected late arrivals, with the evidence of the worst of them."""
    require_ranks(view)
    source, warnings = source_of_times(view)
    match = possible_match(view)
    blamed = late_arrivals_of(view, MAX_EXAMINED)
    lag = sum(one.lag for one in blamed)
    explained = sum(one.explained_ns for one in blamed)
    examined = sum(len(one.rows) for one in blamed)
    total = sum(one.num_blamed for one in blamed)
    worst = most_waiting(blamed, MAX_SHOWN)
    chains_of(job_causes(view), worst)  # computed together; each description finds its own
    details: dict[str, Any] = {
        "explained_ratio": ratio(explained, lag),
        **_main(view, root_waiting(view)),
        "coverage": coverage_of(view).text,
        "num_blamed": total,
        "num_examined": examined,
        "num_unknown": sum(int((one.verdicts.cause == _UNKNOWN).sum()) for one in blamed),
        "blamed_lag_ms": milliseconds(lag),
        "explained_lag_ms": milliseconds(explained),
        "other_stages_lag_ms": milliseconds(
            sum(int(one.lag_ns[~one.verdicts.has_stage_peer].sum()) for one in blamed)
        ),
        "causes": _causes(blamed),
        "per_rank": _per_rank(blamed),
        "by_group": _by_group(view, blamed),
        "per_step": _per_step(blamed),
        "worst": [_shown(describe(view, number, row, doing=False)) for number, row in worst],
        "meanings": _meanings(blamed),
        "match": match,
    }
    if examined < total:
        warnings = [*warnings, f"the {examined} worst of {total} late arrivals are examined"]
    if not total:
        warnings = [*warnings, NOBODY_LATE]
    return answer(
        straggler_cause,
        view,
        details,
        source=source,
        basis={
            "late": f"lag above {duration(view.arrivals.floor_ns)}",
            "peers": "median of the ranks less late than half of the lag",
            "since": "the last time the ranks waited for each other",
            "named": "the cause that explains at least half of the lateness",
            "main": "the rank behind most waiting, at the end of the blame chains",
            "main_confidence": "of the whole statement: rank, cause and share",
            "main_sure": "what: the cause; who: the rank; how_much: what fixing it saves",
            "other_stages_lag_ms": "lag against ranks of other pipeline stages alone, who do other "
            "work: the order of stages may bring it; blame_chain follows it",
        },
        reasons=match_reasons(view),
        warnings=[*warnings, *match_warnings(view)],
    )


def _causes(blamed: Sequence[LateArrivals]) -> dict[str, dict[str, Any]]:
    """Number, lag and caused wait of each cause, largest lag first."""
    found: dict[str, list[int]] = {}
    total = sum(one.lag for one in blamed)
    sure: dict[str, list[int]] = {}
    for one in blamed:
        for cause in distinct_values(one.verdicts.cause).tolist():
            rows = one.verdicts.cause == cause
            sums = found.setdefault(CAUSES[cause], [0, 0, 0])
            sums[0] += int(rows.sum())
            sums[1] += int(one.lag_ns[rows].sum())
            sums[2] += int(one.caused_wait_ns[rows].sum())
            counts = np.bincount(one.verdicts.confidence[rows], minlength=3)
            known = sure.setdefault(CAUSES[cause], [0, 0, 0])
            sure[CAUSES[cause]] = [a + int(b) for a, b in zip(known, counts, strict=True)]
    ordered = sorted(found, key=lambda name: -found[name][1])
    return {
        name: {
            "count": found[name][0],
            "lag_ms": milliseconds(found[name][1]),
            "share_of_lag": ratio(found[name][1], total),
            "caused_wait_ms": milliseconds(found[name][2]),
            "confidence": dict(zip(CONFIDENCES, sure[name], strict=True)),
        }
        for name in ordered
    }


def _lag_by_cause(lag_ns: Any, cause: Any) -> dict[str, float]:
    sums = np.bincount(cause, weights=lag_ns, minlength=len(CAUSES))
    order = np.argsort(-sums, kind="stable")
    return {CAUSES[i]: milliseconds(int(sums[i])) for i in order if sums[i] > 0}


def _per_rank(blamed: Sequence[LateArrivals]) -> dict[str, dict[str, float]]:
    """Lag of each late rank by cause, in ms."""
    lag: defaultdict[str, list[Any]] = defaultdict(list)
    for one in blamed:
        late = one.verdicts.targets.late
        for member in distinct_values(late).tolist():
            rows = late == member
            label = one.part.arrived.labels[member]
            lag[label].append((one.lag_ns[rows], one.verdicts.cause[rows]))
    joined = {
        label: tuple(np.concatenate(column) for column in zip(*parts, strict=True))
        for label, parts in lag.items()
    }
    ordered = sorted(joined, key=lambda label: -int(joined[label][0].sum()))
    return {label: _lag_by_cause(*joined[label]) for label in ordered}


def _main(view: View, found: RootWaiting) -> dict[str, Any]:
    """The rank behind most waiting, its cause, the confidence of both, and why in words."""
    stated = root_statement(found, "main")
    named = found.roots.named
    if named is None or stated["main_why"] is not None:
        return stated
    root = (named.label, named.cause)
    ends = [(one.chain[-1].label, one.chain[-1].cause) for one in found.behind]
    here = [place for place, end in enumerate(ends) if end == root]
    own = [place for place in here if len(found.behind[place].chain) == 1]
    worst = found.places[(own or here)[0]]  # the evidence is where the rank itself was late
    return {**stated, "main_why": describe(view, *worst, doing=False).why}


def _by_group(view: View, blamed: Sequence[LateArrivals]) -> list[dict[str, Any]]:
    return [
        {
            **describe_group(view, one.part.arrived.match.group),
            "num_blamed": one.num_blamed,
            "lag_ms": milliseconds(one.lag),
            "causes_ms": _lag_by_cause(one.lag_ns, one.verdicts.cause),
        }
        for one in blamed
    ]


def _per_step(blamed: Sequence[LateArrivals]) -> list[dict[str, Any]]:
    if not blamed:
        return []
    step = np.concatenate([one.part.arrived.match.step[one.rows] for one in blamed])
    lag = np.concatenate([one.lag_ns for one in blamed])
    cause = np.concatenate([one.verdicts.cause for one in blamed])
    return [
        {"step": int(one), "causes_ms": _lag_by_cause(lag[step == one], cause[step == one])}
        for one in distinct_values(step[step >= 0])
    ]


def _meanings(blamed: Sequence[LateArrivals]) -> dict[str, str]:
    present = {
        CAUSES[cause] for one in blamed for cause in distinct_values(one.verdicts.cause).tolist()
    }
    return {name: MEANINGS[name] for name in CAUSES if name in present}


def _shown(found: Instance) -> dict[str, Any]:
    """A worst late arrival with its evidence."""
    row = found.to_dict()
    evidence = found.evidence
    if evidence is None:
        return row
    since = None if evidence.since is None else list(evidence.since)
    return {
        **row,
        "since": since,
        "excess_us": microseconds(evidence.excess_ns),
        "more_us": {name: microseconds(ns) for name, ns in evidence.parts_ns.items()},
        "kernels": [
            {
                "name": kernel.name,
                "more_us": microseconds(kernel.more_ns),
                "count": kernel.late_count,
                "peers_count": kernel.peers_count,
            }
            for kernel in evidence.kernels
        ],
        "host": [
            {"cause": one.cause, "name": one.name, "longest_us": microseconds(one.dur_ns)}
            for one in evidence.host
        ],
        "elements_ratio": evidence.elements_ratio,
    }


metric_cal = straggler_cause.document_of
