"""Built-in metrics come from the catalog, those of other packages from entry points."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from factories import job, kernel, rank_trace

from ccltui.metrics import catalog, registry
from ccltui.metrics.catalog import BUILT_IN, SEED
from ccltui.metrics.metric import Metric
from ccltui.metrics.registry import (
    SEED_ORDER,
    Loaded,
    UnknownMetricError,
    find,
    load,
    metrics,
)
from ccltui.metrics.view.job_view import View
from ccltui.parsers.plug_ins import METRICS

PLUGIN = Path(__file__).parent / "plugin"
CATALOG = Path(catalog.__file__).parent


@pytest.fixture
def with_plugin(monkeypatch: pytest.MonkeyPatch) -> Loaded:
    """What is loaded once the example distribution is on the path, as if installed."""
    monkeypatch.syspath_prepend(str(PLUGIN))
    return load()


def test_every_metric_of_the_catalog_loads_in_its_order() -> None:
    assert list(metrics()) == [line.rpartition(".")[2] for line in BUILT_IN]
    assert list(metrics())[: len(SEED_ORDER)] == list(SEED_ORDER)
    assert registry.broken() == ()


def test_the_catalog_lists_every_file_once_and_after_the_seed_by_name() -> None:
    files = [path.relative_to(CATALOG) for path in CATALOG.glob("*/*.py")]
    lines = [".".join(path.with_suffix("").parts) for path in files if path.stem != "__init__"]
    others = [line.rpartition(".")[2] for line in BUILT_IN[len(SEED) :]]

    assert sorted(BUILT_IN) == sorted(lines)
    assert others == sorted(others)


def test_a_built_in_metric_is_found_without_the_others_and_without_entry_points() -> None:
    code = (
        "import sys; from ccltui.metrics.registry import find; find('nccl_transport'); "
        "print(sum(name.startswith('ccltui.metrics.catalog.') for name in sys.modules), "
        "'importlib.metadata' in sys.modules)"
    )
    found = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert found.stdout.split() == ["2", "False"]  # the folder and the file


def test_no_built_in_metric_is_an_entry_point() -> None:
    values = [entry.value for entry in entry_points(group=METRICS)]

    assert [value for value in values if value.startswith("ccltui.")] == []


@pytest.mark.parametrize("name", SEED_ORDER)
def test_every_metric_of_the_seed_has_its_alias(name: str) -> None:
    assert find(f"{name}_16") is find(name)


@pytest.mark.parametrize("metric", metrics().values(), ids=lambda metric: metric.name)
def test_every_metric_says_what_it_is(metric: Metric) -> None:
    assert metric.unit
    assert metric.needs
    assert metric.title
    assert metric.definition.endswith(".")
    assert metric.headline in metric.keys


@pytest.mark.parametrize("metric", metrics().values(), ids=lambda metric: metric.name)
def test_every_module_exports_metric_cal(metric: Metric) -> None:
    assert import_module(metric.compute.__module__).metric_cal == metric.document_of


def test_a_third_party_metric_loads_and_runs_like_ours(with_plugin: Loaded) -> None:
    assert list(with_plugin.metrics) == [*metrics(), "num_kernels"]

    metric = with_plugin.metrics["num_kernels"]
    result = metric.run(View(job(rank_trace(0, gpu=[kernel("gemm", 0, 1)], world_size=2))))

    assert (result.value, result.unit, result.status) == (1, "kernels", "partial")
    assert result.inputs["missing_ranks"] == [1]
    assert metric.run(View(job(rank_trace(0)))).status == "unavailable"


def test_broken_plugins_are_listed_and_not_fatal(with_plugin: Loaded) -> None:
    broken = {one.name: one.text for one in with_plugin.broken}

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


def test_an_unknown_name_lists_near_ones() -> None:
    with pytest.raises(UnknownMetricError) as caught:
        find("iter_tim")

    assert caught.value.near[0] == "iter_time"
    assert "did you mean iter_time" in str(caught.value)
    assert isinstance(caught.value, KeyError)

    with pytest.raises(UnknownMetricError, match=r"--list-metrics lists all"):
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
    assert 3 <= len(str(shown["label"])) <= 30
    assert metric.definition.endswith(".")
    assert "\n" not in metric.definition
    assert len(set(metric.keys)) == len(metric.keys)


def test_no_two_metrics_share_a_label() -> None:
    labels = [metric.title for metric in metrics().values()]

    assert sorted(set(labels)) == sorted(labels)
