"""Messages on standard error beside the numbers, each printed once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from shell import CCLTUI
from warm_shell import run


def test_the_capture_that_was_opened_by_default_is_named(tmp_path: Path) -> None:
    for iteration in (20, 40):
        marker = {
            "ph": "X",
            "cat": "user_annotation",
            "name": f"ProfilerStep#{iteration}",
            "pid": 1,
            "tid": 1,
            "ts": 1,
            "dur": 5,
        }
        folder = tmp_path / f"iteration_{iteration}"
        folder.mkdir()
        (folder / "rank0_trace.json").write_text(json.dumps({"traceEvents": [marker]}))
    arguments = (CCLTUI, tmp_path, "--metric", "iter_time", "--format", "json")

    silent, chosen = run(*arguments), run(*arguments, "--iteration", "20")

    assert silent.stderr.splitlines() == [
        "ccltui: opened iteration_40; --capture opens another of the captures: iteration_20"
    ]
    assert chosen.stderr == ""


def test_a_message_about_all_metrics_is_printed_once(one_rank: Path, tmp_path: Path) -> None:
    trace = shutil.copy(next(one_rank.iterdir()), tmp_path)
    shutil.copy(trace, tmp_path / "same.json.gz")

    done = run(CCLTUI, tmp_path, "--metric", "iter_time", "--metric", "coll_call_num")

    repeats = [line for line in done.stderr.splitlines() if "repeats another file" in line]
    assert repeats == ["ccltui: same.json.gz repeats another file and is counted once"]


def test_a_link_to_a_trace_is_meant_to_repeat_it(one_rank: Path, tmp_path: Path) -> None:
    trace = shutil.copy(next(one_rank.iterdir()), tmp_path)
    (tmp_path / "linked.json.gz").symlink_to(trace)

    done = run(CCLTUI, tmp_path, "--metric", "iter_time", "--format", "json")

    (result,) = json.loads(done.stdout)["results"]
    assert result["details"]["inputs"]["duplicates"] == ["linked.json.gz"]
    assert "repeats another file" not in done.stdout + done.stderr


def test_one_reason_of_several_metrics_is_printed_once(one_rank: Path) -> None:
    names = ("straggler_lag", "throughput_tokens", "iter_time")
    options = [word for name in names for word in ("--metric", name)]

    done = run(CCLTUI, one_rank, *options, "--steps", "900")

    (line,) = done.stderr.splitlines()
    assert line.startswith("ccltui: straggler_lag, throughput_tokens and iter_time are unavailable")
    assert "no step 900; steps here: " in line
