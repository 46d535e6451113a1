"""Steps and dimensions of public traces: differences add up, and columns are those of metrics."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

from ccltui.metrics.compare.step_diff import Side, step_waterfall
from ccltui.metrics.findings.rank_time.step_parts import step_parts
from ccltui.metrics.findings.slow_steps import slow_steps, step_culprits
from ccltui.metrics.registry import find
from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import open_job

pytestmark = pytest.mark.shared

TORCHREC = "torchrec/trace/sst_long_a2a_optimizer"
NAMES = (TORCHREC, "torchrec/trace/sst_long_a2a_optimizer_2", "astra-sim/megatron-tp8")


@pytest.fixture(scope="module", params=NAMES)
def view(
    request: pytest.FixtureRequest, shared: Path, tmp_path_factory: pytest.TempPathFactory
) -> View:
    cache = tmp_path_factory.mktemp("steps")
    return View(open_job(shared / "traces" / request.param, cache_dir=cache, jobs=1))


def test_the_parts_of_any_two_sides_add_up(view: View) -> None:
    parts = step_parts(view)
    labels = parts.labels[:2]
    sides = [Side(label, step) for label in labels for step in parts.steps[:3]]
    sides += [Side(label) for label in labels]

    for one, other in permutations(sides, 2):
        found = step_waterfall(view, one, other)
        assert sum(change for _, change in found.changes_ns) == found.difference_ns
        if one.step is not None and other.step is not None:
            column, row = parts.labels.index(one.label), parts.steps.index(one.step)
            assert found.total_ns[0] == parts.length_ns[row, column]


def test_every_step_has_a_culprit_or_the_reason_why_not(view: View) -> None:
    parts, culprits = step_parts(view), step_culprits(view)

    for step in parts.steps:
        one = culprits.of(step)
        assert one.label in parts.labels or one.why
    for slow in slow_steps(view):
        assert slow.over_ns > 0
        assert culprits.of(slow.step).label == slow.label or slow.label is None


def test_dimensions_are_those_of_the_metrics_of_the_job(view: View) -> None:
    details = find("parallelism").run(view).details
    exposed = find("exposed_communication").run(view).details
    calls = find("traffic_distribution").run(view).details

    assert details["exposed_ms"] == pytest.approx(exposed["exposed_ms"])
    for row in details["dimensions"]:
        assert row["exposed_ms"] == pytest.approx(exposed["by_dim"][row["dim"]]["exposed_ms"])
        assert row["calls"] == calls["by_dim"][row["dim"]]["calls"]
    wait = find("wait_vs_transfer").run(view)
    if wait.value is not None:
        waited = sum(row["wait_ms"] or 0 for row in details["dimensions"])
        assert waited == pytest.approx(wait.details["wait_ms"])
