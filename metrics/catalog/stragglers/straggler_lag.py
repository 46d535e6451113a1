"""Which rank makes the others wait at collectives, and for how long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ccltui.metrics.arrays.statistics import mean, microseconds, ratio
from ccltui.metrics.collectives import lag_tables
from ccltui.metrics.collectives.lag_tables import (
    TIMES_EVEN_SHARE,
    Chosen,
    is_persistent,
    patterns,
    summed,
    tally,
)
from ccltui.metrics.collectives.matching.match import METHODS
from ccltui.metrics.findings.causes.roots import material_ranks, may_name_a_rank, root_waiting
from ccltui.metrics.metric import metric
from ccltui.metrics.result import Result
from ccltui.metrics.view.collective_selection import (
    MATERIALITY,
    MATERIALITY_TEXT,
    ExposedWaits,
    chosen_of,
    describe_group,
    exposed_waits,
    material_ns,
    rank_time_ns,
    require_ranks,
    source_of_times,
    step_times,
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
    from ccltui.parsers.array_types import I64


@metric(
    unit="us",
    definition=(
        "Time in µs from the first to the last arrival of a rank at a collective, estimated as "
        "its longest minus its shortest duration over ranks; mean over the collectives that all "
        "ranks of a group wait for."
    ),
    needs=("GPU kernels, or gloo's annotations", "2 ranks of one group"),
    facts=("roots",),
    keys=(
        "mean_lag_us",
        "p50_lag_us",
        "p95_lag_us",
        "max_lag_us",
        "num_collectives",
        "coverage",
        "num_ranks",
        "min_lag_us",
        "normalized_lag",
        "lag_fraction_of_step",
        "lag_clock_free",
        "lag_aligned",
        "clock",
        "blame",
        "wait_us",
        "one_sided_wait_us",
        "worst_straggler",
        "worst_share_of_time",
        "stragglers",
        "persistent",
        "patterns",
        "ties",
        "floor_us",
        "per_step",
        "by_group",
        "end_spread_us",
        "match",
        "per_rank_end_times_us",
    ),
    aliases=("straggler_lag_16",),
    label="straggler lag",
    parameters={MATERIALITY: MATERIALITY_TEXT},
    higher_is_better=False,
)
def straggler_lag(view: View) -> Result:
    """Lag, wait and blame over the selected collectives of the selected ranks."""
    require_ranks(view)
    source, warnings = source_of_times(view)
    labels = [rank.label for rank in view.ranks]
    match, chosen = possible_match(view), chosen_of(view)
    lag = np.concatenate([one.lateness.lag_ns for one in chosen])
    overall = lag_tables.summary(lag)
    details = {
        **{key: overall[key] for key in _HEADLINES},
        "num_collectives": len(lag),
        "coverage": coverage_of(view).text,
        **_wait_and_blame(view, chosen, labels),
        **_against_steps(view, chosen, labels, overall["mean_lag_us"]),
        "lag_clock_free": overall,
        "lag_aligned": _aligned(view, chosen, labels),
        "clock": lag_tables.clock_table(view.clocks, labels),
        "by_group": lag_tables.by_group(chosen, labels, lambda index: describe_group(view, index)),
        "end_spread_us": lag_tables.end_spread(chosen),
        "match": match,
        "floor_us": microseconds(view.arrivals.floor_ns),
    }
    basis = {
        "lag": "clock_free",
        "clock": view.arrivals.basis if details["lag_aligned"] else "unknown",
        "matching": METHODS[match["level"]],
        "stragglers": "ranks that cause more than 1.5 times an even share of all waiting, where "
        "that is material; followed back to the root as in blame_chain",
        "due_wait_us": "waiting, while nothing computes, beyond the next latest rank",
        "one_sided_wait_us": "waiting, while nothing computes, at broadcasts and other collectives "
        "that not all ranks wait for: not included in the other sums here, but in those of "
        "fix_first",
        "selection": "a collective counts in the step and the window of its first arrival",
        "lag_fraction_of_step": "of the group with the largest sum in the step",
    }
    return answer(
        straggler_lag,
        view,
        details,
        source=source,
        basis=basis,
        reasons=match_reasons(view),
        warnings=[*warnings, *_warnings(view, details)],
    )


def _wait_and_blame(view: View, chosen: Sequence[Chosen], labels: Sequence[str]) -> dict[str, Any]:
    found, count = tally(chosen, len(labels)), len(labels)
    waits = exposed_waits(view)
    beyond = [one.beyond_ns[one.eligible] for one in waits if one.eligible.any()]
    due = summed(chosen, beyond, count)
    present = sorted({int(member) for one in chosen for member in one.members})
    late, first, share = _late_ranks(view, due, labels, len(present))
    return {
        "num_ranks": len(present),
        "worst_straggler": None if first is None else view.ranks[first].rank,
        "worst_share_of_time": share,
        "stragglers": [view.ranks[index].rank for index in late],
        "persistent": first is not None and is_persistent(chosen, beyond, count, first),
        "patterns": {labels[i]: name for i, name in patterns(chosen, beyond, count).items()},
        "ties": sum(int((one.lateness.last < 0).sum()) for one in chosen),
        "blame": lag_tables.blame(found, due, labels, present),
        "wait_us": {labels[i]: microseconds(int(found.wait_ns[i])) for i in present},
        "one_sided_wait_us": microseconds(_one_sided_ns(waits)),
        "per_rank_end_times_us": lag_tables.end_times(chosen, labels),
    }


def _one_sided_ns(waits: Sequence[ExposedWaits]) -> int:
    """Return the exposed waiting at broadcasts and the like, of all ranks, in ns.

    `fix_first` counts it; lag, blame and ``wait_us`` are of collectives that all ranks wait for.
    """
    return sum(int(one.caused_ns[one.is_late & ~one.eligible].sum()) for one in waits)


def _late_ranks(
    view: View, due: I64, labels: Sequence[str], num_ranks: int
) -> tuple[list[int], int | None, float | None]:
    """Indices of the ranks that cause material waiting, the one to name, and its share of time.

    Those at the end of the blame chains; of selected ranks, which others may delay, those that come
    last among them.
    """
    if view.options.ranks is None:
        if not may_name_a_rank(view):  # most healthy jobs: no search for causes
            return [], None, None
        found = root_waiting(view)
        places = {label: place for place, label in enumerate(labels)}
        late = [places[label] for label in material_ranks(found, num_ranks) if label in places]
        named = found.roots.named
        if named is None:
            return late, None, None
        return late, places.get(named.label), found.of_time(named.wait_ns)
    time = rank_time_ns(view)
    least = max(TIMES_EVEN_SHARE * int(due.sum()) / num_ranks, material_ns(view), 1)
    late = [i for i in np.argsort(-due, kind="stable").tolist() if due[i] >= least]
    if not late:
        return [], None, None
    return late, late[0], ratio(int(due[late[0]]), time) if time else None


def _against_steps(
    view: View, chosen: Sequence[Chosen], labels: Sequence[str], mean_lag_us: float
) -> dict[str, Any]:
    step_time = step_times(view.ranks)
    rows = lag_tables.per_step(chosen, labels, step_time)
    timed = [row for row in rows if row["step_time_us"] is not None]
    average = mean([microseconds(length) for length in step_time.values()])
    return {
        "normalized_lag": ratio(mean_lag_us, average) if average else None,
        "lag_fraction_of_step": ratio(
            sum(row["lag_us"] for row in timed), sum(row["step_time_us"] for row in timed)
        ),
        "per_step": rows,
    }


def _aligned(view: View, chosen: Sequence[Chosen], labels: Sequence[str]) -> dict[str, Any] | None:
    """Lag by corrected starts, with its error bar; None where no clock is known."""
    known = [(one.members, one.aligned) for one in chosen if one.aligned is not None]
    if not known:
        return None
    residual = view.clocks.residual_p95_ns
    wait: dict[str, int] = {}
    for members, lateness in known:
        for member, total in zip(members.tolist(), lateness.waited_ns, strict=True):
            wait[labels[member]] = wait.get(labels[member], 0) + int(total)
    return {
        **lag_tables.summary(np.concatenate([lateness.lag_ns for _, lateness in known])),
        "wait_us": {label: microseconds(wait[label]) for label in labels if label in wait},
        "uncertainty_us": None if residual is None else microseconds(residual),
    }


def _warnings(view: View, details: Mapping[str, Any]) -> list[str]:
    warnings = match_warnings(view)
    if details["lag_aligned"] is None:
        warnings.append("the clocks are not known against each other: only durations are compared")
    if details["normalized_lag"] is None:
        warnings.append(
            "no step is recorded on all ranks: the lag is not set against the step time"
        )
    return warnings


_HEADLINES: Final = ("mean_lag_us", "p50_lag_us", "p95_lag_us", "max_lag_us", "min_lag_us")


metric_cal = straggler_lag.document_of
