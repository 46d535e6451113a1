"""Columns of public traces are read from their files once in a run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def columns_of_traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that all tests of the folder share, those of other workers too."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    columns = folder / "columns_of_traces"
    columns.mkdir(exist_ok=True)
    return columns


@pytest.fixture(autouse=True)
def common_cache(own_cache: Path, columns_of_traces: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests of metrics and of what they say find the columns that another has read.

    Tests of the readers call these directly, and readers use no cache.
    """
    monkeypatch.setenv("CCLTUI_CACHE_DIR", str(columns_of_traces))
