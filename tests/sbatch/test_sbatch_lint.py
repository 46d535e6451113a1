"""Every script parses and is run or sourced as it should be (shellcheck and shfmt: make lint)."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from sbatch_scripts import SBATCH

FOUND = [*SBATCH.rglob("*.sh"), *SBATCH.rglob("*.sbatch")]
SCRIPTS = sorted(path for path in FOUND if not path.is_symlink())
UNSAFE_PYTHON = re.compile(r"""(?i)(?:python3?|candidate)\}?"? -(?:[mc] |$| <).*""", re.MULTILINE)


def name(path: Path) -> str:
    return str(path.relative_to(SBATCH))


def run(*words: str | Path) -> str:
    done = subprocess.run(list(map(str, words)), check=False, capture_output=True, encoding="utf-8")
    return done.stdout + done.stderr + ("" if done.returncode == 0 else f"\n{done.returncode}")


@pytest.mark.parametrize("path", SCRIPTS, ids=name)
def test_bash_can_parse_it(path: Path) -> None:
    assert run("bash", "-n", path) == ""


@pytest.mark.parametrize("path", SCRIPTS, ids=name)
def test_a_script_is_either_run_or_sourced(path: Path) -> None:
    first = path.read_text().splitlines()[0]

    if path.suffix == ".sbatch" or os.access(path, os.X_OK):
        assert first == "#!/usr/bin/env bash"
    else:
        assert first == "# shellcheck shell=bash"


@pytest.mark.parametrize("path", SCRIPTS, ids=name)
def test_a_script_that_runs_stops_at_the_first_failure(path: Path) -> None:
    if path.suffix == ".sbatch" or os.access(path, os.X_OK):
        assert "\nset -euo pipefail\n" in path.read_text()


@pytest.mark.parametrize("path", SCRIPTS, ids=name)
def test_python_looks_for_no_module_in_the_working_directory(path: Path) -> None:
    """With -m, -c or a program on stdin it would, but for -P."""
    assert UNSAFE_PYTHON.findall(path.read_text()) == []


@pytest.mark.parametrize("path", SCRIPTS, ids=name)
def test_no_site_is_named_outside_of_its_profile(path: Path) -> None:
    of_site = path.parent.name in {"perlmutter", "sites"} or "perlmutter-16" in str(path)
    code = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]

    named = [line for line in code if "NERSC_ALLOCATION" in line or "hbm80g" in line]

    assert of_site or named == []
