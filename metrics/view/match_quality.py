"""How far numbers of matched collectives can be believed: refusals, reasons and warnings.

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

_POSSIBLE_SHARE: Final = 0.25
"""Below this share of pairs that can be one collective, matching by order is disproved."""


def is_doubtful(match: Mapping[str, Any]) -> bool:
    """Whether no match is believed more than a little."""
    return not match["high"] and not match["medium"]


def require_possible(match: Mapping[str, Any]) -> None:
    """Refuse pairs that the clocks contradict: a lag between strangers names nobody."""
    share = match["overlap_pass_ratio"]
    if not is_doubtful(match) or share is None or share >= _POSSIBLE_SHARE:
        return
    raise refuse(
        "unmatched_collectives",
        f"all {match['low']} collectives are matched by order alone, and in {1 - share:.0%} of "
        "them a rank ends before another has started: these are not the same collectives",
    )


def match_reasons(view: View, match: Mapping[str, Any]) -> list[Reason]:
    """What makes a number of matched collectives cover only a part, or doubtful."""
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


def _unmatched_ranks(view: View, said: Container[str | None]) -> list[Reason]:
    """Ranks without one collective among those that are measured, and why."""
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
        if label not in said
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
    """What a reader of a number of matched collectives should know of the matching."""
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
