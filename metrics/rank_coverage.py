"""Mark results that cover fewer ranks than the view as partial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from ccltui.metrics.result import Code, Reason, Result

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView

PER_RANK: Final = "per_rank"
"""The key of the details with a table by label of the measured ranks."""
NUM_RANKS: Final = "num_ranks"
"""The key of the details with the number of measured ranks, where they are not listed."""


def covered(result: Result, view: View, *, lists_measured: bool) -> Result:
    """Return the result, with status partial where it covers fewer ranks than the view.

    Args:
        result: A result of any status; an unavailable one is returned as it is.
        view: The view with all selected ranks.
        lists_measured: Whether the table of ranks has every rank that was measured.
    """
    if result.status == "unavailable":
        return result
    reasons = _left_out(result, view.ranks, lists_measured=lists_measured)
    if not reasons:
        return result
    every = (*result.reasons, *reasons)
    return structs.replace(result, status="partial", reasons=every)


def _left_out(result: Result, ranks: Sequence[RankView], *, lists_measured: bool) -> list[Reason]:
    measured = _measured(result.details, lists_measured=lists_measured)
    if measured is None or isinstance(measured, int):
        return _too_few(result, measured, len(ranks))
    named = {reason.rank for reason in result.reasons}
    return [_reason(rank) for rank in ranks if rank.label not in measured | named]


def _measured(details: Mapping[str, Any], *, lists_measured: bool) -> set[str] | int | None:
    """Labels of the measured ranks, otherwise their number, None where both are unknown."""
    table, count = details.get(PER_RANK), details.get(NUM_RANKS)
    if lists_measured and isinstance(table, Mapping):
        return {label for label, row in table.items() if row is not None}
    return count if isinstance(count, int) else None


def _too_few(result: Result, count: int | None, expected: int) -> list[Reason]:
    if count is None or count >= expected or any(reason.rank for reason in result.reasons):
        return []
    return [Reason("missing_ranks", f"{count} of {expected} ranks are measured")]


def _reason(rank: RankView) -> Reason:
    code, why = _why(rank)
    return Reason(code, f"rank {rank.label} is not measured: {why}", rank=rank.label)


def _why(rank: RankView) -> tuple[Code, str]:
    if rank.is_empty:
        return "window_empty", "it has no event in the measured time"
    if rank.facts.has_wrong_clock:
        return "device_times", "the clock of its device is wrong"
    if not rank.facts.has_device:
        return "no_gpu_events", "it has no event of a device"
    if not rank.steps:
        return "no_step_markers", "it has no step in the measured time"
    return "missing_ranks", "it has no data for this metric"
