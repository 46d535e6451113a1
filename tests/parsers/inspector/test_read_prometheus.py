"""Prometheus text of NCCL Inspector: recognised, read line by line, and told as one moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from ccltui.metrics.findings.recordings.answer import answer_of
from ccltui.metrics.view.job_view import View
from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.errors import TraceError
from ccltui.parsers.inspector import NCCL_INSPECTOR_PROM
from ccltui.parsers.inspector.read_prometheus import read_prometheus
from ccltui.parsers.job import open_job


def text(gpu: int, rate: float) -> str:
    labels = (
        f'version="v5.1",slurm_job_id="4",node="n1",gpu="GPU{gpu}",comm_name="dp",n_nodes="2",'
        'nranks="8",collective="AllReduce",message_size="64-65MB",algo_proto="RING_SIMPLE"'
    )
    rates = f"nccl_bus_bandwidth_gbs{{{labels}}} {rate}\n"
    return rates + f"nccl_collective_exec_time_microseconds{{{labels}}} 1050.5\n"


def test_every_field_of_a_value(tmp_path: Path) -> None:
    (tmp_path / "a.prom").write_text(text(2, 111.8))
    found = read_prometheus(tmp_path / "a.prom", shown="a.prom")
    first = found.gauges[0]

    assert (first.name, first.value) == ("nccl_bus_bandwidth_gbs", 111.8)
    assert (first.node, first.gpu, first.communicator) == ("n1", "GPU2", "dp")
    assert (first.operation, first.size, first.n_ranks) == ("AllReduce", "64-65MB", "8")
    assert (len(found.gauges), found.unread) == (2, 0)


def test_damaged_lines_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.prom").write_text(text(0, 1) + 'nccl_x{a="} 1\nnccl_x{} --\n\n# HELP\n')

    assert read_prometheus(tmp_path / "a.prom", shown="a.prom").unread == 2


def test_a_file_without_a_value_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.prom").write_text("nothing\n")
    with pytest.raises(TraceError, match="holds no value"):
        read_prometheus(tmp_path / "a.prom", shown="a.prom")


def test_the_answer_names_the_slowest_device(tmp_path: Path) -> None:
    for gpu, rate in enumerate((110, 50, 112)):
        (tmp_path / f"nccl_inspector_metrics_{gpu}.prom").write_text(text(gpu, rate))
    assert {file.format for file in discover(tmp_path).files} == {NCCL_INSPECTOR_PROM}
    finding = answer_of(View(open_job(tmp_path))).findings[0]

    assert finding.text == (
        "AllReduce of 64-65MB in dp reaches 110 GB/s of bus bandwidth and takes 1.05 ms (medians "
        "of devices; least 50 on GPU1 of n1) on 3 devices, at the last dump of NCCL Inspector."
    )
