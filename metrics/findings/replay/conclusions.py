"""Class and culprit within one kind of difference, and what mending it saves.

Work that differs from one micro-batch to the next is recognised by its signature: long sequences
make the forward and the backward pass of a micro-batch longer, on all stages that it goes through;
a slow device does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final, cast

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ccltui.metrics.arrays.reductions import distinct_values, median_along
from ccltui.metrics.findings.causes.activity import HOST_WORDS, HOST_WORK
from ccltui.metrics.findings.replay.gains import Gains, Suspect
from ccltui.metrics.findings.replay.job_facts import NOTHING, JobFacts
from ccltui.metrics.findings.replay.ladder import Bounds
from ccltui.metrics.findings.replay.lines.job_lines import JobLines
from ccltui.metrics.findings.replay.lines.pass_units import BACKWARD_PASS, FORWARD_PASS, WHOLE
from ccltui.metrics.findings.replay.savings import MAX_APART, Savings
from ccltui.parsers.array_types import F64, Bool
from ccltui.parsers.numbers import percent
from ccltui.parsers.safe_text import listed
from ccltui.parsers.window import ranges_text

MIN_POINTS: Final = 4
"""Micro-batches of one worker from which a correlation is given."""


class Signatures(Struct, frozen=True, dict=True):
    """Correlations over the micro-batches of a job; None where too few are recorded."""

    job: JobLines

    @cached_property
    def _tables(self) -> tuple[F64, F64] | None:
        """Forward and backward times [workers, steps, micro-batches], NaN where there is none."""
        units = self.job.units
        count = [int((units.type == kind).sum()) for kind in (FORWARD_PASS, BACKWARD_PASS)]
        if not all(count):
            return None
        shape = (len(self.job.labels), self.job.num_steps)
        found = []
        for kind in (FORWARD_PASS, BACKWARD_PASS):
            mine = units.type == kind
            table = np.full((*shape, int(units.number[mine].max()) + 1), np.nan)
            place = self.job.worker[mine], self.job.step[mine], units.number[mine]
            table[place] = self._relative_ns[mine]
            found.append(table)
        least = min(one.shape[2] for one in found)
        return found[0][:, :, :least], found[1][:, :, :least]

    @cached_property
    def _relative_ns(self) -> F64:
        """Time of each unit over what is typical of it on all lines of its program, times the mean.

        A pass that always has more kernels than the others has no longer sequences for that.
        """
        own, typical = self.job.unit_ns, self.job.profile_ns
        known = typical > 0
        mean = np.bincount(self.job.units.type[known], typical[known], minlength=WHOLE + 2)
        count = np.bincount(self.job.units.type[known], minlength=WHOLE + 2)
        usual = (mean / np.maximum(count, 1))[self.job.units.type]
        return np.where(known, own * usual / np.where(known, typical, 1), own)

    @property
    def num_micro_batches(self) -> int:
        """Micro-batches of a step, 0 where passes are not known."""
        return 0 if self._tables is None else self._tables[0].shape[2]

    @cached_property
    def r_fb(self) -> float | None:
        """Correlation of forward and backward time without the means of worker and step.

        With one micro-batch a step, without the mean of the worker. Median over workers.
        """
        if self._tables is None:
            return None
        forward, backward = (self._residual(one) for one in self._tables)
        each = [
            correlation(one.ravel(), other.ravel())
            for one, other in zip(forward, backward, strict=True)
        ]
        return _median([one for one in each if one is not None])

    @cached_property
    def cv(self) -> float | None:
        """Standard deviation over mean of backward times in a step, median over workers and steps.

        With one micro-batch a step over the steps. Whole steps where passes are not known.
        """
        if self._tables is not None:
            table = self._tables[1]
        else:
            units = self.job.units
            mine = units.type == WHOLE
            if not mine.any():
                return None
            table = np.full((len(self.job.labels), self.job.num_steps, 1), np.nan)
            table[self.job.worker[mine], self.job.step[mine], 0] = self.job.unit_ns[mine]
        if table.shape[2] == 1:
            table = np.swapaxes(table, 1, 2)
        known = ~np.isnan(table).any(axis=2)
        rows = table[known]
        if not len(rows) or rows.shape[1] < 2 or not (rows.mean(axis=1) > 0).all():
            return None
        return float(median_along(rows.std(axis=1) / rows.mean(axis=1)))

    @cached_property
    def r_stages(self) -> float | None:
        """Correlation over micro-batches of backward time on the first and the other stages."""
        if self._tables is None or self.job.stages.count < 2 or self.job.stages.wraps:
            return None
        stage = self.job.stages.stage
        backward = self._residual(self._tables[1])
        found = []
        for line in self.job.pipelines:
            first = [rank for rank in line if stage[rank] == 0]
            for other in (rank for rank in line if stage[rank] > 0):
                if first:
                    one = correlation(backward[first[0]].ravel(), backward[other].ravel())
                    found += [] if one is None else [one]
        return _median(found)

    def _residual(self, table: F64) -> F64:
        axis = (1, 2) if table.shape[2] < 2 else (2,)
        return np.asarray(table - table.mean(axis=axis, keepdims=True))


def correlation(one: F64, other: F64) -> float | None:
    """Return Pearson's correlation over the pairs without NaN, None of too few or constant ones."""
    known = ~(np.isnan(one) | np.isnan(other))
    one, other = one[known], other[known]
    if len(one) < MIN_POINTS or one.std() == 0 or other.std() == 0:
        return None
    return float(np.corrcoef(one, other)[0, 1])


def _median(values: Sequence[float]) -> float | None:
    return float(median_along(values)) if values else None


OWN_SHARE: Final = 0.6
OTHER_SHARE: Final = 0.5
"""A suspect is named where setting it back gains the first share of its rung, and setting back the
next one less than the second share of that."""
MIN_R_FB, MAX_RANDOM_R_FB, MIN_CV, MIN_R_STAGES = 0.9, 0.5, 0.05, 0.8
MAX_JITTER_CV: Final = 0.02
"""Scatter of whole steps below which no lengths of sequences are behind it."""
MAX_CHANCE_CV: Final = 0.1
"""Spread of the passes of a step beyond which they hold unequal work: kernels and whole passes vary
by up to 8 %. Where forward and backward do not vary together all the same, passes may be wrong."""
MIN_OCCASIONAL, MAX_OTHER_GAIN = 0.5, 0.25
MIN_R_EXPERTS, MIN_SPREAD = 0.9, 0.01
SAME_FACTOR: Final = 0.7
"""Slow stages of one host exceed the others by at least this share of what the slowest does."""
ALIKE: Final = 0.25
"""Ranks with this share of the largest excess count among the slow ones of a host."""
HALF: Final = 0.5
"""Ranks that idle this share of the time of another one idle as it does."""
_MOST_NAMED: Final = 4
FEW: Final = 0.03
"""Share of the workers that may be slow together and still be named one by one."""


class Conclusion(Struct, frozen=True):
    """A class within one rung, with its suspect, or why none can be named (``verdict`` "").

    ``saves_ns`` is what setting it back saves, ``bounds`` what that lies between where it is not
    known more closely, ``cap`` the highest confidence that it may have. ``absent`` are ranks
    without a file that the others may wait for.
    """

    verdict: str
    why: str
    suspect: Suspect | None = None
    saves_ns: float | None = None
    cap: int = 2
    hosts_cause: str | None = None
    absent: tuple[str, ...] = ()
    bounds: Bounds | None = None


class Namer:
    """Names what causes one kind of difference; ``gains`` shown so far are in ``shown``."""

    def __init__(self, savings: Savings, facts: JobFacts, signatures: Signatures) -> None:
        self.ladder, self.savings = savings.ladder, savings
        self.facts, self.signatures = facts, signatures
        self.gains = Gains(self.ladder)
        self.shown: dict[str, float] = {}

    def named(self, name: str, share: float) -> Conclusion:
        """Return the conclusion on one of the candidates; ``share`` is its share of the loss."""
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
            self.shown[label(one)] = one.gain
        if not found or found[0].gain < OWN_SHARE * share:
            return None
        if len(found) > 1 and found[1].gain > OTHER_SHARE * found[0].gain:
            return None
        return found[0]

    def _labels(self, ranks: Sequence[int]) -> list[str]:
        """Labels of ranks, numbers in ascending order whatever the order of the files."""
        return sorted((self.ladder.job.labels[rank] for rank in ranks), key=lambda s: (len(s), s))

    def _stage(self, share: float) -> Conclusion:
        one = self._pick(self.gains.stages, share, lambda s: f"stage {s.stage}")
        if one is None:
            node = self._node_of_stages(share)
            return node or Conclusion("", "stages differ, and no single stage explains it")
        why = f"stage {one.stage} computes {_times(one.factor)} the time of the other stages"
        alone = len(one.ranks) == 1
        if alone:
            why += "; it is a single rank, so a slow device would look the same"
        saves, bounds = self.savings.stage(int(one.stage or 0))
        cap = 1 if alone else 2
        return Conclusion("heavy_stage", why, one, saves, cap, bounds=bounds)

    def _node_of_stages(self, share: float) -> Conclusion | None:
        """Several stages that are slow by one factor, and are all that one host has."""
        # One slow stage of two gains little alone: the other keeps the pipeline waiting.
        excess = [(one.factor or 1.0) - 1 for one in self.gains.stages]
        least = SAME_FACTOR * max(excess, default=0.0)
        slow = [
            one for one, more in zip(self.gains.stages, excess, strict=True) if more >= least > 0
        ]
        ranks = sorted(rank for one in slow for rank in one.ranks)
        one = self._whole_host(ranks, share, self.gains.stages_alike) if len(slow) > 1 else None
        if one is None:
            return None
        why = (
            f"all {len(ranks)} ranks of host {one.host} compute {_times(one.factor)} the time of "
            "the others; they are whole stages, so more work would look the same"
        )
        return Conclusion("slow_node", why, one, one.gain * self.ladder.loss_ns, cap=1)

    def _whole_host(
        self, ranks: Sequence[int], share: float, gain: Callable[[Sequence[int]], Suspect]
    ) -> Suspect | None:
        """Return ranks as one suspect where they are all of one host and explain their rung."""
        hosts = self.ladder.job.hosts
        named = {hosts[rank] for rank in ranks}
        members = [
            r for r in distinct_values(self.ladder.job.table.rank).tolist() if hosts[r] in named
        ]
        if len(ranks) < 2 or len(named) != 1 or "" in named:
            return None
        if members != sorted(ranks) or len(set(hosts)) < 2:
            return None
        one = replace(gain(ranks), host=named.pop())
        self.shown[f"host {one.host}"] = one.gain
        return None if one.gain < OWN_SHARE * share else one

    def _worker(self, share: float) -> Conclusion:
        experts = self._experts()
        slow = self._slow_ranks()
        if experts:
            most, cap = self._most_tokens(slow)
            self.shown["ranks with most tokens"] = most.gain
            names = ", ".join(self._labels(most.ranks)[:8])
            why = f"{experts}, which are largest on rank {names}" if names else experts
            return Conclusion("uneven_experts", why, most, self.savings.experts(most.ranks), cap)
        node = self._whole_host(slow, share, self.gains.workers)
        if node is not None:
            times = _times(node.factor)
            why = (
                f"all {len(slow)} ranks of host {node.host} compute {times} as long as their peers"
            )
            return self._unless_hosts_take_it("slow_node", why, node, share)
        found = self.gains.single_workers
        one = self._pick(found, share, lambda s: f"rank {self._labels(s.ranks)[0]}")
        if one is not None:
            name = self._labels(one.ranks)[0]
            when = "in all steps" if self.ladder.job.period == "a step" else "in the window"
            why = f"rank {name} computes {_times(one.factor)} as long as its peers {when}"
            return self._unless_hosts_take_it("slow_worker", why, one, share)
        if 1 < len(slow) <= max(1, int(FEW * len(self.ladder.job.labels))):
            few = self.gains.workers(slow)
            if few.gain >= OWN_SHARE * share:
                names = ", ".join(self._labels(slow))
                why = f"ranks {names} compute {_times(few.factor)} as long as their peers"
                return self._unless_hosts_take_it("slow_worker", why, few, share)
        listed = ", ".join(self._labels(slow[:8]))
        return Conclusion("", f"{len(slow)} slow workers: ranks {listed}")

    def _most_tokens(self, slow: Sequence[int]) -> tuple[Suspect, int]:
        """Return the slow ranks that have more tokens than the typical rank, and how sure it is.

        Those that are as slow with no more tokens have another reason, which then adds to the times
        of all: the class is not as sure.
        """
        elements = cast("F64", self.facts.elements).mean(axis=1)  # `_experts` has tested it
        more = elements - median_along(elements)
        least = ALIKE * float(more.max(initial=0))
        loaded = [rank for rank in slow if more[rank] > least]
        return self.gains.workers(loaded or slow), 2 if len(loaded) == len(slow) else 1

    def _slow_ranks(self) -> list[int]:
        excess = self.gains.worker_excess
        return np.flatnonzero(excess > max(ALIKE * float(excess.max(initial=0)), 0)).tolist()

    def _unless_hosts_take_it(
        self, verdict: str, why: str, one: Suspect, share: float
    ) -> Conclusion:
        """Return the conclusion on slow ranks, none where repairing them would save little."""
        if self.gains.saved_ns(one.ranks) < OWN_SHARE * share * self.ladder.loss_ns:
            whose = "its host" if len(one.ranks) == 1 else "their hosts"
            return Conclusion(
                "", f"{why}, but waiting for {whose} would take up most of the time saved"
            )
        return self._slow(verdict, why, one)

    def _slow(
        self, verdict: str, why: str, one: Suspect, hits: Bool | None = None, *, cap: int = 2
    ) -> Conclusion:
        """Return the conclusion on ranks that compute longer, in all steps or those of a mask.

        What is saved has bounds where transfers hide waits, or where others may wait for copies
        from these ranks. Confidence is low where they may compute longer because they have more
        tokens: where the job exchanges tokens and their files state no sizes.
        """
        sizes = self.facts.elements
        untold = sizes is None or not sizes[list(one.ranks)].any(axis=1).all()
        if hits is None and untold and self.savings.has_more_tokens(one.ranks):
            why += ", and that only between two exchanges of tokens"
            return Conclusion("uneven_experts", why, one, self.savings.experts(one.ranks), cap=1)
        lines = self.savings.lines_of(one.ranks, hits)
        alone = {self.ladder.job.labels[rank] for rank in one.ranks} <= set(self.savings.alone)
        saves = self.savings.as_usual(lines) if alone else self.savings.of(lines)
        bounds = self.savings.bounds(lines, saves, self.facts)
        if verdict != "occasional_worker" and sizes is not None and untold:
            why += "; its all-to-alls have no sizes, and more tokens would look the same"
            cap = 0
        return Conclusion(verdict, why, one, saves, cap, bounds=bounds)

    def _varying(self, share: float) -> Conclusion:
        signs = self.signatures
        is_work = self._is_work()
        if is_work and signs.num_micro_batches >= 2:
            return self._uneven(cap=2)
        experts = self._experts()
        if experts:
            return Conclusion("uneven_experts", experts, None, self.savings.experts())
        found = self.gains.occasional
        for one in found:
            self.shown[f"rank {self._labels(one.ranks)[0]} in its slow steps"] = one.gain
        # What all hosts have in common counts for and against nobody.
        whole = 1 - self.ladder.common_host_ns / self.ladder.loss_ns
        gain, other = ([one.gain / whole for one in found[:2]] + [0.0, 0.0])[:2]
        if gain >= MIN_OCCASIONAL and other < MAX_OTHER_GAIN:
            return self._slow_at_times(found[0])
        if is_work:
            return self._uneven(cap=1)
        unrelated = signs.r_fb is not None and signs.r_fb < MAX_RANDOM_R_FB
        even = signs.r_fb is None and signs.cv is not None and signs.cv < MAX_JITTER_CV
        if self.ladder.job.num_steps < 2:
            span = "only step" if self.ladder.job.period == "a step" else "window"
            return Conclusion("", f"times vary within the {span}")
        if (unrelated or even) and gain < MAX_OTHER_GAIN:
            cap = 0 if (signs.cv or 0.0) >= MAX_CHANCE_CV else 1
            return Conclusion("random", "times vary by chance over ranks and steps", cap=cap)
        if gain >= MAX_OTHER_GAIN:
            return Conclusion(
                "", "several ranks are slow in some steps, and no single one explains it"
            )
        return Conclusion(
            "", "work varies from step to step, and passes do not show whether its amount does"
        )

    def _slow_at_times(self, one: Suspect) -> Conclusion:
        """Return the conclusion on a rank that exceeds its like in some steps, or in all of them.

        Few steps do not tell by how much a rank is slower that exceeds its like in every step, each
        by another part: it has no centre of its own.
        """
        rank, slow = one.ranks[0], one.steps or ()
        computes = f"rank {self._labels(one.ranks)[0]} computes {_times(one.factor)} as long as"
        if self.gains.is_always(rank):
            why = f"{computes} its peers in all steps that are compared"
            always = replace(one, steps=None)
            return self._slow("slow_worker", why, always, self.gains.hits[rank], cap=1)
        steps = f"step{'' if len(slow) == 1 else 's'} {ranges_text(sorted(slow))}"
        # What happened in one step only may have been chance.
        cap = 2 if len(slow) > 1 else 1
        why = f"{computes} usual in {steps}"
        return self._slow("occasional_worker", why, one, self.gains.hits[rank], cap=cap)

    def _experts(self) -> str | None:
        """Why uneven experts explain the times of the ranks, None where they do not."""
        elements = self.facts.elements
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

    def _uneven(self, cap: int) -> Conclusion:
        signs = self.signatures
        scatter = percent(cast("float", signs.cv))  # `_is_work` has tested it
        why = (
            f"forward and backward times of a micro-batch correlate (r = {signs.r_fb:.2f}) and "
            f"vary by {scatter}: the work differs, as with sequences of different lengths"
        )
        return Conclusion("uneven_microbatches", why, None, self.savings.balanced(), cap=cap)

    def _communication(self, share: float) -> Conclusion:
        one = self._pick(self.gains.links, share, self._link_label)
        if one is None:
            return Conclusion("", "transfers are slow, and no single pair or group explains it")
        missing = self.facts.missing_of(one)
        if missing:
            absent = tuple(str(rank) for rank in missing[:8])
            why = (
                f"a whole group waits, and its rank {ranges_text(missing)} is not recorded: it "
                "may be late"
            )
            return Conclusion("", why, saves_ns=one.gain * self.ladder.loss_ns, absent=absent)
        why = f"{self._link_label(one)} transfers {_times(one.factor)} as long as its peers"
        saves = self.savings.transfers(self.gains.instances_of(one))
        return Conclusion("slow_link", why, one, saves)

    def _link_label(self, one: Suspect) -> str:
        labels = self._labels(one.ranks)
        if one.pair is not None:
            return f"pair {labels[0]}-{labels[1]}"
        return f"group of ranks {', '.join(labels[:8])}"

    def _host(self, share: float) -> Conclusion:
        found = self.gains.hosts_idle
        one = self._pick(found, share, lambda s: f"host of rank {self._labels(s.ranks)[0]}")
        if one is not None:
            one = replace(one, steps=self._idle_steps(one.ranks[0]))
            whose = f"the device of rank {self._labels(one.ranks)[0]} idles"
            found_cause = self._idling(whose, self.savings.hosts(one.ranks), one)
            return self._unless_stage_idles(found_cause, one.ranks[0])
        idlest = self._idlest()
        whose = f"the devices of {self._several(idlest)} idle"
        found_cause = self._idling(whose, self.savings.hosts(), None, idlest[:_MOST_NAMED])
        # Several ranks may idle for several reasons, of which the cause is the largest.
        return replace(found_cause, cap=min(found_cause.cap, 1))

    def _idle_steps(self, rank: int) -> tuple[int, ...] | None:
        """Return the steps in which a rank idles beyond its like, None where it does in all."""
        idle = self.ladder.idle
        if idle.is_steady(rank):
            return None
        beyond = idle.beyond_by_step(rank)
        most = beyond >= HALF * beyond.max()
        return tuple(self.ladder.job.table.step_ids[np.flatnonzero(most)].tolist())

    def _unless_stage_idles(self, found: Conclusion, rank: int) -> Conclusion:
        """Return the conclusion on a host, none where those of other stages may be as slow.

        The device of the stage that begins a step waits for its host, those of the others for
        transfers meanwhile, which hides the same delay of theirs. Of a stage of several ranks only
        what one idles beyond the others counts.
        """
        targets, idle = self.ladder.targets, self.ladder.idle
        if not targets.has_stages:
            return found
        alone = int((targets.place == targets.place[rank]).sum()) == 1
        common = found.hosts_cause in (None, HOST_WORK)  # what every host does
        if not alone or not common or not idle.is_steady(rank):
            return found
        why = (
            f"{found.why}; it is the only rank of its stage, and devices of other stages wait "
            "for transfers at the same time, so their hosts may be as slow"
        )
        return Conclusion("", why, saves_ns=found.saves_ns)

    def _idlest(self) -> list[int]:
        """Return the ranks (indices) whose devices idle longest for their hosts, longest first."""
        excess = self.ladder.idle.excess_ns
        least = max(HALF * float(excess.max(initial=0)), 1.0)
        return [rank for rank in np.argsort(-excess).tolist() if excess[rank] >= least]

    def _several(self, idlest: Sequence[int]) -> str:
        """Describe several ranks, and where few idle longest name these."""
        if not 0 < len(idlest) <= _MOST_NAMED or len(idlest) == len(self.ladder.job.labels):
            return "several ranks"
        return f"several ranks, mainly those of {listed(self._labels(idlest))},"

    def all_hosts(self) -> Conclusion:
        """Return the conclusion on host delays that all ranks have alike."""
        return self._idling("the devices of all ranks idle", self.savings.hosts(), None)

    def _idling(
        self, whose: str, saves_ns: float, one: Suspect | None, idlest: Sequence[int] | None = None
    ) -> Conclusion:
        """Return the conclusion on one suspect, or several ranks of which some idle longest."""
        ranks = one.ranks if one else None
        causes = self.facts.idle_causes(ranks or idlest)
        total = sum((causes or {}).values())
        cause = max(causes, key=lambda c: causes[c]) if causes and total > 0 else None
        waits = self.facts.copy_waits(ranks)
        if waits > MAX_APART * saves_ns:
            why = (
                f"{whose} while they wait for the host or for copies from other ranks: no "
                "operator shows which of these copies are collectives"
            )
            bounds = Bounds(max(saves_ns - waits, 0.0), saves_ns, why)
            return Conclusion("host", why, one, saves_ns, cap=0, bounds=bounds)
        if causes and cause and cause != NOTHING and causes[cause] >= 0.5 * total:
            why = f"{whose} while the host {HOST_WORDS[cause]}"
            return Conclusion("host", why, one, saves_ns, hosts_cause=cause)
        # The time of records that a file lacks looks idle.
        seen = [self.ladder.job.labels[rank] for rank in ranks or idlest or ()]
        cap = 0 if any(label in self.facts.lost for label in seen) else 1
        why = f"{whose}, and the trace does not show why"
        return Conclusion("host", why, one, saves_ns, cap=cap)


def _times(factor: float | None) -> str:
    return "some" if factor is None else f"{factor:.2f} times"
