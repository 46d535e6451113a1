"""The analysis in the background, and its pace."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from explorers import Settle, Start, press
from fakes import Plan, full_job, literal_analyst, literal_metrics
from msgspec.structs import replace
from textual import _time

from ccltui.commands import index_command
from ccltui.demo import Spec, write_job
from ccltui.exit_codes import OK
from ccltui.metrics.catalog.communication.coll_call_num import coll_call_num
from ccltui.metrics.model.rank_facts import RankFacts
from ccltui.metrics.registry import metrics
from ccltui.metrics.view.job_view import JobFacts, View
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.job import open_job
from ccltui.tui.engine.analysis import Analyst
from ccltui.tui.engine.background import GROWTH, PATIENCE, Analysed, is_due
from ccltui.tui.engine.messages import Fact, FindingsReady
from ccltui.tui.state.answers import Findings
from ccltui.tui.state.session import Phase, Session

WHOLE = full_job(Plan(ranks=2))
ONE_RANK = replace(WHOLE, ranks=WHOLE.ranks[:1])
LOADING = Session("run").opened(WHOLE).with_job(ONE_RANK, {"rank0.json": ""})
LOADED = LOADING.with_job(WHOLE, {"rank1.json": ""}).finished(stopped=False)


def analyst() -> Analyst:
    return Analyst(literal_metrics, first=lambda: coll_call_num)


def posted(
    by: Analyst, session: Session, cancelled: Callable[[], bool] = lambda: False
) -> tuple[list[Findings], bool]:
    facts: list[Fact] = []
    finished = by.run(session, facts.append, cancelled)
    return [one.findings for one in facts if isinstance(one, FindingsReady)], finished


def test_a_number_is_posted_before_charts_while_ranks_are_loading() -> None:
    (only,), finished = posted(analyst(), LOADING)

    assert not finished
    assert [metric.name for metric in only.metrics] == list(only.results) == ["coll_call_num"]
    assert (dict(only.lanes), only.communicators) == ({}, None)


def test_loaded_ranks_are_drawn_next_while_others_are_loading() -> None:
    by = analyst()
    posted(by, LOADING)

    (first, *_, last), finished = posted(by, LOADING)

    assert finished
    assert sorted(first.lanes) == ["0"]
    assert last.complete


def test_a_complete_job_is_drawn_right_after_the_number() -> None:
    (number, first, *_, last), finished = posted(analyst(), LOADED)

    assert finished
    assert list(number.results) == ["coll_call_num"]
    assert sorted(first.lanes) == ["0", "1"]
    assert last.complete


def test_a_cancelled_analysis_posts_nothing_more() -> None:
    calls = iter([False, False])

    found, _ = posted(analyst(), LOADED, lambda: next(calls, True))

    assert [len(one.results) for one in found] == [1, 1]
    assert posted(analyst(), LOADED, lambda: True) == ([], True)


def test_numbers_of_another_window_are_not_posted_again() -> None:
    by = analyst()
    posted(by, LOADED)
    chosen = LOADED.filtered(ViewOptions(steps=(0, 2)))

    (first, *_, last), _ = posted(by, chosen)

    assert dict(first.results) == {}
    assert sorted(first.lanes) == ["0", "1"]
    assert last.complete
    assert set(last.results) == set(literal_metrics())


async def test_runs_that_begin_together_share_one_analyst(start: Start, settle: Settle) -> None:
    """Two would receive from one process, and each get half of its replies."""
    made: list[Analyst] = []

    def slowly() -> Analyst:
        time.sleep(0.3)  # as long as imports may take
        made.append(literal_analyst())
        return made[-1]

    app = start(analyst=slowly)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause(0.1)
        for generation in range(2):
            del generation
            app._background._start_analysis(lambda: app.scene.session)
            await pilot.pause(0.05)
        await settle(pilot)

    assert len(made) == 1


async def test_it_begins_where_other_threads_run_between_any_two_looks_at_the_clock(
    start: Start, settle: Settle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Textual's own timer skips what is late: one of a millisecond would never end then."""
    app = start()
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        looks = itertools.count()
        with monkeypatch.context() as busy:
            busy.setattr(_time, "get_time", lambda: time.monotonic() + next(looks) / 100)
            await press(pilot, "r", *"2-3", "enter")
            await settle(pilot)

        assert app.scene.session.filter.ranks == frozenset({2, 3})


def test_a_failed_stage_does_not_prevent_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr("ccltui.tui.engine.analysis.communicators_of", fails)
    facts: list[Fact] = []

    with pytest.raises(ZeroDivisionError):  # reported by the caller of the analyst
        analyst().run(LOADED, facts.append, lambda: False)

    last = facts[-1]
    assert isinstance(last, FindingsReady)
    assert last.findings.complete
    assert last.findings.lanes
    assert last.findings.results


def test_an_indexed_job_has_its_numbers_before_any_column_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    traces, store = tmp_path / "job", tmp_path / "store"
    write_job(traces, Spec(tp=2, pp=1, dp_shard=2, gpus_per_node=2, steps=2, stragglers=()))
    assert index_command.run([str(traces), "--store", str(store)]) == OK
    job = open_job(traces, cache_dir=store)
    expected = {name: metrics()[name].run(View(job)) for name in ("verdict", "straggler_lag")}
    session = Session("run").opened(job).finished(stopped=False)
    monkeypatch.setattr(RankFacts, "busy", property(lambda _: pytest.fail("columns are read")))
    monkeypatch.setattr(
        JobFacts, "named_calls", property(lambda _: pytest.fail("columns are read"))
    )
    monkeypatch.setattr(JobFacts, "recorded_calls", lambda *_: pytest.fail("columns are read"))
    posts: list[Findings] = []

    def post(fact: Fact) -> None:
        assert isinstance(fact, FindingsReady)
        posts.append(fact.findings)

    Analyst(metrics).run(session, post, lambda: bool(posts))

    (first,) = posts
    assert not first.complete
    for name, result in expected.items():
        assert result.value is not None
        assert json.dumps(first.results[name].to_document()) == json.dumps(result.to_document())


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
