"""Where reports go: files, pipes, closed descriptors, full disks, folders without access."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from shell import CCLTUI, MODULE, TIMEOUT_S
from warm_shell import run


@pytest.mark.parametrize("form", ["table", "json", "jsonl", "csv"])
def test_a_file_and_a_redirect_hold_the_same_bytes(job: Path, tmp_path: Path, form: str) -> None:
    target = tmp_path / "report"
    arguments = (job, "--metric", "iter_time", "--format", form)

    redirected = run(CCLTUI, *arguments)
    written = run(CCLTUI, *arguments, "-o", target)

    assert (redirected.returncode, written.returncode) == (0, 0)
    assert (written.stdout, written.stderr) == ("", "")
    assert target.read_text() == redirected.stdout != ""


def test_a_closed_pipe_is_quiet(job: Path) -> None:
    with subprocess.Popen(
        [*CCLTUI, str(job), "--metric", "all", "--format", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            process.stdout.close()
            assert process.stderr is not None
            talk = process.stderr.read()
            assert process.wait(TIMEOUT_S) == 141
        finally:
            process.kill()  # this block waits for it
    assert "Traceback" not in talk
    assert "BrokenPipe" not in talk


def test_closed_output_is_an_error_not_a_crash(job: Path) -> None:
    command = f'exec "{CCLTUI[0]}" "{job}" --metric iter_time >&-'
    done = run(["/bin/sh", "-c", command])
    assert done.returncode == 1
    assert "standard output is closed" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_is_one_line(job: Path, unbuffered: str) -> None:
    done = run(
        ["/bin/sh", "-c", f'exec "{CCLTUI[0]}" "{job}" --metric iter_time > /dev/full'],
        env={"PYTHONUNBUFFERED": unbuffered},
    )
    assert done.returncode == 1
    assert done.stderr == "ccltui: No space left on device\n"


def test_closed_standard_error_hides_nothing(job: Path) -> None:
    command = f'exec "{CCLTUI[0]}" "{job}" --metric iter_time --fail-if "iter_time > 0" 2>&-'
    done = run(["/bin/sh", "-c", command])
    assert done.returncode == 4
    assert "avg_iter_time_ms" in done.stdout


def test_it_runs_without_home(job: Path, tmp_path: Path) -> None:
    env = {"HOME": None, "XDG_CACHE_HOME": None, "CCLTUI_CACHE_DIR": None, "TMPDIR": str(tmp_path)}
    # A user without an entry in the password file has no home at all.
    code = (
        "import pathlib, sys; "
        "pathlib.Path.home = classmethod(lambda cls: (_ for _ in ()).throw(RuntimeError())); "
        "from ccltui.__main__ import main; sys.exit(main())"
    )
    done = run([MODULE[0], "-c", code], job, "--metric", "iter_time", env=env)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("jobs", [(), ("--jobs", "1")], ids=["default", "one worker"])
def test_a_cache_that_cannot_be_written_only_costs_time(
    job: Path, tmp_path: Path, jobs: tuple[str, ...]
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("a file where a folder should be")

    done = run(CCLTUI, job, "--metric=iter_time", "--cache-dir", blocked / "cache", *jobs)

    assert (done.returncode, done.stderr) == (0, "")
    assert "iter_time" in done.stdout


def test_no_cache_leaves_nothing(job: Path, tmp_path: Path) -> None:
    cache, scratch = tmp_path / "cache", tmp_path / "tmp"
    scratch.mkdir()
    env = {"CCLTUI_CACHE_DIR": str(cache), "TMPDIR": str(scratch)}

    done = run(CCLTUI, job, "--metric=iter_time", "--no-cache", env=env)

    assert done.returncode == 0, done.stderr
    assert not cache.exists()
    assert list(scratch.iterdir()) == []


def contents(directory: Path) -> list[tuple[str, int]]:
    return sorted((entry.name, entry.stat().st_mtime_ns) for entry in os.scandir(directory))


@pytest.mark.parametrize(
    "arguments",
    [
        ("{}", "--metric", "all"),
        ("doctor", "{}"),
        ("diff", "{}", "{}"),
        ("metrics-report", "{}", "--metric", "iter_time"),
        ("stats", "{}"),
        ("card", "lint", "{}"),
        ("card", "init", "{}"),
    ],
    ids=" ".join,
)
def test_the_trace_directory_is_not_written(job: Path, arguments: tuple[str, ...]) -> None:
    before = contents(job)

    run(CCLTUI, *(word.replace("{}", str(job)) for word in arguments))

    assert contents(job) == before


def test_analyse_writes_its_two_documents_beside_the_traces(job: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(job, copy)
    before = contents(copy)

    done = run(CCLTUI, "analyse", copy, "--metric", "iter_time")

    assert done.returncode == 0, done.stderr
    new = set(contents(copy)) - set(before)
    assert {name for name, _ in new} == {"metrics.json", "metrics.csv"}
    assert set(before) <= set(contents(copy))


def test_a_report_may_be_put_into_the_trace_directory(job: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    copy.mkdir()
    for entry in job.iterdir():
        (copy / entry.name).symlink_to(entry)
    arguments = (CCLTUI, copy, "--metric", "iter_time", "--format", "json")

    first = run(*arguments, "-o", copy / "metrics.json")
    again = run(*arguments)

    assert first.returncode == again.returncode == 0
    assert json.loads((copy / "metrics.json").read_text())["results"][0]["status"] == "ok"


@pytest.mark.skipif(not CCLTUI[0].isascii(), reason="Python itself fails there in this locale")
def test_output_does_not_depend_on_the_locale(job: Path) -> None:
    plain = run(CCLTUI, job, "--metric", "all", env={"LC_ALL": "C", "PYTHONUTF8": "0"})
    wide = run(CCLTUI, job, "--metric", "all", env={"LC_ALL": "C.UTF-8", "COLUMNS": "40"})
    assert plain.stdout == wide.stdout != ""
