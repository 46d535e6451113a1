"""Overview: every number is one of a metric, the parts of a step fill the bar, groups fold."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from fakes import Plan, full_job, own_changed, scene

from ccltui.draw import numbers
from ccltui.draw.composition import INKS
from ccltui.draw.palette import Ink
from ccltui.draw.planes import Planes
from ccltui.metrics.findings.idle_causes import CAUSES
from ccltui.metrics.findings.partition import KINDS
from ccltui.metrics.registry import metrics
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.report import overview_text
from ccltui.tui.engine.analysis import stages
from ccltui.tui.moves import overview_rows, row_moves
from ccltui.tui.panes import overview
from ccltui.tui.panes.overview_parts.overview_page import Page
from ccltui.tui.state.figures.metric_list import UNAVAILABLE, items
from ccltui.tui.state.job_findings import Findings
from ccltui.tui.state.own.overview_state import OVERVIEW_STATE, Section
from ccltui.tui.state.own.pane_names import OVERVIEW
from ccltui.tui.state.rebase_findings import adopt
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.side_tables import of_traces

NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?![\w.]*\d)")
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


def leaves(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        for key, one in value.items():
            yield from leaves(one)
            if str(key).isdigit():
                yield int(key)
    elif isinstance(value, list):
        yield len(value)
        for one in value:
            yield from leaves(one)
    elif isinstance(value, str):
        yield from (float(text.replace(",", "")) for text in NUMBER.findall(value))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


def spelled(value: float) -> set[str]:
    """Every way in which a screen spells a number, without its unit."""
    texts = {
        f"{value:.4g}",
        f"{value:.3g}",
        f"{value:.1f}",
        f"{value:.1%}",
        numbers.quantity(value),
    }
    if isinstance(value, int) or value.is_integer():
        texts.add(str(int(value)))
    texts |= {numbers.duration(round(value * 1000)), numbers.signed_duration(round(value * 1000))}
    return {found.lstrip("+-") for text in texts for found in NUMBER.findall(text)} | {
        re.sub(r"[a-z%]+$", "", text).lstrip("+-") for text in texts
    }


def test_every_number_on_the_first_screen_is_one_of_a_metric_headless(computed: Scene) -> None:
    view = View(full_job(PLAN), ViewOptions())
    headless = {name: metric.run(view).to_document() for name, metric in metrics().items()}
    known = set()
    for value in leaves(json.loads(json.dumps(headless, default=str))):
        known |= spelled(value)

    page = lines(overview.paint(computed, 60, 120))
    heading = next(y for y, line in enumerate(page) if line.startswith(" metrics"))
    shown = "\n".join(page[:heading])
    found = [text.lstrip("+-") for text in re.findall(r"\d+(?:,\d{3})*(?:\.\d+)?", shown)]
    ordinals = {"1", "2", "3", "0.1"}  # numbers of findings, and the limit of the legend

    assert len(found) > 40
    assert [text for text in found if text not in known | ordinals] == []


def test_the_parts_of_the_bar_are_those_of_the_metric(computed: Scene) -> None:
    planes = overview.paint(computed, 40, 120)
    details = computed.findings.results["step_composition"].details
    width = 118
    y = next(y for y in range(planes.height) if "█" * 20 in planes.row_text(y))

    cells = [Ink(style) for style in planes.style[y, 1 : 1 + width]]
    assert not set(cells) - set(INKS.values())
    for kind in KINDS:
        share = sum(row["share"] for row in details["parts"] if row["kind"] == kind)
        assert abs(cells.count(INKS[kind]) - share * width) <= 1, kind
    legend = " ".join(lines(planes)[y + 1 : y + 4])
    for row in details["parts"]:
        if row["share"] >= 0.001:
            text = f"{overview_text.part_name(row)} {row['step_ms']:.4g} ms {row['share']:.1%}"
            assert text in legend


def test_each_cause_of_idle_time_has_a_name() -> None:
    names = {overview_text.part_name({"kind": "idle", "part": cause}) for cause in CAUSES}

    assert len(names) == len(CAUSES)
    assert not any("_" in name for name in names)


def test_the_first_screen_at_80x24_has_verdict_bar_and_findings_whole(computed: Scene) -> None:
    page = lines(overview.paint(computed, 19, 80))

    text = " ".join(line.strip() for line in page)
    results = computed.findings.results
    assert overview_text.headline(results) in text
    assert overview_text.step_time(results) in text
    assert "compute " in text
    for finding in overview_text.findings(results):
        assert finding.text in text
    assert not any("…" in line for line in page)
    assert not any(line.startswith(" !") for line in page)


def test_the_board_lists_who_causes_most_wait_first(computed: Scene) -> None:
    page = lines(overview.paint(computed, 60, 120))
    at = next(y for y, line in enumerate(page) if line.startswith(" ranks, worst first"))
    blame = computed.findings.results["straggler_lag"].details["blame"]

    worst = sorted(blame, key=lambda label: -blame[label]["caused_wait_us"])
    assert worst[0] == "1"
    assert page[at + 1].split()[0] == "r1"
    caused = numbers.duration(round(blame["1"]["caused_wait_us"] * 1000))
    assert page[at + 1].split()[2] == caused


def test_groups_fold_and_unfold(computed: Scene) -> None:
    found = own_changed(computed, OVERVIEW_STATE, section=Section.METRICS, item="iter_time")
    whole = len(items(found))

    folded = found.with_state(overview_rows.fold(found))
    assert OVERVIEW_STATE.of(folded.state).item == "#time"
    assert any(line.startswith("▶▸ time") for line in lines(overview.paint(folded, 60, 120)))
    assert len(items(folded)) < whole

    again = folded.with_state(overview_rows.open_row(folded))  # enter on the heading
    assert len(items(again)) == whole


def test_what_is_unavailable_is_one_line_until_it_is_asked_for(computed: Scene) -> None:
    listed = items(computed)
    missing = [m for m in computed.findings.results.values() if m.status == "unavailable"]

    assert (listed[-1].key, listed[-1].count) == (UNAVAILABLE, len(missing))
    assert not {item.key for item in listed} & {result.metric for result in missing}

    last = computed.with_state(row_moves.last_row(computed))
    shown = last.with_state(overview_rows.open_row(last))
    assert {result.metric for result in missing} <= {item.key for item in items(shown)}
    assert any("absent: " in line for line in lines(overview.paint(shown, 60, 120)))


def test_a_value_lies_between_its_least_and_its_most(computed: Scene) -> None:
    page = lines(overview.paint(computed, 120, 140))
    row = re.compile(r"^   .+?  ([\d.,]+)(?: !)?  \S+ +[^(\s]+  +([\d.,-]+) r\d  +([\d.,-]+) r\d")
    found = [match for line in page if (match := row.match(line)) is not None]

    assert len(found) >= 4
    for match in found:
        value, low, high = (float(text.replace(",", "")) for text in match.groups())
        assert low <= value <= high, match.group()


def test_enter_opens_the_tables_behind_a_number(computed: Scene) -> None:
    found = own_changed(computed, OVERVIEW_STATE, section=Section.METRICS, item="dominant_kernel")
    opened = found.with_state(overview_rows.open_row(found))
    page = lines(overview.paint(opened, 60, 120))

    kernels = computed.findings.results["dominant_kernel"].details["kernels"]
    assert any(line.startswith(" top kernel, kernels") for line in page)
    for row in kernels:
        assert any(str(row["name"])[:20] in line for line in page)


def test_the_line_of_trust_counts_what_is_missing() -> None:
    found = scene(PLAN, pane=OVERVIEW)
    result = found.findings.results["fix_first"]
    results = {**found.findings.results, "fix_first": replace(result, inputs={"world_size": 1024})}
    found = replace(found, findings=replace(found.findings, results=results))
    planes = overview.paint(found, 19, 80)

    y = next(y for y, line in enumerate(lines(planes)) if "4 of 1024 ranks are recorded" in line)
    assert planes.style[y, 1] == Ink.WARNING


def test_a_page_that_goes_on_names_the_lines_below_and_cuts_no_text() -> None:
    page = Page(20)
    page.text("first", Ink.TEXT)
    page.text("a text that takes more than one line", Ink.TEXT)
    page.text("last", Ink.TEXT)
    lines = len(page.lines)

    def shown(height: int) -> list[str]:
        planes = page.paint(height, 0)
        return [planes.row_text(y).strip() for y in range(height)]

    assert shown(lines)[-1] == "last"
    assert shown(lines - 1) == ["first", *[""] * (lines - 3), f"↓ {lines - 1} more lines"]


def test_a_text_longer_than_the_page_is_shown_as_far_as_it_fits() -> None:
    page = Page(20)
    page.text("a text that takes more than two lines of this page", Ink.TEXT)

    planes = page.paint(2, 0)

    assert planes.row_text(0).strip() == "a text that takes"
    assert planes.row_text(1).strip() == f"↓ {len(page.lines) - 1} more lines"
