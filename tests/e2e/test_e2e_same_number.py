"""One number wherever it leaves the tool: headless, explain, exports, Python and the server."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any, Final

import pytest
from founded_claims import at
from mcp_client import answers
from shell import CCL_METRICS, CCLTUI
from stated_numbers import Recording, check_all
from warm_shell import run

import ccltui
from ccltui.demo import Spec, write_job
from ccltui.demo.planted import random_spec, write_planted
from ccltui.demo.planted.job_spec import Family, FaultKind
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


PLANTED: Final = (
    *(("slow_worker", "dp", 1), ("heavy_stage", "pp", 2), ("alternating", "dp", 3)),
    *(("data_loading", "fsdp", 4), ("uneven_experts", "moe", 6), ("checkpoint", "pp", 7)),
    *(("occasional_worker", "tp", 8), ("slow_node", "fsdp", 9), ("random", "pp", 10)),
)
"""Fault, family and seed of generated jobs of less usual programs and recorders."""
GIVEN: Final = (
    *(f"recorded/{name}" for name in ("ddp_2", "deepspeed_2", "dp_pp_4", "fake_1024", "pp_4")),
    *("traces/aorta/misc", "traces/astra-sim/megatron-tp8", "traces/astra-sim/dlrm_et_plus"),
    *("traces/hta/cpu_only", "traces/hta/nccl_parser_config", "traces/hta/trace_filter"),
    *("traces/hta/critical_path/alexnet", "traces/kineto/samples/resnet50_num_workers_0"),
    *("traces/torchrec/log/resnet18", "traces/torchrec/trace/sst_long_a2a_optimizer"),
    *("traces/torchrec/trace/sst_long_a2a_optimizer_3", "traces/stragglers-st"),
    *("traces/tracelens/traces/b200", "nsys/ddp53/profiles", "nsys/oracle"),
    *("nsys/gpt2-deepspeed", "cases/base/input", "cases/gpu_clock_dead_one_rank/input"),
    *("cases/hg_dataloader_gap/input", "cases/kernels_lost_copies_kept/input"),
    *("cases/t10_rocprofv3_csv/input", "cases/t14_deepspeed_watchdog_two_attempts/input"),
)
"""Public recordings of every kind: ranks, one rank, CPU jobs, totals, logs, damaged files."""


@pytest.mark.parametrize("planted", PLANTED, ids=lambda one: one[0])
def test_places_agree_on_a_generated_job(
    planted: tuple[FaultKind, Family, int], tmp_path: Path, own_cache: Path
) -> None:
    fault, family, seed = planted
    write_planted(tmp_path / "job", random_spec(seed, fault=fault, family=family, varied=True))
    hold(Recording(tmp_path / "job", own_cache), least=250)


def test_places_agree_on_the_demo(tmp_path: Path, own_cache: Path) -> None:
    write_job(tmp_path / "job", Spec())
    one = Recording(tmp_path / "job", own_cache)
    hold(one, least=450)
    assert {"pipeline_bubble", "slow_worker"} <= {row["class"] for row in one.answer["findings"]}


@pytest.mark.shared
@pytest.mark.parametrize("name", GIVEN)
def test_places_agree_on_a_given_recording(shared: Path, own_cache: Path, name: str) -> None:
    if not (shared / name).exists():
        pytest.skip(f"{shared / name} is absent")
    hold(Recording(shared / name, own_cache), least=40)


def hold(one: Recording, least: int) -> None:
    """No two places of a recording contradict each other, and so many numbers were compared."""
    check_all(one)
    assert one.found == []
    assert one.compared >= least


def test_a_contradiction_is_found(tmp_path: Path, own_cache: Path) -> None:
    """A bar whose bubble is called transfer, and a cost that is no part of the step, are told."""
    write_job(tmp_path / "job", Spec())
    one = Recording(tmp_path / "job", own_cache)
    details = one.results["findings"].details
    details["shares"]["transfer"] += details["shares"].pop("bubble")
    details["findings"][0]["cost_ms"] *= 1.5
    check_all(one)

    told = "\n".join(one.found)
    assert "kinds: " in told
    assert "pipeline_bubble: " in told
    assert f"{details['findings'][0]['label']}: " in told
