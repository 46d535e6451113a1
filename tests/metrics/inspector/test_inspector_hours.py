"""Hours of records: planted ranks and groups are found, and the sums are kept in the store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.inspector_logs import LogSpec, write_inspector_logs
from ccltui.metrics.inspector import inspector_job as inspector_jobs
from ccltui.metrics.inspector.inspector_job import inspector_job
from ccltui.metrics.inspector.roll_up import Instances, Windows
from ccltui.metrics.registry import find
from ccltui.metrics.view.job_view import View
from ccltui.parsers.inspector.record_columns import Records
from ccltui.parsers.job import start_job

SPEC = LogSpec(ranks=24, hours=0.3, late_rank=9, late_hours=(0.1, 0.2), slow_group=5)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hours")
    write_inspector_logs(folder, SPEC)
    return folder


@pytest.fixture
def stored(logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> View:
    """A view of the logs, of which every read goes to an empty store."""
    monkeypatch.setattr(inspector_jobs, "_IN_MEMORY_BYTES", 0)
    monkeypatch.setattr(inspector_jobs, "allowed_cpus", lambda: 1)
    inspector_jobs.rolled_job.cache_clear()
    return View(start_job(logs, store=tmp_path / "store"))


def test_the_planted_rank_and_its_hours(stored: View) -> None:
    found = find("duration_lag").run(stored)

    assert (found.status, found.details["late_ranks"]) == ("ok", ["9"])
    assert found.value == pytest.approx(3.0, rel=0.01)
    first = found.details["ranks"][0]
    assert first["late_windows"] == list(range(6, 12))  # minutes 6 to 12 of 18
    assert (first["host"], found.details["coverage"]) == ("node-001", 1)


def test_the_planted_group_and_what_it_loses(stored: View) -> None:
    found = find("inspector_busbw").run(stored)

    assert found.details["slow_groups"] == [["5", "13", "21"]] * 2  # two types of operations
    row = found.details["groups"][0]
    assert row["busbw_gbs"] == pytest.approx(row["peers_gbs"] / 3, rel=0.05)
    # 1,080 collectives of 15 ms, where others take 5
    assert row["lost_s"] == pytest.approx(10.8, rel=0.05)


def test_every_record_is_there(stored: View) -> None:
    assert inspector_job(stored).facts.num_records == SPEC.num_records
    assert find("inspector_coverage").run(stored).value == 1


def test_sums_that_are_stored_are_those_that_were_made(
    stored: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = inspector_job(stored)
    inspector_jobs.rolled_job.cache_clear()
    monkeypatch.setattr(inspector_jobs, "rolled_up", None)
    again = inspector_job(stored)

    assert again.facts == before.facts
    for name in ("count", "sum_us", "p50_us", "p95_us", "p99_us", "max_us"):
        assert again.lag(name).tolist() == before.lag(name).tolist()
    assert again.rate("busbw_gbs").tolist() == before.rate("busbw_gbs").tolist()


def test_damaged_columns_are_read_again_from_the_logs(stored: View, tmp_path: Path) -> None:
    before = inspector_job(stored)
    inspector_jobs.rolled_job.cache_clear()
    for columns in (tmp_path / "store").glob("*/columns.bin"):
        damaged = bytearray(columns.read_bytes())
        damaged[len(damaged) // 2 :] = bytes(len(damaged) - len(damaged) // 2)
        columns.write_bytes(damaged)

    assert inspector_job(stored).facts == before.facts


def loaded(number: list[int], exec_us: list[int], size: int = 8) -> Any:
    columns = np.array(number), np.full(len(number), size), np.array(exec_us), np.array(number)
    return lambda: Records(*columns)


@pytest.mark.parametrize("far", [6, 1 << 50])
def test_instances_with_gaps_are_matched_by_number(far: int) -> None:
    one, other = [1, 2, 4, 5, far], [2, 3, 4, 5, far]
    members = [loaded(one, [9, 10, 30, 50, 7]), loaded(other, [11, 5, 20, 55, 7])]
    found = Instances(members, [(1, far, 5), (2, far, 5)])

    assert (found.seen, len(found)) == (6, 4)
    assert found.longest_us.tolist() == [11, 30, 55, 7]
    assert found.shortest_us.tolist() == [10, 20, 50, 7]
    assert found.lag_us(0).tolist() == [1, 0, 5, 0]
    assert found.lag_us(1).tolist() == [0, 10, 0, 0]


def test_an_instance_of_two_sizes_is_not_matched() -> None:
    members = [loaded([1, 2], [5, 5]), loaded([1, 2], [5, 5], size=16)]

    assert len(Instances(members, [(1, 2, 2), (1, 2, 2)])) == 0


def test_values_by_window_are_those_of_numpy() -> None:
    rng = np.random.default_rng(3)
    window, values = rng.integers(0, 9, 500) * 7, rng.integers(0, 1000, 500)
    windows = Windows(window)
    ordered = windows.sorted(values)

    for place, number in enumerate(windows.number.tolist()):
        mine = values[window == number]
        assert windows.count[place] == len(mine)
        assert windows.total(ordered)[place] == mine.sum()
        assert windows.median(ordered)[place] == np.median(mine)
        rank = -(-95 * len(mine) // 100) - 1
        assert windows.quantile(ordered, 0.95)[place] == np.sort(mine)[rank]
    assert windows.sorted(values / 2).tolist() == (ordered / 2).tolist()
