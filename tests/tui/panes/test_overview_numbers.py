"""Overview: each number on it is that of a metric as printed headless, cell for cell."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from ccltui.cli import run
from ccltui.demo import Cut, Spec, Straggler, write_job
from ccltui.demo.planted import Fault, JobSpec, write_planted
from ccltui.draw.planes import Planes
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers import numbers
from ccltui.parsers.job import open_job
from ccltui.parsers.numbers import percent, time_text
from ccltui.tui.engine.analysis import stages
from ccltui.tui.panes import first_screen
from ccltui.tui.panes.metrics import METRICS, with_unavailable
from ccltui.tui.reducer import adopt
from ccltui.tui.state.answers import Findings
from ccltui.tui.state.pane_states import OVERVIEW
from ccltui.tui.state.query_kinds import of_traces
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.session import Session
from ccltui.tui.state.view_state import ViewState

FIGURE = re.compile(r"(?<![\w.])[-+±]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]\d+)?")
STATED_BY = ("findings", "iter_time", "step_variability", "straggler_lag", "clock_offsets")
"""Metrics whose numbers stand on the first screen."""
HEIGHT, WIDTH = 200, 150
LATE = Straggler(rank=1, cause="compute", extra_ns=2_000_000)
SLOW = Fault("slow_worker", (1,), 1.5)
JOBS: dict[str, Spec | JobSpec] = {
    "pipeline": Spec.quiet(steps=3, layers=2, stragglers=(LATE,), clock_offsets_ns=(0, 5_000_000)),
    "data parallel": JobSpec(dp=3, steps=4, faults=(Fault("data_loading", (2,), 1.0, 3_000_000),)),
    "experts": JobSpec(family="moe", dp=4, steps=3, layers=1, faults=(SLOW,)),
    "device rows only": JobSpec(dp=2, pp=2, family="pp", steps=3, level="no_host", faults=(SLOW,)),
    "one step": JobSpec(dp=2, steps=1, faults=(SLOW,)),
    "one rank": Spec.quiet(tp=1, pp=1, dp_shard=1, steps=2, layers=1, micro_batches=1),
    "damaged": Spec.quiet(pp=1, steps=3, layers=1, cuts=(Cut(2, 0.7),), stragglers=(LATE,)),
}


class Shown(Struct, frozen=True):
    """The pages of a job, and the results of all metrics as a headless command prints them."""

    scene: Scene
    first: list[str]
    page: list[str]
    headless: Mapping[str, Any]

    def details(self, metric: str) -> Mapping[str, Any]:
        """Details of a metric, empty where it has no value."""
        found: Mapping[str, Any] = self.headless[metric]["details"] or {}
        return {} if self.headless[metric]["status"] == "unavailable" else found

    def line(self, beginning: str) -> int:
        """Number of the first line that begins so."""
        return next(y for y, text in enumerate(self.page) if text.startswith(beginning))


@pytest.fixture(scope="module", params=JOBS)
def shown(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Shown:
    """A job on disk, opened as the explorer does and printed by the command."""
    folder = tmp_path_factory.mktemp("numbers")
    spec = JOBS[request.param]
    if isinstance(spec, Spec):
        write_job(folder / "job", spec)
    else:
        write_planted(folder / "job", spec)
    found = computed(folder / "job", folder / "cache")
    first = rows_of(found)
    page = rows_of(found, METRICS.paint)
    output = folder / "out.json"
    shared = ("--detail", "--cache-dir", str(folder / "cache"), "--output", str(output))
    run([str(folder / "job"), "--metric", "all", "--format", "json", *shared])
    document = json.loads(output.read_text())
    return Shown(found, first, page, {one["metric"]: one for one in document["results"]})


def rows_of(
    found: Scene, paint: Callable[[Scene, int, int], Planes] = first_screen.paint
) -> list[str]:
    """Text of every row of the pane."""
    planes = paint(found, HEIGHT, WIDTH)
    return [planes.row_text(y).rstrip() for y in range(HEIGHT)]


def computed(directory: Path, cache: Path) -> Scene:
    """The scene with every metric of traces computed."""
    job = open_job(directory, cache_dir=cache)
    session = Session(str(directory)).opened(replace(job, ranks=()))
    for trace in job.ranks:
        session = session.with_job(job, {trace.source.path: ""})
    session = session.filtered(ViewOptions()).finished(stopped=False)
    start = Findings(generation=session.generation)
    *_, findings = stages(View(job, ViewOptions()), session.filter, start, tuple(all_metrics()))
    scene = adopt(Scene(session, replace(ViewState(), pane=OVERVIEW)), findings)
    return scene.with_state(with_unavailable(scene))


def all_metrics() -> Iterator[Any]:
    """Metrics that the explorer computes of traces."""
    yield from of_traces().values()


def test_each_metric_has_the_value_that_is_printed(shown: Shown) -> None:
    first = shown.line(" metrics") + 1
    listed = METRICS.rows(shown.scene)
    compared = 0
    for item, line in zip(listed, shown.page[first:], strict=False):
        if item.metric is None:
            continue
        printed = shown.headless[item.metric.name]
        title = item.metric.title
        assert line[1:].startswith(f"  {title}"), line
        cells = re.split(r"\s{2,}", line[3 + len(title) :].strip())
        if printed["status"] == "unavailable":
            assert "absent: " in line
            assert printed["value"] is None
            continue
        sign = " !" if printed["status"] == "partial" else ""
        assert cells[0] == numbers.quantity(printed["value"]) + sign, line
        assert printed["unit"] in line
        compared += 1
        assert_extremes(cells, printed)
    assert compared >= 8


def assert_extremes(cells: list[str], printed: Mapping[str, Any]) -> None:
    """Compare the least and the most by rank, where they are shown, with the details."""
    ends = [cell for cell in cells if re.fullmatch(r"-?[\d.,e+-]+ r\S+", cell)]
    for end, choose in zip(ends, (min, max), strict=False):
        text, rank = end.split()
        of_rank = [
            numbers.quantity(column[rank[1:]])
            for column in columns(printed["details"])
            if rank[1:] in column and column[rank[1:]] == choose(column.values())
        ]
        assert text in of_rank, (printed["metric"], end)


def columns(details: Mapping[str, Any]) -> Iterator[dict[str, float]]:
    """Every number by rank in the details, as label -> value."""
    for part in details.values():
        if not isinstance(part, Mapping):
            continue
        rows = {key: row for key, row in part.items() if isinstance(row, Mapping)}
        for name in {name for row in rows.values() for name in row}:
            yield known({key: row.get(name) for key, row in rows.items()})
        yield known(part)


def known(column: Mapping[str, Any]) -> dict[str, float]:
    """The entries that are numbers."""
    return {
        key: value
        for key, value in column.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def test_every_number_of_the_first_screen_stands_in_the_document_that_is_printed(
    shown: Shown,
) -> None:
    documents = {name: shown.headless[name] for name in STATED_BY}
    stated = {text for value in leaves(documents) for text in spelled(value)}
    places = {str(n) for n in range(1, 12)}  # numbers of findings, and of ranks that are alike
    text = " ".join(without_timeline(shown.first))
    found = [one.lstrip("+-±") for one in FIGURE.findall(text)]

    assert len(found) >= 10
    assert [one for one in found if one not in stated | places] == []


def without_timeline(rows: list[str]) -> list[str]:
    """Rows without those of the chart, whose numbers are times on its axis, and of the counts."""
    begin = next(y for y, text in enumerate(rows) if "─ Timeline" in text)
    end = next(y for y, text in enumerate(rows) if text.startswith("╰"))
    kept = [*rows[:begin], *rows[end:]]
    return [text.strip() for text in kept if not text.startswith(" M: ")]


def leaves(value: Any) -> Iterator[float]:
    """Every number in a document, also those in its texts and the length of its lists."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from leaves(str(key))
            yield from leaves(one)
    elif isinstance(value, list):
        yield len(value)
        for one in value:
            yield from leaves(one)
    elif isinstance(value, str):
        yield from (float(text.replace(",", "").lstrip("±")) for text in FIGURE.findall(value))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


def spelled(value: float) -> set[str]:
    """Every way in which the page spells a number, without sign and unit."""
    plain = {f"{value:.4g}", f"{value:.3g}", f"{value:.1f}", f"{value:.1%}"}
    plain |= {numbers.quantity(value), time_text(value), time_text(value / 1000), percent(value)}
    if float(value).is_integer():
        plain.add(str(int(value)))
    return {re.sub(r"[a-z% ]+$", "", text).lstrip("+-") for text in plain}
