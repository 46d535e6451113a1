"""Single slow steps of a job: what each costs beyond the median step, who or what, and how sure.

A step is slow where its time is an outlier above the median and the excess is material. A rank is
named where the waiting behind it is beyond that of the other steps (`step_roots`), else where its
time outside of communication is the only one that grew; else the part of the time that grew most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ccltui.metrics.arrays.intervals import Intervals
from ccltui.metrics.arrays.statistics import mean, median, milliseconds
from ccltui.metrics.collectives.matching.match import CONFIDENCES
from ccltui.metrics.confidence import Level, Sure, lowest
from ccltui.metrics.facts import fact
from ccltui.metrics.findings.causes.activity import HOST_WORDS, HostWork
from ccltui.metrics.findings.causes.evidence import cause_words
from ccltui.metrics.findings.causes.instance_report import describe
from ccltui.metrics.findings.causes.roots import (
    BLAMELESS_CAUSES,
    HIGH_ROOT_SHARE,
    MEDIUM_ROOT_SHARE,
    Followed,
    Named,
    beyond_usual,
    reliable_step_roots,
)
from ccltui.metrics.findings.rank_time.step_parts import PARTS, StepParts, from_end, step_parts
from ccltui.metrics.unavailable import Refusal
from ccltui.metrics.view.collective_selection import materiality_pct
from ccltui.metrics.view.match_quality import confidence_limit
from ccltui.parsers.numbers import duration

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView
    from ccltui.parsers.array_types import I64

MIN_STEPS: Final = 3
"""Of two steps neither is the usual one."""
_HOW_MUCH: Level = "medium"
"""That a slow step takes the median time once its cause is fixed is an estimate."""
OUTLIER: Final = 3.5
"""Deviations from the median that make a step an outlier (Iglewicz and Hoaglin 1993)."""
_MAD_TO_STD: Final = 1.4826
_MEAN_AD_TO_STD: Final = 1.2533  # where more than half of the steps take equally long
MOST_LISTED: Final = 5
LEAST_SHARE: Final = 0.25
"""Share of the excess from which on the part that grew most is named."""
_Time = TypeVar("_Time", int, "I64")
_NAMES: Final = {
    "compute": "more computation",
    "exposed": "more communication and waiting",
    "overlapped": "more computation that overlaps communication",
    "copy": "more copies",
    "idle": "more idle time",
}


class SlowStep(Struct, frozen=True):
    """One slow step; times in ns.

    Attributes:
        step: id of the step.
        time_ns: its time (`StepParts.time_ns`), and ``over_ns`` what of it is beyond the median.
        over_ns: see ``time_ns``.
        label: the rank that made the step slow, None for nobody.
        cause: why that rank was late; without a rank the part that grew most.
        wait_ns: exposed waiting at collectives behind the rank beyond that of the median step; 0
            where it is not told by collectives.
        sure: how sure its cause is, who made it slow, and that it takes the median time otherwise.
        why: sentence on the cause, without the step.
        rank: the rank on which it is seen.
        place: matched group and instance of the worst wait, None where no collective tells it.
    """

    step: int
    time_ns: int
    over_ns: int
    label: str | None
    cause: str
    wait_ns: int
    sure: Sure
    why: str
    rank: str
    place: tuple[int, int] | None = None

    @property
    def sentence(self) -> str:
        """The finding in one sentence, without a full stop."""
        whole, over = duration(self.time_ns), duration(self.over_ns)
        ends = f"on the devices step {self.step} takes {whole}"
        return f"{ends}, {over} more than the median step: {self.why}"


def robust_deviation(values: Sequence[float]) -> tuple[float, float]:
    """Return the median and an estimate of the standard deviation that outliers do not change."""
    middle = median(values) or 0.0
    distances = [abs(value - middle) for value in values]
    spread, average = median(distances) or 0.0, mean(distances) or 0.0
    return middle, _MAD_TO_STD * spread or _MEAN_AD_TO_STD * average


def slow_steps(view: View) -> list[SlowStep]:
    """Return the slow steps of a view, the largest excess first.

    Raises:
        Refusal: the materiality is no positive number.
    """
    return view.remember(slow_steps, lambda: _slow_steps(view))


@fact("slow_steps")
def _slow_steps(view: View) -> list[SlowStep]:
    if view.options.group is not None:  # steps are slow with all that is in them
        return slow_steps(view.with_options(group=None))
    parts = step_parts(view, from_end)
    times = parts.time_ns.tolist()
    if len(times) < MIN_STEPS:
        return []
    middle, deviation = robust_deviation(times)
    least = max(OUTLIER * deviation, middle * materiality_pct(view) / 100)
    slow = [row for row, time in enumerate(times) if time - middle > least]
    slow.sort(key=lambda row: -times[row])
    if not slow:
        return []
    try:
        roots = reliable_step_roots(view)
    except Refusal:
        roots = {}
    return [
        _slow_step(view, parts, row, round(times[row] - middle), roots)
        for row in slow[:MOST_LISTED]
    ]


def _slow_step(
    view: View, parts: StepParts, row: int, over_ns: int, roots: dict[int, Followed]
) -> SlowStep:
    step, time = parts.steps[row], int(parts.time_ns[row])
    named = beyond_usual(roots, step, confidence_limit(view)).named
    # Who causes less waiting than one rank would do in the excess is not what made it slow.
    if named is not None and named.wait_ns >= over_ns and named.cause not in BLAMELESS_CAUSES:
        place = roots[step].place_of(named.label)
        return SlowStep(
            step,
            time,
            over_ns,
            label=named.label,
            cause=named.cause,
            wait_ns=named.wait_ns,
            sure=replace(named.sure, how_much=_HOW_MUCH),
            why=_why_named(view, named, place),
            rank=named.label,
            place=place,
        )
    base = row if parts.middle is None else parts.middle
    changes = _changes(parts, row, base)
    alone = _alone(changes, over_ns)
    if alone is not None:
        column, confidence = alone
        label = parts.labels[column]
        own = {name: int(change[column]) for name, change in changes.items()}
        cause, why = _grown_on(view, label, own, step, parts.steps[base])
        grown = duration(_own_growth(changes)[column])
        why = f"rank {label} alone works or idles {grown} longer outside of communication: {why}"
        sure = Sure(what=confidence, who=confidence, how_much=_HOW_MUCH)
        return SlowStep(step, time, over_ns, label, cause, 0, sure, why, label)
    cause, why, confidence, rank = _grown(view, parts, row, base, over_ns)
    sure = Sure(what=confidence, how_much=_HOW_MUCH)
    return SlowStep(step, time, over_ns, None, cause, 0, sure, why, rank)


def _why_named(view: View, named: Named, place: tuple[int, int] | None) -> str:
    waited = f"rank {named.label} keeps the others waiting, {duration(named.wait_ns)} in all"
    found = None if place is None else describe(view, *place, doing=False)
    if found is None or found.why is None or found.last != named.label:
        return f"{waited} ({cause_words(named.cause)})"
    return f"{waited}: {found.why.removeprefix(f'rank {named.label}: ')}"


def _changes(parts: StepParts, row: int, base: int) -> dict[str, I64]:
    """Return the change of each part against another step on each rank, int64 ns [r].

    0 on a rank that lacks one of the steps.
    """
    there = (parts.start_ns[row] >= 0) & (parts.start_ns[base] >= 0)
    grown = [np.where(there, part[row] - part[base], 0) for part in parts.parts_ns]
    return _with_exposed(dict(zip(PARTS, grown, strict=True)))


def _with_exposed(parts: dict[str, _Time]) -> dict[str, _Time]:
    """Return the parts of a step with exposed communication in one."""
    exposed = parts["waiting"] + parts["transfer"] + parts["bubble"]
    own = {name: parts[name] for name in ("compute", "overlapped", "idle")}
    return {**own, "copy": parts["copies"], "exposed": exposed}


def _own_growth(changes: dict[str, I64]) -> I64:
    """Return by how much the time of each rank outside of exposed communication grew, int64 [r]."""
    return np.asarray(sum(change for name, change in changes.items() if name != "exposed"))


def _alone(changes: dict[str, I64], over_ns: int) -> tuple[int, Level] | None:
    """Return the rank (column) whose own time grew while that of no other did, and how sure.

    Others wait for it, wherever that is: also in sends and receives, which no arrivals tell of.
    """
    growth = _own_growth(changes)
    if len(growth) < 2:
        return None
    order = np.argsort(-growth, kind="stable")
    first, second = int(growth[order[0]]), int(growth[order[1]])
    if first < MEDIUM_ROOT_SHARE * over_ns or second > MEDIUM_ROOT_SHARE * first:
        return None
    sure = first >= HIGH_ROOT_SHARE * over_ns and second <= LEAST_SHARE * first
    return int(order[0]), CONFIDENCES[1 if sure else 0]


def _grown_on(
    view: View, label: str, changes: dict[str, int], step: int, base: int
) -> tuple[str, str]:
    """Return cause and words for the part of a rank that grew most outside of communication."""
    own = {name: ns for name, ns in changes.items() if name != "exposed"}
    part = max(own, key=lambda name: own[name])
    text = f"{duration(own[part])} {_NAMES[part]}"
    host = _host_in(view, label, step, base) if part == "idle" else ""
    return (host, f"{text}, while the host {HOST_WORDS[host]}") if host else (part, text)


def _grown(
    view: View, parts: StepParts, row: int, base: int, over_ns: int
) -> tuple[str, str, Level, str]:
    """Part that grew most against another step, in words, how sure, and the rank to look at."""
    own, other = parts.mean_ns(row), parts.mean_ns(base)
    grown = [a - b for a, b in zip(own, other, strict=True)]
    changes = _with_exposed(dict(zip(PARTS, grown, strict=True)))
    part = max(changes, key=lambda name: changes[name])
    share = changes[part] / max(over_ns, 1)
    rank = parts.labels[int(parts.length_ns[row].argmax())]
    if share < LEAST_SHARE:
        text = "no kind of time grew enough to explain it"
        return "unknown", text, CONFIDENCES[0], rank
    text = f"{duration(changes[part])} {_NAMES[part]}, mean over ranks"
    if part == "exposed":  # an effect: what the ranks wait for is not known
        return part, f"{text}; it is not known which rank was late", CONFIDENCES[0], rank
    sure = 2 if share >= HIGH_ROOT_SHARE else 1 if share >= MEDIUM_ROOT_SHARE else 0
    host = ""
    if part == "idle":
        host = _host_in(view, rank, parts.steps[row], parts.steps[base])
        text += f", while the host {HOST_WORDS[host]}" if host else ""
        sure = sure if host else min(sure, 1)
    several = "; no single rank is the cause" if len(parts.labels) > 1 else ""
    return host or part, f"{text}{several}", CONFIDENCES[sure], rank


def _host_in(view: View, label: str, step: int, base: int) -> str:
    """Activity of the host in most of the idle time beyond another step, "" if unknown."""
    rank = next(one for one in view.ranks if one.label == label)
    own, usual = _idle(rank, step), _idle(rank, base)
    more = own.total_ns - usual.total_ns
    spent = {
        cause: (own & times).total_ns - (usual & times).total_ns
        for cause, times in HostWork(rank.trace).disjoint.items()
    }
    if more <= 0 or not spent:
        return ""
    cause = max(spent, key=lambda one: spent[one])
    if spent[cause] < MEDIUM_ROOT_SHARE * more or cause not in HOST_WORDS:
        return ""
    return cause


def _idle(rank: RankView, step: int) -> Intervals:
    """Idle time of a device from the end of the step before to the end of a step."""
    found = [(start, end) for one, start, end in from_end(rank) if one == step]
    return rank.facts.device_work.gaps(*found[0]) if found else Intervals.empty()


def slow_step_rows(view: View) -> list[dict[str, Any]]:
    """Return the slow steps in their JSON form, the largest excess first."""
    return [
        {
            "step": one.step,
            "step_ms": milliseconds(one.time_ns),
            "over_ms": milliseconds(one.over_ns),
            "over_pct": 100 * one.over_ns / max(one.time_ns - one.over_ns, 1),
            "rank": one.label,
            "cause": one.cause,
            "wait_ms": milliseconds(one.wait_ns) if one.place is not None else None,
            "confidence": lowest(one.sure.what, *([one.sure.who] if one.label else [])),
            "sure": one.sure.to_dict(),
            "sentence": one.sentence,
            "evidence": {
                "rank": one.rank,
                "step": one.step,
                **(
                    {}
                    if one.place is None
                    else {"group_number": one.place[0], "index": one.place[1]}
                ),
            },
        }
        for one in slow_steps(view)
    ]


class StepCulprit(Struct, frozen=True):
    """The rank that keeps the others waiting in one step.

    Attributes:
        step: id of the step.
        label: the rank, None where none is to be named.
        cause: why it was late, None without a rank.
        wait_ns: exposed waiting of all other ranks together behind it at collectives; 0 where no
            collective tells it.
        sure: how sure the cause and the rank are.
        why: the reason where no rank is named.
    """

    step: int
    label: str | None = None
    cause: str | None = None
    wait_ns: int = 0
    sure: Sure = Sure(what="unknown")
    why: str = ""


class StepCulprits(Struct, frozen=True):
    """Culprits by step id; ``why`` is the reason where no collective tells anything of a step."""

    by_step: Mapping[int, StepCulprit]
    why: str = ""

    def of(self, step: int) -> StepCulprit:
        """Return the culprit of a step, or the reason why there is none."""
        nobody = StepCulprit(step, why=self.why or "no rank is late at its collectives")
        return self.by_step.get(step, nobody)


def step_culprits(view: View) -> StepCulprits:
    """Return the rank that keeps the others waiting, for each step.

    Of a slow step that is the rank which made it slow, if one is named.
    """
    why, found = "", {}
    try:
        found = {step: _culprit(step, one) for step, one in reliable_step_roots(view).items()}
    except Refusal as refusal:
        why = str(refusal)
    for one in slow_steps(view):
        if one.label is not None:
            found[one.step] = StepCulprit(one.step, one.label, one.cause, one.wait_ns, one.sure)
    return StepCulprits(found, why)


def _culprit(step: int, one: Followed) -> StepCulprit:
    named = one.roots.named
    if named is None:
        why = one.roots.why_nobody or "the recording begins here, so earlier causes are not in it"
        return StepCulprit(step, why=why)
    wait = one.behind_ranks().get(named.label, named.wait_ns)
    if named.cause in BLAMELESS_CAUSES:
        why = f"rank {named.label} comes last, and nothing recorded shows why"
        return StepCulprit(step, why=f"{why} ({duration(wait)} of waiting)")
    return StepCulprit(step, named.label, named.cause, wait, named.sure)
