"""Whom the replay accuses, and what the times of the ranks themselves say of that.

Where the replay names nobody or is unsure, the times decide: of kernels, of the work of
micro-batches, of transfers. Of two witnesses that are both unsure the one counts whose culprit
costs far more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from ccltui.metrics.findings.finding import Finding, Kind
from ccltui.metrics.findings.rank_time.partition import OTHERS, partition
from ccltui.metrics.findings.replay.conclusions import MIN_CV, MIN_R_FB, MIN_R_STAGES
from ccltui.metrics.findings.replay.ladder import ladder_of
from ccltui.metrics.findings.waits.link_times import slow_link
from ccltui.metrics.findings.waits.own_times import NamedByTimes, slower_ranks
from ccltui.metrics.findings.waits.work_times import (
    by_chance,
    heavier_stage,
    uneven_passes,
    uneven_work,
)
from ccltui.metrics.unavailable import Refusal

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View

NAMED: Final[frozenset[Kind]] = frozenset(
    {
        "slow_worker",
        "occasional_worker",
        "slow_node",
        "heavy_stage",
        "uneven_microbatches",
        "uneven_experts",
        "slow_link",
        "random",
    }
)
"""Classes of the verdict that are findings of their own; that of hosts refines waiting and idle."""
SLOW: Final = ("slow_worker", "occasional_worker", "slow_node")
COMPUTING: Final = (*SLOW, "heavy_stage")
VARYING: Final[frozenset[Kind]] = frozenset(
    {"occasional_worker", "uneven_microbatches", "uneven_experts", "random"}
)
"""Classes of what comes and goes from step to step."""
DOUBTED: Final = 0.5
"""Waits for another rank with this share of what slow kernels cost: these may delay nobody."""
FAR_MORE: Final = 2.0
"""Of two ranks that wait for each other the mean waiting is half of what is saved."""


class Accused:
    """Whom one verdict accuses, as the times of the ranks confirm, replace or doubt it."""

    def __init__(self, view: View, verdict: Mapping[str, Any], period_ms: float) -> None:
        """Store the view, details of its verdict, and the period that costs are stated for."""
        self._view = view
        self.verdict = verdict
        self._period_ms = period_ms
        self._is_job = len(view.job.ranks) > 1

    def told(self) -> Mapping[str, Any]:
        """Details of the verdict, or what own times tell where it names nobody or is unsure."""
        verdict = self.verdict
        kind, confidence = verdict.get("verdict"), verdict.get("confidence") or "low"
        if not self._is_job or (kind == "host" and self._accused and confidence != "low"):
            return verdict
        sure = confidence != "low" and kind not in (None, "inconclusive")
        for told in (self._told_by_work, self._told_by_kernels, self._told_by_transfers):
            found = told(sure=sure)
            if found is not None:
                return found
        varies = None if sure or kind in NAMED else self._varies
        return verdict if varies is None else varies.details(self._period_ms)

    @property
    def _accused(self) -> set[str]:
        """Labels of the ranks that the verdict names."""
        return set(map(str, (self.verdict.get("culprit") or {}).get("ranks") or ()))

    def _told_by_work(self, *, sure: bool) -> Mapping[str, Any] | None:
        """Return that micro-batches have unequal work, None where that is not seen or costs less.

        Args:
            sure: whether the verdict is.
        """
        verdict, uneven = self.verdict, None if sure else self._uneven
        if uneven is None:
            return None
        kind = verdict.get("verdict")
        if kind == uneven.kind:
            return {**verdict, "confidence": uneven.sure}
        saves = 0.0 if kind in VARYING else verdict.get("saves_ms") or 0.0
        costs_less = uneven.share * self._period_ms < saves
        return None if costs_less else uneven.details(self._period_ms)

    def _told_by_kernels(self, *, sure: bool) -> Mapping[str, Any] | None:
        """Return whose kernels are slow, or the verdict with what they say of it."""
        verdict, ranks, slow = self.verdict, self._accused, self.slower
        kind = verdict.get("verdict")
        if slow is None or (sure and kind in ("no_straggler", "host")):
            return None
        agree = ranks == set(slow.ranks) and kind in NAMED
        # Without steps the times of kernels do not tell some of them from all.
        kinds = (kind, slow.kind) if slow.steps else (kind,)
        of_some = agree and kind != slow.kind and "occasional_worker" in kinds
        if agree and (sure or not of_some):
            return verdict if sure else {**verdict, "confidence": slow.sure}
        # A replay takes ranks that are slow in turn for one that is slow always, or for chance.
        takes_turns = slow.takes_turns and kind in COMPUTING and ranks < set(slow.ranks)
        takes_turns |= kind == "random" or (slow.takes_turns and kind == "uneven_microbatches")
        told = self._unless_others(slow).details(self._period_ms)
        least = FAR_MORE * (0.0 if of_some and not sure else most_saved(verdict))
        costs_more = not sure and slow.share * self._period_ms > least
        if told["confidence"] == "low" and kind in NAMED and not costs_more:
            return {**verdict, "confidence": "low"} if takes_turns and ranks else verdict
        if not sure or takes_turns:
            return told
        # What a slow rank loses counts as lost by unequal micro-batches.
        return {**verdict, "confidence": "low"} if kind == "uneven_microbatches" else None

    def _told_by_transfers(self, *, sure: bool) -> Mapping[str, Any] | None:
        """Return the slow link, None where none is told or the verdict costs as much."""
        verdict, kind = self.verdict, self.verdict.get("verdict")
        saves_nothing = kind == "slow_link" and not verdict.get("saves_ms")
        may_be_link = not sure or kind not in NAMED - {"random"} or saves_nothing
        link = slow_link(self._view) if may_be_link else None
        if link is None:
            return None
        agree = kind == "slow_link" and set(link.ranks) == self._accused
        if kind in NAMED and link.sure == "low" and not agree:
            costs = lost_ms(verdict, ())
            if kind != "random" or FAR_MORE * costs >= link.share * self._period_ms:
                return None
        named = replace(link, sure="low") if sure else self._unless_others(link)
        return named.details(self._period_ms)

    def _unless_others(self, told: NamedByTimes) -> NamedByTimes:
        """Return whom own times name, unsure where much of the waiting is for another rank.

        That is most of it, and much of what it costs.
        """
        divided = partition(self._view)
        total = max(sum(divided.span_ns.values()), 1)
        waits = [one for one in divided.losses if one.kind == "straggler" and one.what != OTHERS]
        for_them = sum(one.total_ns for one in waits if one.what in told.ranks) / total
        others = (one.total_ns for one in waits if one.what not in told.ranks)
        is_doubted = max(others, default=0) / total >= max(DOUBTED * told.share, for_them)
        return replace(told, sure="low") if is_doubted else told

    @cached_property
    def slower(self) -> NamedByTimes | None:
        """The ranks whose own kernels are slow, or a stage that has more of them; else None."""
        try:
            return slower_ranks(self._view) or heavier_stage(self._view)
        except Refusal:
            return None

    @cached_property
    def _uneven(self) -> NamedByTimes | None:
        """Unequal work of micro-batches that costs more than slow ranks do, None without any."""
        slow = self.slower
        try:
            one = uneven_work(self._view)
        except Refusal:
            return None
        return None if one is None or (slow is not None and slow.share > one.share) else one

    @property
    def _varies(self) -> NamedByTimes | None:
        """What comes and goes where no replay holds: unequal work, or chance."""
        try:
            staged = ladder_of(self._view).job.stages.count > 1
        except Refusal:
            staged = True
        seen = self.verdict.get("evidence") or {}
        r_fb, cv, through = (seen.get(key) or 0.0 for key in ("r_FB", "cv", "r_stages"))
        is_work = r_fb >= MIN_R_FB and cv >= MIN_CV and (not staged or through >= MIN_R_STAGES)
        try:
            return uneven_passes(self._view) if is_work else by_chance(self._view)
        except Refusal:
            return None


def lost_ms(verdict: Mapping[str, Any], waits: Sequence[Finding]) -> float:
    """Return what a named cause costs: the waiting for it, or what a replay saves if more.

    A slow rank loses its own excess, which is no waiting. Where nobody is to blame the replay
    decides: ranks wait for each other without any fault too. So it does where slow ranks are
    sure: some of the waiting for them would be for others, were they as fast as their peers.
    """
    saves, bounds = verdict.get("saves_ms"), verdict.get("saves_bounds_ms")
    if saves and not bounds and not (verdict.get("culprit") or {}).get("ranks"):
        return float(saves)
    shares = verdict.get("shares") or {}
    if verdict.get("verdict") == "random" and shares.get("step") is not None:
        return float(verdict["loss_ms"] * (shares["step"] + shares["microbatch"]))
    most, sure = most_saved(verdict), verdict.get("confidence") or "low"
    if saves and not bounds and verdict.get("verdict") in SLOW and sure != "low":
        return float(saves)
    waited = sum(one.cost_ms or 0.0 for one in waits)
    return max(waited, most) or (float(verdict["loss_ms"]) if saves is None else 0.0)


def most_saved(verdict: Mapping[str, Any]) -> float:
    """Return the most that fixing a culprit saves, ms; 0 where it is not told."""
    saves, bounds = verdict.get("saves_ms"), verdict.get("saves_bounds_ms")
    return float(max(filter(None, (saves, *(bounds or ()))), default=0.0))
