"""Outcomes of conditions as JUnit XML and as annotations of GitHub Actions."""

from __future__ import annotations

from xml.etree import ElementTree

from ccltui.report.gates import Verdict, github_annotations, judge_details, junit, parse_gate

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
