"""Tests of the collection scripts: their words as literals, their tools as stand-ins."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

SBATCH = Path(__file__).resolve().parents[2] / "sbatch"
for folder in ("lib", "fsdp_benchmark", "gpt2_deepspeed"):
    sys.path.insert(0, str(SBATCH / folder))


@pytest.fixture(autouse=True)
def plain_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """``python3`` is this Python itself: pyenv on the path would run 16 shells before it."""
    own = Path(getattr(sys, "_base_executable", sys.executable)).parent
    monkeypatch.setenv("PATH", os.pathsep.join((str(own), os.environ["PATH"])))


@pytest.fixture
def titan() -> Path:
    """An environment with torchtitan 0.2.2, or a visible skip: ``make titan-tests`` makes one."""
    named = os.environ.get("CCLTUI_TITAN_VENV")
    if named is None:
        pytest.skip("slow; set CCLTUI_TITAN_VENV, or run make titan-tests")
    return Path(named)


@pytest.fixture
def needs(request: pytest.FixtureRequest) -> Path:
    """The program that the test is parametrized with, or a visible skip."""
    found = shutil.which(request.param)
    if found is None:
        pytest.skip(f"{request.param} is not installed")
    return Path(found)
