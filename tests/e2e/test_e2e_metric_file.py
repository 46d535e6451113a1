"""``--metric-file``: functions in files beside our metrics, in every command and the explorer."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from shell import CCL_METRICS, CCLTUI, TIMEOUT_S, environment
from terminal import session
from warm_shell import run

MINE = """
def metric_cal(directory, profile_mode="auto"):
    return {"mean_age_ms": 12.5, "mode": profile_mode}
"""
SLOW = """
def metric_cal(directory, profile_mode="auto"):
    import pathlib, time
    pathlib.Path(__file__).with_suffix(".ran").touch()
    time.sleep(1000)
"""
WRONG = """
def metric_cal(directory, profile_mode="auto"):
    return {}["absent"]
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mean_age.py"
    path.write_text(MINE)
    return path


def test_every_report_shows_it_beside_ours(job: Path, mine: Path, tmp_path: Path) -> None:
    named = ("--metric-file", mine, "--metric", "mean_age", "--metric", "iter_time")

    table = run(CCLTUI, job, *named)
    document = run(CCLTUI, job, *named, "--format", "json", "--profile-mode", "torch")
    report = run(CCLTUI, "metrics-report", job, job, *named, "--format", "csv", "--jobs", "2")
    written = run(CCLTUI, "analyse", job, *named, "--output-dir", tmp_path / "out")
    gated = run(CCLTUI, job, "--metric-file", mine, "--fail-if", "mean_age.mean_age_ms > 12")
    listed = run(CCLTUI, "--list-metrics", "--metric-file", mine)

    assert "mean_age   value             " in table.stdout
    assert "avg_iter_time_ms" in table.stdout
    result, ours = json.loads(document.stdout)["results"]
    assert (result["value"], result["unit"], result["status"]) == (12.5, "ms", "ok")
    assert result["details"]["mode"] == "torch"
    assert ours["metric"] == "iter_time"
    header, first, second = report.stdout.splitlines()[:3]
    at = header.split(",").index("mean_age [as returned]")
    assert first.split(",")[at] == second.split(",")[at] == "12.5"
    (document_of_job,) = (tmp_path / "out").glob("*/metrics.json")
    assert json.loads(document_of_job.read_text())["results"][0]["value"] == 12.5
    assert "\nmean_age [as returned]\n" in listed.stdout
    assert [done.returncode for done in (table, document, report, written, gated, listed)] == [
        *([0] * 4),
        4,
        0,
    ]


def test_ccl_metrics_prints_the_metric_of_the_file(job: Path, mine: Path) -> None:
    done = run(CCL_METRICS, "--trace", job, "--metric-file", mine)

    document = json.loads(done.stdout)
    assert (document["metric"], document["value"], document["mode"]) == ("mean_age", 12.5, "auto")


def test_an_isolated_python_ignores_planted_modules_for_functions_too(
    job: Path, mine: Path, tmp_path: Path
) -> None:
    planted = tmp_path / "planted"
    planted.mkdir()
    (planted / "json.py").write_text("raise SystemExit('imported')\n")
    command = (sys.executable, "-I", "-m", "ccltui")

    done = run(
        *(command, job, "--metric-file", mine, "--metric", "mean_age"),
        cwd=planted,
        env={"PYTHONPATH": str(planted)},
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "12.5" in done.stdout


def test_what_it_raises_is_one_line_and_the_others_are_printed(job: Path, tmp_path: Path) -> None:
    path = tmp_path / "wrong.py"
    path.write_text(WRONG)
    arguments = (job, "--metric-file", path, "--metric", "wrong", "--metric", "iter_time")

    quiet = run(CCLTUI, *arguments)
    loud = run(CCLTUI, *arguments, "--debug")

    line = "ccltui: wrong is unavailable: wrong.py: KeyError: 'absent' (line 3 of wrong.py)\n"
    assert (quiet.returncode, quiet.stderr) == (3, line)
    assert "avg_iter_time_ms" in quiet.stdout
    assert "Traceback" in loud.stderr


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("absent.py", None, "absent.py: no such file"),
        ("a.py", "x = 1\n", "a.py: it defines no function metric_cal"),
    ],
)
def test_a_path_without_a_function_is_2(
    job: Path, tmp_path: Path, name: str, content: str | None, message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)

    done = run(CCLTUI, job, "--metric-file", tmp_path / name, "--metric", "iter_time")

    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_ctrl_c_stops_it(job: Path, tmp_path: Path) -> None:
    path = tmp_path / "slow.py"
    path.write_text(SLOW)
    command = [*CCLTUI, str(job), "--metric-file", str(path), "--metric", "slow"]
    with subprocess.Popen(
        command, env=environment({}), stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            while not path.with_suffix(".ran").exists():
                assert process.poll() is None
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=TIMEOUT_S)
        finally:
            process.kill()  # it would wait for the function, and this block for it

    assert process.returncode == 130
    assert said == "ccltui: interrupted\n"


def test_the_explorer_lists_it(job: Path, mine: Path, tmp_path: Path) -> None:
    sleeper = tmp_path / "sleeper.py"
    sleeper.write_text(SLOW)
    arguments = (job, "--metric-file", mine, "--metric-file", sleeper, "--metric-timeout", "3")
    with session(*CCLTUI, *arguments, "--no-cache", "--ascii") as explorer:
        explorer.wait_for("What costs time")
        explorer.press("M")
        explorer.wait_for("step time")
        # Filters: other metrics change their groups as ranks are read, and the cursor goes along.
        explorer.press("/mean_age\r")
        explorer.wait_for("12.5")
        explorer.press("/\x15sleeper\r")
        explorer.wait_for("absent: sleeper.py: ran longer than 3 s")
        explorer.press("q")

        assert explorer.finish() == 0
