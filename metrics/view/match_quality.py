"""Refusals, reasons and warnings about the confidence of matched collectives.

``match`` is the table of `lag_tables.match_table`.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, Any, Final

from ccltui.metrics.collectives.matching.match import disagreements
from ccltui.metrics.result import Reason
from ccltui.metrics.unavailable import Refusal, refuse
from ccltui.metrics.view.collective_selection import chosen_of, parts_of

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View

_MIN_OVERLAP_RATIO: Final = 0.25
"""Matching by order is disproved where fewer matches than this overlap in time on all ranks."""


def is_doubtful(match: Mapping[str, Any]) -> bool:
    """Return whether all matches have low confidence."""
    return not match["high"] and not match["medium"]


def require_possible(match: Mapping[str, Any]) -> None:
    """Refuse low-confidence matches that the clocks contradict: their lags blame no rank.

    Raises:
        Refusal: in most of the matches a rank ends before another has started.
    """
    share = match["overlap_pass_ratio"]
    if not is_doubtful(match) or share is None or share >= _MIN_OVERLAP_RATIO:
        return
    raise refuse(
        "unmatched_collectives",
        f"all {match['low']} collectives are matched by order alone, and in {1 - share:.0%} of "
        "them a rank ends before another has started: these are not the same collectives",
    )


def match_reasons(view: View, match: Mapping[str, Any]) -> list[Reason]:
    """Return why a number of matched collectives is uncertain or covers only a part of them."""
    reasons = []
    if is_doubtful(match):
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
    return [*reasons, *_unmatched_ranks(view, {reason.rank for reason in reasons})]


def _unmatched_ranks(view: View, explained: Container[str | None]) -> list[Reason]:
    """Reasons for ranks without a collective among those that are measured.

    ``explained`` contains the labels of the ranks that have a reason already.
    """
    try:
        chosen = chosen_of(view)
    except Refusal:
        return []
    measured = {int(member) for one in chosen for member in one.members}
    left_out = [rank.label for index, rank in enumerate(view.ranks) if index not in measured]
    return [
        Reason(
            "unmatched_collectives", f"rank {label} takes no part: {_why(view, label)}", rank=label
        )
        for label in left_out
        if label not in explained
    ]


def _why(view: View, label: str) -> str:
    shared = [part for part in parts_of(view) if label in part.labels]
    if not shared:
        return "it is in no group with another of the ranks that are here"
    if not any(part.rows.any() for part in shared):
        return "none of its collectives lies in the selection"
    if not any(len(part.usable) for part in shared):
        return "none of its collectives is there, and the same, on all ranks of its group"
    return "its groups have no collective that all ranks wait for"


def match_warnings(view: View, match: Mapping[str, Any]) -> list[str]:
    """Return warnings about the matching for numbers of matched collectives."""
    warnings = []
    counted = match["high"] + match["medium"] + match["low"]
    if match["low"] and not is_doubtful(match):
        warnings.append(f"{match['low']} of {counted} collectives are matched with low confidence")
    if match["mismatched"]:
        warnings += disagreements(view.matches, view.groups, limit=4, incomplete=False)
    if view.matches.ungrouped:
        warnings.append(f"{view.matches.ungrouped} collectives name no group and are not matched")
    if any(not one.whole for one in view.matches.groups):
        warnings.append(
            "groups are told from streams while ranks are missing: how many ranks they have is "
            "not known, and one that is missing may have been last"
        )
    return warnings
