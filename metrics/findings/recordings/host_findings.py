"""Findings on jobs without devices: operators, collectives on the host, and who comes last."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from ccltui.metrics.arrays.intervals import Intervals, union
from ccltui.metrics.arrays.nesting import NONE, Nesting
from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.confidence import Sure
from ccltui.metrics.findings.causes.activity import SYNCHRONISATION, HostWork
from ccltui.metrics.findings.culprits import Culprits
from ccltui.metrics.findings.finding import Answer, Evidence, Finding, Where
from ccltui.metrics.findings.rank_time.portions import HOST_KINDS, Portions, in_portions
from ccltui.metrics.findings.recordings.device_findings import MATERIAL, Scale, scale_of
from ccltui.metrics.findings.sentences import CAUSES
from ccltui.metrics.model.classify import any_name, distinct
from ccltui.metrics.view.words import ranks_text, sentence, short_name
from ccltui.parsers.array_types import I32, Bool
from ccltui.parsers.numbers import percent, time_text

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView

_SHOWN: Final = 3
_COLLECTIVE: Final = re.compile(r"_?c10d(?:_functional\w*)?::|gloo:|mpi:|record_param_comms")
"""Names of operators that communicate or wait for communication."""
_COMPARE_CPUS: Final = (
    "Compare the CPUs of the late rank with those of its peers: clock, threads, other processes, "
    "memory on another socket; and its share of the work."
)
_RECORD_DEVICE: Final = (
    "If the job has GPUs, record them too: ProfilerActivity.CUDA (not under nsys: CUPTI serves one "
    "profiler)."
)


def host_answer(view: View) -> Answer | None:
    """Return the findings on a job that was recorded on its hosts alone.

    None where nothing marks a step and no rank communicates, and where a step holds no work at
    all: operators without a frame tell nothing about a job.
    """
    ranks = [rank for rank in view.ranks if not rank.facts.has_kernels and rank.window_ns]
    if not any(rank.by_steps or len(rank.recorded_calls) for rank in ranks):
        return None
    scale = scale_of(ranks)
    work = _device_waits(ranks, scale) or _operators(ranks, scale)
    found = [*_last_rank(view, scale), _collectives(ranks, scale), work]
    known = [one for one in found if one is not None]
    # collectives may be all that is recorded: that nothing else takes time is no finding
    ordered = sorted((one for one in known if one.share), key=lambda one: -(one.share or 0.0))
    if not ordered:
        return None
    return Answer(
        recording="cpu_ranks" if len(ranks) > 1 else "cpu_rank",
        findings=tuple(ordered),
        unknown=(
            "No device work is recorded: a job without devices (gloo), or a profiler without "
            "ProfilerActivity.CUDA.",
        ),
        period="step" if scale.steps else "window",
        period_ms=scale.period_ms,
        portions=_portions(ranks),
    )


def _portions(ranks: Sequence[RankView]) -> Portions:
    """Return the time of hosts: in operators, in collectives, in nothing that is recorded."""
    by_rank: dict[str, dict[str, int]] = {}
    for rank in ranks:
        inside, working = _in_collectives(rank).total_ns, _working(rank).total_ns
        idle = max(rank.window_ns - inside - working, 0)
        by_rank[rank.label] = {"operators": working, "collectives": inside, "idle": idle}
    return in_portions(HOST_KINDS, {rank.label: rank.window_ns for rank in ranks}, by_rank)


def _working(rank: RankView) -> Intervals:
    """Return the time in operators outside of collectives."""
    return (rank.facts.in_operators & rank.windows) - _in_collectives(rank)


def _last_rank(view: View, scale: Scale) -> Iterator[Finding]:
    """Yield the finding on the rank that the others wait for at collectives on the host."""
    culprits = Culprits(view)
    label = culprits.chain.get("root_rank")
    share = culprits.chain.get("root_share_of_time")
    if label is None or not share:
        return
    cause = culprits.cause_of(str(label))
    more, do = CAUSES.get(cause, ("", ""))
    if cause == "compute":
        more, do = "its operators take longer than those of its peers", _COMPARE_CPUS
    elif not more:
        more = "nothing that is recorded shows why, or its recording merely begins later"
    cost_ms = share * scale.period_ms
    per = "a step" if scale.steps else "in all"
    yield Finding(
        kind="uneven_ranks",
        text=sentence(
            f"{ranks_text((str(label),))} arrives last at collectives: the others wait "
            f"{percent(share)} of the time, {time_text(cost_ms)} {per}"
        ),
        more=sentence(more),
        where=Where(ranks=(str(label),)),
        share=share,
        cost_ms=cost_ms,
        saves_why="a replay needs device work",
        sure=Sure(what="high", who=culprits.sure_of(str(label))),
        evidence=(Evidence("blame_chain", "root_share_of_time", share, "ratio"),),
        do=do,
    )


def _in_collectives(rank: RankView) -> Intervals:
    """Return the time in collectives, and in operators that wait for their end."""
    return rank.remember(_in_collectives, lambda: _found_collectives(rank))


def _found_collectives(rank: RankView) -> Intervals:
    calls, operators = rank.recorded_calls, rank.trace.group("cpu_ops")
    rows = _communicates(rank, operators.name)
    start, end = [operators.start_ns[rows]], [operators.end_ns[rows]]
    if calls.source != "kernel":
        start, end = [*start, calls.start_ns], [*end, calls.end_ns]
    return union(np.concatenate(start), np.concatenate(end)) & rank.windows


def _communicates(rank: RankView, names: I32) -> Bool:
    """Return which names of operators are of collectives, or of waits for them."""
    chosen = [one for one in distinct(names) if _COLLECTIVE.match(rank.trace.text(one))]
    return any_name(rank.trace.strings, names, chosen)


def _collectives(ranks: Sequence[RankView], scale: Scale) -> Finding | None:
    inside = sum(_in_collectives(rank).total_ns for rank in ranks)
    if not inside:
        return None
    share = scale.share(inside)
    source = ranks[0].recorded_calls.source
    return Finding(
        kind="collective_wait",
        text=sentence(f"collectives on the host take {percent(share)} of {scale.of_period}"),
        more=sentence(
            "their operators are timed on the host: part of this may overlap other work"
            if source != "annotation"
            else ""
        ),
        share=share,
        cost_ms=scale.cost_ms(inside),
        saves_why="how much of it can be hidden depends on the program",
        sure=Sure(what="high" if source == "annotation" else "medium"),
        do="Send less or less often, overlap communication with computation, or use a device "
        "backend (nccl). " + _RECORD_DEVICE,
    )


def _device_waits(ranks: Sequence[RankView], scale: Scale) -> Finding | None:
    """Return the finding on hosts that wait for copies for longer than their operators run.

    None where they do not. A device that only copies has no kernel, so what it delays is seen on
    the host alone.
    """
    copied = Counter[str]()
    waiting = working = 0
    for rank in ranks:
        gpu = rank.trace.group("gpu")
        for name in distinct_values(gpu.name).tolist():
            copied[rank.trace.text(name)] += int(gpu.dur_ns[gpu.name == name].sum())
        waits = HostWork.of(rank.facts).activities[SYNCHRONISATION] & rank.windows
        waiting += waits.total_ns
        working += (_working(rank) - waits).total_ns
    if not copied or waiting <= working:
        return None
    whole = sum(copied.values())
    largest = "; ".join(f"{name} {percent(ns / whole)}" for name, ns in copied.most_common(_SHOWN))
    return Finding(
        kind="cpu_bound",
        text=sentence(
            f"the host waits {percent(scale.share(waiting))} of {scale.of_period} for the device, "
            f"which only copies; its operators take {percent(scale.share(working))}"
        ),
        more=sentence(f"of the time in copies: {largest}"),
        share=scale.share(waiting),
        cost_ms=scale.cost_ms(waiting),
        saves_why="how much of it can be hidden depends on the program",
        sure=Sure(what="high"),
        do="Copy less, or overlap copies with other work (pin_memory=True, non_blocking=True), "
        "and synchronise later. If the job runs kernels, record them: ProfilerActivity.CUDA.",
    )


def _operators(ranks: Sequence[RankView], scale: Scale) -> Finding:
    """Return the finding on operators outside of collectives, by their own time."""
    working, own = 0, Counter[str]()
    for rank in ranks:
        working += _working(rank).total_ns
        own.update(_own_times(rank))
    share = scale.share(working)
    text = f"operators on the host take {percent(share)} of {scale.of_period}"
    top = [(name, ns) for name, ns in own.most_common(_SHOWN) if ns]
    whole = sum(own.values())
    if share < MATERIAL:
        text = (
            f"nothing that is recorded runs on the host for {percent(1 - share)} of "
            f"{scale.of_period}; its operators take {percent(share)}"
        )
    elif top:
        text += f"; {short_name(top[0][0])} takes {percent(top[0][1] / whole)} of that"
    largest = "; ".join(f"{short_name(name)} {percent(ns / whole)}" for name, ns in top)
    largest = f"largest operators, by their own time: {largest}" if largest else ""
    idle = _portions(ranks).shares.get("idle", 0.0)
    rest = f"for {percent(idle)} no operator is recorded" if share >= MATERIAL <= idle else ""
    return Finding(
        kind="cpu_bound",
        text=sentence(text),
        more=" ".join(filter(None, map(sentence, (largest, rest)))),
        where=Where(kernel=top[0][0] if top else None),
        share=share,
        cost_ms=scale.cost_ms(working),
        saves_why="their times do not show how much faster the operators could be",
        sure=Sure(what="high"),
        do="Look at the largest operators (U in Timeline shows them): threads, shapes, fusion. "
        + _RECORD_DEVICE,
    )


def _own_times(rank: RankView) -> Counter[str]:
    """Return the time of each operator outside the operators inside it, in ns by name.

    Operators that communicate are left out: their time is that of collectives.
    """
    events = rank.trace.group("cpu_ops")
    computes = ~_communicates(rank, events.name)
    chosen = np.flatnonzero(rank.windows.contains(events.start_ns))
    found: Counter[str] = Counter()
    track = events.track[chosen]
    for one in distinct_values(track).tolist():
        rows = chosen[track == one]
        start, end = events.start_ns[rows], events.end_ns[rows]
        order = np.lexsort((-end, start))
        rows, start, end = rows[order], start[order], end[order]
        outer = Nesting(start, end).outer
        own = np.where(computes[rows], end - start, 0).astype(np.float64)
        inner = outer != NONE
        np.subtract.at(own, outer[inner], (end - start)[inner])
        total = np.bincount(events.name[rows], weights=np.maximum(own, 0))
        for name in np.flatnonzero(total).tolist():
            found[rank.trace.text(name)] += int(total[name])
    return found


def operator_totals(ranks: Sequence[RankView]) -> list[tuple[str, int]]:
    """Return the operators of ranks with their own time in ns, the largest first."""
    own = Counter[str]()
    for rank in ranks:
        own.update(_own_times(rank))
    return own.most_common()
