"""straggler_lag: which rank makes the others wait at collectives, and by how much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from metrics.classify import distinct
from metrics.collectives import lag_tables
from metrics.collectives.blame import Chosen, choose, is_persistent, tally
from metrics.collectives.match import disagreements
from metrics.collectives.stragglers import GroupArrivals
from metrics.directory import metric_cal as metric_cal_of
from metrics.envelope import answer, source_of
from metrics.refusal import Refusal, refuse
from metrics.registry import Metric
from metrics.result import Reason, Result
from metrics.statistics import mean, microseconds, ratio
from parsers.columns import I64, Bool

if TYPE_CHECKING:
    from metrics.rank_view import RankView
    from metrics.view import View
    from parsers.columns import RankTrace

_ENDS_MUST_MEET: Final = "allreduce, allgather, reduce-scatter, barrier or all-to-all"


_POSSIBLE_SHARE: Final = 0.25
"""Below this share of pairs that can be one collective, matching by order is disproved."""

_EVIDENCE: Final = {
    1: "communicator and sequence number",
    2: "group and sequence number",
    3: "step and ordinal",
    4: "order",
}


@dataclass(frozen=True, slots=True)
class _Part:
    """What of one group the view selects: instances (mask) and member columns."""

    arrived: GroupArrivals
    rows: Bool
    columns: I64


def compute(view: View) -> Result:
    """Lag, wait and blame over the selected collectives of the selected ranks."""
    _require_ranks(view)
    source, warnings = _source(view)
    labels = [rank.label for rank in view.ranks]
    parts = _parts(view, labels)
    chosen = [_chosen(view, part, labels) for part in parts]
    chosen = [one for one in chosen if len(one)]
    if not chosen:
        raise _nothing(view, parts)
    match = lag_tables.match_table(chosen, [(part.arrived, part.rows) for part in parts])
    _require_possible(match)
    lag = np.concatenate([one.lateness.lag_ns for one in chosen])
    overall = lag_tables.summary(lag)
    details = {
        **{key: overall[key] for key in _HEADLINES},
        "num_collectives": len(lag),
        **_wait_and_blame(view, chosen, labels),
        **_against_steps(view, chosen, labels, overall["mean_lag_us"]),
        "lag_clock_free": overall,
        "lag_aligned": _aligned(view, chosen),
        "clock": lag_tables.clock_table(view.clocks, labels),
        "by_group": lag_tables.by_group(chosen, labels, lambda index: _describe(view, index)),
        "match": match,
        "floor_us": microseconds(view.arrivals.floor_ns),
    }
    basis = {
        "lag": "clock_free",
        "clock": view.arrivals.basis if details["lag_aligned"] else "unknown",
        "matching": _EVIDENCE[match["level"]],
        "stragglers": "blamed_share above 1.5 / ranks, 3 times at least",
        "selection": "a collective belongs where its first arrival does",
        "lag_fraction_of_step": "of the group with the largest sum in the step",
    }
    return answer(
        METRIC,
        view,
        details,
        source=source,
        basis=basis,
        reasons=_reasons(view, match),
        warnings=[*warnings, *_warnings(view, details)],
    )


def _require_ranks(view: View) -> None:
    known = {rank.rank for rank in view.ranks if rank.rank is not None}
    if len(known) >= 2:
        return
    of = f" of {view.world_size}" if view.world_size else ""
    found = f"{len(known)}{of} ranks found"
    raise refuse("single_rank", f"{found}; lag needs at least 2 ranks of one group")


def _require_possible(match: Mapping[str, Any]) -> None:
    """Refuse pairs that the clocks contradict: a lag between strangers names nobody."""
    share = match["overlap_pass_ratio"]
    if match["high"] or match["medium"] or share is None or share >= _POSSIBLE_SHARE:
        return
    raise refuse(
        "unmatched_collectives",
        f"all {match['low']} collectives are matched by order alone, and in {1 - share:.0%} of "
        "them a rank ends before another has started: these are not the same collectives",
    )


def _source(view: View) -> tuple[str, list[str]]:
    """The family of events that tells the durations; a refusal where none does."""
    source, warnings = source_of(view.ranks)
    calls = sum(len(rank.calls) for rank in view.ranks)
    if source == "kernel":
        if not calls and not any(rank.facts.has_device for rank in view.ranks):
            raise refuse("no_gpu_events", "CPU-only trace without any recorded collective")
        return source, warnings
    if not all(_has_gloo(rank.trace) for rank in view.ranks if len(rank.calls)):
        raise refuse(
            "no_gpu_events",
            "CPU-only trace: how long an operator runs on the host is not how long its "
            "collective takes",
        )
    return "annotation", [*warnings, "CPU-only trace: the times are those of gloo on the host"]


def _has_gloo(trace: RankTrace) -> bool:
    names = distinct(trace.group("annotations").name)
    return any(trace.text(name).startswith("gloo:") for name in names)


def _parts(view: View, labels: Sequence[str]) -> list[_Part]:
    selected = {rank.label: _selected_rows(rank) for rank in view.ranks}
    parts = []
    for arrived in view.arrivals.groups:
        columns = np.flatnonzero([label in selected for label in arrived.labels])
        if len(columns) >= 2:
            masks = [selected[arrived.labels[column]] for column in columns]
            parts.append(_Part(arrived, _rows_in_view(arrived, columns, masks), columns))
    return parts


def _selected_rows(rank: RankView) -> Bool | None:
    """Mask of the rank's calls that the view selects, None for all."""
    if rank.selected_calls is rank.calls:
        return None
    return np.isin(rank.calls.row, rank.selected_calls.row)


def _rows_in_view(arrived: GroupArrivals, columns: I64, masks: Sequence[Bool | None]) -> Bool:
    """An instance belongs where the call of its first member to arrive does."""
    rows = arrived.match.rows[:, columns]
    present = rows >= 0
    inside = np.ones(len(rows), np.bool_)
    if any(mask is not None for mask in masks):
        never = np.iinfo(np.int64).max
        first = np.where(present, arrived.start_ns[:, columns], never).argmin(axis=1)
        for column, mask in enumerate(masks):
            here = first == column
            if mask is not None:
                inside[here] = mask[rows[here, column]]
    return inside & present.any(axis=1)


def _chosen(view: View, part: _Part, labels: Sequence[str]) -> Chosen:
    index = {label: number for number, label in enumerate(labels)}
    members = np.array([index[part.arrived.labels[column]] for column in part.columns])
    rows = part.rows & part.arrived.eligible
    return choose(part.arrived, rows, part.columns, members, view.arrivals.floor_ns)


def _nothing(view: View, parts: Sequence[_Part]) -> Refusal:
    """Why no instance is left."""
    if not any(len(rank.calls) for rank in view.ranks):
        return refuse("no_collectives", "no rank has a collective")
    if any(part.arrived.eligible.any() for part in parts):
        return refuse("window_empty", "no matched collective lies in the selection")
    if not parts and view.matches.single_rank_groups:
        return refuse("unmatched_collectives", "no group has two of the ranks that are here")
    rows = [part.arrived.match for part in parts]
    incomplete = sum(match.num_incomplete for match in rows)
    mismatched = sum(match.num_mismatched for match in rows)
    if incomplete or mismatched:
        return refuse(
            "unmatched_collectives",
            f"no collective is there on all its ranks: {incomplete} incomplete, "
            f"{mismatched} mismatched",
        )
    return refuse("no_collectives", f"no {_ENDS_MUST_MEET}: nothing that all ranks wait for")


def _wait_and_blame(view: View, chosen: Sequence[Chosen], labels: Sequence[str]) -> dict[str, Any]:
    found = tally(chosen, len(labels))
    present = sorted({int(member) for one in chosen for member in one.members})
    stragglers = found.stragglers()
    return {
        "num_ranks": len(present),
        "stragglers": [view.ranks[index].rank for index in stragglers],
        "persistent": bool(stragglers) and is_persistent(chosen, stragglers[0]),
        "ties": sum(int((one.lateness.last < 0).sum()) for one in chosen),
        "blame": lag_tables.blame(found, labels, present),
        "wait_us": {labels[i]: microseconds(int(found.wait_ns[i])) for i in present},
        "per_rank_end_times_us": lag_tables.end_times(chosen, labels),
    }


def _against_steps(
    view: View, chosen: Sequence[Chosen], labels: Sequence[str], mean_lag_us: float
) -> dict[str, Any]:
    step_time = _step_times(view)
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


def _step_times(view: View) -> dict[int, int]:
    """Longest marker over ranks of each step that all ranks have, in ns."""
    lengths = [{step.id: step.dur_ns for step in rank.steps} for rank in view.ranks]
    shared = set.intersection(*(set(one) for one in lengths))
    return {step: max(one[step] for one in lengths) for step in sorted(shared)}


def _aligned(view: View, chosen: Sequence[Chosen]) -> dict[str, Any] | None:
    """The measure by corrected starts, with its error bar; None where no clock is known."""
    known = [one.aligned for one in chosen if one.aligned is not None]
    if not known:
        return None
    residual = view.clocks.residual_p95_ns
    return {
        **lag_tables.summary(np.concatenate([one.lag_ns for one in known])),
        "uncertainty_us": None if residual is None else microseconds(residual),
    }


def _describe(view: View, index: int) -> Mapping[str, Any]:
    if index < 0:
        return {"group": "all ranks", "desc": None, "dim": "unknown"}
    group = view.groups[index]
    return {"group": group.label, "desc": group.description, "dim": group.dim}


def _reasons(view: View, match: Mapping[str, Any]) -> list[Reason]:
    reasons = []
    if not match["high"] and not match["medium"]:
        share = match["overlap_pass_ratio"]
        tested = (
            "which no clock could test"
            if share is None
            else f"and in {share:.0%} the last rank started before the first ended"
        )
        reasons.append(
            Reason(
                "unmatched_collectives",
                f"all {match['low']} collectives are matched with low confidence: by order, "
                + tested,
            )
        )
    shown = [rank.label for rank in view.ranks]
    for rank in view.ranks:
        if not len(rank.calls):
            text = f"rank {rank.label} has no collective"
            reasons.append(Reason("no_collectives", text, rank=rank.label))
    for label, why in view.matches.skipped.items():
        if label in shown and " is claimed by " not in why:
            text = f"rank {label} takes no part: {why}"
            reasons.append(Reason("unmatched_collectives", text, rank=label))
    return reasons


def _warnings(view: View, details: Mapping[str, Any]) -> list[str]:
    match = details["match"]
    warnings = []
    if match["low"] and (match["high"] or match["medium"]):
        warnings.append(
            f"{match['low']} of {details['num_collectives']} collectives are matched "
            "with low confidence"
        )
    if match["mismatched"]:
        warnings += disagreements(view.matches, view.groups, limit=4, incomplete=False)
    if view.matches.ungrouped:
        warnings.append(f"{view.matches.ungrouped} collectives name no group and are not matched")
    if details["lag_aligned"] is None:
        warnings.append("the clocks are not known against each other: only durations are compared")
    if details["normalized_lag"] is None:
        warnings.append("no step that all ranks have: the lag is not set against the step time")
    return warnings


_HEADLINES: Final = ("mean_lag_us", "p50_lag_us", "p95_lag_us", "max_lag_us", "min_lag_us")

METRIC = Metric(
    name="straggler_lag",
    unit="us",
    definition=(
        "Time from the first to the last rank's arrival at a collective, told from its longest "
        "and shortest duration over ranks; mean over the collectives that all ranks of a group "
        "wait for."
    ),
    needs=("GPU kernels, or gloo's annotations", "2 ranks of one group"),
    keys=(
        "mean_lag_us",
        "p50_lag_us",
        "p95_lag_us",
        "max_lag_us",
        "num_collectives",
        "num_ranks",
        "min_lag_us",
        "normalized_lag",
        "lag_fraction_of_step",
        "lag_clock_free",
        "lag_aligned",
        "clock",
        "blame",
        "wait_us",
        "stragglers",
        "persistent",
        "ties",
        "floor_us",
        "per_step",
        "by_group",
        "match",
        "per_rank_end_times_us",
    ),
    headline="mean_lag_us",
    compute=compute,
    aliases=("straggler_lag_16",),
    label="straggler lag",
    higher_is_better=False,
)
metric_cal = metric_cal_of(METRIC.name)
