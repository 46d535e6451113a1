"""Class, culprit and confidence of what makes the steps of a job slow, or why it cannot be told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from ccltui.metrics.attribution.call_table import CallTable
from ccltui.metrics.attribution.gains import Gains, Suspect
from ccltui.metrics.attribution.ladder import Ladder
from ccltui.metrics.attribution.signatures import Signatures, correlation
from ccltui.metrics.model.classify import TYPES
from ccltui.parsers.array_types import F64

CANDIDATES: Final = ("stage", "worker", "varying", "communication", "host")
"""Rungs that compete for the verdict; steps and micro-batches vary together."""

MATERIALITY: Final = 0.01
DOMINANT: Final = 0.5
MARGIN: Final = 0.15
OWN_SHARE: Final = 0.6
"""A suspect is named where setting it back gains this share of its rung, and no other half of it."""
OTHER_SHARE: Final = 0.5
ALSO: Final = 0.15
MIN_R_FB, MAX_RANDOM_R_FB, MIN_CV, MIN_R_STAGES = 0.9, 0.5, 0.05, 0.8
MIN_OCCASIONAL, MAX_OTHER_GAIN = 0.5, 0.25
MIN_R_EXPERTS, MIN_SPREAD = 0.9, 0.01
RESAMPLINGS: Final = 200
MAX_UNLINKED: Final = 0.1
ALIKE: Final = 0.25
"""Ranks with this share of the largest excess count among the slow ones of a host."""
MAX_UNKNOWN_TRANSFERS: Final = 0.01
_TRANSFERS: Final = [TYPES.index(name) for name in ("Send", "Recv", "SendRecv")]
MAX_NEGATIVE: Final = 0.3
"""A kind of difference may shorten the step by this share of the loss: faults that overlap do."""
FEW: Final = 0.03
"""Share of the workers that may be slow together and still be named one by one."""

LEVELS: Final = ("low", "medium", "high")


@dataclass(frozen=True)
class Finding:
    """A class within one rung, with its suspect, or why none can be named (``verdict`` "").

    ``saves_ns`` is what setting it back saves, ``cap`` the highest confidence that it may have.
    """

    verdict: str
    why: str
    suspect: Suspect | None = None
    saves_ns: float | None = None
    cap: int = 2
    hosts_cause: str | None = None


@dataclass(frozen=True)
class Context:
    """What the rules need besides the ladder.

    Attributes:
        materiality: share of the step below which nobody is a straggler.
        missing: ranks of the job that are in no file.
        missing_of: ranks without a file in a group (index), or in the groups of ranks (indices).
        names_only: whether matches rest on names and order alone.
        left_out: labels of ranks that are recorded and not compared.
        idle_causes: idle time of ranks (indices, None: all) by what their hosts do, ns; None where
            no host is recorded.
        elements: elements of the all-to-alls of each rank in each step; None without any.
    """

    materiality: float = MATERIALITY
    missing: Sequence[int] = ()
    missing_of: Callable[[Suspect], Sequence[int]] = lambda _: ()
    names_only: bool = False
    left_out: Sequence[str] = ()
    idle_causes: Callable[[Sequence[int] | None], dict[str, float] | None] = lambda _: None
    elements: F64 | None = None


@dataclass(frozen=True)
class Verdict:
    """The verdict on a job; ``confidence`` is None where nothing is concluded."""

    finding: Finding
    confidence: str | None
    agreement: float | None
    also: Sequence[tuple[str, Finding]] = ()
    ruled_out: Sequence[dict[str, str]] = ()
    evidence: dict[str, Any] = field(default_factory=dict)
    next: Sequence[str] = ()


class Rules:
    """The rules applied to one job."""

    def __init__(self, ladder: Ladder, context: Context) -> None:
        self.ladder, self.context = ladder, context
        self.gains, self.signatures = Gains(ladder), Signatures(ladder.job)
        self.ruled_out: list[dict[str, str]] = []
        self.shown_gains: dict[str, float] = {}

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
        finding = self._named(name, float(shares[first]))
        also = [
            (CANDIDATES[i], self._named(CANDIDATES[i], float(shares[i])))
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

    def _named(self, name: str, share: float) -> Finding:
        rules = {
            "stage": self._stage,
            "worker": self._worker,
            "varying": self._varying,
            "communication": self._communication,
            "host": self._host,
        }
        return rules[name](share)

    def _pick(
        self, found: Sequence[Suspect], share: float, label: Callable[[Suspect], str]
    ) -> Suspect | None:
        """The one suspect that explains its rung, if there is one."""
        for one in found:
            self.shown_gains[label(one)] = one.gain
        if not found or found[0].gain < OWN_SHARE * share:
            return None
        if len(found) > 1 and found[1].gain > OTHER_SHARE * found[0].gain:
            return None
        return found[0]

    def _saves(self, gain: float) -> float:
        return gain * self.ladder.loss_ns

    def _labels(self, ranks: Sequence[int]) -> list[str]:
        return [self.ladder.job.labels[rank] for rank in ranks]

    def _stage(self, share: float) -> Finding:
        one = self._pick(self.gains.stages, share, lambda s: f"stage {s.stage}")
        if one is None:
            return Finding("", "stages differ, and no single one of them explains it")
        why = f"stage {one.stage} computes {_times(one.factor)} the time of the other stages"
        alone = len(one.ranks) == 1
        if alone:
            why += "; it is one rank, so that a slow device would look the same"
        return Finding("heavy_stage", why, one, self._saves(one.gain), cap=1 if alone else 2)

    def _worker(self, share: float) -> Finding:
        experts = self._experts()
        if experts:
            found = self.gains.workers(self._slow_ranks())
            self.shown_gains["ranks with most tokens"] = found.gain
            return Finding("uneven_experts", experts, found, self._saves(found.gain))
        node = self._node(share)
        if node is not None:
            return node
        found = self.gains.single_workers
        one = self._pick(found, share, lambda s: f"rank {self._labels(s.ranks)[0]}")
        if one is not None:
            why = f"rank {self._labels(one.ranks)[0]} computes {_times(one.factor)} as long as its like in all steps"
            return Finding("slow_worker", why, one, self._saves(one.gain))
        slow = self._slow_ranks()
        if 1 < len(slow) <= max(1, int(FEW * len(self.ladder.job.labels))):
            few = self.gains.workers(slow)
            if few.gain >= OWN_SHARE * share:
                why = f"ranks {', '.join(self._labels(slow))} compute {_times(few.factor)} as long as their like"
                return Finding("slow_worker", why, few, self._saves(few.gain))
        listed = ", ".join(self._labels(slow[:8]))
        return Finding("", f"{len(slow)} slow workers: ranks {listed}")

    def _slow_ranks(self) -> list[int]:
        excess = self.gains.worker_excess
        return np.flatnonzero(excess > max(ALIKE * float(excess.max(initial=0)), 0)).tolist()

    def _node(self, share: float) -> Finding | None:
        hosts = self.ladder.job.hosts
        slow = self._slow_ranks()
        named = {hosts[rank] for rank in slow}
        if len(slow) < 2 or len(named) != 1 or not (host := named.pop()):
            return None
        members = [rank for rank in np.unique(self.ladder.job.table.rank) if hosts[rank] == host]
        if set(members) != set(slow) or len(set(hosts)) < 2:
            return None
        one = self.gains.workers(slow)
        self.shown_gains[f"host {host}"] = one.gain
        if one.gain < OWN_SHARE * share:
            return None
        why = f"all {len(slow)} ranks of host {host} compute {_times(one.factor)} as long as their like"
        return Finding("slow_node", why, replace(one, host=host), self._saves(one.gain))

    def _varying(self, share: float) -> Finding:
        signs = self.signatures
        by_batch = signs.num_micro_batches >= 2
        is_work = self._is_work()
        if is_work and by_batch:
            return self._uneven(cap=2)
        experts = self._experts()
        if experts:
            saves = float(self._candidates()[2].mean())
            return Finding("uneven_experts", experts, None, saves)
        found = self.gains.occasional
        for one in found:
            self.shown_gains[f"rank {self._labels(one.ranks)[0]} in its slow steps"] = one.gain
        first = found[0] if found else None
        other = found[1].gain if len(found) > 1 else 0.0
        if first and first.gain >= MIN_OCCASIONAL and other < MAX_OTHER_GAIN:
            steps = ", ".join(str(step) for step in (first.steps or ())[:8])
            why = (
                f"rank {self._labels(first.ranks)[0]} computes {_times(first.factor)} as long as "
                f"usual in step {steps}"
            )
            return Finding("occasional_worker", why, first, self._saves(first.gain))
        if is_work:
            return self._uneven(cap=1)
        gain = first.gain if first else 0.0
        unrelated = signs.r_fb is not None and signs.r_fb < MAX_RANDOM_R_FB
        even = signs.r_fb is None and signs.cv is not None and signs.cv < MIN_CV
        if (unrelated or even) and gain < MAX_OTHER_GAIN:
            return Finding("random", "times vary by chance over ranks and steps", cap=1)
        if first and gain >= MAX_OTHER_GAIN:
            return Finding(
                "", "several ranks are slow in some steps, and no single one explains it"
            )
        return Finding(
            "", "work varies from step to step, and passes do not tell whether by its amount"
        )

    def _experts(self) -> str | None:
        """Why uneven experts explain the times of the ranks, None where they do not."""
        elements = self.context.elements
        if elements is None:
            return None
        main = self.gains.main_ns
        known = (elements > 0) & (main > 0)
        mean = elements[known].mean() if known.any() else 0.0
        if not mean or elements[known].std() < MIN_SPREAD * mean:
            return None
        r = correlation(main[known], elements[known])
        if r is None or r < MIN_R_EXPERTS:
            return None
        return f"compute times follow the elements of each rank's all-to-alls (r = {r:.2f})"

    def _is_work(self) -> bool:
        signs = self.signatures
        if signs.r_fb is None or signs.cv is None:
            return False
        through = self.ladder.job.stages.count < 2 or (
            signs.r_stages is not None and signs.r_stages >= MIN_R_STAGES
        )
        return signs.r_fb >= MIN_R_FB and signs.cv >= MIN_CV and through

    def _uneven(self, cap: int) -> Finding:
        signs = self.signatures
        differences = self.ladder.differences
        saves = float((differences[2] + differences[3]).mean())
        why = (
            f"forward and backward times of a micro-batch go together (r = {signs.r_fb:.2f}) and "
            f"scatter by {signs.cv:.0%}: the work differs, as with sequences of different length"
        )
        return Finding("uneven_microbatches", why, None, saves, cap=cap)

    def _communication(self, share: float) -> Finding:
        found = self.gains.links
        one = self._pick(found, share, self._link_label)
        if one is None:
            return Finding("", "transfers are slow, and no single pair or group explains it")
        missing = self.context.missing_of(one)
        if missing:
            ranks = ", ".join(str(rank) for rank in missing[:8])
            return Finding(
                "",
                f"a group waits together, and rank {ranks} of it is not recorded: it may be late",
            )
        why = f"{self._link_label(one)} transfers {_times(one.factor)} as long as its like"
        return Finding("slow_link", why, one, self._saves(one.gain))

    def _link_label(self, one: Suspect) -> str:
        labels = self._labels(one.ranks)
        if one.pair is not None:
            return f"pair {labels[0]}-{labels[1]}"
        return f"group of ranks {', '.join(labels[:8])}"

    def _host(self, share: float) -> Finding:
        found = self.gains.hosts_idle
        one = self._pick(found, share, lambda s: f"host of rank {self._labels(s.ranks)[0]}")
        causes = self.context.idle_causes(one.ranks if one else None)
        whose = f"rank {self._labels(one.ranks)[0]}" if one else "all ranks"
        saves = self._saves(one.gain if one else share)
        total = sum((causes or {}).values())
        cause = max(causes, key=lambda c: causes[c]) if causes and total > 0 else None
        if causes and cause and causes[cause] >= 0.5 * total:
            why = f"the device of {whose} idles for the host: {cause.replace('_', ' ')}"
            return Finding("host", why, one, saves, hosts_cause=cause)
        why = f"the device of {whose} idles for the host, cause unknown"
        return Finding("host", why, one, saves, cap=1)

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
        if missing or self.context.names_only:
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
        if self.ladder.invalid() is None and "hits" in self.gains.__dict__:
            rows = self.gains.hits
            hits = {
                job.labels[rank]: job.table.step_ids[rows[rank]].tolist()
                for rank in np.flatnonzero(rows.any(axis=1)).tolist()[:16]
            }
        return {
            "r_FB": signs.r_fb,
            "cv": signs.cv,
            "r_stages": signs.r_stages,
            "gains": dict(self.shown_gains),
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
        if finding is None and self.signatures.r_fb is None:
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


def _times(factor: float | None) -> str:
    return "some" if factor is None else f"{factor:.2f} times"
