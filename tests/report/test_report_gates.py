"""Gates of --fail-if, and their reports."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccltui.metrics.result import Reason, Result
from ccltui.parsers.errors import GrammarError
from ccltui.report.gates import Verdict, github_annotations, judge, judge_details, junit, parse_gate

LAG = Result(
    metric="straggler_lag",
    unit="us",
    definition="lag",
    status="ok",
    value=120.5,
    details={
        "mean_lag_us": 120.5,
        "max_lag_us": 900,
        "persistent": True,
        "note": "text",
        "absent": None,
        "wait_us": {"0": 3.0, "1": 0.0},
        "stages": [{"bubble_ratio": 0.25}, {"bubble_ratio": 0.5}],
        "by.group": {"tp.0": {"n": 7}},
    },
)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (
            "straggler_lag.mean_lag_us > 500",
            ("straggler_lag", "mean_lag_us", ">", 500.0),
        ),
        ("comm_comp_overlap < 0.5", ("comm_comp_overlap", "", "<", 0.5)),
        ("a<=1e3", ("a", "", "<=", 1000.0)),
        ("a>=-.5", ("a", "", ">=", -0.5)),
        ("a == +2.", ("a", "", "==", 2.0)),
        ("  a.b.0.c != 0  ", ("a", "b.0.c", "!=", 0.0)),
    ],
)
def test_a_condition_is_metric_key_operator_number(
    text: str, parts: tuple[str, str, str, float]
) -> None:
    gate = parse_gate(text)
    assert (gate.metric, gate.key, gate.operator, gate.limit) == parts
    assert gate.text == text.strip()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a >",
        "> 5",
        "a > b",
        "a = 5",
        "a > 5us",
        "a > nan",
        "a > inf",
        "a > 5 or True",
        "__import__('os').system('x') > 0",
        "a.b > 1; c > 2",
        "a > 0x10",
    ],
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(GrammarError, match=r'write for example "straggler_lag\.mean_lag_us > 500"'):
        parse_gate(text)


def test_a_number_beyond_any_float_is_refused() -> None:
    with pytest.raises(GrammarError, match="the number is too large"):
        parse_gate("a > 1e999")


@pytest.mark.parametrize(
    ("condition", "value", "tripped"),
    [
        ("> 100", 120.5, True),
        ("> 120.5", 120.5, False),
        (">= 120.5", 120.5, True),
        ("< 100", 120.5, False),
        ("<= 120.5", 120.5, True),
        ("== 120.5", 120.5, True),
        ("!= 120.5", 120.5, False),
        (".max_lag_us > 899", 900, True),
        (".wait_us.0 > 2", 3, True),
        (".stages.1.bubble_ratio >= 0.5", 0.5, True),
        (".by.group.tp.0.n == 7", 7, True),
        (".persistent == 1", 1, True),
    ],
)
def test_a_gate_compares_the_headline_or_a_key(condition: str, value: float, tripped: bool) -> None:
    verdict = judge(parse_gate(f"straggler_lag{condition}"), LAG)
    assert (verdict.value, verdict.tripped, verdict.problem) == (value, tripped, None)


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        (".mean_lag", "straggler_lag has no mean_lag; near names: mean_lag_us"),
        (".wait_us.7", "straggler_lag has no wait_us.7"),
        (".zzz", "straggler_lag has no zzz; it has mean_lag_us"),
        (".stages.9.bubble_ratio", "straggler_lag has no stages.9.bubble_ratio"),
        (".absent", "absent is null in this trace"),
        (".note", "note is not a number"),
        (".wait_us", "wait_us is not a number"),
    ],
)
def test_a_value_that_is_not_there_is_a_problem_not_a_pass(key: str, problem: str) -> None:
    verdict = judge(parse_gate(f"straggler_lag{key} > 1"), LAG)
    assert verdict.tripped is None
    assert verdict.problem is not None
    assert verdict.problem.startswith(problem)


def test_an_unavailable_metric_cannot_pass_a_gate() -> None:
    reasons = (Reason("single_rank", "1 of 8 ranks found"),)
    refused = Result("straggler_lag", "us", "lag", "unavailable", None, {}, reasons)

    verdict = judge(parse_gate("straggler_lag > 1"), refused)

    assert verdict.tripped is None
    assert verdict.problem == "straggler_lag is unavailable (single_rank: 1 of 8 ranks found)"


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_finite_limit_can_be_written(limit: float) -> None:
    assert math.isclose(parse_gate(f"m > {limit!r}").limit, limit, rel_tol=0, abs_tol=0)


def test_a_quoted_name_may_hold_spaces_points_and_signs() -> None:
    gate = parse_gate('kernels."void f<int, 2>(a.b) = x".delta_ms > 1')
    values = {"kernels": {"void f<int, 2>(a.b) = x": {"delta_ms": 3.0}, "plain": {"delta_ms": 0}}}

    assert gate.key == '"void f<int, 2>(a.b) = x".delta_ms'
    assert judge_details(gate, values, "delta_ms").tripped is True
    absent = judge_details(parse_gate('kernels."plane".delta_ms > 1'), values, "delta_ms")
    assert absent.tripped is None
    assert "near names: plain" in str(absent.problem)


def test_a_null_has_the_reason_of_the_comparison() -> None:
    gate = parse_gate("step_time > 3")

    verdict = judge_details(
        gate, {"step_time": {"change_pct": None}}, "change_pct", why_null="B: no step 5-6"
    )

    assert verdict.problem == "change_pct is unknown: B: no step 5-6"


VALUES = {
    "step_time": {"change_pct": 4.5, "delta_pct": None, "name": "text"},
    "kernels": {"at::native::reduce": {"delta_ms": 1.0}},
}


def judged(text: str) -> Verdict:
    return judge_details(parse_gate(text), VALUES, "change_pct")


def test_values_by_name_and_key() -> None:
    assert (judged("step_time > 3").tripped, judged("step_time > 5").tripped) == (True, False)
    assert judged("kernels.at::native::reduce.delta_ms >= 1").tripped is True


def test_what_has_no_number_is_not_decided() -> None:
    for text in ("steptime > 3", "step_time.delta_pct > 3", "step_time.name > 3", "kernels.x > 1"):
        verdict = judged(text)
        assert verdict.tripped is None
        assert verdict.problem
    assert "step_time" in str(judged("steptime > 3").problem)


def test_hostile_text_stays_one_valid_document_and_one_line() -> None:
    gate = parse_gate("kernels.a\x1b]0;x\x07&\"'%,:b > 1")
    verdicts = [Verdict(gate, None, None, "first\nsecond % of <b>")]

    suite = ElementTree.fromstring(junit(verdicts, "x & <y>"))
    lines = github_annotations(verdicts, "a: b, c")

    assert suite.get("errors") == "1"
    assert len(lines) == 1
    assert "\n" not in lines[0]
    assert "\x1b" not in lines[0]
    assert lines[0].startswith("::warning title=a%3A b%2C c::")
    assert "%25 of <b>" in lines[0]
