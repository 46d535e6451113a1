"""The table over many directories, format by format."""

from __future__ import annotations

import csv
import io
import json

import pytest

from ccltui.commands.metrics_report import (
    CATEGORIES,
    WRITERS,
    Catalogue,
    MetricColumn,
    Outcome,
    Row,
)
from ccltui.metrics.registry import metrics

METRICS = (
    MetricColumn("iter_time", "step time", "ms", False, "time", "How long a step takes."),
    MetricColumn("mfu", "utilization", "%", True, "throughput", "Model FLOPs."),
    MetricColumn("idle_ratio", "GPU idle", "ratio", False, "time", "Idle share."),
)
CATALOGUE = Catalogue(
    METRICS,
    (
        Row(
            "runs/a|b",
            {"model_family": "llama", "tp": 4, "moe": False, "ranks": 8, "world_size": 8},
            {
                "iter_time": Outcome(123.456789, "ok"),
                "mfu": Outcome(None, "unavailable", "no_card", "no workload card"),
                "idle_ratio": Outcome(0.25, "partial", "missing_ranks", "1 of 2"),
            },
        ),
        Row("runs/gone", problem="runs/gone: no such file or directory"),
    ),
)


def test_csv_has_a_line_a_directory_and_names_what_is_missing() -> None:
    rows = list(csv.DictReader(io.StringIO(WRITERS["csv"](CATALOGUE).decode())))

    assert len(rows) == 2
    first, second = rows
    assert (first["directory"], first["model_family"], first["tp"]) == ("runs/a|b", "llama", "4")
    assert (first["iter_time [ms]"], first["mfu [%]"]) == ("123.456789", "")
    assert first["moe"] == "false"
    assert (first["partial"], first["unavailable"]) == (
        "idle_ratio: missing_ranks",
        "mfu: no_card",
    )
    assert second["problem"] == "runs/gone: no such file or directory"
    assert second["iter_time [ms]"] == ""


def test_json_has_the_display_record_of_every_metric() -> None:
    document = json.loads(WRITERS["json"](CATALOGUE))

    assert document["metrics"][0] == {
        "name": "iter_time",
        "label": "step time",
        "unit": "ms",
        "higher_is_better": False,
        "category": "time",
        "definition": "How long a step takes.",
    }
    first = document["rows"][0]
    assert first["results"]["mfu"] == {
        "value": None,
        "status": "unavailable",
        "reason": "no_card",
        "message": "no workload card",
    }
    assert first["facts"]["tp"] == 4
    assert document["rows"][1]["problem"].startswith("runs/gone")


def divided(*parts: dict[str, float]) -> Catalogue:
    column = MetricColumn("traffic", "traffic by dimension", "bytes", None, "communication", "…")
    rows = [
        Row(f"runs/{number}", {}, {"traffic": Outcome(1000 + number, "ok", parts=one)})
        for number, one in enumerate(parts)
    ]
    return Catalogue((column,), rows)


def test_a_value_by_dimension_names_the_dimensions() -> None:
    catalogue = divided({"tp": 0.75, "dp": 0.25}, {})

    table, markdown, text, document = (
        WRITERS[form](catalogue).decode() for form in ("table", "markdown", "csv", "json")
    )

    assert "1000 (tp 75 %, dp 25 %)" in table
    assert "| 1000 (tp 75 %, dp 25 %) | 1001 |" in markdown
    first, second = csv.DictReader(io.StringIO(text))
    assert (first["traffic [bytes]"], first["traffic by part"]) == ("1000", "tp 75 %, dp 25 %")
    assert (second["traffic [bytes]"], second["traffic by part"]) == ("1001", "")
    assert json.loads(document)["rows"][0]["results"]["traffic"]["parts"] == {
        "tp": 0.75,
        "dp": 0.25,
    }


def test_markdown_has_a_column_a_directory_and_groups_by_category() -> None:
    lines = WRITERS["markdown"](CATALOGUE).decode().splitlines()

    assert lines[0] == "| category | metric | unit | runs/a\\|b | runs/gone |"
    assert lines[1] == "| --- | --- | --- | --- | --- |"
    assert "| facts | model_family |  | llama |  |" in lines
    assert "| time | step time ↓ | ms | 123.457 | – |" in lines
    assert "| time | GPU idle ↓ | ratio | 0.25* | – |" in lines
    assert "| throughput | utilization ↑ | % | – | – |" in lines
    body = [line.split(" | ")[0] for line in lines if line.startswith("| t")]
    assert body == ["| throughput", "| time", "| time"]  # what is asked first stands first
    assert lines[-3:] == [
        "- `runs/a|b` partial: missing_ranks (idle_ratio)",
        "- `runs/a|b` unavailable: no_card (mfu)",
        "- `runs/gone`: runs/gone: no such file or directory",
    ]
    assert not any("| facts | pp |" in line for line in lines)  # nobody states it


def test_the_table_holds_the_same_cells() -> None:
    text = WRITERS["table"](CATALOGUE).decode()

    assert "step time ↓" in text
    assert "123.457" in text
    assert text.endswith("\n")
    assert "* covers a part of the input" in text
    assert "`runs/a|b` unavailable: no_card (mfu)" in text


@pytest.mark.parametrize("name", WRITERS)
def test_no_name_of_a_directory_acts_on_a_terminal(name: str) -> None:
    hostile = Catalogue(METRICS, (Row("a\x1b[2Jb", problem="x\x07y"),))

    data = WRITERS[name](hostile)

    assert b"\x1b" not in data
    assert b"\x07" not in data


def test_every_category_of_the_registry_has_a_place() -> None:
    assert sorted({metric.category for metric in metrics().values()}) == sorted(CATEGORIES)
