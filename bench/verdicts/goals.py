"""Goals for answers, and whether they are met."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from bench.verdicts.marks import SCORED_COST, Marked
from bench.verdicts.quantiles import nearest
from bench.verdicts.scored_job import Scored

NAMED: Final = ("right", "wrong")
FIGURES: Final = ("findings", "verdict", "what_if_no_straggler")
"""Metrics whose saved time has a goal."""


class Goal(Struct, frozen=True):
    """One goal: its value, None where no job tells, and its bound."""

    name: str
    value: float | None
    least: float | None = None
    most: float | None = None

    @property
    def met(self) -> bool | None:
        """Return whether the value is within the bound; None where no job gives a value."""
        if self.value is None:
            return None
        above = self.least is None or self.value >= self.least
        return above and (self.most is None or self.value <= self.most)


def goals(jobs: Sequence[Scored], name: str) -> list[Goal]:
    """Goals of one metric that names somebody, then those of the saved time."""
    clean = _named(jobs, name, "clean")
    damaged = _marks(jobs, name, "damaged")
    nobody = [*_marks(jobs, name, "null"), *_marks(jobs, name, "link")]
    costly = [
        job.marks[name]
        for job in jobs
        if name in job.marks and job.condition == "clean" and job.cost_share >= SCORED_COST
    ]
    every = [job.marks[name] for job in jobs if name in job.marks]
    wrong_ranks = [mark for mark in nobody if mark.names_innocent]
    return [
        Goal("clean: culprit right, of named", _share(clean, "mark"), least=0.99),
        Goal("clean: class right, of named", _share(clean, "class_mark"), least=0.95),
        Goal(
            "clean: named, of faults of 5 % of the step or more",
            _ratio(sum(mark.mark in NAMED for mark in costly), len(costly)),
            least=0.95,
        ),
        Goal("damaged: wrong with high confidence", _count(damaged, "high"), most=0),
        Goal(
            "damaged: wrong with medium confidence, of all",
            _ratio(_wrong(damaged, "medium"), len(damaged)),
            most=0.02,
        ),
        Goal(
            "nulls and links: innocent rank named above materiality",
            float(len(wrong_ranks)) if nobody else None,
            most=0,
        ),
        Goal("high confidence: right", _right(every, "high"), least=0.99),
        Goal("medium confidence: right", _right(every, "medium"), least=0.9),
        Goal("ok with a rank left out", float(_flagged(jobs, "silent_ok")), most=0),
        Goal("S below 0.995", float(_flagged(jobs, "below_one")), most=0),
        *_saved(jobs),
    ]


def _marks(jobs: Iterable[Scored], name: str, condition: str) -> list[Marked]:
    return [job.marks[name] for job in jobs if job.condition == condition and name in job.marks]


def _named(jobs: Iterable[Scored], name: str, condition: str) -> list[Marked]:
    return [mark for mark in _marks(jobs, name, condition) if mark.mark in NAMED]


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _share(marks: Sequence[Marked], field: str) -> float | None:
    return _ratio(sum(getattr(mark, field) == "right" for mark in marks), len(marks))


def _wrong(marks: Iterable[Marked], confidence: str) -> int:
    return sum(mark.mark == "wrong" and mark.confidence == confidence for mark in marks)


def _count(marks: Sequence[Marked], confidence: str) -> float | None:
    return float(_wrong(marks, confidence)) if marks else None


def _right(marks: Iterable[Marked], confidence: str) -> float | None:
    sure = [mark for mark in marks if mark.confidence == confidence and mark.mark in NAMED]
    return _share(sure, "mark")


def _flagged(jobs: Iterable[Scored], field: str) -> int:
    return sum(any(getattr(mark, field) for mark in job.marks.values()) for job in jobs)


def _saved(jobs: Sequence[Scored]) -> list[Goal]:
    """The 90th percentile of the error of the saved time, for each topology."""
    found = []
    for name in FIGURES:
        for topology in sorted({job.topology for job in jobs}):
            errors = sorted(
                abs(job.marks[name].saved_error or 0.0)
                for job in jobs
                if job.topology == topology
                and name in job.marks
                and job.marks[name].saved_error is not None
            )
            if errors:
                title = f"{name}, {topology}: error of the saved time, p90 of {len(errors)} jobs"
                found.append(Goal(title, nearest(errors, 0.9), most=0.1))
    return found


def rows(found: Iterable[Goal]) -> list[list[str]]:
    """Rows of a table: goal, bound, value, met."""
    verdicts = {True: "yes", False: "NO", None: "no job tells"}
    return [
        [
            goal.name,
            _bound(goal),
            "-" if goal.value is None else _text(goal, goal.value),
            verdicts[goal.met],
        ]
        for goal in found
    ]


def _bound(goal: Goal) -> str:
    if goal.least is not None:
        return f"at least {_text(goal, goal.least)}"
    return f"at most {_text(goal, goal.most or 0.0)}"


def _text(goal: Goal, value: float) -> str:
    return f"{value:.0f}" if goal.most == 0 else f"{value:.1%}"
