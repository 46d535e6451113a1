"""``ccltui metrics-report`` as a benchmark's script uses it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from shell import CCLTUI
from warm_shell import run


def test_many_directories_in_parallel_give_the_numbers_of_each(job: Path, one_rank: Path) -> None:
    done = run(CCLTUI, "metrics-report", job, one_rank, job, "--format", "json", "--jobs", "2")

    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert [row["directory"] for row in document["rows"]] == [str(job), str(one_rank), str(job)]
    assert document["rows"][0]["results"] == document["rows"][2]["results"]
    alone = json.loads(run(CCLTUI, job, "--metric", "all", "--format", "json").stdout)
    found = {result["metric"]: result["value"] for result in alone["results"]}
    assert {
        name: outcome["value"] for name, outcome in document["rows"][0]["results"].items()
    } == found
    assert document["rows"][0]["facts"]["pp"] == 2
    assert document["rows"][1]["results"]["straggler_lag"]["reason"] == "single_rank"


def test_one_process_and_several_print_the_same_bytes(job: Path, one_rank: Path) -> None:
    arguments: list[str | Path] = ["metrics-report", job, one_rank, "--format", "csv"]

    assert run(CCLTUI, *arguments, "--jobs", "1").stdout == run(CCLTUI, *arguments).stdout


def test_a_table_of_chosen_metrics(job: Path, tmp_path: Path) -> None:
    out = tmp_path / "row.csv"
    arguments: list[str | Path] = ["--metric", "iter_time", "--metric", "idle_ratio"]
    arguments += ["--format", "csv", "-o", out]

    done = run(CCLTUI, "metrics-report", job, *arguments)

    assert (done.returncode, done.stdout) == (0, "")
    (row,) = csv.DictReader(io.StringIO(out.read_text()))
    assert [name for name in row if name and name.endswith("]")] == [
        "iter_time [ms]",
        "idle_ratio [ratio]",
    ]
    assert float(row["iter_time [ms]"]) > 0


def test_traffic_by_dimension_names_the_dimensions(job: Path) -> None:
    done = run(
        CCLTUI, "metrics-report", job, "--metric", "traffic_distribution", "--format", "json"
    )

    (row,) = json.loads(done.stdout)["rows"]
    parts = row["results"]["traffic_distribution"]["parts"]
    assert set(parts) == {"dp", "pp", "world"}
    assert sum(parts.values()) == pytest.approx(1)
    assert list(parts.values()) == sorted(parts.values(), reverse=True)


def test_a_directory_that_cannot_be_opened_leaves_the_others(job: Path, tmp_path: Path) -> None:
    absent = tmp_path / "absent"

    done = run(CCLTUI, "metrics-report", job, absent, "--metric", "iter_time", "--format", "json")

    assert done.returncode == 0
    assert "no such file or directory" in done.stderr
    assert [row["problem"] is None for row in json.loads(done.stdout)["rows"]] == [True, False]
    assert run(CCLTUI, "metrics-report", absent).returncode == 1


def test_errors_are_reported_before_anything_is_opened(job: Path) -> None:
    for arguments, text in (
        (["metrics-report"], "DIR"),
        (["metrics-report", job, "--metric", "nonsense"], "unknown metric"),
        (["metrics-report", job, "--set", "nonsense=1"], "no field"),
        (["metrics-report", job, "-o", "/nowhere/x"], "does not exist"),
    ):
        done = run(CCLTUI, *arguments)
        assert (done.returncode, text in done.stderr) == (2, True), done.stderr


def test_the_headless_way_imports_no_screen(job: Path) -> None:
    done = run(CCLTUI, "metrics-report", "--help")

    assert done.returncode == 0
    assert "--format" in done.stdout
