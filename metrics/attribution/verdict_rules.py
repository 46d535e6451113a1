"""Class, culprit and confidence of what makes the steps of a job slow, or why it cannot be told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from ccltui.metrics.attribution.findings import Context, Finding, Verdict
from ccltui.metrics.attribution.ladder import MAX_DELAYED_ERROR, Ladder
from ccltui.metrics.attribution.lines.call_table import CallTable
from ccltui.metrics.attribution.named_findings import Namer
from ccltui.metrics.attribution.signatures import Signatures
from ccltui.metrics.model.classify import TYPES
from ccltui.parsers.array_types import F64

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
MAX_UNLINKED: Final = 0.1
MAX_UNKNOWN_TRANSFERS: Final = 0.01
_TRANSFERS: Final = [TYPES.index(name) for name in ("Send", "Recv", "SendRecv")]
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
            return self._inconclusive(invalid)
        costs = self._candidates()
        share = ladder.loss_ratio
        agreement = self._agreement(costs)
        if share < self.context.materiality:
            return self._immaterial(share)
        shares = costs.mean(axis=1) / ladder.loss_ns
        if ladder.shares.min() < -MAX_NEGATIVE:
            return self._inconclusive(
                "giving differences back one after another makes steps shorter: the replay does "
                "not follow the schedule of this job",
                agreement,
            )
        order = np.argsort(-shares)
        first, second = int(order[0]), float(max(shares[order[1]], 0.0))
        name = CANDIDATES[first]
        if shares[first] < DOMINANT or shares[first] - second < MARGIN:
            parts = ", ".join(f"{CANDIDATES[i]} {shares[i]:.0%}" for i in order[:3])
            return self._inconclusive(f"no kind of difference dominates: {parts}", agreement)
        self.ruled_out += [
            {"class": CLASSES[i], "why": f"{shares[i]:.1%} of the loss"}
            for i in range(len(CANDIDATES))
            if i != first and shares[i] < ALSO
        ]
        finding = self.namer.named(name, float(shares[first]))
        also = [
            (CANDIDATES[i], self.namer.named(CANDIDATES[i], float(shares[i])))
            for i in order[1:]
            if shares[i] >= ALSO
        ]
        if not finding.verdict:
            return replace(self._inconclusive(finding.why, agreement), also=also)
        confidence = self._confidence(finding, float(shares[first]), second, agreement)
        return Verdict(
            finding,
            confidence,
            agreement,
            also,
            self.ruled_out,
            self._evidence(),
            self._next(finding),
        )

    def _candidates(self) -> F64:
        differences = self.ladder.differences
        varying = differences[2] + differences[3]
        return np.stack([differences[0], differences[1], varying, differences[4], differences[5]])

    def _agreement(self, costs: F64) -> float:
        """Share of resamplings of the steps in which the largest candidate is the same."""
        steps = costs.shape[1]
        drawn = np.random.default_rng(0).integers(0, steps, (RESAMPLINGS, steps))
        means = costs[:, drawn].mean(axis=2)
        winner = int(costs.mean(axis=1).argmax())
        return float((means.argmax(axis=0) == winner).mean())

    def _abstains(self) -> str | None:
        ladder, job = self.ladder, self.ladder.job
        if job.table.unlinked > MAX_UNLINKED:
            return (
                f"{job.table.unlinked:.0%} of the time in collectives is in calls that are matched "
                "to none with confidence"
            )
        unknown = _unknown_transfers(job.table)
        if unknown > MAX_UNKNOWN_TRANSFERS:
            return (
                f"{unknown:.0%} of the calls are transfers between ranks that are not told: which "
                "ranks do the same work is not known"
            )
        places = ladder.targets.place[np.unique(job.table.rank)]
        if job.stages.count < 2 and np.bincount(places).max() < 2:
            return "no two ranks run the same program, and there is no pipeline"
        return ladder.invalid()

    def _confidence(self, finding: Finding, share: float, second: float, agreement: float) -> str:
        steps, loss = self.ladder.job.num_steps, self.ladder.loss_ratio
        level = 0
        if agreement >= 0.8 and steps >= 2:
            level = 1
        if share >= 0.7 and second <= 0.2 and loss >= 0.08 and steps >= 3 and agreement >= 0.95:
            level = 2
        level = min(level, finding.cap)
        if steps < 2 or self.context.left_out:
            level = 0
        if loss < 0.04:
            level = min(level, 1 if steps >= 10 else 0)
        suspect = finding.suspect
        missing = self.context.missing_of(suspect) if suspect else self.context.missing
        inexact = self.ladder.mean_error > MAX_DELAYED_ERROR
        if missing or inexact or self.context.names_only:
            level = min(level, 1)
        if self.ladder.job.table.doubtful > MAX_UNLINKED:
            level = 0
        return LEVELS[level]

    def _immaterial(self, share: float) -> Verdict:
        waits = self._missing_waits()
        if waits is not None:
            return self._inconclusive(waits)
        why = (
            f"all differences together cost {max(share, 0):.2%} of a step, less than "
            f"{self.context.materiality:.2g} of it"
        )
        level = LEVELS[0] if self.ladder.job.num_steps < 2 or self.context.left_out else LEVELS[1]
        if self.ladder.job.num_steps >= 3 and level == LEVELS[1] and not self.context.missing:
            level = LEVELS[2]
        evidence = self._evidence()
        return Verdict(Finding("no_straggler", why, None, 0.0), level, None, (), (), evidence)

    def _missing_waits(self) -> str | None:
        """Why nobody can be cleared while ranks of the groups are not recorded."""
        if not self.context.missing:
            return None
        ladder = self.ladder
        free = ladder.job.replay.ends(ladder.compute(5), np.zeros(len(ladder.recorded_transfer)))
        share = float((1 - free / ladder.rungs[5]).mean())
        if share < self.context.materiality:
            return None
        ranks = ", ".join(str(rank) for rank in list(self.context.missing)[:8])
        return (
            f"the recorded ranks spend {share:.1%} of the step in collectives together, and rank "
            f"{ranks} is not recorded: the others may wait for it"
        )

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
        if self.ladder.invalid() is None and "hits" in self.namer.gains.__dict__:
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
        job, asked = self.ladder.job, []
        if job.num_steps < 3:
            asked.append(
                "more steps: three or more tell what is always slow from what comes and goes"
            )
        if not job.marked:
            asked.append("step markers (profiler.step())")
        if self.context.missing:
            ranks = ", ".join(str(rank) for rank in list(self.context.missing)[:8])
            asked.append(f"the trace of rank {ranks}")
        if job.table.unlinked > MAX_UNLINKED or (
            _unknown_transfers(job.table) > MAX_UNKNOWN_TRANSFERS
        ):
            asked.append(
                "groups, peers and sizes of collectives, which PyTorch 2.3 or later writes"
            )
        if finding is None and self.signatures.r_fb is None and not self.context.has_launches:
            asked.append("launch records (CPU activity): they tell forward from backward passes")
        if finding is not None and finding.verdict == "host" and finding.hosts_cause is None:
            asked.append("CPU activity, or Python stacks, of the ranks whose devices idle")
        return asked


def _unknown_transfers(table: CallTable) -> float:
    """Share of the calls that are sends or receives without a known other side.

    A kernel of sends and receives that three ranks or more share is an all-to-all.
    """
    sizes = np.bincount(table.instance[table.instance >= 0], minlength=len(table.transfer_ns))
    members = np.append(sizes, 0)[table.instance]
    unknown = np.isin(table.kind, _TRANSFERS) & (table.direction == 0) & (members < 3)
    return float(unknown.mean()) if len(unknown) else 0.0
