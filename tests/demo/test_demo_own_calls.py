"""Verdicts on jobs in which rank 0 makes calls of its own: it computes what the others do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ccltui.demo.planted.job_spec import Fault, JobSpec
from ccltui.demo.planted.planted_job import write_planted
from ccltui.metrics.registry import find
from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import open_job

SHAPES: dict[str, dict[str, Any]] = {
    "two ranks": {"family": "dp", "dp": 2},
    "one bucket": {"family": "dp", "dp": 4, "overlap": False},
    "tensor parallel": {"family": "tp", "dp": 2, "tp": 2},
    "sharded": {"family": "fsdp", "dp": 4},
    "names of kernels alone": {"family": "dp", "dp": 4, "level": "names"},
}


def view_of(directory: Path, spec: JobSpec) -> View:
    write_planted(directory / "job", spec)
    return View(open_job(directory / "job", cache_dir=directory / "store", jobs=1))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_slow_rank_0_with_calls_of_its_own_is_named(shape: str, tmp_path: Path) -> None:
    slow = Fault("slow_worker", (0,), 1.4)
    plain = JobSpec(faults=(slow,), **SHAPES[shape])
    expected = find("verdict").run(view_of(tmp_path / "plain", plain))
    for calls in (1, 3):
        with_calls = JobSpec(faults=(slow,), own_calls=calls, **SHAPES[shape])
        view = view_of(tmp_path / f"own{calls}", with_calls)
        found, saved = find("verdict").run(view), find("what_if_no_straggler").run(view)

        assert found.details["culprit"]["ranks"] == ["0"]
        for key in ("verdict", "confidence"):
            assert found.details[key] == expected.details[key]
        assert found.status == saved.status == "ok"
        assert found.details["saves_ms"] == pytest.approx(expected.details["saves_ms"], rel=0.06)
        assert saved.details["saved_ms"] == pytest.approx(found.details["saves_ms"], rel=0.06)


@pytest.mark.parametrize("shape", SHAPES)
def test_nobody_is_named_where_rank_0_only_makes_more_calls(shape: str, tmp_path: Path) -> None:
    found = find("verdict").run(view_of(tmp_path, JobSpec(own_calls=2, **SHAPES[shape])))

    assert found.details["verdict"] == "no_straggler"
    assert found.details["confidence"] in ("medium", "high")
    assert found.status == "ok"


def test_another_slow_rank_is_named_as_surely(tmp_path: Path) -> None:
    spec = JobSpec(own_calls=1, faults=(Fault("slow_worker", (3,), 1.4),))
    found = find("verdict").run(view_of(tmp_path, spec))

    assert found.details["culprit"]["ranks"] == ["3"]
    assert (found.details["confidence"], found.status) == ("high", "ok")
