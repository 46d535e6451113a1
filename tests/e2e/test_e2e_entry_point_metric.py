"""Metrics that other distributions add through entry points."""

from __future__ import annotations

import json
from pathlib import Path

from shell import CCLTUI, environment
from warm_shell import run


def test_a_third_party_metric_is_listed_and_runs(job: Path, tmp_path: Path) -> None:
    (tmp_path / "fleet_metric.py").write_text(
        "from ccltui.metrics.metric import Metric\n"
        "from ccltui.metrics.result import Result\n"
        "def compute(view):\n"
        "    n = len(view.job.ranks)\n"
        "    return Result('fleet', 'ranks', 'Ranks.', 'ok', n, {'fleet_ranks': n})\n"
        "METRIC = Metric('fleet', 'ranks', 'Ranks.', ('a job',), ('fleet_ranks',), 'fleet_ranks',"
        " compute)\n"
    )
    facts = tmp_path / "fleet-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: fleet\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(
        "[ccltui.metrics]\nfleet = fleet_metric:METRIC\nbroken = no_such_module:METRIC\n"
    )
    env = environment({"PYTHONPATH": str(tmp_path)})

    listed = run(CCLTUI, "--list-metrics", env=env)
    computed = run(CCLTUI, job, "--metric", "fleet", "--fail-if", "fleet == 4", env=env)

    assert "fleet " in listed.stdout
    assert listed.stderr.startswith(
        "ccltui: metric plug-in broken of fleet 1.0 is skipped: no_such_module"
    )
    assert computed.returncode == 4
    assert "fleet_ranks      4  ranks  ok" in computed.stdout


BOOM = """
from ccltui.metrics.metric import Metric

def compute(view):
    raise ArithmeticError("1 / 0 in\\nthe metric")

METRIC = Metric("boom", "1", "Boom.", (), ("boom",), "boom", compute)
"""


def test_a_metric_that_fails_inside_is_1_and_one_line(job: Path, tmp_path: Path) -> None:
    (tmp_path / "boom_metric.py").write_text(BOOM)
    facts = tmp_path / "boom-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: boom\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[ccltui.metrics]\nboom = boom_metric:METRIC\n")
    arguments = (CCLTUI, job, "--metric", "boom", "--metric", "iter_time", "--format", "json")

    quiet = run(*arguments, env={"PYTHONPATH": str(tmp_path)})
    loud = run(*arguments, "--debug", env={"PYTHONPATH": str(tmp_path)})

    assert quiet.returncode == loud.returncode == 1
    boom, steps = json.loads(quiet.stdout)["results"]
    assert (boom["status"], boom["reason"]) == ("unavailable", "internal_error")
    assert steps["status"] == "ok"
    assert quiet.stderr == (
        "ccltui: boom is unavailable: the metric plug-in boom of boom 1.0 failed: "
        "ArithmeticError: 1 / 0 in the metric\n"
    )
    assert "Traceback" in loud.stderr
    assert "boom_metric.py" in loud.stderr
