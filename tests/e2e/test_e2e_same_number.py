"""One number wherever it leaves the tool: headless, explain, exports, Python and the server."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from founded_claims import at
from mcp_client import answers
from shell import CCL_METRICS, CCLTUI
from warm_shell import run

import ccltui
from ccltui.report.result_rows import cell_text

METRICS = (
    *("straggler_lag", "iter_time", "temporal_breakdown", "exposed_communication", "verdict"),
    *("fix_first", "step_variability", "clock_offsets", "coll_call_num", "blame_chain"),
)
"""The metrics of the explanation, with times, shares, counts and nested details."""


@pytest.fixture(scope="module")
def results(job: Path) -> dict[str, dict[str, Any]]:
    """Results as the command prints them in JSON, which has numbers unrounded."""
    names = [word for name in METRICS for word in ("--metric", name)]
    done = run(CCLTUI, job, *names, "--format", "json")
    assert done.returncode == 0, done.stderr
    return {one["metric"]: one for one in json.loads(done.stdout)["results"]}


def test_the_numbers_are_there(results: dict[str, dict[str, Any]]) -> None:
    assert {name: one["status"] for name, one in results.items()} == dict.fromkeys(METRICS, "ok")
    assert all(isinstance(one["value"], int | float) for one in results.values())


def test_in_csv_table_and_ccl_metrics(job: Path, results: dict[str, dict[str, Any]]) -> None:
    names = [word for name in METRICS for word in ("--metric", name)]
    lines = run(CCLTUI, job, *names, "--format", "csv").stdout
    first = {row["metric"]: row for row in reversed(list(csv.DictReader(io.StringIO(lines))))}
    assert {name: row["value"] for name, row in first.items()} == {
        name: cell_text(one["value"]) for name, one in results.items()
    }
    table = run(CCLTUI, job, *names).stdout.splitlines()
    for name, one in results.items():
        (line,) = [line for line in table if line.split()[:2] == [name, first[name]["key"]]]
        assert line.split()[2] == cell_text(one["value"])
    printed = json.loads(run(CCL_METRICS, "--trace", job, *names).stdout)
    assert printed == {name: one["details"] for name, one in results.items()}


def test_in_the_explanation(job: Path, results: dict[str, dict[str, Any]]) -> None:
    explained = json.loads(run(CCLTUI, "explain", job, "--format", "json").stdout)
    held = 0
    evidence = [one for finding in explained["findings"] for one in finding["evidence"]]
    for claim in (*evidence, *explained["claims"]):
        one = results.get(claim["metric"])
        found = None if one is None else at(one["details"], claim["key"])
        if found is not None and not isinstance(found, dict):
            assert claim["value"] == found
            held += 1
    assert held >= 8
    assert explained["cost"]["loss_pct"] == results["verdict"]["value"]


def test_in_the_files_of_analyse_and_metrics_report(
    job: Path, results: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    run(CCLTUI, "analyse", job, "--output-dir", tmp_path)
    (file,) = tmp_path.rglob("metrics.json")
    analysed = {one["metric"]: one for one in json.loads(file.read_text())["results"]}
    report = json.loads(run(CCLTUI, "metrics-report", job, "--format", "json").stdout)
    outcomes = report["rows"][0]["results"]
    for name, one in results.items():
        assert analysed[name]["value"] == one["value"]
        assert analysed[name]["details"] == one["details"]
        assert outcomes[name]["value"] == one["value"]


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_in_exported_tables(
    job: Path, results: dict[str, dict[str, Any]], tmp_path: Path, kind: str
) -> None:
    out = tmp_path / "tables"
    done = run(CCLTUI, "export", job, "--to", kind, "--table", "metrics", "-o", out)
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]]
    if kind == "parquet":
        duckdb = pytest.importorskip("duckdb")
        found = duckdb.sql(f"select metric, key, value from '{out}/metrics.parquet'").fetchall()
        rows = [dict(zip(("metric", "key", "value"), row, strict=True)) for row in found]
    else:
        rows = list(csv.DictReader(io.StringIO((out / "metrics.csv").read_text())))
    numbers = {(row["metric"], row["key"]): row["value"] for row in rows}
    held = 0
    for name, one in results.items():
        for key, value in one["details"].items():
            number = numbers.get((name, key))
            if isinstance(value, int | float) and not isinstance(value, bool) and number:
                assert float(number) == value
                held += 1
    assert held > 2 * len(METRICS)


def test_in_python(job: Path, results: dict[str, dict[str, Any]]) -> None:
    opened = ccltui.open(job)
    for name, one in results.items():
        found = opened.metric(name)
        assert (found.value, found.unit, found.status) == (
            *(one["value"], one["unit"]),
            one["status"],
        )
        assert json.loads(json.dumps(found.to_document())) == one["details"]


def test_in_answers_of_the_server(job: Path, results: dict[str, dict[str, Any]]) -> None:
    calls = [("metric", {"path": str(job), "name": name}) for name in METRICS]
    for one, found in zip(results.values(), answers(job.parent, calls), strict=True):
        assert {name: found[name] for name in ("metric", "value", "unit", "status")} == {
            name: one[name] for name in ("metric", "value", "unit", "status")
        }
        for key, value, _ in found["rows"]:
            assert value == at(one["details"], key), key


def test_parts_are_within_their_whole(job: Path, results: dict[str, dict[str, Any]]) -> None:
    """A finding costs and saves less than a step, kinds of time add up, and texts agree."""
    names = ("--metric", "findings", "--metric", "step_composition", "--format", "json")
    found = {one["metric"]: one for one in json.loads(run(CCLTUI, job, *names).stdout)["results"]}
    rows = found["findings"]["details"]["findings"]
    explained = json.loads(run(CCLTUI, "explain", job, "--format", "json").stdout)
    text = run(CCLTUI, "explain", job).stdout
    step_ms = results["iter_time"]["details"]["avg_iter_time_ms"]
    assert [one["text"] for one in explained["findings"]] == [one["text"] for one in rows]
    for one in rows:
        assert one["text"] in text
        assert 0 <= one["share"] <= 1
        assert one["cost_ms"] is None or 0 <= one["cost_ms"] <= step_ms
        assert one["saves_ms"] is None or one["saves_ms"] <= one["cost_ms"]
    losses = results["fix_first"]["details"]
    assert sum(one["lost_ms"] for one in losses["losses"]) == pytest.approx(losses["lost_ms"])
    assert losses["lost_ms"] <= losses["window_ms"]
    shares = found["findings"]["details"]["shares"]
    assert sum(shares.values()) == pytest.approx(1)
