"""Class and culprit within one kind of difference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, cast

import numpy as np

from ccltui.metrics.arrays.reductions import distinct_values, median_along
from ccltui.metrics.attribution.findings import NOTHING, Context, Finding
from ccltui.metrics.attribution.gains import Gains, Suspect
from ccltui.metrics.attribution.ladder import Ladder
from ccltui.metrics.attribution.savings import COPY_WAITS, LEAST_APART, MAX_APART, Savings
from ccltui.metrics.attribution.signatures import Signatures, correlation
from ccltui.metrics.findings.causes.activity import HOST_WORDS
from ccltui.parsers.missing_ranks import ranges_text
from ccltui.parsers.names import listed
from ccltui.parsers.numbers import percent

OWN_SHARE: Final = 0.6
"""A suspect is named where setting it back gains this share of its rung, no other half of it."""
OTHER_SHARE: Final = 0.5
MIN_R_FB, MAX_RANDOM_R_FB, MIN_CV, MIN_R_STAGES = 0.9, 0.5, 0.05, 0.8
MAX_CHANCE_CV: Final = 0.1
"""Spread of the passes of a step beyond which they hold unequal work: kernels and whole passes vary
by up to 8 %. Where forward and backward do not vary together all the same, passes may be wrong."""
MAX_JITTER_CV: Final = 0.02
"""Scatter of whole steps below which no lengths of sequences are behind it."""
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


class Namer:
    """Names what causes one kind of difference; ``gains`` shown so far are in ``shown``."""

    def __init__(self, ladder: Ladder, context: Context, signatures: Signatures) -> None:
        self.ladder, self.context, self.signatures = ladder, context, signatures
        self.gains = Gains(ladder)
        self.savings = Savings(ladder)
        self.shown: dict[str, float] = {}

    def named(self, name: str, share: float) -> Finding:
        """Return the finding of one of the candidates; ``share`` is its share of the loss."""
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

    def _saves(self, gain: float) -> float:
        return gain * self.ladder.loss_ns

    def _labels(self, ranks: Sequence[int]) -> list[str]:
        """Labels of ranks, numbers in ascending order whatever the order of the files."""
        return sorted((self.ladder.job.labels[rank] for rank in ranks), key=lambda s: (len(s), s))

    def _stage(self, share: float) -> Finding:
        one = self._pick(self.gains.stages, share, lambda s: f"stage {s.stage}")
        if one is None:
            node = self._node_of_stages(share)
            return node or Finding("", "stages differ, and no single one of them explains it")
        why = f"stage {one.stage} computes {_times(one.factor)} the time of the other stages"
        alone = len(one.ranks) == 1
        if alone:
            why += "; it is one rank, so that a slow device would look the same"
        saves = self.savings.stage(int(one.stage or 0))
        return Finding("heavy_stage", why, one, saves, cap=1 if alone else 2)

    def _node_of_stages(self, share: float) -> Finding | None:
        """Several stages that are slow by one factor, and are all that one host has."""
        # One slow stage of two gains little alone: the other keeps the pipeline waiting.
        excess = [(one.factor or 1.0) - 1 for one in self.gains.stages]
        least = SAME_FACTOR * max(excess, default=0.0)
        slow = [
            one for one, more in zip(self.gains.stages, excess, strict=True) if more >= least > 0
        ]
        if len(slow) < 2:
            return None
        ranks = sorted(rank for one in slow for rank in one.ranks)
        hosts = self.ladder.job.hosts
        named = {hosts[rank] for rank in ranks}
        members = [
            r for r in distinct_values(self.ladder.job.table.rank).tolist() if hosts[r] in named
        ]
        if len(named) != 1 or "" in named or members != ranks or len(set(hosts)) < 2:
            return None
        one = self.gains.stages_alike(ranks)
        host = named.pop()
        self.shown[f"host {host}"] = one.gain
        if one.gain < OWN_SHARE * share:
            return None
        why = (
            f"all {len(ranks)} ranks of host {host} compute {_times(one.factor)} the time of the "
            "others; they are whole stages, so that more work would look the same"
        )
        suspect = replace(one, host=host)
        return Finding("slow_node", why, suspect, self._saves(one.gain), cap=1)

    def _worker(self, share: float) -> Finding:
        experts = self._experts()
        if experts:
            most = self.gains.workers(self._slow_ranks())
            self.shown["ranks with most tokens"] = most.gain
            names = ", ".join(self._labels(most.ranks)[:8])
            why = f"{experts}, which are largest on rank {names}" if names else experts
            return Finding("uneven_experts", why, most, self.savings.experts(most.ranks))
        node = self._node(share)
        if node is not None:
            return node
        found = self.gains.single_workers
        one = self._pick(found, share, lambda s: f"rank {self._labels(s.ranks)[0]}")
        if one is not None:
            name = self._labels(one.ranks)[0]
            when = "in all steps" if self.ladder.job.period == "a step" else "in the window"
            why = f"rank {name} computes {_times(one.factor)} as long as its peers {when}"
            return self._unless_hosts_take_it("slow_worker", why, one, share)
        slow = self._slow_ranks()
        if 1 < len(slow) <= max(1, int(FEW * len(self.ladder.job.labels))):
            few = self.gains.workers(slow)
            if few.gain >= OWN_SHARE * share:
                names = ", ".join(self._labels(slow))
                why = f"ranks {names} compute {_times(few.factor)} as long as their peers"
                return self._unless_hosts_take_it("slow_worker", why, few, share)
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
        members = [
            rank for rank in distinct_values(self.ladder.job.table.rank) if hosts[rank] == host
        ]
        if set(members) != set(slow) or len(set(hosts)) < 2:
            return None
        one = self.gains.workers(slow)
        self.shown[f"host {host}"] = one.gain
        if one.gain < OWN_SHARE * share:
            return None
        times = _times(one.factor)
        why = f"all {len(slow)} ranks of host {host} compute {times} as long as their peers"
        return self._unless_hosts_take_it("slow_node", why, replace(one, host=host), share)

    def _unless_hosts_take_it(self, verdict: str, why: str, one: Suspect, share: float) -> Finding:
        """Return the finding on slow ranks, none where repairing them would save little."""
        saves = self.gains.saved_ns(one.ranks)
        if saves < OWN_SHARE * self._saves(share):
            whose = "its host" if len(one.ranks) == 1 else "their hosts"
            return Finding("", f"{why}, and gaps of {whose} would take most of that time")
        saves, bounds = self.savings.workers(one.ranks), self.savings.bounds_of_workers(one.ranks)
        found = Finding(verdict, why, one, saves, bounds_ns=bounds)
        return self._unless_copies(self._unless_tokens(found, one.ranks))

    def _unless_tokens(self, found: Finding, ranks: Sequence[int]) -> Finding:
        """Lower the confidence where ranks may compute longer because they have more tokens.

        That is where the job exchanges tokens and the files of these ranks state no sizes.
        """
        elements = self.context.elements
        if elements is None or elements[list(ranks)].any(axis=1).all():
            return found
        why = (
            f"{found.why}; no size of its all-to-alls is recorded: more tokens would look the same"
        )
        return replace(found, why=why, cap=0)

    def _unless_copies(self, found: Finding) -> Finding:
        """Return a finding on slow ranks with bounds where others may wait for copies from them."""
        saves = found.saves_ns or 0.0
        waits = self.context.copy_waits(None) if found.bounds_ns is None else 0.0
        whole = float(self.ladder.rungs[6].mean())
        if waits <= max(MAX_APART * saves, LEAST_APART * whole):
            return found
        return replace(found, bounds_ns=(saves, saves + waits), bounds_why=COPY_WAITS)

    def _varying(self, share: float) -> Finding:
        signs = self.signatures
        by_batch = signs.num_micro_batches >= 2
        is_work = self._is_work()
        if is_work and by_batch:
            return self._uneven(cap=2)
        experts = self._experts()
        if experts:
            return Finding("uneven_experts", experts, None, self.savings.experts())
        found = self.gains.occasional
        for one in found:
            self.shown[f"rank {self._labels(one.ranks)[0]} in its slow steps"] = one.gain
        first = found[0] if found else None
        # What all hosts have in common counts for and against nobody.
        whole = 1 - self.ladder.common_host_ns / self.ladder.loss_ns
        gain = first.gain / whole if first else 0.0
        other = found[1].gain / whole if len(found) > 1 else 0.0
        if first and gain >= MIN_OCCASIONAL and other < MAX_OTHER_GAIN:
            if self.gains.is_always(first.ranks[0]):
                return self._always(first)
            slow = first.steps or ()
            steps = f"step{'' if len(slow) == 1 else 's'} {ranges_text(sorted(slow))}"
            why = (
                f"rank {self._labels(first.ranks)[0]} computes {_times(first.factor)} as long as "
                f"usual in {steps}"
            )
            # What happened in one step only may have been chance.
            cap = 2 if len(first.steps or ()) > 1 else 1
            rank, hits = first.ranks[0], self.gains.hits[first.ranks[0]]
            saves, bounds = (
                self.savings.in_steps(rank, hits),
                self.savings.bounds_in_steps(rank, hits),
            )
            told = Finding("occasional_worker", why, first, saves, cap=cap, bounds_ns=bounds)
            return self._unless_copies(told)
        if is_work:
            return self._uneven(cap=1)
        unrelated = signs.r_fb is not None and signs.r_fb < MAX_RANDOM_R_FB
        even = signs.r_fb is None and signs.cv is not None and signs.cv < MAX_JITTER_CV
        if self.ladder.job.num_steps < 2:
            span = "only step" if self.ladder.job.period == "a step" else "window"
            return Finding("", f"times vary within the {span}")
        if (unrelated or even) and gain < MAX_OTHER_GAIN:
            cap = 0 if (signs.cv or 0.0) >= MAX_CHANCE_CV else 1
            return Finding("random", "times vary by chance over ranks and steps", cap=cap)
        if first and gain >= MAX_OTHER_GAIN:
            return Finding(
                "", "several ranks are slow in some steps, and no single one explains it"
            )
        return Finding(
            "", "work varies from step to step, and passes do not tell whether by its amount"
        )

    def _always(self, one: Suspect) -> Finding:
        """Return the finding on a rank that exceeds its like in every step, each by another part.

        Few steps do not tell by how much it is slower, so that it has no centre of its own.
        """
        rank, hits = one.ranks[0], self.gains.hits[one.ranks[0]]
        why = (
            f"rank {self._labels(one.ranks)[0]} computes {_times(one.factor)} as long as its peers "
            "in all steps that are compared"
        )
        saves = self.savings.in_steps(rank, hits)
        bounds = self.savings.bounds_in_steps(rank, hits)
        told = Finding("slow_worker", why, replace(one, steps=None), saves, 1, bounds_ns=bounds)
        return self._unless_copies(self._unless_tokens(told, one.ranks))

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
        saves = self.savings.balanced()
        scatter = percent(cast("float", signs.cv))  # `_is_work` has tested it
        why = (
            f"forward and backward times of a micro-batch go together (r = {signs.r_fb:.2f}) and "
            f"scatter by {scatter}: the work differs, as with sequences of different length"
        )
        return Finding("uneven_microbatches", why, None, saves, cap=cap)

    def _communication(self, share: float) -> Finding:
        found = self.gains.links
        one = self._pick(found, share, self._link_label)
        if one is None:
            return Finding("", "transfers are slow, and no single pair or group explains it")
        missing = self.context.missing_of(one)
        if missing:
            absent = tuple(str(rank) for rank in missing[:8])
            why = (
                f"a group waits together, and rank {ranges_text(missing)} of it is not recorded: "
                "it may be late"
            )
            return Finding("", why, saves_ns=self._saves(one.gain), absent=absent)
        why = f"{self._link_label(one)} transfers {_times(one.factor)} as long as its peers"
        return Finding("slow_link", why, one, self.savings.transfers(self.gains.instances_of(one)))

    def _link_label(self, one: Suspect) -> str:
        labels = self._labels(one.ranks)
        if one.pair is not None:
            return f"pair {labels[0]}-{labels[1]}"
        return f"group of ranks {', '.join(labels[:8])}"

    def _host(self, share: float) -> Finding:
        found = self.gains.hosts_idle
        one = self._pick(found, share, lambda s: f"host of rank {self._labels(s.ranks)[0]}")
        if one is not None:
            whose = f"the device of rank {self._labels(one.ranks)[0]} idles"
            found_cause = self._idling(whose, self.savings.hosts(one.ranks), one)
            return self._unless_stage_idles(found_cause, one.ranks[0])
        idlest = self._idlest()
        whose = f"the devices of {self._several(idlest)} idle"
        found_cause = self._idling(whose, self.savings.hosts(), None, idlest[:_MOST_NAMED])
        # Several ranks may idle for several reasons, of which the cause is the largest.
        return replace(found_cause, cap=min(found_cause.cap, 1))

    def _unless_stage_idles(self, found: Finding, rank: int) -> Finding:
        """Return the finding on a host, none where those of its like may be as slow.

        The device of the stage that begins a step waits for its host, those of the others for
        transfers meanwhile, which hides the same delay of theirs.
        """
        targets, host = self.ladder.targets, self.ladder.host
        if not targets.has_stages:
            return found
        like = np.flatnonzero(targets.place == targets.place[rank])
        others = host.excess_ns[like[like != rank]]
        if len(others) and median_along(others) >= HALF * host.excess_ns[rank]:
            why = f"{found.why}; the other ranks of its stage idle as long"
        elif not len(others) and found.hosts_cause is None and host.is_steady(rank):
            why = (
                f"{found.why}; it is the only rank of its stage, and the devices of other stages "
                "wait for transfers meanwhile: whether their hosts are as slow is not told"
            )
        else:
            return found
        return Finding("", why, saves_ns=found.saves_ns)

    def _idlest(self) -> list[int]:
        """Return the ranks (indices) whose devices idle longest for their hosts, longest first."""
        excess = self.ladder.host.excess_ns
        least = max(HALF * float(excess.max(initial=0)), 1.0)
        return [rank for rank in np.argsort(-excess).tolist() if excess[rank] >= least]

    def _several(self, idlest: Sequence[int]) -> str:
        """Describe several ranks, and where few idle longest name these."""
        if not 0 < len(idlest) <= _MOST_NAMED or len(idlest) == len(self.ladder.job.labels):
            return "several ranks"
        return f"several ranks, most those of {listed(self._labels(idlest))},"

    def all_hosts(self) -> Finding:
        """Return the finding on host delays that all ranks have alike."""
        return self._idling("the devices of all ranks idle", self.savings.hosts(), None)

    def _idling(
        self, whose: str, saves_ns: float, one: Suspect | None, idlest: Sequence[int] | None = None
    ) -> Finding:
        """Return the finding on one suspect, or on several ranks of which some idle longest."""
        ranks = one.ranks if one else None
        causes = self.context.idle_causes(ranks or idlest)
        total = sum((causes or {}).values())
        cause = max(causes, key=lambda c: causes[c]) if causes and total > 0 else None
        waits = self.context.copy_waits(ranks)
        if waits > MAX_APART * saves_ns:
            why = (
                f"{whose}, for the host or for copies from other ranks: no operator tells which of "
                "these are collectives"
            )
            bounds = max(saves_ns - waits, 0.0), saves_ns
            return Finding("host", why, one, saves_ns, cap=0, bounds_ns=bounds)
        if causes and cause and cause != NOTHING and causes[cause] >= 0.5 * total:
            why = f"{whose} while the host {HOST_WORDS[cause]}"
            return Finding("host", why, one, saves_ns, hosts_cause=cause)
        # The time of records that a file lacks looks idle.
        lost = self.context.lost()
        seen = [self.ladder.job.labels[rank] for rank in ranks or idlest or ()]
        cap = 0 if any(label in lost for label in seen) else 1
        return Finding("host", f"{whose}, and the trace does not show why", one, saves_ns, cap=cap)


def _times(factor: float | None) -> str:
    return "some" if factor is None else f"{factor:.2f} times"
