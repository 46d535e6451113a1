"""Overview: every number is one of a metric, the parts of a step fill the bar, groups fold."""

from __future__ import annotations

import re

import pytest
from fakes import Plan, full_job, own_changed, scene
from msgspec.structs import replace

from ccltui.draw.palette import KIND_INKS, Ink
from ccltui.draw.planes import Planes
from ccltui.metrics.findings.finding import Finding
from ccltui.metrics.findings.rank_time.idle_causes import CAUSES
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.numbers import percent
from ccltui.report import overview_text
from ccltui.tui.engine.analysis import stages
from ccltui.tui.panes import first_screen
from ccltui.tui.panes.first_screen import middle_of
from ccltui.tui.panes.metrics import METRIC, METRICS
from ccltui.tui.reducer import adopt
from ccltui.tui.state.answers import Findings
from ccltui.tui.state.finding_rows import findings, rank_bars
from ccltui.tui.state.notes import trust
from ccltui.tui.state.pane_states import OVERVIEW
from ccltui.tui.state.query_kinds import of_traces
from ccltui.tui.state.scene import Scene

PLAN = Plan(ranks=4, steps=4, per_step=6, late=((1, 9, 2_000_000), (3, 15, 400_000)))


@pytest.fixture(scope="module")
def computed() -> Scene:
    """A job in memory with every metric of the registry computed as the explorer does."""
    found = scene(PLAN, pane=OVERVIEW)
    view = View(full_job(PLAN), ViewOptions())
    start = Findings(generation=found.session.generation)
    *_, findings = stages(view, found.session.filter, start, tuple(of_traces().values()))
    return adopt(found, findings)


def lines(planes: Planes) -> list[str]:
    return [planes.row_text(y).rstrip() for y in range(planes.height)]


def test_the_bar_of_the_step_is_the_partition(computed: Scene) -> None:
    planes = first_screen.paint(computed, 40, 120)
    shares = computed.findings.results["findings"].details["shares"]
    x, width = 2, middle_of(120) - 3
    y = next(y for y in range(planes.height) if "█" * 20 in planes.row_text(y))

    cells = [Ink(style) for style in planes.style[y, x : x + width]]
    assert sum(shares.values()) == pytest.approx(1)
    for kind, share in shares.items():
        assert abs(cells.count(KIND_INKS[kind]) - share * width) <= 1, kind
    legend = " ".join(lines(planes)[y + 1 : y + 3])
    for kind, share in shares.items():
        assert f"{kind} {percent(share)}" in legend


def test_the_first_screen_at_80x24_has_headline_bar_and_three_findings_whole(
    computed: Scene,
) -> None:
    page = lines(first_screen.paint(computed, 19, 80))
    rows = findings(computed)

    text = " ".join(line.strip("│ ") for line in page)
    assert rows[0]["text"].split(":")[0] in text.replace("   ", " ")
    assert "compute " in text
    for number, row in enumerate(rows[:3], 1):
        (line,) = [line for line in page if re.match(rf"│[ ▶] {number} ", line)]
        assert row["label"] in line
        assert percent(row["share"]) in line
    end = next(y for y, line in enumerate(page) if line.startswith("╰"))
    assert all(len(line) == 80 for line in page[: end + 1])


def test_each_cause_of_idle_time_has_a_name() -> None:
    names = {overview_text.part_name({"kind": "idle", "part": cause}) for cause in CAUSES}

    assert len(names) == len(CAUSES)
    assert not any("_" in name for name in names)


def test_ranks_that_findings_name_come_first_and_alike_ones_in_one_row(computed: Scene) -> None:
    found = scene(pane=OVERVIEW)
    (slow, others) = rank_bars(found)
    assert (slow.labels, slow.number, slow.most) == (("5",), 1, 0.8)
    assert (others.labels, others.number) == (("0", "1", "2", "3", "4", "6", "7"), 0)
    page = lines(first_screen.paint(found, 40, 120))
    assert any("r5 " in line and "80 % ◀ 1" in line for line in page)
    assert any("… 7 alike" in line and "60 %" in line for line in page)

    named = [row.labels[0] for row in rank_bars(computed) if row.number]
    assert "1" in named


@pytest.mark.parametrize("colour", [True, False])
def test_kinds_of_time_differ_without_colour(colour: bool) -> None:
    found = replace(scene(pane=OVERVIEW), colour=colour)
    planes = first_screen.paint(found, 40, 120)
    y = next(y for y in range(40) if "█" * 20 in planes.row_text(y))

    shares = found.findings.results["findings"].details["shares"]
    cells = {(planes.glyph[y, x], planes.style[y, x] if colour else 0) for x in range(2, 71)}
    assert len(cells) == len(shares)


def test_without_times_findings_are_texts_and_there_is_no_bar() -> None:
    total = Finding(
        kind="kernel_totals", text="The kernel gemm takes 17 % of 9.11 s of kernel time.", do="Do."
    )
    found = scene(pane=OVERVIEW)
    details = {"findings": [total.to_dict()], "unknown": ["Totals have no times."]}
    result = replace(found.findings.results["findings"], details=details, value=None)
    results = {"findings": replace(result, status="unavailable")}
    page = lines(
        first_screen.paint(
            replace(found, findings=replace(found.findings, results=results, lanes={})), 30, 120
        )
    )

    text = "\n".join(page)
    assert text.count("gemm takes 17 %") == 1  # the headline: a list of one would repeat it
    assert "Totals have no times." in text
    assert "█" not in text
    assert "Ranks" not in text
    assert "Step" not in text


@pytest.mark.parametrize("share", [None, 0.5])
def test_columns_have_heads_only_where_a_finding_has_a_share(share: float | None) -> None:
    row = Finding(
        kind="transfer_spread", text="SendRecv takes 2 ms.", do="Do.", cost_ms=5.0, share=share
    )
    found = scene(pane=OVERVIEW)
    details = {"findings": [row.to_dict()], "period": "window"}
    result = replace(found.findings.results["findings"], details=details)
    results = {**found.findings.results, "findings": result}
    shown = replace(found, findings=replace(found.findings, results=results))

    text = "\n".join(lines(first_screen.paint(shown, 60, 98)))

    assert "What costs time (in all)" in text
    assert ("sure of cause" in text) == (share is not None)


def test_a_value_lies_between_its_least_and_its_most(computed: Scene) -> None:
    page = lines(METRICS.paint(computed, 120, 140))
    row = re.compile(
        r"^[ ▶]  .+?  ([\d.,]+)(?: !)?  \S+ +[^(\s]+  +([\d.,-]+) r\d  +([\d.,-]+) r\d"
    )
    found = [match for line in page if (match := row.match(line)) is not None]

    assert len(found) >= 4
    for match in found:
        value, low, high = (float(text.replace(",", "")) for text in match.groups())
        assert low <= value <= high, match.group()


def test_enter_opens_the_tables_behind_a_number(computed: Scene) -> None:
    found = own_changed(computed, METRICS.own, chosen="dominant_kernel")
    page = lines(METRIC.paint(found, 60, 120))

    kernels = computed.findings.results["dominant_kernel"].details["kernels"]
    assert any(line.startswith(" top kernel, kernels") for line in page)
    for row in kernels:
        assert any(str(row["name"])[:20] in line for line in page)


def test_the_line_of_trust_counts_what_is_missing() -> None:
    found = scene(PLAN, pane=OVERVIEW)
    result = found.findings.results["findings"]
    results = {**found.findings.results, "findings": replace(result, inputs={"world_size": 1024})}
    found = replace(found, findings=replace(found.findings, results=results))

    assert trust(found).ink is Ink.WARNING
    assert any("4 of 1024 ranks" in line for line in lines(first_screen.paint(found, 19, 80)))


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (12, "12 device events overlap on a stream: Perfetto hides them"),
        (1, "1 device event overlaps on a stream: Perfetto hides it"),
        (0, ""),
    ],
)
def test_the_line_of_trust_names_events_that_other_viewers_hide(count: int, text: str) -> None:
    found = scene(PLAN, pane=OVERVIEW)
    result = found.findings.results["findings"]
    counted = replace(result, details={**result.details, "overlapping_events": count})
    results = {**found.findings.results, "findings": counted}
    found = replace(found, findings=replace(found.findings, results=results))

    assert text in trust(found).text
    assert ("Perfetto" in trust(found).text) == bool(text)
