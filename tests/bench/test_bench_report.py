"""The table, the goals and the picture of made-up results."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from bench.compare import GENERAL, JSON, ORJSON, OURS, PEER, Comparison, Row
from bench.growth import Opening, Point, bound_mib
from bench.inputs import Layout
from bench.measure import Spread
from bench.metrics import FromStore
from bench.plot import svg
from bench.results import OpeningTimes, Results, verdicts
from bench.tables import table, text_of


def spread(value: float) -> Spread:
    return Spread(value, value * 0.5, value * 2)


def row(method: str, ratio: float, peak_mib: float = 100.0) -> Row:
    return Row(
        method=method,
        rounds=3,
        cpu_s=spread(ratio),
        wall_s=spread(ratio),
        peak_mib=spread(peak_mib),
        cpu_ratio=spread(ratio),
        peak_ratio=spread(peak_mib / 100),
    )


ROWS = (
    row(OURS, 1.0),
    row(JSON, 8.0),
    row(ORJSON, 4.0),
    row(GENERAL, 3.0),
    Row(PEER, "absent (--peers installs it)"),
)


def results(layout: Layout = "native") -> Results:
    return Results(
        machine={"cpus": 2},
        comparisons=(Comparison("generated", layout, 500_000_000, 1_048_576, 900_000, ROWS),),
        events=(
            Point(10, 10, 1_000, spread(1), spread(1), spread(70), 80.0),
            Point(20, 20, 2_000, spread(3), spread(3), spread(90), 85.0),
        ),
        ranks=(Point(1, 10, 0, spread(1), spread(1), spread(70)),),
        openings=(Opening("mapped", spread(0.2), spread(1), spread(40)),),
        kernels={"union": spread(0.2)},
        screens={"first opening": OpeningTimes(0.1, 0.9, 2.0, "step time 3 ms")},
    )


@pytest.mark.parametrize(
    ("layout", "met"),
    [
        ("native", {JSON: False, ORJSON: False, GENERAL: True}),
        ("indent4", {JSON: False, ORJSON: True, GENERAL: True}),
        ("2020", {JSON: True, ORJSON: True, GENERAL: True}),
    ],
)
def test_goals_depend_on_the_layout(layout: Layout, met: dict[str, bool]) -> None:
    judged = {verdict.subject: verdict.met for verdict in verdicts(results(layout))}

    assert {method: judged[f"generated {layout}: {method}"] for method in met} == met
    assert f"generated {layout}: {PEER}" not in judged


def test_goals_beside_ratios() -> None:
    judged = {verdict.subject: verdict.met for verdict in verdicts(results())}

    assert judged["generated native: peak memory"] is True  # 100 MiB against 80 + 50
    assert judged["peak memory, 0.00 GB"] is False
    assert judged["second opening of 8 ranks"] is True
    assert judged["union of 5 M intervals"] is False
    assert judged["first metric, first opening"] is True


@pytest.mark.parametrize(("cpu_s", "met"), [(1.9, True), (2.1, False)])
def test_all_metrics_have_a_goal_and_each_a_row(cpu_s: float, met: bool) -> None:
    values = {"all": spread(cpu_s), "straggler_lag": spread(0.25)}
    found = Results({"cpus": 2}, metrics=(FromStore(8, 8_000_000, values, values, values),))

    (verdict,) = verdicts(found)
    assert (verdict.subject, verdict.met) == ("all metrics, 8 ranks of 1,000,000 events", met)
    text = text_of(found)
    assert "metrics from the store, 8 ranks of 1,000,000 events, whole processes" in text
    assert "straggler_lag" in text


def test_the_bound_grows_by_fifty_bytes_an_event() -> None:
    assert bound_mib(0) == 80.0
    assert bound_mib(1 << 20) == 130.0


def test_columns_are_as_wide_as_their_cells() -> None:
    assert table(("a", "b"), [("long name", "1"), ("x", "22")]) == (
        "a           b\nlong name   1\nx          22"
    )


def test_the_report_hides_no_absent_peer() -> None:
    text = text_of(results())

    assert "traceinsight: absent (--peers installs it)" in text
    assert "8 (4–16)" in text
    assert "CPU an event, first = 1" in text
    assert "≥ 10 ×" in text


def test_growth_is_told_an_event() -> None:
    line = next(line for line in text_of(results()).splitlines() if line.startswith("20 "))

    assert line.split()[1:] == ["3", "(1.5–6)", "3.00", "1.50", "90", "85"]


def test_the_picture_is_well_formed_and_has_every_method() -> None:
    picture = ElementTree.fromstring(svg(results()))

    texts = [element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {OURS, JSON, ORJSON, GENERAL} <= set(texts)
    assert PEER not in texts
    assert "8×  8 s" in texts
    lines = list(picture.iter("{http://www.w3.org/2000/svg}polyline"))
    assert len(lines) == 4


def test_empty_results_are_a_report_too() -> None:
    nothing = Results(machine={"cpus": 2})

    assert text_of(nothing) == "cpus 2\n"
    ElementTree.fromstring(svg(nothing))
