"""What the analyst tells, and when it stops."""

from __future__ import annotations

from collections.abc import Callable

from fakes import Plan, full_job, literal_metrics

from ccltui.tui.analysis import Analyst
from ccltui.tui.messages import Fact, FindingsReady
from ccltui.tui.options import ExplorerOptions
from ccltui.tui.scene import Findings
from ccltui.tui.session import Session
from metrics.coll_call_num import METRIC as CALLS

JOB = full_job(Plan(ranks=2))
SESSION = Session("run").opened(JOB).with_job(JOB, "rank0.json")


def told(session: Session, cancelled: Callable[[], bool]) -> list[Findings]:
    facts: list[Fact] = []
    analyst = Analyst(ExplorerOptions(), literal_metrics, first=lambda: CALLS)
    analyst.run(session, facts.append, cancelled)
    return [fact.findings for fact in facts if isinstance(fact, FindingsReady)]


def test_a_number_comes_before_anything_is_drawn() -> None:
    first, second, *_, last = told(SESSION, lambda: False)

    assert (list(first.results), dict(first.lanes), first.communicators) == (
        ["coll_call_num"],
        {},
        None,
    )
    assert sorted(second.lanes) == ["0", "1"]
    assert last.complete


def test_the_first_number_is_told_though_more_ranks_have_come_in() -> None:
    calls = iter([False])

    found = told(SESSION, lambda: next(calls, True))

    assert [list(findings.results) for findings in found] == [["coll_call_num"]]


def test_a_job_whose_analysis_is_cancelled_before_it_began_tells_nothing() -> None:
    assert told(SESSION, lambda: True) == []
