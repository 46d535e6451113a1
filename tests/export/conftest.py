"""A job that is exported in each format."""

from __future__ import annotations

import pytest

from ccltui.demo import Spec, write_job
from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import open_job


@pytest.fixture(scope="session")
def view(tmp_path_factory: pytest.TempPathFactory) -> View:
    """Eight ranks on four hosts, in three dimensions, two steps."""
    directory = tmp_path_factory.mktemp("export") / "job"
    write_job(directory, Spec(tp=2, steps=2, layers=2, gpus_per_node=2))
    return View(open_job(directory))
