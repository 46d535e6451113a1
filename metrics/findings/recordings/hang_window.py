"""What a trace of the same job shows of the ranks that a hang is put down to.

Dumps, logs and RAS tell where a job stands; a trace that was recorded before may show whether the
rank that did not arrive was slow already. Both are joined only where they can be of one job: of one
folder, of as many ranks, and, where both have times since the epoch, the trace before the hang.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from ccltui.metrics.findings.culprits import details_of
from ccltui.metrics.hangs.find_hang import hangs_of, job_folder
from ccltui.metrics.hangs.hang import Hang, count_ranks, ranks_text, sentence
from ccltui.metrics.view.words import numbers_text
from ccltui.parsers.format import EPOCH_TIMES_NS
from ccltui.parsers.numbers import duration, percent

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.columns import RankTrace

_CLOCKS_APART_NS: Final = 60 * 10**9
"""Clocks of hosts that NTP corrects differ by less; so much later a trace is of another start."""
_LONGEST_NS: Final = 7 * 86_400 * 10**9
"""Partitions of clusters end jobs after a week at most: an earlier trace is of another job."""
_AT_ONCE_NS: Final = 60 * 10**9
"""Time from a trace to the hang that is not stated."""
_FACTS_BEFORE: Final = 2
"""Facts that come before the sentence on a trace that is not joined: `explain` prints three."""
_NUMBERED: Final = frozenset({"order of devices", "order of processes"})
"""Where the number of a rank in a trace is a guess."""


def hangs_of_view(view: View) -> tuple[Hang, ...]:
    """Return what `hangs_of` finds below the open path, with what the open traces show of it."""
    return view.remember(
        hangs_of_view,
        lambda: tuple(
            _with_window(view, one) for one in hangs_of(view.job.discovery, view.job.store)
        ),
    )


def _with_window(view: View, hang: Hang) -> Hang:
    """Return a hang with a sentence on the traces, where they and a culprit are there."""
    if not view.ranks or not hang.is_hung or not hang.ranks:
        return hang
    why = _why_apart(view, hang)
    if why:
        said = sentence(f"the trace is not joined with the other records: {why}")
        more = (*hang.more[:_FACTS_BEFORE], said, *hang.more[_FACTS_BEFORE:])
        return structs.replace(hang, more=more)
    traces = [one for one in view.job.ranks if str(one.rank) in hang.ranks]
    return structs.replace(
        hang,
        more=(_shown(view, hang), *hang.more),
        files=(*hang.files, *dict.fromkeys(one.source.path for one in traces)),
    )


def _why_apart(view: View, hang: Hang) -> str:
    """Return why traces and records cannot be taken to be of one job, "" where they can."""
    traces = view.job.ranks
    if {job_folder(one.source.path) for one in traces} != {hang.where}:
        return "it lies in the folder of another job"
    if hang.is_local or not all(label.isdecimal() for label in hang.ranks):
        return "the numbers of the ranks in the job are not known"
    if any(one.rank is None or one.rank_source in _NUMBERED for one in traces):
        return "its files do not state their ranks"
    return _why_of_other_ranks(view, hang) or _why_of_other_time(traces, hang)


def _why_of_other_ranks(view: View, hang: Hang) -> str:
    world = view.world_size
    labels = [one for one in (*hang.ranks, *hang.waiting, *hang.alive) if one.isdecimal()]
    last = max(map(int, labels))
    if world is None:
        traced = {str(one.rank) for one in view.job.ranks}
        return "" if set(labels) <= traced else "it does not state the number of ranks of its job"
    if hang.world_size is None and last + 1 != world:
        return f"it is of {count_ranks(world)}, and the other records show {last + 1}"
    if hang.world_size not in (None, world):
        return f"it is of {count_ranks(world)}, and the job that hangs has {hang.world_size}"
    return ""


def _span_ns(traces: Sequence[RankTrace]) -> tuple[int, int] | None:
    """Return start and end of the traces since the epoch, None where they do not tell."""
    starts = [one.first_ns for one in traces if one.first_ns is not None]
    ends = [one.last_ns for one in traces if one.last_ns is not None]
    if not starts or not ends or min(starts) < EPOCH_TIMES_NS:
        return None
    return min(starts), max(ends)


def _why_of_other_time(traces: Sequence[RankTrace], hang: Hang) -> str:
    span = _span_ns(traces)
    if span is None or hang.since_ns is None:
        return ""
    begin, end = span
    if begin - hang.since_ns > _CLOCKS_APART_NS:
        return f"it begins {duration(begin - hang.since_ns)} after the hang"
    if hang.since_ns - end > _LONGEST_NS:
        return f"it ends {duration(hang.since_ns - end)} before the hang"
    return ""


def _shown(view: View, hang: Hang) -> str:
    """Return the sentence on the ranks that are named, from the metric of lags."""
    recorded = {str(one.rank) for one in view.ranks}
    named = [label for label in hang.ranks if label in recorded]
    where = _place(view, hang)
    if not named:
        verb = "is" if len(hang.ranks) == 1 else "are"
        return sentence(f"{where} {ranks_text(hang.ranks)} {verb} not recorded")
    lag = details_of(view, "straggler_lag") if len(view.ranks) > 1 else {}
    if not lag:
        return sentence(f"{where} it cannot be computed who makes others wait")
    return sentence(f"{where} {_lateness(named, lag)}{_of_recorded(view)}")


def _lateness(named: Sequence[str], lag: Mapping[str, Any]) -> str:
    worst, share = lag["worst_straggler"], lag["worst_share_of_time"]
    much = "most" if share is None else f"{percent(share)} of the time"
    late = [label for label in named if label in map(str, lag["stragglers"])]
    if str(worst) in named:
        return f"rank {worst} makes others wait {much}"
    other = "" if worst is None else f"; rank {worst} makes others wait {much}"
    if late:
        verb = "makes" if len(late) == 1 else "make"
        return f"{ranks_text(late)} {verb} others wait, though not most{other}"
    verb = "is" if len(named) == 1 else "are"
    return f"{ranks_text(named)} {verb} no slower than others{other}"


def _of_recorded(view: View) -> str:
    """Return that ranks are missing, with which the last to arrive may be another one."""
    count, world = len(view.ranks), view.world_size
    return "" if world in (None, count) else f"; {count} of {world} ranks are recorded"


def _place(view: View, hang: Hang) -> str:
    """Return "in the trace before the hang (steps 10-14)", with the time between them."""
    ids = sorted({number for rank in view.ranks if rank.by_steps
                  for number, _, _ in rank.step_windows})  # fmt: skip
    steps = f"{'step' if len(ids) == 1 else 'steps'} {numbers_text(list(map(str, ids)))}"
    of = f" ({steps})" if ids else ""
    span = _span_ns(view.job.ranks)
    if span is None or hang.since_ns is None:
        unknown = "how long before the hang is not known"
        return f"in the trace ({f'{steps}; ' if ids else ''}{unknown})"
    before = hang.since_ns - span[1]
    if before < -_CLOCKS_APART_NS:
        return f"in the trace in which the hang begins{of}"
    if before < _AT_ONCE_NS:
        return f"in the trace before the hang{of}"
    return f"in the trace that ends {duration(before)} before the hang{of}"
