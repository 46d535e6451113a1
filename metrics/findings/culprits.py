"""Who causes a loss, how sure that is, and what fixing it saves.

Several witnesses are heard: the roots of the waiting at matched collectives (`blame_chain`), the
replay of the job without one kind of difference after another (`verdict`), the replay without
the excess of one rank (`what_if_no_straggler`), and the times of each rank's own kernels
and transfers (`own_times`, `accused`, `link_times`), which need no replay. Where they agree on a
rank the higher confidence counts; where the replay names another rank, the confidence is low. Times
of their own decide where the replay names nobody.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from ccltui.metrics.confidence import LEVELS, Level, Sure, highest, level_of_saving, lowest
from ccltui.metrics.device.device_counters import clock_gap_of
from ccltui.metrics.findings.accused import (
    COMPUTING,
    FAR_MORE,
    NAMED,
    SLOW,
    Accused,
    lost_ms,
    most_saved,
)
from ccltui.metrics.findings.causes.activity import HOST_CAUSES, HOST_STALL
from ccltui.metrics.findings.causes.cause_search import HOST_LATE
from ccltui.metrics.findings.causes.roots import root_waiting
from ccltui.metrics.findings.finding import Evidence, Finding, Kind, Where, why_not_exact
from ccltui.metrics.findings.rank_time.partition import COMPUTE, partition
from ccltui.metrics.findings.sentences import (
    CAUSES,
    IDLE,
    UNRECORDED_HOST,
    cost_text,
    named_text,
    waiting_text,
    what_to_do,
)
from ccltui.metrics.findings.waits.own_times import (
    LEAST_EXCESS,
    SUPPORTED,
    busiest,
    computes_longer,
    has_stages,
    is_always_slow,
    is_busiest,
    is_supported,
)
from ccltui.metrics.view.words import sentence
from ccltui.parsers.numbers import percent, time_text

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.columns import RankTrace

OF_HOSTS: Final[frozenset[Kind]] = frozenset(
    {
        "data_loading",
        "host_allocation",
        "host_synchronisation",
        "checkpoint",
        "garbage_collection",
        "host_bound",
    }
)
"""Classes of idle time that hosts cause."""
_KINDS: Final[Mapping[str, Kind]] = {
    cause: "host_bound" if cause not in IDLE else IDLE[cause].kind
    for cause in (*HOST_CAUSES, HOST_STALL, HOST_LATE)
}
"""Classes of idle time by what the host of a late rank does."""
ALWAYS: Final = ("slow_worker", "slow_node", "heavy_stage", "uneven_experts")
"""Classes of what is so in all steps."""
LEAST_FACTOR: Final = 1 + LEAST_EXCESS
"""Ranks slower by less are never named surely: devices of a kind differ by some per cent."""
MANY_MISSING: Final = 0.2
"""Share of ranks without a file from which waits alone name nobody surely: the late rank may be one
of those, as it is on four ranks of eight of a public recording."""
LEAST_UNSURE: Final = 0.02
"""Of less waiting nobody is named unless surely: by chance somebody always comes last."""
MOST_BY_CHANCE: Final = 0.1
"""Share of the time that others wait at most for the last of hosts that are all late by chance: 3 %
in generated jobs. In a recorded job of eight ranks they wait 31 % for one and 25 % for another."""
STANDS_OUT: Final = 2.0
"""Multiple of the waiting for any other rank by which an unsure one has to exceed it: where ranks
vary by chance alone, that for the rank that comes last most often is up to 1.8 times the next."""
_MOST_UNKNOWN: Final = 3
MAIN_CAUSE: Final = 0.6
"""Share of all idle time for hosts from which on one cause of it is taken for that of what hosts
cost in all: the replay gives back all of it together. It is no cost of all hosts where this share
of it is waiting for half of the ranks or fewer."""
BEHIND: Final = 1.1
"""Hosts that cost this many times what devices idle for them keep other ranks waiting too."""
_NOTHING: Final = 5e-4
"""Share of a step below which a saving would be printed as 0.0 %."""
_ALIKE: Final = 0.05
"""Part of a cost by which what is saved differs without a word: less is no difference in print."""
EXPLAINED: Final = 0.8
"""Part of the time for which the others have to wait for a busy rank from which on the waiting at
matched collectives shows all of it: the rest is transfers, and scatter of clocks."""


def details_of(view: View, name: str) -> Mapping[str, Any]:
    """Return the details of a metric of a view, empty where it is unavailable."""
    from ccltui.metrics import registry  # noqa: PLC0415  (metrics read findings)

    result = registry.find(name).run(view)
    return {} if result.status == "unavailable" else result.details


class Culprits:
    """What the metrics of one view state about who makes it slow; each is read at first use."""

    def __init__(self, view: View, period_ms: float = 0.0, *, by_steps: bool = True) -> None:
        """Store the view, and what costs are stated for: a step, or the window.

        Args:
            view: the job.
            period_ms: device span of a step, or of the window.
            by_steps: whether that is a step.
        """
        self._view = view
        self._period_ms = period_ms
        self._by_steps = by_steps
        self._is_job = len(view.job.ranks) > 1

    def _details(self, name: str) -> Mapping[str, Any]:
        return details_of(self._view, name) if self._is_job else {}

    @cached_property
    def verdict(self) -> Mapping[str, Any]:
        """Details of the metric ``verdict``, empty where it is unavailable.

        Its times are those of a step, or of the window where findings are about it: the replay
        then takes from one recurring call to the next for a step.
        """
        found = self._details("verdict")
        if self._by_steps or not found:
            return found
        # What happened in some steps is known of those that are replayed, and not of the rest.
        in_some = bool((found["culprit"] or {}).get("steps"))
        steps = found["num_steps"] if in_some else self._period_ms / found["ladder_ms"][-1]
        bounds = found["saves_bounds_ms"]
        return {
            **found,
            "loss_ms": found["loss_ms"] * steps,
            "saves_ms": _times(found["saves_ms"], steps),
            "saves_bounds_ms": None if bounds is None else [one * steps for one in bounds],
            "also": [{**one, "saves_ms": _times(one["saves_ms"], steps)} for one in found["also"]],
        }

    @cached_property
    def _accused(self) -> Accused:
        """Whom that verdict accuses, by what the times of the ranks say."""
        return Accused(self._view, self.verdict, self._period_ms)

    @cached_property
    def _told(self) -> Mapping[str, Any]:
        """That verdict, or what those times tell in its place."""
        return self._accused.told()

    @property
    def chain(self) -> Mapping[str, Any]:
        """Details of the metric ``blame_chain``, empty where it is unavailable."""
        return self._details("blame_chain")

    def cause_of(self, label: str) -> str:
        """Return why a rank is late: the cause behind most of the waiting for it, "" if unknown."""
        return self._causes.get(label, "")

    @cached_property
    def _causes(self) -> Mapping[str, str]:
        """The cause by rank, from one pass over all waits, of which each rank has some."""
        largest: dict[str, Mapping[str, Any]] = {}
        for row in self.chain.get("roots") or ():
            before = largest.get(row["rank"])
            if row["cause"] in CAUSES and (
                before is None or row["caused_wait_ms"] > before["caused_wait_ms"]
            ):
                largest[row["rank"]] = row
        causes = {label: str(row["cause"]) for label, row in largest.items()}
        silent = {rank.label for rank in self._view.job.ranks if not _has_host(rank)}
        causes |= {one: UNRECORDED_HOST for one in silent if causes.get(one) == HOST_STALL}
        unread = {str(file.rank) for file in self._view.job.capture.files} - self._recorded
        return causes | dict.fromkeys(unread & causes.keys(), "not_read")

    def sure_of(self, label: str) -> Level:
        """Return how sure it is that a rank is the one that the others wait for."""
        return self._sure_of((label,))

    def _sure_of(self, labels: Sequence[str]) -> Level:
        found: Level = "low"
        if any(label not in self._recorded for label in labels):
            return found  # a link to a rank without a file may be slow as well
        if self.chain.get("root_rank") in labels:
            found = highest(found, self.chain.get("root_confidence") or "low")
        named = [str(one) for one in (self.verdict.get("culprit") or {}).get("ranks") or ()]
        confidence: Level = self.verdict.get("confidence") or "low"
        if named and set(labels) <= set(named):
            return highest(found, confidence)
        # Where the hosts of all ranks are late, one of them is the last, by chance or not.
        of_hosts = self.verdict.get("verdict") == "host"
        others = named or (of_hosts and any(self.cause_of(one) != "compute" for one in labels))
        return "low" if others and LEVELS.index(confidence) >= LEVELS.index("medium") else found

    @property
    def _all_hosts_are_late(self) -> bool:
        """Whether the replay is sure that the hosts of all ranks are late, no single one."""
        verdict = self.verdict
        of_nobody = not (verdict.get("culprit") or {}).get("ranks")
        sure = verdict.get("confidence") in ("medium", "high")
        return verdict.get("verdict") == "host" and of_nobody and sure

    @cached_property
    def _many_missing(self) -> bool:
        """Whether so many ranks are not recorded that one of them may well be the late one."""
        missing, here = len(self._view.job.missing_ranks), len(self._view.job.ranks)
        return missing > MANY_MISSING * (missing + here)

    @cached_property
    def _recorded(self) -> frozenset[str]:
        return frozenset(trace.label for trace in self._view.job.ranks)

    def is_supported(self, label: str, share: float, other: float) -> bool:
        """Return whether a rank is busy long enough for others to wait a share of time for it.

        ``other`` is the largest share that they wait for another rank, or for none in particular.
        """
        if self.sure_of(label) in ("medium", "high") or label not in self._recorded:
            return True
        if share < LEAST_UNSURE or not is_supported(self._view, (label,), share):
            return False
        named = map(str, (self._told.get("culprit") or {}).get("ranks") or ())
        if self._waited_for_alone(label) < LEAST_UNSURE and label not in named:
            return False
        of_hosts = self._all_hosts_are_late and self.cause_of(label) != "compute"
        if of_hosts and share < MOST_BY_CHANCE and not is_busiest(self._view, label):
            return False
        return share > STANDS_OUT * other or self._sets_the_pace(label, share)

    def _waited_for_alone(self, label: str) -> float:
        """Return the share of rank time that others wait for a rank and for no other as well.

        Without a last rank that chance makes late the one before it would be waited for, and the
        first stage of a pipeline ends its last backward pass after the others however fast it is.
        """
        found = root_waiting(self._view)
        return found.behind_ranks().get(label, 0) / max(found.rank_time_ns, 1)

    def _sets_the_pace(self, label: str, share: float) -> bool:
        """Return whether a replay without the excess of a rank saves most of a share of time."""
        details = self._details("what_if_no_straggler")
        row = (details.get("without_rank") or {}).get(label) or {}
        saved, step = row.get("saved_ms"), details.get("step_time_ms")
        return bool(saved and step and saved >= share * step / STANDS_OUT)

    def refine(self, found: Sequence[Finding]) -> list[Finding]:
        """Return parts of the partition with named culprits, and with what mending saves."""
        told = [
            self._with_counted(with_saving_text(one, self._period_ms, by_steps=self._by_steps))
            for one in self._refined(found)
        ]
        return [self._no_surer_than_waits(one) for one in told] if self._many_missing else told

    def _with_counted(self, one: Finding) -> Finding:
        """Return the finding with where else its time is counted than as waiting for its ranks."""
        if one.kind not in NAMED | {"waiting_for_rank"} or one.share is None:
            return one
        divided, ranks = partition(self._view), one.where.ranks
        waited = sum(
            part.total_ns
            for part in divided.losses
            if part.kind == "straggler" and (not ranks or part.what in ranks)
        )
        share = waited / max(sum(divided.span_ns.values()), 1)
        if one.share <= share or percent(share) == percent(one.share):
            return one
        parts = "computing, communication, a pipeline bubble or idle time"
        told = (
            f"Of these {percent(one.share)}, {percent(share)} is waiting at collectives; the rest "
            f"is counted as {parts}."
            if waited
            else f"No matched collective shows this waiting: it is counted as {parts}."
        )
        return replace(one, more=" ".join(filter(None, (one.more, told))))

    @staticmethod
    def _no_surer_than_waits(one: Finding) -> Finding:
        """Return the finding, of a rank that others wait for with low certainty."""
        if one.kind != "waiting_for_rank":
            return one
        return replace(one, sure=replace(one.sure, who=lowest("low", one.sure.who)))

    def _refined(self, found: Sequence[Finding]) -> list[Finding]:
        with_savings = [self._with_saving(one) for one in found]
        named = self._named(with_savings)
        if named is None:
            by_times = self._by_busy_times(self._late_for_host(with_savings))
            return [*self._absent(by_times), *by_times]
        absorbed = self._absorbed(with_savings, named)
        return [named, *(one for one in with_savings if one not in absorbed)]

    def _waits_for(self, ranks: tuple[str, ...], share: float, cost_ms: float) -> str:
        """Return the sentence on ranks that the others wait for."""
        here, missing = [rank.label for rank in self._view.ranks], self._view.job.missing_ranks
        much = cost_text(cost_ms, by_steps=self._by_steps)
        return sentence(waiting_text(ranks, here, share, much, all_here=not missing))

    def _with_saving(self, one: Finding) -> Finding:
        """Return the finding on a rank with what its replay without excess saves.

        Much more may be saved than the waiting that is attributed to the rank, as its peers wait
        for each other too; it is the cost then, where it is sure that the rank is to blame.
        """
        if one.kind != "waiting_for_rank" or len(one.where.ranks) != 1 or one.cost_ms is None:
            return one
        label = one.where.ranks[0]
        details = self._details("what_if_no_straggler")
        row = (details.get("without_rank") or {}).get(label)
        if not row or row.get("saved_ms") is None:
            return one
        steps = 1.0 if self._by_steps else self._period_ms / details["step_time_ms"]
        saves = row["saved_ms"] * steps
        bounds = [one * steps for one in details.get("saved_bounds_ms") or ()] or None
        is_sure = one.sure.who in ("high", "medium")
        if saves > one.cost_ms and not is_sure:
            return replace(
                one, saves_why="a replay saves more than the time that ranks wait for this one"
            )
        key = f"without_rank.{label}.saved_ms"
        evidence = Evidence("what_if_no_straggler", key, row["saved_ms"], "ms")
        cost = self._cost(one.cost_ms, saves)
        if cost > one.cost_ms:
            share = cost / self._period_ms
            one = replace(one, text=self._waits_for((label,), share, cost), share=share)
        return replace(
            one,
            cost_ms=cost,
            saves_ms=_exact(saves, bounds),
            saves_bounds_ms=_pair(bounds),
            saves_why="",
            sure=replace(one.sure, how_much="low" if bounds else lowest("medium", one.sure.who)),
            evidence=(*one.evidence, evidence),
        )

    def _cost(self, waited_ms: float, saves_ms: float) -> float:
        """Return what a late rank costs: the waiting for it, or what its replay saves.

        The latter where it is `FAR_MORE` than the waiting: transfers that no rank is late to then
        wait for it as well. Less is what the late rank itself idles or computes longer.
        """
        is_far_more = saves_ms > FAR_MORE * waited_ms
        return min(saves_ms, self._period_ms) if is_far_more else waited_ms

    def _late_for_host(self, found: Sequence[Finding]) -> list[Finding]:
        """Return findings with the waits and idle times that the host of one rank causes as one.

        The replay names that rank: transfers that are matched to no late rank wait for it too.
        """
        verdict = self.verdict
        ranks = tuple(map(str, (verdict.get("culprit") or {}).get("ranks") or ()))
        confidence: Level = verdict.get("confidence") or "low"
        if verdict.get("verdict") != "host":
            return list(found)
        if any(trace.replica for trace in self._view.job.ranks):
            return list(found)  # replicas do not wait for each other, as a replay of steps has it
        if not ranks and confidence != "low":
            return self._late_for_all_hosts(found)
        if len(ranks) != 1:
            return list(found)
        if has_stages(self._view.ranks):
            # devices of other stages wait meanwhile, whatever their hosts do
            confidence = lowest("medium", confidence)
        own = [one for one in found if one.where.ranks == ranks]
        waits = [one for one in own if one.kind == "waiting_for_rank"]
        saves, bounds = verdict.get("saves_ms"), verdict.get("saves_bounds_ms")
        waited = sum(one.cost_ms or 0.0 for one in waits)
        cost = self._cost(waited, min(saves or 0.0, self._not_computed_ms))
        if not cost or not self._period_ms:
            return list(found)
        if confidence == "low":  # waits at matched calls may be surer of the same rank
            confidence = highest(confidence, *(one.sure.who for one in waits))
        idle = max(own, key=lambda one: one.cost_ms or 0.0, default=None)
        cause = self.cause_of(ranks[0])
        more, do = CAUSES.get(cause, ("", ""))
        share = cost / self._period_ms if cost > waited else sum(one.share or 0.0 for one in waits)
        if not is_supported(self._view, ranks, share):
            confidence = "low"  # its device may idle in waits for others that no kernel shows
        saves = _exact(saves, bounds)
        merged = Finding(
            kind="waiting_for_rank",
            text=self._waits_for(ranks, share, cost),
            more=sentence(more or (idle.more or idle.text if idle else "")),
            where=Where(ranks=ranks),
            share=share,
            cost_ms=cost,
            saves_ms=saves,
            saves_bounds_ms=_pair(bounds),
            saves_why=why_not_exact(saves, bounds),
            sure=Sure(
                what=confidence, who=confidence, how_much=level_of_saving(saves, bounds, confidence)
            ),
            evidence=(
                *self._replayed(),
                *(item for one in waits for item in one.evidence[:1]),
            ),
            place=next((one.place for one in own if one.place), {"rank": ranks[0], "step": None}),
            do=do or (idle.do if idle else ""),
        )
        return [merged, *(one for one in found if one not in waits)]

    def _late_for_all_hosts(self, found: Sequence[Finding]) -> list[Finding]:
        """Return findings with what hosts cost that hold up all ranks, at their main cause.

        Devices idle for their own hosts, and wait in transfers behind others that do.
        """
        saves, period_ms = self.verdict.get("saves_ms"), self._period_ms
        idle = [one for one in found if one.kind in OF_HOSTS and one.cost_ms]
        main = max(idle, key=lambda one: one.cost_ms or 0.0, default=None)
        if main is None or main.cost_ms is None or saves is None or not period_ms:
            return list(found)
        if main.cost_ms < MAIN_CAUSE * sum(one.cost_ms or 0.0 for one in idle):
            return list(found)
        if self._few_keep_waiting(found, saves - main.cost_ms) or self._others_cause(main.kind):
            return list(found)
        # The replay gives back all delays of hosts; the other causes have findings of their own.
        others = sum(one.cost_ms or 0.0 for one in idle if one is not main)
        saves = min(saves, max(saves - others, main.cost_ms))
        lost = min(saves, self._not_computed_ms)
        cost = self._cost(main.cost_ms, lost)
        text, more, why = main.text, [main.more], ""
        note = f"with the ranks that then wait, {percent(lost / period_ms)} of the time is lost"
        if cost > main.cost_ms:
            text = sentence(f"{text.removesuffix('.')}; {note}")
        elif lost > BEHIND * main.cost_ms:
            more.append(sentence(note))
        if lost > cost:
            why = f"with the ranks that then wait, a replay saves {time_text(lost)}"
        told = replace(
            main,
            text=text,
            more=" ".join(filter(None, more)),
            share=cost / period_ms if cost > main.cost_ms else main.share,
            cost_ms=cost,
            saves_ms=None if why else lost,
            saves_why=why,
            sure=replace(main.sure, how_much="medium"),
            evidence=(*self._replayed(), *main.evidence),
        )
        return [told, *(one for one in found if one is not main)]

    @cached_property
    def _not_computed_ms(self) -> float:
        """Time of a period in which the busiest device does not compute: the most that hosts cost.

        A replay may save more: a step of it begins with the wait for the host before the first
        recorded work, which is in no device time.
        """
        divided = partition(self._view)
        computing = divided.times_by(lambda part: COMPUTE if part.kind == COMPUTE else None)
        busiest_share = max(
            (times[COMPUTE] / max(divided.span_ns[label], 1) for label, times in computing.items()),
            default=0.0,
        )
        return self._period_ms * (1.0 - busiest_share)

    def _few_keep_waiting(self, found: Sequence[Finding], lost_ms: float) -> bool:
        """Return whether most of a loss is waiting for some ranks: their hosts cost it, not all."""
        waits = [one for one in found if one.kind == "waiting_for_rank" and one.where.ranks]
        ranks = {rank for one in waits for rank in one.where.ranks}
        waited_ms = sum(one.cost_ms or 0.0 for one in waits)
        few = 2 * len(ranks) <= len(self._view.job.ranks)
        return few and lost_ms > 0.0 and waited_ms >= MAIN_CAUSE * lost_ms

    def _others_cause(self, kind: Kind) -> bool:
        """Return whether most waiting for late hosts began while they did something else."""
        known, own = 0.0, 0.0
        for row in self.chain.get("roots") or ():
            found = _KINDS.get(row["cause"])
            if found is not None:
                known += row["caused_wait_ms"]
                own += row["caused_wait_ms"] if found == kind else 0.0
        return own < (1 - MAIN_CAUSE) * known

    def _absent(self, found: Sequence[Finding]) -> Iterator[Finding]:
        """Yield a finding on the only rank without a file, where the others may wait for it."""
        if any(one.kind == "waiting_for_rank" and one.where.ranks for one in found):
            return
        stated = self._details("verdict").get("also") or ()
        for place, one in enumerate(self.verdict.get("also") or ()):
            culprit = one["culprit"] or {}
            ranks = tuple(map(str, culprit.get("ranks") or ()))
            cost = min(one["saves_ms"] or 0.0, self._period_ms)
            if culprit.get("recorded") is False and len(ranks) == 1 and cost:
                share = cost / self._period_ms
                much = cost_text(cost, by_steps=self._by_steps)
                yield Finding(
                    kind="waiting_for_rank",
                    text=sentence(
                        f"the others may wait for rank {ranks[0]}, whose file is missing: up to "
                        f"{percent(share)} of the time{much}"
                    ),
                    where=Where(ranks=ranks),
                    share=share,
                    cost_ms=cost,
                    saves_why="what it does is not recorded",
                    sure=Sure(what="low", who="low"),
                    evidence=(
                        Evidence(
                            "verdict", f"also.{place}.saves_ms", stated[place]["saves_ms"], "ms"
                        ),
                    ),
                    do="Record that rank too, or find its trace.",
                )
                return

    def _by_busy_times(self, found: Sequence[Finding]) -> list[Finding]:
        """Return findings with the rank that is busy longest, where nothing surer names one."""
        sure = self.verdict.get("confidence") in ("medium", "high")
        if not self._is_job or (sure and self.verdict.get("verdict") != "host"):
            return list(found)
        one = busiest(self._view)
        claims = [claim for claim in found if claim.kind == "waiting_for_rank"]
        if one is None or any(claim.sure.who in ("medium", "high") for claim in claims):
            return list(found)
        own = [claim for claim in claims if claim.where.ranks == one.ranks]
        waited, here = sum(claim.share or 0.0 for claim in own), len(self._view.job.ranks)
        # The rank itself does not wait: what it is busy longer is counted where it is spent.
        seen = waited >= EXPLAINED * one.share * (here - 1) / here
        share = waited if seen else max(one.share, waited)
        if sure:  # the hosts of all ranks are late
            one = replace(one, sure="low")
        more, do = CAUSES.get(self.cause_of(one.ranks[0]), ("", ""))
        named = Finding(
            kind="waiting_for_rank",
            text=self._waits_for(one.ranks, share, share * self._period_ms),
            more=sentence(more or "it waits less than all other ranks"),
            where=Where(ranks=one.ranks),
            share=share,
            cost_ms=share * self._period_ms,
            saves_why="no replay shows how much shorter a step would be",
            sure=Sure(what="high", who=one.sure),
            evidence=(*self._own_evidence(one.ranks), *(e for c in own for e in c.evidence[:1])),
            place={"rank": one.ranks[0], "step": None},
            do=do,
        )
        return [named, *(claim for claim in found if claim not in claims)]

    def _absorbed(self, found: Sequence[Finding], named: Finding) -> list[Finding]:
        """Return the waits that a named culprit causes: those for its ranks, or all without any.

        A slow link that is no ranks' makes nobody late.
        """
        ranks = set(named.where.ranks)
        if named.kind == "slow_link" and not ranks:
            return []
        return [
            one
            for one in found
            if one.kind == "waiting_for_rank"
            and (not ranks or (one.where.ranks and set(one.where.ranks) <= ranks))
        ]

    def _named(self, found: Sequence[Finding]) -> Finding | None:
        """Return the finding on what the verdict or own times name, None where they do not."""
        verdict, period_ms = self._told, self._period_ms
        kind = verdict.get("verdict")
        if kind not in NAMED or not period_ms:
            return None
        culprit = verdict.get("culprit") or {}
        where = Where(
            ranks=tuple(map(str, culprit.get("ranks") or ())),
            host=culprit.get("host"),
            group=culprit.get("group"),
            stage=culprit.get("stage"),
            steps=tuple(culprit.get("steps") or ()),
        )
        bare = Finding(kind=kind, text="", where=where)
        waits = self._absorbed(found, bare)
        saves, bounds = verdict.get("saves_ms"), verdict.get("saves_bounds_ms")
        cost = min(lost_ms(verdict, waits), period_ms)
        if not cost:
            return None  # fixing it saves nothing
        if verdict is not self.verdict and most_saved(verdict) < SUPPORTED * cost:
            return None  # the others wait for it far longer than it is slow: for another reason
        confidence: Level = verdict.get("confidence") or "low"
        if verdict is self.verdict and saves is None and bounds and not bounds[0]:
            confidence = "low"  # it is slow, and yet may delay nobody
        if kind in COMPUTING and (
            (culprit.get("factor") or LEAST_FACTOR) < LEAST_FACTOR
            or not computes_longer(self._view, where.ranks, cost / period_ms)
        ):
            confidence = "low"
        if (
            kind in ALWAYS
            and verdict is self.verdict
            and not is_always_slow(self._view, where.ranks)
        ):
            confidence = "low"
        if kind in ("slow_worker", "occasional_worker") and confidence == "high":
            slow = self._accused.slower
            agree = slow is not None and set(slow.ranks) == set(where.ranks)
            confidence = "high" if agree else "medium"
        waited = sum(one.cost_ms or 0.0 for one in waits)
        saves = _exact(saves, bounds)
        at_most = saves is None and bounds is not None and cost > waited
        text = named_text(str(kind), culprit, cost / period_ms, at_most=at_most)
        clocks = clock_gap_of(details_of(self._view, "sm"), where.ranks) if kind in SLOW else None
        if confidence == "low":
            text = f"probably {text}"
        if kind == "slow_link" and verdict is not self.verdict:
            bounds = None  # stages that wait for one another may wait for each of its transfers
        return replace(
            bare,
            text=sentence(text),
            more="" if clocks is None else sentence(clocks.text),
            share=cost / period_ms,
            cost_ms=cost,
            saves_ms=saves,
            saves_bounds_ms=_pair(bounds),
            saves_why=why_not_exact(saves, bounds),
            sure=Sure(
                what=confidence,
                who=confidence if where.ranks else "unknown",
                how_much=level_of_saving(saves, bounds, confidence),
            ),
            evidence=(
                *(self._replayed() if saves is not None else ()),
                *(() if verdict is self.verdict else self._own_evidence(where.ranks)),
                *(item for one in waits for item in one.evidence[:1]),
                *(() if clocks is None else (Evidence("sm", *clocks.reading),)),
            ),
            place=next((one.place for one in waits if one.place), None)
            or ({"rank": where.ranks[0], "step": None} if where.ranks else None),
            do=what_to_do(str(kind), culprit),
        )

    def _replayed(self) -> Iterator[Evidence]:
        """Yield what the verdict saves, as that metric states it: by step."""
        saves = self._details("verdict").get("saves_ms")
        if saves is not None:
            yield Evidence("verdict", "saves_ms", saves, "ms")

    def _own_evidence(self, labels: Sequence[str]) -> Iterator[Evidence]:
        """Yield the share of computing of the first rank that its own times name."""
        rows = details_of(self._view, "step_composition").get("per_rank") or {}
        row = (rows.get(labels[0]) if labels else None) or {}
        if row.get(COMPUTE) is not None:
            key = f"per_rank.{labels[0]}.{COMPUTE}"
            yield Evidence("step_composition", key, row[COMPUTE], "ratio")

    def unknown(self) -> Iterator[str]:
        """Yield what would tell more, one sentence each."""
        for text in tuple(self.verdict.get("next") or ())[:_MOST_UNKNOWN]:
            yield sentence(f"to learn more, record {text}")


def _has_host(rank: RankTrace) -> bool:
    """Return whether any operator, call or Python frame of the host of a rank is recorded."""
    return any(len(rank.group(one)) for one in ("cpu_ops", "runtime", "python"))


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _exact(saves_ms: float | None, bounds_ms: Sequence[float] | None) -> float | None:
    """Return what is saved, None where it is only known to be at most that.

    Hosts that launch hardly faster than devices work may keep the step as long as it is.
    """
    return None if bounds_ms and not bounds_ms[0] else saves_ms


def _pair(bounds_ms: Sequence[float] | None) -> tuple[float, float] | None:
    return None if bounds_ms is None else (bounds_ms[0], bounds_ms[1])


def _at_most_cost(one: Finding) -> Finding:
    """Return the finding with a saving that is a part of its cost.

    The cost of a late rank is the waiting of the others. A replay without its delay saves the delay
    too, which is idle time or computation of that rank and counted there: it is the upper bound.
    """
    saves, cost = one.saves_ms, one.cost_ms
    if saves is None or cost is None or saves <= cost:
        return one
    bounds = (cost, saves) if saves > (1 + _ALIKE) * cost else None
    return replace(one, saves_ms=cost, saves_bounds_ms=one.saves_bounds_ms or bounds)


def with_saving_text(found: Finding, period_ms: float, *, by_steps: bool) -> Finding:
    """Return the finding with what fixing it saves, and why that is not what it costs."""
    one = _at_most_cost(found)
    if one.saves_ms is None and one.saves_bounds_ms is None:
        return one
    text = _saving_text(one, period_ms, "a step" if by_steps else "of the window")
    return replace(one, more=" ".join(filter(None, (one.more, sentence(text)))))


def _saving_text(one: Finding, period_ms: float, period: str) -> str:
    saves, bounds, cost = one.saves_ms, one.saves_bounds_ms, one.cost_ms or 0.0
    low, high = map(time_text, bounds or (0.0, 0.0))
    if saves is None:
        between = f"between {low} and {high}" if bounds and bounds[0] > 0 else f"at most {high}"
        return f"fixing it saves {between} {period}"
    text = f"fixing it saves {time_text(saves)} {period}"
    if bounds and saves == bounds[0] == cost:
        return f"{text}, and up to {high} if the delay of the rank itself goes too"
    less = "then another rank or the host limits the step"
    if period_ms and saves < _NOTHING * period_ms < cost:
        return f"fixing it alone saves nothing: {less}"
    if period_ms and saves < (1 - _ALIKE) * cost:
        return f"{text} ({percent(saves / period_ms)}): {less}"
    return text
