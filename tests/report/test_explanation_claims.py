"""Explanations of jobs: size, schema, and every number that of the metric that it names."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
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


def without_the_end(folder: Path, rank: int, keep: Callable[[int], float]) -> None:
    """Drop what ends after the time that `keep` gives each rank, in us since the first event."""
    files = {n: folder / f"kineto_trace_{n}.json" for n in range(8)}
    traces = {n: json.loads(file.read_text()) for n, file in files.items()}
    first = min(one["ts"] for one in traces[rank]["traceEvents"] if one["ph"] == "X")
    for number, trace in traces.items():
        trace["traceEvents"] = [
            one
            for one in trace["traceEvents"]
            if one["ph"] == "M" or one["ts"] + one.get("dur", 0) <= first + keep(number)
        ]
        files[number].write_text(json.dumps(trace))


@pytest.mark.parametrize("rank", [2, 5])
def test_a_rank_that_stops_before_its_peers_is_pointed_at(tmp_path: Path, rank: int) -> None:
    write_job(tmp_path, Spec.quiet(tp=2, steps=4, layers=2, gpus_per_node=2, compress=False))
    (tmp_path / "workload_card.yaml").unlink()
    without_the_end(tmp_path, rank, lambda number: 70_000 if number == rank else 130_000)

    document = held(ccltui.open(tmp_path))

    (claim,) = [one for one in document["claims"] if one["metric"] == "collective_mismatches"]
    assert claim["value"] > 0
    assert claim["text"].endswith(f" Only rank {rank} is in all of these groups.")
    assert document["actions"][0].startswith(f"If the job hung, look first at rank {rank},")


def test_recordings_that_all_end_together_point_at_nobody(tmp_path: Path) -> None:
    write_job(tmp_path, Spec.quiet(tp=2, steps=4, layers=2, gpus_per_node=2, compress=False))
    without_the_end(tmp_path, 0, lambda _: 120_000)

    document = held(ccltui.open(tmp_path))

    assert not [one for one in document["actions"] if "hung" in one]
