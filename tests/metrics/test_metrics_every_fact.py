"""Which facts of a job each metric has computed: those that it declares, with what they need.

Every metric is asked alone, each time of a new view: first of all jobs of `full_jobs`, then of a
job whose files name no communicators, of one with a slow step, and of one whose devices copy to
each other.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest
from factories import job
from full_jobs import JOBS, RANKS, trained, view_of
from msgspec.structs import replace
from nameless_jobs import NODE, nameless_job
from planted_jobs import Planted, planted_job

from ccltui.demo.planted import Fault, JobSpec, write_planted
from ccltui.metrics import facts
from ccltui.metrics.catalog.throughput import run_compare
from ccltui.metrics.facts import FACTS, recorded, with_needs
from ccltui.metrics.metric import Metric
from ccltui.metrics.registry import find, metrics
from ccltui.metrics.view.collective_selection import MATERIALITY
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.job import Job, open_job

EVERY_RESULT = {"steps"}
"""Every result states the measured steps."""
MAY_NOT_RUN = {"inferred_groups"}
"""Needed only where no file names a communicator."""


@pytest.fixture(scope="module")
def views(tmp_path_factory: pytest.TempPathFactory) -> tuple[View, ...]:
    """Jobs that together have a metric compute all that it ever asks for."""
    slow = Planted(dp=2, pp=2, steps=8, pauses_us={(1, 4): 30_000.0}, host_rows=True)
    copying = copying_job(tmp_path_factory.mktemp("copying"))
    more = (nameless_job(2 * NODE, 84), planted_job(slow), copying)
    return (*(view_of(name) for name in JOBS), *(View(one) for one in more))


def copying_job(folder: Path) -> Job:
    """A job with one late host whose devices meet in copies that no collective records."""
    late = Fault("data_loading", (2,), extra_ns=7_000_000, silent=True)
    program = JobSpec(family="fsdp", dp=4, steps=6, transfer_ns=300_000, seed=3)
    spec = replace(program, faults=(late,), gather="copy_engine", level="names")
    write_planted(folder / "job", spec)
    return open_job(folder / "job", cache_dir=folder / "store", jobs=1)


@pytest.fixture(autouse=True)
def _other_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(path: str | Path, **_: Any) -> Job:
        return job(*(trained(rank, float(Path(path).name)) for rank in range(RANKS)), card=None)

    monkeypatch.setattr(run_compare, "open_job", opened)


@pytest.mark.parametrize("metric", metrics().values(), ids=lambda metric: metric.name)
def test_a_metric_has_computed_what_it_declares(metric: Metric, views: tuple[View, ...]) -> None:
    found: set[str] = set()
    for view in views:
        with recorded() as record:
            metric.run(View(view.job, view.options))
        found |= record.facts

    declared = with_needs(metric.facts)
    assert found - EVERY_RESULT <= declared, "declare these, or do not ask for them"
    assert declared - EVERY_RESULT - MAY_NOT_RUN <= found, "these are never computed"


def test_cheap_questions_match_nothing() -> None:
    for name in ("coll_call_num", "iter_time", "idle_ratio", "kernels", "traffic_distribution"):
        assert not with_needs(find(name).facts) & {"named_calls", "matches", "clocks"}, name
    for name in ("collective_volume", "hockney", "link_utilization", "node_locality"):
        assert "clocks" not in with_needs(find(name).facts), name


@pytest.mark.parametrize("least_pct", [0.001, 20, 99])
@pytest.mark.parametrize("slow", [{}, {1: 1.5}], ids=["even", "slow"])
def test_causes_are_searched_only_where_a_rank_may_be_named(
    slow: dict[int, float], least_pct: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ViewOptions(overrides={MATERIALITY: least_pct})
    made = planted_job(Planted(slow_ranks=slow))
    with recorded() as record:
        found = find("straggler_lag").run(View(made, options))
    of_module = sys.modules["ccltui.metrics.catalog.stragglers.straggler_lag"]
    monkeypatch.setattr(of_module, "may_name_a_rank", lambda _: True)

    assert ("roots" in record.facts) is (least_pct < (99 if slow else 1))
    assert find("straggler_lag").run(View(made, options)) == found


def test_each_fact_is_after_those_that_it_needs() -> None:
    names = list(FACTS)
    for name, one in FACTS.items():
        assert all(names.index(need) < names.index(name) for need in one.needs), name


def test_each_fact_is_one_that_a_metric_needs() -> None:
    assert with_needs(name for metric in metrics().values() for name in metric.facts) == set(FACTS)


def test_a_time_is_without_that_of_what_is_computed_inside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0]
    monkeypatch.setattr(time, "process_time_ns", lambda: now[0])
    monkeypatch.setattr(time, "perf_counter_ns", lambda: 10 * now[0])

    @facts.fact("steps")
    def inner() -> None:
        now[0] += 5

    @facts.fact("calls")
    def outer() -> None:
        now[0] += 3
        inner()
        inner()

    outer()  # not recorded
    now[0] = 0
    with recorded() as record:
        now[0] += 100
        with facts.of_metric("one"):
            now[0] += 20
            outer()

    costs = {key: (cost.cpu_ns, cost.wall_ns) for key, cost in record.costs.items()}
    assert costs == {
        ("one", "steps"): (10, 100),
        ("one", "calls"): (3, 30),
        ("one", ""): (20, 200),
        ("", ""): (100, 1000),
    }


def test_a_fact_is_a_cost_of_the_first_metric_that_asks_for_it() -> None:
    view = View(view_of("training").job)
    with recorded() as record:
        find("busbw").run(view)
        find("straggler_lag").run(view)

    assert {metric for metric, name in record.costs if name == "matches"} == {"busbw"}
