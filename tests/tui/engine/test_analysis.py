"""What the analyst tells, and when it stops."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from explorers import Settle, Start
from fakes import Plan, full_job, literal_analyst, literal_metrics

from ccltui.metrics.catalog.communication.coll_call_num import METRIC as CALLS
from ccltui.tui.engine.analysis import Analyst
from ccltui.tui.engine.messages import Fact, FindingsReady
from ccltui.tui.options import ExplorerOptions
from ccltui.tui.state.job_findings import Findings
from ccltui.tui.state.session import Filter, Session

WHOLE = full_job(Plan(ranks=2))
ONE_RANK = replace(WHOLE, ranks=WHOLE.ranks[:1])
LOADING = Session("run").opened(WHOLE).with_job(ONE_RANK, "rank0.json")
LOADED = LOADING.with_job(WHOLE, "rank1.json").finished(stopped=False)


def analyst() -> Analyst:
    return Analyst(ExplorerOptions(), literal_metrics, first=lambda: CALLS)


def told(
    by: Analyst, session: Session, cancelled: Callable[[], bool] = lambda: False
) -> tuple[list[Findings], bool]:
    facts: list[Fact] = []
    finished = by.run(session, facts.append, cancelled)
    return [one.findings for one in facts if isinstance(one, FindingsReady)], finished


def test_while_ranks_come_in_a_number_is_told_before_anything_is_drawn() -> None:
    (only,), finished = told(analyst(), LOADING)

    assert not finished
    assert [metric.name for metric in only.metrics] == list(only.results) == ["coll_call_num"]
    assert (dict(only.lanes), only.communicators) == ({}, None)


def test_what_is_there_is_drawn_next_though_more_may_come() -> None:
    by = analyst()
    told(by, LOADING)

    (first, *_, last), finished = told(by, LOADING)

    assert finished
    assert sorted(first.lanes) == ["0"]
    assert last.complete


def test_a_job_that_is_whole_is_drawn_right_behind_the_number() -> None:
    (number, first, *_, last), finished = told(analyst(), LOADED)

    assert finished
    assert list(number.results) == ["coll_call_num"]
    assert sorted(first.lanes) == ["0", "1"]
    assert last.complete


def test_an_analysis_that_is_cancelled_tells_no_more() -> None:
    calls = iter([False, False])

    found, _ = told(analyst(), LOADED, lambda: next(calls, True))

    assert [len(one.results) for one in found] == [1, 1]
    assert told(analyst(), LOADED, lambda: True) == ([], True)


def test_numbers_of_another_window_are_not_told_again() -> None:
    by = analyst()
    told(by, LOADED)
    chosen = LOADED.filtered(Filter(steps=(0, 2)))

    (first, *_, last), _ = told(by, chosen)

    assert dict(first.results) == {}
    assert sorted(first.lanes) == ["0", "1"]
    assert last.complete
    assert set(last.results) == set(literal_metrics())


async def test_runs_that_begin_at_once_share_one_analyst(start: Start, settle: Settle) -> None:
    """Two would listen to one process, and each hear half of what it says."""
    made: list[Analyst] = []

    def slowly(options: ExplorerOptions) -> Analyst:
        time.sleep(0.3)  # as where imports take their time
        made.append(literal_analyst(options))
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


def test_a_stage_that_fails_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr("ccltui.tui.engine.analysis.communicators_of", fails)
    facts: list[Fact] = []

    with pytest.raises(ZeroDivisionError):  # told by who runs the analyst
        analyst().run(LOADED, facts.append, lambda: False)

    last = facts[-1]
    assert isinstance(last, FindingsReady)
    assert last.findings.complete
    assert last.findings.lanes
    assert last.findings.results
