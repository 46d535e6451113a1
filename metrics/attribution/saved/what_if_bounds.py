"""When the time saved without stragglers is withheld, and the bounds that it has then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ccltui.metrics.arrays.statistics import milliseconds
from ccltui.metrics.attribution.idle_hosts import waits_for_copies
from ccltui.metrics.attribution.lines.left_out import lost_reasons, lost_records
from ccltui.metrics.attribution.saved.host_bounds import bounds_of_hosts, why_host_bound
from ccltui.metrics.attribution.saved.within_program import WithinProgram
from ccltui.metrics.attribution.savings import COPY_WAITS, HIDDEN_WAITS, LEAST_APART, MAX_APART
from ccltui.metrics.result import Reason
from ccltui.metrics.view.data_quality import some_of
from ccltui.parsers.array_types import F64
from ccltui.parsers.missing_ranks import ranges_text

if TYPE_CHECKING:
    from ccltui.metrics.attribution.ladder import Ladder
    from ccltui.metrics.view.job_view import View

MAX_UNLINKED: Final = 0.1
"""Share of the time in collectives of calls that are matched to none, from which more may be saved
than the replay shows."""


def doubts(
    need_ns: F64, was: F64, ideal: F64, contradicting: Sequence[float] | None, chosen: str
) -> tuple[list[float] | None, list[Reason]]:
    """Return bounds of the time saved, ms, where hosts bind or another replay saves less or more.

    Args:
        need_ns: how long the typical host needs for each step.
        was: the recorded steps, float64 ns.
        ideal: the same without stragglers.
        contradicting: bounds of what two replays save, ns; None where they agree.
        chosen: the replay that ``ideal`` is of, in words; empty where it gives no value.

    Returns:
        The bounds, None where there are none, and why.
    """
    held = bounds_of_hosts(need_ns, was, ideal)
    if contradicting is None:
        return held, why_host_bound(held)
    saved_ns = [float((was - ideal).mean()), *contradicting]
    bounds_ms = [milliseconds(max(pick(saved_ns), 0.0)) for pick in (min, max)]
    if held is not None:
        return [0.0, bounds_ms[1]], why_host_bound([0.0, bounds_ms[1]])
    text = (
        f"two replays contradict each other: {bounds_ms[0]:.3g} to {bounds_ms[1]:.3g} ms "
        "of a step are saved"
    )
    text += f"; the value is that of the replay of {chosen}" if chosen else ""
    return bounds_ms, [Reason("not_physical", text)]


def withheld(
    view: View,
    ladder: Ladder | None,
    details: dict[str, Any],
    *,
    host_bound: bool,
    beyond: bool = False,
) -> list[Reason]:
    """Remove the figures that do not hold, but for bounds, and return why.

    Args:
        view: the view of the job.
        ladder: its replays, None where they do not describe it.
        details: keys of the metric, changed.
        host_bound: hosts may bind without stragglers, and what is saved has an upper bound alone.
        beyond: most of what is saved is so in one of two replays alone.
    """
    lost, bounds, why = lost_records(view), None, ""
    if ladder is not None:
        bounds, why = _bounds(view, ladder, details)
        bounds = (0.0, ladder.most_saved_ns) if lost else bounds
    if not lost and bounds is None and not host_bound and not beyond:
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
    found, saved_ns = WithinProgram(ladder), 1e6 * (details["saved_ms"] or 0.0)
    if details["unlinked_share"] > MAX_UNLINKED:
        why = "calls that are matched to none may wait for slow ranks"
        return (saved_ns, max(ladder.most_saved_ns, saved_ns)), why
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
