"""The explanation of a job: statements, their sources, and the size of the document."""

from __future__ import annotations

import json

from ccltui.metrics.result import Reason, Result
from ccltui.report.explanation import BUDGET, METRICS, as_json, as_markdown, explain
from ccltui.report.json_document import TraceSummary

TRACE = TraceSummary("/jobs/one", ranks=8, world_size=8)


def result(name: str, details: dict[str, object], **rest: object) -> Result:
    stated = {"value": 1.0, "unit": "", "definition": "x", "status": "ok", **rest}
    return Result(metric=name, details=details, **stated)  # type: ignore[arg-type]


def slow_worker(**changes: object) -> Result:
    details = {
        "verdict": "slow_worker",
        "confidence": "high",
        "culprit": {"ranks": ["3"], "factor": 1.5},
        "loss_ms": 12.0,
        "loss_pct": 20.0,
        "saves_ms": 11.5,
        "shares": {"worker": 0.95, "host": 0.05, "step": 0.0},
        "also": [{"verdict": "host", "culprit": {"ranks": ["1"]}, "saves_ms": 0.5}],
        "ruled_out": [{"class": "slow_link", "why": "no pair transfers longer than its like"}],
        "next": ["record launches"],
        "why": "rank 3 computes 1.5 times as long as its like in all steps",
        **changes,
    }
    return result("verdict", details)


def test_the_verdict_is_the_first_sentence_and_every_claim_has_a_source() -> None:
    found = explain(TRACE, {"verdict": slow_worker()})

    assert found.headline == (
        "Rank 3 computes 1.5 times as long as its like in all steps. It costs 12 ms, 20.0 % of a "
        "step. Confidence: high."
    )
    assert all(claim.metric for claim in found.claims)
    assert "Setting the culprit back saves 11.5 ms a step." in [c.text for c in found.claims]
    assert "Also possible: host of rank 1, 0.5 ms a step." in [c.text for c in found.claims]
    assert found.ruled_out == ("slow_link: no pair transfers longer than its like",)
    assert found.missing[0] == "record launches"


def test_a_job_without_a_verdict_has_the_reason() -> None:
    refused = result(
        "verdict",
        {},
        value=None,
        status="unavailable",
        reasons=(Reason("single_rank", "one rank"),),
    )
    found = explain(TRACE, {"verdict": refused})

    assert found.headline == "I cannot tell who makes the job slow, because one rank."
    assert found.verdict is None
    assert found.missing == ("one rank (verdict)",)


def test_nothing_computed_is_said_so() -> None:
    assert explain(TRACE, {}).headline == "No verdict was computed."


def test_names_of_files_cannot_write_to_the_terminal_or_the_document() -> None:
    hostile = slow_worker(why="rank \x1b[31m <b>|`x`")
    found = explain(TraceSummary("/jobs/\x1b]0;x", ranks=1), {"verdict": hostile})

    for data in (as_markdown(found), as_json(found)):
        assert b"\x1b" not in data
    assert b"<b>" not in as_markdown(found)


def test_the_document_is_json_within_its_budget() -> None:
    many = slow_worker(
        also=[{"verdict": f"class{k}", "culprit": None, "saves_ms": 1.0} for k in range(200)]
    )
    found = explain(TRACE, {"verdict": many})

    for budget in (BUDGET, 2048):
        data = as_json(found, budget)
        document = json.loads(data)
        assert len(data) <= budget
        assert document["schema"] == "ccltui.explanation/1"
        assert document["left_out"] + len(document["claims"]) == len(found.claims)
    assert json.loads(as_json(found, 10**6))["left_out"] == 0


def test_its_metrics_exist() -> None:
    from ccltui.metrics.registry import metrics

    assert set(METRICS) <= set(metrics())
