"""``ccltui analyse`` as a batch job runs it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
from runs_by_hand import BASELINE, COMMIT_A, document, put_run
from shell import CCLTUI
from warm_shell import run


def copied(job: Path, directory: Path) -> Path:
    shutil.copytree(job, directory)
    return directory


def test_both_files_are_what_the_formats_print(job: Path, tmp_path: Path) -> None:
    directory = copied(job, tmp_path / "run")
    printed = {
        name: run(CCLTUI, directory, "--metric", "all", "--format", name).stdout
        for name in ("json", "csv")
    }

    done = run(CCLTUI, "analyse", directory)

    assert (done.returncode, done.stderr) == (0, "")
    assert (directory / "metrics.json").read_text() == printed["json"]
    assert (directory / "metrics.csv").read_text() == printed["csv"]
    header, row = (line.split() for line in done.stdout.splitlines())
    assert header == ["directory", "ranks", "ok", "partial", "unavailable", "written"]
    assert row[:2] == [str(directory), "4"]
    assert row[-1] == f"{directory}/metrics.json"
    statuses = [result["status"] for result in json.loads(printed["json"])["results"]]
    assert row[2:5] == [str(statuses.count(s)) for s in ("ok", "partial", "unavailable")]


def test_the_results_are_not_taken_for_traces_the_next_time(job: Path, tmp_path: Path) -> None:
    directory = copied(job, tmp_path / "run")
    first = run(CCLTUI, "analyse", directory, "--metric", "iter_time")
    before = (directory / "metrics.json").read_bytes()

    again = run(CCLTUI, "analyse", directory, "--metric", "iter_time")

    assert (first.returncode, again.returncode, again.stderr) == (0, 0, "")
    assert (directory / "metrics.json").read_bytes() == before


def test_one_directory_that_cannot_be_read_does_not_stop_the_others(
    job: Path, tmp_path: Path
) -> None:
    base = tmp_path / "out"

    done = run(
        CCLTUI, "analyse", tmp_path / "absent", job, "--metric", "iter_time", "--output-dir", base
    )

    assert done.returncode == 1
    assert done.stderr == f"ccltui: {tmp_path}/absent: no such file or directory\n"
    assert sorted(path.relative_to(base).as_posix() for path in base.rglob("*.*")) == [
        f"{job.name}/metrics.csv",
        f"{job.name}/metrics.json",
    ]
    assert not (job / "metrics.json").exists()


def test_files_of_others_are_left_alone(job: Path, tmp_path: Path) -> None:
    directory = copied(job, tmp_path / "run")
    (directory / "metrics.csv").write_text("mine,1\n")

    done = run(CCLTUI, "analyse", directory)

    assert (done.returncode, done.stdout) == (2, "")
    assert "metrics.csv is not by ccltui and is not overwritten" in done.stderr
    assert (directory / "metrics.csv").read_text() == "mine,1\n"
    assert not (directory / "metrics.json").exists()


def test_a_gate_fails_the_job_and_is_in_the_file(job: Path, tmp_path: Path) -> None:
    directory = copied(job, tmp_path / "run")

    done = run(CCLTUI, "analyse", directory, "--metric", "iter_time", "--fail-if", "iter_time > 0")

    assert done.returncode == 4
    assert done.stderr.startswith("ccltui: gate tripped: iter_time > 0")
    (gate,) = json.loads((directory / "metrics.json").read_text())["gates"]
    assert gate["tripped"] is True


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "the following arguments are required: DIR"),
        (["a/run", "b/run", "--output-dir", "out"], "2 directories would be written to "),
        (["a", "--metric", "nonsense"], "nonsense"),
    ],
)
def test_a_wrong_command_line_reads_nothing(arguments: list[str], words: str) -> None:
    done = run(CCLTUI, "analyse", *arguments)

    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


def test_a_single_file_needs_a_place(one_rank: Path) -> None:
    (trace,) = one_rank.iterdir()

    done = run(CCLTUI, "analyse", trace)

    assert done.returncode == 2
    assert "is a file: give its directory, or --output-dir" in done.stderr


def test_an_unwritable_place_is_reported_after_the_work(job: Path) -> None:
    done = run(CCLTUI, "analyse", job, "--metric", "iter_time", "--output-dir", "/proc/nowhere")

    assert done.returncode == 1
    assert done.stderr == "ccltui: /proc/nowhere: No such file or directory\n"
    assert done.stdout.splitlines()[1].split()[-1] == "nothing"


def test_a_place_that_is_a_file(job: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")

    done = run(CCLTUI, "analyse", job, "--metric", "iter_time", "--output-dir", tmp_path / "out")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"ccltui: {tmp_path}/out/{job.name}/metrics.json: Not a directory\n"


def test_a_run_without_traces_has_its_metrics_in_every_command(tmp_path: Path) -> None:
    put_run(tmp_path / "run", document(BASELINE, COMMIT_A))

    every = run(CCLTUI, "run", "--metric", "all", "--format", "json", cwd=tmp_path)
    named = run(CCLTUI, "run", "--metric", "run_throughput", "--metric", "iter_time", cwd=tmp_path)
    done = run(CCLTUI, "analyse", "run", cwd=tmp_path)

    statuses = {one["metric"]: one["status"] for one in json.loads(every.stdout)["results"]}
    assert (every.returncode, statuses["run_throughput"]) == (0, "ok")
    assert statuses["iter_time"] == "unavailable"
    assert (named.returncode, "run_throughput  tokens_per_s" in named.stdout) == (3, True)
    assert done.returncode == 0
    assert (tmp_path / "run" / "metrics.csv").is_file()


def test_conditions_of_each_directory_are_a_suite_for_ci(
    job: Path, one_rank: Path, tmp_path: Path
) -> None:
    report = tmp_path / "gates.xml"
    absent = tmp_path / "absent"

    done = run(
        CCLTUI,
        *("analyse", job, one_rank, absent, "--output-dir", tmp_path / "out", "--github"),
        *("--metric", "iter_time", "--fail-if", "iter_time > 0", "--junit", report),
    )

    assert done.returncode == 1  # a directory could not be read
    suites = list(ElementTree.parse(report).getroot())
    assert [suite.get("name") for suite in suites] == [
        f"ccltui analyse {path}" for path in (job, one_rank, absent)
    ]
    assert [[child.tag for child in case] for suite in suites for case in suite] == [
        ["failure"],
        ["failure"],
        ["error"],
    ]
    annotations = [line for line in done.stderr.splitlines() if line.startswith("::")]
    assert [line.partition(" ")[0] for line in annotations] == ["::error", "::error", "::warning"]
