"""Files named like our packages, beside the user or on PYTHONPATH, are never imported."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from shell import CCL_METRICS, CCLTUI, MODULE, TIMEOUT_S, environment, run

import parsers
from ccltui import guard

TRAP = "raise SystemExit('the file of the user was imported')\n"

# Stands for the console script: a main module that a spawned worker runs again.
PROBE = """
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from ccltui.__main__ import main

def places():
    import metrics.result, parsers.errors
    return [metrics.__file__, metrics.result.__file__, parsers.__file__, parsers.errors.__file__]

if __name__ == "__main__":
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        print(*places(), *pool.submit(places).result(), sep="\\n")
"""


def plant_modules(directory: Path) -> None:
    for name in ("metrics", "parsers"):
        (directory / f"{name}.py").write_text(TRAP)


def plant_packages(directory: Path) -> None:
    for name in ("metrics", "parsers"):
        for module in ("__init__", "registry", "errors", "window", "job", "result"):
            path = directory / name / f"{module}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(TRAP)


@pytest.fixture(params=[plant_modules, plant_packages], ids=["modules", "packages"])
def hostile(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    directory = tmp_path / "hostile"
    directory.mkdir()
    request.param(directory)
    return directory


@pytest.mark.parametrize("command", [CCLTUI, CCL_METRICS, MODULE], ids=["ccltui", "seed", "-m"])
@pytest.mark.parametrize("on_path", [False, True], ids=["cwd", "PYTHONPATH"])
def test_a_hostile_directory_changes_nothing(
    command: Sequence[str], hostile: Path, on_path: bool, tmp_path: Path
) -> None:
    cwd, env = (tmp_path, {"PYTHONPATH": str(hostile)}) if on_path else (hostile, {})

    done = run(command, "--list-metrics", cwd=cwd, env=env)

    assert done.returncode == 0, done.stderr
    assert "straggler_lag" in done.stdout
    assert done.stderr == ""


def test_a_spawned_worker_is_bound_too(hostile: Path) -> None:
    (hostile / "probe.py").write_text(PROBE)

    done = subprocess.run(
        [sys.executable, "probe.py"],
        check=False,
        cwd=hostile,
        env=environment({"PYTHONPATH": str(hostile)}),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )

    assert done.returncode == 0, done.stderr
    home = Path(parsers.__file__).parent.parent
    expected = [
        home / "metrics" / "__init__.py",
        home / "metrics" / "result.py",
        home / "parsers" / "__init__.py",
        home / "parsers" / "errors.py",
    ]
    assert [Path(line) for line in done.stdout.splitlines()] == expected * 2


def test_what_a_site_hook_imported_before_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "metrics.py").write_text("FOREIGN = True\n")
    (tmp_path / "parsers.py").write_text("FOREIGN = True\n")
    code = (
        "import sys; sys.path.insert(0, '.'); import metrics, parsers; before = list(sys.path); "
        "import ccltui.__main__; import metrics, parsers.errors; "
        "print(hasattr(metrics, 'FOREIGN'), hasattr(parsers, 'FOREIGN'), sys.path == before)"
    )

    done = run([sys.executable, "-c", code], cwd=tmp_path)

    assert (done.stdout, done.stderr) == ("False False True\n", "")


def test_binding_twice_keeps_the_modules() -> None:
    before = sys.modules["parsers"]

    guard.bind()

    assert sys.modules["parsers"] is before


def test_a_home_without_our_packages_is_an_error(tmp_path: Path) -> None:
    code = (
        f"from pathlib import Path; from ccltui import guard; guard.bind(Path({str(tmp_path)!r}))"
    )

    done = run([sys.executable, "-c", code])

    assert "the package parsers of ccltui is not there" in done.stderr
