"""``ccltui diff`` and the metrics of runs as scripts and CI see them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from runs_by_hand import (
    BASELINE,
    CAPTURE_A,
    CAPTURE_B,
    COMMIT_A,
    document,
    pair,
    put_run,
    with_capture,
)
from shell import CCLTUI, MODULE
from warm_shell import run


def test_the_verdict_with_what_differs(tmp_path: Path) -> None:
    done = run(CCLTUI, "diff", *pair(tmp_path), "--runs-vary", "5")

    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[:2] == ["A  accum2_300", "B  bucket200_300"]
    assert lines[-1] == (
        "better, throughput +19.47 % (different commits: d8ca451 against ba03420; "
        "different DeepSpeed configurations: c84d643 against 5dc8962)"
    )
    (rate,) = [line for line in lines if line.startswith("throughput")]
    assert rate.split()[1:7] == [
        *("tokens/s", "29,971.23", "35,806.75"),
        *("+5,835.52", "+19.47", "better"),
    ]


def test_one_run_a_side_is_not_distinguishable_and_a_gate_is_judged(tmp_path: Path) -> None:
    gates = ("--fail-if", "throughput.delta_pct > 19", "--fail-if", "throughput.delta_pct < -3")

    done = run(CCLTUI, "diff", *pair(tmp_path), *gates)

    assert done.returncode == 4
    last = done.stdout.splitlines()[-1]
    assert last.startswith(
        "not distinguishable from noise between runs, throughput +19.47 % (one run a side, so the "
        "spread between runs is unknown"
    )
    assert "throughput.delta_pct > 19" in done.stderr
    assert "throughput.delta_pct < -3" not in done.stderr


def test_more_runs_of_a_side_give_a_verdict(tmp_path: Path) -> None:
    for name, rate in (("a1", 100.0), ("a2", 101.0), ("b1", 120.0), ("b2", 121.0)):
        put_run(tmp_path / name, document({**BASELINE, "tokens_per_sec_global": rate}, COMMIT_A))
    a1, a2, b1, b2 = (tmp_path / name for name in ("a1", "a2", "b1", "b2"))

    done = run(CCLTUI, "diff", a1, b1, "--also-a", a2, "--also-b", b2)

    assert done.returncode == 0
    assert done.stdout.splitlines()[:2] == [
        *("A  a1, a2 (2 repetitions)", "B  b1, b2 (2 repetitions)")
    ]
    assert done.stdout.splitlines()[-1].startswith("better, throughput +19.90 %")
    twice = run(CCLTUI, "diff", a1, b1, "--also-a", a1)
    assert (twice.returncode, twice.stdout) == (1, "")
    assert "this run is named twice for one side" in twice.stderr


def test_calls_are_shown_per_backward_and_not_as_they_were_counted(tmp_path: Path) -> None:
    a = with_capture(put_run(tmp_path / "a", document(BASELINE, COMMIT_A)), CAPTURE_A)
    b = with_capture(put_run(tmp_path / "b", document(BASELINE, COMMIT_A)), CAPTURE_B)

    done = run(CCLTUI, "diff", a, b)

    (row,) = [line for line in done.stdout.splitlines() if line.startswith("AllReduce per back")]
    assert row.split()[3:6] == ["calls", "3.00", "1.63"]
    assert "42,748" not in done.stdout
    assert "42748" not in done.stdout


def test_json_and_csv_are_exact_and_agree(tmp_path: Path) -> None:
    a, b = pair(tmp_path)

    found = json.loads(run(CCLTUI, "diff", a, b, "--format", "json").stdout)
    rows = list(csv.DictReader(io.StringIO(run(CCLTUI, "diff", a, b, "--format", "csv").stdout)))

    first = found["rows"][0]
    assert (found["schema_version"], found["verdict"]) == (1, "not distinguishable")
    assert found["why"].startswith("one run a side, so the spread between runs is unknown")
    assert (first["number"], first["a"], first["b"]) == (
        *("throughput", 29971.22824616126),
        35806.75274368032,
    )
    assert found["comparability"]["verdict"] == "comparable"
    assert found["comparability"]["stated"][0].startswith("different commits")
    assert [row["number"] for row in rows] == [row["number"] for row in found["rows"]]
    assert [row["verdict"] for row in rows] == [row["verdict"] for row in found["rows"]]
    assert float(rows[0]["delta_pct"]) == pytest.approx(first["delta_pct"], rel=1e-13)


def test_runs_that_cannot_be_compared_end_with_3(tmp_path: Path) -> None:
    a = put_run(tmp_path / "a", document(BASELINE, COMMIT_A))
    b = put_run(tmp_path / "b", document(BASELINE, COMMIT_A, seq_len=1024))
    target = tmp_path / "out.json"

    done = run(CCLTUI, "diff", a, b, "--format", "json", "-o", target)

    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "ccltui: not comparable (seq_len 512 against 1024)\n"
    assert json.loads(target.read_text())["why"] == "seq_len 512 against 1024"


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["a"], 2, "the following arguments are required: B"),
        (["a", "b", "--noise", "-1"], 2, "'-1' is not a percentage from 0"),
        (["a", "b", "-o", "/nowhere/x"], 2, "/nowhere/x: the folder /nowhere does not exist"),
        (["absent", "a"], 1, "absent: no such file or directory"),
        (
            ["a", "b"],
            1,
            "b: no traces, no run, no cluster benchmark and no text of nsys stats here",
        ),
    ],
)
def test_what_is_wrong_is_one_line(
    tmp_path: Path, arguments: list[str], status: int, message: str
) -> None:
    put_run(tmp_path / "a", document(BASELINE, COMMIT_A))
    (tmp_path / "b").mkdir()

    done = run(CCLTUI, "diff", *arguments, cwd=tmp_path)

    assert (done.returncode, done.stdout) == (status, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) <= 2


def test_a_wrong_command_line_does_not_even_import_numpy(tmp_path: Path) -> None:
    code = (
        "import sys; from ccltui.__main__ import main; main(); "
        "print('numpy' in sys.modules, file=sys.stderr)"
    )

    done = run([MODULE[0], "-c", code], "diff", "a", "--noise", "x", cwd=tmp_path)

    assert done.stderr.splitlines()[-1] == "False"


def test_metrics_of_runs_without_any_trace(tmp_path: Path) -> None:
    pair(tmp_path)

    done = run(
        CCLTUI,
        tmp_path,
        *("--metric", "run_throughput", "--metric", "run_step_time"),
        *("--set", "run=bucket200_300", "--format", "json"),
    )

    assert done.returncode == 0
    rate, steps = json.loads(done.stdout)["results"]
    assert (rate["value"], rate["status"]) == (35806.75274368032, "ok")
    assert (steps["status"], steps["reason"]) == ("partial", "sampled_steps")


def test_doctor_counts_what_is_in_doubt(tmp_path: Path) -> None:
    pair(tmp_path)
    put_run(tmp_path / "killed", None, complete=False)
    (tmp_path / "ibstat.txt").write_text(
        "CA 'mlx5_0'\n\tPort 1:\n\t\tState: Down\n\t\tPhysical state: Polling\n"
    )

    done = run(CCLTUI, "doctor", tmp_path, "--format", "json")

    checks = {check["check"]: check for check in json.loads(done.stdout)["checks"]}
    assert (done.returncode, done.stderr) == (0, "")
    assert checks["files"]["message"] == (
        "no trace; without one 2 training metrics files can be used"
    )
    assert (checks["runs"]["state"], checks["runs"]["message"]) == (
        "warning",
        "3 runs; incomplete: killed; with remarks: accum2_300 and bucket200_300",
    )
    assert checks["machines"]["message"] == "of 1 fact: 1 problem"


def test_doctor_names_every_file_of_a_run(tmp_path: Path) -> None:
    folder = put_run(tmp_path, document(BASELINE, COMMIT_A))
    with_capture(folder, CAPTURE_A)
    (folder / "nccl_topo.xml").write_text("<!DOCTYPE x []><system/>")

    done = run(CCLTUI, "doctor", folder, "--files-only", "--format", "json")

    kinds = {file["path"]: file["kind"] for file in json.loads(done.stdout)["files"]}
    assert kinds == {
        "RUN_COMPLETE.txt": "run_complete",
        "launcher_metadata.json": "launcher_metadata",
        "nccl_topo.xml": "nccl_topology",
        "profiles/nsys_stats_node-13.txt": "nsys_text",
        "train.log": "log",
        "training_metrics.json": "training_metrics",
    }
