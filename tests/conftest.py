"""Fixtures shared by all layers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def shared_directory() -> Path:
    """Directory of public traces and golden numbers, named by CCLTUI_SHARED."""
    return Path(os.environ.get("CCLTUI_SHARED", ROOT.parent / "shared"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The public traces, or a visible skip where they are absent."""
    directory = shared_directory()
    if not (directory / "traces").is_dir():
        pytest.skip(f"no public traces in {directory} (set CCLTUI_SHARED)")
    return directory


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test reads or fills the user's column cache."""
    directory = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("CCLTUI_CACHE_DIR", str(directory))
    return directory
