"""``ccltui export``: files for other tools."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from shell import CCLTUI
from warm_shell import run

from ccltui.demo import Spec, write_job

EXPORT = (*CCLTUI, "export")


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("export") / "run"
    write_job(directory, Spec(tp=2, steps=2, layers=2, gpus_per_node=2))
    return directory


def test_default_names_are_new_files_of_the_working_directory(job: Path, tmp_path: Path) -> None:
    for kind in ("perfetto", "perfetto-manifest", "csv"):
        done = run(EXPORT, job, "--to", kind, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, "")
        assert done.stderr.startswith("ccltui: wrote ")

    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["perfetto_manifest.json", "run-csv", "run.pftrace.gz"]
    assert gzip.decompress((tmp_path / "run.pftrace.gz").read_bytes())[:1] == b"\n"
    assert "perfetto_manifest" in json.loads((tmp_path / "perfetto_manifest.json").read_text())
    assert {path.name for path in (tmp_path / "run-csv").iterdir()} == {
        "events.csv",
        "collectives.csv",
        "steps.csv",
        "metrics.csv",
    }


def test_an_existing_file_stays_as_it_is(job: Path, tmp_path: Path) -> None:
    target = tmp_path / "mine.pftrace"
    target.write_text("mine")

    done = run(EXPORT, job, "--to", "perfetto", "-o", target)

    assert done.returncode == 1
    assert "File exists" in done.stderr
    assert target.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [target]


def test_one_table_of_some_ranks(job: Path, tmp_path: Path) -> None:
    arguments = ("--to", "csv", "--table", "steps", "--ranks", "1", "-o", tmp_path / "out")

    done = run(EXPORT, job, *arguments)

    assert done.returncode == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["steps.csv"]
    header, *rows = (tmp_path / "out" / "steps.csv").read_text().splitlines()
    assert header == "rank,step,start_ns,dur_ns"
    assert [row.split(",")[0] for row in rows] == ["1", "1"]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("--to", "excel"), 2, "invalid choice"),
        ((), 2, "--to"),
        (("--to", "csv", "--ranks", "77"), 3, "none of the ranks 77 is recorded"),
    ],
)
def test_a_wrong_command_line_is_one_line(
    arguments: tuple[str, ...], status: int, message: str, job: Path, tmp_path: Path
) -> None:
    done = run(EXPORT, job, *arguments, cwd=tmp_path)

    assert (done.returncode, done.stdout) == (status, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_directory_without_traces_is_named(tmp_path: Path) -> None:
    done = run(EXPORT, tmp_path, "--to", "csv", cwd=tmp_path)

    assert done.returncode == 1
    assert "no Kineto trace in" in done.stderr
