"""Analyses while ranks load: how often they begin, and when none is put off."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from ccltui.tui.engine.background import GROWTH, PATIENCE, Analysed, is_due
from ccltui.tui.state.session import Phase, Session


def session(ranks: int, *, begun: int = 0, since: int = 0, busy: bool = True) -> Session:
    """Session with so many whole ranks, and some of which only the beginning is there."""
    shares = [1.0] * ranks + [0.5] * begun
    job: Any = SimpleNamespace(ranks=tuple(SimpleNamespace(read_share=one) for one in shares))
    phase: Phase = "loading" if busy else "ready"
    return replace(Session("x", job=job, generation=since, since=since), phase=phase)


def after(last: Session, *, seconds: float = 1.0, ago_s: float = 0.1, running: bool = False) -> Any:
    return Analysed(last, seconds, ago_s, running)


def test_the_first_analysis_begins_at_once() -> None:
    assert is_due(session(1), None)


@pytest.mark.parametrize("running", [False, True])
def test_the_end_of_the_loading_is_always_analysed(running: bool) -> None:
    assert is_due(session(101, busy=False), after(session(100), running=running))


@pytest.mark.parametrize("running", [False, True])
def test_another_choice_of_the_user_is_never_put_off(running: bool) -> None:
    assert is_due(session(100, since=2), after(session(100), running=running))


def test_a_few_more_ranks_wait_for_others() -> None:
    assert not is_due(session(101), after(session(100)))
    assert is_due(session(150), after(session(100)))


def test_ranks_that_arrive_slowly_are_shown_one_by_one() -> None:
    assert not is_due(session(101), after(session(100), seconds=2.0, ago_s=2.0 * PATIENCE - 0.1))
    assert is_due(session(101), after(session(100), seconds=2.0, ago_s=2.0 * PATIENCE))


def test_an_analysis_that_runs_is_not_cancelled_by_further_ranks() -> None:
    assert not is_due(session(1000), after(session(10), running=True))


def test_a_rank_whose_beginning_was_shown_counts_when_it_is_whole() -> None:
    assert is_due(session(8), after(session(0, begun=8)))


def test_all_analyses_together_cost_a_fixed_multiple_of_the_last() -> None:
    """Ranks arrive one by one, faster than any analysis: a cost of one a rank and analysis."""
    cost, last = 0, session(1)
    for ranks in range(2, 1024):
        now = session(ranks)
        if is_due(now, after(last)):
            cost, last = cost + ranks, now

    assert cost <= 1024 / (1 - 1 / GROWTH)
