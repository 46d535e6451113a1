"""``ccltui diff`` of traces: two jobs, parts of one, formats, and conditions for CI."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from xml.etree import ElementTree

import pytest
from shell import CCLTUI
from warm_shell import run


def test_two_jobs_as_json(job: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for file in job.iterdir():
        (other / file.name).write_bytes(file.read_bytes())

    done = run(CCLTUI, "diff", job, other, "--format", "json")

    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert (found["schema_version"], found["kind"]) == (1, "jobs")
    assert found["verdict"] == "not distinguishable"
    few = "n = 3 against 3 steps: an interval needs 4 a side"
    assert found["why"].startswith(f"{few}; one run a side, so the spread between runs is unknown")
    assert (found["is_unjudged"], found["runs_vary_pct"]) == (True, None)
    assert found["comparability"]["verdict"] == "comparable"
    assert found["step_time"]["delta_ms"] == 0
    assert {row["delta_ms"] for row in found["kernels"]} == {0}
    whole = math.fsum(row["a_ms"] for row in found["waterfall"])
    assert whole == pytest.approx(found["step_time"]["a_ms"])
    assert {row["dim"] for row in found["collectives"]} >= {"dp", "pp"}


def test_metrics_of_both_sides_are_those_of_each(job: Path) -> None:
    parts = ("--a", "ranks=0,1", "--b", "ranks=2,3")

    done = run(CCLTUI, "diff", job, *parts, "--metrics", "--format", "json")
    alone = run(CCLTUI, job, "--ranks", "2,3", "--metric", "iter_time", "--format", "json")
    text = run(CCLTUI, "diff", job, *parts, "--metrics")

    found = json.loads(done.stdout)
    rows = {row["name"]: row for row in found["metrics"]}
    value = json.loads(alone.stdout)["results"][0]["value"]
    assert rows["iter_time"]["b"] == pytest.approx(value)
    assert rows["iter_time"]["delta"] == pytest.approx(value - rows["iter_time"]["a"])
    assert all(row["a"] is not None or row["b"] is not None for row in rows.values())
    assert {row["dim"] for row in found["by_dimension"]} >= {"dp"}
    assert any(line.startswith("iter_time ") for line in text.stdout.splitlines())
    without = json.loads(run(CCLTUI, "diff", job, *parts, "--format", "json").stdout)
    assert without["metrics"] == []


def test_parts_of_one_job_in_every_format(job: Path) -> None:
    parts = ("--a", "ranks=0", "--b", "ranks=1")

    table, markdown, rows = (
        run(CCLTUI, "diff", job, *parts, "--format", form) for form in ("table", "md", "csv")
    )

    assert [done.returncode for done in (table, markdown, rows)] == [0, 0, 0]
    lines = table.stdout.splitlines()
    assert (lines[0], lines[1]) == ("A  small ranks=0", "B  small ranks=1")
    assert lines[2].startswith("not distinguishable: step time ")
    assert "## waterfall" in markdown.stdout
    sections = {row["section"] for row in csv.DictReader(io.StringIO(rows.stdout))}
    assert {"step", "kind", "part", "kernel", "operator", "collective"} <= sections


def test_conditions_for_ci(job: Path, tmp_path: Path) -> None:
    report = tmp_path / "gates.xml"
    holds, does_not, unknown = (
        *("step_time.delta_pct > -100", "parts.compute.delta_ms > 1e9"),
        "step_time.change_pct > 3",  # three steps: no interval
    )

    done = run(
        CCLTUI,
        *("diff", job, "--a", "steps=11", "--b", "steps=10-12", "--github"),
        *("--junit", report, "--fail-if", holds, "--fail-if", does_not, "--fail-if", unknown),
    )

    assert done.returncode == 4
    annotations = [line for line in done.stderr.splitlines() if line.startswith("::")]
    assert [line.partition("::")[2].partition(" ")[0] for line in annotations] == [
        "error",
        "warning",
    ]
    suite = ElementTree.parse(report).getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "1")
    assert [case.get("name") for case in suite] == [holds, does_not, unknown]
    assert [[child.tag for child in case] for case in suite] == [
        ["failure"],
        ["system-out"],
        ["error"],
    ]


def test_conditions_on_metrics_are_written_too(job: Path, tmp_path: Path) -> None:
    report = tmp_path / "gates.xml"

    done = run(CCLTUI, job, "--fail-if", "iter_time < 0", "--junit", report, "--format", "json")

    assert done.returncode == 0
    assert ElementTree.parse(report).getroot().get("failures") == "0"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "B, or --a and --b for parts of A"),
        (["--a", "rank=0"], "'rank=0': 'rank' is none of steps, ranks, window"),
        (["--a", "steps=x"], "steps"),
        (["--b", "steps"], "is not NAME=VALUE"),
    ],
)
def test_a_wrong_part_is_one_line(job: Path, arguments: list[str], message: str) -> None:
    done = run(CCLTUI, "diff", job, *arguments)

    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) <= 2


def test_two_paths_without_the_explorer_are_referred_to_diff(job: Path) -> None:
    metric = run(CCLTUI, job, job, "--metric", "iter_time")
    absent = run(CCLTUI, job, "absent")

    assert (metric.returncode, absent.returncode) == (2, 1)
    assert "ccltui diff A B" in metric.stderr
    assert "absent: no such file" in absent.stderr


def test_a_side_without_steps_states_why(job: Path) -> None:
    parts = ("--a", "steps=10-12", "--b", "steps=90-91")

    done = run(CCLTUI, "diff", job, *parts, "--fail-if", "step_time > 3")

    assert done.returncode == 3
    assert "no measured time (B: " in done.stdout.splitlines()[2]
    assert "no step 90-91; steps here: 10-12" in done.stdout.splitlines()[2]
    assert "change_pct is unknown: B: " in done.stderr
    assert "no step 90-91" in done.stderr


def test_conditions_name_the_parts_of_the_table(job: Path) -> None:
    table = run(CCLTUI, "diff", job, "--a", "ranks=0", "--b", "ranks=1").stdout
    (line,) = [one for one in table.splitlines() if one.startswith("idle: host between steps ")]
    condition = "parts.idle_host_between_steps.b_ms > -1"

    done = run(CCLTUI, "diff", job, "--a", "ranks=0", "--b", "ranks=1", "--fail-if", condition)

    assert done.returncode == 4
    assert float(line.split()[4]) == pytest.approx(
        float(done.stderr.split("(it is ")[1].split(")")[0]), abs=5e-4
    )


def test_sides_of_one_name_are_told_apart_by_their_folders(job: Path, tmp_path: Path) -> None:
    copies = [tmp_path / folder / "run" for folder in ("before", "after")]
    for one in copies:
        one.mkdir(parents=True)
        for file in job.iterdir():
            (one / file.name).symlink_to(file)

    done = run(CCLTUI, "diff", *copies)

    assert done.stdout.splitlines()[:2] == ["A  before/run", "B  after/run"]
