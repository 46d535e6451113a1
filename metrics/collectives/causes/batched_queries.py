"""Questions of several walks through a job, answered together.

To judge one late arrival costs nearly what to judge a thousand costs: each judgement is a pass
over arrays of all its ranks. A walk that needs a verdict yields a `Question`, and all walks that
ask about the same ranks at that moment get their answers from one pass.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

import numpy as np

from ccltui.metrics.collectives.causes.cause_search import Causes
from ccltui.metrics.collectives.causes.kernel_counts import MAX_COMPARED
from ccltui.metrics.collectives.causes.segments import Targets
from ccltui.metrics.collectives.causes.verdict_request import Question
from ccltui.metrics.collectives.causes.verdicts import Verdicts

T = TypeVar("T")


Walk: TypeAlias = Generator[Question, Verdicts, T]

_MAX_TOGETHER: Final = MAX_COMPARED
"""Of more targets some would not be compared by kernel name, which alone they would be."""
_MAX_CELLS: Final = 500_000
"""Targets times ranks: a judgement holds some hundred bytes for each."""


def walk_together(causes: Causes, walks: Sequence[Walk[T]]) -> list[T]:
    """What each of the walks returns, in their order; they go in step."""
    returned: dict[int, T] = {}
    answers: dict[int, Verdicts | None] = dict.fromkeys(range(len(walks)))
    while answers:
        asked: dict[int, Question] = {}
        for walk, answer in answers.items():
            try:
                # a walk that has not begun takes None only
                asked[walk] = next(walks[walk]) if answer is None else walks[walk].send(answer)
            except StopIteration as end:
                returned[walk] = end.value
        answers = dict(_answered(causes, asked))
    return [returned[walk] for walk in range(len(walks))]


def _answered(causes: Causes, asked: Mapping[int, Question]) -> Iterator[tuple[int, Verdicts]]:
    """The verdicts on each question, by the number of its walk."""
    alike: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for walk, question in asked.items():
        alike[question.labels].append(walk)
    for labels, walks in alike.items():
        for some in _portions(walks, asked):
            questions = [asked[walk] for walk in some]
            targets = Targets.joined([one.targets for one in questions])
            limits = np.concatenate([one.limits for one in questions])
            found = causes.judge(Question(labels, targets, limits))
            ends = np.cumsum([len(one.targets) for one in questions])
            parts = np.split(np.arange(len(targets)), ends[:-1])
            yield from ((walk, found.take(rows)) for walk, rows in zip(some, parts, strict=True))


def _portions(walks: Sequence[int], asked: Mapping[int, Question]) -> Iterator[list[int]]:
    """Walks in order, as many at once as can be judged together without a loss."""
    some: list[int] = []
    count = 0
    for walk in walks:
        size = len(asked[walk].targets)
        most = min(_MAX_TOGETHER, _MAX_CELLS // len(asked[walk].labels))
        if some and count + size > most:
            yield some
            some, count = [], 0
        some.append(walk)
        count += size
    yield some
