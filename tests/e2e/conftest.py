"""A small job on disk, written once."""

from __future__ import annotations

from pathlib import Path

import pytest

from ccltui.demo import Spec, write_job


@pytest.fixture(scope="session")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four ranks on two hosts, pipeline and data parallel, three steps."""
    directory = tmp_path_factory.mktemp("jobs") / "small"
    write_job(directory, Spec(tp=1, steps=3, layers=2, gpus_per_node=2, stragglers=()))
    return directory


@pytest.fixture(scope="session")
def one_rank(job: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rank 0 of the job alone, without a card."""
    directory = tmp_path_factory.mktemp("jobs") / "one"
    directory.mkdir()
    trace = next(job.glob("kineto_trace_0.json*"))
    (directory / trace.name).write_bytes(trace.read_bytes())
    return directory
