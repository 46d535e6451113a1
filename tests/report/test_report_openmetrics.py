"""OpenMetrics text, read back by the parser of the Prometheus project."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("prometheus_client")

from prometheus_client.openmetrics.parser import text_string_to_metric_families

from ccltui.metrics.result import Reason, Result
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.errors import TraceError
from ccltui.report import writers
from ccltui.report.json_document import Entry, Report, TraceSummary
from ccltui.report.openmetrics import MAX_ROWS, openmetrics


def entry(
    headline: str, details: dict[str, Any], unit: str = "ms", name: str = "lag", **more: Any
) -> Entry:
    value = details.get(headline)
    status = more.pop("status", "ok")
    return Entry(Result(name, unit, f"What {name} is.", status, value, details, **more), headline)


def families(*entries: Entry, detail: bool = True, path: str = "/run") -> dict[str, Any]:
    summary = TraceSummary(path, ranks=2, world_size=4)
    data = openmetrics(Report(summary, ViewOptions(), entries, detail=detail))
    return {one.name: one for one in text_string_to_metric_families(data.decode())}


def samples(family: Any) -> dict[tuple[tuple[str, str], ...], float]:
    return {tuple(sorted(one.labels.items())): one.value for one in family.samples}


@pytest.mark.parametrize(
    ("key", "unit", "value", "name", "base", "expected"),
    [
        ("mean_lag_us", "us", 250.0, "ccltui_lag_mean_lag_seconds", "seconds", 250e-6),
        ("lag_ms", "ms", 4.0, "ccltui_lag_seconds", "seconds", 0.004),
        ("busbw_GBps", "GB/s", 3.0, "ccltui_lag_busbw_bytes_per_second", "bytes_per_second", 3e9),
        ("lost_pct_of_step", "%", 12.5, "ccltui_lag_lost_of_step_ratio", "ratio", 0.125),
        ("idle_ratio", "ratio", 0.5, "ccltui_lag_idle_ratio", "ratio", 0.5),
        ("wait_share", "ratio", 0.25, "ccltui_lag_wait_share_ratio", "ratio", 0.25),
        ("total_bytes", "bytes", 7, "ccltui_lag_total_bytes", "bytes", 7.0),
        ("num_calls", "calls", 9, "ccltui_lag_num_calls", "", 9.0),
        ("peak_tflops", "TFLOPS", 2.0, "ccltui_lag_peak_flops", "flops", 2e12),
        ("drift_ppb", "ppb", 50.0, "ccltui_lag_drift_ratio", "ratio", 5e-8),
    ],
)
def test_numbers_have_base_units_and_the_definition(
    key: str, unit: str, value: float, name: str, base: str, expected: float
) -> None:
    found = families(entry(key, {key: value}, unit))[name]

    assert (found.type, found.unit, found.documentation) == ("gauge", base, "What lag is.")
    assert samples(found) == {(): pytest.approx(expected, rel=1e-12)}


def test_tables_become_labels_of_rank_group_and_step() -> None:
    details = {
        "lag_ms": 4.0,
        "calls_per_rank": {"0": 3, "1": 5},
        "per_rank": {"0": {"wait_us": 2.0, "cause": "compute"}, "1": {"wait_us": None}},
        "by_group": [
            {"group": "tp 0,1", "dim": "tp", "n": 2, "lag_us": 8.0},
            {"group": "dp 0,2", "dim": "dp", "n": 1, "lag_us": 9.0},
        ],
        "per_step": [{"step": 10, "lag_us": 1.0}, {"step": 11, "lag_us": 3.0}],
        "calls_per_step": {"0": {"10": 4}},
        "findings": [{"rank": "0"}],
    }

    found = families(entry("lag_ms", details))

    assert samples(found["ccltui_lag_calls_by_rank"]) == {(("rank", "0"),): 3, (("rank", "1"),): 5}
    assert samples(found["ccltui_lag_wait_by_rank_seconds"]) == {(("rank", "0"),): 2e-6}
    assert samples(found["ccltui_lag_by_group_seconds"]) == {
        (("dim", "tp"), ("group", "tp 0,1")): 8e-6,
        (("dim", "dp"), ("group", "dp 0,2")): 9e-6,
    }
    assert samples(found["ccltui_lag_by_step_seconds"]) == {
        (("step", "10"),): 1e-6,
        (("step", "11"),): 3e-6,
    }
    assert set(families(entry("lag_ms", details), detail=False)) == {
        "ccltui_trace",
        "ccltui_metric",
        "ccltui_lag_seconds",
    }


def test_what_is_unavailable_has_a_reason_and_no_sample() -> None:
    found = families(
        entry(
            "tpot_ms",
            {"tpot_ms": None},
            name="tpot",
            status="unavailable",
            reasons=(Reason("phase_mismatch", 'the card states "training"\nalone'),),
        ),
        entry("a_ms", {"a_ms": 1.0, "b_ms": None}, name="a", status="partial",
              reasons=(Reason("missing_ranks", "rank 3"),)),
    )  # fmt: skip

    status = {one.labels["metric"]: one.labels for one in found["ccltui_metric"].samples}
    assert status["tpot"]["status"] == "unavailable"
    assert status["tpot"]["reason"] == "phase_mismatch"
    assert status["tpot"]["message"].startswith('the card states "training"')
    assert status["a"]["status"] == "partial"
    assert {name for name in found if name not in {"ccltui_metric", "ccltui_trace"}} == {
        "ccltui_a_seconds"
    }


def test_large_tables_and_rows_without_a_name_are_counted_and_not_written() -> None:
    details = {
        "n": 1,
        "per_rank": {str(rank): {"wait_us": 1.0} for rank in range(MAX_ROWS + 1)},
        "by_group": [{"group": "a", "size": 1, "lag_us": 1.0}] * 2,
    }

    found = families(entry("n", details, "1"))

    assert samples(found["ccltui_rows_left_out"]) == {
        (("key", "per_rank"), ("metric", "lag")): MAX_ROWS + 1,
        (("key", "by_group"), ("metric", "lag")): 2,
    }
    assert "ccltui_lag_wait_by_rank_seconds" not in found


def test_two_keys_of_one_name_are_not_mixed_and_bare_fractions_are_not_counts() -> None:
    details = {"a_ms": 1.0, "a_us": 7.0, "per_rank": {"0": {"avg": 58.25, "n": 3}}}

    found = families(entry("a_ms", details))

    assert samples(found["ccltui_lag_a_seconds"]) == {(): 0.001}
    assert "ccltui_lag_avg_by_rank" not in found
    assert samples(found["ccltui_lag_n_by_rank"]) == {(("rank", "0"),): 3}


def test_hostile_names_are_escaped() -> None:
    details = {"x": 1, "by_group": [{"group": 'a"b\\c\n\x1b[31m', "n": 2}], "pa%th-é_ms": 2.0}

    found = families(entry("x", details, "1", name="läg metric"), path='/a "b"\n\\')

    assert found["ccltui_l_g_metric_x"].samples[0].value == 1
    (row,) = found["ccltui_l_g_metric_n_by_group"].samples
    assert row.labels["group"] == 'a"b\\c\\x0a\\x1b[31m'
    assert "ccltui_l_g_metric_pa_th_seconds" in found


def test_every_metric_of_a_job_is_written_and_equals_the_result(tmp_path: Path) -> None:
    import ccltui
    from ccltui.demo import Spec, write_job

    write_job(tmp_path / "job", Spec(tp=1, steps=3, layers=2, gpus_per_node=2, stragglers=()))
    job = ccltui.open(tmp_path / "job", cache_dir=tmp_path / "cache")
    from ccltui.metrics import registry

    results = job.metrics()
    found = families(
        *(Entry(result, registry.find(name).headline) for name, result in results.items())
    )

    status = {one.labels["metric"]: one.labels["status"] for one in found["ccltui_metric"].samples}
    assert status == {name: result.status for name, result in results.items()}
    seconds = samples(found["ccltui_iter_time_avg_iter_time_seconds"])[()]
    assert seconds * 1e3 == pytest.approx(results["iter_time"].value, rel=1e-14)
    assert samples(found["ccltui_gpu_busy_ratio"])[()] == results["gpu_busy"].value


def test_without_the_package_the_format_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writers, "find_spec", lambda _name: None)

    with pytest.raises(TraceError, match=r"install ccltui\[openmetrics\]"):
        writers.writer_named("openmetrics")
