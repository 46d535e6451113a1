"""When the time saved without stragglers is withheld, and the bounds that it has then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ccltui.metrics.arrays.statistics import milliseconds
from ccltui.metrics.attribution.host_needs import MAX_LAUNCHING, hosts_bind, waits_for_copies
from ccltui.metrics.attribution.lines.left_out import lost_reasons, lost_records
from ccltui.metrics.attribution.next_records import (
    MAX_UNKNOWN_TRANSFERS,
    MAX_UNLINKED,
    unknown_transfers,
)
from ccltui.metrics.attribution.saved.even_ranks import EvenRanks
from ccltui.metrics.attribution.savings import COPY_WAITS, HIDDEN_WAITS, LEAST_APART, MAX_APART
from ccltui.metrics.result import Reason
from ccltui.metrics.view.data_quality import some_of
from ccltui.parsers.array_types import F64
from ccltui.parsers.missing_ranks import ranges_text

if TYPE_CHECKING:
    from ccltui.metrics.attribution.ladder import Ladder
    from ccltui.metrics.view.job_view import View

ROUNDING: Final = 1e-6
"""Share of the step by which a replay with less work may end later: sums of floats do."""


def is_longer(was: F64, would_be: F64) -> bool:
    """Return whether steps with less work to do take longer, by more than rounding."""
    return float(would_be.sum()) > (1 + ROUNDING) * float(was.sum())


def why_not_physical(was: F64, would_be: F64) -> str:
    """Return why steps that would be longer have no ideal."""
    total, ideal = milliseconds(float(was.sum())), milliseconds(float(would_be.sum()))
    count = len(was)
    return (
        f"without any straggler the replayed step takes {ideal / count:.4g} ms, "
        f"{(ideal - total) / count:.3g} ms ({ideal / total - 1:.2%}) longer than as it was, "
        f"{total / count:.4g} ms: between two calls the ranks do not do the same work, and the "
        "replay does not reproduce the schedule of this job"
    )


def saved_time(was: F64, would_be: F64) -> dict[str, float | None]:
    """Return step times and the time saved; None where the step would be longer."""
    total, ideal = float(was.sum()), float(would_be.sum())
    time = milliseconds(total / len(was))
    if is_longer(was, would_be):
        nothing = dict.fromkeys(("ideal_step_time_ms", "saved_ms", "saved_pct"))
        return {"step_time_ms": time, **nothing}
    ideal = min(ideal, total)
    return {
        "step_time_ms": time,
        "ideal_step_time_ms": milliseconds(ideal / len(was)),
        "saved_ms": milliseconds((total - ideal) / len(was)),
        "saved_pct": 100 * (total - ideal) / total,
    }


def refused(without: Mapping[str, Any], per_step: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return why ranks and steps have no figure."""
    found = []
    ranks = [label for label, row in without.items() if row["saved_ms"] is None]
    if ranks:
        found.append(
            f"with rank {', '.join(ranks)} as fast as its peers the replayed step is longer: what "
            "it costs is not told"
        )
    steps = [str(row["step"]) for row in per_step if row["ideal_ms"] is None]
    if steps:
        found.append(
            f"the replay without stragglers makes {len(steps)} of {len(per_step)} steps longer "
            f"({some_of(steps)}): they have no ideal"
        )
    return found


def per_step_rows(steps: Sequence[int], was: F64, ideal: F64) -> list[Mapping[str, Any]]:
    """Return measured time, ideal and slowdown of each step, in rows."""
    rows: list[Mapping[str, Any]] = []
    for step, time, best in zip(steps, was, ideal, strict=True):
        longer = is_longer(time, best)
        shortest = min(float(best), float(time))
        rows.append(
            {
                "step": step,
                "step_time_ms": milliseconds(float(time)),
                "ideal_ms": None if longer else milliseconds(shortest),
                "slowdown": float(time) / shortest if shortest and not longer else None,
            }
        )
    return rows


def bounds_of_hosts(need_ns: F64, was_ns: F64, ideal_ns: F64) -> list[float] | None:
    """Return bounds of the time saved, ms, where hosts need most of the ideal, else None."""
    if not hosts_bind(need_ns, was_ns, ideal_ns):
        return None
    return [0.0, milliseconds(float(was_ns.mean() - ideal_ns.mean()))]


def why_host_bound(bounds: Sequence[float] | None) -> list[Reason]:
    """Return why the time saved has bounds, where hosts are the cause."""
    if bounds is None:
        return []
    text = (
        f"without stragglers hosts need {MAX_LAUNCHING:.0%} of a step or more to launch it: at "
        f"most {bounds[1]:.3g} ms are saved, less where kernels wait for their launches"
    )
    return [Reason("host_bound", text)]


def withheld(
    view: View,
    ladder: Ladder,
    details: dict[str, Any],
    *,
    host_bound: bool,
) -> list[Reason]:
    """Remove the figures that do not hold, but for bounds, and return why.

    Args:
        view: the view of the job.
        ladder: its replays.
        details: keys of the metric, changed.
        host_bound: hosts may bind without stragglers, and what is saved has an upper bound alone.
    """
    lost = lost_records(view)
    bounds, why = _bounds(view, ladder, details)
    bounds = (0.0, ladder.most_saved_ns) if lost else bounds
    if not lost and bounds is None and not host_bound:
        return []
    details |= dict.fromkeys(("slowdown", "ideal_step_time_ms", "saved_ms", "saved_pct"))
    details["without_rank"] = {}
    nothing = {"ideal_ms": None, "slowdown": None}
    details["per_step"] = [row | nothing for row in details["per_step"]]
    if not lost and bounds is None:
        return []
    if host_bound and bounds is not None:
        bounds = 0.0, bounds[1]
    details["saved_bounds_ms"] = between = bounds and [milliseconds(one) for one in bounds]
    if lost or between is None:
        return lost_reasons(lost)
    text = f"between {between[0]:.3g} and {between[1]:.3g} ms of a step are saved: {why}"
    return [Reason("not_physical", text)]


def _bounds(
    view: View, ladder: Ladder, details: Mapping[str, Any]
) -> tuple[tuple[float, float] | None, str]:
    """Bounds of the time saved, ns, where no figure holds, and why."""
    found, saved_ns = EvenRanks(ladder), 1e6 * (details["saved_ms"] or 0.0)
    if details["unlinked_share"] > MAX_UNLINKED:
        why = "calls that are matched to none may wait for slow ranks"
        return (saved_ns, max(ladder.most_saved_ns, saved_ns)), why
    unequal = ladder.unequal_passes()
    unknown = ladder.job.stages.count > 1 and unknown_transfers(ladder.job)
    if unequal is None and unknown > MAX_UNKNOWN_TRANSFERS:
        unequal = "of some transfers only one side is known"
    if unequal is not None:
        return (saved_ns, max(ladder.most_saved_ns, saved_ns)), unequal
    invalid = ladder.invalid()
    if invalid is not None:
        error = ladder.error_ns
        least, most = max(saved_ns - error, 0.0), min(saved_ns + error, ladder.most_saved_ns)
        return (least, max(least, most)), invalid
    free = found.free_transfers() if view.job.missing_ranks else None
    if free is not None:
        return (
            free,
            f"rank {ranges_text(view.job.missing_ranks)} is not recorded, and the others "
            "may wait for it",
        )
    hidden = found.hidden_waits()
    if hidden is not None:
        return hidden, HIDDEN_WAITS
    waits = waits_for_copies(view, ladder.job, None)
    if waits > max(MAX_APART * saved_ns, LEAST_APART * float(found.recorded.mean())):
        return (saved_ns, saved_ns + waits), COPY_WAITS
    alone = [label for label in details["alone"] if label not in ladder.job.out]
    held = found.held_by([ladder.job.labels.index(one) for one in alone]) if alone else None
    return held, f"ranks with a program of their own ({some_of(alone)}) hold others up"
