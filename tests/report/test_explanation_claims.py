"""Explanations of jobs: size, schema, and every number that of the metric that it names."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jsonschema")

from founded_claims import unfounded
from json_schemas import problems

import ccltui
from ccltui import cli
from ccltui.demo import Spec, write_job
from ccltui.demo.planted import random_spec, write_planted
from ccltui.report.explanation import BUDGET

CASES = (
    ("slow_worker", "clean"),
    ("heavy_stage", "clean"),
    ("slow_pair", "clean"),
    ("data_loading", "clean"),
    ("garbage_collection", "damaged"),
    (None, "null"),
)


def held(job: ccltui.Job) -> dict[str, Any]:
    data = job.explain().to_json()
    document: dict[str, Any] = json.loads(data)
    assert len(data) <= BUDGET
    assert problems("explanation", document) == []
    assert unfounded(document, job) == []
    assert document["left_out"] == 0
    assert document["actions"]
    return document


@pytest.mark.parametrize(("fault", "condition"), CASES)
def test_planted_jobs(tmp_path: Path, fault: Any, condition: Any) -> None:
    spec = random_spec(3, fault=fault, condition=condition, ranks=4)
    write_planted(tmp_path / "job", spec)
    job = ccltui.open(tmp_path / "job")

    document = held(job)

    assert document["ranks"] == len(job.ranks)
    assert len(document["claims"]) > 4
    culprit = document["culprit"]
    whole = job.metric("verdict").details["culprit"]
    assert (culprit is None) is (whole is None)
    assert culprit is None or culprit["ranks"] == whole["ranks"]
    if condition == "null":
        assert document["culprit"] is None
        assert document["verdict"] in ("random", "no_straggler", "inconclusive")


def test_commands_repeat_the_selection(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "a job"
    write_job(place, Spec(tp=2, steps=4, layers=2, gpus_per_node=2))
    part = ccltui.open(place).select(ranks=[0, 1, 4], steps=(11, 13))

    document = held(part)

    assert len(document["claims"]) > 4
    for claim in document["claims"][:2]:
        words = shlex.split(claim["command"])
        assert words[:2] == ["ccltui", str(place)]
        assert words[-2:] == ["--steps=11-13", "--ranks=0-1,4"]
        cli.run([*words[1:], "--format", "json"])
        (result,) = json.loads(capfd.readouterr().out)["results"]
        assert result["value"] == part.metric(claim["metric"]).value
    (recorded,) = [one for one in document["claims"] if one["metric"] == "coll_call_num"]
    assert recorded["value"] == 3
    assert recorded["text"] == "8 of 8 ranks are recorded. 3 of them are measured."
