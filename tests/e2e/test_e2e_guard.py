"""Files named like our packages, beside the user or on PYTHONPATH, are never imported."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from shell import CCL_METRICS, CCLTUI, MODULE, run

import parsers
from ccltui import guard

TRAP = "raise SystemExit('the file of the user was imported')\n"

# A metric of another package whose value is the number of files that a spawned worker imports
# from elsewhere than we do.
PLUGIN = """
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import metrics.result
import parsers.errors
from metrics.registry import Metric
from metrics.result import Result


def places():
    import metrics.intervals
    files = [metrics, metrics.result, metrics.intervals, parsers, parsers.errors]
    return [module.__file__ for module in files]


def compute(view):
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        theirs = pool.submit(places).result()
    wrong = len(set(theirs) ^ set(places()))
    details = {"wrong": wrong, "files": theirs}
    return Result("places", "files", "Files.", "ok", wrong, details)


METRIC = Metric("places", "files", "Files.", (), ("wrong", "files"), "wrong", compute)
"""


def plant_plugin(directory: Path) -> None:
    (directory / "places_metric.py").write_text(PLUGIN)
    facts = directory / "places-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: places\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[ccltui.metrics]\nplaces = places_metric:METRIC\n")


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


@pytest.mark.parametrize(
    "command",
    [(*CCLTUI,), (*MODULE,), (*CCL_METRICS, "--trace")],
    ids=["ccltui", "-m", "seed"],
)
def test_a_spawned_worker_is_bound_too(
    command: Sequence[str], hostile: Path, one_rank: Path
) -> None:
    plant_plugin(hostile)

    done = run(
        command, one_rank, "--metric", "places", cwd=hostile, env={"PYTHONPATH": str(hostile)}
    )

    assert done.returncode == 0, done.stderr
    if "--trace" in command:
        document = json.loads(done.stdout)
        home = Path(parsers.__file__).parent.parent
        assert document["wrong"] == 0
        assert document["files"][0] == str(home / "metrics" / "__init__.py")
    else:
        assert "wrong      0  files  ok" in done.stdout


def test_real_workers_read_in_a_hostile_directory(hostile: Path, job: Path) -> None:
    code = (
        "import sys; from ccltui.__main__ import main; from parsers import ingest; "
        "real = ingest.load; "
        "ingest.load = lambda *a, **k: real(*a, **{**k, 'inline': False}); sys.exit(main())"
    )

    done = run(
        [sys.executable, "-c", code],
        *(job, "--metric", "iter_time", "--no-cache", "--jobs", "2"),
        cwd=hostile,
        env={"PYTHONPATH": str(hostile)},
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_what_a_site_hook_imported_before_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "metrics.py").write_text("FOREIGN = True\n")
    (tmp_path / "parsers.py").write_text("FOREIGN = True\n")
    code = (
        "import sys; sys.path.insert(0, '.'); import metrics, parsers; before = sys.path[2:]; "
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
