"""Metrics enter by entry points, ours as those of others."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import pytest
from factories import job, kernel, rank_trace

from ccltui.metrics import registry
from ccltui.metrics.registry import (
    ENTRY_POINTS,
    Loaded,
    Metric,
    UnknownMetricError,
    find,
    load,
    metrics,
)
from ccltui.metrics.view.job_view import View

PLUGIN = Path(__file__).parent / "plugin"
SEED = [
    "coll_call_num",
    "throughput_tokens",
    "iter_time",
    "comm_comp_overlap",
    "pipeline_bubble",
    "traffic_distribution",
    "straggler_lag",
]


@pytest.fixture
def with_plugin(monkeypatch: pytest.MonkeyPatch) -> Loaded:
    """What is loaded once the example distribution is on the path, as if installed."""
    monkeypatch.syspath_prepend(str(PLUGIN))
    return load()


def test_the_seven_metrics_of_the_seed_in_its_order() -> None:
    assert list(metrics())[:7] == SEED
    assert registry.broken() == ()


def test_built_in_metrics_are_declared_as_entry_points() -> None:
    assert set(SEED) <= {entry.name for entry in entry_points(group=ENTRY_POINTS)}


@pytest.mark.parametrize("name", SEED)
def test_every_metric_has_its_alias_and_says_what_it_is(name: str) -> None:
    metric = find(name)

    assert find(f"{name}_16") is metric
    assert metric.unit
    assert metric.needs
    assert metric.title
    assert metric.definition.endswith(".")
    assert metric.headline in metric.keys


def test_every_module_exports_metric_cal() -> None:
    from importlib import import_module

    for name in SEED:
        assert callable(import_module(find(name).compute.__module__).metric_cal)


def test_a_third_party_metric_loads_and_runs_like_ours(with_plugin: Loaded) -> None:
    assert list(with_plugin.metrics) == [*metrics(), "num_kernels"]

    metric = with_plugin.metrics["num_kernels"]
    result = metric.run(View(job(rank_trace(0, gpu=[kernel("gemm", 0, 1)], world_size=2))))

    assert (result.value, result.unit, result.status) == (1, "kernels", "partial")
    assert result.inputs["missing_ranks"] == [1]
    assert metric.run(View(job(rank_trace(0)))).status == "unavailable"


def test_broken_plugins_are_listed_and_not_fatal(with_plugin: Loaded) -> None:
    broken = dict(with_plugin.broken)

    assert set(broken) == {
        "missing_module",
        "not_a_metric",
        "raises_on_import",
        "same_name_again",
        "without_headline",
    }
    assert "ModuleNotFoundError" in broken["missing_module"]
    assert "is a str, not a Metric" in broken["not_a_metric"]
    assert "RuntimeError: needs a licence" in broken["raises_on_import"]
    assert "'iter_time' is already taken" in broken["same_name_again"]
    assert "headline 'absent'" in broken["without_headline"]


def test_ours_come_first_whatever_the_order_of_entries() -> None:
    entries = [
        EntryPoint("zz", "ccltui.metrics.catalog.time.iter_time:METRIC", ENTRY_POINTS),
        EntryPoint(
            "coll_call_num",
            "ccltui.metrics.catalog.communication.coll_call_num:METRIC",
            ENTRY_POINTS,
        ),
    ]

    assert list(load(entries).metrics) == ["coll_call_num", "iter_time"]


def test_an_unknown_name_lists_near_ones() -> None:
    with pytest.raises(UnknownMetricError) as caught:
        find("iter_tim")

    assert caught.value.near[0] == "iter_time"
    assert "did you mean iter_time" in str(caught.value)
    assert isinstance(caught.value, KeyError)

    with pytest.raises(UnknownMetricError, match="there are coll_call_num"):
        find("zzz")


CATEGORIES = {
    "cluster",
    "communication",
    "experts",
    "inference",
    "kernels",
    "memory",
    "runs",
    "stragglers",
    "throughput",
    "time",
}


@pytest.mark.parametrize("metric", metrics().values(), ids=lambda metric: metric.name)
def test_every_metric_has_a_display_record_that_fits_a_table(metric: Metric) -> None:
    shown = metric.display

    assert set(shown) == {"label", "unit", "higher_is_better", "category"}
    assert shown["category"] in CATEGORIES
    assert 3 <= len(str(shown["label"])) <= 28
    assert metric.definition.endswith(".")
    assert "\n" not in metric.definition
    assert len(set(metric.keys)) == len(metric.keys)


def test_no_two_metrics_share_a_label() -> None:
    labels = [metric.title for metric in metrics().values()]

    assert sorted(set(labels)) == sorted(labels)
