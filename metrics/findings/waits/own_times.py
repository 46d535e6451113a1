"""Who is slow by the times of the ranks themselves: no call has to be matched.

Kernels of one name are compared between ranks in each step. Ranks that run one program launch them
as often and with the same work, so that one factor over all names is that of the device; where only
some names take longer, the work differs, and nobody is named here (`slower_ranks`).

A rank that others wait for is also busy longer than they are: it computes, copies, or idles for its
host while they wait in collectives. One that waits itself is not (`busiest`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct, structs

from ccltui.metrics.arrays.intervals import Intervals, union
from ccltui.metrics.arrays.reductions import distinct_values, unique_inverse
from ccltui.metrics.arrays.typical import lower_median
from ccltui.metrics.confidence import Level
from ccltui.metrics.device.device_time import device_ranks
from ccltui.metrics.facts import fact
from ccltui.metrics.findings.rank_time.idle_causes import causes_of, idle_of
from ccltui.metrics.findings.replay.ladder import ladder_of
from ccltui.metrics.findings.replay.lines.step_lines import main_rows
from ccltui.metrics.model.classify import COMP, TYPES, distinct
from ccltui.metrics.model.kernel_names import bare_name
from ccltui.metrics.unavailable import Refusal
from ccltui.metrics.view.rank_view import in_turn
from ccltui.parsers.array_types import F64, I64, Bool
from ccltui.parsers.columns import RankTrace

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView

_DEFAULT_NAME: Final = re.compile(r"(?P<host>.+)_\d+\.\d{13,}\.pt\.trace\.json(?:\.gz)?")
"""What PyTorch's `tensorboard_trace_handler` calls a file by default: host, process, and time."""


def host_of(trace: RankTrace) -> str:
    """Return the host that a file states, else that in its name, "" where neither is known."""
    if trace.host:
        return trace.host
    found = _DEFAULT_NAME.fullmatch(PurePath(trace.source.path).name)
    return found["host"] if found else ""


LEAST_EXCESS: Final = 0.05
"""Share by which kernels of a slow rank take longer: devices of a kind differ by some per cent."""
ERRORS: Final = 4
"""Standard errors, over steps, that a difference has to exceed."""
ALIKE: Final = 0.5
"""Ranks with this share of the largest excess are slow too; those below it are not."""
APART: Final = 0.6
"""Those that are not slow have less than this share of the least excess of a slow one."""
UNIFORM: Final = 0.85
"""Share of the compute time that takes longer by half of the factor or more: a slow device."""
COVERED: Final = 0.8
"""Share of the usual compute time whose kernels a rank has in a step, to be compared in it."""
ALWAYS: Final = 0.7
"""A rank that takes longer over all steps by this share of what it does in its slow ones is slow
always: of two ranks in turn each has about half."""
CALM: Final = 0.25
"""Share of the excess that no other rank reaches, in no step where some are slow, for it to be sure
who is: times that vary by chance have some between, and so have ranks in turn without steps."""
FEW: Final = 0.25
"""At most this share of the ranks is named where they are no host and no stage."""
BINS: Final = 10
"""Parts of a window without steps, of each name by the number of its kernels."""
SOME_KERNELS: Final = 20
"""Fewer kernels of a rank tell little."""
CLEAR_EXCESS: Final = 0.1
"""Excess in single steps that is no chance: passes vary by some per cent, and of many steps of many
ranks one exceeds the others by four times as much as they scatter."""
CLEAR_OF_TWO: Final = 0.2
"""The same where there are two ranks: the faster one is the usual one then, so that the chance
variation of both is in the excess of the other."""
STEPS_OF_TWO: Final = 5
"""Slow steps of one of two ranks that are no chance: all of five pauses that hit either as often
hit the same rank in one of 16 jobs, all of three in one of 4. Of more ranks the calm of all others
tells it: of 300 jobs three of two ranks that vary by chance were named surely, none of more."""
MOST_UNKNOWN: Final = 0.25
"""Share of the steps of all ranks that may lack records where somebody is surely slow."""
IN_TURN: Final = 0.75
"""Share of the steps in which one of several ranks is slow, for them to be so in turn: pauses by
chance hit several ranks too, and leave most steps as they were."""
STEADY: Final = 0.3
"""Scatter of what several ranks exceed others by together, over that of each, where they are slow
in turn: two that vary by chance have 1.4."""
SEEN_WAITING: Final = 0.5
"""Others have to spend this share of the excess without computing, or it delays nobody."""
SUPPORTED: Final = 0.25
"""Share of the waiting for a rank by which it has to be busy longer than the typical rank: what is
not supported by that may as well be a slow transfer, or a rank that waits itself."""
BUSIEST_EXCESS: Final = 0.05
CLEARLY_BUSIEST: Final = 0.08
"""Shares of the time by which the busiest rank exceeds the typical one: to be named by that, and to
be named surely."""
SECOND, CLEAR_SECOND = 0.5, 0.25
"""Shares of its excess that no other rank reaches: to be named, and to be named surely."""
TRANSFERS: Final = tuple(TYPES.index(one) for one in ("Send", "Recv", "SendRecv"))
SEEN: Final = 0.5
"""Share of its excess that the others wait for anything, on average."""
FEW_STEPS: Final = 3
"""Fewer steps do not show whether the same rank is the busiest each time."""
MOST_STEPS: Final = 0.5
"""Share of steps that a steadily busiest rank leads. In jobs whose kernels vary by chance one of
four ranks was busy 12 % longer in sum and led 3 of 7 steps."""


class NamedByTimes(Struct, frozen=True):
    """Ranks or links that are slow by the times of the ranks themselves.

    Attributes:
        kind: class of the finding: slow ranks, a slow link, or others waiting for the busiest.
        ranks: labels of the ranks, or of the members of the link; empty for all links.
        share: share of rank time that is lost by it at most.
        sure: how sure it is that they are to blame.
        factor: their time over that of the others, in their slow steps; None without any.
        host: host of slow ranks, where they are all of its ranks.
        stage: their pipeline stage, where they are all of it.
        steps: ids of the slow steps, empty where all are.
        takes_turns: whether they are several ranks, of which no two are slow in one step.
        is_pair: whether a link joins two ranks that send to each other.
        group: which links these are, where they are all of a kind.
        gbps: bandwidth a rank of all links between hosts.
    """

    kind: str
    ranks: tuple[str, ...]
    share: float
    sure: Level
    factor: float | None = None
    host: str | None = None
    stage: int | None = None
    steps: tuple[int, ...] = ()
    takes_turns: bool = False
    is_pair: bool = False
    group: str | None = None
    gbps: float | None = None

    def details(self, period_ms: float) -> Mapping[str, Any]:
        """Return this as the metric ``verdict`` states whom it names.

        What is saved is not replayed: at most what the others lose while they wait.
        """
        culprit = {
            "ranks": list(self.ranks),
            "pair": list(self.ranks) if self.is_pair else None,
            "stage": self.stage,
            "host": self.host,
            "group": self.group,
            "steps": list(self.steps),
            "factor": self.factor,
            "gbps": self.gbps,
        }
        return {
            "verdict": self.kind,
            "confidence": self.sure,
            "culprit": culprit,
            "saves_ms": None,
            "saves_bounds_ms": [0.0, self.share * period_ms],
            "loss_ms": self.share * period_ms,
        }


class Speeds(Struct, frozen=True):
    """Time of each rank's kernels over that of the same kernels of the typical rank.

    Attributes:
        by_step: factor [ranks, steps], NaN where a rank cannot be compared.
        by_name: factor [ranks, names] over all steps, NaN likewise.
        weight: usual time of each name, summing to 1.
        step_ids: ids of the steps, -1 for parts of a window without any.
        kernels: number of kernels of each rank.
    """

    by_step: F64
    by_name: F64
    weight: F64
    step_ids: I64
    kernels: I64


def slower_ranks(view: View) -> NamedByTimes | None:
    """Return the ranks whose own kernels are slow, None where no few are; views share it."""
    return view.remember(slower_ranks, lambda: _slower(view, device_ranks(view)))


def _slower(view: View, ranks: Sequence[RankView]) -> NamedByTimes | None:
    speeds = speeds_of(view)
    if speeds is None:
        return None
    excess = speeds.by_step - 1
    known = ~np.isnan(excess).all(axis=1)
    mean = np.where(known, _mean(excess), 0.0)
    worst = np.where(known, np.nanmax(np.where(np.isnan(excess), -1.0, excess), axis=1), 0.0)
    largest = float(worst.max(initial=0.0))
    if largest < LEAST_EXCESS:
        return None
    hits = np.nan_to_num(excess, nan=0.0) >= np.maximum(ALIKE * largest, LEAST_EXCESS)
    of_hits = np.where(hits, np.nan_to_num(excess), 0.0).sum(axis=1) / np.maximum(
        hits.sum(axis=1), 1
    )
    always = hits.any(axis=1) & (mean >= ALWAYS * of_hits)
    in_turn = _in_turn(excess, mean)
    always &= not len(in_turn)
    slow = np.flatnonzero(always if always.any() else hits.any(axis=1))
    slow = in_turn if len(in_turn) else slow
    others = np.setdiff1d(np.flatnonzero(known), slow, assume_unique=True)
    if not len(slow) or not len(others) or not _stands_out(excess, hits, slow, others):
        return None
    found = _named(
        _Case(view, ranks, speeds, hits, slow, others, bool(always.any()), bool(len(in_turn)))
    )
    if found is None or found.kind == "heavy_stage":  # a stage may well have other work
        return found
    uniform = all(_is_uniform(speeds, rank, float(mean[rank])) for rank in slow.tolist())
    return found if uniform else None


def _in_turn(excess: F64, mean: F64) -> I64:
    """Return the ranks of which one is slow while the others are not, so that their sum is steady.

    Parts of a window hold slow steps of several ranks: each is slow in most parts then.
    """
    slow = np.flatnonzero(mean >= ALIKE * float(mean.max()))
    if not 2 <= len(slow) <= max(2, int(FEW * len(mean))):
        return slow[:0]
    mine = excess[slow]
    mine = mine[:, ~np.isnan(mine).any(axis=0)]
    steady = mine.shape[1] > 2 and float(mine.sum(axis=0).std()) <= STEADY * float(mine.std())
    return slow if steady else slow[:0]


def _mean(values: F64) -> F64:
    """Mean of each row without its NaN."""
    there = ~np.isnan(values)
    total = np.where(there, values, 0.0).sum(axis=1)
    return np.asarray(total / np.maximum(there.sum(axis=1), 1))


def _stands_out(excess: F64, hits: Bool, slow: I64, others: I64) -> bool:
    """Whether the slow ranks exceed all others clearly, by more than steps scatter."""
    # 0 of a rank that is slow in none: it takes turns with others, and does not stand out.
    least = float(_mean(np.where(hits[slow], excess[slow], np.nan)).min())
    rest = excess[others]
    calm = rest[~np.isnan(rest)]
    if not len(calm):
        return False
    largest = float(_mean(rest).max(initial=0.0))
    error = float(np.std(calm)) / np.sqrt(max(int(hits[slow].sum(axis=1).min()), 1))
    return least > ERRORS * error and largest < APART * least


def _is_uniform(speeds: Speeds, rank: int, excess: float) -> bool:
    """Whether most of the compute time of a rank takes longer by about the same factor."""
    factors = speeds.by_name[rank]
    longer = np.nan_to_num(factors, nan=1.0) - 1 >= ALIKE * excess
    return float(speeds.weight[longer].sum()) >= UNIFORM


class _Case(Struct, frozen=True):
    """Ranks of which some are slow.

    Attributes:
        view: the view.
        ranks: all ranks with devices.
        speeds: factors of their kernels.
        hits: slow steps of each rank, [ranks, steps].
        slow: the slow ranks (indices).
        others: those that are not and can be compared.
        is_always: whether they are slow in all steps.
        in_turn: whether one of them is slow while the others are not.
    """

    view: View
    ranks: Sequence[RankView]
    speeds: Speeds
    hits: Bool
    slow: I64
    others: I64
    is_always: bool
    in_turn: bool


def _named(case: _Case) -> NamedByTimes | None:
    """Return who is slow, by what its ranks are all of; None where they are many of nothing."""
    ranks, slow, is_always = case.ranks, case.slow.tolist(), case.is_always
    labels = tuple(ranks[rank].label for rank in slow)
    stage = _stage(case.view, labels)
    host = host_of_all(ranks, labels)
    few = len(labels) <= max(1, min(2, len(ranks) - 1), int(FEW * len(ranks)))
    if not few and not (is_always and (stage is not None or host is not None)):
        return None
    kind = "slow_worker" if is_always else "occasional_worker"
    if is_always and stage is not None:
        kind = "heavy_stage"
    elif is_always and host is not None:
        kind = "slow_node"
    elif is_always and len(labels) > 1 and has_stages(ranks):
        kind = "heavy_stage"  # by all that is known: no file tells which ranks are one
    steps: tuple[int, ...] = ()
    if not is_always:
        together = np.flatnonzero(case.hits[slow].any(axis=0))
        steps = tuple(one for one in case.speeds.step_ids[together].tolist() if one >= 0)
    factors = [float(np.nanmean(case.speeds.by_step[rank][case.hits[rank]])) for rank in slow]
    least = CLEAR_EXCESS if len(ranks) > 2 else CLEAR_OF_TWO
    if not is_always and np.mean(factors) - 1 < least:
        return None
    longer, share = _costs(case, more_work=kind == "heavy_stage")
    enough = int(case.speeds.kernels.min()) >= SOME_KERNELS and case.hits.shape[1] > 1
    of_each = case.hits[slow].sum(axis=0)
    takes_turns = case.in_turn or (len(slow) > 1 and bool((of_each <= 1).all()))
    in_most = takes_turns and float(of_each.mean()) >= IN_TURN
    in_some = not is_always and len(slow) > 1 and not (in_most or case.in_turn)
    if in_some and not np.isin(of_each, (0, len(slow))).all():
        return None  # neither in turn nor together: single steps of some ranks, by chance
    # A stage may have slack that its work takes up, and several ranks may be a stage.
    staged = has_stages(ranks)
    one = len(labels) == 1 and not (staged and _is_a_stage(case.view, labels[0]))
    one |= in_most
    one |= kind == "slow_node" and not staged
    clear = (
        enough
        and one
        and _others_are_calm(case)
        and share >= SEEN_WAITING * longer
        and not case.view.job.missing_ranks
    )
    clear &= np.isnan(case.speeds.by_step).mean() <= MOST_UNKNOWN
    if not is_always:
        clear &= len(ranks) > 2 or int(of_each.sum()) >= STEPS_OF_TWO
    return NamedByTimes(
        kind=kind,
        ranks=labels,
        factor=float(np.mean(factors)),
        share=share,
        sure="medium" if clear else "low",
        host=host if kind == "slow_node" else None,
        stage=stage if kind == "heavy_stage" else None,
        steps=steps,
        takes_turns=takes_turns,
    )


def _others_are_calm(case: _Case) -> bool:
    """Whether no other rank comes near the slow ones: over all steps, or in any single one."""
    excess = case.speeds.by_step - 1
    least = min(float(excess[rank][case.hits[rank]].mean()) for rank in case.slow.tolist())
    rest = excess[case.others]
    largest = float(_mean(rest).max()) if case.is_always else float(np.nanmax(rest))
    return largest < CALM * least


def _is_a_stage(view: View, label: str) -> bool:
    """Whether a rank may be a whole pipeline stage, whose time its work may take."""
    try:
        job = ladder_of(view).job
    except Refusal:
        return True
    mine = job.stages.stage[list(job.labels).index(label)] if label in job.labels else -1
    return mine < 0 or int((job.stages.stage == mine).sum()) < 2


def host_of_all(ranks: Sequence[RankView], labels: Sequence[str]) -> str | None:
    """Return the host that some ranks are all of, None where they are none, or all there is."""
    hosts = {rank.label: host_of(rank.trace) for rank in ranks}
    named = {hosts[label] for label in labels}
    members = {label for label, host in hosts.items() if host in named}
    whole = len(named) == 1 and "" not in named and members == set(labels)
    return named.pop() if whole and len(members) > 1 and len(set(hosts.values())) > 1 else None


def _stage(view: View, labels: Sequence[str]) -> int | None:
    """Return the pipeline stage that some ranks are all of, None where they are none."""
    try:
        job = ladder_of(view).job
    except Refusal:
        return None
    if job.stages.count < 2:
        return None
    of_label = dict(zip(job.labels, job.stages.stage.tolist(), strict=True))
    stages = {of_label.get(label, -1) for label in labels}
    if len(stages) != 1 or -1 in stages:
        return None
    stage = stages.pop()
    members = {label for label, one in of_label.items() if one == stage}
    return int(stage) if members == set(labels) and len(members) > 1 else None


def _costs(case: _Case, *, more_work: bool) -> tuple[float, float]:
    """Return how much longer the slow ranks compute, and what is lost by that, of rank time.

    No more than others spend without computing, and than one slow rank is busy longer. Work that a
    stage has more of, in longer kernels or in more of them, remains to be done: the stage itself
    keeps its share.
    """
    ranks, speeds, hits, slow, others = (
        case.ranks,
        case.speeds,
        case.hits,
        case.slow,
        case.others,
    )
    compute = [rank.comp_ns for rank in ranks]
    excess = np.nan_to_num(speeds.by_step[slow] - 1, nan=0.0)
    usual = lower_median(np.array([compute[rank] for rank in others.tolist()], np.float64))
    longer = float(np.where(hits[slow], excess, 0.0).max(axis=0).mean()) * usual
    if more_work:
        mine = float(np.mean([compute[rank] for rank in slow.tolist()]))
        longer = (mine - usual) * len(others) / (len(slow) + len(others))
    waiting = [ranks[rank].window_ns - compute[rank] for rank in others.tolist()]
    # Idle time of unknown cause is for the host, or for others in a wait that no kernel shows.
    busy = np.array([busy_share(rank) * rank.window_ns for rank in ranks])
    works = busy - np.array([_idle_ns(rank, "unknown") for rank in ranks])
    late = max(float(one[slow].max()) - lower_median(one[others]) for one in (busy, works))
    cost = max(min(longer, float(np.mean(waiting)), late if len(slow) == 1 else longer), 0.0)
    whole = max(float(np.mean([rank.window_ns for rank in ranks])), 1.0)
    return longer / whole, cost / whole


def speeds_of(view: View) -> Speeds | None:
    """Compare kernels of each name; None where ranks have too few in common. Views share it."""
    return view.remember(speeds_of, lambda: _speeds(device_ranks(view)))


@fact("own_times")
def _speeds(ranks: Sequence[RankView]) -> Speeds | None:
    if len(ranks) < 2:
        return None
    names: dict[str, int] = {}
    tables = [_table(rank, names) for rank in in_turn(ranks)]
    ids = distinct_values(np.concatenate([steps for _, steps, _ in tables]))
    total, count = np.zeros((2, len(ranks), len(names), len(ids)))
    for place, (mine, steps, sums) in enumerate(tables):
        at = mine[:, np.newaxis], np.searchsorted(ids, steps)
        total[place][at], count[place][at] = sums
    if not total.any():
        return None
    mean = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    shared = (count > 0).any(axis=2).sum(axis=0) * 2 > len(ranks)
    usual = _over_ranks(mean)
    usual_count = np.nan_to_num(_over_ranks(np.where(count > 0, count, np.nan)))
    weight = np.where(shared[:, np.newaxis], np.nan_to_num(usual) * usual_count, 0.0)
    enough = (count >= 0.5 * usual_count) & (weight > 0)
    held = np.where(enough, weight, 0.0)
    ratio = np.where(enough, mean / np.where(usual > 0, usual, 1.0), 0.0)
    whole, have = weight.sum(axis=0), held.sum(axis=1)
    comparable = (have >= COVERED * whole) & (whole > 0)
    by_step = np.where(
        comparable, (ratio * held).sum(axis=1) / np.where(have > 0, have, 1.0), np.nan
    )
    of_name = held.sum(axis=2)
    by_name = np.where(
        of_name > 0, (ratio * held).sum(axis=2) / np.where(of_name > 0, of_name, 1.0), np.nan
    )
    kinds = weight.sum(axis=1)
    everything = float(kinds.sum())
    if not everything:
        return None
    return Speeds(by_step, by_name, kinds / everything, _named_ids(ranks, ids), _counts(count))


def _counts(count: F64) -> I64:
    return np.asarray(count.sum(axis=(1, 2)).astype(np.int64))


def _named_ids(ranks: Sequence[RankView], ids: I64) -> I64:
    """Return ids of steps, -1 for parts of a window."""
    by_steps = all(rank.by_steps for rank in ranks)
    return ids if by_steps else np.full(len(ids), -1, np.int64)


def _over_ranks(values: F64) -> F64:
    """Return the lower median over ranks of each name in each step, NaN where none has any."""
    ordered = np.sort(values, axis=0)  # NaN last
    there = (~np.isnan(values)).sum(axis=0)
    place = np.maximum(there - 1, 0) // 2
    return np.asarray(np.take_along_axis(ordered, place[np.newaxis], axis=0)[0])


def _table(rank: RankView, names: dict[str, int]) -> tuple[I64, I64, F64]:
    """Return names, steps, and time and number of the kernels that compute, [2, names, steps]."""
    gpu = rank.trace.group("gpu")
    rows = np.flatnonzero((rank.facts.classes == COMP) & rank.starts_inside & (gpu.name >= 0))
    texts = distinct(gpu.name[rows])
    codes = np.zeros(len(rank.trace.strings), np.int64)
    for one in texts:
        codes[one] = names.setdefault(bare_name(rank.trace.text(one)), len(names))
    mine, name = unique_inverse(codes[gpu.name[rows]])
    steps, step = unique_inverse(_steps(rank, name, gpu.start_ns[rows]))
    at, shape = name * len(steps) + step, (len(mine), len(steps))
    # whole nanoseconds: float64 sums them exactly
    sums = [np.bincount(at, one, mine.size * steps.size) for one in (gpu.dur_ns[rows], None)]
    return mine, steps, np.array(sums, np.float64).reshape(2, *shape)


def _steps(rank: RankView, name: I64, start_ns: I64) -> I64:
    """Return the step of each kernel, of a window without steps its part."""
    if not rank.by_steps:
        return _parts(name, start_ns)
    windows = rank.step_windows
    starts = np.array([one for _, one, _ in windows], np.int64)
    ids = np.array([step for step, _, _ in windows], np.int64)
    at = np.clip(np.searchsorted(starts, start_ns, side="right") - 1, 0, max(len(ids) - 1, 0))
    return np.asarray(ids[at])


def _parts(name: I64, start_ns: I64) -> I64:
    """Number the parts of a window: of each name the kernels in the order of their starts."""
    order = np.lexsort((start_ns, name))
    count = np.bincount(name, minlength=1)
    first = np.cumsum(count) - count
    place = np.empty(len(name), np.int64)
    place[order] = np.arange(len(name)) - first[name[order]]
    return np.asarray(place * BINS // count[name])


def busy_excess(view: View) -> Mapping[str, float]:
    """Return by how much each rank is busy longer than the typical rank, as a share of its time."""
    return view.remember(busy_excess, lambda: _excess(view))


def _excess(view: View) -> Mapping[str, float]:
    return _beyond_typical({rank.label: busy_share(rank) for rank in device_ranks(view)})


def _beyond_typical(shares: Mapping[str, float]) -> Mapping[str, float]:
    """Return shares by rank less that of the typical rank."""
    typical = lower_median(np.array(list(shares.values())))
    return {label: one - typical for label, one in shares.items()}


def busy_share(rank: RankView) -> float:
    """Return the share of its time that a rank does not spend waiting for others."""
    waits = _in_calls_ns(rank) + _idle_ns(rank, "dependency")
    return 1 - waits / max(rank.window_ns, 1)


def _in_calls(rank: RankView) -> Intervals:
    """Return the time in collectives that neither copies nor kernels of the program hide.

    Kernels of a stream beside it hide a wait and end none: they make no rank late.
    """
    gpu, rows = rank.trace.group("gpu"), main_rows(rank.facts)
    return rank.comm - rank.mem - union(gpu.start_ns[rows], gpu.end_ns[rows])


def _in_calls_ns(rank: RankView) -> int:
    return rank.sum_up(_in_calls_ns, lambda: _in_calls(rank).total_ns)


def _idle_ns(rank: RankView, cause: str) -> int:
    """Return the idle time of a rank of one cause."""
    idle = causes_of(rank)
    return idle[cause].total_ns if cause in idle else 0


def is_supported(view: View, labels: Sequence[str], share: float) -> bool:
    """Whether ranks are busy long enough to be what others wait a share of their time for."""
    return _reaches(busy_excess(view), labels, share)


def is_busiest(view: View, label: str) -> bool:
    """Whether no other rank comes near to what a rank is busy longer than the typical one."""
    excess = busy_excess(view)
    most = excess.get(label, 0.0)
    return most > 0 and all(one <= SECOND * most for other, one in excess.items() if other != label)


def computes_longer(view: View, labels: Sequence[str], share: float) -> bool:
    """Whether ranks compute long enough to lose a share of the time of all by it.

    What a replay takes for longer passes may be waits that no kernel shows.
    """
    ranks = device_ranks(view)
    shares = {rank.label: rank.comp_ns / max(rank.window_ns, 1) for rank in ranks}
    return _reaches(_beyond_typical(shares), labels, share)


def is_always_slow(view: View, labels: Sequence[str]) -> bool:
    """Whether kernels of ranks take longer in most steps; True where steps do not show it."""
    speeds = speeds_of(view)
    mine = [place for place, rank in enumerate(device_ranks(view)) if rank.label in labels]
    if speeds is None or not mine or (speeds.step_ids < 0).any():
        return True
    excess = speeds.by_step[mine] - 1
    excess = excess[~np.isnan(excess)]
    mean = float(excess.mean()) if len(excess) else 0.0
    return mean < LEAST_EXCESS or float((excess >= ALIKE * mean).mean()) >= ALWAYS


def _reaches(excess: Mapping[str, float], labels: Sequence[str], share: float) -> bool:
    """Whether ranks exceed the typical one by enough, on average; those without a file do."""
    known = [excess[one] for one in labels if one in excess]
    return not known or float(np.mean(known)) >= SUPPORTED * share


def has_stages(ranks: Sequence[RankView]) -> bool:
    """Whether ranks send to each other as the stages of a pipeline do, which differ anyway."""
    return any(np.isin(rank.device_calls.kind, TRANSFERS).any() for rank in ranks)


def busiest(view: View) -> NamedByTimes | None:
    """Return the rank that is busy longer than all others by far, None where none is.

    Its share is what the others wait for it at most.
    """
    ranks = device_ranks(view)
    if len(ranks) < 2:
        return None
    found = _busiest(view, {rank.label: busy_share(rank) for rank in ranks})
    return found or _last_of_all(view, ranks)


def _busiest(view: View, busy: Mapping[str, float]) -> NamedByTimes | None:
    """Return the rank with the longest busy time, by shares of time of all ranks."""
    excess = _beyond_typical(busy)
    label = max(excess, key=lambda one: excess[one])
    most = excess[label]
    second = max(value for one, value in excess.items() if one != label)
    others = float(np.mean([1 - share for one, share in busy.items() if one != label]))
    if most < BUSIEST_EXCESS or second > SECOND * most or others < SEEN * most:
        return None
    clear = most >= CLEARLY_BUSIEST and second <= CLEAR_SECOND * most and len(excess) > 2
    clear = clear and not has_stages(device_ranks(view)) and _is_steady(view, label)
    sure: Level = "medium" if clear else "low"
    return NamedByTimes("waiting_for_rank", (label,), min(most, others), sure)


def _last_of_all(view: View, ranks: Sequence[RankView]) -> NamedByTimes | None:
    """Return the rank that waits least in collectives, None where idle times may be waits too.

    Where the others wait in kernels alone, so would it: what it idles instead is no wait for them.
    """
    busy = {rank.label: 1 - _in_calls_ns(rank) / max(rank.window_ns, 1) for rank in ranks}
    idle = [_idle_ns(rank, "dependency") / max(rank.window_ns, 1) for rank in ranks]
    found = _busiest(view, busy)
    if found is None or lower_median(np.array(idle)) > CLEAR_SECOND * found.share:
        return None
    return structs.replace(found, sure="low")


def _is_steady(view: View, label: str) -> bool:
    """Whether a rank is the busiest in most steps; True where too few steps are measured to tell.

    What varies by chance makes one rank the busiest in sum too, but not step after step.
    """
    busy = [busy_by_step(rank) for rank in device_ranks(view)]
    common = set.intersection(*(set(one) for one in busy))
    if len(common) < FEW_STEPS:
        return True
    own = next(
        one for rank, one in zip(device_ranks(view), busy, strict=True) if rank.label == label
    )
    leads = sum(own[step] >= max(one[step] for one in busy) for step in common)
    return leads > MOST_STEPS * len(common)


def busy_by_step(rank: RankView) -> dict[int, int]:
    """Return the time in ns of each step that a rank does not spend waiting, by step id."""
    return rank.sum_up(busy_by_step, lambda: _busy_by_step(rank))


def _busy_by_step(rank: RankView) -> dict[int, int]:
    waits, idle = _in_calls(rank), idle_of(rank).waiting_ns
    rank.sum_up(_in_calls_ns, lambda: waits.total_ns)
    exposed = rank.covered_by_step(waits)
    return {
        step: end - start - exposed[step] - idle[step]
        for step, start, end in rank.step_windows
        if step >= 0
    }
