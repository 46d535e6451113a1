"""Class, culprit and confidence of what makes the steps of a job slow, or why it cannot be told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from ccltui.metrics.arrays.bootstrap import drawn_places
from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.findings.replay.conclusions import Conclusion, Namer, Signatures
from ccltui.metrics.findings.replay.host_needs import hosts_bind
from ccltui.metrics.findings.replay.job_facts import JobFacts, job_facts
from ccltui.metrics.findings.replay.ladder import (
    MAX_DELAYED_ERROR,
    MAX_UNKNOWN_TRANSFERS,
    MAX_UNLINKED,
    Ladder,
)
from ccltui.metrics.findings.replay.savings import Savings, savings_of
from ccltui.metrics.result import Reason
from ccltui.parsers.array_types import F64, I64
from ccltui.parsers.numbers import duration, percent
from ccltui.parsers.window import ranges_text

if TYPE_CHECKING:
    from ccltui.metrics.findings.replay.lines.job_lines import JobLines
    from ccltui.metrics.view.job_view import View

CANDIDATES: Final = ("stage", "worker", "varying", "communication", "host")
"""Rungs that compete for the verdict; steps and micro-batches vary together."""

DOMINANT: Final = 0.5
MARGIN: Final = 0.15
"""Least share of the loss, and least lead over the next, of the difference that a verdict names: of
two faults of about equal cost neither is the verdict."""
CLASSES: Final = (
    "heavy_stage",
    "slow_worker",
    "occasional_worker, uneven_microbatches, uneven_experts, random",
    "slow_link",
    "host",
)
"""Classes of the candidates."""
ALSO: Final = 0.15
"""Share of the loss from which a difference is listed beside the verdict."""
RULED_OUT: Final = 0.01
"""Share of a step below which a kind of difference is ruled out: a page lists causes from it on."""
RESAMPLINGS: Final = 200
"""Draws of steps: an agreement of 0.95 then has a standard error of 0.015."""
MAX_NEGATIVE: Final = 0.3
"""A kind of difference may shorten the step by this share of the loss: faults that overlap do."""
LEVELS: Final = ("low", "medium", "high")
MOST_OF_IT: Final = 0.75
"""Part of what slow ranks cost that one has to explain to be named surely: of two that are slow in
turn one explains 0.54 to 0.56 in three generated jobs."""


class Verdict(Struct, frozen=True):
    """The verdict on a job; ``confidence`` is None where nothing is concluded."""

    conclusion: Conclusion
    confidence: str | None = None
    agreement: float | None = None
    also: Sequence[tuple[str, Conclusion]] = ()
    ruled_out: Sequence[dict[str, str]] = ()
    evidence: dict[str, Any] = field(default_factory=dict)
    next: Sequence[str] = ()


def verdict_of(view: View) -> tuple[Ladder, Verdict]:
    """Return the ladder and the verdict of a job.

    Raises:
        Refusal: see `ladder_of` and `materiality_pct`.
        DeadlockError: see `ladder_of`.
    """
    savings = savings_of(view)
    return savings.ladder, Rules(savings, job_facts(view)).verdict()


class Rules:
    """The rules applied to one job."""

    def __init__(self, savings: Savings, facts: JobFacts) -> None:
        self.ladder, self.facts, self.materiality = savings.ladder, facts, facts.materiality
        self.signatures = Signatures(self.ladder.job)
        self.namer = Namer(savings, facts, self.signatures)

    def verdict(self) -> Verdict:
        """Apply the rules in order."""
        ladder = self.ladder
        why = next(self._abstains(), None)
        if why is not None:
            return self._inconclusive(why, None, self._costs_alone(why))
        for why, of_costs in self._doubts():
            return self._inconclusive(why, self._agreement, self._costs_alone(of_costs))
        share, common = ladder.loss_ratio, ladder.common_host_ns / ladder.loss_ns
        if share < self.materiality:
            whole = f"{percent(max(share, 0))} of {ladder.job.period}"
            return self._immaterial(f"all differences together cost {whole}")
        # Delays that all hosts have alike win where they dominate; they never count against others.
        if share * max(common, 1 - common) < self.materiality:
            return self._immaterial(
                f"delays common to all hosts cost {percent(share * common)} of "
                f"{ladder.job.period} and everything else {percent(share * (1 - common))}"
            )
        first, next_one = self._order[:2].tolist()
        of_all_hosts = common >= DOMINANT and common - self._of_loss[first] >= MARGIN
        if share * (1 - common) < self.materiality or of_all_hosts:
            return self._of_all_hosts()
        shares = self._of_loss / (1 - common)
        second = max(float(shares[next_one]), 0.0)
        if shares[first] < DOMINANT or shares[first] - second < MARGIN:
            parts = ", ".join(f"{CANDIDATES[i]} {percent(shares[i])}" for i in self._order[:3])
            why = f"no kind of difference dominates: {parts}"
            return self._inconclusive(why, self._agreement, self._also(self._order))
        of_loss = float(self._of_loss[first])
        found = self._with_errors(self.namer.named(CANDIDATES[first], of_loss))
        if found.verdict and found.suspect is None and common > of_loss:
            return self._of_all_hosts()
        if found.verdict == "host" and found.suspect is None:
            found = self._unless_exchanged(found)
        # Of the whole loss: what all hosts cost makes it less sure who costs the rest.
        return self._concluded(found, of_loss, max(float(self._of_loss[next_one]), common))

    def _of_all_hosts(self) -> Verdict:
        """Return the verdict on host delays that all ranks have alike: nobody is a straggler."""
        found = self._unless_exchanged(self.namer.all_hosts())
        share = self.ladder.common_host_ns / self.ladder.loss_ns
        second = max(float(self._of_loss[self._order[0]]), 0.0)
        common = self.ladder.differences[5] - self.ladder.uneven_host
        self._agreement = self._agreement_on(np.vstack([self._candidates, common]))
        return self._concluded(found, share, second, of_all_hosts=True)

    def _concluded(
        self, found: Conclusion, share: float, second: float, *, of_all_hosts: bool = False
    ) -> Verdict:
        """Return the verdict of a conclusion, inconclusive where it names no class.

        Args:
            found: the conclusion on the largest candidate, or on all hosts together.
            share: its share of the loss.
            second: share of the next largest one.
            of_all_hosts: whether it is on all hosts together.
        """
        mine = CANDIDATES.index("host") if of_all_hosts else int(self._order[0])
        ruled_out = [
            {"class": CLASSES[i], "why": self._cost(one)}
            for i, one in enumerate(self._of_loss.tolist())
            if i != mine and one < ALSO and one * self.ladder.loss_ratio < RULED_OUT
        ]
        if not found.verdict:
            verdict = self._inconclusive(found.why, self._agreement, self._also(self._order))
            return replace(verdict, ruled_out=ruled_out)
        others = self._order if of_all_hosts else self._order[1:]
        return Verdict(
            found,
            self._confidence(found, share, second),
            self._agreement,
            self._also(others, with_common=not of_all_hosts),
            ruled_out,
            self._evidence(),
            self._next(found),
        )

    def _cost(self, of_loss: float) -> str:
        """Return what a part of the loss costs, in the share of a step that costs are stated in."""
        # Replays of a difference that is not there scatter about zero.
        if of_loss < 0.0005:
            return "costs nothing in the replay"
        cost = percent(of_loss * self.ladder.loss_ratio)
        return f"costs {cost} of {self.ladder.job.period} in the replay"

    def _inconclusive(
        self, why: str, agreement: float | None, also: Sequence[tuple[str, Conclusion]]
    ) -> Verdict:
        found = Conclusion("inconclusive", why)
        evidence, asked = self._evidence(), self._next(None)
        return Verdict(found, None, agreement, also, evidence=evidence, next=asked)

    def _immaterial(self, costs: str) -> Verdict:
        facts, job = self.facts, self.ladder.job
        waits = self._missing_waits()
        if waits is not None:
            return self._inconclusive(waits.why, None, [("communication", waits)])
        untold = self._untold_waits()
        if untold is not None:
            return self._inconclusive(untold, None, ())
        why = f"{costs}, less than {self.materiality:.2g} of it"
        # Parts that are each below it may be one that is above.
        near = self.ladder.loss_ratio >= self.materiality
        caps = (
            (0, job.num_steps < 2 or self._leaves_out),
            (1, job.num_steps < 3 or near or facts.names_only or bool(facts.missing)),
            # What is lost, or in the steps left out, may be what was slow.
            (0, bool(job.partly) or bool(facts.lost)),
        )
        level = LEVELS[min([2, *(most for most, holds in caps if holds)])]
        found = Conclusion("no_straggler", why, None, 0.0)
        return Verdict(found, level, evidence=self._evidence())

    def _abstains(self) -> Iterator[str]:
        """Yield why the replays tell nothing of this job."""
        ladder, job = self.ladder, self.ladder.job
        if self.facts.filtered:
            ranks = ", ".join(self.facts.filtered[:8])
            yield f"only some of the device work of rank {ranks} is in the file: it was filtered"
        if not job.operations.compute_ns.any():
            yield (
                "no device work other than collectives is recorded, so it is not known whether the "
                "devices computed or waited between them"
            )
        if job.replay.unlinked > MAX_UNLINKED:
            yield (
                f"{percent(job.replay.unlinked)} of the time in collectives belongs to calls that "
                "have no reliable match on other ranks"
            )
        if job.unknown_transfers > MAX_UNKNOWN_TRANSFERS:
            yield (
                f"{percent(job.unknown_transfers)} of the calls are transfers between unknown "
                "ranks, so it is not known which ranks do the same work"
            )
        apart = why_apart(job, names_only=self.facts.names_only)
        if apart is not None:
            yield apart
        if not ladder.compares:
            yield "no two ranks run the same program, and there are no pipeline stages to compare"
        refuted = ladder.refuted()
        if refuted is not None:
            yield refuted

    def _doubts(self) -> Iterator[tuple[str, str]]:
        """Yield why nobody is named although the replays hold, and what the costs stated are of."""
        ladder, share = self.ladder, self.ladder.loss_ratio
        # What shortens the step hides what prolongs it: their sum may be small.
        shorter = -float(ladder.differences.mean(axis=1).min()) / float(ladder.rungs[6].mean())
        if shorter > max(self.materiality, MAX_NEGATIVE * share):
            why = (
                "adding the differences back one by one makes steps shorter, so the replay does "
                "not follow the schedule of this job"
            )
            yield why, why
        tail, measured = self.facts.tail, float(ladder.rungs[6].sum())
        loss_ns = ladder.loss_ns * ladder.job.num_steps
        if tail is not None and tail.beyond_ns >= max(self.materiality * measured, loss_ns):
            why = (
                f"the device of rank {tail.label} works for {duration(tail.beyond_ns)} longer than "
                f"usual at the end of step {tail.step}, after its last collective, and the step "
                "after it is not compared"
            )
            yield why, "what the replay of the collectives shows"
        longer = longer_alone(ladder, max(self.materiality, share))
        if longer is not None:
            yield longer, "what the ranks that are alike show"

    def _missing_waits(self) -> Conclusion | None:
        """Ranks without a file, where nobody can be cleared: the others may wait for them."""
        missing, ladder = self.facts.missing, self.ladder
        if not missing:
            return None
        free = ladder.job.replay.ends(ladder.compute(5), np.zeros(len(ladder.recorded_transfer)))
        share = float((1 - free / ladder.rungs[5]).mean())
        if share < self.materiality:
            return None
        absent = tuple(str(rank) for rank in missing[:8])
        why = (
            f"the recorded ranks spend {percent(share)} of {ladder.job.period} in collectives "
            f"together, and rank {ranges_text(missing)} is not recorded: the others may wait for it"
        )
        at_most = float((ladder.rungs[5] - free).mean())
        return Conclusion("", why, saves_ns=at_most, absent=absent)

    def _untold_waits(self) -> str | None:
        """Return why nobody can be cleared where ranks may wait in calls that are matched to none.

        The replay gives each of them the time that it took: what some wait there for a late rank
        costs nothing in any rung. Members that begin together take equally long.
        """
        job, table = self.ladder.job, self.ladder.job.table
        alone = table.instance < 0
        if not alone.any():
            return None
        here = distinct_values(table.rank)
        spent = np.bincount(
            table.rank[table.line[alone]], table.dur_ns[alone], minlength=len(job.labels)
        )[here]
        longer_ns = float(spent.max() - spent.min()) / job.num_steps
        if longer_ns < self.materiality * float(self.ladder.rungs[6].mean()):
            return None
        return (
            f"a rank spends {duration(longer_ns)} of {job.period} more than another in collectives "
            "that have no reliable match on other ranks: it may wait there for a late one"
        )

    def _also(self, order: I64, *, with_common: bool = True) -> list[tuple[str, Conclusion]]:
        """Return the conclusions on candidates with a notable share of the loss, largest first."""
        found = []
        for one in order.tolist():
            name, share = CANDIDATES[one], float(self._of_loss[one])
            if share >= ALSO:
                named = self.namer.named(name, share)
                if named.saves_ns is None:
                    named = replace(named, saves_ns=share * self.ladder.loss_ns)
                found.append((name, named))
        if with_common and self.ladder.common_host_ns >= ALSO * self.ladder.loss_ns:
            found.append(("host", self._unless_exchanged(self.namer.all_hosts())))
        return sorted(found, key=lambda item: -(item[1].saves_ns or 0.0))

    def _costs_alone(self, why: str) -> list[tuple[str, Conclusion]]:
        """Return what each kind of difference seems to cost where nobody can be named."""
        ladder = self.ladder
        if ladder.loss_ns <= 0:
            return []
        differences = ladder.differences.mean(axis=1)
        costs = [*differences[:2], differences[2] + differences[3], *differences[4:]]
        found = [
            (name, Conclusion("", why, saves_ns=float(cost)))
            for name, cost in zip(CANDIDATES, costs, strict=True)
            if cost >= ALSO * ladder.loss_ns
        ]
        return sorted(found, key=lambda item: -(item[1].saves_ns or 0.0))

    def _with_errors(self, found: Conclusion) -> Conclusion:
        """Bound what is saved where the replay does not describe the job exactly."""
        if found.saves_ns is None or found.bounds is not None:
            return found
        return replace(found, bounds=self.ladder.error_bounds(found.saves_ns))

    def _unless_exchanged(self, found: Conclusion) -> Conclusion:
        """Return the conclusion on several hosts, none where one rank may hold up the others.

        Devices that wait for each other in copies of no recorded collective idle together, whoever
        of them is late.
        """
        if not self.facts.hides_exchanges:
            return found
        why = (
            "the devices of several ranks idle, and they copy data to each other outside of "
            "recorded collectives: all of them may wait for one late rank"
        )
        return Conclusion("", why, saves_ns=found.saves_ns)

    @cached_property
    def _candidates(self) -> F64:
        """Cost of each candidate by step, ns; of host delays what not all ranks have alike."""
        ladder, differences = self.ladder, self.ladder.differences
        varying = differences[2] + differences[3]
        host = np.minimum(ladder.uneven_host, differences[5])
        saved = ladder.rungs[5] - self.namer.savings.even_steps
        # Exchanges that are long because of where the tokens go are no slow link.
        of_tokens = np.minimum(saved, np.maximum(differences[4], 0))
        worker, communication = differences[1] + of_tokens, differences[4] - of_tokens
        return np.stack([differences[0], worker, varying, communication, host])

    @cached_property
    def _of_loss(self) -> F64:
        """Share of each candidate in the loss."""
        return np.asarray(self._candidates.mean(axis=1) / self.ladder.loss_ns)

    @cached_property
    def _order(self) -> I64:
        """Candidates, those that cost most first."""
        return np.argsort(-self._of_loss)

    @cached_property
    def _agreement(self) -> float:
        """Share of resamplings of the steps in which the largest candidate is the same."""
        return self._agreement_on(self._candidates)

    @staticmethod
    def _agreement_on(costs: F64) -> float:
        """Return the same for costs, [candidates, steps]."""
        steps = costs.shape[1]
        means = costs[:, drawn_places(steps, RESAMPLINGS)].mean(axis=2)
        winner = int(costs.mean(axis=1).argmax())
        return float((means.argmax(axis=0) == winner).mean())

    def _confidence(self, found: Conclusion, share: float, second: float) -> str:
        """Return how sure a conclusion is: what its share allows, and what lowers that."""
        ladder, facts, agreement = self.ladder, self.facts, self._agreement
        steps, loss = ladder.job.num_steps, ladder.loss_ratio
        if found.suspect is not None or found.verdict != "host":
            loss *= 1 - ladder.common_host_ns / ladder.loss_ns
        level = 1 if agreement >= 0.8 and steps >= 2 else 0
        if share >= 0.7 and second <= 0.2 and loss >= 0.08 and steps >= 3 and agreement >= 0.95:
            level = 2
        missing = facts.missing_of(found.suspect) if found.suspect else facts.missing
        how_much_unknown = found.bounds is not None or self._hosts_bind(found)
        caps = (
            (found.cap, True),
            (0, steps < 2 or self._leaves_out),
            (0, found.verdict == "host" and self._hosts_of_others_cost_more(found)),
            (1 if steps >= 10 else 0, loss < 0.04),
            (1, bool(missing) or facts.names_only or facts.assumes_turns),
            (1, found.verdict == "slow_worker" and self._explains_part(found, share)),
            (1, ladder.mean_error > MAX_DELAYED_ERROR or how_much_unknown),
            (self._most_with_steps_left_out, True),
            (0, ladder.job.table.doubtful > MAX_UNLINKED or self._waits_unlinked),
            (0, ladder.unequal_passes() is not None or ladder.invalid() is not None),
        )
        return LEVELS[min([level, *(most for most, holds in caps if holds)])]

    def _explains_part(self, found: Conclusion, share: float) -> bool:
        """Whether mending a rank leaves much of what slow ranks cost: others are slow as well."""
        return (found.saves_ns or 0.0) < MOST_OF_IT * share * self.ladder.loss_ns

    def _hosts_bind(self, found: Conclusion) -> bool:
        """Whether hosts need most of the step that is left once the conclusion is mended."""
        ladder, saves = self.ladder, found.saves_ns or 0.0
        return hosts_bind(ladder.typical_need_ns, ladder.delayed, ladder.delayed - saves)

    def _hosts_of_others_cost_more(self, found: Conclusion) -> bool:
        """Whether hosts cost more that no rank stands out by: then chance may decide who does."""
        return found.suspect is not None and self.ladder.common_host_ns > (found.saves_ns or 0)

    @property
    def _waits_unlinked(self) -> bool:
        """Whether much of the loss may be waiting in calls that are matched to none.

        The replay takes such a call for work of one rank: what delays it looks like its host.
        """
        table, delay = self.ladder.job.table, self.ladder.job.operations.wait_ns[:, 0]
        alone = table.instance < 0
        rank = table.rank[table.line[alone]]
        waits = np.bincount(rank, weights=(delay + table.dur_ns)[alone])
        steps = self.ladder.job.num_steps
        return bool(waits.max(initial=0) > ALSO * self.ladder.loss_ns * steps)

    @property
    def _leaves_out(self) -> bool:
        """Whether ranks that are recorded are not compared."""
        return bool(self.ladder.job.out) or bool(len(ranks_alone(self.ladder)))

    @property
    def _most_with_steps_left_out(self) -> int:
        """Highest level where steps cannot be compared: the slow ones may be among them."""
        partly = len(self.ladder.job.partly)
        if not partly:
            return 2
        return 1 if partly < self.ladder.job.num_steps else 0

    def _evidence(self) -> dict[str, Any]:
        signs, job, gains = self.signatures, self.ladder.job, self.namer.gains
        hits = {}
        if self.ladder.refuted() is None and "hits" in gains.__dict__:
            hits = {
                job.labels[rank]: job.table.step_ids[gains.hits[rank]].tolist()
                for rank in np.flatnonzero(gains.hits.any(axis=1)).tolist()[:16]
            }
        return {
            "r_FB": signs.r_fb,
            "cv": signs.cv,
            "r_stages": signs.r_stages,
            "gains": dict(self.namer.shown),
            "hit_steps": hits,
        }

    def _next(self, found: Conclusion | None) -> list[str]:
        """Return what to record so that more is known; ``found`` is None where nothing is."""
        job, facts = self.ladder.job, self.facts
        untold = job.replay.unlinked > MAX_UNLINKED or job.unknown_transfers > MAX_UNKNOWN_TRANSFERS
        tells_passes = self.signatures.r_fb is not None
        host = found is not None and found.verdict == "host" and found.hosts_cause is None
        asked = (
            (
                "more steps: at least three show what is always slow and what is slow only in "
                "some steps",
                job.num_steps < 3,
            ),
            ("step markers (profiler.step())", not job.marked),
            (
                f"the traces of the missing ranks ({ranges_text(facts.missing)})",
                bool(facts.missing),
            ),
            (
                "groups, peers and sizes of collectives, which PyTorch 2.3 or later writes",
                facts.untold_calls and (untold or (facts.names_only and len(job.together) > 1)),
            ),
            (
                "launch records (CPU activity), which separate forward from backward passes",
                found is None and not tells_passes and not facts.has_launches,
            ),
            ("CPU activity, or Python stacks, of the ranks whose devices idle", host),
        )
        return [text for text, is_asked in asked if is_asked]


def ranks_alone(ladder: Ladder) -> I64:
    """Return the ranks whose calls no other rank makes, of a job in which other ranks are alike.

    Stages of a pipeline differ anyway and are compared by what they cost: none of them is alone.
    """
    here = distinct_values(ladder.job.table.rank)
    if ladder.targets.has_stages:
        return here[:0]
    place = ladder.targets.place[here]
    alone = np.bincount(place)[place] == 1
    return here[alone] if not alone.all() else here[:0]


def longer_alone(ladder: Ladder, least_share: float) -> str | None:
    """Return why a rank without a like may be slow, None where none computes longer than others.

    Every replay leaves such a rank its own time, so that it costs nothing however slow it is.

    Args:
        ladder: the replays.
        least_share: share of the step from which on more compute counts.
    """
    alone, job = ranks_alone(ladder), ladder.job
    if not len(alone):
        return None
    total_ns = np.bincount(job.worker, weights=job.unit_ns, minlength=len(job.labels))
    compute_ns = total_ns / job.num_steps
    others = np.setdiff1d(distinct_values(job.table.rank), alone)
    longest = int(alone[compute_ns[alone].argmax()])
    longer_ns = float(compute_ns[longest] - compute_ns[others].max())
    if longer_ns < least_share * float(ladder.rungs[6].mean()):
        return None
    return (
        f"rank {job.labels[longest]} computes {duration(longer_ns)} longer than any "
        f"other in {job.period}, but its calls differ from theirs, so it is not known whether it "
        "is slow or has more to do"
    )


def alone_reasons(ladder: Ladder) -> list[Reason]:
    """Return a reason for each rank that is compared with no other."""
    labels = [ladder.job.labels[rank] for rank in ranks_alone(ladder).tolist()]
    return [
        Reason(
            "unmatched_collectives",
            f"rank {label} is not compared: its calls differ from those of all other ranks",
            rank=label,
        )
        for label in labels
    ]


def why_apart(job: JobLines, *, names_only: bool) -> str | None:
    """Return why ranks that never wait for each other may do so, None where they do or do not."""
    parts = len(job.together)
    if not names_only or parts < 2:
        return None
    return (
        f"no file names communicators, and the identified ones leave {parts} sets of ranks that "
        "never wait for each other, so some are missing"
    )
