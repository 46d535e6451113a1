"""What the files of a job tell besides its replays: hosts, copies, what they lack.

Device work is known to be lost where its launch is recorded: profilers drop full buffers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.intervals import Intervals, union
from ccltui.metrics.arrays.reductions import distinct_values, median_along
from ccltui.metrics.device.device_time import unrecorded_copies
from ccltui.metrics.findings.causes.activity import HostWork
from ccltui.metrics.findings.replay.lines.job_lines import JobLines, job_lines
from ccltui.metrics.model.calls import SOON_NS
from ccltui.metrics.model.classify import MEM, TYPES, any_name, distinct
from ccltui.metrics.model.rank_steps import launched_before_recording
from ccltui.metrics.result import Reason
from ccltui.metrics.view.collective_selection import materiality_pct
from ccltui.parsers.array_types import F64, I64
from ccltui.parsers.columns import UNTIMED
from ccltui.parsers.safe_text import listed

if TYPE_CHECKING:
    from ccltui.metrics.findings.replay.gains import Suspect
    from ccltui.metrics.model.rank_facts import RankFacts
    from ccltui.metrics.view.job_view import View

NOTHING: Final = "nothing recorded"
"""What a host does while its device idles, where no record of it exists."""
MAX_RANKS: Final = 4
"""Ranks whose hosts are looked at where no single one is to blame."""
SHORT_NS: Final = 10_000
"""Shorter idle times are changeovers of the device."""
_PEER: Final = re.compile("PtoP|peer", re.IGNORECASE)
_ALL_TO_ALL: Final = TYPES.index("AllToAll")
_ONE_WAY: Final = (TYPES.index("Send"), TYPES.index("Recv"))


class Tail(Struct, frozen=True):
    """Work of one rank behind the end of its line in a step whose following step is not recorded.

    ``beyond_ns`` is what is beyond the median of the same in the other steps of the rank.
    """

    label: str
    step: int
    beyond_ns: float


def job_facts(view: View) -> JobFacts:
    """Return what the files of a view's job tell, which all metrics of the view share."""
    return view.remember(job_facts, lambda: JobFacts(view, job_lines(view)))


class JobFacts:
    """What the files of one job tell; each is looked up when it is first asked for."""

    def __init__(self, view: View, job: JobLines) -> None:
        self._view, self._job = view, job

    @cached_property
    def materiality(self) -> float:
        """Share of the step below which nobody is a straggler; see `materiality_pct`."""
        return materiality_pct(self._view) / 100

    @property
    def missing(self) -> Sequence[int]:
        """Ranks of the job that are in no file."""
        return self._view.job.missing_ranks

    def missing_of(self, suspect: Suspect) -> Sequence[int]:
        """Ranks without a file in the group of a suspect, or in the groups of its ranks."""
        labels = {self._job.labels[rank] for rank in suspect.ranks}
        missing: set[int] = set()
        for match in self._view.matches.groups:
            if match.missing and (
                match.group == suspect.group
                if suspect.group is not None
                else suspect.pair is None and labels & set(match.labels)
            ):
                missing |= set(match.missing)
        return sorted(missing)

    @cached_property
    def names_only(self) -> bool:
        """Whether matches rest on names and order alone: no file names members of a group."""
        return not any(group.ranks and not group.implied for group in self._view.groups)

    @cached_property
    def untold_calls(self) -> bool:
        """Whether some calls of a file state neither group nor size."""
        return any(not one.calls.has_metadata.all() for one in self._view.facts.match_inputs)

    @cached_property
    def assumes_turns(self) -> bool:
        """Whether transfers were told from batches by the order of 1F1B, which no file states."""
        return any(
            bool((np.isin(calls.kind, _ONE_WAY) & ~calls.has_metadata & (calls.dst >= 0)).any())
            for calls in self._view.facts.named_calls.values()
        )

    @cached_property
    def has_launches(self) -> bool:
        """Whether launches are recorded."""
        return any(len(trace.group("runtime")) for trace in self._view.job.ranks)

    @cached_property
    def filtered(self) -> Sequence[str]:
        """Labels of ranks whose file was cut down to some of the work of the device."""
        return [
            trace.label
            for trace in self._view.job.ranks
            if any(note.code == "text_filtered" for note in trace.notes)
        ]

    @cached_property
    def hides_exchanges(self) -> bool:
        """Whether devices copy to each other, in every step, in no recorded collective.

        Ranks may wait for each other there, and idle as if for their hosts.
        """
        return unrecorded_copies(self._view.ranks) >= self._job.num_steps

    @cached_property
    def lost(self) -> Mapping[str, tuple[int, int]]:
        """Ranks whose file is known to lack device work, see `lost_records`."""
        return lost_records(self._view)

    @cached_property
    def elements(self) -> F64 | None:
        """Elements of the all-to-alls of each rank in each step, [ranks, steps].

        None without sizes.
        """
        step_ids = self._job.table.step_ids
        found = np.zeros((len(self._job.labels), self._job.num_steps))
        for index, item in enumerate(self._view.match_inputs):
            calls = item.calls
            rows = np.flatnonzero((calls.kind == _ALL_TO_ALL) & (calls.in_elems >= 0))
            place = np.searchsorted(step_ids, calls.step[rows])
            known = np.append(step_ids, -2)[place] == calls.step[rows]
            elements = calls.in_elems[rows] + np.maximum(calls.out_elems[rows], 0)
            np.add.at(found[index], place[known], elements[known])
        return found if found.any() else None

    @cached_property
    def tail(self) -> Tail | None:
        """The longest work behind a line, which no replay has.

        None without step markers or where there is none.
        """
        job, longest = self._job, None
        if not job.marked:
            return None
        step_ids = job.table.step_ids
        last = np.flatnonzero(np.diff(step_ids, append=step_ids[-1:] + 2) != 1)
        for rank, label in enumerate(job.labels):
            lines = np.flatnonzero(job.table.rank == rank)
            if not len(lines):
                continue
            work = self._view.facts.ranks[label].work
            ends = {
                step.id: end for step, end in zip(work.steps, work.end_ns.tolist(), strict=True)
            }
            steps = step_ids[job.table.step[lines]].tolist()
            tails = [
                max(ends.get(step, 0) - end, 0)
                for step, end in zip(steps, job.own_end_ns[lines].tolist(), strict=True)
            ]
            usual = float(median_along(tails))
            for line, step, tail in zip(lines.tolist(), steps, tails, strict=True):
                beyond = tail - usual
                if job.table.step[line] in last and beyond > (
                    longest.beyond_ns if longest else 0.0
                ):
                    longest = Tail(label, step, beyond)
        return longest

    def idle_causes(self, ranks: Sequence[int] | None) -> dict[str, float] | None:
        """Return idle time by activity of the host, ns; None where no host activity is recorded.

        Of ranks (indices), or of the first of all for None.
        """
        view, job = self._view, self._job
        chosen = list(ranks) if ranks else distinct_values(job.table.rank)[:MAX_RANKS].tolist()
        found: dict[str, float] = {}
        told = False
        for rank in chosen:
            facts = view.facts.ranks[job.labels[rank]]
            if not len(facts.trace.group("cpu_ops")) and not len(facts.trace.group("runtime")):
                continue
            told = True
            idle = _idle(facts.device_work, job, rank)
            rest = idle
            for cause, times in HostWork.of(facts).disjoint.items():
                left = rest - times
                found[cause] = found.get(cause, 0.0) + rest.total_ns - left.total_ns
                rest = left
            found[NOTHING] = found.get(NOTHING, 0.0) + rest.total_ns
        return found if told else None

    def copy_waits(self, ranks: Sequence[int] | None) -> float:
        """Return idle time of a device that ends with a copy from another rank, ns a step.

        Such a copy is one of a collective where an operator says so. Without it nothing tells
        whether the device waited for other ranks or for its host. Of ranks (indices; None: of all)
        the longest time is returned.
        """
        by_rank = self._copy_waits_ns
        chosen = by_rank if ranks is None or not len(ranks) else ranks
        return max((by_rank.get(int(rank), 0) for rank in chosen), default=0) / self._job.num_steps

    @cached_property
    def _copy_waits_ns(self) -> Mapping[int, int]:
        """Idle time before the end of a copy from another rank, ns in all steps, by rank."""
        job = self._job
        ranks = distinct_values(job.table.rank).tolist()
        return {rank: self._copy_wait_ns(rank) for rank in ranks}

    def _copy_wait_ns(self, rank: int) -> int:
        facts = self._view.facts.ranks[self._job.labels[rank]]
        found = self._copy_wait_of(facts, rank)
        if self._view.facts.is_large:
            facts.forget_intervals()
        return found

    def _copy_wait_of(self, facts: RankFacts, rank: int) -> int:
        gpu = facts.trace.group("gpu")
        names = [one for one in distinct(gpu.name) if _PEER.search(facts.trace.text(one))]
        if not names:
            return 0
        copies = (facts.classes == MEM) & any_name(facts.trace.strings, gpu.name, names)
        other = union(gpu.start_ns[~copies], gpu.end_ns[~copies])
        ends = np.sort(gpu.end_ns[copies])
        idle = _idle(other, self._job, rank)
        last = np.searchsorted(ends, idle.end_ns, side="right") - 1
        ended = np.append(ends, np.iinfo(np.int64).min)[last]
        waits = (ended > idle.start_ns) & (idle.end_ns - ended <= SOON_NS)
        return int((idle.end_ns - idle.start_ns)[waits].sum())


def _idle(work: Intervals, job: JobLines, rank: int) -> Intervals:
    """Idle time of a device in its lines."""
    lines = np.flatnonzero(job.table.rank == rank)
    gaps = [work.gaps(int(job.own_origin_ns[i]), int(job.own_end_ns[i])) for i in lines]
    starts = np.concatenate([gap.start_ns for gap in gaps])
    ends = np.concatenate([gap.end_ns for gap in gaps])
    long = ends - starts > SHORT_NS
    return union(starts[long], ends[long])


LEAST_LOST: Final = 0.002
"""Share of the launches of kernels without a kernel from which device work counts as lost: single
launches fail."""
_LAUNCHES: Final = re.compile(r"Launch(?:Cooperative)?Kernel")
_BEGINS, _ENDS = re.compile("StreamBeginCapture"), re.compile("StreamEndCapture")


def lost_records(view: View) -> Mapping[str, tuple[int, int]]:
    """Return launches without their kernel, and all launches, by label of ranks that lack some.

    Nothing is known of ranks without launch records, nor of very large jobs, of which looking it up
    takes more than the replays. Labels are in ascending order. Metrics share the result.
    """
    return view.remember(lost_records, lambda: _lost_records(view))


def _lost_records(view: View) -> Mapping[str, tuple[int, int]]:
    if view.facts.is_large:
        return {}
    found = {}
    labels = (item.label for item in view.match_inputs)
    for label in sorted(labels, key=lambda one: (len(one), one)):
        lost, launched = _launches_without_kernel(view.facts.ranks[label])
        if lost > LEAST_LOST * launched:
            found[label] = lost, launched
    return found


def lost_reasons(lost: Mapping[str, tuple[int, int]]) -> list[Reason]:
    """Return why a result covers only a part of the device work, one reason for each rank."""
    return [
        Reason(
            "damaged_trace",
            f"{count} of {launched} kernels that rank {label} launched are missing from its "
            "file, so their time looks idle",
            rank=label,
        )
        for label, (count, launched) in lost.items()
    ]


def steps_left_out(job: JobLines) -> list[Reason]:
    """Return why steps are not compared, an empty list where all are."""
    if not job.partly:
        return []
    steps = listed([str(step) for step in job.partly])
    text = f"steps {steps} are left out: some ranks recorded only a part of their collectives"
    if len(job.partly) == 1:
        text = f"step {steps} is left out: some ranks recorded only a part of its collectives"
    return [Reason("unmatched_collectives", text)]


def _launches_without_kernel(facts: RankFacts) -> tuple[int, int]:
    """Count the launches between the first and the last that have a kernel, and those without.

    Those that are captured have none. Device work that names no launch may be of any of them.
    """
    runtime, launching = facts.trace.group("runtime"), facts.launch_row
    rows = _named(facts, _LAUNCHES)
    has_kernel = np.zeros(len(runtime), np.bool_)
    has_kernel[launching[launching >= 0]] = True
    present = np.flatnonzero(has_kernel.take(rows))
    if not len(present):
        return 0, 0
    starts = runtime.start_ns.take(rows)
    known = starts.take(present)
    inside = (starts >= known.min()) & (starts <= known.max())
    lost = starts[inside & ~has_kernel.take(rows)]
    unknown = launching < 0
    unknown &= ~launched_before_recording(facts.trace.group("gpu"), unknown)
    missing = len(lost) - _captured(facts, lost) - int(unknown.sum())
    missing -= len(facts.trace.group(UNTIMED))  # recorded, with times that are not believed
    return max(missing, 0), int(inside.sum())


def _captured(facts: RankFacts, times: I64) -> int:
    """Count the launches that are recorded into a graph instead of run."""
    if not len(times):
        return 0
    starts = facts.trace.group("runtime").start_ns
    begins, ends = (np.sort(starts.take(_named(facts, one))) for one in (_BEGINS, _ENDS))
    count = min(len(begins), len(ends))
    return int(union(begins[:count], ends[:count]).contains(times).sum())


def _named(facts: RankFacts, pattern: re.Pattern[str]) -> I64:
    """Rows of ``runtime`` whose name has a pattern."""
    names = facts.trace.group("runtime").name
    chosen = [one for one in distinct(names) if pattern.search(facts.trace.text(one))]
    return np.flatnonzero(any_name(facts.trace.strings, names, chosen))
