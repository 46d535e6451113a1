"""The report of a job: its numbers, its form, and what it says where there is nothing to show."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np
import pytest
from report_html import all_of, by_id, html_of, name_of, page_of, parsed, text_of

from ccltui.demo import Spec, write_job
from ccltui.metrics.arrays.intervals import Intervals
from ccltui.metrics.findings.causes.instance_report import Instance
from ccltui.metrics.findings.causes.worst_moments import (
    RESOLUTION,
    Lane,
    Moment,
    worst_moments,
)
from ccltui.metrics.findings.waits.rank_lateness import LateHeat, distributions, late_heat
from ccltui.metrics.registry import find
from ccltui.metrics.unavailable import Refusal
from ccltui.metrics.view.job_view import View
from ccltui.parsers.window import parse_window
from ccltui.report.explanation import explain
from ccltui.report.json_document import TraceSummary
from ccltui.report.page.make_page import METRICS, html_page, markdown_page
from ccltui.report.page.page_parts import (
    Column,
    Lines,
    Page,
    Section,
    Table,
    heat_picture,
    listed_lines,
    moment_picture,
    svg_text,
)
from ccltui.report.page.sections import (
    COUNT,
    EXAMINED,
    HEAT_COLUMNS,
    MOST_LANES,
    MOST_RANKS,
    TABLE_COLUMNS,
)

MOST_BYTES = 2_000_000
SECTIONS = (
    "verdict",
    "step",
    "ranks",
    "lateness",
    "moments",
    "dimensions",
    "kernels",
    "distributions",
    "trust",
    "definitions",
)
UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("report") / "job"
    write_job(found, Spec())
    return found


@pytest.fixture(scope="module")
def made(directory: Path) -> tuple[Page, View]:
    return page_of(directory)


@pytest.fixture(scope="module")
def root(made: tuple[Page, View]) -> Element:
    return parsed(html_page(made[0]))


@pytest.fixture(scope="module")
def details(made: tuple[Page, View]) -> dict[str, Any]:
    """Details of every metric as headless JSON has them, and the tables of `metrics`."""
    return details_of(made[1])


def details_of(view: View) -> dict[str, Any]:
    found: dict[str, Any] = {name: dict(find(name).run(view).details) for name in METRICS}
    with suppress(Refusal):
        found["late_heat"] = late_heat(view, TABLE_COLUMNS, MOST_RANKS).to_dict()
        found |= {f"distributions/{one.name}": one.to_dict() for one in distributions(view)}
    moments = worst_moments(view, count=COUNT, examined=EXAMINED, most_ranks=MOST_LANES)
    found |= {f"worst_moments/{i}": one.to_dict() for i, one in enumerate(moments)}
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


def at(document: Any, pointer: str) -> Any:
    """The value at a JSON pointer."""
    for key in pointer.split("/")[1:]:
        key = key.replace("~1", "/").replace("~0", "~")  # noqa: PLW2901
        document = document[int(key) if isinstance(document, list) else key]
    return document


def is_written(value: Any, text: str) -> bool:
    """Whether a text is a value to the digits that it has."""
    text = text.replace("\xa0", " ")
    if not isinstance(value, int | float):
        return text == str(value)
    if text == "< 0.1 %":
        return 0 < value < 0.0005
    if found := re.fullmatch(r"([\d.]+) %", text):
        return abs(value - float(found[1]) / 100) <= 0.000_501
    if found := re.fullmatch(r"([\d.]+) ([KMGT]?i?B)", text):
        read = float(found[1]) * UNITS[found[2]]
    else:
        read = float(text.replace(",", ""))
    return abs(value - read) <= max(0.000_501, 0.000_51 * abs(value))


def checked_numbers(root: Element, details: dict[str, Any]) -> list[Element]:
    """The numbers of a page, each of which is the one of its source."""
    numbers = [one for one in root.iter() if one.get("data-key") is not None and one.tag != "code"]
    for one in numbers:
        try:
            value = at(details[one.get("data-metric") or ""], one.get("data-key") or "")
        except (KeyError, IndexError, TypeError):  # below a key that is null
            value = None
        if value is None:
            assert text_of(one) == "–not known"
        else:
            assert one.get("value") == str(value), one.attrib
            assert is_written(value, text_of(one)), (value, text_of(one))
    return numbers


@pytest.mark.parametrize(
    "folder", ["traces/torchrec", "traces/pippy", "traces/aorta", "nsys/ddp53", "recorded/pp_4"]
)
def test_numbers_of_public_jobs_are_those_of_the_metrics(shared: Path, folder: str) -> None:
    if not (shared / folder).exists():
        pytest.skip(f"no {folder} among the public traces")
    page, view = page_of(shared / folder)
    root = parsed(html_page(page))

    assert checked_numbers(root, details_of(view))
    test_tables_and_pictures_are_described(root)
    test_it_is_read_by_a_screen_reader_and_by_keys(root)


def test_every_number_is_that_of_the_metric_cell_for_cell(
    root: Element, details: dict[str, Any]
) -> None:
    numbers = checked_numbers(root, details)

    sources = {(one.get("data-metric") or "").split("/")[0] for one in numbers}
    assert sources >= {"step_composition", "straggler_lag", "clock_offsets", "parallelism"}
    assert sources >= {"kernels", "late_heat", "worst_moments", "distributions", *METRICS}
    assert len(numbers) > 250


def test_numbers_of_sentences_are_those_of_the_metric(
    root: Element, details: dict[str, Any]
) -> None:
    sentences = all_of(by_id(root, "verdict"), "code")

    for one in sentences:
        found = at(details[one.get("data-metric") or ""], one.get("data-key") or "")
        stated = one.get("data-value")
        if stated is not None:
            values = found.values() if isinstance(found, dict) else [found]
            assert stated in map(str, values)
    assert sum(one.get("data-value") is not None for one in sentences) >= 6


def test_a_number_outside_a_table_cell_has_no_other_digits(root: Element) -> None:
    """Numeric cells hold nothing but numbers with a source."""
    cells = [one for one in all_of(root, "td") if one.get("class") == "num"]

    for cell in cells:
        inside = [name_of(one) for one in cell]
        assert inside in (["data"], ["span"]), text_of(cell)
        assert not (cell.text or "").strip()


def test_the_text_is_that_of_explain(made: tuple[Page, View], root: Element) -> None:
    _, view = made
    results = {name: find(name).run(view) for name in METRICS}
    found = explain(TraceSummary.of(view.job), results)
    verdict = by_id(root, "verdict")

    assert text_of(next(o for o in verdict.iter() if o.get("class") == "lead")) == found.headline
    shown = text_of(verdict)
    assert all(" ".join(claim.text.split()) in shown for claim in found.claims)
    assert all(text in shown for text in (*found.ruled_out, *found.missing))


def test_the_parts_of_a_step_fill_the_bar(root: Element) -> None:
    bar = next(o for o in all_of(root, "svg") if "step-bar" in (o.get("aria-labelledby") or ""))
    parts = [o for o in all_of(bar, "rect") if "part" in (o.get("class") or "")]

    assert sum(float(one.get("width") or 0) for one in parts) == pytest.approx(960, abs=0.1)
    table = all_of(by_id(root, "step"), "tbody")[0]
    shares = [float(row[-1][0].get("value") or 0) for row in table]
    assert sum(shares) == pytest.approx(1)
    assert len(shares) == len(parts)


def test_the_file_is_alone(made: tuple[Page, View], root: Element) -> None:
    text = html_page(made[0]).decode()

    assert not all_of(root, "script")
    assert not all_of(root, "link")
    for element in root.iter():
        for name, value in element.attrib.items():
            assert not str(name).startswith("on")
            assert name not in {"src", "srcset", "action", "style"}
            assert name != "href" or value.startswith("#")
    assert "url(" not in text
    assert "@import" not in text
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in text


def test_it_is_read_by_a_screen_reader_and_by_keys(root: Element) -> None:
    assert root.get("lang") == "en"
    for landmark in ("header", "nav", "main", "footer"):
        assert len(all_of(root, landmark)) == 1
    levels = [int(n[1]) for o in root.iter() if re.fullmatch(r"h[1-6]", n := name_of(o))]
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    ids = [one.get("id") for one in root.iter() if one.get("id")]
    assert len(ids) == len(set(ids))
    for element in root.iter():
        for name in (element.get("aria-labelledby") or "").split():
            assert name in ids
        if (target := element.get("href")) is not None:
            assert target[1:] in ids
    body = all_of(root, "body")[0]
    assert (body[0].get("class"), body[0].get("href")) == ("skip", "#main")


def test_tables_and_pictures_are_described(root: Element) -> None:
    for table in all_of(root, "table"):
        assert name_of(table[0]) == "caption"
        assert text_of(table[0])
        heads = all_of(table, "th")
        assert heads
        assert all(one.get("scope") in {"col", "row"} and text_of(one) for one in heads)
        widths = {len(row) for row in all_of(table, "tr")}
        assert len(widths) == 1
    for svg in all_of(root, "svg"):
        title, description = svg[0], svg[1]
        assert (name_of(title), name_of(description)) == ("title", "desc")
        assert text_of(title)
        assert text_of(description)
        assert svg.get("role") == "img"
    regions = [one for one in root.iter() if one.get("class") == "scroll"]
    assert all(one.get("tabindex") == "0" and one.get("aria-label") for one in regions)


def test_every_section_is_there_and_explained(root: Element) -> None:
    found = all_of(root, "section")

    assert tuple(one.get("id") for one in found) == SECTIONS
    assert not [one for one in root.iter() if one.get("class") == "absent"]
    labels = [text_of(one) for one in all_of(all_of(root, "nav")[0], "a")]
    assert labels == [text_of(all_of(one, "h2")[0]) for one in found]


def test_definitions_are_those_of_the_registry(root: Element) -> None:
    rows = all_of(by_id(root, "definitions"), "tr")[1:]

    assert [text_of(row[0]) for row in rows] == list(METRICS)
    for row in rows:
        metric = find(text_of(row[0]))
        assert text_of(row[2]) == metric.unit
        assert text_of(row[3]).startswith(" ".join(metric.definition.split()))


def test_the_culprit_and_the_latest_rank_are_marked(root: Element) -> None:
    board = all_of(by_id(root, "ranks"), "tbody")[0]

    assert [text_of(row[0]) for row in board][1] == "1 culprit"
    moments = [text_of(one) for one in all_of(by_id(root, "moments"), "h3")]
    assert moments[0].endswith("rank 1 is the last")
    assert len(moments) == COUNT


def test_a_selection_is_stated_and_applied(directory: Path) -> None:
    page, view = page_of(
        directory, ranks=frozenset({0, 1}), steps=(11, 12), window=parse_window("0/1s")
    )

    facts = dict(page.facts)
    assert (facts["Selected ranks"], facts["Selected steps"]) == ("0-1", "11-12")
    assert facts["Window"] == "0s/1s"
    assert len(view.ranks) == 2
    rows = all_of(all_of(by_id(parsed(html_page(page)), "ranks"), "tbody")[0], "tr")
    assert len(rows) == 2


def test_one_rank_has_a_reason_for_each_absent_section(directory: Path, tmp_path: Path) -> None:
    trace = next(directory.glob("kineto_trace_0.json*"))
    (tmp_path / trace.name).write_bytes(trace.read_bytes())

    root = html_of(tmp_path)

    absent = {
        section.get("id"): text_of(one)
        for section in all_of(root, "section")
        for one in section
        if one.get("class") == "absent"
    }
    assert set(absent) == {"lateness", "moments", "distributions"}
    assert all("1 of 8 ranks found" in text for text in absent.values())
    assert "Matches: none shows who is late" in text_of(by_id(root, "trust"))


def test_a_job_without_collectives_says_so(tmp_path: Path) -> None:
    events = [
        {
            "ph": "X",
            "cat": "kernel",
            "name": "gemm",
            "pid": 0,
            "tid": 7,
            "ts": 100.0 * i,
            "dur": 50.0,
            "args": {"device": 0, "stream": 7},
        }
        for i in range(3)
    ]
    for rank in range(2):
        document = {
            "schemaVersion": 1,
            "distributedInfo": {"rank": rank, "world_size": 2},
            "traceEvents": events,
        }
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(document))

    root = html_of(tmp_path)

    absent = [text_of(one) for one in root.iter() if one.get("class") == "absent"]
    assert absent
    assert all(text.startswith("Absent: ") and len(text) > 12 for text in absent)
    assert "gemm" in text_of(by_id(root, "kernels"))


def test_a_thousand_ranks_fit_into_two_megabytes() -> None:
    rng = np.random.default_rng(1)
    rows = tuple((str(16 * i), str(16 * i + 15)) for i in range(MOST_RANKS))
    late = rng.integers(-1, 10**7, (MOST_RANKS, HEAT_COLUMNS))
    edges = np.arange(HEAT_COLUMNS + 1, dtype=np.int64) * 10**6
    levels = np.geomspace(10**4, 10**7, 7).astype(np.int64)
    heat = svg_text(heat_picture(LateHeat(rows, edges, late, levels, 10**4, ())))
    starts = np.arange(RESOLUTION // 2, dtype=np.int64) * 2000
    busy = Intervals(starts, starts + 1000)
    lanes = tuple(Lane(str(i), busy, busy, busy, 0, 10**5) for i in range(MOST_LANES))
    instance = Instance(
        number=0, row=0, group="world", dim="world", kind="AllReduce", step=None, dtype=None,
        message_bytes=None, transfer_ns=None, algbw_gbps=None, busbw_gbps=None, lag_ns=1,
        last="0", members=(), absent=(), agrees=True, method="order", confidence="low",
    )  # fmt: skip
    moment = svg_text(moment_picture("m", Moment(instance, "0", 1, 0, 400_000, lanes, 1024, True)))

    assert len(heat) + COUNT * len(moment) < MOST_BYTES * 0.9


def test_markdown_has_the_same_tables(made: tuple[Page, View], root: Element) -> None:
    text = markdown_page(made[0]).decode().replace("\xa0", " ")

    assert text.startswith("# ")
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == [
        text_of(one) for one in all_of(root, "h2")
    ]
    for table in all_of(root, "table"):
        assert f"**{text_of(table[0])}**" in text
    board = all_of(all_of(by_id(root, "ranks"), "tbody")[0], "tr")[0]
    cells = [text_of(one).replace("<", "&lt;") for one in board if not all_of(one, "svg")]
    assert f"| {' | '.join(cells)} |" in text.splitlines()


def test_names_and_lists_of_any_length_are_bounded() -> None:
    table = Table("t", (Column("a", is_numeric=False),), [("x" * 10**6,)])
    lines = listed_lines(["y" * 10**6] * 500)
    section = Section("s", "S", "", [table, Lines(lines)], absent="z" * 10**6)
    page = Page("p" * 10**6, "", (), (section,), "0")

    assert len(html_page(page)) < 100_000
    assert len(markdown_page(page)) < 100_000
    assert text_of(all_of(parsed(html_page(page)), "li")[-1]) == "and 460 more"


def test_timelines_of_hosts_without_a_common_clock_say_so(shared: Path) -> None:
    root = html_of(shared / "recorded" / "fsdp_4")

    moments = text_of(by_id(root, "moments"))
    assert "The clocks of these ranks are not corrected" in moments
    lanes = [one for one in root.iter() if one.get("class") == "slim communication"]
    assert lanes
