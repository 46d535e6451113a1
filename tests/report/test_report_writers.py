"""One difficult report in every format: golden bytes, and equal cells in table and csv."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from ccltui.metrics.result import Reason, Result, unit_of
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.window import parse_window
from ccltui.report.gates import judge, parse_gate
from ccltui.report.json_document import Entry, Report, TraceSummary
from ccltui.report.printable_json import json_bytes
from ccltui.report.result_rows import cell_text, rows_of
from ccltui.report.text_layout import EMPTY
from ccltui.report.writers import WRITERS, write_csv, write_json, write_table

LAG = Result(
    metric="straggler_lag",
    unit="us",
    definition="How late the last rank arrives.",
    status="partial",
    value=120.5,
    details={
        "mean_lag_us": 120.5,
        "p50_lag_us": 1e-07,
        "num_collectives": 84,
        "worst_group": 'tp, "0"\x1b[31m\u202e 日本',
        "persistent": True,
        "wait_us": {"0": 3.25, "1 (b.json)": None},
        "stragglers": [5, 2],
        "stages": [{"stage": 0, "idle_ms": 0.5}],
    },
    reasons=(Reason("missing_ranks", "2 of 8 ranks missing"), Reason("truncated_trace", "cut")),
    warnings=("n=1",),
    source="kernel",
    basis={"lag": "clock-free"},
    inputs={"ranks": [0, 1]},
)
BUBBLE = Result(
    metric="pipeline_bubble",
    unit="ratio",
    definition="Share of a step without work.",
    status="unavailable",
    value=None,
    details={"bubble_ratio": None, "bubble_time_ms": None},
    reasons=(Reason("not_applicable", "pp = 1"),),
)


def report(*, detail: bool = False) -> Report:
    return Report(
        TraceSummary(
            "runs/a",
            6,
            8,
            ("kineto",),
            "iteration_5",
            (6, 7),
            (("x", "broken"),),
            num_missing_ranks=2,
        ),
        ViewOptions(window=parse_window("1s/2s"), steps=(3, 5), ranks=frozenset({0, 1, 2, 7})),
        [Entry(LAG, "mean_lag_us"), Entry(BUBBLE, "bubble_ratio")],
        [judge(parse_gate("straggler_lag > 100"), LAG)],
        detail=detail,
    )


def test_table_golden() -> None:
    assert write_table(report()).decode() == (
        "metric           key                                   value  unit   status       "
        "reason\n"
        "\n"
        "straggler_lag    mean_lag_us                           120.5  us     partial      "
        "missing_ranks: 2 of 8 ranks missing; truncated_trace: cut\n"
        "straggler_lag    p50_lag_us                            1e-07  us     partial      -\n"
        "straggler_lag    num_collectives                          84  -      partial      -\n"
        'straggler_lag    worst_group      tp, "0"\\x1b[31m\\u202e 日本  -      partial      -\n'
        "straggler_lag    persistent                             true  -      partial      -\n"
        "\n"
        "pipeline_bubble  bubble_ratio                              -  ratio  unavailable  "
        "not_applicable: pp = 1\n"
    )


def test_csv_golden() -> None:
    assert write_csv(report(detail=True)).decode() == (
        "metric,key,value,unit,status,reason\n"
        "straggler_lag,mean_lag_us,120.5,us,partial,"
        "missing_ranks: 2 of 8 ranks missing; truncated_trace: cut\n"
        "straggler_lag,p50_lag_us,1e-07,us,partial,\n"
        "straggler_lag,num_collectives,84,,partial,\n"
        'straggler_lag,worst_group,"tp, ""0""\\x1b[31m\\u202e 日本",,partial,\n'
        "straggler_lag,persistent,true,,partial,\n"
        "straggler_lag,wait_us.0,3.25,us,partial,\n"
        "straggler_lag,wait_us.1 (b.json),,us,partial,\n"
        'straggler_lag,stragglers,"[5, 2]",,partial,\n'
        "straggler_lag,stages.0.stage,0,,partial,\n"
        "straggler_lag,stages.0.idle_ms,0.5,ms,partial,\n"
        "pipeline_bubble,bubble_ratio,,ratio,unavailable,not_applicable: pp = 1\n"
    )


def test_json_golden() -> None:
    text = write_json(report()).decode()
    assert text.startswith('{\n  "schema_version": 1,\n  "trace": {\n    "path": "runs/a",\n')
    assert text.endswith("}\n")
    document = json.loads(text)
    assert document["trace"] == {
        "path": "runs/a",
        "ranks": 6,
        "world_size": 8,
        "sources": ["kineto"],
        "capture": "iteration_5",
        "missing_ranks": [6, 7],
        "num_missing_ranks": 2,
        "failures": [{"path": "x", "error": "broken"}],
        "complete": True,
    }
    assert document["window"] == {"text": "1s/2s", "start_ns": 10**9, "end_ns": 2 * 10**9}
    assert document["selection"] == {
        "steps": "3-5",
        "ranks": "0-2,7",
        "group": None,
        "span": "steps",
        "profile_mode": "auto",
        "raw_clocks": False,
        "overrides": {},
    }
    first, second = document["results"]
    assert {key: first[key] for key in first if key != "details"} == {
        "metric": "straggler_lag",
        "status": "partial",
        "value": 120.5,
        "unit": "us",
        "definition": "How late the last rank arrives.",
        "reason": "missing_ranks",
        "reasons": [
            {"code": "missing_ranks", "message": "2 of 8 ranks missing"},
            {"code": "truncated_trace", "message": "cut"},
        ],
        "warnings": ["n=1"],
    }
    assert first["details"] == LAG.to_document()
    assert (second["status"], second["value"], second["reason"]) == (
        "unavailable",
        None,
        "not_applicable",
    )
    assert document["gates"] == [
        {
            "condition": "straggler_lag > 100",
            "value": 120.5,
            "tripped": True,
            "problem": None,
        }
    ]


def test_each_json_line_stands_alone() -> None:
    lines = WRITERS["jsonl"](report()).decode().splitlines()
    assert len(lines) == 2
    for line, metric in zip(lines, ["straggler_lag", "pipeline_bubble"], strict=True):
        entry = json.loads(line)
        assert entry["metric"] == metric
        assert entry["schema_version"] == 1
        assert entry["trace"]["path"] == "runs/a"
        assert entry["window"]["text"] == "1s/2s"


@pytest.mark.parametrize("detail", [False, True])
def test_table_and_csv_agree_cell_by_cell(detail: bool) -> None:
    csv_rows = list(csv.reader(io.StringIO(write_csv(report(detail=detail)).decode())))
    lines = [line for line in write_table(report(detail=detail)).decode().splitlines() if line]

    assert [_cells(line, lines) for line in lines] == [
        [cell or EMPTY for cell in row] for row in csv_rows
    ]


def _cells(line: str, lines: list[str]) -> list[str]:
    """Cells of a table line, cut where every line of the table has a gap."""
    wide = [_one_column_a_character(text) for text in lines]
    width = max(map(len, wide))
    columns = list(zip(*(text.ljust(width) for text in wide), strict=True))
    gap = [all(char == " " for char in column) for column in columns]
    text = _one_column_a_character(line).ljust(width)
    cells, start = [], 0
    for index in range(1, width):
        if gap[index] and gap[index - 1] and not gap[start]:
            cells.append(text[start : index - 1])
            start = index
        elif gap[start]:
            start = index
    cells.append(text[start:])
    return [cell.replace("\x00", "").strip() for cell in cells]


def _one_column_a_character(text: str) -> str:
    return "".join(char + "\x00" if ord(char) > 0x2FFF else char for char in text)


def test_the_headline_is_not_repeated() -> None:
    keys = [row.key for row in rows_of(LAG, "mean_lag_us", detail=True)]
    assert keys.count("mean_lag_us") == 1
    assert keys[0] == "mean_lag_us"


@pytest.mark.parametrize(
    ("key", "unit"),
    [
        ("mean_lag_us", "us"),
        ("wait_us.3", "us"),
        ("stages.0.bubble_ratio", "ratio"),
        ("dp_bytes", "bytes"),
        ("throughput_tokens_per_s", "tokens/s"),
        ("measured_duration_s", "s"),
        ("exposed_comm_pct", "%"),
        ("exposed_comm_pct_of_step", "%"),
        ("overlap_ratio_of_comp", "ratio"),
        ("lag_fraction_of_step", "ratio"),
        ("tokens_per_s_per_gpu", "tokens/s"),
        ("tokens_per_step", ""),
        ("bytes_basis", ""),
        ("s", "s"),
        ("m_s", ""),
        ("total_calls", ""),
        ("focus", ""),
    ],
)
def test_the_ending_of_a_key_is_its_unit(key: str, unit: str) -> None:
    assert unit_of(key) == unit


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("\x1b]0;title\x07", '"\\u001b]0;title\\u0007"\n'),
        ("\x9b2J\x7f\u202e", '"\\u009b2J\\u007f\\u202e"\n'),
        ("\ud800", '"\\\\ud800"\n'),
        ({"a": [1, "\udc80"]}, '{"a":[1,"\\\\x80"]}\n'),
        ({3: float("nan")}, '{"3":null}\n'),
        ("größe", '"größe"\n'),
    ],
)
def test_json_holds_no_byte_that_a_terminal_acts_on(value: Any, text: str) -> None:
    assert json_bytes(value).decode() == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "true"),
        (0, "0"),
        (2**63, "9223372036854775808"),
        (0.1, "0.1"),
        (58.734328500000004, "58.7343285"),
        (1 / 3, "0.333333333333333"),
        (60.0, "60"),
        (1e-07, "1e-07"),
        ([1, None, "a"], '[1, null, "a"]'),
    ],
)
def test_cells_are_plain_text(value: object, text: str) -> None:
    assert cell_text(value) == text


def test_integers_beyond_64_bits_are_written_exactly() -> None:
    value = {"large": 10**30, "list": [-(10**30), {10**25: 1}], "small": 2**64 - 1}

    assert json.loads(json_bytes(value)) == {
        "large": 10**30,
        "list": [-(10**30), {str(10**25): 1}],
        "small": 2**64 - 1,
    }
