"""Whom the waiting of each step is due to: the chains of its worst late arrivals.

The rule is that of the whole job (`root_rule`), applied to one step at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.collectives.causes.chain import PIPELINE, chains_of
from ccltui.metrics.collectives.causes.root_rule import Behind, Root, Roots, choose_root, roots_of
from ccltui.metrics.collectives.lateness import lag_tables
from ccltui.metrics.collectives.matching.match import HIGH
from ccltui.metrics.collectives.reports.instance_report import CONFIDENCES
from ccltui.metrics.collectives.reports.root_waiting import begins_recording, behind_of
from ccltui.metrics.unavailable import Refusal
from ccltui.metrics.view.collective_selection import chosen_of, parts_of, require_ranks
from ccltui.metrics.view.exposed_waits import exposed_waits, materiality_pct, rank_time_ns
from ccltui.metrics.view.match_quality import confidence_limit, require_possible

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View

MOST_FOLLOWED: Final = 400
"""Number of late arrivals that are followed to their roots, over all steps."""
MOST_PER_STEP: Final = 8


class StepRoot(Struct, frozen=True):
    """Roots of the waiting in one step.

    Attributes:
        step: id of the step.
        roots: its roots with the rank that is named, by the followed chains.
        behind: the followed chains with their waiting.
        places: matched group and instance of each chain.
        whole_ns: all exposed waiting at collectives with a late rank, followed or not.
    """

    step: int
    roots: Roots
    behind: tuple[Behind, ...]
    places: tuple[tuple[int, int], ...]
    whole_ns: int

    def behind_ranks(self) -> dict[str, int]:
        """Return the waiting behind each rank, ns by label, without the order of the pipeline.

        Collectives that are not followed are taken to have the same causes.
        """
        followed = self.roots.wait_ns
        found: defaultdict[str, int] = defaultdict(int)
        for root in self.roots.every:
            if root.label and root.cause != PIPELINE:
                found[root.label] += root.wait_ns
        return {label: round(ns * self.whole_ns / followed) for label, ns in found.items()}

    def place_of(self, label: str) -> tuple[int, int] | None:
        """Return the collective with most waiting behind a rank, where it was late itself first."""
        ends = [place for place, one in enumerate(self.behind) if one.chain[-1].label == label]
        own = [place for place in ends if len(self.behind[place].chain) == 1]
        chosen = own or ends
        return self.places[max(chosen, key=lambda i: self.behind[i].wait_ns)] if chosen else None


def step_roots(view: View) -> dict[int, StepRoot]:
    """Return the roots of the waiting of each step with a late rank, by step id.

    Of more steps than chains are followed, those with most waiting.
    """
    return view.remember(step_roots, lambda: _step_roots(view))


def _step_roots(view: View) -> dict[int, StepRoot]:
    worst, whole = _worst_by_step(view)
    places = [place for found in worst.values() for place in found]
    chains = chains_of(view.facts.causes, places)
    waited = {one.part.number: one for one in exposed_waits(view)}
    limit, least = confidence_limit(view), _least_ns(view)
    followed = dict(zip(places, chains, strict=True))
    found = {}
    for step, own in worst.items():
        kept = [place for place in own if not begins_recording(followed[place])]
        behind = tuple(behind_of(waited[n], row, followed[n, row]) for n, row in kept)
        every = _ordered(roots_of(behind))
        part = sum(root.wait_ns for root in every) / whole[step] if whole[step] else 1.0
        roots = choose_root(every, least_ns=least * part, limit=limit)
        found[step] = StepRoot(step, roots, behind, tuple(kept), whole[step])
    return found


def _least_ns(view: View) -> float:
    """Waiting in a step below which nobody is named: the share of the job, of a mean step."""
    steps = max((len(rank.step_windows) for rank in view.ranks), default=0)
    return rank_time_ns(view) * materiality_pct(view) / 100 / max(steps, 1)


def _ordered(roots: Sequence[Root]) -> list[Root]:
    return sorted(roots, key=lambda root: (-root.wait_ns, root.label, root.cause))


def _worst_by_step(view: View) -> tuple[dict[int, list[tuple[int, int]]], dict[int, int]]:
    """Return (matched group, instance) of the worst late arrivals of each step, and all waiting."""
    rows: list[tuple[int, int, int, int]] = []
    for one in exposed_waits(view):
        arrived = one.part.arrived
        last, step = arrived.delaying[one.rows], arrived.match.step[one.rows]
        late = one.is_late & (step >= 0) & (last >= 0) & np.isin(last, one.part.columns)
        caused = one.caused_ns
        rows += [
            (int(step[at]), int(caused[at]), one.part.number, int(one.rows[at]))
            for at in np.flatnonzero(late & (caused > 0)).tolist()
        ]
    whole: defaultdict[int, int] = defaultdict(int)
    for number, waited, _, _ in rows:
        whole[number] += waited
    per_step = min(max(MOST_FOLLOWED // max(len(whole), 1), 1), MOST_PER_STEP)
    followed = set(sorted(whole, key=lambda step: -whole[step])[: MOST_FOLLOWED // per_step])
    worst: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for number, _, group, row in sorted(rows, key=lambda row: (row[0], -row[1], row[2:])):
        if number in followed and len(worst[number]) < per_step:
            worst[number].append((group, row))
    return {step: found for step, found in worst.items() if found}, dict(whole)


def beyond_usual(found: dict[int, StepRoot], step: int, limit: int = HIGH) -> Roots:
    """Return the roots of a step with their waiting beyond that in the median step.

    A rank that is as late in every step makes no single one of them slow.
    """
    if step not in found:
        return Roots((), None, None)
    others = [one.behind_ranks() for number, one in found.items() if number != step]
    behind = found[step].behind_ranks()
    own: defaultdict[str, list[Root]] = defaultdict(list)
    for root in found[step].roots.every:
        own[root.label].append(root)
    every = []
    for label, ns in behind.items():
        usual = sorted(other.get(label, 0) for other in others)
        beyond = ns - (usual[(len(usual) - 1) // 2] if usual else 0)
        if beyond > 0:
            main = max(own[label], key=lambda root: root.wait_ns)
            every.append(Root(label, main.cause, main.count, beyond, main.confidence))
    return choose_root(_ordered(every), limit=limit)


class StepCulprit(Struct, frozen=True):
    """The rank that keeps the others waiting in one step.

    Attributes:
        step: id of the step.
        label: the rank, None where none is to be named.
        cause: why it was late, None without a rank.
        wait_ns: exposed waiting of all other ranks together behind it; 0 without a rank.
        confidence: "low", "medium" or "high".
        why: the reason where no rank is named.
    """

    step: int
    label: str | None = None
    cause: str | None = None
    wait_ns: int = 0
    confidence: str = "low"
    why: str = ""


class StepCulprits(Struct, frozen=True):
    """Culprits by step id; ``why`` is the reason where nothing can be told of any step."""

    by_step: Mapping[int, StepCulprit]
    why: str = ""

    def of(self, step: int) -> StepCulprit:
        """Return the culprit of a step, or the reason why there is none."""
        nobody = StepCulprit(step, why=self.why or "no rank is late at any of its collectives")
        return self.by_step.get(step, nobody)


def step_culprits(view: View) -> StepCulprits:
    """Return the rank that keeps the others waiting, for each step."""
    try:
        found = reliable_step_roots(view)
    except Refusal as refusal:
        return StepCulprits({}, why=str(refusal))
    return StepCulprits({step: _culprit(one) for step, one in found.items()})


def reliable_step_roots(view: View) -> dict[int, StepRoot]:
    """Return `step_roots` of a view whose matches identify late ranks.

    Raises:
        Refusal: fewer than two ranks, nothing that ranks wait for, or matches that the clocks
            disprove.
    """
    require_ranks(view)
    chosen = chosen_of(view)
    pairs = [(part.arrived, part.rows) for part in parts_of(view)]
    require_possible(lag_tables.match_table(chosen, pairs))
    return step_roots(view)


def _culprit(one: StepRoot) -> StepCulprit:
    named = one.roots.named
    if named is None:
        why = one.roots.why_nobody or "the recording begins here: causes before it are not in it"
        return StepCulprit(one.step, why=why)
    wait = one.behind_ranks().get(named.label, named.wait_ns)
    return StepCulprit(one.step, named.label, named.cause, wait, CONFIDENCES[named.confidence], "")
