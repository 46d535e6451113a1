"""Memory released after an analysis, and that results stay equal when computed again."""

from __future__ import annotations

from fakes import Plan, full_job, literal_metrics

from ccltui.metrics.registry import metrics
from ccltui.metrics.view.job_view import View
from ccltui.tui.engine.analysis import Analyst
from ccltui.tui.engine.messages import Fact, FindingsReady
from ccltui.tui.engine.packed_findings import release_memory
from ccltui.tui.state.session import Session


def test_forgotten_intermediates_are_equal_when_computed_again() -> None:
    view = View(full_job(Plan()))
    names = ("straggler_cause", "idle_causes", "blame_chain", "launch_bound", "busbw")
    before = {name: metrics()[name].run(view) for name in names}
    kept = view.facts.named_calls, view.arrivals

    view.forget_details()
    after = {name: metrics()[name].run(view) for name in names}

    assert {name: result.details for name, result in after.items()} == {
        name: result.details for name, result in before.items()
    }
    assert before["straggler_cause"].status == "ok"
    assert (view.facts.named_calls, view.arrivals) == kept
    assert view.arrivals is kept[1]


def test_a_view_holds_no_intermediates_after_a_complete_analysis() -> None:
    analyst = Analyst(literal_metrics)
    posted: list[Fact] = []
    session = Session("run", phase="ready", job=full_job(Plan()), generation=1)

    analyst.run(session, posted.append, lambda: False)

    last = posted[-1]
    assert isinstance(last, FindingsReady)
    assert last.findings.complete
    assert analyst._view is not None
    assert not {"ranks", "instances"} & set(analyst._view.__dict__)
    assert "causes" not in analyst._view.facts.__dict__


def test_releasing_columns_that_are_not_mapped_has_no_effect() -> None:
    job = full_job(Plan())
    before = [trace.events["gpu"].start_ns.sum() for trace in job.ranks]

    release_memory(job, heap=True)

    assert [trace.events["gpu"].start_ns.sum() for trace in job.ranks] == before
