"""Refusals, reasons and warnings about the confidence of matched collectives.

``match`` is the table of `lag_tables.match_table`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ccltui.metrics.collectives.matching.match import HIGH, LOW, MEDIUM, disagreements
from ccltui.metrics.result import Code, Reason
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.data_quality import missing_ranks
from ccltui.metrics.view.match_coverage import coverage_of

if TYPE_CHECKING:
    from ccltui.metrics.model.rank_facts import RankFacts
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
    found = coverage_of(view)
    empty = {rank.label for rank in view.ranks if not len(rank.recorded_calls)}
    for label, why in found.left_out.items():
        if " is claimed by " in why or view.facts.ranks[label].has_wrong_clock:
            continue  # a reason of every metric of the job
        if label in empty and label not in view.matches.skipped:
            code, text = _without_calls(view.facts.ranks[label])
            reasons.append(Reason(code, text, rank=label))
        else:
            text = f"rank {label} takes no part: {why}"
            reasons.append(Reason("unmatched_collectives", text, rank=label))
    if found.is_small:
        reasons.append(Reason("unmatched_collectives", f"only a part is compared: {found.text}"))
    return reasons


def _without_calls(facts: RankFacts) -> tuple[Code, str]:
    label = facts.trace.label
    if facts.has_untimed:
        return "device_times", f"no collective of rank {label} has a time"
    return "no_collectives", f"rank {label} has no collective"


def confidence_limit(view: View) -> int:
    """Return the highest confidence that a statement on the cause of waiting may have.

    LOW where a recorded rank or most of the collectives are left out: the cause may be there.
    MEDIUM where a rank of the job is not recorded.
    """
    found = coverage_of(view)
    if found.left_out or found.is_small:
        return LOW
    return MEDIUM if missing_ranks(view) else HIGH


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
