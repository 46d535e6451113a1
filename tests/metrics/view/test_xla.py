"""TPU profiles: metrics that apply, and reasons of the others."""

from __future__ import annotations

from pathlib import Path

import pytest
from xla_traces import device, written

from ccltui.metrics.registry import metrics
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.job import open_job


@pytest.fixture
def view(tmp_path: Path) -> View:
    written(tmp_path / "t.json", device(0), device(1, late=5))
    overrides = {"batch_size": 8, "batch_size_scope": "global", "seq_len": 100}
    return View(open_job(tmp_path, cache_dir=tmp_path, jobs=1), ViewOptions(overrides=overrides))


def test_metrics_that_apply(view: View) -> None:
    found = {name: metric.run(view) for name, metric in metrics().items()}

    assert found["iter_time"].value == 0.1
    assert found["iter_time"].basis["step_marker"] == "XLA step"
    assert found["throughput_tokens"].value == pytest.approx(800 / 100e-6)
    overlap = found["comm_comp_overlap"].details
    assert (overlap["comm_time_ms"], overlap["comp_time_ms"]) == (0.06, 0.14)
    assert overlap["overlap_ratio_of_comm"] == pytest.approx(40 / 60)
    assert found["coll_call_num"].details["calls_by_type"]["AllReduce"] == 4
    assert found["idle_ratio"].value is not None
    assert found["exposed_communication"].value == pytest.approx(0.02)


def test_metrics_that_do_not_apply_have_a_reason(view: View) -> None:
    refused = {
        name: result.reason
        for name, metric in metrics().items()
        if (result := metric.run(view)).value is None
    }

    assert "internal_error" not in refused.values()
    assert refused["collective_volume"] == "no_message_size"
    assert refused["launch_bound"] is not None
    assert refused["ttft"] == "no_side_file"
    assert refused["mfu"] == "no_card"


def test_the_card_names_the_device(view: View) -> None:
    stated = {
        **view.options.overrides,
        **{"num_params": 1000, "num_params_embedding": 0, "num_layers": 1, "num_heads": 1},
        **{"head_dim": 1, "gpu_model": "tpu_v6e", "precision": "bf16", "total_count": 2},
    }

    details = metrics()["mfu"].run(view.with_options(overrides=stated)).details

    assert details["peak_tflops_per_gpu"] == 918.0
    flops = 6 * 1000 + 12 * 100
    assert details["mfu_pct"] == pytest.approx(100 * flops * 8e6 / (918e12 * 2))


def test_profile_mode_torch_refuses_a_tpu_profile(view: View) -> None:
    torch = view.with_options(profile_mode="torch")

    assert metrics()["iter_time"].run(torch).reason == "mode_mismatch"
