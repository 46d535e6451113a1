"""Packages named ``metrics`` and ``parsers`` of other projects do not conflict with ccltui."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from shell import CCL_METRICS, CCLTUI, MODULE, run

THEIRS = "FOREIGN = True\n"


def plant_modules(directory: Path) -> None:
    for name in ("metrics", "parsers"):
        (directory / f"{name}.py").write_text(THEIRS)


def plant_packages(directory: Path) -> None:
    for name in ("metrics", "parsers"):
        for module in ("__init__", "registry", "errors", "window", "job", "result"):
            path = directory / name / f"{module}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(THEIRS)


@pytest.fixture(params=[plant_modules, plant_packages], ids=["modules", "packages"])
def theirs(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    directory = tmp_path / "theirs"
    directory.mkdir()
    request.param(directory)
    return directory


@pytest.mark.parametrize("command", [CCLTUI, CCL_METRICS, MODULE], ids=["ccltui", "seed", "-m"])
def test_their_packages_change_no_command(command: Sequence[str], theirs: Path) -> None:
    """In the working directory and on the search path at once."""
    done = run(command, "--list-metrics", cwd=theirs, env={"PYTHONPATH": str(theirs)})

    assert (done.returncode, done.stderr) == (0, "")
    assert "straggler_lag" in done.stdout


def test_a_program_has_both(theirs: Path) -> None:
    code = (
        "import ccltui.metrics.registry as ours, metrics, ccltui.parsers.job, parsers; "
        "print(metrics.FOREIGN, parsers.FOREIGN, 'iter_time' in ours.metrics())"
    )

    done = run([sys.executable, "-c", code], cwd=theirs, env={"PYTHONPATH": str(theirs)})

    assert (done.stdout, done.stderr) == ("True True True\n", "")


def test_workers_read_beside_their_packages(theirs: Path, job: Path) -> None:
    code = (
        "import sys; from ccltui.__main__ import main; from ccltui.parsers.ingest import load; "
        "real = load.load; "
        "load.load = lambda *a, **k: real(*a, **{**k, 'inline': False}); sys.exit(main())"
    )

    done = run(
        [sys.executable, "-c", code],
        *(job, "--metric", "iter_time", "--no-cache", "--jobs", "2"),
        cwd=theirs,
        env={"PYTHONPATH": str(theirs)},
    )

    assert (done.returncode, done.stderr) == (0, "")
