"""Tell how much of the collectives numbers cover, and how sure their matches are.

Refusals, reasons and warnings of numbers that rest on the matched collectives of a view.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct, field

from ccltui.metrics.arrays.by_column import take_rows
from ccltui.metrics.arrays.statistics import median
from ccltui.metrics.collectives.lag_tables import match_table
from ccltui.metrics.collectives.matching.match import HIGH, IMPLIED, LOW, MEDIUM, disagreements
from ccltui.metrics.collectives.matching.validity import fully_dependent
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.result import Code, Reason
from ccltui.metrics.unavailable import Refusal, refuse
from ccltui.metrics.view.collective_selection import Part, chosen_of, parts_of
from ccltui.metrics.view.data_quality import missing_ranks
from ccltui.parsers.numbers import percent

if TYPE_CHECKING:
    from ccltui.metrics.model.rank_facts import RankFacts
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView
    from ccltui.parsers.array_types import Bool


FEW: Final = 0.5
"""A rank of whose collectives a smaller part of the usual share is compared is left out.

Such a rank takes part in a group with few calls alone; where the group with most of its calls could
not be matched, all other ranks are compared as if it were not there.
"""
MIN_COMPARED: Final = 0.5
"""Least share of the collectives that must be compared for a result to stand for the job."""
_ALL_TO_ALL: Final = TYPES.index("AllToAll")


class Coverage(Struct, frozen=True):
    """Ranks and collectives compared, of those recorded in the selection.

    ``left_out`` gives the reason for each recorded rank that is not compared, by label.
    ``num_collectives`` counts those that all ranks of a group wait for, with incomplete ones.
    """

    num_ranks: int
    num_compared: int
    num_collectives: int
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def num_covered(self) -> int:
        """Number of ranks that are compared."""
        return self.num_ranks - len(self.left_out)

    @property
    def is_small(self) -> bool:
        """Whether most of the collectives are not compared."""
        return self.num_compared < MIN_COMPARED * self.num_collectives

    @property
    def text(self) -> str:
        """Both counts in words: "8 of 8 ranks, 170 of 175 collectives"."""
        return (
            f"{self.num_covered} of {self.num_ranks} ranks, {self.num_compared} of "
            f"{self.num_collectives} collectives"
        )


def coverage_of(view: View) -> Coverage:
    """Return what the matched collectives of a view cover."""
    return view.remember(coverage_of, lambda: _coverage(view))


def _coverage(view: View) -> Coverage:
    parts = parts_of(view)
    try:
        compared = sum(len(one) for one in chosen_of(view))
    except Refusal:
        compared = 0
    whole = sum(int((part.rows & part.arrived.awaited).sum()) for part in parts)
    known = np.array([bool(one.ranks) for one in view.groups] + [False])
    if any(part.arrived.match.group == IMPLIED for part in parts):
        known[-1] = True  # calls that name no group are those of all ranks
    loose = {rank.label: _num_loose(rank, known) for rank in view.ranks}
    whole += max(loose.values(), default=0)  # a collective has a call at most on each rank
    shares = _shares(parts, loose)
    usual = median([share for share in shares.values() if share])
    least = FEW * (usual or 0.0)
    left_out = {
        label: _why(view, label, parts, share)
        for label, share in shares.items()
        if not share or share < least
    }
    return Coverage(len(shares), compared, whole, left_out)


def _shares(parts: Sequence[Part], loose: Mapping[str, int]) -> dict[str, float | None]:
    """Return the compared share of each rank's collectives with other ranks, by label.

    None for a rank without any; ``loose`` is the number of its calls without a group.
    """
    compared, every = dict.fromkeys(loose, 0), dict(loose)
    for part in parts:
        awaited = part.rows & part.arrived.awaited
        match = part.arrived.match
        some = take_rows(match.rows, np.flatnonzero(awaited & ~match.complete))
        number = int((awaited & match.complete).sum()) + (some >= 0).sum(axis=0)
        eligible = int((awaited & part.arrived.eligible).sum())  # on all members
        for label, count in zip(part.labels, number[part.columns].tolist(), strict=True):
            every[label] += count
            compared[label] += eligible
    return {label: compared[label] / every[label] if every[label] else None for label in every}


def _num_loose(rank: RankView, known: Bool) -> int:
    """Return how many collectives of a rank are of no group whose ranks are ``known``."""
    calls = rank.named(rank.selected_calls)
    waits = fully_dependent(calls.kind) | (calls.kind == _ALL_TO_ALL)
    return int((waits & ~known[calls.group]).sum())


def _why(view: View, label: str, parts: list[Part], share: float | None) -> str:
    skipped = view.matches.skipped.get(label)
    if skipped is not None:
        return skipped
    if share:
        return f"only {percent(share)} of its collectives are matched with those of other ranks"
    rank = next(one for one in view.ranks if one.label == label)
    if not len(rank.recorded_calls):
        return "it has no collective"
    shared = [part for part in parts if label in part.labels]
    if not shared:
        return "it is in no group with another of the ranks that are here"
    if not any(part.rows.any() for part in shared):
        return "none of its collectives lies in the selection"
    if not any(len(part.usable) for part in shared):
        return "none of its collectives is there, and the same, on all ranks of its group"
    return "its groups have no collective that all ranks wait for"


_MIN_OVERLAP_RATIO: Final = 0.25
"""Matching by order is disproved where fewer matches than this overlap in time on all ranks."""


def is_doubtful(match: Mapping[str, Any]) -> bool:
    """Return whether all matches have low confidence."""
    return not match["high"] and not match["medium"]


def match_of(view: View) -> Mapping[str, Any]:
    """Return how the selected collectives are matched, see `lag_tables.match_table`.

    Raises:
        Refusal: no selected collective can tell who is late.
    """
    chosen = chosen_of(view)
    pairs = [(part.arrived, part.rows) for part in parts_of(view)]
    return view.remember(match_of, lambda: match_table(chosen, pairs))


def possible_match(view: View) -> Mapping[str, Any]:
    """Return `match_of` unless clocks contradict low-confidence matches: their lags blame no rank.

    Raises:
        Refusal: see `match_of`, or in most of the matches a rank ends before another has started.
    """
    match = match_of(view)
    share = match["overlap_pass_ratio"]
    if not is_doubtful(match) or share is None or share >= _MIN_OVERLAP_RATIO:
        return match
    raise refuse(
        "unmatched_collectives",
        f"all {match['low']} collectives are matched by order alone, and in {percent(1 - share)} "
        "of them a rank ends before another has started: these are not the same collectives",
    )


def match_reasons(view: View) -> list[Reason]:
    """Return why a number of matched collectives is uncertain or covers only a part of them."""
    match, reasons = match_of(view), []
    if is_doubtful(match):
        share = match["overlap_pass_ratio"]
        tested = (
            "which could not be tested by any clock"
            if share is None
            else f"and in {percent(share)} the last rank started before the first ended"
        )
        reasons.append(
            Reason(
                "unmatched_collectives",
                f"all {match['low']} collectives are matched by order alone, with low confidence, "
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
            text = f"rank {label} is left out: {why}"
            reasons.append(Reason("unmatched_collectives", text, rank=label))
    if found.is_small:
        reasons.append(Reason("unmatched_collectives", f"only a part is compared: {found.text}"))
    return reasons


def _without_calls(facts: RankFacts) -> tuple[Code, str]:
    label = facts.label
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


def match_warnings(view: View) -> list[str]:
    """Return warnings about the matching for numbers of matched collectives."""
    match, warnings = match_of(view), []
    counted = match["high"] + match["medium"] + match["low"]
    if match["low"] and not is_doubtful(match):
        warnings.append(f"{match['low']} of {counted} collectives are matched with low confidence")
    if match["mismatched"]:
        warnings += disagreements(view.matches, view.groups, limit=4, incomplete=False)
    if view.matches.ungrouped:
        warnings.append(f"{view.matches.ungrouped} collectives name no group and are not matched")
    if any(not one.whole for one in view.matches.groups):
        warnings.append(
            "groups are inferred from streams while ranks are missing: their size is not known, "
            "and a missing rank may have been last"
        )
    return warnings
