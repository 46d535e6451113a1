"""Findings in logs of NCCL Inspector: who is late, which links are slow, or that all is even."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from ccltui.metrics.confidence import Level, Sure
from ccltui.metrics.findings.culprits import details_of
from ccltui.metrics.findings.finding import Evidence, Finding, Where
from ccltui.metrics.inspector.rolled_job import LEAST_LAG_US, LEAST_SHARE
from ccltui.metrics.unavailable import Refusal
from ccltui.metrics.view.words import ranks_text, sentence
from ccltui.parsers.inspector import NCCL_INSPECTOR
from ccltui.parsers.numbers import binary_size, counted, percent, time_text
from ccltui.parsers.safe_text import listed, natural_key

if TYPE_CHECKING:
    from ccltui.metrics.inspector.late_roots import Lateness, LateRoot, SlowRate
    from ccltui.metrics.inspector.rolled_job import Group, RolledJob, SizeRate
    from ccltui.metrics.view.job_view import View

_MOST_SHOWN: Final = 3
_WHOLE: Final = 0.95
"""Share of collectives from which on what is lost is that of all, not of a sample of them."""
_NO_STEPS: Final = "the records do not tell how long a step takes"
_HIDDEN: Final = (
    "the loss is smaller where communication is hidden behind computation, which the records do "
    "not show"
)
_SOURCE: Final = "(NCCL Inspector)"
_UNKNOWN: Final = (
    "The records hold how long collectives take, and no start times: what a rank does between "
    "them, and how long a step takes, a trace of some steps shows."
)
_TURNS_DO: Final = (
    "Look for what varies from step to step on all ranks: lengths of sequences, data loading, "
    "collection of garbage. A PyTorch profiler trace of some steps of all ranks shows it."
)
_LINK_DO: Final = (
    "Run nccl-tests between these ranks, and look at the links and adapters of their hosts."
)
_DROP_DO: Final = (
    "Look for what began at that time: other jobs on the network, errors and retries of links, "
    "clocks of the GPUs. Run nccl-tests on these hosts, and compare with the bandwidth before."
)
_EVEN_DO: Final = (
    "Compare this bandwidth with nccl-tests on the same machines. If the job is still too slow, "
    "record a few steps on all ranks with the PyTorch profiler: the records do not show what ranks "
    "do between collectives."
)
_LIMITS: Final = (
    "a rank counts as late from 0.1 ms and 20 % of the transfer time; a group as slow below 70 % "
    "of the bandwidth of equal groups"
)
_ALL_LOGS_DO: Final = (
    "Put the logs of all ranks into one directory: each node writes its own where "
    "NCCL_INSPECTOR_DUMP_DIR is not on a shared file system."
)
_SETTINGS_DO: Final = (
    "Set NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS (10000000 is ten seconds), let the job "
    "run for several intervals, and look whether its messages are larger than "
    "NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES."
)


def inspector_findings(view: View) -> list[Finding]:
    """Return what the logs show, the largest loss first; empty where there is no such log."""
    from ccltui.metrics.inspector.inspector_job import inspector_job  # noqa: PLC0415

    if not any(file.format is NCCL_INSPECTOR for file in view.job.discovery.files):
        return []
    try:
        job = inspector_job(view)
    except Refusal as refusal:
        return [_without_records(refusal)]
    if not any(group.complete for group in job.facts.groups):
        return [_unmatched(job)]
    return _Findings(view, job).all()


def inspector_unknown(view: View) -> tuple[str, ...]:
    """Return what the logs leave open, one sentence each; empty without a log that can be read."""
    from ccltui.metrics.inspector.inspector_job import inspector_job  # noqa: PLC0415

    try:
        facts = inspector_job(view).facts
    except Refusal:
        return ()
    found = [_UNKNOWN]
    held = details_of(view, "inspector_coverage")
    if held["coverage"] < _WHOLE:
        found.append(
            f"{percent(held['coverage'])} of the collectives are in the records: the others "
            "were dropped, sampled or below the size limit of the writer."
        )
    most = max(one.n_ranks for one in facts.series)
    if facts.num_ranks < most:
        found.append(
            f"Only {counted(facts.num_ranks, 'rank')} of {most} left records: collectives with the "
            "others cannot be compared."
        )
    if held["complete_share"] is not None and 0 < held["complete_share"] < _WHOLE:
        found.append(
            f"{percent(held['complete_share'])} of these were recorded by all of their ranks, and "
            "only they are compared."
        )
    if facts.unread:
        found.append(sentence(f"Not read: {listed(facts.unread, _MOST_SHOWN)}"))
    return tuple(found)


def _without_records(refusal: Refusal) -> Finding:
    why = refusal.reasons[0].message
    return Finding(
        kind="nothing",
        text=sentence(f"the logs of NCCL Inspector hold nothing to compare: {why}"),
        sure=Sure(what="high"),
        do=_SETTINGS_DO,
    )


def _unmatched(job: RolledJob) -> Finding:
    """Return what ranks state whose collectives no other rank recorded."""
    series = max(job.facts.series, key=lambda one: (one.n_ranks > 1, one.records * one.median_us))
    if series.n_ranks == 1:
        return Finding(
            kind="nothing",
            text=sentence(
                "the logs of NCCL Inspector hold nothing to compare: all communicators have one "
                "rank"
            ),
            sure=Sure(what="high"),
        )
    return Finding(
        kind="run_log",
        text=sentence(
            f"{series.operation} of {series.communicator} takes a median of "
            f"{time_text(series.median_us / 1e3)} on {_rank(series.label)}, waiting for the others "
            f"included {_SOURCE}"
        ),
        more=sentence(
            f"{counted(series.records, 'record')} there, of a communicator of {series.n_ranks} "
            "ranks; no collective was recorded by all of its ranks, so nothing can be compared"
        ),
        saves_why=_NO_STEPS,
        sure=Sure(what="high"),
        do=_ALL_LOGS_DO,
    )


class _Findings:
    """The findings of one job."""

    def __init__(self, view: View, job: RolledJob) -> None:
        from ccltui.metrics.inspector.late_roots import lateness  # noqa: PLC0415

        self._job = job
        self._lags: Sequence[Mapping[str, Any]] = details_of(view, "duration_lag").get("ranks", ())
        self._rates: Sequence[Mapping[str, Any]] = details_of(view, "inspector_busbw").get(
            "groups", ()
        )
        self._coverage: float = details_of(view, "inspector_coverage")["coverage"]
        self._is_whole = self._coverage >= _WHOLE
        self._late: Lateness = lateness(job)
        self._every = {label for group in job.facts.groups for label in group.labels}

    def all(self) -> list[Finding]:
        """Return all of them: losses, the largest first, then what is reached."""
        late = [self._of_late(root) for root in self._late.roots[:_MOST_SHOWN]]
        found = [*late, *self._slow()] or self._late_at_most() or [*self._turns()]
        found.sort(key=lambda one: -(one.share or 0))
        return [*found, self._reached(is_even=not found)]

    # who is late

    def _late_at_most(self) -> list[Finding]:
        """Return who is late in most windows, though others wait for somebody else as well."""
        found = []
        for root in self._late.turns:
            every = self._job.rows("lag", root.group, 0)
            if len(root.windows) > _MOST * (every.stop - every.start):
                found.append(root)
        if len({root.group for root in found}) < len(found):  # in turn, at the same collectives
            return []
        return [self._of_late(root, is_alone=False) for root in found[:_MOST_SHOWN]]

    def _of_late(self, root: LateRoot, *, is_alone: bool = True) -> Finding:
        group = self._job.facts.groups[root.group]
        is_one = len(root.labels) == 1
        who = _rank(root.labels[0]) if is_one else f"the ranks of {root.host}"
        what = f", which {'arrives' if is_one else 'arrive'}"
        if root.late not in root.labels:
            holds = "it holds" if is_one else "they hold"
            what = f": {holds} up {_rank(root.late)}, which arrives"
        share = self._share(root.waits)
        place = f"{time_text(root.lag_ms)} late at {self._call(group)}{self._when(root.windows)}"
        lost = time_text(root.waited_us / 1e3) if share is None else self._of_time(share)
        held = f"; held up with it: {ranks_text(root.held_up)}" if root.held_up else ""
        others = self._late.roots[_MOST_SHOWN:]
        more = f"; {counted(len(others), 'other')} late" if others else ""
        more += "" if is_alone else "; at other calls they wait for another rank"
        seconds = self._job.window_us / 1e6
        who_sure: Level = "medium" if is_alone else "low"
        if not is_one and not self._is_whole:
            who_sure = "low"
            more += "; one of them may hold up the others at collectives that are not recorded"
        return Finding(
            kind="waiting_for_rank",
            text=sentence(f"the others wait {lost} for {who}{what} {place} {_SOURCE}"),
            more=sentence(
                f"in {counted(len(root.windows), 'window')} of {seconds:.0f} s{held}{more}; "
                f"{_HIDDEN}"
            ),
            where=Where(
                ranks=root.labels, host=root.host or None if is_one else root.host, group=group.name
            ),
            share=share,
            cost_ms=self._cost_ms(share),
            saves_why=_NO_STEPS,
            sure=Sure(what="high", who=who_sure, how_much="low"),
            evidence=self._lag_evidence(root, group),
            do=f"Record some steps of {who} with the PyTorch profiler while "
            f"{'it is' if is_one else 'they are'} late, and look at {'its' if is_one else 'that'} "
            "host in that time: other processes, clocks of the GPUs, data loading.",
        )

    def _lag_evidence(self, root: LateRoot, group: Group) -> tuple[Evidence, ...]:
        for number, row in enumerate(self._lags):
            key = row["rank"], row["communicator"], row["operation"]
            if key == (root.late, group.name, group.operation) and row["lag_ms"] == root.lag_ms:
                return (
                    Evidence("duration_lag", f"ranks.{number}.lag_ms", row["lag_ms"], "ms"),
                    Evidence("duration_lag", f"ranks.{number}.waited_s", row["waited_s"], "s"),
                )
        return ()

    def _turns(self) -> Iterator[Finding]:
        """Yield what ranks wait for each other where none of them is late for long."""
        groups = [group for group in self._job.facts.groups if group.complete]
        waited_us = sum(group.waited_us for group in groups)
        every = [(at, one) for at, one in enumerate(self._job.facts.groups) if one.complete]
        share = self._share([(at, one.waited_us) for at, one in every])
        # of a sample of the collectives the loss may be that of all of them
        of_all = self._share(
            [(at, one.waited_us * one.numbered / one.complete) for at, one in every]
        )
        is_sampled = not self._is_whole and max(group.complete for group in groups) >= _ENOUGH
        least = of_all if is_sampled else share
        if least is None:
            if not any(_mean_wait_us(group) > _least_lag_us(group) for group in groups):
                return
        elif least < (_TURNS_FROM_OF_SAMPLE if is_sampled else _TURNS_FROM):
            return
        turns = [label for root in self._late.turns for label in root.labels]
        lost = time_text(waited_us / 1e3) if share is None else self._of_time(share)
        lost = f"{lost} for each other at collectives"
        if least is not None and is_sampled:
            lost = (
                f"for each other at collectives, {percent(least)} of the time if all are like the "
                f"{percent(self._coverage)} recorded"
            )
        nobody = "no one of them is always late"
        if self._are_some_late() and not turns:
            nobody = "the records are too few to name one"
        yield Finding(
            kind="random",
            text=sentence(f"ranks wait {lost}, and {nobody} {_SOURCE}"),
            more=sentence(
                f"{ranks_text(turns)} are late about equally often; " * (len(turns) > 1) + _HIDDEN
            ),
            share=share,
            cost_ms=self._cost_ms(share),
            saves_why=_NO_STEPS,
            sure=Sure(what="medium", how_much="low"),
            evidence=self._first_lag(),
            do=_TURNS_DO,
        )

    def _first_lag(self) -> tuple[Evidence, ...]:
        return tuple(
            Evidence("duration_lag", "ranks.0.lag_ms", row["lag_ms"], "ms")
            for row in self._lags[:1]
        )

    # which groups are slow

    def _slow(self) -> Iterator[Finding]:
        lost: dict[tuple[str, ...], list[int]] = defaultdict(list)
        drops: list[int] = []
        for number, slow in enumerate(self._late.slow):
            if slow.num_peers:
                lost[self._job.facts.groups[slow.group].labels].append(number)
            else:
                drops.append(number)
        common = self._common(list(lost)) if len(lost) > 1 else None
        if common is not None:
            yield self._of_slow([one for each in lost.values() for one in each], common)
        else:
            found = [self._of_slow(numbers, None) for numbers in lost.values()]
            yield from sorted(found, key=lambda one: -(one.share or 0))[:_MOST_SHOWN]
        if drops:
            yield self._dropped(drops)

    def _common(self, slow: Sequence[Sequence[str]]) -> Where | None:
        """Return the ranks, else the host, that all slow groups have and no other group has."""
        host_of = {
            label: host
            for group in self._job.facts.groups
            for label, host in zip(group.labels, group.hosts, strict=True)
        }
        # a group on one host tells nothing of the links between hosts
        across = all(len({host_of[one] for one in labels}) > 1 for labels in slow)
        sound = [
            group.labels
            for number, group in enumerate(self._job.facts.groups)
            if group.labels not in slow
            and self._is_compared(number)
            and (len(set(group.hosts)) > 1 or not across)
        ]
        ranks = set.intersection(*map(set, slow)).difference(*sound)
        if ranks:
            return Where(ranks=tuple(sorted(ranks, key=natural_key)))
        slow_on, sound_on = (
            [{host_of[one] for one in labels} for labels in groups] for groups in (slow, sound)
        )
        hosts = set.intersection(*slow_on).difference(*sound_on)
        return Where(host=hosts.pop()) if len(hosts) == 1 else None

    def _is_compared(self, number: int) -> bool:
        group = self._job.facts.groups[number]
        return any(
            row["peers_gbs"] is not None and row["id"] == group.communicator.id
            for row in self._rates
        )

    def _of_slow(self, numbers: Sequence[int], common: Where | None) -> Finding:
        slow, group = self._largest(numbers)
        share = self._lost(numbers)
        labels = group.labels
        hosts = tuple(dict.fromkeys(group.hosts))
        where = common or Where(
            ranks=labels, host=hosts[0] if len(hosts) == 1 else None, group=group.name
        )
        first = f"{group.operation} of {ranks_text(labels)}{_named(group)}"
        if common is not None:
            who = ranks_text(common.ranks) if common.ranks else f"a rank on {common.host}"
            first = f"every group with {who} is slow: {self._call(group)}"
        elif len(labels) == 2:
            first = f"the link of {ranks_text(labels)} is slow: {self._call(group, of_these=True)}"
        equal = "groups of the same size reach"
        if slow.num_peers == 1:
            equal = "the one other group of this size reaches"
        loss = "" if share is None else f"; {self._of_time(share)} is lost"
        who_sure: Level = "medium" if slow.num_peers > 1 else "low"
        return Finding(
            kind="slow_link",
            text=sentence(
                f"{first} reaches {slow.busbw_gbs:.3g} GB/s of bus bandwidth, {equal} "
                f"{slow.usual_gbs:.3g}{self._when(slow.windows)}{loss} {_SOURCE}"
            ),
            more=sentence(_HIDDEN),
            where=where,
            share=share,
            cost_ms=self._cost_ms(share),
            saves_why=_NO_STEPS,
            sure=Sure(what="high", who=who_sure, how_much="low"),
            evidence=self._rate_evidence(slow, group),
            do=_LINK_DO,
        )

    def _dropped(self, numbers: Sequence[int]) -> Finding:
        slow, group = self._largest(numbers)
        share = self._lost(numbers)
        loss = "" if share is None else f"; {self._of_time(share)} is lost"
        others = len({self._job.facts.groups[self._late.slow[one].group].labels for one in numbers})
        also = f"{counted(others - 1, 'other group')} of ranks likewise; " if others > 1 else ""
        return Finding(
            kind="slow_link",
            text=sentence(
                f"{self._call(group)} falls from {slow.usual_gbs:.3g} to {slow.busbw_gbs:.3g} GB/s "
                f"of bus bandwidth{self._when(slow.windows)}{loss} {_SOURCE}"
            ),
            more=sentence(f"{also}{_HIDDEN}"),
            where=Where(group=group.name),
            share=share,
            cost_ms=self._cost_ms(share),
            saves_why=_NO_STEPS,
            sure=Sure(what="high", how_much="low"),
            evidence=self._rate_evidence(slow, group),
            do=_DROP_DO,
        )

    def _largest(self, numbers: Sequence[int]) -> tuple[SlowRate, Group]:
        slow = max((self._late.slow[one] for one in numbers), key=lambda one: sum(one.extra_us))
        return slow, self._job.facts.groups[slow.group]

    def _lost(self, numbers: Sequence[int]) -> float | None:
        """Return what slow transfers take longer on all of their ranks, with who waits for them."""
        slow = [self._late.slow[one] for one in numbers]
        labels = [self._job.facts.groups[one.group].labels for one in slow]
        longer = [
            (one.group, sum(one.extra_us) * len(ranks))
            for one, ranks in zip(slow, labels, strict=True)
        ]
        return self._share(longer, sum(self._late.behind_us.get(one, 0) for one in set(labels)))

    def _rate_evidence(self, slow: SlowRate, group: Group) -> tuple[Evidence, ...]:
        for number, row in enumerate(self._rates):
            key = row["id"], row["operation"], row["least_bytes"]
            if key == (group.communicator.id, group.operation, 1 << slow.size_class):
                return (
                    Evidence(
                        "inspector_busbw", f"groups.{number}.slow_gbs", slow.busbw_gbs, "GB/s"
                    ),
                    Evidence("inspector_busbw", f"groups.{number}.lost_s", row["lost_s"], "s"),
                )
        return ()

    # what is reached

    def _reached(self, *, is_even: bool) -> Finding:
        """Return the bandwidth of the collectives with the most time, and how even ranks are."""
        kinds: dict[tuple[str, str, int], list[tuple[Group, SizeRate]]] = defaultdict(list)
        for group in self._job.facts.groups:
            for rate in group.rates:
                name = group.communicator.name or f"{len(group.labels)} ranks"
                kinds[group.operation, name, rate.size_class].append((group, rate))
        ordered = sorted(kinds.values(), key=lambda rows: -sum(_time_us(*row) for row in rows))
        most = max(group.complete for group in self._job.facts.groups)
        parts = [self._rate_text(ordered[0])] if ordered else []
        evidence = [*self._first_lag()]
        if ordered:
            evidence += self._reached_evidence(*ordered[0][0])
        if not parts or (is_even and most >= _FEW):
            parts += self._arrivals()
        text = ", and ".join(parts)
        if is_even and most >= _FEW:
            text = f"{self._even_start(has_rates=bool(ordered))}{text}"
        more = [self._details(ordered[0])] if ordered else []
        more += [
            f"{self._rate_text(rows)}; {self._details(rows)}" for rows in ordered[1:_MOST_SHOWN]
        ]
        if is_even and most < _FEW:
            more.append(f"{counted(most, 'collective')} at most, too few to tell who is late")
        elif is_even and (ordered or self._are_timed):
            more.append(_LIMITS)
        return Finding(
            kind="run_log",
            text=sentence(f"{text} {_SOURCE}"),
            more=" ".join(sentence(one) for one in more),
            saves_why=_NO_STEPS,
            sure=Sure(what="high"),
            evidence=tuple(evidence),
            do=_EVEN_DO if is_even else "",
        )

    def _even_start(self, *, has_rates: bool) -> str:
        """State what is even of that which can be compared."""
        are_on_time = self._are_timed and not self._are_some_late()
        start = "no rank is late" if are_on_time else ""
        if has_rates:
            start = f"{start} and no group slow" if start else "no group is slow"
        return f"{start}{self._of_how_many}: " if start else ""

    @property
    def _are_timed(self) -> bool:
        """Whether there are arrivals to compare: a writer may state times of 0."""
        return bool(self._lags) and any(one.median_us for one in self._job.facts.series)

    def _arrivals(self) -> list[str]:
        """State how late ranks arrive, in one sentence; none where that is not known."""
        if not self._are_timed:
            if any(group.rates for group in self._job.facts.groups):
                return []
            return ["the records hold no arrivals and no sizes that can be compared"]
        if self._are_some_late() and not self._late.turns:
            lag = max(row["lag_ms"] for row in self._lags)
            return [f"ranks are up to {time_text(lag)} late, in too few records to name one"]
        return [self._even_text()]

    def _even_text(self) -> str:
        """State the mean over all collectives: the medians of all ranks may be 0 in turn."""
        groups = self._job.facts.groups
        waits = sum(_num_waits(group) for group in groups)
        mean_us = sum(group.waited_us for group in groups) / waits if waits else 0
        if not mean_us:
            return "ranks arrive together"
        return f"a rank waits {time_text(mean_us / 1e3)} for the last on average"

    def _are_some_late(self) -> bool:
        """Return whether a rank is late by its median, if not for three windows in a row."""
        return any(
            lag.lag_ms * 1e3 > _least_lag_us(group)
            for group in self._job.facts.groups
            for lag in group.lags
        )

    @property
    def _of_how_many(self) -> str:
        facts = self._job.facts
        most = max(one.n_ranks for one in facts.series)
        return f" among {facts.num_ranks} of {most} ranks" if facts.num_ranks < most else ""

    def _rate_text(self, rows: Sequence[tuple[Group, SizeRate]]) -> str:
        name = self._call(rows[0][0], of_these=len(rows) > 1)
        middle = median(rate.busbw_gbs for _, rate in rows)
        return f"{name} reaches {middle:.3g} GB/s of bus bandwidth"

    @staticmethod
    def _details(rows: Sequence[tuple[Group, SizeRate]]) -> str:
        """Return the size of messages, and by how much groups differ."""
        size = f"messages have {binary_size(1 << rows[0][1].size_class)} or more"
        values = sorted(rate.busbw_gbs for _, rate in rows)
        spread = values[-1] / values[0] - 1
        if len(rows) == 1:
            return size
        groups = f"{len(rows)} groups"
        if spread < _EQUAL:
            by = percent(spread)
            by = f"differ by {'' if by.startswith('less') else 'at most '}{by}"
            return f"{size}; {groups} {by if spread else 'do not differ'}"
        return f"{size}; {groups} reach {values[0]:.3g} to {values[-1]:.3g}"

    def _reached_evidence(self, group: Group, rate: SizeRate) -> Iterator[Evidence]:
        for number, row in enumerate(self._rates):
            key = row["id"], row["operation"], row["least_bytes"]
            if key == (group.communicator.id, group.operation, 1 << rate.size_class):
                yield Evidence(
                    "inspector_busbw", f"groups.{number}.busbw_gbs", rate.busbw_gbs, "GB/s"
                )

    # words

    def _share(self, lost: Sequence[tuple[int, float]], besides_us: float = 0) -> float | None:
        """Share of the time of all ranks.

        ``lost`` are numbers of groups, and what all ranks of each lose together, in µs. Where
        collectives overlap, what a rank loses is that of one communicator only.
        """
        facts = self._job.facts
        if facts.recorded_s is None:
            return None
        all_us = facts.num_ranks * facts.recorded_s * 1e6
        share = (sum(us for _, us in lost) + besides_us) / all_us
        if self._do_overlap or share > 1:
            share = self._largest_us(lost) / all_us
        return share if share <= 1 else None

    def _largest_us(self, lost: Sequence[tuple[int, float]]) -> float:
        """Return the sum over ranks of what each loses in the communicator with most of it."""
        by_rank: dict[str, dict[Any, float]] = defaultdict(lambda: defaultdict(float))
        for number, us in lost:
            group = self._job.facts.groups[number]
            for label in group.labels:
                by_rank[label][group.communicator] += us / len(group.labels)
        return sum(max(one.values()) for one in by_rank.values())

    @cached_property
    def _do_overlap(self) -> bool:
        """Whether the collectives of a rank take longer than was recorded."""
        busy_us: dict[str, float] = defaultdict(float)
        for one in self._job.facts.series:
            busy_us[one.label] += one.records * one.median_us
        return max(busy_us.values()) > (self._job.facts.recorded_s or 0) * 1e6

    def _cost_ms(self, share: float | None) -> float | None:
        seconds = self._job.facts.recorded_s
        return None if share is None or seconds is None else share * seconds * 1e3

    def _of_time(self, share: float) -> str:
        is_known = (self._is_whole and not self._do_overlap) or percent(share).startswith("less")
        return f"{'' if is_known else 'at least '}{percent(share)} of the time"

    def _call(self, group: Group, *, of_these: bool = False) -> str:
        """Return the operation, and of which ranks; ``of_these``: they were just named."""
        if of_these or _of_name(group):
            return f"{group.operation}{_of_name(group)}"
        is_all = set(group.labels) == self._every
        return f"{group.operation} of {'all ranks' if is_all else ranks_text(group.labels)}"

    def _when(self, windows: Sequence[int]) -> str:
        """State when something is so: nothing where it always is."""
        facts, length = self._job.facts, self._job.window_us
        last = (facts.last_us - facts.first_us) // length
        begin, end = windows[0], windows[-1]
        if (begin, end) == (0, last):
            return ""
        since = _utc(facts.first_us + begin * length)
        if end >= last:
            return f" from {since:%Y-%m-%d %H:%M:%S} UTC on"
        until = _utc(facts.first_us + (end + 1) * length)
        form = "%H:%M:%S" if since.date() == until.date() else "%Y-%m-%d %H:%M:%S"
        return f" from {since:%Y-%m-%d %H:%M:%S} to {until:{form}} UTC"


_TURNS_FROM: Final = 0.01
"""Share of the time from which waiting for no one in particular is a loss worth a look."""
_TURNS_FROM_OF_SAMPLE: Final = 0.02
"""Likewise of a sample: the last collectives of each interval are not quite like the others."""
_ENOUGH: Final = 30
"""Collectives of a group from which on the mean of a sample of them is not that of one hiccup."""
_FEW: Final = 15
"""Collectives below which nothing is judged: see `roll_up.thirds`."""
_MOST: Final = 0.5
"""Share of the windows above which a rank is late in most of them."""
_EQUAL: Final = 0.3
"""Difference of bandwidths from which on their range is stated."""


def _num_waits(group: Group) -> int:
    """Return how often a rank could wait for the last of a group."""
    return group.complete * (len(group.labels) - 1) if group.lags else 0


def _mean_wait_us(group: Group) -> float:
    return group.waited_us / max(_num_waits(group), 1)


def _least_lag_us(group: Group) -> float:
    """Return the lag above which a rank is late there."""
    transfer_us = sum(rate.transfer_us for rate in group.rates)
    number = sum(rate.instances for rate in group.rates) or 1
    return max(LEAST_LAG_US, LEAST_SHARE * transfer_us / number)


def _utc(us: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(us // 10**6, datetime.UTC)


def _rank(label: str) -> str:
    """Return a rank, or the process that has no number: its host and its own."""
    return f"rank {label}" if label.isdecimal() else f"process {label}"


def _of_name(group: Group) -> str:
    name = group.communicator.name
    return f" of {name}" if name and name != "unknown" else ""


def _named(group: Group) -> str:
    return f" ({group.communicator.name})" if _of_name(group) else ""


def _time_us(group: Group, rate: SizeRate) -> int:
    return rate.transfer_us * len(group.labels)
