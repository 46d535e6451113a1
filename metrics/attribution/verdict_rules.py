"""Class, culprit and confidence of what makes the steps of a job slow, or why it cannot be told."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ccltui.metrics.arrays.bootstrap import drawn_places
from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.attribution.findings import Context, Finding, Verdict
from ccltui.metrics.attribution.host_needs import hosts_bind
from ccltui.metrics.attribution.ladder import (
    MAX_DELAYED_ERROR,
    MAX_UNKNOWN_TRANSFERS,
    MAX_UNLINKED,
    Ladder,
)
from ccltui.metrics.attribution.lines.job_lines import JobLines
from ccltui.metrics.attribution.named_findings import Namer
from ccltui.metrics.attribution.signatures import Signatures
from ccltui.metrics.result import Reason
from ccltui.parsers.array_types import F64, I64
from ccltui.parsers.missing_ranks import ranges_text
from ccltui.parsers.numbers import duration, percent

if TYPE_CHECKING:
    from ccltui.metrics.attribution.ladder import Ladder
    from ccltui.metrics.attribution.lines.job_lines import JobLines

CANDIDATES: Final = ("stage", "worker", "varying", "communication", "host")
"""Rungs that compete for the verdict; steps and micro-batches vary together."""

DOMINANT: Final = 0.5
MARGIN: Final = 0.15
CLASSES: Final = (
    "heavy_stage",
    "slow_worker",
    "occasional_worker, uneven_microbatches, uneven_experts, random",
    "slow_link",
    "host",
)
"""Classes of the candidates."""
ALSO: Final = 0.15
RESAMPLINGS: Final = 200
MAX_NEGATIVE: Final = 0.3
"""A kind of difference may shorten the step by this share of the loss: faults that overlap do."""
LEVELS: Final = ("low", "medium", "high")


class Rules:
    """The rules applied to one job."""

    def __init__(self, ladder: Ladder, context: Context) -> None:
        self.ladder, self.context = ladder, context
        self.signatures = Signatures(ladder.job)
        self.namer = Namer(ladder, context, self.signatures)
        self.ruled_out: list[dict[str, str]] = []

    def verdict(self) -> Verdict:
        """Apply the rules in order."""
        ladder = self.ladder
        invalid = self._abstains()
        if invalid is not None:
            return replace(self._inconclusive(invalid), also=self._costs_alone(invalid))
        costs = self._candidates()
        share = ladder.loss_ratio
        agreement = self._agreement(costs)
        # What shortens the step hides what prolongs it: their sum may be small.
        shorter = -float(ladder.differences.mean(axis=1).min()) / float(ladder.rungs[6].mean())
        if shorter > max(self.context.materiality, MAX_NEGATIVE * share):
            why = (
                "giving differences back one after another makes steps shorter: the replay does "
                "not follow the schedule of this job"
            )
            return replace(self._inconclusive(why, agreement), also=self._costs_alone(why))
        tail = self._tail_beyond_all()
        if tail is not None:
            also = self._costs_alone("what the replay of the collectives shows")
            return replace(self._inconclusive(tail, agreement), also=also)
        longer = longer_alone(ladder, max(self.context.materiality, share))
        if longer is not None:
            also = self._costs_alone("what the ranks that are alike show")
            return replace(self._inconclusive(longer, agreement), also=also)
        if share < self.context.materiality:
            whole = f"{percent(max(share, 0))} of {ladder.job.period}"
            return self._immaterial(f"all differences together cost {whole}")
        of_loss = costs.mean(axis=1) / ladder.loss_ns
        order = np.argsort(-of_loss)
        # Delays that all hosts have alike win where they dominate; they never count against others.
        common = ladder.common_host_ns / ladder.loss_ns
        if share * max(common, 1 - common) < self.context.materiality:
            return self._immaterial(
                f"what all hosts have in common costs {percent(share * common)} of "
                f"{ladder.job.period} "
                f"and all else {percent(share * (1 - common))}"
            )
        if share * (1 - common) < self.context.materiality or (
            common >= DOMINANT and common - of_loss[order[0]] >= MARGIN
        ):
            return self._of_all_hosts(agreement, order, of_loss)
        shares = of_loss / (1 - common)
        first, second = int(order[0]), float(max(shares[order[1]], 0.0))
        name = CANDIDATES[first]
        if shares[first] < DOMINANT or shares[first] - second < MARGIN:
            parts = ", ".join(f"{CANDIDATES[i]} {percent(shares[i])}" for i in order[:3])
            why = f"no kind of difference dominates: {parts}"
            return replace(self._inconclusive(why, agreement), also=self._also(of_loss, order))
        finding = self._with_errors(self.namer.named(name, float(of_loss[first])))
        if finding.verdict and finding.suspect is None and common > of_loss[first]:
            return self._of_all_hosts(agreement, order, of_loss)
        self.ruled_out += [
            {"class": CLASSES[i], "why": _share_of_loss(float(of_loss[i]))}
            for i in range(len(CANDIDATES))
            if i != first and of_loss[i] < ALSO
        ]
        if finding.verdict == "host" and finding.suspect is None:
            finding = self._unless_exchanged(finding)
        if not finding.verdict:
            also = self._also(of_loss, order)
            return replace(self._inconclusive(finding.why, agreement), also=also)
        also = self._also(of_loss, order[1:])
        # Of the whole loss: what all hosts cost makes it less sure who costs the rest.
        next_largest = max(float(of_loss[order[1]]), common)
        confidence = self._confidence(finding, float(of_loss[first]), next_largest, agreement)
        return Verdict(
            finding,
            confidence,
            agreement,
            also,
            self.ruled_out,
            self._evidence(),
            self._next(finding),
        )

    def _also(
        self, of_loss: F64, order: I64, *, with_common: bool = True
    ) -> list[tuple[str, Finding]]:
        """Return the findings of candidates with a notable share of the loss, largest first."""
        found = []
        for one in order.tolist():
            name, share = CANDIDATES[one], float(of_loss[one])
            if share >= ALSO:
                finding = self.namer.named(name, share)
                if finding.saves_ns is None:
                    finding = replace(finding, saves_ns=share * self.ladder.loss_ns)
                found.append((name, finding))
        common = self.ladder.common_host_ns
        if with_common and common >= ALSO * self.ladder.loss_ns:
            found.append(("host", self._unless_exchanged(self.namer.all_hosts())))
        return sorted(found, key=lambda item: -(item[1].saves_ns or 0.0))

    def _costs_alone(self, why: str) -> list[tuple[str, Finding]]:
        """Return what each kind of difference seems to cost where nobody can be named."""
        ladder = self.ladder
        if ladder.loss_ns <= 0:
            return []
        differences = ladder.differences.mean(axis=1)
        costs = [*differences[:2], differences[2] + differences[3], *differences[4:]]
        found = [
            (name, Finding("", why, saves_ns=float(cost)))
            for name, cost in zip(CANDIDATES, costs, strict=True)
            if cost >= ALSO * ladder.loss_ns
        ]
        return sorted(found, key=lambda item: -(item[1].saves_ns or 0.0))

    def _of_all_hosts(self, agreement: float, order: I64, of_loss: F64) -> Verdict:
        """Return the verdict on host delays that all ranks have alike: nobody is a straggler."""
        finding = self._unless_exchanged(self.namer.all_hosts())
        if not finding.verdict:
            also = self._also(of_loss, order)
            return replace(self._inconclusive(finding.why, agreement), also=also)
        share = self.ladder.common_host_ns / self.ladder.loss_ns
        second = float(max(of_loss[order[0]], 0.0))
        self.ruled_out += [
            {"class": CLASSES[i], "why": _share_of_loss(float(of_loss[i]))}
            for i in range(len(CANDIDATES))
            if of_loss[i] < ALSO and CANDIDATES[i] != "host"
        ]
        return Verdict(
            finding,
            self._confidence(finding, share, second, agreement),
            agreement,
            self._also(of_loss, order, with_common=False),
            self.ruled_out,
            self._evidence(),
            self._next(finding),
        )

    def _with_errors(self, finding: Finding) -> Finding:
        """Bound what is saved where the replay does not describe the job exactly."""
        saves, error, why = finding.saves_ns, self.ladder.error_ns, self.ladder.invalid()
        if why is None or saves is None or finding.bounds_ns is not None:
            return finding
        bounds = max(saves - error, 0.0), min(saves + error, self.ladder.most_saved_ns)
        return replace(finding, bounds_ns=bounds, bounds_why=why)

    def _unless_exchanged(self, finding: Finding) -> Finding:
        """Return the finding on the hosts of several ranks, none where one may hold up the others.

        Devices that wait for each other in copies of no recorded collective idle together, whoever
        of them is late.
        """
        if not self.context.hides_exchanges():
            return finding
        why = (
            "the devices of several ranks idle, and they copy to each other in no recorded "
            "collective: all may wait there for one that is late"
        )
        return Finding("", why, saves_ns=finding.saves_ns)

    def _candidates(self) -> F64:
        """Cost of each candidate by step, ns; of host delays what not all ranks have alike."""
        differences = self.ladder.differences
        varying = differences[2] + differences[3]
        host = np.minimum(self.ladder.uneven_host, differences[5])
        return np.stack([differences[0], differences[1], varying, differences[4], host])

    def _agreement(self, costs: F64) -> float:
        """Share of resamplings of the steps in which the largest candidate is the same."""
        steps = costs.shape[1]
        means = costs[:, drawn_places(steps, RESAMPLINGS)].mean(axis=2)
        winner = int(costs.mean(axis=1).argmax())
        return float((means.argmax(axis=0) == winner).mean())

    def _abstains(self) -> str | None:
        ladder, job = self.ladder, self.ladder.job
        if self.context.filtered:
            ranks = ", ".join(self.context.filtered[:8])
            return f"only some of the device work of rank {ranks} is in the file: it was filtered"
        if not job.operations.compute_ns.any():
            return (
                "no device work beside collectives is recorded: whether the devices computed or "
                "waited between them cannot be told"
            )
        if job.replay.unlinked > MAX_UNLINKED:
            return (
                f"{percent(job.replay.unlinked)} of the time in collectives is in calls that are "
                "matched to none with confidence"
            )
        unknown = job.unknown_transfers
        if unknown > MAX_UNKNOWN_TRANSFERS:
            return (
                f"{percent(unknown)} of the calls are transfers between ranks that are not told: "
                "which "
                "ranks do the same work is not known"
            )
        apart = why_apart(job, names_only=self.context.names_only)
        if apart is not None:
            return apart
        if not ladder.compares:
            return "no two ranks run the same program, and there is no pipeline"
        return ladder.refuted()

    def _confidence(self, finding: Finding, share: float, second: float, agreement: float) -> str:
        steps, loss = self.ladder.job.num_steps, self.ladder.loss_ratio
        if finding.suspect is not None or finding.verdict != "host":
            loss *= 1 - self.ladder.common_host_ns / self.ladder.loss_ns
        level = 0
        if agreement >= 0.8 and steps >= 2:
            level = 1
        if share >= 0.7 and second <= 0.2 and loss >= 0.08 and steps >= 3 and agreement >= 0.95:
            level = 2
        level = min(level, finding.cap)
        if steps < 2 or self._leaves_out:
            level = 0
        if loss < 0.04:
            level = min(level, 1 if steps >= 10 else 0)
        suspect = finding.suspect
        missing = self.context.missing_of(suspect) if suspect else self.context.missing
        inexact = self.ladder.mean_error > MAX_DELAYED_ERROR
        unknown = finding.bounds_ns is not None or self._hosts_bind(finding)  # how much is saved
        if missing or inexact or unknown or self.context.names_only:
            level = min(level, 1)
        level = min(level, self._most_with_steps_left_out)
        if self.ladder.job.table.doubtful > MAX_UNLINKED or self._waits_unlinked():
            level = 0
        if self.ladder.unequal_passes() is not None or self.ladder.invalid() is not None:
            level = 0
        if finding.verdict == "host" and self._hosts_of_others_cost_more(finding):
            level = 0
        return LEVELS[level]

    def _hosts_of_others_cost_more(self, finding: Finding) -> bool:
        """Whether hosts cost more that no rank stands out by: then chance may decide who does."""
        return finding.suspect is not None and self.ladder.common_host_ns > (finding.saves_ns or 0)

    def _hosts_bind(self, finding: Finding) -> bool:
        """Whether hosts need most of the step that is left once the finding is mended."""
        ladder, saves = self.ladder, finding.saves_ns or 0.0
        return hosts_bind(ladder.typical_need_ns, ladder.delayed, ladder.delayed - saves)

    def _waits_unlinked(self) -> bool:
        """Whether much of the loss may be waiting in calls that are matched to none.

        The replay takes such a call for work of one rank: what delays it looks like its host.
        """
        table, delay = self.ladder.job.table, self.ladder.job.operations.delay_ns
        alone = table.instance < 0
        rank = table.rank[table.line[alone]]
        waits = np.bincount(rank, weights=(delay + table.dur_ns)[alone])
        steps = self.ladder.job.num_steps
        return bool(waits.max(initial=0) > ALSO * self.ladder.loss_ns * steps)

    @property
    def _leaves_out(self) -> bool:
        """Whether ranks that are recorded are not compared."""
        return bool(self.context.left_out) or bool(len(ranks_alone(self.ladder)))

    @property
    def _most_with_steps_left_out(self) -> int:
        """Highest level where steps cannot be compared: the slow ones may be among them."""
        partly = len(self.ladder.job.partly)
        if not partly:
            return 2
        return 1 if partly < self.ladder.job.num_steps else 0

    def _immaterial(self, costs: str) -> Verdict:
        waits = self._missing_waits()
        if waits is not None:
            return replace(self._inconclusive(waits.why), also=[("communication", waits)])
        why = f"{costs}, less than {self.context.materiality:.2g} of it"
        level = LEVELS[0] if self.ladder.job.num_steps < 2 or self._leaves_out else LEVELS[1]
        # Parts that are each below it may be one that is above.
        near = self.ladder.loss_ratio >= self.context.materiality
        capped = self.context.missing or self.context.names_only or near
        if self.ladder.job.num_steps >= 3 and level == LEVELS[1] and not capped:
            level = LEVELS[2]
        level = LEVELS[min(LEVELS.index(level), self._most_with_steps_left_out)]
        if self.ladder.job.partly or self.context.lost():
            level = LEVELS[0]  # what is lost, or in the steps left out, may be what was slow
        evidence = self._evidence()
        return Verdict(Finding("no_straggler", why, None, 0.0), level, None, (), (), evidence)

    def _tail_beyond_all(self) -> str | None:
        """Return why nothing is concluded where most of the loss is behind the last collective."""
        tail, ladder = self.context.tail, self.ladder
        measured, loss = float(ladder.rungs[6].sum()), ladder.loss_ns * ladder.job.num_steps
        if tail is None or tail.beyond_ns < max(self.context.materiality * measured, loss):
            return None
        return (
            f"the device of rank {tail.label} works for {duration(tail.beyond_ns)} "
            f"longer than usual at the end of step {tail.step}, behind its last collective, and "
            "the step after it is not compared"
        )

    def _missing_waits(self) -> Finding | None:
        """Ranks without a file, where nobody can be cleared: the others may wait for them."""
        if not self.context.missing:
            return None
        ladder = self.ladder
        free = ladder.job.replay.ends(ladder.compute(5), np.zeros(len(ladder.recorded_transfer)))
        share = float((1 - free / ladder.rungs[5]).mean())
        if share < self.context.materiality:
            return None
        absent = tuple(str(rank) for rank in self.context.missing[:8])
        why = (
            f"the recorded ranks spend {percent(share)} of {ladder.job.period} in collectives "
            "together, "
            f"and rank {ranges_text(self.context.missing)} is not recorded: the others may wait "
            "for it"
        )
        at_most = float((ladder.rungs[5] - free).mean())
        return Finding("", why, saves_ns=at_most, absent=absent)

    def _inconclusive(self, why: str, agreement: float | None = None) -> Verdict:
        return Verdict(
            Finding("inconclusive", why),
            None,
            agreement,
            (),
            self.ruled_out,
            self._evidence(),
            self._next(None),
        )

    def _evidence(self) -> dict[str, Any]:
        signs, job = self.signatures, self.ladder.job
        hits = {}
        if self.ladder.refuted() is None and "hits" in self.namer.gains.__dict__:
            rows = self.namer.gains.hits
            hits = {
                job.labels[rank]: job.table.step_ids[rows[rank]].tolist()
                for rank in np.flatnonzero(rows.any(axis=1)).tolist()[:16]
            }
        return {
            "r_FB": signs.r_fb,
            "cv": signs.cv,
            "r_stages": signs.r_stages,
            "gains": dict(self.namer.shown),
            "hit_steps": hits,
        }

    def _next(self, finding: Finding | None) -> list[str]:
        tells = self.signatures.r_fb is not None
        return next_records(self.ladder.job, self.context, finding, tells_passes=tells)


def _share_of_loss(share: float) -> str:
    # Replays of a difference that is not there scatter about zero.
    return f"{percent(share)} of the loss" if share >= 0.0005 else "none of the loss"


def next_records(
    job: JobLines, context: Context, finding: Finding | None, *, tells_passes: bool
) -> list[str]:
    """Return what to record so that more is known; ``tells_passes``: of forward and backward."""
    asked = []
    if job.num_steps < 3:
        asked.append("more steps: three or more tell what is always slow from what comes and goes")
    if not job.marked:
        asked.append("step markers (profiler.step())")
    if context.missing:
        asked.append(f"the trace of rank {ranges_text(context.missing)}")
    apart = context.names_only and len(job.together) > 1
    if apart or job.replay.unlinked > MAX_UNLINKED or job.unknown_transfers > MAX_UNKNOWN_TRANSFERS:
        asked.append("groups, peers and sizes of collectives, which PyTorch 2.3 or later writes")
    if finding is None and not tells_passes and not context.has_launches:
        asked.append("launch records (CPU activity): they tell forward from backward passes")
    if finding is not None and finding.verdict == "host" and finding.hosts_cause is None:
        asked.append("CPU activity, or Python stacks, of the ranks whose devices idle")
    return asked


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
        f"other in {job.period}, and its calls are recorded as other ones than theirs: whether it "
        "is slow or has more to do cannot be told"
    )


def alone_reasons(ladder: Ladder) -> list[Reason]:
    """Return a reason for each rank that is compared with no other."""
    labels = [ladder.job.labels[rank] for rank in ranks_alone(ladder).tolist()]
    return [
        Reason(
            "unmatched_collectives",
            f"rank {label} is compared with no other: its calls differ from those of all others",
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
        f"no file names a communicator, and those that are told apart leave {parts} sets of ranks "
        "that never wait for each other: some are not told"
    )
